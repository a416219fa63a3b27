//! The ladder: after the last trial, what more and fewer operations in flight and other sizes do, each for a moment.
//!
//! In a closed loop the rate is `in flight / latency` (Little's law). Where more in flight give more, too few were;
//! where they give latency only, something serves no faster. And what serves so many operations a second whatever
//! their size, or so many bytes whatever theirs, counts operations or bytes. None of this shows at one depth and one
//! size, which is all that trials have.

use crate::facts::queues::half_full;
use crate::facts::served::keeps_in_flight;
use crate::metrics::{in_flight, operations};
use crate::{DesignResult, OfDesign, Verdict, VerdictKind};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::{Role, Trial};
use ebbtide_model::session::{Outcome, Rung, Session, TrialRecord};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{Arrival, IoEngine, Workload};
use std::collections::HashSet;

/// A ladder takes no more than this share of what the trials of its design and workload took...
pub const SHARE: f64 = 0.10;
/// ...or this long, where that is more: a limit that is enforced every 100 ms, as those of the kernel are, does not show in less...
pub const ENOUGH: Nanos = Nanos(3_000_000_000);
/// ...or up to this long, where operations are so slow that the most telling rungs need it...
const SLOW: Nanos = Nanos(6_000_000_000);
/// ...but never more than this share of them.
pub const MOST: f64 = 0.60;
/// Longest rung, its start included: with 1 ms per operation and one in flight, 1000 operations.
pub const LONGEST: Nanos = Nanos(1_000_000_000);
/// Shortest rung. Rungs for which there is no time are left out, the most telling ones first in line.
pub const SHORTEST: Nanos = Nanos(400_000_000);
/// How many rungs are worth the longer time: twice as many in flight, as many, and four times as many.
const MOST_TELLING: usize = 3;
/// Operations that a rung has time for at the rate of the trials: of fewer, chance is most of the difference between two rates.
const OPERATIONS: f64 = 10.0;
/// How often what is in flight comes and goes in a rung. One operation of `n` takes `n` times what lies between two that complete (Little's
/// law); before the first of them have come back from behind the others, what completes says nothing of `n`.
const TURNS: f64 = 1.25;
/// Share of a rung that is not counted: queues fill, and what was left unused is spent.
const START: f64 = 0.2;
/// Confidence of a verdict from which on a ladder does not change it.
const SURE: f64 = 0.8;
/// The same of one that a ladder has given, from which on running it again does not.
const DOUBTLESS: f64 = 0.9;
/// Weight of a verdict over that of another up to which either may be the larger one.
const ALIKE: f64 = 2.0;
/// More in flight than this is no question of want.
const DEEPEST: u32 = 1024;
/// Sizes of rungs are between these.
const SMALLEST: u64 = 4 * Bytes::KIB;
const LARGEST: u64 = Bytes::MIB;

/// Whether a ladder says more of a result with these verdicts: nothing is known to limit it, or it may be the processors, but as well a
/// rate that is set, or a member that is slow, of which a single trial says little, or it is others, beside whom more in flight may have
/// more done, or it is that too few are in flight, or one synchronous write, or members that work for parity or with the only copy that is
/// read, of which it is not known whether they could do more; and nothing but their completion holds back the next operation, of which
/// `done` a second did. Not of a job: without those beside it, it would be another load.
fn wanted(workload: &Workload, verdicts: &[Verdict], done: Option<f64>) -> bool {
    use VerdictKind::*;
    let weak = verdicts.first().is_some_and(|first| match first.kind {
        Cpu | Member => first.confidence < SURE,
        kind => kind == Unknown,
    });
    let open = [Background, Concurrency, SyncWrites, PartialStripe, IdleCopies];
    let says_more = weak || verdicts.iter().any(|verdict| open.contains(&verdict.kind));
    // How many operations a program has in flight is its own.
    let is_single = workload.program.is_none() && workload.group.is_none();
    says_more && is_single && keeps_in_flight(workload, done)
}

/// Whether others and too few in flight explain about as much: of these two a ladder says how much each is.
fn weigh_alike(verdicts: &[Verdict]) -> bool {
    let weight = |kind| verdicts.iter().find(|verdict| verdict.kind == kind).map(Verdict::weight);
    let both = weight(VerdictKind::Background).zip(weight(VerdictKind::Concurrency));
    both.is_some_and(|(others, few)| others.max(few) <= ALIKE * others.min(few))
}

/// What runs next for a moment after these trials of `workload`, where `ran` have run since: a ladder where one is wanted, and its depths twice more
/// where it left the result without an explanation, with a weak one that rests on it, or with two that explain about as much; nothing where all is said.
pub fn next(
    workload: &Workload,
    verdicts: &[Verdict],
    trials: &[&TrialSamples],
    ran: &[&Rung],
) -> Vec<Workload> {
    if !wanted(workload, verdicts, rate(trials)) {
        return Vec::new();
    }
    if ran.is_empty() {
        return rungs(workload, trials);
    }
    let open = verdicts.first().is_some_and(|first| {
        first.kind == VerdictKind::Unknown
            || (first.kind == VerdictKind::Concurrency && first.confidence < DOUBTLESS)
            || weigh_alike(verdicts)
    });
    let mut known = HashSet::new();
    if !open || !ran.iter().all(|rung| known.insert((rung.in_flight, rung.bs))) {
        return Vec::new();
    }
    // Those of this size and as many or more in flight, from the last to the first and back. A single depth is held against the trials, of which
    // there are enough.
    let mut depths = rungs(workload, trials);
    depths.truncate(MOST_TELLING);
    depths.retain(|rung| rung.bs == workload.bs);
    if depths.len() < 2 { Vec::new() } else { depths.iter().rev().chain(&depths).cloned().collect() }
}

/// The rungs for `workload` after these trials of it, the most telling first: each is a workload that runs for a moment. Where the
/// queue of a disk was full, one with half of what it holds takes the place of four times as many, of which the disk would see
/// nothing. What arrives faster than it is served keeps as many in flight as there are places: so do its rungs.
fn rungs(workload: &Workload, trials: &[&TrialSamples]) -> Vec<Workload> {
    let workload = &Workload { arrival: Arrival::Closed, rate: None, ..workload.clone() };
    let half_full = half_full(trials, in_flight(workload));
    let each = rate(trials).map_or(0.0, |rate| 1e9 / rate);
    rungs_after(workload, measured(trials), half_full, Nanos(each as u64))
}

/// For how long these trials measured, together.
fn measured(trials: &[&TrialSamples]) -> Nanos {
    trials.iter().fold(Nanos(0), |sum, samples| sum.plus(samples.elapsed))
}

/// Operations per second that completed in these trials, where any did.
fn rate(trials: &[&TrialSamples]) -> Option<f64> {
    let done: u64 = trials.iter().map(|samples| operations(samples)).sum();
    (done > 0).then(|| done as f64 / measured(trials).as_secs_f64())
}

/// `each` lies between two operations that complete in the trials. Rungs for which there is no time are left out, with those after them; where
/// there is none for any, it is four times as many in flight for all the time that there is, to be held against the trials.
fn rungs_after(workload: &Workload, measured: Nanos, half_full: Option<u32>, each: Nanos) -> Vec<Workload> {
    // Of operations of several sizes there is no one size to change.
    let sizes = if workload.split.is_some() { [None, None] } else { other_sizes(workload.bs) };
    let kept = in_flight(workload);
    let mut rungs: Vec<Workload> = [
        keeping(workload, kept.saturating_mul(2)),
        keeping(workload, kept),
        keeping(workload, half_full.unwrap_or(kept.saturating_mul(4))),
        sizes[0].and_then(|bs| sized(workload, bs)),
        keeping(workload, kept / 2),
        sizes[1].and_then(|bs| sized(workload, bs)),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut needed: Vec<u64> = rungs.iter().map(|rung| telling(workload, rung, each)).collect();
    let wanted = needed.iter().take(MOST_TELLING).fold(0, |sum: u64, needed| sum.saturating_add(*needed));
    let measured = measured.0 as f64;
    let enough = (ENOUGH.0.max(wanted.min(SLOW.0)) as f64).min(measured * MOST);
    let budget = (measured * SHARE).max(enough) as u64;
    let (share, mut left) = ((budget / rungs.len().max(1) as u64).min(LONGEST.0), Some(budget));
    needed.retain_mut(|needed| {
        *needed = share.max(*needed);
        left = left.and_then(|left| left.checked_sub(*needed));
        left.is_some()
    });
    rungs.truncate(needed.len());
    if needed.is_empty() && budget >= SHORTEST.0 {
        rungs = keeping(workload, kept.saturating_mul(4)).into_iter().collect();
        needed = vec![budget];
    }
    for (rung, length) in rungs.iter_mut().zip(needed) {
        rung.last(Nanos(length), Nanos((length as f64 * START) as u64));
    }
    rungs
}

/// How long `rung` has to last at least to say anything where `each` lies between two operations of `workload`: where it is of
/// larger ones, and bytes limit, they are as much farther apart.
fn telling(workload: &Workload, rung: &Workload, each: Nanos) -> u64 {
    let larger = (rung.bs.0 as f64 / workload.bs.0.max(1) as f64).max(1.0);
    let turns = f64::from(in_flight(rung)) * TURNS;
    let telling = each.0 as f64 * larger * turns.max(OPERATIONS / (1.0 - START));
    (telling as u64).max(SHORTEST.0)
}

/// `workload` with so many operations in flight, or a little fewer where its jobs share them; nothing where these are more, or more than
/// anybody wants.
fn keeping(workload: &Workload, operations: u32) -> Option<Workload> {
    let mut rung = workload.clone();
    // pread and pwrite keep one operation in flight per job.
    if rung.ioengine == IoEngine::Psync {
        rung.numjobs = operations;
    } else {
        rung.iodepth = operations / rung.numjobs.max(1);
    }
    let kept = in_flight(&rung);
    (kept > 0 && (kept <= DEEPEST || kept == in_flight(workload))).then_some(rung)
}

/// The sizes that operations of `bs` are compared with, smaller and larger, but within what every device takes.
fn other_sizes(bs: Bytes) -> [Option<u64>; 2] {
    let half = |by: u64| Some(bs.0 / by).filter(|half| *half >= SMALLEST && half.is_multiple_of(SMALLEST));
    let more = |by: u64| bs.0.checked_mul(by).filter(|more| *more <= LARGEST);
    match (half(2), more(2)) {
        (None, twice) => [twice, more(4)],
        (half_, None) => [half_, half(4)],
        both => both.into(),
    }
}

fn sized(workload: &Workload, bs: u64) -> Option<Workload> {
    let fits = workload.span.is_none_or(|span| span.0 >= bs);
    fits.then(|| Workload { bs: Bytes(bs), ..workload.clone() })
}

/// A ladder that a design wants.
#[derive(Debug, Clone, PartialEq)]
pub struct Ladder {
    /// The last trial of its design and workload.
    pub trial: Trial,
    /// Its rungs, in the order in which they run.
    pub rungs: Vec<Workload>,
    /// How many have run before these.
    pub ran: usize,
}

/// The ladders that a design wants once its trials are over, by workload, or what it wants to see again of one that `session` has the rungs of:
/// `records` are all of its trials, `part` is what they and the rungs say. The trials of `session` are not looked at.
pub fn of_design(session: &Session, part: &OfDesign, records: &[&TrialRecord]) -> Vec<Ladder> {
    let ladder = |(workload, result): (usize, &DesignResult)| {
        let asked = result.conditioned.as_ran(session.experiment.load(part.design(), workload)?);
        let design = &session.experiment.designs.get(part.design())?.name;
        let ran = session.meta.rungs.iter().filter(|r| r.design == *design && r.workload == asked.name);
        let ran: Vec<&Rung> = ran.collect();
        let of_it = || records.iter().filter(|record| record.trial.workload == workload);
        let samples = of_it().filter_map(|record| match &record.outcome {
            Outcome::Samples(samples) => Some(samples.as_ref()),
            Outcome::Failed(_) => None,
        });
        let rungs = next(&asked, &result.verdicts, &samples.collect::<Vec<&TrialSamples>>(), &ran);
        let trial = Trial { role: Role::Candidate, ..of_it().next_back()?.trial };
        (!rungs.is_empty()).then_some(Ladder { trial, rungs, ran: ran.len() })
    };
    part.results().iter().enumerate().filter_map(ladder).collect()
}

/// The trial as which the rung with this index runs: with operations of its own, because a cache may hold those of the
/// trials.
pub fn trial_of(trial: &Trial, rung: usize) -> Trial {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    Trial { seed: trial.seed.wrapping_add(STEP.wrapping_mul(rung as u64 + 1)), ..*trial }
}

/// What a session keeps of a rung that ran.
pub fn ran(design: &str, rung: &Workload, samples: TrialSamples) -> Rung {
    Rung {
        design: design.to_owned(),
        workload: rung.name.clone(),
        in_flight: in_flight(rung),
        bs: rung.bs,
        samples: Box::new(samples),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::workload::{Access, Arrival, Mix, Stop};

    fn workload(iodepth: u32, bs: u64) -> Workload {
        let stop = Stop::Runtime(Nanos::from_secs(10));
        Workload { iodepth, bs: Bytes(bs), ..Workload::new("w", Access::Random, Mix::Read, stop) }
    }

    fn shown(rungs: &[Workload]) -> Vec<(u32, u64)> {
        rungs.iter().map(|rung| (in_flight(rung), rung.bs.0)).collect()
    }

    #[test]
    fn a_ladder_has_more_and_less_in_flight_and_other_sizes() {
        let all = rungs_after(&workload(32, 4096), Nanos::from_secs(100), None, Nanos(0));
        let expected = [(64, 4096), (32, 4096), (128, 4096), (32, 8192), (16, 4096), (32, 16384)];
        assert_eq!(shown(&all), expected);
        assert!(all.iter().all(|rung| rung.warm_up.0 == 200_000_000));
        assert!(all.iter().all(|rung| rung.stop == Stop::Runtime(Nanos::from_millis(800))));
        // Synchronous engines have more jobs instead.
        let psync = Workload { ioengine: IoEngine::Psync, numjobs: 2, ..workload(1, 65536) };
        let all = rungs_after(&psync, Nanos::from_secs(100), None, Nanos(0));
        assert_eq!(shown(&all), [(4, 65536), (2, 65536), (8, 65536), (2, 32768), (1, 65536), (2, 131_072)]);
        assert_eq!(all.iter().map(|rung| rung.numjobs).collect::<Vec<_>>(), [4, 2, 8, 2, 1, 2]);
        // One in flight has no half, and there is an end to depths and sizes.
        let all = rungs_after(&workload(1, 1 << 20), Nanos::from_secs(100), None, Nanos(0));
        assert_eq!(shown(&all), [(2, 1 << 20), (1, 1 << 20), (4, 1 << 20), (1, 1 << 19), (1, 1 << 18)]);
        assert_eq!(
            shown(&rungs_after(&workload(2048, 4096), Nanos::from_secs(100), None, Nanos(0)))[0],
            (2048, 4096)
        );
    }

    #[test]
    fn half_of_what_a_full_queue_holds_takes_the_place_of_four_times_as_many() {
        let all = rungs_after(&workload(64, 4096), Nanos::from_secs(100), Some(4), Nanos(0));
        assert_eq!(shown(&all)[..4], [(128, 4096), (64, 4096), (4, 4096), (64, 8192)]);
        let jobs = Workload { numjobs: 4, ..workload(16, 4096) };
        let all = rungs_after(&jobs, Nanos::from_secs(100), Some(30), Nanos(0));
        assert_eq!((shown(&all)[2], all[2].numjobs), ((28, 4096), 4));
        // As many jobs cannot have fewer than one each.
        let all = rungs_after(&jobs, Nanos::from_secs(100), Some(3), Nanos(0));
        assert_eq!(shown(&all)[2], (64, 8192));
    }

    #[test]
    fn a_ladder_takes_a_share_of_the_trials() {
        let time = |rungs: &[Workload]| -> u64 {
            let one = |rung: &Workload| match rung.stop {
                Stop::Runtime(runtime) => runtime.0 + rung.warm_up.0,
                Stop::Size(_) => u64::MAX,
            };
            rungs.iter().map(one).sum()
        };
        for seconds in [0, 1, 2, 4, 10, 30, 1000] {
            let rungs = rungs_after(&workload(32, 4096), Nanos::from_secs(seconds), None, Nanos(0));
            let measured = seconds as f64 * 1e9;
            let most = (MOST * measured).min((SHARE * measured).max(ENOUGH.0 as f64));
            assert!(time(&rungs) as f64 <= most + 1.0, "{seconds} s");
            let least = rungs.iter().all(|rung| time(std::slice::from_ref(rung)) >= SHORTEST.0);
            assert!(least, "{seconds} s");
        }
        // What tells most comes first: more in flight, then as many as in the trials.
        assert_eq!(
            shown(&rungs_after(&workload(32, 4096), Nanos::from_secs(2), None, Nanos(0))),
            [(64, 4096), (32, 4096), (128, 4096)]
        );
        assert_eq!(rungs_after(&workload(32, 4096), Nanos::from_secs(5), None, Nanos(0)).len(), 6);
        assert!(rungs_after(&workload(32, 4096), Nanos::from_millis(600), None, Nanos(0)).is_empty());
    }

    #[test]
    fn rungs_of_slow_operations_are_fewer_and_longer() {
        let slow =
            |millis| rungs_after(&workload(1, 4096), Nanos::from_secs(10), None, Nanos::from_millis(millis));
        let length = |rungs: &[Workload]| match rungs[0].stop {
            Stop::Runtime(runtime) => runtime.0 + rungs[0].warm_up.0,
            Stop::Size(_) => 0,
        };
        let (some, one) = (slow(112), slow(4_800));
        assert_eq!((shown(&some), length(&some)), (vec![(2, 4096), (1, 4096), (4, 4096)], 1_400_000_000));
        assert_eq!((shown(&one), length(&one)), (vec![(4, 4096)], 6_000_000_000));
        let short = rungs_after(&workload(1, 4096), Nanos::from_millis(600), None, Nanos::from_secs(60));
        assert!(short.is_empty());
    }

    /// 1 MiB at 20 MB/s: eight in flight take 0.4 s each, and sixteen twice that.
    #[test]
    fn a_rung_lasts_until_what_is_in_flight_has_come_and_gone() {
        let deep = |seconds| {
            rungs_after(&workload(8, 1 << 20), Nanos::from_secs(seconds), None, Nanos::from_millis(52))
        };
        let length = |rung: &Workload| match rung.stop {
            Stop::Runtime(runtime) => runtime.0 + rung.warm_up.0,
            Stop::Size(_) => 0,
        };
        for seconds in [2, 4, 8, 30] {
            for rung in deep(seconds) {
                let turns = length(&rung) as f64 / (f64::from(in_flight(&rung)) * 52e6);
                assert!(turns >= TURNS, "{turns} of {} in {seconds} s", in_flight(&rung));
            }
        }
        assert_eq!(shown(&deep(4)), [(16, 1 << 20), (8, 1 << 20)]);
        assert_eq!(shown(&deep(10))[..3], [(16, 1 << 20), (8, 1 << 20), (32, 1 << 20)]);
    }

    #[test]
    fn the_depths_run_again_where_two_causes_weigh_about_as_much() {
        let verdict =
            |kind, explains| Verdict::new(kind, crate::judged::Sure::Certain, explains, "", Vec::new());
        let weighs = |others, few| {
            let both = [verdict(VerdictKind::Background, others), verdict(VerdictKind::Concurrency, few)];
            weigh_alike(&both)
        };
        assert!(weighs(0.5, 0.5) && weighs(0.5, 0.3) && weighs(0.3, 0.5));
        assert!(!weighs(0.9, 0.3) && !weighs(0.3, 0.9));
        assert!(!weigh_alike(&[verdict(VerdictKind::Background, 0.5)]));
    }

    #[test]
    fn what_holds_itself_back_or_is_explained_wants_no_ladder() {
        let verdict = |kind| Verdict {
            kind,
            basis: None,
            confidence: 0.5,
            explains: 0.5,
            sentence: String::new(),
            evidence: Vec::new(),
        };
        let (unknown, concurrency) = (verdict(VerdictKind::Unknown), verdict(VerdictKind::Concurrency));
        let cache = verdict(VerdictKind::Cache);
        let plain = workload(4, 4096);
        assert!(wanted(&plain, std::slice::from_ref(&unknown), None));
        assert!(wanted(&plain, &[cache.clone(), concurrency], None));
        let cpu = verdict(VerdictKind::Cpu);
        for weak in [cpu, verdict(VerdictKind::Member)] {
            assert!(wanted(&plain, std::slice::from_ref(&weak), None), "a weak one");
            assert!(!wanted(&plain, &[Verdict { confidence: 0.9, ..weak }], None));
        }
        assert!(!wanted(&plain, &[cache], None) && !wanted(&plain, &[], None));
        let unknown = [unknown];
        let paced = Workload { arrival: Arrival::Fixed { iops: 1000.0 }, ..plain.clone() };
        let slowed = Workload { rate: Some(Bytes(4_096_000)), ..plain.clone() };
        for held in [paced, slowed] {
            assert!(!wanted(&held, &unknown, Some(995.0)), "served");
            assert!(wanted(&held, &unknown, Some(700.0)), "behind");
        }
        assert!(!wanted(&Workload { think_time: Nanos(1000), ..plain }, &unknown, Some(1.0)));
    }
}
