//! How a worker is started on a host. A launcher starts a program here whose standard input and output are the worker's; all
//! else is the same whoever starts it.

use ebbtide_host::command::Real;
use ebbtide_host::program::{self, Identity, IdentityError};
use ebbtide_host::ssh::{self, COPIED, Ssh, SshError};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The subcommand of `ebb` that is a worker on a host.
pub const WORKER: &str = "worker";

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
    /// Starts one on `host`. Its three streams are pipes.
    ///
    /// # Errors
    /// When it cannot be started there.
    fn launch(&self, host: &str) -> Result<Child, LaunchError>;
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
    fn launch_a_copy(&self, ssh: &Ssh) -> Result<Child, LaunchError> {
        let host = ssh.host().to_owned();
        let failed = |error: io::Error| LaunchError::Start { host: host.clone(), error };
        let mut program = ebbtide_door::read::open(&self.program).map_err(failed)?;
        let bytes = program.metadata().map_err(failed)?.len();
        let script = ssh::run_a_copy();
        let words = ["sh", "-c", &script, "sh", &self.here.sha256, &bytes.to_string(), WORKER];
        let mut child = start(&host, ssh.command(&words)?)?;
        match send(&mut child, &mut program) {
            Ok(()) => Ok(child),
            // Why is on the other stream, where the script has said anything.
            Err(error) => {
                drop(child.stdin.take());
                let mut said = String::new();
                let read = child.stderr.take().map(|mut errors| errors.read_to_string(&mut said));
                // It has ended, or does now.
                let status = child.wait();
                tracing::debug!("{host}: {error}, {read:?}, {status:?}");
                Err(match status.ok().and_then(|status| status.code()) {
                    Some(ssh::COPY_USELESS) => {
                        SshError::CopyUseless { host, said: ssh::last_lines(&said) }.into()
                    }
                    _ => LaunchError::Copy { host, said: format!("{error}: {}", ssh::last_lines(&said)) },
                })
            }
        }
    }
}

/// Sends `program` and waits until it has arrived: what follows would be lost before.
fn send(child: &mut Child, program: &mut File) -> io::Result<()> {
    let (Some(to), Some(from)) = (&mut child.stdin, &mut child.stdout) else {
        return Err(io::Error::other("it has no streams"));
    };
    io::copy(program, to)?;
    to.flush()?;
    // Byte by byte, so that nothing of what the worker says is taken.
    let (mut said, mut byte) = (Vec::new(), [0]);
    while said.len() <= 200 && from.read(&mut byte)? > 0 {
        match byte {
            [b'\n'] if said == COPIED.as_bytes() => return Ok(()),
            [b'\n'] => break,
            [byte] => said.push(byte),
        }
    }
    Err(io::Error::other(format!("it said `{}`", String::from_utf8_lossy(&said))))
}

impl Launcher for OpenSsh {
    fn launch(&self, host: &str) -> Result<Child, LaunchError> {
        let ssh = Ssh::new(host)?;
        match ssh.same(&Real, &self.here) {
            Ok(found) => start(host, ssh.command(&[&found.program, WORKER])?),
            Err(SshError::Differs { .. } | SshError::NoProgram { .. }) if self.copy => {
                self.launch_a_copy(&ssh)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Workers as processes of this host, whatever the hosts are called: to try out what several hosts do.
#[derive(Debug, Clone, Copy)]
pub struct Processes;

impl Launcher for Processes {
    fn launch(&self, host: &str) -> Result<Child, LaunchError> {
        let command =
            program::own(&[WORKER]).map_err(|error| LaunchError::Start { host: host.to_owned(), error })?;
        start(host, command)
    }
}
