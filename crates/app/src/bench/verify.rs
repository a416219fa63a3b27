//! `ebb bench --verify` and `ebb verify`: writes with a ledger, and the proof that they are there.

use super::Spec;
use crate::cli::CliError;
use crate::places::user_directory;
use crate::progress::Progress;
use crate::session::{clock, surroundings};
use ebbtide_core::backend::{Backend, BackendError, Control};
use ebbtide_core::layout::{LayoutNode, Map};
use ebbtide_core::plan::{Role, Trial};
use ebbtide_core::units::Bytes;
use ebbtide_core::verify::{Header, HeaderMember, Ledger, unit_of};
use ebbtide_core::workload::{Mix, Workload};
use ebbtide_engine::files::{self, FilesBackend};
use ebbtide_engine::verify::{Found, Written, check, write};
use ebbtide_engine::{EngineError, Member, Target};
use rustix::fs::{Advice, Mode, OFlags, fadvise};
use rustix::io::Errno;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a run's ledger goes when nobody says: the user's state directory, which is not the target.
///
/// # Errors
/// When the environment names no such directory or it cannot be made.
pub fn default_ledger(id: &str) -> Result<PathBuf, CliError> {
    let directory = user_directory("XDG_STATE_HOME", ".local/state")
        .map(|directory| directory.join("ledgers"))
        .ok_or_else(|| {
            CliError::Usage("no place for the ledger: give --ledger FILE, or set HOME".to_owned())
        })?;
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(|error| {
        CliError::Failed(format!("cannot make {}: {error}; give --ledger FILE", directory.display()))
    })?;
    Ok(directory.join(format!("{id}.ledger")))
}

/// What a run with a ledger did.
#[derive(Debug)]
pub struct Outcome {
    /// What was written.
    pub written: Written,
    /// What was found when it was read back at once.
    pub found: Found,
    /// The ledger, replayed.
    pub ledger: Ledger,
    /// What the reader must know about the volumes.
    pub notes: Vec<String>,
}

/// Whether `workload` can be written with a ledger.
///
/// # Errors
/// Wrong usage, with what to write instead.
pub fn fits(workload: &Workload) -> Result<u64, CliError> {
    if workload.mix != Mix::Write {
        return Err(CliError::Usage("--verify writes: give --rw write or --rw randwrite".to_owned()));
    }
    if workload.is_open_loop()
        || workload.rate.is_some()
        || workload.think_time.0 > 0
        || workload.warm_up.0 > 0
    {
        return Err(CliError::Usage(
            "--verify is no measurement: leave out --rate, --rate_iops, --thinktime and --ramp_time"
                .to_owned(),
        ));
    }
    unit_of(workload.bs).ok_or_else(|| {
        CliError::Usage(format!("--bs {}: --verify needs 512, 1k, 2k or a multiple of 4k", workload.bs))
    })
}

/// Runs the one job of `spec` with a ledger at `path`, then reads everything back.
///
/// # Errors
/// When volumes, ledger or members fail; the text says which.
pub fn run(
    spec: &Spec,
    path: &Path,
    control: &Arc<Control>,
    progress: &mut Progress,
) -> Result<Outcome, CliError> {
    let failed = |what: String| CliError::Failed(what);
    let job = spec.jobs.first().ok_or_else(|| failed("there is no job".to_owned()))?;
    let unit = fits(&job.workload)?;
    let mut ledger_file =
        OpenOptions::new().append(true).create_new(true).mode(0o600).open(path).map_err(|error| {
            CliError::Usage(format!("cannot make the ledger {}: {error}", path.display()))
        })?;
    let id = clock::session_id();
    let options = files::Options {
        name: id.clone(),
        seed: spec.seed,
        destroy: spec.destroy,
        places: surroundings::places_for_volumes(),
        fill: spec.fill.clone(),
    };
    let mut backend = FilesBackend::new(options, surroundings::of_host(&id).map_err(failed)?);
    let mut experiment = spec.experiment.clone();
    experiment.workloads = vec![job.workload.clone()];
    progress.filling(experiment.volumes.len(), control);
    let text = |error: BackendError| match error {
        BackendError::Stopped => CliError::Interrupted("before anything was written".to_owned()),
        error => CliError::Failed(error.to_string()),
    };
    let inventory = backend.prepare(&experiment, control).map_err(text)?;
    let design = &experiment.designs[job.design];
    let (layout, used) = localise(&design.layout);
    let members = used
        .iter()
        .filter_map(|index| inventory.volumes.get(*index))
        .map(|volume| HeaderMember {
            name: volume.name.clone(),
            path: absolute(&volume.path),
            size: volume.size,
        })
        .collect();
    let run = u64::from(clock::random()) << 32 | u64::from(clock::random());
    let header = Header {
        schema: Header::SCHEMA.to_owned(),
        run,
        unit,
        members,
        layout,
        direct: job.workload.direct,
        sync: job.workload.sync,
    };
    let line = serde_json::to_string(&header).map_err(|error| failed(error.to_string()))?;
    ledger_file
        .write_all(format!("{line}\n").as_bytes())
        .and_then(|()| ledger_file.sync_all())
        .map_err(|error| failed(format!("cannot write the ledger {}: {error}", path.display())))?;
    progress.jobs(std::iter::once((job.name.as_str(), &job.workload)), control);
    let trial =
        Trial { index: 0, round: 0, design: job.design, workload: 0, role: Role::Candidate, seed: spec.seed };
    let result = backend.target(design, &job.workload, &trial).map_err(text).and_then(|target| {
        let engine = |error: EngineError| CliError::Failed(error.to_string());
        let written = write(target, &job.workload, (run, unit), &ledger_file, control).map_err(engine)?;
        let ledger = read(path)?;
        // What Ctrl-C has ended is read back all the same.
        let reading = Arc::new(Control::default());
        progress.checking(&reading);
        let found = check(target, &ledger, &reading).map_err(engine)?;
        Ok(Outcome { written, found, ledger, notes: inventory.notes.clone() })
    });
    progress.idle();
    match backend.finish(false) {
        Err(error) if result.is_ok() => Err(failed(format!("{error}; `ebb cleanup` tries again"))),
        _ => result,
    }
}

fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
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

/// The ledger at `path`.
///
/// # Errors
/// When it cannot be read or is none.
pub fn read(path: &Path) -> Result<Ledger, CliError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| CliError::Usage(format!("cannot read the ledger {shown}: {error}")))?;
    Ledger::parse(&text).map_err(|error| CliError::Usage(format!("{shown}: {error}")))
}

/// The members that the ledger names, opened to be read; `moved` says where some are now. With `array`, the whole is
/// one device or file now.
///
/// # Errors
/// When one is missing.
pub fn open(ledger: &Ledger, moved: &[(String, PathBuf)], array: Option<&Path>) -> Result<Target, CliError> {
    let header = &ledger.header;
    for (name, _) in moved {
        if !header.members.iter().any(|member| member.name == *name) {
            let names: Vec<&str> = header.members.iter().map(|member| member.name.as_str()).collect();
            return Err(CliError::Usage(format!(
                "the ledger has no member `{name}`; it has {}",
                names.join(", ")
            )));
        }
    }
    let sizes: Vec<u64> = header.members.iter().map(|member| member.size).collect();
    let wrong =
        |error: ebbtide_core::layout::LayoutError| CliError::Usage(format!("the ledger's array: {error}"));
    let map = Map::new(&header.layout, &sizes).map_err(wrong)?;
    if let Some(path) = array {
        let member = Member {
            name: path.display().to_string(),
            file: file(path)?,
            size: map.capacity(),
            shaper: None,
        };
        return Target::single(member).map_err(wrong);
    }
    let members = header
        .members
        .iter()
        .map(|member| {
            let place = moved.iter().find(|(name, _)| *name == member.name);
            let path = place.map_or_else(|| PathBuf::from(&member.path), |(_, path)| path.clone());
            let file = file(&path)?;
            Ok(Member { name: member.name.clone(), file, size: member.size, shaper: None })
        })
        .collect::<Result<Vec<_>, CliError>>()?;
    Ok(Target::new(members, map))
}

/// Opened past the page cache where that is possible, so that the device answers.
fn file(path: &Path) -> Result<File, CliError> {
    let open = |flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).map(File::from);
    let file = match open(OFlags::RDONLY | OFlags::DIRECT) {
        Err(Errno::INVAL) => open(OFlags::RDONLY),
        other => other,
    };
    let file = file.map_err(|errno| {
        CliError::Failed(format!(
            "cannot open the member {}: {errno}; where it is elsewhere now, say so with --member NAME=PATH",
            path.display()
        ))
    })?;
    // Advice: where it is not taken, the page cache answers what O_DIRECT would not be asked for.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    Ok(file)
}

/// Bytes in words.
pub fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}
