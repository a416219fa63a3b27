//! Verdicts: what limits a design under a workload, with the evidence.
//!
//! Each rule lives in a file of its own, what only it asks in a directory of its name; it reads [`facts`](crate::facts), never another rule: to add one, write the file, add its
//! kind to [`VerdictKind`], its row to the table of precedence and its page to docs/verdicts. A rule
//! asserts only what its evidence shows: an unsupported verdict is worse than `unknown`.
//!
//! What most rules need is imported here once.

mod background;
mod burst;
mod cache;
mod concurrency;
mod cpu;
mod device_waves;
mod first_touch;
mod idle_copies;
mod instance_limit;
mod member;
mod memory;
mod partial_stripe;
mod precedence;
mod queue_limit;
mod rate_limit;
mod readahead;
mod remote;
mod request_size;
mod shared_device;
mod sync_writes;
mod unknown;
mod volume_limit;
mod write_cache;

#[cfg(test)]
mod tests;

use crate::estimate::median;
use crate::evidence::{Check, Evidence, Unit, checks, evidence, share_is};
use crate::facts::{Facts, case::Case};
use crate::judged::{Absent, Basis, Judged, Sure, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::TrialSamples;
pub use precedence::{Judgement, RULES, Rule, judge};
