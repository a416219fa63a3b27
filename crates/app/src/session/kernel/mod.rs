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
pub mod telling;
mod trial;

pub use site::{Built, KernelPlan, plan, show};

use ebbtide_door::Lent;
use ebbtide_engine::files::{FilesBackend, Fill, Options, Surroundings};
use ebbtide_host::build::{BuildError, Builder, free_loops, load_loop_driver};
use ebbtide_host::command::Real;
use ebbtide_host::judge;
use ebbtide_host::sys::Sys;
use ebbtide_model::backend::{Backend, BackendError, BackendKind, Control, Inventory};
use ebbtide_model::experiment::{Design, Experiment, VolumeSource};
use ebbtide_model::guard::{Permission, Refusal, WriteRequest};
use ebbtide_model::plan::Trial;
use ebbtide_model::plan::build::{self, Build};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::shown::Shown;
use ebbtide_model::workload::Workload;
use std::path::Path;
use telling::Telling;

/// How often another loop device is chosen because somebody else was faster.
const LOOP_TRIES: u32 = 16;

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
    /// Designs stay after their trial, until another one needs their volumes.
    keep: bool,
    /// Designs that stand.
    standing: Vec<Standing>,
    /// What is run on without being built for it.
    held: Option<trial::Ready>,
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
        let mut builder = Builder::new(
            Sys::host(),
            Box::new(Telling(|line| tracing::warn!("{line}"))),
            surroundings.journal.clone(),
        );
        key.into_iter().for_each(|key| builder.set_key(key));
        halt::boundary().into_iter().for_each(|boundary| builder.kill_at(boundary));
        Kernel {
            surroundings,
            options,
            volumes: None,
            builder,
            experiment: None,
            devices: Vec::new(),
            lent: Vec::new(),
            base: 0,
            keep: false,
            standing: Vec::new(),
            held: None,
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
        plan.check_host().map_err(other)?;
        if !plan.loops.is_empty() {
            load_loop_driver(&Sys::host(), &Real).map_err(other)?;
        }
        // Files are laid out anew on each file system; only what trials read without one must be there before.
        let reads = experiment.workloads.iter().any(Workload::reads);
        let bare = experiment.designs.iter().any(|design| design.stack.filesystem.is_none());
        if !(reads && bare) {
            self.options.fill = Fill::Only(Vec::new());
        }
        // What is built overwrites what it is built on, whatever the workloads do.
        let options = Options {
            written: Some(experiment.used_volumes().into_iter().collect()),
            ..self.options.clone()
        };
        let volumes = self.volumes.insert(FilesBackend::new(options, self.surroundings.clone()));
        let mut inventory = volumes.make_volumes(experiment, control)?;
        // From here on the kernel needs the devices for itself.
        self.lent = volumes.lend()?;

        self.devices = plan.devices;
        for (index, _) in &plan.loops {
            self.attach(*index, control)?;
        }
        self.base = self.builder.mark();
        self.name_devices()?;
        for (index, _) in &plan.loops {
            if let Some(volume) = inventory.volumes.get_mut(*index) {
                volume.path.clone_from(&self.devices[*index]);
            }
        }
        inventory.notes.extend(plan.notes);
        self.experiment = Some(experiment.clone());
        Ok(inventory)
    }

    /// Attaches the loop device that was chosen for a volume to its file, or another one where somebody took that meanwhile. It
    /// gets the path that the kernel knows the file by: this is what it tells of the device later.
    fn attach(&mut self, index: usize, control: &Control) -> Result<()> {
        let lent = self.lent.iter().find(|(lent, _)| *lent == index).map(|(_, lent)| lent);
        let lent = lent.ok_or_else(|| other("a volume has no file"))?;
        let path = lent.current_path().map_err(|error| other(format!("{}: {error}", lent.path().shown())))?;
        let Some(file) = path.to_str() else {
            return Err(other(format!("{} is not UTF-8: rename the file", path.shown())));
        };
        let mut tries = LOOP_TRIES;
        loop {
            let device = self.devices[index].clone();
            let step = build::attach_loop(&device, file);
            let Err(error) = self.builder.build(&[step], &control.stop) else { return Ok(()) };
            let free = free_loops(&Sys::host(), self.devices.len() + 1);
            let taken = !free.contains(&device) && !lent.is_behind(Path::new(&device));
            let next = free.into_iter().find(|device| !self.devices.contains(device));
            match next.filter(|_| taken && tries > 0) {
                Some(next) => self.devices[index] = next,
                None => return Err(build_error(error)),
            }
            tries -= 1;
        }
    }

    /// An array overwrites its members, whatever the workloads do.
    fn check_existing(&self, experiment: &Experiment) -> Result<()> {
        for volume in &experiment.volumes {
            if let VolumeSource::ExistingFile { path } | VolumeSource::Device { path, .. } = &volume.source
                && !self.options.destroy
            {
                let what = format!(
                    "building an array overwrites {}; say --destroy if its content may be lost",
                    path.shown()
                );
                return Err(BackendError::Volume { volume: volume.name.clone(), what });
            }
        }
        Ok(())
    }

    /// Makes sure that each volume's device is what was judged, and calls it by the kernel's own name for it: a link may
    /// be pointed elsewhere at any time.
    fn name_devices(&mut self) -> Result<()> {
        for (index, lent) in &self.lent {
            let Some(device) = self.devices.get_mut(*index) else { continue };
            let is_right = match lent.device() {
                Some(number) => {
                    if let Some(node) = ebbtide_host::probe::node(&Sys::host(), number) {
                        *device = node;
                    }
                    lent.is_at(Path::new(device))
                }
                None => lent.is_behind(Path::new(device)),
            };
            if !is_right {
                let what = format!("{device} does not lead to {} any more", lent.path().shown());
                return Err(other(what));
            }
        }
        Ok(())
    }

    /// Asks once more before each build whether the members may be written: a session lasts, and things change.
    fn may_build(&self, experiment: &Experiment, design: &Design) -> Result<()> {
        let volumes = design.volumes();
        let lent =
            self.lent.iter().filter(|(index, lent)| volumes.contains(index) && lent.device().is_some());
        let lent: Vec<(usize, &Lent)> = lent.map(|(index, lent)| (*index, lent)).collect();
        let own = self.lent.iter().filter(|(index, lent)| volumes.contains(index) && lent.device().is_none());
        let named = |index: usize| experiment.volumes.get(index).map_or("", |volume| volume.name.as_str());
        let failed = |index, what| BackendError::Volume { volume: named(index).to_owned(), what };
        for (index, _) in own {
            let device = self.devices.get(*index).map_or("", String::as_str);
            let reasons = judge::sharers_of_device(&Sys::host(), device);
            if !reasons.is_empty() {
                let refusal = Refusal { path: device.to_owned(), reasons };
                return Err(failed(*index, refusal.to_string()));
            }
        }
        let requests: Vec<(&Lent, WriteRequest<'_>)> =
            lent.iter().map(|(index, lent)| (*lent, self.request(experiment, *index, lent))).collect();
        self.surroundings
            .door
            .recheck(&requests)
            .map_err(|(position, error)| failed(lent[position].0, error.to_string()))?;
        for (index, lent) in lent {
            let device = self.devices.get(index).map_or("", String::as_str);
            if !lent.is_at(Path::new(device)) {
                return Err(failed(index, format!("{device} is another device by now")));
            }
        }
        Ok(())
    }

    fn request<'a>(&self, experiment: &'a Experiment, index: usize, lent: &'a Lent) -> WriteRequest<'a> {
        let id = match experiment.volumes.get(index).map(|volume| &volume.source) {
            Some(VolumeSource::Device { id, .. }) => id.as_deref(),
            _ => None,
        };
        let permission = Permission::User { id, destroy: self.options.destroy, used: true };
        WriteRequest { path: lent.path(), permission }
    }

    /// Devices that were blank and not named by their ids are left blank: what trials left on them is nobody's, and would
    /// keep the next session from using them.
    fn leave_blank(&mut self) {
        let Some(experiment) = self.experiment.take() else { return };
        for (index, lent) in std::mem::take(&mut self.lent) {
            let request = self.request(&experiment, index, &lent);
            let named_by_id = matches!(request.permission, Permission::User { id: Some(_), .. });
            if lent.device().is_none() || named_by_id {
                continue;
            }
            if let Err(error) = self.surroundings.door.erase(&lent, &request) {
                tracing::warn!("{} is not left blank: {error}", lent.path().shown());
            }
        }
    }

    fn put_back(&mut self, keep: bool) -> Result<()> {
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
        if let Some(held) = &mut self.held {
            let mut samples = held.run(workload, trial, control)?;
            members::prepare(&mut samples, members_of(design, &experiment));
            return Ok(samples);
        }
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
        members::prepare(&mut samples, members_of(design, &experiment));
        Ok(samples)
    }

    fn hold(&mut self, design: &Design, workload: &Workload, trial: &Trial, control: &Control) -> Result<()> {
        let experiment = self.experiment.clone().ok_or_else(|| other("the volumes were not prepared"))?;
        let build = self.stand(&experiment, design, trial, control)?;
        match trial::Ready::new(&build, workload, &self.options, &self.surroundings, control) {
            Ok(ready) => {
                self.held = Some(ready);
                Ok(())
            }
            Err(error) => match self.take_apart() {
                Ok(()) => Err(error),
                Err(left) => Err(other(format!("{error}; and then: {left}"))),
            },
        }
    }

    fn release(&mut self) -> Result<()> {
        let finished = self.held.take().map_or(Ok(()), trial::Ready::finish);
        let undone = if self.keep { Ok(()) } else { self.take_apart() };
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
