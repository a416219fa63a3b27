//! The host's files: read, replaced as a whole, and put back to the byte.

use super::{Failure, Keeper};
use ebbtide_model::shown::Shown;
use ebbtide_provision::files::Part;
use ebbtide_provision::{Record, diff};
use std::path::PathBuf;

/// A part that is not in its file as it should be, the file's text now, and as it should be.
type Pending<'a> = (&'a Part, Option<String>, String);

impl Keeper<'_> {
    /// Parts that are not in their files as they should be, with the files' text now and as it should be.
    pub(super) fn pending<'a>(&self, record: &'a Record) -> Result<Vec<Pending<'a>>, Failure> {
        let mut pending = Vec::new();
        for part in &record.desired.parts {
            let now = self.text(&part.path)?;
            let wanted = part.put(&record.desired.name, now.as_deref(), &record.earlier)?;
            if now.as_deref() != Some(wanted.as_str()) {
                pending.push((part, now, wanted));
            }
        }
        Ok(pending)
    }

    /// Asks of every part whether its file can be read and changed, before anything is made.
    pub(super) fn may_put_files(&self, record: &Record, stale: &[Part]) -> Result<(), Failure> {
        self.pending(record)?;
        record.desired.parts.iter().chain(stale).try_for_each(|part| self.may_change(part))
    }

    /// Asks of every part of `record` that would be taken out of its file whether the file can be changed, before anything is taken away.
    pub(super) fn may_take_files(&self, record: &Record) -> Result<(), Failure> {
        for part in &record.desired.parts {
            if let Some(now) = self.text(&part.path)?
                && without(record, part, &now)?.as_ref() != Some(&now)
            {
                self.may_change(part)?;
            }
        }
        Ok(())
    }

    /// Changes of the host's files as a diff.
    pub(super) fn diffs(&self, record: &Record, stale: &[Part]) -> Result<Vec<String>, Failure> {
        let mut diffs = Vec::new();
        for part in stale {
            if let Some(now) = self.text(&part.path)? {
                let left = part.take(&record.desired.name, &now, &record.earlier)?;
                diffs.push(diff(&part.path.to_string_lossy(), Some(&now), left.as_deref()));
            }
        }
        for (part, now, wanted) in self.pending(record)? {
            diffs.push(diff(&part.path.to_string_lossy(), now.as_deref(), Some(&wanted)));
        }
        diffs.retain(|diff| !diff.is_empty());
        Ok(diffs)
    }

    /// Brings every part into its file; how many files changed.
    pub(super) fn put_files(&self, record: &mut Record) -> Result<usize, Failure> {
        let snapshot = record.clone();
        let pending = self.pending(&snapshot)?;
        let new: Vec<PathBuf> = pending
            .iter()
            .filter(|(part, now, _)| now.is_none() && !record.new_files.contains(&part.path))
            .map(|(part, ..)| part.path.clone())
            .collect();
        if !new.is_empty() {
            record.new_files.extend(new);
            self.write(record)?;
        }
        for (part, ..) in &pending {
            self.next()?;
            (self.tell)(&format!("write {}", part.path.shown()));
            self.replace(part, &|now| Ok(part.put(&snapshot.desired.name, now, &snapshot.earlier)?))?;
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
                    self.remove_file(part)?;
                }
                Some(left) if left != now => {
                    (self.tell)(&format!("write {}", part.path.shown()));
                    self.replace(part, &|now| {
                        let now = now.unwrap_or_default();
                        Ok(without(record, part, now)?.unwrap_or_default())
                    })?;
                }
                _ => continue,
            }
            changed += 1;
        }
        Ok(changed)
    }
}

/// The text of a file without `part`; nothing where the file goes with it.
fn without(record: &Record, part: &Part, now: &str) -> Result<Option<String>, Failure> {
    let left = part.take(&record.desired.name, now, &record.earlier)?;
    Ok(left.filter(|left| !(left.is_empty() && record.new_files.contains(&part.path))))
}
