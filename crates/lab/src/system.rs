//! Guests with a system of their own: Debian with systemd, udev, an initramfs of its own making and cloud-init, on a disk that
//! it keeps over reboots and cuts of its power.
//!
//! The disk is made once, out of packages; each guest has a copy of it. What its boot reads of kernel and initramfs is what it has
//! written there itself.

use super::disks::Disk;
use super::files::{path, rename, write};
use super::guest::{Finished, Guest};
use super::hardware::Hardware;
use super::image::{self, make, step};
use super::machine::{Boot, Machine, Root};
use super::tools::{last_lines, run, run_to};
use super::{LabError, Laboratory, recipe};
use ebbtide_door::read;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a system may take from the agent's first word to the end of its boot, and any of its programs to say something. A device that is missing is waited for by
/// systemd for 90 s, cloud-init takes half a minute under emulation, and a busy host took six minutes for all of it.
const PATIENCE: Duration = Duration::from_secs(900);
/// The system's disk, in its image's directory and in the guest's.
const DISK: &str = "system.disk";
/// Bytes of the disk, most of them holes: six times what is on it.
const SIZE: u64 = 2 << 30;
/// UUID of the root file system.
const ROOT: &str = "d4b9a8a6-6f0e-4c57-9d0b-3f5f0c8b7e21";

/// The command in another guest that gives the script on its standard input a root to work in: the new disk's.
const SET_UP: &str = "\
modprobe md-mod
mount /dev/disk/by-id/virtio-system /mnt
for name in proc sys dev run; do mount --rbind /$name /mnt/$name; done
status=0
chroot /mnt sh -eu || status=$?
for name in proc sys dev run; do umount -R /mnt/$name; done
umount /mnt
exit $status
";

/// How a boot ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    /// As `systemctl is-system-running` says it: "running"; "degraded" with failed units; "maintenance" in its emergency shell.
    pub state: String,
    /// From the machine's start to that state.
    pub boot: Duration,
}

/// A machine with a system of its own. It is off until [`SystemGuest::boot`]; its disks stay until it is dropped.
#[derive(Debug)]
pub struct SystemGuest {
    laboratory: Laboratory,
    /// Release of its kernel.
    kernel: String,
    /// Its power, its disks, the guest that runs.
    pub hardware: Hardware,
}

impl SystemGuest {
    /// A machine with a fresh copy of the system disk and blank disks. It needs 768 MiB of memory for cloud-init.
    ///
    /// # Errors
    /// When the system disk cannot be built, a disk cannot be had, or a program is missing.
    pub fn new(laboratory: Laboratory, machine: Machine) -> Result<SystemGuest, LabError> {
        let image = build(&laboratory, &machine)?;
        let hardware = Hardware::new(&laboratory, machine)?;
        let (from, to) = (image.join(DISK), hardware.directory().join(DISK));
        // Most of it are holes, and stay such.
        run("cp", &["--sparse=always", "--reflink=auto", "--", path(&from)?, path(&to)?])?;
        Ok(SystemGuest { laboratory, kernel: image::release(&image), hardware })
    }

    /// Starts it and waits until its boot has ended in one way or another.
    ///
    /// # Errors
    /// When it runs already, has nothing to boot from, or its agent cannot be reached.
    pub fn boot(&mut self) -> Result<Life, LabError> {
        let start = Instant::now();
        let boot = self.read_boot()?;
        let guest = self.hardware.boot_from(&self.laboratory, &boot)?;
        guest.patience = Some(PATIENCE);
        let said = guest.capture(&["systemctl", "is-system-running", "--wait"], b"")?;
        let state = String::from_utf8_lossy(&said.output).trim().to_owned();
        let life = Life { state, boot: start.elapsed() };
        let (kernel, state, seconds) = (&self.kernel, &life.state, life.boot.as_secs_f64());
        let how = self.laboratory.runs_on(self.hardware.machine());
        (self.laboratory.say)(&format!(
            "system with kernel {kernel} is {state} after {seconds:.1} s ({how})"
        ));
        Ok(life)
    }

    /// The guest that runs.
    ///
    /// # Errors
    /// When it is off.
    pub fn guest(&mut self) -> Result<&mut Guest, LabError> {
        self.hardware.guest()
    }

    /// Shuts it down and starts it again.
    ///
    /// # Errors
    /// As [`SystemGuest::shut_down`] and [`SystemGuest::boot`].
    pub fn reboot(&mut self) -> Result<Life, LabError> {
        self.shut_down()?;
        self.boot()
    }

    /// Tells the system to shut down, and waits until it has.
    ///
    /// # Errors
    /// When it is off, or does not end in time.
    pub fn shut_down(&mut self) -> Result<(), LabError> {
        let guest = self.guest()?;
        guest.converse(&["systemctl", "--no-block", "poweroff"])?;
        // Its last word may be lost: the agent is stopped like everything else.
        guest.wait_end(PATIENCE)?;
        self.hardware.cut_power();
        Ok(())
    }

    /// Writes the file `at`, an absolute path of letters, digits, `-`, `_`, `.` and `/`, into the system while it is off; directories above
    /// it are made.
    ///
    /// # Errors
    /// When the guest runs, or it cannot be written.
    pub fn put_file(&self, at: &str, content: &[u8]) -> Result<(), LabError> {
        let (disk, source) = (self.replayed()?, self.hardware.file("file")?);
        let wrong = || LabError::Inside { path: at.to_owned() };
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if !at.starts_with('/') || !at.chars().all(fine) {
            return Err(wrong());
        }
        write(&source, content)?;
        let mut commands: String =
            at.match_indices('/').skip(1).map(|(end, _)| format!("mkdir {}\n", &at[..end])).collect();
        commands += &format!("rm {at}\nwrite {} {at}\n", path(&source)?);
        let list = self.hardware.file("commands")?;
        write(&list, commands.as_bytes())?;
        // debugfs has no exit status: a directory that is there already and a file that is not are no errors here.
        run("debugfs", &["-w", "-f", path(&list)?, path(&disk)?])?;
        match get_file(&disk, at, &self.hardware.file("back")?)? == content {
            true => Ok(()),
            false => Err(wrong()),
        }
    }

    /// Kernel and initramfs, as the system has left them: read as a boot loader would that replays the journal first.
    fn read_boot(&mut self) -> Result<Boot, LabError> {
        let disk = self.replayed()?;
        let (kernel, initrd) = (self.hardware.file("kernel")?, self.hardware.file("initrd")?);
        let mut files = vec![("initrd.img", &initrd)];
        // The kernel of User-Mode Linux is no file of the system's.
        if self.laboratory.uml(self.hardware.machine()).is_none() {
            files.push(("vmlinuz", &kernel));
        }
        for (name, to) in files {
            let at = format!("/boot/{name}-{}", self.kernel);
            if get_file(&disk, &at, to)?.is_empty() {
                return Err(LabError::Inside { path: at });
            }
        }
        let words = format!("root=UUID={ROOT} ro");
        Ok(Boot { kernel, initrd, words, root: Root::Own(PathBuf::from(DISK)) })
    }

    /// The system's disk, which is off, the journal of its file system replayed.
    fn replayed(&self) -> Result<PathBuf, LabError> {
        /// "File system errors corrected" (e2fsck(8)).
        const CORRECTED: i32 = 1;
        let disk = self.hardware.file(DISK)?;
        run_to("e2fsck", &["-p", "-E", "journal_only", path(&disk)?], &[0, CORRECTED])?;
        Ok(disk)
    }
}

/// Copies the file `at` of the file system on `disk` to `to`, and returns its content.
fn get_file(disk: &Path, at: &str, to: &Path) -> Result<Vec<u8>, LabError> {
    write(to, b"")?;
    run("debugfs", &["-R", &format!("dump {at} {}", path(to)?), path(disk)?])?;
    read::bytes(to, 1 << 30).map_err(io::Error::from).map_err(LabError::file("read", to))
}

/// The directory of the system disk for what `machine` runs on; made where it is missing.
fn build(laboratory: &Laboratory, machine: &Machine) -> Result<PathBuf, LabError> {
    let uml = laboratory.uml(machine);
    let kind = if uml.is_some() { "system-uml-" } else { "system-" };
    make(&laboratory.places, kind, false, |work| {
        (laboratory.say)("system disk: downloading the packages");
        let count = step(work, &["download", "system-packages"])?;
        (laboratory.say)(&format!("system disk: unpacking {count} packages"));
        step(work, &["unpack"])?;
        if let Some(uml) = uml {
            step(work, &["other-kernel", path(&uml.directory)?])?;
        }
        let release = step(work, &["modules", "modules", "system-modules"])?;
        (laboratory.say)("system disk: setting it up in a guest");
        let machine = Machine {
            name: "system".to_owned(),
            memory_mib: 512,
            cpus: 2,
            disks: vec![Disk::plain("system", SIZE)],
            ..Machine::default()
        };
        let mut maker = Hardware::new(laboratory, machine)?;
        let disk = maker.file(DISK)?;
        step(work, &["system", path(&disk)?, ROOT, &format!("{}k", SIZE >> 10)])?;
        let Finished { status, output, errors } =
            maker.boot(laboratory)?.capture(&["sh", "-ec", SET_UP], recipe::SYSTEM_CONFIGURE.as_bytes())?;
        if status != 0 {
            let said = last_lines(&String::from_utf8_lossy(&[output, errors].concat()), 8);
            return Err(LabError::Program {
                command: "lab/system/configure".to_owned(),
                status: format!("status {status}"),
                said,
            });
        }
        // Nothing is mounted any more: what it has written is in the file.
        maker.cut_power();
        rename(&disk, &work.join("new").join(DISK))?;
        // Last: an image with it is whole.
        write(&work.join("new/release"), format!("{release}\n").as_bytes())
    })
}
