//! `ebb` as its users run it, a subject a file: `cargo test -p ebbtide --test program SUBJECT`.
//! One program of tests: each of its own would be linked with all of `ebb`, and would run after the others.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod apply;
mod attach;
mod bench;
mod blame;
mod brought;
mod catalog;
mod changes;
#[path = "../common/mod.rs"]
mod common;
mod compare;
mod conditions;
mod docs;
mod escapes;
mod experiment;
mod explain;
mod export;
mod failures;
mod forms;
mod hosts;
mod import;
mod kernel;
mod lab_usage;
mod limit;
mod loads;
mod monitor;
mod plan;
mod profiles;
mod rbd;
mod reading;
mod replicated;
mod run;
mod serve;
mod shells;
mod sweep;
mod sweeps;
mod terminal;
mod trees;
mod user_data;
mod verify;
mod volumes;
mod watch;
mod wherever;
mod why;
