//! `write-cache`: a cache that takes writes was full.
//!
//! Derivation. Many SSDs write into a fast part of themselves first (SLC cache), RAID controllers and arrays with a cache behind
//! a battery into memory, bcache and dm-writecache onto a faster device. While there is room, writes are as fast as the cache; when it is
//! full, they are as fast as it empties. In a trial that is one step down after so many bytes, the same in each trial before
//! which it had time to empty. Burst credits ([`burst`](super::burst)) look alike. They are told apart by what credits do: the rate in
//! the end is one that somebody set, even to half a percent, and reads have it too. A cache empties at its device's own
//! pace, and reads know nothing of it.

use crate::estimate::median;
use crate::evidence::{Check, Unit, evidence, share_is};
use crate::facts::case::Case;
use crate::facts::set_rate::over_time;
use crate::facts::steps::{REPEATED, StepDown};
use crate::facts::{Facts, steps};
use crate::judged::{Absent, Basis, Judged, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Role;
use ebbtide_model::session::Outcome;
use ebbtide_model::units::{format_bytes, format_throughput};

/// How far the bytes that the trials wrote before the step may be from one another, in the median: a cache is not always as empty when a
/// trial begins.
pub const SAME_SIZE: f64 = 0.30;

/// Bytes that a trial wrote before its step, those of its warm-up included.
fn before(case: &Case<'_>, trial: &TrialSamples, down: &StepDown) -> f64 {
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
    for record in case.records {
        let only_reads = case
            .experiment
            .load(record.trial.design, record.trial.workload)
            .is_some_and(|w| w.reads() && !w.writes() && w.direct);
        let Outcome::Samples(samples) = &record.outcome else { continue };
        if !only_reads || record.trial.role != Role::Candidate {
            continue;
        }
        if steps::down(samples, Metric::Throughput).is_some() {
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

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("share of the trials that show one step down, of two or more", REPEATED, Unit::Share, "once may be chance"),
    Check::below("distance of what the trials wrote before the step from one another", SAME_SIZE, Unit::Share, "a cache takes as much each time"),
];

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let workload = case.workload;
    if !workload.writes() {
        return Err(Absent::because("the workload does not write"));
    }
    if workload.reads() {
        return Err(Absent::because("the workload also reads"));
    }
    if !workload.direct {
        return Err(Absent::because("writes go through the page cache, whose own limits are steps as well"));
    }
    if steps::have_credits(case).is_some() {
        return Err(Absent::because("what the volumes grant is known, and so is whether they have credits"));
    }
    let downs: Vec<Option<StepDown>> =
        case.trials.iter().map(|trial| steps::down(trial, Metric::Throughput)).collect();
    let found: Vec<(&TrialSamples, StepDown)> =
        case.trials.iter().zip(&downs).filter_map(|(trial, down)| Some((*trial, (*down)?))).collect();
    // Once may be chance.
    let needed = (REPEATED * downs.len() as f64).max(2.0);
    let told = found.len() as f64;
    if told < needed {
        let absent = Absent::because("the trials do not show the same step down between two flat stretches");
        return Err(absent.seen("trials that show one", told, Unit::Trials, needed));
    }
    let of =
        |value: &dyn Fn(&(&TrialSamples, StepDown)) -> f64| median(found.iter().map(value)).unwrap_or(0.0);
    let size = of(&|(trial, down)| before(case, trial, down));
    let apart = of(&|(trial, down)| (before(case, trial, down) / size - 1.0).abs());
    let sizes =
        "distance of what the trials wrote before the step from one another, which would have to be below";
    if size <= 0.0 || apart > SAME_SIZE {
        let absent = Absent::because("the step does not come after as much in each trial");
        return Err(absent.seen(sizes, apart, Unit::Share, SAME_SIZE));
    }
    facts.yield_to(VerdictKind::Cache, "memory of this host takes the writes")?;
    facts.yield_to(VerdictKind::Background, "other processes' I/O comes and goes in steps")?;
    let seconds = of(&|(_, down)| down.seconds);
    let reads = reads(case, seconds);
    if reads == Reads::Slow {
        return Err(Absent::because("reads also slow down in a step, which a write cache cannot explain"));
    }
    if let Ok(even) = over_time(case, false) {
        let why = "the rate after the step is so even that somebody may have set it";
        return Err(Absent::because(why).with(even.figures));
    }
    let (fast, slow) = (of(&|(_, down)| down.step.before), of(&|(_, down)| down.step.after));
    let trials = format!("{} of {} trials", found.len(), downs.len());
    let mut list = vec![
        evidence("bytes written before the step down", size, Unit::Bytes, None),
        evidence("rate after the step, against the rate before", slow, Unit::BytesPerSecond, Some(fast)),
        evidence("time of the step down, from the start of the measurement", seconds, Unit::Seconds, None),
        evidence("trials that show the step", told, Unit::Trials, Some(downs.len() as f64)),
        share_is(sizes, apart, SAME_SIZE),
    ];
    let (confidence, reads_say) = if let Reads::Even(even) = reads {
        let what = "trials that only read, for longer, and show none";
        list.push(evidence(what, even as f64, Unit::Trials, None));
        (0.85, "reads go on as they began")
    } else {
        (0.65, "whether reads slow down too, as they do where credits run out, was not measured")
    };
    let sentence = format!(
        "looks like a write cache that fills: the first {} went at {}, the rest at {}, in {trials}; {reads_say}; the \
         latter lasts",
        format_bytes(size),
        format_throughput(fast),
        format_throughput(slow),
    );
    let explains = 1.0 - slow / fast;
    Ok(Verdict::new(VerdictKind::WriteCache, confidence, explains, sentence, list).known(Basis::Inferred))
}
