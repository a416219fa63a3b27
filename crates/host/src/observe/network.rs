//! What the network below remote members carried: bytes of each interface (`/proc/net/dev`), segments that TCP sent again
//! (`/proc/net/snmp`, RFC 4022: tcpOutSegs, tcpRetransSegs), and the round trip of the connections that moved most
//! (`tcpi_rtt` of sock_diag(7)). All of it is the host's, whoever used it.

use super::counter::{Counter, read_all};
use crate::sys::{self, Sys};
use ebbtide_model::samples::{ConnectionUse, NetworkUse, TcpUse};
use ebbtide_model::units::Nanos;
use ebbtide_sys::inet_diag::{Diag, TcpSocket};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most connections that are kept of a trial.
const CONNECTIONS: usize = 8;
/// Share of what the busiest connection moved from which on another is worth keeping.
const WORTH_KEEPING: f64 = 0.05;

/// An interface over time.
struct Interface {
    name: String,
    /// Received and sent.
    bytes: [Counter; 2],
}

/// Interfaces and connections of the host over time; of a host without remote members nothing is read.
pub(super) struct Network {
    sys: Sys,
    interfaces: Vec<Interface>,
    /// Segments sent, and sent again.
    segments: [Counter; 2],
    diag: Option<Diag>,
    /// What each connection had moved before, by its number in the kernel.
    before: BTreeMap<u64, u64>,
}

impl Network {
    /// Begins, where a member `is_remote`.
    pub fn new(sys: &Sys, is_remote: bool) -> Network {
        // A copy of a host's files has no sockets.
        let diag = if is_remote && sys.is_host() { Diag::open().ok() } else { None };
        let names = if is_remote { net_dev(sys) } else { Vec::new() };
        let named = |(name, _): (String, [u64; 2])| Interface { name, bytes: Default::default() };
        let interfaces = names.into_iter().map(named).collect();
        let before = sockets(diag.as_ref()).iter().map(|socket| (socket.cookie, moved(socket))).collect();
        Network { sys: sys.clone(), interfaces, segments: Default::default(), diag, before }
    }

    /// The interfaces that are watched.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.interfaces.iter().map(|interface| interface.name.as_str())
    }

    pub fn look(&mut self, at: Duration) {
        if self.interfaces.is_empty() {
            return;
        }
        let now = net_dev(&self.sys);
        for interface in &mut self.interfaces {
            let found = now.iter().find(|(name, _)| *name == interface.name);
            read_all(&mut interface.bytes, at, found.map(|(_, bytes)| *bytes));
        }
        let snmp = sys::text(&self.sys.proc.join("net/snmp")).unwrap_or_default();
        read_all(&mut self.segments, at, segments(&snmp));
    }

    /// What each interface carried from `from` to `to`.
    pub fn within(&self, from: Duration, to: Duration) -> Vec<NetworkUse> {
        let used = self.interfaces.iter().filter_map(|interface| {
            let [received, sent] = &interface.bytes;
            let grown = |counter: &Counter| Some(counter).filter(|one| !one.fell())?.grown(from, to);
            Some(NetworkUse {
                interface: interface.name.clone(),
                received: grown(received)? as u64,
                sent: grown(sent)? as u64,
                speed_bits: speed(&self.sys, &interface.name),
            })
        });
        used.collect()
    }

    /// What TCP did from `from` to `to`. Connections are those that are there now, with what they moved since the start.
    pub fn tcp(&self, from: Duration, to: Duration) -> Option<TcpUse> {
        let [sent, again] = &self.segments;
        let (sent, again) = (sent.grown(from, to)? as u64, again.grown(from, to)? as u64);
        Some(TcpUse { sent, sent_again: again, connections: self.busiest() })
    }

    fn busiest(&self) -> Vec<ConnectionUse> {
        let mut all: Vec<(u64, TcpSocket)> = sockets(self.diag.as_ref())
            .into_iter()
            .filter(|socket| socket.peer.is_some_and(|peer| !peer.ip().is_loopback()))
            .map(|now| (moved(&now).saturating_sub(self.before.get(&now.cookie).copied().unwrap_or(0)), now))
            .collect();
        all.sort_by_key(|(moved, _)| std::cmp::Reverse(*moved));
        let most = all.first().map_or(0, |(moved, _)| *moved);
        all.retain(|(moved, _)| *moved > 0 && *moved as f64 >= WORTH_KEEPING * most as f64);
        all.truncate(CONNECTIONS);
        let kept = all.into_iter().map(|(bytes, socket)| ConnectionUse {
            peer: socket.peer.map(|peer| peer.to_string()).unwrap_or_default(),
            bytes,
            round_trip: Some(socket.round_trip).filter(|us| *us > 0).map(|us| Nanos(u64::from(us) * 1000)),
        });
        kept.collect()
    }
}

fn sockets(diag: Option<&Diag>) -> Vec<TcpSocket> {
    diag.and_then(|diag| diag.tcp().ok()).unwrap_or_default()
}

fn moved(socket: &TcpSocket) -> u64 {
    socket.acked.saturating_add(socket.received)
}

/// Bits per second of an interface; nothing where its driver does not know.
fn speed(sys: &Sys, interface: &str) -> Option<u64> {
    // In Mbit/s; -1 when the driver does not know.
    let speed: Option<i64> = sys::number(&sys.sys.join("class/net").join(interface).join("speed"));
    speed.filter(|mbit| *mbit > 0).and_then(|mbit| mbit.unsigned_abs().checked_mul(1_000_000))
}

/// Bytes received and sent of every interface but loopback.
fn net_dev(sys: &Sys) -> Vec<(String, [u64; 2])> {
    parse_net_dev(&sys::text(&sys.proc.join("net/dev")).unwrap_or_default())
}

fn parse_net_dev(text: &str) -> Vec<(String, [u64; 2])> {
    let interfaces = text.lines().filter_map(|line| {
        let (name, counters) = line.split_once(':')?;
        let mut counters = counters.split_ascii_whitespace();
        let received = counters.next()?.parse().ok()?;
        let sent = counters.nth(7)?.parse().ok()?;
        Some((name.trim().to_owned(), [received, sent]))
    });
    interfaces.filter(|(name, _)| name != "lo").collect()
}

/// Segments sent and sent again: two lines of `Tcp:`, the first with the names of what is in the second.
fn segments(snmp: &str) -> Option<[u64; 2]> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| {
        let mut pairs = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
        pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    Some([value("OutSegs")?, value("RetransSegs")?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    const NET_DEV: &str = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs\n    \
                           lo: 1 2 3 4 5 6 7 8 9 10\n  eth0: 1000 2 0 0 0 0 0 0 2000 5 0 0 0 0 0 0\n";

    #[test]
    fn interfaces_of_a_recorded_table() {
        assert_eq!(parse_net_dev(NET_DEV), [("eth0".to_owned(), [1000, 2000])]);
        assert!(parse_net_dev("eth0: 1 2\nnonsense\n").is_empty());
    }

    #[test]
    fn segments_of_a_recorded_table() {
        let text = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
                    Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs\n\
                    Tcp: 1 200 120000 -1 67 2 1 12 4 18446 18790 33 0\n";
        assert_eq!(segments(text), Some([18_790, 33]));
        assert_eq!(segments("Tcp: OutSegs\n"), None);
        assert_eq!(segments("Tcp: OutSegs RetransSegs\nTcp: 1 x\n"), None);
    }

    #[test]
    fn only_what_was_carried_in_the_measured_part_counts() {
        let tree =
            unpack("f /sys/class/net/eth0/speed\n|1000\nf /proc/net/dev\n|eth0: 0 0 0 0 0 0 0 0 0 0\n");
        let mut network = Network::new(&Sys::below(tree.path()), true);
        for (at, received) in [(0, 1000), (1, 5000), (3, 7000), (4, 9000)] {
            read_all(&mut network.interfaces[0].bytes, Duration::from_secs(at), Some([received, 0]));
        }
        let used = network.within(Duration::from_secs(1), Duration::from_secs(3));
        let expected =
            NetworkUse { interface: "eth0".into(), received: 2000, sent: 0, speed_bits: Some(1_000_000_000) };
        assert_eq!(used, [expected]);
        assert!(
            Network::new(&Sys::below(tree.path()), false).within(Duration::ZERO, Duration::MAX).is_empty()
        );
    }
}
