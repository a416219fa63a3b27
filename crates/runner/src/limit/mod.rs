//! Holding a program to a rate (`ebb limit`): a control group of its own where the kernel limits in one, and in any case stops,
//! decided by what its processes have moved.
//!
//! The kernel's limit alone would not do: version 1 does not see what goes through the page cache, neither sees the network, each
//! holds on each device by itself. So the stops hold the rate, and what the kernel holds needs none.

mod groups;
mod meter;
mod ops;
mod target;
mod told;

pub use groups::LimitMethods;
pub use target::Refused;
pub use told::{Course, End, LimitListener};

use crate::clock;
use ebbtide_host::limit::command;
use ebbtide_host::limit::guardian::{Guardian, Message};
use ebbtide_host::limit::hold::{self, Hold};
use ebbtide_host::limit::sockets::Sockets;
use ebbtide_host::limit::tree::{Process, Tree};
use ebbtide_host::limit::{Caught, Signals};
use ebbtide_host::sys::Sys;
use ebbtide_model::limit::{Counts, Kind, Limits, Pacer, Step};
use ebbtide_model::shown::{Shown, one_line};
use groups::Groups;
use meter::Meter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{WaitOptions, wait};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The niceness of this program while it holds another, where it may choose.
const PRIORITY: i32 = -10;
/// Between two live figures.
const TELL: Duration = Duration::from_millis(250);
/// Of what the kernel's own limit has passed, the part that counts for stops: so that it is the kernel that holds it.
const SEEN: u64 = 97;
/// How long a program that was sent a signal has to act on it before it may be stopped again.
const GRACE: Duration = Duration::from_millis(50);

/// What a pause is longer than that this program did not ask for: it was stopped itself.
const PAUSE: Duration = Duration::from_millis(100);

/// SIGCHLD, and those that end or concern a program.
const CHILD: i32 = 17;
/// SIGCONT: this program was stopped, as by a key.
const CONTINUED: i32 = 18;
/// What is passed on to a command, or ends the holding of a process: INT, QUIT, TERM, HUP.
const ENDS: [i32; 4] = [2, 3, 15, HANGUP];
const HANGUP: i32 = 1;
/// What is passed on besides: USR1, USR2.
const OWN: [i32; 2] = [10, 12];

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
    /// The subcommand by which this program is a guardian.
    pub guardian: &'static str,
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

fn system(what: &'static str) -> impl FnOnce(io::Error) -> LimitError {
    move |error| LimitError::System { what, error }
}

/// Holds `wanted`'s program to its rates until it ends; how it ended, and what it moved.
///
/// # Errors
/// When nothing was begun.
pub fn run(
    wanted: &Wanted,
    watch: &mut dyn LimitListener,
) -> Result<(End, Course, LimitMethods), LimitError> {
    let sys = Sys::host();
    let process = match wanted.target {
        Target::Process(pid) => Some(target::check(&sys, pid, &wanted.limits)?),
        Target::Command(_) => None,
    };
    let mut caught = (wanted.ignored)(&ENDS);
    caught.extend([CHILD, CONTINUED]);
    if process.is_none() {
        caught.extend((wanted.ignored)(&OWN));
    }
    let signals = Signals::catch(&caught).map_err(system("catch signals"))?;
    // It shows who is held, so it begins first: of two at the same moment, one sees the other.
    let root = process.clone().or_else(|| Process::look(&sys, std::process::id()));
    let root = root.map_or((std::process::id(), 0), |root| (root.pid, root.start));
    let guardian = Guardian::start(wanted.guardian, root)
        .map_err(system("start the process that wakes the program when ebb is killed"))?;
    target::check_free(&sys, process.as_ref().map(|process| process.pid))?;
    let sockets = match wanted.limits.of(Kind::Net) {
        Some(_) => Some(Sockets::new(&sys).map_err(system("count what goes over the network"))?),
        None => None,
    };
    let end = match &process {
        Some(process) => {
            Some(hold::end_of(&sys, process.pid, process.start).map_err(system("wait for its end"))?)
        }
        None => {
            let own = rustix::process::getpid();
            rustix::process::set_child_subreaper(Some(own))
                .map_err(|e| system("adopt what the program starts")(e.into()))?;
            None
        }
    };
    let is_own = process.is_none();
    let tree = process.clone().map_or_else(|| Tree::own(&sys), |process| Tree::of(&sys, process));
    let mut meter = Meter::new(&sys, tree, is_own, sockets);
    let mut groups = Groups::none(wanted.journals.clone(), clock::session_id());
    let mut hold = Hold::new(&sys, guardian);
    let ways = match is_own {
        true => groups.make(&sys, &wanted.limits, hold.guardian()),
        false => LimitMethods {
            why: vec!["a process stays in the control groups that it is in".to_owned()],
            ..LimitMethods::default()
        },
    };
    if let Some((group, _)) = &ways.brake {
        hold.brake(group.clone());
    }
    watch.begins(&ways);
    let (before, _) = meter.look(&groups, hold.guardian().pid(), watch);
    let main = match &wanted.target {
        Target::Process(pid) => *pid,
        Target::Command(words) => {
            command::start(words, &groups.paths(), wanted.aside).map_err(|error| not_started(words, error))?
        }
    };
    // Whoever has to wake a program in time must not wait for the processor behind it; those who may not, do.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    let mut session = Session {
        sys,
        limits: wanted.limits,
        signals,
        caught: Vec::new(),
        end,
        main,
        meter,
        groups,
        hold,
        begun: Instant::now(),
        stopped: None,
        others: Others { at: Instant::now(), asked: Duration::ZERO, continued: false, stopped: false },
        course: Course {
            elapsed: Duration::ZERO,
            paused: Duration::ZERO,
            moved: before,
            by_kernel: None,
            stops: 0,
            held: Duration::ZERO,
            longest: Duration::ZERO,
            burst: Counts::default(),
        },
    };
    let end = session.go_on(watch);
    session.finish(watch);
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
struct Session {
    sys: Sys,
    limits: Limits,
    signals: Signals,
    /// Those that nobody has acted on.
    caught: Vec<Caught>,
    /// Becomes readable when a process that is no child ends.
    end: Option<OwnedFd>,
    main: u32,
    meter: Meter,
    groups: Groups,
    hold: Hold,
    begun: Instant,
    /// Since when it is stopped, on the course's clock.
    stopped: Option<Duration>,
    others: Others,
    course: Course,
}

/// What somebody else's stops are told by.
struct Others {
    /// When was looked last.
    at: Instant,
    /// For how long nothing was to be done since.
    asked: Duration,
    /// Whether this program was woken, which somebody had stopped: since the last look, or at the end of that.
    continued: bool,
    /// Whether all of the program's processes stood still then that were not stopped here.
    stopped: bool,
}

impl Session {
    fn look(&mut self, watch: &mut dyn LimitListener) {
        let guardian = self.hold.guardian().pid();
        let before = self.course.moved;
        (self.course.moved, self.course.by_kernel) = self.meter.look(&self.groups, guardian, watch);
        self.tell_others(before);
        self.course.elapsed = self.elapsed();
        if let (Some(limit), Some(seen)) = (self.limits.of(Kind::Write), self.course.by_kernel) {
            self.groups.let_write_back(limit, self.course.moved[Kind::Write], seen[Kind::Write]);
        }
    }

    /// Time in which the program was stopped by somebody else is not the limit's.
    fn tell_others(&mut self, before: Counts) {
        let now = Instant::now();
        // What woke this program is among its signals when it goes on: since the last look, or after `now`, of the next gap.
        let early = self.others.continued;
        self.take_signals();
        let gap = now.saturating_duration_since(self.others.at);
        let mut alive = self.meter.tree.alive().peekable();
        let stands_still = alive.peek().is_some() && alive.all(|process| matches!(process.state, 'T' | 't'));
        let stopped = stands_still && !self.hold.is_held();
        let unasked = gap.saturating_sub(self.others.asked);
        let mut continued = self.others.continued && !early;
        if stopped && self.others.stopped {
            self.course.paused += gap;
        } else if self.others.continued && unasked > PAUSE && self.is_little(before) {
            // A key stops both: nobody looked meanwhile.
            self.course.paused += unasked;
            continued = false;
        }
        self.others = Others { at: now, asked: Duration::ZERO, continued, stopped };
    }

    /// Takes what signals there are: what woke this program is noted, the others wait for their turn.
    fn take_signals(&mut self) {
        for caught in self.signals.take() {
            self.others.continued |= caught.signal == CONTINUED;
            self.caught.push(caught);
        }
    }

    /// Whether no more was moved since `before` than in the time that was looked after: whoever was stopped alone, while the program
    /// went on, comes back to more, or to what no limit would have held.
    fn is_little(&self, before: Counts) -> bool {
        let seconds = (self.others.asked + PAUSE).as_secs_f64();
        let moved = self.course.moved.minus(before);
        self.limits.set().all(|(kind, limit)| moved[kind] as f64 <= limit as f64 * seconds)
    }

    fn elapsed(&self) -> Duration {
        self.begun.elapsed().saturating_sub(self.course.paused)
    }

    fn wake(&mut self, watch: &mut dyn LimitListener) {
        if let Err(error) = self.hold.wake() {
            watch.remark(&format!("cannot wake the program: {error}"));
        }
        if let Some(since) = self.stopped.take() {
            let length = self.elapsed().saturating_sub(since);
            self.course.held += length;
            self.course.longest = self.course.longest.max(length);
        }
    }

    /// Stops all that runs; whether all did.
    fn stop(&mut self, watch: &mut dyn LimitListener) -> Result<bool, LimitError> {
        for (process, error) in self.hold.stop(self.meter.tree.alive()).map_err(system("stop the program"))? {
            let Process { pid, name, .. } = process;
            watch.remark(&format!("process {pid} ({}) cannot be stopped: {error}", one_line(&name)));
        }
        let is_new = self.stopped.is_none();
        if is_new {
            self.stopped = Some(self.elapsed());
            self.course.stops += 1;
        }
        Ok(is_new)
    }

    fn go_on(&mut self, watch: &mut dyn LimitListener) -> Result<End, LimitError> {
        let mut pacer = Pacer::new(&self.limits, self.course.moved);
        let mut told = Instant::now();
        let mut grace: Option<Instant> = None;
        loop {
            self.take_signals();
            for caught in std::mem::take(&mut self.caught) {
                if caught.signal == CHILD {
                    continue;
                }
                if caught.signal == CONTINUED {
                    // How long both stood still is not the limit's hold.
                    self.look(watch);
                }
                self.wake(watch);
                if caught.signal == CONTINUED {
                    // Whoever woke this program woke what was stopped too: it is stopped anew if it has to be.
                    continue;
                }
                grace = Some(Instant::now());
                match self.end {
                    Some(_) => return Ok(End::Released(caught.signal)),
                    None => self.pass_on(caught),
                }
            }
            if let Some(end) = self.ended() {
                return Ok(end);
            }
            self.look(watch);
            let step = pacer.next(self.course.elapsed, self.paced());
            for (kind, _) in self.limits.set() {
                self.course.burst[kind] = pacer.burst(kind).unwrap_or(0);
            }
            if let (Some(limit), Some(ahead)) = (self.limits.of(Kind::Net), pacer.ahead(Kind::Net)) {
                self.meter.narrow(limit, ahead, self.hold.guardian(), watch);
            }
            match step {
                Step::Run(time) => {
                    self.wake(watch);
                    self.wait(time);
                }
                Step::Pulse(time) => {
                    self.wake(watch);
                    self.wait(time);
                    self.stop(watch)?;
                }
                Step::Hold(time) if grace.is_some_and(|since| since.elapsed() < GRACE) => {
                    self.wait(time.min(GRACE))
                }
                Step::Hold(time) => {
                    // What it moved until it stood still, and whom it started, is looked at once more.
                    if !self.stop(watch)? {
                        self.wait(time.min(TELL));
                    }
                }
            }
            if told.elapsed() >= TELL {
                told = Instant::now();
                watch.goes_on(&self.course);
            }
        }
    }

    /// What counts for stops.
    fn paced(&self) -> Counts {
        let by_kernel = self.course.by_kernel.unwrap_or_default();
        self.course.moved.minus(Counts(by_kernel.0.map(|seen| seen / 100 * (100 - SEEN))))
    }

    /// Waits for this long, for a signal, or for the end of the process.
    fn wait(&mut self, time: Duration) {
        if !self.caught.is_empty() {
            return;
        }
        self.others.asked += time;
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(self.end.iter().map(|end| PollFd::new(end, PollFlags::IN)));
        let time = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
        // Interrupted is over too.
        let _ = poll(&mut fds, Some(&time));
    }

    /// Waits for children that have ended; how the program ended, if it has.
    fn ended(&self) -> Option<End> {
        let mut end = None;
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid.as_raw_nonzero().get().unsigned_abs() == self.main {
                let number = |value: i32| u8::try_from(value).unwrap_or(u8::MAX);
                end = match (status.exit_status(), status.terminating_signal()) {
                    (Some(status), _) => Some(End::Exited(number(status))),
                    (None, Some(signal)) => Some(End::Signalled(number(signal))),
                    (None, None) => None,
                };
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
            Some(sender) => self.meter.tree.pids().any(|pid| pid == sender),
        };
        if has_come {
            return;
        }
        if let Some(main) = Process::look(&self.sys, self.main) {
            // It may end right now.
            let _ = hold::send(&self.sys, main.pid, main.start, caught.signal);
        }
    }

    /// Wakes everybody, takes a last look, and removes what was made.
    fn finish(&mut self, watch: &mut dyn LimitListener) {
        self.wake(watch);
        self.meter.narrowed.put_back();
        self.look(watch);
        let left = self.meter.tree.alive().count();
        if self.end.is_none() && left > 0 {
            watch.remark(&match left {
                1 => "the command left 1 process running, which has no limit from now on".to_owned(),
                _ => format!("the command left {left} processes running, which have no limit from now on"),
            });
        }
        if let Err(error) = self.groups.remove() {
            watch.remark(&format!("{error}; `ebb cleanup` tries again"));
            return;
        }
        // A guardian that is gone has nothing to do either.
        let _ = self.hold.guardian().tell(&Message::Done);
    }
}
