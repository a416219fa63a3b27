//! Which processes may be held: none that somebody else depends on to go on, nor one that cannot be.

use ebbtide_host::limit::sockets;
use ebbtide_host::sys::process::{Process, ancestors};
use ebbtide_host::sys::{self, Sys};
use ebbtide_model::limit::{Kind, Limits};
use ebbtide_model::shown::one_line;
use rustix::process::{Pid, test_kill_process};

/// Why a process is not held.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("there is no process {0}; `ps` lists those that there are")]
    Absent(u32),
    #[error("process {0} has ended; nobody has waited for it yet")]
    Ended(u32),
    #[error(
        "process {0} is this program or has started it, and would stop it; write the number of the one that is to be held"
    )]
    Ancestor(u32),
    #[error(
        "process {0} ({1}) is a thread of the kernel's, which nothing stops; limit the program for which it works"
    )]
    Kernel(u32, String),
    #[error("{0} is a thread; write --pid {1}, the process that it belongs to")]
    Thread(u32, u32),
    #[error("process {0} ({1}) is another user's; run ebb as root")]
    Foreign(u32, String),
    #[error(
        "process {0} ({1}) is in a network namespace of its own, where its connections are not seen; run ebb in it: `nsenter --net --target {0} ebb limit ...`"
    )]
    Elsewhere(u32, String),
}

/// The process `pid`, if it may be held to `limits`.
///
/// # Errors
/// Why it may not.
pub fn check(sys: &Sys, pid: u32, limits: &Limits) -> Result<Process, Refused> {
    if pid == std::process::id() || ancestors(sys).contains(&pid) {
        return Err(Refused::Ancestor(pid));
    }
    let process = Process::look(sys, pid).ok_or(Refused::Absent(pid))?;
    let name = || one_line(&process.name).into_owned();
    let place = sys.proc.join(pid.to_string());
    let status = sys::text(&place.join("status")).unwrap_or_default();
    match sys::field(&status, "Tgid:").and_then(|group| group.parse().ok()) {
        Some(group) if group != pid => return Err(Refused::Thread(pid, group)),
        _ if process.is_kernel => return Err(Refused::Kernel(pid, name())),
        _ if process.has_ended() => return Err(Refused::Ended(pid)),
        _ => {}
    }
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Refused::Absent(pid))?;
    if test_kill_process(number).is_err() || sys::text(&place.join("io")).is_none() {
        return Err(Refused::Foreign(pid, name()));
    }
    if limits.of(Kind::Net).is_some() && sockets::is_elsewhere(sys, pid) {
        return Err(Refused::Elsewhere(pid, name()));
    }
    Ok(process)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_others_wait_for_is_refused() {
        let sys = Sys::host();
        let check = |pid| check(&sys, pid, &Limits::default()).map(|process| process.pid);
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        for above in [1, own, parent] {
            assert_eq!(check(above), Err(Refused::Ancestor(above)));
        }
        assert_eq!(check(u32::MAX), Err(Refused::Absent(u32::MAX)));
        // This thread is not the first of its process.
        let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        assert_eq!(check(thread), Err(Refused::Thread(thread, own)));
        if let Some(kernel) = Process::look(&sys, 2).filter(|process| process.is_kernel) {
            assert_eq!(check(2), Err(Refused::Kernel(2, kernel.name)));
        }
        let mut child = Command::new("setsid").args(["sleep", "60"]).spawn().expect("starts");
        let is_sleep = || Process::look(&sys, child.id()).is_some_and(|now| now.name == "sleep");
        while !is_sleep() {
            std::thread::yield_now();
        }
        assert_eq!(check(child.id()), Ok(child.id()));
        child.kill().expect("ends");
        while Process::look(&sys, child.id()).is_some_and(|now| !now.has_ended()) {}
        assert_eq!(check(child.id()), Err(Refused::Ended(child.id())));
        child.wait().expect("ends");
    }
}
