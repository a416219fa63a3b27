//! What a file with a sweep is read as, and what is said of one with a mistake.

use crate::tests::{disagreement_of, parsed};
use crate::{Summary, parse};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::layout::{ArrayKind, LayoutNode};
use ebbtide_model::metric::Metric;
use ebbtide_model::sweep::{Goal, Limit, Objective};
use ebbtide_model::units::Bytes;
use proptest::prelude::*;
use std::collections::BTreeSet;

pub(crate) const SWEEP: &str = include_str!("../testdata/sweep.toml");

/// The file with `to` in place of `from`.
fn with(from: &str, to: &str) -> String {
    assert!(SWEEP.contains(from), "{from}");
    SWEEP.replacen(from, to, 1)
}

fn said(text: &str) -> String {
    parse(text, "s.toml").map_or_else(|errors| errors.to_string(), |_| "nothing".to_owned())
}

/// What stands on one build, which a sweep shares unless it is told not to.
#[test]
fn designs_that_differ_in_what_is_set_on_what_stands_share_a_build() {
    let text = |vary: &str, more: &str| {
        format!(
            "name = \"n\"\n[volumes.v]\ncount = 4\nsize = \"1GiB\"\n[designs.d]\nlayout = \"stripe\"\nmembers = [\"v0\", \"v1\"]\n\
             filesystem = \"xfs\"\n{more}\n[sweep.vary]\n{vary}\n[workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n"
        )
    };
    let sweep = "[sweep]\ndesign = \"d\"";
    let builds = |vary: &str| parsed(&text(vary, sweep)).shared_builds().expect("by itself");
    assert_eq!(builds("scheduler = [\"none\", \"bfq\"]\nreadahead = [\"128KiB\", \"1MiB\"]"), [0; 4]);
    assert_eq!(builds("queue_depth = [64, 128]\nmount_options = [\"noatime\", \"relatime\"]"), [0; 4]);
    assert_eq!(builds("\"workload.bs\" = [\"4KiB\", \"1MiB\"]"), [0; 2]);
    assert_eq!(builds("chunk = [\"64KiB\", \"1MiB\"]\nscheduler = [\"none\", \"bfq\"]"), [0, 0, 1, 1]);
    // Arrays take over the limits of what they are made of, and btrfs keeps some options.
    for vary in [
        "max_sectors = [\"64KiB\", \"128KiB\"]",
        "filesystem = [\"xfs\", \"ext4\"]",
        "metadata = [\"1.2\", \"1.0\"]",
        "members = [[\"v0\", \"v1\"], [\"v2\", \"v3\"]]",
        "filesystem = [\"btrfs\"]\nmount_options = [\"space_cache=v2\", \"nospace_cache\"]",
    ] {
        assert_eq!(builds(vary), [0, 1], "{vary}");
    }
    let swap = format!("swap = [{{ members = [\"v2\"] }}]\n{sweep}");
    let swaps = parsed(&text("readahead = [\"128KiB\", \"1MiB\"]", &swap));
    assert_eq!(swaps.shared_builds(), Some(vec![0, 1]));
    let readahead = "readahead = [\"128KiB\", \"1MiB\"]";
    let each = parsed(&text(readahead, &format!("{sweep}\nbuilds = \"per-trial\"")));
    assert_eq!(each.shared_builds(), None);
    let wrong = said(&text(readahead, &format!("{sweep}\nbuilds = \"once\"")));
    assert!(
        wrong.contains("way of building") && wrong.contains("per-trial") && wrong.contains("shared"),
        "{wrong}"
    );
}

#[test]
fn every_combination_is_a_design() {
    let experiment = parsed(SWEEP);
    let names: Vec<&str> = experiment.designs.iter().map(|design| design.name.as_str()).collect();
    // The plain design; 3 x 3 x 2 stripes; of the mirrors, which have no chunk, 2 members with 4 in flight.
    assert_eq!(names.len(), 1 + 18 + 1, "{names:?}");
    assert_eq!(names[0], "plain");
    assert_eq!(names[1], "array/layout=stripe,members=2,chunk=64KiB,workload.iodepth=4");
    assert_eq!(names[2], "array/layout=stripe,members=2,chunk=64KiB,workload.iodepth=16");
    assert_eq!(names[19], "array/layout=mirror,members=2,workload.iodepth=4");
    assert_eq!(experiment.control, 1, "the first combination");
    let sweep = experiment.sweep.as_ref().expect("is there");
    assert_eq!((sweep.template.as_str(), sweep.workload), ("array", 0));
    assert_eq!((sweep.indifference, sweep.error), (0.03, 0.1));
    let limit = Limit { of: Goal::Measured(Metric::LatP99), bound: 5e6 };
    assert_eq!(
        sweep.objective,
        Objective::Within { best: Goal::Measured(Metric::Iops), limits: vec![limit] }
    );
    let factors: Vec<_> = sweep.factors.iter().map(|f| (f.name.as_str(), f.levels.join(" "))).collect();
    let expected = [
        ("layout", "stripe mirror"),
        ("members", "2 4 8"),
        ("chunk", "64KiB 128KiB 256KiB"),
        ("workload.iodepth", "4 16"),
    ];
    assert_eq!(factors, expected.map(|(name, levels)| (name, levels.to_owned())));
    for (index, arm) in sweep.arms.iter().enumerate() {
        assert_eq!(arm.design, index + 1);
        // The name says what the levels say.
        let parts: Vec<String> = sweep
            .factors
            .iter()
            .zip(&arm.levels)
            .filter_map(|(factor, level)| Some(format!("{}={}", factor.name, factor.levels[(*level)?])))
            .collect();
        assert_eq!(experiment.designs[arm.design].name, format!("array/{}", parts.join(",")));
    }
    let volumes = (0..8).map(LayoutNode::Volume).collect();
    let stripe = ArrayKind::Stripe { chunk: Bytes(256 << 10) };
    assert_eq!(experiment.designs[18].layout, LayoutNode::Array { kind: stripe, members: volumes });
    let mirror =
        LayoutNode::Array { kind: ArrayKind::Mirror, members: [0, 1].map(LayoutNode::Volume).to_vec() };
    assert_eq!(experiment.designs[19].layout, mirror);
    let depth = |design, workload| experiment.load(design, workload).map(|load| load.iodepth);
    assert_eq!([depth(0, 0), depth(1, 0), depth(2, 0), depth(2, 1)], [Some(16), Some(4), Some(16), Some(1)]);
    assert_eq!(experiment.load(2, 0).map(|load| load.name.as_str()), Some("random"));
    let stored = serde_json::to_string(&experiment).expect("is written");
    assert_eq!(serde_json::from_str::<Experiment>(&stored).ok(), Some(experiment));
}

#[test]
fn a_control_is_pinned_by_name() {
    let control = |name: &str| {
        let experiment = parsed(&with("trials_min = 6", &format!("control = \"{name}\"")));
        (experiment.designs.len(), experiment.designs[experiment.control].name.clone())
    };
    assert_eq!(control("plain"), (20, "plain".to_owned()));
    let arm = "array/layout=mirror,members=2,workload.iodepth=4";
    assert_eq!(control(arm), (20, arm.to_owned()));
    // The template runs as itself only then.
    assert_eq!(control("array"), (21, "array".to_owned()));
}

#[test]
fn what_is_not_said_has_a_default() {
    let text = with(
        "objective = { most = \"iops\", while = \"lat_p99 <= 5ms\" }\nindifference = \"3%\"\nerror = 0.1\n",
        "",
    );
    let sweep = parsed(&text).sweep.expect("is there");
    assert_eq!(sweep.objective, Objective::Best(Goal::Measured(Metric::Iops)));
    assert_eq!((sweep.indifference, sweep.error, sweep.budget), (0.02, 0.05, None));
    let sweep = parsed(&with("error = 0.1", "budget = \"20%\"")).sweep.expect("is there");
    assert_eq!(sweep.budget, Some(0.2));
    let sequential = text.replacen("workload = \"random\"", "workload = \"sequential\"", 1);
    let sweep = parsed(&sequential).sweep.expect("is there");
    assert_eq!(sweep.objective, Objective::Best(Goal::Measured(Metric::Throughput)));
    let asked = sequential.replacen("trials_min = 6", "metric = \"p99\"", 1);
    assert_eq!(
        parsed(&asked).sweep.expect("is there").objective,
        Objective::Best(Goal::Measured(Metric::LatP99))
    );
}

#[test]
fn every_field_can_vary() {
    for (vary, design, value) in [
        ("copies = [2, 3]", "copies=3", "copies\":3"),
        ("arrangement = [\"near\", \"far\"]", "arrangement=far", "far"),
        ("filesystem = [\"ext4\", \"xfs\"]", "filesystem=xfs", "xfs"),
        (
            "mount_options = [\"noatime\", \"noatime,nodiratime\"]",
            "mount_options=noatime,nodiratime",
            "noatime,nodiratime",
        ),
        ("queue_depth = { from = 32, to = 128, times = 4 }", "queue_depth=128", "queue_depth\":128"),
        ("encryption.key_file = [\"/k\", \"/l\"]", "encryption.key_file=/l", "/l"),
        ("members = [[\"vol0\", \"vol1\", \"vol2\"], [\"vol[4..7]\"]]", "members=vol[4..7]", "\"volume\":7"),
        (
            "swap = [[{ members = [\"vol7\"], priority = 3 }]]",
            "swap=(members:vol7 priority:3)",
            "priority\":3",
        ),
    ] {
        let text = format!(
            "name = \"n\"\n[volumes.vol]\ncount = 8\nsize = \"1GiB\"\n[designs.d]\nlayout = \"raid10\"\nmembers = [\"vol[0..3]\"]\n\
             filesystem = \"ext4\"\nencryption = {{ format = \"luks2\", key_file = \"/j\" }}\n\
             [workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n[sweep]\ndesign = \"d\"\nvary = {{ {vary} }}\n"
        );
        let experiment = parsed(&text);
        let last = experiment.designs.last().expect("some");
        assert_eq!(last.name, format!("d/{design}"));
        let json = serde_json::to_string(last).expect("is written");
        assert!(json.contains(value), "{vary}: {json}");
    }
}

#[test]
fn objectives_are_read() {
    let objective = |text: &str| {
        let text = with(
            "objective = { most = \"iops\", while = \"lat_p99 <= 5ms\" }",
            &format!("objective = {text}"),
        );
        parsed(&text).sweep.expect("is there").objective
    };
    let measured = Goal::Measured;
    assert_eq!(objective("\"p99\""), Objective::Best(measured(Metric::LatP99)));
    assert_eq!(
        objective("{ least = \"lat_p50\", while = [\"throughput >= 10MB/s\", \"iops >= 1_000\"] }"),
        Objective::Within {
            best: measured(Metric::LatP50),
            limits: vec![
                Limit { of: measured(Metric::Throughput), bound: 1e7 },
                Limit { of: measured(Metric::Iops), bound: 1000.0 },
            ],
        }
    );
    assert_eq!(
        objective("{ pareto = [\"lat_p99\", \"throughput\"] }"),
        Objective::Pareto(vec![measured(Metric::LatP99), measured(Metric::Throughput)])
    );
    assert_eq!(
        objective("{ weights = { lat_p99 = 0.5, iops = 1 } }"),
        Objective::Weighted(vec![(measured(Metric::Iops), 1.0), (measured(Metric::LatP99), 0.5)])
    );
}

#[test]
fn a_mistake_is_told_with_its_place_and_its_remedy() {
    let objective = "objective = { most = \"iops\", while = \"lat_p99 <= 5ms\" }";
    let vary = "chunk = { from = \"64KiB\", to = \"256KiB\", times = 2 }";
    let cases: &[(&str, &str, &str, &str)] = &[
        ("design = \"array\"", "design = \"arry\"", "there is no design `arry`", "write `array`"),
        ("design = \"array\"\n", "", "[sweep] has no `design`", "design = "),
        (
            "workload = \"random\"\n",
            "",
            "[sweep] of several workloads has no `workload`",
            "workload = \"random\"",
        ),
        ("workload = \"random\"", "workload = \"randon\"", "there is no workload `randon`", "write `random`"),
        ("indifference = \"3%\"", "indifference = \"60%\"", "`indifference` is 0.6", "indifference = 0.02"),
        ("error = 0.1", "error = 0", "`error` is 0", "error = 0.05"),
        ("error = 0.1", "eror = 0.1", "unknown key `eror` in [sweep]", "write `error`"),
        ("error = 0.1", "budget = \"2%\"", "`budget` is 2%", "`budget = \"20%\"`"),
        ("error = 0.1", "budget = 0.02", "at least 4%, one round of trials_max = 30", "`budget = \"20%\"`"),
        ("error = 0.1", "budget = 1.5", "from \"0%\" to \"100%\"", "found the number 1.5"),
        ("error = 0.1", "budget = \"10m\"", "10m", "5%"),
        ("members = [2, 4, 8]", "members = [2, 4, 8, 9]", "`members` is 9", "from 1 to 8"),
        ("members = [2, 4, 8]", "members = [2, 4, 8, -1]", "`members` is -1", "from 1 to 8"),
        ("members = [2, 4, 8]", "members = []", "there are no levels", "write for example"),
        (
            vary,
            "chunk = [\"64KiB\", \"128KiB\", 65536]",
            "the level `65536` is defined twice",
            "it is the same as 64KiB",
        ),
        (
            "members = [2, 4, 8]",
            "members = [2, 4, 8, 4]",
            "the level `4` is defined twice",
            "write each level once",
        ),
        ("members = [2, 4, 8]", "members = 8", "expected a list of levels or a range", "write for example"),
        (
            "members = [2, 4, 8]",
            "membres = [2, 4, 8]",
            "there is no field that varies called `members`",
            "`membres`",
        ),
        (
            "members = [2, 4, 8]",
            "members = [2, 4, 8]
queue_dept = [32]",
            "unknown key `queue_dept` in an array",
            "write `queue_depth`",
        ),
        (vary, "chunk = { from = \"64KiB\", to = \"256KiB\" }", "a range has no `times`", "times = 2"),
        (vary, "chunk = { from = \"64KiB\", times = 2 }", "a range has no `to`", "from = 1"),
        (vary, "chunk = { from = \"64KiB\", to = 256, times = 2 }", "one unit", "same unit"),
        (vary, "chunk = { from = \"64KiB\", to = \"4KiB\", times = 2 }", "ascends", "smaller number"),
        (vary, "chunk = { from = \"64KiB\", to = \"256KiB\", times = 1 }", "`times` is 1", "times = 2"),
        (
            vary,
            "chunk = { from = \"64KiB\", to = \"256KiB\", times = 2, step = 2 }",
            "exclude each other",
            "write one",
        ),
        (vary, "chunk = { from = 0, to = 8, step = 0 }", "`step` is 0", "step = 8"),
        (
            vary,
            "chunk = { from = \"4KiB\", to = \"1GiB\", step = \"4KiB\" }",
            "number of levels",
            "write fewer",
        ),
        (
            "workload.iodepth = { from = 4, to = 16, step = 12 }",
            "workload.io_depth = [4, 16]",
            "called `workload.iodepth`",
            "workload.io_depth",
        ),
        ("step = 12 }", "step = 5000, from2 = 1 }", "unknown key `from2` in a range", "from"),
        ("{ from = 4, to = 16, step = 12 }", "[16, 5000]", "`iodepth` is 5000", "4096"),
        (
            "chunk = { layout = \"stripe\" }",
            "chunk = { layout = \"strip\" }",
            "there is no level `strip`",
            "write `stripe`",
        ),
        (
            "chunk = { layout = \"stripe\" }",
            "layout = { chunk = \"64KiB\" }",
            "does not come before it",
            "write `chunk` before `layout`",
        ),
        (
            "chunk = { layout = \"stripe\" }",
            "chnk = { layout = \"stripe\" }",
            "there is no field that varies called `chnk`",
            "write `chunk`",
        ),
        (
            "members = [4, 8] }",
            "copies = 2 }",
            "there is no field that varies called `copies`",
            "write one of layout",
        ),
        (
            "exclude = [",
            "exclude = [{ layout = [\"stripe\", \"mirror\"] }, ",
            "`exclude` leaves no combination",
            "exclude less",
        ),
        ("exclude = [", "exclude = [{}, ", "no field is named", "write for example"),
        (
            "when = { chunk = { layout = \"stripe\" } }",
            "",
            "a mirror array has no chunks",
            "or leave the combination out with",
        ),
        (objective, "objective = \"iosp\"", "unknown objective `iosp`", "write `iops`"),
        (objective, "objective = { most = \"lat_p99\" }", "would choose the worst", "least = \"lat_p99\""),
        (
            objective,
            "objective = { most = \"iops\", while = \"lat_p99 >= 5ms\" }",
            "of lat_p99 less is better",
            "lat_p99 <= 5ms",
        ),
        (
            objective,
            "objective = { most = \"iops\", while = \"lat_p99 <= 5\" }",
            "`5` is no bound of lat_p99",
            "lat_p99 <= 5ms",
        ),
        (
            objective,
            "objective = { most = \"iops\", while = \"lat_p99 < 5ms\" }",
            "is no limit",
            "lat_p99 <= 5ms",
        ),
        (
            objective,
            "objective = { most = \"iops\", pareto = [\"iops\"] }",
            "`most` and `pareto` exclude each other",
            "write for example",
        ),
        (objective, "objective = { pareto = [\"iops\"] }", "at least two figures", "objective = \"iops\""),
        (
            objective,
            "objective = { pareto = [\"iops\", \"iops\"] }",
            "the figure `iops` is defined twice",
            "once",
        ),
        (objective, "objective = { weights = { iops = 0 } }", "`weight` is 0", "more than 0"),
        (
            objective,
            "objective = { pareto = [\"iops\", \"price\"] }",
            "volume `vol0` has no price: it is not ordered from the catalogue",
            "give it a `type`, for example \"aws:gp3\", or write an objective without `price`",
        ),
        (objective, "objective = 3", "expected an objective", "write for example"),
        (
            "[workloads.random]\nrw = \"randread\"\niodepth = 16",
            "[workloads.random]\nrw = \"randread\"\niodepth = 0",
            "iodepth",
            "1",
        ),
        (
            "trials_min = 6",
            "control = \"array/layout=stripe\"",
            "there is no design `array/layout=stripe`",
            "write",
        ),
    ];
    let mut wrong = String::new();
    for (from, to, mistake, remedy) in cases {
        let said = said(&with(from, to));
        if !said.contains(mistake) || !said.contains(remedy) || said.matches(": error: ").count() != 1 {
            wrong += &format!("{to}\n{mistake} / {remedy}:\n{said}\n\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn a_mistake_of_many_combinations_is_told_once_at_its_level() {
    let text = with("members = [2, 4, 8]", "members = [1, 4, 8]");
    let said = said(&text);
    assert_eq!(said.matches(": error: ").count(), 2, "one of stripes and one of mirrors: {said}");
    assert!(said.contains("stripe needs at least 2 members, and has 1"), "{said}");
    let level = text.lines().position(|line| line == "members = [1, 4, 8]").expect("is there") + 1;
    assert_eq!(said.matches(&format!("s.toml:{level}:12: error")).count(), 2, "{said}");
    assert!(
        said.contains("`array/layout=stripe,members=1,chunk=64KiB,workload.iodepth=4` and 5 more"),
        "{said}"
    );
}

#[test]
fn too_many_designs_are_counted() {
    let levels: Vec<String> = (1..=12).map(|depth| depth.to_string()).collect();
    let more = |field: &str| format!("workload.{field} = [{}]\n", levels.join(", "));
    let text =
        with("workload.iodepth = { from = 4, to = 16, step = 12 }", &(more("iodepth") + &more("numjobs")))
            .replace(", { \"workload.iodepth\" = 16, layout = \"mirror\" }", "");
    let said = said(&text);
    assert!(said.contains("this makes 1440 designs, and a sweep has at most 1000"), "{said}");
}

#[test]
fn effects_act_on_the_designs_that_they_name() {
    let experiment = parsed(SWEEP);
    let planted = |design: &str| experiment.environment.planted.get(design).map(|p| (p.rate, p.latency));
    assert_eq!(planted("plain"), None);
    assert_eq!(planted("array/layout=mirror,members=2,workload.iodepth=4"), Some((0.5, 2.0)));
    assert_eq!(planted("array/layout=stripe,members=2,chunk=64KiB,workload.iodepth=4"), None);
    assert_eq!(planted("array/layout=stripe,members=2,chunk=64KiB,workload.iodepth=16"), Some((0.25, 4.0)));
    assert_eq!(planted("array/layout=stripe,members=8,chunk=64KiB,workload.iodepth=16"), Some((0.5, 3.2)));
    let fields: Vec<&str> = experiment.environment.planted_fields.iter().map(String::as_str).collect();
    assert_eq!(fields, ["layout", "members", "workload.iodepth"]);
    // The template's own fields and those of plain designs count too.
    let more = "[[effects]]\nwhere = { layout = [\"linear\"] }\nrate = 3\n[answer]";
    let experiment = parsed(&with("[answer]", more));
    assert_eq!(experiment.environment.planted.get("plain").map(|p| p.rate), Some(3.0));
    for (from, to, mistake, remedy) in [
        ("rate = 0.5", "rate = 0", "`rate` is 0", "write for example `rate = 1.47`"),
        ("rate = 0.5", "", "an effect has no `rate`", "rate = 0.5"),
        ("rate = 0.5", "rates = 0.5", "unknown key `rates` in an effect", "write `rate`"),
        ("where = { layout = \"mirror\" }", "", "an effect has no `where`", "where = "),
        (
            "where = { layout = \"mirror\" }",
            "where = { layout = \"miror\" }",
            "no design has `layout = miror`",
            "linear, mirror, stripe",
        ),
        (
            "where = { layout = \"mirror\" }",
            "where = { scheduler = \"cfq\" }",
            "no design has `scheduler = cfq`",
            "name a field",
        ),
        (
            "where = { layout = \"mirror\" }",
            "where = { layout = \"mirror\", chunk = \"64KiB\" }",
            "all of these together",
            "remove",
        ),
    ] {
        let said = said(&with(from, to));
        assert!(said.contains(mistake) && said.contains(remedy), "{to}: {said}");
        assert_eq!(said.matches(": error: ").count(), 1, "{to}: {said}");
    }
}

#[test]
fn the_schema_knows_sweeps() {
    assert_eq!(disagreement_of(SWEEP), None);
    for (from, to, expected) in [
        ("design = \"array\"\n", "", "no design"),
        ("workload = \"random\"", "work = \"random\"", "work"),
        ("{ most = \"iops\", while", "{ most = \"iosp\", while", "iosp"),
    ] {
        let found = disagreement_of(&with(from, to)).unwrap_or_default();
        assert!(found.contains(expected), "{to}: {found}");
    }
}

/// The number of designs by brute force: every tuple of the lists is written down and looked at by itself.
fn enumerated(levels: &[Vec<u32>], out: &[(usize, u32)]) -> BTreeSet<String> {
    let names = ["queue_depth", "readahead", "workload.iodepth"];
    let mut rows = vec![String::new()];
    for (factor, levels) in levels.iter().enumerate() {
        let mut longer = Vec::new();
        for row in &rows {
            for level in levels {
                let comma = if row.is_empty() { "" } else { "," };
                longer.push(format!("{row}{comma}{}={level}", names[factor]));
            }
        }
        rows = longer;
    }
    let excluded = |row: &str| {
        out.iter()
            .any(|(factor, level)| row.split(',').any(|part| part == format!("{}={level}", names[*factor])))
    };
    rows.into_iter().filter(|row| !excluded(row)).map(|row| format!("d/{row}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn names_are_those_of_a_slow_enumeration(
        depths in prop::collection::btree_set(4..40u32, 1..5),
        ahead in prop::collection::btree_set(1..9u32, 1..4),
        iodepths in prop::collection::btree_set(1..9u32, 1..4),
        out in prop::collection::vec((0..3usize, any::<prop::sample::Index>()), 0..2),
    ) {
        let levels: Vec<Vec<u32>> = vec![
            depths.into_iter().collect(),
            ahead.into_iter().map(|blocks| blocks * 4096).collect(),
            iodepths.into_iter().collect(),
        ];
        let out: Vec<(usize, u32)> = out.into_iter().map(|(factor, of)| (factor, *of.get(&levels[factor]))).collect();
        let names = ["queue_depth", "readahead", "\"workload.iodepth\""];
        let exclude: Vec<String> = out.iter().map(|(factor, level)| format!("{{ {} = {level} }}", names[*factor])).collect();
        let text = format!(
            "name = \"n\"\n[volumes.v]\nsize = \"1GiB\"\n[designs.d]\nlayout = \"linear\"\nmembers = [\"v\"]\n\
             [workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n[sweep]\ndesign = \"d\"\nexclude = [{}]\n\
             vary = {{ queue_depth = {:?}, readahead = {:?}, \"workload.iodepth\" = {:?} }}\n",
            exclude.join(", "), levels[0], levels[1], levels[2]
        );
        let expected = enumerated(&levels, &out);
        match parse(&text, "s.toml") {
            Ok(experiment) => {
                let names: BTreeSet<String> = experiment.designs.iter().map(|design| design.name.clone()).collect();
                prop_assert_eq!(names.len(), experiment.designs.len());
                prop_assert_eq!(names, expected);
                for arm in &experiment.sweep.as_ref().expect("is there").arms {
                    let depth = levels[2][arm.levels[2].expect("applies")];
                    prop_assert_eq!(experiment.load(arm.design, 0).expect("is there").iodepth, depth);
                    prop_assert_eq!(experiment.designs[arm.design].stack.queue_depth, Some(levels[0][arm.levels[0].expect("applies")]));
                }
                let _ = Summary::new(&experiment).to_string();
            }
            Err(errors) => {
                prop_assert!(expected.is_empty(), "{}", errors);
                prop_assert!(errors.to_string().contains("leaves no combination"));
            }
        }
    }
}

/// The sweep with volumes ordered from the catalogue and a front with the price.
fn priced(kind: &str) -> String {
    let ordered = format!("provisioned_size = \"100GiB\"\ntype = \"{kind}\"\n");
    let objective = "objective = { most = \"iops\", while = \"lat_p99 <= 5ms\" }";
    with(objective, "objective = { pareto = [\"throughput\", \"lat_p99\", \"price\"] }").replacen(
        "[volumes.vol.shape]\nlatency = \"1ms\"\nthroughput = \"50MB/s\"\n",
        &ordered,
        1,
    )
}

#[test]
fn prices_that_leave_nothing_to_be_measured_are_refused() {
    let front = "objective = { pareto = [\"throughput\", \"lat_p99\", \"price\"] }";
    let asked =
        |objective: &str| said(&priced("aws:gp3").replacen(front, &format!("objective = {objective}"), 1));
    let least = parsed(&priced("aws:gp3"));
    let least = least.sweep.iter().flat_map(|sweep| &sweep.arms).filter_map(|arm| arm.price);
    let least = least.fold(f64::INFINITY, f64::min);
    for alone in
        ["\"price\"", "{ weights = { price = 1 } }", "{ least = \"price\", while = \"price <= 99\" }"]
    {
        let said = asked(alone);
        assert!(said.contains("a price is known without a trial"), "{alone}: {said}");
        assert!(said.contains(&format!("costs least, ${least:.2} a month")), "{alone}: {said}");
        assert!(said.contains("while = \"iops >= 3000\""), "{alone}: {said}");
    }
    let said_of = |bound: f64| asked(&format!("{{ most = \"iops\", while = \"price <= {bound}\" }}"));
    let none = said_of(least - 1.0);
    assert!(none.contains(&format!("no design costs at most ${}", least - 1.0)), "{none}");
    assert!(none.contains(&format!("write \"price <= {least}\" or more")), "{none}");
    assert_eq!(said_of(least), "nothing");
    assert_eq!(asked("{ least = \"price\", while = \"iops >= 3000\" }"), "nothing");
    let unit = asked("{ most = \"iops\", while = \"price <= $100\" }");
    assert!(unit.contains("`$100` is no bound of price") && unit.contains("\"price <= 200\""), "{unit}");
}

#[test]
fn what_is_wrong_with_a_number_is_told_in_its_own_words() {
    let load = |more: &str| {
        let workload = "[workloads.random]\nrw = \"randread\"\niodepth = 16";
        let text = with(workload, &format!("[workloads.random]\nrw = \"randread\"\niodepth = 16\n{more}"));
        said(&text.replacen("runtime = \"1s\"\n", "", 1))
    };
    for wrong in ["latency_target = \"5\"", "latency_target = -5", "latency_target = \"0s\""] {
        let said = load(wrong);
        assert!(said.contains("latency_target") && !said.contains("is missing"), "{wrong}: {said}");
    }
    let percentile = load("latency_target = \"5ms\"\nlatency_percentile = \"99%\"");
    assert!(percentile.contains("write it without quotes and sign: `99`"), "{percentile}");
    let budget = said(&SWEEP.replacen("[sweep]\n", "[sweep]\nbudget = \"0.0001%\"\n", 1));
    assert!(budget.contains("`budget` is 0.0001%"), "{budget}");
}

#[test]
fn a_design_costs_what_its_volumes_cost() {
    let experiment = parsed(&priced("aws:gp3"));
    let sweep = experiment.sweep.as_ref().expect("is there");
    let goals = [Goal::Measured(Metric::Throughput), Goal::Measured(Metric::LatP99), Goal::Price];
    assert_eq!(sweep.objective, Objective::Pareto(goals.into()));
    for arm in &sweep.arms {
        // 100 GiB of gp3 with what it includes: $8 a month.
        let members = experiment.designs[arm.design].volumes().len();
        assert_eq!(arm.price, Some(8.0 * members as f64), "{}", experiment.designs[arm.design].name);
    }
    let unpriced = said(&priced("aws:standard"));
    for part in [
        "volume `vol0` has no price: the catalogue has none for aws:standard",
        "add a `price` to its record in a catalogue of your own",
    ] {
        assert!(unpriced.contains(part), "{unpriced}");
    }
}
