//! Holding a program to a rate (`ebb limit`): stops, decided by what its processes have moved, of a control group of its own where there
//! can be one.

mod groups;
mod target;
mod told;

pub use groups::LimitMethods;
pub use target::Refused;
pub use told::{Course, End};

use crate::clock;
use crate::journal::JournalFile;
use ebbtide_host::limit::guardian::{Guardian, Message};
use ebbtide_host::limit::hold::{self, Hold};
use ebbtide_host::limit::sockets::Sockets;
use ebbtide_host::limit::tree::{self, Process, Tree};
use ebbtide_host::limit::{Caught, Signals, command, group};
use ebbtide_host::sys::Sys;
use ebbtide_model::journal::{Entry, Journal};
use ebbtide_model::limit::{Counts, Kind, Limits, Pacer, Step, Tally};
use ebbtide_model::shown::Shown;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, WaitOptions, waitpid};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The niceness of this program while it holds another, where it may choose.
const PRIORITY: i32 = -10;
/// Between two looks at a program that stands still.
const LOOK: Duration = Duration::from_millis(250);
/// How long a program that was sent a signal has to act on it before it may be stopped again.
const GRACE: Duration = Duration::from_millis(50);

/// SIGCHLD, and SIGCONT: this program was stopped, as by a key.
const CHILD: i32 = 17;
const CONTINUED: i32 = 18;
/// What is passed on to a command, or ends the holding of a process: HUP, INT, QUIT, TERM; and to a command alone: USR1, USR2.
const HANGUP: i32 = 1;
const PASSED: [i32; 6] = [HANGUP, 2, 3, 15, 10, 12];

/// The program that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A program that is started, with its arguments.
    Command(Vec<OsString>),
    /// The process with this number, and what it has started.
    Process(u32),
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The most in a second.
    pub limits: Limits,
    /// The program that is held, with all that it starts.
    pub target: Target,
    /// That the command's standard output goes to standard error.
    pub aside: bool,
    /// Where journals are; `None` when nobody knows.
    pub journals: Option<PathBuf>,
    /// Which signals this program ignores since it began: a command goes on ignoring them.
    pub ignored: fn(&[i32]) -> Vec<i32>,
}

/// Why nothing was held.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    /// There is no such program.
    #[error("cannot start {0}: there is no such program; look at its name and at PATH")]
    Missing(String),
    /// It is there and cannot be run.
    #[error("cannot start {program}: {error}")]
    Start { program: String, error: io::Error },
    /// That process is not to be held.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A call failed that nothing goes on without.
    #[error("cannot {what}: {error}")]
    System { what: &'static str, error: io::Error },
}

fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> LimitError {
    move |error| LimitError::System { what, error: error.into() }
}

/// Holds `wanted`'s program to its rates until it ends; how it ended, and what it moved. What is used is told to `begins` before
/// anything is started or stopped, what is not as it was asked for to `remark`.
///
/// # Errors
/// When nothing was begun.
pub fn run(
    wanted: &Wanted,
    begins: impl FnOnce(&LimitMethods),
    remark: impl Fn(&str),
) -> Result<(End, Course, LimitMethods), LimitError> {
    let sys = Sys::host();
    let process = match wanted.target {
        Target::Process(pid) => Some(target::check(&sys, pid, &wanted.limits)?),
        Target::Command(_) => None,
    };
    let mut caught = (wanted.ignored)(if process.is_none() { &PASSED } else { &PASSED[..4] });
    caught.extend([CHILD, CONTINUED]);
    let signals = Signals::catch(&caught).map_err(system("catch signals"))?;
    let mut guardian =
        Guardian::start().map_err(system("start the process that wakes the program when ebb is killed"))?;
    let sockets = wanted.limits.of(Kind::Net).map(|_| Sockets::new(&sys)).transpose();
    let sockets = sockets.map_err(system("count what goes over the network"))?;
    let tree = Tree::new(&sys, process.clone()).map_err(system("see what it starts"))?;
    let run = clock::session_id();
    let journal = wanted.journals.as_ref().map(|journals| JournalFile::alone(journals, &run));
    let (end, (group, ways)) = match &process {
        Some(process) => {
            let end = hold::end_of(&sys, process.id()).map_err(system("wait for its end"))?;
            let why = vec!["a process stays in the control groups that it is in".to_owned()];
            (Some(end), (None, LimitMethods { means: None, why }))
        }
        None => {
            let own = rustix::process::getpid();
            rustix::process::set_child_subreaper(Some(own)).map_err(system("adopt what it starts"))?;
            (None, groups::make(&sys, &run, journal.as_ref(), &mut guardian))
        }
    };
    let hold = Hold::new(&sys, group, guardian);
    begins(&ways);
    let mut session = Session {
        tally: Tally::new(process.is_none()),
        sys,
        limits: wanted.limits,
        signals,
        end,
        main: 0,
        tree,
        sockets,
        journal,
        hold,
        begun: Instant::now(),
        stopped: None,
        course: Course::default(),
        remark: &remark,
    };
    session.look();
    session.begun = Instant::now();
    let path = session.hold.group.as_ref().map(|group| group.path.as_path());
    let main = match &wanted.target {
        Target::Process(pid) => Ok(*pid),
        Target::Command(words) => {
            command::start(words, path, wanted.aside).map_err(|error| not_started(words, error))
        }
    };
    // Whoever has to wake a program in time must not wait for the processor behind it; those who may not, do.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    let end = main.and_then(|main| session.go_on(main));
    session.finish();
    Ok((end?, session.course, ways))
}

fn not_started(words: &[OsString], error: io::Error) -> LimitError {
    let program = words.first().map(|word| Path::new(word).shown()).unwrap_or_default();
    match error.kind() {
        ErrorKind::NotFound => LimitError::Missing(program),
        _ => LimitError::Start { program, error },
    }
}

/// A program that is held.
struct Session<'a> {
    sys: Sys,
    limits: Limits,
    signals: Signals,
    /// Becomes readable when a process that is no child ends.
    end: Option<OwnedFd>,
    main: u32,
    tree: Tree,
    tally: Tally,
    sockets: Option<Sockets>,
    journal: Option<JournalFile>,
    hold: Hold,
    begun: Instant,
    stopped: Option<Instant>,
    course: Course,
    remark: &'a dyn Fn(&str),
}

impl Session<'_> {
    /// Counts what was moved since the first look.
    fn look(&mut self) {
        let (members, uncounted) = self.tree.look();
        uncounted.iter().for_each(|text| (self.remark)(text));
        let waited = if self.end.is_none() { tree::waited(&self.sys) } else { Counts::default() };
        let mut moved = self.tally.look(&members, waited);
        if let Some(sockets) = &mut self.sockets {
            match sockets.look(self.tree.pids()) {
                Ok(net) => moved[Kind::Net] = net,
                Err(error) => {
                    (self.remark)(&format!("the network is not counted any more: {error}"));
                    self.sockets = None;
                }
            }
        }
        // A device that goes away takes its count with it.
        let moved = self.course.moved.with(moved, u64::max);
        self.course = Course { elapsed: self.begun.elapsed(), moved, ..self.course };
    }

    fn wake(&mut self) {
        if let Err(error) = self.hold.wake() {
            (self.remark)(&format!("cannot wake the program: {error}"));
        }
        self.course.held += self.stopped.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// Stops all that runs; whether anything did.
    fn stop(&mut self) -> Result<bool, LimitError> {
        self.hold.stop(&self.tree.alive()).map_err(system("stop the program"))?;
        let is_new = self.stopped.is_none();
        self.stopped.get_or_insert_with(Instant::now);
        self.course.stops += u64::from(is_new);
        Ok(is_new)
    }

    fn go_on(&mut self, main: u32) -> Result<End, LimitError> {
        self.main = main;
        let mut pacer = Pacer::new(&self.limits, self.course.moved);
        let mut grace: Option<Instant> = None;
        loop {
            for caught in self.signals.take() {
                if caught.signal == CHILD {
                    continue;
                }
                // Whoever woke this program woke what was stopped too: it is stopped anew if it has to be.
                self.wake();
                if caught.signal != CONTINUED {
                    grace = Some(Instant::now());
                    match self.end {
                        Some(_) => return Ok(End::Released(caught.signal)),
                        None => self.pass_on(caught),
                    }
                }
            }
            if let Some(end) = self.ended() {
                return Ok(end);
            }
            self.look();
            match pacer.next(self.course.elapsed, self.course.moved) {
                Step::Run(time) => {
                    self.wake();
                    self.wait(time);
                }
                Step::Pulse(time) => {
                    self.wake();
                    self.wait(time);
                    self.stop()?;
                }
                Step::Hold(time) if grace.is_some_and(|since| since.elapsed() < GRACE) => {
                    self.wait(time.min(GRACE));
                }
                Step::Hold(time) => {
                    // What it moved until it stood still, and whom it started, is looked at once more.
                    if !self.stop()? {
                        self.wait(time.min(LOOK));
                    }
                }
            }
        }
    }

    /// Waits for this long, for a signal, or for the end of the process.
    fn wait(&self, time: Duration) {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(self.end.iter().map(|end| PollFd::new(end, PollFlags::IN)));
        let time = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
        // Interrupted is over too.
        let _ = poll(&mut fds, Some(&time));
    }

    /// Waits for those of the program that have ended; how the program ended, if it has.
    fn ended(&self) -> Option<End> {
        let mut end = None;
        // Others that this program had before it was this one belong to somebody else's count.
        for pid in self.tree.pids().filter(|pid| *pid != self.main).chain([self.main]) {
            let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
            if let Ok(Some((_, status))) = waitpid(number, WaitOptions::NOHANG)
                && pid == self.main
            {
                let number = |value: i32| u8::try_from(value).unwrap_or(u8::MAX);
                let signal = || status.terminating_signal().map(|signal| End::Signalled(number(signal)));
                end = status.exit_status().map(|status| End::Exited(number(status))).or_else(signal);
            }
        }
        let other = self.end.as_ref().is_some_and(|end| {
            let mut fds = [PollFd::new(end, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        });
        end.or(other.then_some(End::Unknown))
    }

    /// A key of the terminal's went to everybody in the foreground, the end of the terminal to its leader alone; what one of the program's own sent
    /// is none of its business.
    fn pass_on(&mut self, caught: Caught) {
        let has_come = match caught.sender {
            None => caught.signal != HANGUP,
            Some(sender) => self.tree.pids().any(|pid| pid == sender),
        };
        if let Some(main) = Process::look(&self.sys, self.main).filter(|_| !has_come) {
            // It may end right now.
            let _ = hold::send(&self.sys, main.id(), caught.signal);
        }
    }

    /// Wakes everybody, takes a last look, and removes what was made.
    fn finish(&mut self) {
        self.wake();
        self.hold.settle();
        self.look();
        let left = self.tree.alive().len();
        if self.end.is_none() && left > 0 {
            let (text, are) =
                if left == 1 { ("1 process", "has") } else { (&*format!("{left} processes"), "have") };
            (self.remark)(&format!("the command left {text} running, which {are} no limit from now on"));
        }
        if let Some(group) = self.hold.group.take() {
            if let Err(error) = group::remove_to(&group.path, &group.home) {
                return (self.remark)(&format!("{error}; `ebb cleanup` tries again"));
            }
            // What is not noted is found to be gone by whoever cleans up.
            self.journal.iter().for_each(|journal| drop(journal.write(&Entry::Undone(0))));
        }
        // A guardian that is gone has nothing to do either.
        let _ = self.hold.guardian.tell(&Message::Done);
    }
}
