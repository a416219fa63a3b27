//! What runs, and is not as it should be all the same.

use super::super::mdadm;
use super::Keeper;
use super::undo::shown;
use crate::probe::tables;
use crate::sys;
use ebbtide_model::plan::build::{BuildStep, BuildUndo};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::format_count;
use ebbtide_provision::Desired;
use std::path::Path;

/// A device of a design that takes no writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadOnly {
    /// Its path.
    pub device: String,
    /// What ends that.
    pub command: String,
}

impl ReadOnly {
    /// What is told of it where nothing is mounted on it that shows it.
    pub(super) fn told(&self) -> String {
        format!("{} is read-only: `{}` ends that", self.device, self.command)
    }
}

impl Keeper<'_> {
    /// The arrays of `step` that run, by the kernel's names: the one that has its name alone, where there is one, beside which somebody may run another of a
    /// member alone.
    pub(super) fn arrays_of(&self, step: &BuildStep) -> Vec<String> {
        let Some(BuildUndo::StopMd { uuid, device, .. }) = &step.undo else { return Vec::new() };
        let mut found = mdadm::arrays(&self.sys, self.runner, uuid).unwrap_or_default();
        if let Some(name) = self.kernel_name(device).filter(|name| found.contains(name)) {
            found.retain(|array| *array == name);
        }
        found
    }

    /// Devices of `desired` that somebody has made read-only. An array that waits for its first write is none.
    pub(super) fn read_only(&self, desired: &Desired) -> Vec<ReadOnly> {
        let block = self.sys.sys.join("class/block");
        let of_step = |step: &BuildStep| {
            let undo = step.undo.as_ref()?;
            let device = match undo {
                BuildUndo::StopMd { .. } | BuildUndo::RemoveLv { .. } => shown(undo),
                _ => return None,
            };
            let is_readonly = |name: &String| {
                let state = self.sys.sys.join("block").join(name).join("md/array_state");
                sys::word(&state).as_deref() == Some("readonly")
            };
            let is_set = || {
                let name = self.kernel_name(&device);
                name.is_some_and(|name| sys::word(&block.join(name).join("ro")).as_deref() == Some("1"))
            };
            let command = match undo {
                _ if self.arrays_of(step).iter().any(is_readonly) => format!("mdadm --readwrite {device}"),
                _ if !is_set() => return None,
                BuildUndo::RemoveLv { volume } => format!("lvchange --permission rw {volume}"),
                _ => format!("blockdev --setrw {device}"),
            };
            Some(ReadOnly { device, command })
        };
        desired.build.steps.iter().filter_map(of_step).collect()
    }

    /// Why nothing can be written to what is mounted on `mountpoint`, where these devices are `read_only`.
    pub(super) fn takes_no_writes(&self, mountpoint: &Path, read_only: &[ReadOnly]) -> Option<String> {
        let mounts = tables::mounts_of(&self.sys);
        let mount = tables::seen_at(&mounts, mountpoint)
            .filter(|mount| Path::new(&mount.mountpoint) == mountpoint)?;
        let has = |option: &str| mount.has_option(option);
        let (at, fstype) = (mountpoint.shown(), &mount.fstype);
        if let Err(error) = std::fs::metadata(self.sys.at(mountpoint)) {
            return Some(format!(
                "{at} does not answer ({error}): {fstype} has shut down, as after an error of its device. See `dmesg`, unmount it, and check it \
                 before it is mounted again"
            ));
        }
        let option = ["ro", "shutdown", "emergency_ro"].into_iter().find(|option| has(option))?;
        if option == "ro" && !read_only.is_empty() {
            let devices: Vec<&str> = read_only.iter().map(|below| below.device.as_str()).collect();
            let commands: Vec<String> =
                read_only.iter().map(|below| format!("`{}`, then ", below.command)).collect();
            let (devices, commands) = (devices.join(" and "), commands.concat());
            return Some(format!(
                "{at} takes no writes ({fstype}, ro), because {devices} is read-only: {commands}`mount -o remount,rw {at}`"
            ));
        }
        Some(format!(
            "{at} takes no writes ({fstype}, {option}): somebody mounted it so, or an error of its device did. See `dmesg`; without errors \
                 `mount -o remount,rw {at}`, else unmount it and check it first"
        ))
    }

    /// What md does not do of its own accord, or has found, and how many devices it has where the design has another number.
    pub(super) fn said_by_md(&self, desired: &Desired) -> Vec<String> {
        let mut said = Vec::new();
        for step in &desired.build.steps {
            let Some(BuildUndo::StopMd { device, members, .. }) = &step.undo else { continue };
            for array in self.arrays_of(step) {
                if !mdadm::strangers(&self.sys, &array, members).is_empty() {
                    continue;
                }
                let md = self.sys.sys.join("block").join(&array).join("md");
                let word = |file: &str| sys::word(&md.join(file)).unwrap_or_default();
                if word("sync_action") == "frozen" {
                    said.push(format!(
                        "{device} neither resynchronises, rebuilds nor checks, for it is frozen: `echo idle > /sys/block/{array}/md/sync_action` ends that"
                    ));
                }
                let differ = sys::number::<u64>(&md.join("mismatch_cnt")).filter(|sectors| *sectors > 0);
                // After a repair it is what was put right.
                if let Some(sectors) = differ.filter(|_| word("last_sync_action") == "check") {
                    said.push(format!(
                        "the copies or the parity of {device} differ in {}, by its last check: md cannot tell which are right. Compare files with a backup; \
                         `echo repair > /sys/block/{array}/md/sync_action` makes them the same, from the first copy or the data",
                        format_count(sectors, "sector")
                    ));
                }
                said.extend(
                    sys::number::<usize>(&md.join("raid_disks"))
                        .filter(|devices| *devices != members.len())
                        .map(|devices| other_number(device, devices, members.len(), &word("level"))),
                );
            }
        }
        said
    }
}

/// That the array `device` has `devices` where the design has `wanted`. Only a mirror is given more in an instant.
fn other_number(device: &str, devices: usize, wanted: usize, level: &str) -> String {
    let has = format!("{device} has {}, and the design has {wanted}", format_count(devices as u64, "device"));
    match level {
        "raid1" => {
            format!(
                "{has}: `mdadm --grow {device} --raid-devices={wanted}` gives it that number again, before members are added"
            )
        }
        _ => has,
    }
}
