//! Evidence that grows with the rounds: e-processes for the sign of a paired difference.
//!
//! Every round runs the designs in a fresh random order. Where swapping the labels of two of them changes nothing, the sign of
//! their difference `d` in a round is then a fair coin, given everything else, however rounds depend on each other and however
//! values are distributed. With `s` from the magnitudes of the differences only,
//!
//! ```text
//! E_n(lambda) = product over rounds r of 2 / (1 + exp(-2 lambda x_r)),   x_r = d_r / s_r, cut at -2 and 2,
//!                                                                       s_r = median(|d_1| .. |d_r|)
//! ```
//!
//! has expectation 1 (the two signs of `d_r` give factors whose mean is 1), so that it ever reaches `1 / alpha` with a probability of
//! at most `alpha` (Ville's inequality): it may be looked at after every round. Validity by symmetry: Koning, *Post-hoc and anytime
//! valid permutation and group invariance testing* (arXiv:2310.01153); averages of e-processes: Vovk and Wang (arXiv:2208.08925).
//! The logistic factor needs no variance, and no more rounds than signs alone. What is cut ([`FARTHEST`]) forgives outliers: a factor is
//! never so small that a single stalled trial takes back what a dozen rounds said.

/// The bets that are averaged: small ones for what hides in noise, large ones for what is plain.
const LAMBDAS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];

/// A difference counts for no more than one of so many times the median magnitude. Where trials vary evenly this changes nothing that can be
/// seen; where single trials stall, it decides in a few rounds more what one stall after the other would keep open. Valid, because it
/// depends on the magnitude alone.
const FARTHEST: f64 = 2.0;

/// Differences of two designs, round by round, and the evidence that their centre is above 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    /// Logarithms of the products so far, for each of [`LAMBDAS`].
    logs: [f64; LAMBDAS.len()],
    /// Magnitudes of the differences so far, ascending.
    magnitudes: Vec<f64>,
}

impl Evidence {
    /// That of all of `differences`, in their order.
    pub fn of(differences: impl IntoIterator<Item = f64>) -> Evidence {
        let mut evidence = Evidence::default();
        differences.into_iter().for_each(|difference| evidence.add(difference));
        evidence
    }

    /// Takes a round's difference in; one that is not finite says nothing.
    pub fn add(&mut self, difference: f64) {
        if !difference.is_finite() {
            return;
        }
        let magnitude = difference.abs();
        let at = self.magnitudes.partition_point(|known| *known < magnitude);
        self.magnitudes.insert(at, magnitude);
        let scale = crate::estimate::median_of_sorted(&self.magnitudes).unwrap_or(0.0);
        if magnitude == 0.0 {
            return;
        }
        // A scale of 0 has more than half of the rounds without any difference: this one is far from them.
        let standard = if scale > 0.0 { difference / scale } else { difference.signum() * FARTHEST };
        let standard = standard.clamp(-FARTHEST, FARTHEST);
        for (log, lambda) in self.logs.iter_mut().zip(LAMBDAS) {
            *log += std::f64::consts::LN_2 - (-2.0 * lambda * standard).exp().ln_1p();
        }
    }

    /// `E`: 1 when nothing is known, at least `1 / alpha` with a probability of at most `alpha` where the centre is not above 0.
    pub fn value(&self) -> f64 {
        self.logs.iter().map(|log| log.exp()).sum::<f64>() / LAMBDAS.len() as f64
    }
}

/// How strongly a place among others is betted on: from "somewhat behind" to "last".
const POWERS: [f64; 5] = [0.5, 1.0, 2.0, 4.0, 8.0];

/// Evidence that a design is not the best of a field, from its place in it, round by round.
///
/// In a round of `n` designs of which none is better than this one, its place is at worst like one drawn from `1..=n`: given all
/// else, the fresh random order makes every place of equals as likely. A bet of `n k^a / (1^a + .. + n^a)` on place `k` has a mean of 1 then and
/// grows where it is behind again and again. Many rivals in one round say more than each of them alone.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Places {
    logs: [f64; POWERS.len()],
}

impl Places {
    /// Takes a round in, in which `better` of `rivals` designs were better.
    pub fn add(&mut self, better: usize, rivals: usize) {
        let (place, field) = ((better.min(rivals) + 1) as f64, rivals + 1);
        for (log, power) in self.logs.iter_mut().zip(POWERS) {
            let sum: f64 = (1..=field).map(|k| (k as f64).powf(power)).sum();
            *log += (field as f64 * place.powf(power) / sum).ln();
        }
    }

    /// As [`Evidence::value`].
    pub fn value(&self) -> f64 {
        self.logs.iter().map(|log| log.exp()).sum::<f64>() / POWERS.len() as f64
    }
}

/// The interval of the centre of `differences` that holds at any round with probability `1 - error`, ends included: all centres against
/// which neither side has evidence of `2 / error`. An end that nothing bounds yet is infinite.
pub fn interval(differences: &[f64], error: f64) -> (f64, f64) {
    let finite: Vec<f64> = differences.iter().copied().filter(|d| d.is_finite()).collect();
    (lower(&finite, error), -lower(&finite.iter().map(|d| -d).collect::<Vec<f64>>(), error))
}

/// The largest centre of which it is shown that the differences are above it.
fn lower(differences: &[f64], error: f64) -> f64 {
    let shown = |centre: f64| Evidence::of(differences.iter().map(|d| d - centre)).value() >= 2.0 / error;
    let least = differences.iter().copied().fold(f64::INFINITY, f64::min);
    let most = differences.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Below all of them by their whole range, all have one sign and nearly one size.
    let mut below = least - (most - least).max(f64::MIN_POSITIVE);
    if differences.is_empty() || !shown(below) {
        return f64::NEG_INFINITY;
    }
    let mut above = most;
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(below, above);
        if shown(middle) {
            below = middle;
        } else {
            above = middle;
        }
    }
    below
}

/// Halvings of the range in which an end is looked for: to a thousandth of a thousandth of it.
const BISECTIONS: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn six_plain_rounds_decide_and_five_do_not() {
        let plain = |rounds: usize| Evidence::of(std::iter::repeat_n(0.5, rounds)).value();
        assert!(plain(5) < 20.0 && plain(6) >= 20.0, "{} {}", plain(5), plain(6));
        assert!((Evidence::default().value() - 1.0).abs() < 1e-12);
        // The other way round it is evidence of nothing.
        assert!(Evidence::of([-0.5; 30]).value() < 1e-3);
    }

    /// Nine rounds in ten say that it is ahead, by little; in the others a stall says the contrary, by a lot.
    #[test]
    fn a_stall_takes_back_no_more_than_a_few_rounds() {
        let rounds = |number: u32| (0..number).map(|n| if n % 10 == 4 { -20.0 } else { 1.0 });
        let value = |number| Evidence::of(rounds(number)).value();
        assert!(value(30) >= 20.0 && value(14) > 1.0, "{} {}", value(30), value(14));
    }

    /// The factors of all 2^n sequences of signs over the same magnitudes have a mean of exactly 1, at every round.
    #[test]
    fn over_all_signs_the_mean_is_one() {
        let magnitudes = [0.3, 0.01, 2.0, 0.3, 0.0, 0.07, 0.5, 0.2];
        for rounds in 1..=magnitudes.len() {
            let all = 1u32 << rounds;
            let value = |signs: u32| {
                let signed = |(bit, m): (usize, &f64)| if signs >> bit & 1 == 1 { *m } else { -m };
                Evidence::of(magnitudes[..rounds].iter().enumerate().map(signed)).value()
            };
            let mean = (0..all).map(value).sum::<f64>() / f64::from(all);
            assert!((mean - 1.0).abs() < 1e-9, "{rounds}: {mean}");
        }
    }

    /// Of all sequences of 14 signs no more than the promised part ever reaches the bound, looked at after each round.
    #[test]
    fn looking_after_every_round_keeps_the_promise() {
        let magnitudes = [1.0, 0.2, 0.9, 3.0, 0.4, 0.6, 1.1, 0.1, 0.8, 2.0, 0.5, 0.7, 1.3, 0.3];
        let reached = (0u32..1 << 14).filter(|signs| {
            let mut evidence = Evidence::default();
            magnitudes.iter().enumerate().any(|(bit, m)| {
                evidence.add(if signs >> bit & 1 == 1 { *m } else { -m });
                evidence.value() >= 20.0
            })
        });
        let share = reached.count() as f64 / f64::from(1 << 14);
        assert!(share <= 0.05 && share > 0.001, "{share}");
    }

    /// Over all places that equals may have in three rounds the mean is exactly 1.
    #[test]
    fn over_all_places_the_mean_is_one() {
        let (rivals, mut sum) = ([2usize, 4, 1], 0.0);
        for a in 0..=rivals[0] {
            for b in 0..=rivals[1] {
                for c in 0..=rivals[2] {
                    let mut places = Places::default();
                    [a, b, c].into_iter().zip(rivals).for_each(|(better, of)| places.add(better, of));
                    sum += places.value();
                }
            }
        }
        assert!((sum / (3.0 * 5.0 * 2.0) - 1.0).abs() < 1e-12, "{sum}");
        // Last of twelve three times in a row is more than chance; last of two is not.
        let last = |rivals: usize| {
            let mut places = Places::default();
            (0..3).for_each(|_| places.add(rivals, rivals));
            places.value()
        };
        assert!(last(11) > 20.0 && last(1) < 20.0, "{} {}", last(11), last(1));
    }

    #[test]
    fn an_interval_holds_the_middle_and_needs_rounds() {
        let differences: Vec<f64> = (0..40).map(|n| 0.1 + 0.03 * f64::from(n % 7 - 3)).collect();
        let (low, high) = interval(&differences, 0.05);
        assert!(low < 0.1 && 0.1 < high && high - low < 0.08, "{low} {high}");
        assert_eq!(interval(&differences[..5], 0.05), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(interval(&[], 0.05), (f64::NEG_INFINITY, f64::INFINITY));
    }

    proptest! {
        #[test]
        fn anything_is_answered(values in prop::collection::vec(any::<f64>(), 0..30), error in 0.001f64..0.5) {
            let value = Evidence::of(values.iter().copied()).value();
            prop_assert!(value >= 0.0);
            let (low, high) = interval(&values, error);
            prop_assert!(!low.is_nan() && !high.is_nan());
        }

        #[test]
        fn the_interval_follows_the_differences(
            values in prop::collection::vec(-1.0f64..1.0, 8..30), by in -3.0f64..3.0
        ) {
            let moved: Vec<f64> = values.iter().map(|v| v + by).collect();
            let (one, other) = (interval(&values, 0.1), interval(&moved, 0.1));
            for (a, b) in [(one.0, other.0), (one.1, other.1)] {
                prop_assert!(a.is_infinite() == b.is_infinite());
                prop_assert!(a.is_infinite() || (a + by - b).abs() < 1e-4, "{a} {b}");
            }
        }
    }
}
