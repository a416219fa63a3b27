//! A job's ring with what the kernel has of it, and what is said where it has less.

use crate::buffers::Buffers;
use crate::error::EngineError;
use crate::shared::Shared;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::units::Bytes;
use ebbtide_sys::memory::Buffer;
use ebbtide_sys::ring::{self, Options};
use rustix::fd::AsFd;
use rustix::io::ReadWriteFlags;
use std::io;

/// A ring with the buffers and files that are registered with it.
pub(crate) struct Ring<'a> {
    pub(crate) ring: ring::Ring<'a>,
    /// Those of each slot of the queue.
    pub(crate) slots: Vec<PerOp<Buffer>>,
    /// Whether completions are polled for: no timeouts on such a ring.
    pub(super) polled: bool,
}

/// Why a ring cannot be had on this host, where another way to do I/O can.
pub(crate) fn unavailable() -> Option<String> {
    match ring::waits() {
        Ok(true) => None,
        Ok(false) => Some("the kernel is older than 5.11".to_owned()),
        Err(error) => Some(refusal(&error)),
    }
}

/// What it means that io_uring_setup(2) failed.
pub(crate) fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "the kernel has no io_uring".to_owned(),
        Some(libc::EPERM) => {
            "io_uring is forbidden here (sysctl kernel.io_uring_disabled or a sandbox)".to_owned()
        }
        _ => format!("io_uring_setup failed: {error}"),
    }
}

fn failed(source: io::Error) -> EngineError {
    EngineError::System { what: "set up an io_uring", source }
}

impl<'a> Ring<'a> {
    /// A ring for the jobs of `shared`, to be called on the job's thread. Adds to `notes` what the reader must know.
    pub(crate) fn new(
        shared: &'a Shared<'a>,
        buffers: Buffers,
        notes: &mut Vec<String>,
    ) -> Result<Self, EngineError> {
        let Buffers { memory, slots } = buffers;
        let engine = &shared.workload.engine;
        let per_op = if shared.plain { 1 } else { 4 };
        let entries = (slots.len() as u32).saturating_mul(per_op).saturating_add(1);
        let files = shared.target.members.iter().map(|member| member.file.as_fd()).collect();
        let options = Options { polled: engine.hipri, submission_thread: engine.sqthread_poll };
        let mut ring = ring::Ring::new(files, memory, entries, options).map_err(failed)?;
        if let Err(error) = ring.register_files() {
            notes.push(format!(
                "io_uring: files could not be registered ({error}); each operation looks them up"
            ));
        }
        if let Err(error) = ring.register_buffers() {
            notes.push(format!(
                "io_uring: buffers could not be registered ({error}; RLIMIT_MEMLOCK?); each operation maps them"
            ));
        }
        if shared.workload.sync {
            ring.add_write_flags(ReadWriteFlags::SYNC);
        }
        Ok(Ring { ring, slots, polled: engine.hipri })
    }

    /// A ring with one buffer, for operations outside of a trial.
    pub(crate) fn for_probe(
        file: Option<&'a impl AsFd>,
        length: Bytes,
        entries: u32,
    ) -> Result<Self, EngineError> {
        let Buffers { memory, slots } = Buffers::one(length)?;
        let files = file.map(AsFd::as_fd).into_iter().collect();
        let ring = ring::Ring::new(files, memory, entries, Options::default()).map_err(failed)?;
        Ok(Ring { ring, slots, polled: false })
    }
}

#[cfg(test)]
impl Ring<'_> {
    /// Writes come back with EAGAIN where they would have to wait.
    pub(crate) fn refuse_to_wait(&mut self) {
        self.ring.add_write_flags(ReadWriteFlags::NOWAIT);
    }
}
