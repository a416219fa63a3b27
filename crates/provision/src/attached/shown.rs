//! How attachments are, for people and as JSON.

use super::{Place, Record};
use crate::AtWork;
use ebbtide_model::civil::Civil;
use ebbtide_model::made::State;
use ebbtide_model::units::UnixTime;
use serde::Serialize;
use std::fmt::Write;
use strum::AsRefStr;

/// How the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, AsRefStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Link {
    /// Reads and writes get through.
    Connected,
    /// It is lost and tried again; reads and writes wait.
    Reconnecting,
    /// It is lost and tried again; reads and writes fail by now.
    Failing,
    /// Nothing is connected: after a boot, or because somebody ended the session.
    Missing,
    /// An attach or detach was ended before its end.
    Unfinished,
}

/// What was seen of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Since {
    /// Whether the session of the kernel is there.
    pub there: bool,
    /// Whether it and the way to it work.
    pub works: bool,
    /// Since when it is so, where that is known.
    pub since: Option<UnixTime>,
}

/// How an attachment is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attached {
    /// Its name.
    pub name: String,
    /// How the connection is.
    pub state: Link,
    /// Since when, in seconds since 1970 in UTC, where that is known.
    pub since_unix_s: Option<f64>,
    /// Where the volume is.
    pub place: String,
    /// The host there.
    pub host: String,
    /// `nvme-tcp` or `iscsi`.
    pub transport: &'static str,
    /// Whether OpenSSH carries it.
    pub ssh: bool,
    /// NQN or IQN of the target.
    pub target: String,
    /// The device: its link below /dev/disk.
    pub device: Option<String>,
    /// What is to be used: the device, or the mapping that decrypts it.
    pub path: Option<String>,
    /// `luks2`, or `luks2-integrity`; nothing where it is not encrypted here.
    pub encryption: Option<&'static str>,
    /// Where it is mounted.
    pub mountpoint: Option<String>,
    /// How long reads and writes wait for a lost connection, in seconds.
    pub hold_s: u64,
    /// How often the SSH connection was lost since it was attached.
    pub lost: Option<u64>,
    /// What is not as it should be, with what to do.
    pub troubles: Vec<String>,
    /// Who is at work on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_work: Option<AtWork>,
}

impl Attached {
    /// Of `record`, as it was `seen` at `now`; SSH was `lost` so often.
    pub fn of(
        record: &Record,
        seen: Since,
        lost: Option<u64>,
        troubles: Vec<String>,
        now: UnixTime,
    ) -> Attached {
        let waited = seen.since.map_or(0, |since| now.0.saturating_sub(since.0) / 1_000_000_000);
        let state = match () {
            () if record.state != State::Made => Link::Unfinished,
            () if !seen.there => Link::Missing,
            () if seen.works => Link::Connected,
            () if waited > record.hold_s => Link::Failing,
            () => Link::Reconnecting,
        };
        Attached {
            name: record.name.clone(),
            state,
            since_unix_s: seen.since.map(UnixTime::as_secs_f64),
            place: record.place.to_string(),
            host: record.host.clone(),
            transport: record.transport.name(),
            ssh: matches!(record.place, Place::Ssh { .. }),
            target: record.target.clone(),
            device: record.device.clone(),
            path: record.path.clone(),
            encryption: record.encryption.as_ref().map(|encrypted| match encrypted.integrity {
                true => "luks2-integrity",
                false => "luks2",
            }),
            mountpoint: record.mount.as_ref().map(|mount| mount.directory.to_string_lossy().into_owned()),
            hold_s: record.hold_s,
            lost,
            troubles,
            at_work: None,
        }
    }

    /// Whether nobody need look after it.
    pub fn is_well(&self) -> bool {
        self.state == Link::Connected && self.troubles.is_empty()
    }

    /// What `ebb status` prints for people.
    pub fn text(&self) -> String {
        let since = self.since_unix_s.map_or_else(String::new, |since| {
            let seconds = since as u64;
            format!(" since {}", Civil::from_unix(UnixTime::from_secs(seconds)).rfc3339())
        });
        let what = match self.state {
            Link::Connected => format!("attached, connected{since}"),
            // Nothing tells since when a connection that the kernel keeps by itself is lost.
            Link::Reconnecting if self.since_unix_s.is_none() => format!(
                "attached, reconnecting; reads and writes wait, and fail from {} s after it was lost",
                self.hold_s
            ),
            Link::Reconnecting => {
                format!("attached, reconnecting{since}; reads and writes wait up to {} s", self.hold_s)
            }
            Link::Failing => format!(
                "attached, reconnecting{since}; reads and writes fail, because that is more than {} s ago",
                self.hold_s
            ),
            Link::Missing => "not connected: the same `ebb attach` connects it again".to_owned(),
            Link::Unfinished if self.at_work.is_some() => "not attached as a whole yet".to_owned(),
            Link::Unfinished => {
                "an attach or detach did not end: `ebb cleanup` takes away what is left, or attach or detach again"
                    .to_owned()
            }
        };
        let path = self.path.as_deref().or(self.device.as_deref()).unwrap_or("no device");
        let mounted = self.mountpoint.as_ref().map_or_else(String::new, |place| format!(" on {}", place));
        let encrypted = match self.encryption {
            None => "not encrypted here",
            Some("luks2") => "encrypted here (LUKS2)",
            Some(_) => "encrypted and authenticated here (LUKS2 with integrity)",
        };
        let through = if self.ssh { " through SSH" } else { "" };
        let mut text = format!("{}: {what}\n", self.name);
        let _ =
            writeln!(text, "  {path}{mounted}, {encrypted}; {} over {}{through}", self.place, self.transport);
        if let Some(lost) = self.lost.filter(|lost| *lost > 0) {
            let times = if lost == 1 { "once".to_owned() } else { format!("{lost} times") };
            let again = if self.state == Link::Connected { ", and made again" } else { "" };
            let _ = writeln!(text, "  the SSH connection was lost {times}{again}");
        }
        if let Some(at_work) = &self.at_work {
            let _ = writeln!(text, "  {at_work}");
        }
        for trouble in &self.troubles {
            let _ = writeln!(text, "  trouble: {trouble}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Attachment, Encrypted, MountedAt, Transport};
    use super::*;
    use ebbtide_model::stack::Filesystem;

    fn record() -> Record {
        let place: Place = "ada@store1:/dev/vdb".parse().expect("a place");
        let of = Attachment {
            host: place.host().to_owned(),
            place,
            transport: Transport::NvmeTcp,
            target: "nqn.2026-11.ebbtide:backup".to_owned(),
            address: "127.0.0.1".to_owned(),
            port: 20_100,
            client: "nqn.2014-08.org.nvmexpress:uuid:1".to_owned(),
            machine: "m".to_owned(),
            device: Some("/dev/disk/by-id/nvme-Linux_1".to_owned()),
            path: Some("/dev/mapper/backup".to_owned()),
            carries: None,
            bytes: Some(1 << 30),
            hold_s: 60,
            tunnel: None,
            secret_file: None,
            encryption: Some(Encrypted {
                uuid: "u".to_owned(),
                integrity: false,
                key_file: None,
                header: None,
                backup: None,
                copy: None,
            }),
            mount: Some(MountedAt {
                directory: "/srv/backup".into(),
                filesystem: Some("ext4".to_owned()),
                wanted: Filesystem::Ext4,
                label: None,
                made: Vec::new(),
            }),
            copies: false,
            since: Some(UnixTime::from_secs(1_764_000_000)),
        };
        Record { state: State::Made, whole: true, ..Record::new("backup", "1".to_owned(), of) }
    }

    fn held(hold_s: u64) -> Record {
        let mut record = record();
        record.hold_s = hold_s;
        record
    }

    #[test]
    fn how_it_is_is_told_with_since_when() {
        let since = Some(UnixTime::from_secs(1_764_000_000));
        let now = UnixTime::from_secs(1_764_000_030);
        let tell = |there, works, hold_s| {
            Attached::of(&held(hold_s), Since { there, works, since }, Some(2), Vec::new(), now)
        };
        let text = tell(true, true, 60).text();
        assert_eq!(
            text,
            "backup: attached, connected since 2025-11-24T16:00:00Z\n  /dev/mapper/backup on /srv/backup, encrypted here (LUKS2); \
             ada@store1:/dev/vdb over nvme-tcp through SSH\n  the SSH connection was lost 2 times, and made again\n"
        );
        assert!(tell(true, true, 60).is_well());
        let unknown = Since { there: true, works: false, since: None };
        let unknown = Attached::of(&record(), unknown, Some(1), Vec::new(), now);
        assert!(unknown.text().ends_with("the SSH connection was lost once\n"), "{}", unknown.text());
        for (status, state, words) in [
            (
                unknown,
                Link::Reconnecting,
                "reconnecting; reads and writes wait, and fail from 60 s after it was lost",
            ),
            (
                tell(true, false, 60),
                Link::Reconnecting,
                "reconnecting since 2025-11-24T16:00:00Z; reads and writes wait up to 60 s",
            ),
            (
                tell(true, false, 10),
                Link::Failing,
                "reads and writes fail, because that is more than 10 s ago",
            ),
            (tell(false, false, 60), Link::Missing, "the same `ebb attach`"),
        ] {
            assert_eq!(status.state, state);
            assert!(!status.is_well() && status.text().contains(words), "{}", status.text());
        }
        let half = Record { state: State::Unmaking, ..record() };
        let half = Attached::of(&half, Since { there: true, works: true, since }, None, Vec::new(), now);
        assert!(!half.is_well() && half.text().contains("ebb cleanup"));
        let at_work = crate::AtWork {
            command: "ebb undo".to_owned(),
            name: "backup".to_owned(),
            pid: 812,
            start: 1,
            since_unix_s: 1_764_000_000,
            step: None,
        };
        let half = Attached { at_work: Some(at_work), ..half };
        let told = "  `ebb undo` of backup is at work (process 812, since 2025-11-24T16:00:00Z)\n";
        assert!(!half.is_well() && half.text().contains(told), "{}", half.text());
        assert!(!half.text().contains("did not end"), "{}", half.text());
    }

    #[test]
    fn what_is_asked_for_differently_is_told() {
        let other = held(10);
        assert_eq!(record().differs(&other), Some("its hold is 60 s and not 10 s".to_owned()));
        assert_eq!(record().differs(&record()), None);
        let mut plain = record();
        plain.encryption = None;
        assert_eq!(record().differs(&plain), Some("its encryption is LUKS2 and not none".to_owned()));
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let text = serde_json::to_string(&record()).expect("writes");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("reads"), record());
        let value: serde_json::Value = serde_json::from_str(&text).expect("reads");
        for key in ["name", "host", "transport", "target", "address", "port", "device", "hold_s"] {
            assert!(!value[key].is_null(), "{key}");
        }
    }
}
