use super::*;
use crate::store::Packed;
use crate::surroundings::with_journal_in;
use crate::ways::{OnFiles, OnLab, OnSim, Way, simulated};
use ebbtide_engine::files::{FilesBackend, Options};
use ebbtide_model::backend::{BackendKind, Inventory};
use ebbtide_model::experiment::{Design, VolumeSource};
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

/// Without those beside it, a job would be another load.
#[test]
fn no_ladder_is_climbed_for_jobs() {
    let mut backend = Told { inner: SimBackend::new(7), said: Vec::new(), held: false };
    let mut session = session();
    session.experiment.designs.truncate(1);
    let limits =
        session.experiment.volumes.iter_mut().filter_map(|volume| volume.shape.as_mut()?.iops.as_mut());
    limits.for_each(|limit| limit.rate = 100_000.0);
    let job = |name: &str| Workload {
        name: name.to_owned(),
        group: Some("g".to_owned()),
        ..session.experiment.workloads[0].clone()
    };
    session.experiment.workloads = vec![job("g.a"), job("g.b")];
    let session = run_session(session, OnLab.facts(), &mut backend, Arc::default());
    assert!(session.trials.len() >= 12 && session.meta.rungs.is_empty(), "{:?}", session.meta.rungs);
    assert_eq!(backend.said, Vec::<String>::new());
}

/// Two jobs beside each other, and a workload after them, on volumes of 1000 operations a second.
const JOBS: &str = r#"
[workloads.oltp]
runtime = "600ms"
[workloads.oltp.jobs.data]
rw = "randread"
iodepth = 8
[workloads.oltp.jobs.log]
rw = "write"
iodepth = 8
[workloads.after]
rw = "randread"
runtime = "100ms"
"#;

fn with_jobs() -> Session {
    let text = TEXT.replace("[answer]", &format!("{JOBS}[answer]"));
    let mut session = session();
    session.experiment = ebbtide_experiment::parse(&text, "jobs.toml").expect("parses");
    session
}

/// The trials of each batch of jobs: data, then log.
fn pairs(session: &Session) -> Vec<[(&Trial, &TrialSamples); 2]> {
    fn samples(record: &TrialRecord) -> (&Trial, &TrialSamples) {
        match &record.outcome {
            Outcome::Samples(samples) => (&record.trial, samples),
            Outcome::Failed(why) => panic!("{why}"),
        }
    }
    let of = |workload: usize| session.trials.iter().filter(move |record| record.trial.workload == workload);
    of(1).zip(of(2)).map(|(data, log)| [samples(data), samples(log)]).collect()
}

/// What each of the two did, by the other's account, and that both met at the volumes at the same time.
fn assert_beside(session: &Session) {
    let pairs = pairs(session);
    assert!(pairs.len() >= 6, "{}", session.trials.len());
    for [(trial, data), (beside, log)] in pairs {
        assert_eq!((trial.index + 1, trial.design, trial.role), (beside.index, beside.design, beside.role));
        let ops = |samples: &TrialSamples| samples.array.read.count.ops + samples.array.write.count.ops;
        assert!(ops(data) > 0 && ops(log) > 0);
        let apart = data.started_unix.0.abs_diff(log.started_unix.0);
        assert!(apart < data.elapsed.0 / 2, "they began {apart} ns apart");
    }
}

#[test]
fn jobs_of_a_group_run_at_the_same_time_on_real_volumes() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut session = with_jobs();
    session.experiment.answer.trials_max = 6;
    for volume in &mut session.experiment.volumes {
        volume.source = VolumeSource::NewFile { directory: Some(directory.path().to_owned()) };
    }
    let options = Options { name: "jobs".to_owned(), ..Options::default() };
    let mut backend = FilesBackend::new(options, with_journal_in(directory.path(), "jobs"));
    assert_beside(&run_session(session, OnFiles.facts(), &mut backend, Arc::default()));
}

#[test]
fn jobs_of_a_group_meet_in_the_simulator_and_none_is_called_another() {
    let session = run_session(with_jobs(), OnSim.facts(), &mut simulated(7), Arc::default());
    assert_beside(&session);
    for [(_, data), (_, log)] in pairs(&session) {
        // Two volumes of 1000 operations a second each.
        let rate = |samples: &TrialSamples| {
            (samples.array.read.count.ops + samples.array.write.count.ops) as f64
                / samples.elapsed.as_secs_f64()
        };
        assert!(rate(data) + rate(log) < 2100.0);
        let names = |samples: &TrialSamples| {
            samples.observed.as_ref().and_then(|seen| seen.jobs_beside.clone()).map(|beside| beside.names)
        };
        assert_eq!(names(data), Some(vec!["oltp.log".to_owned()]));
        assert_eq!(names(log), Some(vec!["oltp.data".to_owned()]));
    }
    let alone = session.trials.iter().filter(|record| [0, 3].contains(&record.trial.workload));
    for record in alone {
        let Outcome::Samples(samples) = &record.outcome else { panic!("{record:?}") };
        assert!(samples.observed.as_ref().is_some_and(|seen| seen.jobs_beside.is_none()));
    }
    let others = ebbtide_analysis::analyse(&session).results.into_iter().flat_map(|result| result.verdicts);
    assert!(others.into_iter().all(|verdict| verdict.kind != ebbtide_analysis::VerdictKind::Background));
    assert_eq!(
        session.trials,
        run_session(with_jobs(), OnSim.facts(), &mut SimBackend::new(7), Arc::default()).trials
    );
}
