//! What is written down of an array that stays: the record is the journal of its making, and what `ebb status` compares with.

use crate::copies::{Known, Superblock};
use crate::desired::Desired;
use crate::files::Part;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where an array that stays is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It is being made, or was when somebody ended `ebb`.
    Applying,
    /// It was made as a whole.
    Applied,
    /// It is being taken away.
    Undoing,
}

/// All that is known of an array that stays. It is on disk before anything is made, and a step is begun only after that is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Name and version of the form: [`Record::SCHEMA`].
    pub schema: String,
    /// How far it is.
    pub phase: Phase,
    /// How many steps, the first ones, were begun.
    pub begun: usize,
    /// How many of them are known to be done: what they made must never be made again.
    pub done: usize,
    /// Whether what is being made had been made as a whole before, and only came back blank: a boot may go on with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anew: bool,
    /// Files that were not there before.
    pub new_files: Vec<PathBuf>,
    /// Bytes of each member when all of it was last taken up, in the order of the members; nothing where that could not be told.
    #[serde(default)]
    pub sizes: Vec<Option<u64>>,
    /// Hosts that are out on purpose, and those whose members have not come back since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<TakenOut>,
    /// What is known of the members of each array across hosts, by its uuid.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub copies: BTreeMap<String, Known>,
    /// The uuids that LVM drew for what was made, by `VG` and `VG/LV`: names may be somebody's later.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lvm: BTreeMap<String, String>,
    /// Parts of earlier designs that an apply has not taken out of the host's files yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Part>,
    /// What it should be.
    pub desired: Desired,
}

impl Record {
    /// Whether it is being made anew after its members came back blank, and all else is as it should be.
    pub fn is_made_anew(&self) -> bool {
        self.phase == Phase::Applying && self.anew
    }

    /// Whether `host` is to be left out.
    pub fn is_out(&self, host: &str) -> bool {
        self.without.iter().any(|out| out.stays_out && out.host == host)
    }

    /// What the superblock of the member at `path` said when it was let go on purpose, where it has not come back since.
    pub fn left(&self, path: &str) -> Option<&Superblock> {
        let left = self.without.iter().flat_map(|out| &out.left);
        left.filter(|(known, _)| known == path).map(|(_, left)| left).next()
    }

    /// Notes that the member at `path` came back.
    pub fn came_back(&mut self, path: &str) {
        for out in &mut self.without {
            out.left.retain(|(known, _)| known != path);
        }
        self.without.retain(|out| out.stays_out || !out.left.is_empty());
    }
}

/// A host that was taken out of an array on purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenOut {
    /// The host's name in the experiment.
    pub host: String,
    /// Whether it is to be left out still.
    pub stays_out: bool,
    /// Its members by their paths, and what their superblocks said when they were let go: nobody writes to them until they are back, so
    /// that they must say the same then.
    pub left: Vec<(String, Superblock)>,
}

impl Record {
    /// Name and version of what records look like.
    pub const SCHEMA: &str = "ebbtide.apply/1";

    /// Of something of which nothing is made yet.
    pub fn new(desired: Desired) -> Record {
        Record {
            schema: Record::SCHEMA.to_owned(),
            phase: Phase::Applying,
            begun: 0,
            done: 0,
            anew: false,
            new_files: Vec::new(),
            sizes: Vec::new(),
            without: Vec::new(),
            copies: BTreeMap::new(),
            lvm: BTreeMap::new(),
            earlier: Vec::new(),
            desired,
        }
    }
}
