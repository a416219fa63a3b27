//! `first-touch`: blocks were touched for the first time.
//!
//! Derivation. Blocks of a volume made from a snapshot are fetched when they are first read; unwritten extents are
//! turned into written ones when they are first written. Both cost more than the same access later. Asserted when
//! trials into untouched regions are slower than trials of the same design and workload into touched ones, and at least
//! half of the trials, and so the median, are of the first kind.
//!
//! Where all trials are of the first kind there is nothing to compare with. Then it is asserted when operations take
//! longer than one alone takes on a touched block although they wait for nothing else that is known: no volume is at
//! its limits, nor is the link, nor a thread.

use crate::estimate::median;
use crate::evidence::{Check, Unit, evidence, share_is};
use crate::facts::case::Case;
use crate::facts::usage::NEAR;
use crate::facts::{Facts, MET_BELOW};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use crate::members;
use crate::metrics::metric;
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::units::format_latency;

/// Bytes untouched before a trial relative to the bytes that it moved from which on it is a first touch.
pub const UNTOUCHED: f64 = 0.10;
/// Rate of first touches relative to later ones below which they are slower.
pub const SLOWER: f64 = 0.80;

/// Latency of one operation by itself, relative to the mean, below which first touches are what takes the rest.
pub const FLOOR_SHARE: f64 = 0.60;

/// Untouched bytes relative to those that the trial moved.
fn untouched(trial: &TrialSamples) -> Option<f64> {
    let observed = trial.observed.as_ref()?;
    let known: Vec<u64> = observed.members.iter().filter_map(|m| m.untouched_before.map(|b| b.0)).collect();
    let moved: u64 = trial.members.iter().map(|m| members::totals(m).bytes).sum();
    (!known.is_empty() && moved > 0).then(|| known.iter().sum::<u64>() as f64 / moved as f64)
}

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("bytes never touched before the trial, of those that it moved", UNTOUCHED, Unit::Share, "fewer do not show"),
    LATER,
    Check::below("where all are such: what one operation alone takes, of the mean latency", FLOOR_SHARE, Unit::Share, "the rest is the first touch"),
];
#[rustfmt::skip]
const LATER: Check = Check::below("rate of such trials over that of the others", SLOWER, Unit::Share, "first touches are slower");

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let (mut first, mut later) = (Vec::new(), Vec::new());
    for trial in case.trials {
        let (Some(share), Some(rate)) = (untouched(trial), metric(trial, Metric::Throughput)) else {
            continue;
        };
        if share >= UNTOUCHED { first.push(rate) } else { later.push(rate) }
    }
    if first.is_empty() && later.is_empty() {
        return Err(Absent::because("which blocks were untouched before the trials is not known"));
    }
    let needed = (case.trials.len() as f64 / 2.0).max(1.0);
    let (told, all) = (first.len() as f64, case.trials.len() as f64);
    let slow = median(&first).filter(|_| told >= needed).ok_or_else(|| {
        let what = "trials into blocks untouched before";
        Absent::because("most trials touched no fresh blocks").seen(what, told, Unit::Trials, needed)
    })?;
    let Some(fast) = median(&later).filter(|rate| *rate > 0.0) else {
        return by_latency(case, facts, first.len());
    };
    LATER.require(slow / fast, "first touches are not slower")?;
    let sentence = format!(
        "{} of {} trials touched blocks for the first time and ran at {:.0}% of the speed of the others: read (or \
         write) the volumes through once before measuring",
        first.len(),
        case.trials.len(),
        slow / fast * 100.0
    );
    let what = "throughput into untouched blocks, against touched ones";
    let figures = vec![
        evidence(what, slow, Unit::BytesPerSecond, Some(fast)),
        evidence("trials into untouched blocks", told, Unit::Trials, Some(all)),
    ];
    let confidence = if later.len() > 1 { 0.85 } else { 0.65 };
    Ok(Verdict::new(VerdictKind::FirstTouch, confidence, 1.0 - slow / fast, sentence, figures))
}

/// When all of the `first` trials are into untouched regions.
fn by_latency(case: &Case<'_>, facts: &Facts<'_>, first: usize) -> Judged {
    // Without known limits the operations may just as well wait for each other.
    let met = facts.met.ok_or_else(|| {
        Absent::because("all trials are first touches, and no limit is known that they may wait for")
    })?;
    if met >= NEAR || facts.limited_above() {
        let why = "held back: a limit, the link or a load thread is what operations wait for";
        return Err(Absent::because(why).seen(MET_BELOW, met, Unit::Share, NEAR));
    }
    let (latency, floor) = facts.latency.ok_or_else(|| {
        Absent::because("all trials are first touches, and what one operation alone takes is not known")
    })?;
    if floor > FLOOR_SHARE * latency {
        let absent = Absent::because("operations take little longer than one alone");
        let what = "mean latency into untouched blocks";
        return Err(absent.seen(what, latency, Unit::Nanoseconds, floor / FLOOR_SHARE));
    }
    let sentence = format!(
        "all {first} trials touched blocks for the first time: operations take {} where {} are usual on touched \
         blocks, and wait for no known limit; read (or write) the volumes through once before measuring",
        format_latency(latency),
        format_latency(floor)
    );
    let what = "mean latency into untouched blocks, against what one operation alone takes";
    let all = case.trials.len() as f64;
    let figures = vec![
        evidence(what, latency, Unit::Nanoseconds, Some(floor)),
        evidence("trials into untouched blocks", first as f64, Unit::Trials, Some(all)),
        share_is("use of the working members' limits", met, NEAR),
    ];
    Ok(Verdict::new(VerdictKind::FirstTouch, 0.7, 1.0 - floor / latency, sentence, figures))
}
