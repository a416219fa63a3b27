//! Puts one step back. Already gone is success; something else under the same name is left alone.

use super::{BuildError, at, identity, insist, lvm, mdadm, queue, run};
use crate::command::Runner;
use crate::judge;
use crate::probe::tables::Mount;
use crate::probe::{Content, signature, tables};
use crate::sys::{self, Sys};
use ebbtide_model::guard::{Refusal, RefusalKind};
use ebbtide_model::journal::FileId;
use ebbtide_model::plan::build::{BuildUndo, MOUNTS, Mounted};
use ebbtide_model::shown::Shown;
use std::io::ErrorKind;
use std::path::Path;

/// What putting a step back did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is put back.
    Done,
    /// There was nothing to put back: it is gone already, or never came to be.
    Before,
    /// What is there is not what the step made; what it is.
    Left(String),
}

impl Outcome {
    /// What a search for what was made did, by how much of it was there.
    fn of(found: bool) -> Outcome {
        if found { Outcome::Done } else { Outcome::Before }
    }
}

/// Puts `undo`'s step back on the host of `sys`.
///
/// # Errors
/// When it could not be put back: the program that failed with what it said.
pub fn undo(sys: &Sys, runner: &dyn Runner, undo: &BuildUndo) -> Result<Outcome, BuildError> {
    match undo {
        BuildUndo::DetachLoop { device, file, id, sequence } => {
            detach(sys, runner, device, file, id.as_ref(), *sequence)
        }
        BuildUndo::RestoreQueue { set, old } => match old {
            Some(old) => queue::restore(sys, set, old),
            None => Ok(Outcome::Before),
        },
        BuildUndo::RemoveDirectory(path) => remove_directory(sys, path),
        BuildUndo::StopMd { uuid, members, .. } => mdadm::stop(sys, runner, uuid, members).map(Outcome::of),
        BuildUndo::RemovePv { uuid, .. } => lvm::remove_pv(runner, uuid).map(Outcome::of),
        BuildUndo::RemoveVg { name } => lvm::remove_vg(runner, name).map(Outcome::of),
        BuildUndo::RemoveLv { volume } => lvm::remove_lv(runner, volume).map(Outcome::of),
        BuildUndo::WipeContent { device, label } => wipe(sys, runner, device, label),
        BuildUndo::SwapOff { label, .. } => swap_off(sys, runner, label),
        BuildUndo::CloseCrypt { name } => close(runner, name),
        BuildUndo::Unmount { mountpoint, from } => unmount(sys, runner, mountpoint, from.as_ref()),
    }
}

/// Whether `undo`'s step can be put back, as far as that can be told without trying; touches nothing.
///
/// # Errors
/// Who uses the device that would be wiped or detached.
pub fn may_undo(sys: &Sys, runner: &dyn Runner, undo: &BuildUndo) -> Result<(), BuildError> {
    match undo {
        BuildUndo::DetachLoop { device, file, id, sequence } => {
            match backing(sys, device, file, id.as_ref(), *sequence) {
                Backing::Ours => in_use(sys, device),
                _ => Ok(()),
            }
        }
        BuildUndo::WipeContent { device, label } => match carried(sys, runner, device) {
            Some(Content::Signature(found)) if found.label.as_deref() == Some(label) => in_use(sys, device),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// What the device carries; nothing where it is gone.
fn carried(sys: &Sys, runner: &dyn Runner, device: &str) -> Option<Content> {
    let node = at(sys, Path::new(device));
    node.exists().then(|| signature::read(runner, &node))
}

/// What is behind a loop device.
enum Backing {
    /// What the run put there.
    Ours,
    Nothing,
    /// Something else, in words.
    Other(String),
}

fn backing(sys: &Sys, device: &str, file: &Path, id: Option<&FileId>, sequence: Option<u64>) -> Backing {
    let name = device.trim_start_matches("/dev/");
    let Some(now) = sys::text(&sys.sys.join("block").join(name).join("loop/backing_file")) else {
        return Backing::Nothing;
    };
    // The kernel says so behind the name of a file that was removed meanwhile.
    let named =
        Path::new(&now) == file || now.strip_suffix(" (deleted)").is_some_and(|now| Path::new(now) == file);
    // Removing a file changes its name before it goes: what is behind the device tells more.
    let is_it = id.and_then(|id| identity::is_behind(sys, device, id));
    if !is_it.unwrap_or(named) {
        return Backing::Other(match named {
            true => "it is on another file of that name now".to_owned(),
            false => format!("it is on {} now", Path::new(&now).shown()),
        });
    }
    match (sequence, identity::sequence(sys, device)) {
        (Some(then), Some(now)) if then != now => {
            Backing::Other("somebody attached it to that file again since".to_owned())
        }
        _ => Backing::Ours,
    }
}

fn detach(
    sys: &Sys,
    runner: &dyn Runner,
    device: &str,
    file: &Path,
    id: Option<&FileId>,
    sequence: Option<u64>,
) -> Result<Outcome, BuildError> {
    let look = || backing(sys, device, file, id, sequence);
    let mut found = false;
    insist(runner, || match look() {
        Backing::Nothing => Ok(Outcome::of(found)),
        Backing::Other(_) if found => Ok(Outcome::Done),
        Backing::Other(what) => Ok(Outcome::Left(what)),
        Backing::Ours => {
            in_use(sys, device)?;
            run(runner, "losetup", &["--detach", device])?;
            found = true;
            // Detaching a device that somebody has open takes effect when they close it.
            match look() {
                Backing::Ours => Err(BuildError::StillThere { what: device.to_owned() }),
                _ => Ok(Outcome::Done),
            }
        }
    })
}

/// Fails where anybody uses the device: what they see in it would change, and a loop device that is detached goes as soon
/// as they let go.
fn in_use(sys: &Sys, device: &str) -> Result<(), BuildError> {
    let reasons = judge::users_of_device(sys, device);
    if reasons.is_empty() {
        return Ok(());
    }
    let passing = reasons.iter().all(|reason| reason.kind == RefusalKind::Open);
    let what = Refusal { path: device.to_owned(), reasons }.reasons_in_words();
    Err(BuildError::InUse { device: device.to_owned(), what, passing })
}

fn remove_directory(sys: &Sys, path: &Path) -> Result<Outcome, BuildError> {
    match ebbtide_door::own::remove_empty(&at(sys, path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Outcome::Before),
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty && path == Path::new(MOUNTS) => {
            Ok(Outcome::Left("another run's mount point is in it".to_owned()))
        }
        Err(error) => Err(BuildError::Path { path: path.to_owned(), what: error.to_string() }),
        Ok(()) => Ok(Outcome::Done),
    }
}

fn wipe(sys: &Sys, runner: &dyn Runner, device: &str, label: &str) -> Result<Outcome, BuildError> {
    insist(runner, || match carried(sys, runner, device) {
        Some(Content::Signature(found)) if found.label.as_deref() == Some(label) => {
            in_use(sys, device)?;
            run(runner, "wipefs", &["--all", "--quiet", device]).map(|_| Outcome::Done)
        }
        Some(Content::Signature(found)) => Ok(Outcome::Left(match &found.label {
            Some(other) => format!("{device} carries {} with the label {other}", found.kind),
            None => format!("{device} carries {} without a label", found.kind),
        })),
        Some(Content::PartitionTable(kind)) => {
            Ok(Outcome::Left(format!("{device} carries a partition table ({kind})")))
        }
        Some(Content::Unknown(why)) => {
            Ok(Outcome::Left(format!("what {device} carries cannot be told: {why}")))
        }
        Some(Content::Nothing) | None => Ok(Outcome::Before),
    })
}

/// Switches off the swap space with `label`: after a reboot another one may be on the device's old name.
fn swap_off(sys: &Sys, runner: &dyn Runner, label: &str) -> Result<Outcome, BuildError> {
    let mut outcome = Outcome::Before;
    insist(runner, || {
        for swap in tables::swaps_of(sys) {
            match signature::read(runner, &at(sys, Path::new(&swap.path))) {
                Content::Signature(found) if found.label.as_deref() == Some(label) => {
                    run(runner, "swapoff", &[&swap.path])?;
                    outcome = Outcome::Done;
                }
                _ => {}
            }
        }
        Ok(outcome.clone())
    })
}

fn close(runner: &dyn Runner, name: &str) -> Result<Outcome, BuildError> {
    insist(runner, || {
        // Status 4: there is no such mapping (cryptsetup(8), return codes).
        if runner.run("cryptsetup", &["status", name])?.status == Some(4) {
            return Ok(Outcome::Before);
        }
        run(runner, "cryptsetup", &["close", name]).map(|_| Outcome::Done)
    })
}

fn unmount(
    sys: &Sys,
    runner: &dyn Runner,
    mountpoint: &Path,
    from: Option<&Mounted>,
) -> Result<Outcome, BuildError> {
    let path = mountpoint.to_string_lossy().into_owned();
    insist(runner, || {
        // The last is on top of those before it.
        let mounts = tables::mounts_of(sys);
        let mut there = mounts.iter().rev().filter(|mount| mount.mountpoint == path);
        let is_ours = |mount: &Mount| from.is_some_and(|from| identity::is_mounted(sys, mount, from));
        match there.next() {
            None => Ok(Outcome::Before),
            Some(mount) if is_ours(mount) => run(runner, "umount", &[&path]).map(|_| Outcome::Done),
            Some(mount) if there.any(is_ours) => Err(BuildError::Path {
                path: mountpoint.to_owned(),
                what: format!("{} ({}) is mounted over it; unmount that first", mount.source, mount.fstype),
            }),
            Some(mount) => {
                let what = match from {
                    Some(from) => format!("not {}", from.device),
                    None => "and the journal does not say what the run mounted".to_owned(),
                };
                Ok(Outcome::Left(format!("{} ({}) is mounted there, {what}", mount.source, mount.fstype)))
            }
        }
    })
}
