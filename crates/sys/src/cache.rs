//! What the page cache holds of a file.

use rustix::fd::{AsFd, AsRawFd};

/// Number of the system call cachestat(2), the same on every architecture (Linux 6.5).
const CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` of linux/mman.h.
#[repr(C)]
struct Range {
    offset: u64,
    /// 0: to the end of the file.
    length: u64,
}

/// `struct cachestat` of linux/mman.h, in pages.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cache: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of `file` in the page cache now; nothing where it may not be asked about, or on kernels before 6.5. Looking changes
/// nothing.
pub fn pages(file: impl AsFd) -> Option<u64> {
    let range = Range { offset: 0, length: 0 };
    let mut found = Cachestat::default();
    let (fd, flags) = (file.as_fd().as_raw_fd(), 0 as libc::c_uint);
    // SAFETY: both pointers are to live values of the layout that the kernel documents for this call, `range` is only
    // read and `found` only written, and the descriptor stays open until after the call.
    let result = unsafe { libc::syscall(CACHESTAT, fd, &raw const range, &raw mut found, flags) };
    (result == 0).then_some(found.cache)
}
