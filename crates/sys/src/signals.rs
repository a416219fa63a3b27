//! Signals that this process waits for, with who sent them: a terminal sends to everybody in its foreground, others to one.

use std::io::{self, PipeReader, Read};
use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// `SI_KERNEL` of asm-generic/siginfo.h.
const FROM_KERNEL: i32 = 0x80;

/// In the place of a sender: 0 is one that this process's namespace does not see, as `docker stop` is in a container.
const NOBODY: i32 = -1;

/// Where the handler writes; never closed.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caught {
    /// Number of the signal, as in signal(7).
    pub signal: i32,
    /// Who sent it, 0 where that is outside of what this process sees; nobody where it was the kernel: a key of the terminal's, its end, a
    /// child's end.
    pub sender: Option<u32>,
}

extern "C" fn note(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a siginfo_t that lives as long as the handler runs (SA_SIGINFO). Whose fields `si_pid` reads
    // were filled in for what kill, tgkill and sigqueue send and for SIGCHLD; for what the kernel sends it is not looked at.
    let sender = unsafe {
        let code = (*info).si_code;
        if code == FROM_KERNEL || signal == libc::SIGCHLD { NOBODY } else { (*info).si_pid() }
    };
    let mut record = [0; RECORD];
    record[..4].copy_from_slice(&signal.to_ne_bytes());
    record[4..].copy_from_slice(&sender.to_ne_bytes());
    // SAFETY: write is safe in a handler (signal-safety(7)); so few bytes enter a pipe whole or not at all. The descriptor does
    // not block; a pipe that is full has news enough to wake who reads it. What interrupted code sees as its error is put back.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(PIPE.load(Ordering::Relaxed), record.as_ptr().cast(), RECORD);
        *errno = before;
    }
}

const RECORD: usize = 8;

/// What came, to be polled and read.
#[derive(Debug)]
pub struct Signals(PipeReader);

impl Signals {
    /// Catches `signals` from now on, once in the life of a process.
    ///
    /// # Errors
    /// When a pipe cannot be had, or one of them cannot be caught.
    pub fn catch(signals: &[i32]) -> io::Result<Signals> {
        let (reader, writer) = io::pipe()?;
        for end in [rustix::fd::AsFd::as_fd(&reader), rustix::fd::AsFd::as_fd(&writer)] {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        PIPE.store(writer.into_raw_fd(), Ordering::Relaxed);
        for signal in signals {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = note;
            // SAFETY: zero is a valid value of each field; the handler calls only what is safe in one.
            let done = unsafe {
                let action = action.assume_init_mut();
                action.sa_sigaction = handler as libc::sighandler_t;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigaction(*signal, action, std::ptr::null_mut())
            };
            if done < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Signals(reader))
    }

    /// What has come since the last time; nothing when there is nothing.
    pub fn take(&mut self) -> Vec<Caught> {
        let mut records = Vec::new();
        let mut buffer = [0; 64 * RECORD];
        while let Ok(length @ 1..) = self.0.read(&mut buffer) {
            let (whole, _) = buffer[..length].as_chunks::<RECORD>();
            records.extend(whole.iter().map(|record| {
                let [a, b, c, d, e, f, g, h] = *record;
                let sender = u32::try_from(i32::from_ne_bytes([e, f, g, h])).ok();
                Caught { signal: i32::from_ne_bytes([a, b, c, d]), sender }
            }));
        }
        records
    }
}

/// Lets `signal` reach the calling thread, whatever it has inherited. So do supervisors block SIGCHLD that read it from a file.
///
/// # Errors
/// When there is no such signal.
pub fn unblock(signal: i32) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset makes the set whole, and the other two read and write it alone.
    let done = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        match libc::sigaddset(set.as_mut_ptr(), signal) {
            0 => libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), std::ptr::null_mut()),
            _ => libc::EINVAL,
        }
    };
    if done == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(done)) }
}

/// Ignores `signals` from now on.
///
/// # Errors
/// When one of them cannot be ignored.
pub fn ignore(signals: &[i32]) -> io::Result<()> {
    for signal in signals {
        // SAFETY: nothing of this program runs at the signal any more.
        if unsafe { libc::signal(*signal, libc::SIG_IGN) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

impl rustix::fd::AsFd for Signals {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        rustix::fd::AsFd::as_fd(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_comes_with_its_sender() {
        let mut signals = Signals::catch(&[libc::SIGUSR2]).expect("catches");
        assert!(signals.take().is_empty());
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::USR2).expect("sends");
        let mut caught = signals.take();
        for _ in 0..1000 {
            if !caught.is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
            caught = signals.take();
        }
        assert_eq!(caught, [Caught { signal: libc::SIGUSR2, sender: Some(std::process::id()) }]);
    }
}
