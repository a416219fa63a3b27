//! A control group of one's own: made, entered, held and removed (Documentation/admin-guide/cgroup-v2.rst).

use crate::limit::tree::is_realtime;
use crate::observe::waits::directory;
use crate::probe::tables;
use crate::sys::{self, Sys};
use ebbtide_door::kernel;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long is waited for processes that were moved, or are ending, to leave a group.
const PATIENCE: Duration = Duration::from_secs(2);
const PROCESSES: &str = "cgroup.procs";
/// The first version that takes the processor from a task only on its way out of the kernel. An earlier one may stop it while it holds a
/// lock of the kernel's, or a file system's journal, for which neighbours then wait.
const THROTTLES_OUTSIDE: (u32, u32) = (6, 18);

/// How all that is in a group is made to stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// It gets the least of the processor that the kernel gives: a thousandth. No call is interrupted.
    Processor,
    /// It is frozen, as by a signal: a call that is under way may end early.
    Freezer,
}

/// The means with version 1's controller or version 2, the file, and what is written there to stop and to go on.
type Brake = (Means, Option<&'static str>, &'static str, &'static str, &'static str);
/// The best first.
const BRAKES: [Brake; 3] = [
    (Means::Processor, None, "cpu.max", "1000 1000000", "max 100000"),
    (Means::Processor, Some("cpu"), "cpu.cfs_quota_us", "1000", "-1"),
    (Means::Freezer, None, "cgroup.freeze", "1", "0"),
];
/// Where version 1 has the time in which the quota is used; the longest that it takes, in microseconds.
const PERIOD_OF_ONE: (&str, &str) = ("cpu.cfs_period_us", "1000000");

/// This process's group and the uppermost one that is visible, of version 2 or of a version 1's `controller`.
fn groups(sys: &Sys, controller: Option<&str>) -> Option<(PathBuf, PathBuf)> {
    let own = sys::text(&sys.proc.join("self/cgroup")).unwrap_or_default();
    directory(sys, &tables::mounts_of(sys), &own, controller)
}

/// Takes this process out of whatever unit it is in, where it may: one that is stopped ends all that is in its group.
pub fn leave_unit(sys: &Sys) {
    for (_, top) in [None, Some("name=systemd")].into_iter().filter_map(|one| groups(sys, one)) {
        // Who may not has nowhere else to be.
        let _ = kernel::write_attribute(&top.join(PROCESSES), "0", false);
    }
}

/// A group that can be made to stand still.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its directory.
    pub path: PathBuf,
    /// The group that who is left in it goes on in.
    pub home: PathBuf,
    brake: &'static Brake,
}

impl Group {
    /// Those called `name` that could be made here, the best first.
    pub fn possible(sys: &Sys, name: &str) -> Vec<Group> {
        let release = sys::word(&sys.proc.join("sys/kernel/osrelease")).unwrap_or_default();
        let mut numbers =
            release.split(|letter: char| !letter.is_ascii_digit()).map_while(|part| part.parse().ok());
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let may = |brake: &&Brake| brake.0 == Means::Freezer || version >= THROTTLES_OUTSIDE;
        let group = |brake: &'static Brake| {
            let (home, top) = groups(sys, brake.1)?;
            Some(Group { path: top.join(name), home, brake })
        };
        BRAKES.iter().filter(may).filter_map(group).collect()
    }

    /// How it is made to stand still.
    pub fn means(&self) -> Means {
        self.brake.0
    }

    /// Makes it.
    ///
    /// # Errors
    /// When this user may not, there is one, or it cannot be made to stand still.
    pub fn make(&self) -> io::Result<()> {
        kernel::make_group(&self.path)?;
        let (period, longest) = PERIOD_OF_ONE;
        let ready = match self.brake.1 {
            Some(_) => kernel::write_attribute(&self.path.join(period), longest, false),
            None => Ok(()),
        };
        // As nobody is in it yet, going on changes nothing.
        ready.and_then(|()| self.hold(false)).inspect_err(|_| drop(kernel::remove_group(&self.path)))
    }

    /// Makes all that is in it stand still, or lets it go on.
    ///
    /// # Errors
    /// When it is gone, or the kernel refuses.
    pub fn hold(&self, holds: bool) -> io::Result<()> {
        let (.., file, stop, go) = self.brake;
        kernel::write_attribute(&self.path.join(file), if holds { stop } else { go }, false)
    }

    /// The processes that it makes stand still: what is realtime does not share the processor.
    pub fn held(&self, sys: &Sys) -> Vec<u32> {
        let is_held = |pid: &u32| self.means() == Means::Freezer || !is_realtime(sys, *pid);
        processes(&self.path).into_iter().filter(is_held).collect()
    }
}

/// The processes in the group `path` itself.
fn processes(path: &Path) -> Vec<u32> {
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
    for (.., file, _, go) in BRAKES.iter().filter(|(.., file, _, _)| path.join(file).exists()) {
        kernel::write_attribute(&path.join(file), go, false)?;
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
    fn the_processor_is_taken_only_where_that_stops_nobody_in_the_kernel() {
        let possible = |release: &str| {
            let root = unpack(&format!(
                "f /proc/self/mountinfo\n|33 31 0:30 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                 |41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n\
                 f /proc/self/cgroup\n|7:cpu:/load\n|0::/user.slice\n\
                 f /proc/sys/kernel/osrelease\n|{release}\n"
            ));
            let place = root.path().join("sys/fs/cgroup");
            let found = Group::possible(&Sys::below(root.path()), "g");
            let short =
                |path: &PathBuf| path.strip_prefix(&place).expect("below").to_string_lossy().into_owned();
            found.iter().map(|one| (one.means(), short(&one.path), short(&one.home))).collect::<Vec<_>>()
        };
        let row = |means, path: &str, home: &str| (means, path.to_owned(), home.to_owned());
        let two = |means| row(means, "unified/g", "unified/user.slice");
        let all = [two(Means::Processor), row(Means::Processor, "cpu/g", "cpu/load"), two(Means::Freezer)];
        for release in ["6.18.0", "6.18.44-fc-v657", "7.0.1-2-amd64"] {
            assert_eq!(possible(release), all, "{release}");
        }
        for release in ["6.17.13+deb13-amd64", "5.14.0-503.el9.x86_64", "4.18.0", "?"] {
            assert_eq!(possible(release), [two(Means::Freezer)], "{release}");
        }
    }

    #[test]
    fn what_is_no_group_is_left_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        assert!(!remove(&directory.path().join("gone")).expect("is gone"));
        assert!(remove(directory.path()).is_err() && directory.path().exists());
    }
}
