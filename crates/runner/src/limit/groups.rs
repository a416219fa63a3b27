//! The control groups of one run: announced to the guardian and in the journal before they are made.

use crate::journal::JournalFile;
use ebbtide_host::limit::group::{self, Brake, Group, Hierarchy, devices};
use ebbtide_host::limit::guardian::{Guardian, Message};
use ebbtide_host::sys::Sys;
use ebbtide_model::journal::{Entry, Journal, JournalError};
use ebbtide_model::limit::{Counts, Kind, Limits};
use ebbtide_model::plan::build::{self, BuildUndo};
use std::io;
use std::path::PathBuf;

/// Why a group was not made.
#[derive(Debug, thiserror::Error)]
enum MakeError {
    #[error("no place for a journal; set HOME or XDG_STATE_HOME")]
    NoJournal,
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Who would remove it, were this program killed, cannot be told of it.
    #[error("{0}")]
    Guardian(io::Error),
    #[error("{}: {error}", .path.to_string_lossy())]
    Group { path: PathBuf, error: io::Error },
}

/// How the rate is held.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimitMethods {
    /// The kernel's limit: what it is called, and on how many devices.
    pub kernel: Option<(&'static str, usize)>,
    /// Whether that sees what is written through the page cache.
    pub sees_cache: bool,
    /// The group that is made to stand still, and how; else signals stop the program.
    pub brake: Option<(PathBuf, Brake)>,
    /// Why not what would have come before.
    pub why: Vec<String>,
}

pub struct Groups {
    run: String,
    journal: Option<JournalFile>,
    /// Each with the number of its step in the journal.
    made: Vec<(u64, Group)>,
    steps: u64,
}

impl Groups {
    /// No groups yet; what is made is announced in a journal of `journals`.
    pub fn none(journals: Option<PathBuf>, run: String) -> Groups {
        let journal = journals.map(|journals| JournalFile::alone(&journals, &run));
        Groups { run, journal, made: Vec::new(), steps: 0 }
    }

    /// Makes those that help: one that is made to stand still, and one that limits what storage sees.
    pub fn make(&mut self, sys: &Sys, limits: &Limits, guardian: &mut Guardian) -> LimitMethods {
        let mut ways = LimitMethods::default();
        let wants = [Kind::Read, Kind::Write, Kind::Ops].iter().any(|kind| limits.of(*kind).is_some());
        let devices = if wants { devices(sys) } else { Vec::new() };
        for hierarchy in Hierarchy::all(sys) {
            let has_brake = matches!(ways.brake, Some((_, Brake::Processor)));
            let (limits_here, needed) = match hierarchy.controller {
                None => (wants, true),
                Some("blkio") => (wants, wants && ways.kernel.is_none()),
                Some(_) => (false, !has_brake),
            };
            if !needed {
                continue;
            }
            let name = hierarchy.name();
            let mut group = match self.make_one(hierarchy, guardian) {
                Ok(group) => group,
                Err(why) => {
                    ways.why.push(format!("{name}: {why}"));
                    continue;
                }
            };
            let brake = group::brake(group.1.path()).map(|brake| (group.1.path().to_owned(), brake));
            ways.brake = brake.or(ways.brake);
            if limits_here {
                match group.1.limit(limits, &devices) {
                    Ok(()) => ways.kernel = Some((name, group.1.limited())),
                    Err(why) => ways.why.push(format!("{name}: {why}")),
                }
            }
            self.made.push(group);
        }
        ways.sees_cache = self.sees_cache();
        ways
    }

    fn make_one(&mut self, hierarchy: Hierarchy, guardian: &mut Guardian) -> Result<(u64, Group), MakeError> {
        let path = build::group(&hierarchy.top, &self.run);
        let Some(journal) = &self.journal else {
            return Err(MakeError::NoJournal);
        };
        let message = Message::Group { path: path.clone(), home: hierarchy.own.clone() };
        guardian.tell(&message).map_err(MakeError::Guardian)?;
        let number = self.steps;
        self.steps += 1;
        let entry = Entry::Step { number, undo: BuildUndo::RemoveGroup(path.clone()) };
        journal.write(&entry)?;
        Group::make(&path, hierarchy).map(|group| (number, group)).map_err(|error| {
            // An entry too many does no harm: there is nothing to put back.
            let _ = journal.write(&Entry::Undone(number));
            MakeError::Group { path, error }
        })
    }

    /// Those that a program has to enter.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.made.iter().map(|(_, group)| group.path().to_owned()).collect()
    }

    /// What the one with the kernel's limit has passed to devices.
    pub fn counts(&self) -> Option<Counts> {
        self.made.iter().find(|(_, group)| group.limited() > 0).map(|(_, group)| group.counts())
    }

    /// Whether that one sees what is written through the page cache.
    pub fn sees_cache(&self) -> bool {
        self.made.iter().any(|(_, group)| group.limited() > 0 && group.hierarchy().controller.is_none())
    }

    /// Lets the kernel write back what has been held when it was written: of `entered` bytes the group has seen `seen`.
    pub fn let_write_back(&mut self, limit: u64, entered: u64, seen: u64) {
        for (_, group) in self.made.iter_mut().filter(|(_, group)| group.limited() > 0) {
            // What cannot be set is held twice.
            let _ = group.let_write(write_back(limit, entered, seen));
        }
    }

    /// Removes them; whoever is still in one goes on in this program's.
    pub fn remove(&mut self) -> io::Result<()> {
        while let Some((number, group)) = self.made.last() {
            group.remove()?;
            if let Some(journal) = &self.journal {
                // What is not noted is found to be gone by whoever cleans up.
                let _ = journal.write(&Entry::Undone(*number));
            }
            self.made.pop();
        }
        Ok(())
    }
}

/// What may be on its way to a device that has been counted, and is not in its group's count yet.
pub const ON_ITS_WAY: u64 = 1 << 20;
/// In how many seconds what was held before may be written back.
const WRITE_BACK: f64 = 0.05;

/// The kernel's limit where `entered` bytes were counted, and held, of which it has passed `seen`: the rest has to wait in the
/// cache no longer than it must. What is on its way stays below `limit`, so that it is the kernel that holds who writes past the cache.
fn write_back(limit: u64, entered: u64, seen: u64) -> u64 {
    let behind = entered.saturating_sub(seen).saturating_sub(ON_ITS_WAY.max(limit / 10));
    // In steps, so that it is seldom set.
    let behind =
        if behind == 0 { 0.0 } else { behind.checked_next_power_of_two().unwrap_or(u64::MAX) as f64 };
    limit.saturating_add((behind / WRITE_BACK) as u64)
}

impl Drop for Groups {
    fn drop(&mut self) {
        // The guardian tries again.
        let _ = self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer through the cache at the limit for five seconds, then all of it to the device: as fast as that is.
    #[test]
    fn what_was_held_on_its_way_in_is_not_held_again() {
        let limit = 20_000_000;
        let (entered, mut seen, mut steps) = (100_000_000, 0u64, 0);
        while seen < entered {
            let speed = write_back(limit, entered, seen).min(1_000_000_000);
            seen = entered.min(seen + speed / 100);
            steps += 1;
        }
        assert!((10..50).contains(&steps), "{steps} hundredths of a second, not 500");
        // Who writes past the cache has little on its way.
        for (entered, seen) in [(1_000_000, 0), (50_000_000, 48_500_000), (7, 9)] {
            assert_eq!(write_back(limit, entered, seen), limit);
        }
        assert_eq!(write_back(1, u64::MAX, 0), u64::MAX);
    }
}
