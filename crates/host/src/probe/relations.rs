//! Names of block devices and which is made of which, and nothing else: a look that costs a few system calls per
//! device, where [`devices`](super::devices) costs some fifty.

use crate::sys::{self, DevNum, Sys};
use std::path::Path;

/// A block device among the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// Kernel name.
    pub name: String,
    /// Device number.
    pub dev: DevNum,
    /// Name that people use where it differs (`vg0-data` for `dm-0`).
    pub alias: Option<String>,
    /// The disk that it is a partition of.
    pub partition_of: Option<String>,
    /// Devices that it is made of.
    pub slaves: Vec<String>,
    /// Whether another device is made of it.
    pub held: bool,
}

impl Relation {
    /// The name to print: the alias where there is one.
    pub fn shown_name(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.name)
    }
}

/// Every block device that has a size, in the order in which people count; partitions follow their disk.
pub fn relations(sys: &Sys) -> Vec<Relation> {
    let directory = sys.sys.join("dev/block");
    let mut found: Vec<(Relation, Option<String>)> = std::fs::read_dir(&directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|link| relation(&link.path(), link.file_name().to_str()?))
        .collect();
    found.sort_by(|(a, _), (b, _)| sys::natural_order(&a.name, &b.name));
    let names: Vec<String> = found.iter().map(|(device, _)| device.name.clone()).collect();
    let is_device = |name: &str| names.binary_search_by(|n| sys::natural_order(n, name)).is_ok();
    for (device, parent) in &mut found {
        // The place of a disk ends `.../block/NAME`, or `.../nvme/nvme0/NAME`: no block device is called that.
        device.partition_of = parent.take().filter(|parent| is_device(parent));
    }
    let mut found: Vec<Relation> = found.into_iter().map(|(device, _)| device).collect();
    let held: Vec<String> = found.iter().flat_map(|d| d.slaves.iter().cloned()).collect();
    found.iter_mut().for_each(|d| d.held = held.contains(&d.name));
    found.sort_by(|a, b| {
        let disk = |d: &'_ Relation| d.partition_of.clone().unwrap_or_else(|| d.name.clone());
        sys::natural_order(&disk(a), &disk(b)).then_with(|| sys::natural_order(&a.name, &b.name))
    });
    found
}

/// The device behind a link of /sys/dev/block, and the name of the directory that it is in.
fn relation(link: &Path, number: &str) -> Option<(Relation, Option<String>)> {
    let place = std::fs::read_link(link).ok()?;
    let name = place.file_name()?.to_str()?.to_owned();
    if sys::number::<u64>(&link.join("size"))? == 0 {
        return None;
    }
    // Only devices that the kernel makes up can be made of others.
    let made_up = place.components().any(|part| part.as_os_str() == "virtual");
    let slaves = if made_up { sys::names(&link.join("slaves")) } else { Vec::new() };
    let alias = if name.starts_with("dm-") { sys::word(&link.join("dm/name")) } else { None };
    let parent = place.parent().and_then(Path::file_name).and_then(|p| p.to_str()).map(str::to_owned);
    let alias = alias.filter(|alias| *alias != name);
    let dev = number.parse().ok()?;
    Some((Relation { name, dev, alias, partition_of: None, slaves, held: false }, parent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::devices;
    use crate::testing::unpack;

    /// The same as the whole look has, on a recorded guest and on this host.
    #[test]
    fn relations_are_those_of_the_whole_look() {
        let root = unpack(include_str!("../../tests/trees/arrays.tree"));
        let whole = devices(&Sys::below(root.path()));
        let found = relations(&Sys::below(root.path()));
        let names: Vec<&str> = whole.devices.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(found.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), names);
        assert!(names.len() > 15);
        for (device, relation) in whole.devices.iter().zip(&found) {
            assert_eq!(device.shown_name(), relation.shown_name());
            assert_eq!((device.dev, &device.partition_of), (relation.dev, &relation.partition_of));
            assert_eq!((&device.slaves, !device.holders.is_empty()), (&relation.slaves, relation.held));
        }
        assert!(relations(&Sys::below(Path::new("/no/such"))).is_empty());
    }
}
