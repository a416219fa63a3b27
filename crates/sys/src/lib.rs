//! Raw system calls that no library wraps, each behind a function that is safe to call.
//!
//! Here live numbers and layouts of the kernel's interface and the `unsafe` that they take; nothing here knows what
//! the answers are for. No policy, no paths, no parsing of text.

pub mod lease;
pub mod lock;
pub mod loops;
pub mod streams;
pub mod task;
