//! Tests in QEMU guests with real kernels. `cargo xtask lab` runs them: a minute or two with KVM, several with
//! software emulation.
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod guests;
mod kernel;
mod kills;
mod layouts;
mod pattern;
mod sessions;
mod usage;
