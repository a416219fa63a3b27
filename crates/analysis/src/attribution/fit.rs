//! Least squares of volume and visit on cells: volumes are compared within visits, visits by the volumes that they share.

use super::cells::{Cell, mean};
use crate::factors::inverse;

/// Volumes and visits that are linked by cells, and what they add up of.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Indices of its volumes, ascending.
    pub(super) volumes: Vec<usize>,
    /// Indices of its visits, ascending.
    pub(super) visits: Vec<usize>,
    /// Indices of its cells.
    pub(super) cells: Vec<usize>,
    /// Effect of each of `volumes`; only differences have a meaning.
    pub(super) of_volumes: Vec<f64>,
    /// Effect of each of `visits`; only differences have a meaning.
    pub(super) of_visits: Vec<f64>,
    /// Inverse of the normal equations of visits, the volumes eliminated, made regular by the mean of all effects being 0.
    inverse: Vec<Vec<f64>>,
    /// Each cell's volume and visit, by their positions here.
    places: Vec<(usize, usize)>,
    /// Cells of each volume.
    counts: Vec<f64>,
}

/// The parts that nothing links, the one with the most cells first.
pub(super) fn parts(cells: &[Cell], volumes: usize, visits: usize) -> Vec<Part> {
    // Volumes, then visits: each knows one that it is linked to, nearer to the first of its part.
    let mut leader: Vec<usize> = (0..volumes + visits).collect();
    fn first(leader: &mut [usize], mut node: usize) -> usize {
        while leader[node] != node {
            leader[node] = leader[leader[node]];
            node = leader[node];
        }
        node
    }
    for cell in cells {
        let (one, other) = (first(&mut leader, cell.volume), first(&mut leader, volumes + cell.visit));
        leader[one.max(other)] = one.min(other);
    }
    let mut of_leader: std::collections::BTreeMap<usize, Vec<usize>> = std::collections::BTreeMap::new();
    for (index, cell) in cells.iter().enumerate() {
        of_leader.entry(first(&mut leader, cell.volume)).or_default().push(index);
    }
    let mut parts: Vec<Part> = of_leader.into_values().filter_map(|own| Part::of(cells, own)).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.cells.len()));
    parts
}

impl Part {
    fn of(all: &[Cell], cells: Vec<usize>) -> Option<Part> {
        let distinct = |of: fn(&Cell) -> usize| {
            let mut found: Vec<usize> = cells.iter().map(|cell| of(&all[*cell])).collect();
            found.sort_unstable();
            found.dedup();
            found
        };
        let (volumes, visits) = (distinct(|cell| cell.volume), distinct(|cell| cell.visit));
        let place = |cell: &usize| {
            let Cell { volume, visit, .. } = &all[*cell];
            Some((volumes.binary_search(volume).ok()?, visits.binary_search(visit).ok()?))
        };
        let places: Vec<(usize, usize)> = cells.iter().map(place).collect::<Option<_>>()?;
        let mut of_volume: Vec<Vec<usize>> = vec![Vec::new(); volumes.len()];
        places.iter().enumerate().for_each(|(at, (volume, _))| of_volume[*volume].push(at));
        let counts: Vec<f64> = of_volume.iter().map(|own| own.len() as f64).collect();
        let level = |at: usize| all[cells[at]].level;
        let number = visits.len();
        let mut matrix = vec![vec![1.0 / number as f64; number]; number];
        let mut right = vec![0.0; number];
        for own in &of_volume {
            let centre = mean(&own.iter().map(|at| level(*at)).collect::<Vec<f64>>());
            for at in own {
                let visit = places[*at].1;
                right[visit] += level(*at) - centre;
                matrix[visit][visit] += 1.0;
                own.iter().for_each(|other| matrix[visit][places[*other].1] -= 1.0 / own.len() as f64);
            }
        }
        let inverse = inverse(matrix)?;
        let of_visits = times(&inverse, &right);
        let effect = |own: &Vec<usize>| {
            mean(&own.iter().map(|at| level(*at) - of_visits[places[*at].1]).collect::<Vec<f64>>())
        };
        let of_volumes = of_volume.iter().map(effect).collect();
        Some(Part { volumes, visits, of_volumes, of_visits, inverse, places, counts, cells })
    }

    /// Degrees of freedom of what is left.
    pub(super) fn freedom(&self) -> f64 {
        (self.cells.len() + 1).saturating_sub(self.volumes.len() + self.visits.len()) as f64
    }

    /// What volume and visit leave of each of its cells.
    pub(super) fn left(&self, all: &[Cell]) -> Vec<f64> {
        let left = |(cell, (volume, visit)): (&usize, &(usize, usize))| {
            all[*cell].level - self.of_volumes[*volume] - self.of_visits[*visit]
        };
        self.cells.iter().zip(&self.places).map(left).collect()
    }

    /// The weights of each of its cells in the contrast with these weights of volumes and of visits, each of which sum to 0.
    pub(super) fn weights(&self, volumes: &[f64], visits: &[f64]) -> Vec<f64> {
        // The transpose of the fit, from its last step to the first.
        let mut of_visits = visits.to_vec();
        for (volume, visit) in &self.places {
            of_visits[*visit] -= volumes[*volume] / self.counts[*volume];
        }
        let before = times(&self.inverse, &of_visits);
        let mut centres = vec![0.0; self.volumes.len()];
        for (volume, visit) in &self.places {
            centres[*volume] += before[*visit] / self.counts[*volume];
        }
        let weight = |(volume, visit): &(usize, usize)| {
            volumes[*volume] / self.counts[*volume] + before[*visit] - centres[*volume]
        };
        self.places.iter().map(weight).collect()
    }
}

/// A symmetric matrix times a vector.
fn times(matrix: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cell((volume, visit): (usize, usize), level: f64) -> Cell {
        Cell { volume, visit, level, variance: 1.0, freedom: 1.0 }
    }

    #[test]
    fn parts_are_what_volumes_link() {
        let cells: Vec<Cell> = [(0, 0), (1, 0), (2, 1), (1, 2), (3, 2)].map(|place| cell(place, 1.0)).into();
        let parts = parts(&cells, 4, 3);
        let shown: Vec<_> = parts.iter().map(|part| (&part.volumes[..], &part.visits[..])).collect();
        assert_eq!(shown, [(&[0, 1, 3][..], &[0, 2][..]), (&[2][..], &[1][..])]);
    }

    proptest! {
        /// The slow way: levels without noise give their effects back, and with noise what is left is at right angles to every
        /// volume and visit (the normal equations), and the weights give the same contrasts as the fit.
        #[test]
        fn contrasts_are_those_of_least_squares(
            volumes in prop::collection::vec(-1.0f64..1.0, 2..6), visits in prop::collection::vec(-1.0f64..1.0, 1..5),
            noise in prop::collection::vec(-0.1f64..0.1, 30), gaps in prop::collection::vec(any::<bool>(), 30)
        ) {
            let all = (0..volumes.len()).flat_map(|v| (0..visits.len()).map(move |g| (v, g)));
            // The first volume was everywhere, and the first visit saw all: one part.
            let kept = |((v, g), gap): (_, &bool)| (v == 0 || g == 0 || !gap).then_some((v, g));
            let places: Vec<(usize, usize)> = all.zip(&gaps).filter_map(kept).collect();
            let exact: Vec<Cell> = places.iter().map(|(v, g)| cell((*v, *g), volumes[*v] + visits[*g])).collect();
            let part = parts(&exact, volumes.len(), visits.len()).remove(0);
            for v in 0..volumes.len() {
                let difference = part.of_volumes[v] - part.of_volumes[0];
                prop_assert!((difference - volumes[v] + volumes[0]).abs() < 1e-9);
            }
            let noisy: Vec<Cell> = places.iter().zip(&noise)
                .map(|((v, g), noise)| cell((*v, *g), volumes[*v] + visits[*g] + noise)).collect();
            let part = parts(&noisy, volumes.len(), visits.len()).remove(0);
            let left = part.left(&noisy);
            for v in 0..volumes.len() {
                let own = left.iter().zip(&part.places).filter(|(_, place)| place.0 == v).map(|(left, _)| left);
                prop_assert!(own.sum::<f64>().abs() < 1e-9);
            }
            for g in 0..visits.len() {
                let own = left.iter().zip(&part.places).filter(|(_, place)| place.1 == g).map(|(left, _)| left);
                prop_assert!(own.sum::<f64>().abs() < 1e-9);
            }
            let (mut of_volumes, mut of_visits) = (vec![0.0; volumes.len()], vec![0.0; visits.len()]);
            of_volumes[0] = 1.0;
            of_volumes[1] = -1.0;
            let by_weights = |weights: Vec<f64>| -> f64 {
                weights.iter().zip(&part.cells).map(|(weight, cell)| weight * noisy[*cell].level).sum()
            };
            let found = by_weights(part.weights(&of_volumes, &of_visits));
            prop_assert!((found - part.of_volumes[0] + part.of_volumes[1]).abs() < 1e-9);
            of_volumes.fill(0.0);
            if visits.len() > 1 {
                of_visits[0] = 1.0;
                of_visits[1] = -1.0;
                let found = by_weights(part.weights(&of_volumes, &of_visits));
                prop_assert!((found - part.of_visits[0] + part.of_visits[1]).abs() < 1e-9);
            }
        }
    }
}
