//! A process that wakes what this one has stopped, when this one is killed.
//!
//! It reads from a pipe what is about to be stopped and made, before that happens. When the pipe ends without a farewell, the other
//! end was killed: then it wakes all that it was told of, and nobody else. It is in a session of its own, and as root in no unit, so that no
//! key of a terminal's, no signal to a group and no end of a unit reaches it.

use super::group;
use super::hold;
use crate::sys::Sys;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The subcommand of a guardian, which leads to [`serve`].
pub const GUARDIAN: &str = "limit-guardian";

/// What a guardian is told, one a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The child of this process is about to be stopped: it may stop itself then.
    Parent {
        /// Process ID.
        pid: u32,
        /// When it began, in clock ticks since boot.
        start: u64,
    },
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
    /// There is nothing to wake any more.
    Done,
}

/// The end that tells.
#[derive(Debug)]
pub struct Guardian(Option<Child>);

impl Guardian {
    /// Starts one: this program with the subcommand [`GUARDIAN`].
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start() -> io::Result<Guardian> {
        // Whatever has become of the file: the same program. It keeps no directory, and nobody's pipe open.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("ebb").arg(GUARDIAN).current_dir("/").stdin(Stdio::piped());
        Ok(Guardian(Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)))
    }

    /// A guardian without a process.
    #[cfg(test)]
    pub fn none() -> Guardian {
        Guardian(None)
    }

    /// Tells it.
    ///
    /// # Errors
    /// When somebody has ended it.
    pub fn tell(&mut self, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let pipe = self.0.as_mut().and_then(|child| child.stdin.as_mut());
        pipe.map_or(Ok(()), |pipe| pipe.write_all(&line))
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // Ends its pipe; nobody finds it still at work.
            let _ = child.wait();
        }
    }
}

/// [`guard`] as all that this process does, told on its standard input.
///
/// # Errors
/// As there.
pub fn serve(sys: &Sys) -> io::Result<()> {
    rustix::process::setsid()?;
    // What ends everybody of a unit or a session leaves it: only the end of its pipe says that nobody else wakes the program.
    let ending = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];
    ebbtide_sys::signals::ignore(&ending.map(Signal::as_raw))?;
    group::leave_unit(sys);
    guard(sys, io::stdin().lock())
}

/// The other end: reads `pipe` until it ends, and wakes what is to be woken.
///
/// # Errors
/// When a line is none of [`Message`]'s, or a group cannot be removed; everything else is awake.
pub fn guard(sys: &Sys, pipe: impl BufRead) -> io::Result<()> {
    let (mut stopped, mut parents) = (Vec::new(), BTreeSet::new());
    let mut groups = Vec::new();
    let mut result = Ok(());
    for line in pipe.split(b'\n') {
        match line.and_then(|line| Ok(serde_json::from_slice(&line)?)) {
            Ok(Message::Parent { pid, start }) => drop(parents.insert((pid, start))),
            Ok(Message::Stopping { pid, start }) => stopped.push((pid, start)),
            Ok(Message::Woke) => stopped.clear(),
            Ok(Message::Group { path, home }) => groups.push((path, home)),
            Ok(Message::Done) => return Ok(()),
            // Cut off by the kill: what it would have said was not done yet.
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    for (path, home) in groups {
        result = group::remove_to(&path, &home).map(drop).and(result);
    }
    hold::wake_all(sys, &stopped, &parents);
    hold::settle(sys, &parents);
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::tree::Process;
    use std::time::{Duration, Instant};

    /// Whether a guardian that was told `told`, and then lost the other end, wakes a stopped process.
    fn wakes(told: impl Fn(u32, u64) -> String) -> bool {
        let sys = Sys::host();
        let mut child = Command::new("sleep").arg("60").spawn().expect("starts");
        let process = Process::look(&sys, child.id()).expect("it runs");
        hold::send(&sys, process.id(), Signal::STOP.as_raw()).expect("sends");
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
