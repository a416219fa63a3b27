//! The `ebb` command: its subcommands and what they show. Here lives what reads the command line and the files that it names,
//! says how it ended, and prints (through [`views`], the one way out) or draws on a terminal ([`progress`], [`watch`]). What may
//! not live here: whatever runs a trial, keeps a session or changes the system (`ebbtide_runner` and the crates below it),
//! and what a result means or how a report words it (`ebbtide_analysis`, `ebbtide_report`).

// Tests open files of their own; everything else goes through the door (clippy.toml).
#![cfg_attr(test, allow(clippy::disallowed_methods))]
// A library for its own program and tests only: what needs no comment has none.
#![allow(missing_docs)]
// They panic when the reader goes away: `views::print` and `views::say` do not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod catalog;
pub mod cli;
mod disks;
mod error;
mod experiment_file;
mod keeping;
mod kernel_names;
mod key;
mod known_limits;
mod laboratory;
mod monitor;
mod progress;
mod serve;
mod signals;
mod stored;
mod terminal;
mod values;
mod views;
mod watch;
