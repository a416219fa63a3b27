//! A guest that takes commands through the agent, on its serial line.

use super::guest::{plain, spawn};
use super::{Guest, Kernel};
use crate::disks::{Bus, Disk, Throttle};
use crate::guest::{self, Files, TICK};
use crate::guest_directory::GuestDirectory;
use crate::machine::{self, Boot, Machine, Root, Use};
use crate::{LabError, Laboratory, recipe};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The kernel has 16 of ubd; two are the image and the program.
const DISKS_MAX: usize = 14;

/// Tells the rules of udev ([`recipe::UML_RULES`]) the name of a disk. The dot keeps the word from what process 1 is given, which may be little.
fn name(letter: char, name: &str) -> String {
    format!("ebb.ubd{letter}={name}")
}

impl Kernel {
    /// Whether `machine` is one that this kernel can be: driven by commands, with plain disks.
    pub fn can_be(machine: &Machine) -> bool {
        let plain =
            |disk: &Disk| (disk.bus, disk.throttle, disk.link) == (Bus::Virtio, Throttle::default(), None);
        machine.usage == Use::Commands && machine.disks.len() <= DISKS_MAX && machine.disks.iter().all(plain)
    }

    /// Starts a guest in a directory where its disks are, and waits until it takes commands. Its disks are /dev/ubda and so on, with the same
    /// names below /dev/disk/by-id as QEMU's, and its network card has the same name.
    ///
    /// # Errors
    /// When the guest is not ready in time.
    pub(crate) fn boot(
        &self,
        directory: &Arc<GuestDirectory>,
        boot: &Boot,
        laboratory: &Laboratory,
        machine: &Machine,
    ) -> Result<guest::Guest, LabError> {
        let at = directory.path();
        let wanted = Guest {
            script: format!(
                "name='{}'\nmkdir -p /run/udev/rules.d\ncat >/run/udev/rules.d/61-ebb.rules <<'END'\n{}END\n{}",
                machine.name,
                recipe::UML_RULES,
                recipe::UML_AGENT
            ),
            disks: machine.disks.iter().map(|disk| at.join(disk.file())).collect(),
            memory_mib: machine.memory_mib,
            udev: false,
            share: Some(at.to_owned()),
        };
        let mut arguments = wanted.hardware(at)?;
        arguments.push("net.ifnames=0".to_owned());
        let mut letters = 'a'..='z';
        for (disk, letter) in machine.disks.iter().zip(letters.by_ref()) {
            arguments.push(name(letter, &disk.name));
        }
        // Read only (r) and not locked (c): QEMU's guests have them too.
        let (program, root) = (letters.next().unwrap_or('z'), letters.next().unwrap_or('z'));
        arguments.push(format!("ubd{program}rc={}", plain(laboratory.program())?));
        arguments.push(name(program, machine::PROGRAM));
        match &boot.root {
            Root::Shared(image) => {
                arguments.push(format!("ubd{root}rc={}", plain(image)?));
                arguments.push(format!("EBB_IMAGE=ubd{root}"));
                arguments.push(format!("EBB_PROGRAM=ubd{program}"));
                arguments.extend(wanted.root(self, at, &machine.name)?);
            }
            Root::Own(disk) => {
                arguments.push(format!("ubd{root}={}", plain(&at.join(disk))?));
                arguments.push(name(root, machine::ROOT));
                arguments.push(format!("initrd={}", plain(&boot.initrd)?));
                arguments.extend(boot.words.split(' ').map(str::to_owned));
            }
        }
        let failed = |error| LabError::file("talk to the guest of", at)(error);
        let mut network = None;
        if let Some(place) = &machine.place {
            let (socket, argument) = place.socket(at, machine::NETWORK).map_err(failed)?;
            arguments.push(argument);
            network = Some(socket);
        }
        let (channel, theirs) = UnixStream::pair().map_err(failed)?;
        channel.set_read_timeout(Some(TICK)).map_err(failed)?;
        let start = Instant::now();
        let line = OwnedFd::from(theirs).into();
        let process = spawn(self, at, line, &arguments)?;
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
