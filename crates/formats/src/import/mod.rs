//! Results of other programs as sessions: fio's JSON and bonnie++'s CSV.
//!
//! What they measured once is one trial of one workload each. Nothing is made up: what a program did not write
//! down is absent, and what had to be concluded is said in the notes of the trial.

mod bonnie;
mod fio;
#[cfg(test)]
mod tests;

use crate::pasted;
use ebbtide_model::backend::{BackendKind, Inventory, PreparedVolume};
use ebbtide_model::experiment::{Experiment, Volume, VolumeSource};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{CpuUse, Histogram, MemberSamples, OpSamples, TrialSamples};
use ebbtide_model::schedule::{Role, Trial};
use ebbtide_model::session::{Ending, HostInfo, Outcome, Session, SessionMeta, TrialRecord};
use ebbtide_model::units::{Bytes, Nanos, UnixTime};
use ebbtide_model::workload::Workload;
use std::collections::{HashMap, HashSet};

/// Name of the only design of an imported session: what was measured, whatever it was built of.
const DESIGN: &str = "imported";

/// Why a text is no result that can be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum ImportError {
    /// Neither fio's JSON nor bonnie++'s CSV.
    #[error(
        "this is neither the JSON of fio (--output-format=json) nor the CSV of bonnie++ (its last lines, or all of \
         them with -q)"
    )]
    Unknown,
    /// fio's, in a form that has no field for what is asked.
    #[error(
        "this is what fio prints {form}, which is not read: run it with --output-format=json, or add json to the formats that it prints \
         (--output-format=normal,json)"
    )]
    OtherForm {
        /// With what it prints this.
        form: &'static str,
    },
    /// Like fio's, but not JSON.
    #[error(
        "line {line}, column {column}: the JSON of fio is damaged here ({what}); was it cut off or edited?"
    )]
    Json {
        /// Line in the file, from 1.
        line: usize,
        /// Column in the line, from 1.
        column: usize,
        what: String,
    },
    /// A line of bonnie++ with a number of fields that no known version writes.
    #[error(
        "line {line}: {found} fields, where bonnie++ 1.03 writes 27, 1.96 and 1.97 write 48, 1.98 and 2.x 50; was the line cut?"
    )]
    Fields {
        /// Line in the file, from 1.
        line: usize,
        found: usize,
    },
    /// A field that is not what it must be.
    #[error("line {line}, field {field} ({name}): `{value}` is not a number that bonnie++ writes")]
    Field {
        /// Line in the file, from 1.
        line: usize,
        /// Field in the line, from 1.
        field: usize,
        name: &'static str,
        value: String,
    },
    /// The right format, and no measurement in it.
    #[error("{0}")]
    Nothing(String),
}

/// One workload that another program ran, and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// What was run, as far as the other program says it.
    pub workload: Workload,
    /// What came of it.
    pub samples: TrialSamples,
    /// Why it is no result, where the program says so.
    pub failed: Option<String>,
}

/// One run of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Program and version, for example `fio-3.33`.
    pub program: String,
    /// The host's name, where the program wrote it down.
    pub hostname: Option<String>,
    /// File or device that was measured, where it is known.
    pub target: Option<String>,
    /// Size of it, where it is known.
    pub size: Option<Bytes>,
    /// When it was written down, where the program says it.
    pub ended_unix: Option<UnixTime>,
    /// What it measured, at least one.
    pub measured: Vec<Measured>,
    /// Why it is no success, where the program says so.
    pub failed: Option<String>,
    /// What the reader must know.
    pub notes: Vec<String>,
    /// What it was read from: of a file of many results, its own part.
    pub text: String,
}

/// Reads `text`, the output of fio or bonnie++.
///
/// # Errors
/// When it is neither, is damaged, or holds no measurement.
pub fn parse(text: &str) -> Result<Vec<Imported>, ImportError> {
    // Programs like fio's wrappers and PowerShell put a byte order mark first.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let as_it_is = parse_plain(text);
    if matches!(as_it_is, Ok(_) | Err(ImportError::Nothing(_))) {
        return as_it_is;
    }
    // Quoted, behind times, or broken by a terminal.
    let own = |line: &str| pasted::own(line).0.to_owned() + "\n";
    let pasted = parse_plain(&pasted::lines(text).map(|line| own(&line)).collect::<String>());
    let unbroken = || parse_plain(&pasted::unbroken(text).iter().map(|line| own(line)).collect::<String>());
    pasted.or_else(|_| unbroken()).or(as_it_is)
}

fn parse_plain(text: &str) -> Result<Vec<Imported>, ImportError> {
    match fio::start(text) {
        Some(start) => fio::parse(text, start),
        None => bonnie::parse(text).map_err(|error| match fio::other_form(text) {
            Some(form) if error == ImportError::Unknown => ImportError::OtherForm { form },
            _ => error,
        }),
    }
}

/// Names unique, in the order of their coming: the second `read` is `read-2`.
fn tell_apart(measured: &mut [Measured]) {
    let mut used: HashSet<String> = HashSet::new();
    // The last number of each name: those below it are taken.
    let mut last: HashMap<String, usize> = HashMap::new();
    for measured in measured {
        let name = std::mem::take(&mut measured.workload.name);
        let mut unique = name.clone();
        while used.contains(&unique) {
            let number = last.entry(name.clone()).or_insert(1);
            *number += 1;
            unique = format!("{name}-{number}");
        }
        used.insert(unique.clone());
        measured.workload.name = unique;
    }
}

/// Samples of a measurement of which only totals are known.
fn samples(ended: UnixTime, elapsed: Nanos, array: PerOp<OpSamples>, volume: &str) -> TrialSamples {
    TrialSamples {
        started_unix: ended - elapsed,
        elapsed,
        interval: elapsed,
        members: vec![MemberSamples { name: volume.to_owned(), ops: array.clone(), ..Default::default() }],
        array,
        series: Vec::new(),
        cpu: CpuUse::default(),
        execution: Default::default(),
        mean_in_flight: None,
        observed: None,
        hosts: Vec::new(),
        notes: Vec::new(),
    }
}

/// Adds `count` times `value` nanoseconds.
fn add(histogram: &mut Histogram, value: u64, count: u64) {
    let mut one = Histogram::default();
    one.record(value);
    histogram.merge(&one.times(count));
}

/// A name that experiments may have, from whatever `text` is.
fn name(text: &str, otherwise: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '-' };
    let name: String = text.trim().chars().map(allowed).take(60).collect();
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    if name.is_empty() { otherwise.to_owned() } else { name.to_owned() }
}

/// The session that the store keeps; `modified` is the file's time, for programs that write down none.
pub fn session(imported: Imported, id: String, version: &str, modified: UnixTime) -> Session {
    let ended = imported.ended_unix.unwrap_or(modified);
    let target = imported.target.clone().unwrap_or_else(|| "unknown".to_owned());
    let elapsed = imported.measured.iter().fold(Nanos(0), |sum, m| sum.plus(m.samples.elapsed));
    let mut warnings = vec![format!(
        "imported from {}: one run, so nothing is known of how it would vary, and the devices were not observed",
        imported.program
    )];
    warnings.extend(imported.notes);
    let (mut workloads, mut trials) = (Vec::new(), Vec::new());
    for (index, mut measured) in imported.measured.into_iter().enumerate() {
        if imported.ended_unix.is_none() {
            measured.samples.started_unix = ended - measured.samples.elapsed;
        }
        workloads.push(measured.workload);
        trials.push(TrialRecord {
            trial: Trial {
                index: u32::try_from(index).unwrap_or(u32::MAX),
                round: 0,
                design: 0,
                workload: index,
                role: Role::Candidate,
                seed: 0,
            },
            outcome: match measured.failed {
                Some(why) => Outcome::Failed(why),
                None => Outcome::Samples(Box::new(measured.samples)),
            },
        });
    }
    let source = VolumeSource::ExistingFile { path: target.clone().into() };
    let volume = Volume::new(VOLUME, source, imported.size);
    let designs = vec![(DESIGN.to_owned(), LayoutNode::Volume(0))];
    Session {
        meta: SessionMeta {
            version: version.to_owned(),
            ended_unix: Some(ended),
            ending: imported.failed.map_or(Ending::NotReached, Ending::Failed),
            host: HostInfo { hostname: imported.hostname.unwrap_or_default(), ..HostInfo::default() },
            inventory: Inventory {
                volumes: vec![PreparedVolume {
                    name: VOLUME.to_owned(),
                    path: target,
                    size: imported.size.unwrap_or_default(),
                    direct: workloads.iter().all(|w| w.direct),
                    ..PreparedVolume::default()
                }],
                notes: Vec::new(),
            },
            warnings,
            ..SessionMeta::new(id, BackendKind::Import, 0, ended - elapsed)
        },
        experiment: Experiment {
            description: Some(format!("Results of {}", imported.program)),
            workloads,
            ..Experiment::once(&name(&imported.program, "import"), vec![volume], designs)
        },
        experiment_text: imported.text,
        trials,
    }
}

/// Name of the only volume of an imported session.
const VOLUME: &str = "target";
