//! What the load's threads had of the processors, and who else used them. A share is the median over the trials.

use super::*;
use crate::ordered::entry;
use ebbtide_model::samples::{CpuUse, ProcessorUser};
use ebbtide_model::units::Nanos;

/// Busy share of the busiest load thread above which it has no time left (the rest is the sampling error of
/// thread times over seconds).
pub const THREAD_FULL: f64 = 0.95;
/// A load thread that ran, or waited to, for more than this share may itself be what latency consists of.
pub const THREAD_BUSY: f64 = 0.80;
/// Share of the time that a load thread must have waited for a processor for others to be what it lacks.
pub const WAITED: f64 = 0.20;
/// Share of time taken by the hypervisor that shows in latencies.
pub const STEAL: f64 = 0.10;

/// Who else used the processors, and how much of one core over the trials by what `time` says of each, the busiest first.
pub fn users_by(case: &Case<'_>, time: impl Fn(&ProcessorUser) -> Option<Nanos>) -> Vec<(String, f64)> {
    let mut found: Vec<(String, f64)> = Vec::new();
    let elapsed: f64 = case.trials.iter().map(|trial| trial.elapsed.as_secs_f64()).sum();
    for user in case.trials.iter().filter_map(|t| t.observed.as_ref()).flat_map(|observed| &observed.users) {
        let Some(time) = time(user) else { continue };
        *entry(&mut found, user.who.clone()) += time.as_secs_f64() / elapsed;
    }
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

/// A share of a load thread's time that is counted in thousandths.
pub fn permille(case: &Case<'_>, of: fn(&CpuUse) -> Option<u32>) -> Option<f64> {
    case.median(|trial| share(trial, of))
}

fn share(trial: &TrialSamples, of: fn(&CpuUse) -> Option<u32>) -> Option<f64> {
    of(&trial.cpu).map(|permille| f64::from(permille) / 1000.0)
}

/// The same of a thread that is at work: one that paces its load watches the clock and is busy with that, so that of it the short run
/// counts that repeats the trials without the pace; nothing where none did.
pub fn at_work(case: &Case<'_>, rungs: Option<&Rungs<'_>>, of: fn(&CpuUse) -> Option<u32>) -> Option<f64> {
    if case.workload.is_free() { permille(case, of) } else { share(&rungs?.same?.rung.samples, of) }
}
