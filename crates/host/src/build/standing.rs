//! Whether what was built still stands, so that more may be set, mounted and run on it: asked by identity, as an undo would.

use super::{BuildError, Builder, identity, lvm, mdadm, queue, undo};
use crate::command::Runner;
use crate::made;
use crate::sys::Sys;
use ebbtide_model::plan::build::BuildUndo;
use std::ops::Range;

impl Builder {
    /// Whether all that was done between two [`marks`](Self::mark) is there as it was made: under the names that it was given, and
    /// nothing else in its place.
    ///
    /// # Errors
    /// When a program that is asked fails.
    pub fn stands(&self, done: Range<usize>) -> Result<bool, BuildError> {
        for (_, undo) in self.done.get(done).unwrap_or_default() {
            if !stands(&self.sys, self.runner.as_ref(), undo)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn stands(sys: &Sys, runner: &dyn Runner, undo: &BuildUndo) -> Result<bool, BuildError> {
    Ok(match undo {
        BuildUndo::DetachLoop { device, file, id, sequence } => {
            undo::backing(sys, device, file, id.as_ref(), *sequence).is_none()
        }
        BuildUndo::RestoreQueue { set, .. } => queue::get(sys, set)? == set.value,
        BuildUndo::RemoveDirectory(path) | BuildUndo::RemoveGroup(path) => sys.at(path).is_dir(),
        BuildUndo::EndLoad { directory, .. } => sys.at(directory).is_dir(),
        BuildUndo::Unmake(thing) => made::recorded(sys).contains(&(thing.kind, thing.name.clone())),
        BuildUndo::StopMd { device, uuid, .. } => mdadm::is_at(runner, uuid, device)?,
        // They stand as long as the logical volume in them does, whose group has the run's name.
        BuildUndo::RemovePv { .. } | BuildUndo::RemoveVg { .. } => true,
        BuildUndo::RemoveLv { volume } => lvm::is_there(runner, volume)?,
        BuildUndo::Uncache { volume } => lvm::cache_of(runner, volume)?.is_some(),
        BuildUndo::WipeContent { device, label, sequence } => {
            undo::to_wipe(sys, runner, device, label, *sequence).is_ok()
        }
        // Nothing is run on what swaps but the trial that it was switched on for.
        BuildUndo::SwapOff { .. } => false,
        BuildUndo::CloseCrypt { name, of } => {
            identity::other_mapping(sys, name, of.as_ref()).is_none()
                && runner.run("cryptsetup", &["status", name])?.status == Some(0)
        }
        BuildUndo::Unmount { mountpoint, from } => undo::mounted(sys, mountpoint, from.as_ref())?.is_none(),
    })
}
