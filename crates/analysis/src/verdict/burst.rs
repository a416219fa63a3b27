//! `burst`: credits ran out.
//!
//! Derivation. A volume with credits runs at `B` until they are spent and at its sustained `S` from then on: two
//! plateaus with one step down at `t = credits / (B - S)`. So from a step at `t` the credits spent since the load
//! began are `(B - S) * t`. A step down is not enough to say so: a volume may have fallen into a bad hour. It is
//! asserted when the same happens trial after trial, or when the volumes are known to have credits, or when what they run at in the end
//! is a rate that somebody set ([`set_rate`](crate::facts::set_rate)); and not when they are known to have none. When others were at work on the disks, it takes both.
//! Where only writes do so, and at no rate that looks set, it is a cache that fills ([`write_cache`](super::write_cache)).

use super::*;
use crate::facts::steps::{REPEATED, StepDown, down, have_credits, metric_of, points};

checks! {
    STEPS: at_least("share of the trials that show one step down between two flat stretches", REPEATED, Share, "once may be a host that slowed down");
    SAME_LEVEL: below("of one step over all trials: distance of their levels from those of the step", 0.15, Share, "the same two plateaus");
}

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let known = have_credits(case);
    if known == Some(false) {
        return Err(Absent::because("the working volumes are known to have no credits"));
    }
    if known.is_none() {
        let why =
            "other processes' I/O comes and goes in steps, and the volumes are not known to have credits";
        facts.yield_to(VerdictKind::Background, why)?;
    }
    let metric = metric_of(case);
    let downs: Vec<Option<StepDown>> = case.trials.iter().map(|trial| down(trial, metric)).collect();
    let found: Vec<StepDown> = downs.iter().copied().flatten().collect();
    let (told, trials) = (found.len() as f64, downs.len() as f64);
    // Of volumes of which nobody said anything: what they run at in the end is a rate that is set.
    let granted = known.is_some() || facts.set_rate.is_ok();
    // Others' work comes and goes in steps too, but not at the same place of trial after trial.
    let undisturbed = facts.asserted(VerdictKind::Background).is_none();
    let repeated = told > 0.0 && told >= REPEATED * trials && (trials > 1.0 || granted);
    let once = granted && undisturbed && once_and_for_all(case, &downs, metric);
    let sure = match known {
        Some(_) if repeated => Sure::Certain,
        _ if repeated || once => Sure::Likely,
        _ => {
            let why = "the trials do not show a step down between two flat stretches, or only once, as of a host that slows down";
            let absent = Absent::because(why);
            return Err(absent.seen("trials that show one", told, Unit::Trials, REPEATED * trials));
        }
    };
    let of = |value: fn(&StepDown) -> f64| median(found.iter().map(value)).unwrap_or(f64::NAN);
    let (seconds, before, after) = (of(|d| d.seconds), of(|d| d.step.before), of(|d| d.step.after));
    let credits = (before - after) * (seconds + case.workload.warm_up.as_secs_f64());
    let (unit, rate_unit) = match metric {
        Metric::Throughput => (Unit::Bytes, Unit::BytesPerSecond),
        _ => (Unit::Operations, Unit::OpsPerSecond),
    };
    let (what, basis) = match known {
        Some(_) => ("burst credits ran out", Basis::Declared),
        None => ("burst credits ran out, or a limit was lowered,", Basis::Inferred),
    };
    let sentence = format!(
        "{what} {seconds:.1} s into the measurement: {} before, {} from then on; the latter lasts",
        rate_unit.rate_in_words(before),
        rate_unit.rate_in_words(after)
    );
    let figures = vec![
        evidence("time of the step down, from the start of the measurement", seconds, Unit::Seconds, None),
        evidence("rate after the step, against the rate before", after, rate_unit, Some(before)),
        evidence("credits spent beyond the sustained rate since the load began", credits, unit, None),
        evidence("trials that show the step", told, Unit::Trials, Some(trials)),
    ];
    Ok(Verdict::new(VerdictKind::Burst, sure, 1.0 - after / before, sentence, figures).known(basis))
}

/// Whether the trials tell of one step: fast before it, slow after it, in the order in which they ran.
fn once_and_for_all(case: &Case<'_>, downs: &[Option<StepDown>], metric: Metric) -> bool {
    let Some((at, down)) = downs.iter().enumerate().find_map(|(i, d)| d.map(|d| (i, d))) else {
        return false;
    };
    let near = |trial: &&TrialSamples, level: f64| {
        let (_, rates) = points(trial, metric);
        median(&rates).is_some_and(|rate| SAME_LEVEL.holds((rate - level).abs() / level))
    };
    case.trials[..at].iter().all(|trial| near(trial, down.step.before))
        && case.trials[at + 1..].iter().all(|trial| near(trial, down.step.after))
        && case.trials.len() > 1
}
