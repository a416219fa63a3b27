//! Guests that boot in seconds without KVM: User-Mode Linux, a kernel that is a program.
//!
//! [`Kernel`] is fetched once; [`Guest`] says what to boot, [`Running`] is one that lives. Its root is this machine's file tree, so nothing is packed for it. A [`Laboratory`](crate::Laboratory)
//! that has the kernel starts what it can be on it: guests that take commands, with the image of QEMU's, and on one network with them. It has one processor and no NVMe; as yet it needs root.

mod guest;
mod kernel;
mod machine;

pub use guest::{Guest, Outcome, Running};
pub use kernel::Kernel;
