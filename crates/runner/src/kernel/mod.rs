//! The `kernel` backend: md, LVM, dm-crypt and file systems, built for each trial and taken apart after it.
//!
//! Designs share volumes, so only one can exist at a time, and the order of trials is random: every trial builds
//! its design, or in a sweep those of a round that may stand on one build do so one after the other (docs/decisions/build-per-trial.md).
//! The host crate builds, the engine measures, and what the members did comes from the kernel's own counters. In a guest designs have
//! disks of their own, and their builds stay ([`Kernel::keeping_builds`]). What can be set on what stands, mounts among it, is set for each
//! trial and put back after it, always.

mod halt;
mod site;
pub mod telling;
mod trial;
mod volumes;

pub use site::{Built, HostLacks, KernelPlan, plan, show};

use crate::members;
use crate::program::{Laid, Programs, Site};
use ebbtide_door::Lent;
use ebbtide_engine::files::{FilesBackend, Options, Surroundings};
use ebbtide_host::build::{BuildError, Builder};
use ebbtide_host::observe::as_built;
use ebbtide_host::sys::Sys;
use ebbtide_model::backend::{
    Backend, BackendError, BackendKind, Control, Inventory, TrialFailure, TrialRun, alone,
};
use ebbtide_model::experiment::{Design, Experiment};
use ebbtide_model::plan::build::{Build, BuildStep};
use ebbtide_model::samples::{Observation, TrialSamples};
use ebbtide_model::schedule::Trial;
use ebbtide_model::workload::{Program, Workload};
use std::ops::Range;
use std::path::Path;
use telling::Telling;

type Result<T> = std::result::Result<T, BackendError>;

pub struct Kernel {
    surroundings: Surroundings,
    options: Options,
    /// Makes files for volumes, fills volumes; closed while designs are built on them. From `prepare` on.
    volumes: Option<FilesBackend>,
    builder: Builder,
    experiment: Option<Experiment>,
    /// Block device of each volume, empty for those that no design uses.
    devices: Vec<String>,
    /// What the volumes are, whatever their names lead to by now.
    lent: Vec<(usize, Lent)>,
    /// What stays built for the whole session: loop devices.
    base: usize,
    /// Builds stay for the whole session, until another design needs their volumes.
    keep: bool,
    /// Trials of a round that may stand on one build follow one another, and do.
    shares: bool,
    /// Builds of designs that are standing now.
    standing: Vec<StandingBuild>,
    /// What is run on without being built for it.
    held: Option<Held>,
    /// Programs in directories that stand.
    programs: Programs,
}

/// A build that was not taken apart: what designs can share of it, without what is set and mounted for each trial.
struct StandingBuild {
    /// The design that it was built for.
    design: Design,
    /// The trial that it was built for.
    trial: Trial,
    /// Numbers of md devices that it took.
    md_numbers: Vec<u32>,
    /// The steps that made it, in their order.
    steps: Vec<BuildStep>,
    /// Where it is in what the builder has done.
    done: Range<usize>,
}

/// A design that stands until it is let go of.
struct Held {
    ready: trial::Ready,
    mark: usize,
    seen: Observation,
}

/// A design with all that is its own.
struct Ready {
    build: Build,
    /// Where in what the builder has done that begins which is put back after each trial.
    mark: usize,
}

/// How what was built is set, as the kernel says.
fn look_at(build: &Build) -> Observation {
    as_built(&Sys::host(), Path::new(&build.device), build.mountpoint.as_deref())
}

pub(crate) fn other(error: impl std::fmt::Display) -> BackendError {
    BackendError::Other(error.to_string())
}

/// `error`, and what could not be undone after it.
fn and_then(error: BackendError, undone: Result<()>) -> BackendError {
    undone.err().map_or(error.clone(), |left| other(format!("{error}; and then: {left}")))
}

pub(crate) fn build_error(error: BuildError) -> BackendError {
    match error {
        BuildError::Stopped => BackendError::Stopped,
        error => other(error),
    }
}

impl Kernel {
    /// A backend that has touched nothing yet; `key` is for the designs that ask for one.
    pub fn new(options: Options, surroundings: Surroundings, key: Option<Vec<u8>>) -> Self {
        let mut builder = Builder::new(
            Sys::host(),
            Box::new(Telling(|line| tracing::warn!("{line}"))),
            surroundings.journal.clone(),
        );
        key.into_iter().for_each(|key| builder.set_key(key));
        halt::boundary().into_iter().for_each(|boundary| builder.kill_at(boundary));
        Kernel {
            programs: Programs::new(&options.name, surroundings.journal.clone()),
            surroundings,
            options,
            volumes: None,
            builder,
            experiment: None,
            devices: Vec::new(),
            lent: Vec::new(),
            base: 0,
            keep: false,
            shares: false,
            standing: Vec::new(),
            held: None,
        }
    }

    /// The same, but what designs are built on stays until another one needs its volumes.
    pub fn keeping_builds(mut self) -> Self {
        self.keep = true;
        self
    }

    /// Has `design` stand, on the build of another one where it may, with all that is set and mounted for it alone.
    fn stand(
        &mut self,
        experiment: &Experiment,
        design: &Design,
        trial: &Trial,
        control: &Control,
    ) -> Result<Ready> {
        let build = match self.shared(design, trial)? {
            Some(build) => build,
            None => self.build_anew(experiment, design, trial, control)?,
        };
        let mark = self.builder.mark();
        let own = &build.steps[build.shared..];
        self.builder.build(own, &control.stop).map_err(build_error).map_err(|error| {
            // What does not bear this design may bear no other.
            let undone = self.take_apart();
            and_then(error, undone)
        })?;
        Ok(Ready { build, mark })
    }

    /// The build of `design` on what stands already, where that may be.
    fn shared(&mut self, design: &Design, trial: &Trial) -> Result<Option<Build>> {
        let may = |standing: &&StandingBuild| {
            let same = standing.design == *design || standing.design.shares_build(design);
            // One build serves no two rounds, so that its luck does not stay with a design, nor both trials of the control.
            let of_turn = (trial.round, trial.role) == (standing.trial.round, standing.trial.role);
            same && (of_turn || self.keep && !self.shares)
        };
        let Some(standing) = self.standing.iter().find(may) else { return Ok(None) };
        let own_name = self.run_name(&standing.trial);
        let build =
            site::build_at(design, &own_name, standing.trial.index, &self.devices, &standing.md_numbers)
                .map_err(other)?;
        // A session lasts, and things change: what is mounted and written next must be what was built.
        let is_it = build.steps[..build.shared] == standing.steps
            && self.builder.stands(standing.done.clone()).is_ok_and(|stands| stands);
        Ok(is_it.then_some(build))
    }

    /// Builds what `design` can share with others.
    fn build_anew(
        &mut self,
        experiment: &Experiment,
        design: &Design,
        trial: &Trial,
        control: &Control,
    ) -> Result<Build> {
        let volumes = design.volumes();
        // Swap is the host's, whatever design brought it.
        let swaps = |design: &Design| !design.stack.swap.is_empty();
        let in_the_way = self.standing.iter().any(|StandingBuild { design: other, .. }| {
            swaps(design) || swaps(other) || other.volumes().iter().any(|volume| volumes.contains(volume))
        });
        // Only in a guest do builds have names of their own. And without any there may be what an earlier trial could not take apart:
        // it may go now.
        if in_the_way || !self.keep || self.standing.is_empty() {
            self.take_apart()?;
        }
        self.may_build(experiment, design)?;
        let md_numbers = site::md_numbers(design);
        let own_name = self.run_name(trial);
        let build =
            site::build_at(design, &own_name, trial.index, &self.devices, &md_numbers).map_err(other)?;
        let steps = build.steps[..build.shared].to_vec();
        let from = self.builder.mark();
        self.builder.build(&steps, &control.stop).map_err(build_error)?;
        let done = from..self.builder.mark();
        if !steps.is_empty() {
            let (design, trial) = (design.clone(), *trial);
            self.standing.push(StandingBuild { design, trial, md_numbers, steps, done });
        }
        Ok(build)
    }

    /// What the builds for `trial` are named after: volume groups, mappings and mounts of designs that stand side by side need each
    /// their own.
    fn run_name(&self, trial: &Trial) -> String {
        let name = &self.options.name;
        if self.keep { format!("{name}-{}", trial.design) } else { name.clone() }
    }

    /// Puts back what was set and mounted for a trial, and takes apart what nobody else will stand on. `failed` is for what is built
    /// anew for the next trial.
    fn leave(&mut self, mark: usize, failed: bool) -> Result<()> {
        let undone = self.builder.undo_to(mark).map_err(build_error);
        if !failed && undone.is_ok() && (self.keep || self.shares) {
            return undone;
        }
        // What could not be put back is tried again with all below it.
        self.take_apart()
    }

    /// Takes all designs apart.
    fn take_apart(&mut self) -> Result<()> {
        self.standing.clear();
        self.builder.undo_to(self.base).map_err(build_error)
    }

    fn prepared(&self) -> Result<Experiment> {
        self.experiment.clone().ok_or_else(|| other("the volumes were not prepared"))
    }

    /// Has the design of `runs`, which is one, stand, runs them on it at the same time, and puts back what is not to stay.
    fn run_built(
        &mut self,
        experiment: &Experiment,
        runs: &[TrialRun<'_>],
        control: &Control,
    ) -> Result<trial::Ran> {
        let Some(TrialRun { design, workload, trial }) = runs.first() else { return Ok(Vec::new()) };
        if let Some(directory) = &design.stack.directory {
            return self.run_in(directory, experiment, runs, control);
        }
        let Ready { build, mark } = self.stand(experiment, design, trial, control)?;
        halt::built();
        let seen = look_at(&build);
        let ran = match &workload.program {
            // A program has no jobs beside it.
            Some(program) => self.run_program(&build, program, trial, control).map(|ran| vec![Ok(ran)]),
            None => trial::run(&build, runs, &self.options, &self.surroundings, control),
        };
        let failed = ran.as_ref().map_or(true, |ran| ran.iter().any(std::result::Result::is_err));
        let undone = self.leave(mark, failed);
        let mut ran = ran.map_err(|error| and_then(error, undone.clone()))?;
        for result in &mut ran {
            match result {
                Ok(samples) => samples.observed = Some(Box::new(seen.clone())),
                Err(failure) => failure.error = and_then(failure.error.clone(), undone.clone()),
            }
        }
        if !failed {
            undone.map_err(|left| {
                other(format!("measured, but {} was not taken apart: {left}", design.name))
            })?;
        }
        Ok(ran)
    }

    /// Runs a program on what `build` made; what it makes there is undone with the rest.
    fn run_program(
        &mut self,
        build: &Build,
        program: &Program,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples> {
        let mount = build.mountpoint.clone().ok_or_else(|| other("a program needs a file system"))?;
        let (run, device) = (self.options.name.clone(), Some(build.device.clone()));
        let site = Site { run, directory: mount.clone(), mount, device, stands: false };
        let journal = self.surroundings.journal.clone();
        Laid::new(site, program, trial, (&mut self.builder, journal), control)?.trial(trial, control)
    }

    /// Runs `runs` in a directory that stands.
    fn run_in(
        &mut self,
        directory: &Path,
        experiment: &Experiment,
        runs: &[TrialRun<'_>],
        control: &Control,
    ) -> Result<trial::Ran> {
        let mut ran = match runs {
            [TrialRun { workload: Workload { program: Some(program), .. }, trial, .. }] => {
                vec![Ok(self.programs.trial(directory, program, trial, control)?)]
            }
            runs => {
                let own = self.programs.own(directory, control)?;
                let built = runs.iter().map(|run| standing(experiment, run.design, run.workload, &own));
                let built: Vec<(Build, Workload)> = built.collect::<Result<_>>()?;
                let Some((build, _)) = built.first() else { return Ok(Vec::new()) };
                let runs = runs.iter().zip(&built).map(|(run, (_, workload))| TrialRun { workload, ..*run });
                trial::run(build, &runs.collect::<Vec<_>>(), &self.options, &self.surroundings, control)?
            }
        };
        for samples in ran.iter_mut().flatten() {
            samples.observed = Some(Box::default());
        }
        Ok(ran)
    }

    fn put_back(&mut self, keep: bool) -> Result<()> {
        self.programs.finish()?;
        // The file system that it is in goes with the design.
        self.held = None;
        self.standing.clear();
        let built = self.builder.undo_to(0).map_err(build_error);
        self.base = 0;
        if built.is_ok() {
            self.leave_blank();
        } else if let Some(volumes) = self.volumes.as_mut().filter(|_| !keep) {
            // Something that was built on them is still there, and somebody may be using it.
            volumes.leave();
            return built;
        }
        let files = self.volumes.as_mut().map_or(Ok(()), |volumes| volumes.finish(keep));
        match (built, files) {
            (Err(built), Err(files)) => Err(other(format!("{built}; {files}"))),
            (built, files) => built.and(files),
        }
    }
}

/// A design that is a directory as what was built, with the run's own directory in it, and a workload that uses no more of it than its
/// file.
fn standing(
    experiment: &Experiment,
    design: &Design,
    workload: &Workload,
    own: &Path,
) -> Result<(Build, Workload)> {
    let build = site::build_at(design, "", 0, &[], &[]).map_err(other)?;
    let build = Build { mountpoint: Some(own.to_owned()), ..build };
    let volume = design.volumes().first().and_then(|index| experiment.volumes.get(*index));
    let span = workload.span.or_else(|| volume.and_then(|volume| volume.size));
    Ok((build, Workload { span, ..workload.clone() }))
}

/// Names of the members of `design`.
fn members_of(design: &Design, experiment: &Experiment) -> impl Iterator<Item = String> {
    let name = |volume: usize| experiment.volumes.get(volume).map_or_else(String::new, |v| v.name.clone());
    design.layout.volumes().into_iter().map(name)
}

impl Backend for Kernel {
    fn kind(&self) -> BackendKind {
        BackendKind::Kernel
    }

    fn prepare(&mut self, experiment: &Experiment, control: &Control) -> Result<Inventory> {
        self.shares = experiment.shared_builds().is_some();
        self.make_ready(experiment, control).map_err(|error| match self.put_back(false) {
            Ok(()) => error,
            Err(left) => other(format!("{error}; and then: {left}; `ebb cleanup` tries again")),
        })
    }

    fn run_trial(
        &mut self,
        design: &Design,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples> {
        alone(self.run_together(&[TrialRun { design, workload, trial }], control))
    }

    fn run_together(
        &mut self,
        runs: &[TrialRun<'_>],
        control: &Control,
    ) -> Vec<std::result::Result<TrialSamples, TrialFailure>> {
        let ran = self.prepared().and_then(|experiment| {
            let mut ran = match &mut self.held {
                Some(held) => {
                    let mut ran = held.ready.run(runs, control);
                    for samples in ran.iter_mut().flatten() {
                        samples.observed = Some(Box::new(held.seen.clone()));
                    }
                    ran
                }
                None => self.run_built(&experiment, runs, control)?,
            };
            for (run, result) in runs.iter().zip(&mut ran) {
                if let Ok(samples) = result {
                    members::prepare(samples, members_of(run.design, &experiment));
                }
            }
            Ok(ran)
        });
        ran.unwrap_or_else(|error| runs.iter().map(|_| Err(error.clone().into())).collect())
    }

    fn hold(&mut self, design: &Design, workload: &Workload, trial: &Trial, control: &Control) -> Result<()> {
        let experiment = self.prepared()?;
        if let Some(directory) = &design.stack.directory {
            let own = self.programs.own(directory, control)?;
            let (build, workload) = standing(&experiment, design, workload, &own)?;
            let ready =
                trial::Ready::new(&build, vec![workload], &self.options, &self.surroundings, control)?;
            self.held = Some(Held { ready, mark: self.builder.mark(), seen: Observation::default() });
            return Ok(());
        }
        let Ready { build, mark } = self.stand(&experiment, design, trial, control)?;
        let ready =
            trial::Ready::new(&build, vec![workload.clone()], &self.options, &self.surroundings, control);
        let ready = ready.map_err(|error| and_then(error, self.take_apart()))?;
        self.held = Some(Held { ready, mark, seen: look_at(&build) });
        Ok(())
    }

    fn release(&mut self) -> Result<()> {
        let Some(Held { ready, mark, .. }) = self.held.take() else {
            return self.leave(self.builder.mark(), false);
        };
        let finished = ready.finish();
        let undone = self.leave(mark, finished.is_err());
        finished.and(undone)
    }

    fn finish(&mut self, keep: bool) -> Result<()> {
        self.put_back(keep)
    }
}

impl Drop for Kernel {
    /// For a panic in between: after [`Backend::finish`] there is nothing left to do.
    fn drop(&mut self) {
        if let Err(error) = self.put_back(false) {
            tracing::error!("{error}; `ebb cleanup` tries again");
        }
    }
}
