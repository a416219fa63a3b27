//! The devices below the members: what they are, before anything is counted.

use super::remote;
use crate::graph::dm::Tables;
use crate::graph::{Graph, Node, Place};
use crate::probe::{Kind, classify_disk};
use crate::sys::{self, Sys};
use ebbtide_model::graph::Layers;
use ebbtide_model::samples::{Below, DeviceObservation, Encryption};
use ebbtide_model::units::Bytes;
use std::path::Path;

/// Adds those devices below a place of the graph that are not among `devices` yet; the place of each of them there.
pub(super) fn add(
    sys: &Sys,
    tables: &Tables<'_>,
    (graph, place): (&Graph, &Place),
    devices: &mut Vec<DeviceObservation>,
) -> (Vec<usize>, Below) {
    let below = graph.all_below(&place.below.devices);
    let places: Vec<usize> = below
        .iter()
        .map(|at| {
            let node = &graph.nodes[*at];
            devices.iter().position(|device| device.name == node.name).unwrap_or_else(|| {
                let seen = describe(sys, &node.name, &node.dev.to_string());
                let encryption = encryption(sys, tables, node);
                devices.push(DeviceObservation { alias: node.alias.clone(), encryption, ..seen });
                devices.len() - 1
            })
        })
        .collect();
    let placed = |of: &Below| {
        let place = |device: &usize| places.get(below.iter().position(|at| at == device)?).copied();
        Below { devices: of.devices.iter().filter_map(place).collect(), ..of.clone() }
    };
    for (at, place) in below.iter().zip(&places) {
        devices[*place].below = Some(placed(&graph.nodes[*at].made));
    }
    let tops = placed(&place.below);
    (places, tops)
}

/// Remote: a network file system, or a disk that is reached over a network.
pub(super) fn is_remote(sys: &Sys, graph: &Graph, place: &Place) -> bool {
    remote::of_place(place).is_some()
        || graph.disks_below(&place.below.devices).into_iter().any(|disk| {
            // EBS has a link of its own, which no interface of the guest shows.
            matches!(
                classify_disk(sys, &graph.nodes[disk].name),
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
fn encryption(sys: &Sys, tables: &Tables<'_>, node: &Node) -> Option<Encryption> {
    /// Beginnings of the uuids of mappings that do something else, which need no asking.
    const OTHERS: [&str; 3] = ["LVM-", "mpath-", "part"];
    let uuid = Some(&node.dm_uuid).filter(|_| node.name.starts_with("dm-"))?;
    if OTHERS.iter().any(|other| uuid.starts_with(other)) {
        return None;
    }
    let unseen = || uuid.starts_with("CRYPT-").then(Encryption::default);
    let found = tables.encryption(node.shown_name()).or_else(unseen)?;
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
        let root = unpack("f /proc/cpuinfo\n|processor\t: 0\n|flags\t\t: fpu vme sse4_2 aes xsave avx\n");
        let sys = Sys::below(root.path());
        let seen = |name: &str, uuid: &str| {
            let node = Node { name: name.to_owned(), dm_uuid: uuid.to_owned(), ..Node::default() };
            encryption(&sys, &Tables::of_host(&sys), &node)
        };
        let expected = Encryption { aes_instructions: Some(true), ..Encryption::default() };
        assert_eq!(
            (seen("dm-0", "CRYPT-LUKS2-5ca0e8bd-secret"), seen("dm-1", "LVM-x"), seen("sda", "")),
            (Some(expected), None, None)
        );
        assert_eq!(aes_instructions("flags : fpu sse4_2\n"), Some(false));
        assert_eq!(aes_instructions("processor : 0\n"), None);
    }
}
