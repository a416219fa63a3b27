//! The record of changes to the system: each is written down before it is made, so that after a
//! kill or a reboot `ebb cleanup` knows what to put back and touches nothing else.

pub use crate::file_id::FileId;
use crate::plan::build::BuildUndo;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A directory that did not exist is about to be made.
    MakingDirectory(PathBuf),
    /// A file that did not exist is about to be made.
    MakingFile(PathBuf),
    /// The file or directory announced before now exists; only one with this identity is ours.
    Made(PathBuf, FileId),
    /// It is gone again, or it was never made.
    Gone(PathBuf),
    /// The user asked to keep it: no longer ours to remove.
    Kept(PathBuf),
    /// A step of a build is about to be done; this puts it back, whether or not it came to be done.
    Step {
        /// Its number, unlike that of any other step in this journal; a second entry with it says more about the same.
        number: u64,
        /// What puts it back.
        undo: BuildUndo,
    },
    /// The step with this number was put back.
    Undone(u64),
    /// What the step with this number made is whole and has a record of its own: no longer the run's to put back.
    Stays(u64),
}

impl Entry {
    /// What a journal may begin with: its first entry announces a change.
    pub const FIRST: [&str; 3] =
        ["{\"making_directory\":\"/", "{\"making_file\":\"/", "{\"step\":{\"number\":"];
}

/// Why an entry was not written down.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot write the journal {path}, without which nothing is made: {error}; XDG_STATE_HOME chooses another place"
)]
pub struct JournalError {
    /// The journal's file, as it is shown.
    pub path: String,
    /// As the system says it.
    pub error: io::Error,
}

/// Where entries are written down.
pub trait Journal: Send + Sync {
    /// Writes `entry` durably; a change may be made only after this succeeded.
    ///
    /// # Errors
    /// When it could not be written.
    fn write(&self, entry: &Entry) -> Result<(), JournalError>;

    /// Calls `start`, which starts a program that must not have the journal: one that builds holds it on, a load is anybody's.
    ///
    /// # Errors
    /// When it cannot be kept from programs; nothing was started then.
    fn apart(&self, start: &mut dyn FnMut()) -> io::Result<()> {
        start();
        Ok(())
    }
}

/// What a journal leaves to put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leftover {
    /// A file or directory.
    Path {
        /// Path as it was announced.
        path: PathBuf,
        /// Whether it is a directory.
        directory: bool,
        /// Its identity; absent when the program ended between announcing and making it.
        id: Option<FileId>,
    },
    /// A step of a build.
    Step {
        /// Its place in the build.
        number: u64,
        /// What puts it back.
        undo: BuildUndo,
    },
}

impl Leftover {
    /// Whether it is the file or directory `wanted`.
    pub fn is_path(&self, wanted: &Path) -> bool {
        matches!(self, Leftover::Path { path, .. } if path == wanted)
    }

    /// Whether this stands on `below`, which was made before it: what cannot be put back keeps that where it is.
    pub fn stands_on(&self, below: &Leftover) -> bool {
        match (self, below) {
            (Leftover::Step { undo, .. }, Leftover::Step { undo: below, .. }) => undo.stands_on(below),
            (
                Leftover::Step { undo: BuildUndo::DetachLoop { file, id: behind, .. }, .. },
                Leftover::Path { path, directory, id },
            ) => file == path || *directory && file.starts_with(path) || behind.is_some() && behind == id,
            (Leftover::Path { path: within, .. }, Leftover::Path { path, directory, .. }) => {
                *directory && within.starts_with(path)
            }
            _ => false,
        }
    }

    fn is_step(&self, wanted: u64) -> bool {
        matches!(self, Leftover::Step { number, .. } if *number == wanted)
    }
}

/// What is left of the changes in `entries`, the last one first: the order in which to undo them.
pub fn leftovers(entries: &[Entry]) -> Vec<Leftover> {
    let mut left: Vec<Leftover> = Vec::new();
    for entry in entries {
        match entry {
            Entry::MakingDirectory(path) | Entry::MakingFile(path) => {
                left.retain(|leftover| !leftover.is_path(path));
                let directory = matches!(entry, Entry::MakingDirectory(_));
                left.push(Leftover::Path { path: path.clone(), directory, id: None });
            }
            Entry::Made(made, made_id) => {
                for leftover in &mut left {
                    match leftover {
                        Leftover::Path { path, id, .. } if path == made => *id = Some(*made_id),
                        _ => {}
                    }
                }
            }
            Entry::Gone(path) | Entry::Kept(path) => left.retain(|leftover| !leftover.is_path(path)),
            Entry::Step { number, undo } => {
                // A second entry says more about the same step: what is known only after it was done.
                left.retain(|leftover| !leftover.is_step(*number));
                left.push(Leftover::Step { number: *number, undo: undo.clone() });
            }
            Entry::Undone(done) | Entry::Stays(done) => {
                left.retain(|leftover| !leftover.is_step(*done));
            }
        }
    }
    left.reverse();
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{Kind, Thing};

    fn undo(number: u64) -> BuildUndo {
        BuildUndo::RemoveVg { name: format!("vg{number}") }
    }

    fn step(number: u64) -> Entry {
        Entry::Step { number, undo: undo(number) }
    }

    #[test]
    fn journals_of_earlier_versions_name_what_was_to_stay_by_its_kind() {
        for (undo, kind, id) in [
            (r#"{"detach":{"name":"data","id":"x"}}"#, Kind::Attached, "x"),
            (
                r#"{"remove_export":{"run":"r","name":"data","paths":["/sys"],"shared":[]}}"#,
                Kind::Export,
                "r",
            ),
            (r#"{"unmake":{"kind":"monitor","name":"data","id":"y"}}"#, Kind::Monitor, "y"),
        ] {
            let line = format!("{{\"step\":{{\"number\":0,\"undo\":{undo}}}}}");
            let thing = Thing { kind, name: "data".to_owned(), id: id.to_owned() };
            let entry = Entry::Step { number: 0, undo: BuildUndo::Unmake(thing) };
            assert_eq!(serde_json::from_str::<Entry>(&line).expect(undo), entry);
        }
    }

    #[test]
    fn a_loop_device_stands_on_its_file_and_that_on_its_directory() {
        let id = |ino| Some(FileId { dev: 1, ino, born_unix_ns: None });
        let path = |path: &str, directory, ino| Leftover::Path { path: path.into(), directory, id: id(ino) };
        let detach = BuildUndo::DetachLoop {
            device: "/dev/loop1".into(),
            file: "/v/a".into(),
            id: id(1),
            sequence: None,
        };
        let over = Leftover::Step { number: 0, undo: detach };
        assert!(over.stands_on(&path("/v/a", false, 1)) && over.stands_on(&path("/v", true, 9)));
        // The same file by another way to it.
        assert!(over.stands_on(&path("/link/a", false, 1)));
        assert!(!over.stands_on(&path("/v/b", false, 2)) && !over.stands_on(&path("/w", true, 3)));
        assert!(path("/v/a", false, 1).stands_on(&path("/v", true, 9)));
        assert!(!path("/v/a", false, 1).stands_on(&path("/v/b", false, 2)));
        assert!(!path("/v", true, 9).stands_on(&over));
    }

    #[test]
    fn what_is_left_is_undone_last_first() {
        let id = FileId { dev: 1, ino: 2, born_unix_ns: None };
        let entries = [
            Entry::MakingDirectory("/v".into()),
            Entry::Made("/v".into(), id),
            Entry::MakingFile("/v/a".into()),
            Entry::Made("/v/a".into(), id),
            Entry::MakingFile("/v/b".into()),
            Entry::MakingFile("/v/c".into()),
            Entry::Gone("/v/a".into()),
            Entry::Kept("/v/c".into()),
            step(0),
            Entry::Step { number: 1, undo: undo(7) },
            step(1),
            Entry::Undone(0),
        ];
        assert_eq!(
            leftovers(&entries),
            [
                Leftover::Step { number: 1, undo: undo(1) },
                Leftover::Path { path: "/v/b".into(), directory: false, id: None },
                Leftover::Path { path: "/v".into(), directory: true, id: Some(id) },
            ]
        );
    }
}
