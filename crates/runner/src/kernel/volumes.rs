//! The volumes that designs are built on: files behind loop devices, and devices, judged before each build.

use super::site::plan;
use super::{Kernel, Result, build_error, other};
use ebbtide_door::Lent;
use ebbtide_engine::files::{FilesBackend, Fill, Options};
use ebbtide_host::build::{free_loops, load_loop_driver};
use ebbtide_host::command::Real;
use ebbtide_host::judge;
use ebbtide_host::sys::Sys;
use ebbtide_model::backend::{BackendError, Control, Inventory};
use ebbtide_model::experiment::{Design, Experiment, VolumeSource};
use ebbtide_model::guard::{Permission, Refusal, WriteRequest};
use ebbtide_model::plan::build;
use ebbtide_model::shown::Shown;
use ebbtide_model::workload::Workload;
use std::path::Path;

/// How often another loop device is chosen because somebody else was faster.
const LOOP_TRIES: u32 = 16;

impl Kernel {
    pub(super) fn make_ready(&mut self, experiment: &Experiment, control: &Control) -> Result<Inventory> {
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
        let reads = experiment.loads().any(Workload::reads);
        let is_bare = |design: &Design| design.stack.filesystem.is_none() && design.stack.directory.is_none();
        let bare = experiment.designs.iter().any(is_bare);
        if !(reads && bare) {
            self.options.fill = Fill::Only(Vec::new());
        }
        let built = experiment.without_directories();
        // What is built overwrites what it is built on, whatever the workloads do.
        let options =
            Options { written: Some(built.used_volumes().into_iter().collect()), ..self.options.clone() };
        let volumes = self.volumes.insert(FilesBackend::new(options, self.surroundings.clone()));
        let mut inventory = volumes.make_volumes(&built, control)?;
        // From here on the kernel needs the devices for itself.
        self.lent = volumes.lend()?;
        for design in &experiment.designs {
            if let Some(directory) = &design.stack.directory {
                self.tell_directory(directory, &design.volumes(), &mut inventory);
            }
        }

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

    /// What is known of the volume of a design that is a directory, which nothing is made for here.
    fn tell_directory(&self, directory: &Path, volumes: &[usize], inventory: &mut Inventory) {
        let beneath = self.surroundings.topology.beneath(directory);
        for index in volumes {
            let Some(prepared) = inventory.volumes.get_mut(*index) else { continue };
            let untouched = format!("volume {} is not used", prepared.name);
            inventory.notes.retain(|note| !note.starts_with(&untouched));
            prepared.path = directory.to_string_lossy().into_owned();
            prepared.filesystem.clone_from(&beneath.filesystem);
            prepared.through.clone_from(&beneath.through);
            prepared.disks.clone_from(&beneath.disks);
        }
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
    pub(super) fn may_build(&self, experiment: &Experiment, design: &Design) -> Result<()> {
        let volumes = design.volumes();
        let of_design = self.lent.iter().filter(|(index, _)| volumes.contains(index));
        let (devices, files): (Vec<_>, Vec<_>) = of_design.partition(|(_, lent)| lent.device().is_some());
        let named = |index: usize| experiment.volumes.get(index).map_or("", |volume| volume.name.as_str());
        let failed = |index, what| BackendError::Volume { volume: named(index).to_owned(), what };
        let device = |index: usize| self.devices.get(index).map_or("", String::as_str);
        for (index, _) in files {
            let reasons = judge::sharers_of_device(&Sys::host(), device(*index));
            if !reasons.is_empty() {
                let refusal = Refusal { path: device(*index).to_owned(), reasons };
                return Err(failed(*index, refusal.to_string()));
            }
        }
        let requests: Vec<(&Lent, WriteRequest<'_>)> =
            devices.iter().map(|(index, lent)| (lent, self.request(experiment, *index, lent))).collect();
        self.surroundings
            .door
            .recheck(&requests)
            .map_err(|(position, error)| failed(devices[position].0, error.to_string()))?;
        match devices.iter().find(|(index, lent)| !lent.is_at(Path::new(device(*index)))) {
            Some((index, _)) => Err(failed(*index, format!("{} is another device by now", device(*index)))),
            None => Ok(()),
        }
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
    pub(super) fn leave_blank(&mut self) {
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
}
