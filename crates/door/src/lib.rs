//! The one door: everything that is written to is opened here, judged here by what was opened, and written through the
//! handle that comes out.
//!
//! What may live here: opening for writing, claims and their identity, files made whole and published under a name, and
//! what removes exactly what was made. What may not: reading /proc and /sys, running programs, and the rules of what may be
//! written, which the host crate has ([`Judge`]). No other crate opens anything for writing: clippy refuses the calls
//! (clippy.toml), and `cargo xtask check` refuses exceptions.
//!
//! | to write | use |
//! | --- | --- |
//! | an existing file or device as a volume | [`Door::claim`], then [`Claim::open`] |
//! | a new file that appears under its name when it is ready | [`Draft`] |
//! | a report, replacing an older one as a whole | [`Output`] |
//! | a file of the host's that others edit too (/etc/fstab) | [`configuration`] |
//! | something in a directory, made and removed by identity | [`Directory`] |
//! | directories of `ebb`'s own, marked, removed with all that is in them | [`Directory::mark`], [`Directory::remove_tree`] |
//! | a file that grows line by line (journal, ledger) | [`Log`], [`Draft`] |
//! | a database whose library opens it by name | [`Database`] |
//! | an attribute of the kernel's, a control group, a terminal, a port | [`kernel`] |
//! | an object of the kernel's that is made as a directory (configfs) | [`config`] |
//! | `ebb`'s own files in its own directories | [`own`] |
//! | a socket with a name, for this user | [`Socket`] |
//!
//! What is read is opened here too ([`read`]): a pipe has another end to wait for, and a device may have none.

mod claim;
pub mod config;
pub mod configuration;
mod database;
mod directory;
mod door;
mod draft;
mod footprint;
mod held;
pub mod kernel;
mod log;
mod output;
pub mod own;
mod pause;
pub mod read;
mod socket;
mod tree;

pub use claim::{Access, Claim, Handle, Lent};
pub use database::Database;
pub use directory::{Directory, Removed, foreign_content, id_of, is_hidden_name};
pub use door::{Door, DoorError, Doubt, Expected, Judge, Look, NamedDevice, Opened, Wanted, is_claimed};
pub use draft::{Draft, Published};
pub use footprint::{Footprint, Identity};
pub use log::Log;
pub use output::Output;
pub use pause::{pause_at, stop_here};
pub use socket::Socket;
pub use tree::MARK;
