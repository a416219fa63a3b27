use super::*;
use crate::probe::{Content, Devices};
use crate::testing::{RBD, unpack};
use std::path::Path;

const ARRAYS: &str = include_str!("../../tests/trees/arrays.tree");

/// A recorded host, and what is on its devices as udev saw it.
struct Recorded {
    _root: tempfile::TempDir,
    look: HostLook,
    devices: Devices,
}

impl Recorded {
    fn new() -> Recorded {
        Recorded::of(ARRAYS)
    }

    fn of(tree: &str) -> Recorded {
        let root = unpack(tree);
        let sys = Sys::below(root.path());
        Recorded { devices: probe::devices(&sys), look: HostLook::new(sys), _root: root }
    }

    fn found(&self, name: &str) -> Vec<Loss> {
        let device = self.devices.get(name).expect("recorded");
        content::named(&device.content, "it", device.partitions.len()).into_iter().collect()
    }

    fn kinds_with(
        &self,
        name: &str,
        contents: Vec<Loss>,
        id: Option<&str>,
        destroy: bool,
    ) -> Vec<RefusalKind> {
        let dev = self.devices.get(name).expect("recorded").dev;
        let request = WriteRequest {
            path: Path::new("/dev/x"),
            permission: Permission::User { id, destroy, used: false },
        };
        let reasons = self.look.against_device(dev, contents, false, &request);
        reasons.iter().map(|reason| reason.kind).collect()
    }

    fn kinds(&self, name: &str, id: Option<&str>, destroy: bool) -> Vec<RefusalKind> {
        self.kinds_with(name, self.found(name), id, destroy)
    }
}

/// One device only is read in full: what is seen of it is what a look at the whole host sees.
#[test]
fn one_device_is_seen_as_among_all() {
    let root = unpack(ARRAYS);
    let sys = Sys::below(root.path());
    let all = probe::devices(&sys);
    assert!(all.devices.iter().any(|device| !device.partitions.is_empty()));
    for device in &all.devices {
        let at = all.graph.by_dev(device.dev).expect("it is in the graph");
        assert_eq!(probe::one(&sys, &all.graph, at, &Never).as_ref(), Some(device));
    }
    assert_eq!(probe::one(&sys, &all.graph, all.graph.nodes.len(), &Never), None);
}

#[test]
fn an_empty_device_needs_destroy_and_no_id() {
    let host = Recorded::new();
    assert_eq!(host.kinds("nvme3n1", None, true), []);
    assert_eq!(host.kinds("nvme3n1", Some("vol0a1b2c3d4e5f60703"), true), []);
    assert_eq!(host.kinds("nvme3n1", None, false), [RefusalKind::NotDestroy]);
}

#[test]
fn a_wrong_id_is_refused_even_for_an_empty_device() {
    let host = Recorded::new();
    assert_eq!(host.kinds("nvme3n1", Some("vol0a1b2c3d4e5f60702"), true), [RefusalKind::WrongId]);
}

#[test]
fn devices_in_use_are_refused_whatever_is_said() {
    let host = Recorded::new();
    for (name, id, kind) in [
        ("md0", "md-uuid-2c489a92:8b07e035:2ebfd658:3605bd0e", RefusalKind::Mounted),
        ("nvme0n1", "vol0a1b2c3d4e5f60700", RefusalKind::Held),
        ("vdd", "virtio-vol00000006", RefusalKind::Held),
        ("vde", "virtio-vol00000007", RefusalKind::Held),
        ("vda", "virtio-root", RefusalKind::Mounted),
    ] {
        assert_eq!(host.kinds(name, Some(id), true), [kind], "{name}");
    }
}

#[test]
fn a_disk_is_in_use_when_its_partitions_are() {
    let kinds = Recorded::new().kinds("vdc", Some("virtio-vol00000005"), true);
    assert_eq!(kinds, [RefusalKind::Swap, RefusalKind::Held]);
}

#[test]
fn what_the_kernel_claims_for_itself_is_in_use() {
    let host = Recorded::new();
    let dev = host.devices.get("nvme3n1").expect("recorded").dev;
    let permission = Permission::User { id: Some("vol0a1b2c3d4e5f60703"), destroy: true, used: false };
    let request = WriteRequest { path: Path::new("/dev/x"), permission };
    let reasons = host.look.against_device(dev, Vec::new(), true, &request);
    assert_eq!(reasons.iter().map(|reason| reason.kind).collect::<Vec<_>>(), [RefusalKind::Held]);
}

#[test]
fn content_needs_both_the_id_and_destroy() {
    let id = Some("md-uuid-4712d46c:8f0a7822:fdd224ad:66f104fb");
    let host = Recorded::new();
    let ask = |id, destroy| host.kinds_with("md1", host.found("vde"), id, destroy);
    assert_eq!(ask(None, false), [RefusalKind::Signature]);
    assert_eq!(ask(None, true), [RefusalKind::Signature, RefusalKind::NoId]);
    assert_eq!(ask(id, false), [RefusalKind::Signature, RefusalKind::NotDestroy]);
    assert_eq!(ask(id, true), []);
    let dev = host.devices.get("md1").expect("recorded").dev;
    for (id, wanted) in [(None, "give `id = "), (id, "if it may be lost, say `--destroy`")] {
        let permission = Permission::User { id, destroy: false, used: false };
        let request = WriteRequest { path: Path::new("/dev/x"), permission };
        let found = host.look.against_device(dev, host.found("vde"), false, &request);
        assert!(found[0].remedy.contains(wanted), "what is given is not asked for: {found:?}");
    }
}

#[test]
fn content_that_cannot_be_read_is_refused_with_the_id_that_releases_it() {
    let host = Recorded::new();
    let device = host.devices.get("nvme3n1").expect("recorded");
    let unknown = content::named(&Content::Unknown("no permission".into()), "it", 0);
    let request = WriteRequest {
        path: Path::new("/dev/x"),
        permission: Permission::User { id: None, destroy: false, used: false },
    };
    let found = host.look.against_device(device.dev, unknown.into_iter().collect(), false, &request);
    assert_eq!(found[0].kind, RefusalKind::Unreadable);
    assert!(found[0].remedy.contains("vol0a1b2c3d4e5f60703"), "{}", found[0].remedy);
}

#[test]
fn volumes_share_blocks_with_what_they_stand_on_and_not_with_their_neighbours() {
    let host = Recorded::new();
    let of = |name: &str| host.look.footprint_of(host.devices.get(name).expect("recorded").dev);
    let disks: Vec<&BlockDevice> =
        host.devices.devices.iter().filter(|device| !device.partitions.is_empty()).collect();
    assert!(!disks.is_empty());
    for disk in disks {
        for part in &disk.partitions {
            assert!(of(&disk.name).overlaps(&of(part)) && of(part).overlaps(&of(&disk.name)), "{part}");
        }
        if let [first, second, ..] = disk.partitions.as_slice() {
            assert!(!of(first).overlaps(&of(second)), "{first} and {second}");
        }
    }
    let md = host.devices.get("md0").expect("recorded");
    for member in &md.slaves {
        assert!(of("md0").overlaps(&of(member)), "{member}");
    }
    assert!(!of("md0").overlaps(&of("nvme3n1")));
}

/// As `ebb export` asks.
#[test]
fn a_device_without_a_name_that_stays_is_meant_by_what_it_carries() {
    let unnamed = ARRAYS
        .lines()
        .filter(|line| !(line.starts_with("|S:disk/by-id/") || line.contains("/dev/disk/by-id/")))
        .collect::<Vec<_>>()
        .join("\n");
    let host = Recorded::of(&(unnamed + "\n"));
    let device = host.devices.get("nvme3n1").expect("recorded");
    let luks = |uuid: &str| Loss {
        kind: RefusalKind::Signature,
        what: "it carries crypto_LUKS".to_owned(),
        uuid: Some(uuid.to_owned()),
    };
    let data = || Loss {
        kind: RefusalKind::Data,
        what: "it carries data of an unknown kind".to_owned(),
        uuid: None,
    };
    let ask = |contents: Vec<Loss>, carries: Option<&str>| {
        let permission = Permission::Exported { id: None, carries };
        let request = WriteRequest { path: Path::new("/dev/nvme3n1"), permission };
        host.look.against_device(device.dev, contents, false, &request)
    };
    assert_eq!(ask(vec![luks("u-1")], Some("u-1")), []);
    assert_eq!(ask(Vec::new(), Some("u-1")), [], "what is blank loses nothing");
    let refused = |contents: Vec<Loss>, carries: Option<&str>, words: &[&str]| {
        let found = ask(contents, carries);
        let said = ebbtide_model::guard::Refusal { path: String::new(), reasons: found }.reasons_in_words();
        for word in words {
            assert!(said.contains(word), "{word}: {said}");
        }
        for word in ["erase", "wipefs", "blkdiscard"] {
            assert!(!said.contains(word), "{said}");
        }
    };
    refused(
        vec![luks("u-2")],
        Some("u-1"),
        &["with the UUID u-2, and not u-1", "blkid -p /dev/nvme3n1", "--carries u-2"],
    );
    refused(vec![luks("u-1")], None, &["carries crypto_LUKS", "lsblk -f /dev/nvme3n1", "--carries u-1"]);
    refused(vec![data()], Some("u-1"), &["unknown kind, and not what has the UUID u-1", "blkid -p"]);
    refused(vec![data()], None, &["unknown kind", "a rule of udev's"]);
    let permission = Permission::User { id: None, destroy: true, used: false };
    let request = WriteRequest { path: Path::new("/dev/nvme3n1"), permission };
    let reasons = host.look.against_device(device.dev, vec![luks("u-1")], false, &request);
    let said = ebbtide_model::guard::Refusal { path: String::new(), reasons }.reasons_in_words();
    assert!(said.contains("carries crypto_LUKS") && !said.contains("blkdiscard"), "{said}");
}

#[test]
fn an_image_of_ceph_is_released_by_its_own_name_and_not_written_under_another_mapping() {
    let host = Recorded::of(RBD);
    assert_eq!(host.kinds("rbd0", None, true), []);
    assert_eq!(host.kinds("rbd1", Some("rbd:fast/team-a/db"), true), []);
    assert_eq!(host.kinds("rbd1", Some("rbd:fast/db"), true), [RefusalKind::WrongId]);
    assert_eq!(host.kinds("rbd1", None, true), [RefusalKind::Signature, RefusalKind::NoId]);
    // The other mapping is the same blocks, whoever uses it.
    assert_eq!(host.kinds("rbd2", Some("rbd:rbd/twice"), true), [RefusalKind::Held, RefusalKind::WrongId]);
    assert_eq!(host.kinds("rbd3", None, true), [RefusalKind::Held]);
    // Two clusters have an image of one name, which is then nobody's id.
    assert_eq!(host.kinds("rbd4", None, true), []);
    assert_eq!(host.kinds("rbd4", Some("rbd:rbd/everywhere"), true), [RefusalKind::WrongId]);
    assert_eq!(host.kinds("rbd10", Some("rbd:rbd/vol1@monday"), true), [RefusalKind::ReadOnly]);
}

/// As a guest of Debian 12 had it: nvmet has opened a disk and a file's name is not looked at; LIO has opened another disk.
#[test]
fn what_is_exported_is_in_use_and_so_is_what_shares_its_blocks() {
    let root = unpack(ARRAYS);
    let sys = Sys::below(root.path());
    let whole = probe::devices(&sys);
    let (nvme, scsi) = ("nvme3n1", "vdc1");
    let put = |path: &str, text: &str| {
        let path = root.path().join("sys/kernel/config").join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("makes");
        std::fs::write(path, text).expect("writes");
    };
    let namespace = "nvmet/subsystems/nqn.2026-11.ebbtide:store-1:data/namespaces/1";
    put(&format!("{namespace}/device_path"), &format!("/dev/{nvme}\n"));
    put(&format!("{namespace}/enable"), "0\n");
    let store = "target/core/iblock_0/other";
    let dev = whole.get(scsi).expect("recorded").dev;
    let info = format!(
        "Status: ACTIVATED  Max Queue Depth: 0  SectorSize: 512  HwMaxSectors: 4294967288\n        iBlock device: {scsi}  \
         UDEV PATH: /dev/{scsi}  readonly: 0\n        Major: {} Minor: {}  CLAIMED: IBLOCK\n",
        dev.major, dev.minor
    );
    put(&format!("{store}/info"), &info);
    put(&format!("{store}/udev_path"), &format!("/dev/{scsi}\n"));
    put(&format!("{store}/enable"), "1\n");
    let reasons = |name: &str| {
        let look = HostLook::new(sys.clone());
        look.in_use(whole.get(name).expect("recorded").dev)
    };
    assert_eq!(reasons(nvme), [], "a namespace that is not enabled is not open");
    put(&format!("{namespace}/enable"), "1\n");
    let found = reasons(nvme);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, RefusalKind::Held);
    assert!(found[0].what.contains("exported to other hosts over NVMe as nqn.2026-11.ebbtide:store-1:data"));
    assert!(found[0].remedy.contains("ebb undo data"), "{}", found[0].remedy);
    let disk = reasons("vdc");
    let exported =
        |reason: &&Reason| reason.what.contains("vdc1 is exported to other hosts over SCSI as other");
    let found = disk.iter().find(exported).expect("the disk of an exported partition");
    assert!(found.remedy.contains("target/core/iblock_0/other"), "{}", found.remedy);
    let now = probe::devices(&sys);
    assert!(!now.get(nvme).expect("recorded").is_free() && whole.get(nvme).expect("recorded").is_free());
}
