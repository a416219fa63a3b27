//! btrfs on devices that the design does not name: somebody has added some, or moved it there.

use super::Keeper;
use super::whose::Other;
use crate::build::undo;
use crate::sys;
use ebbtide_model::shown::Shown;
use ebbtide_provision::Record;
use std::path::Path;

/// Bytes of a btrfs to the end of what is looked at.
const HEAD: u64 = NUMBER_OF_DEVICES as u64 + 8;
/// Where its superblock says on how many devices it is (Linux, `fs/btrfs/accessors.h`, `struct btrfs_super_block`).
const NUMBER_OF_DEVICES: usize = 65_536 + 0x88;

impl Keeper<'_> {
    /// That the btrfs with this label and UUID that was made on `device` is on others, too, or on them alone.
    pub(super) fn spread(&self, record: &Record, device: &str, (label, uuid): (&str, &str)) -> Option<Other> {
        let own = self.kernel_name(device)?;
        let is_on_it = undo::to_wipe(&self.sys, self.runner, device, label, None).is_ok();
        // The kernel lists those of what is mounted.
        let mut others = sys::names(&self.sys.sys.join("fs/btrfs").join(uuid).join("devices"));
        if others.is_empty() && !is_on_it {
            others.extend(self.kernel_name(&format!("/dev/disk/by-uuid/{uuid}")));
        }
        others.retain(|name| *name != own);
        let names = || others.iter().map(|name| format!("/dev/{name}")).collect::<Vec<_>>().join(" ");
        let what = match others.is_empty() {
            true if is_on_it && self.number_of_devices(device).is_some_and(|number| number > 1) => {
                format!("the btrfs on {device} is on other devices, too, which the design does not name")
            }
            true => return None,
            false if is_on_it => {
                let at = record.desired.build.mountpoint.as_ref();
                let back = at.map_or_else(String::new, |at| {
                    format!(
                        ": `btrfs device remove {} {}` has it on {device} alone again",
                        names(),
                        at.shown()
                    )
                });
                format!("the btrfs on {device} is on {} too, which the design does not name{back}", names())
            }
            false => format!(
                "the btrfs that was made on {device} is on {} by now, which the design does not name",
                names()
            ),
        };
        Some(Other { what, has_data: true })
    }

    fn number_of_devices(&self, device: &str) -> Option<u64> {
        let head = sys::beginning(&self.sys.at(Path::new(device)), HEAD)?;
        Some(u64::from_le_bytes(head.get(NUMBER_OF_DEVICES..)?.try_into().ok()?))
    }
}
