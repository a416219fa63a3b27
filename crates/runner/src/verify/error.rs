//! What can go wrong with a ledger and what it proves.

use ebbtide_door::DoorError;
use ebbtide_door::read::ReadError;
use ebbtide_engine::EngineError;
use ebbtide_engine::descriptors::TooManyFiles;
use ebbtide_model::backend::BackendError;
use ebbtide_model::layout::LayoutError;
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Bytes;
use ebbtide_model::verify::LedgerError;
use std::io;
use std::path::PathBuf;

/// Why nothing was written with a ledger, or nothing can be proved with one.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    #[error("--verify writes: give --rw write or --rw randwrite")]
    NotWriting,
    /// Options that it would not do, with why not and what to write instead.
    #[error("--verify {}", .0.join("; it "))]
    NotTaken(Vec<String>),
    #[error(
        "--verify writes blocks of one size at multiples of it: leave out --bssplit and what follows the colon in --rw"
    )]
    NotPlain,
    #[error("--bs {0}: --verify needs 512, 1k, 2k or a multiple of 4k")]
    BlockSize(Bytes),
    #[error("no place for the ledger: give --ledger FILE, or set HOME")]
    NoPlace,
    /// The directory of ledgers.
    #[error("cannot make {}: {error}; give --ledger FILE", path.shown())]
    Directory { path: PathBuf, error: io::Error },
    /// The file where it was wanted.
    #[error("cannot make the ledger {}: {error}", path.shown())]
    Place { path: PathBuf, error: io::Error },
    /// What is written to it.
    #[error("cannot make the ledger {}: {error}", path.shown())]
    Write { path: PathBuf, error: io::Error },
    #[error("cannot read the ledger: {} {error}", path.shown())]
    Read { path: PathBuf, error: ReadError },
    /// It is no ledger.
    #[error("{}: {error}", path.shown())]
    Ledger { path: PathBuf, error: LedgerError },
    #[error("the ledger has no member `{name}`; it has {members}")]
    NoMember { name: String, members: String },
    #[error("the ledger's array: {0}")]
    Array(LayoutError),
    /// Ctrl-C.
    #[error("before anything was written")]
    Stopped,
    #[error("there is no job")]
    NoJob,
    #[error(transparent)]
    Descriptors(#[from] TooManyFiles),
    #[error("{0}; where the member is elsewhere now, say so with --member NAME=PATH")]
    Member(DoorError),
    #[error("cannot open the member {}: {error}", path.shown())]
    Open { path: PathBuf, error: io::Error },
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Backend(BackendError),
    #[error("{0}; `ebb cleanup` tries again")]
    PutBack(BackendError),
}

impl VerifyError {
    /// Whether what was asked for is wrong, and nothing was tried.
    pub fn is_usage(&self) -> bool {
        use VerifyError as E;
        match self {
            E::NotWriting
            | E::NotTaken(_)
            | E::NotPlain
            | E::BlockSize(_)
            | E::NoPlace
            | E::Place { .. }
            | E::Read { .. } => true,
            E::Ledger { .. } | E::NoMember { .. } | E::Array(_) => true,
            E::Directory { .. } | E::Write { .. } | E::Stopped | E::NoJob | E::Descriptors(_) => false,
            E::Member(_) | E::Open { .. } | E::Engine(_) | E::Backend(_) | E::PutBack(_) => false,
        }
    }
}

impl From<BackendError> for VerifyError {
    fn from(error: BackendError) -> Self {
        match error {
            BackendError::Stopped => VerifyError::Stopped,
            error => VerifyError::Backend(error),
        }
    }
}
