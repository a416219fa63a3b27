//! Steady state of a trial, after SNIA's Solid State Storage Performance Test Specification (2.0.2,
//! "steady state"): over five rounds `y1..y5`, `max - min <= 20%` of their mean and the excursion of the
//! least-squares line over the window `<= 10%` of it.
//!
//! The specification's rounds are minutes long and its window slides. A trial here is seconds long and its
//! result is the mean over all of its measurement, so the window is the whole measurement, cut into five
//! equal rounds: what is judged is exactly what is reported.

use ebbtide_model::samples::{Interval, TrialSamples};

/// Rounds of the window.
pub const ROUNDS: usize = 5;
/// Largest `max - min` relative to the mean.
pub const MAX_RANGE: f64 = 0.20;
/// Largest rise or fall of the fitted line over the window relative to the mean.
pub const MAX_SLOPE_EXCURSION: f64 = 0.10;
/// Least operations in a round: below it one operation more or less moves the round by over 5%, which the
/// criteria would take for a change of the volume.
pub const MIN_ROUND_OPS: u64 = 20;

/// The figure by which a steady state is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SteadyMeasure {
    /// Bytes per second: for closed loops.
    Throughput,
    /// Mean latency: for open loops, whose rate is given.
    Latency,
}

/// Whether five rounds are in a steady state; `None` when their mean is not positive.
pub fn is_steady(rounds: &[f64; ROUNDS]) -> Option<bool> {
    let n = ROUNDS as f64;
    let mean = rounds.iter().sum::<f64>() / n;
    if mean.is_nan() || mean <= 0.0 {
        return None;
    }
    let max = rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let min = rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let middle = (n - 1.0) / 2.0;
    let (mut covariance, mut variance) = (0.0, 0.0);
    for (x, y) in rounds.iter().enumerate() {
        let dx = x as f64 - middle;
        covariance += dx * (y - mean);
        variance += dx * dx;
    }
    let excursion = (covariance / variance).abs() * (n - 1.0);
    Some(max - min <= MAX_RANGE * mean && excursion <= MAX_SLOPE_EXCURSION * mean)
}

/// Whether a trial ran in a steady state from its first to its last interval; `None` when it is too short to
/// judge (fewer than five intervals, or a round of fewer than [`MIN_ROUND_OPS`] operations).
pub fn judge(samples: &TrialSamples, judged: SteadyMeasure) -> Option<bool> {
    is_steady(&rounds(&samples.series, judged)?)
}

/// The series in five rounds of an equal number of intervals (what is left over goes to the last rounds).
fn rounds(series: &[Interval], judged: SteadyMeasure) -> Option<[f64; ROUNDS]> {
    // A stub of an interval at the end would weigh as much as a whole one.
    let nominal = series.first()?.end.0;
    let whole = match series {
        [.., before, last] if last.end.since(before.end).0 < nominal / 2 => &series[..series.len() - 1],
        _ => series,
    };
    let mut result = [0.0; ROUNDS];
    let mut start = 0;
    let mut start_time = 0;
    for (round, value) in result.iter_mut().enumerate() {
        let end = whole.len() * (round + 1) / ROUNDS;
        let part = whole.get(start..end).filter(|part| !part.is_empty())?;
        let end_time = part.last()?.end.0;
        let (mut ops, mut bytes, mut latency_sum) = (0u64, 0u64, 0.0);
        for interval in part {
            let count = interval.array.total();
            (ops, bytes) = (ops + count.ops, bytes + count.bytes);
            latency_sum += interval.latency.mean().unwrap_or(0.0) * interval.latency.count() as f64;
        }
        if ops < MIN_ROUND_OPS || end_time <= start_time {
            return None;
        }
        *value = match judged {
            SteadyMeasure::Throughput => bytes as f64 / (end_time - start_time) as f64,
            SteadyMeasure::Latency => latency_sum / ops as f64,
        };
        (start, start_time) = (end, end_time);
    }
    Some(result)
}

/// Of several trials: true when more than half of those that could be judged were steady; `None` when none could.
pub fn majority(judgements: impl IntoIterator<Item = Option<bool>>) -> Option<bool> {
    let (mut steady, mut judged) = (0, 0);
    for judgement in judgements.into_iter().flatten() {
        judged += 1;
        steady += usize::from(judgement);
    }
    (judged > 0).then_some(2 * steady > judged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::series;

    #[test]
    fn the_two_criteria() {
        assert_eq!(is_steady(&[100.0, 104.0, 98.0, 101.0, 99.0]), Some(true));
        // Range 22%, no slope.
        assert_eq!(is_steady(&[100.0, 111.0, 89.0, 111.0, 100.0]), Some(false));
        // Range 12%, but all of it is slope.
        assert_eq!(is_steady(&[94.0, 97.0, 100.0, 103.0, 106.0]), Some(false));
        // Range 8% of slope.
        assert_eq!(is_steady(&[96.0, 98.0, 100.0, 102.0, 104.0]), Some(true));
        assert_eq!(is_steady(&[0.0; 5]), None);
    }

    #[test]
    fn a_trial_is_judged_as_a_whole() {
        let flat = series(&[1000; 20]);
        let mut falling = series(&[1000; 20]);
        for interval in &mut falling[10..] {
            interval.array.read.bytes /= 2;
        }
        let judge =
            |series: &[Interval]| rounds(series, SteadyMeasure::Throughput).and_then(|r| is_steady(&r));
        assert_eq!(judge(&flat), Some(true));
        assert_eq!(judge(&falling), Some(false));
        assert_eq!(judge(&flat[..4]), None, "four intervals make no five rounds");
        assert_eq!(judge(&series(&[2; 20])), None, "eight operations a round say nothing");
        assert_eq!(judge(&[]), None);
    }

    #[test]
    fn a_stub_at_the_end_does_not_count() {
        let mut cut = series(&[1000; 20]);
        let mut stub = cut[19].clone();
        stub.end.0 += cut[0].end.0 / 10;
        stub.array.read.ops = 0;
        stub.array.read.bytes = 0;
        cut.push(stub);
        assert_eq!(rounds(&cut, SteadyMeasure::Throughput).and_then(|r| is_steady(&r)), Some(true));
    }

    #[test]
    fn most_trials_decide() {
        assert_eq!(majority([Some(true), None, Some(true), Some(false)]), Some(true));
        assert_eq!(majority([Some(true), Some(false)]), Some(false));
        assert_eq!(majority([None, None]), None);
    }
}
