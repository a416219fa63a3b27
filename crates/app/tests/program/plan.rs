//! `ebb plan` as a program: needs to designs, what is saved from AWS, errors and exit statuses.

use crate::common::Home;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

fn need(name: &str) -> String {
    shipped(&format!("experiments/needs/{name}.toml")).to_string_lossy().into_owned()
}

fn saved(name: &str) -> String {
    shipped(&format!("crates/formats/src/aws/examples/{name}.json")).to_string_lossy().into_owned()
}

fn ran(home: &Home, line: &str, status: i32) -> Output {
    let output = home.ebb(line).output().expect("runs");
    assert_eq!(output.status.code(), Some(status), "{line}: {output:?}");
    output
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The needs of the write-ups: what each plan says is within what it asks for, and adds up.
#[test]
fn the_needs_of_the_write_ups_have_answers() {
    let home = Home::new();
    for name in ["postgres", "heroku-database", "scratch"] {
        let answer = home.json(&format!("plan {} --plans 2", need(name)), &[0]);
        assert_eq!(answer["schema"], "ebbtide.plan/1");
        let asked = &answer["need"];
        let plans = answer["plans"].as_array().expect("a list");
        assert!(plans.len() == 2, "{name}: {answer}");
        let mut last = 0.0;
        for (place, plan) in plans.iter().enumerate() {
            assert_eq!(plan["rank"], place as u64 + 1);
            let price = number(&plan["price_month_usd"]);
            assert!(price >= last * 0.99, "the cheapest first");
            last = price;
            assert!(asked["budget_month"].as_f64().is_none_or(|budget| price <= budget));
            for (what, key) in [("iops", "iops"), ("throughput", "throughput")] {
                let of = &plan[what];
                assert!(
                    number(&of["ci_low"]) <= number(&of["median"])
                        && number(&of["median"]) <= number(&of["ci_high"])
                );
                assert!(
                    asked[key].as_f64().is_none_or(|rate| number(&of["median"]) >= rate),
                    "{name} {plan}"
                );
            }
            assert!(asked["lat_p99"].as_f64().is_none_or(|most| number(&plan["lat_p99"]["ci_high"]) <= most));
            let volumes = &plan["volumes"][0];
            let bytes = number(&volumes["count"]) * number(&volumes["size"]);
            assert!(bytes >= number(&asked["capacity"]), "{name} {plan}");
            assert!(plan["limited_by"].is_string() && plan["instance"].is_string());
        }
        assert!(!answer["rejected"].as_array().expect("a list").is_empty());
        assert!(!answer["sources"].as_array().expect("a list").is_empty());
        assert!(answer["reach"].as_array().is_some_and(|reach| !reach.is_empty()), "{name}");
    }
}

/// Each plan's experiment is one that `ebb` runs, and in the simulator it gives the figures of the plan to the digit.
#[test]
fn a_plan_is_an_experiment_that_gives_its_figures() {
    let home = Home::new();
    std::fs::create_dir(home.path("plans")).expect("makes");
    let answer = home.json(&format!("plan {} -o plans --plans 2", need("heroku-database")), &[0]);
    for plan in answer["plans"].as_array().expect("a list") {
        let file = plan["experiment_file"].as_str().expect("a path");
        let text = std::fs::read_to_string(home.path(file)).expect("was written");
        assert_eq!(text, plan["experiment"].as_str().expect("a text"));
        ran(&home, &format!("check {file}"), 0);
        ran(&home, &format!("run {file} --dry-run"), 0);
        let report = home.json(&format!("run {file} --on sim --seed 1 --no-save"), &[0]);
        for (workload, metric, key) in [
            ("random", "iops", "iops"),
            ("sequential", "throughput", "throughput"),
            ("latency", "lat_p99", "lat_p99"),
        ] {
            let results = report["results"].as_array().expect("a list");
            let found = results
                .iter()
                .find(|r| r["workload"] == workload && r["metric"] == metric)
                .expect("is there");
            assert_eq!(found["trials"], 6, "{found}");
            assert_eq!(found["median"], plan[key]["median"], "{workload}: {found}");
            assert_eq!(found["ci_low"], plan[key]["ci_low"], "{workload}: {found}");
        }
    }
}

#[test]
fn text_fits_a_hundred_columns_and_says_why_not() {
    let home = Home::new();
    let postgres = stdout(&ran(&home, &format!("plan {} --plans 2", need("postgres")), 0));
    for (line, text) in [
        ("postgres", postgres.clone()),
        ("scratch", stdout(&ran(&home, &format!("plan {} --plans 1", need("scratch")), 0))),
        (
            "table",
            stdout(&ran(&home, "plan --table --instance m6i.* --instance m3.xlarge --instance i4i.large", 0)),
        ),
    ] {
        let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(long.is_empty(), "{line}: {long:?}");
    }
    for said in
        ["over the budget", "io2", "Rejected", "without reserved, spot", "infracost", "us-east-1, 2024-07-01"]
    {
        assert!(postgres.contains(said), "{said}: {postgres}");
    }
}

/// Three hosts are planned, and their experiment is one of replicated layout that gives the plan's figures.
#[test]
fn copies_over_hosts_are_planned_until_md_is_outgrown() {
    let home = Home::new();
    std::fs::create_dir(home.path("plans")).expect("makes");
    let answer = home.json(&format!("plan {} -o plans --plans 1", need("three-hosts")), &[0]);
    assert_eq!((&answer["need"]["over"]["hosts"], &answer["need"]["may_lose"]), (&3.into(), &1.into()));
    assert!(answer["outgrown"].is_null() && answer["instead"].is_null(), "{answer}");
    let plan = &answer["plans"][0];
    let text = plan["experiment"].as_str().expect("a text");
    assert!(text.contains("layout = \"replicated\"") && text.contains("host = \"storage-c\""), "{text}");
    assert_eq!(number(&plan["hosts"]), 3.0);
    assert!(number(&plan["volumes"][0]["count"]) % 3.0 == 0.0);
    assert!(plan["remarks"].to_string().contains("no other host may be lost"), "{plan}");
    let file = plan["experiment_file"].as_str().expect("a path");
    ran(&home, &format!("check {file}"), 0);
    let report = home.json(&format!("run {file} --on sim --seed 1 --no-save"), &[0, 3]);
    let results = report["results"].as_array().expect("a list");
    let found =
        results.iter().find(|r| r["workload"] == "random" && r["metric"] == "iops").expect("is there");
    assert_eq!(found["median"], plan["iops"]["median"], "{found}");
    let shown = stdout(&ran(&home, &format!("plan {} --plans 1", need("three-hosts")), 0));
    assert!(shown.contains("2 copies over 3 hosts") && shown.contains("3 storage hosts"), "{shown}");

    let text = std::fs::read_to_string(need("three-hosts")).expect("reads");
    for (more, rule, said) in [
        ("hosts = 5\n", "hosts", "5 hosts are 10 pairs"),
        ("hosts = 3\nwriters = 2\n", "writers", "2 clients write to the same volume"),
        ("hosts = 3\nself_healing = true\n", "self-healing", "Ceph begins 10 minutes after"),
    ] {
        home.write("more.toml", &text.replace("hosts = 3\n", more));
        let answer = home.json("plan more.toml", &[3]);
        assert_eq!(answer["outgrown"].as_array().map(Vec::len), Some(1), "{answer}");
        assert_eq!(answer["outgrown"][0]["rule"], rule);
        assert!(
            answer["plans"] == Value::Array(vec![])
                && answer["instead"][0].to_string().contains("rbd:POOL/IMAGE")
        );
        let shown = stdout(&ran(&home, "plan more.toml", 3));
        let shown: String = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("What has outgrown md over hosts") && shown.contains(said), "{shown}");
    }
    // A petabyte is too much to repair through one client, behind whatever is allowed.
    home.write("large.toml", "capacity = \"1PB\"\nhosts = 3\n");
    let answer = home.json("plan large.toml", &[3]);
    assert_eq!(answer["outgrown"][0]["rule"], "repair", "{answer}");
}

#[test]
fn a_need_that_nothing_meets_names_the_nearest() {
    let home = Home::new();
    let file = home.write(
        "poor.toml",
        "capacity = \"2TiB\"\niops = 20000\nbudget_month = 50\ninstance = \"r6i.8xlarge\"\n",
    );
    let output = ran(&home, "plan poor.toml", 3);
    let text = stdout(&output);
    assert!(text.contains("Nothing does what is needed") && text.contains("a budget of $"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no design of"), "{output:?}");
    let answer = home.json("plan poor.toml", &[3]);
    assert_eq!(answer["plans"], Value::Array(vec![]));
    // The budget that it says would do does.
    let said = answer["changes"][0].as_str().expect("a sentence");
    let budget = said.split('$').nth(1).and_then(|rest| rest.split(' ').next()).expect("an amount");
    let text = std::fs::read_to_string(&file).expect("reads").replace("= 50\n", &format!("= {budget}\n"));
    home.write("enough.toml", &text);
    ran(&home, "plan enough.toml", 0);
    // An instance that is too small: one that would do is named, and does.
    home.write("small.toml", "capacity = \"2TiB\"\niops = 20000\ninstance = \"r6i.large\"\n");
    let answer = home.json("plan small.toml", &[3]);
    let changes: Vec<&str> =
        answer["changes"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let said =
        changes.iter().find(|said| said.contains("would carry")).unwrap_or_else(|| panic!("{changes:?}"));
    let instance = said.split(' ').next().expect("a name");
    home.write("larger.toml", &format!("capacity = \"2TiB\"\niops = 20000\ninstance = \"{instance}\"\n"));
    ran(&home, "plan larger.toml", 0);
}

#[test]
fn burst_credits_count_for_a_part_of_the_day_only() {
    let home = Home::new();
    let of = |hours: f64| {
        let text = format!(
            "capacity = \"200GiB\"\niops = 2000\nbs = \"4KiB\"\nheadroom = 0\ntypes = \"gp2\"\nhours_a_day = {hours}\n"
        );
        home.write("daily.toml", &text);
        home.json("plan daily.toml", &[0])
    };
    let (all_day, an_hour) = (of(24.0), of(1.0));
    // Many small volumes are cheaper all day: each has 100 IOPS however small it is.
    let single = |answer: &Value| {
        let plans = answer["plans"].as_array().expect("a list").iter();
        plans.into_iter().find(|plan| plan["layout"] == "single").expect("one volume").clone()
    };
    let size = |answer: &Value| number(&single(answer)["volumes"][0]["size"]) / f64::from(1 << 30);
    // 3 IOPS for each GiB; credits of 5.4 million are 1400 a second for 64 minutes.
    assert_eq!(size(&all_day), 667.0);
    assert_eq!(size(&an_hour), 200.0);
    let hours = number(&single(&an_hour)["burst_hours_a_day"]);
    assert!((hours - 5_400_000.0 / 1400.0 / 3600.0).abs() < 0.01, "{hours}");
    assert!(single(&all_day)["burst_hours_a_day"].is_null());
}

#[test]
fn what_aws_printed_is_read_offline() {
    let home = Home::new();
    home.write(
        "db.toml",
        "capacity = \"500GiB\"\niops = 4000\nregion = \"us-east-1\"\ninstance = \"m6i.2xlarge\"\n",
    );
    let (prices, volumes) = (saved("get-products"), saved("describe-volumes"));
    let answer = home.json(&format!("plan db.toml --catalog {prices} --catalog {volumes}"), &[0]);
    let plan = &answer["plans"][0];
    assert_eq!(number(&plan["instance_month_usd"]), 0.384 * 730.0);
    let notes = answer["notes"].to_string();
    assert!(notes.contains("us-east-1, 2026-10-01"), "{notes}");
    assert!(answer["sources"].to_string().contains("aws pricing get-products, saved in"), "{answer}");
    let have = answer["have"].as_array().expect("volumes");
    assert_eq!(have.len(), 2, "{have:?}");
    assert!(have[0]["short_of"].to_string().contains("the volumes' IOPS"), "two gp2 of 500 GiB: {have:?}");
    assert_eq!(number(&have[0]["price_month_usd"]), 100.0);
    // The price list has no prices of Paris, and the built-in ones are of us-east-1: nothing is guessed.
    home.write("paris.toml", "capacity = \"500GiB\"\nregion = \"eu-west-3\"\n");
    let answer = home.json(&format!("plan paris.toml --catalog {prices}"), &[3]);
    assert!(answer["rejected"].to_string().contains("no price is known in that region"), "{answer}");
    let notes = answer["notes"].to_string();
    assert!(
        notes.contains("prices at hand are of us-east-1") && notes.contains("Value=eu-west-3"),
        "{notes}"
    );
    // A new instance type.
    let types = r#"{"InstanceTypes":[{"InstanceType":"m9z.large","VCpuInfo":{"DefaultVCpus":2},"EbsInfo":{"EbsOptimizedInfo":
        {"BaselineBandwidthInMbps":800,"MaximumBandwidthInMbps":8000,"BaselineIops":5000,"MaximumIops":20000},"MaximumEbsAttachments":27}}]}"#;
    home.write("types.json", types);
    home.write("new.toml", "capacity = \"500GiB\"\niops = 4000\ninstance = \"m9z.large\"\n");
    let answer = home.json("plan new.toml --catalog types.json", &[0]);
    assert_eq!(answer["plans"][0]["instance"], "m9z.large");
    assert!(
        answer["sources"].to_string().contains("describe-instance-types, saved in types.json"),
        "{answer}"
    );
}

#[test]
fn figures_of_another_day_are_those_of_that_day() {
    let home = Home::new();
    let of = |day: &str| {
        let text = format!("capacity = \"1TiB\"\niops = 40000\ntypes = \"gp3\"\nas_of = {day}\n");
        home.write("day.toml", &text);
        home.json("plan day.toml", &[0])
    };
    let single = |answer: &Value| {
        answer["plans"].as_array().expect("a list").iter().any(|plan| plan["layout"] == "single")
    };
    assert!(single(&of("2026-01-01")), "80,000 IOPS since September 2025");
    assert!(!single(&of("2025-08-31")), "16,000 before");
    home.write("old.toml", "capacity = \"1TiB\"\ntypes = \"gp3\"\nas_of = 2019-01-01\n");
    let output = ran(&home, "plan old.toml", 3);
    assert!(stdout(&output).contains("gp3 has no figures for 2019-01-01"), "{output:?}");
}

#[test]
fn mistakes_say_where_and_what_to_write() {
    let home = Home::new();
    home.write("wrong.toml", "capacity = \"2TiB\"\niops = \"20k\"\ninstance = \"m6i.lrge\"\n");
    home.write("none.json", "{}");
    home.write("need.toml", "capacity = \"1GiB\"\n");
    home.write("mars.toml", "capacity = \"1GiB\"\nregion = \"mars-1\"\n");
    home.write("bits.toml", "capacity = \"1GiB\"\nthroughput = \"100mb/s\"\n");
    home.write("experiment.toml", "name = \"x\"\n[volumes.vol]\nsize = \"1GiB\"\n");
    for (line, said) in [
        ("plan wrong.toml", "wrong.toml:2:8: error: expected a number"),
        ("plan wrong.toml", "write `m6i.large`"),
        ("plan", "required"),
        ("plan absent.toml", "absent.toml"),
        ("plan need.toml --catalog none.json", "describe-instance-types"),
        ("plan need.toml -o nowhere", "make it"),
        ("plan absent.toml -o nowhere", "make it"),
        ("plan mars.toml", "`mars-1` is no region that is known"),
        ("plan mars.toml", "Prices at hand are of us-east-1"),
        ("plan bits.toml", "write \"12.5MB/s\""),
        ("plan experiment.toml", "this is an experiment"),
        ("run need.toml", "this is a need, not an experiment"),
        ("run need.toml", "ebb plan need.toml"),
        ("user-data need.toml", "ebb plan need.toml"),
        ("plan need.toml --plans 0", "1..=100"),
        ("plan --table", "--instance"),
        ("plan --table --instance m6i.lrge", "m6i.large"),
        ("plan --table --instance m6i.large --volume gp3 --size 1TB --provisioned-iops 1", "can have"),
        ("plan need.toml --volumes 3", "--table"),
    ] {
        let output = ran(&home, line, 2);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said), "{line}: {text}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}

/// The tutorial's table by hand: the lesser of volumes and instance.
#[test]
fn the_table_is_the_lesser_of_volumes_and_instance() {
    let home = Home::new();
    let table = home.json("plan --table --instance m6i.large --volumes 4 --provisioned-iops 4000", &[0]);
    assert_eq!(table["schema"], "ebbtide.plan-table/1");
    let cells = &table["rows"][0]["volumes"];
    let (single, raid0) = (&cells[0]["read"], &cells[1]["write"]);
    let mib = 1_048_576.0;
    assert_eq!(number(&single["throughput"]["sustained"]), 650e6 / 8.0);
    assert_eq!(number(&single["throughput"]["burst"]), 125.0 * mib);
    assert_eq!(number(&raid0["throughput"]["burst"]), 500.0 * mib);
    assert_eq!(number(&single["iops"]["sustained"]), 3600.0);
    assert_eq!(raid0["iops"]["limited_by"], "instance-iops");
    assert_eq!(number(&raid0["iops"]["burst"]), 16_000.0);
}

/// A recorded load is a need.
#[test]
fn a_recorded_load_is_a_need() {
    let home = Home::new();
    let mut log = "fio version 3 iolog\n0 /dev/sdx add\n".to_owned();
    for second in 0..5u64 {
        for n in 0..300u64 {
            let offset = (n * 7919 + second * 104_729) % 100_000 * 8192;
            log += &format!(
                "{} /dev/sdx {} {offset} 8192\n",
                second * 1_000_000 + n * 3000,
                if n % 4 == 0 { "write" } else { "read" }
            );
        }
    }
    log += "5000001 /dev/sdx close\n";
    home.write("load.iolog", &log);
    home.write("traced.toml", "trace = \"load.iolog\"\ntypes = [\"gp3\"]\n");
    let answer = home.json("plan traced.toml", &[0]);
    let need = &answer["need"];
    assert_eq!(
        (number(&need["iops"]), number(&need["bs"]), number(&need["read_percent"])),
        (300.0, 8192.0, 75.0)
    );
    assert!(number(&need["working_set"]) <= number(&need["capacity"]));
    home.write("missing.toml", "trace = \"none.iolog\"\n");
    let output = ran(&home, "plan missing.toml", 2);
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("missing.toml:1:9: error: the recorded load"),
        "{output:?}"
    );
}

/// Sequential operations share the MiB that a spindle's volume counts, however the array cuts them.
#[test]
fn spindles_in_a_stripe_add_up() {
    let home = Home::new();
    let table = home.json("plan --table --instance c5.9xlarge --volume st1 --size 2TiB --volumes 2", &[0]);
    let of = |row: usize| number(&table["rows"][0]["volumes"][row]["read"]["throughput"]["sustained"]);
    assert_eq!((of(0), of(1)), (80.0 * 1_048_576.0, 160.0 * 1_048_576.0));
}

/// Two figures in one cell are of one unit, and a volume's burst is within its own limits.
#[test]
fn figures_beside_each_other_are_alike() {
    let home = Home::new();
    let text = stdout(&ran(&home, "plan --table --instance m6i.large --volumes 4", 0));
    assert!(text.contains("3.00 k") && text.contains("3.60 (12.0) k"), "{text}");
    home.write(
        "small.toml",
        "capacity = \"100GiB\"\niops = 1000\nhours_a_day = 1\ntypes = \"gp2\"\ninstance = \"m6i.2xlarge\"\n",
    );
    let text = stdout(&ran(&home, "plan small.toml", 0));
    assert!(text.contains("1 hour a day") && text.contains("in a burst of"), "{text}");
    // 3,000 operations of 256 KiB would be 786 MB/s; 128 MiB/s is the most that there is.
    assert!(!text.contains("786 MB/s") && text.contains("134 MB/s"), "{text}");
    assert!(text.contains("IOPS, sequential, p99: for 1 hour a day") && text.contains('*'), "{text}");
}

/// A type is there from its first day, and prices of another day are said to be.
#[test]
fn what_was_not_there_yet_is_no_plan() {
    let home = Home::new();
    for (day, types, there) in
        [("2013-01-01", "gp2", false), ("2015-01-01", "st1", false), ("2019-01-01", "gp2", true)]
    {
        home.write("then.toml", &format!("capacity = \"1TiB\"\ntypes = \"{types}\"\nas_of = {day}\n"));
        let answer = home.json("plan then.toml", &[if there { 0 } else { 3 }]);
        let notes = answer["notes"].to_string();
        assert_eq!(notes.contains("has no figures for"), !there, "{notes}");
        assert_eq!(notes.contains("prices are not"), there, "{notes}");
    }
}

/// Parity on EBS has AWS's advice with it.
#[test]
fn parity_on_ebs_is_advised_against() {
    let home = Home::new();
    home.write("parity.toml", "capacity = \"4TiB\"\nmay_lose = 1\ntypes = \"gp3\"\n");
    let answer = home.json("plan parity.toml", &[0]);
    let plans = answer["plans"].as_array().expect("a list");
    assert!(plans.iter().any(|plan| plan["layout"].to_string().contains("raid5")), "{plans:?}");
    for plan in plans {
        let parity = plan["layout"].to_string().contains("raid5");
        assert_eq!(plan["remarks"].to_string().contains("AWS advises against it"), parity, "{plan}");
    }
}
