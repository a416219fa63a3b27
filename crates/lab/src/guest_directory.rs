//! The directory of a guest that runs.

use super::LabError;
use super::files::{lock_in, make_directory};
use super::places::{GUESTS, GuestState, LOCK, Places, guest_state};
use ebbtide_door::Directory;
use ebbtide_door::own::Locked;
use std::ffi::OsStr;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The directory of a guest's files; locked while its program lives, removed when this is dropped.
#[derive(Debug)]
pub struct GuestDirectory {
    guests: Directory,
    path: PathBuf,
    _lock: Locked,
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
        let guests = guests.ok_or_else(|| LabError::Gone { path: places.guests() })?;
        let made = match guests.make(name) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let there = guest_state(&guests, OsStr::new(name));
                let name = name.to_owned();
                return Err(match there {
                    GuestState::Runs => LabError::Runs { name },
                    GuestState::Ended => LabError::Left { name },
                    GuestState::NotOurs(why) => LabError::InTheWay { path, why },
                });
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
