//! The `kernel` backend: md, LVM, dm-crypt and file systems, built for each trial and taken apart after it.
//!
//! Designs share volumes, so only one can exist at a time, and the order of trials is random: every trial builds
//! its design (docs/decisions/build-per-trial.md). The host crate builds, the engine measures, and what the members
//! did comes from the kernel's own counters ([`members`]). In a guest each design has disks of its own, and stays
//! ([`Kernel::keeping_designs`]).

mod halt;
pub mod key;
pub mod members;
mod site;
mod trial;

pub use site::{KernelPlan, plan, show};

use ebbtide_core::backend::{Backend, BackendError, BackendKind, Control, Inventory};
use ebbtide_core::experiment::{Design, Experiment, VolumeSource};
use ebbtide_core::guard::WriteRequest;
use ebbtide_core::plan::Trial;
use ebbtide_core::plan::build::{self, Build};
use ebbtide_core::samples::TrialSamples;
use ebbtide_core::workload::Workload;
use ebbtide_engine::files::{FilesBackend, Fill, Options, Surroundings};
use ebbtide_host::build::{BuildError, Builder, load_loop_driver};
use ebbtide_host::command::Real;
use ebbtide_host::sys::Sys;

type Result<T> = std::result::Result<T, BackendError>;

/// See the module.
pub struct Kernel {
    surroundings: Surroundings,
    options: Options,
    /// Makes files for volumes, fills volumes; closed while designs are built on them. From `prepare` on.
    volumes: Option<FilesBackend>,
    builder: Builder,
    experiment: Option<Experiment>,
    /// Block device of each volume, empty for those that no design uses.
    devices: Vec<String>,
    /// What stays built for the whole session: loop devices.
    base: usize,
    /// Designs stay after their trial, until another one needs their volumes.
    keep: bool,
    /// Designs that stand.
    standing: Vec<Standing>,
}

/// A design that was built and not taken apart.
struct Standing {
    design: String,
    volumes: Vec<usize>,
    swaps: bool,
    build: Build,
}

fn other(error: impl std::fmt::Display) -> BackendError {
    BackendError::Other(error.to_string())
}

fn build_error(error: BuildError) -> BackendError {
    match error {
        BuildError::Stopped => BackendError::Stopped,
        error => other(error),
    }
}

impl Kernel {
    /// A backend that has touched nothing yet; `key` is what [`key::ask`] says.
    pub fn new(options: Options, surroundings: Surroundings, key: Option<Vec<u8>>) -> Self {
        let mut builder = Builder::new(Sys::host(), Box::new(Real), surroundings.journal.clone());
        key.into_iter().for_each(|key| builder.set_key(key));
        halt::boundary().into_iter().for_each(|boundary| builder.kill_at(boundary));
        Kernel {
            surroundings,
            options,
            volumes: None,
            builder,
            experiment: None,
            devices: Vec::new(),
            base: 0,
            keep: false,
            standing: Vec::new(),
        }
    }

    /// The same, but a design is built for its first trial and stays until another one needs its volumes.
    pub fn keeping_designs(mut self) -> Self {
        self.keep = true;
        self
    }

    /// The build of `design`: the one that stands, or a new one.
    fn stand(
        &mut self,
        experiment: &Experiment,
        design: &Design,
        trial: &Trial,
        control: &Control,
    ) -> Result<Build> {
        if let Some(standing) = self.standing.iter().find(|standing| standing.design == design.name) {
            return Ok(standing.build.clone());
        }
        let volumes = design.volumes();
        // Swap is the host's, whatever design brought it.
        let swaps = !design.stack.swap.is_empty();
        let in_the_way = self
            .standing
            .iter()
            .any(|other| swaps || other.swaps || other.volumes.iter().any(|volume| volumes.contains(volume)));
        // Without designs that stand there may be what an earlier trial could not take apart: it may go now.
        if in_the_way || self.standing.is_empty() {
            self.take_apart()?;
        }
        self.may_build(experiment, design)?;
        // Volume groups, mappings and mounts are named after the run: designs that stand side by side need each their own.
        let own_name = format!("{}-{}", self.options.name, trial.design);
        let run = if self.keep { &own_name } else { &self.options.name };
        let build = site::build(design, run, trial.index, &self.devices).map_err(other)?;
        self.builder.build(&build.steps, &control.stop).map_err(build_error)?;
        self.standing.push(Standing { design: design.name.clone(), volumes, swaps, build: build.clone() });
        Ok(build)
    }

    /// Takes all designs apart.
    fn take_apart(&mut self) -> Result<()> {
        self.standing.clear();
        self.builder.undo_to(self.base).map_err(build_error)
    }

    fn make_ready(&mut self, experiment: &Experiment, control: &Control) -> Result<Inventory> {
        if !rustix::process::geteuid().is_root() {
            return Err(other("arrays are built by root only: run it with sudo, or `--on files` without"));
        }
        self.check_existing(experiment)?;
        let plan = plan(experiment, &self.options.name).map_err(other)?;
        ebbtide_host::build::missing(plan.programs.iter().map(String::as_str)).map_err(other)?;
        if !plan.loops.is_empty() {
            load_loop_driver(&Sys::host(), &Real).map_err(other)?;
        }
        // Files are laid out anew on each file system; only what trials read without one must be there before.
        let reads = experiment.workloads.iter().any(Workload::reads);
        let bare = experiment.designs.iter().any(|design| design.stack.filesystem.is_none());
        if !(reads && bare) {
            self.options.fill = Fill::Only(Vec::new());
        }
        let volumes = FilesBackend::new(self.options.clone(), self.surroundings.clone());
        let volumes = self.volumes.insert(volumes);
        let mut inventory = volumes.make_volumes(experiment, control)?;
        // From here on the kernel needs the devices for itself.
        volumes.close();

        let files: Vec<(usize, String)> = plan
            .loops
            .iter()
            .filter_map(|(index, _)| Some((*index, inventory.volumes.get(*index)?.path.clone())))
            .collect();
        let steps: Vec<_> = plan
            .loops
            .iter()
            .zip(&files)
            .map(|((_, device), (_, file))| build::attach_loop(device, file))
            .collect();
        self.builder.build(&steps, &control.stop).map_err(build_error)?;
        self.base = self.builder.mark();
        self.devices = plan.devices;
        for (index, _) in files {
            if let Some(volume) = inventory.volumes.get_mut(index) {
                volume.path.clone_from(&self.devices[index]);
            }
        }
        inventory.notes.extend(plan.notes);
        self.experiment = Some(experiment.clone());
        Ok(inventory)
    }

    /// An array overwrites its members, whatever the workloads do.
    fn check_existing(&self, experiment: &Experiment) -> Result<()> {
        for volume in &experiment.volumes {
            if let VolumeSource::ExistingFile { path } | VolumeSource::Device { path, .. } = &volume.source
                && !self.options.destroy
            {
                let what = format!(
                    "building an array overwrites {}; say --destroy if its content may be lost",
                    path.display()
                );
                return Err(BackendError::Volume { volume: volume.name.clone(), what });
            }
        }
        Ok(())
    }

    /// Asks once more before each build whether the members may be written: a session lasts, and things change.
    fn may_build(&self, experiment: &Experiment, design: &Design) -> Result<()> {
        for volume in design.volumes().iter().filter_map(|index| experiment.volumes.get(*index)) {
            let VolumeSource::Device { path, id } = &volume.source else { continue };
            let request = WriteRequest { path, id: id.as_deref(), destroy: self.options.destroy };
            self.surroundings.guard.may_write(&request).map_err(|refusal| BackendError::Volume {
                volume: volume.name.clone(),
                what: refusal.to_string(),
            })?;
        }
        Ok(())
    }

    fn put_back(&mut self, keep: bool) -> Result<()> {
        self.standing.clear();
        let built = self.builder.undo_to(0).map_err(build_error);
        self.base = 0;
        let files = self.volumes.as_mut().map_or(Ok(()), |volumes| volumes.finish(keep));
        match (built, files) {
            (Err(built), Err(files)) => Err(other(format!("{built}; {files}"))),
            (built, files) => built.and(files),
        }
    }
}

impl Backend for Kernel {
    fn kind(&self) -> BackendKind {
        BackendKind::Kernel
    }

    fn prepare(&mut self, experiment: &Experiment, control: &Control) -> Result<Inventory> {
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
        let experiment = self.experiment.clone().ok_or_else(|| other("the volumes were not prepared"))?;
        let build = self.stand(&experiment, design, trial, control)?;
        halt::built();
        let ran = trial::run(&build, workload, trial, &self.options, &self.surroundings, control);
        // What failed is built anew for the next trial.
        let undone = if self.keep && ran.is_ok() { Ok(()) } else { self.take_apart() };
        let mut samples = match (ran, undone) {
            (Ok(samples), Ok(())) => samples,
            (Err(error), Ok(())) => return Err(error),
            (Ok(_), Err(left)) => {
                return Err(other(format!("measured, but {} was not taken apart: {left}", design.name)));
            }
            (Err(error), Err(left)) => return Err(other(format!("{error}; and then: {left}"))),
        };
        let names = design.layout.volumes().into_iter().map(|volume| {
            experiment.volumes.get(volume).map_or_else(String::new, |volume| volume.name.clone())
        });
        members::prepare(&mut samples, names);
        Ok(samples)
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
