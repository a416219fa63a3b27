//! What there is of an attachment now.

use super::{Attachments, RUNNING, Supervised, iscsi, nvme};
use crate::build::identity;
use crate::build::lasting::machine;
use crate::made::Failure;
use crate::probe::tables;
use crate::{at_work, sys};
use ebbtide_door::own;
use ebbtide_model::made::State;
use ebbtide_model::plan::build::Mounted;
use ebbtide_model::units::UnixTime;
use ebbtide_provision::attached::{Attached, Record, Since, Transport};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

impl Attachments<'_> {
    /// Whether the session of `record` works; nothing where there is none.
    pub(super) fn session_state(&self, record: &Record) -> Option<bool> {
        match record.transport {
            Transport::NvmeTcp => nvme::find(&self.sys, record).map(|controller| controller.state == "live"),
            Transport::Iscsi => iscsi::find(&self.sys, record).map(|session| session.state == "LOGGED_IN"),
        }
    }

    /// Whether it was this host that made `record`, and not one that it is a clone of: then the volume is that one's.
    pub(super) fn is_of_this_host(&self, record: &Record) -> bool {
        let machine = machine(&self.sys);
        let client = match record.transport {
            Transport::NvmeTcp => nvme::client(&self.sys),
            Transport::Iscsi => iscsi::client(&self.sys),
        };
        (machine.is_empty() || record.machine.is_empty() || machine == record.machine)
            && client.map_or(true, |client| client == record.client)
    }

    /// The kernel's name of the device of `record`; nothing where it is not there.
    pub(super) fn block_name(&self, record: &Record) -> Option<String> {
        match record.transport {
            Transport::NvmeTcp => nvme::namespace(&self.sys, &nvme::find(&self.sys, record)?.name),
            Transport::Iscsi => iscsi::disk(&self.sys, &iscsi::find(&self.sys, record)?.name),
        }
    }

    /// The link below /dev/disk/by-path that leads to the device called `name`.
    pub(super) fn by_path(&self, name: &str) -> Option<String> {
        let place = self.sys.dev.join("disk/by-path");
        let leads = |link: &PathBuf| {
            link.canonicalize().is_ok_and(|node| node.file_name().is_some_and(|node| node == name))
        };
        let link = sys::names(&place).into_iter().find(|link| leads(&place.join(link)))?;
        Some(format!("/dev/disk/by-path/{link}"))
    }

    /// Bytes of the device at `path`.
    pub(super) fn size_of(&self, path: &str) -> Option<u64> {
        let node = std::fs::canonicalize(self.sys.at(Path::new(path))).ok()?;
        let sectors: u64 =
            sys::number(&self.sys.sys.join("class/block").join(node.file_name()?).join("size"))?;
        sectors.checked_mul(512)
    }

    /// What is mounted of `record`, for its undoing.
    pub(super) fn mounted(&self, record: &Record) -> Option<Mounted> {
        let device = record.path.clone()?;
        let number = identity::number(&self.sys, &device);
        Some(Mounted { device, fstype: None, number })
    }

    /// Whether the device of `record` is what is mounted on `directory`.
    pub(super) fn is_mounted(&self, record: &Record, directory: &Path) -> bool {
        let Some(from) = self.mounted(record) else { return false };
        let mounts = tables::mounts_of(&self.sys);
        let on_top = mounts.iter().rev().find(|mount| Path::new(&mount.mountpoint) == directory);
        on_top.is_some_and(|mount| identity::is_mounted(&self.sys, mount, &from))
    }

    /// Where the supervising process of `name` keeps what it shows.
    pub(super) fn running(&self, name: &str) -> PathBuf {
        self.sys.run.join(RUNNING).join(name)
    }

    /// Whether the supervising process of `name` runs.
    pub(super) fn is_supervised(&self, name: &str) -> bool {
        let lock = self.running(name).join("lock");
        lock.exists() && own::try_lock(&lock).is_ok_and(|lock| lock.is_none())
    }

    /// What the supervising process of `name` said last.
    pub(super) fn supervised(&self, name: &str) -> Option<Supervised> {
        Supervised::read(&self.running(name))
    }

    /// How the attachment of `record` is.
    pub fn look(&self, record: &Record) -> Attached {
        let session = self.session_state(record);
        let state = record.tunnel.as_ref().and_then(|_| self.supervised(&record.name));
        let mut troubles = Vec::new();
        let again = "the same `ebb attach` mends it";
        let supervised = record.tunnel.is_none() || self.is_supervised(&record.name);
        if session.is_some() && !supervised {
            troubles.push(format!("the process that keeps the SSH connection has ended: {again}"));
        }
        let through = supervised && state.as_ref().is_none_or(|state| state.connected);
        if let Some(error) = state.as_ref().filter(|_| supervised).and_then(|state| state.error.clone()) {
            troubles.push(error);
        }
        if record.state == State::Made && session.is_some() {
            if record.encryption.is_some() && !matches!(self.mapping(&record.name), Ok(Some(_))) {
                troubles.push(format!("/dev/mapper/{} is not open: {again}", record.name));
            }
            if let Some(mount) =
                record.mount.as_ref().filter(|mount| !self.is_mounted(record, &mount.directory))
            {
                troubles.push(format!("it is not mounted on {}: {again}", mount.directory.to_string_lossy()));
            }
        }
        let works = session == Some(true) && through;
        // A session that works again a moment after its tunnel does is not told apart from it.
        let since = match &state {
            Some(state) if supervised => Some(state.since),
            _ if works => record.since,
            _ => None,
        };
        let seen = Since { there: session.is_some(), works, since };
        let at_work = at_work::ask(&self.sys, &self.place()).filter(|at_work| at_work.name == record.name);
        let lost = state.map(|state| state.lost);
        Attached { at_work, ..Attached::of(record, seen, lost, troubles, UnixTime::from(SystemTime::now())) }
    }

    /// How all attachments of this host are, and the records that cannot be read.
    pub fn look_all(&self) -> (Vec<Attached>, Vec<Failure>) {
        let mut attached = Vec::new();
        let mut bad = Vec::new();
        for record in self.records() {
            match record {
                Ok(record) => attached.push(self.look(&record)),
                Err(error) => bad.push(error),
            }
        }
        (attached, bad)
    }
}
