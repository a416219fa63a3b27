//! Builds as text: the exact commands, as one would type them.

use super::{Build, BuildAction, BuildStep, BuildUndo, QueueAttribute, QueueSetting};
use crate::shown::Shown;
use std::collections::BTreeSet;
use std::fmt;

/// `word` as a shell takes it: in quotes where it has signs that a shell would read.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn command(program: &str, arguments: &[String]) -> String {
    line(&std::iter::once(program).chain(arguments.iter().map(String::as_str)).collect::<Vec<_>>())
}

fn line(words: &[&str]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

impl fmt::Display for BuildAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildAction::Run { program, arguments } => write!(f, "{}", command(program, arguments)),
            BuildAction::RunWithKey { program, arguments } => {
                write!(
                    f,
                    "{}  # on its standard input: the key that is asked for",
                    command(program, arguments)
                )
            }
            BuildAction::SetQueue(setting) => write!(f, "{setting}"),
            BuildAction::MakeDirectory(path) => {
                write!(f, "mkdir --mode=700 {}", quoted(&path.to_string_lossy()))
            }
            BuildAction::EqualPvs { group } => {
                write!(
                    f,
                    "check that pv_pe_count is the same for all of {group}: LVM would order unequal ones by size"
                )
            }
            BuildAction::WaitLv { volume } => write!(f, "wait until sync_percent of {volume} is 100"),
        }
    }
}

impl fmt::Display for QueueSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, directory, file) =
            (quoted(&self.value), self.attribute.directory(), self.attribute.file());
        // Only names directly below /dev are the kernel's own.
        match self.device.strip_prefix("/dev/").filter(|name| !name.contains('/')) {
            Some(name) => write!(f, "echo {value} > /sys/class/block/{name}/{directory}/{file}")?,
            None => write!(
                f,
                "echo {value} > /sys/class/block/$(lsblk -dno KNAME {})/{directory}/{file}",
                quoted(&self.device)
            )?,
        }
        // What people who use `blockdev --setra` count in.
        match (self.attribute, self.value.parse::<u64>()) {
            (QueueAttribute::ReadAheadKb, Ok(kib)) => {
                write!(f, "  # {} sectors of 512 bytes", kib.saturating_mul(2))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for BuildUndo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildUndo::DetachLoop { device, .. } => write!(f, "losetup --detach {}", quoted(device)),
            BuildUndo::RestoreQueue { set, old } => {
                let old = old.as_deref().unwrap_or("what it was");
                write!(f, "{} of {} back to {old}", set.attribute.file(), set.device)
            }
            BuildUndo::RemoveDirectory(path) => write!(f, "rmdir {}", quoted(&path.to_string_lossy())),
            BuildUndo::StopMd { device, members, .. } => {
                let members: Vec<&str> = members.iter().map(String::as_str).collect();
                write!(f, "mdadm --stop {device}; mdadm --zero-superblock {}", line(&members))
            }
            BuildUndo::RemovePv { device, .. } => write!(f, "pvremove --yes {}", quoted(device)),
            BuildUndo::RemoveVg { name } => write!(f, "vgremove --yes {name}"),
            BuildUndo::RemoveLv { volume } => write!(f, "lvremove --yes {volume}"),
            BuildUndo::Uncache { volume } => write!(f, "lvconvert --yes --uncache {volume}"),
            BuildUndo::WipeContent { device, label, .. } => {
                write!(f, "wipefs --all {}  # if its label is {label}", quoted(device))
            }
            BuildUndo::SwapOff { device, .. } => write!(f, "swapoff {}", quoted(device)),
            BuildUndo::CloseCrypt { name, .. } => write!(f, "cryptsetup close {name}"),
            BuildUndo::Unmake(thing) => write!(f, "ebb undo {}", quoted(&thing.name)),
            BuildUndo::RemoveGroup(path) => write!(f, "rmdir {}", quoted(&path.to_string_lossy())),
            BuildUndo::EndLoad { directory, .. } => {
                write!(f, "end its processes; rm -r {}", quoted(&directory.to_string_lossy()))
            }
            BuildUndo::Unmount { mountpoint, .. } => {
                write!(f, "umount {}", quoted(&mountpoint.to_string_lossy()))
            }
        }
    }
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, BuildStep { action, undo }) in (1..).zip(&self.steps) {
            writeln!(f, "{number:>4}. {action}")?;
            if let Some(undo) = undo {
                writeln!(f, "      [undo: {undo}]")?;
            }
        }
        if let Some(mountpoint) = &self.mountpoint {
            writeln!(f, "      trials use a file below {}", mountpoint.shown())?;
        } else {
            writeln!(f, "      trials use {}", self.device)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "      note: {note}"))
    }
}

impl BuildUndo {
    /// Programs that it needs.
    pub fn programs(&self) -> &'static [&'static str] {
        match self {
            BuildUndo::DetachLoop { .. } => &["losetup"],
            BuildUndo::RestoreQueue { .. }
            | BuildUndo::RemoveDirectory(_)
            | BuildUndo::RemoveGroup(_)
            | BuildUndo::EndLoad { .. }
            | BuildUndo::Unmake(_) => &[],
            BuildUndo::StopMd { .. } => &["mdadm"],
            BuildUndo::RemovePv { .. } => &["pvs", "pvremove"],
            BuildUndo::RemoveVg { .. } => &["vgs", "vgremove"],
            BuildUndo::RemoveLv { .. } => &["lvs", "lvremove"],
            BuildUndo::Uncache { .. } => &["lvconvert", "lvs", "lvremove"],
            BuildUndo::WipeContent { .. } => &["blkid", "wipefs"],
            BuildUndo::SwapOff { .. } => &["blkid", "swapoff"],
            BuildUndo::CloseCrypt { .. } => &["cryptsetup"],
            BuildUndo::Unmount { .. } => &["umount"],
        }
    }
}

/// Every program that `steps` and their undoing run, sorted.
pub(super) fn programs(steps: &[BuildStep]) -> Vec<String> {
    let mut programs = BTreeSet::new();
    for step in steps {
        match &step.action {
            BuildAction::Run { program, .. } | BuildAction::RunWithKey { program, .. } => {
                programs.insert(program.as_str());
            }
            BuildAction::EqualPvs { .. } => {
                programs.insert("pvs");
            }
            BuildAction::WaitLv { .. } => {
                programs.insert("lvs");
            }
            BuildAction::SetQueue(_) | BuildAction::MakeDirectory(_) => {}
        }
        programs.extend(step.undo.iter().flat_map(|undo| undo.programs()));
    }
    programs.into_iter().map(str::to_owned).collect()
}
