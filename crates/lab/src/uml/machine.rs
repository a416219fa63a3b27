//! A guest that takes commands through the agent, on its serial line.

use super::guest::plain;
use super::{Guest, Kernel};
use crate::disks::{Bus, Disk, Throttle};
use crate::guest::{self, Files, TICK};
use crate::guest_directory::GuestDirectory;
use crate::machine::{self, Machine, Use};
use crate::{LabError, Laboratory, recipe};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The kernel has 16 of ubd; two are the image and the program.
const DISKS_MAX: usize = 14;

impl Kernel {
    /// Whether `machine` is one that this kernel can be: driven by commands, with plain disks.
    pub fn can_be(machine: &Machine) -> bool {
        let plain =
            |disk: &Disk| (disk.bus, disk.throttle, disk.link) == (Bus::Virtio, Throttle::default(), None);
        machine.usage == Use::Commands && machine.disks.len() <= DISKS_MAX && machine.disks.iter().all(plain)
    }

    /// Starts a guest with the root file system `image` in a directory where its disks are, and waits until it takes commands. Its disks are
    /// /dev/ubda and so on, with the same names below /dev/disk/by-id as QEMU's, and its network card has the same name.
    ///
    /// # Errors
    /// When the guest is not ready in time.
    pub(crate) fn boot(
        &self,
        directory: &Arc<GuestDirectory>,
        image: &Path,
        laboratory: &Laboratory,
        machine: &Machine,
    ) -> Result<guest::Guest, LabError> {
        let at = directory.path();
        let names: Vec<&str> = machine.disks.iter().map(|disk| disk.name.as_str()).collect();
        let wanted = Guest {
            script: script(&machine.name, &names),
            disks: machine.disks.iter().map(|disk| at.join(disk.file())).collect(),
            memory_mib: machine.memory_mib,
            udev: false,
            share: Some(at.to_owned()),
        };
        let mut more = vec!["net.ifnames=0".to_owned()];
        let shared = [("EBB_IMAGE", image), ("EBB_PROGRAM", laboratory.program())];
        // Read only (r) and not locked (c): QEMU's guests have them too.
        for (letter, (word, file)) in ('a'..='z').skip(machine.disks.len()).zip(shared) {
            more.push(format!("ubd{letter}rc={}", plain(file)?));
            more.push(format!("{word}=ubd{letter}"));
        }
        let failed = |error| LabError::file("talk to the guest of", at)(error);
        let mut network = None;
        if let Some(place) = &machine.place {
            let (socket, argument) = place.socket(at, machine::NETWORK).map_err(failed)?;
            more.push(argument);
            network = Some(socket);
        }
        let (channel, theirs) = UnixStream::pair().map_err(failed)?;
        channel.set_read_timeout(Some(TICK)).map_err(failed)?;
        let start = Instant::now();
        let line = OwnedFd::from(theirs).into();
        let process = wanted.spawn(self, at, &machine.name, line, &more)?;
        let mut guest = guest::Guest {
            process,
            channel,
            directory: directory.clone(),
            control: laboratory.shared_control(),
            files: Some(Files { directory: directory.clone(), next: Arc::default() }),
            disks: "ubd",
            _network: network,
            boot: Duration::ZERO,
        };
        guest.wait_ready(start)?;
        guest.boot = start.elapsed();
        Ok(guest)
    }
}

/// What such a guest runs: its disks get their names, and the agent the serial line.
fn script(name: &str, disks: &[&str]) -> String {
    let names: String = ('a'..='z')
        .zip(disks)
        .map(|(letter, disk)| {
            format!(
                "KERNEL==\"ubd{letter}\", ENV{{ID_SERIAL}}=\"{disk}\", SYMLINK+=\"disk/by-id/virtio-{disk}\"\n\
                 KERNEL==\"ubd{letter}[0-9]*\", ENV{{ID_SERIAL}}=\"{disk}\", SYMLINK+=\"disk/by-id/virtio-{disk}-part%n\"\n"
            )
        })
        .collect();
    format!("name='{name}'\nrules='{names}'\n{}", recipe::UML_AGENT)
}
