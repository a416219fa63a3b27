//! Ratios between two sets of trials that were not run side by side: of two sessions, or of two designs of one session.
//!
//! Trials of different sessions have nothing in common by which they could be paired, so each trial of one is set against each of
//! the other: the ratio is the Hodges-Lehmann shift of the logarithms, its interval that of the Mann-Whitney test, exact for few
//! trials. Where both ran in the same rounds, rounds are paired as in [`compare`](mod@crate::compare). Both ask how many differences
//! lie on one side of a bound; only the distribution of that number is another one ([`Shift`]).
//!
//! [`compare`] asks many such questions at once and keeps the whole family of its claims to one error (Holm). docs/explanation/statistics.md derives
//! it and shows by simulation what it holds.

use super::Conclusion;
use super::estimate::{lag1_autocorrelation, median_of_sorted};
use super::signed_rank::{self, averages, chances};
use ebbtide_model::metric::Metric;
use ebbtide_model::volume::normal_quantile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Up to this many pairs of trials the distribution of the Mann-Whitney count is counted out; beyond, its normal approximation is used,
/// whose tails are heavier (a test of this module).
const EXACT_PAIRS: usize = 2_500;
/// Beyond this correlation of neighbours nothing can be made up for by a wider interval.
const MOST_CORRELATED: f64 = 0.95;
/// Trials from which one series can tell by itself that its neighbours correlate, and by how many standard errors.
const ALONE_LEAST: usize = 12;
const ALONE_ERRORS: f64 = 3.0;
/// Standard normal quantile of 80%, the power at which a difference counts as one that would have shown.
const POWER_QUANTILE: f64 = 0.841_621_234;

/// By how much one set of trials is above another, in logarithms: all differences, and how many of them chance puts below the truth.
#[derive(Debug, Clone, PartialEq)]
pub struct Shift {
    /// Differences of logarithms, second less first, ascending; of pairs the means of two of them.
    differences: Vec<f64>,
    /// Probability that at most so many differences lie below the truth.
    at_most: Vec<f64>,
    /// By how much the variance of that number is larger than among independent trials, at least 1.
    inflation: f64,
}

impl Shift {
    /// Of the values `b` over the values `a`, which were measured apart from each other; none when either side has no value that is
    /// positive and finite.
    pub fn apart(a: &[f64], b: &[f64]) -> Option<Shift> {
        let (a, b) = (logs(a), logs(b));
        let differences = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
        Shift::of(differences, mann_whitney(a.len(), b.len()))
    }

    /// Of `b` over `a` in pairs `(a, b)` that ran in the same round, by their signed ranks as a session's own comparisons.
    pub fn paired(pairs: &[(f64, f64)]) -> Option<Shift> {
        let logs = paired_logs(pairs);
        let rounds = logs.len();
        if rounds > signed_rank::MOST {
            return Shift::of(logs, sign(rounds));
        }
        Shift::of(averages(&logs), cumulated(chances(rounds, rounds * (rounds + 1) / 2)))
    }

    fn of(mut differences: Vec<f64>, at_most: Vec<f64>) -> Option<Shift> {
        differences.sort_by(f64::total_cmp);
        (!differences.is_empty()).then_some(Shift { differences, at_most, inflation: 1.0 })
    }

    /// The same where neighbouring trials correlate with `correlation`: the variance of what is counted grows as that of a mean does,
    /// by `(1 + r) / (1 - r)` (Serfling, Annals of Mathematical Statistics 39, 1968, for this test on dependent samples).
    pub fn correlated(self, correlation: f64) -> Shift {
        let r = correlation.clamp(0.0, MOST_CORRELATED);
        Shift { inflation: (1.0 + r) / (1.0 - r), ..self }
    }

    /// The estimate: the median of the differences.
    pub fn estimate(&self) -> f64 {
        median_of_sorted(&self.differences).unwrap_or(0.0)
    }

    /// The interval at `level`; none where even all differences together do not reach it.
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        let tail = (1.0 - level) / 2.0;
        let rank =
            (0..self.differences.len().div_ceil(2)).take_while(|&below| self.chance(below) <= tail).last()?;
        Some((self.differences[rank], self.differences[self.differences.len() - 1 - rank]))
    }

    /// Chance of differences as high as these if the truth were not above `bound`.
    pub fn p_above(&self, bound: f64) -> f64 {
        self.chance(self.differences.partition_point(|difference| *difference <= bound))
    }

    /// Chance of differences as low as these if the truth were not below `bound`.
    pub fn p_below(&self, bound: f64) -> f64 {
        self.chance(
            self.differences.len() - self.differences.partition_point(|difference| *difference < bound),
        )
    }

    /// Chance that at most `count` differences are on one side of the truth, widened for trials that depend on each other.
    fn chance(&self, count: usize) -> f64 {
        let independent = self.at_most.get(count).copied().unwrap_or(1.0).min(1.0);
        if self.inflation == 1.0 || independent <= 0.0 || independent >= 1.0 {
            return independent;
        }
        normal_below(normal_quantile(independent) / self.inflation.sqrt())
    }
}

fn logs(values: &[f64]) -> Vec<f64> {
    values.iter().filter(|v| **v > 0.0 && v.is_finite()).map(|v| v.ln()).collect()
}

fn paired_logs(pairs: &[(f64, f64)]) -> Vec<f64> {
    let usable = |v: &f64| *v > 0.0 && v.is_finite();
    pairs.iter().filter(|(a, b)| usable(a) && usable(b)).map(|(a, b)| b.ln() - a.ln()).collect()
}

/// Probability that a standard normal number is below `z`.
fn normal_below(z: f64) -> f64 {
    0.5 * libm::erfc(-z / std::f64::consts::SQRT_2)
}

/// Chance that at most 0, 1, 2, ... of the `n * m` differences lie below the true shift (Mann and Whitney 1947): each of the
/// `C(n+m, n)` orders of the trials is as likely as any other.
fn mann_whitney(n: usize, m: usize) -> Vec<f64> {
    let pairs = n.saturating_mul(m);
    if pairs > EXACT_PAIRS {
        let sigma = (pairs as f64 * (n + m + 1) as f64 / 12.0).sqrt();
        return (0..=pairs).map(|u| normal_below((u as f64 + 0.5 - pairs as f64 / 2.0) / sigma)).collect();
    }
    // Share of the orders of i and j trials with u inversions: the last trial is of the one kind with probability i / (i + j) and
    // then adds none, or of the other and adds i. Only products and sums of shares, so that nothing cancels.
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0]; m + 1];
    for i in 1..=n {
        for j in 1..=m {
            let (total, to) = ((i + j) as f64, i * j + 1);
            let (above, left) = (&rows[j], &rows[j - 1]);
            let share = |u: usize| {
                let of_first = u.checked_sub(j).and_then(|rest| above.get(rest)).copied().unwrap_or(0.0);
                let of_second = left.get(u).copied().unwrap_or(0.0);
                (of_first * i as f64 + of_second * j as f64) / total
            };
            rows[j] = (0..to).map(share).collect();
        }
    }
    cumulated(rows.swap_remove(m))
}

/// Chance that at most 0, 1, 2, ... of `rounds` differences lie below their median: binomial with probability 1/2.
fn sign(rounds: usize) -> Vec<f64> {
    let n = rounds as f64;
    let share = |k: usize| {
        let k = k as f64;
        let ways = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
        (ways - n * std::f64::consts::LN_2).exp()
    };
    cumulated((0..=rounds).map(share).collect())
}

fn cumulated(mut shares: Vec<f64>) -> Vec<f64> {
    let mut sum = 0.0;
    for share in &mut shares {
        sum += *share;
        // Sums of exact shares are off in their last digits; a bound that is met exactly must count as met.
        *share = sum * (1.0 - 1e-12);
    }
    shares
}

/// Holm's adjusted chances (Scandinavian Journal of Statistics 6, 1979): what is at most `error` afterwards may be claimed together, and
/// any of it is wrong with a probability of at most `error`, however the rows depend on one another.
pub fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut adjusted = vec![1.0; chances.len()];
    let mut most = 0.0f64;
    for (rank, index) in order.into_iter().enumerate() {
        most = most.max(chances[index] * (chances.len() - rank) as f64).min(1.0);
        adjusted[index] = most;
    }
    adjusted
}

/// How much neighbouring trials of these series (each in the order in which it ran) depend on one another, taken together: the mean of
/// their correlations, each corrected for its bias of `-1 / n` (Marriott and Pope, Biometrika 41, 1954), and 0 where it is within
/// one standard error of that.
pub(crate) fn dependence(series: &[Vec<f64>]) -> f64 {
    let (mut sum, mut trials) = (0.0, 0.0);
    for logs in series {
        let Some(correlation) = lag1_autocorrelation(logs) else { continue };
        let n = logs.len() as f64;
        sum += n * correlation + 1.0;
        trials += n;
    }
    let mean = if trials > 0.0 { sum / trials } else { 0.0 };
    if mean * trials.sqrt() > 1.0 { mean } else { 0.0 }
}

/// The same of one series that is long enough to tell by itself, and tells.
pub(crate) fn alone(logs: &[f64]) -> f64 {
    let n = logs.len() as f64;
    let correlation = lag1_autocorrelation(logs).unwrap_or(0.0);
    if logs.len() >= ALONE_LEAST && correlation * n.sqrt() >= ALONE_ERRORS {
        correlation + 1.0 / n
    } else {
        0.0
    }
}

/// From which difference on a change counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// Level of the intervals, and of all claims together, in (0, 1).
    pub level: f64,
    /// Ratio, less 1, within which nothing is called faster or slower, for example 0.02.
    pub indifference: f64,
    /// Ratio, less 1, beyond which what is worse is a regression, at least `indifference` and less than 1.
    pub threshold: f64,
}

/// The trials of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Trials {
    /// Values of the first and of the second, in the order in which they ran, apart from each other.
    Apart(Vec<f64>, Vec<f64>),
    /// Values of both, round by round.
    Paired(Vec<(f64, f64)>),
}

impl Trials {
    /// Logarithms whose neighbours ran one after the other: of each side, or of the ratios.
    fn series(&self) -> Vec<Vec<f64>> {
        match self {
            Trials::Apart(a, b) => vec![logs(a), logs(b)],
            Trials::Paired(pairs) => vec![paired_logs(pairs)],
        }
    }
}

/// One question of the family: the second set of trials by the first.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The figure that is asked about.
    pub metric: Metric,
    /// What was measured of it.
    pub trials: Trials,
    /// Rows with the same number come from the same two sessions: how far their neighbouring trials correlate is estimated together.
    pub source: usize,
}

/// Whether a row lets a gate pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// It is not worse by more than the threshold.
    Pass,
    /// It may be or not.
    Undecided,
    /// It is worse by more than the threshold.
    Regression,
}

/// What may be said to a [`Question`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answered {
    /// Second by first; absent where either measured nothing.
    pub ratio: Option<f64>,
    /// Its interval at the level asked for; absent where there are too few trials for one.
    pub interval: Option<(f64, f64)>,
    /// Chance of such trials if the difference were within the indifference margin, two-sided, of all rows together (Holm).
    pub p: f64,
    /// Faster and slower: by more than the margin, as sure as the level says for all rows together. No difference: the interval lies
    /// within the threshold on both sides.
    pub conclusion: Conclusion,
    /// Whether it is a regression, as sure as the level says for all rows together; it passes by its interval alone, since all rows
    /// must.
    pub gate: Gate,
    /// Ratio, less 1, from which on a difference would have been called one in 80 of 100 such comparisons; absent where none would,
    /// however large.
    pub detectable: Option<f64>,
    /// Correlation of neighbouring trials for which the interval is wider, 0 where there is none.
    pub correlation: f64,
}

impl Answered {
    /// How far from 1 the interval reaches: the bound of "as fast as".
    pub fn bound(&self) -> Option<f64> {
        self.interval.map(|(low, high)| (1.0 - low).max(high - 1.0).max(0.0))
    }
}

/// What may be said to all of `questions` together: at most `1 - level` of such families hold a false "faster", "slower" or regression.
pub fn compare(questions: &[Question], bounds: Bounds) -> Vec<Answered> {
    let error = 1.0 - bounds.level;
    let pooled = correlations(questions);
    let shifts: Vec<(Option<Shift>, f64)> =
        questions.iter().map(|q| shift(q, pooled.get(&q.source).copied().unwrap_or(0.0))).collect();
    let ln = |ratio: f64| ratio.max(f64::MIN_POSITIVE).ln();
    let beyond = |shift: &Shift, by: f64| (shift.p_above(ln(1.0 + by)), shift.p_below(ln(1.0 - by)));
    let either = shifts.iter().map(|(shift, _)| {
        shift.as_ref().map_or(1.0, |s| {
            let (above, below) = beyond(s, bounds.indifference);
            (2.0 * above.min(below)).min(1.0)
        })
    });
    let worse = shifts.iter().zip(questions).map(|((shift, _), question)| {
        shift.as_ref().map_or(1.0, |s| {
            let (above, below) = beyond(s, bounds.threshold);
            (2.0 * if question.metric.lower_is_better() { above } else { below }).min(1.0)
        })
    });
    let (either, worse) = (holm(&either.collect::<Vec<f64>>()), holm(&worse.collect::<Vec<f64>>()));
    let rows = questions.len().max(1) as f64;
    questions
        .iter()
        .zip(shifts)
        .zip(either.into_iter().zip(worse))
        .map(|((question, (shift, correlation)), (p, p_worse))| {
            let Some(shift) = shift else { return Answered::nothing(correlation) };
            let ratio = shift.estimate().exp();
            let interval = shift.interval(bounds.level).map(|(low, high)| (low.exp(), high.exp()));
            let different = p <= error;
            Answered {
                ratio: Some(ratio),
                interval,
                p,
                conclusion: conclusion(question.metric, ratio, interval, different, bounds.threshold),
                gate: gate(question.metric, interval, p_worse <= error, bounds.threshold),
                detectable: detectable(&shift, 1.0 - error / rows, bounds.indifference),
                correlation,
            }
        })
        .collect()
}

impl Answered {
    /// Nothing is known of the difference; see [`correlation`](Answered::correlation).
    pub fn nothing(correlation: f64) -> Answered {
        Answered {
            ratio: None,
            interval: None,
            p: 1.0,
            conclusion: Conclusion::Inconclusive,
            gate: Gate::Undecided,
            detectable: None,
            correlation,
        }
    }
}

/// How far neighbouring trials correlate in the questions of each source, taken together.
fn correlations(questions: &[Question]) -> BTreeMap<usize, f64> {
    let mut series: BTreeMap<usize, Vec<Vec<f64>>> = BTreeMap::new();
    for question in questions {
        series.entry(question.source).or_default().extend(question.trials.series());
    }
    series.into_iter().map(|(source, series)| (source, dependence(&series))).collect()
}

/// The shift of a question, wider where trials correlate, and the correlation.
fn shift(question: &Question, pooled: f64) -> (Option<Shift>, f64) {
    let shift = match &question.trials {
        Trials::Apart(a, b) => Shift::apart(a, b),
        Trials::Paired(pairs) => Shift::paired(pairs),
    };
    let own = question.trials.series().iter().map(|series| alone(series)).fold(pooled, f64::max);
    let correlation = own.clamp(0.0, MOST_CORRELATED);
    (shift.map(|shift| shift.correlated(correlation)), correlation)
}

fn conclusion(
    metric: Metric,
    ratio: f64,
    interval: Option<(f64, f64)>,
    different: bool,
    threshold: f64,
) -> Conclusion {
    match interval {
        Some(_) if different && (ratio > 1.0) != metric.lower_is_better() => Conclusion::Faster,
        Some(_) if different => Conclusion::Slower,
        Some((low, high)) if low >= 1.0 - threshold && high <= 1.0 + threshold => Conclusion::NoDifference,
        _ => Conclusion::Inconclusive,
    }
}

fn gate(metric: Metric, interval: Option<(f64, f64)>, regression: bool, threshold: f64) -> Gate {
    match interval {
        Some(_) if regression => Gate::Regression,
        Some((_, high)) if metric.lower_is_better() && high <= 1.0 + threshold => Gate::Pass,
        Some((low, _)) if !metric.lower_is_better() && low >= 1.0 - threshold => Gate::Pass,
        _ => Gate::Undecided,
    }
}

/// The difference beyond the margin that shows in 80 of 100: the distance at which a test at `level` gives it up, and the quantile of
/// 80% more, both in standard errors as this interval shows them.
fn detectable(shift: &Shift, level: f64, indifference: f64) -> Option<f64> {
    let (low, high) = shift.interval(level)?;
    let reach = (shift.estimate() - low).max(high - shift.estimate());
    let quantile = normal_quantile(1.0 - (1.0 - level) / 2.0);
    Some(((1.0 + indifference).ln() + reach * (1.0 + POWER_QUANTILE / quantile)).exp_m1())
}

#[cfg(test)]
#[path = "between_tests.rs"]
mod tests;
