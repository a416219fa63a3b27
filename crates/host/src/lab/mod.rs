//! The laboratory: QEMU guests with a Debian kernel and throttled disks, for everybody without spare ones.
//!
//! [`image`] makes a guest's kernel and root image out of Debian packages, once; [`program`] packs the running
//! program with the libraries it runs on; [`machine`] is the command line of QEMU; [`guest`] starts it and runs
//! commands in it through [`agent`], the running program's other half in the guest. Nothing of this needs root.

pub mod accel;
pub mod agent;
mod archive;
pub mod disks;
mod error;
mod files;
mod frame;
pub mod guest;
mod guest_directory;
pub mod image;
pub mod machine;
mod modules;
pub mod network;
pub mod places;
pub mod program;
pub mod recipe;
mod settings;
mod tools;

pub use error::LabError;
