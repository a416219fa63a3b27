//! The session of the kernel's initiator, and the device that it makes.

use super::way::{pause, secret};
use super::{Attachments, iscsi};
use crate::build::BuildError;
use crate::build::lasting;
use crate::made::{Failure, Now, Resource};
use crate::probe;
use ebbtide_door::pause_at;
use ebbtide_model::export::Transport;
use ebbtide_provision::attached::{Attachment, Record};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the kernel's device and udev's links are waited for, once a session is there.
const DEVICE_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 30 });
/// How long the end of a session is waited for.
const SESSION_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 15 });

/// The session, and the device by a link that stays.
pub(super) struct Session;

impl Resource<Attachment> for Session {
    fn state(&self, on: &Attachments<'_>, record: &mut Record) -> Result<Now, Failure> {
        if !record.has_begun("session")
            && let Some(what) = on.others_session(record)
        {
            return Ok(Now::Others(what));
        }
        let is_there = |device: &String| on.sys.at(Path::new(device)).exists();
        match record.device.clone().filter(is_there) {
            Some(device) if on.session_state(record).is_some() => {
                record.path = Some(device);
                Ok(Now::Stands)
            }
            _ => Ok(Now::Absent),
        }
    }

    fn make(&self, on: &Attachments<'_>, record: &mut Record) -> Result<(), Failure> {
        if on.session_state(record).is_none() {
            let secret = record.secret_file.as_deref().map(secret).transpose()?;
            match record.transport {
                Transport::NvmeTcp => on.nvme_connect(record, secret.as_deref())?,
                Transport::Iscsi => on.iscsi_login(record, secret.as_deref())?,
            }
        }
        (on.boundary)();
        pause_at("attach.session");
        let until = Instant::now() + DEVICE_PATIENCE;
        let device = loop {
            // udev makes the links.
            let _ = on.runner.run("udevadm", &["settle", "--timeout=5"]);
            if let Some(device) = on.block_name(record) {
                let devices = probe::devices(&on.sys);
                let node = Path::new("/dev").join(&device);
                match lasting::stable_path(&on.sys, &devices, &node).or_else(|| on.by_path(&device)) {
                    Some(link) => break link,
                    // A host without udev has no links: nothing else is to be had there.
                    None if Instant::now() >= until => break node.to_string_lossy().into_owned(),
                    None => {}
                }
            } else if Instant::now() >= until {
                return Err(Failure::Refused(format!(
                    "{} is connected, and no device of it has appeared in {} s; `dmesg` says why",
                    record.target,
                    DEVICE_PATIENCE.as_secs()
                )));
            }
            on.go_on()?;
            pause();
        };
        record.bytes = on.size_of(&device).or(record.bytes);
        record.path = Some(device.clone());
        record.device = Some(device);
        Ok(())
    }

    /// What is mounted or part of an array loses what was not written yet when its device goes.
    fn unmake(&self, on: &Attachments<'_>, record: &Record, _: &mut Vec<String>) -> Result<(), Failure> {
        if let Some(name) = on.block_name(record) {
            let users = on.host.users(&on.sys, &Path::new("/dev").join(&name));
            if !users.is_empty() {
                return Err(Failure::Refused(format!(
                    "/dev/{name} is in use, and its session goes on: {}",
                    users.join("; ")
                )));
            }
        }
        match record.transport {
            Transport::NvmeTcp => {
                on.nvme_disconnect(record)?;
            }
            Transport::Iscsi => {
                if on.session_state(record).is_some() || iscsi::has_node(&on.sys, record) {
                    on.iscsi_logout(record)?;
                }
            }
        }
        let until = Instant::now() + SESSION_PATIENCE;
        while on.session_state(record).is_some() {
            if Instant::now() >= until {
                return Err(
                    BuildError::StillThere { what: format!("the session with {}", record.target) }.into()
                );
            }
            pause();
        }
        Ok(())
    }

    fn unmaking(&self, on: &Attachments<'_>, record: &Record) -> Vec<String> {
        let end = || format!("end the {} session with {}", record.transport.name(), record.target);
        on.session_state(record).map(|_| end()).into_iter().collect()
    }
}

impl Attachments<'_> {
    /// That this host has something of the target of `record` already, and how it is ended: it is another's to use, to set and to end.
    fn others_session(&self, record: &Record) -> Option<String> {
        let Attachment { target, address, port, .. } = &record.of;
        let connected = self.session_state(record).is_some();
        match record.transport {
            Transport::NvmeTcp if connected => Some(format!(
                "this host is connected to {target} at {address}:{port} already, and not by `ebb attach`: `nvme disconnect -n {target}` ends that"
            )),
            Transport::Iscsi if connected || iscsi::has_node(&self.sys, record) => Some(format!(
                "this host has a node record or a session of {target} already, and not by `ebb attach`: `iscsiadm -m node -T {target} --logout` and \
                 `iscsiadm -m node -T {target} -o delete` take them away"
            )),
            _ => None,
        }
    }
}
