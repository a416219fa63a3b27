//! The host's files: read, replaced as a whole, and put back to the byte.

use super::{Failure, Keeper};
use crate::judge;
use ebbtide_door::{own, read};
use ebbtide_model::shown::Shown;
use ebbtide_provision::files::Part;
use ebbtide_provision::{Desired, Record, diff};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Longest file of the host's that is changed.
const LONGEST: u64 = 4 << 20;

/// A part that is not in its file as it should be, the file's text now, and as it should be.
type Pending<'a> = (&'a Part, Option<String>, String);

impl Keeper<'_> {
    /// The text of the host's file `path`; nothing where there is none.
    pub(super) fn text(&self, path: &Path) -> Result<Option<String>, Failure> {
        match read::text(&self.sys.at(path), LONGEST) {
            Err(read::ReadError::System(error)) if error.kind() == ErrorKind::NotFound => Ok(None),
            other => other.map(Some).map_err(|error| Failure::file(path, format!("it {error}"))),
        }
    }

    /// Puts `text` in the place of `now` in the file of `part`.
    pub(super) fn replace(&self, part: &Part, now: Option<&str>, text: &str) -> Result<(), Failure> {
        let mode = if part.executable { 0o755 } else { 0o644 };
        let door = judge::door();
        let write = || {
            let output = door.output(&self.sys.at(&part.path))?;
            output.as_configuration(mode).write(text.as_bytes())
        };
        let mut written = write();
        // On an overlay the first renaming copies the file up, which makes it another one to those who look: it is left alone then. The
        // second time it is what it was, if nobody has changed it.
        if written.is_err() && self.text(&part.path)?.as_deref() == now {
            written = write();
        }
        written.map_err(|error| Failure::file(&part.path, error))?;
        (self.boundary)();
        Ok(())
    }

    /// Parts that are not in their files as they should be, with the files' text now and as it should be.
    pub(super) fn pending<'a>(&self, desired: &'a Desired) -> Result<Vec<Pending<'a>>, Failure> {
        let mut pending = Vec::new();
        for part in &desired.parts {
            let now = self.text(&part.path)?;
            let wanted = part.put(&desired.name, now.as_deref())?;
            if now.as_deref() != Some(wanted.as_str()) {
                pending.push((part, now, wanted));
            }
        }
        Ok(pending)
    }

    /// Changes of the host's files as a diff.
    pub(super) fn diffs(&self, desired: &Desired, stale: &[Part]) -> Result<Vec<String>, Failure> {
        let mut diffs = Vec::new();
        for part in stale {
            if let Some(now) = self.text(&part.path)? {
                let left = part.take(&desired.name, &now)?;
                diffs.push(diff(&part.path.to_string_lossy(), Some(&now), left.as_deref()));
            }
        }
        for (part, now, wanted) in self.pending(desired)? {
            diffs.push(diff(&part.path.to_string_lossy(), now.as_deref(), Some(&wanted)));
        }
        diffs.retain(|diff| !diff.is_empty());
        Ok(diffs)
    }

    /// Brings every part into its file; how many files changed.
    pub(super) fn put_files(&self, record: &mut Record) -> Result<usize, Failure> {
        let desired = record.desired.clone();
        let pending = self.pending(&desired)?;
        let new: Vec<PathBuf> = pending
            .iter()
            .filter(|(part, now, _)| now.is_none() && !record.new_files.contains(&part.path))
            .map(|(part, ..)| part.path.clone())
            .collect();
        if !new.is_empty() {
            record.new_files.extend(new);
            self.write(record)?;
        }
        for (part, now, wanted) in &pending {
            self.next()?;
            (self.tell)(&format!("write {}", part.path.shown()));
            self.replace(part, now.as_deref(), wanted)?;
        }
        Ok(pending.len())
    }

    /// What [`take_files`](Self::take_files) would do with all parts of `record`, as a diff of each file.
    pub(super) fn taken(&self, record: &Record) -> Result<Vec<String>, Failure> {
        let mut diffs = Vec::new();
        for part in record.desired.parts.iter().rev() {
            if let Some(now) = self.text(&part.path)? {
                let left = without(record, part, &now)?;
                diffs.push(diff(&part.path.to_string_lossy(), Some(&now), left.as_deref()));
            }
        }
        diffs.retain(|diff| !diff.is_empty());
        Ok(diffs)
    }

    /// Takes `parts` out of their files, the last first; how many files changed.
    pub(super) fn take_files(&self, record: &Record, parts: &[Part]) -> Result<usize, Failure> {
        let mut changed = 0;
        for part in parts.iter().rev() {
            let Some(now) = self.text(&part.path)? else { continue };
            match without(record, part, &now)? {
                None => {
                    (self.tell)(&format!("remove {}", part.path.shown()));
                    own::remove(&self.sys.at(&part.path))
                        .map_err(|error| Failure::file(&part.path, error))?;
                    (self.boundary)();
                }
                Some(left) if left != now => {
                    (self.tell)(&format!("write {}", part.path.shown()));
                    self.replace(part, Some(&now), &left)?;
                }
                _ => continue,
            }
            changed += 1;
        }
        Ok(changed)
    }

    /// Runs `commands`, of those that follow a change of the host's files.
    pub(super) fn after<'a>(
        &self,
        commands: impl IntoIterator<Item = &'a Vec<String>>,
    ) -> Result<(), Failure> {
        for words in commands {
            let Some((program, arguments)) = words.split_first() else { continue };
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            (self.tell)(&words.join(" "));
            super::super::run(self.runner, program, &arguments)?;
            (self.boundary)();
        }
        Ok(())
    }
}

/// The text of a file without `part`; nothing where the file goes with it.
fn without(record: &Record, part: &Part, now: &str) -> Result<Option<String>, Failure> {
    let left = part.take(&record.desired.name, now)?;
    Ok(left.filter(|left| !(left.is_empty() && record.new_files.contains(&part.path))))
}
