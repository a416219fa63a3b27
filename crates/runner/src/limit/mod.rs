//! Holding a program to a rate (`ebb limit`): it stands still between its calls, decided by what its threads have moved.

mod target;
mod told;

pub use target::Refused;
pub use told::{Course, End};

use ebbtide_host::limit::program::{Ended, Program};
use ebbtide_host::limit::sockets::Sockets;
use ebbtide_host::limit::{self, Caught, Signals};
use ebbtide_host::sys::Sys;
use ebbtide_model::limit::{Counts, Kind, Limits, Pacer, Step};
use ebbtide_model::shown::Shown;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};

/// The niceness of this program while it holds another, where it may choose.
const PRIORITY: i32 = -10;
/// Between two looks at a program that stands still.
const LOOK: Duration = Duration::from_millis(250);
/// Between two looks at one whose calls end, and how many times as long as a look itself.
const BETWEEN: (Duration, u32) = (Duration::from_millis(1), 10);

/// SIGCHLD: something has happened to a thread.
const CHILD: i32 = 17;
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
    /// Nothing says what a program does.
    #[error(
        "/proc does not show the processes of this PID namespace, and only there stands what they move: `mount -t proc proc /proc` here first \
         (`unshare` does it with --mount-proc)"
    )]
    Blind,
    /// That process is not to be held.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It cannot be.
    #[error("{0}")]
    Held(io::Error),
    /// A call failed that nothing goes on without.
    #[error("cannot {what}: {error}")]
    System { what: &'static str, error: io::Error },
}

fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> LimitError {
    move |error| LimitError::System { what, error: error.into() }
}

/// Holds `wanted`'s program to its rates until it ends; how it ended, and what it moved. `begins` is called before a command is
/// started, and when a process is held; and what is not as it was asked for is told to `remark`.
///
/// # Errors
/// When nothing was begun.
pub fn run(
    wanted: &Wanted,
    begins: impl FnOnce() + Send,
    remark: impl Fn(&str) + Send,
) -> Result<(End, Course), LimitError> {
    // All go on when the thread that traces them ends, whatever else this program still does.
    std::thread::scope(|scope| {
        let held = std::thread::Builder::new().spawn_scoped(scope, move || hold(wanted, begins, &remark));
        match held.map_err(system("start a thread"))?.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Whether processes have the numbers in /proc that they have here.
fn shows_processes(sys: &Sys) -> bool {
    let own = std::fs::read_link(sys.proc.join("self"));
    own.is_ok_and(|own| own.to_str() == Some(&std::process::id().to_string()))
}

fn hold(wanted: &Wanted, begins: impl FnOnce(), remark: &dyn Fn(&str)) -> Result<(End, Course), LimitError> {
    let sys = Sys::host();
    if !shows_processes(&sys) {
        return Err(LimitError::Blind);
    }
    let process = match wanted.target {
        Target::Process(pid) => Some(target::check(&sys, pid, &wanted.limits)?),
        Target::Command(_) => None,
    };
    let mut caught = (wanted.ignored)(if process.is_none() { &PASSED } else { &PASSED[..4] });
    caught.push(CHILD);
    let signals = Signals::catch(&caught).map_err(system("catch signals"))?;
    let sockets = wanted.limits.of(Kind::Net).map(|_| Sockets::new(&sys)).transpose();
    let sockets = sockets.map_err(system("count what goes over the network"))?;
    let mut program = match &wanted.target {
        Target::Process(pid) => {
            let program = Program::attach(&sys, *pid).map_err(LimitError::Held)?;
            begins();
            program
        }
        Target::Command(words) => {
            begins();
            let command = limit::command(words, wanted.aside).map_err(|error| not_started(words, error))?;
            let started = Program::start(&sys, command).map_err(LimitError::Held)?;
            started.map_err(|error| not_started(words, error))?
        }
    };
    // What was started has inherited whether it is blocked; here it tells of every stop.
    limit::unblock(CHILD).map_err(system("hear of a stop"))?;
    // Whoever has to let a program go on in time must not wait for the processor behind it; those who may not, do.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    let before = if process.is_some() { program.moved() } else { Counts::default() };
    let mut session = Session {
        program,
        before,
        limits: wanted.limits,
        is_command: process.is_none(),
        signals,
        sockets,
        begun: Instant::now(),
        held: None,
        course: Course::default(),
        remark,
    };
    let end = session.go_on();
    session.finish(end);
    Ok((end, session.course))
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
    program: Program,
    /// What it had moved before.
    before: Counts,
    limits: Limits,
    is_command: bool,
    signals: Signals,
    sockets: Option<Sockets>,
    begun: Instant,
    held: Option<Instant>,
    course: Course,
    remark: &'a dyn Fn(&str),
}

impl Session<'_> {
    /// Counts what was moved since the beginning.
    fn look(&mut self) {
        let moved = self.program.moved().minus(self.before);
        self.program.remarks().iter().for_each(|text| (self.remark)(text));
        let moved = Counts([moved[Kind::Read], moved[Kind::Write], self.course.moved[Kind::Net]]);
        self.course.moved = self.course.moved.with(moved, u64::max);
        let processes = self.program.processes();
        self.look_at_network(|sockets| sockets.look(&processes, false));
        self.course.elapsed = self.begun.elapsed();
    }

    fn look_at_network(&mut self, look: impl FnOnce(&mut Sockets) -> io::Result<(u64, Vec<String>)>) {
        match self.sockets.as_mut().map(look) {
            Some(Ok((net, uncounted))) => {
                self.course.moved[Kind::Net] = net;
                uncounted.iter().for_each(|text| (self.remark)(text));
            }
            Some(Err(error)) => {
                (self.remark)(&format!("the network is not counted any more: {error}"));
                self.sockets = None;
            }
            None => {}
        }
    }

    /// Takes what has happened to the program; whether anything has.
    fn take_changes(&mut self) -> bool {
        let changed = self.program.take_changes();
        let ending = self.program.ending();
        if !ending.is_empty() {
            // Its connections are closed next.
            self.look_at_network(|sockets| sockets.look(&ending, true));
        }
        changed
    }

    fn let_go_on(&mut self) {
        self.program.go_on();
        self.course.held += self.held.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    fn stand_still(&mut self) {
        if self.program.stand_still() {
            self.course.stops += 1;
            self.held = Some(Instant::now());
        }
    }

    fn go_on(&mut self) -> End {
        let mut pacer = Pacer::new(&self.limits, Counts::default());
        let (mut due, mut soonest) = (Instant::now(), Instant::now());
        loop {
            let changed = self.take_changes();
            if let Some(ended) = self.program.ended() {
                return self.end(ended);
            }
            let now = Instant::now();
            if now < due && !(changed && now >= soonest) {
                self.program.pass();
                if !changed && self.wait(due - now) {
                    for caught in self.signals.take().into_iter().filter(|caught| caught.signal != CHILD) {
                        if !self.is_command {
                            return End::Released(caught.signal);
                        }
                        self.pass_on(caught);
                        // What stands still is to take it.
                        due = now;
                    }
                }
                continue;
            }
            self.look();
            let looked = Instant::now();
            soonest = looked + BETWEEN.0.max((looked - now) * BETWEEN.1);
            due = looked
                + match pacer.next(self.course.elapsed, self.course.moved) {
                    Step::Run(time) => {
                        self.let_go_on();
                        time
                    }
                    Step::Pulse(time) => {
                        self.let_go_on();
                        self.wait(time);
                        self.stand_still();
                        Duration::ZERO
                    }
                    Step::Hold(time) => {
                        self.stand_still();
                        time.min(LOOK)
                    }
                };
        }
    }

    /// Waits for this long, or for a signal; whether one has come.
    fn wait(&self, time: Duration) -> bool {
        let mut fds = [PollFd::new(&self.signals, PollFlags::IN)];
        let time = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
        // Interrupted is over too.
        poll(&mut fds, Some(&time)).map_or(true, |ready| ready > 0)
    }

    /// How the program ended. Who holds another's process says nothing of its status.
    fn end(&self, ended: Ended) -> End {
        let number = |value: i32| u8::try_from(value).unwrap_or(u8::MAX);
        match ended {
            _ if !self.is_command => End::Unknown,
            Ended::Exited(status) => End::Exited(number(status)),
            Ended::Killed(signal) => End::Signalled(number(signal)),
        }
    }

    /// A key of the terminal's went to everybody in the foreground, the end of the terminal to its leader alone; what one of the program's own sent
    /// is none of its business.
    fn pass_on(&mut self, caught: Caught) {
        let has_come = match caught.sender {
            None => caught.signal != HANGUP,
            Some(sender) => self.program.processes().contains(&sender),
        };
        let main = i32::try_from(self.program.main()).ok().and_then(Pid::from_raw);
        let signal = Signal::from_named_raw(caught.signal);
        if let (Some(main), Some(signal), false) = (main, signal, has_come) {
            // It may end right now. Its number is nobody else's before this program has seen that.
            let _ = kill_process(main, signal);
        }
    }

    /// Takes a last look.
    fn finish(&mut self, end: End) {
        self.look();
        self.course.held += self.held.take().map_or(Duration::ZERO, |since| since.elapsed());
        let left = self.program.processes().len();
        if self.is_command && !matches!(end, End::Released(_)) && left > 0 {
            let (text, are) =
                if left == 1 { ("1 process", "has") } else { (&*format!("{left} processes"), "have") };
            (self.remark)(&format!("the command left {text} running, which {are} no limit from now on"));
        }
    }
}
