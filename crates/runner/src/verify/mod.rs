//! Writes with a ledger, and the proof that they are there.

mod error;
mod ledger;

pub use error::VerifyError;
pub use ledger::{ledger, open};

use crate::bench::{Job, Spec};
use crate::listener::SessionListener;
use crate::places::user_directory;
use crate::{RunnerError, clock};
use ebbtide_door::{Directory, Draft};
use ebbtide_engine::files::FilesBackend;
use ebbtide_engine::verify::{Book, CheckResult, Written, check, write};
use ebbtide_model::backend::{Backend, Control};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::schedule::{Role, Trial};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Bytes;
use ebbtide_model::verify::{Header, HeaderMember, Ledger, unit_of};
use ebbtide_model::workload::options::named;
use ebbtide_model::workload::{Mix, Sequence, Workload};
use rustix::fs::{OFlags, fcntl_setfl};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a run's ledger goes when nobody says: the user's state directory, which is not the target.
///
/// # Errors
/// When the environment names no such directory or it cannot be made.
pub fn default_ledger(id: &str) -> Result<PathBuf, RunnerError> {
    let directory = user_directory("XDG_STATE_HOME", ".local/state").ok_or(VerifyError::NoPlace)?;
    let path = directory.join("ledgers");
    match Directory::make_all(&path) {
        Ok(_) => Ok(path.join(format!("{id}.ledger"))),
        Err(error) => Err(VerifyError::Directory { path, error }.into()),
    }
}

/// Whether both paths lead to one file, which need not be there yet.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let path = std::path::absolute(path).ok()?;
        path.canonicalize().ok().or_else(|| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?)))
    };
    place(one).is_some_and(|one| place(other) == Some(one))
}

/// What a run with a ledger did.
#[derive(Debug)]
pub struct Outcome {
    pub written: Written,
    /// What was found when it was read back at once.
    pub found: CheckResult,
    /// What the ledger says of each unit.
    pub ledger: Ledger,
    /// What the reader must know about the job and the volumes.
    pub notes: Vec<String>,
}

/// Options that a run with a ledger does not do: why, which, and what to write instead.
const NOT_TAKEN: [(&str, &[&str], &str); 5] = [
    (
        "is no measurement",
        &[
            "rate",
            "rate_iops",
            "thinktime",
            "startdelay",
            "ramp_time",
            "latency_target",
            "steadystate",
            "rate_min",
            "rate_iops_min",
        ],
        "",
    ),
    ("gives each job a part of its own", &["offset_increment"], ""),
    (
        "calls no fsync between writes",
        &["fsync", "fdatasync"],
        " (--sync=1 has each write durable before it counts as acknowledged, --end_fsync=1 all of them at the end)",
    ),
    (
        "gives each block a stamp of its own",
        &["dedupe_percentage", "buffer_compress_percentage", "refill_buffers"],
        "",
    ),
    ("ends at the first error: a write that failed is not one that is lost", &["continue_on_error"], ""),
];

/// What `workload` asks for of that.
fn not_taken(workload: &Workload) -> Vec<String> {
    let asked = |name: &&str| (named(name).fio)(workload).is_some();
    let groups = NOT_TAKEN.iter().filter_map(|(why, names, instead)| {
        let names: Vec<String> =
            names.iter().copied().filter(asked).map(|name| format!("--{name}")).collect();
        (!names.is_empty()).then(|| format!("{why}: leave out {}{instead}", names.join(" and ")))
    });
    groups.collect()
}

/// Whether `workload` can be written with a ledger.
///
/// # Errors
/// Wrong usage, with what to write instead.
pub fn fits(workload: &Workload) -> Result<Bytes, RunnerError> {
    if workload.mix != Mix::Write {
        return Err(VerifyError::NotWriting.into());
    }
    let wrong = not_taken(workload);
    if !wrong.is_empty() {
        return Err(VerifyError::NotTaken(wrong).into());
    }
    if workload.split.is_some() || workload.details.sequence != Sequence::Plain {
        return Err(VerifyError::NotPlain.into());
    }
    Ok(unit_of(workload.bs).ok_or(VerifyError::BlockSize(workload.bs))?)
}

/// The ledger of a run.
#[derive(Debug, Clone, Copy)]
pub struct To<'a> {
    /// The file that it is written to.
    pub path: &'a Path,
    /// Whether each write waits until it is durable that it began.
    pub durable: bool,
}

/// Runs the one job of `spec` with a ledger, then reads everything back.
///
/// # Errors
/// When volumes, ledger or members fail; the text says which.
pub fn run(
    spec: &Spec,
    to: To<'_>,
    control: &Arc<Control>,
    watch: &mut dyn SessionListener,
) -> Result<Outcome, RunnerError> {
    let path = to.path;
    let job = spec.jobs.first().ok_or(VerifyError::NoJob)?;
    fits(&job.workload)?;
    // It has its name when everything else is ready: what is refused leaves no ledger.
    let draft = Draft::begin(path, 0o600, None)
        .map_err(|error| VerifyError::Place { path: path.to_owned(), error })?;
    let id = clock::session_id();
    let mut backend = spec.backend(&id)?;
    let result = prove(spec, job, to, draft, &mut backend, control, watch);
    watch.done();
    if result.is_ok() {
        backend.keep_named();
    }
    let put_back = backend.finish(false).map_err(VerifyError::PutBack);
    let outcome = result?;
    put_back?;
    Ok(outcome)
}

/// Writes the job with the ledger that `draft` becomes, and reads it back.
fn prove(
    spec: &Spec,
    job: &Job,
    To { path, durable }: To<'_>,
    draft: Draft,
    backend: &mut FilesBackend,
    control: &Arc<Control>,
    watch: &mut dyn SessionListener,
) -> Result<Outcome, RunnerError> {
    let experiment = Experiment { workloads: vec![job.workload.clone()], ..spec.experiment.clone() };
    watch.preparing(experiment.volumes.len(), control);
    let inventory = backend.prepare(&experiment, control).map_err(VerifyError::from)?;
    let design = &experiment.designs[job.design];
    let (layout, used) = localise(&design.layout);
    let members = used.iter().filter_map(|index| inventory.volumes.get(*index)).map(|volume| HeaderMember {
        name: volume.name.clone(),
        path: absolute(&volume.path),
        size: volume.size,
    });
    let header = Header {
        schema: Header::SCHEMA.to_owned(),
        run: u64::from(clock::random()) << 32 | u64::from(clock::random()),
        unit: fits(&job.workload)?,
        members: members.collect(),
        layout,
        direct: job.workload.direct,
        sync: job.workload.sync,
    };
    let file = begin(&header, draft).map_err(|error| VerifyError::Write { path: path.to_owned(), error })?;
    // Told before the first write: a writer that is killed cannot tell it any more.
    watch.say(&format!("ledger {}; `ebb verify {0}` proves it later", path.shown()));
    watch.jobs_begin(&[(&job.name, &job.workload)], control);
    let trial = Trial {
        index: 0,
        round: 0,
        design: job.design,
        workload: 0,
        role: Role::Candidate,
        seed: spec.options.seed,
    };
    let target = backend.target(design, &job.workload, &trial).map_err(VerifyError::from)?;
    let named = (header.run, header.unit);
    let written = write(target, &job.workload, named, Book { file: &file, durable }, control)
        .map_err(VerifyError::from)?;
    let ledger = ledger(path)?;
    // What Ctrl-C has ended is read back all the same.
    let reading = Arc::new(Control::default());
    watch.checking(&reading);
    let found = check(target, &ledger, &reading).map_err(VerifyError::from)?;
    let notes = job.notes.iter().cloned().chain(inventory.notes).collect();
    Ok(Outcome { written, found, ledger, notes })
}

/// Writes `header` to the ledger and gives it its name; the file that is returned takes what follows.
fn begin(header: &Header, draft: Draft) -> io::Result<File> {
    let mut file = draft.file().try_clone()?;
    fcntl_setfl(&file, OFlags::APPEND)?;
    file.write_all(format!("{}\n", serde_json::to_string(header)?).as_bytes())?;
    file.sync_all()?;
    draft.publish()?;
    Ok(file)
}

fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// The layout with its volumes numbered from 0 in order of appearance, and which those are.
fn localise(node: &LayoutNode) -> (LayoutNode, Vec<usize>) {
    fn walk(node: &LayoutNode, used: &mut Vec<usize>) -> LayoutNode {
        match node {
            LayoutNode::Volume(index) => {
                used.push(*index);
                LayoutNode::Volume(used.len() - 1)
            }
            LayoutNode::Array { kind, members } => LayoutNode::Array {
                kind: *kind,
                members: members.iter().map(|member| walk(member, used)).collect(),
            },
        }
    }
    let mut used = Vec::new();
    let layout = walk(node, &mut used);
    (layout, used)
}
