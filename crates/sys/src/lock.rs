//! Locks of open file descriptions (`F_OFD_SETLK`, fcntl(2)), which a process does not lose by closing some other
//! descriptor of the same file, and which meet the older locks of processes.

use rustix::fd::{AsFd, AsRawFd};
use std::io;

fn whole(kind: libc::c_int) -> libc::flock {
    // SAFETY: a struct of integers, for which all zeroes is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

/// Takes a write lock on all of `file`, until its description is closed; `false` while somebody else has a lock on any
/// of it.
///
/// # Errors
/// When the file system has no locks, or `file` is not open for writing.
pub fn try_lock(file: impl AsFd) -> io::Result<bool> {
    let lock = whole(libc::F_WRLCK);
    // SAFETY: the argument is a live `struct flock`, which the call only reads; the descriptor is open for the call.
    let status = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if status == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_lock_is_held_until_its_description_is_closed() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").expect("a file");
        let open = || File::options().read(true).write(true).open(file.path()).expect("opens");
        let (first, second) = (open(), open());
        assert!(try_lock(&first).expect("locks"));
        drop(open());
        assert!(!try_lock(&second).expect("asks"), "closing another descriptor lost it");
        drop(first);
        assert!(try_lock(&second).expect("locks"));
    }
}
