//! The units of `ebb monitor install`: written, asked, taken away.
//!
//! They have names and a first line of their own, so that the files themselves say what was written: whatever a kill leaves, the same
//! command goes on from there, and so does taking away.

use super::{Failure, Keeper};
use crate::sys::{self, Sys};
use ebbtide_door::own;
use ebbtide_model::shown::Shown;
use ebbtide_model::units::{Nanos, UnixTime};
use ebbtide_provision::files::Part;
use ebbtide_provision::monitor::{self, MonitorState, ProgramFile, SERVICE, TIMER, units};
use rustix::fs::statfs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What [`Part`]s of units are called.
const NAME: &str = "monitor";
/// File systems in memory (statfs(2)): tmpfs, ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58F6];

/// What has to be run after the units were written.
pub const AFTER_INSTALL: [&[&str]; 3] =
    [&["systemctl", "daemon-reload"], &["systemctl", "enable", TIMER], &["systemctl", "restart", TIMER]];

/// What the file or directory `path` is, for [`monitor::check_program`].
pub fn found(path: &Path) -> Option<ProgramFile> {
    let of = std::fs::symlink_metadata(path).ok()?;
    let kind = statfs(path).ok()?.f_type;
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss)] // Its type is another one on other processors.
    let in_memory = IN_MEMORY.contains(&(kind as u64));
    Some(ProgramFile { owner: of.uid(), mode: of.mode(), in_memory })
}

/// Whether the monitor is installed on the host of `sys`.
pub fn is_installed(sys: &Sys) -> bool {
    let [_, timer] = units();
    sys::text(&sys.at(&timer.path)).is_some_and(|text| monitor::is_installed(&text))
}

impl Keeper<'_> {
    /// Whether the host has systemd.
    ///
    /// # Errors
    /// That it has not, and what to do.
    pub fn needs_systemd(&self) -> Result<(), Failure> {
        if self.sys.at(Path::new("/run/systemd/system")).exists() {
            return Ok(());
        }
        Err(Failure::Refused(
            "systemd does not run this host: let cron or the like call `ebb monitor run --quiet`".to_owned(),
        ))
    }

    /// Writes `parts`, the units of a monitor, where they are not as they should be, and starts the timer; how many files changed.
    ///
    /// # Errors
    /// When there is something else in the place of a unit, it cannot be written, or systemd does not take it.
    pub fn install_monitor(&self, parts: &[Part]) -> Result<usize, Failure> {
        self.needs_systemd()?;
        let mut pending = Vec::new();
        for part in parts {
            let now = self.text(&part.path)?;
            let wanted = part.put(NAME, now.as_deref(), &[])?;
            if now.as_deref() != Some(wanted.as_str()) {
                pending.push(part);
            }
        }
        for part in &pending {
            self.next()?;
            (self.tell)(&format!("write {}", part.path.shown()));
            self.replace(part, &|now| Ok(part.put(NAME, now, &[])?))?;
        }
        self.next()?;
        let after: Vec<Vec<String>> = AFTER_INSTALL.iter().map(|words| owned(words)).collect();
        self.after(&after)?;
        Ok(pending.len())
    }

    /// Stops the timer and takes away the units that [`install_monitor`](Self::install_monitor) wrote, and nothing else; which files went.
    /// What was measured stays.
    ///
    /// # Errors
    /// When systemd does not stop the timer, or a file cannot be removed.
    pub fn remove_monitor(&self) -> Result<Vec<String>, Failure> {
        let there = self.monitor_units()?;
        if there.is_empty() {
            return Ok(Vec::new());
        }
        self.next()?;
        let has_systemd = self.needs_systemd().is_ok();
        if has_systemd && there.iter().any(|part| part.path.ends_with(TIMER)) {
            self.after(&[owned(&["systemctl", "disable", "--now", TIMER])])?;
            // When it last ran, which a persistent timer keeps (systemd.timer(5)); older ones cannot be told to forget.
            let _ = self.runner.run("systemctl", &["clean", "--what=state", TIMER]);
        }
        let mut gone = Vec::new();
        for part in there.iter().rev() {
            self.next()?;
            (self.tell)(&format!("remove {}", part.path.shown()));
            own::remove(&self.sys.at(&part.path)).map_err(|error| Failure::file(&part.path, error))?;
            gone.push(part.path.to_string_lossy().into_owned());
        }
        if has_systemd {
            self.after(&[owned(&["systemctl", "daemon-reload"])])?;
            // A last pass that failed would be listed for ever.
            let _ = self.runner.run("systemctl", &["reset-failed", SERVICE]);
        }
        Ok(gone)
    }

    /// The units that [`install_monitor`](Self::install_monitor) wrote, of those that are there.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn monitor_units(&self) -> Result<Vec<Part>, Failure> {
        let mut there = Vec::new();
        for part in units() {
            let now = self.text(&part.path)?;
            if let Some(now) = now
                && part.take(NAME, &now, &[])?.is_none()
            {
                there.push(part);
            }
        }
        Ok(there)
    }

    /// How the monitor goes; nothing where it is not installed. What systemd does not say is not known.
    pub fn monitor_now(&self) -> Option<MonitorState> {
        if !is_installed(&self.sys) {
            return None;
        }
        let ask = |unit: &str, interface: &str, property: &str| {
            let interface = format!("org.freedesktop.systemd1.{interface}");
            let path = format!("/org/freedesktop/systemd1/unit/{}", escaped(unit));
            let words = ["get-property", "org.freedesktop.systemd1", &path, &interface, property];
            let said = self.runner.run("busctl", &words).ok().filter(|said| said.status == Some(0))?;
            said.text().trim().split_once(' ').map(|(_, value)| value.trim_matches('"').to_owned())
        };
        let time = |property| instant(&ask(TIMER, "Timer", property)?);
        let ended = ask(SERVICE, "Service", "ExecMainExitTimestamp").and_then(|text| instant(&text));
        let status = || ask(SERVICE, "Service", "ExecMainStatus")?.parse().ok();
        Some(MonitorState {
            last: time("LastTriggerUSec"),
            next: time("NextElapseUSecRealtime"),
            active: ask(TIMER, "Unit", "ActiveState").as_deref() == Some("active"),
            last_exit_status: ended.and_then(|_| status()),
        })
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// A time of systemd's: microseconds since the epoch, 0 and the largest number for none.
fn instant(text: &str) -> Option<UnixTime> {
    let micros: u64 = text.parse().ok().filter(|micros| *micros != 0 && *micros != u64::MAX)?;
    micros.checked_mul(1000).map(|nanos| UnixTime(Nanos(nanos).0))
}

/// A unit's name as a part of its object's path (sd_bus_path_encode(3)).
fn escaped(unit: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    let escape = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("_{byte:02x}") };
    unit.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{CommandError, Output, Runner};
    use ebbtide_provision::monitor::{Every, Monitor, User};
    use std::cell::{Cell, RefCell};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;

    /// Remembers what was run, and says of the timer what a guest with systemd 252 said.
    #[derive(Default)]
    struct Systemd(RefCell<Vec<String>>);

    impl Runner for Systemd {
        fn run_with(&self, program: &str, words: &[&str], _: &[u8]) -> Result<Output, CommandError> {
            let line = format!("{program} {}", words.join(" "));
            let said = match words.last().copied() {
                Some("LastTriggerUSec") => "t 1795271405000000\n",
                Some("NextElapseUSecRealtime") => "t 18446744073709551615\n",
                Some("ActiveState") => "s \"active\"\n",
                Some("ExecMainExitTimestamp") => "t 1795271406000000\n",
                Some("ExecMainStatus") => "i 1\n",
                _ => "",
            };
            if program == "systemctl" {
                self.0.borrow_mut().push(line);
            }
            Ok(Output { status: Some(0), stdout: said.into(), stderr: String::new() })
        }
    }

    fn host() -> tempfile::TempDir {
        // Not in /tmp, where nobody's configuration is.
        let root = tempfile::tempdir_in("/var/tmp").expect("a directory");
        for directory in ["etc/systemd/system", "run/systemd/system"] {
            std::fs::create_dir_all(root.path().join(directory)).expect("makes");
        }
        root
    }

    /// What is done with the keeper of the host below `root`; ended at the boundary of number `halt`.
    fn keep<T>(root: &Path, runner: &Systemd, halt: usize, what: impl FnOnce(&Keeper<'_>) -> T) -> Option<T> {
        let left = Cell::new(halt);
        let boundary = || match left.get() {
            0 => std::panic::panic_any(()),
            more => left.set(more - 1),
        };
        let stop = AtomicBool::new(false);
        let keeper = Keeper {
            sys: Sys::below(root),
            runner,
            may_build: &|_, _| Ok(()),
            tell: &|_| {},
            stop: &stop,
            boundary: &boundary,
        };
        catch_unwind(AssertUnwindSafe(|| what(&keeper))).ok()
    }

    fn parts(minutes: u64) -> Vec<Part> {
        let every = Every::of(Nanos::from_secs(minutes * 60)).expect("divides");
        let user = User::Dynamic(vec!["disk".to_owned()]);
        Monitor { program: Path::new("/usr/bin/ebb"), every, user, volumes: Vec::new(), metrics: None }
            .parts()
    }

    fn files(root: &Path) -> Vec<String> {
        sys::names(&root.join("etc/systemd/system"))
    }

    const NEVER: usize = usize::MAX;

    #[test]
    fn what_is_installed_is_started_told_and_taken_away() {
        let (root, systemd) = (host(), Systemd::default());
        let root = root.path();
        let install = |minutes| {
            keep(root, &systemd, NEVER, |keeper| keeper.install_monitor(&parts(minutes))).expect("ends")
        };
        assert_eq!(keep(root, &systemd, NEVER, |keeper| keeper.monitor_now()), Some(None));
        assert_eq!(install(15), Ok(2));
        assert_eq!((install(15), install(30)), (Ok(0), Ok(1)), "only what changed is written");
        assert_eq!(files(root), [SERVICE, TIMER]);
        assert_eq!(systemd.0.borrow()[..3], AFTER_INSTALL.map(|words| words.join(" ")));
        let now = keep(root, &systemd, NEVER, |keeper| keeper.monitor_now()).flatten().expect("installed");
        let last = Some(UnixTime::from_secs(1_795_271_405));
        assert_eq!(now, MonitorState { last, next: None, active: true, last_exit_status: Some(1) });
        // What somebody else has beside it stays.
        let foreign = root.join("etc/systemd/system/other.timer");
        std::fs::write(&foreign, "[Timer]\n").expect("writes");
        let gone =
            keep(root, &systemd, NEVER, |keeper| keeper.remove_monitor()).expect("ends").expect("removes");
        assert_eq!(gone.len(), 2);
        assert_eq!(files(root), ["other.timer"]);
        assert_eq!(keep(root, &systemd, NEVER, |keeper| keeper.remove_monitor()), Some(Ok(Vec::new())));
    }

    #[test]
    fn a_kill_anywhere_leaves_what_either_command_ends() {
        for halt in 0..12 {
            for first_install in [true, false] {
                let (root, systemd) = (host(), Systemd::default());
                let root = root.path();
                if !first_install {
                    keep(root, &systemd, NEVER, |keeper| keeper.install_monitor(&parts(15)));
                }
                keep(root, &systemd, halt, |keeper| match first_install {
                    true => keeper.install_monitor(&parts(15)).map(drop),
                    false => keeper.remove_monitor().map(drop),
                });
                let installed = keep(root, &systemd, NEVER, |keeper| keeper.install_monitor(&parts(15)));
                assert!(matches!(installed, Some(Ok(_))) && files(root) == [SERVICE, TIMER], "{halt}");
                keep(root, &systemd, halt, |keeper| keeper.remove_monitor().map(drop));
                let removed = keep(root, &systemd, NEVER, |keeper| keeper.remove_monitor());
                assert!(matches!(removed, Some(Ok(_))) && files(root).is_empty(), "{halt}");
            }
        }
    }

    #[test]
    fn a_unit_of_somebody_elses_and_a_host_without_systemd_are_left_alone() {
        let (root, systemd) = (host(), Systemd::default());
        let unit = root.path().join("etc/systemd/system").join(SERVICE);
        std::fs::write(&unit, "[Service]\n").expect("writes");
        let installed = keep(root.path(), &systemd, NEVER, |keeper| keeper.install_monitor(&parts(15)));
        assert!(matches!(installed, Some(Err(Failure::File { .. }))), "{installed:?}");
        let removed = keep(root.path(), &systemd, NEVER, |keeper| keeper.remove_monitor());
        assert_eq!((removed, files(root.path())), (Some(Ok(Vec::new())), vec![SERVICE.to_owned()]));
        std::fs::remove_dir(root.path().join("run/systemd/system")).expect("removes");
        let installed = keep(root.path(), &systemd, NEVER, |keeper| keeper.install_monitor(&parts(15)));
        assert!(matches!(installed, Some(Err(Failure::Refused(why))) if why.contains("cron")));
        assert_eq!(*systemd.0.borrow(), Vec::<String>::new());
    }
}
