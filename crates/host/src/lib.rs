//! The edge to the operating system: the only crate that runs programs and reads /proc and /sys.
//!
//! [`sys`] reads files below given roots, so that tests run on recorded hosts; [`probe`] makes the tree of block
//! devices out of them; [`chain`] says which disks hold a path; [`guard`] says whether a device may be written.

pub mod build;
pub mod chain;
pub mod command;
pub mod findings;
pub mod guard;
pub mod hostinfo;
pub mod lab;
pub mod observe;
pub mod probe;
pub mod sys;
