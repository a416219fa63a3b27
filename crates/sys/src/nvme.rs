//! Log pages of NVMe devices, through the kernel's passthrough of admin commands.

use rustix::fd::AsRawFd;
use std::fs::File;
use std::io;

/// `NVME_IOCTL_ADMIN_CMD` of linux/nvme_ioctl.h: `_IOWR('N', 0x41, struct nvme_passthru_cmd)`.
// The number has the same bits in whatever type the C library takes it: glibc's is wider, musl's has a sign.
const ADMIN_COMMAND: libc::Ioctl = 0xC048_4E41_u32 as libc::Ioctl;
/// Opcode Get Log Page (NVM Express Base Specification, admin commands).
const GET_LOG_PAGE: u8 = 0x02;
/// Longest page: the count of 32-bit words of the command's lower half, which counts from 0.
const LONGEST: usize = 4 * 0x1_0000;
/// Milliseconds after which a command is given up.
const TIMEOUT_MS: u32 = 1000;

/// `struct nvme_passthru_cmd` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct PassthroughCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    data: u64,
    metadata_length: u32,
    data_length: u32,
    words_10_15: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

// The number of the call holds the size of its argument.
const _: () = assert!(size_of::<PassthroughCommand>() == (ADMIN_COMMAND as usize >> 16) & 0x3FFF);

/// Reads the beginning of log page `id` of `namespace` into `page`. Needs CAP_SYS_ADMIN; changes nothing.
///
/// # Errors
/// When `page` is empty, too long or no multiple of 4 bytes; when `device` is no NVMe device; when the kernel refuses or
/// the device has no such page.
pub fn log_page(device: &File, namespace: u32, id: u8, page: &mut [u8]) -> io::Result<()> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "a log page has 4 to 262144 bytes, by 4");
    if page.is_empty() || page.len() > LONGEST || !page.len().is_multiple_of(4) {
        return Err(wrong());
    }
    let words = u32::try_from(page.len() / 4 - 1).map_err(|_| wrong())?;
    let mut command = PassthroughCommand {
        opcode: GET_LOG_PAGE,
        namespace,
        data: page.as_mut_ptr() as u64,
        data_length: u32::try_from(page.len()).map_err(|_| wrong())?,
        words_10_15: [u32::from(id) | words << 16, 0, 0, 0, 0, 0],
        timeout_ms: TIMEOUT_MS,
        ..PassthroughCommand::default()
    };
    // SAFETY: `command` is a live value of the layout that the kernel documents for this call. Its data points to
    // `page`, which is exclusively borrowed until the call returns and has the length that the command gives; the
    // kernel writes no more than that. The descriptor stays open until after the call.
    let status = unsafe { libc::ioctl(device.as_raw_fd(), ADMIN_COMMAND, &raw mut command) };
    match status {
        0 => Ok(()),
        ..0 => Err(io::Error::last_os_error()),
        status => Err(io::Error::other(format!("the device answers with NVMe status {status:#x}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_nvme_device_is_refused() {
        let file = tempfile::tempfile().expect("a file");
        let mut page = [7; 512];
        let error = log_page(&file, 1, 0x02, &mut page).expect_err("a file");
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
        assert_eq!(page, [7; 512]);
    }

    #[test]
    fn lengths_that_no_command_can_ask_for_are_refused() {
        let file = tempfile::tempfile().expect("a file");
        for length in [0, 3, 511, LONGEST + 4] {
            let error = log_page(&file, 1, 0x02, &mut vec![0; length]).expect_err("a wrong length");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{length}");
        }
    }
}
