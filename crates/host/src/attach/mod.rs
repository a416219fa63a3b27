//! Volumes of other hosts, attached here: `ebb export` on the other side, OpenSSH between, the kernel's initiator, LUKS and a file
//! system on this side, each a resource.
//!
//! What an attachment has put on a volume is erased with it only where it never came to be whole: from then on it is its user's.
//!
//! The connection through SSH is held by a process of its own ([`supervise`]), which starts `ssh` again when it ends. How long reads and
//! writes wait for it is the kernel's to keep: `fast_io_fail_tmo` and `replacement_timeout` are set to the hold time.

mod crypt;
mod iscsi;
mod known;
mod look;
mod mount;
mod nvme;
mod session;
pub mod supervise;
#[cfg(test)]
mod tests;
mod way;

pub use supervise::Supervised;

use crate::build::lasting::machine;
use crate::made::{Engine, Failure, Plan, Resources};
use crypt::{Copy, Header, Mapping};
use ebbtide_model::export::{Transport, check_client};
use ebbtide_model::made::State;
use ebbtide_model::remote::Waiting;
use ebbtide_model::shown::Shown;
use ebbtide_model::stack::Filesystem;
use ebbtide_model::units::UnixTime;
use ebbtide_provision::attached::{Attachment, Encrypted, MountedAt, Place, Record};
use mount::{FileSystem, Mount};
use session::Session;
use std::path::PathBuf;
use std::time::SystemTime;
use way::Way;

/// What runs keep below /run while they are attached: the lock and state of the supervising process, the socket of its `ssh`.
pub const RUNNING: &str = "ebbtide-attached";

/// Makes, looks at and takes away attachments on one host.
pub type Attachments<'a> = Engine<'a, Attachment>;

impl Plan for Attachment {
    const RECORDS: &'static str = "var/lib/ebbtide/attached";
    const RESOURCES: Resources<Attachment> = &[
        ("way", &Way),
        ("session", &Session),
        ("header", &Header),
        ("copy", &Copy),
        ("mapping", &Mapping),
        ("filesystem", &FileSystem),
        ("mount", &Mount),
    ];

    fn becomes_whole(on: &Attachments<'_>, record: &mut Record) {
        on.note_carried(record);
        record.since = Some(UnixTime::from(SystemTime::now()));
    }

    fn may_unmake(on: &Attachments<'_>, record: &mut Record, _force: bool) -> Result<(), Failure> {
        if record.whole && on.supervised(&record.name).is_none_or(|state| state.connected) {
            on.note_carried(record);
        }
        Ok(())
    }

    fn ends(on: &Attachments<'_>, record: &Record) -> Result<(), Failure> {
        if record.whole { on.keep_known(record) } else { Ok(()) }
    }
}

/// How long the host of `record` is waited for.
fn waiting(record: &Record) -> Waiting {
    let hold = u32::try_from(record.hold_s).unwrap_or(u32::MAX);
    Waiting::of_volume(hold, record.tunnel.is_some())
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Where the volume is.
    pub place: Place,
    /// UUID of what the volume carries, where somebody says.
    pub carries: Option<String>,
    /// What it is called here.
    pub name: String,
    /// The protocol.
    pub transport: Transport,
    /// How long I/O waits for a lost connection, in seconds.
    pub hold_s: u64,
    /// The file with the secret that the target asks for.
    pub secret_file: Option<PathBuf>,
    /// How it is to be encrypted.
    pub encrypt: Option<Encrypt>,
    /// Whether `ebb` is copied to a host that has another one, or none.
    pub copies: bool,
    /// Where it is to be mounted, and what a blank volume is formatted with.
    pub mount: Option<(PathBuf, Filesystem)>,
}

/// How a volume is to be encrypted.
#[derive(Debug, Clone)]
pub struct Encrypt {
    /// The file with the key; nothing where it is asked for.
    pub key_file: Option<PathBuf>,
    /// Whether each sector is to be authenticated.
    pub integrity: bool,
    /// Where the copy of the header is to be, or is.
    pub backup: Option<PathBuf>,
}

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

impl Attachments<'_> {
    /// Attaches what is `wanted`; what stands already stays.
    ///
    /// # Errors
    /// What failed, or why nothing is done. What this had made is taken away then.
    pub fn attach(&self, wanted: &Wanted) -> Result<Done, Failure> {
        let _lock = self.lock("ebb attach", &wanted.name, Attachment::PATIENCE)?;
        let before = self.record(&wanted.name)?;
        let asked = self.asked(wanted)?;
        let mut record = match before {
            Some(mut half) if half.state == State::Unmaking || !half.whole => {
                (self.tell)(&format!(
                    "taking away what an attach or detach of {} left that did not end",
                    half.name
                ));
                self.unmake(&mut half)?;
                asked
            }
            Some(mut standing) => {
                if let Some(what) = standing.differs(&asked) {
                    return Err(Failure::Refused(format!(
                        "{} is attached already, and {what}: `ebb undo {}` first, or say another --name",
                        standing.name, standing.name
                    )));
                }
                if let (Some(now), Some(asked)) = (&mut standing.encryption, &asked.encryption) {
                    now.copy.clone_from(&asked.copy);
                }
                standing.copies = asked.copies;
                if standing.state == State::Made && self.stands(&mut standing)? {
                    return Ok(Done { record: standing, changed: false, encrypted: false, formatted: false });
                }
                if !self.is_of_this_host(&standing) {
                    return Err(Failure::Refused(format!(
                        "{0} was attached by a host that logs in as {1}, and this one, which is {2}, may be a clone of it: two that write to one \
                         volume destroy what is on it; `ebb undo {0}` forgets it here and leaves it to that host",
                        standing.name, standing.client, asked.client
                    )));
                }
                standing.carries = asked.of.carries.or(standing.of.carries.take());
                standing
            }
            None => {
                self.check_alone(&asked)?;
                asked
            }
        };
        self.may_mount(wanted)?;
        let made = self.make(&mut record)?;
        let new = |name| made.contains(&name);
        let (encrypted, formatted) = (new("header"), new("filesystem"));
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
        if check_client(&client, wanted.transport).is_err() {
            return Err(Failure::Refused(format!(
                "this host's own name, {client}, is none of {}: see {} or /etc/nvme/hostnqn",
                wanted.transport.name(),
                iscsi::name_file().shown()
            )));
        }
        let encryption = wanted.encrypt.as_ref().map(|encrypt| Encrypted {
            uuid: self.draw(),
            integrity: encrypt.integrity,
            key_file: encrypt.key_file.clone(),
            header: None,
            backup: None,
            copy: encrypt.backup.clone(),
        });
        let carries = self.carries(wanted)?;
        let mount = wanted.mount.as_ref().map(|(directory, filesystem)| MountedAt {
            directory: directory.clone(),
            filesystem: None,
            wanted: *filesystem,
            label: None,
            made: Vec::new(),
        });
        let of = Attachment {
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
            copies: wanted.copies,
            since: None,
        };
        Ok(Record::new(&wanted.name, self.draw(), of))
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

    /// UUID of what the volume that is `wanted` carries: as somebody says, as the copy of its header says, or as it was when it was detached.
    fn carries(&self, wanted: &Wanted) -> Result<Option<String>, Failure> {
        let backup = wanted.encrypt.as_ref().and_then(|encrypt| encrypt.backup.as_deref());
        let backup = backup.filter(|path| path.symlink_metadata().is_ok());
        Ok(match (&wanted.carries, backup) {
            (Some(said), _) => Some(said.clone()),
            (None, Some(copy)) => Some(self.uuid_of(copy)?),
            (None, None) => self.remembered(&wanted.place).and_then(|(known, _)| known.carries()),
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
}
