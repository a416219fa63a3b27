//! The journal of a run that lives: a file that grows entry by entry.

use ebbtide_door::{Directory, Log};
use ebbtide_model::journal::{Entry, Journal, JournalError, leftovers};
use ebbtide_model::shown::Shown;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How often a journal is made anew that somebody who cleans up removed before it was locked.
const ATTEMPTS: usize = 10;

/// A journal that is made with its first entry.
#[derive(Debug)]
pub struct JournalFile {
    directory: PathBuf,
    name: String,
    /// Whether programs that are started hold it too.
    is_inherited: bool,
    log: Mutex<Option<Log>>,
}

impl JournalFile {
    /// The journal of the run `name` in `directory`; nothing is written yet.
    pub fn new(directory: &Path, name: &str) -> Self {
        JournalFile::held(directory, name, true)
    }

    /// The same, held by this program alone: what it starts does not build what the journal is about.
    pub fn alone(directory: &Path, name: &str) -> Self {
        JournalFile::held(directory, name, false)
    }

    fn held(directory: &Path, name: &str, is_inherited: bool) -> Self {
        let name = format!("{name}.jsonl");
        JournalFile { directory: directory.to_owned(), name, is_inherited, log: Mutex::new(None) }
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
                    if self.is_inherited {
                        log.inherit()?;
                    }
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
    fn write(&self, entry: &Entry) -> Result<(), JournalError> {
        let path = || self.directory.join(&self.name).shown();
        self.append(entry).map_err(|error| JournalError { path: path(), error })
    }

    fn apart(&self, start: &mut dyn FnMut()) -> io::Result<()> {
        // Held meanwhile: nothing that builds is started in between.
        let slot = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let inherited = slot.as_ref().filter(|_| self.is_inherited);
        inherited.map_or(Ok(()), Log::withhold)?;
        start();
        inherited.map_or(Ok(()), Log::inherit)
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
pub(super) fn parse(text: &[u8]) -> io::Result<Vec<Entry>> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .enumerate()
        .map(|(index, line)| {
            serde_json::from_slice(line)
                .map_err(|error| io::Error::other(format!("line {}: {error}", index + 1)))
        })
        .collect()
}
