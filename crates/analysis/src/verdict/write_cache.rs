//! `write-cache`: a cache that takes writes was full.
//!
//! Derivation. Many SSDs write into a fast part of themselves first (SLC cache), RAID controllers and arrays with a cache behind
//! a battery into memory, bcache and dm-writecache onto a faster device. While there is room, writes are as fast as the cache; when it is
//! full, they are as fast as it empties. In a trial that is one step down after so many bytes, the same in each trial before
//! which it had time to empty. Burst credits ([`burst`]) look alike. They are told apart by what credits do: the rate in
//! the end is one that somebody set, even to half a percent, and reads have it too. A cache empties at its device's own
//! pace, and reads know nothing of it.

use super::background::Background;
use super::burst::{self, Down, REPEATED};
use super::cache::Cache;
use super::{Absent, Case, Judged, Rule, evidence, rate_limit};
use crate::estimate::median;
use crate::{Basis, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::plan::Role;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::session::Outcome;
use ebbtide_model::units::{format_bytes, format_throughput};

/// How far the bytes that the trials wrote before the step may be from one another, in the median: a cache is not always as empty when a
/// trial begins.
pub const SAME_SIZE: f64 = 0.30;

#[derive(Debug)]
pub struct WriteCache;

/// Bytes that a trial wrote before its step, those of its warm-up included.
fn before(case: &Case<'_>, trial: &TrialSamples, down: &Down) -> f64 {
    let until = trial.series.iter().filter(|interval| interval.end.as_secs_f64() <= down.seconds + 1e-9);
    let measured: u64 = until.map(|interval| interval.array.write.bytes).sum();
    measured as f64 + down.step.before * case.workload.warm_up.as_secs_f64()
}

/// What the trials of this design that only read show.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reads {
    /// They slow down in a step too.
    Slow,
    /// So many went on evenly for longer than the writes took to their step.
    Even(usize),
    /// There are none that ran so long.
    Unknown,
}

fn reads(case: &Case<'_>, seconds: f64) -> Reads {
    let (mut slow, mut even) = (0, 0);
    for record in &case.session.trials {
        let same = case.experiment.designs.get(record.trial.design) == Some(case.design);
        let only_reads = case
            .experiment
            .workloads
            .get(record.trial.workload)
            .is_some_and(|w| w.reads() && !w.writes() && w.direct);
        let Outcome::Samples(samples) = &record.outcome else { continue };
        if !same || !only_reads || record.trial.role != Role::Candidate {
            continue;
        }
        if burst::down(samples, Metric::Throughput).is_some() {
            slow += 1;
        } else if samples.elapsed.as_secs_f64() > seconds {
            even += 1;
        }
    }
    match (slow, even) {
        (0, 0) => Reads::Unknown,
        (slow, even) if slow >= even => Reads::Slow,
        (_, even) => Reads::Even(even),
    }
}

impl Rule for WriteCache {
    fn kind(&self) -> VerdictKind {
        VerdictKind::WriteCache
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        let workload = case.workload;
        if !workload.writes() || workload.reads() {
            return Err(Absent::because("the workload does not only write"));
        }
        if !workload.direct {
            return Err(Absent::because(
                "writes go through the page cache, whose own limits are steps as well",
            ));
        }
        if burst::have_credits(case).is_some() {
            return Err(Absent::because(
                "what the volumes grant is known, and so is whether they have credits",
            ));
        }
        let downs: Vec<Option<Down>> =
            case.trials.iter().map(|trial| burst::down(trial, Metric::Throughput)).collect();
        let found: Vec<(&TrialSamples, Down)> =
            case.trials.iter().zip(&downs).filter_map(|(trial, down)| Some((*trial, (*down)?))).collect();
        // Once may be chance.
        let needed = (REPEATED * downs.len() as f64).max(2.0);
        let told = found.len() as f64;
        if told < needed {
            let absent =
                Absent::because("the trials do not show the same step down between two flat stretches");
            return Err(absent.seen("trials that show one", told, "trials", needed));
        }
        let of = |value: &dyn Fn(&(&TrialSamples, Down)) -> f64| {
            median(&found.iter().map(value).collect::<Vec<f64>>()).unwrap_or(0.0)
        };
        let size = of(&|(trial, down)| before(case, trial, down));
        let apart = of(&|(trial, down)| (before(case, trial, down) / size - 1.0).abs());
        let sizes = "distance of what the trials wrote before the step from one another, which would have to be below";
        if size <= 0.0 || apart > SAME_SIZE {
            let absent = Absent::because("the step does not come after as much in each trial");
            return Err(absent.seen(sizes, apart, "share", SAME_SIZE));
        }
        if Cache.judge(case).is_ok() {
            return Err(Absent::yields(VerdictKind::Cache, "memory of this host takes the writes"));
        }
        if Background.judge(case).is_ok() {
            return Err(Absent::yields(VerdictKind::Background, "others' work comes and goes in steps"));
        }
        let seconds = of(&|(_, down)| down.seconds);
        let reads = reads(case, seconds);
        if reads == Reads::Slow {
            return Err(Absent::because(
                "reads slow down in a step too, of which a cache for writes knows nothing",
            ));
        }
        let mut figures = Vec::new();
        if rate_limit::over_time(case, false, &mut figures).is_ok() {
            let mut absent =
                Absent::because("the rate after the step is so even that somebody may have set it");
            absent.evidence = figures;
            return Err(absent);
        }
        let (fast, slow) = (of(&|(_, down)| down.step.before), of(&|(_, down)| down.step.after));
        let trials = format!("{} of {} trials", found.len(), downs.len());
        let reads_say = match reads {
            Reads::Even(_) => "; reads go on as they began",
            _ => "; whether reads slow down too, as they do where credits run out, was not measured",
        };
        let mut list = vec![
            evidence("bytes written before the step down", size, "bytes", None),
            evidence("rate after the step, against the rate before", slow, "bytes/s", Some(fast)),
            evidence("time of the step down, from the start of the measurement", seconds, "s", None),
            evidence("trials that show the step", told, "trials", Some(downs.len() as f64)),
            evidence(sizes, apart, "share", Some(SAME_SIZE)),
        ];
        if let Reads::Even(even) = reads {
            list.push(evidence(
                "trials that only read, for longer, and show none",
                even as f64,
                "trials",
                None,
            ));
        }
        Ok(Verdict {
            kind: VerdictKind::WriteCache,
            basis: Some(Basis::Inferred),
            confidence: if matches!(reads, Reads::Even(_)) { 0.85 } else { 0.65 },
            explains: (1.0 - slow / fast).clamp(0.0, 1.0),
            sentence: format!(
                "looks like a write cache that fills: the first {} went at {}, the rest at {}, in {trials}{reads_say}; the \
                 latter lasts",
                format_bytes(size),
                format_throughput(fast),
                format_throughput(slow),
            ),
            evidence: list,
        })
    }
}
