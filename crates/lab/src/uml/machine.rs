//! A guest that takes commands through the agent, on its serial line.

use super::{Guest, Kernel};
use crate::LabError;
use crate::disks::{Bus, Disk, Throttle};
use crate::files::path;
use crate::guest::{self, Files, TICK, check_disks, make_disk};
use crate::guest_directory::GuestDirectory;
use crate::machine::{Machine, Use};
use crate::recipe;
use ebbtide_model::backend::Control;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Kernel {
    /// Whether `machine` is one that this kernel can be: with plain disks, without a network, driven by commands.
    pub fn can_be(machine: &Machine) -> bool {
        let plain =
            |disk: &Disk| (disk.bus, disk.throttle, disk.link) == (Bus::Virtio, Throttle::default(), None);
        machine.place.is_none() && machine.usage == Use::Commands && machine.disks.iter().all(plain)
    }

    /// Starts a guest, whose `ebb` is `program`, and waits until it takes commands. Its disks are /dev/ubda and so on, with the same names below
    /// /dev/disk/by-id as QEMU's.
    ///
    /// # Errors
    /// When a disk cannot be had, or the guest is not ready in time.
    pub fn boot(
        &self,
        machine: &Machine,
        program: &Path,
        control: Arc<Control>,
    ) -> Result<guest::Guest, LabError> {
        check_disks(machine)?;
        let directory = Arc::new(GuestDirectory::make(&self.places, &machine.name)?);
        let at = directory.path();
        for disk in &machine.disks {
            make_disk(disk, at)?;
        }
        let names: Vec<&str> = machine.disks.iter().map(|disk| disk.name.as_str()).collect();
        let wanted = Guest {
            script: script(&machine.name, &names, path(program)?),
            disks: machine.disks.iter().map(|disk| at.join(disk.file())).collect(),
            memory_mib: machine.memory_mib,
            udev: false,
            share: Some(at.to_owned()),
        };
        let failed = |error| LabError::file("talk to the guest of", at)(error);
        let (channel, theirs) = UnixStream::pair().map_err(failed)?;
        channel.set_read_timeout(Some(TICK)).map_err(failed)?;
        let start = Instant::now();
        let process = wanted.spawn(self, at, &machine.name, OwnedFd::from(theirs).into())?;
        let mut guest = guest::Guest {
            process,
            channel,
            directory: directory.clone(),
            control,
            files: Some(Files { directory: directory.clone(), next: Arc::default() }),
            disks: "ubd",
            boot: Duration::ZERO,
        };
        guest.wait_ready(start)?;
        guest.boot = start.elapsed();
        Ok(guest)
    }
}

/// What such a guest runs: its disks get their names, and the agent the serial line.
fn script(name: &str, disks: &[&str], program: &str) -> String {
    let names: String = ('a'..='z')
        .zip(disks)
        .map(|(letter, disk)| {
            format!(
                "KERNEL==\"ubd{letter}\", ENV{{ID_SERIAL}}=\"{disk}\", SYMLINK+=\"disk/by-id/virtio-{disk}\"\n\
                 KERNEL==\"ubd{letter}[0-9]*\", ENV{{ID_SERIAL}}=\"{disk}\", SYMLINK+=\"disk/by-id/virtio-{disk}-part%n\"\n"
            )
        })
        .collect();
    format!("name='{name}'\nebb='{program}'\nrules='{names}'\n{}", recipe::UML_AGENT)
}
