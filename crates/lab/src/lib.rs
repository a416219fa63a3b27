//! The laboratory: QEMU guests with a Debian kernel and throttled disks, for everybody without spare ones.
//!
//! Here lives what a guest is made of and what is told to it: the image, the machine, the disks and their limits, the `lab`
//! backend and its words. What a guest does with them is the running program's other half ([`agent`] here, the worker in
//! `ebbtide-runner`); nothing here knows the command line, the store or where the user's directories are.
//!
//! [`image`] has a guest's kernel and root image made out of Debian packages, once; [`program`] packs the running
//! program with the libraries it runs on. [`machine`] is a guest as it is wanted, and the command line of QEMU; [`uml`] is that of User-Mode Linux.
//! [`guest`] starts either and runs commands in it through [`agent`]; [`hardware`] has disks that outlive it, and [`system`] a whole system on one of
//! them. [`backend`] runs an experiment in a guest. Nothing of this needs root but User-Mode Linux.

// Tests open files of their own; everything else goes through the door (clippy.toml).
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod accel;
pub mod agent;
pub mod backend;
pub mod disks;
mod error;
mod files;
mod frame;
pub mod guest;
pub mod hardware;
pub mod image;
mod laboratory;
pub mod lines;
pub mod machine;
pub mod network;
pub mod places;
mod process;
pub mod program;
pub mod recipe;
pub mod system;
mod tools;
pub mod uml;

pub use error::LabError;
pub use laboratory::{Laboratory, accelerator};
