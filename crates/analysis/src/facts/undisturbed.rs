//! What an operation of a load that has one in flight takes where none of others' requests are in its way.
//!
//! Derivation. Such operations never wait for one another. When others have `q` requests at the disks on average, and these come
//! independently, `e^-q` of the time there is none (Poisson): so many operations find the disks idle, and these are the fastest. The middle one of
//! them is the quantile `e^-q / 2` of all. Alone their mean is higher than that, and others who come in bursts leave the disks idle for longer: both by
//! what [`EVEN`] allows for. Above `q` of [`MOST`] others may keep a number in flight all the time, and then nothing finds the disks
//! idle.

use super::*;

/// Requests of others at the disks on average up to which a twentieth of the operations finds none: `e^-3`.
const MOST: f64 = 3.0;

/// Latency of the middle one of operations that nobody is in the way of, over their mean: 0.75 to 0.93 on a virtual disk, where `ebb bench` read 4 KiB and 16 KiB,
/// one at a time and alone.
const EVEN: f64 = 0.85;

/// What they take on average, by that middle one, over the mean of all, 0 to 1, median over the trials; nothing where a job has more in flight than one or a cache may answer, where others
/// always are at the disks, or where these were not observed.
pub fn over_mean(case: &Case<'_>) -> Option<f64> {
    let kept = case.kept();
    if !case.workload.direct || !case.one_at_a_time() {
        return None;
    }
    case.median(|trial| {
        let free = (-others_in_flight(trial, kept).filter(|others| *others <= MOST)?).exp();
        let latency = trial.latency();
        let middle = latency.percentile(free * 50.0)? as f64;
        Some((middle / EVEN / latency.mean()?).min(1.0))
    })
}

/// Whether others have so many requests at the disks that hardly any operation found these idle; false where that is not known.
pub fn others_stay(case: &Case<'_>) -> bool {
    case.median(|trial| others_in_flight(trial, case.kept())).is_some_and(|others| others > MOST)
}

/// Requests at a disk beyond the load's `kept`, on average: at most what others have there, as some of the load's may be elsewhere.
fn others_in_flight(trial: &TrialSamples, kept: f64) -> Option<f64> {
    let disks = moved::disks(trial).filter(|_| trial.elapsed.0 > 0)?;
    let each = disks.iter().map(|disk| disk.total.weighted.as_secs_f64() / trial.elapsed.as_secs_f64());
    let all = each.sum::<f64>();
    (all > 0.0).then(|| (all - kept).max(0.0) / disks.len() as f64)
}
