//! What `ebb` calls what it makes: a step of a journal that names anything else is not put back.

use super::identity::tag;
use super::{BuildUndo, LOAD, MOUNTS};
use std::path::{Component, Path, PathBuf};

/// `text` is the name of something of the run with `tag`, or of one of its designs.
fn is_of_run(text: &str, tag: &str) -> bool {
    !tag.is_empty()
        && text.strip_prefix(tag).is_some_and(|rest| {
            (rest.is_empty() || rest.starts_with('_'))
                && rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
}

/// `ebb` and eight hexadecimal digits, see `Identity::label`.
fn is_label(label: &str) -> bool {
    label.strip_prefix("ebb").is_some_and(|rest| rest.len() == 8 && rest.bytes().all(is_lower_hex))
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn is_md_uuid(uuid: &str) -> bool {
    let groups: Vec<&str> = uuid.split(':').collect();
    groups.len() == 4 && groups.iter().all(|group| group.len() == 8 && group.bytes().all(is_lower_hex))
}

fn is_lvm_uuid(uuid: &str) -> bool {
    let groups: Vec<&str> = uuid.split('-').collect();
    groups.iter().map(|group| group.len()).eq([6, 4, 4, 4, 4, 4, 6])
        && groups.concat().bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn is_numbered(device: &str, prefix: &str) -> bool {
    device
        .strip_prefix(prefix)
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A device node below /dev, whatever it leads to.
fn is_device(device: &str) -> bool {
    let mut parts = device.strip_prefix("/dev/").unwrap_or_default().split('/');
    parts.all(|part| !part.is_empty() && part != "." && part != "..")
}

fn is_mountpoint(path: &Path, tag: &str) -> bool {
    path.parent() == Some(Path::new(MOUNTS))
        && path.file_name().and_then(|name| name.to_str()).is_some_and(|name| is_of_run(name, tag))
}

/// What the run called `run` makes by its own name in `above`: a directory for its files, a control group.
pub fn named_after(above: &Path, run: &str) -> PathBuf {
    above.join(format!("ebbtide-{run}"))
}

fn is_named_after(path: &Path, run: &str) -> bool {
    !run.is_empty()
        && path.is_absolute()
        && path.components().all(|part| !matches!(part, Component::ParentDir))
        && path.parent().is_some_and(|above| named_after(above, run) == path)
}

/// Whether it is the directory that programs, as the load of the run called `run`, have on what is measured: below a mount point of the run's,
/// or in the directory that it makes in one that stands.
pub fn is_load(directory: &Path, run: &str) -> bool {
    let is_ours = |above: &Path| is_mountpoint(above, &tag(run)) || is_named_after(above, run);
    directory.file_name().is_some_and(|name| name == LOAD) && directory.parent().is_some_and(is_ours)
}

impl BuildUndo {
    /// Whether what it puts back has a name, label or uuid as the run called `run` gives them.
    pub fn is_of(&self, run: &str) -> bool {
        let tag = tag(run);
        let ours = |name: &str| name.strip_prefix("ebb_").is_some_and(|name| is_of_run(name, &tag));
        match self {
            BuildUndo::DetachLoop { device, file, .. } => {
                is_numbered(device, "/dev/loop") && file.is_absolute()
            }
            BuildUndo::RestoreQueue { set, .. } => is_device(&set.device),
            BuildUndo::RemoveDirectory(path) => {
                path == Path::new(MOUNTS) || is_mountpoint(path, &tag) || is_named_after(path, run)
            }
            BuildUndo::StopMd { uuid, members, .. } => {
                is_md_uuid(uuid) && members.iter().all(|member| is_device(member))
            }
            BuildUndo::RemovePv { uuid, .. } => is_lvm_uuid(uuid),
            BuildUndo::RemoveVg { name } | BuildUndo::CloseCrypt { name, .. } => ours(name),
            BuildUndo::RemoveLv { volume } | BuildUndo::Uncache { volume } => {
                volume.split_once('/').is_some_and(|(group, name)| ours(group) && name == "data")
            }
            BuildUndo::WipeContent { device, label, .. } => is_device(device) && is_label(label),
            BuildUndo::SwapOff { label, .. } => is_label(label),
            BuildUndo::RemoveGroup(path) => is_named_after(path, run),
            BuildUndo::Unmount { mountpoint, .. } => is_mountpoint(mountpoint, &tag),
            BuildUndo::EndLoad { run: of, directory } => of == run && is_load(directory, run),
            BuildUndo::Unmake(thing) => thing.is_named(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{Kind, Thing};

    const RUN: &str = "20261122-123909-a070";

    #[test]
    fn what_is_not_named_as_a_run_names_it_is_nobody_s_to_put_back() {
        let device = || "/dev/loop1".to_owned();
        let unmount = |path: &str| BuildUndo::Unmount { mountpoint: path.into(), from: None };
        let wipe = |device: &str, label: &str| BuildUndo::WipeContent {
            device: device.to_owned(),
            label: label.to_owned(),
            sequence: None,
        };
        let group = |name: &str| BuildUndo::RemoveVg { name: name.to_owned() };
        let attached = |name: &str| {
            BuildUndo::Unmake(Thing { kind: Kind::Attached, name: name.to_owned(), id: "x".to_owned() })
        };
        let md = |uuid: &str| BuildUndo::StopMd {
            device: "/dev/md200".to_owned(),
            uuid: uuid.to_owned(),
            members: vec![device()],
        };
        for ours in [
            unmount("/run/ebbtide/20261122_123909_a070"),
            unmount("/run/ebbtide/20261122_123909_a070_design"),
            wipe("/dev/mapper/ebb_x", "ebb0123abcd"),
            group("ebb_20261122_123909_a070_0"),
            md("00112233:44556677:8899aabb:ccddeeff"),
            BuildUndo::RemoveDirectory("/run/ebbtide".into()),
            BuildUndo::RemoveGroup("/sys/fs/cgroup/ebbtide-20261122-123909-a070".into()),
            BuildUndo::DetachLoop { device: device(), file: "/v/f".into(), id: None, sequence: None },
            attached("backup_1"),
        ] {
            assert!(ours.is_of(RUN), "{ours}");
        }
        for other in [
            attached("../../etc/passwd"),
            unmount("/any/mount"),
            unmount("/run/ebbtide/20261122_123909_b070"),
            unmount("/run/ebbtide/20261122_123909_a0701"),
            unmount("/run/ebbtide/20261122_123909_a070/.."),
            unmount("/run/ebbtide/20261122_123909_a070/in"),
            wipe("/dev/loop1", "MYDATA"),
            wipe("/dev/loop1", "ebb0123abcX"),
            wipe("/dev/../v/f", "ebb0123abcd"),
            wipe("/v/f", "ebb0123abcd"),
            group("data"),
            group("ebb_"),
            md("1"),
            BuildUndo::RemoveDirectory("/any/empty".into()),
            BuildUndo::RemoveGroup("/sys/fs/cgroup/system.slice".into()),
            BuildUndo::RemoveGroup("/sys/fs/cgroup/ebbtide-20261122-123909-a071".into()),
            BuildUndo::RemoveGroup("sys/ebbtide-20261122-123909-a070".into()),
            BuildUndo::DetachLoop {
                device: "/dev/sda".into(),
                file: "/v/f".into(),
                id: None,
                sequence: None,
            },
        ] {
            assert!(!other.is_of(RUN), "{other}");
        }
        assert!(!group("ebb__0").is_of(""), "a run without a name owns nothing");
    }
}
