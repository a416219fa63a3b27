//! Why nothing is served, with what to do.

use ebbtide_model::shown::Shown;
use std::path::PathBuf;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Other hosts could read everything.
    #[error(
        "{address} can be reached from other hosts, {missing}: give {remedy}, or listen on a loopback address such as 127.0.0.1:7340"
    )]
    Exposed {
        /// Where it was to listen.
        address: String,
        /// How they could read.
        missing: &'static str,
        /// The options that are missing.
        remedy: &'static str,
    },
    /// The place is taken, or not of this host.
    #[error("cannot listen on {address}: {source}; {remedy}")]
    Listen {
        /// Where it was to listen.
        address: String,
        /// What the system says.
        source: std::io::Error,
        /// What to do.
        remedy: &'static str,
    },
    /// A file that was named cannot be read.
    #[error("{what} {} {why}", path.shown())]
    Unreadable {
        /// What it was to be.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A secret that is none.
    #[error("{what} {} can be read by {whom} (mode {mode:03o}): `chmod 600` it, and make a new one where somebody may have seen it", path.shown())]
    NoSecret {
        /// What it was to be.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// Who else reads it.
        whom: &'static str,
        /// Its permission bits.
        mode: u32,
    },
    /// What the file holds is not what it was named as.
    #[error("{what} {}: {why}", path.shown())]
    Wrong {
        /// What it was to be.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// An error of the system while the server ran.
    #[error("the server cannot go on: {0}")]
    System(#[from] std::io::Error),
}
