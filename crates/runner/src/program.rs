//! Trials whose load is a program: its data laid out and put back, its command timed, what it printed read, all it left ended.

use crate::kernel::{build_error, other};
use crate::members;
use ebbtide_door::read;
use ebbtide_host::build::Builder;
use ebbtide_host::command::Real;
use ebbtide_host::load::{self, Load, LoadError, User};
use ebbtide_host::sys::Sys;
use ebbtide_model::backend::{
    Backend, BackendError, BackendKind, Control, Edge, Inventory, TrialFailure, TrialRun,
};
use ebbtide_model::experiment::{Design, Experiment};
use ebbtide_model::journal::Journal;
use ebbtide_model::metric::Figure;
use ebbtide_model::observe::{DiskCounters, diskstats};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::plan::build::{BuildAction, BuildStep, BuildUndo, LOAD, MOUNTS, named_after};
use ebbtide_model::samples::{Count, CpuUse, DiskUse, Execution, OpSamples, TrialSamples};
use ebbtide_model::shown::Shown;
use ebbtide_model::trial::Trial;
use ebbtide_model::units::{Nanos, UnixTime};
use ebbtide_model::workload::{
    Argv, Output, Placeholder, Program, Reset, Source, Workload, filled, pgbench_latencies,
};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

type Result<T> = std::result::Result<T, BackendError>;

/// The directory, of the run's own user alone, in which data are kept as they were laid out.
const KEPT: &str = "kept";
/// How long what is no command of the user's may take at least, copying his data for example.
const OWN_TIME: Nanos = Nanos::from_secs(3600);
/// Most bytes of a log of transactions that are read.
const LOG_MAX: u64 = 1 << 30;
const DISKSTATS: &str = "/proc/diskstats";
const DISKSTATS_MAX: u64 = 16 << 20;

fn failed(error: LoadError) -> BackendError {
    match error {
        LoadError::Stopped => BackendError::Stopped,
        error => other(error),
    }
}

/// What a program is run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The run, which marks its processes.
    pub run: String,
    /// The directory in which it has one of its own: a mounted file system's, or the run's in a directory that stands.
    pub directory: PathBuf,
    /// What the placeholder of the mount stands for.
    pub mount: PathBuf,
    /// The block device that is measured, where one was built.
    pub device: Option<String>,
    /// It stands from trial to trial: data are laid out once, and put back.
    pub stands: bool,
}

impl Site {
    /// What all programs have on it.
    fn own(&self) -> PathBuf {
        self.directory.join(LOAD)
    }

    /// What puts back all that programs make on it: it has to be a step of the builder that made the site.
    fn step(&self) -> BuildStep {
        let undo = BuildUndo::EndLoad { run: self.run.clone(), directory: self.own() };
        BuildStep { action: BuildAction::MakeDirectory(self.own()), undo: Some(undo) }
    }
}

/// A program's workload on one site: its data are laid out.
pub struct Laid {
    site: Site,
    /// What this workload has on it.
    at: PathBuf,
    program: Program,
    user: User,
    /// The run's, which no program may have.
    journal: Arc<dyn Journal>,
}

impl Laid {
    /// Lays the data of `program` out on `site`; what it makes is among `builder`'s to undo.
    ///
    /// # Errors
    /// The command that failed, with what it said last.
    pub fn new(
        site: Site,
        program: &Program,
        trial: &Trial,
        (builder, journal): (&mut Builder, Arc<dyn Journal>),
        control: &Control,
    ) -> Result<Laid> {
        let user = User::find(program.user.as_deref(), program.as_root.as_deref()).map_err(failed)?;
        load::check_place(&site.directory, &user).map_err(failed)?;
        builder.build(&[site.step()], &control.stop).map_err(build_error)?;
        let at = site.own().join(trial.workload.to_string());
        let laid = Laid { at, site, program: program.clone(), user, journal };
        // An attempt that failed may have left some.
        load::remove(&laid.at).map_err(failed)?;
        load::make(&laid.at, &User::myself()).map_err(failed)?;
        // The user of the programs has to reach it: the run's own directories are closed to others.
        let own = [laid.site.directory.clone(), laid.site.own(), laid.at.clone()];
        let mounts = laid.site.directory.starts_with(MOUNTS).then(|| PathBuf::from(MOUNTS));
        for path in mounts.into_iter().chain(own) {
            load::let_pass(&path).map_err(failed)?;
        }
        laid.lay_out_once(trial, control).inspect_err(|_| {
            // What a part of it has started must not run beside other trials; the first error is told.
            let _ = load::end_all(&laid.site.run);
        })?;
        Ok(laid)
    }

    fn lay_out_once(&self, trial: &Trial, control: &Control) -> Result<()> {
        if self.keeps_copy() || self.program.reset == Reset::None {
            self.lay_out(trial, control)?;
        }
        if self.keeps_copy() {
            // What still runs would go on changing what is copied; and nobody who runs as the load's user may change it.
            load::end_all(&self.site.run).map_err(failed)?;
            load::make(&self.at.join(KEPT), &User::myself()).map_err(failed)?;
            load::rename(&self.run(), &self.copy()).map_err(failed)?;
        }
        Ok(())
    }

    /// Whether it is for the workload of `trial`, which is `program`.
    fn is_of(&self, trial: &Trial, program: &Program) -> bool {
        self.at.ends_with(trial.workload.to_string()) && self.program == *program
    }

    /// Data that are laid out are kept beside, and each trial gets a copy.
    fn keeps_copy(&self) -> bool {
        let copies = matches!(self.program.reset, Reset::Copy | Reset::Reflink);
        copies && self.site.stands && !self.program.prepare.is_empty()
    }

    fn run(&self) -> PathBuf {
        self.at.join("run")
    }

    fn copy(&self) -> PathBuf {
        self.at.join(KEPT).join("laid")
    }

    fn lay_out(&self, trial: &Trial, control: &Control) -> Result<()> {
        load::remove(&self.run()).map_err(failed)?;
        load::make(&self.run(), &self.user).map_err(failed)?;
        self.reaches(control)?;
        self.program.prepare.iter().try_for_each(|command| self.command(command, trial, control).map(drop))
    }

    /// Makes sure that the user of the programs may go where they start.
    fn reaches(&self, control: &Control) -> Result<()> {
        let run = self.run();
        let argv = ["test", "-w", &run.to_string_lossy()].map(str::to_owned);
        self.load(&[], control).at_least(OWN_TIME).run(&argv).map(drop).map_err(|error| match error {
            LoadError::Failed { .. } => {
                let closed = run.ancestors().skip(1).filter(|path| !is_open(path)).last();
                let closed = closed.unwrap_or(&run).shown().to_string();
                other(format!(
                    "{} cannot reach {}: `chmod o+x {closed}`, or write another `user` or directory",
                    self.user,
                    run.shown()
                ))
            }
            error => failed(error),
        })
    }

    /// The same data as before every trial.
    fn put_back(&self, trial: &Trial, control: &Control) -> Result<()> {
        if self.program.reset == Reset::None && self.run().is_dir() {
            return Ok(());
        }
        if !self.keeps_copy() {
            return self.lay_out(trial, control);
        }
        load::remove(&self.run()).map_err(failed)?;
        let reflink = if self.program.reset == Reset::Reflink { "always" } else { "never" };
        let (from, to) =
            (self.copy().to_string_lossy().into_owned(), self.run().to_string_lossy().into_owned());
        let argv = ["cp", "-a", &format!("--reflink={reflink}"), "--", &from, &to].map(str::to_owned);
        let own = User::myself();
        let load = Load { directory: &self.at, user: &own, ..self.load(&[], control).at_least(OWN_TIME) };
        load.run(&argv).map(drop).map_err(|error| match error {
            LoadError::Failed { last, .. } if self.program.reset == Reset::Reflink => {
                other(format!("its data cannot be put back by reflinks: {last}; write `reset = \"copy\"`"))
            }
            error => failed(error),
        })
    }

    fn load<'a>(&'a self, env: &'a [(String, String)], control: &'a Control) -> Load<'a> {
        Load {
            run: &self.site.run,
            directory: Path::new("/"),
            user: &self.user,
            env,
            timeout: self.program.timeout,
            stop: &control.stop,
            journal: self.journal.as_ref(),
        }
    }

    fn filled(&self, text: &str, trial: &Trial) -> Result<String> {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let mut value = |placeholder| match placeholder {
            Placeholder::Mount => path(&self.site.mount),
            Placeholder::Device => self.site.device.clone().unwrap_or_default(),
            Placeholder::Run => path(&self.run()),
            // Programs that take a seed take 31 bits.
            Placeholder::Seed => (trial.seed >> 33).to_string(),
            Placeholder::Round => (trial.round + 1).to_string(),
            Placeholder::Clients => self.program.clients.unwrap_or(1).to_string(),
        };
        filled(text, &mut value).map_err(other)
    }

    fn command(&self, argv: &Argv, trial: &Trial, control: &Control) -> Result<load::Ran> {
        let argv: Vec<String> = argv.iter().map(|word| self.filled(word, trial)).collect::<Result<_>>()?;
        let env = self.program.env.iter().map(|(name, value)| Ok((name.clone(), self.filled(value, trial)?)));
        let env: Vec<(String, String)> = env.collect::<Result<_>>()?;
        let run = self.run();
        Load { directory: &run, ..self.load(&env, control) }.run(&argv).map_err(failed)
    }

    /// Runs one trial: the data put back and settled, the command timed, and nothing of it left running.
    ///
    /// # Errors
    /// The command that failed, or the figure that it did not print.
    pub fn trial(&self, trial: &Trial, control: &Control) -> Result<TrialSamples> {
        self.put_back(trial, control).inspect_err(|_| {
            let _ = load::end_all(&self.site.run);
        })?;
        load::settle(&self.at).map_err(failed)?;
        let ran = self.measured(trial, control);
        let after = self.program.after.iter().map(|command| self.command(command, trial, control).map(drop));
        // What must be stopped in its own way is, whatever became of the trial.
        let after: Vec<Result<()>> =
            if control.stop.load(Ordering::Relaxed) { Vec::new() } else { after.collect() };
        let ended = load::end_all(&self.site.run).map_err(failed);
        let (mut samples, output, logs) = ran?;
        after.into_iter().collect::<Result<()>>()?;
        ended?;
        samples.execution.figures = self.figures(&output, &logs)?;
        Ok(samples)
    }

    /// Its samples, what it printed, and the logs that were there before it.
    fn measured(
        &self,
        trial: &Trial,
        control: &Control,
    ) -> Result<(TrialSamples, String, BTreeSet<OsString>)> {
        self.program.before.iter().try_for_each(|command| self.command(command, trial, control).map(drop))?;
        let logs = self.logs().map_err(other)?;
        let counted = self.counted();
        let started_unix = UnixTime::from(SystemTime::now());
        control.edges.tell(Edge::Begins, trial.seed);
        let ran = self.command(&self.program.command, trial, control);
        control.edges.tell(Edge::Done, trial.seed);
        let ran = ran?;
        let moved = counted.zip(self.counted()).and_then(|(before, after)| after.since(&before));
        let DiskUse { ops, bytes, .. } = moved.map(|moved| moved.to_use()).unwrap_or_default();
        let op = |ops, bytes| OpSamples { count: Count { ops, bytes }, ..OpSamples::default() };
        let samples = TrialSamples {
            started_unix,
            elapsed: Nanos(u64::try_from(ran.took.as_nanos()).unwrap_or(u64::MAX)),
            interval: Nanos::from_millis(100),
            array: PerOp { read: op(ops.read, bytes.read), write: op(ops.write, bytes.write) },
            members: Vec::new(),
            series: Vec::new(),
            cpu: CpuUse::default(),
            mean_in_flight: None,
            execution: Execution::default(),
            observed: None,
            hosts: Vec::new(),
            notes: Vec::new(),
        };
        Ok((samples, ran.output, logs))
    }

    /// The counters of the device that the data are on.
    fn counted(&self) -> Option<DiskCounters> {
        let device = std::fs::metadata(&self.site.directory).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let text = read::text(Path::new(DISKSTATS), DISKSTATS_MAX).ok()?;
        let line = diskstats::lines(&text).find(|line| (line.major, line.minor) == (major, minor))?;
        Some(line.counters)
    }

    fn figures(&self, output: &str, before: &BTreeSet<OsString>) -> Result<Vec<(Figure, f64)>> {
        let logs = self.program.metrics.iter().any(|reading| matches!(reading.from, Source::PgbenchLog(_)));
        let mut latencies = if logs { self.logged(before)? } else { Vec::new() };
        latencies.sort_unstable();
        let output = Output { text: output, latencies: &latencies };
        let program = self.program.command.first().map_or("", String::as_str);
        let read = self.program.metrics.iter().map(|reading| reading.read(output));
        read.collect::<std::result::Result<_, _>>().map_err(|error| other(format!("{program}: {error}")))
    }

    /// Names of pgbench's logs in the trial's directory; a name holds the number of its process.
    fn logs(&self) -> std::io::Result<BTreeSet<OsString>> {
        let entries = std::fs::read_dir(self.run())?.flatten();
        let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        Ok(files
            .map(|entry| entry.file_name())
            .filter(|name| name.to_string_lossy().starts_with("pgbench_log."))
            .collect())
    }

    /// Latencies of the logs that were not there `before`.
    fn logged(&self, before: &BTreeSet<OsString>) -> Result<Vec<u64>> {
        let mut latencies = Vec::new();
        for name in self.logs().map_err(other)?.difference(before) {
            let text = read::text(&self.run().join(name), LOG_MAX)
                .map_err(|error| other(format!("pgbench's log: {error}; log fewer with --sampling-rate")))?;
            latencies.extend(pgbench_latencies(&text));
        }
        Ok(latencies)
    }
}

/// Programs on directories that stand, which keep what is laid out from trial to trial.
pub struct Programs {
    run: String,
    builder: Builder,
    journal: Arc<dyn Journal>,
    laid: Vec<(PathBuf, Laid)>,
}

/// Numbers of steps in a journal, beyond those of what else builds.
const FIRST_STEP: u64 = 1 << 32;

impl Programs {
    /// For the run called `run`, which has laid out nothing yet.
    pub fn new(run: &str, journal: Arc<dyn Journal>) -> Programs {
        let builder = Builder::new(Sys::host(), Box::new(Real), journal.clone());
        Programs {
            run: run.to_owned(),
            builder: builder.numbered_from(FIRST_STEP),
            journal,
            laid: Vec::new(),
        }
    }

    /// The directory that this run has in `directory`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn own(&mut self, directory: &Path, control: &Control) -> Result<PathBuf> {
        let own = named_after(directory, &self.run);
        if !own.is_dir() {
            let undo = Some(BuildUndo::RemoveDirectory(own.clone()));
            let step = BuildStep { action: BuildAction::MakeDirectory(own.clone()), undo };
            self.builder.build(&[step], &control.stop).map_err(build_error)?;
        }
        Ok(own)
    }

    /// Runs one trial of `program` in the directory `directory`.
    ///
    /// # Errors
    /// As [`Laid::trial`], and when its data cannot be laid out.
    pub fn trial(
        &mut self,
        directory: &Path,
        program: &Program,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples> {
        let own = self.own(directory, control)?;
        let is_it = |(at, laid): &&(PathBuf, Laid)| *at == own && laid.is_of(trial, program);
        if let Some((_, laid)) = self.laid.iter().find(is_it) {
            return laid.trial(trial, control);
        }
        let mount = directory.to_owned();
        let site = Site { run: self.run.clone(), directory: own.clone(), mount, device: None, stands: true };
        let laid = Laid::new(site, program, trial, (&mut self.builder, self.journal.clone()), control)?;
        let samples = laid.trial(trial, control);
        self.laid.push((own, laid));
        samples
    }

    /// Takes away all that was laid out.
    ///
    /// # Errors
    /// What is left.
    pub fn finish(&mut self) -> Result<()> {
        self.laid.clear();
        self.builder.undo_to(0).map_err(build_error)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tracing::error!("{error}; `ebb cleanup` tries again");
        }
    }
}

/// A backend beside which programs run on directories that stand.
pub struct WithPrograms<B> {
    backend: B,
    programs: Programs,
    /// Names of the volumes.
    volumes: Vec<String>,
}

impl<B: Backend> WithPrograms<B> {
    /// `backend` does all that no program does.
    pub fn new(backend: B, programs: Programs) -> WithPrograms<B> {
        WithPrograms { backend, programs, volumes: Vec::new() }
    }
}

impl<B: Backend> Backend for WithPrograms<B> {
    fn kind(&self) -> BackendKind {
        self.backend.kind()
    }

    fn prepare(&mut self, experiment: &Experiment, control: &Control) -> Result<Inventory> {
        self.volumes = experiment.volumes.iter().map(|volume| volume.name.clone()).collect();
        self.backend.prepare(experiment, control)
    }

    fn run_trial(
        &mut self,
        design: &Design,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples> {
        match (&workload.program, &design.stack.directory) {
            (None, _) => self.backend.run_trial(design, workload, trial, control),
            (Some(program), Some(directory)) => {
                let mut samples = self.programs.trial(directory, program, trial, control)?;
                samples.observed = Some(Box::default());
                let names = design.volumes().into_iter().filter_map(|index| self.volumes.get(index).cloned());
                members::prepare(&mut samples, names);
                Ok(samples)
            }
            (Some(_), None) => Err(other(format!("design {} is no directory", design.name))),
        }
    }

    fn run_together(
        &mut self,
        runs: &[TrialRun<'_>],
        control: &Control,
    ) -> Vec<std::result::Result<TrialSamples, TrialFailure>> {
        match runs {
            [run] if run.workload.program.is_some() => {
                vec![self.run_trial(run.design, run.workload, run.trial, control).map_err(TrialFailure::from)]
            }
            runs => self.backend.run_together(runs, control),
        }
    }

    fn finish(&mut self, keep: bool) -> Result<()> {
        let programs = self.programs.finish();
        programs.and(self.backend.finish(keep))
    }
}

/// Whether any user may pass through the directory `path`.
fn is_open(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.mode() & 0o001 != 0)
}
