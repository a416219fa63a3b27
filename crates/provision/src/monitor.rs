//! The service and the timer of `ebb monitor install`: a pass over volumes, again and again, with as few rights as it needs.

use crate::files::Part;
use ebbtide_model::civil::Civil;
use ebbtide_model::units::{Nanos, UnixTime};
use serde::{Serialize, Serializer};
use std::fmt;
use std::path::Path;

/// The unit of a pass.
pub const SERVICE: &str = "ebbtide-monitor.service";
/// The unit that starts it.
pub const TIMER: &str = "ebbtide-monitor.timer";
/// Where passes are kept: the service's state directory (systemd.exec(5)), which for a dynamic user is a link into /var/lib/private.
pub const DIRECTORY: &str = "/var/lib/ebbtide-monitor";
/// The SQLite store in it.
pub const STORE: &str = "/var/lib/ebbtide-monitor/store.sqlite";
/// What keeps passes from reading while it exists.
pub const PAUSE: &str = "/var/lib/ebbtide-monitor/pause";
/// Where units of the host's own are.
const UNITS: &str = "/etc/systemd/system";
/// First line of both.
const MARK: &str = "# ebb: monitor (written by `ebb monitor install`; `ebb undo monitor` removes it)\n";
/// A pass takes at most three seconds for each volume; one that takes longer than this hangs.
const LONGEST_S: u32 = 900;

/// How the installed monitor goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct MonitorState {
    /// When the timer last started a pass; nothing where it has not yet, or does not run.
    #[serde(serialize_with = "rfc3339")]
    pub last: Option<UnixTime>,
    /// When it does next.
    #[serde(serialize_with = "rfc3339")]
    pub next: Option<UnixTime>,
    /// Whether the timer runs.
    pub active: bool,
    /// Exit status of the last pass since the host was started; nothing where there is none.
    pub last_exit_status: Option<i32>,
}

fn rfc3339<S: Serializer>(at: &Option<UnixTime>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(|at| Civil::from_unix(at).rfc3339()).serialize(serializer)
}

impl MonitorState {
    /// Whether nobody need look after it.
    pub fn is_well(&self) -> bool {
        self.active && self.last_exit_status.is_none_or(|status| status == 0)
    }

    /// How it goes, for people.
    pub fn text(&self) -> String {
        if !self.active {
            return format!("installed, and {TIMER} does not run: `systemctl start {TIMER}` starts it\n");
        }
        let failed = match self.last_exit_status {
            Some(status) if status != 0 => {
                format!(" with exit status {status} (`journalctl -u {SERVICE}` says why)")
            }
            _ => String::new(),
        };
        let said = |at: UnixTime| Civil::from_unix(at).to_string();
        let last = self.last.map_or_else(|| "never".to_owned(), |last| format!("{}{failed}", said(last)));
        let next = self.next.map_or_else(|| "not known".to_owned(), said);
        format!("installed as {TIMER}: last run {last}, next {next}\n")
    }
}

/// Why something is not installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MonitorError {
    /// A time between passes that no calendar has.
    #[error(
        "every {0} is no time between passes: write 5, 6, 10, 12, 15, 20 or 30 min, 1, 2, 3, 4, 6, 8 or 12 h, or 24 h"
    )]
    Every(Nanos),
    /// A program that may not be there, or not be the same, when it is to run.
    #[error(
        "{path} {what}; install it where only root writes, for example with `install -m 755 {path} /usr/local/bin/ebb`, and call that one"
    )]
    Program {
        /// Where the program is.
        path: String,
        /// What is wrong with it.
        what: String,
    },
    /// A name that no user has.
    #[error("`{0}` is no user's name: letters, digits, `_`, `-` and `.`, a letter or `_` first")]
    User(String),
    /// Nobody but its owner may read a volume.
    #[error(
        "{0} can be read by its owner alone, no group may: say who measures with `--user`, for example `--user root`"
    )]
    Closed(String),
    /// What is measured is no device.
    #[error(
        "{0} is no block device: what is measured for years is a device that is found again, whatever it is called then"
    )]
    NoDevice(String),
    /// Figures that nobody could write.
    #[error(
        "{0} cannot be written by a user that exists only while a pass runs: say who writes it with `--user`, for example `--user prometheus`"
    )]
    Metrics(String),
    /// A device without anything that stays the same.
    #[error(
        "{0} has no serial number, id or the like by which it would be found after a reboot; leave the volumes out, and all disks but that of the root file system are measured"
    )]
    Unstable(String),
}

/// The time between two passes: one that divides an hour or a day, so that passes fall on the same times every day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Every(u64);

impl Every {
    /// Minutes that divide an hour, and hours that divide a day. With less than five minutes passes would take more than 1% of a volume's
    /// time.
    const MINUTES: [u64; 15] = [5, 6, 10, 12, 15, 20, 30, 60, 120, 180, 240, 360, 480, 720, 1440];

    /// That of `time`.
    ///
    /// # Errors
    /// When it divides neither an hour nor a day, or is less than five minutes.
    pub fn of(time: Nanos) -> Result<Every, MonitorError> {
        let minutes = Every::MINUTES.into_iter().find(|minutes| time == Nanos::from_secs(minutes * 60));
        minutes.map(Every).ok_or(MonitorError::Every(time))
    }

    /// The same time in seconds.
    pub fn seconds(self) -> u64 {
        self.0 * 60
    }

    /// As OnCalendar= has it (systemd.time(7)).
    fn calendar(self) -> String {
        match self.0 {
            1440 => "*-*-* 00:00:00".to_owned(),
            60 => "*-*-* *:00:00".to_owned(),
            minutes if minutes > 60 => format!("*-*-* 00/{}:00:00", minutes / 60),
            minutes => format!("*-*-* *:00/{minutes}:00"),
        }
    }
}

impl fmt::Display for Every {
    /// `15 min`, `4 h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            hours if hours % 60 == 0 => write!(f, "{} h", hours / 60),
            minutes => write!(f, "{minutes} min"),
        }
    }
}

/// What a file is, for [`check_program`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramFile {
    /// Number of the user whose it is.
    pub owner: u32,
    /// Permission bits of the file.
    pub mode: u32,
    /// Whether its file system is in memory, and gone after a reboot.
    pub in_memory: bool,
}

/// Whether the service can count on the program at `path`, an absolute path without links, of which `look` says what each part is.
///
/// # Errors
/// When a reboot takes it away, the service does not see it, or another user than root may change it.
pub fn check_program(path: &Path, look: impl Fn(&Path) -> Option<ProgramFile>) -> Result<(), MonitorError> {
    // What the service has its own of, or nothing (`ProtectHome=`, `PrivateTmp=`), and what is cleared from time to time.
    const HIDDEN: [(&str, &str); 7] = [
        ("/tmp", "is below /tmp, which is cleared"),
        ("/var/tmp", "is below /var/tmp, which is cleared"),
        ("/run", "is below /run, which is empty after a reboot"),
        ("/dev", "is below /dev, which is empty after a reboot"),
        ("/proc", "is below /proc, where no program stays"),
        ("/home", "is in a home directory, which the service does not see"),
        ("/root", "is in a home directory, which the service does not see"),
    ];
    let fail = |what: String| Err(MonitorError::Program { path: path.to_string_lossy().into_owned(), what });
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "/._+-".contains(c));
    if !path.is_absolute() || !path.to_str().is_some_and(plain) {
        return fail("cannot be named in a unit: letters, digits and . _ + - / can".to_owned());
    }
    if let Some((_, what)) = HIDDEN.iter().find(|(place, _)| path.starts_with(place)) {
        return fail((*what).to_owned());
    }
    for part in path.ancestors() {
        let Some(found) = look(part) else { return fail("cannot be looked at".to_owned()) };
        let which = if part == path { "it".to_owned() } else { part.to_string_lossy().into_owned() };
        if found.in_memory {
            return fail("is on a file system in memory, which is empty after a reboot".to_owned());
        }
        if found.owner != 0 {
            return fail(format!("may be exchanged by another user than root, whose {which} is"));
        }
        if found.mode & 0o022 != 0 {
            return fail(format!("may be exchanged by other users than root, who may write to {which}"));
        }
    }
    Ok(())
}

/// Who may read a device beside its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readers {
    /// Everybody (world-readable).
    All,
    /// A group: its name, or its number where it has none.
    Group(String),
    /// Nobody but its owner.
    None,
}

impl Readers {
    /// Of a device with `mode` and the group of number `gid`; `groups` is the text of /etc/group (group(5)).
    pub fn of(mode: u32, gid: u32, groups: &str) -> Readers {
        if mode & 0o004 != 0 {
            return Readers::All;
        }
        if mode & 0o040 == 0 {
            return Readers::None;
        }
        let number = gid.to_string();
        let named = groups.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next().filter(|name| !name.is_empty())?;
            (fields.nth(1) == Some(number.as_str())).then(|| name.to_owned())
        });
        Readers::Group(named.unwrap_or(number))
    }
}

/// The user that passes run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum User {
    /// A user that exists while the service runs, and belongs to these groups: those that may read the volumes.
    Dynamic(Vec<String>),
    /// One that the host has, and the groups.
    Named(String, Vec<String>),
}

impl User {
    /// The user `name`, or one of its own; `groups` may read the volumes.
    ///
    /// # Errors
    /// When no user can have that name.
    pub fn of(name: Option<&str>, groups: Vec<String>) -> Result<User, MonitorError> {
        let Some(name) = name else { return Ok(User::Dynamic(groups)) };
        let first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let fine = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if name.starts_with(first) && name.chars().all(fine) && name.len() <= 32 {
            Ok(User::Named(name.to_owned(), groups))
        } else {
            Err(MonitorError::User(name.to_owned()))
        }
    }
}

/// What is to be installed.
#[derive(Debug, Clone)]
pub struct Monitor<'a> {
    /// Where `ebb` is; [`check_program`].
    pub program: &'a Path,
    /// How often a pass runs.
    pub every: Every,
    /// The user that passes run as.
    pub user: User,
    /// What is measured, by what stays the same; nothing for every disk but that of the root file system.
    pub volumes: Vec<String>,
    /// Where figures for Prometheus go, an absolute path.
    pub metrics: Option<&'a str>,
}

impl Monitor<'_> {
    /// The units, in the order in which they are written.
    pub fn parts(&self) -> Vec<Part> {
        let unit = |name: &str, lines: String| Part {
            path: Path::new(UNITS).join(name),
            whole: true,
            executable: false,
            lines: format!("{MARK}{lines}"),
        };
        vec![unit(SERVICE, self.service()), unit(TIMER, self.timer())]
    }

    fn service(&self) -> String {
        let volumes: String = self.volumes.iter().map(|volume| format!(" {}", word(volume))).collect();
        let program = self.program.to_string_lossy();
        let groups = |groups: &[String]| match groups {
            [] => String::new(),
            some => format!("SupplementaryGroups={}\n", some.join(" ")),
        };
        let (user, capabilities) = match &self.user {
            User::Dynamic(of) => (format!("DynamicUser=yes\n{}", groups(of)), ""),
            // EBS's log page is for CAP_SYS_ADMIN alone; the rest root reads as the owner of the devices.
            User::Named(name, _) if name == "root" => (String::new(), "CAP_SYS_ADMIN"),
            User::Named(name, of) => (format!("User={name}\n{}", groups(of)), ""),
        };
        let (metrics, writes) = match self.metrics {
            Some(file) => {
                let directory = file.rsplit_once('/').map_or("/", |(directory, _)| directory);
                (format!(" --metrics {}", word(file)), format!("ReadWritePaths={}\n", word(directory)))
            }
            None => (String::new(), String::new()),
        };
        format!(
            "[Unit]\n\
             Description=Ebbtide monitor: a short look at each volume\n\
             \n\
             [Service]\n\
             Type=oneshot\n\
             ExecStart={program} monitor run --quiet --store {STORE} --pause-file {PAUSE}{metrics}{volumes}\n\
             TimeoutStartSec={LONGEST_S}\n\
             {user}\
             StateDirectory=ebbtide-monitor\n\
             StateDirectoryMode=0700\n\
             UMask=0077\n\
             StandardOutput=null\n\
             StandardError=journal\n\
             CPUAccounting=yes\n\
             CPUWeight=20\n\
             IOWeight=20\n\
             NoNewPrivileges=yes\n\
             CapabilityBoundingSet={capabilities}\n\
             AmbientCapabilities=\n\
             DevicePolicy=closed\n\
             DeviceAllow=block-* r\n\
             ProtectSystem=strict\n\
             {writes}\
             ProtectHome=yes\n\
             ProtectClock=yes\n\
             ProtectControlGroups=yes\n\
             ProtectHostname=yes\n\
             ProtectKernelLogs=yes\n\
             ProtectKernelModules=yes\n\
             ProtectKernelTunables=yes\n\
             ProtectProc=invisible\n\
             PrivateNetwork=yes\n\
             PrivateTmp=yes\n\
             LockPersonality=yes\n\
             MemoryDenyWriteExecute=yes\n\
             RestrictAddressFamilies=AF_UNIX\n\
             RestrictNamespaces=yes\n\
             RestrictRealtime=yes\n\
             RestrictSUIDSGID=yes\n\
             SystemCallArchitectures=native\n\
             SystemCallFilter=@system-service\n\
             SystemCallFilter=~@privileged\n\
             SystemCallErrorNumber=EPERM\n"
        )
    }

    fn timer(&self) -> String {
        // Hosts of one image do not all read at the same moment; each keeps its own, so that passes are evenly apart.
        format!(
            "[Unit]\n\
             Description=Ebbtide monitor: when volumes are looked at\n\
             \n\
             [Timer]\n\
             OnCalendar={}\n\
             RandomizedDelaySec={}\n\
             FixedRandomDelay=yes\n\
             Persistent=yes\n\
             Unit={SERVICE}\n\
             \n\
             [Install]\n\
             WantedBy=timers.target\n",
            self.every.calendar(),
            self.every.seconds() / 10
        )
    }
}

/// Units as they are found by [`is_installed`] and taken away, whatever is in them.
pub fn units() -> [Part; 2] {
    [SERVICE, TIMER].map(|name| Part {
        path: Path::new(UNITS).join(name),
        whole: true,
        executable: false,
        lines: String::new(),
    })
}

/// Whether `timer`, the text of the timer's file, is one that [`Monitor`] wrote.
pub fn is_installed(timer: &str) -> bool {
    timer.starts_with(MARK)
}

/// A word of ExecStart= (systemd.service(5), "Command lines"): in quotes where it has to be, specifiers and variables left alone.
pub(crate) fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:+=@,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' | '$' => quoted.extend([c, c]),
            c if c.is_ascii_control() => quoted += &format!("\\x{:02x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor(user: User, volumes: &[&str]) -> Vec<Part> {
        let volumes = volumes.iter().map(|&volume| volume.to_owned()).collect();
        let every = Every::of(Nanos::from_secs(900)).expect("a quarter of an hour");
        Monitor { program: Path::new("/usr/local/bin/ebb"), every, user, volumes, metrics: None }.parts()
    }

    #[test]
    fn the_units_are_these() {
        let groups = vec!["disk".to_owned()];
        let parts = monitor(User::Dynamic(groups.clone()), &[]);
        let text: String =
            parts.iter().map(|part| format!("{}:\n{}\n", part.path.display(), part.lines)).collect();
        insta::assert_snapshot!(text);
        let service = |user| monitor(user, &[]).swap_remove(0).lines;
        let of = |user: &str| service(User::of(Some(user), groups.clone()).expect("a name"));
        assert!(of("prometheus").contains("\nUser=prometheus\nSupplementaryGroups=disk\n"));
        assert!(
            of("root").contains("\nCapabilityBoundingSet=CAP_SYS_ADMIN\n") && !of("root").contains("User=")
        );
    }

    #[test]
    fn volumes_are_words_whatever_they_are_called() {
        let named = monitor(User::Dynamic(Vec::new()), &["vol-04f3a47c1e", "a b%c$d\"e\\f\n"]);
        let line = named[0].lines.lines().find(|line| line.starts_with("ExecStart=")).expect("a command");
        assert!(line.ends_with(r#"/pause vol-04f3a47c1e "a b%%c$$d\"e\\f\x0a""#), "{line}");
    }

    #[test]
    fn figures_go_to_the_one_place_that_is_written_to() {
        let every = Every::of(Nanos::from_secs(900)).expect("a quarter of an hour");
        let user = User::of(Some("prometheus"), Vec::new()).expect("a name");
        let metrics = Some("/var/lib/a b/ebb.prom");
        let monitor =
            Monitor { program: Path::new("/usr/bin/ebb"), every, user, volumes: Vec::new(), metrics };
        let service = monitor.parts().swap_remove(0).lines;
        assert!(service.contains("/pause --metrics \"/var/lib/a b/ebb.prom\"\n"), "{service}");
        assert!(service.contains("\nReadWritePaths=\"/var/lib/a b\"\n"), "{service}");
    }

    #[test]
    fn passes_fall_on_the_same_times_every_day() {
        let of = |minutes: u64| Every::of(Nanos::from_secs(minutes * 60));
        for (minutes, calendar) in [
            (5, "*-*-* *:00/5:00"),
            (15, "*-*-* *:00/15:00"),
            (60, "*-*-* *:00:00"),
            (240, "*-*-* 00/4:00:00"),
            (1440, "*-*-* 00:00:00"),
        ] {
            assert_eq!(of(minutes).expect("divides").calendar(), calendar);
        }
        for minutes in [0, 1, 4, 7, 25, 90, 300, 2880] {
            assert!(of(minutes).is_err(), "{minutes}");
        }
        assert!(Every::of(Nanos::from_secs(901)).expect_err("no").to_string().contains("15"));
    }

    #[test]
    fn a_program_that_others_may_change_or_a_reboot_takes_is_refused() {
        let fine = ProgramFile { owner: 0, mode: 0o755, in_memory: false };
        let check = |path: &str, odd: &str, found: Option<ProgramFile>| {
            check_program(Path::new(path), |part| if part == Path::new(odd) { found } else { Some(fine) })
        };
        assert_eq!(check("/usr/local/bin/ebb", "-", None), Ok(()));
        for (path, odd, found, said) in [
            ("/tmp/ebb", "-", None, "/tmp"),
            ("/home/a/ebb", "-", None, "home"),
            ("/opt/a b/ebb", "-", None, "named in a unit"),
            ("ebb", "-", None, "named in a unit"),
            ("/usr/bin/ebb", "/usr", Some(ProgramFile { owner: 1000, ..fine }), "whose /usr is"),
            ("/usr/bin/ebb", "/usr/bin/ebb", Some(ProgramFile { mode: 0o775, ..fine }), "write to it"),
            ("/mnt/ebb", "/mnt", Some(ProgramFile { mode: 0o1777, ..fine }), "write to /mnt"),
            ("/mnt/ebb", "/mnt", Some(ProgramFile { in_memory: true, ..fine }), "in memory"),
            ("/mnt/ebb", "/mnt", None, "looked at"),
        ] {
            let error = check(path, odd, found).expect_err(path).to_string();
            assert!(error.contains(said), "{path}: {error}");
        }
    }

    #[test]
    fn who_may_read_a_device_is_in_its_mode_and_its_group() {
        let groups = "root:x:0:\ndisk:x:6:alice\n:x:7:\n";
        assert_eq!(Readers::of(0o660, 6, groups), Readers::Group("disk".to_owned()));
        assert_eq!(Readers::of(0o640, 7, groups), Readers::Group("7".to_owned()));
        assert_eq!(Readers::of(0o664, 6, groups), Readers::All);
        assert_eq!(Readers::of(0o600, 6, groups), Readers::None);
        assert!(User::of(Some("a b"), Vec::new()).is_err() && User::of(Some("-x"), Vec::new()).is_err());
    }

    #[test]
    fn what_is_taken_away_is_what_was_written() {
        for (written, known) in monitor(User::Dynamic(Vec::new()), &[]).iter().zip(&units()) {
            assert_eq!(written.path, known.path);
            assert_eq!(known.take("monitor", &written.lines, &[]), Ok(None));
            let foreign = "[Unit]\nDescription=somebody's own\n";
            assert_eq!(known.take("monitor", foreign, &[]), Ok(Some(foreign.to_owned())));
            assert!(written.put("monitor", Some(foreign), &[]).is_err());
            assert!(is_installed(&written.lines) && !is_installed(foreign));
        }
    }
}
