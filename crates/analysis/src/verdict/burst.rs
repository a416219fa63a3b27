//! `burst`: credits ran out.
//!
//! Derivation. A volume with credits runs at `B` until they are spent and at its sustained `S` from then on: two
//! plateaus with one step down at `t = credits / (B - S)`. So from a step at `t` the credits spent since the load
//! began are `(B - S) * t`. A step down is not enough to say so: a volume may have fallen into a bad hour. It is
//! asserted when the same happens trial after trial, or when the volumes are known to have credits, or when what they run at in the end
//! is a rate that somebody set ([`rate_limit`]); and not when they are known to have none. When others were at work on the disks, it takes both.
//! Where only writes do so, and at no rate that looks set, it is a cache that fills ([`write_cache`](super::write_cache)).

use super::background::Background;
use super::write_cache::WriteCache;
use super::{Absent, Case, Judged, Rule, evidence, rate_limit};
use crate::change::{self, Step};
use crate::estimate::median;
use crate::metrics::natural;
use crate::waves;
use crate::{Basis, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::units::{Nanos, format_iops, format_throughput};

/// Operations that a point of the series must hold on average.
const POINT_OPS: u64 = 5;
/// Most points of a series; more are put together.
const MAX_POINTS: usize = 200;
/// Levels of different trials that are this close are the same plateau.
pub const SAME_LEVEL: f64 = 0.15;
/// Share of the trials that must show the step when nothing else is known of the volumes.
pub const REPEATED: f64 = 0.5;

#[derive(Debug)]
pub struct Burst;

/// A step down with the time at which it came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Down {
    /// Since the start of the measurement.
    pub seconds: f64,
    /// Bytes or operations per second.
    pub step: Step,
}

/// Rates of a trial by points, with the time at the end of each, in bytes or operations per second.
pub(super) fn points(trial: &TrialSamples, metric: Metric) -> (Vec<f64>, Vec<f64>) {
    let count = |i: &ebbtide_model::samples::Interval| match metric {
        Metric::Throughput => i.array.read.bytes.saturating_add(i.array.write.bytes),
        _ => i.array.read.ops.saturating_add(i.array.write.ops),
    };
    let ops: u64 = trial.series.iter().map(|i| i.array.read.ops.saturating_add(i.array.write.ops)).sum();
    let most = MAX_POINTS.min((ops / POINT_OPS) as usize).max(1);
    let width = trial.series.len().div_ceil(most).max(1);
    let (mut times, mut rates, mut start) = (Vec::new(), Vec::new(), 0u64);
    for chunk in trial.series.chunks_exact(width) {
        let Some(last) = chunk.last() else { break };
        let seconds = last.end.0.saturating_sub(start) as f64 / 1e9;
        start = last.end.0;
        if seconds > 0.0 {
            times.push(last.end.as_secs_f64());
            rates.push(chunk.iter().map(count).sum::<u64>() as f64 / seconds);
        }
    }
    (times, rates)
}

/// The step down that a trial shows in `metric` per second.
pub(super) fn down(trial: &TrialSamples, metric: Metric) -> Option<Down> {
    let (times, rates) = points(trial, metric);
    let step = change::step(&rates).filter(|step| step.after < step.before)?;
    // What goes down and up again and again did not run out of anything when it went down last.
    if waves::waves(&rates).is_some() {
        return None;
    }
    Some(Down { seconds: *times.get(step.at.checked_sub(1)?)?, step })
}

/// When a trial slowed down in a step, from the start of the measurement; nothing where it did not.
pub(super) fn step_down(case: &Case<'_>, trial: &TrialSamples) -> Option<Nanos> {
    down(trial, metric_of(case)).map(|down| Nanos::from_secs_f64(down.seconds))
}

/// What the rate of a workload is counted in.
pub(super) fn metric_of(case: &Case<'_>) -> Metric {
    if natural(case.workload) == Metric::Throughput { Metric::Throughput } else { Metric::Iops }
}

/// Whether the working volumes, or a link of theirs, have burst credits: `None` when that is unknown of some.
pub(super) fn have_credits(case: &Case<'_>) -> Option<bool> {
    let mut any = false;
    for member in case.result.members.iter().filter(|m| m.iops > 0.0) {
        let shape = case.volume(&member.name)?.shape.as_ref()?;
        let link = shape.link.and_then(|link| case.experiment.links.get(link));
        let limits = [
            shape.iops,
            shape.throughput,
            link.and_then(|link| link.iops),
            link.and_then(|link| link.throughput),
        ];
        any |= limits.into_iter().flatten().any(|l| l.burst_rate.is_some_and(|burst| burst > l.rate));
    }
    Some(any)
}

impl Rule for Burst {
    fn kind(&self) -> VerdictKind {
        VerdictKind::Burst
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        let known = have_credits(case);
        // Others' work comes and goes in steps too, but not at the same place of trial after trial of volumes
        // that have credits.
        let disturbed = Background.judge(case).is_ok();
        if known == Some(false) {
            return Err(Absent::because("the working volumes are known to have no credits"));
        }
        if disturbed && known.is_none() {
            return Err(Absent::yields(
                VerdictKind::Background,
                "others' work comes and goes in steps, and the volumes are not known to have credits",
            ));
        }
        if WriteCache.judge(case).is_ok() {
            return Err(Absent::yields(
                VerdictKind::WriteCache,
                "only writes slow down, and to no rate that looks set",
            ));
        }
        let metric = metric_of(case);
        let downs: Vec<Option<Down>> = case.trials.iter().map(|trial| down(trial, metric)).collect();
        let found: Vec<Down> = downs.iter().copied().flatten().collect();
        let needed = REPEATED * downs.len() as f64;
        let repeated = found.len() as f64 >= needed;
        let too_few = || {
            Absent::because("the trials do not show a step down between two flat stretches").seen(
                "trials that show one",
                found.len() as f64,
                "trials",
                needed,
            )
        };
        if found.is_empty() {
            return Err(too_few());
        }
        // Of volumes of which nobody said anything: what they run at in the end is a rate that is set.
        let set = known.is_none() && rate_limit::find(case).is_ok();
        if downs.len() == 1 && known.is_none() && !set {
            return Err(Absent::because(
                "one trial shows a step down, and nothing is known of the volumes: a host that slows down once looks the same",
            ));
        }
        let confidence = match (repeated, known) {
            (true, Some(true)) => 0.95,
            (true, _) => 0.75,
            (false, None) if set && !disturbed && once_and_for_all(case, &downs, metric) => 0.75,
            (false, Some(true)) if !disturbed && once_and_for_all(case, &downs, metric) => 0.85,
            (false, _) => return Err(too_few()),
        };
        let of = |value: fn(&Down) -> f64| {
            median(&found.iter().map(value).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        };
        let (seconds, before, after) = (of(|d| d.seconds), of(|d| d.step.before), of(|d| d.step.after));
        let since_load = seconds + case.workload.warm_up.as_secs_f64();
        let credits = (before - after) * since_load;
        let (unit, rate_unit) =
            if metric == Metric::Throughput { ("bytes", "bytes/s") } else { ("operations", "ops/s") };
        let shown = |rate: f64| match metric {
            Metric::Throughput => format_throughput(rate),
            _ => format!("{} operations/s", format_iops(rate)),
        };
        Ok(Verdict {
            kind: VerdictKind::Burst,
            basis: Some(if known == Some(true) { Basis::Declared } else { Basis::Inferred }),
            confidence,
            explains: (1.0 - after / before).clamp(0.0, 1.0),
            sentence: format!(
                "burst credits ran out {seconds:.1} s into the measurement: {} before, {} from then on; the latter lasts",
                shown(before),
                shown(after)
            ),
            evidence: vec![
                evidence("time of the step down, from the start of the measurement", seconds, "s", None),
                evidence("rate after the step, against the rate before", after, rate_unit, Some(before)),
                evidence("credits spent beyond the sustained rate since the load began", credits, unit, None),
                evidence("trials that show the step", found.len() as f64, "trials", Some(downs.len() as f64)),
            ],
        })
    }
}

/// Whether the trials tell of one step: fast before it, slow after it, in the order in which they ran.
fn once_and_for_all(case: &Case<'_>, downs: &[Option<Down>], metric: Metric) -> bool {
    let Some((at, down)) = downs.iter().enumerate().find_map(|(i, d)| d.map(|d| (i, d))) else {
        return false;
    };
    let near = |trial: &TrialSamples, level: f64| {
        let (_, rates) = points(trial, metric);
        median(&rates).is_some_and(|rate| (rate - level).abs() <= SAME_LEVEL * level)
    };
    case.trials[..at].iter().all(|trial| near(trial, down.step.before))
        && case.trials[at + 1..].iter().all(|trial| near(trial, down.step.after))
        && case.trials.len() > 1
}
