//! Whole made-up sessions through the analysis.

use super::fixtures::{session, trial};
use super::*;
use ebbtide_model::metric::Metric;
use ebbtide_model::schedule::Role;
use ebbtide_model::testing::experiment;

/// Factor within ±2%, different for every trial, the same in every run.
fn wobble(seed: u64) -> f64 {
    1.0 + (seed % 401) as f64 / 10_000.0 - 0.02
}

#[test]
fn a_faster_design_is_faster_in_rates_and_in_latencies() {
    let session = session(&experiment(2, 1), 9, |t| {
        let speed = if t.design == 1 { 2.0 } else { 1.0 } * wobble(t.seed);
        Ok(trial(&[
            ("a", (1000.0 * speed) as u64, (1e6 / speed) as u64),
            ("b", (3000.0 * speed) as u64, 1_000_000),
        ]))
    });
    let analysis = analyse(&session);
    assert_eq!(analysis.results.len(), 2);
    for comparison in &analysis.comparisons {
        let asked = comparison.metric == Metric::Iops;
        let expected = if asked { Conclusion::Faster } else { Conclusion::NotJudged };
        assert_eq!(comparison.conclusion, expected, "{comparison:?}");
        if matches!(comparison.metric, Metric::Throughput | Metric::Iops) {
            assert!((comparison.ratio - 2.0).abs() < 0.1, "{comparison:?}");
        }
        assert_eq!(comparison.rounds, 9);
    }
    let first = &analysis.results[0];
    assert_eq!(first.primary, Metric::Iops);
    assert_eq!(first.precise, Some(true));
    assert_eq!(first.steady, Some(true));
    assert_eq!(first.trials, 9, "the control's second runs are not in its result");
    let share = first.members[0].share.expect("bytes moved");
    assert!((share - 0.25).abs() < 0.01, "{share}");
    assert!((first.members[1].iops - 3000.0).abs() < 100.0, "{:?}", first.members[1]);
    assert!(analysis.aa.iter().all(|aa| aa.same == Some(true)), "{:?}", analysis.aa);
    assert_eq!(analysis.warnings, []);
}

#[test]
fn a_machine_that_cannot_tell_a_from_a_is_flagged() {
    let session = session(&experiment(2, 1), 9, |t| {
        let again = if t.role == Role::ControlAgain { 1.3 } else { 1.0 };
        Ok(trial(&[("a", (1000.0 * again * wobble(t.seed)) as u64, 1_000_000)]))
    });
    let analysis = analyse(&session);
    let aa = analysis.aa.iter().find(|aa| aa.metric == Metric::Iops).expect("is there");
    assert_eq!(aa.same, Some(false));
    let warning = &analysis.warnings[0];
    assert_eq!(warning.kind, WarningKind::AaDiffers);
    assert!(warning.message.contains("cannot tell A from A"), "{}", warning.message);
}

#[test]
fn few_trials_failed_trials_and_wide_intervals_are_said() {
    let session = session(&experiment(2, 1), 7, |t| {
        if t.design == 1 && t.round > 3 {
            return Err("volume b: EIO at 4096".into());
        }
        let speed = 1.0 + f64::from(t.round % 3) / 2.0;
        Ok(trial(&[("a", (1000.0 * speed) as u64, 1_000_000)]))
    });
    let analysis = analyse(&session);
    let kinds: Vec<_> = analysis.warnings.iter().map(|w| w.kind).collect();
    assert_eq!(kinds, [WarningKind::NotReached, WarningKind::TooFewTrials, WarningKind::TrialsFailed]);
    assert_eq!(
        analysis.results[1].failed,
        [
            "round 5: volume b: EIO at 4096",
            "round 6: volume b: EIO at 4096",
            "round 7: volume b: EIO at 4096"
        ]
    );
    assert_eq!(analysis.results[1].precise, None);
    assert!(analysis.comparisons.iter().all(|c| c.interval.is_none() && c.rounds == 4));
    let judged = analysis.comparisons.iter().filter(|c| c.conclusion != Conclusion::NotJudged);
    assert!(judged.map(|c| c.conclusion).eq([Conclusion::Inconclusive]));
}

#[test]
fn a_session_without_trials_is_analysed_too() {
    let analysis = analyse(&session(&experiment(2, 2), 0, |_| Err(String::new())));
    assert_eq!(analysis.results.len(), 4);
    assert!(analysis.results.iter().all(|r| r.trials == 0 && r.metrics.is_empty() && r.verdicts.is_empty()));
    assert!(analysis.comparisons.is_empty() && analysis.aa.is_empty() && analysis.warnings.is_empty());
    let json = serde_json::to_string(&analysis).expect("serialises");
    assert_eq!(serde_json::from_str::<Analysis>(&json).expect("reads back"), analysis);
}

#[test]
fn rounds_that_depend_on_each_other_are_said() {
    let drifting = |drift: f64| {
        session(&experiment(1, 1), 16, move |t| {
            Ok(trial(&[(
                "a",
                (1000.0 * wobble(t.seed) * (1.0 + drift * f64::from(t.round))) as u64,
                1_000_000,
            )]))
        })
    };
    let warned = |session| analyse(&session).warnings.iter().any(|w| w.kind == WarningKind::Dependent);
    assert!(warned(drifting(0.05)));
    assert!(!warned(drifting(0.0)));
}
