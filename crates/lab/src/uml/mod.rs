//! Guests that boot in seconds without KVM: User-Mode Linux, a kernel that is a program.
//!
//! [`Kernel`] is fetched once; [`Guest`] says what to boot, [`Running`] is one that lives; [`Kernel::boot`] starts one that takes commands, as QEMU's guests do. A guest's root is this
//! machine's file tree, so nothing is packed for it. It has one processor and no NVMe; as yet it needs root.

mod guest;
mod kernel;
mod machine;

pub use guest::{Guest, Outcome, Running};
pub use kernel::Kernel;
