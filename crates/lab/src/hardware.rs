//! A machine whose disks outlive its guest: its power can be cut, and given back. Everything else, its root file system among it, is in memory
//! and as new at each boot.

use super::disks::{DISKS_MAX, Disk};
use super::guest::Guest;
use super::machine::{Boot, Machine};
use super::places::GuestDirectory;
use super::{LabError, Laboratory};
use ebbtide_door::own;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Machine {
    /// Makes the directory of its guest, with its disks, which are all holes.
    pub(super) fn make_directory(&self, laboratory: &Laboratory) -> Result<Arc<GuestDirectory>, LabError> {
        self.check()?;
        let directory = Arc::new(GuestDirectory::make(&laboratory.places, &self.name)?);
        for disk in &self.disks {
            let path = directory.path().join(disk.file());
            own::create_sparse(&path, disk.size).map_err(LabError::file("make", &path))?;
        }
        Ok(directory)
    }

    fn check(&self) -> Result<(), LabError> {
        let fail = |name: &str, why: String| Err(LabError::Disk { name: name.to_owned(), why });
        if self.disks.len() > DISKS_MAX {
            let why = format!("a guest has at most {DISKS_MAX} disks, not {}", self.disks.len());
            return fail(&self.name, why);
        }
        for (index, disk) in self.disks.iter().enumerate() {
            disk.check()?;
            if self.disks[..index].iter().any(|other| other.name == disk.name) {
                return fail(&disk.name, "another disk has this name; choose another".to_owned());
            }
        }
        Ok(())
    }
}

/// A machine with disks of its own.
#[derive(Debug)]
pub struct Hardware {
    machine: Machine,
    directory: Arc<GuestDirectory>,
    running: Option<Guest>,
}

impl Hardware {
    /// A machine with blank disks, switched off.
    ///
    /// # Errors
    /// When a disk cannot be had.
    pub fn new(laboratory: &Laboratory, machine: Machine) -> Result<Hardware, LabError> {
        Ok(Hardware { directory: machine.make_directory(laboratory)?, machine, running: None })
    }

    /// Switches it on, and waits until it can be used.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn boot(&mut self, laboratory: &Laboratory) -> Result<&mut Guest, LabError> {
        self.boot_from(laboratory, &laboratory.image.boot(&self.machine.name))
    }

    /// [`Hardware::boot`] from something else.
    pub(super) fn boot_from(&mut self, laboratory: &Laboratory, boot: &Boot) -> Result<&mut Guest, LabError> {
        self.cut_power();
        self.machine.check()?;
        Ok(self.running.insert(Guest::start(&self.directory, boot, laboratory, &self.machine)?))
    }

    /// Takes its power away, where it has any: QEMU is killed, and what the guest's kernel has not written yet is lost. (What it has written is
    /// there, flushed or not: a disk's own cache is not lost.)
    pub fn cut_power(&mut self) {
        self.running = None;
    }

    /// The guest that runs.
    ///
    /// # Errors
    /// When it is off.
    pub fn guest(&mut self) -> Result<&mut Guest, LabError> {
        self.running.as_mut().ok_or(LabError::Power { is: "off", what: "boot it first" })
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.running.is_some()
    }

    /// Its files, its disks among them (`NAME.disk`).
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The path of its file `name`, which is to be written while it is off.
    pub(super) fn file(&self, name: &str) -> Result<PathBuf, LabError> {
        match self.is_on() {
            true => Err(LabError::Power { is: "on", what: "shut it down first" }),
            false => Ok(self.directory().join(name)),
        }
    }

    /// Puts in a blank disk, in place of the one of the same name where there is one; others keep their places.
    ///
    /// # Errors
    /// When the guest runs, or the disk's file cannot be made.
    pub fn put_disk(&mut self, disk: Disk) -> Result<(), LabError> {
        disk.check()?;
        let file = self.file(&disk.file())?;
        let blank = || own::anew(&file)?.set_len(disk.size);
        blank().map_err(LabError::file("make", &file))?;
        match self.machine.disks.iter_mut().find(|other| other.name == disk.name) {
            Some(place) => *place = disk,
            None => self.machine.disks.push(disk),
        }
        Ok(())
    }

    /// What it is made of from its next boot on: memory, disks.
    pub fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }
}
