//! What is made to stay on a host, of whatever kind: what it is called, how far it is, and what it is ([`Record`]).
//!
//! The record is on disk before anything is made. A resource of it is noted as begun before it is made, and as made after it, so that whoever
//! comes after a kill knows of each what there may be. Out of every state there is a way on:
//!
//! | state | the command that makes it | `ebb undo` | `ebb cleanup` |
//! | --- | --- | --- | --- |
//! | making, never whole | takes away what is left, begins anew | takes it away | takes it away |
//! | making, whole before | goes on | takes it away | leaves it as it is |
//! | made | makes what does not stand | takes it away | leaves it |
//! | unmaking | takes away the rest, begins anew | goes on | goes on |

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use strum::{Display, EnumString, IntoStaticStr};

/// What can be made to stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display, EnumString, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// By `ebb apply`.
    Array,
    /// A volume of another host, by `ebb attach`.
    Attached,
    /// By `ebb export`.
    Export,
    /// By `ebb monitor install`.
    Monitor,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 4] = [Kind::Array, Kind::Attached, Kind::Export, Kind::Monitor];

    /// As it is written and said.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The command that makes it.
    pub fn command(self) -> &'static str {
        match self {
            Kind::Array => "ebb apply",
            Kind::Attached => "ebb attach",
            Kind::Export => "ebb export",
            Kind::Monitor => "ebb monitor install",
        }
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is being made, or was when somebody ended `ebb`.
    Making,
    /// It was made as a whole.
    Made,
    /// It is being taken away.
    Unmaking,
}

/// What one kind has in its record beside what all have.
pub trait Content {
    /// The kind.
    const KIND: Kind;
}

/// What is known of one that is made to stay. It has no secret in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<C> {
    /// Name and version of the form: [`SCHEMA`].
    pub schema: String,
    /// Its kind.
    pub kind: Kind,
    /// What it is called here.
    pub name: String,
    /// Unlike that of any other that had or gets its name.
    pub id: String,
    /// How far it is.
    pub state: State,
    /// Whether it was made as a whole once: what is on it is its user's since.
    pub whole: bool,
    /// Resources that were begun.
    pub begun: BTreeSet<String>,
    /// Of these, those that are known to be made.
    #[serde(default)]
    pub made: BTreeSet<String>,
    /// What it is.
    #[serde(flatten)]
    pub of: C,
}

/// Name and version of what records look like.
pub const SCHEMA: &str = "ebbtide.made/1";

impl<C: Content> Record<C> {
    /// Of something of which nothing is made yet.
    pub fn new(name: &str, id: String, of: C) -> Record<C> {
        Record {
            schema: SCHEMA.to_owned(),
            kind: C::KIND,
            name: name.to_owned(),
            id,
            state: State::Making,
            whole: false,
            begun: BTreeSet::new(),
            made: BTreeSet::new(),
            of,
        }
    }

    /// Whether the resource called `name` was begun.
    pub fn has_begun(&self, name: &str) -> bool {
        self.begun.contains(name)
    }

    /// What the journal of a run says of it while it is made or taken away.
    pub fn thing(&self) -> Thing {
        Thing { kind: C::KIND, name: self.name.clone(), id: self.id.clone() }
    }
}

impl<C> Deref for Record<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.of
    }
}

impl<C> DerefMut for Record<C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.of
    }
}

/// One that is made to stay, as a journal names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Known")]
pub struct Thing {
    /// Its kind.
    pub kind: Kind,
    /// What it is called.
    pub name: String,
    /// The id of its record: another one under that name is not touched.
    pub id: String,
}

impl Thing {
    /// Whether its name can be that of a record's file.
    pub fn is_named(&self) -> bool {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        !self.name.is_empty() && self.name.bytes().all(plain)
    }
}

/// [`Thing`] in journals of every version: earlier ones told an export by the run that made it, and an attached volume by its id alone.
#[derive(Deserialize)]
struct Known {
    kind: Option<Kind>,
    name: String,
    #[serde(alias = "run")]
    id: String,
    paths: Option<serde::de::IgnoredAny>,
}

impl From<Known> for Thing {
    fn from(known: Known) -> Thing {
        let earlier = if known.paths.is_some() { Kind::Export } else { Kind::Attached };
        Thing { kind: known.kind.unwrap_or(earlier), name: known.name, id: known.id }
    }
}
