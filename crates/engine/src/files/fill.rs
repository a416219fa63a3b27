//! Fills volumes with data that neither compresses nor repeats, so that reads find real blocks.

use super::volume::{ALIGN, OpenVolume};
use ebbtide_door::Access;
use ebbtide_model::backend::{BackendError, Control};
use ebbtide_model::blank;
use ebbtide_model::shown::Shown;
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::Advice;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of one write: large enough for any device's best, small enough to stop soon.
const WRITE: usize = 4 << 20;
/// Volumes filled at once: beyond this a disk gains nothing, and many network volumes still do.
const AT_ONCE: usize = 4;

/// A buffer whose usable part begins at a multiple of [`ALIGN`].
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
}

impl Aligned {
    fn new(length: usize) -> Self {
        let bytes = vec![0; length + ALIGN];
        let start = bytes.as_ptr().align_offset(ALIGN);
        Aligned { bytes, start }
    }

    fn get(&mut self) -> &mut [u8] {
        let end = self.bytes.len() - ALIGN + self.start;
        &mut self.bytes[self.start..end]
    }
}

/// Fills `volumes`, several at once. The volumes' shapes do not slow it down.
pub(super) fn fill(volumes: &[&OpenVolume], seed: u64, control: &Control) -> Result<(), BackendError> {
    control.prepared.store(0, Ordering::Relaxed);
    control.prepare_total.store(volumes.iter().map(|volume| volume.size.0).sum(), Ordering::Relaxed);
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..volumes.len().min(AT_ONCE) {
            scope.spawn(|| {
                let mut buffer = Aligned::new(WRITE);
                while let Some(volume) = volumes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let seed = seed ^ (volume.index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    if let Err(error) = fill_one(volume, seed, buffer.get(), control) {
                        // The first failure is the one to tell; the others follow from it.
                        next.store(volumes.len(), Ordering::Relaxed);
                        if let Ok(mut failed) = failed.lock() {
                            failed.get_or_insert(error);
                        }
                    }
                }
            });
        }
    });
    failed.into_inner().ok().flatten().map_or(Ok(()), Err)
}

fn fill_one(
    volume: &OpenVolume,
    seed: u64,
    buffer: &mut [u8],
    control: &Control,
) -> Result<(), BackendError> {
    // Of a small file no more than it holds.
    let whole = volume.size.0.next_multiple_of(ALIGN as u64).min(buffer.len() as u64);
    let buffer = &mut buffer[..whole as usize];
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    random.fill_bytes(buffer);
    blank::mark(buffer);
    let file = volume.open(Access { write: true, direct: true, sync: false })?;
    let mut offset = 0;
    while offset < volume.size.0 {
        if control.stop.load(Ordering::Relaxed) {
            return Err(BackendError::Stopped);
        }
        // Each block differs from every other one, so that nothing below can store two of them as one.
        for block in buffer.chunks_exact_mut(ALIGN) {
            block[..8].copy_from_slice(&random.next_u64().to_ne_bytes());
        }
        let length = (volume.size.0 - offset).min(WRITE as u64) as usize;
        file.write_all_at(&buffer[..length], offset).map_err(|error| {
            let advice = match Errno::from_io_error(&error) {
                Some(Errno::NOSPC | Errno::DQUOT) => "; free some space",
                Some(Errno::FBIG) => "; `ulimit -f` or the file system allows no larger file",
                _ => "",
            };
            volume.error(format!("cannot fill {} at offset {offset}: {error}{advice}", volume.path().shown()))
        })?;
        offset += length as u64;
        control.prepared.fetch_add(length as u64, Ordering::Relaxed);
    }
    settle(&file).map_err(|error| volume.error(format!("cannot flush {}: {error}", volume.path().shown())))
}

/// On the device and out of the page cache.
fn settle(file: &File) -> std::io::Result<()> {
    file.sync_all()?;
    // Advice: where it is not taken, reads with O_DIRECT are right all the same.
    let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::volume::tests::volume_at;
    use ebbtide_model::units::Bytes;
    use std::collections::HashSet;

    #[test]
    fn every_block_is_filled_and_none_repeats() {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let size = Bytes((WRITE + 3 * ALIGN) as u64);
        let volumes: Vec<OpenVolume> =
            (0..3).map(|n| volume_at(&directory.path().join(n.to_string()), n, size)).collect();
        let control = Control::default();
        fill(&volumes.iter().collect::<Vec<_>>(), 7, &control).expect("fills");
        assert_eq!(control.prepared.into_inner(), 3 * size.0);
        let mut blocks = HashSet::new();
        for volume in &volumes {
            let bytes = std::fs::read(volume.path()).expect("reads");
            assert_eq!(bytes.len() as u64, size.0);
            for (n, block) in bytes.chunks(ALIGN).enumerate() {
                assert!(blocks.insert(block[..16].to_vec()), "a block repeats");
                if n % 100 == 0 {
                    let distinct: HashSet<u8> = block.iter().copied().collect();
                    assert!(distinct.len() > 200, "4096 random bytes hold nearly all values");
                }
            }
        }
    }

    #[test]
    fn a_stop_ends_it() {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let volume = volume_at(&directory.path().join("v"), 0, Bytes(WRITE as u64));
        let control = Control::default();
        control.stop.store(true, Ordering::Relaxed);
        assert_eq!(fill(&[&volume], 7, &control), Err(BackendError::Stopped));
    }
}
