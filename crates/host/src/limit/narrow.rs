//! Keeping small what is on its way to and from a program's sockets while it stands still.
//!
//! The kernel goes on receiving for a program that is stopped, and sending what it wrote before: megabytes for each connection,
//! which is more than a low rate allows in the longest stop. So each socket gets a small window to receive in, and a pace to send
//! at, and its own back at the end.

use super::guardian::{Guardian, Message};
use super::socket_file::SocketFile;
use ebbtide_sys::socket::{Passes, let_pass, passes};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;

/// What may be on its way to a program, in seconds of its rate, shared by its sockets.
const ON_ITS_WAY: f64 = 0.05;
/// What may be owed, in seconds of the rate, before less is let on its way: the next stop is worth more.
const PATIENCE: f64 = 0.2;
/// Less than that and each packet waits for the one before.
const LEAST_WINDOW: f64 = 4096.0;

/// Sockets that were narrowed, by their numbers in the kernel, with what they let pass before.
#[derive(Debug, Default)]
pub struct Narrowed(BTreeMap<u64, (SocketFile, Passes)>);

impl Narrowed {
    /// Narrows `sockets` so that together they move about `rate` bytes in a second; those in `active`, by number, share it. What
    /// they owe, in seconds of that rate, makes less be on its way: on a busy host a program runs for longer than it is let.
    /// Why one could not be, when it was not closed meanwhile.
    pub fn narrow(
        &mut self,
        sockets: &[(u64, SocketFile)],
        active: usize,
        rate: f64,
        owed: f64,
        guardian: &mut Guardian,
    ) -> Option<io::Error> {
        let share = (rate / active.max(1) as f64).max(1.0);
        let window = share * ON_ITS_WAY / (1.0 + (owed - PATIENCE).max(0.0) / ON_ITS_WAY);
        let narrow = Passes { window: window.max(LEAST_WINDOW) as u32, pace: share as u64 };
        let mut failed = None;
        self.0.retain(|cookie, _| sockets.iter().any(|(other, _)| other == cookie));
        for (cookie, file) in sockets {
            let done = file.copy().and_then(|copy| {
                if !self.0.contains_key(cookie) {
                    let before = passes(copy.as_fd())?;
                    let Passes { window, pace } = before;
                    guardian.tell(&Message::Narrowing { file: *file, window, pace })?;
                    self.0.insert(*cookie, (*file, before));
                }
                // Again each time: the kernel widens a window that is used up.
                let_pass(copy.as_fd(), narrow)
            });
            if let Err(error) = done {
                // Closed, or its process has ended.
                let is_gone = matches!(Errno::from_io_error(&error), Some(Errno::SRCH | Errno::BADF));
                failed = failed.or((!is_gone).then_some(error));
            }
        }
        failed
    }

    /// Lets each pass what it did before.
    pub fn put_back(&mut self) {
        for (file, Passes { window, pace }) in std::mem::take(&mut self.0).into_values() {
            // One that is closed lets nothing pass.
            let _ = file.put_back(window, pace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_socket_is_narrow_until_it_is_put_back() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("connects");
        let inode = rustix::fs::fstat(&stream).expect("is there").st_ino as u32;
        let file = SocketFile { pid: std::process::id(), fd: stream.as_raw_fd(), inode };
        let now = || passes(stream.as_fd()).expect("reads");
        let before = now();
        let mut narrowed = Narrowed::default();
        let mut guardian = Guardian::none();
        for rate in [4e6, 2e6] {
            assert!(narrowed.narrow(&[(7, file)], 2, rate, 0.1, &mut guardian).is_none());
        }
        assert_eq!(now(), Passes { window: 50_000, pace: 1_000_000 });
        // Who owes a second's worth has a window of a seventeenth.
        assert!(narrowed.narrow(&[(7, file)], 1, 1.7e6, 1.0, &mut guardian).is_none());
        assert!((4_990..5_010).contains(&now().window), "{:?}", now());
        // Another socket of that descriptor is left alone, and is no failure.
        let other = SocketFile { inode: inode.wrapping_add(1), ..file };
        assert!(Narrowed::default().narrow(&[(8, other)], 1, 1.0, 0.0, &mut guardian).is_none());
        assert_eq!(now().pace, 1_700_000);
        narrowed.put_back();
        assert_eq!(now(), before);
    }
}
