//! Makes a ring with what the kernel has of it, falling back step by step.

use super::entry::{Addressing, FixedBuffers};
use crate::buffers::Buffers;
use crate::error::EngineError;
use crate::shared::Shared;
use io_uring::{Builder, IoUring, cqueue, squeue};
use std::io;
use std::os::fd::AsRawFd;

/// Most entries of a submission queue; the kernel's own limit is 32768.
const ENTRIES_MAX: u32 = 4096;
/// The kernel refuses to register a buffer longer than this.
const REGISTERED_MAX: usize = 1 << 30;
/// Milliseconds without work after which the kernel's submission thread sleeps.
const SQPOLL_IDLE_MS: u32 = 50;

/// A ring with the buffers and files that are registered with it.
pub(crate) struct Ring {
    // Dropped before the buffers that it uses.
    pub(crate) ring: IoUring,
    pub(crate) buffers: Buffers,
    pub(super) addressing: Addressing,
    /// Whether completions are polled for: no timeouts on such a ring.
    pub(super) polled: bool,
}

/// Why a ring cannot be had on this host, where another way to do I/O can.
pub(crate) fn unavailable() -> Option<String> {
    match IoUring::new(2) {
        Ok(ring) if ring.params().is_feature_ext_arg() => None,
        Ok(_) => Some("the kernel is older than 5.11".to_owned()),
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

type RingBuilder = Builder<squeue::Entry, cqueue::Entry>;

/// A ring of the calling thread, the cheapest that the kernel has.
fn make(entries: u32, hipri: bool, sqpoll: bool) -> io::Result<IoUring> {
    let base = |builder: &mut RingBuilder| {
        builder.setup_clamp().setup_cqsize(entries.saturating_mul(2));
        if hipri {
            builder.setup_iopoll();
        }
        if sqpoll {
            builder.setup_sqpoll(SQPOLL_IDLE_MS);
        }
    };
    // From the newest kernel down: 6.6, 6.1, 5.19, 5.11. A submission thread excludes deferred task running.
    let steps: [fn(&mut RingBuilder); 4] = [
        |b| {
            b.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_no_sqarray();
        },
        |b| {
            b.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        },
        |b| {
            b.setup_coop_taskrun().setup_taskrun_flag();
        },
        |_| {},
    ];
    let mut refusal = io::Error::from(io::ErrorKind::Unsupported);
    for step in if sqpoll { &steps[3..] } else { &steps[..] } {
        let mut builder = IoUring::builder();
        base(&mut builder);
        step(&mut builder);
        match builder.build(entries) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refusal = error,
            result => return result,
        }
    }
    Err(refusal)
}

impl Ring {
    /// A ring for the jobs of `shared`, to be called on the job's thread. Adds to `notes` what the reader must know.
    pub(crate) fn new(
        shared: &Shared<'_>,
        buffers: Buffers,
        notes: &mut Vec<String>,
    ) -> Result<Self, EngineError> {
        let options = &shared.workload.engine;
        let per_op = if shared.plain { 1 } else { 4 };
        let entries = shared.workload.depth().saturating_mul(per_op).saturating_add(1);
        let ring = make(entries.clamp(2, ENTRIES_MAX), options.hipri, options.sqthread_poll)
            .map_err(|source| EngineError::System { what: "set up an io_uring", source })?;
        let fds: Vec<_> = shared.target.members.iter().map(|member| member.file.as_raw_fd()).collect();
        let fixed_files = match ring.submitter().register_files(&fds) {
            Ok(()) => true,
            Err(error) => {
                notes.push(format!(
                    "io_uring: files could not be registered ({error}); each operation looks them up"
                ));
                false
            }
        };
        let fixed_buffers = match register(&ring, &buffers) {
            Ok(fixed) => fixed,
            Err(error) => {
                notes.push(format!(
                    "io_uring: buffers could not be registered ({error}; RLIMIT_MEMLOCK?); each operation maps them"
                ));
                FixedBuffers::No
            }
        };
        let write_flags = if shared.workload.sync { libc::RWF_SYNC } else { 0 };
        let addressing = Addressing { files: fds, fixed_files, fixed_buffers, write_flags };
        Ok(Ring { ring, buffers, addressing, polled: options.hipri })
    }
}

#[cfg(test)]
impl Ring {
    /// Writes come back with EAGAIN where they would have to wait.
    pub(crate) fn refuse_to_wait(&mut self) {
        self.addressing.write_flags |= libc::RWF_NOWAIT;
    }
}

impl Ring {
    /// A ring with one buffer, for reads outside of a trial.
    pub(crate) fn for_probe(length: u64, entries: u32) -> Result<Self, EngineError> {
        let failed = |source| EngineError::System { what: "set up an io_uring", source };
        let (buffers, _) = Buffers::new(1, length, false)?;
        let ring = make(entries, false, false).map_err(failed)?;
        let addressing = Addressing {
            files: Vec::new(),
            fixed_files: false,
            fixed_buffers: FixedBuffers::No,
            write_flags: 0,
        };
        Ok(Ring { ring, buffers, addressing, polled: false })
    }
}

fn register(ring: &IoUring, buffers: &Buffers) -> io::Result<FixedBuffers> {
    let (start, stride, count) = buffers.region();
    let (vectors, fixed) = if stride * count <= REGISTERED_MAX {
        (vec![libc::iovec { iov_base: start.cast(), iov_len: stride * count }], FixedBuffers::One)
    } else {
        let vector =
            |index| libc::iovec { iov_base: buffers.address(index).cast().as_ptr(), iov_len: stride };
        ((0..count).map(vector).collect(), FixedBuffers::PerBuffer)
    };
    // SAFETY: the vectors lie in `buffers`' mapping, which `Ring` keeps until after its ring is dropped.
    unsafe { ring.submitter().register_buffers(&vectors) }.map(|()| fixed)
}
