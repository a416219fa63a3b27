//! The directory of a guest that runs.

use super::LabError;
use super::files::{lock_in, make_directory};
use super::places::{GUESTS, GuestState, LOCK, Places, guest_state};
use ebbtide_door::Directory;
use ebbtide_model::shown::Shown;
use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The directory of a guest's files; locked while its program lives, removed when this is dropped.
#[derive(Debug)]
pub struct GuestDirectory {
    guests: Directory,
    path: PathBuf,
    _lock: File,
}

impl GuestDirectory {
    /// A new directory for the guest `name`.
    ///
    /// # Errors
    /// When it cannot be made, or there is one of this name.
    pub fn make(places: &Places, name: &str) -> Result<Self, LabError> {
        let path = places.guests().join(name);
        make_directory(&places.guests())?;
        let guests = places.room(GUESTS).map_err(LabError::file("make", &path))?;
        let guests =
            guests.ok_or_else(|| LabError::Unexpected(format!("{} is gone", places.guests().shown())))?;
        let made = match guests.make(name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(LabError::Unexpected(match guest_state(&guests, OsStr::new(name)) {
                    GuestState::Runs => format!("a guest named {name} is running already"),
                    GuestState::Ended => {
                        format!("a guest named {name} has left its files; `ebb lab clean` removes them")
                    }
                    GuestState::NotOurs(why) => format!("{} is in the way: {why}", path.shown()),
                }));
            }
            other => other.map_err(LabError::file("make", &path))?,
        };
        // Locked before it is marked: who sweeps leaves alone what has no mark.
        let lock = lock_in(&made, LOCK)?;
        made.mark().map_err(LabError::file("mark", &path))?;
        Ok(GuestDirectory { guests, path, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for GuestDirectory {
    fn drop(&mut self) {
        // What stays is found by the next sweep.
        let _ = self.guests.remove_tree(self.path.file_name().unwrap_or_default());
    }
}
