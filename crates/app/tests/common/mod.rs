//! A user's home in a temporary directory, and tiny experiments to run in it.
#![allow(clippy::unwrap_used, dead_code)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const EBB: &str = env!("CARGO_BIN_EXE_ebb");

/// Runs `$0` with a new disk at `$TMPDIR`.
const OWN_DISK: &str = "\
mount -t tmpfs none \"$TMPDIR\"
truncate -s 256M \"$TMPDIR/disk\"
mkfs.ext4 -q -E lazy_itable_init=0 \"$TMPDIR/disk\"
mkdir \"$TMPDIR/mounted\"
mount -o loop \"$TMPDIR/disk\" \"$TMPDIR/mounted\"
TMPDIR=\"$TMPDIR/mounted\" exec \"$0\" \"$@\"";

/// A home of its own: store, journal and volumes.
pub struct Home {
    root: tempfile::TempDir,
    /// Whether `ebb` finds a disk in its directory for volumes on which nobody else is at work.
    own_disk: bool,
}

impl Home {
    pub fn new() -> Home {
        // Not in /tmp, which may be memory.
        let root = tempfile::tempdir_in("/var/tmp").unwrap();
        for name in ["data", "state", "volumes"] {
            std::fs::create_dir(root.path().join(name)).unwrap();
        }
        Home { root, own_disk: false }
    }

    /// The same with a disk of its own for volumes, where root can give it one: 256 MiB of memory, which `ebb` alone sees, and which is
    /// gone when `ebb` has ended. What others do to the machine's disk is then no part of what a test judges.
    pub fn on_its_own_disk() -> Home {
        let own_disk = rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists();
        if !own_disk {
            println!(
                "not root, or no loop devices: the volumes are on the disk of /var/tmp, whoever else is at work on it"
            );
        }
        Home { own_disk, ..Home::new() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// `ebb` with `line`'s words as arguments, in this home.
    pub fn ebb(&self, line: &str) -> Command {
        let mut command = if self.own_disk {
            let mut own = self.command("unshare");
            own.args(["--mount", "sh", "-ec", OWN_DISK, EBB]);
            own
        } else {
            self.command(EBB)
        };
        command.args(line.split_whitespace());
        command
    }

    /// Any program, in this home.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.root.path())
            .env("XDG_DATA_HOME", self.path("data"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("TMPDIR", self.path("volumes"));
        command
    }

    /// A shell's command in this home, on a terminal of its own: util-linux's `script` gives it one.
    pub fn on_a_terminal(&self, line: &str) -> Command {
        let mut command = self.command("script");
        command.args(["-qec", line, "/dev/null"]);
        command
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The JSON of a subcommand that must end with one of `statuses`.
    pub fn json(&self, line: &str, statuses: &[i32]) -> Value {
        let output = self.ebb(line).arg("--json").output().unwrap();
        assert!(statuses.contains(&status(&output)), "{line}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{line}: {e}: {output:?}"))
    }

    /// `ebb` with `line`, which is to be interrupted: a test that runs in the background of a script ignores what it sends, and
    /// so would the program.
    pub fn interruptible(&self, line: &str) -> Command {
        let mut command = self.command("env");
        command.args(["--default-signal=INT,HUP,TERM", EBB]).args(line.split_whitespace());
        command
    }

    /// Starts `ebb` with the words of `line`.
    pub fn start(&self, line: &str) -> Running {
        let mut command = self.interruptible(line);
        Running(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    /// Starts `line` and returns once its session has at least `trials` trials on disk.
    pub fn start_until(&self, line: &str, trials: u64) -> Running {
        let running = self.start(line);
        self.until(|session| count(session, "trials") >= trials);
        running
    }

    /// The last session as `ebb list` shows it, once it is as `wanted`.
    pub fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        until("a session", || {
            let session = self.json("list", &[0])["sessions"][0].clone();
            if wanted(&session) { Ok(session) } else { Err(session.to_string()) }
        })
    }

    /// Files below `name`, at any depth.
    pub fn files_in(&self, name: &str) -> Vec<PathBuf> {
        fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, found);
                }
                found.push(path);
            }
        }
        let mut found = Vec::new();
        walk(&self.path(name), &mut found);
        found
    }
}

/// How long an idle machine may take for anything that a test waits for.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `look` finds `what`. Its error is the state at that moment, which is printed when patience ends: [`PATIENCE`], as many
/// times as this machine is slower at that moment than an idle one.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    let mut end = PATIENCE;
    loop {
        let state = match look() {
            Ok(found) => return found,
            Err(state) => state,
        };
        if begin.elapsed() > end {
            let slower = slower();
            end = PATIENCE.mul_f64(slower);
            assert!(
                begin.elapsed() <= end,
                "waited for {what} for {:?}, on a machine that is {slower:.1} times slower than an idle one: {state}",
                begin.elapsed()
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How many times slower a fixed piece of work is now than on an idle machine, 1 to 20.
fn slower() -> f64 {
    // A core of 2020 takes this long for it, compiled without optimization.
    const IDLE: Duration = Duration::from_millis(500);
    let begin = Instant::now();
    let mut sum = 0u64;
    for n in 0..50_000_000u64 {
        sum = std::hint::black_box(sum.rotate_left(5) ^ n);
    }
    (begin.elapsed().as_secs_f64() / IDLE.as_secs_f64()).clamp(1.0, 20.0)
}

/// [`until`] for a condition that has no state to tell.
pub fn until_true(what: &str, mut is: impl FnMut() -> bool) {
    until(what, || if is() { Ok(()) } else { Err("not yet".to_owned()) });
}

/// Waits until a job of the `ebb` that is process `pid` is at work: until its thread had a processor for so long, so that a busy machine gives
/// it as much to do.
pub fn until_at_work(pid: u32, ran: Duration) {
    let threads = format!("/proc/{pid}/task");
    let has_worked = |thread: &Path| {
        let read = |name: &str| std::fs::read_to_string(thread.join(name)).unwrap_or_default();
        let own = read("schedstat").split_whitespace().next().and_then(|own| own.parse().ok());
        read("comm").starts_with("ebb-job") && own.is_some_and(|own| Duration::from_nanos(own) > ran)
    };
    let at_work =
        || std::fs::read_dir(&threads).expect("it runs").flatten().any(|thread| has_worked(&thread.path()));
    until_true("its job at work", at_work);
}

/// A run that goes on in the background; ended when a test gives up on it.
pub struct Running(Option<Child>);

impl Running {
    pub fn signal(&self, name: &str) {
        let id = self.0.as_ref().unwrap().id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status();
        assert!(sent.unwrap().success());
    }

    /// The same, for one that may have ended by itself.
    pub fn signal_if_it_lives(&self, name: &str) {
        let id = self.0.as_ref().unwrap().id().to_string();
        let _ = Command::new("kill").args([&format!("-{name}"), &id]).output();
    }

    pub fn wait(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A loop device over a file, detached at the end whatever happens.
pub struct Loop {
    pub device: String,
}

impl Loop {
    pub fn over(file: &Path) -> Loop {
        Loop::from(&[file.to_str().unwrap()])
    }

    /// With further arguments to losetup. The device keeps partitions of its last user where that was killed.
    pub fn from(arguments: &[&str]) -> Loop {
        let device = tool("losetup", &[&["--find", "--show"], arguments].concat());
        let left = std::fs::read_dir("/dev").unwrap().flatten().map(|entry| entry.path());
        for left in left.filter(|left| left.to_str().unwrap().starts_with(&format!("{device}p"))) {
            tool("delpart", &[&device, &left.to_str().unwrap()[device.len() + 1..]]);
        }
        Loop { device }
    }

    pub fn name(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
        // The kernel puts it off while another program has the device open, as those do that look at every new one.
        let attached = Path::new("/sys/block").join(self.name()).join("loop");
        let end = Instant::now() + Duration::from_secs(10);
        while attached.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Runs a program that the test needs; what it printed.
pub fn tool(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(name).args(arguments).output().unwrap();
    assert!(output.status.success(), "{name} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A count of a session that `ebb list` shows; 0 before there is one.
pub fn count(session: &Value, what: &str) -> u64 {
    session[what].as_u64().unwrap_or(0)
}

pub fn status(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Two designs over four shaped volumes of 8 MiB, with `volumes` and `answer` as extra lines of their tables.
pub fn tiny(volumes: &str, answer: &str) -> String {
    format!(
        r#"
name = "tiny"
[volumes.v]
count = 4
size = "8MiB"
{volumes}
[volumes.v.shape]
throughput = "32MiB/s"
latency = "0.2ms"
[designs.left]
layout = "linear"
members = ["v[0..1]"]
[designs.right]
layout = "stripe"
chunk = "64KiB"
members = ["v[2..3]"]
[workloads.seqread]
rw = "read"
bs = "64k"
iodepth = 4
runtime = "100ms"
[answer]
{answer}
"#
    )
}

/// Ends after six rounds.
pub const SHORT: &str = "trials_min = 6\ntrials_max = 6\nbudget = \"30s\"";
/// Would go on for a long time.
pub const LONG: &str = "trials_min = 500\ntrials_max = 500\nbudget = \"100s\"";

/// `line` must end with `status` and say each of `wanted`.
pub fn refused(home: &Home, line: &str, status: i32, wanted: &[&str]) {
    let output = home.ebb(line).output().expect("ebb runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{line}: {said}");
    for wanted in wanted {
        assert!(said.contains(wanted), "{line}: {wanted} is not in {said}");
    }
}
