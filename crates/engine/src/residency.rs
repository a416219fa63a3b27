//! How much of a file the page cache holds.

use ebbtide_sys::cache;
use std::path::Path;

/// Bytes of the file at `path` in the page cache now, in whole pages; nothing for what is no regular file, may not be
/// asked about, or on kernels before 6.5. Looking changes nothing.
pub fn resident(path: &Path) -> Option<u64> {
    let file = ebbtide_door::read::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    Some(cache::pages(&file)?.saturating_mul(rustix::param::page_size() as u64))
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
