//! A guest whose disks outlive it: its power can be cut, and given back. Everything else, its root file system among it, is in memory and as
//! new at each boot.

use super::guest::Guest;
use super::guest::{check_disks, listen, make_disk};
use super::guest_directory::GuestDirectory;
use super::machine::{self, Machine};
use super::{LabError, Laboratory};
use ebbtide_door::own;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

/// A machine with disks of its own.
#[derive(Debug)]
pub struct Hardware {
    machine: Machine,
    directory: Arc<GuestDirectory>,
    listener: UnixListener,
    running: Option<Guest>,
}

impl Hardware {
    /// A machine with blank disks, switched off.
    ///
    /// # Errors
    /// When a disk cannot be had.
    pub fn new(laboratory: &Laboratory, machine: Machine) -> Result<Hardware, LabError> {
        check_disks(&machine)?;
        let directory = Arc::new(GuestDirectory::make(laboratory.places(), &machine.name)?);
        for disk in &machine.disks {
            make_disk(disk, directory.path())?;
        }
        let listener = listen(directory.path(), machine::SOCKET)?;
        Ok(Hardware { machine, directory, listener, running: None })
    }

    /// Switches it on, and waits until it can be used.
    ///
    /// # Errors
    /// When it does not come up, or is on.
    pub fn boot(&mut self, laboratory: &Laboratory) -> Result<&mut Guest, LabError> {
        self.cut_power();
        let boot = laboratory.image().boot(&self.machine.name);
        let network = self.directory.path().join(machine::NETWORK);
        if network.exists() {
            own::remove(&network).map_err(LabError::file("remove", &network))?;
        }
        let guest = Guest::start(&self.directory, &self.listener, &boot, laboratory, &self.machine)?;
        Ok(self.running.insert(guest))
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
        self.running.as_mut().ok_or(LabError::Off)
    }

    /// Whether it is on.
    pub fn is_on(&self) -> bool {
        self.running.is_some()
    }

    /// Its files, its disks among them (`NAME.disk`).
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}
