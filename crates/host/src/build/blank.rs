//! Erasing what shows that something was on a device, of what was ours: a device is told to be blank by the same places.

use super::{BuildError, run, undo};
use crate::command::Runner;
use crate::sys::{self, Sys};
use ebbtide_door::read;
use ebbtide_model::blank::{first_foreign, windows};
use rustix::fs::{Advice, SeekFrom, fadvise, seek};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are erased as one: no place begins or ends within.
pub(super) const BLOCK: u64 = 4096;
/// Where a superblock of LVM's, of LUKS or of a file system is.
pub(super) const BEGINNING: Range<u64> = 0..1 << 20;

/// Writes zeros over `count` blocks of `device`, from the block `from` on.
pub(super) fn zero(runner: &dyn Runner, device: &str, from: u64, count: u64) -> Result<(), BuildError> {
    let (of, from, count) = (format!("of={device}"), format!("seek={from}"), format!("count={count}"));
    let words = [
        "if=/dev/zero",
        &of,
        &format!("bs={BLOCK}"),
        &from,
        &count,
        "conv=nocreat,notrunc,fsync",
        "status=none",
    ];
    run(runner, "dd", &words).map(drop)
}

/// Erases what keeps `device` from being blank, but for the bytes `but`: what says whose it is goes last, so that a kill leaves that.
pub(super) fn erase(
    sys: &Sys,
    runner: &dyn Runner,
    device: &str,
    but: &Range<u64>,
) -> Result<(), BuildError> {
    let Ok(file) = read::open(&sys.at(Path::new(device))) else { return Ok(()) };
    // What cannot be read keeps it from being blank, and an array from being started: nothing else.
    let Ok(found) = to_erase(&file, but) else { return Ok(()) };
    drop(file);
    if !found.is_empty() {
        undo::in_use(sys, device)?;
    }
    found.iter().try_for_each(|blocks| zero(runner, device, blocks.start, blocks.end - blocks.start))
}

/// Runs of blocks of `device` that are neither blank nor within `but`, in the places that are looked at.
fn to_erase(device: &File, but: &Range<u64>) -> io::Result<Vec<Range<u64>>> {
    // What an array wrote to its members does not change what the kernel remembers of them.
    fadvise(device, 0, None, Advice::DontNeed)?;
    let mut found: Vec<Range<u64>> = Vec::new();
    for (offset, length) in windows(seek(device, SeekFrom::End(0))?) {
        let mut bytes = vec![0; length as usize];
        device.read_exact_at(&mut bytes, offset)?;
        for (block, bytes) in (offset / BLOCK..).zip(bytes.chunks_exact(BLOCK as usize)) {
            if but.contains(&(block * BLOCK)) || first_foreign(bytes).is_none() {
                continue;
            }
            match found.last_mut() {
                Some(last) if last.contains(&block) => {}
                Some(last) if last.end == block => last.end += 1,
                _ => found.push(block..block + 1),
            }
        }
    }
    Ok(found)
}

/// The bytes of a member of `size` bytes that its superblock takes up, and those in front of it where md writes nothing, by what `mdadm --examine` says.
/// Nothing of a format that is not known.
pub(super) fn superblock(examined: &str, size: u64) -> Option<Range<u64>> {
    let at = match sys::value(examined, &["Version"])? {
        "1.2" => return Some(0..2 * BLOCK),
        "1.1" => 0,
        // md's `super_1_load`, and its `calc_dev_sboffset` for 0.90.
        "1.0" => (size / 512).checked_sub(16)? / 8 * BLOCK,
        old if old.starts_with("0.90") => (size / 65_536).checked_sub(1)? * 65_536,
        _ => return None,
    };
    Some(at..at + BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_looked_at_is_erased_but_for_what_says_whose_it_is() {
        let size = 64 << 20;
        let mut file = tempfile::tempfile().expect("makes");
        file.set_len(size).expect("sizes");
        for at in [0, 4096, 3 << 20, (1 << 20) - 1, 8 << 20, size - 1] {
            file.write_all_at(&[1], at).expect("writes");
        }
        file.flush().expect("writes");
        let blocks = |but: Range<u64>| to_erase(&file, &but).expect("reads");
        // Nobody looks at the third MiB.
        assert_eq!(blocks(0..0), [0..2, 255..256, 2048..2049, 16_383..16_384]);
        assert_eq!(blocks(0..8192), [255..256, 2048..2049, 16_383..16_384]);
        assert_eq!(blocks(BEGINNING), [2048..2049, 16_383..16_384]);
    }

    #[test]
    fn a_superblock_is_where_md_has_it() {
        let at = |version: &str| superblock(&format!("        Version : {version}\n"), (64 << 20) + 5000);
        assert_eq!(at("1.2"), Some(0..8192));
        assert_eq!(at("1.1"), Some(0..4096));
        assert_eq!(at("1.0"), Some((64 << 20) - 4096..64 << 20));
        assert_eq!(at("0.90.00"), Some((64 << 20) - 65_536..(64 << 20) - 61_440));
        assert_eq!(at("imsm"), None);
    }
}
