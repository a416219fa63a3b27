//! Mistakes of many combinations, each told once.

use super::grid::Combination;
use super::vary::{Factor, Level};
use crate::error::Problem;
use crate::problems::{Problems, Span};

/// Mistakes, each with the combinations that it was found in.
#[derive(Debug)]
pub(super) struct Repeats<'a> {
    combinations: &'a [Combination],
    factors: &'a [Factor],
    found: Vec<(Span, Problem, Vec<usize>)>,
}

impl<'a> Repeats<'a> {
    pub fn new(combinations: &'a [Combination], factors: &'a [Factor]) -> Self {
        Repeats { combinations, factors, found: Vec::new() }
    }

    /// What is wrong with the combination at `index`.
    pub fn add(&mut self, index: usize, problems: Problems) {
        for (span, problem) in problems.into_list() {
            match self.found.iter_mut().find(|(at, same, _)| *at == span && *same == problem) {
                Some((_, _, in_these)) if in_these.last() == Some(&index) => {}
                Some((_, _, in_these)) => in_these.push(index),
                None => self.found.push((span, problem, vec![index])),
            }
        }
    }

    /// Reports each once; what only some levels together have is told with the remedy of leaving them out.
    pub fn report(self, names: &[String], problems: &mut Problems) {
        for (span, mut problem, found) in self.found {
            let own = is_of_one_level(self.combinations, self.factors, &span, &found);
            if let (Some(first), false) = (found.first(), own) {
                let more = match found.len() - 1 {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                problem.remedy += &format!(
                    "; or leave the combination out with `exclude` or `when`: `{}`{more}",
                    names[*first]
                );
            }
            problems.add(&span, problem);
        }
    }
}

/// Whether `found` are all combinations that have the level in which the mistake at `span` is; one that is in no level is told
/// without a remark where it is in all combinations, or in all that have one level.
fn is_of_one_level(all: &[Combination], factors: &[Factor], span: &Span, found: &[usize]) -> bool {
    let holds = |level: &Level| level.value.span.start <= span.start && span.end <= level.value.span.end;
    let only_these = |has: &dyn Fn(&Combination) -> bool| {
        found.iter().all(|index| has(&all[*index]))
            && all.iter().filter(|one| has(one)).count() == found.len()
    };
    let here = factors.iter().position(|factor| factor.levels.iter().any(holds));
    if let Some(factor) = here {
        let levels = &factors[factor].levels;
        return only_these(&|one| one[factor].is_some_and(|level| holds(&levels[level])));
    }
    found.len() == all.len()
        || (0..factors.len()).any(|factor| {
            let level = all[found[0]][factor];
            only_these(&|one| one[factor] == level)
        })
}
