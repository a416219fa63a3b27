//! Volumes of other hosts, attached here: `ebb export` on the other side, OpenSSH between, the kernel's initiator, LUKS and a file
//! system on this side, all of it made and taken away step by step.
//!
//! The record ([`Record`]) is on disk before the first step, and names each step as begun before it is done. Taking away asks each step
//! that was begun whether it is there, so it does not matter where a kill came. What an attachment has put on a volume is erased with it
//! only where it never came to be whole: from then on it is its user's.
//!
//! The connection through SSH is held by a process of its own ([`supervise`]), which starts `ssh` again when it ends. How long reads and
//! writes wait for it is the kernel's to keep: `fast_io_fail_tmo` and `replacement_timeout` are set to the hold time.

mod away;
mod crypt;
mod error;
mod iscsi;
mod look;
mod make;
mod mount;
mod nvme;
mod real;
mod records;
pub mod supervise;
#[cfg(test)]
mod tests;

pub use error::Failure;
pub use make::Done;
pub use real::Real;
pub use supervise::Supervised;

use crate::command::{Output, Runner};
use crate::sys::Sys;
use ebbtide_model::journal::Journal;
use ebbtide_model::remote::Waiting;
use ebbtide_model::stack::Filesystem;
use ebbtide_model::units::UnixTime;
use ebbtide_provision::attached::{Place, Record, Transport, Tunnel};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Where records are, below the root of a host.
pub const RECORDS: &str = "var/lib/ebbtide/attached";
/// What runs keep below /run while they are attached: the lock and state of the supervising process, the socket of its `ssh`.
pub const RUNNING: &str = "ebbtide-attached";

/// Whether there is a record of an attachment `name` on the host of `sys`.
pub fn is_recorded(sys: &Sys, name: &str) -> bool {
    sys.root().join(RECORDS).join(format!("{name}.json")).exists()
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

/// What `ebb` on the other host said.
pub type Said = Result<Output, Failure>;

/// What is around: everything that a made-up machine answers instead in tests.
pub trait Around {
    /// Finds `ebb` on the other host: how it is run there with root's rights.
    ///
    /// # Errors
    /// When the host cannot be reached, or has no `ebb` that can be run so.
    fn find(&self, destination: &str) -> Result<(String, bool), Failure>;

    /// Removes the copy of `ebb` on the other host that [`find`](Self::find) made, if it made one.
    ///
    /// # Errors
    /// When the host cannot be reached.
    fn remove_copy(&self, record: &Record, tunnel: &Tunnel) -> Result<(), Failure>;

    /// Runs `ebb` with `words` on the other host.
    ///
    /// # Errors
    /// When the host cannot be reached; a status other than 0 is not an error here.
    fn far(&self, record: &Record, tunnel: &Tunnel, words: &[&str]) -> Said;

    /// Puts the secret into a file of the user's own on the other host; where.
    ///
    /// # Errors
    /// When the host cannot be reached.
    fn put_secret(&self, record: &Record, tunnel: &Tunnel, secret: &str) -> Result<String, Failure>;

    /// Removes that file.
    ///
    /// # Errors
    /// When the host cannot be reached.
    fn drop_secret(&self, record: &Record, tunnel: &Tunnel) -> Result<(), Failure>;

    /// Starts the supervising process of the attachment `name`.
    ///
    /// # Errors
    /// When it cannot be started.
    fn supervise(&self, name: &str) -> io::Result<()>;

    /// Ends the supervising process, which ends its `ssh`.
    fn end(&self, process: &Supervised);

    /// A TCP port of the loopback that nobody listens at.
    ///
    /// # Errors
    /// When there is none.
    fn free_port(&self, name: &str) -> io::Result<u16>;

    /// Has the kernel connect to an NVMe target (`/dev/nvme-fabrics`).
    ///
    /// # Errors
    /// As the kernel says it.
    fn fabrics(&self, options: &str) -> io::Result<String>;

    /// Has the kernel end the NVMe controller `name`.
    ///
    /// # Errors
    /// As the kernel says it.
    fn delete_controller(&self, name: &str) -> io::Result<()>;

    /// Whether the device at `path` is blank and nobody uses it: why not.
    ///
    /// # Errors
    /// In words.
    fn is_blank(&self, path: &Path) -> Result<(), String>;

    /// Who would lose what they have written to the device at `path` if it went away, with what to do.
    fn users(&self, path: &Path) -> Vec<String>;

    /// Makes the device at `path`, on which this attachment put something, look blank.
    ///
    /// # Errors
    /// Why it may not be written, or cannot be.
    fn erase(&self, path: &Path) -> Result<(), String>;

    /// The secret in the file `path`.
    ///
    /// # Errors
    /// When it cannot be read.
    fn secret(&self, path: &Path) -> Result<String, Failure>;

    /// The key; a `new` one is asked for twice where it is asked for at all.
    ///
    /// # Errors
    /// When there is none.
    fn key(&self, new: bool) -> Result<Vec<u8>, Failure>;

    /// The wall clock.
    fn now(&self) -> UnixTime;

    /// An id that no other attachment has.
    fn draw(&self) -> String;

    /// Between two looks at what is waited for.
    fn pause(&self);
}

/// Makes, looks at and takes away attachments on one host.
pub struct Attacher<'a> {
    /// The host's file trees.
    pub sys: Sys,
    /// Runs programs on this host.
    pub runner: &'a dyn Runner,
    /// The far host, its tunnel and the kernel's initiators: real ones, or made-up ones in tests.
    pub around: &'a dyn Around,
    /// Told of each thing as it is done.
    pub tell: &'a dyn Fn(&str),
    /// Ends it before the next step.
    pub stop: &'a AtomicBool,
    /// Called between any two changes: tests end everything there, as a kill would.
    pub boundary: &'a dyn Fn(),
    /// Where it is written down that something is under way; nothing where that is the caller's.
    pub journal: Option<&'a dyn Journal>,
}

impl Attacher<'_> {
    fn next(&self) -> Result<(), Failure> {
        (self.boundary)();
        if self.stop.load(Ordering::Relaxed) { Err(Failure::Stopped) } else { Ok(()) }
    }
}
