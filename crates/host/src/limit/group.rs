//! A control group of one's own: made, entered, limited, held, read and removed (Documentation/admin-guide/cgroup-v2.rst).

use crate::observe::group_limits::counted;
use crate::observe::waits::directory;
use crate::probe::tables;
use crate::sys::{self, Sys};
use ebbtide_door::kernel;
use ebbtide_model::limit::{Counts, Kind, Limits};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The file of the kernel's limits.
pub const MAX: &str = "io.max";
/// How long is waited for processes that were moved, or are ending, to leave a group.
const PATIENCE: Duration = Duration::from_secs(2);

/// A hierarchy in which groups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Version 1's of this controller, or version 2.
    pub controller: Option<&'static str>,
    /// The group in which others are made: the uppermost that is visible.
    pub top: PathBuf,
    /// The group that this process is in.
    pub own: PathBuf,
}

impl Hierarchy {
    /// Version 2, then version 1's of `cpu`, where they are mounted.
    pub fn all(sys: &Sys) -> Vec<Hierarchy> {
        let mounts = tables::mounts_of(sys);
        let own = sys::text(&sys.proc.join("self/cgroup")).unwrap_or_default();
        let of = |controller: Option<&'static str>| {
            let (own, top) = directory(sys, &mounts, &own, controller)?;
            Some(Hierarchy { controller, top, own })
        };
        [None, Some("cpu")].into_iter().filter_map(of).collect()
    }
}

/// Whole devices that nothing stands on, by number: what goes to a device below others is counted above.
pub fn devices(sys: &Sys) -> Vec<String> {
    let block = sys.sys.join("block");
    let is_top = |place: &PathBuf| {
        sys::number::<u64>(&place.join("size")).is_some_and(|sectors| sectors > 0)
            && sys::names(&place.join("holders")).is_empty()
    };
    let places = sys::names(&block).into_iter().map(|name| block.join(name));
    places.filter(is_top).filter_map(|place| sys::word(&place.join("dev"))).collect()
}

/// A group that was made.
#[derive(Debug)]
pub struct Group {
    /// Its directory.
    pub path: PathBuf,
    /// The group that who is left in it goes on in.
    home: PathBuf,
    /// Devices that are limited in it.
    pub limited: Vec<String>,
    /// Bytes written in a second, as it is set.
    writes: Option<u64>,
}

impl Group {
    /// Makes the group `path` in the uppermost one of `hierarchy`.
    ///
    /// # Errors
    /// When this user may not, or there is one.
    pub fn make(path: &Path, hierarchy: Hierarchy) -> io::Result<Group> {
        kernel::make_group(path)?;
        Ok(Group { path: path.to_owned(), home: hierarchy.own, limited: Vec::new(), writes: None })
    }

    /// Sets `limits` of storage on those of `devices` that take them.
    ///
    /// # Errors
    /// Why none does.
    pub fn limit(&mut self, limits: &Limits, devices: &[String]) -> io::Result<()> {
        let mut refused = ErrorKind::NotFound.into();
        let value =
            |key, value: Option<u64>| value.map(|value| format!(" {key}={value}")).unwrap_or_default();
        let line = value("rbps", limits.of(Kind::Read)) + &value("wbps", limits.of(Kind::Write));
        for device in devices {
            match kernel::write_attribute(&self.path.join(MAX), &format!("{device}{line}"), false) {
                Ok(()) => self.limited.push(device.clone()),
                Err(error) => refused = error,
            }
        }
        self.writes = limits.of(Kind::Write);
        if self.limited.is_empty() { Err(refused) } else { Ok(()) }
    }

    /// Lets it write this many bytes in a second to each device that is limited.
    pub fn let_write(&mut self, limit: u64) {
        if self.writes.replace(limit) != Some(limit) {
            for device in &self.limited {
                // What cannot be set is held twice.
                let _ =
                    kernel::write_attribute(&self.path.join(MAX), &format!("{device} wbps={limit}"), false);
            }
        }
    }

    /// What it has passed to the devices that are limited.
    pub fn counts(&self) -> Counts {
        let each = self.limited.iter().filter_map(|device| counted(&self.path, true, device));
        each.fold(Counts::default(), |sum, [_, _, read, written]| sum.plus(Counts([read, written, 0])))
    }

    /// Removes it.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        clear(&self.path, &self.home)
    }
}

const PROCESSES: &str = "cgroup.procs";

/// How all that is in a group is made to stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brake {
    /// It gets the least of the processor that the kernel gives: a thousandth. No call is interrupted.
    Processor,
    /// It is frozen, version 1 or 2, as by a signal: a call that is under way may end early.
    Freezer,
}

/// Files with what makes a group stand still and what lets it go on, the best first.
const BRAKES: [(&str, Brake, &str, &str); 3] = [
    ("cpu.max", Brake::Processor, "1000 1000000", "max 100000"),
    ("cpu.cfs_quota_us", Brake::Processor, "1000", "-1"),
    ("cgroup.freeze", Brake::Freezer, "1", "0"),
];
/// Where version 1 has the time in which the quota is used; the longest that it takes, in microseconds.
const PERIOD_OF_ONE: (&str, &str) = ("cpu.cfs_period_us", "1000000");

/// The best of them that the group `path` has.
fn best(path: &Path) -> Option<&'static (&'static str, Brake, &'static str, &'static str)> {
    BRAKES.iter().find(|(file, ..)| path.join(file).exists())
}

/// The way in which the group `path` can be made to stand still.
pub fn brake(path: &Path) -> Option<Brake> {
    best(path).map(|(_, brake, ..)| *brake)
}

/// Makes all that is in the group `path` stand still, or lets it go on.
///
/// # Errors
/// When the group is gone, it has no brake, or the kernel refuses.
pub fn hold(path: &Path, holds: bool) -> io::Result<()> {
    let (file, _, stop, go) = best(path).ok_or(ErrorKind::NotFound)?;
    let (period, longest) = PERIOD_OF_ONE;
    if holds && path.join(period).exists() {
        kernel::write_attribute(&path.join(period), longest, false)?;
    }
    kernel::write_attribute(&path.join(file), if holds { stop } else { go }, false)
}

/// The processes in the group `path` itself.
pub fn processes(path: &Path) -> Vec<u32> {
    let list = sys::text(&path.join(PROCESSES)).unwrap_or_default();
    list.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Removes the group `path`; who is still in it goes on in the one above. Whether there was one.
///
/// # Errors
/// When it cannot be removed.
pub fn remove(path: &Path) -> io::Result<bool> {
    remove_to(path, path.parent().unwrap_or(path))
}

/// The same; they go on in `home`.
///
/// # Errors
/// As [`remove`].
pub fn remove_to(path: &Path, home: &Path) -> io::Result<bool> {
    match kernel::is_group(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
        Ok(_) => clear(path, home).map(|()| true),
    }
}

fn clear(path: &Path, home: &Path) -> io::Result<()> {
    if brake(path).is_some() {
        hold(path, false)?;
    }
    let begin = Instant::now();
    loop {
        for below in sys::names(path).into_iter().map(|name| path.join(name)).filter(|below| below.is_dir()) {
            clear(&below, home)?;
        }
        let home = if home.exists() { home } else { path.parent().unwrap_or(home) };
        for process in processes(path) {
            // One that has ended meanwhile needs no other group.
            let _ = kernel::write_attribute(&home.join(PROCESSES), &process.to_string(), false);
        }
        match kernel::remove_group(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ResourceBusy && begin.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    #[test]
    fn both_versions_are_found_where_they_are_mounted() {
        let root = unpack(
            "f /proc/self/mountinfo\n|33 31 0:30 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
             |41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n\
             f /proc/self/cgroup\n|7:cpu:/load\n|0::/user.slice\n",
        );
        let found = Hierarchy::all(&Sys::below(root.path()));
        let place = |path: &str| root.path().join("sys/fs/cgroup").join(path);
        assert_eq!(
            found[0],
            Hierarchy { controller: None, top: place("unified"), own: place("unified/user.slice") }
        );
        assert_eq!(
            found[1],
            Hierarchy { controller: Some("cpu"), top: place("cpu"), own: place("cpu/load") }
        );
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn what_stands_on_nothing_else_s_behalf_is_limited() {
        let root = unpack(
            "f /sys/block/vda/dev\n|254:0\nf /sys/block/vda/size\n|8\nd /sys/block/vda/holders\n\
             f /sys/block/vdb/dev\n|254:16\nf /sys/block/vdb/size\n|8\nf /sys/block/vdb/holders/md0\n|\n\
             f /sys/block/md0/dev\n|9:0\nf /sys/block/md0/size\n|8\nd /sys/block/md0/holders\n\
             f /sys/block/loop0/dev\n|7:0\nf /sys/block/loop0/size\n|0\n",
        );
        assert_eq!(devices(&Sys::below(root.path())), ["9:0", "254:0"]);
    }

    #[test]
    fn what_is_no_group_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(!remove(&directory.path().join("gone")).expect("is gone"));
        assert!(remove(directory.path()).is_err() && directory.path().exists());
    }
}
