//! The monitor's service and timer: written, asked how they go, and taken away.

use crate::made::{Context, Engine, Failure, Now, Plan, Resource, Resources, Units};
use crate::sys::{self, Sys};
use ebbtide_model::made::{Content, Kind, Record};
use ebbtide_model::units::{Nanos, UnixTime};
use ebbtide_provision::files::Part;
use ebbtide_provision::monitor::{self, MonitorState, ProgramFile, SERVICE, TIMER, units};
use rustix::fs::statfs;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What the monitor is called: a host has one.
pub const MONITOR: &str = "monitor";
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

/// What is installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Monitoring {
    /// The units, each a file of its own.
    pub parts: Vec<Part>,
}

impl Content for Monitoring {
    const KIND: Kind = Kind::Monitor;
}

/// Installs, looks at and takes away the monitor of a host.
pub type Monitors<'a> = Engine<'a, Monitoring>;

impl Plan for Monitoring {
    const RECORDS: &'static str = "var/lib/ebbtide/monitor";
    const RESOURCES: Resources<Monitoring> = &[("units", &Service)];

    /// Earlier versions kept no record: the units say that they are theirs.
    fn find(on: &Monitors<'_>, name: &str) -> Result<Option<Record<Monitoring>>, Failure> {
        let record = on.record(name)?;
        if record.is_some() || name != MONITOR || !is_installed(&on.sys) {
            return Ok(record);
        }
        let mut record = Record::new(name, on.draw(), Monitoring { parts: units().to_vec() });
        record.whole = true;
        record.begun.insert("units".to_owned());
        Ok(Some(record))
    }
}

/// The service and the timer.
struct Service;

impl Service {
    fn of(record: &Record<Monitoring>) -> Units {
        let (enabled, fails) = (TIMER.to_owned(), SERVICE.to_owned());
        Units { parts: record.parts.clone(), enabled, is_started: true, fails }
    }
}

impl Resource<Monitoring> for Service {
    fn state(&self, on: &Monitors<'_>, record: &mut Record<Monitoring>) -> Result<Now, Failure> {
        Service::of(record).state(on)
    }

    fn make(&self, on: &Monitors<'_>, record: &mut Record<Monitoring>) -> Result<(), Failure> {
        Service::of(record).make(on)
    }

    fn unmake(
        &self,
        on: &Monitors<'_>,
        record: &Record<Monitoring>,
        _: &mut Vec<String>,
    ) -> Result<(), Failure> {
        Service::of(record).unmake(on)
    }

    fn unmaking(&self, on: &Monitors<'_>, record: &Record<Monitoring>) -> Vec<String> {
        Service::of(record).unmaking(on)
    }
}

impl Monitors<'_> {
    /// Writes `parts`, the units of a monitor, where they are not as they should be, and starts the timer; whether a file changed.
    ///
    /// # Errors
    /// When there is something else in the place of a unit, it cannot be written, or systemd does not take it.
    pub fn install(&self, parts: &[Part]) -> Result<bool, Failure> {
        if !self.has_systemd() {
            return Err(Failure::Refused(
                "systemd does not run this host: let cron or the like call `ebb monitor run --quiet`"
                    .to_owned(),
            ));
        }
        let _lock = self.lock("ebb monitor install", MONITOR, Monitoring::PATIENCE)?;
        let parts = parts.to_vec();
        let mut record = match Monitoring::find(self, MONITOR)? {
            Some(mut record) => {
                record.parts = parts;
                record
            }
            None => Record::new(MONITOR, self.draw(), Monitoring { parts }),
        };
        let units = Service::of(&record);
        let changes = !units.pending(self)?.is_empty();
        if self.make(&mut record)?.is_empty() {
            // Somebody may have stopped it.
            units.start(self)?;
        }
        Ok(changes)
    }
}

impl Context<'_> {
    /// How the monitor goes; nothing where it is not installed. What systemd does not say is not known.
    pub fn monitor(&self) -> Option<MonitorState> {
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
    use crate::made::ThisHost;
    use crate::made::tests::{Faults, Tried, Written, every_fault};
    use ebbtide_provision::monitor::{Every, Monitor, User};
    use std::cell::RefCell;
    use std::path::PathBuf;
    use std::sync::atomic::AtomicBool;

    /// A host with systemd, which remembers what was run, and says of the timer what a guest with systemd 252 said.
    struct Machine {
        root: tempfile::TempDir,
        ran: RefCell<Vec<String>>,
        faults: Faults,
        journal: Written,
    }

    impl Runner for Machine {
        fn run_with(&self, program: &str, words: &[&str], _: &[u8]) -> Result<Output, CommandError> {
            let said = match words.last().copied() {
                Some("LastTriggerUSec") => "t 1795271405000000\n",
                Some("NextElapseUSecRealtime") => "t 18446744073709551615\n",
                Some("ActiveState") => "s \"active\"\n",
                Some("ExecMainExitTimestamp") => "t 1795271406000000\n",
                Some("ExecMainStatus") => "i 1\n",
                _ => "",
            };
            if program == "systemctl" {
                self.ran.borrow_mut().push(format!("{program} {}", words.join(" ")));
            }
            let status = Some(i32::from(self.faults.program(program)?));
            Ok(Output { status, stdout: said.into(), stderr: String::new() })
        }
    }

    impl Machine {
        fn new() -> Machine {
            // Not in /tmp, where nobody's configuration is.
            let root = tempfile::tempdir_in("/var/tmp").expect("a directory");
            for directory in ["etc/systemd/system", "run/systemd/system"] {
                std::fs::create_dir_all(root.path().join(directory)).expect("makes");
            }
            let (faults, journal) = (Faults::default(), Written::default());
            Machine { root, ran: RefCell::default(), faults, journal }
        }

        fn unit(&self, name: &str) -> PathBuf {
            self.root.path().join("etc/systemd/system").join(name)
        }

        fn with<T>(&self, what: impl FnOnce(&Monitors<'_>) -> T) -> T {
            self.within(|context| what(&Engine::new(context)))
        }

        fn within<T>(&self, what: impl FnOnce(&Context<'_>) -> T) -> T {
            what(&Context {
                sys: Sys::below(self.root.path()),
                runner: self,
                host: &ThisHost,
                journal: Some(&self.journal),
                tell: &|_| {},
                stop: &AtomicBool::new(false),
                boundary: &|| {
                    self.faults.boundary(&self.root.path().join(Monitoring::RECORDS), || self.vanish())
                },
            })
        }

        fn files(&self) -> Vec<String> {
            sys::names(&self.root.path().join("etc/systemd/system"))
        }
    }

    const FOREIGN: &str = "[Unit]\nDescription=somebody's own\n";

    impl Tried for Machine {
        fn faults(&self) -> &Faults {
            &self.faults
        }

        fn journal(&self) -> &Written {
            &self.journal
        }

        fn within(&self, what: &mut dyn FnMut(&Context<'_>)) {
            Machine::within(self, what);
        }

        fn make(&self, context: &Context<'_>) -> Result<(), Failure> {
            Monitors::new(context).install(&parts(15)).map(drop)
        }

        fn undo(&self, context: &Context<'_>) -> Result<(), Failure> {
            Monitors::new(context).undo(MONITOR, false).map(drop)
        }

        fn boot(&self) {}

        fn vanish(&self) {
            let _ = std::fs::remove_file(self.unit(TIMER));
        }

        fn replace(&self) {
            std::fs::write(self.unit(SERVICE), FOREIGN).expect("writes");
        }

        fn is_intact(&self, replaced: bool, _: bool) -> bool {
            !replaced || sys::text(&self.unit(SERVICE)).is_some_and(|text| text == FOREIGN.trim_end())
        }

        fn traces(&self, _: bool) -> Vec<String> {
            let foreign = sys::text(&self.unit(SERVICE)).is_some_and(|text| text == FOREIGN.trim_end());
            let units = self.files().into_iter().filter(|name| !foreign || name != SERVICE);
            let records = sys::names(&self.root.path().join(Monitoring::RECORDS));
            units.chain(records.into_iter().filter(|name| name.ends_with(".json"))).collect()
        }
    }

    #[test]
    fn no_fault_leaves_what_nobody_can_take_away() {
        let came = every_fault(Machine::new);
        assert!(came > 20, "{came}");
    }

    fn parts(minutes: u64) -> Vec<Part> {
        let every = Every::of(Nanos::from_secs(minutes * 60)).expect("divides");
        let user = User::Dynamic(vec!["disk".to_owned()]);
        Monitor { program: Path::new("/usr/bin/ebb"), every, user, volumes: Vec::new(), metrics: None }
            .parts()
    }

    #[test]
    fn what_is_installed_is_started_told_and_taken_away() {
        let machine = Machine::new();
        let install = |minutes| machine.with(|monitors| monitors.install(&parts(minutes)));
        assert_eq!(machine.with(|monitors| monitors.monitor()), None);
        assert_eq!(install(15), Ok(true));
        assert_eq!((install(15), install(30)), (Ok(false), Ok(true)), "only what changed is written");
        assert_eq!(machine.files(), [SERVICE, TIMER]);
        assert_eq!(machine.ran.borrow()[..3], AFTER_INSTALL.map(|words| words.join(" ")));
        let now = machine.with(|monitors| monitors.monitor()).expect("installed");
        let last = Some(UnixTime::from_secs(1_795_271_405));
        assert_eq!(now, MonitorState { last, next: None, active: true, last_exit_status: Some(1) });
        // One that an earlier version installed has no record. What somebody else has beside it stays.
        std::fs::remove_dir_all(machine.root.path().join(Monitoring::RECORDS)).expect("removes");
        std::fs::write(machine.unit("other.timer"), "[Timer]\n").expect("writes");
        let (gone, _) = machine.with(|monitors| monitors.undo(MONITOR, false)).expect("removes");
        assert_eq!((gone.parts.len(), machine.files()), (2, vec!["other.timer".to_owned()]));
        let again = machine.with(|monitors| monitors.undo(MONITOR, false)).expect_err("is gone").to_string();
        assert!(again.contains("there is no monitor"), "{again}");
    }

    #[test]
    fn a_unit_of_somebody_elses_and_a_host_without_systemd_are_left_alone() {
        let machine = Machine::new();
        std::fs::write(machine.unit(SERVICE), FOREIGN).expect("writes");
        let installed = machine.with(|monitors| monitors.install(&parts(15)));
        assert!(matches!(installed, Err(Failure::File { .. })), "{installed:?}");
        machine.with(|monitors| monitors.undo(MONITOR, false)).expect_err("is not ebb's");
        assert_eq!(machine.files(), [SERVICE]);
        std::fs::remove_dir(machine.root.path().join("run/systemd/system")).expect("removes");
        let installed = machine.with(|monitors| monitors.install(&parts(15)));
        assert!(matches!(installed, Err(Failure::Refused(why)) if why.contains("cron")));
        assert_eq!(*machine.ran.borrow(), Vec::<String>::new());
    }
}
