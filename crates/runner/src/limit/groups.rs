//! The control group of one run: announced to the guardian and in the journal before it is made.

use crate::journal::JournalFile;
use ebbtide_host::limit::group::{Group, Means};
use ebbtide_host::limit::guardian::{Guardian, Message};
use ebbtide_host::sys::Sys;
use ebbtide_model::journal::{Entry, Journal};
use ebbtide_model::plan::build::{self, BuildUndo};
use std::io;
use std::path::Path;

/// How the rate is held.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LimitMethods {
    /// How the group is made to stand still, where there is one; else signals stop the program.
    pub means: Option<Means>,
    /// Why not what would have come before.
    pub why: Vec<String>,
}

/// Makes the best group that can be made, and notes it in `journal`.
pub(super) fn make(
    sys: &Sys,
    run: &str,
    journal: Option<&JournalFile>,
    guardian: &mut Guardian,
) -> (Option<Group>, LimitMethods) {
    let mut why = Vec::new();
    let name = build::group(Path::new(""), run);
    for group in Group::possible(sys, &name.to_string_lossy()) {
        match make_one(&group, journal, guardian) {
            Ok(()) => return (Some(group.clone()), LimitMethods { means: Some(group.means()), why }),
            Err(error) => why.push(format!("{}: {error}", group.path.to_string_lossy())),
        }
    }
    (None, LimitMethods { means: None, why })
}

fn make_one(group: &Group, journal: Option<&JournalFile>, guardian: &mut Guardian) -> io::Result<()> {
    let journal = journal.ok_or_else(|| io::Error::other("no place for a journal; set HOME"))?;
    guardian.tell(&Message::Group { path: group.path.clone(), home: group.home.clone() })?;
    let undo = BuildUndo::RemoveGroup(group.path.clone());
    journal.write(&Entry::Step { number: 0, undo }).map_err(io::Error::other)?;
    // An entry too many does no harm: there is nothing to put back.
    group.make().inspect_err(|_| drop(journal.write(&Entry::Undone(0))))
}
