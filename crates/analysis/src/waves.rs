//! Waves in a series: values that go back and forth between two levels and stay at each for a while.
//!
//! The levels are the two groups that leave least within (Otsu, IEEE Transactions on Systems, Man and Cybernetics 9, 1979: the
//! threshold of least variance within the groups). Any series has such groups; these are levels only if they are far apart against
//! how flat they are, and waves only if neighbours are alike far more often than chance has it (the number of runs,
//! Wald and Wolfowitz, Annals of Mathematical Statistics 11, 1940).

use super::change::{MIN_DEVIATIONS, MIN_SIDE, MIN_STEP};
use super::estimate::median;

/// Fewer values are too few for two waves.
const MIN_VALUES: usize = 4 * MIN_SIDE;
/// Runs over those that chance makes of as many values at each level, at most. Of twenty values in two equal groups in any order so few
/// runs come once in two hundred series.
const RUNS: f64 = 0.5;
/// Waves that are waves: one more than a single disturbance.
pub const MIN_WAVES: usize = 2;
/// Median absolute deviation of a normal distribution to its standard deviation.
const MAD_TO_SIGMA: f64 = 1.4826;

/// A series between two levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Waves {
    /// Median of the lower ones.
    pub low: f64,
    /// Median of the higher ones.
    pub high: f64,
    /// Of each value whether it is one of the lower ones.
    pub slow: Vec<bool>,
    /// Indices at which it went down to them to stay, single values among others aside, each with higher ones before and after.
    pub starts: Vec<usize>,
    /// What the lower ones cost of what the higher level would have come to, 0 to 1: values between the levels count as what they are.
    pub cost: f64,
}

impl Waves {
    /// Share of the time at the lower level, by what it cost.
    pub fn slow_share(&self) -> f64 {
        (self.cost / (1.0 - self.low / self.high)).clamp(0.0, 1.0)
    }

    /// Mean number of values from one start to the next.
    pub fn period(&self) -> f64 {
        match (self.starts.first(), self.starts.last()) {
            (Some(first), Some(last)) if last > first => {
                (last - first) as f64 / (self.starts.len() - 1) as f64
            }
            _ => 0.0,
        }
    }
}

/// Each by the majority of itself and its neighbours.
fn settled(slow: &[bool]) -> Vec<bool> {
    let at = |index: usize| slow.get(index).copied();
    let settled = |index: usize| match (index.checked_sub(1).and_then(at), at(index + 1)) {
        (Some(before), Some(after)) if before == after => before,
        _ => slow[index],
    };
    (0..slow.len()).map(settled).collect()
}

/// Index of the first of the sorted values that is in the upper group.
fn threshold(sorted: &[f64]) -> Option<usize> {
    let total: f64 = sorted.iter().sum();
    let (mut below, mut best) = (0.0, None::<(f64, usize)>);
    for split in 1..sorted.len() {
        below += sorted[split - 1];
        let (n, m) = (split as f64, (sorted.len() - split) as f64);
        // Least within is most between.
        let between = n * m * (below / n - (total - below) / m).powi(2);
        if best.is_none_or(|(most, _)| between > most) {
            best = Some((between, split));
        }
    }
    best.map(|(_, split)| split)
}

fn level(values: &[f64]) -> Option<(f64, f64)> {
    let middle = median(values)?;
    let off: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    Some((middle, median(&off)? * MAD_TO_SIGMA))
}

/// The waves that `values` show; `None` when they show none.
pub fn waves(values: &[f64]) -> Option<Waves> {
    if values.len() < MIN_VALUES || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let split = threshold(&sorted)?;
    let (lower, upper) = sorted.split_at(split);
    if lower.len() < MIN_SIDE || upper.len() < MIN_SIDE {
        return None;
    }
    let ((low, low_noise), (high, high_noise)) = (level(lower)?, level(upper)?);
    let apart = high - low;
    if apart <= 0.0 || apart < MIN_STEP * high || apart < MIN_DEVIATIONS * low_noise.max(high_noise) {
        return None;
    }
    let least = *upper.first()?;
    let slow: Vec<bool> = values.iter().map(|value| *value < least).collect();
    let changes = slow.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let (n, m) = (lower.len() as f64, upper.len() as f64);
    let by_chance = 1.0 + 2.0 * n * m / (n + m);
    if (changes + 1) as f64 > RUNS * by_chance {
        return None;
    }
    let settled = settled(&slow);
    let last = settled.iter().rposition(|slow| !slow)?;
    // Down, and up again.
    let starts: Vec<usize> = (1..=last).filter(|at| settled[*at] && !settled[*at - 1]).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let cost = (1.0 - mean / high).clamp(0.0, 1.0);
    (starts.len() >= MIN_WAVES).then_some(Waves { low, high, slow, starts, cost })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{RngCore, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn of(values: impl Iterator<Item = f64>) -> Option<Waves> {
        waves(&values.collect::<Vec<f64>>())
    }

    #[test]
    fn waves_are_found_with_their_levels() {
        // 100 for six, 40 for four, with a little noise.
        let found = of((0..40u32).map(|i| if i % 10 < 6 { 100.0 } else { 40.0 } + f64::from(i % 3)));
        let found = found.expect("waves");
        assert!((found.high - 101.0).abs() < 1.1 && (found.low - 41.0).abs() < 1.1, "{found:?}");
        // The last goes down and does not come up again.
        assert_eq!(
            (found.starts.as_slice(), found.slow.iter().filter(|slow| **slow).count()),
            (&[6, 16, 26][..], 16)
        );
        assert!((found.period() - 10.0).abs() < 1e-9 && (found.slow_share() - 0.4).abs() < 0.02, "{found:?}");
        // Some between the levels and one that is off do not make more of them.
        let blurred = of((0..40u32).map(|i| match (i, i % 10) {
            (13 | 28, _) => 35.0,
            (_, 5) => 72.0,
            (_, phase) => f64::from(if phase < 6 { 100 } else { 40 } + i % 3),
        }));
        let blurred = blurred.expect("waves");
        assert_eq!(blurred.starts.len(), 3, "{blurred:?}");
        assert!((blurred.period() - 10.0).abs() < 1.0, "{blurred:?}");
    }

    #[test]
    fn steps_spikes_lots_and_drifts_are_none() {
        let series: [(&str, Vec<f64>); 7] = [
            ("a step", (0..40).map(|i| if i < 20 { 100.0 } else { 40.0 }).collect()),
            ("one dip", (0..40).map(|i| if (15..25).contains(&i) { 40.0 } else { 100.0 }).collect()),
            ("lots", (0..40).map(|i| if i % 2 == 0 { 100.0 } else { 40.0 }).collect()),
            ("spikes", (0..40).map(|i| if i % 13 == 5 { 10.0 } else { 100.0 }).collect()),
            ("small", (0..40).map(|i| if i % 10 < 5 { 100.0 } else { 90.0 }).collect()),
            ("a drift", (0..40).map(|i| 100.0 - f64::from(i)).collect()),
            ("flat", vec![7.0; 40]),
        ];
        for (name, values) in series {
            assert_eq!(waves(&values), None, "{name}");
        }
        assert_eq!(waves(&[]), None);
        assert_eq!(waves(&[100.0, 40.0].repeat(4)), None, "too few");
        // Between levels, and not from one to the other.
        assert_eq!(of((0..60).map(|i| 100.0 + 50.0 * (f64::from(i) / 3.0).sin())), None, "a sine");
    }

    #[test]
    fn noise_of_any_kind_seldom_looks_like_waves() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
        let mut uniform = || ((rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let mut normal = || (-2.0 * uniform().ln()).sqrt() * (2.0 * std::f64::consts::PI * uniform()).cos();
        for (kind, phi, lognormal) in
            [("independent", 0.0, false), ("lognormal", 0.0, true), ("AR(1)", 0.8, false)]
        {
            for length in [20, 50, 200] {
                let alarms = (0..400)
                    .filter(|_| {
                        let mut state = 0.0;
                        let values: Vec<f64> = (0..length)
                            .map(|_| {
                                state = phi * state + normal() * (1.0f64 - phi * phi).sqrt();
                                if lognormal { 100.0 * (0.5 * state).exp() } else { 100.0 + 25.0 * state }
                            })
                            .collect();
                        waves(&values).is_some()
                    })
                    .count();
                assert!(alarms <= 4, "{kind}, {length} points: {alarms} of 400");
            }
        }
    }
}
