//! Puts one step back. Already gone is success; something else under the same name is left alone.

use super::{BuildError, identity, insist, lvm, mdadm, queue, run};
use crate::command::Runner;
use crate::judge;
use crate::load;
use crate::made::{self, Context};
use crate::probe::tables::Mount;
use crate::probe::{Content, Signature, foreign_data_over, signature, tables};
use crate::sys::{self, Sys};
use ebbtide_door::{own, read};
use ebbtide_model::guard::{Reason, Refusal, RefusalKind};
use ebbtide_model::journal::FileId;
use ebbtide_model::made::Thing;
use ebbtide_model::plan::build::{BuildUndo, MOUNTS, Mounted, Opened};
use ebbtide_model::shown::{Shown, one_line};
use rustix::fs::{SeekFrom, seek};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

/// cryptsetup counts in these.
const SECTOR: u64 = 512;

/// What putting a step back did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is put back.
    Done,
    /// There was nothing to put back: it is gone already, or never came to be.
    Before,
    /// What is there is not what the step made; what it is.
    Left(String),
}

impl Outcome {
    /// What a search for what was made did, by how much of it was there.
    fn of(found: bool) -> Outcome {
        if found { Outcome::Done } else { Outcome::Before }
    }
}

/// Puts `undo`'s step back on the host of `sys`.
///
/// # Errors
/// When it could not be put back: the program that failed with what it said.
pub fn undo(sys: &Sys, runner: &dyn Runner, undo: &BuildUndo) -> Result<Outcome, BuildError> {
    match undo {
        BuildUndo::DetachLoop { device, file, id, sequence } => {
            detach(sys, runner, device, file, id.as_ref(), *sequence)
        }
        BuildUndo::RestoreQueue { set, old } => match old {
            Some(old) => queue::restore(sys, set, old),
            None => Ok(Outcome::Before),
        },
        BuildUndo::RemoveDirectory(path) => directory(sys, path, own::remove_empty),
        BuildUndo::StopMd { device, uuid, members } => {
            mdadm::stop(sys, runner, (device, uuid), members, mdadm::Reach::All).map(Outcome::of)
        }
        BuildUndo::RemovePv { uuid, .. } => lvm::remove_pv(runner, uuid).map(Outcome::of),
        BuildUndo::RemoveVg { name } => lvm::remove_vg(runner, name).map(Outcome::of),
        BuildUndo::RemoveLv { volume } => lvm::remove_lv(runner, volume).map(Outcome::of),
        BuildUndo::Uncache { volume } => lvm::uncache(runner, volume).map(Outcome::of),
        BuildUndo::WipeContent { device, label, sequence } => wipe(sys, runner, device, label, *sequence),
        BuildUndo::SwapOff { label, .. } => swap_off(sys, runner, label),
        BuildUndo::CloseCrypt { name, of } => close(sys, runner, name, of.as_ref()),
        // Earlier versions of `ebb limit` made these.
        BuildUndo::RemoveGroup(path) => directory(sys, path, ebbtide_door::kernel::remove_group),
        BuildUndo::Unmount { mountpoint, from } => unmount(sys, runner, mountpoint, from.as_ref()),
        BuildUndo::EndLoad { run, directory } => end_load(sys, run, directory),
        BuildUndo::Unmake(thing) => unmake(sys, runner, thing, false),
    }
}

/// What putting `undo`'s step back would do, as far as that can be told without trying; touches nothing.
///
/// # Errors
/// Why it could not be put back: who uses the device that would be wiped or detached, what is mounted.
pub fn foresee(sys: &Sys, runner: &dyn Runner, undo: &BuildUndo) -> Result<Outcome, BuildError> {
    match undo {
        BuildUndo::DetachLoop { device, file, id, sequence } => {
            match backing(sys, device, file, id.as_ref(), *sequence) {
                None => in_use(sys, device).map(|()| Outcome::Done),
                Some(outcome) => Ok(outcome),
            }
        }
        BuildUndo::WipeContent { device, label, sequence } => {
            match to_wipe(sys, runner, device, label, *sequence) {
                Ok(_) => not_shared(sys, device).map(|()| Outcome::Done),
                Err(outcome) => Ok(outcome),
            }
        }
        BuildUndo::Unmount { mountpoint, from } => {
            Ok(mounted(sys, mountpoint, from.as_ref())?.unwrap_or(Outcome::Done))
        }
        BuildUndo::RemoveDirectory(path) => directory(sys, path, own::is_empty),
        BuildUndo::Unmake(thing) => unmake(sys, runner, thing, true),
        _ => Ok(Outcome::Done),
    }
}

fn end_load(sys: &Sys, run: &str, directory: &Path) -> Result<Outcome, BuildError> {
    let failed = |what: String| BuildError::Path { path: directory.to_owned(), what };
    load::end_all(run).map_err(|error| failed(error.to_string()))?;
    let place = sys.at(directory);
    let was_there = place.is_dir();
    own::remove_tree(&place).map_err(|error| failed(error.to_string()))?;
    Ok(Outcome::of(was_there))
}

fn unmake(sys: &Sys, runner: &dyn Runner, thing: &Thing, would: bool) -> Result<Outcome, BuildError> {
    let done = Context::quietly(sys, runner, |context| made::clean_up(context, thing, would));
    done.map_err(|error| BuildError::Made { name: thing.name.clone(), what: error.to_string() })
}

/// What the device carries; nothing where it is gone.
fn carried(sys: &Sys, runner: &dyn Runner, device: &str) -> Option<Content> {
    let node = sys.at(Path::new(device));
    node.exists().then(|| signature::read(runner, &node))
}

/// Why there is nothing to detach; nothing where the loop device is on what the run put there.
pub(super) fn backing(
    sys: &Sys,
    device: &str,
    file: &Path,
    id: Option<&FileId>,
    sequence: Option<u64>,
) -> Option<Outcome> {
    let name = device.trim_start_matches("/dev/");
    let Some(now) = sys::text(&sys.sys.join("block").join(name).join("loop/backing_file")) else {
        return Some(Outcome::Before);
    };
    // The kernel says so behind the name of a file that was removed meanwhile.
    let named =
        Path::new(&now) == file || now.strip_suffix(" (deleted)").is_some_and(|now| Path::new(now) == file);
    // Removing a file changes its name before it goes: what is behind the device tells more.
    let is_it = id.and_then(|id| identity::is_behind(sys, device, id));
    if !is_it.unwrap_or(named) {
        return Some(Outcome::Left(match named {
            true => "it is on another file of that name now".to_owned(),
            false => format!("it is on {} now", Path::new(&now).shown()),
        }));
    }
    match (sequence, identity::sequence(sys, device)) {
        (Some(then), Some(now)) if then != now => {
            Some(Outcome::Left("somebody attached it to that file again since".to_owned()))
        }
        _ => None,
    }
}

fn detach(
    sys: &Sys,
    runner: &dyn Runner,
    device: &str,
    file: &Path,
    id: Option<&FileId>,
    sequence: Option<u64>,
) -> Result<Outcome, BuildError> {
    let look = || backing(sys, device, file, id, sequence);
    let mut found = false;
    insist(runner, || match look() {
        Some(_) if found => Ok(Outcome::Done),
        Some(outcome) => Ok(outcome),
        None => {
            in_use(sys, device)?;
            run(runner, "losetup", &["--detach", device])?;
            found = true;
            // Detaching a device that somebody has open takes effect when they close it.
            match look() {
                None => Err(BuildError::StillThere { what: device.to_owned() }),
                Some(_) => Ok(Outcome::Done),
            }
        }
    })
}

/// Fails where anybody but a run uses the device, or what it stands on: wiping it changes what they see.
fn not_shared(sys: &Sys, device: &str) -> Result<(), BuildError> {
    unused(device, judge::sharers_of_device(sys, device))
}

/// Fails where something is mounted on the directory, in whatever namespace: removing it would end that mount.
fn not_mounted_on(sys: &Sys, path: &Path) -> Result<(), BuildError> {
    let reasons = judge::mounts_on(sys, path);
    if reasons.is_empty() {
        return Ok(());
    }
    let what = Refusal { path: String::new(), reasons }.reasons_in_words();
    Err(BuildError::Path { path: path.to_owned(), what })
}

/// Fails where anybody uses the device: what they see in it would change, and a loop device that is detached goes as soon
/// as they let go.
pub(super) fn in_use(sys: &Sys, device: &str) -> Result<(), BuildError> {
    unused(device, judge::users_of_device(sys, device))
}

fn unused(device: &str, reasons: Vec<Reason>) -> Result<(), BuildError> {
    if reasons.is_empty() {
        return Ok(());
    }
    let passing = reasons.iter().all(|reason| reason.kind == RefusalKind::Open);
    let what = Refusal { path: device.to_owned(), reasons }.reasons_in_words();
    Err(BuildError::InUse { device: device.to_owned(), what, passing })
}

/// What came of `deal`, which removes an empty directory or asks whether one could be.
fn directory(sys: &Sys, path: &Path, deal: fn(&Path) -> io::Result<()>) -> Result<Outcome, BuildError> {
    not_mounted_on(sys, path)?;
    match deal(&sys.at(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Outcome::Before),
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty && path == Path::new(MOUNTS) => {
            Ok(Outcome::Left("another run's mount point is in it".to_owned()))
        }
        Err(error) => Err(BuildError::Path { path: path.to_owned(), what: error.to_string() }),
        Ok(()) => Ok(Outcome::Done),
    }
}

/// Whether wiping would erase the run's content, or why it is left alone; nothing where there is none.
pub(super) fn to_wipe(
    sys: &Sys,
    runner: &dyn Runner,
    device: &str,
    label: &str,
    sequence: Option<u64>,
) -> Result<Signature, Outcome> {
    match carried(sys, runner, device) {
        Some(Content::Signature(found)) if found.label.as_deref() == Some(label) => {
            // After a clone has taken the device's place the label is not the run's alone.
            match (sequence, identity::loop_sequence(sys, device)) {
                (Some(then), Some(now)) if then != now => {
                    Err(Outcome::Left(format!("somebody attached {device} anew since")))
                }
                _ => Ok(found),
            }
        }
        other => Err(content(device, other).map_or(Outcome::Before, Outcome::Left)),
    }
}

/// Whether `device` is there and carries nothing with a signature.
pub(super) fn is_bare(sys: &Sys, runner: &dyn Runner, device: &str) -> bool {
    matches!(carried(sys, runner, device), Some(Content::Nothing))
}

/// What `device`, which steps made, carries that somebody may want back, in words: data without a signature too. Nothing where it carries
/// nothing, or is not there.
pub(super) fn carries(sys: &Sys, runner: &dyn Runner, device: &str) -> Option<String> {
    let carried = carried(sys, runner, device)?;
    content(device, Some(carried)).or_else(|| match unsigned(sys, runner, device) {
        Ok(at) => Some(format!("{device} carries data of an unknown kind (byte {} is not zero)", at?)),
        Err(why) => Some(format!("what {device} carries cannot be told: {why}")),
    })
}

/// The first byte of data without a signature on `device`.
fn unsigned(sys: &Sys, runner: &dyn Runner, device: &str) -> io::Result<Option<u64>> {
    let file = read::open(&sys.at(Path::new(device)))?;
    if seek(&file, SeekFrom::End(0))? == 0 {
        return Err(io::Error::other("it has no size, as an array that does not run"));
    }
    let below =
        device.strip_prefix("/dev/mapper/").map(|name| below(sys, runner, name)).transpose()?.flatten();
    foreign_data_over(&file, below.as_ref().map(|(file, start)| (file, *start)))
}

/// The device that the mapping `name` of cryptsetup is on, and the byte at which its data begin; nothing where it is no such mapping.
fn below(sys: &Sys, runner: &dyn Runner, name: &str) -> io::Result<Option<(File, u64)>> {
    let status =
        runner.run("cryptsetup", &["status", name]).map_err(|error| io::Error::other(error.to_string()))?;
    let text = status.text();
    let offset = || {
        sys::value(&text, &["offset"])?.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(SECTOR)
    };
    match (sys::value(&text, &["device"]), offset()) {
        (Some(device), Some(start)) => Ok(Some((read::open(&sys.at(Path::new(device)))?, start))),
        _ => Ok(None),
    }
}

fn content(device: &str, carried: Option<Content>) -> Option<String> {
    let what = match carried? {
        Content::Signature(Signature { kind, label: Some(label), .. }) => {
            format!("{device} carries {kind} with the label {label}")
        }
        Content::Signature(Signature { kind, .. }) => format!("{device} carries {kind} without a label"),
        Content::PartitionTable(kind) => format!("{device} carries a partition table ({kind})"),
        Content::Unknown(why) => format!("what {device} carries cannot be told: {why}"),
        Content::Nothing => return None,
    };
    Some(one_line(&what).into_owned())
}

fn wipe(
    sys: &Sys,
    runner: &dyn Runner,
    device: &str,
    label: &str,
    sequence: Option<u64>,
) -> Result<Outcome, BuildError> {
    insist(runner, || match to_wipe(sys, runner, device, label, sequence) {
        Err(outcome) => Ok(outcome),
        Ok(found) => {
            not_shared(sys, device)?;
            // Only what the run made: somebody may have put a partition table beside it.
            let arguments = ["--all", "--quiet", "--types", found.kind.as_str(), device];
            run(runner, "wipefs", &arguments).map(|_| Outcome::Done)
        }
    })
}

/// Switches off the swap space with `label`: after a reboot another one may be on the device's old name.
fn swap_off(sys: &Sys, runner: &dyn Runner, label: &str) -> Result<Outcome, BuildError> {
    let mut outcome = Outcome::Before;
    insist(runner, || {
        for swap in tables::swaps_of(sys) {
            match signature::read(runner, &sys.at(Path::new(&swap.path))) {
                Content::Signature(found) if found.label.as_deref() == Some(label) => {
                    run(runner, "swapoff", &[&swap.path])?;
                    outcome = Outcome::Done;
                }
                _ => {}
            }
        }
        Ok(outcome.clone())
    })
}

fn close(sys: &Sys, runner: &dyn Runner, name: &str, of: Option<&Opened>) -> Result<Outcome, BuildError> {
    insist(runner, || {
        if let Some(other) = identity::other_mapping(sys, name, of) {
            return Ok(Outcome::Left(other.what));
        }
        // Status 4: there is no such mapping (cryptsetup(8), return codes).
        if runner.run("cryptsetup", &["status", name])?.status == Some(4) {
            return Ok(Outcome::Before);
        }
        run(runner, "cryptsetup", &["close", name]).map(|_| Outcome::Done)
    })
}

fn unmount(
    sys: &Sys,
    runner: &dyn Runner,
    mountpoint: &Path,
    from: Option<&Mounted>,
) -> Result<Outcome, BuildError> {
    let path = mountpoint.to_string_lossy().into_owned();
    insist(runner, || match mounted(sys, mountpoint, from)? {
        None => run(runner, "umount", &[&path]).map(|_| Outcome::Done),
        Some(outcome) => Ok(outcome),
    })
}

/// Why there is nothing to unmount; nothing where what the run mounted is on top. Fails where something is over it.
pub(super) fn mounted(
    sys: &Sys,
    mountpoint: &Path,
    from: Option<&Mounted>,
) -> Result<Option<Outcome>, BuildError> {
    let mounts = tables::mounts_of(sys);
    let is_there = |mount: &&Mount| Path::new(&mount.mountpoint) == mountpoint;
    let is_ours = |mount: &Mount| from.is_some_and(|from| is_ours(sys, mount, from));
    let has_ours = mounts.iter().filter(is_there).any(is_ours);
    match tables::seen_at(&mounts, mountpoint) {
        Some(mount) if is_there(&mount) && is_ours(mount) => Ok(None),
        Some(mount) if has_ours => Err(BuildError::Path {
            path: mountpoint.to_owned(),
            what: one_line(&format!(
                "{} ({}) is mounted over it on {}; unmount that first",
                mount.source, mount.fstype, mount.mountpoint
            ))
            .into_owned(),
        }),
        Some(mount) if is_there(&mount) => {
            let what = match from {
                Some(from) => format!("not {}", from.device),
                None => "and the journal does not say what the run mounted".to_owned(),
            };
            let what = format!("{} ({}) is mounted there, {what}", mount.source, mount.fstype);
            Ok(Some(Outcome::Left(one_line(&what).into_owned())))
        }
        _ => Ok(Some(Outcome::Before)),
    }
}

/// Whether `mount`, which is where `from` was mounted, is of it. Of a device that is gone only that is known.
pub(super) fn is_ours(sys: &Sys, mount: &Mount, from: &Mounted) -> bool {
    let is_gone = || {
        let has_device = mount.dev.major != 0;
        has_device
            && from.number.is_none()
            && !sys.at(Path::new(&from.device)).exists()
            && from.fstype.as_ref().is_some_and(|fstype| *fstype == mount.fstype)
            && !sys.sys.join("dev/block").join(mount.dev.to_string()).exists()
    };
    identity::is_mounted(sys, mount, from) || is_gone()
}
