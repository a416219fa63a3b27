//! Verdicts: what limits a design, and why a cause is not asserted.

use crate::evidence::{Evidence, Unit, evidence};
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

/// What limits a design; its name is that of JSON and of the file below docs/verdicts.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum VerdictKind {
    /// One slow member drags the array.
    Member,
    /// A volume's own limit (shape or catalogue) is reached.
    VolumeLimit,
    /// A rate that somebody set is reached.
    RateLimit,
    /// The link that the volumes share is full.
    InstanceLimit,
    /// The host's CPU, or the tool itself.
    Cpu,
    /// The load waits for memory to be freed.
    Memory,
    /// Requests to a file server wait at the client before they are sent.
    RemoteQueue,
    /// One write at a time, each made durable before the next.
    SyncWrites,
    /// The queue of a disk holds fewer requests than are asked for.
    QueueLimit,
    /// Too few operations in flight.
    Concurrency,
    /// Requests are split or too small.
    RequestSize,
    /// An array of parity updates stripes in part, for which it reads.
    PartialStripe,
    /// One copy answers what is read, and the others are idle.
    IdleCopies,
    /// Readahead is too small.
    Readahead,
    /// A cache answered, not the volume.
    Cache,
    /// Burst credits ran out.
    Burst,
    /// A cache that takes writes was full.
    WriteCache,
    /// A device swings between two speeds by itself.
    DeviceWaves,
    /// Blocks were touched for the first time.
    FirstTouch,
    /// Something else used the devices.
    Background,
    /// Members share one disk.
    SharedDevice,
    /// Nothing that the rules know.
    Unknown,
}

impl VerdictKind {
    /// Its name, for example `volume-limit`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// How the limit that a verdict asserts is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The experiment or the catalogue says it.
    Declared,
    /// The device reports it.
    Reported,
    /// From what was measured: nobody said it.
    Inferred,
}

/// How sure a verdict is, by what shows it: the one scale of all rules, and of their checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sure {
    /// Declared, reported or counted, and clearly beyond each edge.
    Certain,
    /// The same in fewer trials, or inferred from several figures that agree.
    Likely,
    /// Near the edge, or a sign of which another cause is thinkable.
    Possible,
    /// Nothing: of `unknown`.
    Not,
}

impl Sure {
    /// Between 0 and 1.
    pub(crate) const fn confidence(self) -> f64 {
        match self {
            Sure::Certain => 0.95,
            Sure::Likely => 0.8,
            Sure::Possible => 0.6,
            Sure::Not => 0.0,
        }
    }
}

/// What limits a design under a workload, and why we say so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Which limit is asserted.
    pub kind: VerdictKind,
    /// Of a limit: how it is known. Of `unknown`: that the load itself asks for no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// How sure the rule is, 0 to 1; with `explains` it ranks verdicts.
    pub confidence: f64,
    /// How much of the gap between what is and what the next limit allows this cause explains, 0 to 1;
    /// verdicts are ranked by it.
    #[serde(default)]
    pub explains: f64,
    /// The sentence a user reads.
    pub sentence: String,
    /// The figures that show it, each beside what it is to be compared with.
    pub evidence: Vec<Evidence>,
}

impl Verdict {
    /// One that explains so much, 0 to 1 at most, of no limit.
    ///
    /// What it explains is measured: the use of a limit, the part of an operation's time, what a short run gained. It does not follow from how far the
    /// checks are passed.
    pub(crate) fn new(
        kind: VerdictKind,
        sure: Sure,
        explains: f64,
        sentence: impl Into<String>,
        mut evidence: Vec<Evidence>,
    ) -> Verdict {
        let explains = explains.clamp(0.0, 1.0);
        evidence.retain(Evidence::is_finite);
        evidence.iter_mut().for_each(alone);
        let confidence = sure.confidence();
        Verdict { kind, basis: None, confidence, explains, sentence: sentence.into(), evidence }
    }

    /// What ranks it among others, 0 to 1: how much it explains, by how sure that is.
    pub(crate) fn weight(&self) -> f64 {
        self.explains * self.confidence
    }

    /// What a table says limits the design: the verdict's name, or that the load asks for no more.
    pub fn limited_by(&self) -> &'static str {
        match (self.kind, self.basis) {
            (VerdictKind::Unknown, Some(_)) => "the load itself",
            _ => self.kind.name(),
        }
    }

    /// How the limit is known, in words.
    pub fn how_known(&self) -> Option<&'static str> {
        Some(match self.basis.filter(|_| self.kind != VerdictKind::Unknown)? {
            Basis::Declared => "declared by the experiment or the catalogue",
            Basis::Reported => "reported by the device",
            Basis::Inferred => "inferred from what was measured",
        })
    }

    /// Of a limit that is known by `basis`.
    pub(crate) fn known(self, basis: Basis) -> Verdict {
        Verdict { basis: Some(basis), ..self }
    }
}

/// Takes off a figure's name the word that joins its check to others in the table of a page.
fn alone(figure: &mut Evidence) {
    let what = figure.what.as_str();
    let joined =
        ["or: ", "or inferred: ", "or ", "and "].into_iter().find_map(|join| what.strip_prefix(join));
    if let Some(what) = joined.map(str::to_owned) {
        figure.what = what;
    }
}

/// A cause that was looked for in vain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuledOut {
    /// What is not asserted.
    pub kind: VerdictKind,
    /// Why it is not asserted: a clause that a user reads.
    pub why: String,
    /// On what grounds.
    #[serde(default)]
    pub grounds: Grounds,
    /// What was seen; the reference is what it would have had to reach.
    pub evidence: Vec<Evidence>,
}

/// On what grounds a cause is not asserted; its name is that of a heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
pub enum Grounds {
    /// A figure was looked at, and it is not on the side that it would have to be.
    #[strum(serialize = "no, as a figure says")]
    #[default]
    Figure,
    /// It cannot be told: what would tell was not measured.
    #[strum(serialize = "cannot be told: nothing that would tell was measured")]
    NotMeasured,
    /// The load or the design is none that it could limit, or another cause comes before it.
    #[strum(serialize = "does not apply to this load or design, or comes after another cause")]
    NotApplicable,
}

impl Grounds {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Grounds; 3] = [Grounds::Figure, Grounds::NotMeasured, Grounds::NotApplicable];

    /// The heading of its causes.
    pub fn heading(self) -> &'static str {
        self.into()
    }
}

/// What a rule makes of a case.
pub(crate) type Judged = Result<Verdict, Absent>;

/// A cause that is not asserted: what was looked at, what it would have taken, and what was seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Absent {
    /// A clause that a user reads, without a full stop.
    pub why: String,
    /// What was seen, each figure with what it would have taken.
    pub evidence: Vec<Evidence>,
    /// Whether it lacks a figure that nobody measured.
    pub unmeasured: bool,
}

impl Absent {
    /// A cause that is not asserted, with no figure to show for it.
    pub fn because(why: impl Into<String>) -> Absent {
        Absent { why: why.into(), evidence: Vec::new(), unmeasured: false }
    }

    /// A cause of which what would tell was not measured.
    pub fn unmeasured(why: impl Into<String>) -> Absent {
        Absent { unmeasured: true, ..Absent::because(why) }
    }

    /// On what grounds it is not asserted.
    pub fn grounds(&self) -> Grounds {
        match (self.evidence.is_empty(), self.unmeasured) {
            (false, _) => Grounds::Figure,
            (true, true) => Grounds::NotMeasured,
            (true, false) => Grounds::NotApplicable,
        }
    }

    /// A rule that yields to another, which `why` it does.
    pub fn yields(to: VerdictKind, why: &str) -> Absent {
        Absent::because(format!("held back by `{}`: {why}", to.name()))
    }

    /// With a figure that was seen and what it would have had to be.
    pub fn seen(self, what: impl Into<String>, value: f64, unit: Unit, needed: f64) -> Absent {
        self.with([evidence(what, value, unit, Some(needed))])
    }

    /// Adds these figures to the evidence.
    pub fn with(mut self, figures: impl IntoIterator<Item = Evidence>) -> Absent {
        let figures = figures.into_iter().filter(Evidence::is_finite);
        self.evidence.extend(figures.map(Evidence::in_vain));
        self.evidence.iter_mut().for_each(alone);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_has_one_name_everywhere() {
        for kind in VerdictKind::VARIANTS {
            assert_eq!(serde_json::to_value(kind).expect("a text"), kind.name());
            assert_eq!(kind.name().parse(), Ok(*kind));
        }
    }
}
