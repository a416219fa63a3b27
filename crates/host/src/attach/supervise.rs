//! The process that keeps an SSH connection: it starts `ssh`, waits for its end, starts it again, and says how it is in a file.
//!
//! It holds a lock while it lives. Whoever takes the attachment away first writes that into its record, and then looks at the lock; this
//! process takes the lock first and then looks at the record: so either it is seen and ended, or it sees that it is not wanted.

use super::way::export_words;
use super::{Attachments, RUNNING};
use crate::command::Real as Programs;
use crate::made::{Context, Failure, ssh};
use crate::ssh::{Forward, SSH, Ssh, last_lines};
use crate::sys::Sys;
use crate::sys::process::Process;
use ebbtide_door::{Directory, own, read};
use ebbtide_model::made::State;
use ebbtide_model::units::UnixTime;
use ebbtide_provision::attached::{Record, Tunnel};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

/// The hidden subcommand that leads to [`serve`].
pub const SUBCOMMAND: &str = "attach-supervisor";
/// Between two looks at `ssh`.
const TICK: Duration = Duration::from_millis(50);
/// Pauses before `ssh` is started again: a connection that was cut comes back at once, a host that is away is not asked all the time.
const PAUSES: [Duration; 4] =
    [Duration::from_millis(100), Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];
/// A connection that stood so long was none that never came to be.
const STOOD: Duration = Duration::from_secs(5);
/// Signs of life of the other side: a quarter of the hold time apart, at most 5 s, and two may stay away.
const ALIVE_MAX_S: u64 = 5;
const ALIVE_COUNT: u32 = 2;
/// Longest state.
const LONGEST: u64 = 1 << 16;
/// Longest that `ssh` says before it ends.
const LOG_MAX: u64 = 1 << 16;

/// What the supervising process says of itself and its `ssh`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervised {
    /// Its process ID.
    pub pid: u32,
    /// When it began, in clock ticks since boot: tells it from another process of that number.
    pub start: u64,
    /// Whether the connection stands.
    pub connected: bool,
    /// Since when that is so.
    pub since: UnixTime,
    /// How often a connection that stood was lost.
    pub lost: u64,
    /// How often `ssh` was started.
    pub tries: u64,
    /// What went wrong last, while that lasts.
    pub error: Option<String>,
}

impl Supervised {
    /// What was said in `place` last.
    pub(super) fn read(place: &Path) -> Option<Supervised> {
        serde_json::from_str(&read::text(&place.join("state.json"), LONGEST).ok()?).ok()
    }
}

/// The socket of the `ssh` of the attachment in `place`.
pub(crate) fn control(place: &Path) -> PathBuf {
    place.join("ssh")
}

fn now() -> UnixTime {
    UnixTime::from(SystemTime::now())
}

/// What one supervising process works with.
struct Supervisor<'a> {
    sys: &'a Sys,
    name: &'a str,
    place: PathBuf,
    state: Supervised,
}

/// Keeps the SSH connection of the attachment `name` until `stop` is set, or its record is gone or says that it is not wanted.
///
/// # Errors
/// When there is nothing to keep, or somebody keeps it already.
pub fn serve(sys: &Sys, name: &str, stop: &AtomicBool) -> Result<(), Failure> {
    // One session of its own: no key of a terminal's and no signal to a group reaches it.
    let _ = rustix::process::setsid();
    let place = sys.run.join(RUNNING).join(name);
    Directory::make_all(&place).map_err(|error| Failure::file(&place, error))?;
    let lock = place.join("lock");
    let held = own::try_lock(&lock).map_err(|error| Failure::file(&lock, error))?;
    let Some(_held) = held else {
        return Err(Failure::Refused(format!("another process keeps the SSH connection of {name} already")));
    };
    let pid = std::process::id();
    let start = Process::look(sys, pid).map_or(0, |process| process.start);
    let state = Supervised { pid, start, connected: false, since: now(), lost: 0, tries: 0, error: None };
    let mut supervisor = Supervisor { sys, name, place, state };
    supervisor.show()?;
    supervisor.keep(stop)
}

impl Supervisor<'_> {
    /// The record, while it wants this connection.
    fn wanted(&self) -> Option<(Record, Tunnel)> {
        let record = Context::quietly(self.sys, &Programs, |context| {
            Attachments::new(context).record(self.name).ok().flatten()
        })?;
        let tunnel = record.tunnel.clone().filter(|_| record.state != State::Unmaking)?;
        Some((record, tunnel))
    }

    fn show(&self) -> Result<(), Failure> {
        let path = self.place.join("state.json");
        let text = serde_json::to_vec(&self.state).map_err(|error| Failure::file(&path, error))?;
        own::replace(&path, &text).map_err(|error| Failure::file(&path, error))
    }

    fn set(&mut self, connected: bool, error: Option<String>) {
        if self.state.connected != connected {
            self.state.lost += u64::from(!connected);
            self.state.since = now();
        }
        self.state.connected = connected;
        self.state.error = error;
        // A full /run hides how it is, and takes the connection from nobody.
        let _ = self.show();
    }

    fn keep(&mut self, stop: &AtomicBool) -> Result<(), Failure> {
        let mut failures = 0;
        while !stop.load(Ordering::Relaxed) {
            let Some((record, tunnel)) = self.wanted() else { return Ok(()) };
            self.state.tries += 1;
            let begin = Instant::now();
            let why = match self.start(&record, &tunnel) {
                Ok(child) => self.watch(child, &record, &tunnel, stop),
                Err(error) => error.to_string(),
            };
            if stop.load(Ordering::Relaxed) {
                break;
            }
            failures = if begin.elapsed() > STOOD { 0 } else { failures + 1 };
            self.set(false, Some(why));
            let until = Instant::now() + PAUSES[failures.min(PAUSES.len() - 1)];
            while Instant::now() < until && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(TICK);
            }
        }
        Ok(())
    }

    fn log(&self) -> PathBuf {
        self.place.join("ssh.log")
    }

    /// Starts `ssh`; it ends with this process, whatever ends that.
    fn start(&self, record: &Record, tunnel: &Tunnel) -> Result<Child, Failure> {
        let control = control(&self.place);
        // One that was killed leaves its socket, which another would not take.
        own::remove(&control).map_err(|error| Failure::file(&control, error))?;
        let ssh = Ssh::new(&tunnel.destination)
            .and_then(|ssh| ssh.through(&control))
            .map_err(|error| Failure::far(&tunnel.destination, error))?;
        let forward = Forward {
            bind: record.address.clone(),
            port: record.port,
            to: "127.0.0.1".to_owned(),
            to_port: tunnel.export_port,
        };
        let interval = (record.hold_s / 4).clamp(1, ALIVE_MAX_S);
        let log: File = own::anew(&self.log()).map_err(|error| Failure::file(&self.log(), error))?;
        Command::new("setpriv")
            .args(["--pdeathsig", "TERM", SSH])
            // The first that is said of an option counts.
            .args([
                "-o",
                &format!("ServerAliveInterval={interval}"),
                "-o",
                &format!("ServerAliveCountMax={ALIVE_COUNT}"),
            ])
            .args(["-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-o", "PermitLocalCommand=no"])
            .args(ssh.master(&[forward]))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| Failure::Refused(format!("ssh cannot be started: {error}")))
    }

    /// Waits for the end of `ssh`, and ends it when it is not wanted any more; why it ended.
    fn watch(&mut self, mut child: Child, record: &Record, tunnel: &Tunnel, stop: &AtomicBool) -> String {
        let again = self.state.lost > 0;
        let mut stands = false;
        let (tell, told) = mpsc::channel();
        loop {
            match child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => {
                    let said = read::text(&self.log(), LOG_MAX).unwrap_or_default();
                    return format!("ssh ended ({status}): {}", last_lines(&said));
                }
                Err(error) => return format!("ssh cannot be waited for: {error}"),
            }
            if stop.load(Ordering::Relaxed) {
                self.end(&mut child);
                return "ended".to_owned();
            }
            // The socket is made when the connection stands and its port is taken.
            if !stands && control(&self.place).exists() {
                stands = true;
                self.set(true, None);
                // Beside this: the connection may be lost once more before the other host has answered.
                let (sys, record, tunnel, tell) =
                    (self.sys.clone(), record.clone(), tunnel.clone(), tell.clone());
                let first = if again { export_again } else { open_session };
                std::thread::spawn(move || tell.send(first(&sys, &record, &tunnel)));
            }
            if let Ok(Some(trouble)) = told.try_recv() {
                self.set(true, Some(trouble));
            }
            std::thread::sleep(TICK);
        }
    }

    fn end(&self, child: &mut Child) {
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(TICK);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Runs nothing on the other host, through the new connection, as the first thing there; [`export_again`] would do as well. Its `sshd` sends what is small at once (TCP_NODELAY) from the first session on,
/// and none is opened for a forwarded port alone: some answers then wait for an acknowledgement that this host delays. Of 4 KiB there and 24
/// bytes back over loopback (OpenSSH 9.2) 1% took 41 ms and more, and 0.18 ms after a session.
fn open_session(sys: &Sys, record: &Record, tunnel: &Tunnel) -> Option<String> {
    // Where it cannot be opened, the volume is slower and nothing else.
    let _ = ssh(sys, record, tunnel).map(|ssh| ssh.run(&Programs, &["true"], b""));
    None
}

/// Asks for the export again: a host that was booted meanwhile has none any more. What went wrong.
fn export_again(sys: &Sys, record: &Record, tunnel: &Tunnel) -> Option<String> {
    let words = export_words(record, tunnel);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = Context::quietly(sys, &Programs, |context| {
        Attachments::new(context).far_json(record, tunnel, &words)
    });
    done.err().map(|error| error.to_string())
}
