//! Workloads that run at the same time on one array, their events in the order of time.

use super::array::Array;
use super::load::{Beside, Load, Outcome, Work};
use ebbtide_model::backend::{BackendError, Control, TrialRun};
use ebbtide_model::experiment::Environment;
use ebbtide_model::units::{Bytes, Instant};

/// What comes of `runs`, which begin at the same time on `array` and take at most so much `work` each.
///
/// # Errors
/// When a workload does not fit the array or asks for what the environment does not have, when a member fails for good, or when
/// `control` says stop.
pub(super) fn run(
    runs: &[TrialRun<'_>],
    environment: &Environment,
    array: &mut Array,
    control: &Control,
    work: Work,
) -> Result<Vec<Outcome>, BackendError> {
    let jobs = runs.iter().fold(0, |sum: u32, run| sum.saturating_add(run.workload.numjobs));
    let buffered = runs.iter().filter(|run| !run.workload.direct).count().max(1) as u64;
    let mut environment = environment.clone();
    // The cache is the host's: those that go through it have a share each.
    environment.host.memory = environment.host.memory.map(|memory| Bytes(memory.0 / buffered));
    let mut loads: Vec<Load<'_>> = Vec::with_capacity(runs.len());
    let mut first_slot = 0;
    for run in runs {
        let beside = Beside { first_slot, jobs: jobs - run.workload.numjobs };
        let load = Load::new(run.workload, &environment, array, run.trial.seed, control, work, beside)?;
        first_slot += load.slots();
        loads.push(load);
        // An array has one resync, whoever else is there.
        environment.resync = None;
    }
    loads.iter_mut().try_for_each(|load| load.begin(array))?;
    while let Some(()) = step(&mut loads, array)? {}
    loads.into_iter().map(|load| load.finish(array)).collect()
}

/// Has what is next happen; nothing where all is over.
fn step(loads: &mut [Load<'_>], array: &mut Array) -> Result<Option<()>, BackendError> {
    let due = array.due();
    let first = loads.iter().enumerate().map(|(index, load)| (load.next(), index)).min();
    let Some((next, first)) = first else { return Ok(None) };
    let mut all_over = true;
    for load in &mut *loads {
        all_over &= load.is_over_at(next.min(due))?;
    }
    if all_over {
        return Ok(None);
    }
    if next <= due {
        let others = loads.iter().enumerate().filter(|(index, _)| *index != first);
        let until = others.map(|(_, load)| load.next()).min().unwrap_or(Instant::NEVER);
        loads[first].advance(until, array)?;
        return Ok(Some(()));
    }
    let mut done = Vec::new();
    // What members do for stripes is counted with the first that writes: parity is nobody's alone.
    let writes = loads.iter().position(Load::writes).unwrap_or_default();
    loads[writes].write_stripes(due, array, &mut done)?;
    for (slot, end) in done {
        let mut owners = loads.iter_mut().rev();
        owners.any(|load| load.gathered(slot, end, array));
    }
    Ok(Some(()))
}
