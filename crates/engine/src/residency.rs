//! How much of a file the page cache holds.

use libc::{c_long, c_uint};
use rustix::fd::AsRawFd;
use std::path::Path;

/// Number of the system call cachestat(2), the same on every architecture (Linux 6.5).
const CACHESTAT: c_long = 451;

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

/// Bytes of the file at `path` in the page cache now, in whole pages; nothing for what is no regular file, may not be
/// asked about, or on kernels before 6.5. Looking changes nothing.
pub fn resident(path: &Path) -> Option<u64> {
    let file = ebbtide_door::read::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let range = Range { offset: 0, length: 0 };
    let mut found = Cachestat::default();
    let flags: c_uint = 0;
    // SAFETY: both pointers are to live values of the layout that the kernel documents for this call, `range` is only
    // read and `found` only written, and the descriptor stays open until after the call.
    let result =
        unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut found, flags) };
    (result == 0).then(|| found.cache.saturating_mul(rustix::param::page_size() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Advice, fadvise};
    use std::io::Write;

    #[test]
    fn a_file_just_written_is_in_the_cache_and_a_dropped_one_is_not() {
        // Not in /tmp, which may be memory.
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
        file.write_all(&vec![1; 4 << 20]).and_then(|()| file.as_file().sync_all()).expect("written");
        let Some(cached) = resident(file.path()) else {
            eprintln!("skipped: this kernel has no cachestat (Linux 6.5)");
            return;
        };
        assert_eq!(cached, 4 << 20);
        fadvise(file.as_file(), 0, None, Advice::DontNeed).expect("dropped");
        let left = resident(file.path()).expect("a figure");
        assert!(left < 1 << 20, "{left} are still cached");
        assert_eq!(resident(file.path()), Some(left), "looking does not fill the cache");
    }

    #[test]
    fn a_directory_and_a_missing_file_have_no_figure() {
        assert_eq!(resident(Path::new("/")), None);
        assert_eq!(resident(Path::new("/no/such/file")), None);
    }
}
