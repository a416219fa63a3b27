use super::*;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{IoEngine, Mix, Regions, Stop, Workload};
use std::io;

/// A directory with one profile file.
struct Directory;

const NIGHTLY: &str = "name = \"nightly\"\n[workloads.scan]\nrw = \"read\"\nbs = \"1m\"\nsize = \"1GiB\"\n\
                       [workloads.point]\nrw = \"randread\"\niodepth = 8\nruntime = \"30s\"\nspan = \"8MiB\"\n";

impl ProfileFiles for Directory {
    fn read(&self, name: &str) -> io::Result<String> {
        match name {
            "nightly.toml" => Ok(NIGHTLY.to_owned()),
            "sick.toml" => Ok("[workloads.scan]\nrw = \"raed\"\nruntime = \"1s\"\n".to_owned()),
            "circle.toml" => Ok("[workloads.again]\nprofile = \"circle.toml\"\n".to_owned()),
            _ => Err(io::Error::other("no such file")),
        }
    }
}

fn parse(workload: &str) -> Result<Experiment, ExperimentErrors> {
    let text = format!(
        "name = \"t\"\n[volumes.v]\ncount = 4\nsize = \"64MiB\"\n[designs.d]\nlayout = \"stripe\"\nmembers = [\"v[0..3]\"]\n\
         [designs.one]\nlayout = \"linear\"\nmembers = [\"v0\"]\n[workloads.w]\n{workload}\n"
    );
    parse_with(&text, "t.toml", ebbtide_model::catalog::Catalog::builtin(), &Directory)
}

fn workloads(text: &str) -> Vec<Workload> {
    parse(text).unwrap_or_else(|errors| panic!("{errors}")).workloads
}

fn names(workloads: &[Workload]) -> Vec<&str> {
    workloads.iter().map(|workload| workload.name.as_str()).collect()
}

#[test]
fn a_profile_is_its_steps_on_the_smallest_design() {
    let dd = workloads("profile = \"dd\"");
    assert_eq!(names(&dd), ["w-write-direct", "w-read-direct", "w-write-fsync", "w-read-cold"]);
    // The smallest design holds 64 MiB, less than dd's 1 GiB.
    assert!(dd.iter().all(|w| w.stop == Stop::Size(Bytes(64 << 20)) && w.span == Some(Bytes(64 << 20))));
    assert_eq!((dd[2].direct, dd[2].end_fsync, dd[2].ioengine), (false, true, IoEngine::Psync));
    let ladder =
        workloads("profile = \"ladder\"\nruntime = \"200ms\"\nspan = \"16MiB\"\nramp_time = \"50ms\"");
    let depths: Vec<u32> = ladder.iter().map(|w| w.iodepth).collect();
    assert_eq!(depths, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    for w in &ladder {
        assert_eq!(w.stop, Stop::Runtime(Nanos::from_millis(200)));
        assert_eq!((w.warm_up, w.span), (Nanos::from_millis(50), Some(Bytes(16 << 20))));
    }
    let seek = workloads("profile = \"seek\"\nspan = \"16MiB\"");
    assert_eq!(names(&seek), ["w-set-1MiB", "w-set-4MiB", "w-set-16MiB"]);
    assert_eq!(seek[1].span, Some(Bytes(4 << 20)), "a working set, not the whole");
    let efs = workloads("profile = \"efs\"");
    assert_eq!((efs[0].span, efs[4].span), (Some(Bytes(4096)), Some(Bytes(8 * 4096))), "a file for each job");
    assert_eq!((efs.len(), efs[8].numjobs, efs[8].details.regions), (12, 20, Regions::Own));
    let bonnie = workloads("profile = \"bonnie\"\nspan = \"32MiB\"");
    assert_eq!(names(&bonnie), ["w-write", "w-rewrite", "w-read", "w-seeks"]);
    assert_eq!((bonnie[1].mix, bonnie[1].stop), (Mix::Rewrite, Stop::Size(Bytes(32 << 20))));
}

#[test]
fn a_profile_of_ones_own_is_read_and_overridden() {
    let own = workloads("profile = \"nightly.toml\"");
    assert_eq!(names(&own), ["w-scan", "w-point"]);
    assert_eq!((own[0].bs, own[0].stop), (Bytes(1 << 20), Stop::Size(Bytes(1 << 30))));
    assert_eq!((own[1].iodepth, own[1].span), (8, Some(Bytes(8 << 20))));
    let own = workloads("profile = \"nightly.toml\"\nruntime = \"2s\"\nspan = \"4MiB\"");
    assert!(
        own.iter().all(|w| w.stop == Stop::Runtime(Nanos::from_secs(2)) && w.span == Some(Bytes(4 << 20)))
    );
    assert_eq!(
        own_profile(NIGHTLY, "nightly.toml").map(|own| own.len()).map_err(|errors| errors.to_string()),
        Ok(2)
    );
}

#[test]
fn what_is_wrong_with_a_profile_is_said_at_its_place() {
    for (text, line, said, help) in [
        ("profile = \"bonie\"", 12, "unknown profile `bonie`", "write `bonnie`"),
        ("profle = \"dd\"", 12, "unknown key `profle`", "write `profile`"),
        ("profile = \"dd\"\nbs = \"4k\"", 13, "`profile` and `bs` exclude each other", "`rw` instead"),
        ("profile = \"dd\"\nruntime = \"1s\"", 13, "`runtime` means nothing here", "write `span`"),
        ("profile = \"ladder\"\nsize = \"1m\"", 13, "`size` means nothing here", "write `span`"),
        ("profile = \"efs\"\nspan = \"1m\"", 13, "`span` means nothing here", "remove it"),
        ("profile = \"ladder\"\nruntime = \"0s\"", 13, "`runtime` is 0", "runtime = "),
        ("profile = \"seek\"\nspan = \"128MiB\"", 13, "design `one` holds 64MiB", "at most \"64MiB\""),
        ("profile = \"bonnie\"", 11, "workload `w` has no `span`", "twice the memory"),
        ("profile = \"database\"", 12, "run at the same time", "ebb bench --profile database"),
        ("profile = \"snia\"", 12, "until they are steady", "ebb bench --profile snia"),
        ("profile = \"none.toml\"", 12, "cannot be read: no such file", "path of a profile file"),
        ("profile = \"sick.toml\"", 12, "sick.toml:2:6: `rw`: `raed` is unknown", "write `read`"),
        ("profile = \"circle.toml\"", 12, "`profile` means nothing here", "names no other profile"),
        (
            "profile = \"dd\"\n[workloads.w-read-cold]\nrw = \"read\"\nruntime = \"1s\"",
            13,
            "defined twice",
            "NAME-STEP",
        ),
        ("profile = 5", 12, "expected a text", "in quotes"),
    ] {
        let errors = parse(text).expect_err(text);
        let records = errors.records();
        assert!(
            records.iter().any(|r| r.line == line && r.message.contains(said) && r.help.contains(help)),
            "{text}: {errors}"
        );
    }
}

#[test]
fn the_simulated_hosts_memory_sizes_bonnie() {
    let errors = parse("profile = \"bonnie\"\n[host]\nmemory = \"1GiB\"").expect_err("2 GiB do not fit");
    assert!(errors.to_string().contains("needs 2GiB, and design `one` holds 64MiB"), "{errors}");
    let small = workloads("profile = \"bonnie\"\n[host]\nmemory = \"16MiB\"");
    assert_eq!(small[0].stop, Stop::Size(Bytes(32 << 20)));
}
