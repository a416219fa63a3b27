//! Which jobs come next, and what they all show in the end.

use super::Step;
use super::seek::Seek;
use crate::analysis::steady::{ROUNDS, is_steady};
use crate::samples::TrialSamples;
use crate::units::{Bytes, format_iops};
use crate::workload::{OpKind, Workload};

/// What one job showed.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Name of the step.
    pub name: String,
    /// Operations in flight.
    pub iodepth: u32,
    /// Bytes that it ranged over.
    pub span: Option<Bytes>,
    /// Operations per second.
    pub iops: f64,
    /// Median latency of its reads in nanoseconds, where it read.
    pub read_p50: Option<u64>,
}

impl Point {
    /// What `samples` of `workload` show.
    pub fn new(name: &str, workload: &Workload, samples: &TrialSamples) -> Point {
        let seconds = samples.elapsed.as_secs_f64();
        let ops = samples.array.read.count.ops + samples.array.write.count.ops;
        Point {
            name: name.to_owned(),
            iodepth: workload.iodepth,
            span: workload.span,
            iops: if seconds > 0.0 { ops as f64 / seconds } else { 0.0 },
            read_p50: samples.array.get(OpKind::Read).latency.percentile(50.0),
        }
    }
}

/// What decides the next jobs.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// Groups of jobs, one after the other.
    List(Vec<Vec<Step>>),
    /// Doubles the iodepth.
    Ladder { base: Workload },
    /// Working sets of several sizes, in passes.
    Seek(Seek),
    /// Rounds of mixes until they are steady.
    Snia { precondition: Box<Workload>, mixes: Box<[Workload; 3]> },
}

/// Doubling the depth that brings less than this is no gain.
const GAIN: f64 = 1.10;
const DEPTH_MAX: u32 = 1024;
/// Where a ladder ends that does not look for its knee: as many requests as a queue of the kernel takes by default
/// (`nr_requests` with an I/O scheduler).
const FIXED_DEPTH_MAX: u32 = 256;
const SNIA_ROUNDS: usize = 25;

/// A course of jobs under way.
#[derive(Debug, Clone)]
pub struct Course {
    kind: Kind,
    /// Groups handed out.
    given: usize,
}

impl Course {
    pub(super) fn new(kind: Kind) -> Course {
        Course { kind, given: 0 }
    }

    /// All jobs in their order, as steps of which none depends on what another showed: a ladder goes up to an iodepth of
    /// 256, working sets up to the whole, each once: the rounds of an experiment are passes enough.
    ///
    /// # Errors
    /// Why the jobs of this course cannot stand each for itself.
    pub fn fixed(mut self) -> Result<Vec<Step>, &'static str> {
        if let Kind::Seek(seek) = &self.kind {
            return Ok(seek.sets());
        }
        let mut steps = Vec::new();
        loop {
            match &self.kind {
                Kind::Ladder { .. } if 1u32 << self.given.min(31) > FIXED_DEPTH_MAX => return Ok(steps),
                Kind::Snia { .. } => return Err("its rounds go on until they are steady, in a fixed order"),
                _ => {}
            }
            match self.next_group(&[]).as_deref() {
                None => return Ok(steps),
                Some([step]) => steps.push(step.clone()),
                Some(_) => return Err("two of its jobs run at the same time, and a trial is one workload"),
            }
        }
    }

    /// The jobs to run next, at the same time, after those that showed `done`; `None` at the end.
    pub fn next_group(&mut self, done: &[Point]) -> Option<Vec<Step>> {
        let group = match &self.kind {
            Kind::List(groups) => groups.get(self.given).cloned()?,
            Kind::Ladder { base } => {
                let depth = 1u32 << self.given.min(31);
                if depth > DEPTH_MAX || flat(done) {
                    return None;
                }
                vec![named(format!("iodepth-{depth}"), Workload { iodepth: depth, ..base.clone() })]
            }
            Kind::Seek(seek) => vec![seek.step(self.given)?],
            Kind::Snia { precondition, mixes } => match self.given {
                0 => vec![named(precondition.name.clone(), Workload::clone(precondition))],
                given => {
                    let (round, mix) = ((given - 1) / mixes.len(), (given - 1) % mixes.len());
                    if mix == 0 && (round >= SNIA_ROUNDS || steady(done) == Some(true)) {
                        return None;
                    }
                    vec![named(format!("round-{}-{}", round + 1, mixes[mix].name), mixes[mix].clone())]
                }
            },
        };
        self.given += 1;
        Some(group)
    }

    /// The groups of jobs that it may have at most, where nothing that a job shows ends it before.
    pub fn at_most(mut self) -> Vec<Vec<Step>> {
        std::iter::from_fn(|| self.next_group(&[])).collect()
    }

    /// What `done` shows, in sentences; empty where the figures speak for themselves.
    pub fn conclusions(&self, done: &[Point]) -> Vec<String> {
        match &self.kind {
            Kind::List(_) => Vec::new(),
            Kind::Ladder { .. } => knee(done).into_iter().collect(),
            Kind::Seek(seek) => seek.conclusions(done),
            Kind::Snia { .. } => vec![match steady(done) {
                Some(true) => format!("steady after {} rounds", rounds(done).len()),
                _ => format!("steady state was not attained in {} rounds", rounds(done).len()),
            }],
        }
    }
}

pub(super) fn named(name: String, workload: Workload) -> Step {
    Step { workload: Workload { name: name.clone(), ..workload }, name, files: 0, note: None }
}

/// Whether the last two doublings brought nothing.
fn flat(done: &[Point]) -> bool {
    match done {
        [.., before, one, two] => one.iops < before.iops * GAIN && two.iops < before.iops * GAIN,
        _ => false,
    }
}

/// The depth from which doubling brings less than 10%. A rise after a fall is none: what counts is the most until then.
fn knee(done: &[Point]) -> Option<String> {
    let best = |points: &[Point]| points.iter().map(|point| point.iops).fold(0.0, f64::max);
    let gains = |at: usize| done.get(at + 1).is_some_and(|next| next.iops >= best(&done[..=at]) * GAIN);
    let most = best(done);
    let knee = (0..done.len()).find(|at| (*at..done.len()).all(|later| !gains(later)))?;
    let point = &done[knee];
    if knee + 1 == done.len() {
        return Some(format!(
            "no knee: throughput still rises at iodepth {} ({} IOPS)",
            point.iodepth,
            format_iops(point.iops)
        ));
    }
    Some(format!(
        "knee at iodepth {}: {} IOPS, {:.0}% of the most that was seen; beyond it doubling the depth brings less than \
         10% and only latency",
        point.iodepth,
        format_iops(point.iops),
        point.iops / most * 100.0
    ))
}

/// The writes of each round, in operations per second.
fn rounds(done: &[Point]) -> Vec<f64> {
    done.iter().filter(|point| point.name.ends_with("mix-0")).map(|point| point.iops).collect()
}

fn steady(done: &[Point]) -> Option<bool> {
    let rounds = rounds(done);
    let window: &[f64; ROUNDS] = rounds.last_chunk()?;
    is_steady(window)
}
