//! For how long tasks waited for memory and I/O, on the whole host and in the load's own control group, and for how long that was held to a quota of
//! processor time
//! (Documentation/accounting/psi.rst, Documentation/admin-guide/cgroup-v2.rst).

use super::counter::Counter;
use super::processors::total;
use crate::probe::tables::{self, Mount};
use crate::sys::{self, Sys};
use ebbtide_model::samples::{GroupMemory, GroupQuota, MemoryUse};
use ebbtide_model::units::{Bytes, Nanos};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A limit of version 1 from here on is none: the kernel writes the largest number of pages that a signed word counts.
const NO_LIMIT: u64 = 1 << 62;

/// What a counter of microseconds grew by.
fn waited(counter: &Counter, from: Duration, to: Duration) -> Option<Nanos> {
    counter.grown(from, to).map(|us| Nanos((us as u64).saturating_mul(1000)))
}

/// The two of a file of pressure.
#[derive(Debug, Default)]
struct Pressure {
    some: Counter,
    full: Counter,
}

impl Pressure {
    fn look(&mut self, at: Duration, file: &Path) {
        let text = sys::text(file).unwrap_or_default();
        self.some.read(at, total(&text, "some "));
        self.full.read(at, total(&text, "full "));
    }
}

/// The control groups that this process is in.
#[derive(Debug, Default, PartialEq, Eq)]
struct Group {
    /// Version 2: the directory of its own group, where that is not the whole host.
    unified: Option<PathBuf>,
    /// Version 1's of memory, the same.
    memory: Option<PathBuf>,
    /// Lowest limit of memory of it and of those above it that are visible.
    limit: Option<Bytes>,
    /// The lowest quota of processor time of the same.
    quota: Option<Quota>,
}

/// A quota of processor time.
#[derive(Debug, PartialEq, Eq)]
struct Quota {
    /// The group's directory.
    group: PathBuf,
    /// The file that sets it.
    file: PathBuf,
    /// Of all cores, in a second.
    per_second: Nanos,
}

impl Quota {
    /// That of one group: nothing where it has none.
    fn of(group: &Path) -> Option<Quota> {
        let two = || {
            let file = group.join("cpu.max");
            let text = sys::text(&file)?;
            let (quota, period) = text.trim().split_once(' ')?;
            Some((file, quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?))
        };
        let one = || {
            let file = group.join("cpu.cfs_quota_us");
            // -1 is none.
            let quota = u64::try_from(sys::number::<i64>(&file)?).ok()?;
            Some((file, quota, sys::number::<u64>(&group.join("cpu.cfs_period_us"))?))
        };
        let (file, quota, period) = two().or_else(one)?;
        let per_second = quota.saturating_mul(1_000_000_000).checked_div(period)?;
        Some(Quota { group: group.to_owned(), file, per_second: Nanos(per_second) })
    }

    /// Nanoseconds for which the group was held back since it was made, of all cores.
    fn throttled(&self) -> Option<u64> {
        let text = sys::text(&self.group.join("cpu.stat"))?;
        let value = |key: &str| sys::field(&text, key)?.parse::<u64>().ok();
        value("throttled_usec ").map(|us| us.saturating_mul(1000)).or_else(|| value("throttled_time "))
    }
}

pub(super) struct Waits {
    sys: Sys,
    group: Group,
    memory: Pressure,
    io: Counter,
    group_memory: Pressure,
    met: Counter,
    refaulted: Counter,
    throttled: Counter,
}

impl Waits {
    pub fn new(sys: &Sys) -> Waits {
        Waits {
            group: Group::of(sys),
            sys: sys.clone(),
            memory: Pressure::default(),
            io: Counter::default(),
            group_memory: Pressure::default(),
            met: Counter::default(),
            refaulted: Counter::default(),
            throttled: Counter::default(),
        }
    }

    pub fn look(&mut self, at: Duration) {
        let pressure = self.sys.proc.join("pressure");
        self.memory.look(at, &pressure.join("memory"));
        let io = sys::text(&pressure.join("io")).unwrap_or_default();
        self.io.read(at, total(&io, "some "));
        let vmstat = sys::text(&self.sys.proc.join("vmstat")).unwrap_or_default();
        self.refaulted.read(at, refaulted(&vmstat));
        if let Some(unified) = &self.group.unified {
            self.group_memory.look(at, &unified.join("memory.pressure"));
        }
        self.met.read(at, self.group.met());
        self.throttled.read(at, self.group.quota.as_ref().and_then(Quota::throttled));
    }

    /// Time from `from` to `to` in which some task waited for I/O, where the kernel tells.
    pub fn io(&self, from: Duration, to: Duration) -> Option<Nanos> {
        waited(&self.io, from, to)
    }

    /// For how long from `from` to `to` the load's control group was held to its quota of processor time, where it has one.
    pub fn quota(&self, from: Duration, to: Duration) -> Option<GroupQuota> {
        let Quota { file, per_second, .. } = self.group.quota.as_ref()?;
        let throttled = Nanos(self.throttled.grown(from, to)? as u64);
        Some(GroupQuota { file: file.to_string_lossy().into_owned(), per_second: *per_second, throttled })
    }

    /// Fills in what `memory` says of waits from `from` to `to`.
    pub fn of_memory(&self, memory: MemoryUse, from: Duration, to: Duration) -> MemoryUse {
        let page = rustix::param::page_size() as u64;
        let group = GroupMemory {
            others: self.group.others(),
            limit: self.group.limit,
            met: self.met.grown(from, to).map(|met| met as u64),
            pressure_some: waited(&self.group_memory.some, from, to),
            pressure_full: waited(&self.group_memory.full, from, to),
        };
        MemoryUse {
            pressure_some: waited(&self.memory.some, from, to),
            pressure_full: waited(&self.memory.full, from, to),
            refaulted: self.refaulted.grown(from, to).map(|pages| Bytes((pages as u64).saturating_mul(page))),
            group: (group != GroupMemory::default()).then_some(group),
            ..memory
        }
    }
}

impl Group {
    fn of(sys: &Sys) -> Group {
        let mounts = tables::mounts_of(sys);
        let own = sys::text(&sys.proc.join("self/cgroup")).unwrap_or_default();
        let place = |controller: Option<&str>| directory(sys, &mounts, &own, controller);
        // Only the whole host's group has no such file.
        let unified = place(None).filter(|(group, _)| group.join("cgroup.events").exists());
        let memory = place(Some("memory")).filter(|(group, top)| group != top);
        let limits = |place: &Option<(PathBuf, PathBuf)>, files: &[&str]| {
            let (group, top) = place.as_ref()?;
            let groups = group.ancestors().take_while(|above| above.starts_with(top));
            let values =
                groups.flat_map(|group| files.iter().map(|file| group.join(file)).collect::<Vec<_>>());
            values.filter_map(|file| sys::number::<u64>(&file)).filter(|limit| *limit < NO_LIMIT).min()
        };
        let limit = limits(&unified, &["memory.max", "memory.high"])
            .or_else(|| limits(&memory, &["memory.limit_in_bytes"]));
        let cpu = place(Some("cpu")).filter(|(group, top)| group != top);
        let quotas = [&unified, &cpu].into_iter().flatten().flat_map(|(group, top)| {
            group.ancestors().take_while(move |above| above.starts_with(top)).filter_map(Quota::of)
        });
        let quota = quotas.min_by_key(|quota| quota.per_second);
        Group {
            quota,
            unified: unified.map(|place| place.0),
            memory: memory.map(|place| place.0),
            limit: limit.map(Bytes),
        }
    }

    /// Processes in its own group of version 2 beside this one, now.
    fn others(&self) -> Option<u32> {
        let all = sys::text(&self.unified.as_ref()?.join("cgroup.procs"))?;
        let own = std::process::id();
        let others = all.lines().filter_map(|line| line.trim().parse::<u32>().ok()).filter(|pid| *pid != own);
        others.count().try_into().ok()
    }

    /// How often a limit was met since the group was made.
    fn met(&self) -> Option<u64> {
        let events = self.unified.as_ref().and_then(|group| sys::text(&group.join("memory.events")));
        let event = |text: &str, name: &str| sys::field(text, name)?.parse::<u64>().ok();
        let of_two =
            events.and_then(|text| Some(event(&text, "high ")?.saturating_add(event(&text, "max ")?)));
        of_two.or_else(|| sys::number(&self.memory.as_ref()?.join("memory.failcnt")))
    }
}

/// The directory of this process's group and that of its hierarchy's uppermost visible group, of version 2 or of one
/// controller of version 1. `own` is `/proc/self/cgroup`.
pub(crate) fn directory(
    sys: &Sys,
    mounts: &[Mount],
    own: &str,
    controller: Option<&str>,
) -> Option<(PathBuf, PathBuf)> {
    let path = own.lines().find_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, path) = line.split_once(':')?;
        let is = match controller {
            None => controllers.is_empty(),
            Some(controller) => controllers.split(',').any(|one| one == controller),
        };
        is.then_some(path)
    })?;
    let is = |mount: &&Mount| match controller {
        None => mount.fstype == "cgroup2",
        Some(controller) => mount.fstype == "cgroup" && mount.has_option(controller),
    };
    let mount = mounts.iter().find(is)?;
    // A container's mount shows the group that the container is.
    let below =
        Path::new(path).strip_prefix(&mount.root).or_else(|_| Path::new(path).strip_prefix("/")).ok()?;
    let top = sys.root().join(mount.mountpoint.trim_start_matches('/'));
    Some((top.join(below), top))
}

/// Pages of files that came back (`workingset_refault` before Linux 5.9).
fn refaulted(vmstat: &str) -> Option<u64> {
    let value = |key: &str| sys::field(vmstat, key)?.parse().ok();
    value("workingset_refault_file ").or_else(|| value("workingset_refault "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    /// Recorded on Linux 6.18 with both versions mounted, while a load wrote through the page cache in a group of version 1
    /// with 40 MiB of memory and in one of version 2 beside it; mounts and counters that matter here.
    const BEFORE: &str = include_str!("../../tests/trees/memory-before.tree");
    const AFTER: &str = include_str!("../../tests/trees/memory-after.tree");

    #[test]
    fn waits_of_a_recorded_load_in_a_group_that_is_too_small() {
        let (before, after) = (unpack(BEFORE), unpack(AFTER));
        let mut waits = Waits::new(&Sys::below(before.path()));
        assert_eq!(waits.group.limit, Some(Bytes(40 << 20)));
        waits.look(Duration::ZERO);
        let now = Sys::below(after.path());
        (waits.group, waits.sys) = (Group::of(&now), now);
        let end = Duration::from_secs(4);
        waits.look(end);
        let memory = waits.of_memory(MemoryUse::default(), Duration::ZERO, end);
        let group = memory.group.expect("a group of its own");
        assert_eq!(group.pressure_some, Some(Nanos(424_124_000)));
        assert_eq!(group.pressure_full, Some(Nanos(412_128_000)));
        assert_eq!((group.limit, group.met), (Some(Bytes(40 << 20)), Some(174_223)));
        assert_eq!(memory.pressure_some, Some(Nanos(420_461_000)));
        assert_eq!(memory.pressure_full, Some(Nanos(380_059_000)));
        assert_eq!(memory.refaulted.map(|b| b.0 / rustix::param::page_size() as u64), Some(92_043));
        let half = waits.of_memory(MemoryUse::default(), Duration::ZERO, end / 2);
        assert_eq!(half.pressure_some, Some(Nanos(210_230_000)));
        assert_eq!(waits.io(Duration::ZERO, end), Some(Nanos(3_318_534_000)));
    }

    #[test]
    fn the_whole_host_is_no_group_and_limits_above_count() {
        let mounts = "f /proc/self/mountinfo\n|30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let host = unpack(&format!(
            "{mounts}f /proc/self/cgroup\n|0::/\nf /sys/fs/cgroup/memory.pressure\n|some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"
        ));
        assert_eq!(Group::of(&Sys::below(host.path())), Group::default());
        let nested = unpack(&format!(
            "{mounts}f /proc/self/cgroup\n|0::/user.slice/a.scope\n\
             f /sys/fs/cgroup/user.slice/memory.max\n|1048576\n\
             f /sys/fs/cgroup/user.slice/a.scope/cgroup.events\n|populated 1\n\
             f /sys/fs/cgroup/user.slice/a.scope/memory.max\n|max\n\
             f /sys/fs/cgroup/user.slice/a.scope/memory.high\n|2097152\n\
             f /sys/fs/cgroup/user.slice/a.scope/memory.events\n|low 0\n|high 20\n|max 3\n|oom 0\n|oom_kill 0\n"
        ));
        let group = Group::of(&Sys::below(nested.path()));
        assert_eq!((group.limit, group.met()), (Some(Bytes(1 << 20)), Some(23)));
        let own = std::process::id();
        let procs = nested.path().join("sys/fs/cgroup/user.slice/a.scope/cgroup.procs");
        std::fs::write(procs, format!("{own}\n{}\n", own + 1)).expect("written");
        assert_eq!(group.others(), Some(1));
    }

    #[test]
    fn the_lowest_quota_of_processor_time_counts() {
        let mounts = "f /proc/self/mountinfo\n|30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
                      |31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let tree = |max: &str, throttled: u32| {
            unpack(&format!(
                "{mounts}f /proc/self/cgroup\n|2:cpu:/a\n|0::/user.slice/a.scope\n\
                 f /sys/fs/cgroup/user.slice/cpu.max\n|{max} 100000\n\
                 f /sys/fs/cgroup/user.slice/cpu.stat\n|usage_usec 7\n|nr_throttled 3\n|throttled_usec {throttled}\n\
                 f /sys/fs/cgroup/user.slice/a.scope/cgroup.events\n|populated 1\n\
                 f /sys/fs/cgroup/user.slice/a.scope/cpu.max\n|max 100000\n\
                 f /sys/fs/cgroup/cpu/a/cpu.cfs_quota_us\n|60000\nf /sys/fs/cgroup/cpu/a/cpu.cfs_period_us\n|100000\n\
                 f /sys/fs/cgroup/cpu/a/cpu.stat\n|nr_periods 9\n|nr_throttled 3\n|throttled_time {throttled}000\n"
            ))
        };
        for (max, file, per_second) in
            [("50000", "user.slice/cpu.max", 500_000_000), ("max", "cpu/a/cpu.cfs_quota_us", 600_000_000)]
        {
            let (before, after) = (tree(max, 1000), tree(max, 901_000));
            let mut waits = Waits::new(&Sys::below(before.path()));
            waits.look(Duration::ZERO);
            let now = Sys::below(after.path());
            (waits.group, waits.sys) = (Group::of(&now), now);
            waits.look(Duration::from_secs(1));
            let quota = waits.quota(Duration::ZERO, Duration::from_secs(1)).expect("there is one");
            assert!(quota.file.ends_with(file), "{quota:?}");
            assert_eq!((quota.per_second.0, quota.throttled), (per_second, Nanos(900_000_000)));
        }
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let root = unpack(
            "f /proc/self/mountinfo\n|30 24 0:26 /kubepods/pod1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
             f /proc/self/cgroup\n|0::/kubepods/pod1\nf /sys/fs/cgroup/cgroup.events\n|populated 1\n\
             f /sys/fs/cgroup/memory.max\n|536870912\n",
        );
        assert_eq!(Group::of(&Sys::below(root.path())).limit, Some(Bytes(512 << 20)));
    }

    #[test]
    fn what_cannot_be_seen_is_left_out() {
        let root = unpack("d /proc\n");
        let mut waits = Waits::new(&Sys::below(root.path()));
        waits.look(Duration::ZERO);
        waits.look(Duration::from_secs(1));
        let seen = waits.of_memory(MemoryUse::default(), Duration::ZERO, Duration::from_secs(1));
        assert_eq!((seen, waits.io(Duration::ZERO, Duration::from_secs(1))), (MemoryUse::default(), None));
    }
}
