//! `ebb bench --verify` and `ebb verify`: writes with a ledger, and the proof that they are there.

use super::Spec;
use crate::error::CliError;
use crate::places::user_directory;
use crate::progress::Progress;
use crate::session::{clock, surroundings};
use ebbtide_door::read::{self, ReadError};
use ebbtide_door::{Access, Directory, Draft, Expected, Handle, Wanted};
use ebbtide_engine::descriptors::make_room;
use ebbtide_engine::files::FilesBackend;
use ebbtide_engine::verify::{Found, Written, check, write};
use ebbtide_engine::{EngineError, Target, TargetMember};
use ebbtide_host::judge;
use ebbtide_model::backend::{Backend, BackendError, Control};
use ebbtide_model::guard::{Permission, WriteRequest};
use ebbtide_model::layout::{LayoutNode, Map};
use ebbtide_model::plan::{Role, Trial};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Bytes;
use ebbtide_model::verify::{Header, HeaderMember, Ledger, LedgerError, Replay, unit_of};
use ebbtide_model::workload::{Mix, Workload};
use rustix::fs::{Advice, OFlags, fadvise, fcntl_setfl};
use rustix::io::Errno;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest line of a ledger: its first one names every member.
const LONGEST_LINE: u64 = 16 << 20;

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
    Directory::make_all(&directory).map_err(|error| {
        CliError::Failed(format!("cannot make {}: {error}; give --ledger FILE", directory.shown()))
    })?;
    Ok(directory.join(format!("{id}.ledger")))
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
    // It has its name when everything else is ready: what is refused leaves no ledger.
    let cannot = |error: io::Error| format!("cannot make the ledger {}: {error}", path.shown());
    let draft = Draft::begin(path, 0o600, None).map_err(|error| CliError::Usage(cannot(error)))?;
    let id = clock::session_id();
    let surroundings = surroundings::of_host(&id).map_err(failed)?;
    let mut backend = FilesBackend::new(spec.options(&id), surroundings);
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
    let ledger_file = draft.file().try_clone().map_err(|error| failed(cannot(error)))?;
    fcntl_setfl(&ledger_file, OFlags::APPEND)
        .map_err(io::Error::from)
        .and_then(|()| (&ledger_file).write_all(format!("{line}\n").as_bytes()))
        .and_then(|()| ledger_file.sync_all())
        .and_then(|()| draft.publish())
        .map_err(|error| failed(cannot(error)))?;
    // Told before the first write: a writer that is killed cannot tell it any more.
    progress.say(&format!("ledger {}; `ebb verify {0}` proves it later", path.shown()));
    progress.jobs(std::iter::once((job.name.as_str(), &job.workload)), control);
    let trial =
        Trial { index: 0, round: 0, design: job.design, workload: 0, role: Role::Candidate, seed: spec.seed };
    let result = backend.target(design, &job.workload, &trial).map_err(text).and_then(|target| {
        let engine = |error: EngineError| CliError::Failed(error.to_string());
        let written = write(target, &job.workload, (run, unit), &ledger_file, control).map_err(engine)?;
        let ledger = self::ledger(path)?;
        // What Ctrl-C has ended is read back all the same.
        let reading = Arc::new(Control::default());
        progress.checking(&reading);
        let found = check(target, &ledger, &reading).map_err(engine)?;
        Ok(Outcome { written, found, ledger, notes: inventory.notes.clone() })
    });
    progress.idle();
    if result.is_ok() {
        backend.keep_named();
    }
    match backend.finish(false) {
        Err(error) if result.is_ok() => Err(failed(format!("{error}; `ebb cleanup` tries again"))),
        _ => result,
    }
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

/// The ledger at `path`.
///
/// # Errors
/// When it cannot be read or is none.
pub fn ledger(path: &Path) -> Result<Ledger, CliError> {
    let shown = path.shown();
    let wrong = |error: LedgerError| CliError::Usage(format!("{shown}: {error}"));
    let unreadable = |error: ReadError| CliError::Usage(format!("cannot read the ledger: {shown} {error}"));
    let mut ledger = BufReader::new(read::regular(path).map_err(unreadable)?);
    let mut replay = Replay::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = Read::take(&mut ledger, LONGEST_LINE)
            .read_until(b'\n', &mut line)
            .map_err(|error| unreadable(error.into()))?;
        if length as u64 == LONGEST_LINE {
            return Err(wrong(LedgerError::Header(format!("a line has more than {LONGEST_LINE} bytes"))));
        }
        // A torn last line says nothing.
        let Some(whole) = line.strip_suffix(b"\n") else { break };
        replay.take(&String::from_utf8_lossy(whole)).map_err(wrong)?;
    }
    replay.finish().map_err(wrong)
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
        |error: ebbtide_model::layout::LayoutError| CliError::Usage(format!("the ledger's array: {error}"));
    let map = Map::new(&header.layout, &sizes).map_err(wrong)?;
    if let Some(path) = array {
        let member = TargetMember {
            name: path.to_string_lossy().into_owned(),
            file: file(path)?,
            size: map.capacity(),
            shaper: None,
        };
        return Target::single(member).map_err(wrong);
    }
    make_room(2 * header.members.len() as u64).map_err(CliError::Failed)?;
    let members = header
        .members
        .iter()
        .map(|member| {
            let place = moved.iter().find(|(name, _)| *name == member.name);
            let path = place.map_or_else(|| PathBuf::from(&member.path), |(_, path)| path.clone());
            let file = file(&path)?;
            Ok(TargetMember { name: member.name.clone(), file, size: member.size, shaper: None })
        })
        .collect::<Result<Vec<_>, CliError>>()?;
    Ok(Target::new(members, map))
}

/// Opened past the page cache where that is possible, so that the device answers.
fn file(path: &Path) -> Result<Handle, CliError> {
    let request =
        WriteRequest { path, permission: Permission::User { id: None, destroy: false, used: false } };
    let wanted = Wanted { request, expected: Expected::Any, write: false };
    let claims = judge::door().claim(&[wanted]).map_err(|(_, error)| {
        CliError::Failed(format!(
            "{error}; where the member is elsewhere now, say so with --member NAME=PATH"
        ))
    })?;
    let open = |direct| match claims.first() {
        Some(claim) => claim.open(Access { direct, ..Access::default() }),
        None => Err(io::Error::other("it was not opened")),
    };
    let file = match open(true) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => open(false),
        other => other,
    };
    let file =
        file.map_err(|error| CliError::Failed(format!("cannot open the member {}: {error}", path.shown())))?;
    // Advice: where it is not taken, the page cache answers what O_DIRECT would not be asked for.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    Ok(file)
}

/// Bytes in words.
pub fn size(bytes: u64) -> String {
    Bytes(bytes).short()
}
