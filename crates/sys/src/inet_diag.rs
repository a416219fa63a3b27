//! What the kernel counts for each TCP socket of this network namespace (sock_diag(7), linux/inet_diag.h, linux/tcp.h).

use rustix::fd::{FromRawFd, OwnedFd};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// `INET_DIAG_INFO`: the attribute with `struct tcp_info`.
const INFO: u16 = 2;
/// `NLMSG_ERROR` and `NLMSG_DONE` of linux/netlink.h.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Every state but `TCP_LISTEN` (10) and `TCP_TIME_WAIT` (6), which has no counters.
const STATES: u32 = 0xffe & !(1 << 10) & !(1 << 6);
/// Bytes of `struct nlmsghdr` and `struct inet_diag_msg`.
const HEADER: usize = 16;
const MESSAGE: usize = 72;
/// Where `idiag_family`, `idiag_dport`, `idiag_dst`, `idiag_cookie` and `idiag_inode` are in the latter; `tcpi_rtt`, `tcpi_bytes_acked` and
/// `tcpi_bytes_received` in `struct tcp_info`.
const FAMILY: usize = 0;
const PEER_PORT: usize = 6;
const PEER: usize = 24;
const COOKIE: usize = 44;
const INODE: usize = 68;
const RTT: usize = 68;
const ACKED: usize = 120;
const RECEIVED: usize = 128;

/// A TCP socket of another process, as the kernel describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSocket {
    /// Its number among the files of programs; 0 once every program has closed it.
    pub inode: u32,
    /// Its number in the kernel, no other socket's since boot.
    pub cookie: u64,
    /// Bytes that the other end has acknowledged.
    pub acked: u64,
    /// Bytes that have arrived in order, read by the program or not.
    pub received: u64,
    /// The other end; nothing of other families than IPv4 and IPv6.
    pub peer: Option<SocketAddr>,
    /// The smoothed round trip in microseconds (RFC 6298); 0 before anything was acknowledged.
    pub round_trip: u32,
}

/// A way to ask for sockets.
#[derive(Debug)]
pub struct Diag(OwnedFd);

impl Diag {
    /// Opens one.
    ///
    /// # Errors
    /// When the kernel has none (`CONFIG_INET_DIAG`), or a sandbox refuses.
    pub fn open() -> io::Result<Diag> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        // SAFETY: socket takes three integers and touches no memory of ours.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it, and nobody else has it.
        Ok(Diag(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// All TCP sockets, over IPv4 and IPv6, that may have moved something.
    ///
    /// # Errors
    /// When the kernel refuses, or answers what is no list of sockets.
    pub fn tcp(&self) -> io::Result<Vec<TcpSocket>> {
        let mut found = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            rustix::io::write(&self.0, &request(family as u8))?;
            let mut answer = vec![0; 64 << 10];
            while {
                let length = rustix::io::read(&self.0, &mut answer)?;
                if length == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                !parse(&answer[..length], &mut found)?
            } {}
        }
        Ok(found)
    }
}

/// Asks for all sockets of a family with their counters.
fn request(family: u8) -> Vec<u8> {
    /// `NLM_F_REQUEST | NLM_F_DUMP`.
    const FLAGS: u16 = 0x301;
    const LENGTH: u32 = 72;
    let mut request = Vec::with_capacity(LENGTH as usize);
    request.extend(LENGTH.to_ne_bytes());
    request.extend(BY_FAMILY.to_ne_bytes());
    request.extend(FLAGS.to_ne_bytes());
    request.extend([0; 8]);
    request.extend([family, libc::IPPROTO_TCP as u8, 1 << (INFO - 1), 0]);
    request.extend(STATES.to_ne_bytes());
    request.resize(LENGTH as usize, 0);
    request
}

/// The next `N` bytes at `at`.
fn bytes<const N: usize>(from: &[u8], at: usize) -> Option<[u8; N]> {
    from.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(from: &[u8], at: usize) -> Option<u16> {
    bytes(from, at).map(u16::from_ne_bytes)
}

/// Adds what one answer lists; whether it was the last.
fn parse(mut answer: &[u8], found: &mut Vec<TcpSocket>) -> io::Result<bool> {
    let torn = || io::Error::new(ErrorKind::InvalidData, "the kernel's list of sockets is torn");
    while !answer.is_empty() {
        let length = bytes(answer, 0).map(u32::from_ne_bytes).ok_or_else(torn)? as usize;
        let message = answer.get(HEADER..length).ok_or_else(torn)?;
        match u16_at(answer, 4).ok_or_else(torn)? {
            DONE => return Ok(true),
            ERROR => {
                let errno = bytes(message, 0).map(i32::from_ne_bytes).ok_or_else(torn)?;
                return Err(io::Error::from_raw_os_error(errno.wrapping_neg()));
            }
            BY_FAMILY => found.extend(socket(message)),
            _ => {}
        }
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The socket of one message; nothing where it has no counters.
fn socket(message: &[u8]) -> Option<TcpSocket> {
    let mut attributes = message.get(MESSAGE..)?;
    let info = loop {
        let length = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(4..length)?;
        if u16_at(attributes, 2)? == INFO {
            break value;
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    };
    Some(TcpSocket {
        inode: bytes(message, INODE).map(u32::from_ne_bytes)?,
        cookie: bytes(message, COOKIE).map(u64::from_ne_bytes)?,
        acked: bytes(info, ACKED).map(u64::from_ne_bytes)?,
        received: bytes(info, RECEIVED).map(u64::from_ne_bytes)?,
        peer: peer(message),
        round_trip: bytes(info, RTT).map(u32::from_ne_bytes)?,
    })
}

/// The other end of the connection of one message.
fn peer(message: &[u8]) -> Option<SocketAddr> {
    let port = bytes(message, PEER_PORT).map(u16::from_be_bytes)?;
    let address = match i32::from(*message.get(FAMILY)?) {
        libc::AF_INET => IpAddr::from(Ipv4Addr::from(bytes::<4>(message, PEER)?)),
        libc::AF_INET6 => IpAddr::from(Ipv6Addr::from(bytes::<16>(message, PEER)?)),
        _ => return None,
    };
    Some(SocketAddr::new(address.to_canonical(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_connection_is_counted_at_both_ends() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let mut one = TcpStream::connect(listener.local_addr().expect("an address")).expect("connects");
        let (mut other, _) = listener.accept().expect("accepts");
        one.write_all(&[7; 100_000]).expect("sends");
        other.read_exact(&mut [0; 100_000]).expect("receives");
        let inode = |stream: &TcpStream| {
            let link = std::fs::read_link(format!("/proc/self/fd/{}", stream.as_raw_fd())).expect("a socket");
            let link = link.to_string_lossy().into_owned();
            link.trim_start_matches("socket:[").trim_end_matches(']').parse::<u32>().expect("a number")
        };
        let diag = Diag::open().expect("opens");
        let of = |stream: &TcpStream| {
            let (all, inode) = (diag.tcp().expect("lists"), inode(stream));
            all.into_iter().find(|socket| socket.inode == inode).expect("is listed")
        };
        assert_eq!(of(&other).received, 100_000);
        // The beginning of a connection counts as one byte that is acknowledged.
        assert!((100_000..=100_001).contains(&of(&one).acked), "{:?}", of(&one));
        assert_ne!(of(&one).cookie, of(&other).cookie);
        assert_eq!(of(&one).peer, one.peer_addr().ok());
        assert!((1..1_000_000).contains(&of(&one).round_trip), "{:?}", of(&one));
    }

    #[test]
    fn what_is_torn_is_refused_and_what_is_unknown_left_out() {
        let mut found = Vec::new();
        for torn in [&[1, 0][..], &[0; 16], &[255; 16], &[17, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert!(parse(torn, &mut found).is_err(), "{torn:?}");
        }
        let mut unknown = vec![0; 20];
        unknown[..6].copy_from_slice(&[20, 0, 0, 0, 9, 0]);
        assert!(!parse(&unknown, &mut found).expect("is no list"));
        unknown[4] = 20;
        assert!(!parse(&unknown, &mut found).expect("a short message"));
        assert!(found.is_empty() && socket(&[0; 80]).is_none() && socket(&[]).is_none());
    }
}
