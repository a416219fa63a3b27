//! The journal as files: one per run, in the user's state directory, locked while its run lives.
//!
//! The kernel drops the lock when the program ends in whatever way, so a journal that can be locked belongs to
//! nobody, and what it leaves may be put back. A run that put everything back removes its journal.

use crate::places::user_directory;
use ebbtide_door::{Directory, Doubt, Log, Removed, id_of, is_hidden_name};
use ebbtide_host::build::{self, Outcome};
use ebbtide_host::command::{Real, Runner};
use ebbtide_host::judge::{self, Program};
use ebbtide_host::probe::tables::mounts_of;
use ebbtide_host::sys::{DevNum, Sys};
use ebbtide_model::journal::{Entry, FileId, Journal, Leftover, leftovers};
use ebbtide_model::plan::build::{BuildUndo, Mounted};
use ebbtide_model::shown::Shown;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How often a journal is made anew that somebody who cleans up removed before it was locked.
const ATTEMPTS: usize = 10;

/// Where journals are: `$XDG_STATE_HOME/ebbtide/journals`, `~/.local/state` where that is not set.
///
/// # Errors
/// When the environment does not say.
pub fn directory() -> Result<PathBuf, String> {
    user_directory("XDG_STATE_HOME", ".local/state")
        .map(|directory| directory.join("journals"))
        .ok_or_else(|| "no place for the journal of changes: set HOME or XDG_STATE_HOME".to_owned())
}

/// A journal that is made with its first entry.
#[derive(Debug)]
pub struct JournalFile {
    directory: PathBuf,
    name: String,
    log: Mutex<Option<Log>>,
}

impl JournalFile {
    /// The journal of the run `name` in `directory`; nothing is written yet.
    pub fn new(directory: &Path, name: &str) -> Self {
        let name = format!("{name}.jsonl");
        JournalFile { directory: directory.to_owned(), name, log: Mutex::new(None) }
    }

    fn create(&self) -> io::Result<Log> {
        let mut attempt = 1;
        loop {
            let directory = Directory::make_all(&self.directory)?;
            match Log::create(directory, self.name.clone().into()) {
                Err(error) if error.kind() == ErrorKind::NotFound && attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
                Ok(log) => {
                    // Programs that build arrays inherit the lock.
                    log.inherit()?;
                    return Ok(log);
                }
            }
        }
    }

    fn append(&self, entry: &Entry) -> io::Result<()> {
        let line = serde_json::to_vec(entry)?;
        let mut slot = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let log = match &mut *slot {
            Some(log) => log,
            None => slot.insert(self.create()?),
        };
        log.append(&line)
    }
}

impl Journal for JournalFile {
    fn write(&self, entry: &Entry) -> Result<(), String> {
        self.append(entry).map_err(|error| {
            format!(
                "cannot write the journal {}, without which nothing is made: {error}; XDG_STATE_HOME chooses another place",
                self.directory.join(&self.name).shown()
            )
        })
    }
}

impl Drop for JournalFile {
    /// Removes a journal that leaves nothing to put back.
    fn drop(&mut self) {
        let slot = self.log.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(mut log) = slot.take()
            && log.lines().and_then(|text| parse(&text)).is_ok_and(|entries| leftovers(&entries).is_empty())
        {
            // One that stays does no harm: `ebb cleanup` finds nothing in it and removes it.
            let _ = log.remove();
        }
    }
}

/// The entries in whole lines of a journal.
fn parse(text: &[u8]) -> io::Result<Vec<Entry>> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .enumerate()
        .map(|(index, line)| {
            serde_json::from_slice(line)
                .map_err(|error| io::Error::other(format!("line {}: {error}", index + 1)))
        })
        .collect()
}

/// What a run that ended left behind.
#[derive(Debug)]
pub struct Abandoned {
    /// Name of the run: its session id.
    pub run: String,
    /// What to put back, in this order.
    pub left: Vec<Leftover>,
    /// Locked, so that only one cleanup works on it.
    log: Log,
}

/// What runs that ended left behind.
#[derive(Debug, Default)]
pub struct Found {
    /// Those whose journals say what is to be put back.
    pub abandoned: Vec<Abandoned>,
    /// Runs whose journals somebody holds: they live, or what they started does.
    pub held: Vec<Held>,
    /// Journals that could not be read: their path, and why with what to do.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// A run whose journal is locked.
#[derive(Debug)]
pub struct Held {
    /// Name of the run: its session id.
    pub run: String,
    /// Device and inode number of its journal.
    journal: (u64, u64),
}

impl Held {
    /// Who holds it; nobody where they ended meanwhile, or may not be seen.
    pub fn by(&self) -> Vec<Program> {
        judge::programs_with(&Sys::host(), self.journal)
    }
}

/// The journal at `path`, where it is still there.
fn held(place: &Directory, path: &Path, run: String) -> Option<Held> {
    let found = place.look(path.file_name()?).ok()??;
    Some(Held { run, journal: (found.dev(), found.ino()) })
}

/// All runs below `directory` that no longer live. One journal that cannot be read keeps no other from being found.
///
/// # Errors
/// When the directory cannot be read.
pub fn abandoned(directory: &Path) -> Result<Found, String> {
    let fail = |error: io::Error| format!("cannot read the journals in {}: {error}", directory.shown());
    let place = match Directory::open(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::default()),
        other => other.map_err(fail)?,
    };
    let mut names: Vec<OsString> =
        std::fs::read_dir(directory).map_err(fail)?.flatten().map(|entry| entry.file_name()).collect();
    names.retain(|name| Path::new(name).extension().is_some_and(|extension| extension == "jsonl"));
    names.sort();
    let mut found = Found::default();
    for name in names {
        let path = directory.join(&name);
        let run = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let named = run.clone();
        let read = Log::of_the_dead(&place, name).and_then(|log| {
            let Some(mut log) = log else { return Ok(None) };
            log.check_writers()?;
            let left = name_mounted(leftovers(&parse(&log.lines()?)?));
            Ok(Some(Abandoned { run: named, left, log }))
        });
        match read {
            Ok(None) => found.held.extend(held(&place, &path, run)),
            Ok(Some(abandoned)) => found.abandoned.push(abandoned),
            Err(error) => {
                let remedy = "see what it says was made, put it back by hand, and remove the journal";
                found.unreadable.push((path, format!("{error}; {remedy}")));
            }
        }
    }
    Ok(found)
}

/// Fills in what was mounted where a journal of an earlier version does not say: the file system that was made last
/// before.
fn name_mounted(mut left: Vec<Leftover>) -> Vec<Leftover> {
    let mut made = None;
    for leftover in left.iter_mut().rev() {
        match leftover {
            Leftover::Step { undo: BuildUndo::WipeContent { device, .. }, .. } => made = Some(device.clone()),
            Leftover::Step { undo: BuildUndo::Unmount { from: from @ None, .. }, .. } => {
                *from = made.clone().map(|device| Mounted { device, fstype: None, number: None });
            }
            _ => {}
        }
    }
    left
}

/// How it went with each of what a run left.
pub type PutBack = (Leftover, Result<Outcome, String>);

impl Abandoned {
    /// Puts back `left` one by one with `runner` and tells of each how it went as soon as it is done; the journal goes with
    /// the last.
    pub fn put_back(mut self, runner: &dyn Runner, tell: &mut dyn FnMut(&PutBack)) -> Vec<PutBack> {
        let mut kept: Vec<Leftover> = Vec::new();
        let mut one = |leftover: Leftover| {
            if let Some(above) = kept.iter().find(|above| above.stands_on(&leftover)) {
                let why = still_there(above);
                kept.push(leftover.clone());
                return (leftover, Err(why));
            }
            let result = put_back(&leftover, &self.run, runner).and_then(|(entry, outcome)| {
                let line = serde_json::to_vec(&entry).map_err(|error| error.to_string())?;
                self.log.append(&line).map_err(|error| error.to_string())?;
                Ok(outcome)
            });
            if result.is_err() {
                kept.push(leftover.clone());
            }
            (leftover, result)
        };
        let results: Vec<PutBack> = std::mem::take(&mut self.left)
            .into_iter()
            .map(|leftover| {
                let done = one(leftover);
                tell(&done);
                done
            })
            .collect();
        if results.iter().all(|(_, result)| result.is_ok()) {
            // One that stays leaves nothing: the next cleanup removes it.
            let _ = self.log.remove();
        }
        results
    }
}

/// Why nothing that `above` stands on is put back.
fn still_there(above: &Leftover) -> String {
    match above {
        Leftover::Path { .. } => format!("{} is still in it", shown(above)),
        Leftover::Step { .. } => format!("what stands on it is still there: {}", shown(above)),
    }
}

/// What `leftover` is in short: its path, or what puts it back.
pub fn shown(leftover: &Leftover) -> String {
    match leftover {
        Leftover::Path { path, .. } => path.to_string_lossy().into_owned(),
        Leftover::Step { undo, .. } => undo.to_string(),
    }
}

/// Puts back one change of `run`; the entry says so in the journal.
fn put_back(leftover: &Leftover, run: &str, runner: &dyn Runner) -> Result<(Entry, Outcome), String> {
    match leftover {
        Leftover::Path { path, .. } => {
            let outcome = remove(path, check(leftover, run)).map_err(|error| error.to_string())?;
            Ok((Entry::Gone(path.clone()), outcome))
        }
        Leftover::Step { number, undo } => {
            check(leftover, run).map_err(|error| error.to_string())?;
            let outcome = build::undo(&Sys::host(), runner, undo).map_err(|error| error.to_string())?;
            Ok((Entry::Undone(*number), outcome))
        }
    }
}

/// Why each of what `run` left would not be put back, as far as that can be told without trying; touches nothing.
pub fn foresee(run: &Abandoned) -> Vec<(Leftover, Result<(), String>)> {
    let mut stay: Vec<&Leftover> = Vec::new();
    let mut goes: Vec<&Leftover> = Vec::new();
    let one = |leftover: &Leftover, is_top: bool| match check(leftover, &run.run) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.to_string()),
        // Who else uses it shows when what stands on it is gone.
        Ok(_) if !is_top => Ok(()),
        Ok(id) => match (leftover, id) {
            (Leftover::Step { undo, .. }, _) => {
                build::may_undo(&Sys::host(), &Real, undo).map_err(|error| error.to_string())
            }
            (Leftover::Path { path, .. }, Some(id)) => Directory::of(path)
                .and_then(|(place, name)| judge::door().may_remove(&place, name, &id))
                .map_err(|error| error.to_string()),
            _ => Ok(()),
        },
    };
    let foreseen = run.left.iter().map(|leftover| {
        let result = match stay.iter().find(|above| above.stands_on(leftover)) {
            Some(above) => Err(still_there(above)),
            None => one(leftover, !goes.iter().any(|above| above.stands_on(leftover))),
        };
        if result.is_err() { &mut stay } else { &mut goes }.push(leftover);
        (leftover.clone(), result)
    });
    foreseen.collect()
}

/// Removes `path` where it is what was found there and nobody uses it.
fn remove(path: &Path, checked: io::Result<Option<FileId>>) -> io::Result<Outcome> {
    let id = match checked {
        Ok(Some(id)) => id,
        Ok(None) => return Ok(Outcome::Before),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Outcome::Before),
        Err(error) => return Err(error),
    };
    let (place, name) = match Directory::of(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Outcome::Before),
        other => other?,
    };
    Ok(match judge::door().remove(&place, name, &id, Doubt::Keeps)? {
        Removed::Now => Outcome::Done,
        Removed::Before => Outcome::Before,
    })
}

/// Whether a file or directory has a name that `run` gives: its own directory, what is in that, or a file that has not
/// got its name yet.
fn is_named_by(run: &str, path: &Path, directory: bool) -> bool {
    let own = format!("ebbtide-{run}");
    let is_own =
        |path: Option<&Path>| path.and_then(Path::file_name).is_some_and(|name| name == own.as_str());
    if directory { is_own(Some(path)) } else { is_own(path.parent()) || is_hidden_name(path) }
}

/// Whether what is there is what the journal says that `run` made, and its identity; touches nothing. Something else under
/// its name is left alone, what was announced but never confirmed must be empty, and what is not named as a run names what
/// it makes is nobody's to put back. A step looks for the rest itself when it is put back.
///
/// # Errors
/// Why it is left alone; `NotFound` when it is gone already.
pub fn check(leftover: &Leftover, run: &str) -> io::Result<Option<FileId>> {
    let foreign = || Err(io::Error::other("no run makes anything of that name; it is left alone"));
    let (path, directory, known) = match leftover {
        Leftover::Path { path, directory, id } => (path, directory, id),
        Leftover::Step { undo, .. } if undo.is_of(run) => return Ok(None),
        Leftover::Step { .. } => return foreign(),
    };
    if !is_named_by(run, path, *directory) {
        return foreign();
    }
    let found = match std::fs::symlink_metadata(path) {
        // Gone, or moved aside on its way out when the program was killed: who removes it looks there too.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match known.as_ref().and_then(|id| hidden_by(path, id)) {
                Some(over) => Err(io::Error::other(over)),
                None => known.map(Some).ok_or(error),
            };
        }
        other => other?,
    };
    let id = id_of(&found);
    let same_kind = if *directory { found.is_dir() } else { found.is_file() };
    let ours = match known {
        Some(known) => *known == id,
        None => *directory || found.len() == 0,
    };
    if !same_kind || !ours {
        return Err(io::Error::other("something else has its name now; it is left alone"));
    }
    Ok(Some(id))
}

/// What is mounted over the place of `path`, whose file system is mounted below it.
fn hidden_by(path: &Path, id: &FileId) -> Option<String> {
    let seen = path.ancestors().skip(1).find_map(|above| std::fs::metadata(above).ok())?.dev();
    let mounts = mounts_of(&Sys::host());
    let mut around = mounts.iter().filter(|mount| path.starts_with(&mount.mountpoint));
    let below = (seen != id.dev).then(|| around.find(|mount| mount.dev == DevNum::from_raw(id.dev)))??;
    let over = around.rfind(|mount| mount.dev != below.dev)?;
    Some(format!(
        "{} ({}) is mounted over it on {}; unmount that first",
        over.source, over.fstype, over.mountpoint
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(left: &Leftover) -> &Path {
        match left {
            Leftover::Path { path, .. } => path,
            Leftover::Step { .. } => panic!("no step was made"),
        }
    }

    fn made(journal: &JournalFile, path: &Path) {
        journal.write(&Entry::MakingFile(path.to_owned())).expect("writes");
        std::fs::write(path, "content").expect("makes");
        let found = std::fs::metadata(path).expect("is there");
        let id = id_of(&found);
        journal.write(&Entry::Made(path.to_owned(), id)).expect("writes");
    }

    #[test]
    fn only_what_a_dead_run_made_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let journals = directory.path().join("journals");
        let journal = JournalFile::new(&journals, "run");
        let volumes = directory.path().join("ebbtide-run");
        std::fs::create_dir(&volumes).expect("makes");
        let (mine, replaced, announced, elsewhere) = (
            volumes.join("mine"),
            volumes.join("replaced"),
            volumes.join("announced"),
            directory.path().join("elsewhere"),
        );
        made(&journal, &elsewhere);
        made(&journal, &mine);
        made(&journal, &replaced);
        std::fs::remove_file(&mine).expect("removes");
        made(&journal, &mine);
        // Renamed over it: while both are there they cannot have the same inode.
        let other = directory.path().join("other");
        std::fs::write(&other, "a user's own").expect("makes");
        std::fs::rename(&other, &replaced).expect("replaces");
        journal.write(&Entry::MakingFile(announced.clone())).expect("writes");
        std::fs::write(&announced, "a user's own").expect("makes");

        assert!(abandoned(&journals).expect("reads").abandoned.is_empty(), "its run lives");
        drop(journal);
        let mut dead = abandoned(&journals).expect("reads").abandoned;
        assert_eq!(dead.len(), 1);
        assert!(abandoned(&journals).expect("reads").abandoned.is_empty(), "another cleanup works on it");
        let foreseen: Vec<bool> =
            dead[0].left.iter().map(|leftover| check(leftover, "run").is_err()).collect();
        let results = dead.remove(0).put_back(&Real, &mut |_| {});
        assert_eq!(foreseen, results.iter().map(|(_, result)| result.is_err()).collect::<Vec<_>>());
        let kept: Vec<&Path> =
            results.iter().filter(|(_, result)| result.is_err()).map(|(left, _)| path_of(left)).collect();
        assert_eq!(kept, [announced.as_path(), replaced.as_path(), elsewhere.as_path()]);
        assert!(!mine.exists() && replaced.exists() && announced.exists() && elsewhere.exists());

        std::fs::remove_file(&replaced).expect("removes");
        std::fs::remove_file(&announced).expect("removes");
        std::fs::remove_file(&elsewhere).expect("removes");
        let name = journals.join("run.jsonl");
        let text = std::fs::read_to_string(&name).expect("reads");
        // As if its run had named it so.
        std::fs::write(&name, text.replace("/elsewhere", "/ebbtide-run/elsewhere")).expect("writes");
        let again = abandoned(&journals).expect("reads").abandoned.remove(0);
        assert!(again.put_back(&Real, &mut |_| {}).iter().all(|(_, result)| result.is_ok()));
        assert_eq!(std::fs::read_dir(&journals).expect("reads").count(), 0);
    }

    #[test]
    fn a_run_that_left_nothing_leaves_no_journal() {
        let directory = tempfile::tempdir().expect("a directory");
        let journal = JournalFile::new(directory.path(), "run");
        let path = directory.path().join("v");
        made(&journal, &path);
        std::fs::remove_file(&path).expect("removes");
        journal.write(&Entry::Gone(path)).expect("writes");
        assert!(directory.path().join("run.jsonl").exists());
        drop(journal);
        assert!(!directory.path().join("run.jsonl").exists());
    }

    #[test]
    fn a_journal_that_others_may_write_to_is_not_obeyed() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a.jsonl");
        std::fs::write(&path, "{\"making_file\":\"/v/ebbtide-a/f\"}\n").expect("writes");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("sets");
        let found = abandoned(directory.path()).expect("reads");
        assert!(found.abandoned.is_empty());
        assert!(found.unreadable[0].1.contains("others may write"), "{}", found.unreadable[0].1);
    }

    #[test]
    fn a_mount_of_an_earlier_version_is_of_the_file_system_made_before_it() {
        let step = |number, undo| Leftover::Step { number, undo };
        let wipe = |device: &str| BuildUndo::WipeContent {
            device: device.to_owned(),
            label: "ebb00000000".to_owned(),
        };
        let unmount = || BuildUndo::Unmount { mountpoint: "/run/ebbtide/r".into(), from: None };
        let left = name_mounted(vec![
            step(4, wipe("/dev/swap")),
            step(3, unmount()),
            step(2, wipe("/dev/array")),
            step(1, wipe("/dev/crypt")),
        ]);
        let from = Some(Mounted { device: "/dev/array".into(), fstype: None, number: None });
        assert_eq!(left[1], step(3, BuildUndo::Unmount { mountpoint: "/run/ebbtide/r".into(), from }));
        assert_eq!(name_mounted(vec![step(3, unmount())]), [step(3, unmount())]);
    }

    #[test]
    fn one_unreadable_journal_keeps_no_other_from_being_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        let line = |path: &str| format!("{{\"making_file\":\"{path}\"}}\n");
        std::fs::write(at("a.jsonl"), line("/v/a") + "{\"making_f").expect("writes");
        std::fs::write(at("b.jsonl"), "no journal\n").expect("writes");
        std::fs::create_dir(at("c.jsonl")).expect("makes");
        std::fs::write(at("d.jsonl"), line("/v/d")).expect("writes");
        let found = abandoned(directory.path()).expect("reads");
        let runs: Vec<&str> = found.abandoned.iter().map(|run| run.run.as_str()).collect();
        assert_eq!(runs, ["a", "d"]);
        assert_eq!(path_of(&found.abandoned[0].left[0]), Path::new("/v/a"), "a torn last line is no entry");
        let unreadable: Vec<&Path> = found.unreadable.iter().map(|(path, _)| path.as_path()).collect();
        assert_eq!(unreadable, [at("b.jsonl"), at("c.jsonl")]);
        assert!(found.unreadable[0].1.contains("line 1"), "{}", found.unreadable[0].1);
    }
}
