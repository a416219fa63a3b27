//! Whether anybody else has a file open, as the kernel counts it.

use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;

/// `F_SETSIG` of asm-generic/fcntl.h.
const SET_SIGNAL: libc::c_int = 10;

/// What the kernel says of other openers of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Openers {
    /// Nobody else has it open, in whatever process or namespace; a loop device, swap and a mapping count as openers.
    None,
    /// Another process has it open, or this one has a second time.
    Some,
    /// This user or this file system is not told, with the error number.
    Untold(Errno),
}

/// Asks whether anybody but `file`'s own description has its file open.
///
/// A write lease is given to the only opener of a file (fcntl(2), `F_SETLEASE`; `check_conflicting_open` in the
/// kernel's fs/locks.c), so that asking for one answers the question at one instant, without a list of processes. It is
/// given back at once. Before Linux 5.3 other names of the file that are in the kernel's cache count as openers.
pub fn openers(file: impl AsFd) -> Openers {
    let fd = file.as_fd().as_raw_fd();
    // Somebody who opens the file in between breaks the lease. The signal of that must not be SIGIO, which ends a
    // process; SIGURG is ignored by default.
    // SAFETY: fcntl with an integer argument touches no memory of ours; the descriptor is open for the call.
    let quiet = unsafe { libc::fcntl(fd, SET_SIGNAL, libc::SIGURG) };
    if quiet < 0 {
        return Openers::Untold(last_error());
    }
    // SAFETY: as above.
    if unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) } < 0 {
        return match last_error() {
            Errno::AGAIN => Openers::Some,
            errno => Openers::Untold(errno),
        };
    }
    // SAFETY: as above. It cannot fail for a lease that is held; if it did, the lease would go with the descriptor.
    unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
    Openers::None
}

/// Whether anybody has the file open to write, or waits to; `None` where this user or this file system is not told.
///
/// A read lease is given where nobody does (fcntl(2), `F_SETLEASE`). Who opens the file to write while it is held waits, and the kernel
/// says so at once (`F_GETLEASE` tells the lease that is left, none). It is held for `watched`: who had looked up the name shortly before comes by then.
pub fn has_writers(file: impl AsFd, watched: std::time::Duration) -> Option<bool> {
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: as in `openers`.
    if unsafe { libc::fcntl(fd, SET_SIGNAL, libc::SIGURG) } < 0 {
        return None;
    }
    // SAFETY: as above.
    if unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) } < 0 {
        return (last_error() == Errno::AGAIN).then_some(true);
    }
    std::thread::sleep(watched);
    // SAFETY: as above.
    let left = unsafe { libc::fcntl(fd, libc::F_GETLEASE) };
    // SAFETY: as above; the lease goes with the descriptor if this fails.
    unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) };
    Some(left != libc::F_RDLCK)
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_second_opener_is_seen_while_it_lasts() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").expect("a file");
        let first = File::options().read(true).write(true).open(file.path()).expect("opens");
        drop(file.reopen());
        // The temporary file itself is one.
        assert_eq!(openers(&first), Openers::Some);
        let path = file.into_temp_path();
        assert_eq!(openers(&first), Openers::None);
        let other = File::open(&path).expect("opens");
        assert_eq!(openers(&first), Openers::Some);
        drop(other);
        assert_eq!(openers(&first), Openers::None);
        let link = path.with_extension("link");
        std::fs::hard_link(&path, &link).expect("links");
        let other = File::open(&link).expect("opens");
        assert_eq!(openers(&first), Openers::Some, "through another name");
        drop(other);
        std::fs::remove_file(&link).expect("removes");
    }

    #[test]
    fn who_writes_is_told_and_who_reads_does_not_matter() {
        let soon = std::time::Duration::from_millis(1);
        let place = tempfile::NamedTempFile::new_in("/var/tmp").expect("a file").into_temp_path();
        let ours = File::open(&place).expect("opens");
        let _reader = File::open(&place).expect("opens");
        assert_eq!(has_writers(&ours, soon), Some(false));
        let writer = File::options().append(true).open(&place).expect("opens");
        assert_eq!(has_writers(&ours, soon), Some(true));
        drop(writer);
        assert_eq!(has_writers(&ours, soon), Some(false));
    }

    #[test]
    fn a_directory_is_not_told() {
        let directory = File::open("/var/tmp").expect("opens");
        assert!(matches!(openers(&directory), Openers::Untold(_)));
    }
}
