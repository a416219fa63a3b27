//! Guests that boot in seconds without KVM: User-Mode Linux, a kernel that is a program.
//!
//! [`Kernel`] is fetched once. [`Guest`] says what to boot: its root is this machine's file tree, so nothing is packed for it. A [`Laboratory`]
//! that has the kernel starts what it can be on it: guests that take commands, with the image of QEMU's, and on one network with them. It has
//! one processor and no NVMe; as yet it needs root.

use super::disks::{Bus, Disk, Throttle};
use super::files::{make_directory, path, write};
use super::image::{self, make, step};
use super::machine::{self, Boot, Machine, Root, Use};
use super::network::Socket;
use super::places::{GuestDirectory, Places};
use super::process::{KERNEL_LOG, OUTPUT, Process, command, new_log};
use super::tools::last_lines;
use super::{LabError, Laboratory, accel, recipe};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Where it is from: the kernel of Debian 12 dies on processors with AMX. With the packages of the C library that it is linked with.
const FROM: [&str; 5] = ["download-alone", "sid", "user-mode-linux", "libc6", "libgcc-s1"];
/// A kernel that cannot run here ends at once; only a machine under load needs so long.
const TRY_PATIENCE: Duration = Duration::from_secs(60);
/// The kernel has 16 of ubd; two are the image and the program.
const DISKS_MAX: usize = 14;
/// Most that a guest may print.
const MOST: u64 = 16 << 20;

/// A kernel that starts on this machine.
#[derive(Debug, Clone)]
pub struct Kernel {
    places: Places,
    pub(super) directory: PathBuf,
}

impl Kernel {
    /// The kernel, fetched where it is missing; `say` is told what happens.
    ///
    /// # Errors
    /// When it cannot be fetched, or a guest that only powers off does not start.
    pub fn ready(places: &Places, say: &mut dyn FnMut(&str)) -> Result<Kernel, LabError> {
        let directory = make(places, "uml-", false, |work| {
            say("downloading User-Mode Linux");
            [&FROM[..], &["unpack"], &["uml"]].iter().try_for_each(|words| step(work, words).map(drop))
        })?;
        let kernel = Kernel { places: places.clone(), directory };
        accel::once_a_boot(&kernel.directory.join("works"), || {
            let guest = Guest { script: "true".to_owned(), memory_mib: 256, ..Guest::default() };
            let outcome = guest.run(&kernel, TRY_PATIENCE)?;
            match outcome.status {
                Some(0) => Ok("works"),
                _ => Err(LabError::Guest {
                    what: "of User-Mode Linux does not start here".to_owned(),
                    log: format!(":\n{}", outcome.output),
                }),
            }
        })?;
        Ok(kernel)
    }

    /// Its release.
    pub fn release(&self) -> String {
        image::release(&self.directory)
    }

    /// Whether `machine` is one that this kernel can be: driven by commands, with plain disks.
    pub fn can_be(machine: &Machine) -> bool {
        let plain =
            |disk: &Disk| (disk.bus, disk.throttle, disk.link) == (Bus::Virtio, Throttle::default(), None);
        machine.usage == Use::Commands && machine.disks.len() <= DISKS_MAX && machine.disks.iter().all(plain)
    }

    /// Starts a guest whose agent has the serial line `line`. Its disks are /dev/ubda and so on, with the same
    /// names below /dev/disk/by-id as QEMU's, and its network card has the same name.
    pub(super) fn boot(
        &self,
        directory: &Arc<GuestDirectory>,
        line: Stdio,
        boot: &Boot,
        laboratory: &Laboratory,
        machine: &Machine,
    ) -> Result<(Process, Option<Socket>), LabError> {
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
        let mut words = wanted.hardware(at)?;
        words += " net.ifnames=0";
        // Tells the rules of udev the name of a disk. The dot keeps the word from what process 1 is given, which may be little.
        let named = |letter: char, name: &str| format!(" ebb.ubd{letter}={name}");
        let mut letters = 'a'..='z';
        for (disk, letter) in machine.disks.iter().zip(letters.by_ref()) {
            words += &named(letter, &disk.name);
        }
        // Read only (r) and not locked (c): QEMU's guests have them too.
        let (program, root) = (letters.next().unwrap_or('z'), letters.next().unwrap_or('z'));
        words +=
            &format!(" ubd{program}rc={}{}", plain(&laboratory.program)?, named(program, machine::PROGRAM));
        words += &match &boot.root {
            Root::Shared(image) => {
                let image = plain(image)?;
                let own = wanted.root(self, at, &machine.name)?;
                format!(" ubd{root}rc={image} EBB_IMAGE=ubd{root} EBB_PROGRAM=ubd{program}{own}")
            }
            Root::Own(disk) => {
                let (disk, initrd) = (at.join(disk), plain(&boot.initrd)?);
                let name = named(root, machine::ROOT);
                format!(" ubd{root}={}{name} initrd={initrd} {}", plain(&disk)?, boot.words)
            }
        };
        let mut network = None;
        if let Some(place) = &machine.place {
            let (socket, word) = place.socket(at).map_err(LabError::file("make a network in", at))?;
            words += &format!(" {word}");
            network = Some(socket);
        }
        Ok((self.start(directory, line, &words)?, network))
    }

    /// Starts the kernel, its serial line being `line`.
    fn start(&self, directory: &Arc<GuestDirectory>, line: Stdio, words: &str) -> Result<Process, LabError> {
        let at = directory.path();
        make_directory(&at.join("uml"))?;
        let (output, log) = (new_log(at, OUTPUT)?, new_log(at, KERNEL_LOG)?);
        // Its threads take turns, one for the kernel and one for what runs in it: on two processors each turn wakes the other, at three
        // times the price. Its library path is not that of the programs before it, which are this machine's.
        let mut kernel = command("taskset");
        kernel
            .args(["--cpu-list", &a_processor(), "env", "LD_LIBRARY_PATH=.", "./linux"])
            .args(words.split(' '))
            .current_dir(self.directory.join("lib"))
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", at);
        Process::start(kernel.stdin(line).stdout(output).stderr(log), directory)
    }
}

/// The processor for the next guest: each in turn of those that this process may use.
fn a_processor() -> String {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    let may = sched_getaffinity(None).unwrap_or_default();
    let may: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|number| may.is_set(*number)).collect();
    let turn = STARTED.fetch_add(1, Ordering::Relaxed);
    may.get(turn % may.len().max(1)).unwrap_or(&0).to_string()
}

/// A guest of a script.
#[derive(Debug, Clone)]
pub struct Guest {
    /// Run by `sh` as root. Its writes outside of disks and `/share` go to memory and are lost.
    pub script: String,
    /// Regular files: `/dev/ubda`, `/dev/ubdb` and so on.
    pub disks: Vec<PathBuf>,
    /// Its memory.
    pub memory_mib: u32,
    /// Whether udev runs.
    pub udev: bool,
    /// A directory of this machine that the guest has at `/share`, to read and write.
    pub share: Option<PathBuf>,
}

impl Default for Guest {
    fn default() -> Self {
        Guest { script: String::new(), disks: Vec::new(), memory_mib: 512, udev: false, share: None }
    }
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What the script printed, standard error too.
    pub output: String,
    /// How the script ended; nothing where the guest ended before it.
    pub status: Option<i32>,
}

impl Guest {
    /// Boots it and waits until it is off.
    ///
    /// # Errors
    /// When it cannot be started, or is not off in time: its power is cut, and the error has what it printed last.
    pub fn run(&self, kernel: &Kernel, patience: Duration) -> Result<Outcome, LabError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("uml-{}-{number}", std::process::id());
        let directory = Arc::new(GuestDirectory::make(&kernel.places, &name)?);
        let at = directory.path();
        let words = self.hardware(at)? + &self.root(kernel, at, &name)?;
        let mut process = kernel.start(&directory, Stdio::null(), &words)?;
        let end = Instant::now() + patience;
        while process.ended()?.is_none() {
            if Instant::now() >= end {
                return Err(process.fault(format!("is not off after {} s", patience.as_secs())));
            }
            if std::fs::metadata(at.join(OUTPUT)).is_ok_and(|found| found.len() > MOST) {
                return Err(process.fault(format!("printed more than {MOST} bytes")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let (printed, console) = (process.log(OUTPUT), process.log(KERNEL_LOG));
        let mut output = printed.split_once(&format!("begin {name}\n")).unwrap_or_default().1.to_owned();
        let status = console.rsplit_once(&format!("ended {name} "));
        let status = status.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
        if status.is_none() {
            output += &last_lines(&console, 20);
        }
        Ok(Outcome { output, status })
    }

    /// What the kernel is told of memory, disks and lines.
    fn hardware(&self, at: &Path) -> Result<String, LabError> {
        // The script's output is tty0, the kernel's tty1.
        let mut words =
            "quiet panic=-1 con=null con0=null,fd:1 con1=null,fd:2 ssl=null ssl0=fd:0 console=tty1"
                .to_owned();
        // Half the time of ptrace, on which it falls back where it cannot; kernels before 6.16 take no notice.
        words += " seccomp=auto";
        words += &format!(" mem={}M uml_dir={}/uml/", self.memory_mib, plain(at)?);
        for (letter, disk) in ('a'..='z').zip(&self.disks) {
            words += &format!(" ubd{letter}={}", plain(disk)?);
        }
        if let Some(share) = &self.share {
            words += &format!(" EBB_SHARE={}", plain(share)?);
        }
        Ok(words)
    }

    /// What the kernel is told so that it runs the script, which is written to the guest's directory `at`.
    fn root(&self, kernel: &Kernel, at: &Path, name: &str) -> Result<String, LabError> {
        write(&at.join("script"), self.script.as_bytes())?;
        let (own, run, udev) = (plain(&kernel.directory)?, plain(at)?, u8::from(self.udev));
        let root = format!(" root=/dev/root rootfstype=hostfs rootflags=/ ro init={own}/init");
        Ok(root + &format!(" EBB_KERNEL={own} EBB_RUN={run} EBB_NUMBER={name} EBB_UDEV={udev}"))
    }
}

/// A path that the kernel's command line can carry.
fn plain(file: &Path) -> Result<&str, LabError> {
    let text = path(file)?;
    match text.starts_with('/') && !text.contains([' ', ',', ':', '"', '\n']) {
        true => Ok(text),
        false => Err(LabError::Disk {
            name: text.to_owned(),
            why: "User-Mode Linux takes absolute paths without blanks, commas, colons and quotes".to_owned(),
        }),
    }
}
