//! Raw system calls that no library wraps, and the memory that is shared with the kernel, each behind what is safe to call.
//!
//! Here live numbers and layouts of the kernel's interface and all `unsafe` of the project; nothing here knows what
//! the answers are for. No policy, no paths, no parsing of text.

pub mod cache;
pub mod inet_diag;
pub mod lease;
pub mod lock;
pub mod loops;
pub mod memory;
pub mod nvme;
pub mod ring;
pub mod sigbus;
pub mod signals;
pub mod streams;
pub mod task;
pub mod trace;
pub mod tsc;
pub mod usage;
