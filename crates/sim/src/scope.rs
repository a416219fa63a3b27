//! What the simulator does not know: an experiment that depends on it is told so instead of getting a number.

use super::pages::no_memory;
use ebbtide_model::backend::BackendError;
use ebbtide_model::experiment::{Design, Environment, Experiment, Volume};
use ebbtide_model::units::Nanos;
use ebbtide_model::volume::{Latency, Limit, Shape};
use ebbtide_model::workload::Workload;

/// Whether the simulator knows all that `experiment` depends on.
///
/// # Errors
/// Names the volume that it cannot know the speed or the size of, the design that varies what it has no model of, or the
/// workload that the host is too little known for.
pub fn check(experiment: &Experiment) -> Result<(), BackendError> {
    experiment.volumes.iter().try_for_each(check_volume)?;
    experiment.designs.iter().try_for_each(check_design)?;
    let cached = experiment.workloads.iter().find(|workload| !workload.direct);
    match (cached, experiment.environment.host.memory) {
        (Some(workload), None) => Err(no_memory(workload)),
        _ => Ok(()),
    }
}

/// Keys of a design's stack that the simulator has a model for.
const MODELLED: [&str; 2] = ["readahead", "max_sectors"];

/// # Errors
/// Names what the design varies that the simulator has no model of.
pub(super) fn check_design(design: &Design) -> Result<(), BackendError> {
    let unknown: Vec<&str> =
        design.stack.kernel_only().into_iter().filter(|key| !MODELLED.contains(key)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(BackendError::Other(format!(
        "design {}: the simulator has no model of `{}`, so its figures would be the same without; \
         run it on the kernel, or remove the key (docs/simulator.md lists what is modelled)",
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
pub(super) fn notes(workload: &Workload) -> Vec<String> {
    let mut notes = Vec::new();
    if workload.sync && workload.writes() {
        notes.push(
            "simulated: O_SYNC writes take the volume's write latency; a flush of a device's own cache is not \
             modelled"
                .into(),
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
    let longest = experiment.workloads.iter().map(|workload| {
        let measured = match workload.stop {
            ebbtide_model::workload::Stop::Runtime(runtime) => runtime,
            ebbtide_model::workload::Stop::Size(size) => Nanos(size.0.saturating_mul(10)),
        };
        workload.warm_up.plus(measured)
    });
    longest.max().unwrap_or(Nanos(0)).plus(experiment.answer.rest)
}
