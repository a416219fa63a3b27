//! A machine with a system disk of its own, which lives more than once.

use super::image::{self, ROOT, SystemImage};
use crate::disks::Disk;
use crate::files::{path, write};
use crate::guest::{Finished, Guest, Heard, Stream, check_disks, listen, make_disk};
use crate::guest_directory::GuestDirectory;
use crate::machine::{self, Boot, Machine, Root};
use crate::tools::{self, run};
use crate::{LabError, Laboratory};
use ebbtide_door::{own, read};
use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a system may take from the agent's first word to the end of its boot. A device that is missing is waited for by
/// systemd for 90 s, cloud-init takes half a minute under emulation, and a busy host took six minutes for all of it.
const PATIENCE: Duration = Duration::from_secs(900);

/// The system's disk in the guest's directory.
const DISK: &str = "system.disk";
const KERNEL: &str = "kernel";
const INITRD: &str = "initrd";

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
    image: SystemImage,
    machine: Machine,
    directory: Arc<GuestDirectory>,
    listener: UnixListener,
    running: Option<Guest>,
}

impl SystemGuest {
    /// A machine with a fresh copy of the system disk and blank disks. It needs 768 MiB of memory for cloud-init.
    ///
    /// # Errors
    /// When the system disk cannot be built, a disk cannot be had, or a program is missing.
    pub fn new(laboratory: Laboratory, machine: Machine) -> Result<SystemGuest, LabError> {
        check_disks(&machine)?;
        let image = image::build(&laboratory, laboratory.uml(&machine))?;
        let directory = Arc::new(GuestDirectory::make(laboratory.places(), &machine.name)?);
        for disk in &machine.disks {
            make_disk(disk, directory.path())?;
        }
        // Most of it are holes, and stay such.
        let to = directory.path().join(DISK);
        run("cp", &["--sparse=always", "--reflink=auto", "--", path(&image.disk())?, path(&to)?])?;
        let listener = listen(directory.path(), machine::SOCKET)?;
        Ok(SystemGuest { laboratory, image, machine, directory, listener, running: None })
    }

    /// Starts it and waits until its boot has ended in one way or another.
    ///
    /// # Errors
    /// When it runs already, has nothing to boot from, or its agent cannot be reached.
    pub fn boot(&mut self) -> Result<Life, LabError> {
        self.off("start it")?;
        check_disks(&self.machine)?;
        let start = Instant::now();
        let boot = self.read_boot()?;
        let guest = Guest::start(&self.directory, &self.listener, &boot, &self.laboratory, &self.machine)?;
        self.running = Some(guest);
        let said = self.run(&["systemctl", "is-system-running", "--wait"], PATIENCE)?;
        let state = String::from_utf8_lossy(&said.output).trim().to_owned();
        let life = Life { state, boot: start.elapsed() };
        let (kernel, seconds) = (self.image.kernel_release(), life.boot.as_secs_f64());
        let uml = self.laboratory.uml(&self.machine).is_some();
        let how = if uml { "User-Mode Linux" } else { self.laboratory.accelerator().name() };
        let state = &life.state;
        self.laboratory.say(&format!("system with kernel {kernel} is {state} after {seconds:.1} s ({how})"));
        Ok(life)
    }

    /// Runs a program in it to its end.
    ///
    /// # Errors
    /// When it is off, the program cannot be started, is silent for as long as `patience`, or the guest ends.
    pub fn run<A: AsRef<OsStr>>(&mut self, command: &[A], patience: Duration) -> Result<Finished, LabError> {
        let guest = self.guest()?;
        guest.converse(command)?;
        let mut finished = Finished::default();
        loop {
            match guest.hear(patience)? {
                Heard::Said(Stream::Output, bytes) => finished.output.extend(bytes),
                Heard::Said(Stream::Errors, bytes) => finished.errors.extend(bytes),
                Heard::Ended(status) => return Ok(Finished { status, ..finished }),
            }
        }
    }

    /// The guest that runs.
    ///
    /// # Errors
    /// When it is off.
    pub fn guest(&mut self) -> Result<&mut Guest, LabError> {
        self.running.as_mut().ok_or(LabError::Off)
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
        self.running = None;
        Ok(())
    }

    /// Takes its power away: QEMU is killed, and what the guest's kernel has not written yet is lost. (What it has written is
    /// there, flushed or not: a disk's own cache is not lost.)
    ///
    /// # Errors
    /// When it is off.
    pub fn cut_power(&mut self) -> Result<(), LabError> {
        self.guest()?;
        self.running = None;
        Ok(())
    }

    /// Whether the guest runs.
    pub fn is_on(&self) -> bool {
        self.running.is_some()
    }

    /// Puts in a blank disk, in place of the one of the same name where there is one; others keep their places.
    ///
    /// # Errors
    /// When the guest runs, or the disk's file cannot be made.
    pub fn put_disk(&mut self, disk: Disk) -> Result<(), LabError> {
        self.off("exchange its disks")?;
        disk.check()?;
        let file = self.disk_file(&disk.name);
        let blank = || own::anew(&file)?.set_len(disk.size);
        blank().map_err(LabError::file("make", &file))?;
        match self.machine.disks.iter_mut().find(|other| other.name == disk.name) {
            Some(place) => *place = disk,
            None => self.machine.disks.push(disk),
        }
        Ok(())
    }

    /// What it is made of: memory, disks.
    ///
    /// # Errors
    /// When the guest runs.
    pub fn machine(&mut self) -> Result<&mut Machine, LabError> {
        self.off("change the machine")?;
        Ok(&mut self.machine)
    }

    /// The file of the disk `name`, for whoever wants something on it while the guest is off.
    pub fn disk_file(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.disk"))
    }

    /// Writes the file `at`, an absolute path of letters, digits, `-`, `_`, `.` and `/`, into the system while it is off; directories above
    /// it are made.
    ///
    /// # Errors
    /// When the guest runs, or it cannot be written.
    pub fn put_file(&self, at: &str, content: &[u8]) -> Result<(), LabError> {
        self.off("write into it")?;
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if !at.starts_with('/') || !at.chars().all(fine) {
            return Err(LabError::Inside { path: at.to_owned() });
        }
        self.replay()?;
        let source = self.directory.path().join("file");
        write(&source, content)?;
        let mut commands: Vec<String> =
            at.match_indices('/').skip(1).map(|(end, _)| format!("mkdir {}", &at[..end])).collect();
        commands.push(format!("rm {at}"));
        commands.push(format!("write {} {at}", path(&source)?));
        for command in &commands {
            self.debugfs(&["-w", "-R", command])?;
        }
        // debugfs has no exit status: a directory that is there already and a file that is not are no errors here.
        match self.get_file(at, &self.directory.path().join("back"))? == content {
            true => Ok(()),
            false => Err(LabError::Inside { path: at.to_owned() }),
        }
    }

    fn debugfs(&self, arguments: &[&str]) -> Result<(), LabError> {
        let disk = self.directory.path().join(DISK);
        run("debugfs", &[arguments, &[path(&disk)?]].concat()).map(drop)
    }

    /// Copies the file `at` of the system, which is off, to `to`, and returns its content.
    fn get_file(&self, at: &str, to: &std::path::Path) -> Result<Vec<u8>, LabError> {
        write(to, b"")?;
        self.debugfs(&["-R", &format!("dump {at} {}", path(to)?)])?;
        let found = read::bytes(to, 1 << 30).map_err(io::Error::from);
        found.map_err(LabError::file("read", to))
    }

    /// Kernel and initramfs, as the system has left them: read as a boot loader would that replays the journal first.
    fn read_boot(&self) -> Result<Boot, LabError> {
        self.replay()?;
        let release = self.image.kernel_release();
        let place = |name: &str| self.directory.path().join(name);
        let (kernel, initrd) = (place(KERNEL), place(INITRD));
        // The kernel of User-Mode Linux is no file of the system's.
        let own =
            if self.laboratory.uml(&self.machine).is_some() { &[][..] } else { &[("vmlinuz", &kernel)] };
        for (name, to) in own.iter().chain(&[("initrd.img", &initrd)]) {
            let at = format!("/boot/{name}-{release}");
            if self.get_file(&at, to)?.is_empty() {
                return Err(LabError::NoBoot { path: at });
            }
        }
        let words = format!("root=UUID={ROOT} ro");
        Ok(Boot { kernel, initrd, words, root: Root::Own(PathBuf::from(DISK)) })
    }

    /// Replays the journal of the system's file system, where there is something in it.
    fn replay(&self) -> Result<(), LabError> {
        /// "File system errors corrected" (e2fsck(8)).
        const CORRECTED: i32 = 1;
        let disk = self.directory.path().join(DISK);
        let arguments = ["-p", "-E", "journal_only", path(&disk)?];
        let said = tools::run_any("e2fsck", &arguments)?;
        match said.status {
            Some(0 | CORRECTED) => Ok(()),
            status => Err(tools::failed("e2fsck", &arguments, status, &said.text())),
        }
    }

    /// Fails while it runs.
    fn off(&self, what: &'static str) -> Result<(), LabError> {
        if self.is_on() { Err(LabError::On { what }) } else { Ok(()) }
    }
}
