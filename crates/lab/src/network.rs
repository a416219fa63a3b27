//! A private network between guests: a hub in this process, on UNIX sockets. Nothing of it is on the host's network.
//!
//! QEMU (docs: `-netdev dgram`) and User-Mode Linux (docs: `transport=bess`) send each Ethernet frame as a record. The hub passes a frame on to the
//! guest whose card it is for, and what is for no card of its own to all others.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, listen, recv, send, shutdown, socket_with, socketpair, sockopt,
};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Longest frame: QEMU's own limit (`NET_BUFSIZE`, 4096 + 65536).
const FRAME_MAX: usize = 4096 + 65536;
/// A frame that is not taken for so long is dropped, as networks do.
const PATIENCE: Duration = Duration::from_millis(100);
/// The begin of a card's address, before the guest's number: 52:54:00 is QEMU's prefix for locally made cards.
const CARD: [u8; 5] = [0x52, 0x54, 0, 0xeb, 0xb0];
/// Name of the socket that a card of User-Mode Linux connects to.
const NAME: &str = "network";

/// Guests that are connected, with their numbers.
type Members = Vec<(u8, Arc<OwnedFd>)>;

/// A private network. It lives as long as a guest is on it.
#[derive(Debug, Clone, Default)]
pub struct Network {
    members: Arc<Mutex<Members>>,
}

/// A guest's place on a network.
#[derive(Debug, Clone)]
pub struct Place {
    /// The network that it shares with the other guests.
    pub network: Network,
    /// Its number, from 1: the last part of its address.
    pub number: u8,
}

/// A socket that a guest connects to until this is dropped.
#[derive(Debug)]
pub(super) struct Socket {
    socket: OwnedFd,
    /// The way to it.
    _directory: File,
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Whoever waits for a connection hears of it.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

impl Place {
    /// The address of its card.
    pub(super) fn mac(&self) -> String {
        let [a, b, c, d, e] = CARD;
        format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{:02x}", self.number)
    }

    /// The guest's end of its line; frames are passed on in the background until it is closed.
    ///
    /// # Errors
    /// When there can be none.
    pub(super) fn attach(&self) -> io::Result<OwnedFd> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let place = self.clone();
        thread::spawn(move || place.serve(ours));
        Ok(theirs)
    }

    /// A socket in `directory` for User-Mode Linux, which connects whenever its card is set up, and the kernel's argument for it.
    ///
    /// # Errors
    /// When there can be none.
    pub(super) fn socket(&self, directory: &Path) -> io::Result<(Socket, String)> {
        let name = directory.join(NAME);
        if name.exists() {
            // Of an earlier boot.
            ebbtide_door::own::remove(&name)?;
        }
        let open = ebbtide_door::read::open(directory)?;
        // Its own path may be longer than the 108 bytes that a socket's can be.
        let path = format!("/proc/{}/fd/{}/{NAME}", std::process::id(), open.as_raw_fd());
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrUnix::new(&path)?)?;
        listen(&socket, 1)?;
        let (ours, place) = (socket.try_clone()?, self.clone());
        thread::spawn(move || {
            while let Ok(line) = accept_with(&ours, SocketFlags::CLOEXEC) {
                place.serve(line);
            }
        });
        let argument = format!("vec0:transport=bess,dst={path},mac={}", self.mac());
        Ok((Socket { socket, _directory: open }, argument))
    }

    /// Passes on what comes from `line` until it ends, which is the end of the guest.
    fn serve(&self, line: OwnedFd) {
        let _ = sockopt::set_socket_timeout(&line, sockopt::Timeout::Send, Some(PATIENCE));
        let line = Arc::new(line);
        self.network.lock().push((self.number, line.clone()));
        let mut frame = vec![0; FRAME_MAX];
        while let Ok((length @ 1.., _)) = recv(&*line, &mut frame[..], RecvFlags::empty()) {
            let receiver = receiver(&frame[..length]);
            for (other, to) in &*self.network.lock() {
                if *other != self.number && receiver.is_none_or(|receiver| receiver == *other) {
                    let _ = send(&**to, &frame[..length], SendFlags::NOSIGNAL);
                }
            }
        }
        // A guest that is started again has its number again: which of the two it is, its line tells.
        self.network.lock().retain(|(_, other)| !Arc::ptr_eq(other, &line));
    }
}

impl Network {
    fn lock(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The address of guest `number`, in a private range (RFC 1918).
pub fn address(number: u8) -> String {
    format!("10.77.0.{number}")
}

/// The number of the guest that a frame is for; nothing when it is for all.
fn receiver(frame: &[u8]) -> Option<u8> {
    frame.strip_prefix(&CARD)?.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_for(network: &Network, members: usize) {
        while network.lock().len() != members {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The guest's end of a place on `network`.
    fn join(network: &Network, number: u8) -> OwnedFd {
        let line = Place { network: network.clone(), number }.attach().expect("a line");
        sockopt::set_socket_timeout(&line, sockopt::Timeout::Recv, Some(Duration::from_secs(20)))
            .expect("sets");
        wait_for(network, usize::from(number));
        line
    }

    fn say(line: &OwnedFd, frame: &[u8]) {
        send(line, frame, SendFlags::NOSIGNAL).expect("sends");
    }

    fn hear(line: &OwnedFd) -> Vec<u8> {
        let mut frame = [0; 64];
        let (length, _) = recv(line, &mut frame[..], RecvFlags::empty()).expect("hears");
        frame[..length].to_vec()
    }

    #[test]
    fn a_frame_reaches_all_others_and_not_its_sender() {
        let directory = tempfile::tempdir().expect("a directory");
        let network = Network::default();
        let mut guests: Vec<OwnedFd> = (1..=3).map(|number| join(&network, number)).collect();
        say(&guests[0], b"hello");
        say(&guests[0], b"ho");
        say(&guests[1], b"you");
        assert_eq!(hear(&guests[0]), b"you");
        let mut heard: Vec<Vec<u8>> = (0..3).map(|_| hear(&guests[2])).collect();
        heard.sort();
        assert_eq!(heard, [b"hello".to_vec(), b"ho".to_vec(), b"you".to_vec()]);
        assert_eq!((hear(&guests[1]), hear(&guests[1])), (b"hello".to_vec(), b"ho".to_vec()));
        // For the third's card alone, then for all.
        say(&guests[0], b"\x52\x54\0\xeb\xb0\x03");
        say(&guests[0], b"all");
        assert_eq!(hear(&guests[1]), b"all");
        assert_eq!(hear(&guests[2]), b"\x52\x54\0\xeb\xb0\x03");
        assert_eq!(hear(&guests[2]), b"all");
        drop(guests.remove(1));
        wait_for(&network, 2);
        say(&guests[0], b"left");
        assert_eq!(hear(&guests[1]), b"left");
        // A guest that connects by a name, which an earlier boot has left, among them.
        let fourth = Place { network: network.clone(), number: 4 };
        drop(fourth.socket(directory.path()).expect("listens"));
        let (socket, argument) = fourth.socket(directory.path()).expect("listens");
        assert!(argument.starts_with("vec0:transport=bess,dst=/proc/"), "{argument}");
        let by_name = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let by_name = by_name.expect("a socket");
        let path = SocketAddrUnix::new(directory.path().join(NAME)).expect("a path");
        rustix::net::connect(&by_name, &path).expect("connects");
        wait_for(&network, 3);
        say(&guests[0], b"both");
        assert_eq!((hear(&by_name), hear(&guests[1])), (b"both".to_vec(), b"both".to_vec()));
        say(&by_name, b"record");
        assert_eq!((hear(&guests[0]), hear(&guests[1])), (b"record".to_vec(), b"record".to_vec()));
        drop((by_name, socket));
        wait_for(&network, 2);
    }

    #[test]
    fn a_guest_that_takes_nothing_holds_nobody_up_for_long() {
        let network = Network::default();
        let (first, second, _third) = (join(&network, 1), join(&network, 2), join(&network, 3));
        let large = [0; 8192];
        // More than the third's line takes, to all: the second hears each, and the third loses what has no room.
        for _ in 0..40 {
            say(&first, &large);
            hear(&second);
        }
        say(&second, b"alive");
        assert_eq!(hear(&first), b"alive");
    }
}
