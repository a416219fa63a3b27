//! iSCSI: open-iscsi's initiator. A node record is made for the very address, because what a target says of itself by discovery is the
//! address of another host's loopback.
//!
//! The secret goes into the node record's file, which root alone may read, and never into the arguments of `iscsiadm`.

use super::{Attachments, waiting};
use crate::build::BuildError;
use crate::command::Shown as Line;
use crate::made::Failure;
use crate::sys::{self, Sys};
use ebbtide_door::{own, read};
use ebbtide_provision::attached::Record;
use std::path::{Path, PathBuf};

/// How often a login is tried: open-iscsi's own is 8 times 15 s.
const LOGIN_TRIES: &str = "2";
/// Status of `iscsiadm` where there is no such record, and where there is no such session (iscsiadm(8), exit status).
const NONE_FOUND: [i32; 2] = [21, 2];
/// Longest node record.
const LONGEST: u64 = 1 << 20;
/// Where open-iscsi keeps node records: Debian and its kin, and versions since 2.1.9.
const NODES: [&str; 2] = ["etc/iscsi/nodes", "var/lib/iscsi/nodes"];

/// A session of the kernel's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    /// `session3`.
    pub name: String,
    /// `LOGGED_IN`, `FAILED`, `FREE`.
    pub state: String,
}

/// The session with the target of `record`, through its address.
pub(super) fn find(sys: &Sys, record: &Record) -> Option<Session> {
    let class = sys.sys.join("class/iscsi_session");
    sys::names(&class).into_iter().find_map(|name| {
        let place = class.join(&name);
        let number = name.strip_prefix("session")?;
        let connection = sys.sys.join("class/iscsi_connection").join(format!("connection{number}:0"));
        let is_it = sys::word(&place.join("targetname")).as_deref() == Some(&record.target)
            && sys::word(&connection.join("persistent_address")).as_deref() == Some(&record.address)
            && sys::number::<u16>(&connection.join("persistent_port")) == Some(record.port);
        is_it.then(|| Session { state: sys::word(&place.join("state")).unwrap_or_default(), name })
    })
}

/// The block device of the first logical unit of the session `name`; nothing before it is there.
pub(super) fn disk(sys: &Sys, name: &str) -> Option<String> {
    let device = sys.sys.join("class/iscsi_session").join(name).join("device");
    let targets = sys::names(&device).into_iter().filter(|entry| entry.starts_with("target"));
    targets.map(|target| device.join(target)).find_map(|target| {
        let units = sys::names(&target).into_iter().map(|unit| target.join(unit).join("block"));
        units.filter_map(|block| sys::names(&block).into_iter().next()).next()
    })
}

/// The name by which this host logs in.
///
/// # Errors
/// When the host has none.
pub(super) fn client(sys: &Sys) -> Result<String, Failure> {
    let text = sys::text(&sys.root().join("etc/iscsi/initiatorname.iscsi")).unwrap_or_default();
    let name = text.lines().find_map(|line| line.trim().strip_prefix("InitiatorName="));
    name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).ok_or_else(|| {
        Failure::Refused(
            "this host has no name as an iSCSI initiator: install open-iscsi, which writes /etc/iscsi/initiatorname.iscsi".to_owned(),
        )
    })
}

fn portal(record: &Record) -> String {
    match record.address.contains(':') {
        true => format!("[{}]:{}", record.address, record.port),
        false => format!("{}:{}", record.address, record.port),
    }
}

/// `text`, a node record, with these settings in place of its own.
fn with_settings(text: &str, settings: &[(&str, &str)]) -> String {
    let is_set = |line: &str| {
        settings.iter().any(|(key, _)| line.split('=').next().is_some_and(|name| name.trim() == *key))
    };
    let mut lines: Vec<String> = text.lines().filter(|line| !is_set(line)).map(str::to_owned).collect();
    let end = lines.iter().rposition(|line| line.starts_with("# END RECORD")).unwrap_or(lines.len());
    lines.splice(end..end, settings.iter().map(|(key, value)| format!("{key} = {value}")));
    lines.join("\n") + "\n"
}

impl Attachments<'_> {
    /// Runs `iscsiadm` in node mode on the record's target and portal.
    fn node(&self, record: &Record, words: &[&str]) -> Result<Option<i32>, Failure> {
        let portal = portal(record);
        let mut arguments = vec!["-m", "node", "-T", record.target.as_str(), "-p", portal.as_str()];
        arguments.extend(words);
        (self.tell)(&Line("iscsiadm", &arguments).to_string());
        let said = self.runner.run("iscsiadm", &arguments)?;
        match said.status {
            Some(0) => Ok(said.status),
            Some(status) if NONE_FOUND.contains(&status) => Ok(said.status),
            status => Err(BuildError::Command {
                command: Line("iscsiadm", &arguments).to_string(),
                status,
                stdout: said.text().trim().to_owned(),
                stderr: said.stderr.trim().to_owned(),
            }
            .into()),
        }
    }

    /// Logs in to the target of `record`.
    pub(super) fn iscsi_login(&self, record: &Record, secret: Option<&str>) -> Result<(), Failure> {
        self.must(record, &["-o", "new"])?;
        let times = waiting(record).iscsi().into_iter().map(|(key, seconds)| (key, seconds.to_string()));
        let settings = [("node.startup", "manual"), ("node.session.initial_login_retry_max", LOGIN_TRIES)];
        for (key, value) in settings.map(|(key, value)| (key, value.to_owned())).into_iter().chain(times) {
            self.must(record, &["-o", "update", "-n", key, "-v", &value])?;
        }
        if let Some(secret) = secret {
            let path = self.node_file(record)?;
            let text =
                read::text(&path, LONGEST).map_err(|error| Failure::file(&path, format!("it {error}")))?;
            let settings = [
                ("node.session.auth.authmethod", "CHAP"),
                ("node.session.auth.username", record.client.as_str()),
                ("node.session.auth.password", secret),
            ];
            own::replace(&path, with_settings(&text, &settings).as_bytes())
                .map_err(|error| Failure::file(&path, error))?;
        }
        self.must(record, &["--login"])
    }

    fn must(&self, record: &Record, words: &[&str]) -> Result<(), Failure> {
        match self.node(record, words)? {
            Some(0) => Ok(()),
            status => Err(Failure::Refused(format!(
                "`iscsiadm {}` ended with status {} for {}",
                words.join(" "),
                status.unwrap_or(-1),
                record.target
            ))),
        }
    }

    /// The file of the node record.
    fn node_file(&self, record: &Record) -> Result<PathBuf, Failure> {
        let place = NODES
            .iter()
            .map(|place| self.sys.root().join(place).join(&record.target))
            .find(|place| place.is_dir());
        let place = place.ok_or_else(|| {
            Failure::file(
                &self.sys.root().join(NODES[0]),
                "there is no node record of the target, which `iscsiadm` has just made",
            )
        })?;
        let begins = format!("{},{}", record.address, record.port);
        let found = sys::names(&place)
            .into_iter()
            .find(|name| *name == begins || name.starts_with(&format!("{begins},")));
        let path = place.join(found.unwrap_or(begins));
        // A directory of interfaces, of which there is the default one, where the target's group is known.
        Ok(if path.is_dir() { path.join("default") } else { path })
    }

    /// Ends the session with the target of `record` and takes its node record away; whether there was one.
    pub(super) fn iscsi_logout(&self, record: &Record) -> Result<bool, Failure> {
        let there = find(&self.sys, record).is_some();
        if there {
            self.node(record, &["--logout"])?;
        }
        let has_node = NODES.iter().any(|place| self.sys.root().join(place).join(&record.target).exists());
        if has_node {
            self.node(record, &["-o", "delete"])?;
        }
        Ok(there)
    }
}

/// Whether open-iscsi has anything of the target of `record`.
pub(super) fn has_node(sys: &Sys, record: &Record) -> bool {
    NODES.iter().any(|place| sys.root().join(place).join(&record.target).is_dir())
}

/// Where the client's name is, for messages.
pub(super) fn name_file() -> &'static Path {
    Path::new("/etc/iscsi/initiatorname.iscsi")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_take_the_place_of_a_record_s_own() {
        let text = "# BEGIN RECORD 2.1.8\nnode.name = a\nnode.session.auth.authmethod = None\nnode.startup = manual\n# END RECORD\n";
        assert_eq!(
            with_settings(
                text,
                &[("node.session.auth.authmethod", "CHAP"), ("node.session.auth.password", "x=y")]
            ),
            "# BEGIN RECORD 2.1.8\nnode.name = a\nnode.startup = manual\nnode.session.auth.authmethod = CHAP\nnode.session.auth.password = x=y\n# END RECORD\n"
        );
    }
}
