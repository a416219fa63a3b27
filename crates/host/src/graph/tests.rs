//! Recorded hosts, made-up ones by the thousand beside a slow oracle, and what is read of a made-up /sys.

use super::made::faulty;
use super::*;
use crate::command::{Never, Runner};
use crate::graph::dm::Tables;
use crate::testing::{ARRAYS, unpack};
use ebbtide_model::graph::Join;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn recorded(tree: &str) -> Graph {
    let root = unpack(tree);
    read(&Sys::below(root.path()))
}

fn number(dev: &str) -> DevNum {
    dev.parse().expect("a device number")
}

/// All that is below a device, and which of these are disks.
fn names(tree: &str, dev: &str) -> String {
    let graph = recorded(tree);
    let below = graph.of_device(number(dev)).below.devices;
    let disks = graph.disks_below(&below);
    let name = |at: usize| format!("{}{}", graph.nodes[at].name, if disks.contains(&at) { "." } else { "" });
    graph.all_below(&below).into_iter().map(name).collect::<Vec<_>>().join(" ")
}

#[test]
fn an_array_over_partitions_and_a_logical_volume_over_disks() {
    assert_eq!(names(ARRAYS, "9:1"), "md1 vdb2 vdb. vdc2 vdc.");
    assert_eq!(names(ARRAYS, "252:0"), "dm-0 nvme2n1. vdd.");
}

/// Made up: a loop device over a file on the recorded array. It holds that array's data, and none of its blocks.
#[test]
fn a_loop_device_goes_through_its_file() {
    let tree = format!(
        "{ARRAYS}\nl /sys/dev/block/7:0 -> ../../devices/virtual/block/loop0\n\
         f /sys/devices/virtual/block/loop0/dev\n|7:0\nf /sys/devices/virtual/block/loop0/loop/backing_file\n|/mnt/a/volume one\n"
    );
    assert_eq!(names(&tree, "7:0"), "loop0 md0 nvme0n1. nvme1n1.");
    let graph = recorded(&tree);
    let loop0 = graph.get("loop0").expect("made up");
    assert_eq!((graph.nodes[loop0].below(), graph.blocks_below(loop0)), (&[][..], vec![loop0]));
    let md0 = graph.get("md0").expect("recorded");
    assert!(!graph.above(md0).contains(&loop0));
    // Over the array itself it is another device of the same blocks.
    let graph = recorded(&tree.replace("|/mnt/a/volume one", "|/dev/md0"));
    let (loop0, md0) = (graph.get("loop0").expect("made up"), graph.get("md0").expect("recorded"));
    assert_eq!((graph.nodes[loop0].below(), graph.above(md0)), (&[md0][..], &[loop0][..]));
    let used = |through| graph.uses(md0, through).iter().any(|one| matches!(one, Use::Behind(_)));
    assert_eq!((used(None), used(Some(loop0))), (true, false));
}

const STACKS: &str = crate::testing::STACKS;

/// What `dmsetup table` said on the recorded guest.
struct Recorded;

impl Runner for Recorded {
    fn run_with(
        &self,
        program: &str,
        _: &[&str],
        _: &[u8],
    ) -> Result<crate::command::Output, crate::command::CommandError> {
        assert_eq!(program, "dmsetup");
        let stdout = include_bytes!("../../tests/trees/stacks.dmsetup").to_vec();
        Ok(crate::command::Output { status: Some(0), stdout, stderr: String::new() })
    }
}

/// `md0 stripe(vde vdf)`: what is made of what; names alone are disks.
fn told(graph: &Graph, below: &Below) -> String {
    fn of(graph: &Graph, below: &Below, named: &mut Vec<usize>) -> String {
        let each = below.devices.iter().map(|at| {
            let node = &graph.nodes[*at];
            if node.made.devices.is_empty() || named.contains(at) {
                return node.name.clone();
            }
            named.push(*at);
            format!("{} {}({})", node.name, node.made.join.name(), of(graph, &node.made, named))
        });
        each.collect::<Vec<_>>().join(" ")
    }
    of(graph, below, &mut Vec::new())
}

#[test]
fn every_stack_is_a_tree_with_the_way_it_is_put_together() {
    let root = unpack(STACKS);
    let sys = Sys::below(root.path());
    let [root_sees, others_see] =
        [&Recorded as &dyn Runner, &Never].map(|runner| read_with(&sys, &Tables::new(runner)));
    let told = |graph: &Graph, dev: &str| told(graph, &graph.of_device(number(dev)).below);
    let whole = [
        ("9:2", "md2 stripe(md0 stripe(vde vdf) md1 mirror(vdg vdh))"),
        ("7:0", "loop0 one device(md5 raid5(vdi vdj vdk))"),
        ("253:40", "dm-40 one device(md10 raid10(vdl vdm vdn vdo))"),
        ("253:0", "dm-0 one device(vda)"),
    ];
    for (dev, expected) in whole {
        assert_eq!(told(&others_see, dev), expected);
        assert_eq!(told(&root_sees, dev), expected);
    }
    // Those that may not see device-mapper's tables know less.
    for (dev, by_root, by_others) in [
        ("253:1", "dm-1 linear(vda vdb)", "dm-1 linear(vda vdb)"),
        ("253:2", "dm-2 stripe(vda vdb vdc vdd)", "dm-2 stripe(vda vdb vdc vdd)"),
        (
            "253:7",
            "dm-7 mirror(dm-4 one device(vda) dm-6 one device(vdb))",
            "dm-7 several devices(dm-4 one device(vda) dm-6 one device(vdb))",
        ),
        (
            "253:29",
            "dm-29 mirror(dm-27 one device(vda) dm-28 one device(vdb))",
            "dm-29 mirror(dm-27 one device(vda) dm-28 one device(vdb))",
        ),
        (
            "253:34",
            "dm-34 thin or a snapshot(dm-32 thin or a snapshot(dm-31 one device(vdb)))",
            "dm-34 thin or a snapshot(dm-32 thin or a snapshot(dm-30 one device(vda) dm-31 one device(vdb)))",
        ),
    ] {
        assert_eq!(told(&root_sees, dev), by_root);
        assert_eq!(told(&others_see, dev), by_others);
    }
}

#[test]
fn what_is_between_a_path_and_its_disks_in_words() {
    let graph = recorded(STACKS);
    let device = |dev: &str| graph.in_words(&graph.of_device(number(dev)));
    let md2 = "stripe of 2, chunk 128KiB, over md0 (stripe of 2, chunk 64KiB, over vde, vdf), md1 (mirror of 2, over vdg, vdh)";
    assert_eq!(device("9:2").as_deref(), Some(md2));
    let secret = "over md10 (raid10 of 4, chunk 64KiB, over vdl, vdm, vdn, vdo)";
    assert_eq!(device("253:40").as_deref(), Some(secret));
    assert_eq!(device("253:1").as_deref(), Some("linear of 2, over vda, vdb"));
    assert_eq!((device("253:0").as_deref(), device("254:0")), (Some("over vda"), None));
    let five = "on md5 (raid5 of 3, chunk 64KiB, over vdi, vdj, vdk)";
    let words = device("7:0").expect("words");
    assert!(
        words.starts_with("a loop device over /") && words.ends_with(&format!("/mnt/five/vol.img {five}")),
        "{words}"
    );
    let file = |dev: &str, path: &str| {
        graph.in_words(&graph.of_file(number(dev), graph.own_mounts(), Path::new(path)))
    };
    assert_eq!(file("9:5", "/mnt/five/x").as_deref(), five.strip_prefix("on "));
    assert_eq!(file("0:30", "/mnt/b/x").as_deref(), Some("mirror of 2, over vdp, vdq"));
    let arrays = recorded(ARRAYS);
    assert_eq!(
        arrays.in_words(&arrays.of_device(number("254:17"))),
        None,
        "a partition is where its disk is"
    );
}

#[test]
fn a_btrfs_over_two_devices_has_both_below_its_files() {
    let graph = recorded(STACKS);
    let of = |dev: &str, path: &str| graph.of_file(number(dev), graph.own_mounts(), Path::new(path));
    let told = |place: &Place| told(&graph, &place.below);
    let mirror = of("0:30", "/mnt/b/file");
    assert_eq!((mirror.below.join, told(&mirror).as_str()), (Join::Mirror { copies: 2 }, "vdp vdq"));
    let stripe = of("0:32", "/mnt/b0/file");
    assert_eq!((stripe.below.join.name(), told(&stripe).as_str()), ("stripe", "vdr vds"));
    // A subvolume's files have a number that no mount has; the memory file of a program has none either.
    assert_eq!(told(&of("0:77", "/mnt/b/volume/file")), "vdp vdq");
    let memory = of("0:1", "/memfd:scratch (deleted)");
    assert_eq!((memory.fstype.as_deref(), memory.below.devices.len()), (None, 0));
    // Each of its devices is in use, whichever of them the mount names.
    for device in ["vdp", "vdq"] {
        let device = graph.get(device).expect("recorded");
        assert_eq!(graph.uses(device, None), [Use::Mounted(vec!["/mnt/b"])]);
    }
}

/// Made up: a device that is its own slave, a drive without a medium, and a holder that nobody sees.
#[test]
fn what_is_odd_is_in_the_graph_and_hangs_nothing() {
    let place = "/sys/devices/virtual/block";
    let link = |number: &str, name: &str| {
        format!("l /sys/dev/block/{number} -> ../../devices/virtual/block/{name}\n")
    };
    let tree = link("253:0", "dm-0")
        + &link("9:7", "md7")
        + &link("8:0", "sda")
        + &format!(
            "f {place}/dm-0/size\n|8\nl {place}/dm-0/slaves/dm-0 -> ../../dm-0\nf {place}/dm-0/dev\n|253:0\n"
        )
        + &format!("f {place}/md7/size\n|0\nl {place}/md7/slaves/sda -> ../../sda\n")
        + &format!("f {place}/sda/size\n|8\nd {place}/sda/holders/md7\nd {place}/sda/holders/hidden0\n");
    assert_eq!(names(&tree, "253:0"), "dm-0");
    let graph = recorded(&tree);
    let dm = graph.get("dm-0").expect("made up");
    assert!(
        graph.in_words(&graph.of_device(number("253:0"))).is_some_and(|words| words.starts_with("over dm-0"))
    );
    assert_eq!(graph.sharers(dm), [Sharer::Device(dm, Some(dm))]);
    // An array that is not started has no size, and holds its members all the same.
    let uses = graph.uses(graph.get("sda").expect("made up"), None);
    let [Use::Part(holders)] = uses.as_slice() else { panic!("{uses:?}") };
    let holders: BTreeSet<&str> = holders.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(holders, BTreeSet::from(["hidden0", "md7"]));
}

/// The recorded guest with a spare beside the members of md5, and one that has failed.
#[test]
fn what_holds_no_data_is_no_data_member_and_is_held_all_the_same() {
    let spare = format!("{STACKS}\nf /sys/devices/virtual/block/md5/md/dev-vdk/slot\n|none\n");
    let [all, without] = [STACKS, &spare].map(recorded);
    let of = |graph: &Graph| {
        let node = &graph.nodes[graph.get("md5").expect("recorded")];
        (node.made.devices.len(), node.below().len())
    };
    assert_eq!((of(&all), of(&without)), ((3, 3), (2, 3)));
    let vdk = without.get("vdk").expect("recorded");
    assert!(matches!(without.uses(vdk, None).as_slice(), [Use::Part(_)]));
}

#[test]
fn members_that_failed_are_told_by_their_state() {
    let root = tempfile::tempdir().expect("a directory");
    for (device, state) in [("vda", "in_sync"), ("vdb", "faulty,write_error"), ("vdc", "spare")] {
        let place = root.path().join(format!("dev-{device}"));
        std::fs::create_dir(&place)
            .and_then(|()| std::fs::write(place.join("state"), state))
            .expect("is made");
    }
    assert_eq!(faulty(root.path()), ["vdb"]);
}

#[test]
fn a_mount_of_another_namespace_is_a_use() {
    let mounted = "30 1 254:64 / /elsewhere rw - ext4 /dev/vde rw";
    let tree = format!(
        "{ARRAYS}\nf /proc/7/mountinfo\n|{mounted}\nl /proc/7/ns/mnt -> mnt:[7]\nl /proc/8/ns/mnt -> mnt:[7]\n"
    );
    let graph = recorded(&tree);
    let vde = graph.by_dev(number("254:64")).expect("recorded");
    assert_eq!(graph.mounts_of(vde), ["/elsewhere"]);
    assert!(graph.own_mounts().all(|mount| mount.mountpoint != "/elsewhere"));
}

#[test]
fn this_host_s_temporary_directory_has_a_file_system() {
    let here = tempfile::tempdir().expect("a directory");
    let (_, place) = below_path(&Sys::host(), here.path()).expect("it can be looked at");
    assert!(place.fstype.is_some(), "{place:?}");
    assert!(below_path(&Sys::host(), Path::new("/no/such/path")).is_err());
}

/// A machine that nobody has: up to nine devices, each on any of them, itself and some that there are not among those.
fn any_machine() -> impl Strategy<Value = Graph> {
    let place = || 0..10_usize;
    let extent = proptest::option::of((0..4_u64, 0..4_u64));
    let behind = prop_oneof![
        place().prop_map(Behind::Device),
        (0..2_u64, 0..2_u64).prop_map(|(dev, ino)| Behind::File(dev, ino)),
        Just(Behind::Unknown)
    ];
    let stands = prop_oneof![
        Just(Stands::Alone),
        (place(), extent).prop_map(|(of, extent)| Stands::Partition { of, extent }),
        proptest::collection::vec(place(), 1..4).prop_map(Stands::Members),
        behind.prop_map(|behind| Stands::Loop(Loop { path: "/f".into(), part: false, behind })),
    ];
    let node = (stands, proptest::sample::select(vec!["", "LVM-a", "LVM-b", "LVM-a-real", "CRYPT-c"]));
    proptest::collection::vec(node, 1..9).prop_map(|nodes| {
        let count = nodes.len();
        let inside = |at: usize| at % count;
        let node = |(at, (stands, uuid)): (usize, (Stands, &str))| {
            let stands = match stands {
                Stands::Partition { of, extent } => Stands::Partition { of: inside(of), extent },
                Stands::Members(of) => Stands::Members(of.into_iter().map(inside).collect()),
                Stands::Loop(Loop { behind: Behind::Device(of), .. }) => {
                    Stands::Loop(Loop { path: "/d".into(), part: false, behind: Behind::Device(inside(of)) })
                }
                other => other,
            };
            let dev = DevNum { major: 8, minor: at as u32 };
            let mut node =
                Node { name: format!("d{at}"), dm_uuid: uuid.to_owned(), dev, stands, ..Node::default() };
            node.made = Below { devices: node.below().to_vec(), ..Below::default() };
            node
        };
        Graph::of(nodes.into_iter().enumerate().map(node).collect())
    })
}

/// Whose blocks `at` is on, as plain as it is slow: a step at a time, as many as there are devices.
fn on(graph: &Graph, at: usize) -> BTreeSet<usize> {
    let mut all = BTreeSet::from([at]);
    for _ in 0..graph.nodes.len() {
        let next: Vec<usize> = all.iter().flat_map(|at| graph.nodes[*at].below().to_vec()).collect();
        all.extend(next);
    }
    all
}

proptest! {
    #[test]
    fn what_is_above_is_the_inverse_of_what_is_below(graph in any_machine()) {
        for at in 0..graph.nodes.len() {
            for other in 0..graph.nodes.len() {
                let below = graph.nodes[other].below().contains(&at);
                prop_assert_eq!(graph.above(at).iter().filter(|above| **above == other).count(), usize::from(below));
            }
            let kinds = graph.partitions(at).chain(graph.holders(at)).chain(graph.loops(at));
            let kinds: Vec<usize> = kinds.collect();
            prop_assert_eq!(kinds.len(), graph.above(at).len(), "each is one of these");
            prop_assert_eq!(graph.blocks_below(at).into_iter().collect::<BTreeSet<_>>(), on(&graph, at));
            for above in 0..graph.nodes.len() {
                prop_assert_eq!(graph.blocks_above(at).contains(&above), on(&graph, above).contains(&at));
            }
            let _ = graph.in_words(&graph.of_device(graph.nodes[at].dev));
        }
    }

    /// Whoever uses a device that `at` is on, but through it, is among those that are asked; and nobody is asked twice.
    #[test]
    fn all_that_may_have_its_blocks_are_asked(graph in any_machine()) {
        for at in 0..graph.nodes.len() {
            let sharers = graph.sharers(at);
            for device in on(&graph, at) {
                for below in graph.nodes[device].below() {
                    let asked = |through| sharers.contains(&Sharer::Device(*below, through));
                    prop_assert!(asked(None) || asked(Some(device)));
                }
                let is_loop = graph.nodes[device].over().is_some();
                prop_assert_eq!(sharers.contains(&Sharer::Behind(device)), is_loop);
            }
            for sharer in &sharers {
                if let Sharer::Device(_, Some(through)) = sharer {
                    prop_assert!(on(&graph, at).contains(through));
                }
            }
        }
    }

    /// Nobody's use is left out but that of `through`, and of logical volumes beside a logical volume that is no origin.
    #[test]
    fn a_use_is_passed_over_only_where_it_has_blocks_of_its_own(graph in any_machine(), through in proptest::option::of(0..9_usize)) {
        for at in 0..graph.nodes.len() {
            let uses = graph.uses(at, through);
            let seen: BTreeSet<&str> = uses.iter().flat_map(|one| match one {
                Use::Part(nodes) | Use::Behind(nodes) => nodes.clone(),
                _ => Vec::new(),
            }).map(|node| node.name.as_str()).collect();
            for above in graph.holders(at).chain(graph.loops(at)) {
                let node = &graph.nodes[above];
                let lvm = |uuid: &str| uuid.starts_with("LVM-");
                let own = through.and_then(|through| graph.nodes.get(through)).map_or("", |node| &node.dm_uuid);
                let beside = node.holds() && lvm(own) && lvm(&node.dm_uuid)
                    && graph.nodes[at].dm_uuid != format!("{own}-real");
                prop_assert_eq!(seen.contains(node.name.as_str()), Some(above) != through && !beside);
            }
        }
    }
}
