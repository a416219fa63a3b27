//! Programs that are the load of a trial: started as a user, timed, and ended with whatever they left running.
//!
//! Each has a variable in its environment that names the run. A process inherits it, whatever session or group it makes for itself, so
//! that what a daemon left is found by it, after a kill of `ebb` too. PostgreSQL writes its title over its environment: a process is known by
//! the directory that it is in as well.

use crate::command::{Real, Runner};
use crate::sys::{self, process::Stat};
use ebbtide_door::{Directory, own, read};
use ebbtide_model::journal::Journal;
use ebbtide_model::plan::build::is_load;
use ebbtide_model::shown::{Shown, one_line};
use ebbtide_model::units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Advice, MemfdFlags, fadvise, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most bytes that a program may print on each stream.
const OUTPUT_MAX: u64 = 64 << 20;
/// Bytes of what a program said last that a message quotes.
const LAST: usize = 1200;
/// How often it is asked whether a program is still waited for.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How long a process may take to end that is asked to; then it is killed.
const ASKED: Duration = Duration::from_secs(2);
/// How long what was killed is waited for.
const KILLED: Duration = Duration::from_secs(30);
/// An environment beyond this has been made to be long.
const ENVIRONMENT_MAX: u64 = 4 << 20;
/// Gives a program a session of its own; not forking, as nobody leads a group here (util-linux).
const SETSID: &str = "/usr/bin/setsid";
/// Runs a program as another user (util-linux).
const SETPRIV: &str = "/usr/bin/setpriv";
/// Where programs are, behind what the experiment says.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a program was no load.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The run was stopped.
    #[error("stopped")]
    Stopped,
    /// It could not be started.
    #[error("cannot run {program}: {source}")]
    Start {
        /// Its name.
        program: String,
        /// As the system says it.
        source: io::Error,
    },
    /// It failed, or was killed.
    #[error("{program} ended with {how}{}", said(.last))]
    Failed {
        /// Its name.
        program: String,
        /// Its status, or the signal.
        how: String,
        /// What it said last.
        last: String,
    },
    /// It took too long, and was killed.
    #[error("{program} took longer than {limit} (`timeout`) and was killed{}", said(.last))]
    Timeout {
        /// Its name.
        program: String,
        /// The limit.
        limit: Nanos,
        /// What it said last.
        last: String,
    },
    /// It printed too much, and was killed.
    #[error("{program} printed more than {} MiB and was killed: have it print less", OUTPUT_MAX >> 20)]
    Endless {
        /// Its name.
        program: String,
    },
    /// Whom it was to run as is not possible.
    #[error("{0}")]
    User(String),
    /// What it left running does not end.
    #[error("processes {0} of the load do not end")]
    Left(String),
    /// A directory of its own could not be made or read.
    #[error("{}: {source}", path.shown())]
    Place {
        /// Which.
        path: PathBuf,
        /// As the system says it.
        source: io::Error,
    },
}

fn said(last: &str) -> String {
    if last.is_empty() { String::new() } else { format!("; it said last: {last}") }
}

/// What is wrong at `path`.
fn at(path: &Path) -> impl Fn(io::Error) -> LoadError {
    move |source| LoadError::Place { path: path.to_owned(), source }
}

/// Whom programs run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    name: String,
    uid: u32,
    gid: u32,
    /// Nothing has to be changed.
    is_self: bool,
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_self { f.write_str("this user") } else { write!(f, "user {}", self.name) }
    }
}

impl User {
    /// The user called `name`, or who is meant where none is named: whoever runs this, and of root `as_root`, the user behind `sudo`, or
    /// `nobody`.
    ///
    /// # Errors
    /// When there is no such user, or only root could run as him.
    pub fn find(name: Option<&str>, as_root: Option<&str>) -> Result<User, LoadError> {
        let own = geteuid();
        if name.is_none() && !own.is_root() {
            return Ok(User::myself());
        }
        let behind = std::env::var("SUDO_USER").ok().filter(|user| user != "root" && !user.is_empty());
        let name = name.or(as_root).map(str::to_owned).or(behind).unwrap_or_else(|| "nobody".to_owned());
        let id = |which: &str| -> Result<u32, LoadError> {
            let output =
                Real.run("id", &[which, "--", &name]).map_err(|error| LoadError::User(error.to_string()))?;
            let found = output.text().trim().parse().ok().filter(|_| output.status == Some(0));
            found.ok_or_else(|| LoadError::User(format!("there is no user `{name}`: write another `user`")))
        };
        let (uid, gid) = (id("-u")?, id("-g")?);
        let is_self = uid == own.as_raw();
        if !is_self && !own.is_root() {
            return Err(LoadError::User(format!(
                "only root can run a program as {name}: remove `user`, or use sudo"
            )));
        }
        Ok(User { name, uid, gid, is_self })
    }

    /// Whoever runs this.
    pub fn myself() -> User {
        User { name: String::new(), uid: geteuid().as_raw(), gid: 0, is_self: true }
    }

    /// Gives him the directory `path`.
    ///
    /// # Errors
    /// When that is not allowed.
    pub fn own(&self, path: &Path) -> Result<(), LoadError> {
        if self.is_self {
            Ok(())
        } else {
            std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid)).map_err(at(path))
        }
    }
}

/// How programs of a load are run.
pub struct Load<'a> {
    /// The run, which marks them.
    pub run: &'a str,
    /// Where they start.
    pub directory: &'a Path,
    /// Whom they run as.
    pub user: &'a User,
    /// Variables of their environment.
    pub env: &'a [(String, String)],
    /// How long each may take.
    pub timeout: Nanos,
    /// Ends them where it is set.
    pub stop: &'a AtomicBool,
    /// The run's journal, which they must not have.
    pub journal: &'a dyn Journal,
}

/// A program that ended well.
#[derive(Debug)]
pub struct Ran {
    /// From its start to its end.
    pub took: Duration,
    /// Its standard output; what is no UTF-8 replaced.
    pub output: String,
}

/// Name of the variable that marks processes of `run`.
fn mark(run: &str) -> String {
    let name = run.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    format!("EBBTIDE_LOAD_{}", name.collect::<String>())
}

impl Load<'_> {
    /// The same, with so much time.
    #[must_use]
    pub fn at_least(self, time: Nanos) -> Self {
        Load { timeout: self.timeout.max(time), ..self }
    }

    /// Runs `argv` to its end. What it leaves running goes on ([`end_all`]).
    ///
    /// # Errors
    /// When it cannot be started, fails, or is given up.
    pub fn run(&self, argv: &[String]) -> Result<Ran, LoadError> {
        let program = argv.first().map_or("", String::as_str).to_owned();
        let fail = |source| LoadError::Start { program: program.clone(), source };
        // What it leaves behind may hold its output open: a file, unlike a pipe, can be read all the same.
        let stream =
            || memfd_create("load", MemfdFlags::CLOEXEC).map(File::from).map_err(|errno| fail(errno.into()));
        let (mut out, mut err) = (stream()?, stream()?);
        let mut command = self.command(argv);
        command.stdin(Stdio::null());
        command.stdout(out.try_clone().map_err(fail)?).stderr(err.try_clone().map_err(fail)?);
        let mut spawned = None;
        self.journal.apart(&mut || spawned = Some((Instant::now(), command.spawn()))).map_err(fail)?;
        let (begun, child) = spawned.ok_or_else(|| fail(io::ErrorKind::Other.into()))?;
        let mut child = child.map_err(fail)?;
        let ended =
            pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).map_err(|errno| fail(errno.into()))?;
        let given_up = loop {
            let _ = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&TICK));
            let took = begun.elapsed();
            if let Some(status) = child.try_wait().map_err(fail)? {
                let last = last(&mut err, &mut out);
                if status.success() {
                    return Ok(Ran { took, output: text(&mut out).map_err(fail)? });
                }
                let how = status.code().map(|code| format!("status {code}"));
                let how = how.unwrap_or_else(|| format!("signal {}", status.signal().unwrap_or_default()));
                return Err(LoadError::Failed { how: not_found(&status, &how), last, program });
            }
            if self.stop.load(Ordering::Relaxed) {
                break LoadError::Stopped;
            }
            let printed =
                [&out, &err].iter().filter_map(|file| file.metadata().ok()).map(|found| found.len()).max();
            if printed > Some(OUTPUT_MAX) {
                break LoadError::Endless { program };
            }
            if took >= Duration::from_nanos(self.timeout.0) {
                let last = last(&mut err, &mut out);
                break LoadError::Timeout { program, limit: self.timeout, last };
            }
        };
        crate::command::end_group(&mut child);
        end_all(self.run)?;
        Err(given_up)
    }

    fn command(&self, argv: &[String]) -> Command {
        // What the experiment says comes before what a set-up of ours adds.
        let own = self.env.iter().rev().filter(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
        let path = own.chain([PATH]).collect::<Vec<_>>().join(":");
        // By their paths: the PATH of a load is the load's. A session of its own has no terminal to ask on, or to write to.
        let mut command = Command::new(SETSID);
        command.args(["--", SETPRIV, "--no-new-privs"]);
        if !self.user.is_self {
            let (uid, gid) = (self.user.uid.to_string(), self.user.gid.to_string());
            command.args(["--reuid", &uid, "--regid", &gid, "--init-groups"]);
        }
        command.arg("--").args(argv);
        command.current_dir(self.directory).env_clear();
        for kept in ["LANG", "TZ", "TERM"] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        let user = if self.user.is_self {
            std::env::var("USER").unwrap_or_default()
        } else {
            self.user.name.clone()
        };
        command.env("HOME", self.directory).env("USER", &user).env("LOGNAME", &user).env("LC_ALL", "C");
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.env("PATH", path).env(mark(self.run), "1");
        command
    }
}

/// `how`, and what a status means that `setpriv` ends with where there is no such program.
fn not_found(status: &std::process::ExitStatus, how: &str) -> String {
    match status.code() {
        Some(127) => format!("{how}: there is no such program"),
        Some(126) => format!("{how}: it cannot be run"),
        _ => how.to_owned(),
    }
}

fn text(stream: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    stream.seek(SeekFrom::Start(0))?;
    stream.take(OUTPUT_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The end of what was said on standard error, or on standard output where nothing was.
fn last(err: &mut File, out: &mut File) -> String {
    let text =
        [err, out].into_iter().filter_map(|stream| text(stream).ok()).find(|text| !text.trim().is_empty());
    let text = text.unwrap_or_default();
    let text = text.trim();
    let from = text.char_indices().map(|(at, _)| at).find(|at| text.len() - at <= LAST).unwrap_or(0);
    one_line(&text[from..]).into_owned()
}

/// What processes of a load are known by.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    /// A variable of their environment.
    variable: Vec<u8>,
    /// The run, which made the directory that they are in.
    run: String,
}

impl Mark {
    /// Of loads of `run`.
    pub(crate) fn of(run: &str) -> Mark {
        Mark { variable: format!("{}=1", mark(run)).into_bytes(), run: run.to_owned() }
    }

    /// Whether the process has it, as far as this user can see.
    pub(crate) fn is_on(&self, pid: i32) -> bool {
        let environment = read::bytes(&PathBuf::from(format!("/proc/{pid}/environ")), ENVIRONMENT_MAX);
        let environment = environment.unwrap_or_default();
        let is_in = || {
            let directory = std::fs::read_link(format!("/proc/{pid}/cwd"));
            directory.is_ok_and(|path| self.is_own(&path)) && !has_terminal(pid)
        };
        environment.split(|byte| *byte == 0).any(|variable| variable == self.variable) || is_in()
    }

    /// Whether `path` is in a directory that the run has made for loads.
    fn is_own(&self, path: &Path) -> bool {
        path.ancestors().any(|part| is_load(part, &self.run))
    }
}

/// Ends every process that a load of `run` has started and that still runs, and waits until they are gone. How many there were.
///
/// # Errors
/// When some do not end.
pub fn end_all(run: &str) -> Result<usize, LoadError> {
    let mark = Mark::of(run);
    let begun = Instant::now();
    let mut ended = BTreeSet::new();
    loop {
        let left = running(&mark);
        if left.is_empty() {
            return Ok(ended.len());
        }
        if begun.elapsed() > KILLED {
            let each: Vec<String> = left.iter().map(i32::to_string).collect();
            return Err(LoadError::Left(each.join(", ")));
        }
        for pid in left {
            // A number may be another process's by now: what is held is asked once more.
            let Some(held) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            else {
                continue;
            };
            if mark.is_on(pid) {
                // Asked first, so that it gives back what outlives it, as shared memory does.
                let asked = ended.insert(pid);
                let signal = if begun.elapsed() > ASKED { Signal::KILL } else { Signal::TERM };
                if asked || signal == Signal::KILL {
                    let _ = pidfd_send_signal(&held, signal);
                }
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What `value` makes of the process's fields; nothing where it is gone.
fn stat<T>(pid: i32, value: impl Fn(&Stat<'_>) -> Option<T>) -> Option<T> {
    value(&Stat::parse(&sys::text(Path::new(&format!("/proc/{pid}/stat")))?)?)
}

/// Whether the process has given up its memory and its directory already, or is gone.
pub(crate) fn is_ending(pid: i32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/cwd")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Whether the process has a terminal, as the shell has of somebody who looks around; a load has a session without one.
fn has_terminal(pid: i32) -> bool {
    stat(pid, |stat| stat.terminal()).is_some_and(|terminal| terminal != 0)
}

/// Those that have the mark, but this process and those that it comes from.
fn running(mark: &Mark) -> Vec<i32> {
    let above: Vec<i32> = std::iter::successors(i32::try_from(std::process::id()).ok(), |pid| {
        stat(*pid, |stat| stat.parent())?.try_into().ok().filter(|parent| *parent > 0)
    })
    .collect();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| !above.contains(pid) && mark.is_on(*pid)).collect()
}

/// Makes sure that nobody whom programs run as can put something else in the place of what a run makes in `directory`.
///
/// # Errors
/// Which directory on the way to it others may change.
pub fn check_place(directory: &Path, user: &User) -> Result<(), LoadError> {
    if user.is_self {
        return Ok(());
    }
    let resolved = std::fs::canonicalize(directory).map_err(at(directory))?;
    for path in resolved.ancestors() {
        let found = std::fs::metadata(path).map_err(at(directory))?;
        let (mode, sticky) = (found.mode(), found.mode() & 0o1000 != 0);
        let others = mode & 0o002 != 0 || mode & 0o020 != 0 && found.gid() != 0;
        if found.uid() != geteuid().as_raw() && found.uid() != 0 || others && !sticky {
            let path = path.shown();
            return Err(LoadError::User(format!(
                "others than root may change {path}, and could put something else in the place of what root makes there: choose a directory \
                 that only root may write to, or run without root"
            )));
        }
    }
    Ok(())
}

/// Makes the directory `path` for the programs of `user`.
///
/// # Errors
/// When it cannot be made.
pub fn make(path: &Path, user: &User) -> Result<(), LoadError> {
    let (parent, name) = Directory::of(path).map_err(at(path))?;
    parent.make(&name).map_err(at(path))?;
    user.own(path)
}

/// Lets any user pass through the directory `path` of this run's own.
///
/// # Errors
/// When that is not allowed.
pub fn let_pass(path: &Path) -> Result<(), LoadError> {
    own::let_pass(path).map_err(at(path))
}

/// Takes away what programs have left in the directory `path`, and the directory; already gone is success.
///
/// # Errors
/// When something cannot be removed.
pub fn remove(path: &Path) -> Result<(), LoadError> {
    own::remove_tree(path).map_err(at(path))
}

/// Gives the directory `from` of a load's own the name `to`.
///
/// # Errors
/// When it cannot be moved.
pub fn rename(from: &Path, to: &Path) -> Result<(), LoadError> {
    own::rename(from, to).map_err(at(from))
}

/// Writes what of `directory` is not on its device yet, and has the page cache forget its files.
///
/// # Errors
/// When it cannot be written.
pub fn settle(directory: &Path) -> Result<(), LoadError> {
    let opened = read::open(directory).map_err(at(directory))?;
    rustix::fs::syncfs(&opened).map_err(|errno| at(directory)(errno.into()))?;
    forget(directory);
    Ok(())
}

fn forget(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => forget(&entry.path()),
            Ok(kind) if kind.is_file() => {
                // Best effort: what stays only makes the first reads faster.
                if let Ok(file) = read::regular(&entry.path()) {
                    let _ = fadvise(&file, 0, None, Advice::DontNeed);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_the_directory_that_its_run_has_made() {
        let mark = Mark::of("20261130-110103-816c");
        for own in [
            "/mnt/data/ebbtide-20261130-110103-816c/ebbtide-load/0/run/data",
            "/run/ebbtide/20261130_110103_816c_1/ebbtide-load/0/run (deleted)",
        ] {
            assert!(mark.is_own(Path::new(own)), "{own}");
        }
        for other in [
            "/mnt/data/ebbtide-20261130-110103-816d/ebbtide-load/0/run",
            "/mnt/data/ebbtide-20261130-110103-816c",
            "/home/me/ebbtide-load/20261130-110103-816c",
            "/",
        ] {
            assert!(!mark.is_own(Path::new(other)), "{other}");
        }
    }

    struct NoJournal;

    impl Journal for NoJournal {
        fn write(
            &self,
            _: &ebbtide_model::journal::Entry,
        ) -> Result<(), ebbtide_model::journal::JournalError> {
            Ok(())
        }
    }

    #[test]
    fn what_a_program_prints_takes_and_leaves_running() {
        let directory = tempfile::tempdir().expect("a directory");
        let (stop, user) = (AtomicBool::new(false), User::myself());
        let run = format!("unit-{}", std::process::id());
        let load = Load {
            run: &run,
            directory: directory.path(),
            user: &user,
            env: &[],
            timeout: Nanos::from_secs(60),
            stop: &stop,
            journal: &NoJournal,
        };
        let sh = |line: &str| load.run(&["/bin/sh", "-c", line].map(str::to_owned));
        let ran = sh("echo said; setsid sleep 300 & exit 0").expect("ends well");
        assert_eq!((ran.output.as_str(), ran.took < Duration::from_secs(60)), ("said\n", true));
        assert_eq!(end_all(&run).expect("ends"), 1);
        assert_eq!(end_all(&run).expect("ends"), 0);
        let error = sh("echo a >&2; exit 7").expect_err("fails").to_string();
        assert_eq!(error, "/bin/sh ended with status 7; it said last: a");
        stop.store(true, Ordering::Relaxed);
        assert!(matches!(sh("sleep 300"), Err(LoadError::Stopped)));
        assert_eq!(end_all(&run).expect("ends"), 0);
    }
}
