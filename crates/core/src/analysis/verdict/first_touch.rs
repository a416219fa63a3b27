//! `first-touch`: blocks were touched for the first time.
//!
//! Derivation. Blocks of a volume made from a snapshot are fetched when they are first read; unwritten extents are
//! turned into written ones when they are first written. Both cost more than the same access later. Asserted when
//! trials into untouched regions are slower than trials of the same design and workload into touched ones, and at least
//! half of the trials, and so the median, are of the first kind.

use super::{Case, Rule, evidence};
use crate::analysis::estimate::median;
use crate::analysis::members;
use crate::analysis::metrics::metric;
use crate::analysis::{Metric, Verdict, VerdictKind};
use crate::samples::TrialSamples;

/// Bytes untouched before a trial relative to the bytes that it moved from which on it is a first touch.
pub const UNTOUCHED: f64 = 0.10;
/// Rate of first touches relative to later ones below which they are slower.
pub const SLOWER: f64 = 0.80;

/// The rule.
#[derive(Debug)]
pub struct FirstTouch;

/// Untouched bytes relative to those that the trial moved.
fn untouched(trial: &TrialSamples) -> Option<f64> {
    let observed = trial.observed.as_ref()?;
    let known: Vec<u64> = observed.members.iter().filter_map(|m| m.untouched_before.map(|b| b.0)).collect();
    let moved: u64 = trial.members.iter().map(|m| members::totals(m).1).sum();
    (!known.is_empty() && moved > 0).then(|| known.iter().sum::<u64>() as f64 / moved as f64)
}

impl Rule for FirstTouch {
    fn kind(&self) -> VerdictKind {
        VerdictKind::FirstTouch
    }

    fn judge(&self, case: &Case<'_>) -> Option<Verdict> {
        let (mut first, mut later) = (Vec::new(), Vec::new());
        for trial in case.trials {
            let (Some(share), Some(rate)) = (untouched(trial), metric(trial, Metric::Throughput)) else {
                continue;
            };
            if share >= UNTOUCHED { first.push(rate) } else { later.push(rate) }
        }
        if 2 * first.len() < case.trials.len() {
            return None;
        }
        let (slow, fast) = (median(&first)?, median(&later).filter(|rate| *rate > 0.0)?);
        (slow <= SLOWER * fast).then(|| Verdict {
            kind: VerdictKind::FirstTouch,
            confidence: if later.len() > 1 { 0.85 } else { 0.65 },
            explains: (1.0 - slow / fast).clamp(0.0, 1.0),
            sentence: format!(
                "{} of {} trials touched blocks for the first time and ran at {:.0}% of the speed of the others: read (or \
                 write) the volumes through once before measuring",
                first.len(),
                case.trials.len(),
                slow / fast * 100.0
            ),
            evidence: vec![
                evidence("throughput into untouched blocks, against touched ones", slow, "bytes/s", Some(fast)),
                evidence("trials into untouched blocks", first.len() as f64, "trials", Some(case.trials.len() as f64)),
            ],
        })
    }
}
