//! An io_uring with its own buffers and borrowed files, so that no operation can outlive what it works on.
//!
//! What makes it safe to call: an operation names a buffer by number and lies within it, as is checked when it is submitted; the
//! buffers belong to the ring, which lends them as plain bytes only while the kernel has no operation; files are borrowed for
//! as long as the ring lives; and a ring that is dropped with operations under way leaves itself and its buffers to the
//! kernel until the process ends.

#[cfg(test)]
mod tests;

use crate::memory::{Buffer, Buffers};
use io_uring::types::{CancelBuilder, Fd, Fixed, FsyncFlags, SubmitArgs};
use io_uring::{Builder, IoUring, cqueue, opcode, squeue};
use rustix::fd::{AsRawFd, BorrowedFd};
use std::io;
use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicU64;

pub use io_uring::types::Timespec;

/// What a completion of the timer says instead of an operation's number.
pub const TIMER: u64 = u64::MAX;
/// That of a request to cancel everything.
pub const CANCEL: u64 = u64::MAX - 1;
/// That of an empty operation.
const NOTHING: u64 = u64::MAX - 2;

/// Most entries of a submission queue; the kernel's own limit is 32768.
const ENTRIES_MAX: u32 = 4096;
/// The kernel refuses to register a buffer longer than this.
const REGISTERED_MAX: usize = 1 << 30;
/// Milliseconds without work after which the kernel's submission thread sleeps.
const SUBMISSION_THREAD_IDLE_MS: u32 = 50;
/// io_uring_enter(2): look for completions.
const GETEVENTS: u32 = 1;

/// How the buffers are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registered {
    Not,
    AsOne,
    EachByItself,
}

/// Ways of a ring that cost something else.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Completions are polled for (`IORING_SETUP_IOPOLL`); there is no timer on such a ring.
    pub polled: bool,
    /// A thread of the kernel's submits (`IORING_SETUP_SQPOLL`).
    pub submission_thread: bool,
}

/// One transfer between a file and a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    /// From the buffer to the file.
    pub is_write: bool,
    /// Which of the ring's files.
    pub file: u32,
    /// Bytes from the file's beginning.
    pub offset: u64,
    /// One of the ring's.
    pub buffer: Buffer,
    /// Bytes from the buffer's beginning.
    pub at: u32,
    /// Bytes that are transferred.
    pub length: u32,
}

/// A ring with the buffers and files that its operations name.
pub struct Ring<'f> {
    ring: ManuallyDrop<IoUring>,
    buffers: ManuallyDrop<Buffers>,
    files: Vec<BorrowedFd<'f>>,
    files_registered: bool,
    buffers_registered: Registered,
    /// RWF_ flags of writes.
    write_flags: i32,
    /// Operations that were submitted and whose completion has not been taken.
    in_flight: u32,
}

/// Whether the kernel's rings can wait for a given time (`IORING_FEAT_EXT_ARG`, Linux 5.11).
///
/// # Errors
/// When there are no rings at all, as io_uring_setup(2) says it.
pub fn waits() -> io::Result<bool> {
    IoUring::new(2).map(|ring| ring.params().is_feature_ext_arg())
}

/// The cheapest ring that the kernel has.
fn make(entries: u32, options: Options) -> io::Result<IoUring> {
    type RingBuilder = Builder<squeue::Entry, cqueue::Entry>;
    let base = |builder: &mut RingBuilder| {
        builder.setup_clamp().setup_cqsize(entries.saturating_mul(2));
        if options.polled {
            builder.setup_iopoll();
        }
        if options.submission_thread {
            builder.setup_sqpoll(SUBMISSION_THREAD_IDLE_MS);
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
    for step in if options.submission_thread { &steps[3..] } else { &steps[..] } {
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

impl<'f> Ring<'f> {
    /// A ring of the calling thread with room for `entries` submissions, as far as the kernel has as much.
    ///
    /// # Errors
    /// When the kernel has no such ring.
    pub fn new(
        files: Vec<BorrowedFd<'f>>,
        buffers: Buffers,
        entries: u32,
        options: Options,
    ) -> io::Result<Self> {
        Ok(Ring {
            ring: ManuallyDrop::new(make(entries.clamp(2, ENTRIES_MAX), options)?),
            buffers: ManuallyDrop::new(buffers),
            files,
            files_registered: false,
            buffers_registered: Registered::Not,
            write_flags: 0,
            in_flight: 0,
        })
    }

    /// Has the kernel look up the files once instead of with every operation.
    ///
    /// # Errors
    /// When it refuses; operations work all the same.
    pub fn register_files(&mut self) -> io::Result<()> {
        let fds: Vec<_> = self.files.iter().map(AsRawFd::as_raw_fd).collect();
        self.ring.submitter().register_files(&fds)?;
        self.files_registered = true;
        Ok(())
    }

    /// Has the kernel map the buffers once instead of with every operation.
    ///
    /// # Errors
    /// When it refuses; operations work all the same.
    pub fn register_buffers(&mut self) -> io::Result<()> {
        let stride = self.buffers.stride();
        let vector =
            |buffer| libc::iovec { iov_base: self.buffers.address(buffer, 0, 0).cast(), iov_len: stride };
        let mut vectors: Vec<libc::iovec> = self.buffers.all().map(vector).collect();
        let registered = match stride * vectors.len() {
            all @ ..=REGISTERED_MAX => {
                vectors.truncate(1);
                vectors[0].iov_len = all;
                Registered::AsOne
            }
            _ => Registered::EachByItself,
        };
        // SAFETY: the vectors lie in the mapping of `buffers`, which is kept until after the ring is dropped.
        unsafe { self.ring.submitter().register_buffers(&vectors) }?;
        self.buffers_registered = registered;
        Ok(())
    }

    /// What every write has, beside what it has: RWF_ flags of pwritev2(2).
    pub fn add_write_flags(&mut self, flags: rustix::io::ReadWriteFlags) {
        self.write_flags |= flags.bits() as i32;
    }

    /// Operations that were submitted and whose completion has not been taken.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// The words of the first `length` bytes of `buffer`, which the kernel may be reading or writing.
    ///
    /// # Panics
    /// When the buffer is shorter.
    #[inline]
    pub fn words(&self, buffer: Buffer, length: u32) -> &[AtomicU64] {
        self.buffers.words(buffer, length)
    }

    /// The buffers, while no operation is in flight.
    pub fn buffers(&mut self) -> Option<&mut Buffers> {
        (self.in_flight == 0).then_some(&mut self.buffers)
    }

    /// Submits `transfer` with the number `id`; `false` while the queue is full.
    ///
    /// # Panics
    /// When there is no such buffer, or the transfer is not within it, or there is no such file (among registered ones the
    /// transfer fails instead).
    #[inline(always)]
    pub fn transfer(&mut self, transfer: &Transfer, id: u32) -> bool {
        let Transfer { is_write, file, offset, buffer, at, length } = *transfer;
        let address = self.buffers.address(buffer, at, length);
        // At most 16384 buffers can be registered each by itself.
        let index = match self.buffers_registered {
            Registered::EachByItself => self.buffers.number(buffer) as u16,
            _ => 0,
        };
        let (fixed, flags) = (self.buffers_registered != Registered::Not, self.write_flags);
        // The two ways to name a file are types of their own, with no public trait in common.
        macro_rules! on {
            ($file:expr) => {
                match (is_write, fixed) {
                    (false, true) => {
                        opcode::ReadFixed::new($file, address, length, index).offset(offset).build()
                    }
                    (true, true) => opcode::WriteFixed::new($file, address, length, index)
                        .offset(offset)
                        .rw_flags(flags)
                        .build(),
                    (false, false) => opcode::Read::new($file, address, length).offset(offset).build(),
                    (true, false) => {
                        opcode::Write::new($file, address, length).offset(offset).rw_flags(flags).build()
                    }
                }
            };
        }
        let entry = if self.files_registered {
            on!(Fixed(file))
        } else {
            on!(Fd(self.files[file as usize].as_raw_fd()))
        };
        self.operation(entry, id)
    }

    /// Submits fsync(2) of `file`, or fdatasync(2) where `data_only`, with the number `id`; `false` while the queue is full.
    ///
    /// # Panics
    /// When there is no such file (among registered ones the call fails instead).
    pub fn sync(&mut self, file: u32, data_only: bool, id: u32) -> bool {
        let flags = if data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
        let entry = if self.files_registered {
            opcode::Fsync::new(Fixed(file)).flags(flags).build()
        } else {
            opcode::Fsync::new(Fd(self.files[file as usize].as_raw_fd())).flags(flags).build()
        };
        self.operation(entry, id)
    }

    #[inline(always)]
    fn operation(&mut self, entry: squeue::Entry, id: u32) -> bool {
        // SAFETY: the entry's memory lies within `buffers`, which are kept until its completion has been taken; its file is
        // open as long as the ring borrows it.
        let is_pushed = unsafe { self.ring.submission().push(&entry.user_data(u64::from(id))) }.is_ok();
        self.in_flight += u32::from(is_pushed);
        is_pushed
    }

    /// Submits a timer, which completes as [`TIMER`]; `false` while the queue is full.
    pub fn timer(&mut self, time: &'static Timespec) -> bool {
        let entry = opcode::Timeout::new(time).build().user_data(TIMER);
        // SAFETY: the time is static.
        unsafe { self.ring.submission().push(&entry) }.is_ok()
    }

    /// Submits a request to cancel everything, which completes as [`CANCEL`]; `false` while the queue is full.
    pub fn cancel_all(&mut self) -> bool {
        let entry = opcode::AsyncCancel2::new(CancelBuilder::any()).build().user_data(CANCEL);
        // SAFETY: the request names no memory and no file.
        unsafe { self.ring.submission().push(&entry) }.is_ok()
    }

    /// Submits an operation that does nothing; `false` while the queue is full.
    pub fn nothing(&mut self) -> bool {
        let entry = opcode::Nop::new().build().user_data(NOTHING);
        // SAFETY: an empty operation refers to no memory and no file.
        unsafe { self.ring.submission().push(&entry) }.is_ok()
    }

    /// Whether the queue has no room.
    #[inline]
    pub fn is_full(&mut self) -> bool {
        self.ring.submission().is_full()
    }

    /// Gives the kernel what is in the queue, and waits for `want` completions. After a signal there may be fewer: where something was
    /// submitted io_uring_enter(2) says how much, and not that its wait was ended.
    ///
    /// # Errors
    /// As io_uring_enter(2).
    #[inline]
    pub fn submit_and_wait(&self, want: usize) -> io::Result<usize> {
        self.ring.submitter().submit_and_wait(want)
    }

    /// Gives the kernel what is in the queue, if there is something.
    ///
    /// # Errors
    /// As io_uring_enter(2).
    pub fn submit(&mut self) -> io::Result<usize> {
        if self.ring.submission().is_empty() { Ok(0) } else { self.ring.submitter().submit() }
    }

    /// Gives the kernel what is in the queue and sleeps until a completion, at most for `time`.
    ///
    /// # Errors
    /// As io_uring_enter(2): `ETIME` when the time is over.
    pub fn submit_and_sleep(&self, time: Timespec) -> io::Result<usize> {
        self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time))
    }

    /// Whether completions wait in the kernel until it is entered (`IORING_SQ_TASKRUN`).
    #[inline]
    pub fn must_look(&mut self) -> bool {
        self.ring.submission().taskrun()
    }

    /// Enters the kernel to look for completions.
    ///
    /// # Errors
    /// As io_uring_enter(2).
    pub fn look(&self) -> io::Result<usize> {
        // SAFETY: no pointer goes to the kernel.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 0, GETEVENTS, None) }
    }

    /// Whether there are completions to take.
    #[inline]
    pub fn has_completions(&mut self) -> bool {
        !self.ring.completion().is_empty()
    }

    /// Takes completions, as many as `seen` has room for: an operation's number (or [`TIMER`], [`CANCEL`]) and its result. Returns
    /// how many.
    #[inline(always)]
    pub fn reap(&mut self, seen: &mut [(u64, i32)]) -> usize {
        let mut count = 0;
        for (place, completion) in seen.iter_mut().zip(&mut self.ring.completion()) {
            let id = completion.user_data();
            *place = (id, completion.result());
            self.in_flight -= u32::from(id <= u64::from(u32::MAX));
            count += 1;
        }
        count
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            // The kernel may still write into the buffers: they stay, as does the ring, until the process ends.
            return;
        }
        // SAFETY: neither is used after this; the ring, with which the buffers are registered, goes first.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.buffers);
        }
    }
}
