//! An `ebb` that is at work on what stays: written into the lock that it holds.

use ebbtide_model::civil::Civil;
use ebbtide_model::units::UnixTime;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Who is at work, on which array or attached volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtWork {
    /// The command, such as `ebb apply`.
    pub command: String,
    /// Name of the array or volume.
    pub name: String,
    /// Its process ID.
    pub pid: u32,
    /// When that process began, in clock ticks since boot: tells it from another process of that number.
    pub start: u64,
    /// When it took the lock, in seconds since 1970 in UTC.
    pub since_unix_s: u64,
    /// The step that it is at, where that can be told from what there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

impl fmt::Display for AtWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = Civil::from_unix(UnixTime::from_secs(self.since_unix_s)).rfc3339();
        write!(f, "`{}` of {} is at work (process {}, since {since})", self.command, self.name, self.pid)?;
        self.step.iter().try_for_each(|step| write!(f, ": {step}"))
    }
}
