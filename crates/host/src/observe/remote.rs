//! Calls of network file systems: what NFS counts of each mount (`/proc/self/mountstats`; net/sunrpc/stats.c,
//! Documentation of nfsiostat(8) and mountstats(8)).
//!
//! ```text
//! device server:/export mounted on /mnt with fstype nfs4 statvers=1.1
//!         opts:   rw,vers=4.1,rsize=1048576,wsize=1048576,...
//!         xprt:   tcp 0 0 1 0 0 12755 12754 0 51500 0 32 101086 25994          one for each connection
//!         per-op statistics
//!             READ: CALLS SENT TIMEOUTS BYTES-SENT BYTES-RECEIVED QUEUED ROUND-TRIP WHOLE [ERRORS]   in milliseconds
//! ```

use super::counter::{Counter, read_all};
use crate::graph::Place;
use crate::probe::tables::unescape;
use crate::sys::{self, Sys};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{CallUse, RemoteUse};
use ebbtide_model::units::{Bytes, Nanos};
use std::time::Duration;

/// Types of file systems behind a network.
const TYPES: [&str; 9] = ["nfs", "nfs4", "cifs", "smb3", "ceph", "fuse.sshfs", "9p", "lustre", "glusterfs"];

/// The network file system that a path is on.
pub(super) fn of_place(place: &Place) -> Option<RemoteUse> {
    let fstype = place.fstype.clone().filter(|fstype| TYPES.contains(&fstype.as_str()))?;
    Some(RemoteUse {
        fstype,
        source: place.source.clone().unwrap_or_default(),
        mountpoint: place.mountpoint.clone().unwrap_or_default(),
        ..RemoteUse::default()
    })
}

/// Counters of one kind of call in the order of [`CallUse`], milliseconds for times.
type Counters = [u64; 5];

/// One mount at an instant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Mounted {
    largest: Option<PerOp<Bytes>>,
    connections: u32,
    read: Option<Counters>,
    write: Option<Counters>,
}

/// Counters of one mount over time.
#[derive(Debug, Default)]
struct Series {
    read: [Counter; 5],
    write: [Counter; 5],
    last: Mounted,
}

/// The calls of all mounts that members are on, over time.
pub(super) struct Calls {
    sys: Sys,
    mounts: Vec<(String, Series)>,
}

impl Calls {
    /// Of these members' file systems; of others than NFS nothing is counted.
    pub fn new<'a>(sys: &Sys, remotes: impl Iterator<Item = &'a RemoteUse>) -> Calls {
        let mut mounts: Vec<(String, Series)> = Vec::new();
        for remote in remotes.filter(|remote| remote.fstype.starts_with("nfs")) {
            if mounts.iter().all(|(mountpoint, _)| *mountpoint != remote.mountpoint) {
                mounts.push((remote.mountpoint.clone(), Series::default()));
            }
        }
        Calls { sys: sys.clone(), mounts }
    }

    pub fn look(&mut self, at: Duration) {
        if self.mounts.is_empty() {
            return;
        }
        let text = sys::text(&self.sys.proc.join("self/mountstats")).unwrap_or_default();
        for (mountpoint, series) in &mut self.mounts {
            let Some(now) = mounted(&text, mountpoint) else { continue };
            read_all(&mut series.read, at, now.read);
            read_all(&mut series.write, at, now.write);
            series.last = now;
        }
    }

    /// `remote` with its calls from `from` to `to`.
    pub fn within(&self, remote: RemoteUse, from: Duration, to: Duration) -> RemoteUse {
        let Some((_, series)) = self.mounts.iter().find(|(mountpoint, _)| *mountpoint == remote.mountpoint)
        else {
            return remote;
        };
        let calls = grown(&series.read, from, to).zip(grown(&series.write, from, to));
        RemoteUse {
            largest: series.last.largest,
            connections: Some(series.last.connections).filter(|connections| *connections > 0),
            calls: calls.map(|(read, write)| PerOp { read, write }),
            ..remote
        }
    }
}

/// What counters grew by; nothing where they were not read twice, or went back: mounted anew.
fn grown(counters: &[Counter; 5], from: Duration, to: Duration) -> Option<CallUse> {
    let value = |index: usize| Some(&counters[index]).filter(|one| !one.fell())?.grown(from, to);
    let time = |index: usize| value(index).map(|ms| Nanos((ms * 1e6) as u64));
    Some(CallUse {
        calls: value(0)? as u64,
        sent: value(1)? as u64,
        queued: time(2)?,
        round_trip: time(3)?,
        whole: time(4)?,
    })
}

/// The NFS that is mounted there, the last where several cover one another.
fn mounted(text: &str, mountpoint: &str) -> Option<Mounted> {
    let mut found = None;
    let mut inside = false;
    for line in text.lines() {
        if let Some(device) = line.strip_prefix("device ") {
            // Spaces in names are escaped, so that these words are its own.
            let mut words = device.split(" mounted on ").nth(1).unwrap_or_default().split(" with fstype ");
            let place = words.next().unwrap_or_default();
            inside =
                unescape(place) == mountpoint && words.next().is_some_and(|kind| kind.starts_with("nfs"));
            if inside {
                found = Some(Mounted::default());
            }
            continue;
        }
        if let Some(mounted) = found.as_mut().filter(|_| inside) {
            mounted.line(line.trim());
        }
    }
    found
}

impl Mounted {
    fn line(&mut self, line: &str) {
        let Some((key, value)) = line.split_once(':') else { return };
        match key {
            "opts" => {
                let option = |name: &str| {
                    value
                        .trim()
                        .split(',')
                        .find_map(|one| one.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
                };
                let sizes = option("rsize").zip(option("wsize"));
                self.largest = sizes.map(|(read, write)| PerOp { read: Bytes(read), write: Bytes(write) });
            }
            "xprt" => self.connections += 1,
            "READ" => self.read = counters(value),
            "WRITE" => self.write = counters(value),
            _ => {}
        }
    }
}

fn counters(text: &str) -> Option<Counters> {
    let numbers: Option<Vec<u64>> = text.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
    let numbers = numbers?;
    let at = |index: usize| numbers.get(index).copied();
    Some([at(0)?, at(1)?, at(5)?, at(6)?, at(7)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    /// Recorded in a guest with Linux 6.1: two mounts of its own NFS server, the second after 2 MiB were read.
    const TEXT: &str = include_str!("../../tests/trees/mountstats.txt");

    #[test]
    fn the_calls_of_a_mount() {
        let found = mounted(TEXT, "/mnt/my files").expect("it is mounted");
        assert_eq!(found.largest, Some(PerOp { read: Bytes(65_536), write: Bytes(65_536) }));
        assert_eq!((found.connections, found.read), (2, Some([0; 5])));
        let old = mounted(TEXT, "/mnt/old").expect("it is mounted");
        assert_eq!((old.connections, old.read, old.write), (1, Some([34, 34, 25, 104, 141]), Some([0; 5])));
        // Before Linux 5.3 there was no column of errors (statistics version 1.0).
        let version_1_0 = "1000 1000 0 220000 1048680000 1689 503927 505677";
        assert_eq!(counters(version_1_0), Some([1000, 1000, 1689, 503_927, 505_677]));
        assert_eq!(mounted(TEXT, "/"), None);
        assert_eq!(mounted(TEXT, "/nowhere"), None);
    }

    #[test]
    fn what_grew_in_the_measured_part() {
        let remote =
            RemoteUse { fstype: "nfs4".into(), mountpoint: "/mnt/old".into(), ..RemoteUse::default() };
        let mut calls = Calls::new(&Sys::host(), [&remote].into_iter());
        let later = TEXT.replace(
            "READ: 34 34 0 5440 2230264 25 104 141 0",
            "READ: 2034 2034 0 1 1 1025 2400104 2401141 0",
        );
        for (at, text) in [(0, TEXT), (2, &later)] {
            let lines: String = text.lines().map(|line| format!("|{line}\n")).collect();
            let root = unpack(&format!("f /proc/self/mountstats\n{lines}"));
            calls.sys = Sys::below(root.path());
            calls.look(Duration::from_secs(at));
        }
        let used =
            calls.within(remote.clone(), Duration::ZERO, Duration::from_secs(1)).calls.expect("counted");
        assert_eq!((used.read.calls, used.write.calls), (1000, 0));
        assert_eq!(
            (used.read.queued, used.read.round_trip),
            (Nanos::from_millis(500), Nanos::from_millis(1_200_000))
        );
        let other = RemoteUse { mountpoint: "/x".into(), ..remote };
        assert_eq!(calls.within(other.clone(), Duration::ZERO, Duration::from_secs(1)), other);
    }

    #[test]
    fn text_that_is_something_else_is_nothing() {
        for text in [
            "",
            "device",
            "device x mounted on /m",
            "device x mounted on /m with fstype nfs4\nREAD: a b\nopts",
            "READ: 1",
        ] {
            assert!(mounted(text, "/m").is_none_or(|found| found == Mounted::default()), "{text}");
        }
    }
}
