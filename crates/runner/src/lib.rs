//! Sessions: every way of running a trial takes the same path from the trial to its samples, and of a session that is kept to the
//! store. Here lives what prepares a backend, runs trials on it with what is around them looked at ([`trial`]), decides what
//! comes next ([`session`] in rounds, [`bench`] job by job), writes down what is made so that it can be put back ([`journal`]),
//! keeps what was measured ([`store`]), builds arrays on this host ([`kernel`]), and holds programs to a rate ([`limit`]). What may not live here: the command line,
//! anything that prints (who looks on is told through [`watch::Watch`]), what a result means (`ebbtide-analysis`), and how
//! it is worded (`ebbtide-report`).

// Tests open files of their own; everything else goes through the door (clippy.toml).
#![cfg_attr(test, allow(clippy::disallowed_methods))]
// For one program: what needs no comment has none.
#![allow(missing_docs)]

pub mod bench;
pub mod clock;
mod error;
pub mod hosts;
pub mod journal;
pub mod kernel;
pub mod limit;
pub mod listener;
mod members;
pub mod monitor;
mod observer;
pub mod places;
mod program;
mod search;
pub mod session;
pub mod store;
pub mod surroundings;
mod trial;
pub mod verify;
pub mod ways;
pub mod worker;

pub use error::RunnerError;
