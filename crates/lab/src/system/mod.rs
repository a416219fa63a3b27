//! Guests with a system of their own: Debian with systemd, udev, an initramfs of its own making and cloud-init, on a disk that
//! it keeps over reboots and cuts of its power.
//!
//! [`image`] makes the disk, once, out of packages; [`guest`] is a machine with a copy of it, which is started, told what to
//! do, and stopped in one way or another, as often as needed. What its boot reads of kernel and initramfs is what it has
//! written there itself.

pub mod guest;
pub mod image;

pub use guest::{Life, SystemGuest};
