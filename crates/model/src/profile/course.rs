//! Which jobs a profile has and in which order: as data, without what they show.

use super::Step;
use super::seek::Seek;
use crate::workload::Workload;

/// The jobs of a profile. What ends some of them early is what they show, which `ebbtide-analysis` judges.
#[derive(Debug, Clone)]
pub enum Course {
    /// Groups of jobs, one after the other.
    List(Vec<Vec<Step>>),
    /// One job at doubling iodepths, until that brings no more.
    Ladder {
        /// The job at any depth.
        base: Workload,
    },
    /// Working sets of several sizes, in passes.
    Seek(Seek),
    /// Rounds of mixes until they are steady.
    Snia {
        /// What runs before the first round.
        precondition: Box<Workload>,
        /// The jobs of a round.
        mixes: Box<[Workload; 3]>,
    },
}

const DEPTH_MAX: u32 = 1024;
/// Where a ladder ends that does not look for its knee: as many requests as a queue of the kernel takes by default
/// (`nr_requests` with an I/O scheduler).
const FIXED_DEPTH_MAX: u32 = 256;
const SNIA_ROUNDS: usize = 25;

impl Course {
    /// Group number `given`: jobs that run at the same time, where nothing that a job shows ends the course before; `None`
    /// at the end.
    pub fn group(&self, given: usize) -> Option<Vec<Step>> {
        match self {
            Course::List(groups) => groups.get(given).cloned(),
            Course::Ladder { base } => {
                let depth = 1u32 << given.min(31);
                if depth > DEPTH_MAX {
                    return None;
                }
                Some(vec![Step::named(
                    format!("iodepth-{depth}"),
                    Workload { iodepth: depth, ..base.clone() },
                )])
            }
            Course::Seek(seek) => Some(vec![seek.step(given)?]),
            Course::Snia { precondition, mixes } => {
                let Some(at) = given.checked_sub(1) else {
                    return Some(vec![Step::named(precondition.name.clone(), Workload::clone(precondition))]);
                };
                let (round, mix) = (at / mixes.len(), at % mixes.len());
                if round >= SNIA_ROUNDS {
                    return None;
                }
                Some(vec![Step::named(
                    format!("round-{}-{}", round + 1, mixes[mix].name),
                    mixes[mix].clone(),
                )])
            }
        }
    }

    /// All jobs in their order, those together that run at the same time, as steps of which none depends on what another showed: a ladder goes up to an iodepth of
    /// 256, working sets up to the whole, each once: the rounds of an experiment are passes enough.
    ///
    /// # Errors
    /// Why the jobs of this course cannot stand each for itself.
    pub fn fixed(&self) -> Result<Vec<Vec<Step>>, &'static str> {
        match self {
            Course::Seek(seek) => return Ok(seek.sets().into_iter().map(|set| vec![set]).collect()),
            Course::Snia { .. } => return Err("its rounds go on until they are steady, in a fixed order"),
            Course::List(_) | Course::Ladder { .. } => {}
        }
        let deepest =
            |given: usize| matches!(self, Course::Ladder { .. }) && 1u32 << given.min(31) > FIXED_DEPTH_MAX;
        Ok((0..).map_while(|given| self.group(given).filter(|_| !deepest(given))).collect())
    }

    /// The groups of jobs that it may have at most, where nothing that a job shows ends it before.
    pub fn at_most(&self) -> Vec<Vec<Step>> {
        (0..).map_while(|given| self.group(given)).collect()
    }
}
