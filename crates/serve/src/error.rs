//! Why nothing is served, with what to do.

use ebbtide_model::shown::Shown;
use std::path::PathBuf;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum ServeError {
    /// Other hosts could read everything.
    #[error(
        "{address} can be reached from other hosts, {missing}: give {remedy}, or listen on a loopback address such as 127.0.0.1:7340"
    )]
    Exposed { address: String, missing: &'static str, remedy: &'static str },
    /// The place is taken, or not of this host.
    #[error("cannot listen on {address}: {source}; {remedy}")]
    Listen { address: String, source: std::io::Error, remedy: &'static str },
    /// A file that was named cannot be read.
    #[error("{what} {} {why}", path.shown())]
    Unreadable { what: &'static str, path: PathBuf, why: String },
    /// A secret that is none.
    #[error("{what} {} can be read by {whom} (mode {mode:03o}): `chmod 600` it, and make a new one where somebody may have seen it", path.shown())]
    NoSecret { what: &'static str, path: PathBuf, whom: &'static str, mode: u32 },
    /// What the file holds is not what it was named as.
    #[error("{what} {}: {why}", path.shown())]
    Wrong {
        what: &'static str,
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// An error of the system while the server ran.
    #[error("the server cannot go on: {0}")]
    System(#[from] std::io::Error),
}
