//! A profile's course of jobs under way: which of them come next after what the earlier ones showed, and what they all show in
//! the end.

mod seek;
#[cfg(test)]
mod tests;

use crate::steady::{ROUNDS, is_steady};
use ebbtide_model::profile::{Course, Step};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::units::{Bytes, format_iops};
use ebbtide_model::workload::{OpKind, Workload};

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

/// Doubling the depth that brings less than this is no gain.
const GAIN: f64 = 1.10;

/// A course of jobs under way.
#[derive(Debug, Clone)]
pub struct Progress {
    course: Course,
    /// Groups of jobs handed out so far.
    given: usize,
}

impl Progress {
    /// Before the first group of jobs.
    pub fn new(course: Course) -> Progress {
        Progress { course, given: 0 }
    }

    /// The jobs to run next, at the same time, after those that showed `done`; `None` at the end.
    pub fn next_group(&mut self, done: &[Point]) -> Option<Vec<Step>> {
        let over = match &self.course {
            Course::List(_) | Course::Seek(_) => false,
            Course::Ladder { .. } => flat(done),
            Course::Snia { mixes, .. } => {
                let before_a_round = self.given > 0 && (self.given - 1).is_multiple_of(mixes.len());
                before_a_round && steady(done) == Some(true)
            }
        };
        let group = if over { None } else { self.course.group(self.given) }?;
        self.given += 1;
        Some(group)
    }

    /// What `done` shows, in sentences; empty where the figures speak for themselves.
    pub fn conclusions(&self, done: &[Point]) -> Vec<String> {
        match &self.course {
            Course::List(_) => Vec::new(),
            Course::Ladder { .. } => knee(done).into_iter().collect(),
            Course::Seek(seek) => seek::conclusions(seek, done),
            Course::Snia { .. } => vec![match steady(done) {
                Some(true) => format!("steady after {} rounds", rounds(done).len()),
                _ => format!("steady state was not attained in {} rounds", rounds(done).len()),
            }],
        }
    }
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
