use super::*;
use crate::store::Packed;
use crate::ways::{OnLab, OnSim, Way, simulated};
use ebbtide_model::backend::{BackendKind, Inventory};
use ebbtide_model::experiment::Design;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Trial;
use ebbtide_model::session::SessionMeta;
use ebbtide_model::workload::Workload;
use ebbtide_sim::SimBackend;

const TEXT: &str = r#"
name = "small"
[volumes.v]
count = 2
size = "8MiB"
[volumes.v.shape]
iops = 1000
latency = "0.5ms"
[designs.one]
layout = "linear"
members = ["v[0..1]"]
[designs.two]
layout = "stripe"
chunk = "64KiB"
members = ["v[0..1]"]
[workloads.seqread]
rw = "read"
bs = "64k"
iodepth = 8
runtime = "100ms"
[answer]
trials_min = 6
trials_max = 8
budget = "30s"
"#;

fn session() -> Session {
    Session {
        meta: SessionMeta::new("test", BackendKind::Sim, 7, ebbtide_model::units::UnixTime::from_secs(0)),
        experiment: ebbtide_experiment::parse(TEXT, "small.toml").expect("parses"),
        experiment_text: TEXT.to_owned(),
        trials: Vec::new(),
    }
}

struct NoWatch;
impl SessionListener for NoWatch {}

fn run_session(session: Session, facts: Facts, backend: &mut dyn Backend, control: Arc<Control>) -> Session {
    let keep_in = &mut Keep::Memory(Packed::default());
    let mut context =
        RunContext { facts, keep_in, control, watch: &mut NoWatch, keep: false, destroy: false };
    let Ended { mut session, trials } =
        run(session, backend, &mut context).expect("there is no store to fail");
    assert!(session.trials.is_empty(), "they are kept packed");
    let of_design =
        |_: &OfDesign, records: &[&TrialRecord]| records.iter().copied().cloned().collect::<Vec<_>>();
    let parts = context.keep_in.by_design(&session, of_design).expect("unpacks");
    session.trials = parts.into_iter().flat_map(|(_, records)| records).collect();
    session.trials.sort_by_key(|record| record.trial.index);
    assert_eq!(session.trials.len(), trials);
    session
}

fn run_on(backend: &mut dyn Backend, control: Arc<Control>) -> Session {
    run_session(session(), OnSim.facts(), backend, control)
}

/// A simulator whose volumes can be made to fail, or that is stopped.
struct Faulty {
    inner: SimBackend,
    fails: fn(&Trial) -> bool,
    stop_at: Option<u32>,
    finished: bool,
}

impl Faulty {
    fn new(fails: fn(&Trial) -> bool) -> Self {
        Faulty { inner: SimBackend::new(7), fails, stop_at: None, finished: false }
    }
}

impl Backend for Faulty {
    fn kind(&self) -> BackendKind {
        BackendKind::Sim
    }
    fn prepare(&mut self, experiment: &Experiment, control: &Control) -> Result<Inventory, BackendError> {
        self.inner.prepare(experiment, control)
    }
    fn run_trial(
        &mut self,
        design: &Design,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples, BackendError> {
        if self.stop_at == Some(trial.index) {
            control.stop.store(true, Ordering::Relaxed);
            return Err(BackendError::Stopped);
        }
        if (self.fails)(trial) {
            return Err(BackendError::Volume { volume: "v1".to_owned(), what: "EIO".to_owned() });
        }
        self.inner.run_trial(design, workload, trial, control)
    }
    fn finish(&mut self, _keep: bool) -> Result<(), BackendError> {
        self.finished = true;
        Ok(())
    }
}

#[test]
fn a_failing_trial_does_not_end_the_session() {
    let mut backend = Faulty::new(|trial| trial.design == 1 && trial.round == 2);
    let session = run_on(&mut backend, Arc::default());
    let failed: Vec<u32> = session
        .trials
        .iter()
        .filter(|record| matches!(&record.outcome, Outcome::Failed(why) if why.contains("v1: EIO")))
        .map(|record| record.trial.round)
        .collect();
    assert_eq!(failed, [2]);
    assert!(session.trials.len() >= 18 && backend.finished);
    assert!(matches!(session.meta.ending, Ending::Reached | Ending::NotReached), "{:?}", session.meta.ending);
}

#[test]
fn a_design_that_never_ran_fails_the_session() {
    let mut backend = Faulty::new(|trial| trial.design == 1);
    let session = run_on(&mut backend, Arc::default());
    assert!(session.trials.len() >= 18, "the others ran on");
    let Ending::Failed(why) = &session.meta.ending else { panic!("{:?}", session.meta.ending) };
    assert!(why.contains("every trial of two failed") && why.contains("EIO"), "{why}");

    let mut backend = Faulty::new(|_| true);
    let session = run_on(&mut backend, Arc::default());
    assert_eq!(session.trials.len(), 3, "a second round would not help");
    assert!(backend.finished);
}

#[test]
fn a_stop_keeps_what_is_done() {
    let mut backend = Faulty { stop_at: Some(4), ..Faulty::new(|_| false) };
    let session = run_on(&mut backend, Arc::default());
    assert_eq!((session.trials.len(), &session.meta.ending), (4, &Ending::Interrupted));
    assert!(backend.finished && session.meta.ended_unix.is_some());
}

#[test]
fn side_by_side_is_the_same_as_one_after_the_other() {
    let together = run_on(&mut simulated(7), Arc::default());
    let in_turn = run_on(&mut SimBackend::new(7), Arc::default());
    assert_eq!(together.trials, in_turn.trials);
    assert!(together.trials.iter().all(|record| matches!(record.outcome, Outcome::Samples(_))));
}

/// A backend of real I/O that builds each design anew in a guest: what it is told, in order. Its volumes are simulated, and
/// nothing is known of them.
struct Told {
    inner: SimBackend,
    said: Vec<String>,
    held: bool,
}

impl Backend for Told {
    fn kind(&self) -> BackendKind {
        BackendKind::Lab
    }
    fn prepare(&mut self, experiment: &Experiment, control: &Control) -> Result<Inventory, BackendError> {
        self.inner.prepare(experiment, control)
    }
    fn run_trial(
        &mut self,
        design: &Design,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples, BackendError> {
        if self.held {
            self.said.push(format!("{} x {} on {}", workload.iodepth, workload.bs, design.name));
        }
        let mut samples = self.inner.run_trial(design, workload, trial, control)?;
        samples.elapsed = Nanos::from_secs(1);
        samples.observed = None;
        Ok(samples)
    }
    fn hold(
        &mut self,
        design: &Design,
        _workload: &Workload,
        _trial: &Trial,
        _control: &Control,
    ) -> Result<(), BackendError> {
        self.held = true;
        self.said.push(format!("hold {}", design.name));
        Ok(())
    }
    fn release(&mut self) -> Result<(), BackendError> {
        self.held = false;
        self.said.push("release".to_owned());
        Ok(())
    }
    fn finish(&mut self, _keep: bool) -> Result<(), BackendError> {
        Ok(())
    }
}

#[test]
fn a_ladder_is_climbed_on_a_design_that_is_built_once() {
    let mut backend = Told { inner: SimBackend::new(7), said: Vec::new(), held: false };
    let mut session = session();
    session.experiment.designs.truncate(1);
    // At most 1000 operations of 64 KiB a second, of which the verdicts do not know.
    session.experiment.volumes.iter_mut().for_each(|volume| {
        if let Some(shape) = &mut volume.shape {
            shape.iops.iter_mut().for_each(|limit| limit.rate = 100_000.0);
        }
    });
    let session = run_session(session, OnLab.facts(), &mut backend, Arc::default());
    let expected = [
        "hold one",
        "16 x 64KiB on one",
        "8 x 64KiB on one",
        "32 x 64KiB on one",
        "8 x 32KiB on one",
        "4 x 64KiB on one",
        "8 x 128KiB on one",
        "release",
    ];
    assert_eq!(backend.said, expected);
    let seen: Vec<(u32, u64)> = session.meta.rungs.iter().map(|rung| (rung.in_flight, rung.bs.0)).collect();
    assert_eq!(seen[..2], [(16, 65536), (8, 65536)]);
    assert_eq!(seen.len(), 6);
    // The same on the simulator is known without.
    assert!(run_on(&mut simulated(7), Arc::default()).meta.rungs.is_empty());
}
