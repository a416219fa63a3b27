//! Verdicts: what limits a design under a workload, with the evidence.
//!
//! Each rule lives in a file of its own and is listed in [`rules`]: to add one, write the file, list it, add
//! its kind to [`VerdictKind`] and its page to docs/verdicts. A rule asserts only what its evidence
//! shows: an unsupported verdict is worse than `unknown`.

mod absent;
mod background;
mod burst;
mod cache;
mod case;
mod concurrency;
mod cpu;
mod device_waves;
mod encryption;
mod exceeded;
mod far_end;
mod first_touch;
mod group_limit;
mod instance_limit;
mod interrupts;
mod member;
mod memory;
mod moved;
mod partial_stripe;
pub mod queue_limit;
mod rate_limit;
mod readahead;
mod remote;
mod request_size;
mod rungs;
mod saturated;
mod set_rates;
mod shared_device;
mod standing;
mod sync_writes;
mod unknown;
pub mod usage;
mod volume_limit;
mod write_cache;

#[cfg(test)]
mod tests;

pub use absent::{Absent, Judged};
pub use case::Case;

use super::{Evidence, RuledOut, Verdict, VerdictKind};

/// One cause that may limit a design.
pub trait Rule: Sync {
    /// What it asserts.
    fn kind(&self) -> VerdictKind;
    /// The verdict.
    ///
    /// # Errors
    /// When the evidence does not support it: why not.
    fn judge(&self, case: &Case<'_>) -> Judged;
}

/// Every rule, in the order in which equals are ranked.
pub fn rules() -> &'static [&'static dyn Rule] {
    &[
        &cache::Cache,
        &member::SlowMember,
        &burst::Burst,
        &write_cache::WriteCache,
        &device_waves::DeviceWaves,
        &background::Background,
        &rate_limit::RateLimit,
        &volume_limit::VolumeLimit,
        &instance_limit::InstanceLimit,
        &cpu::Cpu,
        &memory::Memory,
        &remote::RemoteQueue,
        &sync_writes::SyncWrites,
        &queue_limit::QueueLimit,
        &concurrency::Concurrency,
        &first_touch::FirstTouch,
        &request_size::RequestSize,
        &partial_stripe::PartialStripe,
        &readahead::Readahead,
        &shared_device::SharedDevice,
    ]
}

/// Causes that are behind others, each with those that keep only what it leaves to explain: of credits that ran out, or a cache
/// that is full, the limit that is reached; likewise of requests too small for it, which use up the operations and leave the
/// bytes, and of what is read and written for parity, which a link carries too; of memory that is freed by the thread that
/// needs it, this thread's processor time and its wait for durability; of others on a disk, the wait of an operation behind theirs,
/// which is none of want of operations.
const DEEPER: &[(VerdictKind, &[VerdictKind])] = &[
    (VerdictKind::Burst, &[VerdictKind::VolumeLimit, VerdictKind::RateLimit]),
    (VerdictKind::WriteCache, &[VerdictKind::VolumeLimit, VerdictKind::RateLimit]),
    (VerdictKind::RequestSize, &[VerdictKind::VolumeLimit, VerdictKind::RateLimit]),
    (
        VerdictKind::PartialStripe,
        &[VerdictKind::VolumeLimit, VerdictKind::RateLimit, VerdictKind::InstanceLimit],
    ),
    (VerdictKind::Memory, &[VerdictKind::Cpu, VerdictKind::SyncWrites]),
    (VerdictKind::Background, &[VerdictKind::Concurrency]),
];

/// Every verdict that the evidence supports, the cause that explains most first, or `unknown` when none does; and what
/// was looked for in vain.
pub fn judge(case: &Case<'_>) -> (Vec<Verdict>, Vec<RuledOut>) {
    let (mut verdicts, mut ruled_out) = (Vec::new(), Vec::new());
    for rule in rules() {
        match rule.judge(case) {
            Ok(verdict) => verdicts.push(verdict),
            Err(Absent { why, evidence }) => ruled_out.push(RuledOut { kind: rule.kind(), why, evidence }),
        }
    }
    for (deeper, limited) in DEEPER {
        let explained = verdicts.iter().find(|v| v.kind == *deeper).map_or(0.0, |v| v.explains);
        for verdict in verdicts.iter_mut().filter(|v| limited.contains(&v.kind)) {
            verdict.explains *= 1.0 - explained;
        }
    }
    verdicts.sort_by(|a, b| (b.explains * b.confidence).total_cmp(&(a.explains * a.confidence)));
    if verdicts.is_empty() {
        verdicts.push(unknown::verdict(case));
    }
    (verdicts, ruled_out)
}

/// Whether something between the volumes and the load is known to limit: the link that they share, or a load thread.
fn limited_above(case: &Case<'_>) -> bool {
    cpu::thread_is_busy(case) || instance_limit::InstanceLimit.judge(case).is_ok()
}

/// A verdict that explains so much at most.
fn verdict_of(
    kind: VerdictKind,
    confidence: f64,
    explains: f64,
    sentence: String,
    evidence: Vec<Evidence>,
) -> Verdict {
    Verdict { kind, basis: None, confidence, explains: explains.clamp(0.0, 1.0), sentence, evidence }
}

/// A figure with its unit, and what it is compared with.
fn evidence(what: &str, value: f64, unit: &str, reference: Option<f64>) -> Evidence {
    Evidence { what: what.to_owned(), value, unit: unit.to_owned(), reference }
}
