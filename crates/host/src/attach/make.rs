//! Attaching, step by step, from whatever is there.

use super::{Attacher, Encrypt, Failure, Wanted, iscsi, nvme};
use crate::build::lasting::{self, machine};
use crate::build::run;
use crate::probe;
use ebbtide_door::pause_at;
use ebbtide_model::journal::Entry;
use ebbtide_model::plan::build::BuildUndo;
use ebbtide_model::shown::Shown;
use ebbtide_provision::attached::{Encrypted, MountedAt, Phase, Place, Record, Step, Transport, Tunnel};
use serde::Deserialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the kernel's device and udev's links are waited for, once a session is there.
const DEVICE_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 30 });
/// How long the supervising process may take to connect: twice what `ssh` gives a host.
const TUNNEL_PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 45 });
/// What an attach did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The record, as it is on disk.
    pub record: Record,
    /// Whether anything had to be done.
    pub changed: bool,
    /// Whether the volume was encrypted by this.
    pub encrypted: bool,
    /// Whether a file system was made by this.
    pub formatted: bool,
}

/// What `ebb export --json` says of an export.
#[derive(Debug, Clone, Deserialize)]
struct Exported {
    schema: String,
    name: String,
    transport: Transport,
    port: u16,
    target: String,
    bytes: u64,
    /// By a link that stays, where it has one.
    device: String,
}

/// What `ebb status --kind export --json` says.
#[derive(Debug, Clone, Deserialize)]
struct Exports {
    exports: Vec<Named>,
}

#[derive(Debug, Clone, Deserialize)]
struct Named {
    name: String,
    /// Whether its client is connected; nothing where that cannot be told.
    #[serde(default)]
    connected: Option<bool>,
}

impl Attacher<'_> {
    /// Attaches what is `wanted`; what stands already stays.
    ///
    /// # Errors
    /// The step that failed, or why nothing is done. What a new attachment had made is taken away then.
    pub fn attach(&self, wanted: &Wanted) -> Result<Done, Failure> {
        let _lock = self.lock("ebb attach", &wanted.name)?;
        let before = self.record(&wanted.name)?;
        let asked = self.asked(wanted)?;
        let mut record = match before {
            Some(half) if half.phase != Phase::Attached => {
                (self.tell)(&format!(
                    "taking away what an attach or detach of {} left that did not end",
                    half.name
                ));
                self.under_way(&half, || self.take_away(half.clone()))?;
                asked
            }
            Some(standing) => {
                if let Some(what) = standing.differs(&asked) {
                    return Err(Failure::Refused(format!(
                        "{} is attached already, and {what}: `ebb undo {}` first, or say another --name",
                        standing.name, standing.name
                    )));
                }
                if self.stands(&standing)? {
                    return Ok(Done { record: standing, changed: false, encrypted: false, formatted: false });
                }
                if !self.is_of_this_host(&standing) {
                    return Err(Failure::Refused(format!(
                        "{0} was attached by a host that logs in as {1}, and this one, which is {2}, may be a clone of it: two that write to one \
                         volume destroy what is on it; `ebb undo {0}` forgets it here and leaves it to that host",
                        standing.name, standing.client, asked.client
                    )));
                }
                let carries = asked.carries.or(standing.carries);
                Record { phase: Phase::Returning, carries, ..standing }
            }
            None => {
                self.check_alone(&asked)?;
                asked
            }
        };
        self.may_mount(wanted)?;
        let (name, id) = (record.name.clone(), record.id.clone());
        let (encrypted, formatted) =
            self.under_way(&record.clone(), || match self.make(&mut record, wanted.encrypt.as_ref()) {
                Ok(()) => self.whole(&mut record),
                Err(why) => {
                    (self.tell)(&format!("taking away what was made of {name}"));
                    // What is on disk knows what was begun.
                    let left = self.record(&name)?.filter(|left| left.id == id);
                    match left.map_or(Ok(Vec::new()), |left| self.take_away(left)) {
                        Ok(_) => Err(why),
                        Err(left) => Err(Failure::Both { why: Box::new(why), left: Box::new(left) }),
                    }
                }
            })?;
        Ok(Done { record, changed: true, encrypted, formatted })
    }

    /// Refuses what is attached under another name already: two attachments have one session, and the end of one is that of both.
    fn check_alone(&self, asked: &Record) -> Result<(), Failure> {
        let there = |record: &Record| {
            let target = |record: &Record| (record.target.clone(), record.address.clone(), record.port);
            record.place == asked.place || !asked.target.is_empty() && target(record) == target(asked)
        };
        let mut others = self.records().into_iter().flatten().filter(|other| other.name != asked.name);
        match others.find(there) {
            Some(other) => Err(Failure::Refused(format!(
                "{} is attached as {} already: `ebb undo {}` first, or use it under that name",
                asked.place, other.name, other.name
            ))),
            None => Ok(()),
        }
    }

    /// Notes that all of it stands: from now on what is on the volume is its user's. Whether it was encrypted, and a file system made.
    fn whole(&self, record: &mut Record) -> Result<(bool, bool), Failure> {
        let made = (record.made.contains(&Step::Format), record.made.contains(&Step::Filesystem));
        record.made.clear();
        record.phase = Phase::Attached;
        record.since = Some(self.around.now());
        self.put(record)?;
        Ok(made)
    }

    /// Whether `record` leaves nothing to clean up.
    fn is_settled(&self, record: &Record) -> bool {
        match self.record(&record.name) {
            Ok(Some(now)) => now.id != record.id || now.phase == Phase::Attached,
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// Does `work`, with a note in the journal while it is under way: after a kill `ebb cleanup` takes away what `record` is of.
    pub(super) fn under_way<T>(
        &self,
        record: &Record,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(journal) = self.journal else { return work() };
        let undo = BuildUndo::Detach { name: record.name.clone(), id: record.id.clone() };
        journal.write(&Entry::Step { number: 0, undo })?;
        (self.boundary)();
        let done = work();
        // A failure that left something is still to be cleaned up.
        if self.is_settled(record) {
            journal.write(&Entry::Undone(0))?;
        }
        done
    }

    /// The record of a new attachment as `wanted`; nothing is done for it yet.
    fn asked(&self, wanted: &Wanted) -> Result<Record, Failure> {
        let (address, port, target) = match &wanted.place {
            Place::Ssh { .. } => ("127.0.0.1".to_owned(), 0, String::new()),
            Place::Direct { host, port, target, .. } => {
                (self.address_of(wanted.transport, host)?, *port, target.clone())
            }
        };
        let client = match wanted.transport {
            Transport::NvmeTcp => nvme::client(&self.sys)?,
            Transport::Iscsi => iscsi::client(&self.sys)?,
        };
        if !wanted.transport.is_target(&client) {
            return Err(Failure::Refused(format!(
                "this host's own name, {client}, is none of {}: see {} or /etc/nvme/hostnqn",
                wanted.transport.name(),
                iscsi::name_file().shown()
            )));
        }
        let encryption = wanted.encrypt.as_ref().map(|encrypt| Encrypted {
            uuid: self.around.draw(),
            integrity: encrypt.integrity,
            key_file: encrypt.key_file.clone(),
            header: None,
            backup: None,
        });
        let carries = self.carries(wanted)?;
        let mount = wanted.mount.as_ref().map(|(directory, filesystem)| MountedAt {
            directory: directory.clone(),
            filesystem: None,
            wanted: *filesystem,
            label: None,
            made: Vec::new(),
        });
        Ok(Record {
            schema: Record::SCHEMA.to_owned(),
            name: wanted.name.clone(),
            id: self.around.draw(),
            phase: Phase::Attaching,
            host: wanted.place.host().to_owned(),
            place: wanted.place.clone(),
            transport: wanted.transport,
            target,
            address,
            port,
            client,
            machine: machine(&self.sys),
            device: None,
            path: None,
            carries,
            bytes: None,
            hold_s: wanted.hold_s,
            tunnel: None,
            secret_file: wanted.secret_file.clone(),
            encryption,
            mount,
            begun: [].into(),
            made: [].into(),
            since: None,
        })
    }

    /// The address of `host`: the kernel's NVMe initiator knows no names.
    fn address_of(&self, transport: Transport, host: &str) -> Result<String, Failure> {
        if host.parse::<std::net::IpAddr>().is_ok() {
            return Ok(host.to_owned());
        }
        let said = self.runner.run("getent", &["ahosts", host])?;
        let text = said.text();
        let first = text.split_whitespace().next().filter(|_| said.status == Some(0));
        first.map(str::to_owned).ok_or_else(|| {
            Failure::far(
                host,
                format!(
                    "no address is known for this name (`getent ahosts {host}`): write the address in {}://",
                    transport.name()
                ),
            )
        })
    }

    /// Whether all of `record` stands: nothing has to be done.
    fn stands(&self, record: &Record) -> Result<bool, Failure> {
        if self.session_state(record).is_none()
            || record.tunnel.is_some() && !self.is_supervised(&record.name)
        {
            return Ok(false);
        }
        if record.encryption.is_some() && self.mapping(&record.name)?.is_none() {
            return Ok(false);
        }
        Ok(record.mount.as_ref().is_none_or(|mount| self.is_mounted(record, &mount.directory)))
    }

    fn make(&self, record: &mut Record, encrypt: Option<&Encrypt>) -> Result<(), Failure> {
        self.write(record)?;
        self.next()?;
        if let Place::Ssh { destination, device } = record.place.clone() {
            self.export(record, &destination, &device)?;
            self.tunnel(record)?;
        }
        self.session(record)?;
        if let Some(encrypt) = encrypt {
            self.encrypt(record, encrypt.backup.as_deref())?;
        }
        self.mount(record)?;
        self.note_carried(record);
        Ok(())
    }

    /// UUID of what the volume that is `wanted` carries: as somebody says, as the copy of its header says, or as it was when it was detached.
    fn carries(&self, wanted: &Wanted) -> Result<Option<String>, Failure> {
        let backup = wanted.encrypt.as_ref().and_then(|encrypt| encrypt.backup.as_deref());
        let backup = backup.filter(|path| path.symlink_metadata().is_ok());
        Ok(match (&wanted.carries, backup) {
            (Some(said), _) => Some(said.clone()),
            (None, Some(copy)) => Some(self.uuid_of(copy)?),
            (None, None) => self.known(&wanted.place).and_then(|(known, _)| known.carries()),
        })
    }

    /// Notes what the volume carries, where that can be told: its user may have put something there.
    pub(super) fn note_carried(&self, record: &mut Record) {
        let device = record.device.as_deref().filter(|_| self.session_state(record) == Some(true));
        let found = match &record.encryption {
            Some(encrypted) => Some(encrypted.uuid.clone()),
            None => device.and_then(|device| self.content(device).own_uuid().map(str::to_owned)),
        };
        record.carries = found.or(record.carries.take());
    }

    /// Has the other host export the device to this one.
    fn export(&self, record: &mut Record, destination: &str, device: &str) -> Result<(), Failure> {
        let mut tunnel = match record.tunnel.clone() {
            Some(tunnel) => tunnel,
            None => {
                (self.tell)(&format!("looking for ebb on {destination}"));
                let (ebb, sudo) = self.around.find(destination)?;
                Tunnel {
                    destination: destination.to_owned(),
                    device: device.to_owned(),
                    ebb,
                    sudo,
                    export_port: 0,
                    found: false,
                    secret: None,
                }
            }
        };
        let mut connected = false;
        if !record.begun.contains(&Step::Export) {
            let said = self.far_json(record, &tunnel, &["status", "--kind", "export", "--json"])?;
            let exports: Exports = understood(destination, &said)?;
            let found = exports.exports.iter().find(|export| export.name == record.name);
            tunnel.found = found.is_some();
            connected = found.is_some_and(|export| export.connected == Some(true));
        }
        record.tunnel = Some(tunnel.clone());
        self.begin(record, Step::Export)?;
        if let Some(path) = &record.secret_file {
            let secret = self.around.secret(path)?;
            tunnel.secret = Some(self.around.put_secret(record, &tunnel, &secret)?);
            record.tunnel = Some(tunnel.clone());
            (self.boundary)();
        }
        let words = export_words(record, &tunnel);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        (self.tell)(&format!("on {destination}: ebb {}", words.join(" ")));
        let said = self.far_json(record, &tunnel, &words)?;
        let exported: Exported = understood(destination, &said)?;
        if exported.schema != "ebbtide.export/1"
            || exported.name != record.name
            || exported.transport != record.transport
        {
            return Err(Failure::far(
                destination,
                format!("its ebb answered with another export: {}", said.trim()),
            ));
        }
        if !record.transport.is_target(&exported.target) {
            return Err(Failure::far(
                destination,
                format!("its ebb answered with a target that is none: {}", said.trim()),
            ));
        }
        if connected {
            return Err(Failure::far(
                destination,
                format!(
                    "somebody who logs in as this host does, {0}, is connected to the export {1}: a clone of this host, or what it had before and has \
                     forgotten; two that write to one volume destroy what is on it. Detach it there, or, if nobody uses it, `ebb undo {1} --force` on {destination}",
                    record.client, record.name
                ),
            ));
        }
        record.target = exported.target;
        record.bytes = Some(exported.bytes);
        if let Some(tunnel) = &mut record.tunnel {
            tunnel.export_port = exported.port;
            // After a boot there another device may have the name that was written.
            tunnel.device = exported.device;
        }
        (self.boundary)();
        self.write(record)
    }

    /// Runs `ebb` there, which must succeed; what it printed.
    pub(super) fn far_json(
        &self,
        record: &Record,
        tunnel: &Tunnel,
        words: &[&str],
    ) -> Result<String, Failure> {
        let said = self.around.far(record, tunnel, words)?;
        match said.status {
            Some(0) => Ok(said.text().into_owned()),
            // One of them does not run: which, it says.
            Some(1) if words[0] == "status" && !said.stdout.is_empty() => Ok(said.text().into_owned()),
            _ => Err(Failure::far(&tunnel.destination, crate::ssh::last_lines(&said.stderr))),
        }
    }

    /// Has a process keep the SSH connection that leads to the export, and waits until it stands.
    fn tunnel(&self, record: &mut Record) -> Result<(), Failure> {
        if record.port == 0 {
            record.port = self.around.free_port(&record.name).map_err(|error| {
                Failure::Refused(format!("there is no free TCP port on the loopback: {error}"))
            })?;
        }
        self.begin(record, Step::Tunnel)?;
        if !self.is_supervised(&record.name) {
            (self.tell)(&format!(
                "keeping an SSH connection from 127.0.0.1:{} to 127.0.0.1:{} on {}",
                record.port,
                record.tunnel.as_ref().map_or(0, |tunnel| tunnel.export_port),
                record.host
            ));
            self.around.supervise(&record.name).map_err(|error| {
                Failure::Refused(format!(
                    "the process that keeps the SSH connection cannot be started: {error}"
                ))
            })?;
        }
        (self.boundary)();
        let until = Instant::now() + TUNNEL_PATIENCE;
        loop {
            let state = self.supervised(&record.name);
            match &state {
                Some(state) if state.connected => return Ok(()),
                Some(state) if state.error.is_some() && state.lost == 0 && state.tries > 1 => {
                    return Err(Failure::far(&record.host, state.error.clone().unwrap_or_default()));
                }
                _ => {}
            }
            if Instant::now() >= until {
                let why = state
                    .and_then(|state| state.error)
                    .unwrap_or_else(|| "the SSH connection does not come to be".to_owned());
                return Err(Failure::far(&record.host, why));
            }
            self.next_without_boundary()?;
            self.around.pause();
        }
    }

    fn next_without_boundary(&self) -> Result<(), Failure> {
        match self.stop.load(std::sync::atomic::Ordering::Relaxed) {
            true => Err(Failure::Stopped),
            false => Ok(()),
        }
    }

    /// Has the kernel log in, and waits for the device and its link.
    fn session(&self, record: &mut Record) -> Result<(), Failure> {
        if !record.begun.contains(&Step::Session)
            && let Some(what) = self.others_session(record)
        {
            return Err(Failure::Refused(what));
        }
        self.begin(record, Step::Session)?;
        if self.session_state(record).is_none() {
            let secret = record.secret_file.as_deref().map(|path| self.around.secret(path)).transpose()?;
            match record.transport {
                Transport::NvmeTcp => self.nvme_connect(record, secret.as_deref())?,
                Transport::Iscsi => self.iscsi_login(record, secret.as_deref())?,
            }
        }
        (self.boundary)();
        pause_at("attach.session");
        let until = Instant::now() + DEVICE_PATIENCE;
        let device = loop {
            // udev makes the links.
            let _ = self.runner.run("udevadm", &["settle", "--timeout=5"]);
            if let Some(device) = self.block_name(record) {
                let devices = probe::devices(&self.sys);
                let node = Path::new("/dev").join(&device);
                match lasting::stable_path(&self.sys, &devices, &node).or_else(|| self.by_path(&device)) {
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
            self.next_without_boundary()?;
            self.around.pause();
        };
        record.bytes = self.size_of(&device).or(record.bytes);
        record.path = Some(device.clone());
        record.device = Some(device);
        self.write(record)
    }

    /// That this host has something of the target of `record` already, and how it is ended: it is another's to use, to set and to end.
    fn others_session(&self, record: &Record) -> Option<String> {
        let Record { target, address, port, .. } = record;
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

    pub(super) fn run(&self, program: &str, arguments: &[&str]) -> Result<(), Failure> {
        (self.tell)(&crate::command::Shown(program, arguments).to_string());
        run(self.runner, program, arguments)?;
        Ok(())
    }
}

fn understood<T: serde::de::DeserializeOwned>(host: &str, said: &str) -> Result<T, Failure> {
    serde_json::from_str(said).map_err(|error| {
        Failure::far(
            host,
            format!(
                "the answer of its ebb cannot be understood ({error}): {}",
                said.trim().chars().take(200).collect::<String>()
            ),
        )
    })
}

/// The words of the export on the other host.
pub(super) fn export_words(record: &Record, tunnel: &Tunnel) -> Vec<String> {
    let mut words: Vec<&str> =
        vec!["export", &tunnel.device, "--client", &record.client, "--name", &record.name];
    // A name that stays says more: what is there may have been made anew since.
    if let Some(carries) =
        record.carries.as_deref().filter(|_| !tunnel.device.starts_with("/dev/disk/by-id/"))
    {
        words.extend(["--carries", carries]);
    }
    words.extend(["--transport", record.transport.name()]);
    if let Some(secret) = &tunnel.secret {
        words.extend(["--secret", secret]);
    }
    words.push("--json");
    words.into_iter().map(str::to_owned).collect()
}
