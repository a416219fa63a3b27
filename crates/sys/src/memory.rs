//! Memory for I/O: buffers of one length in one mapping, which the kernel may read and write while the program goes on.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Alignment of every buffer, bytes: the page, which no logical block exceeds on the architectures with O_DIRECT files.
pub const ALIGN: usize = 4096;
/// Bytes of a huge page; the mapping is rounded up to it when huge pages are asked for.
const HUGE: usize = 2 << 20;

/// Buffers of one length, each beginning on a page, zeroed at first.
#[derive(Debug)]
pub struct Buffers {
    start: NonNull<u8>,
    mapped: usize,
    stride: usize,
    /// Where the last buffer starts.
    last: usize,
}

/// One of [`Buffers`], which alone make them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes from the beginning of the mapping.
    start: usize,
}

// SAFETY: it owns its mapping, and nothing refers to the thread that made it.
unsafe impl Send for Buffers {}

impl Buffers {
    /// `count` buffers (at least one) of `length` bytes, rounded up to pages, and whether the kernel had the `huge` pages that
    /// were asked for: where it had none, transparent ones are asked for instead.
    ///
    /// # Errors
    /// When the kernel has not as much memory.
    pub fn new(count: usize, length: usize, huge: bool) -> io::Result<(Self, bool)> {
        let count = count.max(1);
        let too_much = || io::Error::from(rustix::io::Errno::NOMEM);
        let stride = length.max(1).checked_next_multiple_of(ALIGN).ok_or_else(too_much)?;
        let bytes = stride.checked_mul(count).ok_or_else(too_much)?;
        let mapped = bytes.checked_next_multiple_of(if huge { HUGE } else { ALIGN }).ok_or_else(too_much)?;
        let map = |flags| {
            // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no other memory.
            unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, ProtFlags::READ | ProtFlags::WRITE, flags) }
        };
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        let (address, as_asked) = match map(if huge { flags | MapFlags::HUGETLB } else { flags }) {
            Err(_) if huge => {
                let address = map(MapFlags::PRIVATE)?;
                // SAFETY: the range is the mapping just made. A refusal costs speed only.
                let _ = unsafe { madvise(address, mapped, Advice::LinuxHugepage) };
                (address, false)
            }
            other => (other?, true),
        };
        let start = NonNull::new(address.cast::<u8>()).ok_or_else(too_much)?;
        Ok((Buffers { start, mapped, stride, last: bytes - stride }, as_asked))
    }

    /// All buffers, in the order of their addresses.
    pub fn all(&self) -> impl Iterator<Item = Buffer> {
        (0..=self.last).step_by(self.stride).map(|start| Buffer { start })
    }

    /// Number of `buffer`, from 0.
    pub(crate) fn number(&self, buffer: Buffer) -> usize {
        buffer.start / self.stride
    }

    /// Bytes from the beginning of one to that of the next.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Address of byte `at` of `buffer`, from which `length` bytes are the buffer's.
    ///
    /// # Panics
    /// When they are not, or `buffer` is of others that are more.
    #[inline(always)]
    pub(crate) fn address(&self, buffer: Buffer, at: u32, length: u32) -> *mut u8 {
        let end = u64::from(at) + u64::from(length);
        assert!(buffer.start <= self.last && end <= self.stride as u64, "outside of the buffer");
        // SAFETY: within the mapping, which is `last` and another `stride` bytes, or more.
        unsafe { self.start.as_ptr().add(buffer.start + at as usize) }
    }

    /// All bytes, those behind the last buffer too.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is readable, writable and initialised (the kernel zeroes it); it is borrowed exclusively, and a
        // ring lends no buffers while the kernel has an operation on them.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.mapped) }
    }

    /// `length` bytes of `buffer` from byte `at` on.
    ///
    /// # Panics
    /// When they are not within the buffer.
    #[inline]
    pub fn slice(&mut self, buffer: Buffer, at: u32, length: u32) -> &mut [u8] {
        let address = self.address(buffer, at, length);
        // SAFETY: within one buffer, as just checked; for the rest see `bytes`.
        unsafe { std::slice::from_raw_parts_mut(address, length as usize) }
    }

    /// The whole 64-bit words of the first `length` bytes of `buffer`. They are atomic since the kernel may be reading or
    /// writing them.
    ///
    /// # Panics
    /// When the buffer is shorter.
    #[inline]
    pub fn words(&self, buffer: Buffer, length: u32) -> &[AtomicU64] {
        let address = self.address(buffer, 0, length);
        // SAFETY: within one buffer, which begins on a page and so is aligned; initialised; whoever writes it besides these
        // atomics is the kernel, or has it exclusively.
        unsafe { std::slice::from_raw_parts(address.cast::<AtomicU64>(), length as usize / size_of::<u64>()) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more: a ring gives its buffers up only when the kernel has no
        // operation on them.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn buffers_are_apart_and_words_are_their_bytes() {
        let (mut buffers, as_asked) = Buffers::new(3, 5000, false).expect("mapped");
        let all: Vec<Buffer> = buffers.all().collect();
        let [first, second, third] = all[..] else { panic!("{all:?}") };
        assert!(as_asked && buffers.stride() == 8192 && buffers.number(third) == 2);
        buffers.slice(second, 0, 8192).fill(7);
        assert_eq!(buffers.slice(first, 8191, 1), [0]);
        assert_eq!(buffers.words(first, 8192).len(), 1024);
        assert_eq!(buffers.slice(third, 0, 1), [0]);
        buffers.words(second, 16)[1].store(0x0102, Ordering::Relaxed);
        assert_eq!(buffers.slice(second, 8, 8), 0x0102_u64.to_ne_bytes());
        assert_eq!(buffers.words(second, 15).len(), 1, "whole words");
        assert_eq!(buffers.bytes()[8192..][..8], [7; 8]);
    }

    #[test]
    fn nothing_outside_of_a_buffer_is_given_out() {
        let (buffers, _) = Buffers::new(2, 4096, false).expect("mapped");
        let (more, _) = Buffers::new(3, 4096, false).expect("mapped");
        let all: Vec<Buffer> = more.all().collect();
        for (index, at, length) in [(2, 0, 1), (0, 4096, 1), (1, 1, 4096), (0, u32::MAX, 2), (0, 2, u32::MAX)]
        {
            let taken = std::panic::catch_unwind(|| buffers.address(all[index], at, length));
            assert!(taken.is_err(), "{index} {at} {length}");
        }
        buffers.address(all[1], 4096, 0);
    }

    #[test]
    fn more_than_can_be_is_an_error() {
        for (count, length) in [(usize::MAX, 4096), (1, usize::MAX), (1, usize::MAX / 4)] {
            assert!(Buffers::new(count, length, true).is_err(), "{count} x {length}");
        }
    }
}
