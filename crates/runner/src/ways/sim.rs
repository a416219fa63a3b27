//! `--on sim`: the simulator, on all cores: trials that run at the same time do not touch each other.

use super::{Facts, Run, Start, Way, hosts};
use crate::RunnerError;
use ebbtide_host::{hostinfo, sys::Sys};
use ebbtide_model::backend::{
    Backend, BackendError, BackendKind, Control, Inventory, TrialFailure, TrialRun,
};
use ebbtide_model::experiment::{Design, Experiment};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Trial;
use ebbtide_model::workload::Workload;
use ebbtide_sim::{SimBackend, simulate};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

type Result<T, E = BackendError> = std::result::Result<T, E>;

/// See the module.
#[derive(Debug)]
pub struct OnSim;

impl Way for OnSim {
    fn facts(&self) -> Facts {
        Facts { no_use_for: &[hosts::ONLY_FILES], in_virtual_time: true, ..Facts::of(BackendKind::Sim) }
    }

    fn fit(&self, run: &mut Run) -> Result<(), RunnerError> {
        ebbtide_sim::check(&run.session.experiment)?;
        run.session.experiment.in_virtual_time();
        run.session.experiment.builds_nothing_in_turn();
        run.scale_as_asked();
        Ok(())
    }

    fn start(&self, run: &mut Run, _: Start<'_>) -> Result<Box<dyn Backend>, RunnerError> {
        run.session.meta.host = hostinfo::host_info(&Sys::host());
        Ok(Box::new(Simulated::new(run.session.meta.seed)))
    }
}

/// The simulator on all cores. Gives the same samples as [`SimBackend`], to the bit.
#[derive(Debug)]
pub struct Simulated {
    inner: SimBackend,
    seed: u64,
    experiment: Option<Experiment>,
}

impl Simulated {
    /// A simulator whose volumes live as `seed` decides: the session's seed.
    pub fn new(seed: u64) -> Self {
        Simulated { inner: SimBackend::new(seed), seed, experiment: None }
    }
}

impl Backend for Simulated {
    fn kind(&self) -> BackendKind {
        BackendKind::Sim
    }

    fn prepare(&mut self, experiment: &Experiment, control: &Control) -> Result<Inventory> {
        self.experiment = Some(experiment.clone());
        self.inner.prepare(experiment, control)
    }

    fn run_trial(
        &mut self,
        design: &Design,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples> {
        self.inner.run_trial(design, workload, trial, control)
    }

    fn run_together(
        &mut self,
        runs: &[TrialRun<'_>],
        control: &Control,
    ) -> Vec<Result<TrialSamples, TrialFailure>> {
        let slots: Vec<_> = runs.iter().map(|run| (run, OnceLock::new())).collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let next = AtomicUsize::new(0);
        if let Some(experiment) = &self.experiment {
            let work = || {
                while let Some((run, ran)) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let TrialRun { design, workload, trial } = run;
                    ran.get_or_init(|| simulate(experiment, self.seed, design, workload, trial, control));
                }
            };
            std::thread::scope(|scope| (0..cores.min(runs.len())).for_each(|_| drop(scope.spawn(work))));
        }
        slots.into_iter().map(|(_, ran)| Ok(ran.into_inner().ok_or_else(TrialFailure::not_run)??)).collect()
    }

    fn finish(&mut self, keep: bool) -> Result<()> {
        self.inner.finish(keep)
    }
}
