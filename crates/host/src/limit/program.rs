//! A program with all that it has started, made to stand still between its calls.
//!
//! Its threads are traced (`ebbtide_sys::trace`): each stops before and after every system call, and goes on at once unless all of them
//! have to stand still. So no call ends early, no parent sees a stop, and when this program is killed the kernel lets all go on.
//!
//! A stop costs some microseconds. A thread with very many calls goes on without them, and is interrupted when it has to stand still: it moves
//! little in each. One that goes on moving bytes in a single long call is interrupted as well; one that waits in its call is not.

use super::moved::{ByThread, Moved};
use crate::sys::process::{self, Process};
use crate::sys::{self, Sys};
use ebbtide_model::limit::Counts;
use ebbtide_model::shown::{Shown, one_line};
use ebbtide_sys::trace::{self, Change, Stop, Until};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// So many stops in this time are too many: 5,000 calls, each with one before and one after it. A program that begins makes as many in a moment,
/// and moves much in each afterwards.
const MANY: (u32, Duration) = (10_000, Duration::from_secs(1));
/// How long a thread has to come to the end of a call before it is interrupted.
const LONG_CALL: Duration = Duration::from_millis(100);
/// How long a program that was sent a signal to end has to act on it.
const GRACE: Duration = Duration::from_millis(50);
/// So many changes are taken at a time.
const AT_ONCE: usize = 256;

/// Whether a thread has stopped, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// It goes on.
    No,
    /// Before or after a call.
    AtCall,
    /// No call is under way.
    Between,
}

/// A thread.
#[derive(Debug)]
struct Thread {
    process: u32,
    rest: Rest,
    /// It is about to end.
    ends: bool,
    until: Until,
    /// How many stops it has had since.
    stops: (u32, Instant),
}

impl Thread {
    /// One of `process` that goes on.
    fn new(process: u32) -> Thread {
        Thread { process, rest: Rest::No, ends: false, until: Until::Call, stops: (0, Instant::now()) }
    }
}

/// How a process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this exit status.
    Exited(i32),
    /// By the signal of this number.
    Killed(i32),
}

/// A program that this thread traces. It goes on alone when the thread ends.
#[derive(Debug)]
pub struct Program {
    sys: Sys,
    main: u32,
    threads: BTreeMap<u32, Thread>,
    moved: Moved,
    /// Since when it stands still, and what its threads had moved then.
    held: Option<(Instant, ByThread)>,
    /// When it was first sent a signal to end. Time to act on it is given once: whoever goes on is held.
    signalled: Option<Instant>,
    /// What it has to be told about it.
    remarks: Vec<String>,
    ended: Option<Ended>,
}

impl Program {
    fn new(sys: &Sys, main: u32) -> Program {
        Program {
            sys: sys.clone(),
            main,
            threads: BTreeMap::new(),
            moved: Moved::new(sys),
            held: None,
            signalled: None,
            remarks: Vec::new(),
            ended: None,
        }
    }

    /// Starts `command`; or why it cannot be started.
    ///
    /// # Errors
    /// When it cannot be traced.
    pub fn start(sys: &Sys, command: Command) -> io::Result<io::Result<Program>> {
        let started = trace::start(command).map_err(|error| {
            let why = match error.kind() {
                ErrorKind::PermissionDenied => untraceable(sys, &sys.proc.join("self/status")),
                _ => error.to_string(),
            };
            io::Error::new(error.kind(), format!("the command cannot be held: {why}"))
        })?;
        Ok(started.map(|main| {
            let mut program = Program::new(sys, main);
            program.add(main, main);
            program
        }))
    }

    /// The process `main` that runs already, with what it has started.
    ///
    /// # Errors
    /// When it cannot be traced, or has ended.
    pub fn attach(sys: &Sys, main: u32) -> io::Result<Program> {
        let mut program = Program::new(sys, main);
        // What they start is traced as they are; what they had started before is found sooner or later.
        while program.attach_new()? {}
        if program.threads.is_empty() {
            return Err(io::Error::new(ErrorKind::NotFound, "it has ended"));
        }
        Ok(program)
    }

    /// Traces threads that are not traced yet; whether there were any.
    fn attach_new(&mut self) -> io::Result<bool> {
        let mut found = false;
        for process in family(&self.sys, self.main) {
            for task in sys::numbers(&self.sys.proc.join(process.to_string()).join("task")) {
                if self.threads.contains_key(&task) {
                    continue;
                }
                match trace::seize(task) {
                    Ok(()) => {
                        found = true;
                        self.add(task, process);
                        // It goes from call to call from its first stop on.
                        let _ = trace::interrupt(task);
                    }
                    Err(error) if error.kind() != ErrorKind::PermissionDenied => {}
                    Err(_) => self.refused(process, task)?,
                }
            }
        }
        Ok(found)
    }

    /// The thread `task` may not be traced.
    fn refused(&mut self, process: u32, task: u32) -> io::Result<()> {
        let place = self.sys.proc.join(format!("{process}/task/{task}"));
        let status = sys::text(&place.join("status")).unwrap_or_default();
        let tracer = sys::field(&status, "TracerPid:").and_then(|tracer| tracer.parse().ok()).unwrap_or(0);
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        // A thread that a traced one has begun is this thread's already; one that has ended, and the kernel's helper for requests of
        // io_uring, is nobody's.
        if tracer == own || process::is_nobody_s(&self.sys, process, task) {
            return Ok(());
        }
        let name = Process::look(&self.sys, process).map(|process| process.name).unwrap_or_default();
        let why = untraceable(&self.sys, &place.join("status"));
        let text = format!("process {process} ({}) cannot be held: {why}", one_line(&name));
        match process == self.main {
            true => Err(io::Error::new(ErrorKind::PermissionDenied, text)),
            false => {
                if !self.remarks.contains(&text) {
                    self.remarks.push(text);
                }
                Ok(())
            }
        }
    }

    /// The process of the thread `task`, where it is there and has not ended.
    fn process_of(&self, task: u32) -> Option<u32> {
        let status = sys::text(&self.sys.proc.join(task.to_string()).join("status"))?;
        let lives = !sys::field(&status, "State:")?.starts_with(['Z', 'X']);
        sys::field(&status, "Tgid:")?.parse().ok().filter(|_| lives)
    }

    fn add(&mut self, task: u32, process: u32) {
        self.threads.insert(task, Thread::new(process));
    }

    /// The number of its first process.
    pub fn main(&self) -> u32 {
        self.main
    }

    /// Its processes that have not ended.
    pub fn processes(&self) -> BTreeSet<u32> {
        self.threads.values().map(|thread| thread.process).collect()
    }

    /// How its first process has ended, if it has.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// What there is to say of it, each once.
    pub fn remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    /// What all its threads have moved.
    pub fn moved(&mut self) -> Counts {
        let processes = self.processes();
        let (moved, uncounted) = self.moved.look(&processes);
        self.remarks.extend(uncounted);
        moved
    }

    /// Takes what has happened. Whoever has come to an end of a call waits for [`go_on`](Self::go_on) or [`stand_still`](Self::stand_still).
    /// Whether anything has.
    pub fn take_changes(&mut self) -> bool {
        let mut changes = 0;
        while changes < AT_ONCE
            && let Some((task, change)) = trace::next()
        {
            changes += 1;
            match change {
                Change::Stopped(stop) => self.stopped(task, stop),
                Change::Exited(status) => self.gone(task, Ended::Exited(status)),
                Change::Killed(signal) => self.gone(task, Ended::Killed(signal)),
            }
        }
        changes > 0
    }

    fn gone(&mut self, task: u32, ended: Ended) {
        self.threads.remove(&task);
        // The end of a first thread is told with that of the last, or not at all where it came before.
        if self.ended.is_none() && self.threads.values().all(|thread| thread.process != self.main) {
            self.ended = Some(ended);
        }
    }

    fn stopped(&mut self, task: u32, stop: Stop) {
        if !self.threads.contains_key(&task) {
            // Where nothing can be read it has to go on all the same.
            self.add(task, self.process_of(task).unwrap_or(task));
        }
        let Some(thread) = self.threads.get_mut(&task) else { return };
        match stop {
            Stop::Call => {
                thread.stops.0 += 1;
                if thread.stops.0 >= MANY.0 {
                    let is_fast = thread.stops.1.elapsed() < MANY.1;
                    thread.until = if is_fast { Until::Stop } else { Until::Call };
                    thread.stops = (0, Instant::now());
                }
                thread.rest = Rest::AtCall;
            }
            Stop::Trap => thread.rest = Rest::Between,
            Stop::Began(begun) => {
                thread.rest = Rest::Between;
                // Its own first stop may come after the end of whoever has begun it.
                if let Some(process) = self.process_of(begun) {
                    self.threads.entry(begun).or_insert_with(|| Thread::new(process));
                }
            }
            Stop::Exec(from) => {
                thread.rest = Rest::Between;
                let process = thread.process;
                if from != task {
                    self.threads.remove(&from);
                }
                self.moved.renamed(process, from);
                // One that has ended since has nothing to trace.
                let _ = trace::with_children(task);
                self.remarks.extend(self.loses_rights(task));
            }
            // Who wakes it wakes it for its parent too.
            Stop::Group => drop(trace::leave_stopped(task)),
            Stop::Signal(signal) => {
                let ends = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
                if ends.iter().any(|end| end.as_raw() == signal)
                    && masks(&self.sys, task, &["SigIgn:"]) & bit(signal) == 0
                {
                    self.signalled.get_or_insert_with(Instant::now);
                }
                let _ = trace::go_on(task, thread.until, signal);
            }
            Stop::Ends => {
                (thread.rest, thread.ends) = (Rest::Between, true);
                let process = thread.process;
                self.moved.last(process, task);
            }
        }
    }

    /// A program of another user's rights does not get them from a tracer that is not root.
    fn loses_rights(&self, process: u32) -> Option<String> {
        if rustix::process::geteuid().is_root() {
            return None;
        }
        let exe = self.sys.proc.join(process.to_string()).join("exe");
        let file = std::fs::metadata(&exe).ok()?;
        let path = std::fs::read_link(&exe).ok()?;
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let gains = (file.mode() & 0o4000 != 0 && file.uid() != user)
            || (file.mode() & 0o2000 != 0 && file.gid() != group)
            || rustix::fs::getxattr(&path, "security.capability", &mut [0_u8; 64]).is_ok();
        gains.then(|| {
            format!(
                "{} does not get the rights that its file gives, as the kernel gives none to a program that is held: run ebb as root \
                 (sudo ebb limit ...)",
                path.shown()
            )
        })
    }

    /// The processes of threads that are about to end: they wait for [`pass`](Self::pass).
    pub fn ending(&self) -> BTreeSet<u32> {
        self.threads.values().filter(|thread| thread.ends).map(|thread| thread.process).collect()
    }

    /// Lets go on whoever has stopped and need not stand still. Nobody stands still before a call: it would end early if this program were
    /// killed, as the kernel then wakes all as by a signal.
    pub fn pass(&mut self) {
        let all = self.held.is_none() || self.signalled.is_some_and(|at| at.elapsed() < GRACE);
        for (task, thread) in &mut self.threads {
            let goes_on = match thread.rest {
                Rest::No => false,
                _ if all || thread.ends => true,
                Rest::Between => false,
                Rest::AtCall => trace::is_before_call(*task).unwrap_or(false),
            };
            if goes_on {
                (thread.rest, thread.ends) = (Rest::No, false);
                let _ = trace::go_on(*task, thread.until, 0);
            } else if thread.rest == Rest::AtCall {
                thread.rest = Rest::Between;
            }
        }
    }

    /// Lets all go on.
    pub fn go_on(&mut self) {
        self.held = None;
        self.pass();
    }

    /// All stand still from their next call on; whether that is new.
    pub fn stand_still(&mut self) -> bool {
        let is_new = self.held.is_none();
        let (since, before) =
            self.held.get_or_insert_with(|| (Instant::now(), self.moved.by_thread().clone()));
        let mut movers = BTreeSet::new();
        if since.elapsed() >= LONG_CALL {
            movers = moved_since(self.moved.by_thread(), before);
            (*since, *before) = (Instant::now(), self.moved.by_thread().clone());
        }
        // What the kernel's helpers move, a thread of their process has asked for.
        let helped: BTreeSet<u32> = movers
            .iter()
            .filter(|(_, task)| !self.threads.contains_key(task))
            .map(|(process, _)| *process)
            .collect();
        for (task, thread) in &mut self.threads {
            let moves = movers.contains(&(thread.process, *task)) || helped.contains(&thread.process);
            if thread.rest != Rest::No {
                // So that a signal reaches it.
                if !is_new && signals_wait(&self.sys, *task) {
                    thread.rest = Rest::No;
                    let _ = trace::go_on(*task, thread.until, 0);
                } else {
                    thread.until = Until::Call;
                }
            } else if moves || (thread.until == Until::Stop && runs(&self.sys, *task)) {
                thread.until = Until::Call;
                let _ = trace::interrupt(*task);
            }
        }
        self.pass();
        is_new
    }
}

/// Why the kernel does not let this thread trace whose `status` this is, or what that starts.
fn untraceable(sys: &Sys, status: &Path) -> String {
    let status = sys::text(status).unwrap_or_default();
    let tracer = sys::field(&status, "TracerPid:")
        .and_then(|tracer| tracer.parse().ok())
        .filter(|tracer| *tracer != 0);
    // That is a thread's number.
    let status = tracer.and_then(|tracer: u32| sys::text(&sys.proc.join(tracer.to_string()).join("status")));
    let tracer = status.and_then(|status| sys::field(&status, "Tgid:")?.parse().ok());
    match tracer.and_then(|tracer| Process::look(sys, tracer)) {
        Some(tracer) => format!(
            "process {} ({}) traces it already; write all limits in one command",
            tracer.pid,
            one_line(&tracer.name)
        ),
        None => "this user may not trace it (ptrace; Yama, a container); run ebb as root".to_owned(),
    }
}

/// The threads that have moved something since they had moved what is in `before`.
fn moved_since(now: &ByThread, before: &ByThread) -> BTreeSet<(u32, u32)> {
    let moved = |(task, counts): (&(u32, u32), &Counts)| {
        (before.get(task).copied().unwrap_or_default() != *counts).then_some(*task)
    };
    now.iter().filter_map(moved).collect()
}

/// Whether a thread is not asleep.
fn runs(sys: &Sys, task: u32) -> bool {
    Process::look(sys, task).is_some_and(|now| now.state != 'S')
}

/// Whether a signal waits for a thread that it does not hold back, other than those that nobody minds.
fn signals_wait(sys: &Sys, task: u32) -> bool {
    let quiet = [Signal::CHILD, Signal::CONT, Signal::URG, Signal::WINCH];
    let quiet = quiet.iter().fold(0, |all, signal| all | bit(signal.as_raw()));
    masks(sys, task, &["SigPnd:", "ShdPnd:"]) & !(masks(sys, task, &["SigBlk:", "SigIgn:"]) | quiet) != 0
}

/// The signals that are in any of these lines of a thread's status.
fn masks(sys: &Sys, task: u32, keys: &[&str]) -> u64 {
    let status = sys::text(&sys.proc.join(task.to_string()).join("status")).unwrap_or_default();
    let mask = |key: &&str| u64::from_str_radix(sys::field(&status, key)?, 16).ok();
    keys.iter().filter_map(mask).fold(0, |all, mask| all | mask)
}

/// The bit of a signal in such a line.
fn bit(signal: i32) -> u64 {
    u32::try_from(signal - 1).ok().and_then(|at| 1_u64.checked_shl(at)).unwrap_or(0)
}

/// The process `main` and all below it.
fn family(sys: &Sys, main: u32) -> Vec<u32> {
    let all: Vec<Process> =
        sys::numbers(&sys.proc).into_iter().filter_map(|pid| Process::look(sys, pid)).collect();
    let mut found = vec![main];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let children = all.iter().filter(|process| process.parent == parent).map(|process| process.pid);
        let children: Vec<u32> = children.filter(|child| !found.contains(child)).collect();
        found.extend(children);
    }
    found
}
