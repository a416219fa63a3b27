//! Puts one step back. Already gone is success; something else under the same name is left alone.

use super::{BuildError, at, insist, lvm, mdadm, queue, run};
use crate::command::Runner;
use crate::probe::{Content, signature, tables};
use crate::sys::{self, Sys};
use ebbtide_core::plan::build::{BuildUndo, MOUNTS};
use std::io::ErrorKind;
use std::path::Path;

/// Puts `undo`'s step back on the host of `sys`.
///
/// # Errors
/// When it could not be put back: the program that failed with what it said.
pub fn undo(sys: &Sys, runner: &dyn Runner, undo: &BuildUndo) -> Result<(), BuildError> {
    match undo {
        BuildUndo::DetachLoop { device, file } => detach(sys, runner, device, file),
        BuildUndo::RestoreQueue { set, old } => match old {
            Some(old) => queue::restore(sys, set, old),
            None => Ok(()),
        },
        BuildUndo::RemoveDirectory(path) => remove_directory(sys, path),
        BuildUndo::StopMd { uuid, members, .. } => mdadm::stop(sys, runner, uuid, members),
        BuildUndo::RemovePv { uuid, .. } => lvm::remove_pv(runner, uuid),
        BuildUndo::RemoveVg { name } => lvm::remove_vg(runner, name),
        BuildUndo::RemoveLv { volume } => lvm::remove_lv(runner, volume),
        BuildUndo::WipeContent { device, label } => wipe(sys, runner, device, label),
        BuildUndo::SwapOff { label, .. } => swap_off(sys, runner, label),
        BuildUndo::CloseCrypt { name } => close(runner, name),
        BuildUndo::Unmount { mountpoint } => unmount(sys, runner, mountpoint),
    }
}

fn detach(sys: &Sys, runner: &dyn Runner, device: &str, file: &Path) -> Result<(), BuildError> {
    let name = device.trim_start_matches("/dev/");
    let backing = sys.sys.join("block").join(name).join("loop/backing_file");
    // The kernel says so behind the name of a file that was removed meanwhile.
    let is_ours = || {
        let now = sys::text(&backing).unwrap_or_default();
        Path::new(&now) == file || now.strip_suffix(" (deleted)").is_some_and(|now| Path::new(now) == file)
    };
    insist(runner, || {
        if !is_ours() {
            return Ok(());
        }
        run(runner, "losetup", &["--detach", device])?;
        // Detaching a device that somebody has open takes effect when they close it.
        if is_ours() { Err(BuildError::StillThere { what: device.to_owned() }) } else { Ok(()) }
    })
}

fn remove_directory(sys: &Sys, path: &Path) -> Result<(), BuildError> {
    match ebbtide_door::own::remove_empty(&at(sys, path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // Another run's mount point is in it.
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty && path == Path::new(MOUNTS) => Ok(()),
        Err(error) => Err(BuildError::Path { path: path.to_owned(), what: error.to_string() }),
        Ok(()) => Ok(()),
    }
}

fn wipe(sys: &Sys, runner: &dyn Runner, device: &str, label: &str) -> Result<(), BuildError> {
    let node = at(sys, Path::new(device));
    insist(runner, || match node.exists().then(|| signature::read(runner, &node)) {
        Some(Content::Signature(found)) if found.label.as_deref() == Some(label) => {
            run(runner, "wipefs", &["--all", "--quiet", device]).map(drop)
        }
        _ => Ok(()),
    })
}

/// Switches off the swap space with `label`: after a reboot another one may be on the device's old name.
fn swap_off(sys: &Sys, runner: &dyn Runner, label: &str) -> Result<(), BuildError> {
    insist(runner, || {
        for swap in tables::swaps_of(sys) {
            match signature::read(runner, &at(sys, Path::new(&swap.path))) {
                Content::Signature(found) if found.label.as_deref() == Some(label) => {
                    run(runner, "swapoff", &[&swap.path])?;
                }
                _ => {}
            }
        }
        Ok(())
    })
}

fn close(runner: &dyn Runner, name: &str) -> Result<(), BuildError> {
    insist(runner, || {
        // Status 4: there is no such mapping (cryptsetup(8), return codes).
        if runner.run("cryptsetup", &["status", name])?.status == Some(4) {
            return Ok(());
        }
        run(runner, "cryptsetup", &["close", name]).map(drop)
    })
}

fn unmount(sys: &Sys, runner: &dyn Runner, mountpoint: &Path) -> Result<(), BuildError> {
    let mounted = mountpoint.to_string_lossy().into_owned();
    insist(runner, || {
        if !tables::mounts_of(sys).iter().any(|mount| mount.mountpoint == mounted) {
            return Ok(());
        }
        run(runner, "umount", &[&mounted]).map(drop)
    })
}
