//! Recorded hosts: a guest with NVMe, md, LVM, LUKS and swap (`arrays.tree`).

use super::*;
use crate::testing::unpack;

const ARRAYS: &str = include_str!("../../tests/trees/arrays.tree");

fn recorded(text: &str) -> Devices {
    let root = unpack(text);
    devices(&Sys::below(root.path()))
}

#[test]
fn the_whole_tree_is_found_in_counting_order() {
    let found = recorded(ARRAYS);
    let names: Vec<&str> = found.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "dm-0", "dm-1", "md0", "md1", "md2", "nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1", "vda", "vdb",
            "vdb1", "vdb2", "vdc", "vdc1", "vdc2", "vdd", "vde"
        ]
    );
}

#[test]
fn an_array_knows_its_members_and_its_state() {
    let found = recorded(ARRAYS);
    let md0 = found.get("md0").expect("md0");
    assert_eq!(md0.kind, Kind::Md);
    assert_eq!(md0.slaves, ["nvme0n1", "nvme1n1"]);
    assert_eq!(md0.mounts[0].mountpoint, "/mnt/a");
    let array = md0.md.as_ref().expect("array");
    assert_eq!((array.level.as_str(), array.chunk, array.members), ("raid0", Some(Bytes(256 * 1024)), 2));
    let resync = found.get("md1").and_then(|d| d.md.as_ref()).expect("md1");
    assert_eq!(resync.action.as_deref(), Some("resync"));
    assert!(resync.done.is_some_and(|d| (0.0..1.0).contains(&d)));
    assert_eq!(found.get("md2").and_then(|d| d.md.as_ref()).map(|m| m.degraded), Some(1));
}

#[test]
fn device_mapper_devices_have_their_names_and_kinds() {
    let found = recorded(ARRAYS);
    let data = found.get("vg0-data").expect("by alias");
    assert_eq!((data.name.as_str(), data.kind), ("dm-0", Kind::Lvm));
    assert_eq!(data.mounts[0].fstype, "ext4");
    assert_eq!(found.get("crypt0").map(|d| d.kind), Some(Kind::Crypt));
}

#[test]
fn disks_below_an_array_over_partitions() {
    let found = recorded(ARRAYS);
    assert_eq!(found.disks_below("md0"), ["nvme0n1", "nvme1n1"]);
    assert_eq!(found.disks_below("md1"), ["vdb", "vdc"]);
    assert_eq!(found.disks_below("dm-0"), ["nvme2n1", "vdd"]);
    assert_eq!(found.disks_below("vdb1"), ["vdb"]);
    assert!(found.disks_below("nothing").is_empty());
}

#[test]
fn swap_signatures_and_free_devices() {
    let found = recorded(ARRAYS);
    assert_eq!(found.get("vdc1").and_then(|d| d.swap_used), Some(Bytes(0)));
    assert!(
        matches!(&found.get("vde").expect("vde").content, Content::Signature(s) if s.kind == "crypto_LUKS")
    );
    assert!(matches!(&found.get("vdb").expect("vdb").content, Content::PartitionTable(t) if t == "dos"));
    let free: Vec<&str> = found.devices.iter().filter(|d| d.is_free()).map(|d| d.name.as_str()).collect();
    // Two arrays were made and have nothing on them yet.
    assert_eq!(free, ["md1", "md2", "nvme3n1"]);
}

/// udev gives a partition the properties of its disk, among them the disk's partition table.
#[test]
fn a_partition_is_judged_by_what_is_on_it_and_not_by_its_disks_table() {
    // vdc1 as it was before there was swap on it.
    let empty = ARRAYS.replace("|/dev/vdc1 ", "|/dev/elsewhere ");
    let of_vdc1 = empty.find("f /run/udev/data/b254:33").expect("recorded");
    let (before, after) = empty.split_at(of_vdc1);
    let end = after.find("f /run/udev/data/b254:34").expect("recorded");
    let properties: Vec<&str> = after[..end].lines().filter(|line| !line.contains("ID_FS_")).collect();
    let tree = |properties: String| format!("{before}{properties}\n{}", &after[end..]);
    let found = recorded(&tree(properties.join("\n")));
    let vdc1 = found.get("vdc1").expect("vdc1");
    assert_eq!((&vdc1.content, vdc1.is_free()), (&Content::Nothing, true));
    assert!(matches!(&found.get("vdc").expect("vdc").content, Content::PartitionTable(t) if t == "dos"));

    let found = recorded(&tree(properties.join("\n").replace("ENTRY_TYPE=0x83", "ENTRY_TYPE=0x5")));
    assert!(!found.get("vdc1").expect("vdc1").is_free(), "an extended partition holds the logical ones");
    let found = recorded(&tree(properties.join("\n").replace("TABLE_UUID=9baf95a3", "TABLE_UUID=0badcafe")));
    assert!(!found.get("vdc1").expect("vdc1").is_free(), "it has a table of its own");
}

#[test]
fn stable_ids_match_in_full_only() {
    let found = recorded(ARRAYS);
    let ids = &found.get("nvme3n1").expect("nvme3n1").ids;
    assert!(ids.matches("vol0a1b2c3d4e5f60703"));
    assert!(ids.matches("/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_vol0a1b2c3d4e5f60703"));
    assert!(!ids.matches("vol0a1b2c3d4e5f6070") && !ids.matches("") && !ids.matches("nvme3n1"));
    assert_eq!(ids.best(), Some("nvme-QEMU_NVMe_Ctrl_vol0a1b2c3d4e5f60703"));
}

/// The recorded guest with the model that EC2 reports for EBS (made up from the catalog).
#[test]
fn an_ebs_volume_has_its_id() {
    let found = recorded(&ARRAYS.replace("|QEMU NVMe Ctrl", "|Amazon Elastic Block Store"));
    let volume = found.get("nvme3n1").expect("nvme3n1");
    assert_eq!(volume.kind, Kind::Ebs);
    assert_eq!(volume.ids.volume_id.as_deref(), Some("vol-0a1b2c3d4e5f60703"));
    assert!(volume.ids.matches("vol-0a1b2c3d4e5f60703"));
}

/// The recorded guest as it looks where udev does not run, as in a container.
#[test]
fn without_udev_and_blkid_it_says_what_it_does_not_know() {
    let without: Vec<&str> = ARRAYS.lines().take_while(|l| !l.starts_with("f /run/udev/")).collect();
    let found = recorded(&without.join("\n"));
    assert_eq!(found.get("nvme3n1").map(|d| d.is_free()), Some(false), "unknown content is not free");
    // All others are mounted, swapped on, divided, or part of something.
    let unknown: Vec<&str> =
        found.devices.iter().filter(|d| d.is_unknown()).map(|d| d.name.as_str()).collect();
    assert_eq!(unknown, ["md1", "md2", "nvme3n1"]);
    let said = unread(found.devices.iter()).expect("something is not known");
    assert!(
        said.starts_with("what is on md1, md2, nvme3n1 is not known (not in the udev database)"),
        "{said}"
    );
    assert_eq!(unread(found.get("vda").into_iter()), None, "its mount says what is on it");
}

#[test]
fn readahead_is_bytes_and_sectors() {
    let queue = recorded(ARRAYS).get("vdd").expect("vdd").queue.clone();
    assert_eq!((queue.readahead, queue.readahead_sectors()), (Some(Bytes(128 * 1024)), Some(256)));
}

#[test]
fn what_identifies_no_device_is_no_id() {
    for none in [
        "(null)",
        "null",
        "",
        "  ",
        "0000",
        "0x0000000000000000",
        "eui.0000000000000000",
        "naa.0000000000000000",
        "uuid.00000000-0000-0000-0000-000000000000",
        "00:00",
        "_null_",
    ] {
        assert!(!device::identifies(none), "{none}");
    }
    for id in ["0001", "vol0", "eui.0000000000000001", "nullable", "S64DNX0R", "nvme.1b36-64-51-01"] {
        assert!(device::identifies(id), "{id}");
    }
    let tree = "f /sys/block/ubda/dev\n|98:0\nf /sys/block/ubda/size\n|2048\nf /sys/block/ubda/serial\n|(null)\n\
                l /sys/dev/block/98:0 -> ../../block/ubda\nl /dev/disk/by-id/wwn-0x0000000000000000 -> ../../ubda\nf /dev/ubda\n";
    let found = recorded(tree);
    let disk = found.get("ubda").expect("ubda");
    assert_eq!((disk.kind, disk.ids.best(), &disk.ids.serial), (Kind::Uml, None, &None));
    assert!(!disk.ids.matches("(null)") && !disk.ids.matches("wwn-0x0000000000000000"));
}
