//! What is on a device: signatures, and data without one, read through what was opened.

use super::file::open_backing;
use super::{HostLook, Loss};
use crate::command::Runner;
use crate::graph::Behind;
use crate::probe::{Content, foreign_data, signature};
use crate::sys::DevNum;
use ebbtide_door::read;
use ebbtide_model::guard::{Reason, RefusalKind};
use ebbtide_model::shown::Shown;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

impl HostLook {
    /// What is on the device `dev`, which `file` is open on, and on what it stands on, that would be lost; of one that was
    /// `used` by this run signatures only.
    pub(super) fn contents(&self, runner: &dyn Runner, dev: DevNum, file: &File, used: bool) -> Vec<Loss> {
        let mut found = Vec::new();
        let at = self.graph.by_dev(dev);
        let partitions = at.map_or_else(Vec::new, |at| self.partition_names(at));
        let content = signature::read_open(runner, file);
        let uuid = content.own_uuid().map(str::to_owned);
        found.extend(named(&content, "it", partitions.len()).map(|loss| Loss { uuid, ..loss }));
        if found.is_empty() && !partitions.is_empty() {
            let what = format!("it has the partitions {}", partitions.join(", "));
            found.push(Loss { kind: RefusalKind::PartitionTable, what, uuid: None });
        }
        if found.is_empty() && !used {
            match foreign_data(file) {
                Ok(None) => {}
                Ok(Some(at)) => found.push(Loss {
                    kind: RefusalKind::Data,
                    uuid: None,
                    what: format!("it carries data of an unknown kind (byte {at} is not zero)"),
                }),
                Err(error) => found.push(unreadable("it", &error.to_string())),
            }
        }
        at.into_iter().for_each(|at| self.contents_below(runner, at, &mut found));
        found
    }

    fn partition_names(&self, at: usize) -> Vec<String> {
        self.graph.partitions(at).map(|part| self.graph.nodes[part].name.clone()).collect()
    }

    /// A file system or a superblock of the whole disk that a partition is on, or of all of what a loop device is a part
    /// of: writing the part damages it.
    fn contents_below(&self, runner: &dyn Runner, at: usize, found: &mut Vec<Loss>) {
        let node = &self.graph.nodes[at];
        if let Some(disk) = node.disk() {
            self.whole_content(runner, disk, false, found);
        }
        // A loop device is a part of what it is over, and so on.
        let below = self.graph.blocks_below(node.disk().unwrap_or(at)).into_iter();
        let loops = below.map_while(|at| self.graph.nodes[at].over());
        for over in loops {
            match over.behind {
                Behind::Device(below) => self.whole_content(runner, below, true, found),
                Behind::File(..) if over.part => match open_backing(over, self.sys.root()) {
                    Some(file) => {
                        let who = over.path.shown();
                        found.extend(named(&signature::read_open(runner, &file), &who, 0));
                    }
                    None => found.push(unreadable(&over.path.shown(), "its file is not there")),
                },
                Behind::File(..) | Behind::Unknown => {}
            }
        }
    }

    /// What is on all of a device; a partition table counts where what is written is no partition.
    fn whole_content(&self, runner: &dyn Runner, at: usize, table: bool, found: &mut Vec<Loss>) {
        let node = &self.graph.nodes[at];
        let opened = read::open(&self.sys.dev.join(&node.name)).and_then(|file| {
            let there = file.metadata()?;
            match there.file_type().is_block_device() && DevNum::from_raw(there.rdev()) == node.dev {
                true => Ok(file),
                false => Err(io::Error::other("another device has its name")),
            }
        });
        match opened.map(|file| signature::read_open(runner, &file)) {
            Ok(Content::PartitionTable(_)) if !table => {}
            Ok(content) => found.extend(named(&content, &node.name, self.graph.partitions(at).count())),
            Err(error) => found.push(unreadable(&node.name, &error.to_string())),
        }
    }

    /// A signature on a file that a run made: what a run builds on it carries one only until it is undone, and what it fills
    /// it with has a mark, so that random bytes are not taken for one.
    pub(super) fn foreign_content(&self, runner: &dyn Runner, file: &File, labels: &[String]) -> Vec<Reason> {
        let found = match foreign_data(file) {
            Ok(None) => None,
            Ok(Some(_)) => match signature::read_open(runner, file) {
                Content::Signature(found)
                    if found.label.as_ref().is_some_and(|label| labels.contains(label)) =>
                {
                    None
                }
                content => named(&content, "it", 0),
            },
            Err(error) => Some(unreadable("it", &error.to_string())),
        };
        let reason = |Loss { kind, what, .. }| Reason {
            kind,
            what,
            remedy: "no run leaves that; remove the file yourself (`rm`) if it may be lost".to_owned(),
        };
        found.map(reason).into_iter().collect()
    }
}

fn unreadable(what: &str, why: &str) -> Loss {
    let what = format!("what is on {what} cannot be read: {why}");
    Loss { kind: RefusalKind::Unreadable, what, uuid: None }
}

/// `content` of `who` in words; nothing where there is none.
pub(super) fn named(content: &Content, who: &str, partitions: usize) -> Option<Loss> {
    let (kind, what) = match content {
        Content::Nothing => return None,
        Content::Signature(s) => {
            let label = s.label.as_deref().map(|l| format!(" \"{l}\"")).unwrap_or_default();
            (RefusalKind::Signature, format!("{who} carries {}{label}", s.kind))
        }
        Content::PartitionTable(table) => (
            RefusalKind::PartitionTable,
            format!("{who} carries a {table} partition table with {partitions} partitions"),
        ),
        Content::Unknown(why) => return Some(unreadable(who, why)),
    };
    Some(Loss { kind, what, uuid: None })
}
