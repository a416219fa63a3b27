//! The volumes of a pass, by what stays the same wherever they are attached.

use super::found;
use crate::error::CliError;
use ebbtide_host::probe::{self, BlockDevice, Devices, Kind};
use ebbtide_host::sys::{DevNum, Sys};
use ebbtide_model::monitor::Watched;
use ebbtide_model::monitor::events::VolumeContext;
use ebbtide_model::shown::Shown;
use ebbtide_model::units::{Bytes, format_bytes};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A volume of a pass.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Where it is read.
    pub path: PathBuf,
    /// What it is called in the store.
    pub watched: Watched,
    /// The kernel's name for it, where it is a device.
    pub device: Option<String>,
    /// What it and its host are.
    pub found: VolumeContext,
    /// What the reader of its figures must know.
    pub note: Option<String>,
}

/// A volume that is not there.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {why}")]
pub struct Absent {
    /// What was asked for, as it is shown.
    pub name: String,
    /// Why nothing can be read there.
    pub why: String,
}

/// As [`subjects`], with those of `names` that are not there: one volume that is gone keeps nobody from looking at the others. The same
/// volume by two names is one.
///
/// # Errors
/// Wrong usage when none is there.
pub fn there(names: &[String], sys: &Sys) -> Result<(Vec<Subject>, Vec<Absent>), CliError> {
    if names.is_empty() {
        return Ok((subjects(names, sys)?, Vec::new()));
    }
    let (mut there, mut absent): (Vec<Subject>, Vec<Absent>) = Default::default();
    for each in each(names, sys) {
        match each {
            Ok(subject) if there.iter().any(|known| known.watched.id == subject.watched.id) => {}
            Ok(subject) => there.push(subject),
            Err(gone) => absent.push(gone),
        }
    }
    match absent.first() {
        Some(first) if there.is_empty() => Err(CliError::usage(first)),
        _ => Ok((there, absent)),
    }
}

/// The volumes that `names` are: paths, names of devices or stable ids; without any, every disk but the one with the root file
/// system.
///
/// # Errors
/// Wrong usage when one is nothing that can be read, or there is none.
pub fn subjects(names: &[String], sys: &Sys) -> Result<Vec<Subject>, CliError> {
    if !names.is_empty() {
        return each(names, sys).into_iter().collect::<Result<_, Absent>>().map_err(CliError::usage);
    }
    let devices = probe::devices(sys);
    let of_host = found::host(sys);
    let of = |device: &BlockDevice| of_device(device, sys, &of_host);
    let root: Vec<&str> = devices
        .devices
        .iter()
        .filter(|device| device.mounts.iter().any(|mount| mount.mountpoint == "/"))
        .flat_map(|device| devices.disks_below(&device.name))
        .collect();
    let all: Vec<Subject> = devices
        .devices
        .iter()
        .filter(|device| is_disk(device) && !root.contains(&device.name.as_str()))
        .map(of)
        .collect();
    if all.is_empty() {
        return Err(CliError::Usage(
            "there is no disk here but that of the root file system; name what to measure, `ebb volumes` lists what there is"
                .to_owned(),
        ));
    }
    Ok(all)
}

/// What each of `names` is.
fn each(names: &[String], sys: &Sys) -> Vec<Result<Subject, Absent>> {
    let (devices, of_host) = (probe::devices(sys), found::host(sys));
    names.iter().map(|name| named(name, &devices, sys, &of_host)).collect()
}

/// Whether it is a whole disk, and not made of others, of a file or of memory.
fn is_disk(device: &BlockDevice) -> bool {
    let made = matches!(
        device.kind,
        Kind::Md
            | Kind::Lvm
            | Kind::Crypt
            | Kind::Multipath
            | Kind::Dm
            | Kind::Loop
            | Kind::Zram
            | Kind::Ram
            | Kind::Optical
            | Kind::Null
            | Kind::Other
    );
    !made && device.partition_of.is_none() && !device.removable && device.size.0 > 0
}

fn of_device(device: &BlockDevice, sys: &Sys, of_host: &VolumeContext) -> Subject {
    let host = &of_host.host;
    let path = sys.dev.join(&device.name);
    // A name is not stable, and that of another host's device is another one.
    let id = device.ids.best().map_or_else(|| format!("{host}:{}", path.to_string_lossy()), str::to_owned);
    let watched = Watched { id, name: device.shown_name().to_owned(), host: host.clone() };
    let found = found::device(of_host, device);
    Subject { path, watched, device: Some(device.name.clone()), found, note: None }
}

fn named(name: &str, devices: &Devices, sys: &Sys, of_host: &VolumeContext) -> Result<Subject, Absent> {
    if let Some(device) =
        devices.devices.iter().find(|device| device.name == name || device.ids.matches(name))
    {
        return Ok(of_device(device, sys, of_host));
    }
    let nothing = |why: String| Absent { name: Path::new(name).shown(), why };
    let path = std::fs::canonicalize(name)
        .map_err(|error| nothing(format!("{error}; `ebb volumes` lists the devices there are")))?;
    let found = std::fs::metadata(&path).map_err(|error| nothing(error.to_string()))?;
    if found.file_type().is_block_device() {
        let device = devices.by_dev(DevNum::from_raw(found.rdev()));
        return device
            .map(|device| of_device(device, sys, of_host))
            .ok_or_else(|| nothing("the kernel does not list that device".to_owned()));
    }
    if !found.is_file() {
        return Err(nothing("it is neither a block device nor a file".to_owned()));
    }
    let name = path.to_string_lossy().into_owned();
    let host = of_host.host.clone();
    let watched = Watched { id: format!("{host}:{name}"), name, host };
    let bytes = Some(Bytes(found.len()));
    let of_file = VolumeContext { bytes, ..of_host.clone() };
    Ok(Subject { watched, path, device: None, found: of_file, note: holes(found.len(), found.blocks()) })
}

/// What to say of a file of so many bytes for which its file system has so many blocks of 512 bytes.
fn holes(bytes: u64, blocks: u64) -> Option<String> {
    let there = blocks.saturating_mul(512);
    (there < bytes).then(|| {
        let (there, all) = (format_bytes(there as f64), format_bytes(bytes as f64));
        format!("{there} of its {all} are on a disk; the rest are holes, for which no disk is read")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_noted_and_whole_files_are_not() {
        assert_eq!((holes(4096, 8), holes(4000, 8), holes(0, 0)), (None, None, None));
        assert!(holes(8 << 20, 8).is_some_and(|note| note.contains("holes")));
    }
}
