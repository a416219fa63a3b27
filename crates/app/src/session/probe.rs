//! A short look at what twice the operations in flight would do, where the verdict is that too few are.

use super::Company;
use ebbtide_core::analysis::{self, VerdictKind};
use ebbtide_core::backend::{Backend, BackendKind};
use ebbtide_core::experiment::Experiment;
use ebbtide_core::plan::Trial;
use ebbtide_core::session::{DepthProbe, Outcome, Session};
use ebbtide_core::units::Nanos;
use ebbtide_core::workload::{IoEngine, Stop, Workload};

/// Longest probe: with 1 ms per operation and two in flight, 1000 operations.
const LONGEST: f64 = 0.5;
/// Shortest probe, in seconds: less would be within the noise of a start.
const SHORTEST: f64 = 0.1;
/// All probes together take no more than this share of what the trials took: that is what makes them cheap.
const SHARE: f64 = 0.10;
/// More in flight than this is no question of want.
const DEEPEST: u32 = 1024;

/// Probes every design and workload whose verdict is `concurrency`. Only the `files` backend: on the others a trial is
/// built anew, or simulated from what the verdict knows anyway.
pub(super) fn depth(session: &Session, backend: &mut dyn Backend, company: &Company<'_>) -> Vec<DepthProbe> {
    if backend.kind() != BackendKind::Files {
        return Vec::new();
    }
    let measured: f64 = session
        .trials
        .iter()
        .filter_map(|record| match &record.outcome {
            Outcome::Samples(samples) => Some(samples.elapsed.as_secs_f64()),
            Outcome::Failed(_) => None,
        })
        .sum();
    let wanting = wanting(session);
    let length = (measured * SHARE / wanting.len().max(1) as f64).min(LONGEST);
    let mut probes = Vec::new();
    for (design, workload) in wanting {
        if length < SHORTEST || company.stopped() {
            break;
        }
        let Some(trial) = last_trial(session, design, workload) else { continue };
        let deeper = deeper(&session.experiment, workload, Nanos::from_secs_f64(length));
        let Some((deeper, in_flight)) = deeper else { continue };
        let design = &session.experiment.designs[design];
        match backend.run_trial(design, &deeper, &trial, &company.control) {
            Ok(samples) => probes.push(DepthProbe {
                design: design.name.clone(),
                workload: deeper.name,
                in_flight,
                ops: samples.array.read.count.ops + samples.array.write.count.ops,
                elapsed: samples.elapsed,
            }),
            // The answer stands without it.
            Err(error) => tracing::debug!("no probe at double depth of {}: {error}", design.name),
        }
    }
    probes
}

/// Indices of the designs and workloads with the verdict.
fn wanting(session: &Session) -> Vec<(usize, usize)> {
    let experiment = &session.experiment;
    analysis::analyse(session)
        .results
        .iter()
        .filter(|result| result.verdicts.iter().any(|v| v.kind == VerdictKind::Concurrency))
        .filter_map(|result| {
            let design = experiment.designs.iter().position(|d| d.name == result.design)?;
            let workload = experiment.workloads.iter().position(|w| w.name == result.workload)?;
            Some((design, workload))
        })
        .collect()
}

fn last_trial(session: &Session, design: usize, workload: usize) -> Option<Trial> {
    let trials = session.trials.iter().rev().map(|record| record.trial);
    trials.into_iter().find(|trial| (trial.design, trial.workload) == (design, workload))
}

/// The workload with twice the operations in flight for a short time, and how many those are.
fn deeper(experiment: &Experiment, workload: usize, length: Nanos) -> Option<(Workload, u32)> {
    let mut deeper = experiment.workloads.get(workload)?.clone();
    // pread and pwrite keep one operation in flight per job.
    let depth = if deeper.ioengine == IoEngine::Psync { &mut deeper.numjobs } else { &mut deeper.iodepth };
    *depth = depth.checked_mul(2)?;
    let per_job = if deeper.ioengine == IoEngine::Psync { 1 } else { deeper.iodepth };
    let in_flight = per_job.checked_mul(deeper.numjobs).filter(|n| *n <= DEEPEST)?;
    deeper.stop = Stop::Runtime(length);
    deeper.warm_up = Nanos(deeper.warm_up.0.min(length.0 / 5));
    deeper.fine.time_limit = None;
    Some((deeper, in_flight))
}
