//! The devices below the members: what they are, before anything is counted.

use super::remote;
use crate::chain::{self, Chain};
use crate::probe::dm::Tables;
use crate::probe::{Kind, classify_disk};
use crate::sys::{self, Sys};
use ebbtide_model::samples::{Below, DeviceObservation, Encryption};
use ebbtide_model::units::Bytes;
use std::path::Path;

/// Adds the devices of `chain` that are not among `devices` yet; the place of each of its links there.
pub(super) fn add(
    sys: &Sys,
    tables: &Tables<'_>,
    chain: &Chain,
    devices: &mut Vec<DeviceObservation>,
) -> Vec<usize> {
    let places: Vec<usize> = chain
        .links
        .iter()
        .map(|link| {
            devices.iter().position(|d| d.name == link.name).unwrap_or_else(|| {
                let seen = describe(sys, &link.name, &link.dev.to_string());
                let encryption = encryption(sys, tables, &link.dev.to_string());
                devices.push(DeviceObservation { alias: link.alias.clone(), encryption, ..seen });
                devices.len() - 1
            })
        })
        .collect();
    for (link, place) in chain.links.iter().zip(&places) {
        devices[*place].below = Some(placed(&link.below, &places));
    }
    places
}

/// What lies below a link, where its links are at these places.
pub(super) fn placed(below: &chain::Below, places: &[usize]) -> Below {
    let devices = below.links.iter().filter_map(|link| places.get(*link).copied());
    Below { devices: devices.collect(), join: below.join, missing: below.missing }
}

/// Remote: a network file system, or a disk that is reached over a network.
pub(super) fn is_remote(sys: &Sys, chain: &Chain) -> bool {
    remote::of_chain(chain).is_some()
        || chain.disks().any(|disk| {
            // EBS has a link of its own, which no interface of the guest shows.
            matches!(
                classify_disk(sys, &disk.name),
                Kind::Iscsi | Kind::NvmeFabric | Kind::Nbd | Kind::Rbd | Kind::Drbd
            )
        })
}

pub(super) fn describe(sys: &Sys, name: &str, number: &str) -> DeviceObservation {
    let place = sys.sys.join("dev/block").join(number);
    let queue = sys::queue(&place);
    let value = |attribute: &str| queue.as_ref().and_then(|q| sys::number::<u64>(&q.join(attribute)));
    let kib = |attribute: &str| value(attribute).and_then(|v| v.checked_mul(1024)).map(Bytes);
    DeviceObservation {
        name: name.to_owned(),
        number: number.to_owned(),
        max_request: kib("max_sectors_kb"),
        readahead: kib("read_ahead_kb"),
        scheduler: queue
            .as_ref()
            .and_then(|q| sys::text(&q.join("scheduler")))
            .and_then(|list| sys::chosen(&list).map(str::to_owned)),
        nr_requests: value("nr_requests").and_then(|v| v.try_into().ok()),
        hardware_queues: hardware_queues(queue.as_deref()),
        device_depth: queue
            .as_ref()
            .and_then(|q| sys::number(&q.with_file_name("device").join("queue_depth"))),
        rotational: value("rotational").map(|v| v == 1),
        page_cached: sys::number::<u8>(&place.join("loop/dio")) == Some(0),
        ..DeviceObservation::default()
    }
}

/// Queues to the hardware of the disk whose `queue` this is; what is made of other devices has none.
fn hardware_queues(queue: Option<&Path>) -> Option<u32> {
    let queues = sys::names(&queue?.with_file_name("mq"));
    u32::try_from(queues.len()).ok().filter(|number| *number > 0)
}

/// How the device of this number encrypts.
fn encryption(sys: &Sys, tables: &Tables<'_>, number: &str) -> Option<Encryption> {
    /// Beginnings of the uuids of mappings that do something else, which need no asking.
    const OTHERS: [&str; 3] = ["LVM-", "mpath-", "part"];
    let mapping = sys.sys.join("dev/block").join(number).join("dm");
    let name = sys::word(&mapping.join("name"))?;
    let uuid = sys::word(&mapping.join("uuid")).unwrap_or_default();
    if OTHERS.iter().any(|other| uuid.starts_with(other)) {
        return None;
    }
    let unseen = || uuid.starts_with("CRYPT-").then(Encryption::default);
    let found = tables.encryption(&name).or_else(unseen)?;
    let cpuinfo = sys::text(&sys.proc.join("cpuinfo")).unwrap_or_default();
    Some(Encryption { aes_instructions: aes_instructions(&cpuinfo), ..found })
}

/// Whether `/proc/cpuinfo` lists instructions for AES: `flags` on x86, `Features` on ARM; nothing where it lists none at all.
fn aes_instructions(cpuinfo: &str) -> Option<bool> {
    let flags = sys::value(cpuinfo, &["flags", "Features"])?;
    Some(flags.split_ascii_whitespace().any(|flag| flag == "aes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    /// The table is that of a guest with Linux 6.1; the flags are a part of those of an Intel Xeon.
    #[test]
    fn a_mapping_that_encrypts_is_told_from_others() {
        let root = unpack(
            "f /sys/dev/block/253:0/dm/name\n|secret\nf /sys/dev/block/253:0/dm/uuid\n|CRYPT-LUKS2-5ca0e8bd-secret\n\
             f /sys/dev/block/253:1/dm/name\n|vg-one\nf /sys/dev/block/253:1/dm/uuid\n|LVM-x\n\
             f /proc/cpuinfo\n|processor\t: 0\n|flags\t\t: fpu vme sse4_2 aes xsave avx\n",
        );
        let sys = Sys::below(root.path());
        let seen = |number: &str| encryption(&sys, &Tables::of_host(&sys), number);
        let expected = Encryption { aes_instructions: Some(true), ..Encryption::default() };
        assert_eq!((seen("253:0"), seen("253:1"), seen("8:0")), (Some(expected), None, None));
        assert_eq!(aes_instructions("flags : fpu sse4_2\n"), Some(false));
        assert_eq!(aes_instructions("processor : 0\n"), None);
    }
}
