//! The laboratory: QEMU guests with a Debian kernel and throttled disks, for everybody without spare ones.
//!
//! Here lives what a guest is made of and what is told to it: the image, the machine, the disks and their limits, the `lab`
//! backend and its words. What a guest does with them is the running program's other half ([`agent`] here, the worker in
//! `ebbtide-runner`); nothing here knows the command line, the store or where the user's directories are.
//!
//! [`image`] makes a guest's kernel and root image out of Debian packages, once; [`program`] packs the running
//! program with the libraries it runs on; [`machine`] is the command line of QEMU; [`guest`] starts it and runs
//! commands in it through [`agent`]; [`backend`] runs an experiment in one. Nothing of this needs root.

// Tests open files of their own; everything else goes through the door (clippy.toml).
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod accel;
pub mod agent;
mod archive;
pub mod backend;
pub mod disks;
mod error;
mod files;
mod frame;
pub mod guest;
mod guest_directory;
pub mod hardware;
pub mod image;
mod kernel;
mod laboratory;
pub mod lines;
pub mod machine;
mod modules;
pub mod network;
mod packages;
pub mod places;
pub mod program;
pub mod recipe;
mod settings;
pub mod system;
mod tools;
pub mod uml;

pub use error::LabError;
pub use laboratory::{Laboratory, accelerator};
