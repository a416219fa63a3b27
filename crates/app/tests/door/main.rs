//! Nothing that is anybody's is written: every state of a device or file that is somebody's against every way to write
//! that the program has, by what is there before and after. Requires root and loop devices: `cargo xtask root`.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod cleaning;
#[path = "../common/mod.rs"]
mod common;
mod ending;
mod hidden;
mod left;
mod matrix;
mod mixed;
mod races;
mod reports;
mod states;
mod stores;
mod used;
mod ways;
