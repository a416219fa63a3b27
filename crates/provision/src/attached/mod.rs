//! A volume of another host that is attached here: what is asked for, what is written down of it, and how it is shown.
//!
//! The record is on disk before anything is made, and each step is noted in it as begun before it is done: what is begun is what
//! `ebb undo` and `ebb cleanup` take away, each asked whether it is there. No key and no secret is ever in it, only the paths of
//! the files that they are in.

mod place;
mod shown;

pub use place::{Place, PlaceError};
pub use shown::{Attached, Link, Since};

use ebbtide_model::journal::FileId;
use ebbtide_model::stack::Filesystem;
use ebbtide_model::units::UnixTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use strum::{AsRefStr, EnumString, VariantNames};

/// The protocol that carries blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, AsRefStr, EnumString, VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Transport {
    /// NVMe over TCP.
    NvmeTcp,
    /// iSCSI.
    Iscsi,
}

impl Transport {
    /// Every protocol.
    pub const ALL: [Transport; 2] = [Transport::NvmeTcp, Transport::Iscsi];

    /// As options, records and addresses call it.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::NvmeTcp => "nvme-tcp",
            Transport::Iscsi => "iscsi",
        }
    }

    /// The TCP port that IANA gives it.
    pub const fn port(self) -> u16 {
        match self {
            Transport::NvmeTcp => 4420,
            Transport::Iscsi => 3260,
        }
    }

    /// What its names are called, and what they look like.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Transport::NvmeTcp => ("NQN", "nqn.2026-11.ebbtide:NAME"),
            Transport::Iscsi => ("IQN", "iqn.2026-11.ebbtide:NAME"),
        }
    }

    /// Whether `text` can be the name of a target or an initiator of this protocol.
    pub fn is_target(self, text: &str) -> bool {
        let begins = match self {
            Transport::NvmeTcp => text.starts_with("nqn."),
            Transport::Iscsi => ["iqn.", "eui.", "naa."].iter().any(|prefix| text.starts_with(prefix)),
        };
        // 223 bytes: NVMe base specification 2.0, 4.5; RFC 7143, 4.2.7.1.
        begins
            && text.len() <= 223
            && text.chars().all(|sign| sign.is_ascii_alphanumeric() || ".:_-".contains(sign))
    }
}

/// What is done for an attachment, in this order; undone in reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// `ebb export` on the other host.
    Export,
    /// The supervising process and its `ssh`.
    Tunnel,
    /// The session of the kernel.
    Session,
    /// The LUKS header, on a blank volume.
    Format,
    /// The copy of the header in a file.
    Backup,
    /// The encrypted volume opened as a device-mapper device.
    Open,
    /// The file system, in a blank volume.
    Filesystem,
    /// Directories of the mount point, and the mount.
    Mount,
}

/// Where an attachment is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It is being made for the first time, or was when somebody ended `ebb`: what it put on the volume is nobody's yet.
    Attaching,
    /// It was made as a whole, and what is on the volume is its user's.
    Attached,
    /// One that was whole is being connected again, after a boot: what is on the volume is its user's.
    Returning,
    /// It is being taken away; what is on the volume stays.
    Detaching,
    /// What never came to be whole is being taken away, and what it put on the volume with it.
    Abandoning,
}

/// How a volume is encrypted here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Encrypted {
    /// Of the LUKS header; drawn before it is made.
    pub uuid: String,
    /// Whether each sector is authenticated.
    pub integrity: bool,
    /// The file with the key; nothing where it is asked for.
    pub key_file: Option<PathBuf>,
    /// A header in a file that took the place of the volume's own, which is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<PathBuf>,
    /// The copy of the header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
}

/// A copy of a LUKS header in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Where it is; an absolute path.
    pub path: PathBuf,
    /// Which file that is, where this attachment made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<FileId>,
}

/// A file system that is mounted here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountedAt {
    /// The mount point.
    pub directory: PathBuf,
    /// Its type, where it is known by now.
    pub filesystem: Option<String>,
    /// What is made where the volume is blank.
    pub wanted: Filesystem,
    /// The label of the file system that this attachment made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Directories that were not there before, the outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<PathBuf>,
}

/// The way through SSH.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tunnel {
    /// `[USER@]HOST`.
    pub destination: String,
    /// What is exported there.
    pub device: String,
    /// `ebb` there, as a path or a name on that user's path.
    pub ebb: String,
    /// Whether it is run through `sudo -n`.
    pub sudo: bool,
    /// The port of the export on that host's loopback.
    pub export_port: u16,
    /// Whether the export was there before: then it stays.
    pub found: bool,
    /// The file there with the secret, of that user's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// All that is known of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Name and version of the form: [`Record::SCHEMA`].
    pub schema: String,
    /// What it is called on this host; the export on the other host is called so too.
    pub name: String,
    /// Unlike that of any other attachment.
    pub id: String,
    /// How far it is.
    pub phase: Phase,
    /// Where the volume is.
    pub place: Place,
    /// The host, as the place names it.
    pub host: String,
    /// The protocol.
    pub transport: Transport,
    /// The NQN or IQN of the target; empty before it is known.
    pub target: String,
    /// Where the kernel connects to: this host's loopback where SSH goes on from there.
    pub address: String,
    /// Its TCP port; 0 before it is known.
    pub port: u16,
    /// The NQN or IQN by which this host logs in.
    pub client: String,
    /// What tells this host from others (`/etc/machine-id`), where it has that: a clone of it has this record, too.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// The device: its link below /dev/disk; nothing before it is there.
    pub device: Option<String>,
    /// What is to be read and written: the device, or the mapping that decrypts it.
    pub path: Option<String>,
    /// UUID of what the volume carries, as far as that is known: it tells the volume from others where its name there does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carries: Option<String>,
    /// Size of the device in bytes.
    pub bytes: Option<u64>,
    /// How long I/O waits for a lost connection before it fails, in seconds.
    pub hold_s: u64,
    /// The way through SSH; nothing for a direct connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<Tunnel>,
    /// The file with the secret that the target asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
    /// How it is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encrypted>,
    /// Where it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<MountedAt>,
    /// Steps that were begun.
    pub begun: BTreeSet<Step>,
    /// Steps that made something on the volume, and are known to be done.
    #[serde(default)]
    pub made: BTreeSet<Step>,
    /// When it was attached as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<UnixTime>,
}

impl Record {
    /// Name and version of its form.
    pub const SCHEMA: &str = "ebbtide.attached/1";

    /// The file system that is mounted, the mapping and the device, from the top: what a user sees of it.
    pub fn shown_path(&self) -> &str {
        self.path.as_deref().or(self.device.as_deref()).unwrap_or("no device yet")
    }

    /// What differs between this attachment and one that is asked for as `other`, in words; nothing where they are the same.
    pub fn differs(&self, other: &Record) -> Option<String> {
        let said = |what: &str, now: String, asked: String| {
            (now != asked).then(|| format!("its {what} is {now} and not {asked}"))
        };
        let path = |path: &Option<PathBuf>| {
            path.as_ref().map_or_else(|| "none".to_owned(), |path| path.to_string_lossy().into_owned())
        };
        let encryption = |record: &Record| match &record.encryption {
            None => "none".to_owned(),
            Some(Encrypted { integrity: true, .. }) => "LUKS2 with integrity".to_owned(),
            Some(_) => "LUKS2".to_owned(),
        };
        let mount = |record: &Record| path(&record.mount.as_ref().map(|mount| mount.directory.clone()));
        said("place", self.place.to_string(), other.place.to_string())
            .or_else(|| {
                said("transport", self.transport.name().to_owned(), other.transport.name().to_owned())
            })
            .or_else(|| said("hold", format!("{} s", self.hold_s), format!("{} s", other.hold_s)))
            .or_else(|| said("encryption", encryption(self), encryption(other)))
            .or_else(|| said("mount point", mount(self), mount(other)))
            .or_else(|| said("secret", path(&self.secret_file), path(&other.secret_file)))
    }
}
