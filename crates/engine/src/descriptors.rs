//! How many files may be open at the same time (`RLIMIT_NOFILE`): every volume, every handle on it and every ring is one.
//! The usual soft limit of 1024 is for programs that still use select(2); what is needed is asked for, up to the hard limit.

use ebbtide_model::backend::BackendError;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Beside what is counted: looks at /proc and /sys, the store, programs that are started.
const SPARE: u64 = 64;

/// Why not as many files can be open at the same time as are needed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TooManyFiles {
    /// The hard limit is lower.
    #[error(
        "{needed} files would be open at the same time, and this process may have {maximum} (its hard limit); raise it to \
         {needed} (`ulimit -n {needed}` as root, `nofile` in /etc/security/limits.conf, `LimitNOFILE=` of a service), or \
         use fewer volumes, designs or jobs"
    )]
    HardLimit {
        /// Files that would be open at the same time.
        needed: u64,
        /// Most that this process may ask for.
        maximum: u64,
    },
    /// The kernel did not raise the limit.
    #[error("{needed} files would be open at the same time, and the limit stays: {source}")]
    Unchanged {
        /// Files that would be open at the same time.
        needed: u64,
        /// Error of `setrlimit`.
        source: Errno,
    },
}

impl From<TooManyFiles> for BackendError {
    fn from(error: TooManyFiles) -> Self {
        BackendError::Other(error.to_string())
    }
}

/// Makes room for `more` files beside those that are open.
///
/// # Errors
/// When the hard limit is too low.
pub fn make_room(more: u64) -> Result<(), TooManyFiles> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(SPARE, |files| files.count() as u64);
    let needed = open.saturating_add(more).saturating_add(SPARE);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = maximum.filter(|maximum| *maximum < needed) {
        return Err(TooManyFiles::HardLimit { needed, maximum });
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum })
        .map_err(|source| TooManyFiles::Unchanged { needed, source })
}
