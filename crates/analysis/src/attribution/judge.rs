//! Effects of volumes and of hosts with their intervals, and whom they accuse.

use super::cells::{Cell, Cells, Variance, mean};
use super::distribution::student_beyond;
use super::fit::Part;
use super::observed::Observed;
use super::outcome::{Basis, Bounds, Effect, Finding};
use super::spread::Spread;
use std::collections::{BTreeMap, BTreeSet};

/// Degrees of freedom from which the differences between sessions and hosts say how sure the effects of volumes are.
const LEAST_FREEDOM: f64 = 4.0;
/// Sessions of a host before it may be accused: less could be one bad day.
const LEAST_VISITS: usize = 2;
/// A cell with less weight than this in a contrast has none but by rounding.
const NO_WEIGHT: f64 = 1e-9;

/// How sure each cell is.
pub(super) struct Errors {
    /// Variance of each cell of the table.
    cells: Vec<Variance>,
    pub(super) basis: Basis,
}

impl Errors {
    pub(super) fn of(cells: &Cells, parts: &[Part]) -> Errors {
        let freedom: f64 = parts.iter().map(Part::freedom).sum();
        let rounds = |cell: &Cell| Variance { value: cell.variance, freedom: cell.freedom };
        let mut errors: Vec<Variance> = cells.cells.iter().map(rounds).collect();
        if freedom < LEAST_FREEDOM {
            return Errors { cells: errors, basis: Basis::Rounds };
        }
        let left: Vec<(usize, f64)> =
            parts.iter().flat_map(|part| part.cells.iter().copied().zip(part.left(&cells.cells))).collect();
        let pooled = left.iter().map(|(_, left)| left * left).sum::<f64>() / freedom;
        let mut own: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for (cell, left) in &left {
            let (sum, number) = own.entry(cells.cells[*cell].volume).or_default();
            *sum += left * left;
            *number += 1.0;
        }
        for (error, cell) in errors.iter_mut().zip(&cells.cells) {
            let (sum, number) = own.get(&cell.volume).copied().unwrap_or_default();
            let own = if number > 1.0 { sum / (number - 1.0) } else { 0.0 };
            // A volume that varies more than the others is not judged by them, and sessions do not differ less than rounds make them.
            *error = Variance { value: pooled.max(own).max(cells.usual), freedom };
        }
        Errors { cells: errors, basis: Basis::Sessions }
    }

    /// The variance of the contrast of `part` with these weights of its cells; the fewest degrees of freedom of any of them.
    fn contrast(&self, part: &Part, weights: &[f64]) -> Variance {
        let mut found = Variance { value: 0.0, freedom: f64::INFINITY };
        for (cell, weight) in part.cells.iter().zip(weights).filter(|(_, weight)| weight.abs() > NO_WEIGHT) {
            let Variance { value, freedom } = self.cells[*cell];
            found.value += weight * weight * value;
            found.freedom = found.freedom.min(freedom);
        }
        found
    }
}

/// How much each varies.
pub(super) struct Spreads {
    pub(super) volumes: Option<Spread>,
    pub(super) hosts: Option<Spread>,
    pub(super) sessions: Option<Spread>,
}

/// A contrast with what is known of its error.
struct Contrast {
    value: f64,
    error: Variance,
}

impl Contrast {
    /// The interval of which `tail` is beyond either end; nothing where no error is known.
    fn interval(&self, tail: f64) -> Option<(f64, f64)> {
        let half = student_beyond(tail, self.error.freedom)? * self.error.value.max(0.0).sqrt();
        half.is_finite().then_some((self.value - half, self.value + half))
    }
}

/// What there is to say of one.
struct Said {
    contrast: Option<Contrast>,
    visits: u32,
    others: u32,
}

/// Judges volumes and hosts.
pub(super) struct Judge<'a> {
    observed: &'a Observed,
    cells: &'a Cells,
    parts: &'a [Part],
    errors: &'a Errors,
    /// The part in which hosts are compared, and the positions of each host's visits in it.
    hosts: Option<(&'a Part, BTreeMap<usize, Vec<usize>>)>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(
        observed: &'a Observed,
        cells: &'a Cells,
        parts: &'a [Part],
        errors: &'a Errors,
    ) -> Judge<'a> {
        let hosts = |part: &'a Part| (part, hosts_of(part, cells));
        let most = |(_, hosts): &(&Part, BTreeMap<usize, Vec<usize>>)| std::cmp::Reverse(hosts.len());
        let hosts = parts.iter().map(hosts).min_by_key(most);
        Judge { observed, cells, parts, errors, hosts }
    }

    /// All volumes and all hosts.
    pub(super) fn effects(&self, bounds: Bounds) -> (Vec<Effect>, Vec<Effect>) {
        let volumes: Vec<Said> = self.volumes();
        let hosts: Vec<Said> = (0..self.observed.hosts.len()).map(|host| self.host(host)).collect();
        let judged = volumes.iter().chain(&hosts).filter(|said| said.contrast.is_some()).count();
        let tail = (1.0 - bounds.level) / 2.0 / judged.max(1) as f64;
        let effect = |(name, said): (&String, Said)| {
            let interval = said.contrast.as_ref().and_then(|contrast| contrast.interval(tail));
            let interval = interval.map(|(low, high)| (low.exp(), high.exp()));
            let least = 1.0 - bounds.margin;
            let finding = match interval {
                None => Finding::Untold,
                Some((_, high)) if high < least => Finding::Accused,
                Some((low, _)) if low > least => Finding::Cleared,
                Some(_) => Finding::Open,
            };
            Effect {
                name: name.clone(),
                effect: said.contrast.map(|contrast| contrast.value.exp()),
                ci_low: interval.map(|(low, _)| low),
                ci_high: interval.map(|(_, high)| high),
                accused: finding == Finding::Accused,
                finding,
                visits: said.visits,
                others: said.others,
            }
        };
        let names = self.observed.volumes.iter().map(|volume| &volume.name);
        (
            names.zip(volumes).map(effect).collect(),
            self.observed.hosts.iter().zip(hosts).map(effect).collect(),
        )
    }

    fn volumes(&self) -> Vec<Said> {
        let nothing = || Said { contrast: None, visits: 0, others: 0 };
        let mut said: Vec<Said> = self.observed.volumes.iter().map(|_| nothing()).collect();
        for cell in &self.cells.cells {
            said[cell.volume].visits += 1;
        }
        for part in self.parts {
            for kind in self.kinds(part) {
                // In the order of their effects, so that the median of the others is at hand.
                let mut order = kind.clone();
                order.sort_by(|a, b| part.of_volumes[*a].total_cmp(&part.of_volumes[*b]));
                for (rank, place) in order.iter().enumerate() {
                    let others = order.len() - 1;
                    let of_volume = &mut said[part.volumes[*place]];
                    of_volume.others = others as u32;
                    if others == 0 {
                        continue;
                    }
                    let mut weights = vec![0.0; part.volumes.len()];
                    weights[*place] = 1.0;
                    // The others in order are all in order but this one.
                    let other = |at: usize| order[at + usize::from(at >= rank)];
                    let typical =
                        median_for(part.of_volumes[*place], others, |at| part.of_volumes[other(at)]);
                    weights[other(typical)] = -1.0;
                    let value = weights.iter().zip(&part.of_volumes).map(|(weight, own)| weight * own).sum();
                    let of_cells = part.weights(&weights, &vec![0.0; part.visits.len()]);
                    let error = self.errors.contrast(part, &of_cells);
                    of_volume.contrast = Some(Contrast { value, error });
                }
            }
        }
        said
    }

    /// The positions of the volumes of `part` that may be compared with each other.
    fn kinds(&self, part: &Part) -> Vec<Vec<usize>> {
        let mut kinds: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (place, volume) in part.volumes.iter().enumerate() {
            kinds.entry(&self.observed.volumes[*volume].kind).or_default().push(place);
        }
        kinds.into_values().collect()
    }

    fn host(&self, host: usize) -> Said {
        let sessions: BTreeSet<usize> =
            self.cells.visits.iter().filter(|(_, of)| *of == host).map(|(session, _)| *session).collect();
        let mut said = Said { contrast: None, visits: sessions.len() as u32, others: 0 };
        let Some((part, hosts)) = &self.hosts else { return said };
        let Some(own) = hosts.get(&host) else { return said };
        let mut others: Vec<(f64, &Vec<usize>)> = hosts
            .iter()
            .filter(|(other, _)| **other != host)
            .map(|(_, visits)| (of_host(part, visits), visits))
            .collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0));
        said.others = others.len() as u32;
        if others.is_empty() {
            return said;
        }
        let mut weights = vec![0.0; part.visits.len()];
        let mut add = |visits: &Vec<usize>, share: f64| {
            visits.iter().for_each(|visit| weights[*visit] += share / visits.len() as f64);
        };
        let typical = others[median_for(of_host(part, own), others.len(), |at| others[at].0)].1;
        add(own, 1.0);
        add(typical, -1.0);
        let least_visits = own.len().min(typical.len());
        let varies = self.sessions_of(part, own).max(self.sessions_of(part, typical));
        let value = weights.iter().zip(&part.of_visits).map(|(weight, own)| weight * own).sum();
        let of_cells = part.weights(&vec![0.0; part.volumes.len()], &weights);
        let by_cells = self.errors.contrast(part, &of_cells);
        let pooled = self.sessions();
        let by_sessions =
            pooled.value.max(varies) * weights.iter().map(|weight| weight * weight).sum::<f64>();
        let error = match least_visits >= LEAST_VISITS {
            false => Variance::default(),
            true if by_sessions >= by_cells.value => Variance { value: by_sessions, freedom: pooled.freedom },
            true => by_cells,
        };
        said.contrast = Some(Contrast { value, error });
        said
    }

    /// How much the visits of one host differ.
    fn sessions_of(&self, part: &Part, visits: &[usize]) -> f64 {
        let centre = of_host(part, visits);
        let squares: f64 = visits
            .iter()
            .map(|visit| (part.of_visits[*visit] - centre) * (part.of_visits[*visit] - centre))
            .sum();
        squares / visits.len().saturating_sub(1).max(1) as f64
    }

    /// How much visits of the same host differ, where hosts are compared.
    fn sessions(&self) -> Variance {
        let Some((part, hosts)) = &self.hosts else { return Variance::default() };
        let freedom: usize = hosts.values().map(|visits| visits.len() - 1).sum();
        let squares = hosts.values().map(|visits| self.sessions_of(part, visits) * (visits.len() - 1) as f64);
        Variance { value: squares.sum::<f64>() / freedom.max(1) as f64, freedom: freedom as f64 }
    }

    /// How much volumes, hosts and sessions vary, without the error with which each is known.
    pub(super) fn spreads(&self) -> Spreads {
        let (mut squares, mut freedom, mut error, mut count) = (0.0, 0.0, 0.0, 0.0);
        for part in self.parts {
            for kind in self.kinds(part).into_iter().filter(|kind| kind.len() > 1) {
                let number = kind.len() as f64;
                let centre = mean(&kind.iter().map(|place| part.of_volumes[*place]).collect::<Vec<f64>>());
                for place in &kind {
                    let off = part.of_volumes[*place] - centre;
                    squares += off * off;
                    let mut weights = vec![0.0; part.volumes.len()];
                    kind.iter().for_each(|other| weights[*other] = -1.0 / number);
                    weights[*place] += 1.0;
                    let of_cells = part.weights(&weights, &vec![0.0; part.visits.len()]);
                    error += self.errors.contrast(part, &of_cells).value * number / (number - 1.0);
                    count += 1.0;
                }
                freedom += number - 1.0;
            }
        }
        let volumes = Variance { value: squares / f64::max(freedom, 1.0), freedom };
        let volumes = Spread::without(volumes, error / f64::max(count, 1.0));
        let sessions = self.sessions();
        let (hosts, of_sessions) = match &self.hosts {
            None => (None, None),
            Some((part, hosts)) => {
                let effects: Vec<f64> = hosts.values().map(|visits| of_host(part, visits)).collect();
                let centre = mean(&effects);
                let freedom = effects.len().saturating_sub(1) as f64;
                let squares: f64 = effects.iter().map(|own| (own - centre) * (own - centre)).sum();
                let seen = Variance { value: squares / freedom.max(1.0), freedom };
                let each: Vec<f64> = hosts.values().map(|visits| 1.0 / visits.len() as f64).collect();
                let between = Spread::without(seen, sessions.value * mean(&each));
                (between, Spread::without(sessions, self.error_of_visits(part)))
            }
        };
        Spreads { volumes, hosts, sessions: of_sessions }
    }

    /// With what variance a visit's level is known, for its volumes alone: the mean over visits.
    fn error_of_visits(&self, part: &Part) -> f64 {
        let number = part.visits.len();
        let each = |visit: usize| {
            let mut weights = vec![-1.0 / number as f64; number];
            weights[visit] += 1.0;
            let of_cells = part.weights(&vec![0.0; part.volumes.len()], &weights);
            self.errors.contrast(part, &of_cells).value * number as f64 / (number - 1).max(1) as f64
        };
        mean(&(0..number).map(each).collect::<Vec<f64>>())
    }
}

/// The positions of each host's visits in `part`.
pub(super) fn hosts_of(part: &Part, cells: &Cells) -> BTreeMap<usize, Vec<usize>> {
    let mut hosts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, visit) in part.visits.iter().enumerate() {
        hosts.entry(cells.visits[*visit].1).or_default().push(place);
    }
    hosts
}

/// The effect of a host with these visits.
fn of_host(part: &Part, visits: &[usize]) -> f64 {
    mean(&visits.iter().map(|visit| part.of_visits[*visit]).collect::<Vec<f64>>())
}

/// Which of `others` in ascending order, one or more, is the median of the others for one of this `value`: of two in the middle the
/// nearer one, so that one that is uncommonly fast makes nobody slow.
fn median_for(value: f64, others: usize, of: impl Fn(usize) -> f64) -> usize {
    let above = others / 2;
    match others % 2 {
        0 if (value - of(above - 1)).abs() <= (value - of(above)).abs() => above - 1,
        _ => above,
    }
}
