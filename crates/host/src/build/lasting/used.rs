//! What stands against an undo, judged before it changes anything.

use super::undo::shown;
use super::whose::Other;
use super::{Failure, Keeper};
use crate::build::{identity, lvm, undo};
use crate::judge;
use crate::probe::tables::{self, Mount};
use crate::sys;
use ebbtide_model::guard::{Reason, Refusal, RefusalKind};
use ebbtide_model::plan::build::BuildUndo;
use ebbtide_provision::Record;
use std::path::Path;

impl Keeper<'_> {
    /// Fails where somebody has opened something of `record` under its name, or where that name keeps from being looked at what is to be erased.
    pub(super) fn refuse_opened(&self, record: &Record, erases: bool) -> Result<(), Failure> {
        for step in &record.desired.build.steps {
            if let Some(BuildUndo::CloseCrypt { name: mapping, of: Some(of) }) = &step.undo
                && let Some(other) = identity::other_mapping(&self.sys, mapping, Some(of))
                && (other.is_on_it || erases)
            {
                return Err(Failure::Refused(format!(
                    "{}; close that, and then `ebb undo {}` goes on",
                    other.what, record.desired.name
                )));
            }
        }
        Ok(())
    }

    /// Fails where anything stands against an undo that can be known before it changes anything: mounts, snapshots, what somebody has put on our
    /// devices, programs that write to them.
    pub(super) fn refuse_used(&self, record: &Record, others: &[Option<Other>]) -> Result<(), Failure> {
        self.refuse_mounted(record, others, true)?;
        let desired = &record.desired;
        let refuse = |device: &str, why: &str| Err(in_use(device, why, &desired.name));
        let undos = || {
            let steps = desired.build.steps.iter().zip(others).filter(|(_, other)| other.is_none());
            steps.filter_map(|(step, _)| step.undo.as_ref())
        };
        let own: Vec<String> =
            undos().filter_map(made).filter_map(|device| self.kernel_name(&device)).collect();
        for device in undos().filter_map(made) {
            let Some(name) = self.kernel_name(&device) else { continue };
            let place = self.sys.sys.join("class/block");
            let called = |holder: &String| sys::word(&place.join(holder).join("dm/name"));
            // A logical volume of ours, and its parts.
            let is_part = |holder: &String| {
                let volumes = undos().filter_map(|undo| match undo {
                    BuildUndo::RemoveLv { volume } => Some(volume.replace('/', "-")),
                    _ => None,
                });
                let called = called(holder).unwrap_or_default();
                volumes.into_iter().any(|volume| {
                    called.strip_prefix(&volume).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
                })
            };
            let holders = sys::names(&place.join(&name).join("holders"));
            let by: Vec<String> = holders
                .iter()
                .filter(|holder| !own.contains(holder) && !is_part(holder))
                .map(|holder| {
                    called(holder).map_or(format!("/dev/{holder}"), |name| format!("/dev/mapper/{name}"))
                })
                .collect();
            if !by.is_empty() {
                return refuse(&device, &format!("{} stands on it: take that away", by.join(", ")));
            }
        }
        for undo in undos() {
            let BuildUndo::RemoveLv { volume } = undo else { continue };
            let (group, name) = lvm::parts(volume);
            let snapshots =
                lvm::logical(self.runner, group)?.into_iter().filter(|found| found.origin == name);
            let snapshots: Vec<String> = snapshots.map(|found| format!("{group}/{}", found.name)).collect();
            if let Some(first) = snapshots.first() {
                let why = format!(
                    "{} is a snapshot of it: `lvremove {first}` if nothing needs it",
                    snapshots.join(", ")
                );
                return refuse(&format!("/dev/{volume}"), &why);
            }
        }
        // Mounts are judged above, and so is what stands on it.
        let device = &desired.build.device;
        let is_mounted = undos().any(|undo| matches!(undo, BuildUndo::Unmount { .. }));
        let mut reasons = match undos().filter_map(made).any(|made| made == *device) {
            true => judge::losers_of_device(&self.sys, device),
            false => Vec::new(),
        };
        reasons.retain(|reason| reason.kind != RefusalKind::Mounted || !is_mounted);
        if reasons.is_empty() {
            return Ok(());
        }
        refuse(device, &Refusal { path: device.clone(), reasons }.reasons_in_words())
    }

    /// Fails where something of `record` is mounted, wherever that is. With `but_own` what it mounted itself does not count, where nothing is
    /// mounted below it.
    pub(super) fn refuse_mounted(
        &self,
        record: &Record,
        others: &[Option<Other>],
        but_own: bool,
    ) -> Result<(), Failure> {
        let name = &record.desired.name;
        for (step, other) in record.desired.build.steps.iter().zip(others) {
            if other.is_some() {
                continue;
            }
            let Some(BuildUndo::Unmount { mountpoint, from: Some(from) }) = &step.undo else { continue };
            let is_of = |mount: &Mount| {
                identity::is_of(&self.sys, mount, from)
                    && !(but_own && Path::new(&mount.mountpoint) == mountpoint)
            };
            let mut reasons = judge::mounts_that(&self.sys, &is_of);
            if but_own && undo::mounted(&self.sys, mountpoint, Some(from)).is_ok_and(|other| other.is_none())
            {
                let below = tables::mounts_of(&self.sys);
                let below = below.iter().map(|mount| &mount.mountpoint);
                reasons.extend(below.filter(|path| is_below(Path::new(path), mountpoint)).map(|path| {
                    Reason {
                        kind: RefusalKind::Mounted,
                        what: format!("something is mounted below it on {path}"),
                        remedy: format!("`umount {path}` if nothing needs it"),
                    }
                }));
            }
            if !reasons.is_empty() {
                let refusal = Refusal { path: from.device.clone(), reasons };
                return Err(in_use(&from.device, &refusal.reasons_in_words(), name));
            }
        }
        Ok(())
    }
}

/// Why `device` of the array `name` stays for now.
fn in_use(device: &str, why: &str, name: &str) -> Failure {
    Failure::Refused(format!(
        "{device} is not taken away while it is in use: {why}; then `ebb undo {name}` goes on"
    ))
}

/// The device that `undo` would take away; nothing where it is none.
fn made(undo: &BuildUndo) -> Option<String> {
    match undo {
        BuildUndo::StopMd { .. } | BuildUndo::RemoveLv { .. } | BuildUndo::CloseCrypt { .. } => {
            Some(shown(undo))
        }
        _ => None,
    }
}

fn is_below(path: &Path, mountpoint: &Path) -> bool {
    path != mountpoint && path.starts_with(mountpoint)
}
