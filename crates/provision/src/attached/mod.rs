//! A volume of another host that is attached here: what is asked for, what is written down of it, and how it is shown.
//!
//! No key and no secret is ever in its record, only the paths of the files that they are in.

mod place;
mod shown;

pub use place::{Place, PlaceError};
pub use shown::{Attached, Link, Since};

pub use ebbtide_model::export::Transport;

use ebbtide_model::journal::FileId;
use ebbtide_model::made::{self, Content, Kind};
use ebbtide_model::stack::Filesystem;
use ebbtide_model::units::UnixTime;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

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
    /// The file that is named now for the copy, or that has it.
    #[serde(skip)]
    pub copy: Option<PathBuf>,
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

/// The record of an attachment.
pub type Record = made::Record<Attachment>;

/// What is attached, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
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
    /// Whether `ebb` is copied to the other host where it has another one, or none.
    #[serde(skip)]
    pub copies: bool,
    /// When it was attached as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<UnixTime>,
}

impl Content for Attachment {
    const KIND: Kind = Kind::Attached;
}

impl Attachment {
    /// The file system that is mounted, the mapping and the device, from the top: what a user sees of it.
    pub fn shown_path(&self) -> &str {
        self.path.as_deref().or(self.device.as_deref()).unwrap_or("no device yet")
    }

    /// What differs between this attachment and one that is asked for as `other`, in words; nothing where they are the same.
    pub fn differs(&self, other: &Attachment) -> Option<String> {
        let said = |what: &str, now: String, asked: String| {
            (now != asked).then(|| format!("its {what} is {now} and not {asked}"))
        };
        let path = |path: &Option<PathBuf>| {
            path.as_ref().map_or_else(|| "none".to_owned(), |path| path.to_string_lossy().into_owned())
        };
        let encryption = |record: &Attachment| match &record.encryption {
            None => "none".to_owned(),
            Some(Encrypted { integrity: true, .. }) => "LUKS2 with integrity".to_owned(),
            Some(_) => "LUKS2".to_owned(),
        };
        let mount = |record: &Attachment| path(&record.mount.as_ref().map(|mount| mount.directory.clone()));
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
