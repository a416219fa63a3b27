//! What two threads have in common, which the kernel alone knows.

use rustix::io::Errno;
use std::io;

/// `KCMP_FILES` of linux/kcmp.h: the table of descriptors.
const FILES: libc::c_int = 2;

/// Whether the threads `one` and `other` have one table of descriptors between them (kcmp(2)).
///
/// # Errors
/// When one has ended, this user may not look at them, or the kernel was built without the call.
pub fn shares_descriptors(one: u32, other: u32) -> io::Result<bool> {
    let number = |task: u32| libc::pid_t::try_from(task).map_err(|_| io::Error::from(Errno::SRCH));
    let (one, other) = (number(one)?, number(other)?);
    // SAFETY: kcmp takes five integers for this type and touches no memory of ours.
    let order =
        unsafe { libc::syscall(libc::SYS_kcmp, one, other, FILES, 0 as libc::c_ulong, 0 as libc::c_ulong) };
    if order < 0 { Err(io::Error::last_os_error()) } else { Ok(order == 0) }
}

/// Stops this process (SIGSTOP) until somebody continues it. The calling thread does nothing more before that: a signal to the
/// process would be another thread's to handle, while this one goes on for a moment.
pub fn stop() {
    // SAFETY: raise takes a number and touches no memory of ours.
    unsafe { libc::raise(libc::SIGSTOP) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_descriptors_and_processes_do_not() {
        // A test runs in a thread of its own.
        let own = std::process::id();
        let this = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        assert_ne!(own, this);
        assert!(shares_descriptors(own, this).expect("compares"));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("starts");
        let shared = shares_descriptors(own, child.id());
        child.kill().and_then(|()| child.wait()).expect("ends");
        assert!(!shared.expect("compares"));
        assert!(shares_descriptors(own, child.id()).is_err(), "it has ended");
    }
}
