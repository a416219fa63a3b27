//! Every rule on the recorded guest: as it is, and with the one thing changed that the rule looks for.

use super::*;
use crate::probe::{self, Kind};
use crate::testing::unpack;
use ebbtide_model::units::Bytes;

fn recorded() -> FindingFacts {
    let root = unpack(include_str!("../../tests/trees/arrays.tree"));
    let sys = Sys::below(root.path());
    FindingFacts::read(&sys, probe::devices(&sys))
}

/// Devices that `rule` names.
fn named(facts: &FindingFacts, rule: &str) -> Vec<String> {
    find(facts).into_iter().filter(|f| f.rule == rule).map(|f| f.device).collect()
}

fn device<'a>(facts: &'a mut FindingFacts, name: &str) -> &'a mut BlockDevice {
    facts.devices.devices.iter_mut().find(|d| d.name == name).expect("recorded")
}

fn text(facts: &FindingFacts, rule: &str) -> String {
    find(facts).into_iter().filter(|f| f.rule == rule).map(|f| format!("{}: {}", f.what, f.remedy)).collect()
}

#[test]
fn the_recorded_guest_has_exactly_these() {
    let found: Vec<(&str, String)> = find(&recorded()).into_iter().map(|f| (f.rule, f.device)).collect();
    let expected = [
        ("degraded-array", "md2"),
        ("shared-disk", "vdb"),
        ("chunk-geometry", "md0"),
        ("access-times", "dm-0"),
        ("resync", "md1"),
    ];
    for (rule, device) in expected {
        assert!(found.contains(&(rule, device.to_owned())), "{rule} on {device} is not in {found:?}");
    }
    for rule in
        ["network-swap", "misaligned-partition", "odd-scheduler", "unused-instance-store", "lazy-init"]
    {
        assert!(!found.iter().any(|(r, _)| *r == rule), "{rule} in {found:?}");
    }
    let severities: Vec<Severity> = find(&recorded()).iter().map(|f| f.severity).collect();
    assert!(severities.is_sorted(), "{severities:?}");
}

#[test]
fn a_member_that_failed_is_named() {
    let mut facts = recorded();
    let remedy = |facts: &FindingFacts| text(facts, "degraded-array");
    assert!(!remedy(&facts).contains("failed"), "{}", remedy(&facts));
    device(&mut facts, "md2").md.as_mut().expect("is an array").faulty = vec!["vdb".to_owned()];
    assert!(
        remedy(&facts).contains("vdb failed: `mdadm /dev/md2 --remove /dev/vdb`; add one"),
        "{}",
        remedy(&facts)
    );
}

/// The guest of many stacks, with md7 (vdt, vdu) stopped; and where one of its members is still at work, or it is waiting.
#[test]
fn an_array_that_is_not_assembled_is_named_with_the_command() {
    let root = unpack(include_str!("../../tests/trees/stacks.tree"));
    let sys = Sys::below(root.path());
    let mut facts = FindingFacts::read(&sys, probe::devices(&sys));
    let said = text(&facts, "stopped-array");
    assert!(
        said.starts_with("an md array \"guest:7\" is there and not assembled: vdt, vdu hold its members: "),
        "{said}"
    );
    assert!(said.contains("`mdadm --assemble /dev/md/7 --uuid="), "{said}");
    // A member that fell out of an array which works without it.
    device(&mut facts, "vdt").holders.push("md1".to_owned());
    assert_eq!(named(&facts, "stopped-array"), Vec::<String>::new());
    // Without a size the array itself is not among the devices.
    device(&mut facts, "vdt").holders = vec!["md7".to_owned()];
    device(&mut facts, "vdu").content = probe::Content::Nothing;
    let said = text(&facts, "stopped-array");
    assert!(
        said.starts_with("md7 is assembled and not started: it has vdt")
            && said.contains("`mdadm --run /dev/md7`")
    );
}

#[test]
fn a_drive_that_complains_is_named_and_one_that_is_well_is_not() {
    use ebbtide_model::observe::nvme::{Health, LogPage};
    let mut page = [0; Health::LENGTH];
    page[1] = 40;
    let mut facts = recorded();
    device(&mut facts, "nvme3n1").health = Health::parse(&page).ok();
    assert_eq!(named(&facts, "drive-health"), Vec::<String>::new());
    page[0] = 0b1000;
    device(&mut facts, "nvme3n1").health = Health::parse(&page).ok();
    assert_eq!(named(&facts, "drive-health"), ["nvme3n1"]);
    assert!(text(&facts, "drive-health").contains("nvme3n1 reports: it takes no more writes"));
}

#[test]
fn geometry_names_both_chunks_and_the_remedy() {
    let text = text(&recorded(), "chunk-geometry");
    assert!(text.contains("made for a chunk of 64KiB; the array's is 256KiB"), "{text}");
    assert!(text.contains("sunit=512,swidth=1024"), "{text}");
    let mut facts = recorded();
    let mount = &mut device(&mut facts, "md0").mounts[0];
    mount.options = mount.options.replace("sunit=128,swidth=256", "sunit=512,swidth=1024");
    assert!(!named(&facts, "chunk-geometry").contains(&"md0".to_owned()));
}

/// The recorded ext4 has blocks of 1 KiB and `stripe=256`, which fits its logical volume's stripe of 256 KiB.
#[test]
fn an_ext4_stripe_counts_blocks_of_its_own_size() {
    let mut facts = recorded();
    assert_eq!(named(&facts, "chunk-geometry"), ["md0"]);
    facts.fs_block.insert("dm-0".into(), 4096);
    assert_eq!(named(&facts, "chunk-geometry"), ["dm-0", "md0"]);
    assert!(text(&facts, "chunk-geometry").contains("stride=32,stripe_width=64 /dev/dm-0"));
}

#[test]
fn readahead_below_two_stripes() {
    let mut facts = recorded();
    device(&mut facts, "md0").queue.readahead = Some(Bytes(128 << 10));
    let text = text(&facts, "small-readahead");
    assert!(text.contains("blockdev --setra 2048 /dev/md0"), "{text}");
    device(&mut facts, "md0").queue.readahead = Some(Bytes(1 << 20));
    assert!(!named(&facts, "small-readahead").contains(&"md0".to_owned()));
}

#[test]
fn swap_on_ebs_and_not_on_local_disks() {
    let mut facts = recorded();
    device(&mut facts, "vdc").kind = Kind::Ebs;
    assert_eq!(named(&facts, "network-swap"), ["vdc1"]);
    device(&mut facts, "vdc").kind = Kind::Nvme;
    assert_eq!(named(&facts, "network-swap"), [""; 0]);
}

#[test]
fn a_partition_at_sector_63() {
    let mut facts = recorded();
    device(&mut facts, "vdb1").start = Some(Bytes(63 * 512));
    assert_eq!(named(&facts, "misaligned-partition"), ["vdb1"]);
}

#[test]
fn two_members_on_one_disk() {
    let mut facts = recorded();
    let graph = &mut facts.devices.graph;
    let [md1, vdb1, vdb2] = ["md1", "vdb1", "vdb2"].map(|name| graph.get(name).expect("recorded"));
    graph.nodes[md1].made.devices = vec![vdb1, vdb2];
    assert!(
        text(&facts, "shared-disk").contains("two members on vdb: vdb1 and vdb2"),
        "{}",
        text(&facts, "shared-disk")
    );
}

#[test]
fn instance_store_is_found_only_while_it_is_free() {
    let mut facts = recorded();
    device(&mut facts, "nvme3n1").kind = Kind::InstanceStore;
    device(&mut facts, "nvme0n1").kind = Kind::InstanceStore;
    assert_eq!(named(&facts, "unused-instance-store"), ["nvme3n1"]);
}

#[test]
fn relatime_matters_on_a_busy_mount_only() {
    let mut facts = recorded();
    assert!(!named(&facts, "access-times").contains(&"md0".to_owned()));
    facts.requests_per_second.insert("md0".into(), 900.0);
    assert!(named(&facts, "access-times").contains(&"md0".to_owned()));
    let words = text(&facts, "access-times");
    assert!(words.contains("for each file that is read (relatime), and is busy: 900 requests/s"), "{words}");
    // A loop device stood for other files before: what it has done since boot says nothing of this file system.
    device(&mut facts, "md0").kind = Kind::Loop;
    assert!(!named(&facts, "access-times").contains(&"md0".to_owned()));
    let mount = &mut device(&mut facts, "md0").mounts[0];
    mount.options = mount.options.replace("relatime", "strictatime");
    assert!(named(&facts, "access-times").contains(&"md0".to_owned()));
    device(&mut facts, "md0").kind = Kind::Md;
    device(&mut facts, "md0").mounts[0].options.push_str(",noatime");
    assert!(!named(&facts, "access-times").contains(&"md0".to_owned()));
}

#[test]
fn schedulers() {
    let mut facts = recorded();
    let nvme = device(&mut facts, "nvme3n1");
    nvme.queue.scheduler = Some("bfq".into());
    nvme.queue.schedulers = vec!["bfq".into(), "none".into()];
    assert_eq!(named(&facts, "odd-scheduler"), ["nvme3n1"]);
    let spindle = device(&mut facts, "nvme3n1");
    (spindle.kind, spindle.queue.rotational) = (Kind::Sata, Some(true));
    assert_eq!(named(&facts, "odd-scheduler"), [""; 0]);
}

#[test]
fn lazy_initialisation_while_it_runs() {
    let mut facts = recorded();
    facts.lazy_init = true;
    assert_eq!(named(&facts, "lazy-init").len(), 1);
}

#[test]
fn rules_have_ids_of_their_own() {
    let mut ids: Vec<&str> = RULES.iter().map(|r| r.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), RULES.len());
}
