//! Reports of `iostat -x` and `sar -d`, old and new, as text or JSON: which member of an array stands out, from a log alone.

mod columns;
mod device;
mod explain;
mod grouping;
mod json;
mod parse;
#[cfg(test)]
mod tests;

pub use device::{SingleDevice, State};
pub use explain::{Explanation, Group, Grouping, explain};
pub use parse::parse;

use ebbtide_analysis::observe::outlier::MemberFigures;

/// What was read of a text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    /// Its reports, in order.
    pub reports: Vec<IostatReport>,
    /// Whether the first may hold the means since boot, as iostat's does without -y.
    pub since_boot: bool,
    /// What was skipped of the text, for the reader to know.
    pub notes: Vec<String>,
}

/// One report: a block of devices over one interval.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IostatReport {
    /// Devices in the order of the report.
    pub devices: Vec<IostatRow>,
}

/// One device in a report. Nothing for what the version or the options do not print.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IostatRow {
    /// Its kernel name.
    pub device: String,
    /// Reads per second.
    pub reads: Option<f64>,
    /// Writes per second.
    pub writes: Option<f64>,
    /// Bytes read per second.
    pub read_bytes: Option<f64>,
    /// Bytes written per second.
    pub write_bytes: Option<f64>,
    /// Mean wait of reads in ms.
    pub read_await: Option<f64>,
    /// Mean wait of writes in ms.
    pub write_await: Option<f64>,
    /// Mean wait of all requests in ms, where it is printed for both together.
    pub all_await: Option<f64>,
    /// Mean requests in flight.
    pub queue: Option<f64>,
    /// Share of the time with a request in flight, 0 to 1.
    pub util: Option<f64>,
}

impl IostatRow {
    /// Requests per second, reads and writes.
    pub fn requests(&self) -> f64 {
        self.reads.unwrap_or(0.0) + self.writes.unwrap_or(0.0)
    }

    /// Bytes per second, reads and writes.
    pub fn bytes(&self) -> f64 {
        self.read_bytes.unwrap_or(0.0) + self.write_bytes.unwrap_or(0.0)
    }

    /// Mean wait of reads and writes in ms; nothing when no request completed.
    pub fn wait(&self) -> Option<f64> {
        if self.requests() <= 0.0 {
            return None;
        }
        self.all_await.or_else(|| {
            let part = |wait: Option<f64>, ops: Option<f64>| wait.unwrap_or(0.0) * ops.unwrap_or(0.0);
            self.read_await.or(self.write_await)?;
            Some((part(self.read_await, self.reads) + part(self.write_await, self.writes)) / self.requests())
        })
    }

    /// For the comparison of members. Little's law gives the queue where none is printed.
    pub fn figures(&self) -> MemberFigures {
        MemberFigures {
            name: self.device.clone(),
            requests_per_second: self.requests(),
            bytes_per_second: self.bytes(),
            await_ms: self.wait(),
            queue: self.queue.unwrap_or_else(|| self.requests() * self.wait().unwrap_or(0.0) / 1000.0),
            util: self.util,
        }
    }
}

/// Why a text is no report of `iostat -x`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum IostatError {
    /// Nothing of it at all.
    #[error(
        "there is no report of iostat or sar in it: no header of a table of devices (`Device r/s w/s ...`), and no sysstat JSON; record `iostat -x 1`"
    )]
    NoReport,
    /// Figures alone.
    #[error(
        "line {line} has figures, but no header says what they are: paste the line that begins with `Device` too"
    )]
    NoHeader { line: usize },
    /// A header and rows of another width.
    #[error(
        "line {line} has {figures} figures under a header of {columns} columns, and no row has as many: paste header and rows whole"
    )]
    NoRow { line: usize, figures: usize, columns: usize },
    /// `iostat -c`, or sar without -d.
    #[error("it has the processors' figures only; record `iostat -x 1`, or print `sar -d -p`")]
    OnlyProcessors,
    /// Of FreeBSD or Solaris.
    #[error(
        "it is iostat of another system than Linux, whose columns are others; sysstat's `iostat -x` is read"
    )]
    Foreign,
    /// Reports without waits and queues.
    #[error(
        "it is iostat without -x: there are no waits and queues in it; record `iostat -x 1` (busybox's iostat has no -x: install sysstat, or record `ebb watch --format text`)"
    )]
    NotExtended,
    /// sysstat's JSON, of which no report is whole.
    #[error("no report in this JSON of sysstat is whole ({0}); was it cut off or edited?")]
    Damaged(String),
    /// JSON that is not sysstat's.
    #[error("it is JSON but not sysstat's: {0}")]
    Json(String),
}
