//! Data without a signature: what says that a device is not free though nothing is known to be on it.

use super::{BlockDevice, Content, Devices, Signature};
use crate::sys::Sys;
use ebbtide_door::read;
use ebbtide_model::blank::{first_foreign, windows};
use rustix::fs::{Advice, SeekFrom, fadvise, seek};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What is said to be on a device that has data and no signature.
const KIND: &str = "data of an unknown kind";

/// Where the first byte is that is neither zero nor of `ebb`'s own filling, in the stretches of `device` that are looked at.
///
/// # Errors
/// When it cannot be read.
pub fn foreign_data(device: &File) -> io::Result<Option<u64>> {
    foreign_data_over(device, None)
}

/// [`foreign_data`] of an encrypted device whose bytes are on another one, from an offset on: a stretch that is zero there was never
/// written, and reads as noise.
///
/// # Errors
/// When either cannot be read.
pub fn foreign_data_over(device: &File, below: Option<(&File, u64)>) -> io::Result<Option<u64>> {
    let size = seek(device, SeekFrom::End(0))?;
    if let Some((below, _)) = below {
        // What is written through the device above does not change what the kernel remembers of this one.
        fadvise(below, 0, None, Advice::DontNeed)?;
    }
    for (offset, length) in windows(size) {
        let mut bytes = vec![0; length as usize];
        device.read_exact_at(&mut bytes, offset)?;
        let Some(at) = first_foreign(&bytes) else { continue };
        if let Some((below, start)) = below {
            below.read_exact_at(&mut bytes, start.saturating_add(offset))?;
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
        }
        return Ok(Some(offset + at as u64));
    }
    Ok(None)
}

/// Looks into those of these devices that seem to be free, all at once, which needs root; changes nothing. What cannot be read stays as it
/// is.
pub fn look_for_data(sys: &Sys, devices: &mut Devices, wanted: &BTreeSet<String>) {
    let seems_free = |device: &&mut BlockDevice| device.is_free() && wanted.contains(&device.name);
    std::thread::scope(|scope| {
        for device in devices.devices.iter_mut().filter(seems_free) {
            scope.spawn(|| {
                let found = read::open(&sys.dev.join(&device.name)).and_then(|file| foreign_data(&file));
                if matches!(found, Ok(Some(_))) {
                    let kind = KIND.to_owned();
                    let data = Signature { kind, usage: None, label: None, uuid: None, uuid_sub: None };
                    device.content = Content::Signature(data);
                }
            });
        }
    });
}
