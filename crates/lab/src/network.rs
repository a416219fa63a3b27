//! A private network between guests: a hub in this process, on UNIX sockets. Nothing of it is on the host's network.
//!
//! QEMU's stream netdev (docs: `-netdev stream`) sends each Ethernet frame after its length, four bytes, big endian; User-Mode
//! Linux (docs: `transport=bess`) each as a record. The hub passes a frame on to the guest whose
//! card it is for, and what is for no card of its own to all others.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, listen, recv, send, shutdown, socket_with, sockopt,
};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest frame: QEMU's own limit (`NET_BUFSIZE`, 4096 + 65536).
const FRAME_MAX: usize = 4096 + 65536;
/// How long QEMU may take to connect.
const PATIENCE: Duration = Duration::from_secs(60);
/// A guest that takes nothing for so long is cut off, so that it does not hold up the others.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);
/// A record that is not taken for so long is dropped, as networks do.
const RECORD_PATIENCE: Duration = Duration::from_millis(100);
/// The begin of a card's address, before the guest's number: 52:54:00 is QEMU's prefix for locally made cards.
const CARD: [u8; 5] = [0x52, 0x54, 0, 0xeb, 0xb0];
/// Bytes of a frame's length before it.
const LENGTH: usize = 4;

/// Guests that are connected, with their numbers.
type Members = Arc<Mutex<Vec<(u8, Line)>>>;

/// The way to a guest.
#[derive(Debug)]
enum Line {
    /// Frames after their lengths.
    Stream(UnixStream),
    /// Each record a frame.
    Records(OwnedFd),
}

impl Line {
    fn second(&self) -> io::Result<Line> {
        Ok(match self {
            Line::Stream(stream) => Line::Stream(stream.try_clone()?),
            Line::Records(socket) => Line::Records(socket.try_clone()?),
        })
    }

    fn number(&self) -> RawFd {
        match self {
            Line::Stream(stream) => stream.as_raw_fd(),
            Line::Records(socket) => socket.as_raw_fd(),
        }
    }

    /// Reads a frame, its length before it; says how long both are.
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Line::Stream(stream) => {
                stream.read_exact(&mut into[..LENGTH])?;
                let length = u32::from_be_bytes([into[0], into[1], into[2], into[3]]) as usize;
                if length > FRAME_MAX {
                    return Err(io::Error::new(ErrorKind::InvalidData, "a frame that is too long"));
                }
                stream.read_exact(&mut into[LENGTH..LENGTH + length])?;
                Ok(LENGTH + length)
            }
            Line::Records(socket) => {
                let (length, _) = recv(socket, &mut into[LENGTH..], RecvFlags::empty())?;
                if length == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                into[..LENGTH].copy_from_slice(&(length as u32).to_be_bytes());
                Ok(LENGTH + length)
            }
        }
    }

    /// Sends a frame, its length before it. After a failure it is not to be used.
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        match self {
            Line::Stream(stream) => stream.write_all(frame),
            Line::Records(socket) => match send(socket, &frame[LENGTH..], SendFlags::NOSIGNAL) {
                Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
                Err(error) => Err(error.into()),
            },
        }
    }
}

/// A private network. It lives as long as a guest is on it.
#[derive(Debug, Clone, Default)]
pub struct Network {
    members: Members,
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
    /// QEMU's arguments for a network card whose other end is `socket`.
    pub(super) fn arguments(&self, socket: &str) -> [String; 4] {
        [
            "-netdev".to_owned(),
            format!("stream,id=private,server=off,addr.type=unix,addr.path={socket}"),
            "-device".to_owned(),
            format!("virtio-net-pci,netdev=private,mac={}", self.mac()),
        ]
    }

    fn mac(&self) -> String {
        let [a, b, c, d, e] = CARD;
        format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{:02x}", self.number)
    }

    /// Waits in the background for QEMU to connect, and passes frames on until it ends.
    pub(super) fn attach(&self, listener: UnixListener) {
        let place = self.clone();
        thread::spawn(move || accept(&listener).map(|stream| place.serve(Line::Stream(stream))));
    }

    /// A socket `name` in `directory` for User-Mode Linux, which connects whenever its card is set up, and the kernel's argument for it.
    ///
    /// # Errors
    /// When there can be none.
    pub(super) fn socket(&self, directory: &Path, name: &str) -> io::Result<(Socket, String)> {
        let open = ebbtide_door::read::open(directory)?;
        // As for QEMU's, its own path may be too long.
        let path = format!("/proc/{}/fd/{}/{name}", std::process::id(), open.as_raw_fd());
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrUnix::new(&path)?)?;
        listen(&socket, 1)?;
        let (ours, place) = (socket.try_clone()?, self.clone());
        thread::spawn(move || {
            while let Ok(line) = accept_with(&ours, SocketFlags::CLOEXEC) {
                let _ = sockopt::set_socket_timeout(&line, sockopt::Timeout::Send, Some(RECORD_PATIENCE));
                place.serve(Line::Records(line));
            }
        });
        let argument = format!("vec0:transport=bess,dst={path},mac={}", self.mac());
        Ok((Socket { socket, _directory: open }, argument))
    }

    /// Passes on what comes from `from` until it ends, which is the end of the guest.
    fn serve(&self, from: Line) {
        let Ok(to) = from.second() else { return };
        let members = &self.network.members;
        // A guest that is started again has its number again: which of the two it is, its line tells.
        let own = to.number();
        lock(members).push((self.number, to));
        let _ = forward(from, self.number, members);
        lock(members).retain(|(_, line)| line.number() != own);
    }
}

/// The address of guest `number`, in a private range (RFC 1918).
pub fn address(number: u8) -> String {
    format!("10.77.0.{number}")
}

fn lock(members: &Members) -> std::sync::MutexGuard<'_, Vec<(u8, Line)>> {
    members.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &UnixListener) -> Option<UnixStream> {
    let start = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).ok()?;
                stream.set_write_timeout(Some(WRITE_PATIENCE)).ok()?;
                return Some(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && start.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(_) => return None,
        }
    }
}

/// The number of the guest that a frame is for; nothing when it is for all.
fn receiver(frame: &[u8]) -> Option<u8> {
    frame.strip_prefix(&CARD)?.first().copied()
}

/// Passes on what `from` sends.
fn forward(mut from: Line, number: u8, members: &Members) -> io::Result<()> {
    let mut frame = vec![0; LENGTH + FRAME_MAX];
    loop {
        let length = from.receive(&mut frame)?;
        // Half a frame would confuse whoever got it: after a failure it gets nothing more.
        let receiver = receiver(&frame[LENGTH..length]);
        lock(members).retain_mut(|(other, to)| {
            let is_for = *other != number && receiver.is_none_or(|receiver| receiver == *other);
            !is_for || to.send(&frame[..length]).is_ok()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The guest's end of a place on `network`.
    fn join(network: &Network, number: u8, directory: &std::path::Path) -> UnixStream {
        let path = directory.join(number.to_string());
        let listener = UnixListener::bind(&path).expect("binds");
        listener.set_nonblocking(true).expect("sets");
        Place { network: network.clone(), number }.attach(listener);
        let stream = UnixStream::connect(&path).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
        while !lock(&network.members).iter().any(|(other, _)| *other == number) {
            thread::sleep(Duration::from_millis(1));
        }
        stream
    }

    fn read(stream: &mut UnixStream) -> Vec<u8> {
        let mut length = [0; 4];
        stream.read_exact(&mut length).expect("reads");
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut frame).expect("reads");
        frame
    }

    #[test]
    fn a_frame_reaches_all_others_and_not_its_sender() {
        let directory = tempfile::tempdir().expect("a directory");
        let network = Network::default();
        let mut guests: Vec<UnixStream> =
            (1..=3).map(|number| join(&network, number, directory.path())).collect();
        // In pieces, as streams deliver.
        for piece in [&b"\0\0"[..], b"\0\x05he", b"llo\0\0\0\x02ho"] {
            guests[0].write_all(piece).expect("writes");
        }
        guests[1].write_all(b"\0\0\0\x03you").expect("writes");
        assert_eq!(read(&mut guests[0]), b"you");
        let mut heard: Vec<Vec<u8>> = (0..3).map(|_| read(&mut guests[2])).collect();
        heard.sort();
        assert_eq!(heard, [b"hello".to_vec(), b"ho".to_vec(), b"you".to_vec()]);
        assert_eq!((read(&mut guests[1]), read(&mut guests[1])), (b"hello".to_vec(), b"ho".to_vec()));
        // For the third's card alone, then for all.
        guests[0].write_all(b"\0\0\0\x06\x52\x54\0\xeb\xb0\x03\0\0\0\x03all").expect("writes");
        assert_eq!(read(&mut guests[1]), b"all");
        assert_eq!(read(&mut guests[2]), b"\x52\x54\0\xeb\xb0\x03");
        assert_eq!(read(&mut guests[2]), b"all");
        drop(guests.remove(1));
        while lock(&network.members).len() > 2 {
            thread::sleep(Duration::from_millis(1));
        }
        guests[0].write_all(b"\0\0\0\x04left").expect("writes");
        assert_eq!(read(&mut guests[1]), b"left");
        // A guest whose frames are records, among them.
        let fourth = Place { network: network.clone(), number: 4 };
        let (socket, argument) = fourth.socket(directory.path(), "records").expect("listens");
        assert!(argument.starts_with("vec0:transport=bess,dst=/proc/"), "{argument}");
        let record = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let record = record.expect("a socket");
        let path = SocketAddrUnix::new(directory.path().join("records")).expect("a path");
        rustix::net::connect(&record, &path).expect("connects");
        while lock(&network.members).len() < 3 {
            thread::sleep(Duration::from_millis(1));
        }
        guests[0].write_all(b"\0\0\0\x04both").expect("writes");
        let mut heard = [0; 16];
        assert_eq!(recv(&record, &mut heard, RecvFlags::empty()).expect("hears").0, 4);
        assert_eq!((&heard[..4], read(&mut guests[1])), (&b"both"[..], b"both".to_vec()));
        send(&record, b"record", SendFlags::NOSIGNAL).expect("sends");
        assert_eq!((read(&mut guests[0]), read(&mut guests[1])), (b"record".to_vec(), b"record".to_vec()));
        drop((record, socket));
        while lock(&network.members).len() > 2 {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
