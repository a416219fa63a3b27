use super::*;
use crate::units::Bytes;
use crate::volume::Limit;

const MIB: f64 = 1_048_576.0;

fn day(text: &str) -> Option<Date> {
    Some(text.parse().expect("a day"))
}

fn order(gib: u64) -> VolumeOrder {
    VolumeOrder { size: Bytes(gib << 30), iops: None, throughput: None }
}

fn limits(name: &str, as_of: Option<Date>, order: &VolumeOrder) -> (Limit, Limit) {
    let shape = Catalog::builtin().volume_type(name, as_of).expect("known").shape(order).expect("can be had");
    (shape.iops.expect("limited"), shape.throughput.expect("limited"))
}

#[test]
fn the_built_in_records_are_whole() {
    let mut catalog = Catalog::default();
    assert_eq!(catalog.add_file(VOLUME_TYPES, "volume_types.toml"), Ok(()));
    let instances = instances::read_table(AWS_INSTANCES).expect("reads");
    assert!(instances.len() > 1400 && catalog.types().len() > 20);
    for record in catalog.types() {
        assert!(!record.sources.is_empty(), "{}", record.id);
        for source in record.source_names() {
            assert!(catalog.source(source).is_some(), "{}: {source}", record.id);
        }
        // Every type can be ordered at both ends of its sizes.
        for gib in [record.size_gib.min, record.size_gib.max] {
            let iops = match record.iops {
                IopsRule::Provisioned { included: None, min, .. } => min,
                _ => None,
            };
            let shape = record.shape(&VolumeOrder { iops, ..order(gib) });
            assert!(shape.is_ok(), "{} {gib}: {shape:?}", record.id);
        }
    }
    for instance in &instances {
        let link = instance.link();
        assert!(link.is_some() || instance.network_gbps.is_none(), "{}", instance.id);
    }
}

#[test]
fn periods_of_one_type_do_not_overlap_and_leave_no_gap() {
    let types = Catalog::builtin().types();
    for (one, next) in types.iter().zip(&types[1..]) {
        if (&one.provider, &one.id) == (&next.provider, &next.id) {
            let (until, from) = (one.valid_until.expect("ends"), next.valid_from.expect("begins"));
            assert!(until < from, "{}", one.id);
            assert!(Catalog::builtin().volume_type(&one.id, Some(until)).is_ok());
        }
    }
}

#[test]
fn gp2_has_credits_and_its_step_of_throughput() {
    let (iops, throughput) = limits("aws:gp2", None, &order(100));
    assert_eq!(iops, Limit { rate: 300.0, burst_rate: Some(3000.0), burst_credits: 5_400_000.0 });
    assert_eq!(throughput, Limit::steady(128.0 * MIB));
    let (iops, throughput) = limits("gp2", None, &order(200));
    assert_eq!((iops.rate, throughput.rate), (600.0, 600.0 * 262_144.0));
    assert_eq!(throughput.burst_rate, Some(250.0 * MIB));
    // From 1000 GiB on the baseline is the burst.
    let (iops, throughput) = limits("gp2", None, &order(1000));
    assert_eq!((iops, throughput), (Limit::steady(3000.0), Limit::steady(250.0 * MIB)));
    assert_eq!(limits("gp2", None, &order(10)).0.rate, 100.0);
    assert_eq!(limits("gp2", None, &order(16_384)).0, Limit::steady(16_000.0));
    let (iops, throughput) = limits("gp2", day("2016-01-01"), &order(16_384));
    assert_eq!((iops, throughput), (Limit::steady(10_000.0), Limit::steady(160.0 * MIB)));
}

#[test]
fn gp3_is_ordered_and_its_limits_rose_in_2025() {
    let big = VolumeOrder { iops: Some(40_000.0), throughput: Some(1500.0 * MIB), ..order(1000) };
    assert_eq!(limits("gp3", None, &big), (Limit::steady(40_000.0), Limit::steady(1500.0 * MIB)));
    let old = Catalog::builtin().volume_type("aws:gp3", day("2024-06-01")).expect("known");
    let refused = old.shape(&big).expect_err("more than it had").to_string();
    assert!(refused.contains("3000 to 16000 IOPS, not 40000"), "{refused}");
    // 0.25 MiB/s per IOPS: 3000 allow 750.
    let fast = VolumeOrder { throughput: Some(800.0 * MIB), ..order(1000) };
    let refused = Catalog::builtin().volume_type("gp3", None).expect("known").shape(&fast);
    assert!(refused.expect_err("refused").to_string().contains("125 to 750 MiB/s, not 800"));
    assert_eq!(limits("gp3", None, &order(1)), (Limit::steady(3000.0), Limit::steady(125.0 * MIB)));
    let early = Catalog::builtin().volume_type("gp3", day("2016-01-01")).expect_err("not yet").to_string();
    assert!(early.contains("2020-12-01"), "{early}");
}

#[test]
fn io1_follows_its_formula() {
    let at = |iops| limits("io1", None, &VolumeOrder { iops: Some(iops), ..order(16_384) }).1.rate / MIB;
    assert_eq!((at(1000.0), at(2000.0), at(32_000.0)), (250.0, 500.0, 500.0));
    assert_eq!((at(48_000.0), at(64_000.0)), (750.0, 1000.0));
    let unsaid = Catalog::builtin().volume_type("io1", None).expect("known").shape(&order(100));
    assert!(unsaid.expect_err("refused").to_string().contains("provisioned_iops`, 100 to 5000"));
    let block_express = limits("io2", None, &VolumeOrder { iops: Some(16_000.0), ..order(100) });
    assert_eq!(block_express.1, Limit::steady(4000.0 * MIB));
}

#[test]
fn st1_scans_itself_once_from_credits() {
    let (iops, throughput) = limits("st1", None, &order(2048));
    assert_eq!(iops, Limit::steady(500.0));
    assert_eq!((throughput.rate, throughput.burst_rate), (80.0 * MIB, Some(500.0 * MIB)));
    assert_eq!(throughput.burst_credits, (2048u64 << 30) as f64);
}

#[test]
fn azure_tiers_follow_the_size() {
    let (iops, throughput) = limits("azure:premium-ssd", None, &order(100));
    assert_eq!((iops.rate, iops.burst_rate, throughput.rate), (500.0, Some(3500.0), 100e6));
    assert_eq!(limits("premium-ssd", None, &order(1000)).0, Limit::steady(5000.0));
}

#[test]
fn instances_give_links_and_disks() {
    let link = Catalog::builtin().instance("m6i.2xlarge").expect("known").link().expect("has one");
    let throughput = link.throughput.expect("limited");
    assert_eq!((throughput.rate, throughput.burst_rate), (312.5e6, Some(1.25e9)));
    assert_eq!(throughput.burst_credits, (1.25e9 - 312.5e6) * 1800.0);
    let steady = Catalog::builtin().instance("c1.xlarge").expect("known").link().expect("has one");
    assert_eq!(steady.throughput, Some(Limit::steady(125e6)));
    let disks = Catalog::builtin().instance("i3.16xlarge").expect("known");
    assert_eq!(disks.disks.as_ref().map(|disks| disks.count), Some(8));
    let shape = disks.disk_shape().expect("measured");
    assert_eq!(shape.iops, Some(Limit::steady(411_200.0)));
    // An instance without limits for volumes has its network.
    let network = Catalog::builtin().instance("i2.8xlarge").expect("known").link().expect("has one");
    assert_eq!((network.iops, network.throughput), (None, Some(Limit::steady(1.25e9))));
}

#[test]
fn wrong_names_get_the_right_ones() {
    let said = |result: Result<&VolumeType, CatalogError>| result.expect_err("unknown").to_string();
    assert!(said(Catalog::builtin().volume_type("aws:gp4", None)).contains("aws:gp"));
    assert!(said(Catalog::builtin().volume_type("azure:premium_ssd", None)).contains("`azure:premium-ssd`"));
    assert!(said(Catalog::builtin().volume_type("gcp:gp3", None)).contains("`aws:gp3`"));
    let said = Catalog::builtin().instance("m6i.2xlarg").expect_err("unknown").to_string();
    assert!(said.contains("`m6i.2xlarge`"), "{said}");
}

#[test]
fn a_users_file_wins_and_a_wrong_one_is_refused() {
    let mut catalog = Catalog::builtin().clone();
    let mine = r#"
        [[volume_type]]
        provider = "lab"
        id = "slow"
        name = "a slow disk"
        media = "hdd"
        size_gib = { min = 1, max = 100 }
        iops = { model = "fixed", value = 150 }
        throughput = { model = "fixed", value = 80, unit = "MB/s" }
        latency = { read_median_us = 5000, read_p99_us = 20000, write_median_us = 5000, write_p99_us = 20000, basis = "measured" }
        sources = []

        [[instance]]
        provider = "aws"
        id = "m6i.2xlarge"
        network_gbps = 1.0
        sources = ["ours"]
    "#;
    assert_eq!(catalog.add_file(mine, "mine.toml"), Ok(()));
    let shape = catalog.volume_type("lab:slow", None).expect("known").shape(&order(10)).expect("had");
    assert_eq!(shape.throughput, Some(Limit::steady(80e6)));
    assert_eq!(catalog.instance("m6i.2xlarge").expect("known").network_gbps, Some(1.0));
    for (wrong, expected) in [
        (mine.replace("MB/s", "MBit"), "neither MiB/s nor MB/s"),
        (mine.replace("media", "medium"), "medium"),
        (mine.replace("value = 150", "value = \"fast\""), "line"),
        ("[[volume_type".into(), "line 1"),
    ] {
        let error = catalog.add_file(&wrong, "mine.toml").expect_err("refused").to_string();
        assert!(error.contains(expected) && error.contains("mine.toml"), "{error}");
    }
}

#[test]
fn describe_instance_types_is_imported() {
    // As the AWS command prints it; fields that are not used left in to see that they do no harm.
    let json = r#"{"InstanceTypes":[{"InstanceType":"m9z.large","CurrentGeneration":true,
        "VCpuInfo":{"DefaultVCpus":2,"DefaultCores":1},"MemoryInfo":{"SizeInMiB":8192},
        "InstanceStorageInfo":{"TotalSizeInGB":118,"Disks":[{"SizeInGB":118,"Count":1,"Type":"ssd"}]},
        "EbsInfo":{"EbsOptimizedSupport":"default","MaximumEbsAttachments":28,"EbsOptimizedInfo":{
            "BaselineBandwidthInMbps":650,"BaselineThroughputInMBps":81.25,"BaselineIops":3600,
            "MaximumBandwidthInMbps":10000,"MaximumThroughputInMBps":1250.0,"MaximumIops":40000}},
        "NetworkInfo":{"NetworkPerformance":"Up to 12.5 Gigabit","NetworkCards":[
            {"NetworkCardIndex":0,"BaselineBandwidthInGbps":0.781,"PeakBandwidthInGbps":12.5}]}}]}"#;
    let file = Catalog::import(json).expect("imports");
    let text = file.to_toml();
    let mut catalog = Catalog::default();
    assert_eq!(catalog.add_file(&text, "imported.toml"), Ok(()));
    let instance = catalog.instance("m9z.large").expect("known");
    assert_eq!(instance.memory_mib, Some(8192));
    let link = instance.link().expect("has one");
    assert_eq!(link.iops.map(|limit| (limit.rate, limit.burst_rate)), Some((3600.0, Some(40_000.0))));
    assert!(matches!(Catalog::import("{}"), Err(CatalogError::Import { .. })));
}
