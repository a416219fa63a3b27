//! Looks at the host around each trial and puts what was seen into its samples.

use super::TrialObserver;
use ebbtide_host::observe::{EbsLimits, ObservedMember, Observer, Running, Window};
use ebbtide_model::backend::{Control, Edge, Inventory};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::plan::Trial;
use ebbtide_model::session::Outcome;
use std::path::PathBuf;
use std::sync::Arc;

/// Observes this host.
#[derive(Default)]
pub struct HostObserver {
    members: Vec<Option<ObservedMember>>,
    running: Option<Running>,
}

impl TrialObserver for HostObserver {
    fn ready(&mut self, inventory: &Inventory) {
        let member = |name: &str, path: &str| {
            (!path.is_empty()).then(|| ObservedMember { name: name.to_owned(), path: PathBuf::from(path) })
        };
        self.members = inventory.volumes.iter().map(|volume| member(&volume.name, &volume.path)).collect();
    }

    fn begin(&mut self, experiment: &Experiment, trial: &Trial, control: &Control) {
        let Some(design) = experiment.designs.get(trial.design) else { return };
        // In the order of the layout's leaves, which is that of `TrialSamples::members`.
        let volumes = design.layout.volumes().into_iter();
        let members: Vec<ObservedMember> =
            volumes.filter_map(|index| self.members.get(index).cloned().flatten()).collect();
        let workload = experiment.workloads.get(trial.workload);
        let buffered = workload.is_some_and(|workload| !workload.direct);
        let cpus = workload.map_or(&[][..], |workload| &workload.engine.cpus_allowed);
        let observer = Observer::host()
            .buffered(buffered)
            .cpus(cpus)
            .residency(ebbtide_engine::residency::resident)
            .limits(Arc::new(EbsLimits::host(ebbtide_engine::nvme::log_page)));
        let running = observer.start(&members);
        let (lookout, seed) = (running.lookout(), trial.seed);
        control.edges.listen(move |edge, of| match edge {
            _ if of != seed => {}
            Edge::Begins => lookout.begins(),
            Edge::Done => lookout.done(),
        });
        self.running = Some(running);
    }

    fn end(&mut self, outcome: &mut Outcome) {
        let Some(running) = self.running.take() else { return };
        match outcome {
            Outcome::Samples(samples) => {
                let window = Window { started_unix: samples.started_unix, elapsed: samples.elapsed };
                samples.observed = Some(Box::new(running.stop(Some(window))));
            }
            Outcome::Failed(_) => {
                running.stop(None);
            }
        }
    }
}
