//! What is built for designs as they are written: every step, its undo and the programs.

use ebbtide_experiment::parse;
use ebbtide_model::plan::build::{
    Build, BuildPlanError, Geometry, Identity, Purpose, Site, build, md_devices,
};
use ebbtide_model::units::Bytes;

/// The build of the design `[designs.d]` with these lines, on /dev/vdb, /dev/vdc, ...
fn planned(lines: &str) -> Result<Build, BuildPlanError> {
    let text = format!(
        "name = \"n\"\n[volumes.v]\ncount = 8\nsize = \"1GiB\"\n[designs.d]\n{lines}\n\
         [workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n"
    );
    let experiment = parse(&text, "test").unwrap_or_else(|errors| panic!("{errors}"));
    let devices: Vec<String> = ('b'..='i').map(|letter| format!("/dev/vd{letter}")).collect();
    let site = Site {
        run: "20261121-143005-7f3a",
        build: 3,
        devices: &devices,
        md_numbers: &[100, 101, 102, 103],
        purpose: Purpose::Trial,
    };
    build(&experiment.designs[0], &site)
}

fn shown(lines: &str) -> String {
    planned(lines).map_or_else(|error| error.to_string(), |build| build.to_string())
}

const STRIPE: &str = "layout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"v[0..3]\"]";

#[test]
fn a_whole_stack() {
    insta::assert_snapshot!(shown(&format!(
        "{STRIPE}\nencryption = {{ format = \"luks2\", key_file = \"/root/a key\" }}\nfilesystem = \"xfs\"\n\
         mount_options = \"noatime\"\nreadahead = \"4MiB\"\nscheduler = \"none\"\nqueue_depth = 512\nmax_sectors = \"512KiB\""
    )));
}

#[test]
fn md_arrays() {
    let designs = [
        STRIPE,
        "layout = \"mirror\"\nmembers = [\"v[0..2]\"]\nwrite_mostly = \"v0\"\nbitmap = \"internal\"\nmetadata = \"1.0\"",
        "layout = \"raid10\"\ncopies = 3\narrangement = \"offset\"\nmembers = [\"v[0..3]\"]",
        "layout = \"raid10\"\narrangement = \"far\"\nmembers = [\"v[0..2]\"]",
        "layout = \"raid5\"\nmembers = [\"v[0..3]\"]\nfilesystem = \"ext4\"",
        "layout = \"raid6\"\nmembers = [\"v[0..4]\"]\nfilesystem = \"ext3\"",
        "layout = \"linear\"\nmembers = [\"v[0..1]\"]\nfilesystem = \"btrfs\"",
        "layout = \"linear\"\nbacking = \"md\"\nmembers = [\"v0\"]\nfilesystem = \"jfs\"",
        "layout = \"linear\"\nmembers = [\"v0\"]\nfilesystem = \"ext2\"",
    ];
    insta::assert_snapshot!(designs.map(|lines| format!("{lines}\n{}", shown(lines))).join("\n"));
}

#[test]
fn lvm_volumes() {
    let lvm = |lines: &str| format!("backing = \"lvm\"\n{lines}");
    let designs = [
        lvm("layout = \"linear\"\nmembers = [\"v[0..1]\"]"),
        lvm("layout = \"stripe\"\nchunk = \"256KiB\"\nmembers = [\"v[0..1]\"]\nfilesystem = \"xfs\""),
        lvm("layout = \"mirror\"\nmembers = [\"v[0..1]\"]"),
        lvm("layout = \"raid10\"\nmembers = [\"v[0..3]\"]"),
        lvm("layout = \"raid5\"\nmembers = [\"v[0..2]\"]"),
        lvm("layout = \"raid6\"\nmembers = [\"v[0..4]\"]"),
    ];
    insta::assert_snapshot!(designs.map(|lines| format!("{lines}\n{}", shown(&lines))).join("\n"));
}

#[test]
fn a_cache_is_in_front_of_the_outermost_array() {
    let cache = |layout: &str, cache: &str| format!("backing = \"lvm\"\n{layout}\ncache = {{ {cache} }}");
    let designs = [
        cache(
            "layout = \"stripe\"\nmembers = [\"v[0..1]\"]\nfilesystem = \"xfs\"",
            "members = [\"v[2..3]\"], kind = \"cache\"",
        ),
        cache("layout = \"linear\"\nmembers = [\"v[0..1]\"]", "members = [\"v2\"], kind = \"writecache\""),
    ];
    insta::assert_snapshot!(designs.map(|lines| format!("{lines}\n{}", shown(&lines))).join("\n"));
}

#[test]
fn arrays_of_arrays() {
    let lines = "layout = \"stripe\"\nmembers = [\n\
        { layout = \"raid10\", copies = 3, arrangement = \"offset\", members = [\n\
            { layout = \"linear\", backing = \"lvm\", members = [\"v0\"] }, \"v1\", \"v2\"] },\n\
        { layout = \"mirror\", members = [\"v3\", \"v4\"] },\n]";
    insta::assert_snapshot!(shown(lines));
    let nested = "layout = \"linear\"\nbacking = \"lvm\"\nmembers = [\n\
        { layout = \"linear\", backing = \"lvm\", members = [\"v0\"] }, \"v1\"]";
    assert_eq!(planned(nested), Err(BuildPlanError::LvmOnLvm));
}

#[test]
fn what_is_set_on_parity_and_in_encryption() {
    insta::assert_snapshot!(shown(
        "layout = \"stripe\"\nmembers = [\n\
         { layout = \"raid5\", members = [\"v[0..2]\"], consistency_policy = \"ppl\", stripe_cache_size = 4096 },\n\
         { layout = \"raid6\", members = [\"v[3..6]\"], group_thread_cnt = 2 }]\n\
         encryption = { format = \"luks2\", key_file = \"/k\", no_read_workqueue = true, sector_size = 4096 }\nreadahead = \"1MiB\""
    ));
}

#[test]
fn swap_and_a_key_that_is_asked_for() {
    insta::assert_snapshot!(shown(&format!(
        "{STRIPE}\nencryption = {{ format = \"luks2\", key = \"prompt\" }}\nswap = [\n\
         {{ members = [\"v4\", {{ layout = \"mirror\", members = [\"v5\", \"v6\"] }}], priority = 10 }},\n\
         {{ members = [\"v7\"] }}]"
    )));
}

#[test]
fn as_many_md_numbers_are_taken_as_are_said() {
    for lines in [
        STRIPE,
        "layout = \"linear\"\nmembers = [\"v0\"]",
        "layout = \"stripe\"\nmembers = [\n{ layout = \"mirror\", members = [\"v[0..1]\"] },\n\
         { layout = \"linear\", backing = \"lvm\", members = [\"v2\"] }, { layout = \"linear\", members = [\"v3\"] }]",
        "layout = \"mirror\"\nmembers = [\"v[0..1]\"]\nswap = [{ members = [\"v2\",\n\
         { layout = \"linear\", backing = \"lvm\", members = [\"v3\"] }, { layout = \"mirror\", members = [\"v[4..5]\"] }] }]",
    ] {
        let text = format!(
            "name = \"n\"\n[volumes.v]\ncount = 8\nsize = \"1GiB\"\n[designs.d]\n{lines}\n[workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n"
        );
        let experiment = parse(&text, "test").unwrap_or_else(|errors| panic!("{errors}"));
        let made = shown(lines).matches("mdadm --create").count();
        assert_eq!(md_devices(&experiment.designs[0]), made, "{lines}");
    }
}

#[test]
fn everything_that_is_made_has_an_undo() {
    let lines = format!("{STRIPE}\nfilesystem = \"ext4\"");
    let build = planned(&lines).unwrap_or_else(|error| panic!("{error}"));
    assert!(build.steps.iter().all(|step| step.undo.is_some()));
    assert_eq!(build.programs, ["blkid", "mdadm", "mkfs.ext4", "mount", "umount", "wipefs"]);
}

#[test]
fn identities_differ_by_run_build_and_thing() {
    let all = [("a", 0, "x"), ("a", 0, "y"), ("a", 1, "x"), ("b", 0, "x")];
    let labels: std::collections::BTreeSet<String> =
        all.iter().map(|(run, build, what)| Identity::new(run, *build, what).label()).collect();
    assert_eq!(labels.len(), all.len());
    let uuid = Identity::new("a", 0, "x").lvm_uuid();
    assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [6, 4, 4, 4, 4, 4, 6], "{uuid}");
    let uuid = Identity::new("a", 0, "x").md_uuid();
    assert_eq!(uuid.split(':').map(str::len).collect::<Vec<_>>(), [8; 4], "{uuid}");
}

#[test]
fn geometry_is_that_of_md() {
    let of = |lines: &str| {
        let text = format!(
            "name = \"n\"\n[volumes.v]\ncount = 8\nsize = \"1GiB\"\n[designs.d]\n{lines}\n[workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n"
        );
        let experiment = parse(&text, "test").unwrap_or_else(|errors| panic!("{errors}"));
        Geometry::of(&experiment.designs[0].layout).map(|g| (g.chunk.0 / Bytes::KIB, g.width))
    };
    assert_eq!(of(STRIPE), Some((64, 4)));
    assert_eq!(of("layout = \"raid6\"\nmembers = [\"v*\"]"), Some((512, 6)));
    assert_eq!(of("layout = \"raid10\"\nmembers = [\"v[0..3]\"]"), Some((512, 2)));
    assert_eq!(of("layout = \"raid10\"\nmembers = [\"v[0..2]\"]"), Some((512, 3)));
    assert_eq!(of("layout = \"raid10\"\narrangement = \"far\"\nmembers = [\"v[0..3]\"]"), Some((512, 4)));
    assert_eq!(of("layout = \"mirror\"\nmembers = [\"v0\", \"v1\"]"), None);
}
