//! Other hosts, by the user's own OpenSSH: `ssh` is given the name as the user wrote it, so that the user's configuration, keys, agent
//! and jump hosts hold. Nothing is asked for on the way (`BatchMode`): a program cannot answer, and what reads a
//! terminal in the background stands still.
//!
//! A remote command reaches the other side as one text that a shell there reads: [`line`] quotes its words for it. Which
//! `ebb` is there is asked of that `ebb` itself ([`Ssh::find`]), because what is on the path may be a script around it.

use crate::command::{CommandError, GivenUp, Output, Runner};
use crate::program::{Identity, is_sum};
use ebbtide_model::shown::Shown;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// OpenSSH's client, found by `PATH`.
pub const SSH: &str = "ssh";
/// Status of `ssh` itself when it could not connect; that of a remote command may be the same.
const NO_CONNECTION: i32 = 255;
/// Seconds until a host that does not answer counts as unreachable.
const CONNECT_SECONDS: u32 = 20;
/// Seconds between two signs of life, and how many may stay away.
const ALIVE: (u32, u32) = (5, 3);
/// Longest path of a control socket: 108 bytes of `sun_path`, less what `ssh` adds while it makes it.
const CONTROL_MAX: usize = 90;
/// The word that an `ebb` answers with its [`Identity`].
pub const IDENTITY: &str = "identity";
/// What the directories of copies are called, below `ebbtide` in the user's cache directory there.
const COPY: &str = "copy-";

/// Why something on another host does not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum SshError {
    /// A name that `ssh` would take for something else.
    #[error("`{0}` is no host; write it as you do after `ssh`: HOST, USER@HOST, or a Host of ~/.ssh/config")]
    NoHost(String),
    /// A word that no remote command can have.
    #[error("`{0}` cannot be told to another host: it has a NUL in it")]
    Nul(String),
    /// A path too long for a socket.
    #[error("{path}: a control socket's path has at most {CONTROL_MAX} bytes; set a shorter XDG_RUNTIME_DIR")]
    ControlPath { path: String },
    /// `ssh` cannot be run here.
    #[error("{0}; install it: apt-get install openssh-client")]
    NotHere(CommandError),
    /// No connection.
    #[error(
        "{host} cannot be reached: {said}; `ssh {host} true` has to work without asking anything (a key in ssh-agent, a known host key)"
    )]
    Unreachable { host: String, said: String },
    /// No answer.
    #[error(
        "{host} says nothing: {why}; `ssh {host} true` has to work without asking anything (a key in ssh-agent, a known host key)"
    )]
    Silent { host: String, why: GivenUp },
    /// An answer without an end.
    #[error(
        "{host} answered with more than {most} bytes, and was given up; see what its shell prints at login, and what `ebb --version` says there"
    )]
    Endless { host: String, most: u64 },
    /// The user has stopped it.
    #[error("stopped")]
    Stopped,
    /// A remote command failed.
    #[error("{host}: `{command}` ended with status {status}: {said}")]
    Failed { host: String, command: String, status: i32, said: String },
    /// There is no `ebb` there.
    #[error(
        "{host} has no ebb that a command over ssh finds; here is {here}: install it there, or write --copy-ebb"
    )]
    NoProgram { host: String, here: String },
    /// Another `ebb` is there.
    #[error("{host} has ebb {there}, here is {here}: install the same one there, or write --copy-ebb")]
    Differs { host: String, there: String, here: String },
    /// What was copied cannot be run there.
    #[error("{host}: the copy of ebb cannot be run there: {said}; install an ebb for that machine there")]
    CopyUseless { host: String, said: String },
    /// What answered is not understood.
    #[error("{host}: its answer cannot be understood: {said}")]
    Odd { host: String, said: String },
}

/// `word` as one word of a POSIX shell's command line.
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A remote command of these words, as one text for the shell there.
///
/// # Errors
/// When a word has a NUL in it.
pub fn line(words: &[&str]) -> Result<String, SshError> {
    if let Some(word) = words.iter().find(|word| word.contains('\0')) {
        return Err(SshError::Nul(word.replace('\0', "\\0")));
    }
    Ok(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

/// A port here that leads to one there: `-L`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Address here, such as `127.0.0.1`.
    pub bind: String,
    /// Port here.
    pub port: u16,
    /// Address as seen from there.
    pub to: String,
    /// Port there.
    pub to_port: u16,
}

impl Forward {
    fn argument(&self) -> String {
        let bracketed = |host: &str| if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        format!("{}:{}:{}:{}", bracketed(&self.bind), self.port, bracketed(&self.to), self.to_port)
    }
}

/// An `ebb` on another host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteProgram {
    /// What to call there: `ebb`, or the path of a copy.
    pub program: String,
    /// Which one it is; only its version where it is too old to say more.
    pub version: String,
    /// SHA-256 of it, where it says so.
    pub sha256: Option<String>,
}

impl RemoteProgram {
    fn short(&self) -> String {
        match &self.sha256 {
            Some(sum) => format!("{} ({})", self.version, sum.get(..12).unwrap_or(sum)),
            None => self.version.clone(),
        }
    }
}

/// One host, and how `ssh` is called to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ssh {
    host: String,
    /// The socket of a connection that stands already.
    control: Option<PathBuf>,
}

impl Ssh {
    /// `host` as the user wrote it: HOST, USER@HOST, ssh://USER@HOST:PORT, or a name from ~/.ssh/config.
    ///
    /// # Errors
    /// When it is no such name.
    pub fn new(host: &str) -> Result<Ssh, SshError> {
        let odd = |letter: char| letter.is_whitespace() || letter.is_control();
        let name = host.rsplit('@').next().unwrap_or_default();
        if name.is_empty() || host.starts_with(['-', '@']) || name.starts_with('-') || host.contains(odd) {
            return Err(SshError::NoHost(host.to_owned()));
        }
        Ok(Ssh { host: host.to_owned(), control: None })
    }

    /// The host, as the user wrote it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The same through the connection whose control socket is `control`; a new one where there is none.
    ///
    /// # Errors
    /// When the path is too long for a socket.
    pub fn through(self, control: &Path) -> Result<Ssh, SshError> {
        if control.as_os_str().len() > CONTROL_MAX {
            return Err(SshError::ControlPath { path: control.shown().to_string() });
        }
        Ok(Ssh { control: Some(control.to_owned()), ..self })
    }

    /// Options of every call: nothing is asked, a host that is gone is noticed.
    fn options(&self) -> Vec<OsString> {
        let (interval, count) = ALIVE;
        let mut options: Vec<OsString> = vec!["-T".into()];
        for option in [
            "BatchMode=yes".to_owned(),
            format!("ConnectTimeout={CONNECT_SECONDS}"),
            format!("ServerAliveInterval={interval}"),
            format!("ServerAliveCountMax={count}"),
        ] {
            options.extend(["-o".into(), option.into()]);
        }
        if let Some(control) = &self.control {
            options.extend(["-S".into(), control.into()]);
        }
        options
    }

    /// Arguments of `ssh` for a remote command of `words`, which forwards nothing.
    ///
    /// # Errors
    /// When a word cannot be told.
    pub fn arguments(&self, words: &[&str]) -> Result<Vec<OsString>, SshError> {
        let mut arguments = self.options();
        arguments
            .extend(["-o", "ClearAllForwardings=yes", "-o", "ControlMaster=no", "--"].map(OsString::from));
        arguments.extend([self.host.clone().into(), line(words)?.into()]);
        Ok(arguments)
    }

    /// Arguments of `ssh` for the connection that others go [`through`](Self::through): it stays in the foreground, runs nothing there, and
    /// ends where a port cannot be forwarded.
    pub fn master(&self, forwards: &[Forward]) -> Vec<OsString> {
        let mut arguments = self.options();
        arguments.extend(["-N", "-M", "-o", "ControlPersist=no"].map(OsString::from));
        arguments.extend(["-o", "ExitOnForwardFailure=yes"].map(OsString::from));
        for forward in forwards {
            arguments.extend(["-L".into(), forward.argument().into()]);
        }
        arguments.extend(["--".into(), self.host.clone().into()]);
        arguments
    }

    /// Arguments of `ssh` that ask the connection's master something: `check`, `exit`, `stop`.
    pub fn ask_master(&self, what: &str) -> Vec<OsString> {
        let mut arguments = self.options();
        arguments.extend(["-O".into(), what.into(), "--".into(), self.host.clone().into()]);
        arguments
    }

    /// A program to start that runs `words` there; its streams are the caller's to choose.
    ///
    /// # Errors
    /// When a word cannot be told.
    pub fn command(&self, words: &[&str]) -> Result<Command, SshError> {
        let mut command = Command::new(SSH);
        command.args(self.arguments(words)?);
        Ok(command)
    }

    /// Runs `words` there, with `input` on standard input, and waits for the end.
    ///
    /// # Errors
    /// When the host cannot be reached; a command that fails is no error here.
    pub fn run(&self, runner: &dyn Runner, words: &[&str], input: &[u8]) -> Result<Output, SshError> {
        let arguments = texts(self.arguments(words)?);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.reached(runner.run_with(SSH, &arguments, input))
    }

    /// [`run`](Self::run) with a file as standard input.
    fn run_on(&self, runner: &dyn Runner, words: &[&str], file: &File) -> Result<Output, SshError> {
        let arguments = texts(self.arguments(words)?);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.reached(runner.run_on(SSH, &arguments, file))
    }

    fn reached(&self, said: Result<Output, CommandError>) -> Result<Output, SshError> {
        let host = || self.host.clone();
        let said = said.map_err(|error| match error {
            CommandError::GivenUp { why: GivenUp::Stopped, .. } => SshError::Stopped,
            CommandError::GivenUp { why, .. } => SshError::Silent { host: host(), why },
            CommandError::Endless { most, .. } => SshError::Endless { host: host(), most },
            error @ (CommandError::Missing(_) | CommandError::Start { .. }) => SshError::NotHere(error),
        })?;
        match said.status {
            Some(NO_CONNECTION) => {
                Err(SshError::Unreachable { host: self.host.clone(), said: last_lines(&said.stderr) })
            }
            _ => Ok(said),
        }
    }

    /// Runs `words` there, which must succeed; what they printed.
    ///
    /// # Errors
    /// Also when the command fails.
    pub fn succeed(&self, runner: &dyn Runner, words: &[&str], input: &[u8]) -> Result<String, SshError> {
        let said = self.run(runner, words, input)?;
        self.succeeded(&said, words)
    }

    fn succeeded(&self, said: &Output, words: &[&str]) -> Result<String, SshError> {
        match said.status {
            Some(0) => Ok(said.text().into_owned()),
            status => Err(SshError::Failed {
                host: self.host.clone(),
                command: words.first().copied().unwrap_or_default().to_owned(),
                status: status.unwrap_or(-1),
                said: last_lines(&said.stderr),
            }),
        }
    }

    /// Which `ebb` a command over ssh finds there; nothing where there is none.
    ///
    /// # Errors
    /// When the host cannot be reached, or what is called `ebb` there is something else.
    pub fn find(&self, runner: &dyn Runner) -> Result<Option<RemoteProgram>, SshError> {
        let said = self.run(runner, &["sh", "-c", FIND], b"")?;
        if said.status == Some(NOT_FOUND) {
            return Ok(None);
        }
        let text = said.text();
        let mut lines = text.lines();
        let version = lines.next().and_then(|line| line.strip_prefix("ebb ")).map(str::trim);
        let Some(version) = version.filter(|version| !version.is_empty()) else {
            return Err(self.odd(&format!("{}{}", text.trim(), last_lines(&said.stderr))));
        };
        let own = lines.next().and_then(|line| serde_json::from_str::<Identity>(line).ok());
        let own = own.filter(|own| own.version == version && is_sum(&own.sha256));
        Ok(Some(RemoteProgram {
            program: "ebb".to_owned(),
            version: version.to_owned(),
            sha256: own.map(|own| own.sha256),
        }))
    }

    /// The `ebb` there, which must be the very one that runs here.
    ///
    /// # Errors
    /// When there is none, or another: both are named, with what to write.
    pub fn same(&self, runner: &dyn Runner, here: &Identity) -> Result<RemoteProgram, SshError> {
        match self.find(runner)? {
            Some(found) if found.sha256.as_ref() == Some(&here.sha256) => Ok(found),
            Some(found) => {
                Err(SshError::Differs { host: self.host.clone(), there: found.short(), here: here.short() })
            }
            None => Err(SshError::NoProgram { host: self.host.clone(), here: here.short() }),
        }
    }

    /// [`same`](Self::same), or a copy of `program`, which is the file of the one that runs here, where another or none is there. The
    /// copy stays until [`remove_copy`](Self::remove_copy).
    ///
    /// # Errors
    /// When it cannot be copied, or not be run there.
    pub fn same_or_copied(
        &self,
        runner: &dyn Runner,
        here: &Identity,
        program: &File,
    ) -> Result<RemoteProgram, SshError> {
        match self.same(runner, here) {
            Err(SshError::Differs { .. } | SshError::NoProgram { .. }) => self.copy(runner, here, program),
            found => found,
        }
    }

    fn copy(&self, runner: &dyn Runner, here: &Identity, program: &File) -> Result<RemoteProgram, SshError> {
        let script =
            format!("{MAKE_COPY}cat >\"$d/ebb\"\n{CHECK_COPY}trap - EXIT\nprintf '%s\\n' \"$d/ebb\"");
        let words = ["sh", "-c", &script, "sh", &here.sha256];
        let said = self.run_on(runner, &words, program)?;
        self.copied(&said)?;
        let text = self.succeeded(&said, &words)?;
        let path = text.trim_end_matches('\n');
        if !is_copy(path) {
            return Err(self.odd(path));
        }
        Ok(RemoteProgram {
            program: path.to_owned(),
            version: here.version.clone(),
            sha256: Some(here.sha256.clone()),
        })
    }

    /// What the status of a script with [`CHECK_COPY`] in it says of the copy.
    fn copied(&self, said: &Output) -> Result<(), SshError> {
        match said.status {
            Some(COPY_USELESS) => {
                Err(SshError::CopyUseless { host: self.host.clone(), said: last_lines(&said.stderr) })
            }
            _ => Ok(()),
        }
    }

    /// Removes a copy that [`same_or_copied`](Self::same_or_copied) made; what was there before stays.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove_copy(&self, runner: &dyn Runner, found: &RemoteProgram) -> Result<(), SshError> {
        if !is_copy(&found.program) {
            return Ok(());
        }
        let directory = found.program.trim_end_matches("/ebb");
        let script = "rm -f -- \"$1/ebb\" && rmdir -- \"$1\"";
        self.succeed(runner, &["sh", "-c", script, "sh", directory], b"").map(drop)
    }

    fn odd(&self, said: &str) -> SshError {
        SshError::Odd { host: self.host.clone(), said: said.chars().take(500).collect() }
    }
}

/// A script that takes a program of so many bytes from its standard input, runs it with the rest of its arguments and the rest of that
/// input, and removes it when it ends, however it ends: `sh -c SCRIPT sh SHA256 BYTES ARGUMENT...`. It says
/// [`COPIED`] on a line of its own as soon as the program's bytes are there: what is sent before that may be lost.
pub fn run_a_copy() -> String {
    let run = "shift 2\n\"$d/ebb\" \"$@\"";
    format!("{MAKE_COPY}head -c \"$2\" >\"$d/ebb\"\n{CHECK_COPY}echo {COPIED}\n{run}")
}

/// What [`run_a_copy`] says when the program has arrived.
pub const COPIED: &str = "ebbtide-copied/1";
/// Status of a script whose copy cannot be run there.
pub const COPY_USELESS: i32 = 121;
/// Status of [`FIND`] when there is none.
const NOT_FOUND: i32 = 120;

/// Says the version of the `ebb` there, and then what it says of itself, which older ones do not.
const FIND: &str =
    "command -v ebb >/dev/null || exit 120\nebb --version || exit\nebb identity 2>/dev/null || :";
/// Makes a directory of the user's own and sees to it that it goes; `$d` is its name.
const MAKE_COPY: &str = "\
set -e
umask 077
b=${XDG_CACHE_HOME:-$HOME/.cache}/ebbtide
mkdir -p \"$b\"
d=$(mktemp -d \"$b/copy-XXXXXXXX\")
trap 'rm -f \"$d/ebb\"; rmdir \"$d\"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
";
/// Sees to it that the copy is whole and can be run there; `$1` is its SHA-256.
const CHECK_COPY: &str = "\
echo \"$1  $d/ebb\" | sha256sum -c >/dev/null
chmod 700 \"$d/ebb\"
\"$d/ebb\" --version >/dev/null || exit 121
";

/// Whether `path` is a copy that [`MAKE_COPY`] made: nothing else is removed.
fn is_copy(path: &str) -> bool {
    let directory = path.strip_suffix("/ebb").and_then(|path| path.rsplit_once("/ebbtide/"));
    directory
        .and_then(|(above, name)| above.starts_with('/').then(|| name.strip_prefix(COPY)))
        .flatten()
        .is_some_and(|random| random.len() == 8 && random.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

/// Arguments as text: all of them came from text, or from a control socket's path.
fn texts(arguments: Vec<OsString>) -> Vec<String> {
    arguments.into_iter().map(|argument| argument.to_string_lossy().into_owned()).collect()
}

/// The end of what a program said on standard error, on one line; the greeting of a server comes before it.
pub fn last_lines(stderr: &str) -> String {
    const LINES: usize = 3;
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    if last.is_empty() { "it said nothing".to_owned() } else { last.join("; ") }
}

#[cfg(test)]
mod tests;
