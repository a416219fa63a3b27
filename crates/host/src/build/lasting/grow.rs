//! Members that became larger: what stands on them takes it up, from below up, while it is used.

use super::{Failure, Keeper};
use crate::build::run;
use crate::sys;
use ebbtide_model::layout::{ArrayKind, LayoutNode};
use ebbtide_model::plan::build::{BuildUndo, LASTING_LVM_CONFIG};
use ebbtide_model::stack::Filesystem;
use ebbtide_model::units::Bytes;
use ebbtide_provision::Record;

/// Sectors of sysfs (`/sys/class/block/NAME/size`).
const SECTOR: u64 = 512;

impl Keeper<'_> {
    /// Bytes of each member now.
    fn sizes(&self, record: &Record) -> Vec<Option<u64>> {
        let size = |path: &str| {
            let name = self.kernel_name(path)?;
            sys::number::<u64>(&self.sys.sys.join("class/block").join(name).join("size"))?.checked_mul(SECTOR)
        };
        record.desired.members.iter().map(|member| size(&member.path)).collect()
    }

    /// Members that are larger than when all of them was last taken up, in words.
    pub(super) fn grown(&self, record: &Record) -> Vec<String> {
        let now = self.sizes(record);
        let members = record.desired.members.iter().zip(&record.sizes).zip(now);
        members
            .filter_map(|((member, before), now)| {
                let (before, now) = ((*before)?, now?);
                (now > before).then(|| {
                    format!(
                        "volume {} has grown from {} to {}",
                        member.name,
                        Bytes(before).short(),
                        Bytes(now).short()
                    )
                })
            })
            .collect()
    }

    /// The commands that take up what members have grown by, each of which does nothing where there is nothing to take up; none where the
    /// layout cannot grow in place.
    pub(super) fn growth(&self, record: &Record) -> Option<Vec<Vec<String>>> {
        let desired = &record.desired;
        if desired.cache.is_some() || !can_grow(&desired.layout, self.is_lvm(record)) {
            return None;
        }
        let mut commands: Vec<Vec<String>> = Vec::new();
        let mut add = |words: &[&str]| commands.push(words.iter().map(|&word| word.to_owned()).collect());
        let config = ["--config", LASTING_LVM_CONFIG];
        for step in &desired.build.steps {
            match &step.undo {
                Some(BuildUndo::StopMd { device, .. }) => add(&["mdadm", "--grow", device, "--size=max"]),
                Some(BuildUndo::RemovePv { device, .. }) => {
                    add(&[&["pvresize"], &config[..], &[device]].concat())
                }
                Some(BuildUndo::RemoveLv { volume }) => {
                    add(&[&["lvextend"], &config[..], &["--extents", "+100%FREE", volume]].concat());
                }
                Some(BuildUndo::CloseCrypt { name, .. }) => {
                    let key = key_file(&step.action.to_string());
                    add(&["cryptsetup", "resize", "--key-file", key.as_deref().unwrap_or("-"), name]);
                }
                Some(BuildUndo::Unmount { mountpoint, .. }) => {
                    let place = mountpoint.to_string_lossy();
                    match desired.filesystem {
                        Some(Filesystem::Ext2 | Filesystem::Ext3 | Filesystem::Ext4) => {
                            add(&["resize2fs", &desired.build.device])
                        }
                        Some(Filesystem::Xfs) => add(&["xfs_growfs", &place]),
                        Some(Filesystem::Btrfs) => add(&["btrfs", "filesystem", "resize", "max", &place]),
                        Some(Filesystem::Jfs) => add(&["mount", "-o", "remount,resize", &place]),
                        None => {}
                    }
                }
                _ => {}
            }
        }
        Some(commands)
    }

    fn is_lvm(&self, record: &Record) -> bool {
        record.desired.build.steps.iter().any(|step| matches!(step.undo, Some(BuildUndo::RemoveLv { .. })))
    }

    /// Why members that have grown stay as they are used.
    pub(super) fn cannot_grow(&self, record: &Record) -> Vec<String> {
        let why = if record.desired.cache.is_some() {
            "an array with a cache is not grown in place, so that it is left unused"
        } else {
            "md cannot grow the members of RAID0, linear or nested arrays in place, so that it is left unused; with `backing = \"lvm\"` it could be \
                   taken up"
        };
        self.grown(record).into_iter().map(|grown| format!("{grown}: {why}")).collect()
    }

    /// Takes up what members have grown by; how many commands that took. What is taken up is in the record.
    pub(super) fn grow(&self, record: &mut Record) -> Result<usize, Failure> {
        let now = self.sizes(record);
        if record.sizes == now {
            return Ok(0);
        }
        let mut count = 0;
        if !self.grown(record).is_empty() {
            let Some(commands) = self.growth(record) else {
                self.cannot_grow(record).iter().for_each(|why| (self.tell)(why));
                return Ok(0);
            };
            for words in commands {
                self.next()?;
                let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
                (self.tell)(&words.join(" "));
                match run(self.runner, &words[0], &arguments) {
                    Ok(_) => {}
                    // LVM calls it a failure where there is nothing to take up any more.
                    Err(error)
                        if words[0] == "lvextend"
                            && error.to_string().contains("not larger than existing size") => {}
                    Err(error) => return Err(error.into()),
                }
                (self.boundary)();
                count += 1;
            }
        }
        record.sizes = now;
        self.write(record)?;
        Ok(count)
    }
}

/// Whether an array takes up what its members grow by, while it is used.
fn can_grow(layout: &LayoutNode, lvm: bool) -> bool {
    let LayoutNode::Array { kind, members } = layout else { return true };
    let flat = members.iter().all(|member| matches!(member, LayoutNode::Volume(_)));
    // A single volume is used as it is.
    let bare = *kind == ArrayKind::Linear && members.len() == 1;
    flat && (bare || lvm || kind.grows_in_use())
}

/// The file that the command `open` gives as key.
fn key_file(open: &str) -> Option<String> {
    let mut words = open.split_whitespace();
    words.find(|word| *word == "--key-file")?;
    words.next().map(str::to_owned)
}
