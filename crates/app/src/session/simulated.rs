//! The simulator on all cores: the trials of a round do not touch each other, so they run side by side.

use ebbtide_model::backend::{Backend, BackendError, BackendKind, Control, Inventory};
use ebbtide_model::experiment::{Design, Experiment};
use ebbtide_model::plan::Trial;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::workload::Workload;
use ebbtide_sim::{SimBackend, simulate};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

type Result<T> = std::result::Result<T, BackendError>;

/// See the module. Gives the same samples as [`SimBackend`], to the bit.
#[derive(Debug)]
pub struct Simulated {
    inner: SimBackend,
    seed: u64,
    experiment: Option<Experiment>,
    announced: Vec<Trial>,
    /// By the trial's index.
    ready: HashMap<u32, Result<TrialSamples>>,
}

impl Simulated {
    /// A simulator whose volumes live as `seed` decides: the session's seed.
    pub fn new(seed: u64) -> Self {
        Simulated {
            inner: SimBackend::new(seed),
            seed,
            experiment: None,
            announced: Vec::new(),
            ready: HashMap::new(),
        }
    }

    /// Simulates what was announced.
    fn work_ahead(&mut self, control: &Control) {
        let trials = std::mem::take(&mut self.announced);
        let Some(experiment) = &self.experiment else { return };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let next = AtomicUsize::new(0);
        let done = Mutex::new(HashMap::new());
        std::thread::scope(|scope| {
            for _ in 0..cores.min(trials.len()) {
                scope.spawn(|| {
                    while let Some(trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let designs = experiment.designs.get(trial.design);
                        let Some((design, workload)) = designs.zip(experiment.workloads.get(trial.workload))
                        else {
                            continue;
                        };
                        let result = simulate(experiment, self.seed, design, workload, trial, control);
                        done.lock().unwrap_or_else(PoisonError::into_inner).insert(trial.index, result);
                    }
                });
            }
        });
        self.ready = done.into_inner().unwrap_or_else(PoisonError::into_inner);
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

    fn announce(&mut self, trials: &[Trial]) {
        self.announced = trials.to_vec();
    }

    fn run_trial(
        &mut self,
        design: &Design,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples> {
        if self.announced.iter().any(|announced| announced == trial) {
            self.work_ahead(control);
        }
        match self.ready.remove(&trial.index) {
            Some(result) => result,
            None => self.inner.run_trial(design, workload, trial, control),
        }
    }

    fn finish(&mut self, keep: bool) -> Result<()> {
        self.ready.clear();
        self.inner.finish(keep)
    }
}
