//! What is written down of an array that stays: the record is the journal of its making, and what `ebb status` compares with.

use crate::desired::Desired;
use serde::{Deserialize, Serialize};
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
    /// Files that were not there before.
    pub new_files: Vec<PathBuf>,
    /// Bytes of each member when all of it was last taken up, in the order of the members; nothing where that could not be told.
    #[serde(default)]
    pub sizes: Vec<Option<u64>>,
    /// What it should be.
    pub desired: Desired,
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
            new_files: Vec::new(),
            sizes: Vec::new(),
            desired,
        }
    }
}
