use super::*;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{Access, IoEngine, Mix, Regions, Stop, Workload};
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
            "jobs.toml" => {
                Ok("[workloads.w]\nruntime = \"1s\"\n[workloads.w.jobs.a]\nrw = \"read\"\n".to_owned())
            }
            _ => Err(io::Error::other("no such file")),
        }
    }

    fn jobs(&self, name: &str, beside: &[(String, String)]) -> Result<Vec<FileJob>, Vec<String>> {
        let job = |line: u32, name: &str, group: u32, seconds: u64, span: u64| {
            let stop = Stop::Runtime(Nanos::from_secs(seconds));
            let workload = Workload::new(name, Access::Random, Mix::Read, stop);
            let workload = Workload { span: Some(Bytes(span)), ..workload };
            FileJob { name: name.to_owned(), place: format!("pg.fio:{line}"), group, workload }
        };
        let small = 4 << 20;
        match name {
            "pg.fio" => {
                Ok(vec![job(2, "data", 0, 5, small), job(4, "wal", 0, 5, small), job(6, "scan", 1, 3, small)])
            }
            "one.fio" => Ok(vec![job(2, "a", 0, 5, small), job(4, "b", 0, 5, small)]),
            "beside.fio" => Ok(vec![job(
                2,
                &beside.iter().map(|(n, v)| format!("{n}{v}")).collect::<String>(),
                0,
                5,
                small,
            )]),
            "uneven.fio" => Ok(vec![job(2, "a", 0, 5, small), job(4, "b", 0, 6, small)]),
            "large.fio" => Ok(vec![job(2, "a", 0, 5, 1 << 30)]),
            "words.fio" => Ok(vec![job(2, "two words", 0, 5, small)]),
            _ => Err(vec![format!("the job file `{name}` cannot be read: no such file")]),
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
        ("profile = \"jobs.toml\"", 12, "jobs.toml:3:14: `jobs` means nothing here", "ebb bench FILE.fio"),
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

fn groups(workloads: &[Workload]) -> Vec<(&str, Option<&str>)> {
    workloads.iter().map(|workload| (workload.name.as_str(), workload.group.as_deref())).collect()
}

#[test]
fn jobs_run_at_the_same_time_and_take_the_time_of_their_group() {
    let jobs = "runtime = \"30s\"\nramp_time = \"2s\"\n[workloads.w.jobs.data]\nrw = \"randrw\"\niodepth = 16\n\
                [workloads.w.jobs.wal]\nrw = \"write\"\nfdatasync = 1\nsize = \"1GiB\"\n[workloads.w.jobs.scan]\nrw = \"read\"\n\
                runtime = \"30s\"\nramp_time = \"2s\"\n[workloads.after]\nrw = \"read\"\nruntime = \"1s\"";
    let made = workloads(jobs);
    assert_eq!(
        groups(&made),
        [("w.data", Some("w")), ("w.wal", Some("w")), ("w.scan", Some("w")), ("after", None)]
    );
    let (time, size) = (Stop::Runtime(Nanos::from_secs(30)), Stop::Size(Bytes(1 << 30)));
    assert_eq!([made[0].stop, made[1].stop, made[2].stop], [time, size, time]);
    assert!(made[..3].iter().all(|job| job.warm_up == Nanos::from_secs(2)));
    assert_eq!((made[1].details.fdatasync_every, made[0].iodepth), (Some(1), 16));
    let one = workloads("runtime = \"1s\"\n[workloads.w.jobs.data]\nrw = \"read\"");
    assert_eq!(groups(&one), [("w.data", None)], "one has nobody beside it");
}

#[test]
fn jobs_of_a_job_file_and_of_a_profile_run_as_they_do_there() {
    let made = workloads("jobs = \"pg.fio\"");
    assert_eq!(groups(&made), [("w.data", Some("w.1")), ("w.wal", Some("w.1")), ("w.scan", None)]);
    assert_eq!(groups(&workloads("jobs = \"one.fio\"")), [("w.a", Some("w")), ("w.b", Some("w"))]);
    let beside = workloads("jobs = \"beside.fio\"\nruntime = \"3s\"\nramp_time = \"500ms\"");
    assert_eq!(names(&beside), ["w.runtime3000000usramp_time500000us"]);
    let database = workloads("profile = \"database\"\nruntime = \"5s\"\nramp_time = \"1s\"");
    assert_eq!(
        groups(&database),
        [
            ("w-pages-8k", Some("w.1")),
            ("w-log-beside-8k", Some("w.1")),
            ("w-pages-16k", Some("w.2")),
            ("w-log-beside-16k", Some("w.2"))
        ]
    );
    // All of the smallest design: the log is behind the pages.
    let log = &database[1];
    assert_eq!(log.details.offset.0 + log.span.map_or(0, |span| span.0), 64 << 20);
    assert_eq!(database[0].span, Some(log.details.offset));
}

#[test]
fn what_is_wrong_with_jobs_is_said_at_its_place() {
    let two = |a: &str, b: &str| {
        format!("[workloads.w.jobs.a]\nrw = \"read\"\n{a}\n[workloads.w.jobs.b]\nrw = \"read\"\n{b}")
    };
    let time = "runtime = \"1s\"";
    for (text, line, said, help) in [
        ("jobs = 3".to_owned(), 12, "a table of jobs or the name of a job file", "FILE.fio"),
        ("jbs = \"x.fio\"".to_owned(), 12, "unknown key `jbs`", "write `jobs`"),
        ("jobs = \"none.fio\"".to_owned(), 12, "no such file", "from the experiment file's directory"),
        (
            "jobs = \"uneven.fio\"".to_owned(),
            12,
            "job `w.b` is measured for 6s from its start",
            "the same `runtime`",
        ),
        (
            "jobs = \"large.fio\"".to_owned(),
            12,
            "pg.fio:2: workload `w.a` needs 1GiB",
            "write a `size` there",
        ),
        ("jobs = \"words.fio\"".to_owned(), 12, "`w.two words` cannot be the name", "letters, digits"),
        ("jobs = \"pg.fio\"\nprofile = \"dd\"".to_owned(), 13, "`jobs` and `profile` exclude", "keep one"),
        ("jobs = {}".to_owned(), 12, "workload `w` has no jobs", "[workloads.w.jobs.JOB]"),
        (format!("bs = \"8k\"\n{}", two(time, time)), 12, "`bs` means nothing here", "in each of the jobs"),
        (two(time, ""), 15, "workload `w.b`: `runtime` is missing", "runtime"),
        (two(time, "runtime = \"2s\""), 15, "job `w.b` is measured for 2s", "the same `runtime`"),
        (
            two(time, "runtime = \"1s\"\nramp_time = \"1s\""),
            15,
            "after 1s, and `w.a` beside it",
            "`ramp_time`",
        ),
        (
            two(time, &format!("{time}\nspan = \"48MiB\"\noffset = \"32MiB\"")),
            18,
            "at most 32MiB, the capacity of design `one` behind",
            "write \"32MiB\"",
        ),
        (
            two(time, &format!("{time}\noffset = \"64MiB\"")),
            15,
            "holds 0B behind the offset",
            "larger volumes",
        ),
        (two(time, "latency_target = \"5ms\""), 15, "`latency_target`", "a workload of its own"),
        (two(time, "profile = \"dd\""), 17, "`profile` means nothing here", "write the job out"),
        (two(time, "jobs = \"pg.fio\""), 17, "`jobs` means nothing here", "write the job out"),
        (
            format!("{}\n[workloads.\"w.a\"]\nrw = \"read\"\nruntime = \"1s\"", two(time, time)),
            18,
            "the workload `w.a` is defined twice",
            "NAME.JOB",
        ),
    ] {
        let errors = parse(&text).expect_err(&text);
        let records = errors.records();
        assert!(
            records.iter().any(|r| r.line == line && r.message.contains(said) && r.help.contains(help)),
            "{text}: {errors}"
        );
    }
}
