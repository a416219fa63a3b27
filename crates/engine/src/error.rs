//! Why a trial gave no samples.

use ebbtide_model::layout::{ExtentError, LayoutError, LayoutName};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::units::{ArrayOffset, Bytes, MemberOffset, Nanos};
use ebbtide_model::workload::{OpKind, WorkloadError};
use std::io;

/// Why a trial gave no samples.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The workload cannot run on this target.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A member failed an operation for good.
    #[error(
        "{member}: {} of {} bytes at offset {} failed: {cause}{}",
        op_name(*.op), .length.0, .offset.0, advice(.cause)
    )]
    Member {
        /// Name of the member.
        member: String,
        /// What was asked; absent for the final fsync.
        op: Option<OpKind>,
        /// First byte of the operation on its member.
        offset: MemberOffset,
        /// Bytes that were asked for.
        length: Bytes,
        /// What the kernel said.
        cause: MemberFailure,
    },
    /// The buffers would take too much of the host's memory.
    #[error(
        "numjobs x iodepth x bs needs {needed} of buffers and this host has {memory}: at most half of it is used; \
         lower `iodepth`, `numjobs` or `bs`"
    )]
    Memory {
        /// Bytes that the buffers need.
        needed: Bytes,
        /// Memory of this host.
        memory: Bytes,
    },
    /// The layout has parity: its addresses are computed but writes to it are not run in user space.
    #[error(
        "a layout with parity ({}) is not written in user space; only read it, or choose {}",
        LayoutName::names(", ", |layout| layout.parity() > 0),
        LayoutName::names(" or ", |layout| layout.has_copies())
    )]
    ParityWrite,
    /// The layout names volumes that the target does not have.
    #[error("the layout names volumes {volumes:?} and the target has {members} members")]
    Members {
        /// As the layout names them.
        volumes: Vec<usize>,
        /// Members of the target.
        members: usize,
    },
    /// The target cannot be an array.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A block size that the kernel has no single call for.
    #[error("`bs` is {bs}; at most {most} is possible")]
    BlockSize {
        /// What was asked for.
        bs: Bytes,
        /// The largest block that the kernel moves in one call.
        most: Bytes,
    },
    /// More writes in flight than `--verify` has threads for.
    #[error(
        "--verify keeps a thread for each write in flight: numjobs x iodepth is {slots}, at most {most} are possible"
    )]
    Threads {
        /// Writes in flight that were asked for.
        slots: u32,
        /// Most threads that are possible.
        most: u32,
    },
    /// A thread that writes ended without saying why.
    #[error("a writing thread ended unexpectedly")]
    ThreadDied,
    /// An operation lies outside the array.
    #[error("the layout has no place for an operation: {0}")]
    NoPlace(#[from] ExtentError),
    /// What a trial wrote is not there when it is read back.
    #[error(
        "verify: {number} of {of} places that were written are not as they were written, the first at byte {}{}: {what}",
        .offset.0,
        of_copy(*.copy)
    )]
    NotAsWritten {
        /// Places that are not as they were written.
        number: u64,
        /// Places that were written.
        of: u64,
        /// Where in the array the first begins.
        offset: ArrayOffset,
        /// The number of its copy, from 0.
        copy: u32,
        /// What is wrong with it.
        what: String,
    },
    /// A ledger names units outside the array.
    #[error("the ledger does not fit the array: {0}")]
    Ledger(ExtentError),
    /// The operating system refused something that the engine needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was asked of it, in words.
        what: &'static str,
        /// As the kernel says it.
        source: io::Error,
    },
    /// The device does not give back what it was given.
    #[error(
        "{member}: {operations} operations did not come back within {seconds} s of the trial's end and cannot be \
         cancelled: the device hangs; the process may not go away before it answers"
    )]
    Hung {
        /// The member that holds the oldest of them.
        member: String,
        /// Those that the kernel still has.
        operations: u32,
        /// How long they were waited for.
        seconds: u64,
    },
    /// It was slower than it has to be.
    #[error("from {from} to {until} it was {seen} ({option})")]
    TooSlow {
        /// What was seen, and what there had to be.
        seen: String,
        /// The option that says so.
        option: &'static str,
        /// Where the time that was judged began, from the start of the measurement.
        from: Nanos,
        /// Where it ended, likewise.
        until: Nanos,
    },
    /// A job failed after the measurement had begun.
    #[error("{cause}")]
    CutShort {
        /// The error that ended it there.
        cause: Box<EngineError>,
        /// Samples up to the failure, with a note that says so and the errors of each member.
        seen: Box<TrialSamples>,
    },
    /// Ended by `Control::stop`; what was measured until then, if the measurement had begun.
    #[error("stopped")]
    Stopped {
        /// Samples up to the stop, with a note that says so.
        seen: Option<Box<TrialSamples>>,
    },
}

impl EngineError {
    /// The error number behind it, where there is one; the end of a file counts as EIO, as in fio.
    pub fn errno(&self) -> Option<i32> {
        match self {
            EngineError::Member { cause: MemberFailure::Errno(errno), .. } => Some(*errno),
            EngineError::Member { cause: MemberFailure::End, .. } | EngineError::Hung { .. } => {
                Some(libc::EIO)
            }
            EngineError::CutShort { cause, .. } => cause.errno(),
            EngineError::System { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// How a member failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemberFailure {
    /// The system's error number (`errno`).
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    Errno(i32),
    /// A read met the end of the file, or a write made no progress.
    #[error("the end of the file was reached: it is shorter than when it was opened")]
    End,
}

fn op_name(op: Option<OpKind>) -> &'static str {
    match op {
        Some(OpKind::Read) => "read",
        Some(OpKind::Write) => "write",
        None => "fsync",
    }
}

/// What to do about the failures that have a usual cause.
fn advice(cause: &MemberFailure) -> &'static str {
    match cause {
        MemberFailure::Errno(libc::EINVAL) => {
            " (with O_DIRECT, `bs` and the chunk have to be multiples of the logical block size)"
        }
        MemberFailure::Errno(libc::ENOSPC | libc::EDQUOT) => " (the file system underneath is full)",
        MemberFailure::Errno(libc::EOPNOTSUPP) => {
            " (`hipri` needs a driver with polling queues, and O_DIRECT)"
        }
        MemberFailure::Errno(libc::EBADF) => " (it is not open for this operation)",
        _ => "",
    }
}

/// The copy, where it is not the first.
fn of_copy(copy: u32) -> String {
    if copy == 0 { String::new() } else { format!(" (copy {})", copy + 1) }
}

/// Name of an error number as C has it, for counting; the number where it is not one of the usual.
pub(crate) fn errno_name(errno: i32) -> String {
    let name = match errno {
        libc::EIO => "EIO",
        libc::EAGAIN => "EAGAIN",
        libc::EINTR => "EINTR",
        libc::EINVAL => "EINVAL",
        libc::ENOSPC => "ENOSPC",
        libc::ENODEV => "ENODEV",
        libc::ENXIO => "ENXIO",
        libc::EBADF => "EBADF",
        libc::ENOMEM => "ENOMEM",
        libc::EDQUOT => "EDQUOT",
        libc::EROFS => "EROFS",
        libc::EREMOTEIO => "EREMOTEIO",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EPERM => "EPERM",
        libc::EFBIG => "EFBIG",
        libc::ENOLINK => "ENOLINK",
        _ => return format!("errno {errno}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_error_says_who_what_where_and_what_to_do() {
        let error = EngineError::Member {
            member: "vol3".into(),
            op: Some(OpKind::Read),
            offset: MemberOffset(8192),
            length: Bytes(4096),
            cause: MemberFailure::Errno(libc::EINVAL),
        };
        let text = error.to_string();
        for part in ["vol3", "read", "4096 bytes", "offset 8192", "Invalid argument", "logical block size"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
