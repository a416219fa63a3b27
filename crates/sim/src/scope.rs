//! What the simulator does not know: an experiment that depends on it is told so instead of getting a number.

use super::pages::{no_memory, unmodelled};
use ebbtide_model::backend::BackendError;
use ebbtide_model::experiment::{Design, Environment, Experiment, Volume};
use ebbtide_model::units::Nanos;
use ebbtide_model::volume::{Latency, Limit, Shape};
use ebbtide_model::workload::Workload;
use ebbtide_model::workload::options::{Grammar, not_simulated};
use std::collections::BTreeSet;

/// Whether the simulator knows all that `experiment` depends on.
///
/// # Errors
/// Names the volume that it cannot know the speed or the size of, the design that varies what it has no model of, or the
/// workload that the host is too little known for.
pub fn check(experiment: &Experiment) -> Result<(), BackendError> {
    experiment.volumes.iter().try_for_each(check_volume)?;
    let planted = &experiment.environment.planted_fields;
    experiment.designs.iter().try_for_each(|design| check_design(design, planted))?;
    if let Some(error) = experiment.loads().find_map(|load| not_modelled(load).or_else(|| unmodelled(load))) {
        return Err(error);
    }
    if let Some(workload) = experiment.loads().find(|load| load.conditions.latency.is_some())
        && let Some(volume) =
            experiment.volumes.iter().find(|volume| volume.shape.as_ref().is_some_and(remembers))
    {
        return Err(BackendError::Volume {
            volume: volume.name.clone(),
            what: format!(
                "has burst credits or a failure, which each step of the search of workload {} (latency_target) would find as at the \
                 start: run it on real volumes (`--on files`), or remove them",
                workload.name
            ),
        });
    }
    let drained = |load: &&Workload| load.group.is_some() && load.end_fsync && !load.direct;
    if let Some(workload) = experiment.loads().find(drained) {
        return Err(BackendError::Other(format!(
            "workload {}: the simulator has no model of an fsync at the end of a job (`end_fsync`) beside which others go on; remove it, \
             write `direct = true`, or run it on real volumes (`--on files`)",
            workload.name
        )));
    }
    let cached = experiment.loads().find(|workload| !workload.direct);
    match (cached, experiment.environment.host.memory) {
        (Some(workload), None) => Err(no_memory(workload)),
        _ => Ok(()),
    }
}

/// Whether what a volume has done decides what it does next, beyond what is in its queue.
fn remembers(shape: &Shape) -> bool {
    let bursts = |limit: &Option<Limit>| limit.is_some_and(|limit| limit.burst_rate.is_some());
    let one_way = &shape.character.one_way;
    let ways = [&one_way.read, &one_way.write];
    bursts(&shape.iops)
        || bursts(&shape.throughput)
        || ways.iter().any(|way| bursts(&way.iops) || bursts(&way.throughput))
        || shape.character.failure.is_some()
}

/// Why `workload` cannot be simulated, where it asks for what there is no model of.
fn not_modelled(workload: &Workload) -> Option<BackendError> {
    let option = not_simulated(workload)?;
    Some(BackendError::Other(format!(
        "workload {}: the simulator has no model of `{}`, so its figures would be the same without; run it on real volumes \
         (`--on files`), or remove it",
        workload.name,
        option.key(Grammar::Experiment)
    )))
}

/// Keys of a design's stack that the simulator has a model for.
const MODELLED: [&str; 2] = ["readahead", "max_sectors"];

/// # Errors
/// Names what the design varies that the simulator has no model of.
pub(super) fn check_design(design: &Design, planted: &BTreeSet<String>) -> Result<(), BackendError> {
    let is_planted = |key: &str| planted.iter().any(|field| field.split('.').next() == Some(key));
    let unknown: Vec<&str> = design
        .stack
        .kernel_only()
        .into_iter()
        .filter(|key| !MODELLED.contains(key) && !is_planted(key))
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(BackendError::Other(format!(
        "design {}: the simulator has no model of `{}`, so its figures would be the same without; \
         run it on the kernel, remove the key, or plant its effect with `[[effects]]` (docs/explanation/simulator.md lists what is modelled)",
        design.name,
        unknown.join("`, `")
    )))
}

/// The environment as the design sets it up.
pub(super) fn environment_of(environment: &Environment, design: &Design) -> Environment {
    let mut environment = environment.clone();
    environment.host.readahead = design.stack.readahead.or(environment.host.readahead);
    environment.host.max_request = design.stack.max_sectors.or(environment.host.max_request);
    environment
}

fn check_volume(volume: &Volume) -> Result<(), BackendError> {
    let refuse = |what: &str| Err(BackendError::Volume { volume: volume.name.clone(), what: what.into() });
    let Some(shape) = &volume.shape else {
        return refuse(
            "has no shape, so the simulator cannot know how fast it is; give it a `shape` or a `type`",
        );
    };
    if volume.size.is_none() {
        return refuse("has no size, and the simulator looks at no device; give it a `size`");
    }
    if is_instant(shape) {
        return refuse(
            "has neither latency nor limits below 10^9 operations or 10^12 bytes per second (bursts too): virtual time \
             would stand still; give its shape a latency, or lower limits",
        );
    }
    Ok(())
}

/// Whether operations could take no time at all.
fn is_instant(shape: &Shape) -> bool {
    let zero = |latency: &Latency| match latency {
        Latency::Constant(value) => value.0 == 0,
        Latency::Lognormal { median, .. } => median.0 == 0,
    };
    // A rate beyond a thousand million per second is no limit at the clock's resolution, nor is one that bursts to that.
    let slow = |limit: &Option<Limit>, most: f64| {
        limit.is_some_and(|limit| limit.rate > 0.0 && limit.burst_rate.unwrap_or(limit.rate) < most)
    };
    (zero(&shape.read_latency) || zero(&shape.write_latency))
        && !slow(&shape.iops, 1e9)
        && !slow(&shape.throughput, 1e12)
        && shape.character.seek.is_none()
}

/// What the reader of this trial's samples has to know about the model.
pub(super) fn notes(experiment: &Experiment, workload: &Workload) -> Vec<String> {
    let mut notes = Vec::new();
    let flushes =
        |volume: &Volume| volume.shape.as_ref().is_some_and(|shape| shape.character.flush_latency.is_some());
    if workload.sync && workload.writes() && !experiment.volumes.iter().all(flushes) {
        notes.push(
            "simulated: O_SYNC writes take the volume's write latency alone where its shape has no `flush_latency`".into(),
        );
    }
    if !workload.direct {
        notes.push("simulated: the page cache is modelled, the file system and the elevator are not".into());
    }
    notes
}

/// Virtual time between the starts of two trials: the longest trial of the experiment and its rest. A trial that
/// ends by size counts as long as it takes at 100 MB/s.
pub(super) fn pitch(experiment: &Experiment) -> Nanos {
    let longest = experiment.loads().map(|workload| workload.time_at(10)).max();
    longest.unwrap_or(Nanos(0)).plus(experiment.answer.rest)
}
