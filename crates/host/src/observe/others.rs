//! Who else is at work on the observed devices: processes, md's resync, ext4's lazy initialisation.

use super::timeline::read_into;
use crate::command::Never;
use crate::graph::dm::Tables;
use crate::graph::{self, Graph};
use crate::load;
use crate::probe::tables::{self, Mount};
use crate::sys::{self, DevNum, Sys, process};
use ebbtide_model::graph::Layers;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Observation, OtherActivity, OtherKind};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A process that moved less than this meanwhile is not worth naming.
const LEAST_BYTES: u64 = 1 << 20;
/// Open files looked at to learn which devices a process uses.
const MOST_FILES: usize = 256;

/// Storage bytes of a process at an instant (`/proc/PID/io`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    at: Duration,
    /// When it still read as the reading before: the look before this one.
    since: Duration,
    read: u64,
    write: u64,
}

#[derive(Debug)]
struct Process {
    name: String,
    readings: Vec<Reading>,
    /// Device among the observed ones that it has a file open on; decided once, when it has moved enough.
    device: Option<Place>,
}

/// Where a process works.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Observed(String),
    Elsewhere,
    Hidden,
}

/// An md array that shares a disk with the observed devices, and its action when last looked.
#[derive(Debug)]
struct Action {
    array: String,
    action: String,
    first: Duration,
    last: Duration,
    /// Sectors done when seen first and last.
    sectors: Option<(u64, u64)>,
}

pub(super) struct Others {
    sys: Sys,
    devices: Vec<String>,
    arrays: Vec<String>,
    processes: BTreeMap<u32, Process>,
    actions: Vec<Action>,
    lazy_init: Vec<Duration>,
    last_look: Option<Duration>,
    own: u32,
    /// What marks the processes of a program that is the load.
    mark: Option<load::Mark>,
    /// Those that have it.
    load: BTreeSet<u32>,
    buffer: String,
}

impl Others {
    pub fn new(sys: &Sys, devices: Vec<String>, mark: Option<load::Mark>) -> Others {
        let graph = graph::read_with(sys, &Tables::new(&Never));
        let shares = |at: &usize| {
            let below = graph.all_below(&[*at]);
            below.into_iter().any(|at| devices.contains(&graph.nodes[at].name))
        };
        let arrays = (0..graph.nodes.len()).filter(|at| graph.nodes[*at].md.is_some()).filter(shares);
        let arrays: Vec<String> = arrays.map(|at| graph.nodes[at].name.clone()).collect();
        Others {
            arrays,
            sys: sys.clone(),
            devices,
            processes: BTreeMap::new(),
            actions: Vec::new(),
            lazy_init: Vec::new(),
            last_look: None,
            own: std::process::id(),
            mark,
            load: BTreeSet::new(),
            buffer: String::new(),
        }
    }

    pub fn last_look(&self) -> Option<Duration> {
        self.last_look
    }

    pub fn look(&mut self, at: Duration) {
        let first = self.last_look.is_none();
        // Whatever number of processes has moved much by now, the host's devices are read once.
        let graph = OnceCell::new();
        for name in std::fs::read_dir(&self.sys.proc).into_iter().flatten().flatten().map(|e| e.file_name()) {
            if let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok())
                && pid != self.own
                && !self.is_load(pid)
            {
                self.process(pid, at, first, &graph);
            }
        }
        for array in self.arrays.clone() {
            self.array(array, at);
        }
        self.last_look = Some(at);
    }

    /// Whether it is a process of the load, which is nobody else; asked once of each. One that is just ending shows neither its environment
    /// nor its directory any more, and is left out where there is a load: nobody can tell whose it was.
    fn is_load(&mut self, pid: u32) -> bool {
        let Some(mark) = self.mark.as_ref().filter(|_| !self.processes.contains_key(&pid)) else {
            return false;
        };
        let is_new = || i32::try_from(pid).is_ok_and(|pid| mark.is_on(pid) || load::is_ending(pid));
        self.load.contains(&pid) || is_new() && self.load.insert(pid)
    }

    fn process(&mut self, pid: u32, at: Duration, first: bool, graph: &OnceCell<Graph>) {
        let place = self.sys.proc.join(pid.to_string());
        if !self.processes.contains_key(&pid) {
            let name = sys::word(&place.join("comm")).unwrap_or_default();
            // One that appeared since the last look has moved all its bytes since.
            let born = if first {
                Vec::new()
            } else {
                let last = self.last_look.unwrap_or(at);
                vec![Reading { at: last, since: last, read: 0, write: 0 }]
            };
            self.processes.insert(pid, Process { name, readings: born, device: None });
        }
        let Some(process) = self.processes.get_mut(&pid) else { return };
        if process.name == "ext4lazyinit" {
            self.lazy_init.push(at);
        }
        if !read_into(&place.join("io"), &mut self.buffer) {
            return;
        }
        let count = |key| process::io(&self.buffer, key);
        let (Some(read), Some(write)) = (count("read_bytes"), count("write_bytes")) else { return };
        // Another process under the same number.
        if process.readings.last().is_some_and(|r| r.read > read || r.write > write) {
            process.readings.clear();
        }
        if process.readings.last().is_none_or(|r| (r.read, r.write) != (read, write)) {
            process.readings.push(Reading { at, since: self.last_look.unwrap_or(at), read, write });
        }
        let moved = process.readings.first().map_or(0, |r| (read - r.read).saturating_add(write - r.write));
        if moved >= LEAST_BYTES && process.device.is_none() {
            let graph = || graph.get_or_init(|| graph::read_with(&self.sys, &Tables::new(&Never)));
            process.device = Some(place_of(&place, &self.devices, graph));
        }
    }

    fn array(&mut self, array: String, at: Duration) {
        let md = self.sys.sys.join("block").join(&array).join("md");
        let Some(action) = sys::md::action(&md) else { return };
        let done = sys::md::synced(&self.sys, &array).map(|synced| synced.done);
        match self.actions.iter_mut().find(|a| a.array == array && a.action == action) {
            Some(known) => {
                known.last = at;
                known.sectors =
                    known.sectors.zip(done).map(|((from, _), now)| (from, now)).or(done.map(|d| (d, d)));
            }
            None => self.actions.push(Action {
                array,
                action,
                first: at,
                last: at,
                sectors: done.map(|d| (d, d)),
            }),
        }
    }

    /// Activity from `from` to `to`, the largest first.
    pub fn within(&self, from: Duration, to: Duration) -> Vec<OtherActivity> {
        let mut found: Vec<OtherActivity> =
            self.processes.iter().filter_map(|(pid, process)| process.within(*pid, from, to)).collect();
        found.sort_by_key(|a| std::cmp::Reverse(a.bytes.map_or(0, |b| b.read.saturating_add(b.write))));
        found.extend(self.actions.iter().filter(|a| a.first <= to && a.last >= from).map(|a| {
            OtherActivity {
                kind: OtherKind::Resync,
                who: format!("{}: {}", a.array, a.action),
                device: Some(a.array.clone()),
                bytes: a.sectors.map(|(first, last)| {
                    // Every member is read or written for the whole of it; which one depends on the action.
                    let bytes = last.saturating_sub(first).saturating_mul(512);
                    PerOp { read: bytes, write: if a.action == "check" { 0 } else { bytes } }
                }),
            }
        }));
        if self.lazy_init.iter().any(|at| *at >= from.saturating_sub(super::OTHERS_INTERVAL) && *at <= to) {
            found.push(OtherActivity {
                kind: OtherKind::LazyInit,
                who: "ext4lazyinit, initialising inode tables".to_owned(),
                device: None,
                bytes: None,
            });
        }
        found
    }
}

impl Process {
    /// What it had moved by `at`. Readings are only kept when they change, so the last one holds until the look
    /// before the next; from there to the next one the bytes are taken to move evenly. A trial shorter than the
    /// distance of two looks lies between them as a whole.
    fn read_at(&self, at: Duration) -> Option<PerOp<u64>> {
        let next = self.readings.iter().position(|r| r.at > at);
        let held = match next {
            Some(0) => self.readings.first()?,
            Some(next) => self.readings.get(next - 1)?,
            None => self.readings.last()?,
        };
        let mut moved = PerOp { read: held.read, write: held.write };
        if let Some(next) = next.and_then(|n| self.readings.get(n)).filter(|next| next.since < at) {
            let part = (at - next.since).as_secs_f64() / (next.at - next.since).as_secs_f64();
            let share = |from: u64, to: u64| from + (to.saturating_sub(from) as f64 * part) as u64;
            moved = PerOp { read: share(held.read, next.read), write: share(held.write, next.write) };
        }
        Some(moved)
    }

    fn within(&self, pid: u32, from: Duration, to: Duration) -> Option<OtherActivity> {
        let (before, after) = (self.read_at(from)?, self.read_at(to)?);
        let bytes = PerOp {
            read: after.read.saturating_sub(before.read),
            write: after.write.saturating_sub(before.write),
        };
        if bytes.total() < LEAST_BYTES {
            return None;
        }
        let device = match &self.device {
            Some(Place::Elsewhere) => return None,
            Some(Place::Observed(name)) => Some(name.clone()),
            Some(Place::Hidden) | None => None,
        };
        let who = format!("{} (pid {pid})", self.name);
        Some(OtherActivity { kind: OtherKind::Process, who, device, bytes: Some(bytes) })
    }
}

/// File systems that rest on no block device of this host: in memory, made up by the kernel, or behind a network.
const ON_NO_DEVICE: &str = "tmpfs ramfs devtmpfs hugetlbfs proc sysfs cgroup cgroup2 devpts mqueue debugfs tracefs \
                            securityfs selinuxfs configfs pstore bpf efivarfs binfmt_misc autofs rpc_pipefs nsfs nfs nfs4 \
                            cifs smb3 9p virtiofs ceph";

/// Beginnings of the names of the kernel's own servers: NFS, SMB, iSCSI, NVMe over fabrics.
const SERVERS: &[&str] = &["nfsd", "ksmbd", "iscsi_t", "nvmet"];

/// Which of `devices` the process at `place` in procfs works on, as far as its open files tell: the uppermost that is below
/// one of them in `graph`.
fn place_of<'a>(place: &Path, devices: &[String], graph: impl FnOnce() -> &'a Graph) -> Place {
    // A thread of the kernel's works for somebody else, a loop device's or an array's for whoever uses it; a server's for
    // others than are here.
    if is_kernel_thread(place) {
        let name = sys::word(&place.join("comm")).unwrap_or_default();
        let serves = SERVERS.iter().any(|server| name.starts_with(server));
        return if serves { Place::Hidden } else { Place::Elsewhere };
    }
    let Ok(entries) = std::fs::read_dir(place.join("fd")) else { return Place::Hidden };
    let mut files = Files { graph: graph(), place, devices, mounts: None, seen: Vec::new() };
    let mut open: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .take(MOST_FILES)
        .collect();
    // What it works on it opened itself, or was given as input and output; a log is where its errors go.
    open.sort_by_key(|(fd, _)| (weight(*fd), *fd));
    for group in open.chunk_by(|a, b| weight(a.0) == weight(b.0)) {
        match files.of(group) {
            // Nothing among these is a file: those that weigh less decide.
            None => {}
            Some(place) => return place,
        }
    }
    // One whose files are all closed again may have worked anywhere.
    Place::Hidden
}

/// How little a descriptor says of what its process works on.
fn weight(fd: u32) -> u32 {
    match fd {
        0 | 1 => 1,
        2 => 2,
        _ => 0,
    }
}

/// The flag of linux/sched.h, PF_KTHREAD, in the ninth field of `/proc/PID/stat`.
fn is_kernel_thread(place: &Path) -> bool {
    let stat = sys::text(&place.join("stat")).unwrap_or_default();
    process::Stat::parse(&stat).and_then(|stat| stat.is_kernel()).unwrap_or(false)
}

/// The open files of a process.
struct Files<'a> {
    graph: &'a Graph,
    place: &'a Path,
    devices: &'a [String],
    mounts: Option<Vec<Mount>>,
    seen: Vec<DevNum>,
}

impl Files<'_> {
    /// Where these descriptors are; nothing where none of them is a file or a device.
    fn of(&mut self, descriptors: &[(u32, PathBuf)]) -> Option<Place> {
        // Whether there is something whose device cannot be told; and something whose device can be.
        let (mut hidden, mut known) = (false, false);
        for (_, path) in descriptors {
            let Ok(meta) = std::fs::metadata(path) else { continue };
            let kind = meta.file_type();
            let dev = DevNum::from_raw(if kind.is_block_device() { meta.rdev() } else { meta.dev() });
            if !(kind.is_block_device() || kind.is_file() || kind.is_dir()) || self.seen.contains(&dev) {
                continue;
            }
            self.seen.push(dev);
            let name = std::fs::read_link(path).unwrap_or_default();
            let place =
                if kind.is_block_device() { self.graph.of_device(dev) } else { self.place(dev, &name) };
            let graph = self.graph;
            let mut below = graph.all_below(&place.below.devices).into_iter().map(|at| &graph.nodes[at].name);
            let nothing = below.len() == 0;
            if let Some(name) = below.find(|name| self.devices.contains(name)) {
                return Some(Place::Observed(name.clone()));
            }
            // A file of memfd_create is on a mount that nobody sees.
            let nowhere =
                place.fstype.as_deref().is_some_and(|kind| ON_NO_DEVICE.split(' ').any(|one| one == kind))
                    || name.as_os_str().as_encoded_bytes().starts_with(b"/memfd:");
            hidden |= nothing && !nowhere;
            known |= !nothing || nowhere;
        }
        match (hidden, known) {
            (true, _) => Some(Place::Hidden),
            (false, true) => Some(Place::Elsewhere),
            (false, false) => None,
        }
    }

    /// Number and path are those of the process's own namespace.
    fn place(&mut self, dev: DevNum, path: &Path) -> graph::Place {
        let mountinfo = self.place.join("mountinfo");
        let mounts =
            self.mounts.get_or_insert_with(|| tables::mountinfo(&sys::text(&mountinfo).unwrap_or_default()));
        self.graph.of_file(dev, mounts.iter(), path)
    }
}

/// What of `others` can have been on the observed devices: who moved more in a direction than the disks below did for all has
/// moved it elsewhere.
pub(super) fn plausible(others: Vec<OtherActivity>, observed: &Observation) -> Vec<OtherActivity> {
    let all: Vec<usize> = observed.members.iter().flat_map(|member| observed.disks(member)).collect();
    others
        .into_iter()
        .filter_map(|mut other| {
            let (OtherKind::Process, Some(bytes)) = (other.kind, &mut other.bytes) else {
                return Some(other);
            };
            let at =
                other.device.as_ref().and_then(|name| observed.devices.iter().position(|d| d.name == *name));
            let mut disks = at.map_or_else(|| all.clone(), |at| observed.disks_below(&[at]));
            disks.sort_unstable();
            disks.dedup();
            let moved =
                disks.iter().filter_map(|disk| observed.devices.get(*disk)).map(|disk| disk.total.bytes);
            let moved = moved.fold(PerOp::default(), |sum: PerOp<u64>, more| PerOp {
                read: sum.read.saturating_add(more.read),
                write: sum.write.saturating_add(more.write),
            });
            for (own, all) in [(&mut bytes.read, moved.read), (&mut bytes.write, moved.write)] {
                if *own > all.saturating_add(all / 4).saturating_add(LEAST_BYTES) {
                    *own = 0;
                }
            }
            (bytes.total() >= LEAST_BYTES).then_some(other)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    const ARRAYS: &str = include_str!("../../tests/trees/arrays.tree");

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn reading(at: u64, write_mib: u64) -> Reading {
        Reading { at: seconds(at), since: seconds(at.saturating_sub(1)), read: 0, write: write_mib << 20 }
    }

    #[test]
    fn a_process_counts_for_what_it_did_within_the_window() {
        let readings = vec![reading(0, 0), reading(1, 100), reading(2, 250), reading(5, 900)];
        let process =
            Process { name: "dd".to_owned(), readings, device: Some(Place::Observed("vda".to_owned())) };
        let activity = process.within(17, seconds(1), seconds(3)).expect("activity");
        assert_eq!((activity.who.as_str(), activity.device.as_deref()), ("dd (pid 17)", Some("vda")));
        assert_eq!(activity.bytes.map(|b| b.write >> 20), Some(150));
        assert_eq!(process.within(17, seconds(6), seconds(9)), None);
    }

    /// A trial of half a second between two looks a second apart.
    #[test]
    fn a_short_window_gets_its_part_of_what_moved_between_two_looks() {
        let readings = vec![reading(1, 0), reading(2, 100)];
        let process = Process { name: "dd".to_owned(), readings, device: None };
        let (from, to) = (Duration::from_millis(1250), Duration::from_millis(1750));
        let activity = process.within(17, from, to).expect("activity");
        assert_eq!(activity.bytes.map(|b| b.write), Some(50 << 20));
        assert_eq!(process.within(17, seconds(0), seconds(1)), None);
    }

    /// A real process that has this open as its output, and that as its log. It closes what else it was given: locks of tests that run beside this
    /// one are files in memory, and stay open in what is started (`Locked`).
    fn place_with_open(file: std::fs::File, log: Option<std::fs::File>, devices: &[String]) -> Place {
        use std::process::{Command, Stdio};
        let alone = "for fd in /proc/$$/fd/*; do [ ${fd##*/} -le 2 ] || eval \"exec ${fd##*/}>&-\"; done; exec sleep 60";
        let mut child = Command::new("bash")
            .args(["-c", alone])
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(log.map_or_else(Stdio::null, Stdio::from))
            .spawn()
            .expect("sleep runs");
        let sys = Sys::host();
        let process = sys.proc.join(child.id().to_string());
        // spawn() returns when the child has its new memory; the kernel closes the files that are closed on exec after
        // that, and then sets the name. Its loader opens libraries, and locales are read: it sleeps when that is done.
        let sleeps = || {
            let stat = sys::text(&process.join("stat")).unwrap_or_default();
            stat.contains("(sleep) S ")
        };
        let until = std::time::Instant::now() + seconds(60);
        while !sleeps() {
            assert!(std::time::Instant::now() < until, "sleep has not begun after a minute");
            std::thread::yield_now();
        }
        let graph = graph::read_with(&sys, &Tables::new(&Never));
        let place = place_of(&process, devices, || &graph);
        child.kill().and_then(|()| child.wait()).expect("it ends");
        place
    }

    #[test]
    fn a_process_is_where_its_files_are_and_those_in_memory_are_on_no_disk() {
        let disk = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
        let (graph, below) = graph::below_path(&Sys::host(), disk.path()).expect("a place");
        let devices = graph.all_below(&below.below.devices).into_iter();
        let devices: Vec<String> = devices.map(|at| graph.nodes[at].name.clone()).collect();
        let opened = || disk.reopen().expect("opened");
        let here = place_with_open(opened(), None, &devices);
        // In a container the file system may have no device that /sys shows.
        match devices.first() {
            Some(first) => assert_eq!(here, Place::Observed(first.clone())),
            None => assert_eq!(here, Place::Hidden),
        }
        let memory =
            rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::empty()).expect("a memory file");
        assert_eq!(place_with_open(memory.into(), None, &devices), Place::Elsewhere);
        if let Ok(memory) = tempfile::tempfile_in("/dev/shm") {
            // Its log on the disk is not what it works on.
            assert_eq!(place_with_open(memory, Some(opened()), &devices), Place::Elsewhere);
        }
        let null = || std::fs::File::open("/dev/null").expect("opened");
        assert_eq!(place_with_open(null(), None, &devices), Place::Hidden, "it may have closed its files");
        assert_eq!(place_with_open(null(), Some(opened()), &devices), here, "there is nothing else");
    }

    /// A kworker as Linux 6.18 shows it: whatever it moves, it moves for a loop device's user.
    #[test]
    fn threads_of_the_kernel_are_nobody() {
        let root = unpack(
            "f /proc/7/stat\n|7 (kworker/u8:1-loop1) I 2 0 0 0 -1 69238880 0 0 0 0 0 12 0 0 20 0 1 0 37 0 0\n\
             f /proc/8/stat\n|8 (a) b) c) S 1 8 8 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 41 0 0\n",
        );
        assert!(is_kernel_thread(&root.path().join("proc/7")));
        assert!(!is_kernel_thread(&root.path().join("proc/8")));
        assert!(!is_kernel_thread(&root.path().join("proc/9")));
    }

    #[test]
    fn who_moved_more_than_the_disks_did_was_elsewhere() {
        use ebbtide_model::samples::{DeviceObservation, DiskUse, MemberObservation};
        let total = DiskUse { bytes: PerOp { read: 900 << 20, write: 5 << 20 }, ..DiskUse::default() };
        let observed = Observation {
            devices: vec![DeviceObservation {
                name: "vda".to_owned(),
                total,
                ..DeviceObservation::default()
            }],
            members: vec![MemberObservation { devices: vec![0], ..MemberObservation::default() }],
            ..Observation::default()
        };
        let other = |device: Option<&str>, read: u64, write: u64| OtherActivity {
            kind: OtherKind::Process,
            who: "python3 (pid 7)".to_owned(),
            device: device.map(str::to_owned),
            bytes: Some(PerOp { read: read << 20, write: write << 20 }),
        };
        let left = |other| plausible(vec![other], &observed).pop().and_then(|other| other.bytes);
        assert_eq!(left(other(Some("vda"), 0, 814)), None);
        assert_eq!(left(other(None, 0, 814)), None);
        assert_eq!(left(other(Some("vda"), 40, 814)), Some(PerOp { read: 40 << 20, write: 0 }));
        assert_eq!(left(other(Some("vda"), 40, 4)), Some(PerOp { read: 40 << 20, write: 4 << 20 }));
    }

    #[test]
    fn a_process_elsewhere_is_left_out() {
        let readings = vec![reading(0, 0), reading(1, 100)];
        let process = Process { name: "dd".to_owned(), readings, device: Some(Place::Elsewhere) };
        assert_eq!(process.within(17, seconds(0), seconds(3)), None);
    }

    /// The recorded guest resynchronises md1 (vdb2, vdc2) and has no array on vdd alone.
    #[test]
    fn a_resync_on_the_same_disk_is_named() {
        let root = unpack(ARRAYS);
        let sys = Sys::below(root.path());
        let mut others = Others::new(&sys, vec!["vdb".to_owned()], None);
        others.look(seconds(0));
        others.look(seconds(1));
        let found = others.within(seconds(0), seconds(1));
        assert!(found.iter().any(|a| a.kind == OtherKind::Resync && a.who == "md1: resync"), "{found:?}");
        let mut elsewhere = Others::new(&sys, vec!["vdd".to_owned()], None);
        elsewhere.look(seconds(0));
        assert!(elsewhere.within(seconds(0), seconds(1)).iter().all(|a| a.kind != OtherKind::Resync));
    }

    /// Made up: the kernel thread's name as it appears in /proc.
    #[test]
    fn lazy_initialisation_is_named() {
        let root = unpack("f /proc/77/comm\n|ext4lazyinit\n");
        let mut others = Others::new(&Sys::below(root.path()), Vec::new(), None);
        others.look(seconds(0));
        assert_eq!(others.within(seconds(0), seconds(1))[0].kind, OtherKind::LazyInit);
        assert!(others.within(seconds(5), seconds(6)).is_empty());
    }
}
