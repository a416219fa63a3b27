//! Which combinations of levels there are.

/// Levels of factors, each by index: every one of them meets the requirement.
pub(super) type Pattern = Vec<(usize, Vec<usize>)>;

/// A level of each factor, or nothing where the factor does not apply.
pub(super) type Combination = Vec<Option<usize>>;

/// How many combinations are looked at before what is left out is left out.
const LOOKED_AT: usize = 200_000;

/// Factors by their number of levels, what they depend on, and what is left out.
#[derive(Debug, Default)]
pub(super) struct Grid {
    /// Levels of each factor, at least 1.
    pub levels: Vec<usize>,
    /// Where each factor applies, by factors before it.
    pub when: Vec<Pattern>,
    /// What is left out: combinations that match one of them.
    pub exclude: Vec<Pattern>,
}

impl Grid {
    /// The combinations, those of the last factor next to each other; nothing where too many would have to be looked at.
    pub fn combinations(&self) -> Option<Vec<Combination>> {
        let mut made: Vec<Combination> = vec![Vec::new()];
        for (factor, levels) in self.levels.iter().enumerate() {
            let mut longer = Vec::with_capacity(made.len());
            for combination in made {
                let applies = self.when.get(factor).is_none_or(|when| matches(when, &combination));
                let levels = if applies { *levels } else { 1 };
                for level in 0..levels {
                    let mut next = combination.clone();
                    next.push(applies.then_some(level));
                    longer.push(next);
                    if longer.len() > LOOKED_AT {
                        return None;
                    }
                }
            }
            made = longer;
        }
        made.retain(|combination| !self.exclude.iter().any(|pattern| matches(pattern, combination)));
        Some(made)
    }

    /// How many there would be if every factor applied everywhere and nothing were left out.
    pub fn all(&self) -> u128 {
        self.levels.iter().fold(1, |all: u128, levels| all.saturating_mul(*levels as u128))
    }
}

/// Whether `combination` has one of the levels that `pattern` names, of each factor that it names.
fn matches(pattern: &Pattern, combination: &[Option<usize>]) -> bool {
    pattern.iter().all(|(factor, levels)| {
        combination.get(*factor).copied().flatten().is_some_and(|level| levels.contains(&level))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// All combinations of all levels, counted like the digits of a number; then each rule by itself.
    fn slow(grid: &Grid) -> BTreeSet<Combination> {
        let all: usize = grid.levels.iter().product();
        let mut found = BTreeSet::new();
        for number in 0..all {
            let mut rest = number;
            let mut combination: Combination = Vec::new();
            for levels in grid.levels.iter().rev() {
                combination.insert(0, Some(rest % levels));
                rest /= levels;
            }
            for factor in 0..grid.levels.len() {
                let mut applies = true;
                for (other, wanted) in &grid.when[factor] {
                    match combination[*other] {
                        Some(level) if wanted.contains(&level) => {}
                        _ => applies = false,
                    }
                }
                if !applies {
                    combination[factor] = None;
                }
            }
            let mut out = false;
            for pattern in &grid.exclude {
                let mut hit = true;
                for (factor, unwanted) in pattern {
                    hit &= combination[*factor].is_some_and(|level| unwanted.contains(&level));
                }
                out |= hit;
            }
            if !out {
                found.insert(combination);
            }
        }
        found
    }

    fn pattern(levels: Vec<usize>, below: usize) -> impl Strategy<Value = Pattern> {
        let one = (0..below.max(1), prop::collection::vec(any::<prop::sample::Index>(), 1..3));
        prop::collection::vec(one, 0..=below.min(2)).prop_map(move |parts| {
            parts
                .into_iter()
                .map(|(factor, of)| (factor, of.iter().map(|level| level.index(levels[factor])).collect()))
                .collect()
        })
    }

    fn grid() -> impl Strategy<Value = Grid> {
        prop::collection::vec(1..4usize, 1..5).prop_flat_map(|levels| {
            let when: Vec<_> = (0..levels.len()).map(|below| pattern(levels.clone(), below)).collect();
            let exclude = prop::collection::vec(
                pattern(levels.clone(), levels.len()).prop_filter("empty", |p| !p.is_empty()),
                0..3,
            );
            (Just(levels), when, exclude).prop_map(|(levels, when, exclude)| Grid { levels, when, exclude })
        })
    }

    proptest! {
        #[test]
        fn combinations_are_those_of_a_slow_enumeration(grid in grid()) {
            let found = grid.combinations().expect("few");
            let set: BTreeSet<Combination> = found.iter().cloned().collect();
            prop_assert_eq!(set.len(), found.len(), "none is there twice");
            prop_assert_eq!(set, slow(&grid));
            prop_assert!(found.len() as u128 <= grid.all());
        }
    }

    #[test]
    fn too_many_are_not_made() {
        let grid = Grid { levels: vec![1000; 8], ..Grid::default() };
        assert_eq!(grid.combinations(), None);
        assert_eq!(grid.all(), 10u128.pow(24));
    }
}
