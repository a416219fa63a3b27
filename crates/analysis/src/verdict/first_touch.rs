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

use super::*;
use crate::members;
use crate::metrics::metric;
use ebbtide_model::units::format_latency;

checks! {
    UNTOUCHED: at_least("bytes never touched before the trial, of those that it moved", 0.10, Share, "fewer do not show");
    LATER: below("rate of such trials over that of the others", 0.80, Share, "first touches are slower");
    FLOOR: below("where all are such: what one operation alone takes, of the mean latency", 0.60, Share, "the rest is the first touch");
}

/// Untouched bytes relative to those that the trial moved.
fn untouched(trial: &TrialSamples) -> Option<f64> {
    let members = trial.observed.as_ref()?.members.iter();
    let known: Vec<f64> = members.filter_map(|m| m.untouched_before.map(|b| b.0 as f64)).collect();
    let moved: u64 = trial.members.iter().map(|m| members::totals(m).bytes).sum();
    (!known.is_empty() && moved > 0).then(|| known.iter().sum::<f64>() / moved as f64)
}

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let rates = case.trials.iter().filter_map(|t| Some((untouched(t)?, metric(t, Metric::Throughput)?)));
    let (first, later): (Vec<(f64, f64)>, Vec<_>) = rates.partition(|(share, _)| UNTOUCHED.holds(*share));
    let rate = |trials: &[(f64, f64)]| median(trials.iter().map(|(_, rate)| *rate));
    let (told, all) = (first.len() as f64, case.trials.len() as f64);
    let slow = rate(&first).filter(|_| 2.0 * told >= all).ok_or_else(|| {
        let what = "trials into blocks untouched before";
        Absent::because("most trials are not known to have touched fresh blocks").seen(
            what,
            told,
            Unit::Trials,
            all / 2.0,
        )
    })?;
    let advice = "read (or write) the volumes through once before measuring";
    let trials = evidence("trials into untouched blocks", told, Unit::Trials, Some(all));
    if let Some(fast) = rate(&later).filter(|rate| *rate > 0.0) {
        let slower = LATER.require(slow / fast, "first touches are not slower")?;
        let sentence = format!(
            "{told} of {all} trials touched blocks for the first time and ran at {:.0}% of the speed of the others: {advice}",
            slow / fast * 100.0
        );
        let sure = if later.len() > 1 { Sure::Likely } else { Sure::Possible };
        let figures = vec![slower, trials];
        return Ok(Verdict::new(VerdictKind::FirstTouch, sure, 1.0 - slow / fast, sentence, figures));
    }
    // Without known limits the operations may just as well wait for each other.
    let unknown =
        || Absent::unmeasured("all trials are first touches, and what they may wait for is not known");
    facts.met.ok_or_else(unknown)?;
    facts.yield_to_volumes("a limit is what operations wait for")?;
    facts.yield_to(VerdictKind::InstanceLimit, "the link is what operations wait for")?;
    facts.yield_to_a_busy_thread()?;
    let (latency, floor) = facts.latency.ok_or_else(unknown)?;
    let alone = FLOOR.require(floor / latency, "operations take little longer than one alone")?;
    let sentence = format!(
        "all {told} trials touched blocks for the first time: operations take {} where {} are usual on touched \
         blocks, and wait for no known limit; {advice}",
        format_latency(latency),
        format_latency(floor)
    );
    let what = "mean latency into untouched blocks, against what one operation alone takes";
    let figures = vec![evidence(what, latency, Unit::Nanoseconds, Some(floor)), alone, trials];
    Ok(Verdict::new(VerdictKind::FirstTouch, Sure::Likely, 1.0 - floor / latency, sentence, figures))
}
