//! From trials to cells: how fast a volume was on a host in a session, and how much that varies from round to round.

use super::observed::Observed;
use crate::between::{alone, dependence};
use crate::estimate::median;
use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::FRAC_PI_2;

/// Passes of the polish; it settles in a few.
const PASSES: usize = 10;
/// A volume whose variance is beyond this multiple of all volumes' is judged by its own: chance alone gives as much to one in twenty
/// with 8 rounds (F distribution with 7 and many degrees of freedom, 2.0 to 2.3).
const OWN: f64 = 2.2;
/// By how much more than a mean a median of few values varies, about (3 to 10 normal values: 1.19 to 1.46).
const MEDIAN_OF_FEW: f64 = 1.35;
/// Beyond this correlation of neighbouring rounds nothing can be made up for by a wider interval.
const MOST_CORRELATED: f64 = 0.95;

/// One volume on one host in one session.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cell {
    pub(super) volume: usize,
    /// Index into [`Cells::visits`].
    pub(super) visit: usize,
    /// Logarithm of its speed: the median of its rounds, mean over loads.
    pub(super) level: f64,
    /// Variance of that, as its rounds tell it.
    pub(super) variance: f64,
    /// Degrees of freedom of the variance; 0 or less where the rounds tell nothing.
    pub(super) freedom: f64,
}

/// A variance and its degrees of freedom.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Variance {
    pub(super) value: f64,
    pub(super) freedom: f64,
}

/// All that rounds say.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Cells {
    /// Session and host of each visit, as indices.
    pub(super) visits: Vec<(usize, usize)>,
    pub(super) cells: Vec<Cell>,
    /// Of a trial, without what its round and its volume explain.
    pub(super) residual: Variance,
    /// Of what the volumes of a host have in common in a round.
    pub(super) rounds: Variance,
    /// Variance of a cell of the usual volume, as rounds tell it: the mean over cells.
    pub(super) usual: f64,
    /// Of neighbouring rounds of a volume.
    pub(super) correlation: f64,
    /// Volumes that were not measured under every load in a visit and are left out of it.
    pub(super) left_out: BTreeSet<usize>,
}

/// What a two-way table by volume and round says.
struct Polished {
    /// Level of each volume.
    levels: Vec<f64>,
    /// Effect of each round.
    times: Vec<f64>,
    /// By volume and round.
    left: Vec<Vec<Option<f64>>>,
}

/// Tukey's median polish (Exploratory Data Analysis, 1977, chapter 10). What is common to a round cannot be seen on a volume
/// alone, and is none there.
fn polish(table: &[Vec<Option<f64>>]) -> Polished {
    let rounds = table.first().map_or(0, Vec::len);
    let mut times = vec![0.0; rounds];
    let mut levels = vec![0.0; table.len()];
    for _ in 0..PASSES {
        for (level, row) in levels.iter_mut().zip(table) {
            let own = row.iter().zip(&times).filter_map(|(value, time)| Some((*value)? - time));
            *level = median(own.collect::<Vec<f64>>()).unwrap_or(0.0);
        }
        if table.len() < 2 {
            break;
        }
        for (round, time) in times.iter_mut().enumerate() {
            let own = table.iter().zip(&levels).filter_map(|(row, level)| Some(row[round]? - level));
            *time = median(own.collect::<Vec<f64>>()).unwrap_or(0.0);
        }
    }
    let left = |(row, level): (&Vec<Option<f64>>, &f64)| {
        row.iter().zip(&times).map(|(value, time)| value.map(|value| value - level - time)).collect()
    };
    Polished { left: table.iter().zip(&levels).map(left).collect(), levels, times }
}

/// A volume in a visit, before it is known what rounds are worth.
struct Rounds {
    volume: usize,
    visit: usize,
    level: f64,
    /// What is left of each round, mean over loads, in the order of rounds.
    left: Vec<f64>,
    /// What squares of `left` are short of, since times are taken from the same trials.
    short: f64,
}

/// The cells of what was observed, under the loads that every visit has.
pub(super) fn cells(observed: &Observed) -> Cells {
    type Tables = BTreeMap<usize, BTreeMap<usize, BTreeMap<u32, Vec<f64>>>>;
    let mut tables: BTreeMap<(usize, usize), Tables> = BTreeMap::new();
    for row in observed.rows.iter().filter(|row| row.speed > 0.0 && row.speed.is_finite()) {
        let of_load = tables.entry((row.session, row.host)).or_default().entry(row.load).or_default();
        let values = of_load.entry(row.volume).or_default().entry(row.round).or_default();
        values.push(row.speed.ln());
    }
    let in_all = |load: &usize| tables.values().all(|visit| visit.contains_key(load));
    let loads: Vec<usize> =
        tables.values().next().map_or_else(Vec::new, |visit| visit.keys().copied().filter(in_all).collect());
    let (mut found, mut all) = (Cells::default(), Vec::new());
    let (mut squares, mut freedom) = (0.0, 0.0);
    let (mut common, mut common_freedom, mut of_common) = (0.0, 0.0, 0.0);
    for ((session, host), visit) in &tables {
        let number = found.visits.len();
        found.visits.push((*session, *host));
        let known: BTreeSet<usize> = visit.values().flat_map(|of| of.keys().copied()).collect();
        let complete = |volume: &usize| loads.iter().all(|load| visit[load].contains_key(volume));
        let (volumes, lacking): (Vec<usize>, Vec<usize>) = known.into_iter().partition(complete);
        found.left_out.extend(lacking);
        if loads.is_empty() || volumes.is_empty() {
            continue;
        }
        let rounds: BTreeSet<u32> =
            loads.iter().flat_map(|load| visit[load].values().flat_map(|of| of.keys().copied())).collect();
        let polished: Vec<Polished> = loads
            .iter()
            .map(|load| {
                let row = |volume: &usize| {
                    let of = &visit[load][volume];
                    rounds.iter().map(|round| of.get(round).map(|values| mean(values))).collect()
                };
                polish(&volumes.iter().map(row).collect::<Vec<_>>())
            })
            .collect();
        let many = volumes.len() as f64;
        let several = volumes.len() > 1;
        for (at, volume) in volumes.iter().enumerate() {
            let levels: Vec<f64> = polished.iter().map(|of| of.levels[at]).collect();
            let left = (0..rounds.len()).filter_map(|round| {
                let of_loads: Vec<f64> = polished.iter().filter_map(|of| of.left[at][round]).collect();
                (!of_loads.is_empty()).then(|| mean(&of_loads))
            });
            let short = if several { many / (many - 1.0) } else { 1.0 };
            let left: Vec<f64> = left.collect();
            all.push(Rounds { volume: *volume, visit: number, level: mean(&levels), left, short });
        }
        if several {
            let own = &all[all.len() - volumes.len()..];
            squares += own.iter().flat_map(|of| &of.left).map(|left| left * left).sum::<f64>();
            let trials: usize = own.iter().map(|of| of.left.len()).sum();
            freedom += (trials + 1).saturating_sub(volumes.len() + rounds.len()) as f64;
            for of in &polished {
                let centre = mean(&of.times);
                common += of.times.iter().map(|time| (time - centre) * (time - centre)).sum::<f64>();
                common_freedom += rounds.len().saturating_sub(1) as f64;
                let excess = if many > 2.0 { MEDIAN_OF_FEW } else { 1.0 };
                of_common += rounds.len().saturating_sub(1) as f64 * excess / many;
            }
        }
    }
    let series: Vec<Vec<f64>> = all.iter().map(|of| of.left.clone()).collect();
    found.correlation = dependence(&series).clamp(0.0, MOST_CORRELATED);
    let residual = if freedom > 0.0 { squares / freedom } else { 0.0 };
    found.residual = Variance { value: residual, freedom };
    if common_freedom > 0.0 {
        // A round's median is off by chance too.
        let by_chance = residual * of_common / common_freedom;
        found.rounds =
            Variance { value: (common / common_freedom - by_chance).max(0.0), freedom: common_freedom };
    }
    let usual = |of: &Rounds| variance_of_median(residual, found.correlation, of.left.len());
    found.usual = mean(&all.iter().map(usual).collect::<Vec<f64>>());
    found.cells = all.iter().map(|of| of.cell(found.residual, found.correlation)).collect();
    found
}

impl Rounds {
    /// The cell, where trials of all volumes have the variance `pooled` and neighbouring rounds correlate. A volume that varies more
    /// than the others is not judged by them.
    fn cell(&self, pooled: Variance, correlation: f64) -> Cell {
        let rounds = self.left.len() as f64;
        let correlation = correlation.max(alone(&self.left)).min(MOST_CORRELATED);
        let inflation = (1.0 + correlation) / (1.0 - correlation);
        let own =
            self.left.iter().map(|left| left * left).sum::<f64>() * self.short / (rounds - 1.0).max(1.0);
        let (variance, freedom) = match own > OWN * pooled.value || pooled.freedom <= 0.0 {
            true => (own, rounds / inflation - 1.0),
            false => (pooled.value, pooled.freedom / inflation),
        };
        let variance = variance_of_median(variance, correlation, self.left.len());
        Cell { volume: self.volume, visit: self.visit, level: self.level, variance, freedom }
    }
}

/// Variance of the median of so many rounds: that of normal values varies by pi / 2 more than their mean, and that of values whose
/// neighbours correlate by `(1 + r) / (1 - r)` more than that of independent ones.
fn variance_of_median(variance: f64, correlation: f64, rounds: usize) -> f64 {
    FRAC_PI_2 * variance * (1.0 + correlation) / (1.0 - correlation) / rounds.max(1) as f64
}

/// The mean of `values`, 0 of none.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::Measured;
    use proptest::prelude::*;

    #[test]
    fn a_stalled_trial_moves_neither_its_round_nor_its_volume() {
        let value = |volume: usize, round: usize| volume as f64 + 10.0 * round as f64;
        let mut table: Vec<Vec<Option<f64>>> =
            (0..5).map(|volume| (0..7).map(|round| Some(value(volume, round))).collect()).collect();
        table[2][3] = Some(-50.0);
        table[4][0] = None;
        let Polished { levels, times, left } = polish(&table);
        for volume in 0..5 {
            assert!((levels[volume] - levels[0] - volume as f64).abs() < 1e-9, "{levels:?}");
        }
        assert!((times[6] - times[0] - 60.0).abs() < 1e-9, "{times:?}");
        assert!(left.iter().flatten().flatten().filter(|left| left.abs() > 1e-9).count() == 1, "{left:?}");
    }

    proptest! {
        #[test]
        fn levels_of_trials_without_noise_are_their_volumes(
            speeds in prop::collection::vec(0.5f64..2.0, 1..7), times in prop::collection::vec(0.5f64..2.0, 1..9)
        ) {
            let rows = (0..speeds.len()).flat_map(|volume| {
                let speed = speeds[volume];
                times.iter().zip(0..).map(move |(time, round)| Measured {
                    volume, host: 0, session: 0, round, load: 0, speed: speed * time,
                })
            });
            let observed = Observed { rows: rows.collect(), ..Observed::default() };
            let found = cells(&observed);
            prop_assert_eq!(found.cells.len(), speeds.len());
            for cell in &found.cells {
                let difference = cell.level - found.cells[0].level;
                prop_assert!((difference - (speeds[cell.volume] / speeds[0]).ln()).abs() < 1e-9);
            }
            prop_assert!(found.residual.value < 1e-18);
        }
    }
}
