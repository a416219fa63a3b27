//! The control groups of one run: announced to the guardian and in the journal before they are made.

use crate::journal::JournalFile;
use ebbtide_host::limit::group::{self, Brake, Group, Hierarchy, MAX, devices};
use ebbtide_host::limit::guardian::{Guardian, Message};
use ebbtide_host::sys::Sys;
use ebbtide_model::journal::{Entry, Journal};
use ebbtide_model::limit::{Counts, Kind, Limits};
use ebbtide_model::plan::build::{self, BuildUndo};
use std::io;
use std::path::PathBuf;

/// How the rate is held.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimitMethods {
    /// On how many devices the kernel holds it (`io.max`).
    pub kernel: Option<usize>,
    /// The group that is made to stand still, and how; else signals stop the program.
    pub brake: Option<(PathBuf, Brake)>,
    /// Why not what would have come before.
    pub why: Vec<String>,
}

pub struct Groups {
    run: String,
    journal: Option<JournalFile>,
    made: Vec<Group>,
}

impl Groups {
    /// No groups yet; what is made is announced in a journal of `journals`.
    pub fn none(journals: Option<PathBuf>, run: String) -> Groups {
        let journal = journals.map(|journals| JournalFile::alone(&journals, &run));
        Groups { run, journal, made: Vec::new() }
    }

    /// Makes those that help: one that is made to stand still, and one that limits what storage sees.
    pub fn make(&mut self, sys: &Sys, limits: &Limits, guardian: &mut Guardian) -> LimitMethods {
        let mut ways = LimitMethods::default();
        for hierarchy in Hierarchy::all(sys) {
            if matches!(ways.brake, Some((_, Brake::Processor))) {
                break;
            }
            let is_two = hierarchy.controller.is_none();
            let path = build::group(&hierarchy.top, &self.run);
            let made = self.make_one(path.clone(), hierarchy, guardian);
            if let Err(why) = made {
                ways.why.push(format!("{}: {why}", path.to_string_lossy()));
                continue;
            }
            ways.brake = group::brake(&path).map(|brake| (path, brake)).or(ways.brake);
            let has_storage = limits.of(Kind::Read).or(limits.of(Kind::Write)).is_some();
            if let Some(group) = self.made.last_mut().filter(|_| is_two && has_storage) {
                match group.limit(limits, &devices(sys)) {
                    Ok(()) => ways.kernel = Some(group.limited.len()),
                    Err(why) => ways.why.push(format!("{MAX}: {why}")),
                }
            }
        }
        ways
    }

    fn make_one(&mut self, path: PathBuf, hierarchy: Hierarchy, guardian: &mut Guardian) -> io::Result<()> {
        let journal =
            self.journal.as_ref().ok_or_else(|| io::Error::other("no place for a journal; set HOME"))?;
        guardian.tell(&Message::Group { path: path.clone(), home: hierarchy.own.clone() })?;
        let number = self.made.len() as u64;
        let entry = Entry::Step { number, undo: BuildUndo::RemoveGroup(path.clone()) };
        journal.write(&entry).map_err(io::Error::other)?;
        // An entry too many does no harm: there is nothing to put back.
        let made =
            Group::make(&path, hierarchy).inspect_err(|_| drop(journal.write(&Entry::Undone(number))))?;
        self.made.push(made);
        Ok(())
    }

    /// Those that a program has to enter.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.made.iter().map(|group| group.path.clone()).collect()
    }

    /// What the one with the kernel's limit has passed to devices.
    pub fn counts(&self) -> Option<Counts> {
        self.made.iter().find(|group| !group.limited.is_empty()).map(Group::counts)
    }

    /// Lets the kernel write back what has been held when it was written: of `entered` bytes the group has seen `seen`.
    pub fn let_write_back(&mut self, limit: u64, entered: u64, seen: u64) {
        self.made.iter_mut().for_each(|group| group.let_write(write_back(limit, entered, seen)));
    }

    /// Removes them; whoever is still in one goes on in this program's.
    pub fn remove(&mut self) -> io::Result<()> {
        while let Some(group) = self.made.last() {
            group.remove()?;
            self.made.pop();
            if let Some(journal) = &self.journal {
                // What is not noted is found to be gone by whoever cleans up.
                let _ = journal.write(&Entry::Undone(self.made.len() as u64));
            }
        }
        Ok(())
    }
}

/// What may be on its way to a device that has been counted, and is not in its group's count yet.
const ON_ITS_WAY: u64 = 1 << 20;
/// How many times the limit is what was held before written back.
const WRITE_BACK: u64 = 100;

/// The kernel's limit where `entered` bytes were counted, and held, of which it has passed `seen`: the rest has to wait in the
/// cache no longer than it must. What is on its way stays below `limit`, so that it is the kernel that holds who writes past the cache.
fn write_back(limit: u64, entered: u64, seen: u64) -> u64 {
    let is_behind = entered.saturating_sub(seen) > ON_ITS_WAY.max(limit / 10);
    if is_behind { limit.saturating_mul(WRITE_BACK) } else { limit }
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

    #[test]
    fn what_was_held_on_its_way_in_is_not_held_again() {
        // Five seconds' worth in the cache is written back at once; who writes past the cache has little on its way.
        assert_eq!(write_back(20_000_000, 100_000_000, 1_000_000), 2_000_000_000);
        for (entered, seen) in [(1_000_000, 0), (50_000_000, 48_500_000), (7, 9)] {
            assert_eq!(write_back(20_000_000, entered, seen), 20_000_000);
        }
        assert_eq!(write_back(u64::MAX / 2, u64::MAX, 0), u64::MAX);
    }
}
