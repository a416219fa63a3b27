//! Tests in guests with real kernels, which `cargo xtask lab` runs: User-Mode Linux where that has what a test needs and starts, else QEMU.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod apply;
mod apply_system;
mod at_work;
mod attach;
mod boot_states;
mod builds;
mod cases;
mod changed;
#[path = "../common/mod.rs"]
mod common;
mod copies;
mod door;
mod export;
mod export_system;
mod guests;
mod health;
mod hosts;
mod judged;
mod kept;
mod kernel;
mod kills;
mod layouts;
mod monitor;
mod mounts;
mod nameless;
mod nfs;
mod pattern;

mod remote;
mod replicated;
mod sessions;
mod ssh_hosts;
mod storage_hosts;
mod sweep;
mod system;
mod trees;
mod tunnels;
mod uml;
mod usage;
mod user_data;
mod verdicts;
