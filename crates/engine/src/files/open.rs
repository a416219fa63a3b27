//! Opens the volumes: what exists through the door, what is new in a directory of the run's own or under a name of the
//! user's.

use super::made::Made;
use super::volume::{BLOCK, OpenVolume};
use super::{Options, Surroundings};
use ebbtide_door::{Directory, Door, DoorError, Draft, Expected, Wanted};
use ebbtide_model::backend::BackendError;
use ebbtide_model::experiment::{Volume, VolumeSource};
use ebbtide_model::guard::{Permission, RefusalKind, WriteRequest};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Bytes;
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Name of a volume's file: the index keeps names apart that differ only in what a file name cannot hold.
pub(super) fn file_name(index: usize, name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' })
        .take(64)
        .collect();
    format!("{index:03}-{plain}.img")
}

fn failed(volume: &Volume, what: String) -> BackendError {
    BackendError::Volume { volume: volume.name.clone(), what }
}

/// The size of a file that is made for `volume`.
fn new_size(volume: &Volume) -> Result<Bytes, BackendError> {
    let size = volume.size.unwrap_or_default();
    if size < BLOCK || size % BLOCK > Bytes(0) {
        let what =
            format!("its size of {} bytes is not a multiple of 4096; write for example 256MiB", size.0);
        return Err(failed(volume, what));
    }
    Ok(size)
}

/// Makes the file of `volume` in `directory`.
pub(super) fn new_file(
    index: usize,
    volume: &Volume,
    directory: &Arc<Directory>,
    made: &mut Made,
) -> Result<OpenVolume, BackendError> {
    let size = new_size(volume)?;
    let name = file_name(index, &volume.name);
    let claim = made.file(directory, &name, size).map_err(|error| failed(volume, error.to_string()))?;
    OpenVolume::new(index, &volume.name, Some(size), claim)
}

/// Begins the file of `volume` for `path`, under which it appears when all volumes are ready.
pub(super) fn draft(
    index: usize,
    volume: &Volume,
    path: &Path,
    surroundings: &Surroundings,
) -> Result<(OpenVolume, Draft), BackendError> {
    let fail = |error: io::Error| failed(volume, format!("cannot make {}: {error}", path.shown()));
    let size = new_size(volume)?;
    let draft = Draft::begin(path, 0o644, Some(surroundings.journal.clone())).map_err(fail)?;
    super::made::allocate(draft.file(), size).map_err(|errno| {
        let advice = match errno {
            Errno::NOSPC | Errno::DQUOT => "; free some space or make it smaller",
            Errno::FBIG => "; the file system or `ulimit -f` allows no file of that size",
            _ => "",
        };
        failed(volume, format!("cannot make {} of {}: {errno}{advice}", path.shown(), size.short()))
    })?;
    let claim = draft.claim().map_err(fail)?;
    Ok((OpenVolume::new(index, &volume.name, Some(size), claim)?, draft))
}

/// What is asked of the door for the files and devices of `volumes`, which exist: to be read, and those that `is_written` names by their
/// index to be written as well, with what `permission` says of one with this id.
fn wanted<'a>(
    volumes: &[(usize, &'a Volume)],
    is_written: &dyn Fn(usize) -> bool,
    permission: impl Fn(Option<&'a str>) -> Permission<'a>,
) -> Vec<Wanted<'a>> {
    let wanted = volumes.iter().filter_map(|(index, volume)| {
        let (path, id, expected) = match &volume.source {
            VolumeSource::ExistingFile { path } => (path, None, Expected::File),
            VolumeSource::Device { path, id } => (path, id.as_deref(), Expected::Device),
            VolumeSource::NewFile { .. } => return None,
        };
        let request = WriteRequest { path, permission: permission(id) };
        Some(Wanted { request, expected, write: is_written(*index) })
    });
    wanted.collect()
}

/// Why the one at this position of `volumes` was not opened, and what to write instead.
fn not_opened(volumes: &[(usize, &Volume)], (position, error): (usize, DoorError)) -> BackendError {
    let advice = match &error {
        DoorError::System { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            "; `file` and `device` name what exists already; without either, a new file is made"
        }
        DoorError::Refused(refusal)
            if refusal.reasons.iter().all(|reason| reason.kind == RefusalKind::NotDestroy) =>
        {
            "; the workloads write, and would overwrite it"
        }
        _ => "",
    };
    match volumes.get(position) {
        Some((_, volume)) => failed(volume, format!("{error}{advice}")),
        None => BackendError::Other(error.to_string()),
    }
}

/// Opens the files and devices of `volumes`, which exist, to be read, and those that `is_written` names by their index to be
/// written as well.
pub(super) fn existing(
    volumes: &[(usize, &Volume)],
    is_written: &dyn Fn(usize) -> bool,
    options: &Options,
    surroundings: &Surroundings,
) -> Result<Vec<OpenVolume>, BackendError> {
    let wanted = wanted(volumes, is_written, |id| match options.built {
        true => Permission::Built,
        false => Permission::User { id, destroy: options.destroy, used: false },
    });
    let claims = surroundings.door.claim(&wanted).map_err(|error| not_opened(volumes, error))?;
    volumes
        .iter()
        .zip(claims)
        .map(|((index, volume), claim)| OpenVolume::new(*index, &volume.name, volume.size, claim))
        .collect()
}

/// Whether [`existing`] would find a reason against these beside that nobody has said that they may be overwritten; touches nothing.
pub(super) fn may_open(
    volumes: &[(usize, &Volume)],
    is_written: &dyn Fn(usize) -> bool,
    door: &Door,
) -> Result<(), BackendError> {
    let wanted = wanted(volumes, is_written, |id| Permission::User { id, destroy: true, used: false });
    door.may_claim(&wanted).map_err(|error| not_opened(volumes, error))
}

/// Opens `volume`, which is a device that takes and gives any number of bytes.
pub(super) fn endless(index: usize, volume: &Volume) -> Result<OpenVolume, BackendError> {
    let VolumeSource::ExistingFile { path } = &volume.source else {
        return Err(failed(volume, "it is not named by its path".to_owned()));
    };
    let claim = ebbtide_door::kernel::claim_endless(path)
        .map_err(|error| failed(volume, format!("cannot use {}: {error}", path.shown())))?;
    OpenVolume::new(index, &volume.name, volume.size, claim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_gives_a_file_name() {
        assert_eq!(file_name(3, "vol 3/ä"), "003-vol_3__.img");
        assert_eq!(file_name(0, "../../etc"), "000-______etc.img");
        assert!(file_name(1, &"x".repeat(1000)).len() < 100);
    }
}
