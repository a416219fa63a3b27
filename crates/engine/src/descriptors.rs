//! How many files may be open at the same time (`RLIMIT_NOFILE`): every volume, every handle on it and every ring is one.
//! The usual soft limit of 1024 is for programs that still use select(2); what is needed is asked for, up to the hard limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Beside what is counted: looks at /proc and /sys, the store, programs that are started.
const SPARE: u64 = 64;

/// Makes room for `more` files beside those that are open.
///
/// # Errors
/// When the hard limit is too low, with the number that is needed.
pub fn make_room(more: u64) -> Result<(), String> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(SPARE, |files| files.count() as u64);
    let needed = open.saturating_add(more).saturating_add(SPARE);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = maximum.filter(|maximum| *maximum < needed) {
        return Err(format!(
            "{needed} files would be open at the same time, and this process may have {maximum} (its hard limit); raise it to \
             {needed} (`ulimit -n {needed}` as root, `nofile` in /etc/security/limits.conf, `LimitNOFILE=` of a service), or \
             use fewer volumes, designs or jobs"
        ));
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).map_err(|errno| {
        format!("{needed} files would be open at the same time, and the limit stays: {errno}")
    })
}
