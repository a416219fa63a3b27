//! Ratios of two designs, paired by round, and what a session may say of all of them together.
//!
//! Neighbouring trials on real volumes are not independent (a volume has good and bad minutes), but what
//! a round does to one design it does to the other. So each round gives one number, `d = ln(A / B)`; the
//! effect is `exp` of the centre of `d` with its exact interval ([`centre`]). The unit is the round, never the second.

use super::estimate::{lag1_autocorrelation, least_trials};
use super::metrics::primary;
use super::signed_rank::{Centre, centre};
use super::{Comparison, Conclusion};
use ebbtide_model::experiment::{Answer, Experiment};
use ebbtide_model::metric::Metric;
use ebbtide_model::workload::Workload;

/// A ratio with its interval, over rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Centre of the rounds' ratios.
    pub ratio: f64,
    /// Interval at the level asked for.
    pub interval: Option<(f64, f64)>,
    /// Rounds it rests on.
    pub rounds: u32,
    /// Correlation of each round's ratio with the one before it, where it is no chance and has widened the interval.
    pub correlation: Option<f64>,
}

/// Each side of a comparison is known within `precision`, so their ratio is within about twice that: an
/// interval of the ratio inside `1 ± EQUIVALENCE * precision` says that no larger difference was seen.
pub const EQUIVALENCE: f64 = 2.0;

/// Widest interval that settles a comparison, of what lies between the two margins: at 1 whatever lies between them would be decided,
/// in more rounds; at 2 fewer differences of 10% are found (docs/explanation/statistics.md, "Comparing designs").
pub const WIDEST: f64 = 1.5;

/// Standard errors (`1 / sqrt(n)`) beyond which a correlation of neighbours is taken for one: by chance once in 20.
const CORRELATED: f64 = 1.645;
/// The largest correlation that is believed: beyond it the rounds are one observation anyway.
const MOST_CORRELATED: f64 = 0.95;

/// What differences matter, as logarithms of ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margins {
    /// Up to this two designs are as good as each other: none is called faster.
    indifference: f64,
    /// An interval within this on both sides says that there is no difference worth more rounds.
    equivalence: f64,
}

impl Margins {
    /// The margins that `answer` asks for.
    pub fn of(answer: &Answer) -> Margins {
        Margins::new(answer.indifference, answer.precision)
    }

    /// The margins of this indifference and this precision, both as shares of 1.
    pub fn new(indifference: f64, precision: f64) -> Margins {
        let equivalence = EQUIVALENCE * precision.max(indifference);
        Margins { indifference: libm::log1p(indifference), equivalence: libm::log1p(equivalence) }
    }

    /// What `ratio` allows to say about `metric`.
    pub fn conclude(self, metric: Metric, ratio: &Ratio) -> Conclusion {
        let Some((low, high)) = logs_of(ratio) else { return Conclusion::Inconclusive };
        match (low > self.indifference, high < -self.indifference) {
            (true, _) if metric.lower_is_better() => Conclusion::Slower,
            (true, _) => Conclusion::Faster,
            (_, true) if metric.lower_is_better() => Conclusion::Faster,
            (_, true) => Conclusion::Slower,
            _ if high <= self.equivalence && low >= -self.equivalence => Conclusion::NoDifference,
            _ => Conclusion::Inconclusive,
        }
    }

    /// Whether `ratio` is known well enough to stop: its interval is narrow enough that one about no difference lies within the
    /// outer margin and one about a difference of the outer margin beyond the inner one ([`WIDEST`]), or it is farther from the inner
    /// margin than it is wide. Which side it lies on plays no part, so that stopping by it favours none.
    pub fn settled(self, ratio: &Ratio) -> bool {
        self.settled_at(ratio, WIDEST)
    }

    /// The same with `widest` in place of [`WIDEST`], for studies of it.
    pub fn settled_at(self, ratio: &Ratio, widest: f64) -> bool {
        let Some((low, high)) = logs_of(ratio) else { return false };
        let width = high - low;
        width <= widest * (self.equivalence - self.indifference) || low.max(-high) > self.indifference + width
    }

    /// About how many rounds would tell on which side of the margins `ratio` lies, if it stays where it is. Its interval narrows as the
    /// root of their number, until it lies beyond the inner margin or within the outer one, whichever is sooner.
    pub fn rounds_to_tell(self, ratio: &Ratio) -> Option<f64> {
        let (low, high) = logs_of(ratio)?;
        let off = ratio.ratio.ln().abs();
        let wanted = 2.0 * (off - self.indifference).max(self.equivalence - off);
        let times = (high - low) / wanted.max(f64::MIN_POSITIVE);
        Some(f64::from(ratio.rounds) * (times * times).max(1.0))
    }

    /// Whether `ratio` is 1 as far as anybody minds: not where it is surely off by more than the indifference margin, and so only
    /// where its interval lies within the outer one. `None` where that cannot be told.
    pub fn same(self, ratio: &Ratio) -> Option<bool> {
        match self.conclude(Metric::Iops, ratio) {
            Conclusion::NoDifference => Some(true),
            Conclusion::Faster | Conclusion::Slower => Some(false),
            Conclusion::Inconclusive | Conclusion::NotJudged => None,
        }
    }
}

fn logs_of(ratio: &Ratio) -> Option<(f64, f64)> {
    ratio.interval.map(|(low, high)| (low.ln(), high.ln()))
}

/// How many comparisons a session's report gives a word: of each design with the control under each workload, by the workload's own
/// metric. Of one design alone, how often the control is asked whether it differs from itself; at least 1.
pub fn family(experiment: &Experiment) -> usize {
    (experiment.designs.len().saturating_sub(1).max(1) * experiment.workloads.len()).max(1)
}

/// The level of each of `family` intervals of which all hold together at `level` (Bonferroni).
pub fn level_of_each(level: f64, family: usize) -> f64 {
    1.0 - (1.0 - level) / family.max(1) as f64
}

/// The least rounds in which `family` comparisons have intervals that hold together at `level`: 6 for one at 95%, 8 for
/// four, 10 for twenty.
pub fn least_rounds(level: f64, family: usize) -> Option<usize> {
    least_trials(level_of_each(level, family))
}

/// The first of `designs` against the second under `asked` by `metric`, over pairs of their figures from the same rounds; `None` without
/// pairs. By the workload's own metric it is held to the level together with the others of the family and gets a word; by the other
/// metrics it is a figure.
pub(crate) fn compared(
    experiment: &Experiment,
    designs: [usize; 2],
    asked: &Workload,
    metric: Metric,
    pairs: &[(f64, f64)],
) -> Option<Comparison> {
    let answer = &experiment.answer;
    let judged = metric == primary(answer, asked);
    let family = if judged { family(experiment) } else { 1 };
    let seen = ratio(pairs, level_of_each(answer.level, family))?;
    let [design, control] = designs.map(|design| experiment.designs[design].name.clone());
    Some(Comparison {
        design,
        control,
        workload: asked.name.clone(),
        metric,
        ratio: seen.ratio,
        interval: seen.interval,
        ci_level: answer.level,
        family,
        correlation: seen.correlation,
        rounds: seen.rounds,
        conclusion: if judged { Margins::of(answer).conclude(metric, &seen) } else { Conclusion::NotJudged },
    })
}

/// The ratio `a / b` over pairs `(a, b)` of the same round, in the order of rounds; `None` without pairs. Pairs with a value that is
/// not positive and finite have no ratio and are left out.
pub fn ratio(pairs: &[(f64, f64)], level: f64) -> Option<Ratio> {
    let logs = logs(pairs);
    let Centre { value, interval } = centre(&logs, level)?;
    let correlation = correlation(&logs);
    // The mean of n values with correlation rho from one to the next varies as that of n (1 - rho) / (1 + rho) independent ones
    // (Bayley and Hammersley 1946).
    let wider = correlation.map_or(1.0, |rho| ((1.0 + rho) / (1.0 - rho)).sqrt());
    let interval = interval
        .map(|(low, high)| ((value - (value - low) * wider).exp(), (value + (high - value) * wider).exp()));
    Some(Ratio { ratio: value.exp(), interval, rounds: logs.len() as u32, correlation })
}

/// The correlation of neighbours, where it is larger than chance makes it.
fn correlation(logs: &[f64]) -> Option<f64> {
    let n = logs.len() as f64;
    // Of n values about their own mean it comes out smaller than it is, for independent ones by 1 / n (Marriott and Pope 1954).
    let rho = lag1_autocorrelation(logs)? + 1.0 / n;
    (rho * n.sqrt() > CORRELATED).then(|| rho.min(MOST_CORRELATED))
}

fn logs(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs
        .iter()
        .filter(|(a, b)| *a > 0.0 && *b > 0.0 && a.is_finite() && b.is_finite())
        .map(|(a, b)| (a / b).ln())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rounds(ratios: &[f64]) -> Vec<(f64, f64)> {
        // The machine is twice as fast in every other round: pairing takes that out.
        ratios
            .iter()
            .zip([1.0, 2.0].into_iter().cycle())
            .map(|(r, speed)| (r * speed * 10.0, speed * 10.0))
            .collect()
    }

    /// What may be said with a precision of 5% and an indifference of 2%.
    fn conclude(metric: Metric, ratio: &Ratio) -> Conclusion {
        margins().conclude(metric, ratio)
    }

    fn margins() -> Margins {
        Margins::of(&Answer { precision: 0.05, indifference: 0.02, ..Answer::once() })
    }

    #[test]
    fn direction_follows_the_metric() {
        let pairs = rounds(&[1.2, 1.3, 1.25, 1.22, 1.28, 1.21]);
        let seen = ratio(&pairs, 0.95).expect("pairs");
        assert!((seen.ratio - 1.235).abs() < 0.01, "{seen:?}");
        assert_eq!(conclude(Metric::Iops, &seen), Conclusion::Faster);
        assert_eq!(conclude(Metric::LatP99, &seen), Conclusion::Slower);
        let inverse: Vec<_> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
        let seen = ratio(&inverse, 0.95).expect("pairs");
        assert_eq!(conclude(Metric::Iops, &seen), Conclusion::Slower);
        assert_eq!(conclude(Metric::LatP50, &seen), Conclusion::Faster);
    }

    #[test]
    fn too_few_or_too_wide_is_inconclusive_and_narrow_is_no_difference() {
        let five = ratio(&rounds(&[1.2, 1.3, 1.25, 1.22, 1.28]), 0.95).expect("pairs");
        assert_eq!(conclude(Metric::Iops, &five), Conclusion::Inconclusive);
        let wide = ratio(&rounds(&[0.7, 1.3, 1.0, 0.9, 1.1, 1.05]), 0.95).expect("pairs");
        assert_eq!(conclude(Metric::Iops, &wide), Conclusion::Inconclusive);
        let narrow = ratio(&rounds(&[0.98, 1.03, 1.0, 0.99, 1.01, 1.02]), 0.95).expect("pairs");
        assert_eq!(conclude(Metric::Iops, &narrow), Conclusion::NoDifference);
    }

    fn with(low: f64, high: f64) -> Ratio {
        Ratio { ratio: (low * high).sqrt(), interval: Some((low, high)), rounds: 9, correlation: None }
    }

    #[test]
    fn faster_is_faster_by_more_than_the_margin() {
        assert_eq!(conclude(Metric::Iops, &with(1.021, 1.2)), Conclusion::Faster);
        assert_eq!(conclude(Metric::Iops, &with(0.8, 0.979)), Conclusion::Slower);
        // Surely faster, but perhaps by no more than anybody minds.
        assert_eq!(conclude(Metric::Iops, &with(1.019, 1.2)), Conclusion::Inconclusive);
        assert_eq!(conclude(Metric::Iops, &with(1.005, 1.05)), Conclusion::NoDifference);
        assert_eq!(margins().same(&with(1.005, 1.05)), Some(true));
        assert_eq!(margins().same(&with(1.03, 1.05)), Some(false));
        assert_eq!(margins().same(&with(0.93, 1.39)), None, "an interval as wide as this tells nothing");
    }

    #[test]
    fn more_comparisons_take_more_rounds() {
        let least = [1, 2, 4, 6, 7, 12, 20].map(|family| least_rounds(0.95, family));
        assert_eq!(least, [6, 7, 8, 8, 9, 9, 10].map(Some));
        assert!((level_of_each(0.95, 4) - 0.9875).abs() < 1e-12);
        assert_eq!(least_rounds(0.75, 1), Some(3));
    }

    #[test]
    fn rounds_that_follow_each_other_widen_the_interval() {
        // The same ratios in two orders: a wave over twelve rounds, and one that turns in each.
        let wave = |step: usize| -> Vec<f64> {
            (0..24)
                .map(|round| 1.06 + 0.04 * libm::sin((round * step) as f64 * std::f64::consts::TAU / 12.0))
                .collect()
        };
        let (slow, mixed) = (wave(1), wave(7));
        let [slow, mixed] = [slow, mixed].map(|ratios| ratio(&rounds(&ratios), 0.95).expect("pairs"));
        let width = |of: &Ratio| of.interval.map(|(low, high)| high.ln() - low.ln()).expect("is there");
        assert!(slow.correlation.is_some_and(|rho| rho > 0.5), "{slow:?}");
        assert_eq!(mixed.correlation, None);
        assert!(width(&slow) > 1.5 * width(&mixed), "{slow:?} {mixed:?}");
    }

    proptest! {
        #[test]
        fn swapping_the_sides_inverts_the_ratio(values in prop::collection::vec((0.1f64..10.0, 0.1f64..10.0), 1..40)) {
            let swapped: Vec<_> = values.iter().map(|(a, b)| (*b, *a)).collect();
            let (one, other) = (ratio(&values, 0.95).expect("pairs"), ratio(&swapped, 0.95).expect("pairs"));
            prop_assert!((one.ratio * other.ratio - 1.0).abs() < 1e-9);
            if let (Some((low, high)), Some((low2, high2))) = (one.interval, other.interval) {
                prop_assert!((low * high2 - 1.0).abs() < 1e-9 && (high * low2 - 1.0).abs() < 1e-9);
            }
        }

        #[test]
        fn as_many_rounds_as_are_said_tell(low in -1.0f64..1.0, width in 0.0f64..2.0, rounds in 6u32..100) {
            let seen = Ratio { rounds, ..with(low.exp(), (low + width).exp()) };
            let needed = margins().rounds_to_tell(&seen).expect("has an interval");
            let (centre, half) = (low + width / 2.0, width / 2.0 * (f64::from(rounds) / needed).sqrt() * (1.0 - 1e-9));
            let then = with((centre - half).exp(), (centre + half).exp());
            prop_assert!(needed >= f64::from(rounds) && conclude(Metric::Iops, &then) != Conclusion::Inconclusive);
        }

        #[test]
        fn no_values_panic(values in prop::collection::vec((any::<f64>(), any::<f64>()), 0..20), level: f64) {
            if let Some(seen) = ratio(&values, level) {
                let _ = (conclude(Metric::Iops, &seen), margins().settled(&seen), margins().same(&seen), margins().rounds_to_tell(&seen));
            }
        }

        #[test]
        fn what_is_settled_is_decided_where_it_is_equal_or_differs(
            low in -1.0f64..1.0, width in 0.0f64..0.5, precision in 0.001f64..0.5, indifference in 0.0f64..0.3
        ) {
            let margins = Margins::of(&Answer { precision, indifference, ..Answer::once() });
            let seen = with(low.exp(), (low + width).exp());
            let (centre, outer, inner) = (low + width / 2.0, margins.equivalence, margins.indifference);
            let equal = centre.abs() <= outer - WIDEST / 2.0 * (outer - inner);
            if margins.settled(&seen) && (equal || centre.abs() >= outer) {
                prop_assert!(margins.conclude(Metric::Iops, &seen) != Conclusion::Inconclusive);
            }
        }
    }
}
