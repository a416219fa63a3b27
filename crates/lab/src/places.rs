//! Where the lab keeps its files: everything below one directory of the user's cache.
//!
//! What is removed there was made there: each directory carries the door's mark, and is reached from the lab's own
//! directory through no link and no mount.

use super::files::{make_directory, rename};
use super::{LabError, recipe};
use ebbtide_door::{Directory, MARK};
use ebbtide_model::shown::Shown;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

const IMAGES: &str = "images";
const PROGRAMS: &str = "programs";
pub(super) const GUESTS: &str = "guests";
/// A guest's directory: locked while its program lives.
pub(super) const LOCK: &str = "lock";

/// What keeps something in the lab's directory from being removed.
#[derive(Debug)]
pub struct Leftover {
    /// Path that is left.
    pub path: PathBuf,
    /// The reason, as a clause.
    pub why: String,
    /// Whether the lab made it, so that it should go.
    pub ours: bool,
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.shown(), self.why)
    }
}

/// What `ebb lab clean` removed and what it left.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// Paths that were removed.
    pub removed: Vec<PathBuf>,
    /// What could not be removed.
    pub left: Vec<Leftover>,
}

/// Whose a directory is where guests have theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestState {
    /// That of a program that lives.
    Runs,
    /// Its program has ended without removing it.
    Ended,
    /// The lab did not make it; why that is so.
    NotOurs(String),
}

/// The lab's directories below the user's cache.
#[derive(Debug, Clone)]
pub struct Places {
    root: PathBuf,
}

impl Places {
    /// The lab in `root`, which is made when it is needed.
    pub fn new(root: PathBuf) -> Self {
        Places { root }
    }

    /// The directory that all others are in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the image of this recipe is.
    pub fn image(&self) -> PathBuf {
        self.images().join(recipe::key())
    }

    /// Where the system disk of this recipe is, for User-Mode Linux or for QEMU.
    pub(super) fn system_image(&self, on_uml: bool) -> PathBuf {
        self.images().join(format!("system-{}", recipe::system_key(on_uml)))
    }

    /// Where the kernel of User-Mode Linux is.
    pub(super) fn uml_kernel(&self) -> PathBuf {
        self.images().join(format!("uml-{}", recipe::uml_key()))
    }

    /// Whether the image `path` is of this version.
    pub fn is_current(&self, path: &Path) -> bool {
        let systems = [false, true].map(|on_uml| self.system_image(on_uml));
        path == self.image() || path == self.uml_kernel() || systems.iter().any(|system| path == system)
    }

    /// Where all images are.
    pub fn images(&self) -> PathBuf {
        self.root.join(IMAGES)
    }

    pub(super) fn programs(&self) -> PathBuf {
        self.root.join(PROGRAMS)
    }

    /// Where guests have their files while they run.
    pub(super) fn guests(&self) -> PathBuf {
        self.root.join(GUESTS)
    }

    /// The directory `name` of the lab's own, neither it nor the lab's a link; nothing where it is not there.
    pub(super) fn room(&self, name: &str) -> io::Result<Option<Directory>> {
        match Directory::open_itself(&self.root).and_then(|root| root.below(OsStr::new(name))) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// The directory that `name`, below the lab's, is in, reached through no link, and its name there.
    fn place<'a>(&self, name: &'a Path) -> io::Result<(Directory, &'a OsStr)> {
        let mut place = Directory::open_itself(&self.root)?;
        for part in name.parent().unwrap_or(Path::new("")) {
            place = place.below(part)?;
        }
        Ok((place, name.file_name().unwrap_or_default()))
    }

    /// The directory `name`, below the lab's, made with the mark where it is missing.
    ///
    /// # Errors
    /// When it cannot be made, or is a link.
    pub(super) fn make_marked(&self, name: &Path) -> Result<PathBuf, LabError> {
        let path = self.root.join(name);
        make_directory(&self.root)?;
        let make = || {
            let (place, last) = self.place(name)?;
            match place.make(last) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => place.below(last).map(drop),
                made => made?.mark(),
            }
        };
        make().map_err(LabError::file("make", &path))?;
        Ok(path)
    }

    /// Removes the directory `name`, below the lab's, which carries the mark, with everything in it; already gone is
    /// success.
    ///
    /// # Errors
    /// When the lab did not make it, or it cannot be removed.
    pub(super) fn remove_marked(&self, name: &Path) -> Result<(), LabError> {
        let remove = || {
            let (place, last) = self.place(name)?;
            whose(&place, last)?;
            place.remove_tree(last)
        };
        match remove() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other.map_err(LabError::file("remove", &self.root.join(name))),
        }
    }

    /// Fails where the directory `image` is in the way of a new one and cannot be removed.
    pub(super) fn check_image(&self, image: &Path) -> Result<(), LabError> {
        let check = || match self.room(IMAGES)? {
            Some(images) => whose(&images, image.file_name().unwrap_or_default()),
            None => Ok(()),
        };
        match check() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other.map_err(LabError::file("replace", image)),
        }
    }

    /// Gives the directory `new` the name `image` of an image, in place of an older one, whose files running guests keep open.
    pub(super) fn publish_image(&self, new: &Path, image: &Path) -> Result<(), LabError> {
        make_directory(&self.images())?;
        self.remove_marked(image.strip_prefix(&self.root).unwrap_or(image))?;
        rename(new, image)
    }

    /// What is in the directory of guests, and whose it is.
    ///
    /// # Errors
    /// When that directory cannot be looked at, or is a link.
    pub fn guest_directories(&self) -> Result<Vec<(PathBuf, GuestState)>, LabError> {
        let path = self.guests();
        let fail = || LabError::file("look for guests in", &path);
        let Some(guests) = self.room(GUESTS).map_err(fail())? else { return Ok(Vec::new()) };
        let names = guests.names().map_err(fail())?;
        Ok(names.iter().map(|name| (guests.path().join(name), guest_state(&guests, name))).collect())
    }

    /// Removes what ended guests left.
    ///
    /// # Errors
    /// When the directory of guests cannot be looked at.
    pub fn sweep(&self) -> Result<Cleaned, LabError> {
        let mut swept = Cleaned::default();
        let Some(guests) = self.room_to_sweep(GUESTS, &mut swept) else { return Ok(swept) };
        let names = guests.names().map_err(LabError::file("look for guests in", guests.path()))?;
        for name in names {
            match guest_state(&guests, &name) {
                GuestState::Runs => {}
                GuestState::Ended => swept.remove(&guests, &name),
                GuestState::NotOurs(why) => {
                    swept.left.push(Leftover { path: guests.path().join(&name), why, ours: false });
                }
            }
        }
        Ok(swept)
    }

    /// Removes images and packed programs. Guests that run keep theirs open.
    ///
    /// # Errors
    /// When the directory of images cannot be looked at.
    pub fn remove_images(&self) -> Result<Cleaned, LabError> {
        let mut swept = Cleaned::default();
        if let Some(images) = self.room_to_sweep(IMAGES, &mut swept) {
            let names = images.names().map_err(LabError::file("look for images in", images.path()))?;
            names.iter().for_each(|name| swept.remove_ours(&images, name));
        }
        if self.room_to_sweep(PROGRAMS, &mut swept).is_some() {
            match Directory::open_itself(&self.root) {
                Ok(root) => swept.remove_ours(&root, OsStr::new(PROGRAMS)),
                Err(error) => swept.stays(self.programs(), &error),
            }
        }
        Ok(swept)
    }

    /// [`room`](Self::room); one that cannot be looked at is noted in `swept`.
    fn room_to_sweep(&self, name: &str, swept: &mut Cleaned) -> Option<Directory> {
        self.room(name).unwrap_or_else(|error| {
            swept.stays(self.root.join(name), &error);
            None
        })
    }
}

impl Cleaned {
    /// Notes what is nobody's to remove, or cannot be looked at.
    fn stays(&mut self, path: PathBuf, why: &io::Error) {
        self.left.push(Leftover { path, why: why.to_string(), ours: false });
    }

    /// Removes `name` in `place` if the lab made it.
    fn remove_ours(&mut self, place: &Directory, name: &OsStr) {
        match whose(place, name) {
            Ok(()) => self.remove(place, name),
            Err(error) => self.stays(place.path().join(name), &error),
        }
    }

    /// Removes `name` in `place`, which is the lab's.
    fn remove(&mut self, place: &Directory, name: &OsStr) {
        let path = place.path().join(name);
        match place.remove_tree(name) {
            Ok(()) => self.removed.push(path),
            Err(error) => self.left.push(Leftover { path, why: error.to_string(), ours: true }),
        }
    }
}

/// Fails unless `name` in `place` is a directory that the lab made.
fn whose(place: &Directory, name: &OsStr) -> io::Result<()> {
    let found = place.below(name)?;
    if found.is_marked() {
        return Ok(());
    }
    let path = found.path().shown();
    Err(io::Error::other(format!("ebb did not make it: it has no {MARK}; if nobody needs it: rm -r {path}")))
}

pub(super) fn guest_state(guests: &Directory, name: &OsStr) -> GuestState {
    let state = || -> io::Result<GuestState> {
        whose(guests, name)?;
        Ok(if guests.below(name)?.is_locked(LOCK)? { GuestState::Runs } else { GuestState::Ended })
    };
    state().unwrap_or_else(|error| GuestState::NotOurs(error.to_string()))
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

#[cfg(test)]
mod tests {
    use super::super::guest_directory::GuestDirectory;
    use super::*;

    fn lab() -> (tempfile::TempDir, Places) {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let places = Places::new(directory.path().join("lab"));
        (directory, places)
    }

    /// As a program leaves it that was killed: nobody holds its lock.
    fn ended(places: &Places, name: &str) -> PathBuf {
        let left = places.guests().join(name);
        Directory::make_all(&left).and_then(|left| left.mark()).expect("makes");
        std::fs::write(left.join(LOCK), "").expect("writes");
        left
    }

    #[test]
    fn only_ended_guests_are_swept() {
        let (_directory, places) = lab();
        let lives = GuestDirectory::make(&places, "lives").expect("makes");
        let left = ended(&places, "ended");
        assert!(GuestDirectory::make(&places, "lives").is_err(), "its name is taken");
        assert!(GuestDirectory::make(&places, "ended").is_err(), "its name is taken");
        let swept = places.sweep().expect("sweeps");
        assert_eq!((swept.removed.as_slice(), swept.left.len()), (std::slice::from_ref(&left), 0));
        assert!(lives.path().exists() && !left.exists());
        let path = lives.path().to_owned();
        drop(lives);
        assert!(!path.exists());
    }

    #[test]
    fn what_the_lab_did_not_make_stays_and_is_said() {
        let (directory, places) = lab();
        let foreign = directory.path().join("foreign");
        std::fs::create_dir_all(foreign.join("inner")).expect("makes");
        std::fs::write(foreign.join("inner/f"), "x").expect("writes");
        ended(&places, "ended");
        std::fs::create_dir_all(places.guests().join("mydocs")).expect("makes");
        std::fs::write(places.guests().join("mydocs/thesis.tex"), "x").expect("writes");
        std::os::unix::fs::symlink(&foreign, places.guests().join("linked")).expect("links");
        let swept = places.sweep().expect("sweeps");
        assert_eq!(swept.removed, [places.guests().join("ended")]);
        let left: Vec<_> = swept.left.iter().map(|left| (left.path.as_path(), left.ours)).collect();
        let (linked, mydocs) = (places.guests().join("linked"), places.guests().join("mydocs"));
        assert_eq!(left, [(linked.as_path(), false), (mydocs.as_path(), false)]);
        assert!(swept.left[0].why.contains("is a link"), "{}", swept.left[0].why);
        assert!(mydocs.join("thesis.tex").exists());
        assert_eq!(std::fs::read_dir(&foreign).expect("reads").count(), 1, "nothing is put there either");
    }

    #[test]
    fn links_in_place_of_the_lab_s_directories_are_not_followed() {
        let (directory, places) = lab();
        let elsewhere = Places::new(directory.path().join("elsewhere"));
        let left = ended(&elsewhere, "ended");
        let image = elsewhere.images().join("0123");
        Directory::make_all(&image).and_then(|image| image.mark()).expect("makes");
        std::os::unix::fs::symlink(elsewhere.root(), places.root()).expect("links");
        let (guests, images) = (places.sweep().expect("sweeps"), places.remove_images().expect("looks"));
        assert!(guests.removed.is_empty() && images.removed.is_empty());
        assert!(!guests.left.is_empty() && !images.left.is_empty());
        assert!(GuestDirectory::make(&places, "new").is_err(), "it could not be removed later");
        std::fs::remove_file(places.root()).expect("removes");
        std::fs::create_dir(places.root()).expect("makes");
        std::os::unix::fs::symlink(elsewhere.guests(), places.guests()).expect("links");
        std::os::unix::fs::symlink(elsewhere.images(), places.images()).expect("links");
        assert_eq!(places.sweep().expect("sweeps").left[0].path, places.guests());
        assert_eq!(places.remove_images().expect("looks").left[0].path, places.images());
        assert!(left.join(LOCK).exists() && image.exists());
    }

    #[test]
    fn of_images_those_go_that_were_made_here() {
        let (_directory, places) = lab();
        let image = places.images().join("0123");
        Directory::make_all(&image).and_then(|image| image.mark()).expect("makes");
        let mine = places.images().join("mine");
        std::fs::create_dir_all(&mine).expect("makes");
        std::fs::write(mine.join("f"), "x").expect("writes");
        let programs = places.make_marked(Path::new(PROGRAMS)).expect("makes");
        std::fs::write(programs.join("0.squashfs"), "x").expect("writes");
        let swept = places.remove_images().expect("removes");
        assert_eq!(swept.removed, [image, programs]);
        assert_eq!(swept.left.iter().map(|left| left.path.as_path()).collect::<Vec<_>>(), [mine.as_path()]);
        assert!(mine.join("f").exists());
    }
}
