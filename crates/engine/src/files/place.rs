//! Where new volumes go and whether they fit, found without touching anything.

use super::Options;
use ebbtide_model::backend::BackendError;
use ebbtide_model::experiment::{Experiment, VolumeSource};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Bytes;
use rustix::fs::{StatVfs, statvfs};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Left free beside the volumes: a file system that is filled to the brim allocates badly.
const MARGIN: Bytes = Bytes(64 * Bytes::MIB);

/// File systems that keep files in memory: a volume there measures memory, and O_DIRECT means nothing.
const IN_MEMORY: &[&str] = &["tmpfs", "ramfs"];

/// Name of the file system with this `f_type` (linux/magic.h and the file systems' own sources).
fn type_name(magic: u64) -> Option<&'static str> {
    Some(match magic {
        0xEF53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0x2FC1_2FC1 => "zfs",
        0xF2F5_2010 => "f2fs",
        0xCA45_1A4E => "bcachefs",
        0x0102_1994 => "tmpfs",
        0x8584_58F6 => "ramfs",
        0x794C_7630 => "overlay",
        0x6969 => "nfs",
        0xFF53_4D42 | 0xFE53_4D42 => "cifs",
        0x6573_5546 => "fuse",
        0x0102_1997 => "9p",
        0x00C3_6400 => "ceph",
        _ => return None,
    })
}

/// Type of the file system that `path` is on, where it is a known one. ext2, ext3 and ext4 share a number.
pub(super) fn filesystem(path: &Path) -> Option<&'static str> {
    let found = rustix::fs::statfs(path).ok()?;
    // f_type is a signed word of 32 or 64 bits, depending on the architecture: its low 32 bits count.
    type_name(found.f_type as u64 & 0xFFFF_FFFF)
}

/// What an unprivileged user may still write.
fn free_bytes(found: &StatVfs) -> Bytes {
    Bytes(found.f_bavail.saturating_mul(found.f_frsize))
}

/// One directory in which volumes are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Absolute path of the directory.
    pub directory: PathBuf,
    /// Type of its file system, where known.
    pub filesystem: Option<String>,
    /// What the volumes that are made in it take.
    pub needed: Bytes,
    /// What is free on its file system.
    pub free: Bytes,
}

impl Place {
    /// Whether it has room for `needed` and the margin.
    fn has_room_for(&self, needed: Bytes) -> bool {
        self.free.0 >= needed.0.saturating_add(MARGIN.0)
    }
}

/// What preparing an experiment would take.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// Directories in which volumes are made.
    pub places: Vec<Place>,
    /// For each volume of the experiment: index into `places`, where its file is made.
    pub place_of: Vec<Option<usize>>,
    /// What the reader must know, for example why another directory was not taken.
    pub notes: Vec<String>,
}

/// Finds places for the new volumes of `experiment` and checks that they fit.
///
/// # Errors
/// When a directory is missing or too full; the text says what to do.
pub fn survey(experiment: &Experiment, options: &Options) -> Result<Survey, BackendError> {
    let mut survey = Survey { place_of: vec![None; experiment.volumes.len()], ..Survey::default() };
    let mut sizes: BTreeMap<Option<&Path>, (Bytes, Vec<usize>)> = BTreeMap::new();
    for (index, volume) in super::used(experiment) {
        if let VolumeSource::NewFile { directory } = &volume.source {
            let size = volume.size.ok_or_else(|| BackendError::Volume {
                volume: volume.name.clone(),
                what: "a new file needs a size; write for example `size = \"256MiB\"`".to_owned(),
            })?;
            let entry = sizes.entry(directory.as_deref()).or_default();
            entry.0 = Bytes(entry.0.0.saturating_add(size.0));
            entry.1.push(index);
        }
    }
    for (directory, (needed, volumes)) in sizes {
        let place = match directory {
            Some(directory) => {
                look_at(directory, needed).map_err(|unfit| BackendError::Other(unfit.to_string()))?
            }
            None => choose(&options.places, needed, &mut survey.notes)?,
        };
        // Two ways to write one directory are one place.
        let known = survey.places.iter().position(|other| other.directory == place.directory);
        let index = known.unwrap_or(survey.places.len());
        match known {
            Some(index) => {
                survey.places[index].needed.0 = survey.places[index].needed.0.saturating_add(needed.0)
            }
            None => survey.places.push(place),
        }
        for volume in volumes {
            survey.place_of[volume] = Some(index);
        }
    }
    check_space(&survey.places)?;
    for place in &survey.places {
        if place.filesystem.as_deref().is_some_and(|name| IN_MEMORY.contains(&name)) {
            survey.notes.push(format!(
                "{} is a {}: its files are in memory, and unshaped volumes there measure memory",
                place.directory.shown(),
                place.filesystem.as_deref().unwrap_or_default(),
            ));
        }
    }
    Ok(survey)
}

/// Why a directory is no place for volumes.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error("the directory {} for volumes cannot be used: {source}; {REMEDY}", directory.shown())]
    Unusable { directory: PathBuf, source: io::Error },
    #[error("{} is not a directory; {REMEDY}", .0.shown())]
    NoDirectory(PathBuf),
    #[error("the directory {} may not be written to: {source}; {REMEDY}", directory.shown())]
    ReadOnly { directory: PathBuf, source: Errno },
    #[error("cannot ask how much space is free in {}: {source}; {REMEDY}", directory.shown())]
    Untold { directory: PathBuf, source: Errno },
    #[error("{} was passed over: its files are in memory", .0.shown())]
    InMemory(PathBuf),
}

const REMEDY: &str = "set `directory` to one that exists and may be written to";

fn look_at(directory: &Path, needed: Bytes) -> Result<Place, Unfit> {
    let named = || directory.to_owned();
    let absolute =
        std::fs::canonicalize(directory).map_err(|source| Unfit::Unusable { directory: named(), source })?;
    if !absolute.is_dir() {
        return Err(Unfit::NoDirectory(named()));
    }
    rustix::fs::access(&absolute, rustix::fs::Access::WRITE_OK)
        .map_err(|source| Unfit::ReadOnly { directory: named(), source })?;
    let found = statvfs(&absolute).map_err(|source| Unfit::Untold { directory: named(), source })?;
    let filesystem = filesystem(&absolute).map(str::to_owned);
    Ok(Place { directory: absolute, filesystem, needed, free: free_bytes(&found) })
}

/// The first of `candidates` that is on a real file system, may be written to, and is large enough; the
/// roomiest usable one when none is large enough, so that the error speaks of it.
fn choose(candidates: &[PathBuf], needed: Bytes, notes: &mut Vec<String>) -> Result<Place, BackendError> {
    let mut refused = Vec::new();
    let mut small: Option<Place> = None;
    for candidate in candidates {
        match look_at(candidate, needed) {
            Err(why) => refused.push(why.to_string()),
            Ok(place) if place.filesystem.as_deref().is_some_and(|name| IN_MEMORY.contains(&name)) => {
                let why = Unfit::InMemory(candidate.clone()).to_string();
                notes.push(why.clone());
                refused.push(why);
            }
            Ok(place) if !place.has_room_for(needed) => {
                if small.as_ref().is_none_or(|other| other.free < place.free) {
                    small = Some(place);
                }
            }
            Ok(place) => return Ok(place),
        }
    }
    small.ok_or_else(|| {
        BackendError::Other(format!(
            "no place for the volumes: {}; set `directory` in the experiment, or TMPDIR",
            refused.join("; ")
        ))
    })
}

/// Places on one file system share its free space.
fn check_space(places: &[Place]) -> Result<(), BackendError> {
    let mut by_device: BTreeMap<u64, (Bytes, &Place)> = BTreeMap::new();
    for place in places {
        let device = std::fs::metadata(&place.directory).map_or(0, |found| found.dev());
        by_device.entry(device).or_insert((Bytes(0), place)).0 += place.needed;
    }
    for (needed, place) in by_device.into_values() {
        if !place.has_room_for(needed) {
            return Err(BackendError::Other(format!(
                "the volumes need {} in {} and {} is free (64MiB is left free beside them): free some space, lower \
                 `size`, or set `directory` to a larger file system",
                needed.short(),
                place.directory.shown(),
                place.free.short(),
            )));
        }
    }
    Ok(())
}

/// In MiB, rounded up, for people.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_place_that_is_real_and_roomy_is_taken() {
        let directory = tempfile::tempdir().expect("a directory");
        let missing = directory.path().join("missing");
        let mut notes = Vec::new();
        let candidates = [missing.clone(), PathBuf::from("/dev/shm"), directory.path().to_owned()];
        let place = choose(&candidates, Bytes(4096), &mut notes).expect("there is one");
        assert_eq!(place.directory, std::fs::canonicalize(directory.path()).expect("exists"));
        let error = choose(&[missing], Bytes(4096), &mut notes).expect_err("is missing").to_string();
        assert!(error.contains("missing") && error.contains("`directory`"), "{error}");
    }

    #[test]
    fn what_does_not_fit_says_how_much_it_needs() {
        let directory = tempfile::tempdir().expect("a directory");
        let place = look_at(directory.path(), Bytes(u64::MAX / 2)).expect("is there");
        let error = check_space(&[place]).expect_err("does not fit").to_string();
        assert!(error.contains(" is free (64MiB"), "{error}");
    }
}
