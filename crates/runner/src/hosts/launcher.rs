//! How a worker is started on a host. A launcher starts a program here whose standard input and output are the worker's; all
//! else is the same whoever starts it.

use super::PATIENCE;
use super::link::ERRORS_MOST;
use ebbtide_host::command::{GivenUp, Patience, Real, Within, end_group};
use ebbtide_host::program::{self, Identity, IdentityError};
use ebbtide_host::ssh::{self, COPIED, Ssh, SshError};
use ebbtide_model::shown::excerpt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The subcommand of `ebb` that is a worker on a host.
pub const WORKER: &str = "worker";
/// Longest answer to the question which `ebb` is there.
const ANSWER_MOST: u64 = 64 << 10;
/// A program is sent in pieces of so many bytes.
const PIECE: u64 = 64 << 10;
/// Longest line that may come before the worker's first.
const LINE_MOST: usize = 200;

/// Why no worker was started on a host.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum LaunchError {
    #[error(transparent)]
    Ssh(#[from] SshError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("{host}: a worker cannot be started: {error}")]
    Start { host: String, error: io::Error },
    #[error("{host}: ebb could not be copied there: {said}")]
    Copy { host: String, said: String },
}

/// Starts workers.
pub trait Launcher: Send + Sync {
    /// Starts one on `host`, in a process group of its own. Its three streams are pipes.
    ///
    /// # Errors
    /// When it cannot be started there, and when `stop` is set meanwhile.
    fn launch(&self, host: &str, stop: &AtomicBool) -> Result<Child, LaunchError>;
}

fn start(host: &str, mut command: Command) -> Result<Child, LaunchError> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C is for the session, which stops its workers in its own order.
        .process_group(0)
        .spawn()
        .map_err(|error| LaunchError::Start { host: host.to_owned(), error })
}

/// Workers by the user's own OpenSSH, with the same `ebb` on both sides.
#[derive(Debug)]
pub struct OpenSsh {
    here: Identity,
    program: PathBuf,
    copy: bool,
}

impl OpenSsh {
    /// With `copy`, this program is copied to where another or none is, for as long as its worker runs.
    ///
    /// # Errors
    /// When the program's own file cannot be read.
    pub fn new(copy: bool) -> Result<OpenSsh, LaunchError> {
        let here = program::own_identity(&Real)?;
        let program = program::own_file().map_err(IdentityError::from)?;
        Ok(OpenSsh { here, program, copy })
    }

    /// Copies this program over the connection that its worker then speaks over.
    fn launch_a_copy(&self, ssh: &Ssh, stop: &AtomicBool) -> Result<Child, LaunchError> {
        let host = ssh.host().to_owned();
        let failed = |error: io::Error| LaunchError::Start { host: host.clone(), error };
        let mut program = ebbtide_door::read::open(&self.program).map_err(failed)?;
        let bytes = program.metadata().map_err(failed)?.len();
        let script = ssh::run_a_copy();
        let words = ["sh", "-c", &script, "sh", &self.here.sha256, &bytes.to_string(), WORKER];
        let mut child = start(&host, ssh.command(&words)?)?;
        let mut said = Vec::new();
        let sent = send(&mut child, &mut program, bytes, Patience::new(stop, PATIENCE), &mut said);
        let error = match sent {
            Ok(()) => return Ok(child),
            Err(error) => error,
        };
        // One that has refused the program ends by itself, and its status says why.
        let status = match &error {
            Unsent::Failed(_) => ended(&mut child, Patience::new(stop, PATIENCE)),
            Unsent::GivenUp(_) => None,
        };
        end_group(&mut child);
        if let Some(errors) = &mut child.stderr {
            keep_rest(errors, &mut said);
        }
        let said = ssh::last_lines(&String::from_utf8_lossy(&said));
        tracing::debug!("{host}: {error:?}, {status:?}: {said}");
        Err(match error {
            Unsent::GivenUp(GivenUp::Stopped) => SshError::Stopped.into(),
            Unsent::GivenUp(why) => LaunchError::Copy { host, said: format!("{why}: {said}") },
            Unsent::Failed(_) if status == Some(ssh::COPY_USELESS) => {
                SshError::CopyUseless { host, said }.into()
            }
            Unsent::Failed(error) => LaunchError::Copy { host, said: format!("{error}: {said}") },
        })
    }
}

/// Why a program has not arrived.
#[derive(Debug)]
enum Unsent {
    Failed(io::Error),
    GivenUp(GivenUp),
}

impl From<io::Error> for Unsent {
    fn from(error: io::Error) -> Self {
        Unsent::Failed(error)
    }
}

/// The status with which `child` ends, if it does.
fn ended(child: &mut Child, mut patience: Patience<'_>) -> Option<i32> {
    loop {
        match child.try_wait() {
            Ok(None) if patience.is_over(0, 0).is_none() => std::thread::sleep(Duration::from_millis(10)),
            Ok(status) => return status?.code(),
            Err(_) => return None,
        }
    }
}

/// Sends `program`, which has so many bytes, and waits until it has arrived: what follows would be lost before. What is said on
/// standard error meanwhile goes to `errors`.
fn send(
    child: &mut Child,
    program: &mut File,
    all: u64,
    mut patience: Patience<'_>,
    errors: &mut Vec<u8>,
) -> Result<(), Unsent> {
    let (Some(to), Some(from), Some(trouble)) = (&mut child.stdin, &mut child.stdout, &mut child.stderr)
    else {
        return Err(io::Error::other("it has no streams").into());
    };
    // It need not take any of it, and a write to a pipe that is full does not come back.
    rustix::io::ioctl_fionbio(&*to, true).map_err(io::Error::from)?;
    let mut piece = Vec::new();
    let (mut sent, mut said, mut are_errors_open) = (0, Vec::new(), true);
    while said.len() <= LINE_MOST {
        if let Some(why) = patience.is_over(sent, all) {
            return Err(Unsent::GivenUp(why));
        }
        if piece.is_empty() && sent < all {
            program.take(PIECE).read_to_end(&mut piece)?;
            if piece.is_empty() {
                return Err(io::Error::other("this program's file became shorter").into());
            }
        }
        let ready = ready(to, from, trouble, !piece.is_empty(), are_errors_open)?;
        if ready.errors {
            are_errors_open = keep_last(trouble, errors)?;
        }
        if ready.to {
            match to.write(&piece) {
                Ok(length) => {
                    piece.drain(..length);
                    sent += length as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Byte by byte, so that nothing of what the worker says is taken.
        let mut byte = [0];
        if ready.from {
            match (from.read(&mut byte)?, byte) {
                (1, [b'\n']) if said == COPIED.as_bytes() && sent == all => {
                    return Ok(rustix::io::ioctl_fionbio(&*to, false).map_err(io::Error::from)?);
                }
                (0, _) | (_, [b'\n']) => break,
                (_, [byte]) => said.push(byte),
            }
        }
    }
    // Why may be on the other stream.
    Err(io::Error::other(format!("it said `{}`", excerpt(&String::from_utf8_lossy(&said)))).into())
}

/// What can be done with the streams of a child without waiting.
struct Ready {
    to: bool,
    from: bool,
    errors: bool,
}

/// What can be done, within a while; `write` and `errors` say whether those two are of interest.
fn ready(
    to: &ChildStdin,
    from: &ChildStdout,
    trouble: &ChildStderr,
    write: bool,
    errors: bool,
) -> io::Result<Ready> {
    const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    let mut asked = vec![PollFd::new(from, PollFlags::IN)];
    asked.extend(write.then(|| PollFd::new(to, PollFlags::OUT)));
    asked.extend(errors.then(|| PollFd::new(trouble, PollFlags::IN)));
    match poll(&mut asked, Some(&TICK)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut said = asked.iter().map(|asked| !asked.revents().is_empty());
    let mut next = |is_asked: bool| is_asked && said.next() == Some(true);
    Ok(Ready { from: next(true), to: next(write), errors: next(errors) })
}

/// Reads into `kept` what a child had written when it ended: as much as a pipe holds. Whoever has its streams still may write more.
fn keep_rest(from: &mut ChildStderr, kept: &mut Vec<u8>) {
    const PIPE: usize = 64 << 10;
    if rustix::io::ioctl_fionbio(&*from, true).is_ok() {
        for _ in 0..=PIPE / ERRORS_MOST {
            if !keep_last(from, kept).unwrap_or(false) {
                return;
            }
        }
    }
}

/// Reads a piece of `from` into `kept`, which holds the last of it; whether there may be more.
fn keep_last(from: &mut impl Read, kept: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; ERRORS_MOST];
    let length = from.read(&mut piece)?;
    kept.extend_from_slice(&piece[..length]);
    kept.drain(..kept.len().saturating_sub(ERRORS_MOST));
    Ok(length > 0)
}

impl Launcher for OpenSsh {
    fn launch(&self, host: &str, stop: &AtomicBool) -> Result<Child, LaunchError> {
        let ssh = Ssh::new(host)?;
        match ssh.same(&Within { stop, patience: PATIENCE, most: ANSWER_MOST }, &self.here) {
            Ok(found) => start(host, ssh.command(&[&found.program, WORKER])?),
            Err(SshError::Differs { .. } | SshError::NoProgram { .. }) if self.copy => {
                self.launch_a_copy(&ssh, stop)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Workers as processes of this host, whatever the hosts are called: to try out what several hosts do.
#[derive(Debug, Clone, Copy)]
pub struct Processes;

impl Launcher for Processes {
    fn launch(&self, host: &str, _stop: &AtomicBool) -> Result<Child, LaunchError> {
        let command =
            program::own(&[WORKER]).map_err(|error| LaunchError::Start { host: host.to_owned(), error })?;
        start(host, command)
    }
}
