//! Stopping a tree of processes and waking it.
//!
//! What somebody else stopped stays stopped: only what was running is stopped, and only what was stopped here is woken. A guardian is
//! told before anything is stopped.

use super::group;
use super::guardian::{Guardian, Message};
use super::tree::Process;
use crate::sys::{self, Sys};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

/// Signals that stop a process; one that waits while it is stopped is lost when it is woken.
const STOPS: [Signal; 4] = [Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// A process that was stopped.
struct Stopped {
    process: Process,
    fd: OwnedFd,
}

/// Processes that are stopped and woken together, by their group or by signals.
pub struct Hold {
    sys: Sys,
    /// The group that is held as a whole, where there is one.
    group: Option<PathBuf>,
    is_braked: bool,
    stopped: Vec<Stopped>,
    guardian: Guardian,
    /// Processes that may not be signalled, which were told.
    told: BTreeSet<(u32, u64)>,
}

impl Hold {
    /// One that stops processes by signals.
    pub fn new(sys: &Sys, guardian: Guardian) -> Hold {
        let (stopped, told) = (Vec::new(), BTreeSet::new());
        Hold { sys: sys.clone(), group: None, is_braked: false, stopped, guardian, told }
    }

    /// From now on holds `group`, and stops by signals whoever is not in it.
    pub fn brake(&mut self, group: PathBuf) {
        self.group = Some(group);
    }

    /// The one that wakes them when this program is killed.
    pub fn guardian(&mut self) -> &mut Guardian {
        &mut self.guardian
    }

    /// Whether anything is stopped.
    pub fn is_held(&self) -> bool {
        self.is_braked || !self.stopped.is_empty()
    }

    /// Stops `processes`, those that do not stop yet; which of them cannot be stopped, each once.
    ///
    /// # Errors
    /// When there is no guardian and none can be had: nothing is stopped then.
    pub fn stop<'a>(
        &mut self,
        processes: impl Iterator<Item = &'a Process>,
    ) -> io::Result<Vec<(Process, io::Error)>> {
        let mut failed = Vec::new();
        let mut members = BTreeSet::new();
        if let Some(path) = &self.group {
            members.extend(group::processes(path));
            if !self.is_braked {
                group::hold(path, true)?;
                self.is_braked = true;
            }
        }
        for process in processes.filter(|process| !members.contains(&process.pid)) {
            let is = |stopped: &Stopped| {
                stopped.process.pid == process.pid && stopped.process.start == process.start
            };
            if self.stopped.iter().any(is) {
                continue;
            }
            match self.stop_one(process) {
                Ok(()) => {}
                Err(Failed::Guardian(error)) => return Err(error),
                Err(Failed::Process(error)) => {
                    if self.told.insert((process.pid, process.start)) {
                        failed.push((process.clone(), error));
                    }
                }
            }
        }
        Ok(failed)
    }

    fn stop_one(&mut self, process: &Process) -> Result<(), Failed> {
        let Some(fd) = open(process.pid) else { return Ok(()) };
        // The descriptor is of whoever has the number now, and keeps being.
        let now = Process::look(&self.sys, process.pid).filter(|now| now.start == process.start);
        // Stopped or traced already: by somebody else, who wakes it.
        let Some(now) = now.filter(|now| !now.has_ended() && !matches!(now.state, 'T' | 't')) else {
            return Ok(());
        };
        self.guardian
            .tell(&Message::Stopping { pid: now.pid, start: now.start })
            .map_err(Failed::Guardian)?;
        match pidfd_send_signal(&fd, Signal::STOP) {
            Ok(()) => {
                self.stopped.push(Stopped { process: now, fd });
                Ok(())
            }
            Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(Failed::Process(errno.into())),
        }
    }

    /// Wakes all that was stopped.
    ///
    /// # Errors
    /// When a group cannot be let go on; whatever else was stopped is awake.
    pub fn wake(&mut self) -> io::Result<()> {
        if !self.is_held() {
            return Ok(());
        }
        for stopped in self.stopped.drain(..) {
            let again = sent_meanwhile(&self.sys, stopped.process.pid);
            // Who has ended needs no waking.
            let _ = pidfd_send_signal(&stopped.fd, Signal::CONT);
            for signal in again {
                let _ = pidfd_send_signal(&stopped.fd, signal);
            }
        }
        // Without a guardian there is nobody to tell.
        let _ = self.guardian.tell(&Message::Woke);
        match (&self.group, std::mem::take(&mut self.is_braked)) {
            (Some(path), true) => group::hold(path, false),
            _ => Ok(()),
        }
    }
}

enum Failed {
    Guardian(io::Error),
    Process(io::Error),
}

fn open(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid.try_into().ok()?)?, PidfdFlags::empty()).ok()
}

/// Signals that stop, which somebody has sent to the process `pid` since it was stopped: they would be lost with the stop that ends. A SIGSTOP that
/// waits for a process which does not stand still yet is the one that was sent here: it is taken when the process next runs, which may
/// be late on a busy machine, and not before the end of a vfork.
fn sent_meanwhile(sys: &Sys, pid: u32) -> Vec<Signal> {
    let status = sys::text(&sys.proc.join(pid.to_string()).join("status")).unwrap_or_default();
    let mask =
        sys::field(&status, "ShdPnd:").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    let stands = sys::field(&status, "State:").is_some_and(|state| state.starts_with('T'));
    let sent = STOPS.into_iter().filter(|signal| mask >> (signal.as_raw() - 1) & 1 == 1);
    sent.filter(|signal| stands || *signal != Signal::STOP).collect()
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

    #[test]
    fn what_others_stopped_stays_stopped() {
        let sys = Sys::host();
        // A stop by a key does nothing in a group whose parent is in another session, as this test may be.
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().expect("starts");
        let process = || Process::look(&sys, child.id()).expect("it runs");
        let mut hold = Hold::new(&sys, Guardian::none());
        assert!(hold.stop(std::iter::once(&process())).expect("stops").is_empty() && hold.is_held());
        until(&sys, child.id(), |state| state == 'T');
        hold.wake().expect("wakes");
        until(&sys, child.id(), |state| state == 'S');
        // Another process of that number is not stopped.
        let other = Process { start: 1, ..process() };
        assert!(hold.stop(std::iter::once(&other)).expect("looks").is_empty() && !hold.is_held());
        // One that is stopped meanwhile by a key stays so, as does one that was stopped before.
        hold.stop(std::iter::once(&process())).expect("stops");
        until(&sys, child.id(), |state| state == 'T');
        send(&sys, child.id(), process().start, Signal::TSTP.as_raw()).expect("sends");
        hold.wake().expect("wakes");
        until(&sys, child.id(), |state| state == 'T');
        hold.stop(std::iter::once(&process())).expect("looks");
        assert!(!hold.is_held());
        child.kill().and_then(|()| child.wait()).expect("ends");
    }

    #[test]
    fn a_stop_that_was_not_taken_yet_is_nobody_else_s() {
        let sent = |state: &str, signals: &[Signal]| {
            let mask = signals.iter().fold(0_u64, |mask, signal| mask | 1 << (signal.as_raw() - 1));
            let root =
                unpack(&format!("f /proc/7/status\n|Name:\tdd\n|State:\t{state}\n|ShdPnd:\t{mask:016x}\n"));
            sent_meanwhile(&Sys::below(root.path()), 7)
        };
        assert_eq!(sent("D (disk sleep)", &[Signal::STOP]), [], "it waits for the child of its vfork");
        assert_eq!(sent("R (running)", &[Signal::STOP]), []);
        assert_eq!(sent("R (running)", &[Signal::STOP, Signal::TSTP]), [Signal::TSTP]);
        assert_eq!(sent("T (stopped)", &[Signal::STOP]), [Signal::STOP]);
        assert_eq!(sent("T (stopped)", &[Signal::TSTP, Signal::TERM]), [Signal::TSTP]);
        assert_eq!(sent("T (stopped)", &[]), []);
    }
}
