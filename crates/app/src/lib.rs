//! The `ebb` command: command line, sessions, store, terminal views.
//!
//! It wires the pipeline of `ebbtide_core` to its two edges, `ebbtide_engine` and `ebbtide_host`.

// They panic when the reader goes away: `views::print` and `views::say` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod catalog;
pub mod cli;
pub mod experiment_file;
pub mod laboratory;
pub mod limits;
mod lines;
pub mod places;
pub mod progress;
pub mod session;
pub mod store;
pub mod views;
pub mod watch;
