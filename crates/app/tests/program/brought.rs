//! Files that people bring, as they bring them: job files, results of other programs, what AWS's command line prints.

use crate::common::{Home, status, stderr};
use serde_json::Value;

fn stdout(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// In the style of what is published for clusters and clouds: nothing to be verified, nothing logged, clones an increment apart.
const JOBS: &str = "[global]\nverify=0\nsize=2Mi\nruntime=1\ntime_based\ndisk_util=0\ndisable_lat=1\nclocksource=gettimeofday\n\
                    log_avg_msec=1000\nexitall_on_error=1\n[seq]\nrw=write\nbs=512Ki\nnumjobs=4\noffset_increment=1m\nstonewall\n\
                    [rand]\nrw=randread\nbs=4k\nstonewall\n";

#[test]
fn a_job_file_runs_on_a_file_that_is_named_beside_it() {
    let home = Home::new();
    home.write("jobs.fio", JOBS);
    let planned = home.ebb("bench jobs.fio --filename target --dry-run").output().unwrap();
    assert_eq!(status(&planned), 0, "{}", stderr(&planned));
    let text = stdout(&planned);
    // Four clones of 2 MiB, 1 MiB apart.
    for part in [
        "seq: sequential write, bs 512KiB",
        "target, 5MiB: is made",
        "when they are done:",
        "rand: random read",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.matches("change nothing here").count(), 1, "{text}");
    assert!(!home.path("target").exists(), "a dry run touches nothing");
    let planned: Value = serde_json::from_slice(
        &home.ebb("bench jobs.fio --filename target --dry-run --json").output().unwrap().stdout,
    )
    .unwrap();
    assert_eq!((&planned["jobs"][1]["name"], &planned["jobs"][1]["group"]), (&"rand".into(), &1.into()));

    let ran = home.ebb("bench jobs.fio --filename target").output().unwrap();
    assert_eq!(status(&ran), 0, "{}", stderr(&ran));
    assert_eq!(std::fs::metadata(home.path("target")).unwrap().len(), 5 << 20);
    let again = home.ebb("bench jobs.fio --filename target --dry-run").output().unwrap();
    assert_eq!(status(&again), 2, "a dry run refuses what the run refuses: {}", stdout(&again));
    let allowed = home.ebb("bench jobs.fio --filename target --dry-run --destroy").output().unwrap();
    assert!(stdout(&allowed).contains("target, 5MiB: is overwritten"), "{}", stdout(&allowed));

    home.write("own.fio", "[a]\nfilename=own\nsize=1m\n");
    let own = home.ebb("bench own.fio --filename target").output().unwrap();
    assert_eq!(status(&own), 2);
    assert!(stderr(&own).contains("--filename: it changes nothing"), "{}", stderr(&own));
}

#[test]
fn all_that_a_job_file_is_refused_for_is_said_at_once() {
    let home = Home::new();
    home.write("bad.fio", "[global]\nsize=1m\nopendir=/x\nzonemode=zbd\n[a]\nbs=4q\n[b]\nioengine=rbd\n");
    let refused = home.ebb("bench bad.fio").output().unwrap();
    assert_eq!(status(&refused), 2);
    for part in ["bad.fio:3: opendir", "bad.fio:4: zonemode", "bad.fio:6: bs", "bad.fio:8: ioengine"] {
        assert_eq!(stderr(&refused).matches(part).count(), 1, "{part}: {}", stderr(&refused));
    }
    for name in ["one", "two"] {
        home.write(name, &"x".repeat(8192));
    }
    home.write("there.fio", "[global]\nrw=write\nsize=8k\n[a]\nfilename=one\n[b]\nfilename=two\n");
    let refused = home.ebb("bench there.fio").output().unwrap();
    assert_eq!(status(&refused), 2);
    for part in ["there.fio:4: one is an existing file", "there.fio:6: two is an existing file"] {
        assert!(stderr(&refused).contains(part), "{part}: {}", stderr(&refused));
    }
}

/// The command that AWS gives to initialise a volume has neither a time nor a size.
#[test]
fn what_is_named_as_in_fio_is_read_once() {
    let home = Home::new();
    home.write("volume", &"x".repeat(5 << 20));
    let command = "bench --filename=volume --rw=read --bs=1M --iodepth=32 --ioengine=libaio --direct=0 --name=volume-initialize \
                   --eta-newline=1 --disable_lat=1 --verify=0";
    let ran = home.json(command, &[0]);
    let read = &ran["jobs"][0]["read"];
    assert_eq!((&read["io_bytes"], &read["total_ios"]), (&(5u64 << 20).into(), &5.into()), "{ran}");
    let part = home.json("bench --filename=volume --rw=read --bs=1M --direct=0 --io_size=2m", &[0]);
    assert_eq!(part["jobs"][0]["read"]["io_bytes"], 2u64 << 20);
}

const FIO: &str = r#"{ "fio version" : "fio-3.33", "timestamp" : 9, "jobs" : [ { "jobname" : "e", "error" : 28, "job options" : { "rw" : "write" },
"write" : { "io_bytes" : 65536, "io_kbytes" : 64, "iops" : 10.0, "runtime" : 1000, "total_ios" : 16 } } ] }"#;

#[test]
fn a_run_that_failed_elsewhere_is_no_success_here() {
    let home = Home::new();
    // fio prints its message before the JSON.
    home.write("failed.json", &format!("fio: pid=1, err=28\n{FIO}"));
    let imported = home.ebb("import failed.json").output().unwrap();
    assert_eq!(status(&imported), 0, "{}", stderr(&imported));
    assert!(stdout(&imported).contains("(it failed)"), "{}", stdout(&imported));
    assert!(stderr(&imported).contains("error 28: No space left on device"), "{}", stderr(&imported));
    let shown = stdout(&home.ebb("show").output().unwrap());
    assert!(
        shown.contains("No space left on device") && !shown.contains("writes sequentially at"),
        "{shown}"
    );
    let listed = stdout(&home.ebb("list").output().unwrap());
    assert!(listed.contains("failed"), "{listed}");
    assert_eq!(home.json("show", &[0])["session"]["ending"], "failed");
}

#[test]
fn what_a_query_leaves_of_aws_output_is_read() {
    let home = Home::new();
    let volume = r#"{"VolumeId":"vol-1","Size":100,"VolumeType":"gp3","Iops":3000,"Throughput":125}"#;
    home.write("array.json", &format!("[{volume}]"));
    let listed = home.ebb("catalog list --catalog array.json").output().unwrap();
    assert_eq!(status(&listed), 0, "{}", stderr(&listed));
    home.write("columns.json", r#"[["vol-1", 100]]"#);
    let refused = home.ebb("catalog list --catalog columns.json").output().unwrap();
    assert_eq!(status(&refused), 2);
    let said = stderr(&refused);
    assert!(
        said.contains("this is JSON") && said.contains("--query 'Volumes[]'") && !said.contains("TOML"),
        "{said}"
    );
    let other = home.ebb("catalog import array.json").output().unwrap();
    assert!(status(&other) == 2 && stderr(&other).contains("describe-instance-types"), "{}", stderr(&other));
}

/// A disk's number is another's at the next boot.
#[test]
fn a_device_that_is_named_by_its_number_is_warned_of() {
    let home = Home::new();
    let text = |device: &str| {
        format!(
            "name = \"d\"\n[volumes.v]\ndevice = \"{device}\"\n[designs.a]\nlayout = \"linear\"\nmembers = [\"v\"]\n\
             [workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n"
        )
    };
    home.write("numbered.toml", &text("/dev/nvme97n1"));
    let checked = stdout(&home.ebb("check numbered.toml").output().unwrap());
    assert!(
        checked.contains("volume v: /dev/nvme97n1 is what the kernel called it at this boot"),
        "{checked}"
    );
    assert!(checked.contains("/dev/disk/by-id"), "{checked}");
    home.write("stable.toml", &text("/dev/disk/by-id/nvme-x"));
    let checked = stdout(&home.ebb("check stable.toml").output().unwrap());
    assert!(!checked.contains("the kernel called"), "{checked}");
}

/// As long as it takes is no limit where time is virtual, and what cannot be decided is said before.
#[test]
fn virtual_time_has_no_default_budget() {
    let home = Home::new();
    let text = |answer: &str| {
        format!(
            "name = \"long\"\n[volumes.v]\ncount = 2\nsize = \"64MiB\"\n[volumes.v.shape]\niops = 100\n\
             [designs.one]\nlayout = \"linear\"\nmembers = [\"v0\"]\n[designs.two]\nlayout = \"stripe\"\nchunk = \"64KiB\"\n\
             members = [\"v[0..1]\"]\n[workloads.w]\nrw = \"randread\"\niodepth = 8\nruntime = \"40s\"\n[answer]\n{answer}\n"
        )
    };
    // Eight rounds of two minutes.
    home.write("long.toml", &text("trials_min = 8\ntrials_max = 8"));
    let checked = stdout(&home.ebb("check long.toml").output().unwrap());
    let flat = checked.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("the default budget of 10m ends it") || flat.contains("the default budget of"),
        "{checked}"
    );
    assert!(
        flat.contains("write `budget = \"16m\"` or more; with --on sim there is none by default"),
        "{checked}"
    );
    let ran = home.ebb("run long.toml --on sim --seed 1").output().unwrap();
    assert_eq!(status(&ran), 0, "{}", stderr(&ran));
    assert_eq!(home.json("show", &[0])["session"]["rounds"].as_u64().unwrap_or(8), 8);
    home.write("asked.toml", &text("budget = \"3m\"\ntrials_min = 8\ntrials_max = 8"));
    let ran = home.ebb("run asked.toml --on sim --seed 1").output().unwrap();
    assert_eq!(status(&ran), 3, "{}", stderr(&ran));
    assert!(stderr(&ran).contains("note: the budget of"), "{}", stderr(&ran));
    home.write("few.toml", &(text("trials_max = 6") + "[workloads.x]\nrw = \"read\"\nruntime = \"1s\"\n"));
    let planned = home.ebb("run few.toml --on sim --dry-run").output().unwrap();
    let planned = stdout(&planned);
    assert!(planned.contains("`trials_max = 6` cannot decide 2 comparisons"), "{planned}");
    assert!(planned.contains("write `trials_max = 7` or more"), "{planned}");
}

/// The second half of 1 MiB, as a job file's `size=50%` and `offset=50%` have it, and fio's defaults of options that are not done.
#[test]
fn a_share_on_the_command_line_is_of_what_is_there() {
    let home = Home::new();
    home.write("f", &"x".repeat(1 << 20));
    let line = "bench --filename=f --rw=read --bs=64k --direct=0 --offset=50% --size=50% --unlink=0 --lockfile=none --do_verify=0 --json";
    let ran = home.ebb(line).output().unwrap();
    assert_eq!(status(&ran), 0, "{}", stderr(&ran));
    let said: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(said["jobs"][0]["read"]["io_bytes"], 512 << 10, "{said}");
    for (line, why) in [
        ("bench new --size=50%", "--size=50%: that is a share of a file or device that is there"),
        ("bench f --size=101%", "no share; write a whole number of percent"),
        ("bench f --bs=64k --size=1%", "not a block of 1MiB"),
        ("bench f --unlink=1", "but for its default, 0"),
        ("bench f --verify=md5 --do_verify=0", "only 1 is done"),
        ("bench --profile dd . --size=50%", "a share is of what is there, which a profile may have to make"),
    ] {
        let refused = home.ebb(line).output().unwrap();
        assert_eq!(status(&refused), 2, "{line}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(why), "{line}: {}", stderr(&refused));
    }
}
