//! Looks at the host around each trial and puts what was seen into its samples.

use crate::members;
use ebbtide_host::observe::{EbsLimits, ObservedMember, Observer as HostObserver, Running, Window};
use ebbtide_model::backend::{Control, Edge, Inventory, TrialRun};
use ebbtide_model::samples::{Observation, TrialSamples};
use std::path::PathBuf;
use std::sync::Arc;

/// Sees what is around each trial: the disks below, the host, others.
pub struct Observer {
    /// By index of the experiment's volumes.
    members: Vec<Option<ObservedMember>>,
    /// The run.
    run: String,
}

impl Observer {
    /// For trials of the run `run` on the volumes of `inventory`, which are ready.
    pub fn new(run: &str, inventory: &Inventory) -> Observer {
        let member = |name: &str, path: &str| {
            (!path.is_empty()).then(|| ObservedMember { name: name.to_owned(), path: PathBuf::from(path) })
        };
        let members = inventory.volumes.iter().map(|volume| member(&volume.name, &volume.path)).collect();
        Observer { members, run: run.to_owned() }
    }

    /// Begins to look; `control` tells the edges of the trial's I/O.
    pub fn begin(&self, run: &TrialRun<'_>, control: &Control) -> Running {
        // The layout's leaves first, in the order of `TrialSamples::members`.
        let volumes = run.design.members().into_iter();
        let members: Vec<ObservedMember> =
            volumes.filter_map(|index| self.members.get(index).cloned().flatten()).collect();
        let host = HostObserver::host();
        let host = if run.workload.program.is_some() { host.load_of(&self.run) } else { host };
        let running = host
            .buffered(!run.workload.direct)
            .cpus(&run.workload.engine.cpus_allowed)
            .residency(ebbtide_engine::residency::resident)
            .limits(Arc::new(EbsLimits::host(ebbtide_engine::nvme::log_page)))
            .start(&members);
        let (lookout, seed) = (running.lookout(), run.trial.seed);
        control.edges.listen(move |edge, of| match edge {
            _ if of != seed => {}
            Edge::Begins => lookout.begins(),
            Edge::Done => lookout.done(),
        });
        running
    }

    /// Puts what was seen into the samples of the trial that ended.
    pub fn end(&self, running: Running, samples: &mut TrialSamples) {
        let window = Window { started_unix: samples.started_unix, elapsed: samples.elapsed };
        let mut observed = running.stop(Some(window));
        if let Some(of_backend) = samples.observed.take() {
            take_over(&mut observed, *of_backend);
            members::fill(samples, &observed);
        }
        samples.observed = Some(Box::new(observed));
    }
}

/// What a backend that builds has seen: only it knows what it has built, and it sets devices after the observer has begun to look.
fn take_over(observed: &mut Observation, of_backend: Observation) {
    for device in &mut observed.devices {
        let Some(set) = of_backend.devices.iter().find(|set| set.name == device.name) else { continue };
        device.max_request = set.max_request;
        device.readahead = set.readahead;
        device.scheduler.clone_from(&set.scheduler);
        device.nr_requests = set.nr_requests;
    }
    observed.built = of_backend.built;
}
