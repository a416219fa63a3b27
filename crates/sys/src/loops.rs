//! What is behind a loop device.

use rustix::fd::{AsFd, AsRawFd};
use std::io;

/// `LOOP_GET_STATUS64` of linux/loop.h.
const GET_STATUS: libc::Ioctl = 0x4C05;

/// `struct loop_info64` of linux/loop.h.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// What is behind a loop device, by identity and not by a name that may have moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// Device number of the file system that the file (or device node) is on, as `stat` gives it.
    pub dev: u64,
    /// Inode number of that file.
    pub ino: u64,
    /// Its own device number, where it is a block device.
    pub rdev: Option<u64>,
    /// Where in it the loop device begins, bytes.
    pub offset: u64,
    /// How much of it the loop device uses, bytes; all where absent.
    pub size_limit: Option<u64>,
}

/// What is behind the loop device that `device` is open on; nothing where it is not set up.
///
/// # Errors
/// When `device` is no loop device.
pub fn behind(device: impl AsFd) -> io::Result<Option<Behind>> {
    // SAFETY: a struct of integers, for which all zeroes is a value.
    let mut info: LoopInfo = unsafe { std::mem::zeroed() };
    // SAFETY: the argument is a live value of the layout that the kernel documents for this call, which writes no more
    // than that; the descriptor is open for the call.
    let status = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), GET_STATUS, &raw mut info) };
    if status == 0 {
        return Ok(Some(Behind {
            dev: info.device,
            ino: info.inode,
            rdev: Some(info.rdevice).filter(|number| *number != 0),
            offset: info.offset,
            size_limit: Some(info.size_limit).filter(|limit| *limit != 0),
        }));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENXIO) => Ok(None),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_kernel_s() {
        assert_eq!(size_of::<LoopInfo>(), 232);
    }

    #[test]
    fn what_is_no_loop_device_is_an_error() {
        let file = tempfile::tempfile().expect("a file");
        assert_eq!(behind(&file).expect_err("a file").raw_os_error(), Some(libc::ENOTTY));
    }
}
