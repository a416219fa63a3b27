use super::program_tests::PROGRAMS;
use super::sweep::tests::SWEEP;
use super::*;
use ebbtide_model::catalog::{Catalog, Ordered, VolumeOrder};
use ebbtide_model::experiment::{Answer, Environment, Experiment, Host, Resync, VolumeSource};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::layout::{Arrangement, ArrayKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::volume::{
    Birth, Character, Costs, Drift, Failure, FailureKind, FarCache, FirstTouch, Latency, Limit, Mood, OneWay,
    Seek,
};
use ebbtide_model::workload::{
    Access, Arrival, ContinueOnError, Distribution, EngineOptions, Floor, IoEngine, LatencyTarget, Mix,
    Sequence, Stop,
};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;

const FIRST_RUN: &str = include_str!("../../../experiments/first-run.toml");
const SHIPPED_SCHEMA: &str = include_str!("../../../experiments/experiment.schema.json");
const EVERY_KEY: &str = include_str!("testdata/every-key.toml");

pub(crate) fn parsed(text: &str) -> Experiment {
    parse(text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn members_are_measured_alone_in_pairs_and_together() {
    let experiment = parsed(FIRST_RUN);
    let members = experiment.by_members();
    let names: Vec<&str> = members.designs.iter().map(|design| design.name.as_str()).collect();
    assert_eq!(
        (names.len(), names[0], names[8], names[15]),
        (16, "alone-vol0", "pair-vol0-vol1", "together")
    );
    assert_eq!(members.designs[15].volumes(), (0..8).collect::<Vec<usize>>());
    assert!(members.designs[..8].iter().all(|design| design.volumes().len() == 1));
    assert_eq!((&members.volumes, &members.workloads), (&experiment.volumes, &experiment.workloads));
    // As many rounds fit into the budget as before.
    let rounds = |of: &Experiment| of.answer.budget.0 / of.round_time().map_or(1, |time| time.0);
    assert!(rounds(&members).abs_diff(rounds(&experiment)) <= 1);
    // A pair of two is all of them, a stripe needs a chunk on each, and what was swept or planted stays behind.
    let two = FIRST_RUN.replace("count = 8", "count = 2").replace("vol[0..7]", "vol[0..1]");
    let two = parsed(&two).by_members();
    let names: Vec<&str> = two.designs.iter().map(|design| design.name.as_str()).collect();
    assert_eq!(names, ["alone-vol0", "alone-vol1", "together"]);
    let swept = parsed(SWEEP).by_members();
    assert!(swept.sweep.is_none() && swept.environment.planted.is_empty());
}

#[test]
fn the_first_run_is_what_its_readers_are_told() {
    let experiment = parsed(FIRST_RUN);
    assert_eq!(experiment.volumes.len(), 8);
    assert_eq!(experiment.designs[experiment.control].name, "linear-8");
    let summary = Summary::new(&experiment);
    assert_eq!(summary.new_file_bytes, 2 << 30);
    assert_eq!(summary.notes, Vec::<String>::new());
    assert!(summary.longest_ns.is_some_and(|ns| ns <= 120 * Nanos::PER_SECOND), "{:?}", summary.longest_ns);
    // Every member of the stripe is busy: a whole stripe row fits into what is in flight.
    for workload in &experiment.workloads {
        assert!(workload.bs.0 * u64::from(workload.iodepth) >= 8 * 64 * Bytes::KIB, "{}", workload.name);
    }
}

#[test]
fn every_key_reaches_the_model() {
    let experiment = parsed(EVERY_KEY);
    let [instance, _] = experiment.links.as_slice() else { panic!("{:?}", experiment.links) };
    assert_eq!(
        instance.iops,
        Some(Limit { rate: 4_000.0, burst_rate: Some(20_000.0), burst_credits: 10_000_000.0 })
    );
    let credits = (200 * Bytes::GIB) as f64;
    assert_eq!(
        instance.throughput,
        Some(Limit { rate: 125e6, burst_rate: Some(600e6), burst_credits: credits })
    );

    let names: Vec<&str> = experiment.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(
        names,
        ["ssd0", "ssd1", "ssd2", "ssd3", "slow", "disk", "image", "moody", "cloud", "far0", "near"]
    );
    let hosts: Vec<Option<&str>> =
        experiment.volumes[8..].iter().map(|volume| volume.host.as_deref()).collect();
    assert_eq!(hosts, [None, Some("storage-a"), Some("localhost")]);
    let ssd = &experiment.volumes[3];
    assert_eq!(ssd.source, VolumeSource::NewFile { directory: Some("/mnt/scratch".into()) });
    assert_eq!(ssd.size, Some(Bytes(Bytes::GIB)));
    let shape = ssd.shape.clone().unwrap_or_default();
    assert_eq!(shape.iops, Some(Limit { rate: 100.0, burst_rate: Some(3000.0), burst_credits: 5_400_000.0 }));
    assert_eq!(shape.throughput, Some(Limit::steady(125.0 * Bytes::MIB as f64)));
    assert_eq!(shape.io_unit, Some(Bytes(256 * Bytes::KIB)));
    assert_eq!(shape.read_latency, Latency::Lognormal { median: Nanos(600_000), p99: Nanos(2_000_000) });
    assert_eq!(shape.write_latency, Latency::Constant(Nanos(900_000)));
    assert_eq!(shape.link, Some(0));
    let slow = experiment.volumes[4].shape.clone().unwrap_or_default();
    assert_eq!(slow.read_latency, Latency::Constant(Nanos::from_millis(8)));
    assert_eq!(slow.write_latency, Latency::Constant(Nanos(0)));
    let id = Some("nvme-example".to_owned());
    assert_eq!(
        experiment.volumes[5].source,
        VolumeSource::Device { path: "/dev/disk/by-id/nvme-example".into(), id }
    );
    assert_eq!(
        experiment.volumes[6].source,
        VolumeSource::ExistingFile { path: "/mnt/scratch/image".into() }
    );
    assert_eq!(experiment.volumes[6].size, None);

    let moody = experiment.volumes[7].shape.as_ref().map(|shape| &shape.character);
    let mood = |name: &str, dwell, weight, rate, latency| Mood {
        name: name.to_owned(),
        dwell: Nanos::from_secs(dwell),
        weight,
        rate,
        latency,
    };
    let character = Character {
        merge_sequential: true,
        flush_latency: Some(Latency::Constant(Nanos::from_millis(3))),
        one_way: PerOp {
            read: OneWay { iops: Some(Limit::steady(800.0)), throughput: None },
            write: OneWay { iops: None, throughput: Some(Limit::steady(40e6)) },
        },
        credits_at_start: Some(0.5),
        costs: Some(Costs { read: 1.0, write: 5.0, min_bytes: Bytes(4096), write_bytes: 1.5 }),
        seek: Some(Seek {
            track_to_track: Nanos(800_000),
            full_stroke: Nanos::from_millis(16),
            rotation: Nanos(8_333_333),
            transfer: 100e6,
            capacity: Bytes(2 << 30),
        }),
        cache: Some(FarCache { size: Bytes(64 << 20), latency: Latency::Constant(Nanos(300_000)) }),
        first_touch: Some(FirstTouch {
            block: Bytes(256 << 10),
            latency: Latency::Lognormal { median: Nanos::from_millis(5), p99: Nanos::from_millis(40) },
        }),
        moods: vec![mood("good", 600, 1.0, 1.0, 1.0), mood("bad", 60, 0.5, 0.25, 4.0)],
        drift: Some(Drift { sigma: 0.1, timescale: Nanos::from_secs(86_400) }),
        birth: Some(Birth { rate_sigma: 0.05, latency_sigma: 0.1 }),
        failure: Some(Failure {
            kind: FailureKind::Freeze,
            at: Nanos::from_secs(5),
            lasts: Some(Nanos::from_secs(2)),
        }),
    };
    assert_eq!(moody, Some(&character));
    let cloud = experiment.volumes[8].shape.clone().unwrap_or_default();
    assert_eq!(cloud.iops, Some(Limit::steady(6000.0)));
    assert_eq!(cloud.throughput, Some(Limit::steady(250.0 * 1_048_576.0)));
    assert_eq!(cloud.write_latency, Latency::Constant(Nanos::from_millis(1)));
    assert!(matches!(cloud.read_latency, Latency::Lognormal { .. }) && cloud.character.merge_sequential);
    assert_eq!((cloud.link, experiment.links[1].name.as_str()), (Some(1), "m6i.2xlarge"));
    let host = Host {
        cores: 4,
        cpu_per_io: Nanos(5000),
        cpu_per_write: Some(Nanos(6000)),
        copy_rate: 3e9,
        max_request: Some(Bytes(256 << 10)),
        memory: Some(Bytes(8 << 30)),
        readahead: Some(Bytes(32 << 20)),
    };
    let surroundings =
        Environment { host, clients: 2, resync: Some(Resync { rate: 100e6 }), ..Default::default() };
    assert_eq!(experiment.environment, surroundings);

    let volumes =
        |indices: &[usize]| indices.iter().map(|index| LayoutNode::Volume(*index)).collect::<Vec<_>>();
    let array = |kind, members| LayoutNode::Array { kind, members };
    let chunk = Bytes(512 * Bytes::KIB);
    let mirror = |indices: &[usize]| array(ArrayKind::Mirror, volumes(indices));
    let far = ArrayKind::Raid10 { chunk: Bytes(64 * Bytes::KIB), copies: 3, arrangement: Arrangement::Far };
    let expected = [
        ("stripe", array(ArrayKind::Stripe { chunk: Bytes(96 * Bytes::KIB) }, volumes(&[0, 1, 2, 3]))),
        ("mirrors", array(ArrayKind::Stripe { chunk }, vec![mirror(&[0, 1]), mirror(&[2, 3])])),
        ("raid10", array(far, volumes(&[0, 1, 2, 3]))),
        ("raid5", array(ArrayKind::Raid5 { chunk }, volumes(&[0, 1, 2, 3, 4]))),
        ("raid6", array(ArrayKind::Raid6 { chunk }, volumes(&[0, 1, 2, 3]))),
        ("found", array(ArrayKind::Linear, volumes(&[5, 6]))),
        ("kernel", mirror(&[0, 1])),
        ("replicated", mirror(&[9, 10])),
        ("prompted", array(ArrayKind::Linear, volumes(&[4]))),
        ("lvm", array(ArrayKind::Stripe { chunk: Bytes(256 * Bytes::KIB) }, volumes(&[0, 1, 2, 3]))),
    ];
    for (design, (name, layout)) in experiment.designs.iter().zip(&expected) {
        assert_eq!((design.name.as_str(), &design.layout), (*name, layout));
    }
    assert_eq!((experiment.designs.len(), experiment.control), (expected.len(), 2));

    let [mixed, log, arrivals, most, near, far, data, wal] = experiment.workloads.as_slice() else {
        panic!("eight workloads")
    };
    assert_eq!((data.name.as_str(), wal.name.as_str()), ("oltp.data", "oltp.wal"));
    assert!(data.runs_beside(wal) && !far.runs_beside(data));
    assert_eq!((wal.details.offset, wal.span), (Bytes(16 * Bytes::MIB), Some(Bytes(64 * Bytes::MIB))));
    assert_eq!((near.name.as_str(), far.name.as_str()), ("caches-set-1MiB", "caches-set-4MiB"));
    assert_eq!((mixed.access, mixed.mix), (Access::Random, Mix::Mixed { read_percent: 70 }));
    assert_eq!((mixed.bs, mixed.iodepth, mixed.numjobs), (Bytes(8192), 16, 2));
    assert_eq!((mixed.stop, mixed.warm_up), (Stop::Runtime(Nanos::from_secs(30)), Nanos::from_secs(2)));
    assert_eq!((mixed.span, mixed.rate), (Some(Bytes(512 * Bytes::MIB)), Some(Bytes(100_000_000))));
    assert_eq!((mixed.think_time, mixed.direct), (Nanos(50_000), true));
    assert_eq!(
        (log.access, log.mix, log.stop),
        (Access::Sequential, Mix::Write, Stop::Size(Bytes(64 << 20)))
    );
    assert_eq!((log.direct, log.sync, log.end_fsync, log.ioengine), (false, true, true, IoEngine::Psync));
    let engine = EngineOptions {
        cpus_allowed: vec![0, 1, 2, 5],
        nice: Some(-5),
        huge_pages: true,
        hipri: true,
        sqthread_poll: true,
    };
    assert_eq!((&mixed.engine, &log.engine), (&engine, &EngineOptions::default()));
    let syncs = (mixed.details.fsync_every, mixed.details.fdatasync_every);
    assert_eq!((syncs, mixed.details.start_delay), ((Some(8), Some(4)), Nanos::from_secs(1)));
    assert_eq!((mixed.details.compress_percent, mixed.details.dedupe_percent), (50, 20));
    let second = Nanos::from_secs(1);
    let floor = Floor { throughput: Some(Bytes(1_000_000)), iops: Some(10.0), cycle: Nanos::from_secs(2) };
    assert_eq!(mixed.conditions.floor, Some(floor));
    assert_eq!(mixed.conditions.go_on, ContinueOnError { read: true, write: true });
    let steady = mixed.conditions.steady.expect("is waited for");
    assert_eq!(
        (steady.window, steady.ramp, steady.interval),
        (second.times(10), second.times(2), Nanos::from_millis(500))
    );
    let target = Nanos::from_millis(5);
    let latency = LatencyTarget { target, window: second.times(2), percentile: 99.9, run: true };
    assert_eq!((most.conditions.latency, most.details.keep_cache), (Some(latency), true));
    assert_eq!(arrivals.arrival, Arrival::Poisson { iops: 1500.5 });
    assert_eq!(arrivals.distribution, Distribution::Zipf { theta: 1.2 });
    assert_eq!(arrivals.details.sequence, Sequence::Runs { length: 8, identical: true });
    assert_eq!(arrivals.mean_bs(), 0.6 * 4096.0 + 0.4 * 16_384.0);

    let answer = Answer {
        level: 0.99,
        precision: 0.03,
        indifference: 0.01,
        trials_min: 8,
        trials_max: 40,
        budget: Nanos::from_secs(3600),
        budget_asked: true,
        rest: Nanos::from_secs(5),
        metric: Some(Metric::LatP99),
    };
    assert_eq!(experiment.answer, answer);
}

#[test]
fn an_experiment_survives_the_store() {
    let experiment = parsed(EVERY_KEY);
    let stored = serde_json::to_string(&experiment).unwrap_or_default();
    assert_eq!(serde_json::from_str::<Experiment>(&stored).ok(), Some(experiment));
}

#[test]
fn what_was_ordered_stays_with_the_volume() {
    let experiment = parsed(EVERY_KEY);
    let ordered: Vec<&Ordered> = experiment.volumes.iter().filter_map(|v| v.ordered.as_ref()).collect();
    let order = VolumeOrder {
        size: Bytes(100 << 30),
        iops: Some(6000.0),
        throughput: Some((250 * Bytes::MIB) as f64),
    };
    let [ordered] = ordered.as_slice() else { panic!("one volume has a type: {ordered:?}") };
    assert_eq!((ordered.volume_type.as_str(), ordered.order), ("aws:gp3", order));
    let record = Catalog::builtin().volume_type(&ordered.volume_type, ordered.as_of).expect("is there");
    assert_eq!((record.id.as_str(), ordered.price), ("gp3", record.price_of(&order)));
    // A session that was stored before orders were kept reads as before.
    let mut stored = serde_json::to_value(&experiment).expect("is written");
    for volume in stored["volumes"].as_array_mut().expect("a list") {
        volume.as_object_mut().expect("a volume").remove("ordered");
    }
    let read: Experiment = serde_json::from_value(stored).expect("reads");
    assert!(read.volumes.iter().all(|volume| volume.ordered.is_none()));
}

#[test]
fn a_summary_says_what_would_happen() {
    insta::assert_snapshot!(Summary::new(&parsed(EVERY_KEY)));
}

#[test]
fn a_summary_says_a_span_of_one_value_once() {
    let text = FIRST_RUN.replace("trials_max = 9", "trials_max = 8").replace("vol[0..7]", "vol0");
    let text =
        text.replace("layout = \"stripe\"         # RAID0\nchunk = \"64KiB\"", "layout = \"linear\"\n#");
    let told = Summary::new(&parsed(&text)).to_string();
    for line in ["  trials     8 rounds of 12 trials\n", "  time       86 s, and", "linear, 1 member, 256MiB"]
    {
        assert!(told.contains(line), "{line}: {told}");
    }
}

/// Keys that the schema knows, by the definition they stand in, names that users choose left out.
#[test]
fn devices_are_listed_in_one_table() {
    let text = |device: &str, more: &str| {
        format!(
            "name = \"d\"\n[volumes.disk]\ndevice = {device}\n{more}\n[designs.all]\nlayout = \"stripe\"\nmembers = \
             [\"disk*\"]\n[workloads.r]\nrw = \"read\"\nruntime = \"1s\"\n"
        )
    };
    let parsed = |device: &str, more: &str| parse(&text(device, more), "d.toml");
    let range = parsed("\"/dev/sd[b..y]\"", "size = \"10GB\"").unwrap();
    assert_eq!((range.volumes.len(), range.designs[0].layout.volumes().len()), (24, 24));
    let path = |path: &str| VolumeSource::Device { path: path.into(), id: None };
    assert_eq!((range.volumes[23].name.as_str(), &range.volumes[23].source), ("disk23", &path("/dev/sdy")));
    assert_eq!(range.volumes[0].size, Some(Bytes(9_999_998_976)), "whole blocks of it");
    let list = parsed("[\"/dev/sdb\", \"/dev/nvme[1..2]n1\"]", "").unwrap();
    assert_eq!(list.volumes[2].source, path("/dev/nvme2n1"));
    for (device, more, says) in [
        ("\"/dev/sd*\"", "", "another day"),
        ("[\"/dev/sdb\", \"/dev/sdb\"]", "", "defined twice"),
        ("\"/dev/sd[b..c]\"", "count = 2", "as many volumes as devices"),
        ("\"/dev/sd[b..c]\"", "id = \"nvme-x\"", "the id of one device"),
        ("\"/dev/sdb\"", "count = 2", "write a list or a range"),
        ("[]", "", "a path or a list of paths"),
        ("3", "", "a path or a list of paths"),
    ] {
        let said = parsed(device, more).unwrap_err().to_string();
        assert!(said.contains(says), "{device} {more}: {said}");
    }
}

fn schema_keys(schema: &Value) -> BTreeSet<String> {
    let definitions =
        schema["definitions"].as_object().into_iter().flatten().map(|(_, definition)| definition);
    // A workload is operations of the engine's, or a program.
    let forms = schema["definitions"]["Workload"]["anyOf"].as_array().into_iter().flatten();
    definitions
        .chain(forms)
        .chain([schema])
        .filter_map(|definition| definition["properties"].as_object())
        .flat_map(|properties| properties.keys().cloned())
        .collect()
}

/// Keys of the file, wherever they stand; values below `volumes` and the like have one level of names.
fn file_keys(value: &toml::Value, keys: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                keys.insert(key.clone());
                file_keys(value, keys);
            }
        }
        toml::Value::Array(values) => values.iter().for_each(|value| file_keys(value, keys)),
        _ => {}
    }
}

#[test]
fn the_test_file_has_every_key_of_the_schema() {
    let mut keys = BTreeSet::new();
    for text in [EVERY_KEY, SWEEP, PROGRAMS] {
        file_keys(&text.parse().map(toml::Value::Table).unwrap_or_else(|error| panic!("{error}")), &mut keys);
    }
    let missing: Vec<String> = schema_keys(&json_schema()).difference(&keys).cloned().collect();
    assert_eq!(
        missing,
        Vec::<String>::new(),
        "add them to testdata/every-key.toml, sweep.toml or programs.toml"
    );
}

#[test]
fn the_shipped_schema_is_the_one_of_the_code() {
    let shipped: Value = serde_json::from_str(SHIPPED_SCHEMA).unwrap_or_default();
    assert!(
        shipped == json_schema(),
        "run: cargo run -q -p ebbtide -- check --schema > experiments/experiment.schema.json"
    );
}

/// The part of JSON Schema that our schema uses, except patterns; the first disagreement, if any.
fn disagreement(schema: &Value, value: &Value, root: &Value, path: &str) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#'));
        return disagreement(target.unwrap_or(&Value::Bool(false)), value, root, path);
    }
    if schema == &Value::Bool(false) {
        return Some(format!("{path}: nothing is allowed here"));
    }
    if let Some(variants) = schema["anyOf"].as_array() {
        let found: Vec<String> =
            variants.iter().map_while(|variant| disagreement(variant, value, root, path)).collect();
        if found.len() == variants.len() {
            return Some(found.join(" and "));
        }
    }
    let kind = match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        _ => "integer",
    };
    let allowed: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec![kind],
    };
    if !allowed.iter().any(|allowed| *allowed == kind || (*allowed == "number" && kind == "integer")) {
        return Some(format!("{path}: {kind} instead of {allowed:?}"));
    }
    if let Some(choices) = schema["enum"].as_array().filter(|choices| !choices.contains(value)) {
        return Some(format!("{path}: {value} is not one of {choices:?}"));
    }
    if let (Some(number), Some(least)) = (value.as_f64(), schema["minimum"].as_f64())
        && number < least
    {
        return Some(format!("{path}: {number} < {least}"));
    }
    if let (Some(number), Some(most)) = (value.as_f64(), schema["maximum"].as_f64())
        && number > most
    {
        return Some(format!("{path}: {number} > {most}"));
    }
    if let Some(values) = value.as_array() {
        return values.iter().find_map(|element| disagreement(&schema["items"], element, root, path));
    }
    let object = value.as_object()?;
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|key| !object.contains_key(*key)) {
        return Some(format!("{path}: no {missing}"));
    }
    object.iter().find_map(|(key, value)| {
        let inner = schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
        disagreement(inner, value, root, &format!("{path}.{key}"))
    })
}

pub(crate) fn disagreement_of(text: &str) -> Option<String> {
    let value: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}"));
    let value = serde_json::to_value(value).unwrap_or_default();
    let schema = json_schema();
    disagreement(&schema, &value, &schema, "")
}

#[test]
fn the_schema_accepts_what_the_parser_accepts() {
    assert_eq!(disagreement_of(FIRST_RUN), None);
    assert_eq!(disagreement_of(EVERY_KEY), None);
    assert_eq!(disagreement_of(PROGRAMS), None);
}

#[test]
fn the_schema_refuses_unknown_and_missing_keys() {
    let wrong = [
        ("iodepth = 16", "io_depth = 16", "io_depth"),
        ("layout = \"stripe\"", "layout = \"raid0\"", "raid0"),
        ("rw = \"read\"\n", "", "no rw"),
        ("iops = 1000 ", "iops = \"1000\"", "iops"),
        ("[designs.stripe-8]", "[design.stripe-8]", "design"),
    ];
    for (from, to, expected) in wrong {
        assert!(FIRST_RUN.contains(from), "{from}");
        let found = disagreement_of(&FIRST_RUN.replace(from, to)).unwrap_or_default();
        assert!(found.contains(expected), "{to}: {found}");
    }
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let text = "name = \"n\"\n[volumes.a]\nsize = \"1MiB\"\n[volumes.b]\nsize = \"1MiB\"\n\
                [designs.s]\nlayout = \"raid10\"\nmembers = [\"a\", \"b\"]\n\
                [workloads.w]\nrw = \"randrw\"\nruntime = \"1s\"\n";
    let experiment = parsed(text);
    assert_eq!(experiment.volumes[0].source, VolumeSource::NewFile { directory: None });
    assert_eq!(experiment.volumes[0].shape, None);
    let raid10 =
        ArrayKind::Raid10 { chunk: Bytes(512 * Bytes::KIB), copies: 2, arrangement: Arrangement::Near };
    assert!(matches!(&experiment.designs[0].layout, LayoutNode::Array { kind, .. } if *kind == raid10));
    let workload = &experiment.workloads[0];
    assert_eq!(workload.mix, Mix::Mixed { read_percent: 50 });
    assert_eq!((workload.bs, workload.iodepth, workload.numjobs), (Bytes(4096), 1, 1));
    assert_eq!((workload.warm_up, workload.think_time), (Nanos(0), Nanos(0)));
    assert_eq!((workload.span, workload.rate, workload.arrival), (None, None, Arrival::Closed));
    assert_eq!((workload.direct, workload.sync, workload.end_fsync), (true, false, false));
    assert_eq!(workload.ioengine, IoEngine::IoUring);
    let answer = Answer {
        level: 0.95,
        precision: 0.05,
        indifference: 0.02,
        trials_min: 6,
        trials_max: 30,
        budget: Nanos::from_secs(600),
        budget_asked: false,
        rest: Nanos(0),
        metric: None,
    };
    assert_eq!((experiment.control, experiment.answer), (0, answer));
}

#[test]
fn mistakes_are_independent() {
    let text = FIRST_RUN
        .replace("count = 8", "count = 0")
        .replace("rw = \"read\"", "rw = \"raed\"")
        .replace("level = 0.95", "level = 95");
    let errors = parse(&text, "x.toml").expect_err("three mistakes");
    let messages: Vec<String> = errors.errors.iter().map(|error| error.problem.mistake.to_string()).collect();
    // The members of volumes whose count is wrong are not reported as unknown.
    assert_eq!(messages.len(), 3, "{errors}");
}

#[test]
fn hostile_files_end_soon() {
    let deep = format!("x = {}", "[".repeat(100_000));
    let wide = "[a]\n".repeat(20_000);
    let keys: String = (0..20_000).map(|i| format!("k{i} = 1\n")).collect();
    let volumes: String =
        (0..500).map(|i| format!("[volumes.v{i}x]\ncount = 1024\nsize = \"4k\"\n")).collect();
    for text in [deep, wide, keys, volumes] {
        let errors = parse(&text, "x.toml").expect_err("hostile");
        assert!(errors.errors.len() <= 100, "{}", errors.errors.len());
    }
}

/// The good file, damaged: pieces dropped, doubled, swapped, or with text from elsewhere put in.
fn damaged() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..6u8, "\\PC{0,6}");
    let good = prop::sample::select(vec![FIRST_RUN, EVERY_KEY, SWEEP, PROGRAMS]);
    (good, prop::collection::vec(edit, 1..4)).prop_map(|(good, edits)| {
        let mut text: Vec<char> = good.chars().collect();
        for (at, other, kind, insert) in edits {
            if text.is_empty() {
                break;
            }
            let (at, other) = (at.index(text.len()), other.index(text.len()));
            let (low, high) = (at.min(other), at.max(other));
            match kind {
                0 => drop(text.drain(low..high.min(low + 200))),
                1 => drop(text.remove(at)),
                2 => drop(text.splice(at..at, insert.chars())),
                3 => text.swap(at, other),
                4 => drop(text.splice(at..=at, insert.chars())),
                _ => {
                    let piece: Vec<char> = text[low..high.min(low + 40)].to_vec();
                    drop(text.splice(at..at, piece));
                }
            }
        }
        text.into_iter().collect()
    })
}

/// Each value of the good file replaced by another kind of value.
fn with_strange_values() -> impl Strategy<Value = String> {
    let strange = prop::sample::select(vec![
        "0",
        "-1",
        "1e300",
        "nan",
        "inf",
        "99999999999999999999",
        "0x7fffffffffffffff",
        "true",
        "\"\"",
        "\"0\"",
        "\"18446744073709551615\"",
        "\"99999999TiB\"",
        "[]",
        "[[]]",
        "{}",
        "[{}]",
        "1979-05-27",
        "\"vol[0..4294967295]\"",
        "[\"vol[4294967295..4294967295]\"]",
        "[\"*\", \"*\"]",
        "{ rate = 1, burst = 2, credits = 0 }",
    ]);
    let good = prop::sample::select(vec![FIRST_RUN, EVERY_KEY, SWEEP, PROGRAMS]);
    (good, any::<prop::sample::Index>(), strange).prop_map(|(good, index, strange)| {
        let lines: Vec<&str> = good.lines().collect();
        let assignments: Vec<usize> = (0..lines.len())
            .filter(|i| lines[*i].contains(" = ") && !lines[*i].starts_with([' ', '#']))
            .collect();
        let chosen = assignments[index.index(assignments.len())];
        let key = lines[chosen].split(" = ").next().unwrap_or("");
        let replaced = format!("{key} = {strange}");
        let lines: Vec<&str> = lines
            .iter()
            .enumerate()
            .map(|(i, line)| if i == chosen { replaced.as_str() } else { line })
            .collect();
        lines.join("\n")
    })
}

fn check_errors(text: &str) -> Result<(), TestCaseError> {
    match parse(text, "x.toml") {
        Ok(experiment) => {
            let _ = Summary::new(&experiment).to_string();
        }
        Err(errors) => {
            prop_assert!(!errors.errors.is_empty());
            for error in &errors.errors {
                let line = text.split('\n').nth(error.line - 1).map(|line| line.trim_end_matches('\r'));
                prop_assert_eq!(line, Some(error.source_line.as_str()));
                prop_assert!(error.column <= error.source_line.chars().count() + 1);
                prop_assert!(!error.problem.remedy.is_empty());
            }
            prop_assert!(errors.to_string().starts_with("x.toml:"));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        check_errors(&text)?;
    }

    #[test]
    fn damage_is_reported_where_it_is(text in damaged()) {
        check_errors(&text)?;
    }

    #[test]
    fn strange_values_are_reported_where_they_are(text in with_strange_values()) {
        check_errors(&text)?;
    }
}

#[test]
fn speeds_by_name_are_checked_where_they_stand() {
    let file = |top: &str, volume: &str| {
        let text = FIRST_RUN.replacen("[volumes.vol]", &format!("{top}\n[volumes.vol]"), 1);
        let begin = text.find("[volumes.vol.shape]").expect("is shaped");
        let end = begin + text[begin + 1..].find("\n[").expect("goes on") + 1;
        let text = format!("{}{}", &text[..begin], &text[end..]);
        text.replacen("[volumes.vol]", &format!("[volumes.vol]\n{volume}"), 1)
    };
    let said = |top: &str, volume: &str| match parse(&file(top, volume), "x.toml") {
        Ok(_) => "good".to_owned(),
        Err(errors) => errors.to_string(),
    };
    assert_eq!(
        said("instance = \"m6i.2xlarge\"", "type = \"aws:gp3\"\nprovisioned_size = \"10GiB\""),
        "good"
    );
    for (top, volume, expected) in [
        ("", "type = \"aws:gp5\"", "there is no volume type `aws:gp5`"),
        ("", "type = \"aws:st1\"", "125 to 16384 GiB"),
        ("", "provisioned_iops = 5000", "`provisioned_iops` means nothing here"),
        (
            "",
            "type = \"aws:gp2\"\nprovisioned_size = \"10GiB\"\nprovisioned_iops = 5000",
            "no provisioned IOPS",
        ),
        ("", "type = \"aws:io1\"\nprovisioned_size = \"10GiB\"", "write `provisioned_iops`"),
        ("as_of = 2016-01-01", "type = \"aws:gp3\"", "no figures for 2016-01-01"),
        ("as_of = \"yesterday\"", "", "write for example `2016-01-31`"),
        ("instance = \"m6i.2xlarg\"", "", "write `m6i.2xlarge`"),
        ("", "type = \"aws:instance-store\"", "needs to know the instance"),
        ("instance = \"m6i.large\"", "type = \"aws:instance-store\"", "has no local disks"),
        ("instance = \"c1.xlarge\"", "type = \"aws:instance-store\"", "is not in the catalogue"),
    ] {
        let said = said(top, volume);
        assert!(said.contains(expected), "{top} {volume}: {said}");
    }
}

#[test]
fn of_a_long_line_the_part_is_shown_that_is_wrong() {
    let long = "ä".repeat(50_000);
    let text = format!("name = \"x\"\nanswer = {{ note = \"{long}\", levle = \"{long}\" }}\n");
    let errors = parse(&text, "x.toml").expect_err("is wrong");
    let told = errors.to_string();
    assert!(told.len() < 10_000, "{} bytes", told.len());
    let lines: Vec<&str> = told.lines().collect();
    let at = lines.iter().position(|line| line.contains("levle =")).expect("is shown");
    let column = |line: &str, what: &str| line[..line.find(what).expect("is there")].chars().count();
    assert_eq!(column(lines[at], "levle ="), column(lines[at + 1], "^"), "{told}");
    assert!(errors.errors.iter().all(|error| error.source_line.len() < 1000), "{told}");
}
