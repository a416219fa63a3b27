//! A process that wakes what this one has stopped, when this one is killed.
//!
//! It reads from a pipe what is about to be stopped and made, before that happens. When the pipe ends without a farewell, the other
//! end was killed: then it wakes all that it was told of, and nobody else. It is in a session of its own, so that no key of
//! a terminal's and no signal to a group reaches it.

use super::group;
use super::socket_file::SocketFile;
use super::tree::Process;
use crate::sys::Sys;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};

/// What a guardian is told, one a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// This process is about to be stopped.
    Stopping {
        /// Process ID.
        pid: u32,
        /// When it began, in clock ticks since boot.
        start: u64,
    },
    /// All stopped processes run again.
    Woke,
    /// This control group is about to be made; whoever is left in it belongs in `home`.
    Group {
        /// The control group's directory.
        path: PathBuf,
        /// The directory of the other.
        home: PathBuf,
    },
    /// This socket is about to let less pass than it did.
    Narrowing {
        /// Socket file that identifies the owner.
        file: SocketFile,
        /// The window that it had.
        window: u32,
        /// The pace that it had.
        pace: u64,
    },
    /// There is nothing to wake any more.
    Done,
}

/// The end that tells.
#[derive(Debug)]
pub struct Guardian {
    /// The arguments that lead to [`serve`]; nothing for none.
    words: Vec<String>,
    child: Option<(u32, ChildStdin)>,
    /// What another one would have to know, whatever is awake.
    lasting: Vec<Message>,
    stopping: Vec<Message>,
}

impl Guardian {
    /// Starts one: this program with the subcommand `name`, which must lead to [`serve`]. Its arguments show this process and
    /// `root`, the number and the beginning of the process that it holds, to [`super::announced`].
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(name: &str, root: (u32, u64)) -> io::Result<Guardian> {
        let numbers =
            [std::process::id().into(), root.0.into(), root.1].map(|number: u64| number.to_string());
        let words = std::iter::once(name.to_owned()).chain(numbers).collect();
        let mut guardian = Guardian { words, child: None, lasting: Vec::new(), stopping: Vec::new() };
        guardian.begin()?;
        Ok(guardian)
    }

    /// A guardian without a process.
    #[cfg(test)]
    pub fn none() -> Guardian {
        Guardian { words: Vec::new(), child: None, lasting: Vec::new(), stopping: Vec::new() }
    }

    /// Its process number.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(|(pid, _)| *pid)
    }

    fn begin(&mut self) -> io::Result<()> {
        // Whatever has become of the file: the same program. It keeps no directory, and nobody's pipe open.
        let mut child = Command::new("/proc/self/exe")
            .arg0("ebb")
            .args(&self.words)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        self.child = Some((child.id(), pipe));
        let known: Vec<Message> = self.lasting.iter().chain(&self.stopping).cloned().collect();
        known.iter().try_for_each(|message| self.send(message))
    }

    fn send(&mut self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        match &mut self.child {
            Some((_, pipe)) => pipe.write_all(&line),
            None => Ok(()),
        }
    }

    /// Tells it. One that somebody ended is replaced by another, which is told everything.
    ///
    /// # Errors
    /// When another cannot be started.
    pub fn tell(&mut self, message: &Message) -> io::Result<()> {
        match message {
            Message::Stopping { .. } => self.stopping.push(message.clone()),
            Message::Woke => self.stopping.clear(),
            Message::Group { .. } | Message::Narrowing { .. } => self.lasting.push(message.clone()),
            Message::Done => {}
        }
        match self.send(message) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && *message != Message::Done => {
                self.begin()
            }
            result => result,
        }
    }
}

/// [`guard`] as all that this process does, told on its standard input.
///
/// # Errors
/// As there.
pub fn serve(sys: &Sys) -> io::Result<()> {
    rustix::process::setsid()?;
    guard(sys, io::stdin().lock())
}

/// The other end: reads `pipe` until it ends, and wakes what is to be woken.
///
/// # Errors
/// When a line is none of [`Message`]'s, or a group cannot be removed; everything else is awake.
pub fn guard(sys: &Sys, pipe: impl BufRead) -> io::Result<()> {
    let mut stopped: BTreeSet<(u32, u64)> = BTreeSet::new();
    let mut groups = Vec::new();
    let mut narrowed = Vec::new();
    let mut torn = None;
    for line in pipe.split(b'\n') {
        match line.and_then(|line| Ok(serde_json::from_slice(&line)?)) {
            Ok(Message::Stopping { pid, start }) => {
                stopped.insert((pid, start));
            }
            Ok(Message::Woke) => stopped.clear(),
            Ok(Message::Group { path, home }) => groups.push((path, home)),
            Ok(Message::Narrowing { file, window, pace }) => narrowed.push((file, window, pace)),
            Ok(Message::Done) => return Ok(()),
            // Cut off by the kill: what it would have said was not done yet.
            Err(error) => {
                torn = Some(error);
                break;
            }
        }
    }
    for (pid, start) in stopped {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { continue };
        let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        if Process::look(sys, pid.as_raw_nonzero().get().unsigned_abs()).is_some_and(|now| now.start == start)
        {
            let _ = pidfd_send_signal(fd, Signal::CONT);
        }
    }
    for (file, window, pace) in narrowed {
        // One that is closed lets nothing pass.
        let _ = file.put_back(window, pace);
    }
    let mut result = torn.map_or(Ok(()), Err);
    for (path, home) in groups {
        if let Err(error) = group::remove_to(&path, &home) {
            result = Err(error);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Whether a guardian that was told `told`, and then lost the other end, wakes a stopped process.
    fn wakes(told: impl Fn(u32, u64) -> String) -> bool {
        let sys = Sys::host();
        let mut child = Command::new("sleep").arg("60").spawn().expect("starts");
        let process = Process::look(&sys, child.id()).expect("it runs");
        super::super::hold::send(&sys, process.pid, process.start, Signal::STOP.as_raw()).expect("sends");
        let begin = Instant::now();
        let state = || Process::look(&sys, child.id()).expect("is there").state;
        while state() != 'T' {
            assert!(begin.elapsed() < Duration::from_secs(60));
        }
        let _ = guard(&sys, told(process.pid, process.start).as_bytes());
        // A signal to wake is done when it is sent.
        let woke = state() != 'T';
        child.kill().and_then(|()| child.wait()).expect("ends");
        woke
    }

    #[test]
    fn only_what_was_announced_is_woken() {
        let stopping = |pid, start| format!("{{\"stopping\":{{\"pid\":{pid},\"start\":{start}}}}}\n");
        assert!(wakes(stopping));
        assert!(wakes(|pid, start| stopping(1 << 30, 7) + &stopping(pid, start) + "{\"stop"));
        assert!(!wakes(|pid, start| stopping(pid, start + 1)), "another process of that number");
        assert!(!wakes(|pid, start| stopping(pid, start) + "\"woke\"\n"));
        assert!(!wakes(|pid, start| stopping(pid, start) + "\"done\"\n"));
    }
}
