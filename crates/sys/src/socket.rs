//! How fast a TCP socket sends and how much may be on its way to it: options that can be changed while it is in use and set back.

use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;

/// What a socket lets pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passes {
    /// Bytes that may arrive before the program reads some (`TCP_WINDOW_CLAMP`); what the other end may send already, it may.
    pub window: u32,
    /// Bytes that are sent in a second (`SO_MAX_PACING_RATE`); all ones for any number.
    pub pace: u64,
}

fn get<T: Default>(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: both pointers are to live variables of ours; the kernel writes at most `length` bytes to the first, an integer
    // in each use here.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

fn set<T>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of a live variable of ours, an integer in each use here.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What `socket` lets pass now.
///
/// # Errors
/// When it is no TCP socket.
pub fn passes(socket: BorrowedFd<'_>) -> io::Result<Passes> {
    let window = get::<i32>(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP)?;
    let pace = get::<u64>(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE)?;
    Ok(Passes { window: u32::try_from(window).unwrap_or(0), pace })
}

/// Lets `socket` pass this from now on. A window that the kernel finds too small is the smallest it has.
///
/// # Errors
/// When it is no TCP socket.
pub fn let_pass(socket: BorrowedFd<'_>, passes: Passes) -> io::Result<()> {
    let window = i32::try_from(passes.window).unwrap_or(i32::MAX);
    set(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, &window)?;
    set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &passes.pace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn what_is_set_is_read_and_set_back() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("connects");
        let before = passes(stream.as_fd()).expect("reads");
        assert_eq!(before.pace, u64::MAX);
        let narrow = Passes { window: 20_000, pace: 1_000_000 };
        let_pass(stream.as_fd(), narrow).expect("sets");
        assert_eq!(passes(stream.as_fd()).expect("reads"), narrow);
        let_pass(stream.as_fd(), before).expect("sets");
        assert_eq!(passes(stream.as_fd()).expect("reads"), before);
        let file = tempfile::tempfile().expect("a file");
        assert!(passes(file.as_fd()).is_err() && let_pass(file.as_fd(), narrow).is_err());
    }
}
