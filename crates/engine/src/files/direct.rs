//! Which sizes a file system takes with O_DIRECT: it is asked, and where it does not say, it is tried.

use super::volume::ALIGN;
use ebbtide_door::Draft;
use ebbtide_model::units::Bytes;
use rustix::fs::{AtFlags, OFlags, StatxFlags, fcntl_getfl, fcntl_setfl, statx};
use rustix::io::pwrite;
use std::fs::File;
use std::path::Path;

/// Sizes that are tried, the smallest first: NFS and FUSE take any, disks their sectors.
const UNITS: [usize; 3] = [1, 512, ALIGN];

/// Offsets and sizes of operations with O_DIRECT on files of `directory` are multiples of this; nothing where no file can be made
/// in it. It is 1 where there is no O_DIRECT, and the page cache takes them.
pub fn direct_unit(directory: &Path) -> Option<Bytes> {
    // Without a name where the file system has such files; else it goes with the draft.
    let draft = Draft::begin(&directory.join(".ebb-direct"), 0o600, None).ok()?;
    Some(Bytes(asked(draft.file()).or_else(|| tried(draft.file())).unwrap_or(1)))
}

/// What the file system says (Linux 6.1 and later); nothing where it says nothing.
fn asked(file: &File) -> Option<u64> {
    let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let said = found.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    said.then_some(u64::from(found.stx_dio_offset_align)).filter(|align| *align > 0)
}

/// The smallest size that is written.
fn tried(file: &File) -> Option<u64> {
    let flags = fcntl_getfl(file).ok()?;
    fcntl_setfl(file, flags | OFlags::DIRECT).ok()?;
    let space = vec![0; 2 * ALIGN];
    let start = space.as_ptr().align_offset(ALIGN);
    let takes = |unit: &usize| pwrite(file, &space[start..start + unit], 0) == Ok(*unit);
    UNITS.into_iter().find(takes).map(|unit| unit as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said is what a write then takes, and less is not taken.
    #[test]
    fn what_the_file_system_says_is_what_it_takes() {
        let home = tempfile::tempdir().expect("a directory");
        let unit = direct_unit(home.path()).expect("a file can be made");
        assert!([1, 512, 4096].contains(&unit.0), "{unit}");
        let draft = Draft::begin(&home.path().join("f"), 0o600, None).expect("begins");
        if let Some(tried) = tried(draft.file()) {
            assert_eq!(asked(draft.file()).unwrap_or(tried), tried);
        }
        drop(draft);
        assert_eq!(std::fs::read_dir(home.path()).expect("is there").count(), 0, "nothing is left");
        assert_eq!(direct_unit(&home.path().join("none")), None);
    }
}
