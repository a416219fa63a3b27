//! The `ebb` command: command line, sessions, store, terminal views.
//!
//! It wires the pipeline of `ebbtide_model` to its edges, `ebbtide_engine`, `ebbtide_host` and `ebbtide_lab`.

// Tests open files of their own; everything else goes through the door (clippy.toml).
#![cfg_attr(test, allow(clippy::disallowed_methods))]
// A library for its own program and tests only: what needs no comment has none.
#![allow(missing_docs)]
// They panic when the reader goes away: `views::print` and `views::say` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bench;
pub mod catalog;
pub mod cli;
pub mod error;
pub mod experiment_file;
pub mod laboratory;
pub mod limits;
pub mod places;
pub mod progress;
pub mod session;
pub mod store;
pub mod views;
pub mod watch;
