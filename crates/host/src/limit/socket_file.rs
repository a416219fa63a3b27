//! A socket of a program as one of its files, reached through a copy of the descriptor (pidfd_getfd(2)), which is closed at
//! once: the connection ends when the program ends it.

use ebbtide_sys::socket::{Passes, let_pass};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde::{Deserialize, Serialize};
use std::io;

/// A socket as a file of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketFile {
    /// Process that holds the socket.
    pub pid: u32,
    /// Descriptor of the socket in that process.
    pub fd: i32,
    /// The socket's number among files, by which it is told from another.
    pub inode: u32,
}

impl SocketFile {
    /// A copy of the descriptor.
    pub(super) fn copy(self) -> io::Result<OwnedFd> {
        let gone = || io::Error::from(Errno::SRCH);
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        let copy = pidfd_getfd(process, self.fd, PidfdGetfdFlags::empty())?;
        match rustix::fs::fstat(&copy)?.st_ino == u64::from(self.inode) {
            true => Ok(copy),
            false => Err(gone()),
        }
    }

    /// Lets it pass what it did before.
    ///
    /// # Errors
    /// When it is closed by now.
    pub fn put_back(self, window: u32, pace: u64) -> io::Result<()> {
        let_pass(self.copy()?.as_fd(), Passes { window, pace })
    }
}
