//! What stands against an undo, judged before it changes anything.

use super::undo::shown;
use super::whose::Other;
use super::{Failure, Keeper};
use crate::build::{BuildError, identity, insist, lvm, mdadm, undo};
use crate::judge;
use crate::probe::tables::{self, Mount, Swap};
use crate::sys;
use ebbtide_model::guard::{Reason, Refusal, RefusalKind};
use ebbtide_model::plan::build::BuildUndo;
use ebbtide_model::shown::one_line;
use ebbtide_model::units::Bytes;
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
        let mut running: Vec<Running> = Vec::new();
        for undo in undos() {
            running.extend(self.running(undo)?);
        }
        for Running { device, name, .. } in &running {
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
            let holders = sys::names(&place.join(name).join("holders"));
            let by: Vec<String> = holders
                .iter()
                .filter(|holder| !running.iter().any(|own| own.name == **holder) && !is_part(holder))
                .map(|holder| {
                    called(holder)
                        .map_or(format!("/dev/{holder}"), |name| format!("/dev/mapper/{}", one_line(&name)))
                })
                .collect();
            if !by.is_empty() {
                return refuse(device, &format!("{} stands on it: take that away", by.join(", ")));
            }
        }
        for undo in undos() {
            let BuildUndo::RemoveLv { volume } = undo else { continue };
            let (group, _) = lvm::parts(volume);
            let snapshots: Vec<String> = lvm::snapshots(self.runner, volume)?
                .into_iter()
                .map(|name| format!("{group}/{name}"))
                .collect();
            // LVM hides those that go into it.
            if let Some(hidden) = snapshots.iter().find(|snapshot| snapshot.ends_with(']')) {
                let why = format!(
                    "{hidden} is to be merged into it, when it is activated next: unmount it, `lvchange --activate n {volume}`, \
                     `lvchange --activate y {volume}`, and wait until `lvs --all {group}` does not list it"
                );
                return refuse(&format!("/dev/{volume}"), &why);
            }
            if let Some(first) = snapshots.first() {
                let why = format!(
                    "{} is a snapshot of it: `lvremove {first}` if nothing needs it",
                    snapshots.join(", ")
                );
                return refuse(&format!("/dev/{volume}"), &why);
            }
        }
        self.refuse_swapped(&undos().collect::<Vec<_>>(), &desired.name)?;
        // Mounts are judged above, and so is what stands on it: of what has its name. Of others of ours that are on it those are asked.
        let is_mounted = undos().any(|undo| matches!(undo, BuildUndo::Unmount { .. }));
        let is_below = |found: &Running| {
            let holders = sys::names(&self.sys.sys.join("class/block").join(&found.name).join("holders"));
            running.iter().any(|own| holders.contains(&own.name))
        };
        for Running { device, made, is_named, .. } in running.iter().filter(|found| !is_below(found)) {
            let is_swap = undos().any(|undo| {
                let BuildUndo::SwapOff { device: of, label } = undo else { return false };
                of == made && self.swaps(label).iter().any(|swap| self.is_same(swap, of))
            });
            let mut reasons = judge::losers_of_device(&self.sys, device);
            reasons.retain(|reason| match reason.kind {
                RefusalKind::Mounted => !is_mounted || !is_named,
                RefusalKind::Swap => !is_swap,
                _ => true,
            });
            if !reasons.is_empty() {
                return refuse(device, &Refusal { path: device.clone(), reasons }.reasons_in_words());
            }
        }
        Ok(())
    }

    /// What runs of what `undo` would take away: under its name, and an array on its own members under any other.
    fn running(&self, undo: &BuildUndo) -> Result<Vec<Running>, Failure> {
        let Some(made) = made(undo) else { return Ok(Vec::new()) };
        let named = self.kernel_name(&made);
        let mut running = Vec::new();
        if let BuildUndo::StopMd { uuid, members, .. } = undo {
            let mut arrays = mdadm::arrays(&self.sys, self.runner, uuid)?;
            arrays.retain(|name| {
                named.as_ref() != Some(name) && mdadm::strangers(&self.sys, name, members).is_empty()
            });
            running.extend(arrays.into_iter().map(|name| Running {
                made: made.clone(),
                device: format!("/dev/{name}"),
                name,
                is_named: false,
            }));
        }
        running.extend(named.map(|name| Running { device: made.clone(), made, name, is_named: true }));
        Ok(running)
    }

    /// Fails where more is swapped out on what `undos` would switch off than memory and other swap space take up.
    fn refuse_swapped(&self, undos: &[&BuildUndo], name: &str) -> Result<(), Failure> {
        let devices = || {
            undos.iter().filter_map(|undo| match undo {
                BuildUndo::SwapOff { device, .. } => Some(device.as_str()),
                _ => None,
            })
        };
        let swaps = tables::swaps_of(&self.sys);
        let (own, others): (Vec<Swap>, Vec<Swap>) =
            swaps.into_iter().partition(|swap| devices().any(|device| self.is_same(&swap.path, device)));
        let out: u64 = own.iter().map(|swap| swap.used_bytes).sum();
        let memory = sys::text(&self.sys.proc.join("meminfo")).unwrap_or_default();
        let Some(memory) = sys::field_in_kib(&memory, "MemAvailable:") else { return Ok(()) };
        let others = others.iter().map(|swap| swap.size_bytes.saturating_sub(swap.used_bytes));
        let free = others.fold(memory, u64::saturating_add);
        if out <= free {
            return Ok(());
        }
        let (out, free) = (Bytes(out), Bytes(free));
        let why = format!(
            "{out} are swapped out there, and memory and other swap space have {free} free: end programs first"
        );
        Err(in_use(&devices().collect::<Vec<_>>().join(", "), &why, name))
    }

    /// Fails where the kernel, or a program, keeps what was made for itself though nothing of it is mounted here: a file system that is frozen
    /// outlives its mount.
    pub(super) fn refuse_claimed(&self, record: &Record) -> Result<(), Failure> {
        let device = &record.desired.build.device;
        // It may take a moment until the last one has let go.
        let passing = |why: BuildError| match why {
            BuildError::InUse { device, what, .. } => BuildError::InUse { device, what, passing: true },
            other => other,
        };
        let claimed = insist(self.runner, || undo::in_use(&self.sys, device).map_err(passing));
        claimed.map_err(|why| match why {
            BuildError::InUse { what, .. } => in_use(device, &what, &record.desired.name),
            other => other.into(),
        })
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
                // A directory of it may be mounted there in its place.
                let is_own =
                    || Path::new(&mount.mountpoint) == mountpoint && undo::is_ours(&self.sys, mount, from);
                identity::is_of(&self.sys, mount, from) && !(but_own && is_own())
            };
            let mut reasons = judge::mounts_that(&self.sys, &is_of);
            if but_own && undo::mounted(&self.sys, mountpoint, Some(from)).is_ok_and(|other| other.is_none())
            {
                let below = tables::mounts_of(&self.sys);
                let below = below.iter().map(|mount| &mount.mountpoint);
                reasons.extend(self.used_files(mountpoint));
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

    /// Files of what is mounted on `mountpoint` that the kernel itself uses: no program has them open, and they keep it mounted.
    fn used_files(&self, mountpoint: &Path) -> Vec<Reason> {
        let mounts = tables::mounts_of(&self.sys);
        let is_on_it = |file: &str| {
            let mount = tables::seen_at(&mounts, Path::new(file));
            mount.is_some_and(|mount| Path::new(&mount.mountpoint) == mountpoint)
        };
        let swaps = tables::swaps_of(&self.sys).into_iter().filter(|swap| is_on_it(&swap.path));
        let swaps = swaps.map(|Swap { path, .. }| Reason {
            kind: RefusalKind::Swap,
            what: format!("the file {path} on it is swapped to"),
            remedy: format!("`swapoff {path}`"),
        });
        let block = self.sys.sys.join("block");
        let loops = sys::names(&block).into_iter().filter_map(|name| {
            let file = sys::text(&block.join(&name).join("loop/backing_file"))?;
            let file = file.trim_end_matches('\n').to_owned();
            is_on_it(&file).then(|| Reason {
                kind: RefusalKind::Held,
                what: format!("/dev/{name} is a loop device over the file {file} on it"),
                remedy: format!("unmount what is on that, and `losetup -d /dev/{name}`"),
            })
        });
        swaps.chain(loops).collect()
    }
}

/// A device that runs.
struct Running {
    /// What it was made as.
    made: String,
    /// Its path.
    device: String,
    /// The kernel's name for it.
    name: String,
    /// Whether it is found under the name that it was made with.
    is_named: bool,
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
