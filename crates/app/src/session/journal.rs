//! The journal as files: one per run, in the user's state directory, locked while its run lives.
//!
//! The kernel drops the lock when the program ends in whatever way, so a journal that can be locked belongs to
//! nobody, and what it leaves may be put back. A run that put everything back removes its journal.

use crate::places::user_directory;
use ebbtide_core::journal::{Entry, Journal, Leftover, leftovers};
use ebbtide_engine::files::id_of;
use ebbtide_host::build;
use ebbtide_host::command::Real;
use ebbtide_host::sys::Sys;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

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
    path: PathBuf,
    file: Mutex<Option<File>>,
}

impl JournalFile {
    /// The journal of the run `name` in `directory`; nothing is written yet.
    pub fn new(directory: &Path, name: &str) -> Self {
        JournalFile { path: directory.join(format!("{name}.jsonl")), file: Mutex::new(None) }
    }

    fn create(&self) -> io::Result<File> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&self.path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        // Programs that build arrays inherit the file and with it the lock: after a kill of this program, cleanup
        // waits for the one that is still at work.
        fcntl_setfd(&file, FdFlags::empty())?;
        File::open(directory)?.sync_all()?;
        Ok(file)
    }

    fn append(&self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        let mut slot = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *slot {
            Some(file) => file,
            None => slot.insert(self.create()?),
        };
        file.write_all(&line)?;
        file.sync_data()
    }
}

impl Journal for JournalFile {
    fn write(&self, entry: &Entry) -> Result<(), String> {
        self.append(entry).map_err(|error| {
            format!(
                "cannot write the journal {}, without which nothing is made: {error}; XDG_STATE_HOME chooses another place",
                self.path.display()
            )
        })
    }
}

impl Drop for JournalFile {
    /// Removes a journal that leaves nothing to put back.
    fn drop(&mut self) {
        let slot = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
        if slot.take().is_some() && read(&self.path).is_ok_and(|entries| leftovers(&entries).is_empty()) {
            // One that stays does no harm: `ebb cleanup` finds nothing in it and removes it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The entries of a journal. The last line may be torn by a kill: what it announced was not made.
fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).map_err(io::Error::from)).collect()
}

/// So that the next entry begins a line.
fn cut_torn_line(path: &Path, file: &File) -> io::Result<()> {
    let text = std::fs::read(path)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < text.len() { file.set_len(whole as u64) } else { Ok(()) }
}

/// What a run that ended left behind.
#[derive(Debug)]
pub struct Abandoned {
    /// Name of the run: its session id.
    pub run: String,
    /// What to put back, in this order.
    pub left: Vec<Leftover>,
    path: PathBuf,
    /// Locked, so that only one cleanup works on it.
    file: File,
}

/// All runs below `directory` that left something and no longer live. Journals that leave nothing are removed.
///
/// # Errors
/// When a journal cannot be read; the text names it.
pub fn abandoned(directory: &Path) -> Result<Vec<Abandoned>, String> {
    let fail = |path: &Path, error: io::Error| format!("cannot read the journal {}: {error}", path.display());
    let names = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|error| fail(directory, error))?,
    };
    let mut paths: Vec<PathBuf> = names.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let file = match OpenOptions::new().read(true).append(true).open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            other => other.map_err(|error| fail(&path, error))?,
        };
        // A lock that cannot be had is held by a run that lives.
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let left = leftovers(&read(&path).map_err(|error| fail(&path, error))?);
        cut_torn_line(&path, &file).map_err(|error| fail(&path, error))?;
        let run = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.push(Abandoned { run, left, path, file });
    }
    Ok(found)
}

impl Abandoned {
    /// Puts back `left` one by one and says of each whether it went; the journal goes with the last.
    pub fn put_back(mut self) -> Vec<(Leftover, Result<(), String>)> {
        let results: Vec<_> = std::mem::take(&mut self.left)
            .into_iter()
            .map(|leftover| {
                let result = put_back(&leftover).and_then(|entry| {
                    let mut line = serde_json::to_vec(&entry).map_err(|error| error.to_string())?;
                    line.push(b'\n');
                    self.file.write_all(&line).map_err(|error| error.to_string())
                });
                (leftover, result)
            })
            .collect();
        if results.iter().all(|(_, result)| result.is_ok()) {
            // One that stays leaves nothing: the next cleanup removes it.
            let _ = std::fs::remove_file(&self.path);
        }
        results
    }
}

/// Puts back one change; the entry says so in the journal.
fn put_back(leftover: &Leftover) -> Result<Entry, String> {
    match leftover {
        Leftover::Path { path, directory, .. } => {
            match check(leftover) {
                Ok(()) if *directory => std::fs::remove_dir(path),
                Ok(()) => std::fs::remove_file(path),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            }
            .map_err(|error| error.to_string())?;
            Ok(Entry::Gone(path.clone()))
        }
        Leftover::Step { number, undo } => {
            build::undo(&Sys::host(), &Real, undo).map_err(|error| error.to_string())?;
            Ok(Entry::Undone(*number))
        }
    }
}

/// Whether what is there is what the journal says was made; touches nothing. Something else under its name is left alone,
/// and what was announced but never confirmed must be empty. A step looks for itself when it is put back.
///
/// # Errors
/// Why it is left alone; `NotFound` when it is gone already.
pub fn check(leftover: &Leftover) -> io::Result<()> {
    let Leftover::Path { path, directory, id: known } = leftover else { return Ok(()) };
    let found = std::fs::symlink_metadata(path)?;
    let id = id_of(&found);
    let same_kind = if *directory { found.is_dir() } else { found.is_file() };
    let ours = match known {
        Some(known) => *known == id,
        None => *directory || found.len() == 0,
    };
    if !same_kind || !ours {
        return Err(io::Error::other("something else has its name now; it is left alone"));
    }
    Ok(())
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
        let (mine, replaced, announced) = (
            directory.path().join("mine"),
            directory.path().join("replaced"),
            directory.path().join("announced"),
        );
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

        assert!(abandoned(&journals).expect("reads").is_empty(), "its run lives");
        drop(journal);
        let mut dead = abandoned(&journals).expect("reads");
        assert_eq!(dead.len(), 1);
        assert!(abandoned(&journals).expect("reads").is_empty(), "another cleanup works on it");
        let foreseen: Vec<bool> = dead[0].left.iter().map(|leftover| check(leftover).is_err()).collect();
        let results = dead.remove(0).put_back();
        assert_eq!(foreseen, results.iter().map(|(_, result)| result.is_err()).collect::<Vec<_>>());
        let kept: Vec<&Path> =
            results.iter().filter(|(_, result)| result.is_err()).map(|(left, _)| path_of(left)).collect();
        assert_eq!(kept, [announced.as_path(), replaced.as_path()]);
        assert!(!mine.exists() && replaced.exists() && announced.exists());

        std::fs::remove_file(&replaced).expect("removes");
        std::fs::remove_file(&announced).expect("removes");
        let again = abandoned(&journals).expect("reads").remove(0);
        assert!(again.put_back().iter().all(|(_, result)| result.is_ok()));
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
    fn a_torn_last_line_is_no_entry() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("run.jsonl");
        std::fs::write(&path, "{\"making_file\":\"/v\"}\n{\"making_f").expect("writes");
        assert_eq!(read(&path).expect("reads"), [Entry::MakingFile("/v".into())]);
    }
}
