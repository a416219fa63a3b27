//! From trials to samples: each trial of a session, job of a benchmark and rung of a ladder runs here.

use crate::clock;
use crate::observer::Observer;
use ebbtide_analysis::ladder::{self, Ladder};
use ebbtide_analysis::tell_jobs_beside;
use ebbtide_engine::process_use;
use ebbtide_model::backend::{Backend, BackendError, BackendKind, Control, TrialFailure, TrialRun, alone};
use ebbtide_model::experiment::{Design, Experiment};
use ebbtide_model::samples::{ProcessUse, TrialSamples};
use ebbtide_model::schedule::Trial;
use ebbtide_model::session::Rung;
use ebbtide_model::units::UnixTime;
use std::sync::atomic::Ordering;

/// What trials run on: a backend whose volumes are ready, who looks around them, and how they are ended early.
pub struct Trials<'a> {
    pub backend: &'a mut dyn Backend,
    /// Nobody where nothing of this host is around them.
    pub observer: Option<&'a Observer>,
    pub control: &'a Control,
}

/// What came of trials that ran at the same time.
pub struct Ran {
    /// Of each, in their order.
    pub results: Vec<Result<TrialSamples, TrialFailure>>,
    /// What the process used meanwhile.
    pub used: ProcessUse,
    /// Wall clock at their end.
    pub ended: UnixTime,
}

impl Trials<'_> {
    /// Runs `runs` at the same time and looks around each. `begins` is called once `control` counts from 0.
    pub fn run(&mut self, runs: &[TrialRun<'_>], begins: impl FnOnce()) -> Ran {
        self.control.ops.store(0, Ordering::Relaxed);
        self.control.bytes.store(0, Ordering::Relaxed);
        begins();
        let look = |run| Some((self.observer?, self.observer?.begin(run, self.control)));
        let looking: Vec<_> = runs.iter().map(look).collect();
        let before = process_use();
        let mut results = self.backend.run_together(runs, self.control);
        self.control.edges.clear();
        let (used, ended) = (process_use().since(before), clock::now());
        for (result, looking) in results.iter_mut().zip(looking) {
            if let (Some((observer, looking)), Some(samples)) = (looking, seen(result)) {
                observer.end(looking, samples);
            }
        }
        // What is simulated at once need not be at the same time.
        let is_real = self.backend.kind() != BackendKind::Sim;
        let mut rest = results.as_mut_slice();
        for batch in runs.chunk_by(|one, next| is_real || one.runs_beside(next)) {
            let (of_batch, others) = rest.split_at_mut(batch.len().min(rest.len()));
            rest = others;
            if batch.len() > 1 {
                let each = batch.iter().zip(of_batch.iter_mut().map(seen));
                tell_jobs_beside(
                    &mut each.filter_map(|(run, samples)| Some((run.workload, samples?))).collect::<Vec<_>>(),
                );
            }
        }
        Ran { results, used, ended }
    }

    /// Runs one alone.
    ///
    /// # Errors
    /// When it was stopped, or a volume failed.
    pub fn run_one(&mut self, run: TrialRun<'_>) -> Result<TrialSamples, BackendError> {
        alone(self.run(&[run], || {}).results)
    }

    /// Runs the rungs of `ladder` on its design, which is built once. An answer stands without them: what fails is left out.
    pub fn climb(&mut self, design: &Design, ladder: &Ladder) -> Vec<Rung> {
        let mut climbed = Vec::new();
        let Some(first) = ladder.rungs.first() else { return climbed };
        if let Err(error) = self.backend.hold(design, first, &ladder.trial, self.control) {
            tracing::debug!("no ladder of {}: {error}", design.name);
            return climbed;
        }
        for (index, workload) in ladder.rungs.iter().enumerate() {
            let trial = ladder::trial_of(&ladder.trial, ladder.ran + index);
            match self.run_one(TrialRun { design, workload, trial: &trial }) {
                Ok(samples) => climbed.push(ladder::ran(&design.name, workload, samples)),
                Err(BackendError::Stopped) => break,
                Err(error) => tracing::debug!("a rung of {}: {error}", design.name),
            }
        }
        // What is left is told when everything is put back.
        if let Err(error) = self.backend.release() {
            tracing::warn!("{}: {error}", design.name);
        }
        climbed
    }
}

/// What was seen of a trial, one that failed too.
fn seen(result: &mut Result<TrialSamples, TrialFailure>) -> Option<&mut TrialSamples> {
    match result {
        Ok(samples) => Some(samples),
        Err(failure) => failure.seen.as_deref_mut(),
    }
}

/// What `trial` of `experiment` runs.
///
/// # Errors
/// When there is no such design or workload.
pub fn of_experiment<'a>(experiment: &'a Experiment, trial: &'a Trial) -> Result<TrialRun<'a>, BackendError> {
    let none = |what| BackendError::Other(format!("the experiment has no such {what}"));
    let design = experiment.designs.get(trial.design).ok_or_else(|| none("design"))?;
    let workload = experiment.load(trial.design, trial.workload).ok_or_else(|| none("workload"))?;
    Ok(TrialRun { design, workload, trial })
}

/// Puts everything back that `backend` made; what could not be, in words.
pub fn put_back(backend: &mut dyn Backend, keep: bool) -> Option<String> {
    let error = backend.finish(keep).err()?;
    Some(format!("not everything was put back: {error}; `ebb cleanup` tries again"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ebbtide_model::backend::{Edge, Inventory};
    use ebbtide_model::layout::LayoutNode;
    use ebbtide_model::per_op::PerOp;
    use ebbtide_model::samples::{CpuUse, Execution};
    use ebbtide_model::schedule::Role;
    use ebbtide_model::units::Nanos;
    use ebbtide_model::workload::{Access, Mix, Stop, Workload};
    use std::cell::Cell;

    /// Those of a millisecond in which nothing completed.
    pub(crate) fn samples() -> TrialSamples {
        TrialSamples {
            started_unix: clock::now(),
            elapsed: Nanos::from_millis(1),
            interval: Nanos::from_millis(1),
            array: PerOp::default(),
            members: Vec::new(),
            series: Vec::new(),
            cpu: CpuUse::default(),
            mean_in_flight: None,
            execution: Execution::default(),
            observed: None,
            hosts: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The last of its trials fails after it has seen something.
    struct Half;

    impl Backend for Half {
        fn kind(&self) -> BackendKind {
            BackendKind::Files
        }
        fn prepare(&mut self, _: &Experiment, _: &Control) -> Result<Inventory, BackendError> {
            Ok(Inventory::default())
        }
        fn run_trial(
            &mut self,
            _: &Design,
            _: &Workload,
            trial: &Trial,
            control: &Control,
        ) -> Result<TrialSamples, BackendError> {
            control.edges.tell(Edge::Begins, trial.seed);
            control.ops.fetch_add(1, Ordering::Relaxed);
            Ok(samples())
        }
        fn run_together(
            &mut self,
            runs: &[TrialRun<'_>],
            control: &Control,
        ) -> Vec<Result<TrialSamples, TrialFailure>> {
            let mut ran: Vec<_> = runs
                .iter()
                .map(|run| Ok(self.run_trial(run.design, run.workload, run.trial, control)?))
                .collect();
            let seen = ran.pop().and_then(|last: Result<_, TrialFailure>| last.ok()).map(Box::new);
            let error = BackendError::Volume { volume: "v".to_owned(), what: "EIO".to_owned() };
            ran.push(Err(TrialFailure { error, errno: Some(5), seen }));
            ran
        }
        fn finish(&mut self, _: bool) -> Result<(), BackendError> {
            Ok(())
        }
    }

    #[test]
    fn what_runs_at_the_same_time_is_observed_each_for_itself_a_failure_too() {
        let designs = vec![("d".to_owned(), LayoutNode::Volume(0))];
        let mut experiment = Experiment::once("e", Vec::new(), designs);
        let stop = Stop::Runtime(Nanos::from_millis(1));
        experiment.workloads = vec![Workload::new("w", Access::Random, Mix::Read, stop)];
        let trial = |seed| Trial { index: 0, round: 0, design: 0, workload: 0, role: Role::Candidate, seed };
        let (one, other) = (trial(1), trial(2));
        let runs = [&one, &other].map(|trial| of_experiment(&experiment, trial).expect("is there"));
        let observer = Observer::new("r", &Inventory::default());
        let control = Control::default();
        control.ops.store(7, Ordering::Relaxed);
        let began_at = Cell::new(None);
        let mut trials = Trials { backend: &mut Half, observer: Some(&observer), control: &control };
        let ran = trials.run(&runs, || began_at.set(Some(control.ops.load(Ordering::Relaxed))));
        assert_eq!((began_at.get(), control.ops.load(Ordering::Relaxed)), (Some(0), 2));
        let [Ok(first), Err(failure)] = ran.results.as_slice() else { panic!("{:?}", ran.results) };
        assert!(first.observed.is_some());
        assert!(failure.seen.as_ref().is_some_and(|seen| seen.observed.is_some()));
        assert!(of_experiment(&experiment, &Trial { design: 1, ..one }).is_err());
    }
}
