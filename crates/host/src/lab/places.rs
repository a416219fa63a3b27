//! Where the lab keeps its files: everything below one directory of the user's cache.

use super::files::{make_directory, remove_directory, try_lock};
use super::{LabError, recipe};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The lab's directory.
#[derive(Debug, Clone)]
pub struct Places {
    root: PathBuf,
}

impl Places {
    /// The lab in `root`, which is made when it is needed.
    pub fn new(root: PathBuf) -> Self {
        Places { root }
    }

    /// The lab's directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the image of this recipe is.
    pub fn image(&self) -> PathBuf {
        self.images().join(recipe::key())
    }

    /// Where all images are.
    pub fn images(&self) -> PathBuf {
        self.root.join("images")
    }

    /// Packed programs.
    pub(super) fn programs(&self) -> PathBuf {
        self.root.join("programs")
    }

    /// Where guests have their files while they run.
    pub(super) fn guests(&self) -> PathBuf {
        self.root.join("guests")
    }

    /// Directories of guests whose program has ended without removing them.
    ///
    /// # Errors
    /// When one cannot be looked at.
    pub fn abandoned(&self) -> Result<Vec<PathBuf>, LabError> {
        Ok(self.guest_directories()?.into_iter().filter(|(_, lives)| !lives).map(|(path, _)| path).collect())
    }

    /// Directories of guests, and whether they run.
    ///
    /// # Errors
    /// When one cannot be looked at.
    pub fn guest_directories(&self) -> Result<Vec<(PathBuf, bool)>, LabError> {
        let mut found = Vec::new();
        for path in directories(&self.guests()) {
            let lives = try_lock(&path.join("lock"))?.is_none();
            found.push((path, lives));
        }
        Ok(found)
    }

    /// Removes what ended guests left.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn sweep(&self) -> Result<Vec<PathBuf>, LabError> {
        let abandoned = self.abandoned()?;
        abandoned.iter().try_for_each(|path| remove_directory(path))?;
        Ok(abandoned)
    }

    /// Removes images and packed programs; returns what was removed. Guests that run keep theirs open.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn remove_images(&self) -> Result<Vec<PathBuf>, LabError> {
        let found: Vec<PathBuf> =
            [self.images(), self.programs()].into_iter().filter(|path| path.exists()).collect();
        found.iter().try_for_each(|path| remove_directory(path))?;
        Ok(found)
    }
}

/// The directories directly in `path`, sorted; none when it does not exist.
pub fn directories(path: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.is_dir())
        .collect();
    found.sort();
    found
}

/// The directory of a guest's files; locked while its program lives, removed when this is dropped.
#[derive(Debug)]
pub struct GuestDirectory {
    path: PathBuf,
    _lock: File,
}

impl GuestDirectory {
    /// A new directory for the guest `name`.
    ///
    /// # Errors
    /// When it cannot be made, or a guest of this name runs.
    pub fn make(places: &Places, name: &str) -> Result<Self, LabError> {
        let path = places.guests().join(name);
        make_directory(&path)?;
        match try_lock(&path.join("lock"))? {
            Some(lock) => Ok(GuestDirectory { path, _lock: lock }),
            None => Err(LabError::Unexpected(format!("a guest named {name} is running already"))),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for GuestDirectory {
    fn drop(&mut self) {
        // What stays is found by the next sweep.
        let _ = remove_directory(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ended_guests_are_swept() {
        let directory = tempfile::tempdir().expect("a directory");
        let places = Places::new(directory.path().join("lab"));
        let lives = GuestDirectory::make(&places, "lives").expect("makes");
        // As a program leaves it that was killed: nobody holds its lock.
        let left = places.guests().join("ended");
        make_directory(&left).expect("makes");
        std::fs::write(left.join("lock"), "").expect("writes");
        assert!(GuestDirectory::make(&places, "lives").is_err(), "its name is taken");
        assert_eq!(places.sweep().expect("sweeps"), std::slice::from_ref(&left));
        assert!(lives.path().exists() && !left.exists());
        let path = lives.path().to_owned();
        drop(lives);
        assert!(!path.exists());
    }
}
