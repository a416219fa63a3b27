//! Stopping a tree of processes and waking it.
//!
//! What somebody else stopped stays stopped: only what was running is stopped, and only what was stopped here is woken. A guardian is
//! told before anything is stopped.
//!
//! A parent may wait for stops of its children (`WUNTRACED`): a shell with job control goes on to its next command, `su`, `sudo`, `script`
//! and `nsenter` stop themselves, and nobody wakes them. So a parent stands still before its children are stopped, and they go on before
//! it does. One that has seen a stop all the same, or is above the tree, is woken when it has stopped itself.

use super::group;
use super::guardian::{Guardian, Message};
use super::tree::Process;
use crate::sys::{self, Sys};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Signals that stop a process; one that waits while it is stopped is lost when it is woken.
const STOPS: [Signal; 4] = [Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU];
/// How often, and how long between, a parent is looked at until it stands still, and until it stops itself no more.
const STANDS: (u32, Duration) = (50, Duration::from_micros(200));
const SETTLES: (u32, Duration) = (10, Duration::from_millis(10));

/// Processes that are stopped and woken together, by their group or by signals.
pub struct Hold {
    sys: Sys,
    /// The group that is held as a whole, where there is one.
    pub group: Option<PathBuf>,
    is_braked: bool,
    stopped: Vec<(Process, OwnedFd)>,
    /// Parents of processes that were stopped, which may stop themselves, with their beginnings.
    parents: BTreeMap<u32, u64>,
    /// The one that wakes them when this program is killed.
    pub guardian: Guardian,
}

impl Hold {
    /// One that stops processes by signals.
    pub fn new(sys: &Sys, guardian: Guardian) -> Hold {
        let (stopped, parents) = (Vec::new(), BTreeMap::new());
        Hold { sys: sys.clone(), group: None, is_braked: false, stopped, parents, guardian }
    }

    /// Stops `processes`, parents before their children, those that do not stop yet.
    ///
    /// # Errors
    /// When there is no guardian, or the group cannot be held: nothing more is stopped then.
    pub fn stop(&mut self, processes: &[Process]) -> io::Result<()> {
        let mut members = BTreeSet::new();
        if let Some(path) = &self.group {
            members.extend(group::processes(path));
            if !self.is_braked {
                group::hold(path, true)?;
                self.is_braked = true;
            }
        }
        for process in processes.iter().filter(|process| !members.contains(&process.pid)) {
            let is_parent = processes.iter().any(|other| other.parent == process.pid);
            if !self.stopped.iter().any(|(known, _)| known.pid == process.pid && known.start == process.start)
            {
                self.stop_one(process, is_parent)?;
            }
        }
        Ok(())
    }

    fn stop_one(&mut self, process: &Process, is_parent: bool) -> io::Result<()> {
        let look = |pid| Process::look(&self.sys, pid).filter(|now| !now.has_ended());
        let Some(fd) = open(process.pid) else { return Ok(()) };
        // The descriptor is of whoever has the number now, and keeps being.
        let now = look(process.pid).filter(|now| now.start == process.start);
        // Stopped or traced already: by somebody else, who wakes it.
        let Some(now) = now.filter(|now| !now.is_stopped()) else { return Ok(()) };
        let is_ours = |pid| self.stopped.iter().any(|(known, _)| known.pid == pid);
        let minds = |parent: &Process| ![1, std::process::id()].contains(&parent.pid);
        let parent = look(now.parent).filter(minds);
        if let Some(parent) = parent.filter(|parent| !parent.is_stopped() || is_ours(parent.pid)) {
            self.guardian.tell(&Message::Stopping { pid: parent.pid, start: parent.start })?;
            self.parents.insert(parent.pid, parent.start);
        }
        self.guardian.tell(&Message::Stopping { pid: now.pid, start: now.start })?;
        // Whom this user may not stop goes on: that it is not counted was said.
        if pidfd_send_signal(&fd, Signal::STOP).is_ok() {
            let (times, between) = STANDS;
            let runs = || look(now.pid).is_some_and(|now| !now.is_stopped());
            if is_parent {
                (0..times).take_while(|_| runs()).for_each(|_| std::thread::sleep(between));
            }
            self.stopped.push((now, fd));
        }
        Ok(())
    }

    /// Wakes all that was stopped, children before their parents; and what has stopped itself since.
    ///
    /// # Errors
    /// When a group cannot be let go on; whatever else was stopped is awake.
    pub fn wake(&mut self) -> io::Result<()> {
        let is_held = self.is_braked || !self.stopped.is_empty();
        // One that reads signals from a file, as `script`, has that of a stop still to read: that of an end would be lost beside it.
        let reads = |pid| {
            let all = signals(&self.sys, pid, "ShdPnd:") & bit(Signal::CHILD);
            all != 0 && all & signals(&self.sys, pid, "SigBlk:") != 0
        };
        for (process, fd) in self.stopped.iter().filter(|(process, _)| reads(process.pid)) {
            let _ = pidfd_send_signal(fd, Signal::CONT);
            (0..STANDS.0).take_while(|_| reads(process.pid)).for_each(|_| std::thread::sleep(STANDS.1));
        }
        for (process, fd) in self.stopped.drain(..).rev() {
            let again = sent_meanwhile(&self.sys, process.pid);
            // Who has ended needs no waking.
            let _ = pidfd_send_signal(&fd, Signal::CONT);
            for signal in again {
                self.parents.remove(&process.pid);
                let _ = pidfd_send_signal(&fd, signal);
            }
        }
        self.parents.retain(|pid, start| rouse(&self.sys, *pid, *start).is_some());
        if is_held {
            // Without a guardian there is nobody to tell.
            let _ = self.guardian.tell(&Message::Woke);
        }
        match (&self.group, std::mem::take(&mut self.is_braked)) {
            (Some(path), true) => group::hold(path, false),
            _ => Ok(()),
        }
    }

    /// Wakes whoever stops itself late, after the last stop.
    pub fn settle(&self) {
        settle(&self.sys, &self.parents.iter().map(|(pid, start)| (*pid, *start)).collect::<Vec<_>>());
    }
}

/// Wakes the process `pid` where it is stopped, if it is still the one that began at `start`; whether it was.
fn rouse(sys: &Sys, pid: u32, start: u64) -> Option<bool> {
    let now = Process::look(sys, pid).filter(|now| now.start == start && !now.has_ended())?;
    if now.is_stopped() {
        let _ = send(sys, pid, start, Signal::CONT.as_raw());
    }
    Some(now.is_stopped())
}

/// Wakes whoever of `parents` stops itself, for as long as one may that has seen its child stopped.
fn settle(sys: &Sys, parents: &[(u32, u64)]) {
    for _ in 0..if parents.is_empty() { 0 } else { SETTLES.0 } {
        std::thread::sleep(SETTLES.1);
        for (pid, start) in parents {
            rouse(sys, *pid, *start);
        }
    }
}

/// Wakes `stopped`, in the order in which they were stopped, the last one first, for good.
pub(super) fn wake_all(sys: &Sys, stopped: &[(u32, u64)]) {
    for (pid, start) in stopped.iter().rev() {
        // A stop that was sent may not have been taken yet: it is woken whatever it does.
        let _ = send(sys, *pid, *start, Signal::CONT.as_raw());
    }
    settle(sys, stopped);
}

fn open(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid.try_into().ok()?)?, PidfdFlags::empty()).ok()
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

/// Sends `signal` to the process `pid`, if it is still the one that began at `start`.
pub fn send(sys: &Sys, pid: u32, start: u64, signal: i32) -> io::Result<()> {
    let signal = Signal::from_named_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
    let Some(fd) = open(pid) else { return Ok(()) };
    match Process::look(sys, pid) {
        Some(now) if now.start == start => Ok(pidfd_send_signal(&fd, signal)?),
        _ => Ok(()),
    }
}

/// Ends when the process `pid` does, if it is still the one that began at `start`: to be polled.
///
/// # Errors
/// When it has ended already.
pub fn end_of(sys: &Sys, pid: u32, start: u64) -> io::Result<OwnedFd> {
    let gone = || io::Error::from(rustix::io::Errno::SRCH);
    let fd = open(pid).ok_or_else(gone)?;
    Process::look(sys, pid).filter(|now| now.start == start && !now.has_ended()).ok_or_else(gone)?;
    Ok(fd)
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
        let mut hold = Hold::new(&sys, Guardian::none());
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
        send(&sys, child.id(), process().start, Signal::TSTP.as_raw()).expect("sends");
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
