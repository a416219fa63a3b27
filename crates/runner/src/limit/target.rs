//! Which processes may be held: none that somebody else depends on to go on, nor one that cannot be.

use ebbtide_host::limit::announced::{self, Holder};
use ebbtide_host::limit::sockets;
use ebbtide_host::limit::tree::{Process, ancestors};
use ebbtide_host::sys::{self, Sys};
use ebbtide_model::limit::{Kind, Limits};
use ebbtide_model::shown::one_line;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Why a process is not held.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("there is no process {0}; `ps` lists those that there are")]
    Absent(u32),
    #[error("process {0} has ended; nobody has waited for it yet")]
    Ended(u32),
    #[error(
        "process 1 is the system's first, which everything else waits for; write the number of the one that is to be held"
    )]
    First,
    #[error("process {0} is this program itself; write the number of another")]
    Own(u32),
    #[error(
        "process {0} has started this program, which would be stopped with it; run ebb from elsewhere, as from another terminal"
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
    #[error("what process {0} ({1}) moves may not be read (/proc/{0}/io); run ebb as root")]
    Uncountable(u32, String),
    #[error(
        "process {0} ({1}) is in a network namespace of its own, where its connections are not seen; run ebb in it: `nsenter --net --target {0} ebb limit ...`"
    )]
    Elsewhere(u32, String),
    #[error(
        "process {holder} is an `ebb limit` that holds {}, with all that it starts; two would wake what the other stops. Write both limits in one command, of each kind the lower",
        if holder == root { "what it has started".to_owned() } else { format!("process {root}") }
    )]
    Held { holder: u32, root: u32 },
}

/// Whether another `ebb limit` holds this program, or the process `target`, or what that has started.
///
/// # Errors
/// Who does.
pub fn check_free(sys: &Sys, target: Option<u32>) -> Result<(), Refused> {
    match announced::conflict(sys, target) {
        Some(Holder { pid, root }) => Err(Refused::Held { holder: pid, root }),
        None => Ok(()),
    }
}

/// The process `pid`, if it may be held to `limits`.
///
/// # Errors
/// Why it may not.
pub fn check(sys: &Sys, pid: u32, limits: &Limits) -> Result<Process, Refused> {
    if pid == 1 {
        return Err(Refused::First);
    }
    if pid == std::process::id() {
        return Err(Refused::Own(pid));
    }
    let process = Process::look(sys, pid).ok_or(Refused::Absent(pid))?;
    let name = || one_line(&process.name).into_owned();
    let status = sys::text(&sys.proc.join(pid.to_string()).join("status")).unwrap_or_default();
    match sys::field(&status, "Tgid:").and_then(|group| group.parse().ok()) {
        Some(group) if group != pid => return Err(Refused::Thread(pid, group)),
        _ => {}
    }
    if process.is_kernel {
        return Err(Refused::Kernel(pid, name()));
    }
    if process.has_ended() {
        return Err(Refused::Ended(pid));
    }
    if ancestors(sys).contains(&pid) {
        return Err(Refused::Ancestor(pid));
    }
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Refused::Absent(pid))?;
    match test_kill_process(number) {
        Err(Errno::PERM) => return Err(Refused::Foreign(pid, name())),
        Err(_) => return Err(Refused::Absent(pid)),
        Ok(()) => {}
    }
    if sys::text(&sys.proc.join(pid.to_string()).join("io")).is_none() {
        return Err(Refused::Uncountable(pid, name()));
    }
    if limits.of(Kind::Net).is_some() && sockets::is_elsewhere(sys, pid) {
        return Err(Refused::Elsewhere(pid, name()));
    }
    Ok(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wait_for_is_refused() {
        let sys = Sys::host();
        let check = |pid| check(&sys, pid, &Limits::default()).map(|process| process.pid);
        let own = std::process::id();
        assert_eq!(check(1), Err(Refused::First));
        assert_eq!(check(own), Err(Refused::Own(own)));
        assert_eq!(check(u32::MAX), Err(Refused::Absent(u32::MAX)));
        let parent = std::os::unix::process::parent_id();
        assert_eq!(check(parent), Err(Refused::Ancestor(parent)));
        // This thread is not the first of its process.
        let thread = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        assert_eq!(check(thread), Err(Refused::Thread(thread, own)));
        if let Some(kernel) = Process::look(&sys, 2).filter(|process| process.is_kernel) {
            assert_eq!(check(2), Err(Refused::Kernel(2, kernel.name)));
        }
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("starts");
        assert_eq!(check(child.id()), Ok(child.id()));
        child.kill().expect("ends");
        while Process::look(&sys, child.id()).is_some_and(|now| !now.has_ended()) {}
        assert_eq!(check(child.id()), Err(Refused::Ended(child.id())));
        child.wait().expect("ends");
    }
}
