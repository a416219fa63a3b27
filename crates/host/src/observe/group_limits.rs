//! What the load's control group, and those that it is in, let pass to the members' devices, and what they used of it.

use super::counter::{Counter, read_all};
use super::waits::directory;
use crate::probe::tables;
use crate::sys::{self, Sys};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, GroupLimit};
use ebbtide_model::units::Bytes;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The files of version 1, each with a limit for each device: operations and bytes, read and written.
pub(crate) const FILES_OF_ONE: [&str; 4] =
    ["read_iops_device", "write_iops_device", "read_bps_device", "write_bps_device"];
/// What begins their names.
pub(crate) const THROTTLE: &str = "blkio.throttle.";

/// A limit on one device, with the group's counters over time.
struct Watched {
    /// Place of the device among the observed ones.
    device: usize,
    number: String,
    group: PathBuf,
    is_two: bool,
    limit: GroupLimit,
    /// Reads, writes, bytes read, bytes written.
    counters: [Counter; 4],
}

/// Every limit on an observed device.
pub(super) struct GroupLimits(Vec<Watched>);

impl GroupLimits {
    /// Of the devices with these numbers (`major:minor`).
    pub fn new<'a>(sys: &Sys, numbers: impl Iterator<Item = &'a str>) -> GroupLimits {
        let mounts = tables::mounts_of(sys);
        let own = sys::text(&sys.proc.join("self/cgroup")).unwrap_or_default();
        let mut groups: Vec<(PathBuf, bool)> = Vec::new();
        // Limits of version 2 hold for the groups below, those of version 1 for the group itself.
        if let Some((group, top)) = directory(sys, &mounts, &own, None) {
            let above = group.ancestors().take_while(|above| above.starts_with(&top));
            groups.extend(above.map(|group| (group.to_owned(), true)));
        }
        groups.extend(directory(sys, &mounts, &own, Some("blkio")).map(|(group, _)| (group, false)));
        let numbers: Vec<&str> = numbers.collect();
        let mut found = Vec::new();
        for (group, is_two) in groups {
            let texts = Limits::read(&group, is_two);
            for (device, number) in numbers.iter().enumerate() {
                let Some(limit) = texts.on(number) else { continue };
                let file = group.join(if is_two { "io.max" } else { "blkio.throttle.*_device" });
                let file =
                    file.strip_prefix(sys.root()).map_or(file.clone(), |file| Path::new("/").join(file));
                let limit = GroupLimit { file: file.to_string_lossy().into_owned(), ..limit };
                let (number, group) = ((*number).to_owned(), group.clone());
                found.push(Watched { device, number, group, is_two, limit, counters: Default::default() });
            }
        }
        GroupLimits(found)
    }

    pub fn look(&mut self, at: Duration) {
        for watched in &mut self.0 {
            let now = watched.look();
            read_all(&mut watched.counters, at, now);
        }
    }

    /// Limits of the device at this place, with what was used of them from `from` to `to`.
    pub fn within(&self, device: usize, from: Duration, to: Duration) -> Vec<GroupLimit> {
        let of_device = self.0.iter().filter(|watched| watched.device == device);
        of_device
            .map(|watched| GroupLimit { used: watched.used(from, to), ..watched.limit.clone() })
            .collect()
    }
}

impl Watched {
    fn look(&self) -> Option<[u64; 4]> {
        counted(&self.group, self.is_two, &self.number)
    }

    fn used(&self, from: Duration, to: Duration) -> Option<PerOp<Count>> {
        let grown = |index: usize| self.counters[index].grown(from, to).map(|grown| grown as u64);
        Some(PerOp {
            read: Count { ops: grown(0)?, bytes: grown(2)? },
            write: Count { ops: grown(1)?, bytes: grown(3)? },
        })
    }
}

/// Reads, writes, bytes read and bytes written that a group of version 2 or 1 has passed to the device of this number.
pub(crate) fn counted(group: &Path, is_two: bool, number: &str) -> Option<[u64; 4]> {
    if is_two {
        let text = sys::text(&group.join("io.stat"))?;
        let line = on(&text, number)?;
        let value = |key| words(line).find_map(|(name, value)| (name == key).then_some(value)?.parse().ok());
        return Some([value("rios")?, value("wios")?, value("rbytes")?, value("wbytes")?]);
    }
    let read = |file: &str| {
        let text = sys::text(&group.join(format!("{THROTTLE}{file}")))?;
        let value = |kind: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(number));
            let mut of_kind = lines.filter_map(|line| line.strip_prefix(' ')?.strip_prefix(kind));
            of_kind.next()?.trim().parse::<u64>().ok()
        };
        Some((value("Read ")?, value("Write ")?))
    };
    let ((reads, writes), (read, written)) = (read("io_serviced")?, read("io_service_bytes")?);
    Some([reads, writes, read, written])
}

/// The limits that a group sets, as text.
enum Limits {
    Two(String),
    One([String; 4]),
}

impl Limits {
    fn read(group: &Path, is_two: bool) -> Limits {
        let text = |file: &str| sys::text(&group.join(file)).unwrap_or_default();
        if is_two {
            Limits::Two(text("io.max"))
        } else {
            Limits::One(FILES_OF_ONE.map(|file| text(&format!("{THROTTLE}{file}"))))
        }
    }

    /// On the device of this number, where there is one.
    fn on(&self, number: &str) -> Option<GroupLimit> {
        let [reads, writes, read, written] = match self {
            Limits::Two(text) => {
                let line = on(text, number)?;
                // `max` is none.
                let value =
                    |key| words(line).find_map(|(name, value)| (name == key).then_some(value)?.parse().ok());
                ["riops", "wiops", "rbps", "wbps"].map(value)
            }
            Limits::One(texts) => texts.each_ref().map(|text| on(text, number)?.parse::<u64>().ok()),
        };
        let bytes = PerOp { read: read.map(Bytes), write: written.map(Bytes) };
        [reads, writes, read, written].iter().any(Option::is_some).then(|| GroupLimit {
            iops: PerOp { read: reads, write: writes },
            bytes,
            ..GroupLimit::default()
        })
    }
}

/// What stands behind the device's number in a table.
fn on<'a>(text: &'a str, number: &str) -> Option<&'a str> {
    sys::field(text, &format!("{number} "))
}

/// Key and value of words like `rbps=max`.
fn words(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split_ascii_whitespace().filter_map(|word| word.split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// The forms are those of Documentation/admin-guide/cgroup-v2.rst.
    #[test]
    fn limits_of_the_own_group_and_of_those_above_are_found_with_their_use() {
        let tree = |reads: u64| {
            unpack(&format!(
                "f /proc/self/mountinfo\n|30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
                 f /proc/self/cgroup\n|0::/db.slice/a.scope\n\
                 f /sys/fs/cgroup/db.slice/io.max\n|8:16 rbps=max wbps=1048576 riops=max wiops=max\n\
                 f /sys/fs/cgroup/db.slice/a.scope/io.max\n|8:1 riops=1\n|7:3 rbps=max wbps=max riops=1000 wiops=max\n\
                 f /sys/fs/cgroup/db.slice/a.scope/io.stat\n|7:3 rbytes={} wbytes=0 rios={reads} wios=0 dbytes=0 dios=0\n",
                reads * 4096
            ))
        };
        let (before, after) = (tree(500), tree(2500));
        let mut limits = GroupLimits::new(&Sys::below(before.path()), ["7:3", "8:16", "8:0"].into_iter());
        limits.look(seconds(0));
        limits
            .0
            .iter_mut()
            .for_each(|w| w.group = after.path().join(w.group.strip_prefix(before.path()).unwrap()));
        limits.look(seconds(2));
        let own = &limits.within(0, seconds(0), seconds(1))[0];
        assert_eq!(own.file, "/sys/fs/cgroup/db.slice/a.scope/io.max");
        assert_eq!((own.iops.read, own.iops.write, own.bytes), (Some(1000), None, PerOp::default()));
        assert_eq!(own.used.map(|used| (used.read.ops, used.read.bytes)), Some((1000, 4_096_000)));
        let above = &limits.within(1, seconds(0), seconds(1))[0];
        assert_eq!((above.bytes.write, above.used), (Some(Bytes(1 << 20)), None));
        assert!(limits.within(2, seconds(0), seconds(1)).is_empty(), "8:1 and 8:16 are others");
    }

    /// Recorded on Linux 6.18 with both versions mounted.
    #[test]
    fn limits_of_version_one() {
        let root = unpack(
            "f /proc/self/mountinfo\n|33 31 0:30 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio\n\
             |41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n\
             f /proc/self/cgroup\n|7:blkio:/load\n|0::/\n\
             f /sys/fs/cgroup/blkio/load/blkio.throttle.read_iops_device\n|7:0 1000\n\
             f /sys/fs/cgroup/blkio/load/blkio.throttle.io_serviced\n|7:0 Read 6004\n|7:0 Write 7\n|7:0 Total 6011\n\
             f /sys/fs/cgroup/blkio/load/blkio.throttle.io_service_bytes\n|7:0 Read 24592384\n|7:0 Write 28672\n",
        );
        let limits = GroupLimits::new(&Sys::below(root.path()), ["7:0"].into_iter());
        assert_eq!(limits.0[0].limit.file, "/sys/fs/cgroup/blkio/load/blkio.throttle.*_device");
        assert_eq!(limits.0[0].limit.iops, PerOp { read: Some(1000), write: None });
        assert_eq!(limits.0[0].look(), Some([6004, 7, 24_592_384, 28_672]));
        let none = unpack("d /proc\n");
        assert!(GroupLimits::new(&Sys::below(none.path()), ["7:0"].into_iter()).0.is_empty());
    }
}
