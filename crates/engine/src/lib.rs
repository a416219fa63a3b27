//! The I/O engine: runs one workload on one target and records every operation.
//!
//! [`run`] starts the workload's jobs, each on a thread of its own with a ring of its own (or on as many threads as it keeps operations in
//! flight, with pread and pwrite, see [`IoEngine`](ebbtide_model::workload::IoEngine)), lets the layout's [`Map`](ebbtide_model::layout::Map)
//! split each operation over the members, holds the operations of shaped members until their volume model says
//! that they are done, and returns [`TrialSamples`](ebbtide_model::samples::TrialSamples).
//!
//! What happens to one operation:
//!
//! ```text
//! source ──> slot ──> pieces (one per extent) ──> ring ──> held until due ──> recorder ──> collector
//! (what, when)        (layout::Map)                        (shaped members)   (job)        (all jobs)
//! ```
//!
//! Whatever does real I/O for a workload and counts it lives here, with the `files` backend and the check of what was written.
//! What the host's devices are and count, and who may write them, does not: it comes in as a value or behind a trait.

// Tests open files of their own; everything else goes through the door (clippy.toml).
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod ahead;
mod buffers;
mod clock;
mod collect;
mod cpu;
pub mod descriptors;
mod error;
pub mod files;
mod io_method;
mod job;
mod patience;
mod piece;
mod probe;
mod psync;
mod record;
pub mod residency;
mod ring;
mod run;
mod selftest;
mod shared;
mod source;
mod steps;
mod target;
mod usage;
pub mod verify;

#[doc(inline)]
pub use ebbtide_sys::nvme;

pub use clock::Clock;
pub use error::EngineError;
pub use run::run;
pub use selftest::{Ceiling, SelfTest, ceiling, self_test};
pub use target::{Shaper, SharedLink, Target, TargetMember};
pub use usage::process_use;
