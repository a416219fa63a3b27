//! What stands on what: a step that cannot be put back keeps those below it from being put back under it.

use super::BuildUndo;
use std::path::Path;

impl BuildUndo {
    /// Whether what this step made stands on what `below`, an earlier one, made. Where the steps do not name what they
    /// stand on (a volume group its members, a mapping its device), it may.
    pub fn stands_on(&self, below: &BuildUndo) -> bool {
        use BuildUndo as Undo;
        match (self, below) {
            (Undo::RestoreQueue { .. }, _) | (_, Undo::RestoreQueue { .. }) => false,
            (Undo::EndLoad { directory, .. }, Undo::Unmount { mountpoint, .. }) => {
                directory.starts_with(mountpoint)
            }
            (Undo::EndLoad { directory, .. }, Undo::RemoveDirectory(above)) => directory.starts_with(above),
            (Undo::EndLoad { .. }, _) | (_, Undo::EndLoad { .. }) => false,
            (Undo::RemoveGroup(_) | Undo::Unmake(_), _) => false,
            (_, Undo::RemoveGroup(_) | Undo::Unmake(_)) => false,
            (Undo::RemoveDirectory(path), Undo::RemoveDirectory(above)) => path.starts_with(above),
            (Undo::Unmount { mountpoint, .. }, Undo::RemoveDirectory(path)) => mountpoint.starts_with(path),
            (Undo::RemoveDirectory(_), _) | (_, Undo::RemoveDirectory(_)) => false,
            (Undo::CloseCrypt { .. }, _) | (Undo::Unmount { from: None, .. }, _) => true,
            (Undo::RemoveVg { .. }, Undo::RemovePv { .. }) => true,
            (Undo::RemoveLv { volume }, Undo::RemoveVg { name }) => {
                volume.split_once('/').is_some_and(|(group, _)| group == name)
            }
            (Undo::Uncache { volume }, Undo::RemoveLv { volume: below }) => volume == below,
            (Undo::StopMd { members, .. }, below) => members.iter().any(|member| below.is_on(member)),
            (
                Undo::WipeContent { device, .. }
                | Undo::SwapOff { device, .. }
                | Undo::RemovePv { device, .. },
                below,
            ) => below.is_on(device),
            (Undo::Unmount { from: Some(from), .. }, below) => below.is_on(&from.device),
            (
                Undo::DetachLoop { .. }
                | Undo::RemoveVg { .. }
                | Undo::RemoveLv { .. }
                | Undo::Uncache { .. },
                _,
            ) => false,
        }
    }

    /// Whether this step made the device at `path`, or something on it.
    fn is_on(&self, path: &str) -> bool {
        match self {
            BuildUndo::DetachLoop { device, .. }
            | BuildUndo::StopMd { device, .. }
            | BuildUndo::RemovePv { device, .. }
            | BuildUndo::WipeContent { device, .. }
            | BuildUndo::SwapOff { device, .. } => device == path,
            BuildUndo::RemoveLv { volume } => Path::new("/dev").join(volume) == Path::new(path),
            BuildUndo::CloseCrypt { name, .. } => Path::new("/dev/mapper").join(name) == Path::new(path),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Mounted, QueueAttribute, QueueSetting};
    use super::*;

    #[test]
    fn each_layer_stands_on_the_one_below_it_and_on_no_other() {
        let text = |text: &str| text.to_owned();
        let detach = |number: u32| BuildUndo::DetachLoop {
            device: format!("/dev/loop{number}"),
            file: format!("/v/{number}").into(),
            id: None,
            sequence: None,
        };
        let mount = |path: &str, device: &str| BuildUndo::Unmount {
            mountpoint: path.into(),
            from: Some(Mounted { device: text(device), fstype: None, number: None }),
        };
        let wipe = |device: &str| BuildUndo::WipeContent {
            device: text(device),
            label: text("ebb00000000"),
            sequence: None,
        };
        let pv = BuildUndo::RemovePv { device: text("/dev/loop1"), uuid: text("u") };
        let vg = BuildUndo::RemoveVg { name: text("ebb_r") };
        let lv = BuildUndo::RemoveLv { volume: text("ebb_r/data") };
        let md = BuildUndo::StopMd {
            device: text("/dev/md200"),
            uuid: text("u"),
            members: vec![text("/dev/ebb_r/data"), text("/dev/loop2")],
        };
        let uncache = BuildUndo::Uncache { volume: text("ebb_r/data") };
        assert!(uncache.stands_on(&lv) && !lv.stands_on(&uncache) && !uncache.stands_on(&vg));
        let close = BuildUndo::CloseCrypt { name: text("ebb_r"), of: None };
        let directory = BuildUndo::RemoveDirectory("/run/ebbtide/r".into());
        let mapper = "/dev/mapper/ebb_r";
        // From the top down; each with the next.
        let tower = [
            mount("/run/ebbtide/r", mapper),
            wipe(mapper),
            close.clone(),
            wipe("/dev/md200"),
            md.clone(),
            lv.clone(),
            vg.clone(),
            pv.clone(),
            detach(1),
        ];
        for pair in tower.windows(2) {
            assert!(pair[0].stands_on(&pair[1]), "{} on {}", pair[0], pair[1]);
            assert!(!pair[1].stands_on(&pair[0]) || pair[1] == close, "{} on {}", pair[1], pair[0]);
        }
        assert!(md.stands_on(&detach(2)) && !md.stands_on(&detach(3)));
        assert!(mount("/run/ebbtide/r", mapper).stands_on(&directory));
        assert!(!mount("/run/ebbtide/other", mapper).stands_on(&directory));
        assert!(!lv.stands_on(&BuildUndo::RemoveVg { name: text("ebb_s") }));
        assert!(!detach(1).stands_on(&detach(2)) && !wipe("/dev/loop1").stands_on(&detach(2)));
        let set = QueueSetting {
            device: text("/dev/loop1"),
            attribute: QueueAttribute::ReadAheadKb,
            value: text("1"),
        };
        let queue = BuildUndo::RestoreQueue { set, old: None };
        assert!(!queue.stands_on(&detach(1)) && !close.stands_on(&queue));
    }
}
