//! `write-cache`: a cache that takes writes was full.
//!
//! Derivation. Many SSDs write into a fast part of themselves first (SLC cache), RAID controllers and arrays with a cache behind
//! a battery into memory, bcache and dm-writecache onto a faster device. While there is room, writes are as fast as the cache; when it is
//! full, they are as fast as it empties. In a trial that is one step down after so many bytes, the same in each trial before
//! which it had time to empty. Burst credits ([`burst`](super::burst)) look alike. They are told apart by what credits do: the rate in
//! the end is one that somebody set, even to half a percent, and reads have it too. A cache empties at its device's own
//! pace, and reads know nothing of it.

use super::*;
use crate::facts::set_rate::over_time;
use crate::facts::steps;
use crate::facts::steps::{REPEATED, StepDown};
use ebbtide_model::schedule::Role;
use ebbtide_model::session::Outcome;
use ebbtide_model::units::{format_bytes, format_throughput};

checks! {
    STEPS: at_least("share of the trials that show one step down, of two or more", REPEATED, Share, "once may be chance");
    // A cache is not always as empty when a trial begins.
    SAME_SIZE: below("distance of what the trials wrote before the step from one another", 0.30, Share, "a cache takes as much each time");
}
// A cache is not always as empty when a trial begins.

/// Bytes that a trial wrote before its step, those of its warm-up included.
fn before(case: &Case<'_>, trial: &TrialSamples, down: &StepDown) -> f64 {
    let until = trial.series.iter().filter(|interval| interval.end.as_secs_f64() <= down.seconds + 1e-9);
    let measured: u64 = until.map(|interval| interval.array.write.bytes).sum();
    measured as f64 + down.step.before * case.workload.warm_up.as_secs_f64()
}

/// Of the trials of this design that only read: how many slow down in a step too, and how many went on evenly for longer than this.
fn reads(case: &Case<'_>, seconds: f64) -> (usize, usize) {
    let (mut slow, mut even) = (0, 0);
    for record in case.records.iter().filter(|record| record.trial.role == Role::Candidate) {
        let load = case.experiment.load(record.trial.design, record.trial.workload);
        let only_reads = load.is_some_and(|w| w.reads() && !w.writes() && w.direct);
        let (true, Outcome::Samples(samples)) = (only_reads, &record.outcome) else { continue };
        if steps::down(samples, Metric::Throughput).is_some() {
            slow += 1;
        } else if samples.elapsed.as_secs_f64() > seconds {
            even += 1;
        }
    }
    (slow, even)
}

pub(super) fn judge(case: &Case<'_>, _: &Facts<'_>) -> Judged {
    let workload = case.workload;
    if !workload.writes() || workload.reads() || !workload.direct {
        let why = "the workload does not only write, or its writes go through the page cache, whose own limits are steps as well";
        return Err(Absent::because(why));
    }
    if steps::have_credits(case).is_some() {
        return Err(Absent::because("what the volumes grant is known, and so is whether they have credits"));
    }
    let downs = case.trials.iter().map(|trial| Some((*trial, steps::down(trial, Metric::Throughput)?)));
    let found: Vec<(&TrialSamples, StepDown)> = downs.flatten().collect();
    // Once may be chance.
    let needed = (REPEATED * case.trials.len() as f64).max(2.0);
    let told = found.len() as f64;
    if told < needed {
        let absent = Absent::because("the trials do not show the same step down between two flat stretches");
        return Err(absent.seen("trials that show one", told, Unit::Trials, needed));
    }
    let of =
        |value: &dyn Fn(&(&TrialSamples, StepDown)) -> f64| median(found.iter().map(value)).unwrap_or(0.0);
    let size = of(&|(trial, down)| before(case, trial, down)).max(1.0);
    let apart = of(&|(trial, down)| (before(case, trial, down) / size - 1.0).abs());
    let as_much = SAME_SIZE.require(apart, "the step does not come after as much in each trial")?;
    let seconds = of(&|(_, down)| down.seconds);
    let (slow_reads, even_reads) = reads(case, seconds);
    if slow_reads > 0 && slow_reads >= even_reads {
        return Err(Absent::because("reads also slow down in a step, which a write cache cannot explain"));
    }
    if let Ok((.., even)) = over_time(case, false) {
        let why = "the rate after the step is so even that somebody may have set it";
        return Err(Absent::because(why).with(even));
    }
    let (fast, slow) = (of(&|(_, down)| down.step.before), of(&|(_, down)| down.step.after));
    let mut list = vec![
        evidence("bytes written before the step down", size, Unit::Bytes, None),
        evidence("rate after the step, against the rate before", slow, Unit::BytesPerSecond, Some(fast)),
        evidence("time of the step down, from the start of the measurement", seconds, Unit::Seconds, None),
        evidence("trials that show the step", told, Unit::Trials, Some(case.trials.len() as f64)),
        as_much,
    ];
    let (sure, reads_say) = if even_reads > 0 {
        let what = "trials that only read, for longer, and show none";
        list.push(evidence(what, even_reads as f64, Unit::Trials, None));
        (Sure::Likely, "reads go on as they began")
    } else {
        let why = "whether reads slow down too, as they do where credits run out, was not measured";
        (Sure::Possible, why)
    };
    let sentence = format!(
        "looks like a write cache that fills: the first {} went at {}, the rest at {}, in {told} of {} trials; {reads_say}; the \
         latter lasts",
        format_bytes(size),
        format_throughput(fast),
        format_throughput(slow),
        case.trials.len()
    );
    let explains = 1.0 - slow / fast;
    Ok(Verdict::new(VerdictKind::WriteCache, sure, explains, sentence, list).known(Basis::Inferred))
}
