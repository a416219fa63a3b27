//! Taking away, in reverse: the mount first, because what is in use keeps everything else.

use super::crypt::LUKS;
use super::{Attacher, Failure, iscsi};
use crate::build::{self, BuildError, Outcome};
use crate::probe::Content;
use crate::ssh::last_lines;
use ebbtide_door::own;
use ebbtide_model::plan::build::BuildUndo;
use ebbtide_model::shown::excerpt;
use ebbtide_provision::attached::{Phase, Record, Step, Transport, Tunnel};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the end of the supervising process is waited for.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// How long the end of a session is waited for.
const SESSION_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 15 });

fn no_such(name: &str) -> Failure {
    let name = excerpt(name);
    Failure::Refused(format!(
        "there is no {name} that `ebb attach` attached on this host; `ebb status` lists what there is"
    ))
}

impl Attacher<'_> {
    /// Takes the attachment `name` away; what stays with why. What is on the volume stays.
    ///
    /// # Errors
    /// When there is no such attachment, or it is in use.
    pub fn detach(&self, name: &str) -> Result<Vec<String>, Failure> {
        let record = self.record(name)?.ok_or_else(|| no_such(name))?;
        let _lock = self.lock("ebb undo", name)?;
        self.under_way(&record, || self.take_away(record.clone()))
    }

    /// What [`detach`](Self::detach) would do.
    ///
    /// # Errors
    /// When there is no such attachment.
    pub fn plan_detach(&self, name: &str) -> Result<Vec<String>, Failure> {
        let record = self.record(name)?.ok_or_else(|| no_such(name))?;
        let mut steps = Vec::new();
        if let Some(mount) = record.mount.as_ref().filter(|mount| self.is_mounted(&record, &mount.directory))
        {
            steps.push(format!("umount {}", mount.directory.to_string_lossy()));
        }
        if record.encryption.is_some() && self.mapping(name)?.is_some() {
            steps.push(format!("cryptsetup close {name}"));
        }
        if self.session_state(&record).is_some() {
            steps.push(format!("end the {} session with {}", record.transport.name(), record.target));
        }
        if let Some(tunnel) = &record.tunnel {
            if !tunnel.found {
                steps.push(format!("on {}: ebb undo {name}", tunnel.destination));
            }
            steps.push(format!("end the SSH connection to {}", tunnel.destination));
        }
        Ok(steps)
    }

    /// Puts back what the journal says is under way: the attachment `name`, if it is the one with this `id`.
    ///
    /// # Errors
    /// What could not be taken away.
    pub fn put_back(&self, name: &str, id: &str) -> Result<Outcome, Failure> {
        let Some(record) = self.record(name)?.filter(|record| record.id == id) else {
            return Ok(Outcome::Before);
        };
        if record.phase == Phase::Attached {
            return Ok(Outcome::Left(format!(
                "{name} is attached as a whole; `ebb undo {name}` takes it away"
            )));
        }
        let _lock = self.lock("ebb cleanup", name)?;
        let left = self.take_away(record)?;
        Ok(if left.is_empty() { Outcome::Done } else { Outcome::Left(left.join("; ")) })
    }

    /// Takes away what was begun of `record`, the last first, and the record with it; what stays with why.
    pub(super) fn take_away(&self, mut record: Record) -> Result<Vec<String>, Failure> {
        let mut left = Vec::new();
        let before = record.phase;
        let ours = self.session_state(&record).is_some() || self.is_of_this_host(&record);
        // What an attach has put on the volume which never came to be whole is nobody's.
        let is_new = matches!(record.phase, Phase::Attaching | Phase::Abandoning);
        let phase = if is_new { Phase::Abandoning } else { Phase::Detaching };
        let is_connected = || self.supervised(&record.name).is_none_or(|state| state.connected);
        if !is_new && is_connected() {
            self.note_carried(&mut record);
        }
        if record.phase != phase {
            record.phase = phase;
            self.write(&record)?;
        }
        let begun = |step| record.begun.contains(&step);
        if let Err(why) = self.let_go(&record, is_new, &mut left) {
            // It goes on being used: whoever keeps the connection has to go on, too.
            if before == Phase::Attached {
                record.phase = before;
                self.put(&record)?;
            }
            return Err(why);
        }
        if begun(Step::Session) {
            self.end_session(&record)?;
            (self.boundary)();
        }
        if !ours && let Some(tunnel) = &record.tunnel {
            left.push(format!(
                "what is on {} stays: it was made for the host that logs in as {}, of which this one may be a clone; if nobody uses it, run \
                 `ebb undo {} --force` there as root",
                tunnel.destination, record.client, record.name
            ));
        }
        if let Some(tunnel) = record.tunnel.clone().filter(|_| ours) {
            // While the connection stands it carries this, too.
            if begun(Step::Export) && tunnel.found && !is_new {
                left.push(format!(
                    "the export {} on {} was there before it was attached, and stays",
                    record.name, tunnel.destination
                ));
            }
            if begun(Step::Export) && !tunnel.found {
                self.remove_export(&record, &tunnel, &mut left);
                (self.boundary)();
            }
            if record.secret_file.is_some()
                && let Err(error) = self.around.drop_secret(&record, &tunnel)
            {
                left.push(format!("the file with the secret on {} stays: {error}", tunnel.destination));
            }
            if let Err(error) = self.around.remove_copy(&record, &tunnel) {
                left.push(format!("the copy {} on {} stays: {error}", tunnel.ebb, tunnel.destination));
            }
        }
        if begun(Step::Tunnel) {
            self.end_tunnel(&record)?;
            (self.boundary)();
        }
        if is_new && begun(Step::Backup) {
            self.remove_backup(&record)?;
            (self.boundary)();
        }
        if !is_new {
            self.keep_known(&record)?;
        }
        self.forget(&record)?;
        Ok(left)
    }

    /// Takes away what stands on the device, and sees to it that nothing else does: what is mounted or part of an array loses what was not
    /// written yet when its device goes.
    fn let_go(&self, record: &Record, is_new: bool, left: &mut Vec<String>) -> Result<(), Failure> {
        let begun = |step| record.begun.contains(&step);
        if begun(Step::Mount) {
            self.unmount(record, left)?;
            (self.boundary)();
        }
        if is_new && begun(Step::Filesystem) && record.encryption.is_none() {
            self.erase(record, left)?;
        }
        if begun(Step::Open) {
            self.close(record)?;
            (self.boundary)();
        }
        if is_new && begun(Step::Format) {
            self.erase(record, left)?;
        }
        match self.block_name(record).map(|name| (self.around.users(&Path::new("/dev").join(&name)), name)) {
            Some((users, name)) if !users.is_empty() => Err(Failure::Refused(format!(
                "/dev/{name} is in use, and its session goes on: {}",
                users.join("; ")
            ))),
            _ => Ok(()),
        }
    }

    fn unmount(&self, record: &Record, left: &mut Vec<String>) -> Result<(), Failure> {
        let Some(mount) = &record.mount else { return Ok(()) };
        let undo = BuildUndo::Unmount { mountpoint: mount.directory.clone(), from: self.mounted(record) };
        match build::undo(&self.sys, self.runner, &undo)? {
            Outcome::Done => (self.tell)(&undo.to_string()),
            Outcome::Before => {}
            Outcome::Left(what) => left.push(what),
        }
        for directory in mount.made.iter().rev() {
            match build::undo(&self.sys, self.runner, &BuildUndo::RemoveDirectory(directory.clone())) {
                Ok(_) => {}
                // Somebody uses it for something of their own by now.
                Err(error) => {
                    left.push(format!("the directory {} stays: {error}", directory.to_string_lossy()))
                }
            }
        }
        Ok(())
    }

    /// Makes what a new attachment has begun to write look blank again, where it can be reached, and where it is what was written: after a
    /// kill somebody may have used the volume.
    fn erase(&self, record: &Record, left: &mut Vec<String>) -> Result<(), Failure> {
        let device = record.device.as_deref().filter(|_| self.session_state(record) == Some(true));
        let Some(device) = device else {
            left.push(format!(
                "what this attach has written to {} stays there, because it is not connected: look at it there before it is used (`blkid -p DEVICE`)",
                record.place
            ));
            return Ok(());
        };
        if let Some(what) = self.foreign(record, device) {
            left.push(format!("{device} carries {what}, which this attach has not put there: it stays"));
            return Ok(());
        }
        (self.tell)(&format!("erasing what was begun on {device}"));
        self.around
            .erase(&self.sys.at(Path::new(device)))
            .map_err(|why| Failure::Refused(format!("what was begun on {device} cannot be erased: {why}")))?;
        (self.boundary)();
        Ok(())
    }

    /// What `device` carries that `record` has not put there; nothing where it carries nothing, or that.
    fn foreign(&self, record: &Record, device: &str) -> Option<String> {
        let header = record.encryption.as_ref().map(|encrypted| encrypted.uuid.as_str());
        let label = record.mount.as_ref().and_then(|mount| mount.label.as_deref());
        match self.content(device) {
            Content::Nothing => None,
            Content::Signature(found) if found.kind == LUKS && found.uuid.as_deref() == header => None,
            Content::Signature(found) if label.is_some() && found.label.as_deref() == label => None,
            Content::Signature(found) => Some(found.kind),
            Content::PartitionTable(kind) => Some(format!("a partition table ({kind})")),
            Content::Unknown(why) => Some(format!("what cannot be told ({why})")),
        }
    }

    fn end_session(&self, record: &Record) -> Result<(), Failure> {
        match record.transport {
            Transport::NvmeTcp => {
                self.nvme_disconnect(record)?;
            }
            Transport::Iscsi => {
                if self.session_state(record).is_some() || iscsi::has_node(&self.sys, record) {
                    self.iscsi_logout(record)?;
                }
            }
        }
        let until = Instant::now() + SESSION_PATIENCE;
        while self.session_state(record).is_some() {
            if Instant::now() >= until {
                return Err(
                    BuildError::StillThere { what: format!("the session with {}", record.target) }.into()
                );
            }
            self.around.pause();
        }
        Ok(())
    }

    /// Has the other host take its export away, where it can be reached.
    fn remove_export(&self, record: &Record, tunnel: &Tunnel, left: &mut Vec<String>) {
        // Whoever is still connected is this host, whose session has just ended.
        let words = ["undo", record.name.as_str(), "--kind", "export", "--force"];
        (self.tell)(&format!("on {}: ebb {}", tunnel.destination, words.join(" ")));
        let why = match self.around.far(record, tunnel, &words) {
            Ok(said) if said.status == Some(0) => return,
            // Gone already, or never made.
            Ok(said) if said.stderr.contains(NO_EXPORT) => return,
            Ok(said) => last_lines(&said.stderr),
            Err(error) => error.to_string(),
        };
        left.push(format!(
            "the export {} on {} may still be there ({why}): run `ebb undo {}` there as root",
            record.name, tunnel.destination, record.name
        ));
    }

    /// Ends the supervising process with its `ssh`, and removes what it has shown.
    fn end_tunnel(&self, record: &Record) -> Result<(), Failure> {
        let until = Instant::now() + END_PATIENCE;
        let mut told = false;
        while self.is_supervised(&record.name) {
            if let Some(process) = self.supervised(&record.name) {
                if !std::mem::replace(&mut told, true) {
                    (self.tell)(&format!("ending the SSH connection to {}", record.host));
                }
                self.around.end(&process);
            }
            if Instant::now() >= until {
                return Err(BuildError::StillThere {
                    what: format!("the process that keeps the SSH connection to {}", record.host),
                }
                .into());
            }
            self.around.pause();
        }
        let place = self.running(&record.name);
        for name in ["state.json", "ssh.log", "header", "ssh", "lock"] {
            let path = place.join(name);
            own::remove(&path).map_err(|error| Failure::file(&path, error))?;
        }
        self.remove_running(&record.name);
        Ok(())
    }

    /// Removes the directory of what is shown of `name` where nothing is in it.
    pub(super) fn remove_running(&self, name: &str) {
        let place = self.running(name);
        for place in
            [Some(place.as_path()), place.parent()].into_iter().flatten().filter(|place| place.is_dir())
        {
            // Another attachment's may be beside it.
            let _ = own::remove_empty(place);
        }
    }
}

/// What `ebb undo` says of an export that is not there.
const NO_EXPORT: &str = "there is no export";
