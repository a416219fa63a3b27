//! `--on sim`: the simulator, on all cores: trials that do not run at the same time do not touch each other.

use super::{Facts, Result, Run, Start, Way, hosts, refuse_directories, refuse_programs};
use ebbtide_host::{hostinfo, sys::Sys};
use ebbtide_model::backend::{Backend, BackendKind, Control, TrialFailure, TrialRun};
use ebbtide_model::samples::TrialSamples;
use ebbtide_sim::SimBackend;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// In the help of `--on`.
pub(super) const WORDS: &str = "A simulation in virtual time, a month in seconds";

/// See the module.
pub struct OnSim;

impl Way for OnSim {
    fn facts(&self) -> Facts {
        Facts { no_use_for: &[hosts::ONLY_FILES], in_virtual_time: true, ..Facts::of(BackendKind::Sim) }
    }

    fn fit(&self, run: &mut Run) -> Result<()> {
        refuse_programs(&run.session.experiment, "a simulation cannot run")?;
        refuse_directories(&run.session.experiment, "a simulation knows nothing of: describe its volumes")?;
        ebbtide_sim::check(&run.session.experiment)?;
        run.session.experiment.in_virtual_time();
        run.session.experiment.builds_nothing_in_turn();
        run.scale_as_asked();
        Ok(())
    }

    fn start(&self, run: &mut Run, _: Start<'_>) -> Result<Box<dyn Backend>> {
        run.session.meta.host = hostinfo::host_info(&Sys::host());
        Ok(Box::new(simulated(run.session.meta.seed)))
    }
}

/// A simulator whose volumes live as `seed` decides: the session's seed. All cores give the same samples as one, to the bit.
pub(crate) fn simulated(seed: u64) -> SimBackend {
    SimBackend::new(seed).with(on_all_cores)
}

fn on_all_cores(
    sim: &SimBackend,
    runs: &[TrialRun<'_>],
    control: &Control,
) -> Vec<Result<TrialSamples, TrialFailure>> {
    let batches: Vec<&[TrialRun<'_>]> = runs.chunk_by(TrialRun::runs_beside).collect();
    let slots: Vec<_> = batches.into_iter().map(|batch| (batch, OnceLock::new())).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((batch, ran)) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
            ran.get_or_init(|| sim.run(batch, control));
        }
    };
    std::thread::scope(|scope| (0..cores.min(slots.len())).for_each(|_| drop(scope.spawn(work))));
    let not_run = |batch: &[TrialRun<'_>]| batch.iter().map(|_| Err(TrialFailure::not_run())).collect();
    slots.into_iter().flat_map(|(batch, ran)| ran.into_inner().unwrap_or_else(|| not_run(batch))).collect()
}
