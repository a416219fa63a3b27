//! Stopping a tree of processes and waking it.
//!
//! What somebody else stopped stays stopped: only what was running is stopped, and only what was stopped here is woken. A guardian is
//! told before anything is stopped.
//!
//! A parent may wait for stops of its children (`WUNTRACED`): a shell with job control goes on to its next command, `su`, `sudo`, `script`
//! and `nsenter` stop themselves, and nobody wakes them. So a parent stands still before its children are stopped, and they go on before
//! it does. One that has seen a stop all the same, or is above the tree, is woken when it has stopped itself.

use super::group::Group;
use super::guardian::{Guardian, Message};
use super::tree::Process;
use crate::sys::{self, Sys};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

/// Signals that stop a process; one that waits while it is stopped is lost when it is woken.
const STOPS: [Signal; 4] = [Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU];
/// How often, and how long between, a parent is looked at until it stands still, until it has read its signals, and until it stops itself no
/// more.
const STANDS: (u32, Duration) = (50, Duration::from_micros(200));
const READS: (u32, Duration) = (2_500, Duration::from_micros(200));
const SETTLES: (u32, Duration) = (10, Duration::from_millis(10));
/// The numbers of `kill`, `tkill` and `tgkill`: in one of them is who stops itself.
const KILLS: [&str; 3] =
    if cfg!(target_arch = "x86_64") { ["62", "200", "234"] } else { ["129", "130", "131"] };

/// A process: its number, and when it began.
pub type Id = (u32, u64);

/// Processes that are stopped and woken together, by their group or by signals.
pub struct Hold {
    sys: Sys,
    /// The group that is held as a whole, where there is one.
    pub group: Option<Group>,
    is_braked: bool,
    stopped: Vec<Id>,
    /// Parents of processes that were stopped, which may stop themselves.
    parents: BTreeSet<Id>,
    /// The one that wakes them when this program is killed.
    pub guardian: Guardian,
}

impl Hold {
    /// One that stops processes by `group`, and by signals those that this does not hold.
    pub fn new(sys: &Sys, group: Option<Group>, guardian: Guardian) -> Hold {
        let (stopped, parents) = (Vec::new(), BTreeSet::new());
        Hold { sys: sys.clone(), group, is_braked: false, stopped, parents, guardian }
    }

    /// Stops `processes`, parents before their children, those that do not stop yet.
    ///
    /// # Errors
    /// When there is no guardian, or one cannot be held: nothing more is stopped then.
    pub fn stop(&mut self, processes: &[Process]) -> io::Result<()> {
        let mut held = BTreeSet::new();
        if let Some(group) = &self.group {
            held.extend(group.held(&self.sys));
            if !self.is_braked {
                group.hold(true)?;
                self.is_braked = true;
            }
        }
        let parents: BTreeSet<u32> = processes.iter().map(|process| process.parent).collect();
        for process in processes.iter().filter(|process| !held.contains(&process.pid)) {
            if !self.stopped.contains(&process.id()) {
                self.stop_one(process, parents.contains(&process.pid))?;
            }
        }
        Ok(())
    }

    fn stop_one(&mut self, process: &Process, is_parent: bool) -> io::Result<()> {
        let look = |pid| Process::look(&self.sys, pid).filter(|now| !now.has_ended());
        // Stopped or traced already: by somebody else, who wakes it.
        let now = look(process.pid).filter(|now| now.start == process.start && !now.is_stopped());
        let Some(now) = now else { return Ok(()) };
        let minds = |parent: &Process| {
            ![1, std::process::id()].contains(&parent.pid)
                && (!parent.is_stopped() || self.stopped.contains(&parent.id()))
        };
        if let Some((pid, start)) = look(now.parent).filter(minds).map(|parent| parent.id()) {
            self.guardian.tell(&Message::Parent { pid, start })?;
            self.parents.insert((pid, start));
        }
        let (pid, start) = now.id();
        self.guardian.tell(&Message::Stopping { pid, start })?;
        match send(&self.sys, (pid, start), Signal::STOP.as_raw()) {
            // Whom this user may not stop goes on: that it is not counted was said.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            sent => sent?,
        }
        let runs = || look(pid).is_some_and(|now| !now.is_stopped());
        if is_parent {
            (0..STANDS.0).take_while(|_| runs()).for_each(|_| std::thread::sleep(STANDS.1));
        }
        self.stopped.push((pid, start));
        Ok(())
    }

    /// Wakes all that was stopped, children before their parents; and what has stopped itself since.
    ///
    /// # Errors
    /// When a group cannot be let go on; whatever else was stopped is awake.
    pub fn wake(&mut self) -> io::Result<()> {
        let is_held = self.is_braked || !self.stopped.is_empty();
        wake_all(&self.sys, &std::mem::take(&mut self.stopped), &self.parents);
        if is_held {
            // Without a guardian there is nobody to tell.
            let _ = self.guardian.tell(&Message::Woke);
        }
        match (&self.group, std::mem::take(&mut self.is_braked)) {
            (Some(group), true) => group.hold(false),
            _ => Ok(()),
        }
    }

    /// Wakes whoever stops itself late, after the last stop.
    pub fn settle(&self) {
        settle(&self.sys, &self.parents);
    }
}

/// Wakes `parents` that have stopped themselves. Who is stopped by somebody else is in no call that stops, or in none at all. One that may not be
/// looked at is taken for one that has: nobody else would wake it.
fn rouse(sys: &Sys, parents: &BTreeSet<Id>) {
    let stops_itself = |pid: u32| {
        let call = sys::text(&sys.proc.join(pid.to_string()).join("syscall"));
        call.is_none_or(|call| call.split(' ').next().is_some_and(|call| KILLS.contains(&call)))
    };
    for (pid, start) in parents {
        if Process::look(sys, *pid).is_some_and(|now| now.is_stopped()) && stops_itself(*pid) {
            let _ = send(sys, (*pid, *start), Signal::CONT.as_raw());
        }
    }
}

/// The same for as long as one may stop itself that has seen its child stopped.
pub(super) fn settle(sys: &Sys, parents: &BTreeSet<Id>) {
    for _ in 0..if parents.is_empty() { 0 } else { SETTLES.0 } {
        std::thread::sleep(SETTLES.1);
        rouse(sys, parents);
    }
}

/// Wakes `stopped`, in the order in which they were stopped, the last one first, and `parents` that have stopped themselves.
pub(super) fn wake_all(sys: &Sys, stopped: &[Id], parents: &BTreeSet<Id>) {
    // One that reads signals from a file, as `script`, has that of a stop still to read, and stops itself then: that of its child's end would be
    // lost meanwhile. So it is asleep again before its child goes on.
    let state = |pid| Process::look(sys, pid).map_or('X', |now| now.state);
    let reads = |pid| {
        let all = signals(sys, pid, "ShdPnd:") & bit(Signal::CHILD);
        all & signals(sys, pid, "SigBlk:") != 0 && state(pid) != 'S'
    };
    let until = |is: &dyn Fn() -> bool| {
        (0..READS.0).take_while(|_| !is()).for_each(|_| std::thread::sleep(READS.1));
    };
    for id in stopped.iter().filter(|(pid, _)| reads(*pid)) {
        let _ = send(sys, *id, Signal::CONT.as_raw());
        until(&|| !reads(id.0) && matches!(state(id.0), 'S' | 'T' | 'Z' | 'X'));
        rouse(sys, &BTreeSet::from([*id]));
        until(&|| matches!(state(id.0), 'S' | 'Z' | 'X'));
    }
    for id in stopped.iter().rev() {
        let again = sent_meanwhile(sys, id.0);
        for signal in [Signal::CONT].into_iter().chain(again) {
            // Who has ended needs no waking.
            let _ = send(sys, *id, signal.as_raw());
        }
    }
    rouse(sys, parents);
}

/// Signals that stop, which somebody has sent to the process `pid` since it was stopped: they would be lost with the stop that ends. A SIGSTOP that
/// waits for a process which does not stand still yet is the one that was sent here: it is taken when the process next runs, which may
/// be late on a busy machine, and not before the end of a vfork.
fn sent_meanwhile(sys: &Sys, pid: u32) -> Vec<Signal> {
    let sent = signals(sys, pid, "ShdPnd:");
    let stands = sent != 0 && Process::look(sys, pid).is_some_and(|now| now.is_stopped());
    let sent = STOPS.into_iter().filter(|signal| sent & bit(*signal) != 0);
    sent.filter(|signal| stands || *signal != Signal::STOP).collect()
}

/// A mask of signals of the process `pid`.
pub(super) fn signals(sys: &Sys, pid: u32, mask: &str) -> u64 {
    let status = sys::text(&sys.proc.join(pid.to_string()).join("status")).unwrap_or_default();
    sys::field(&status, mask).and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0)
}

/// `signal` in such a mask.
pub(super) fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

/// Sends `signal` to a process, where it has not ended.
///
/// # Errors
/// When this user may not, or has no descriptor left.
pub fn send(sys: &Sys, (pid, start): Id, signal: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    let gone = |sent: rustix::io::Result<()>| if sent == Err(Errno::SRCH) { Ok(()) } else { Ok(sent?) };
    match open(pid) {
        // The descriptor is of whoever has the number now, and keeps being.
        Ok(fd) if Process::look(sys, pid).is_some_and(|now| now.start == start) => {
            gone(pidfd_send_signal(&fd, signal))
        }
        opened => gone(opened.map(drop)),
    }
}

fn open(pid: u32) -> rustix::io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    pidfd_open(pid, PidfdFlags::empty())
}

/// Ends when the process `pid` does, if it is still the one that began at `start`: to be polled.
///
/// # Errors
/// When it has ended already.
pub fn end_of(sys: &Sys, (pid, start): Id) -> io::Result<OwnedFd> {
    let fd = open(pid)?;
    let lives = Process::look(sys, pid).is_some_and(|now| now.start == start && !now.has_ended());
    if lives { Ok(fd) } else { Err(Errno::SRCH.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::{Duration, Instant};

    fn until(sys: &Sys, pid: u32, is: impl Fn(char) -> bool) {
        let begin = Instant::now();
        while !Process::look(sys, pid).is_some_and(|now| is(now.state)) {
            assert!(begin.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_held(hold: &Hold) -> bool {
        hold.is_braked || !hold.stopped.is_empty()
    }

    #[test]
    fn what_others_stopped_stays_stopped() {
        let sys = Sys::host();
        // A stop by a key does nothing in a group whose parent is in another session, as this test may be.
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().expect("starts");
        let process = || Process::look(&sys, child.id()).expect("it runs");
        let mut hold = Hold::new(&sys, None, Guardian::none());
        assert!({
            hold.stop(&[process()]).expect("stops");
            is_held(&hold)
        });
        until(&sys, child.id(), |state| state == 'T');
        hold.wake().expect("wakes");
        until(&sys, child.id(), |state| state == 'S');
        // Another process of that number is not stopped.
        let other = Process { start: 1, ..process() };
        assert!({
            hold.stop(&[other]).expect("looks");
            !is_held(&hold)
        });
        // One that is stopped meanwhile by a key stays so, as does one that was stopped before.
        hold.stop(&[process()]).expect("stops");
        until(&sys, child.id(), |state| state == 'T');
        send(&sys, process().id(), Signal::TSTP.as_raw()).expect("sends");
        hold.wake().expect("wakes");
        until(&sys, child.id(), |state| state == 'T');
        hold.stop(&[process()]).expect("looks");
        assert!(!is_held(&hold));
        child.kill().and_then(|()| child.wait()).expect("ends");
    }

    #[test]
    fn a_stop_that_was_not_taken_yet_is_nobody_else_s() {
        let sent = |state: &str, signals: &[Signal]| {
            let mask = signals.iter().fold(0_u64, |mask, signal| mask | 1 << (signal.as_raw() - 1));
            let root = unpack(&format!(
                "f /proc/7/status\n|Name:\tdd\n|ShdPnd:\t{mask:016x}\nf /proc/7/stat\n|7 (dd) {state} 1 7 7 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 9 0\n"
            ));
            sent_meanwhile(&Sys::below(root.path()), 7)
        };
        assert_eq!(sent("D", &[Signal::STOP]), [], "it waits for the child of its vfork");
        assert_eq!(sent("R", &[Signal::STOP]), []);
        assert_eq!(sent("R", &[Signal::STOP, Signal::TSTP]), [Signal::TSTP]);
        assert_eq!(sent("T", &[Signal::STOP]), [Signal::STOP]);
        assert_eq!(sent("T", &[Signal::TSTP, Signal::TERM]), [Signal::TSTP]);
        assert_eq!(sent("T", &[]), []);
    }
}
