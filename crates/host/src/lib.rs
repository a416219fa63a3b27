//! The edge to the operating system: reads what /proc and /sys tell of the host (what a process asks of itself there, `engine` and `door` ask
//! themselves), and runs programs which change the system (the lab's, which need no root, are in a crate of their own).
//!
//! What may live here: what is on this host and what it counts, who uses a device, and how a design is built and put back. What
//! may not: raw system calls (`ebbtide-sys`), opening for writing (`ebbtide-door`), running a load (`ebbtide-engine`), and
//! conclusions from what was measured (`ebbtide-analysis`).
//!
//! [`sys`] reads files below given roots, so that tests run on recorded hosts; [`graph`] is made out of them: the block devices,
//! what stands on what and who uses it; [`probe`] says more of each device; [`judge`] says what may be written.

// Tests open files of their own; everything else goes through the door (clippy.toml).
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod at_work;
pub mod attach;
pub mod build;
pub mod command;
pub mod export;
pub mod findings;
pub mod graph;
pub mod hostinfo;
pub mod judge;
mod kept;
pub mod limit;
pub mod load;
pub mod made;
pub mod monitor;
pub mod mounting;
mod nvme;
pub mod observe;
pub mod probe;
pub mod program;
pub mod rbd;
pub mod ssh;
pub mod sys;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use ebbtide_sys::sigbus::tell_bus_errors;
pub use ebbtide_sys::streams::output_was_closed;
