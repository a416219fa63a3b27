//! Where the lab keeps its files: everything below one directory of the user's cache.
//!
//! What is removed there was made there: each directory carries the door's mark, and is reached from the lab's own
//! directory through no link and no mount.

use super::files::{make_directory, rename};
use super::{LabError, recipe};
use ebbtide_door::own::Locked;
use ebbtide_door::{Directory, MARK, own};
use ebbtide_model::shown::Shown;
use std::ffi::OsStr;
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

const IMAGES: &str = "images";
const PROGRAMS: &str = "programs";
const GUESTS: &str = "guests";
/// A guest's directory: locked while its program lives.
const LOCK: &str = "lock";

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

    /// Where the image of this recipe is whose name begins with `kind`.
    pub(super) fn image(&self, kind: &str) -> PathBuf {
        self.images().join(format!("{kind}{}", recipe::key()))
    }

    /// Whether the image `path` is of this version.
    pub fn is_current(&self, path: &Path) -> bool {
        path.to_string_lossy().ends_with(&recipe::key())
    }

    /// Where all images are.
    pub fn images(&self) -> PathBuf {
        self.root.join(IMAGES)
    }

    pub(super) fn programs(&self) -> PathBuf {
        self.root.join(PROGRAMS)
    }

    /// The directory `name` of the lab's own, neither it nor the lab's a link; nothing where it is not there.
    fn room(&self, name: &str) -> io::Result<Option<Directory>> {
        match Directory::open_itself(&self.root).and_then(|root| root.below(OsStr::new(name))) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// The directory that `path`, below the lab's, is in, reached through no link, and its name there.
    fn place<'a>(&self, path: &'a Path) -> io::Result<(Directory, &'a OsStr)> {
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        let mut place = Directory::open_itself(&self.root)?;
        for part in below.parent().unwrap_or(Path::new("")) {
            place = place.below(part)?;
        }
        Ok((place, below.file_name().unwrap_or_default()))
    }

    /// Makes the directory `path`, below the lab's, with the mark where it is missing.
    ///
    /// # Errors
    /// When it cannot be made, or is a link.
    pub(super) fn make_marked(&self, path: &Path) -> Result<(), LabError> {
        make_directory(&self.root)?;
        let make = || {
            let (place, last) = self.place(path)?;
            match place.make(last) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => place.below(last).map(drop),
                made => made?.mark(),
            }
        };
        make().map_err(LabError::file("make", path))
    }

    /// The place of the directory `path`, which carries the mark; nothing where it is not there.
    fn marked<'a>(&self, path: &'a Path) -> Result<Option<(Directory, &'a OsStr)>, LabError> {
        match self.place(path).and_then(|(place, last)| whose(&place, last).map(|()| (place, last))) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            other => other.map(Some).map_err(LabError::file("remove", path)),
        }
    }

    /// Fails where [`remove_marked`](Self::remove_marked) would.
    pub(super) fn check_removable(&self, path: &Path) -> Result<(), LabError> {
        self.marked(path).map(drop)
    }

    /// Removes the directory `path`, below the lab's, which carries the mark, with everything in it; already gone is
    /// success.
    ///
    /// # Errors
    /// When the lab did not make it, or it cannot be removed.
    pub(super) fn remove_marked(&self, path: &Path) -> Result<(), LabError> {
        match self.marked(path)? {
            Some((place, last)) => place.remove_tree(last).map_err(LabError::file("remove", path)),
            None => Ok(()),
        }
    }

    /// Gives the directory `new` the name `image`, in place of an older one, whose files running guests keep open.
    pub(super) fn publish(&self, new: &Path, image: &Path) -> Result<(), LabError> {
        self.remove_marked(image)?;
        rename(new, image)
    }

    /// What is in the directory of guests, and whose it is.
    ///
    /// # Errors
    /// When that directory cannot be looked at, or is a link.
    pub fn guest_directories(&self) -> Result<Vec<(PathBuf, GuestState)>, LabError> {
        let path = self.root.join(GUESTS);
        let fail = || LabError::file("look for guests in", &path);
        let Some(guests) = self.room(GUESTS).map_err(fail())? else { return Ok(Vec::new()) };
        let names = guests.names().map_err(fail())?;
        Ok(names.iter().map(|name| (guests.path().join(name), guest_state(&guests, name))).collect())
    }

    /// Removes what ended guests left, and with `all` images and packed programs. Guests that run keep theirs open.
    ///
    /// # Errors
    /// When a directory cannot be looked at.
    pub fn clean(&self, all: bool) -> Result<Cleaned, LabError> {
        let mut swept = Cleaned::default();
        let names = |room: &Directory| room.names().map_err(LabError::file("look into", room.path()));
        if let Some(guests) = self.room_to_sweep(GUESTS, &mut swept) {
            for name in names(&guests)? {
                match guest_state(&guests, &name) {
                    GuestState::Runs => {}
                    GuestState::Ended => swept.remove(&guests, &name),
                    GuestState::NotOurs(why) => swept.stays(guests.path().join(&name), why, false),
                }
            }
        }
        if !all {
            return Ok(swept);
        }
        if let Some(images) = self.room_to_sweep(IMAGES, &mut swept) {
            names(&images)?.iter().for_each(|name| swept.remove_ours(&images, name));
        }
        if self.room_to_sweep(PROGRAMS, &mut swept).is_some() {
            match Directory::open_itself(&self.root) {
                Ok(root) => swept.remove_ours(&root, OsStr::new(PROGRAMS)),
                Err(error) => swept.stays(self.programs(), error, false),
            }
        }
        Ok(swept)
    }

    /// [`room`](Self::room); one that cannot be looked at is noted in `swept`.
    fn room_to_sweep(&self, name: &str, swept: &mut Cleaned) -> Option<Directory> {
        self.room(name).unwrap_or_else(|error| {
            swept.stays(self.root.join(name), error, false);
            None
        })
    }
}

impl Cleaned {
    fn stays(&mut self, path: PathBuf, why: impl ToString, ours: bool) {
        self.left.push(Leftover { path, why: why.to_string(), ours });
    }

    /// Removes `name` in `place` if the lab made it.
    fn remove_ours(&mut self, place: &Directory, name: &OsStr) {
        match whose(place, name) {
            Ok(()) => self.remove(place, name),
            Err(error) => self.stays(place.path().join(name), error, false),
        }
    }

    /// Removes `name` in `place`, which is the lab's.
    fn remove(&mut self, place: &Directory, name: &OsStr) {
        let path = place.path().join(name);
        match place.remove_tree(name) {
            Ok(()) => self.removed.push(path),
            Err(error) => self.stays(path, error, true),
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

fn guest_state(guests: &Directory, name: &OsStr) -> GuestState {
    let state = || -> io::Result<GuestState> {
        whose(guests, name)?;
        Ok(if guests.below(name)?.is_locked(LOCK)? { GuestState::Runs } else { GuestState::Ended })
    };
    state().unwrap_or_else(|error| GuestState::NotOurs(error.to_string()))
}

/// The directories directly in `path`, sorted; none when it does not exist.
pub fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

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
        let path = places.root.join(GUESTS).join(name);
        make_directory(&places.root.join(GUESTS))?;
        let make = || {
            let guests = places.room(GUESTS)?.ok_or(ErrorKind::NotFound)?;
            let made = match guests.make(name) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return Err(io::Error::other(match guest_state(&guests, OsStr::new(name)) {
                        GuestState::Runs => "a guest of this name is running".to_owned(),
                        GuestState::Ended => {
                            "a guest of this name has left it; `ebb lab clean` removes it".to_owned()
                        }
                        GuestState::NotOurs(why) => why,
                    }));
                }
                other => other?,
            };
            // Locked before it is marked: who sweeps leaves alone what has no mark.
            let lock = own::try_lock(&made.path().join(LOCK))?.ok_or(ErrorKind::WouldBlock)?;
            made.mark()?;
            Ok((guests, lock))
        };
        let (guests, lock) = make().map_err(LabError::file("make", &path))?;
        Ok(GuestDirectory { guests, path, _lock: lock })
    }

    /// Where it is.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lab() -> (tempfile::TempDir, Places) {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let places = Places::new(directory.path().join("lab"));
        (directory, places)
    }

    /// As a program leaves it that was killed: nobody holds its lock.
    fn ended(places: &Places, name: &str) -> PathBuf {
        let left = places.root.join(GUESTS).join(name);
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
        let swept = places.clean(false).expect("sweeps");
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
        std::fs::create_dir_all(places.root.join(GUESTS).join("mydocs")).expect("makes");
        std::fs::write(places.root.join(GUESTS).join("mydocs/thesis.tex"), "x").expect("writes");
        std::os::unix::fs::symlink(&foreign, places.root.join(GUESTS).join("linked")).expect("links");
        let swept = places.clean(false).expect("sweeps");
        assert_eq!(swept.removed, [places.root.join(GUESTS).join("ended")]);
        let left: Vec<_> = swept.left.iter().map(|left| (left.path.as_path(), left.ours)).collect();
        let (linked, mydocs) =
            (places.root.join(GUESTS).join("linked"), places.root.join(GUESTS).join("mydocs"));
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
        let cleaned = places.clean(true).expect("looks");
        assert!(cleaned.removed.is_empty());
        let stays: Vec<&Path> = cleaned.left.iter().map(|left| left.path.as_path()).collect();
        assert!(
            stays.contains(&&*places.root.join(GUESTS)) && stays.contains(&&*places.images()),
            "{stays:?}"
        );
        assert!(GuestDirectory::make(&places, "new").is_err(), "it could not be removed later");
        std::fs::remove_file(places.root()).expect("removes");
        std::fs::create_dir(places.root()).expect("makes");
        std::os::unix::fs::symlink(elsewhere.root.join(GUESTS), places.root.join(GUESTS)).expect("links");
        std::os::unix::fs::symlink(elsewhere.images(), places.images()).expect("links");
        let cleaned = places.clean(true).expect("looks");
        let stays: Vec<&Path> = cleaned.left.iter().map(|left| left.path.as_path()).collect();
        assert_eq!(stays, [places.root.join(GUESTS), places.images()]);
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
        let programs = places.programs();
        places.make_marked(&programs).expect("makes");
        std::fs::write(programs.join("0.squashfs"), "x").expect("writes");
        let swept = places.clean(true).expect("removes");
        assert_eq!(swept.removed, [image, programs]);
        assert_eq!(swept.left.iter().map(|left| left.path.as_path()).collect::<Vec<_>>(), [mine.as_path()]);
        assert!(mine.join("f").exists());
    }
}
