//! What NVMe drives say of their own health.

use super::{BlockDevice, Devices, Kind};
use crate::nvme::{self, Fetch};
use crate::sys::Sys;
use ebbtide_door::read;

/// Drives of this machine. The health of a network volume is its provider's business, and says nothing here.
const KINDS: [Kind; 2] = [Kind::Nvme, Kind::InstanceStore];

/// Asks every NVMe drive of this machine for its health through `fetch`, which needs root; changes nothing. Drives that have
/// no such page, or may not be asked, stay without.
pub fn ask_health(sys: &Sys, devices: &mut Devices, fetch: Fetch) {
    let nvme = |device: &&mut BlockDevice| {
        KINDS.contains(&device.kind) && device.name.starts_with("nvme") && device.partition_of.is_none()
    };
    for device in devices.devices.iter_mut().filter(nvme) {
        let file = read::open(&sys.dev.join(&device.name)).ok();
        device.health = file.and_then(|file| nvme::page(fetch, &file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::devices;
    use crate::testing::unpack;
    use std::fs::File;
    use std::io;

    fn fetch(_device: &File, namespace: u32, id: u8, page: &mut [u8]) -> io::Result<()> {
        assert_eq!((namespace, id, page.len()), (0xFFFF_FFFF, 2, 512));
        page[5] = 42;
        Ok(())
    }

    fn refused(_device: &File, _namespace: u32, _id: u8, _page: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    #[test]
    fn only_drives_that_may_be_asked_get_their_health() {
        let tree = include_str!("../../tests/trees/arrays.tree");
        let root = unpack(&format!("{tree}\nf /dev/nvme3n1\nf /dev/vdb\nf /dev/md0\n"));
        let sys = Sys::below(root.path());
        let asked = |fetch: Fetch| {
            let mut found = devices(&sys);
            ask_health(&sys, &mut found, fetch);
            found.devices
        };
        let used = |d: &BlockDevice| Some((d.name.clone(), d.health.as_ref()?.used_percent));
        // The other drives of the tree have no node below /dev.
        assert_eq!(asked(fetch).iter().filter_map(used).collect::<Vec<_>>(), [("nvme3n1".to_owned(), 42)]);
        assert_eq!(asked(refused).iter().filter_map(used).count(), 0);
    }
}
