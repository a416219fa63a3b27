//! A guest: a process, its disks files.

use crate::LabError;
use crate::files::{make_directory, path, write};
use crate::guest::{KERNEL_LOG, OUTPUT};
use crate::guest_directory::GuestDirectory;
use crate::tools::last_lines;
use crate::uml::Kernel;
use ebbtide_door::{own, read};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Most that a guest may print.
const MOST: u64 = 16 << 20;
const TICK: Duration = Duration::from_millis(20);

/// What to boot.
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

/// A guest that runs. Dropped, its power is cut.
#[derive(Debug)]
pub struct Running {
    child: Child,
    directory: GuestDirectory,
    name: String,
}

impl Guest {
    /// Boots it and waits until it is off.
    ///
    /// # Errors
    /// When it cannot be started, or is not off in time.
    pub fn run(&self, kernel: &Kernel, patience: Duration) -> Result<Outcome, LabError> {
        self.start(kernel)?.wait(patience)
    }

    /// Boots it. It ends with the thread that calls this, at the latest.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, kernel: &Kernel) -> Result<Running, LabError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("uml-{}-{number}", std::process::id());
        let directory = GuestDirectory::make(&kernel.places, &name)?;
        let at = directory.path();
        let arguments = [self.hardware(at)?, self.root(kernel, at, &name)?].concat();
        let child = spawn(kernel, at, Stdio::null(), &arguments)?;
        Ok(Running { child, directory, name })
    }

    /// What the kernel is told of memory, disks and lines.
    pub(super) fn hardware(&self, at: &Path) -> Result<Vec<String>, LabError> {
        let mut arguments: Vec<String> = [
            "quiet panic=-1",
            // Half the time of ptrace, on which it falls back where it cannot; kernels before 6.16 take no notice.
            "seccomp=auto",
            // The script's output is tty0, the kernel's tty1.
            "con=null con0=null,fd:1 con1=null,fd:2 ssl=null ssl0=fd:0 console=tty1",
        ]
        .iter()
        .flat_map(|words| words.split(' ').map(str::to_owned))
        .collect();
        arguments.push(format!("mem={}M", self.memory_mib));
        for (letter, disk) in ('a'..='z').zip(&self.disks) {
            arguments.push(format!("ubd{letter}={}", plain(disk)?));
        }
        arguments.push(format!("uml_dir={}/uml/", plain(at)?));
        if let Some(share) = &self.share {
            arguments.push(format!("EBB_SHARE={}", plain(share)?));
        }
        Ok(arguments)
    }

    /// What the kernel is told so that it runs the script, which is written to the guest's directory `at`.
    pub(super) fn root(&self, kernel: &Kernel, at: &Path, name: &str) -> Result<Vec<String>, LabError> {
        write(&at.join("script"), self.script.as_bytes())?;
        let own = plain(&kernel.directory)?;
        let mut arguments: Vec<String> =
            ["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"].map(str::to_owned).into();
        arguments.push(format!("init={own}/init"));
        arguments.push(format!("EBB_KERNEL={own}"));
        arguments.push(format!("EBB_RUN={}", plain(at)?));
        arguments.push(format!("EBB_NUMBER={name}"));
        arguments.push(format!("EBB_UDEV={}", u8::from(self.udev)));
        Ok(arguments)
    }
}

/// Starts the kernel in the guest's directory `at`; its serial line is `line`.
pub(super) fn spawn(
    kernel: &Kernel,
    at: &Path,
    line: Stdio,
    arguments: &[String],
) -> Result<Child, LabError> {
    make_directory(&at.join("uml"))?;
    let file = |name: &str| own::anew(&at.join(name)).map_err(LabError::file("make", &at.join(name)));
    let lib = kernel.directory.join("lib");
    Command::new("setpriv")
        // Its library path is not that of the programs before it, which are this machine's.
        .args(["--pdeathsig", "KILL", "env", "LD_LIBRARY_PATH=.", "./linux"])
        .args(arguments)
        .current_dir(&lib)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", at)
        .process_group(0)
        .stdin(line)
        .stdout(file(OUTPUT)?)
        .stderr(file(KERNEL_LOG)?)
        .spawn()
        .map_err(LabError::file("start", &lib.join("linux")))
}

/// A path that the kernel's command line can carry.
pub(super) fn plain(file: &Path) -> Result<&str, LabError> {
    let text = path(file)?;
    match text.starts_with('/') && !text.contains([' ', ',', ':', '"', '\n']) {
        true => Ok(text),
        false => Err(LabError::Disk {
            name: text.to_owned(),
            why: "User-Mode Linux takes absolute paths without blanks, commas, colons and quotes".to_owned(),
        }),
    }
}

impl Running {
    /// Waits until the guest is off.
    ///
    /// # Errors
    /// When it is not in time: its power is cut, and the error has what it printed last.
    pub fn wait(mut self, patience: Duration) -> Result<Outcome, LabError> {
        let end = Instant::now() + patience;
        loop {
            let fault = LabError::file("wait for", self.directory.path());
            if self.child.try_wait().map_err(fault)?.is_some() {
                return Ok(self.outcome());
            }
            let size = std::fs::metadata(self.directory.path().join(OUTPUT)).map_or(0, |found| found.len());
            let late = Instant::now() >= end;
            if late || size > MOST {
                self.kill();
                let why = if late {
                    format!("is not off after {} s", patience.as_secs())
                } else {
                    format!("printed more than {MOST} bytes")
                };
                return Err(LabError::Guest { what: why, log: format!(":\n{}", self.last_words()) });
            }
            std::thread::sleep(TICK);
        }
    }

    /// Cuts its power: what was not flushed to its disks is lost.
    ///
    /// # Errors
    /// When the process cannot be waited for.
    pub fn cut_power(mut self) -> Result<Outcome, LabError> {
        self.kill();
        Ok(self.outcome())
    }

    /// What the script has printed until now.
    pub fn output_so_far(&self) -> String {
        let text = self.text(OUTPUT);
        let begin = format!("begin {}\n", self.name);
        text.split_once(&begin).map(|(_, rest)| rest.to_owned()).unwrap_or_default()
    }

    fn outcome(&self) -> Outcome {
        let output = self.output_so_far();
        let console = self.text(KERNEL_LOG);
        let mark = format!("ended {} ", self.name);
        let status =
            console.rsplit_once(&mark).and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
        match status {
            Some(_) => Outcome { output, status },
            None => Outcome { output: output + &last_lines(&console, 20), status },
        }
    }

    fn last_words(&self) -> String {
        last_lines(&(self.text(KERNEL_LOG) + &self.text(OUTPUT)), 30)
    }

    fn text(&self, name: &str) -> String {
        let file = read::open(&self.directory.path().join(name)).ok();
        let bytes =
            file.and_then(|mut file| read::up_to(&mut file, MOST + (1 << 20)).ok()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Ends the kernel and every process that it started here.
    fn kill(&mut self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A group outlives its first process; one that has ended has no number to send to.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.kill();
        }
    }
}
