//! Runs that look for a load, end by what they see, or go on in spite of it.

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use tempfile::TempDir;

fn directory() -> TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a directory")
}

/// `ebb SUBCOMMAND` with its state in `home`, and no progress.
fn run(home: &TempDir, subcommand: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command
        .env("XDG_DATA_HOME", home.path().join("state"))
        .env("XDG_STATE_HOME", home.path().join("state"))
        .args(["--quiet", subcommand]);
    command
}

/// What `command` prints as JSON, its exit status, and what it says.
fn json(command: &mut Command) -> (Value, i32, String) {
    let output = command.arg("--json").output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (value, output.status.code().expect("ends by itself"), errors)
}

/// `ebb bench /dev/null` with `options`, which write.
fn null(home: &TempDir, options: &[&str]) -> Command {
    let mut command = run(home, "bench");
    command.args(["/dev/null", "--size=1g", "--rw=randwrite", "--direct=0"]).args(options);
    command
}

/// An experiment whose one design is a volume that serves 500 operations a second.
fn slow(home: &TempDir) -> String {
    let file = home.path().join("slow.toml");
    let text = format!(
        "name = \"slow\"\n[volumes.v]\ndirectory = {:?}\nsize = \"8MiB\"\n[volumes.v.shape]\niops = 500\n[designs.d]\nlayout = \
         \"linear\"\nmembers = [\"v\"]\n[workloads.w]\nrw = \"randread\"\nruntime = \"1s\"\n",
        home.path()
    );
    fs::write(&file, text).expect("writes");
    file.to_str().expect("text").to_owned()
}

/// A volume that serves 500 operations a second takes 2 ms for each that is in flight: 64 of them cannot keep 9 ms.
#[test]
fn the_most_load_that_keeps_a_latency_is_found() {
    let home = directory();
    let file = slow(&home);
    let design = format!("{file}:d");
    let options = ["--design", &design, "--rw=randread", "--iodepth=64"];
    let goal = ["--latency_target=9ms", "--latency-window=400ms", "--latency_percentile=50"];
    let (value, status, errors) = json(run(&home, "bench").args(options).args(goal));
    let (job, search) = (&value["jobs"][0], &value["jobs"][0]["ebbtide"]["latency_search"]);
    let steps = search["steps"].as_array().expect("has steps");
    assert_eq!((&steps[0]["iodepth"], &search["iodepth_most"]), (&1.into(), &64.into()));
    assert_eq!((&job["latency_target"], &job["latency_window"]), (&9_000_000.into(), &400_000.into()));
    let kept =
        |depth: u64| steps.iter().filter(|step| step["iodepth"] == depth && step["kept"] == true).count();
    match search["conclusion"].as_str() {
        Some("found") => {
            let found = search["iodepth"].as_u64().expect("a depth");
            assert_eq!(status, 0, "{errors}");
            assert!(found <= 16 && kept(found) >= 2 && kept(found + 1) == 0, "{search:#}");
            assert_eq!(
                (&job["latency_depth"], &job["job options"]["iodepth"]),
                (&found.into(), &"64".into())
            );
            assert_eq!(job["ebbtide"]["workload"]["iodepth"], found);
        }
        // A machine on which one operation takes 9 ms more than it should.
        other => assert!(other == Some("none") && status == 1, "{search:#} {errors}"),
    }
}

#[test]
fn a_search_says_that_it_stopped_at_its_limit_that_none_keeps_it_and_that_its_time_was_over() {
    let home = directory();
    let window = "--latency_window=600ms";
    let text = |options: &[&str]| {
        let output = null(&home, &["--iodepth=2", "--latency_percentile=1", window])
            .args(options)
            .output()
            .expect("runs");
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said)
    };
    let (status, said) = text(&["--latency_target=500ms"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("iodepth 2 keeps 1% of the operations within 500ms; it is the largest"), "{said}");
    for part in ["iodepth  IOPS", "within 500ms", "100%", "kept"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    let (status, said) = text(&["--latency_target=500ms", "--ioengine=psync"]);
    assert_eq!(status, Some(0), "{said}");
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["job, and more was not tried", "psync keeps one operation in flight per job: iodepth 2 was not used"]
    {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    // Nothing takes a nanosecond.
    let (status, said) = text(&["--latency_target=1ns"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("no iodepth keeps 1% of the operations within 1ns, not even 1"), "{said}");
    let (status, said) = text(&["--latency_target=500ms", "--runtime=1300ms"]);
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("the time was over before the largest iodepth"), "{said}");
    assert!(said.contains("iodepth 2 keeps it: run longer (--runtime)"), "{said}");
}

#[test]
fn a_job_file_looks_for_a_load_alone_and_holds_it_for_the_rest_of_its_time() {
    let home = directory();
    let jobs = home.path().join("jobs.fio");
    let text = "[global]\nfilename=f\nsize=1m\nrw=randread\nioengine=libaio\niodepth=2\nlatency_target=300000\n\
                latency_window=400000\nlatency_percentile=1\nlatency_run=1\nruntime=2\nthreads=1\n[a]\n";
    fs::write(&jobs, text).expect("writes");
    let (value, status, errors) = json(run(&home, "bench").arg(&jobs).arg(home.path()));
    assert_eq!(status, 0, "{errors}");
    let search = &value["jobs"][0]["ebbtide"]["latency_search"];
    assert_eq!((&search["conclusion"], &search["iodepth"]), (&"found".into(), &2.into()), "{search:#}");
    // Windows at 1, 2 and 2 again; what is left of 2 s is one run.
    let rest = search["rest"]["elapsed_seconds"].as_f64().expect("was run");
    assert!(rest > 0.7 && search["rest"]["iodepth"] == 2, "{search:#}");
    fs::write(&jobs, format!("{text}[b]\n")).expect("writes");
    let (_, status, errors) = json(run(&home, "bench").arg(&jobs).arg(home.path()).arg("--destroy"));
    assert_eq!(status, 2);
    assert!(
        errors.contains("jobs.fio:13: latency_target: job a runs at the same time as others"),
        "{errors}"
    );
}

/// What a device says of single operations is counted and gone on from; the exit status says that it happened.
#[test]
fn a_run_goes_on_after_errors_where_that_is_asked_for() {
    let home = directory();
    let file = slow(&home);
    let design = format!("{file}:d");
    // A volume's time begins when it is opened: on a busy machine the first operation comes a good part of a second later.
    let failing = "iops = 500\nfailure = { kind = \"error\", at = \"200ms\", lasts = \"1500ms\" }";
    let text = fs::read_to_string(&file).expect("is there").replace("iops = 500", failing);
    fs::write(&file, text).expect("writes");
    for (engine, rw, kind) in
        [("io_uring", "randread", "read"), ("psync", "randwrite", "write"), ("io_uring", "randrw", "io")]
    {
        let options =
            ["--design", &design, "--iodepth=2", "--runtime=2500ms", "--ioengine", engine, "--rw", rw];
        let (value, status, errors) = json(run(&home, "bench").args(options));
        assert_eq!(status, 1, "{errors}");
        assert!(errors.contains("Input/output error"), "{errors}");
        assert!(value["jobs"][0]["total_err"].is_null(), "{value:#}");
        let (value, status, errors) =
            json(run(&home, "bench").args(options).args(["--destroy", "--continue_on_error", kind]));
        assert_eq!(status, 1, "{errors}");
        assert!(errors.contains(" failed; the run went on, as continue_on_error says"), "{errors}");
        let job = &value["jobs"][0];
        assert_eq!((&job["first_error"], &job["error"]), (&5.into(), &5.into()), "{job:#}");
        let failed = job["total_err"].as_u64().expect("a number");
        let error = &job["ebbtide"]["members"][0]["errors"][0];
        assert!(failed > 0 && error["name"] == "EIO" && error["count"].as_u64() >= Some(failed), "{job:#}");
        // It went on to its end, after the failure had passed.
        assert!(job["job_runtime"].as_u64() >= Some(2490), "{job:#}");
    }
}

/// A volume of 500 operations a second, held to that by its shape: any tenth of a second is within 90% of the mean.
#[test]
fn a_steady_state_ends_a_run() {
    let home = directory();
    let file = slow(&home);
    let design = format!("{file}:d");
    let options = ["--design", &design, "--rw=randread", "--iodepth=4", "--runtime=120s", "--ss=iops:90%"];
    let window = ["--ss_dur=600ms", "--ss_ramp=200ms", "--ss_interval=200ms"];
    let (value, status, errors) = json(run(&home, "bench").args(options).args(window));
    assert_eq!(status, 0, "{errors}");
    let job = &value["jobs"][0];
    let seconds = job["ebbtide"]["elapsed_seconds"].as_f64().expect("a number");
    assert!((0.5..100.0).contains(&seconds), "{seconds}");
    let steady = &job["steadystate"];
    assert_eq!((&steady["attained"], &steady["ss"]), (&1.into(), &"iops:90%".into()));
    assert_eq!(steady["data"]["iops"].as_array().map(Vec::len), Some(3), "{steady:#}");
    assert!(steady["criterion"].as_str().is_some_and(|text| text.ends_with('%')), "{steady:#}");
}

#[test]
fn a_run_that_is_not_steady_in_its_time_says_so() {
    let home = directory();
    // Nothing is as steady as that.
    let options = ["--ss=iops:0.000001%", "--ss_dur=400ms", "--ss_interval=100ms", "--runtime=900ms"];
    let output = null(&home, &options).output().expect("runs");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(
        text.contains("steady   not reached in 0.9") && text.contains("of the last 4 measurements of 100ms"),
        "{text}"
    );
    assert!(errors.contains("it was not steady within its time: run longer"), "{errors}");
    let jobs = home.path().join("jobs.fio");
    let text = "[a]\nfilename=/dev/null\nsize=1g\nrw=write\nthreads=1\nruntime=1\ntime_based\nss=iops:0.0001%\nss_dur=400ms\n";
    fs::write(&jobs, text).expect("writes");
    let (_, status, errors) = json(run(&home, "bench").arg(&jobs));
    assert_eq!(status, 2);
    assert!(
        errors.contains("jobs.fio:1: steadystate_duration is 400ms, but must be a multiple of 1s"),
        "{errors}"
    );
}

#[test]
fn a_run_that_is_slower_than_it_has_to_be_fails_with_its_figures() {
    let home = directory();
    let file = slow(&home);
    let design = format!("{file}:d");
    let options = ["--design", &design, "--rw=randread", "--iodepth=4", "--runtime=120s"];
    let least = ["--rate_iops_min=5000", "--rate_cycle=200"];
    let (value, status, errors) = json(run(&home, "bench").args(options).args(least));
    assert_eq!(status, 1, "{errors}");
    assert!(errors.contains(" IOPS, less than 5.00 k IOPS (rate_iops_min)"), "{errors}");
    let job = &value["jobs"][0];
    assert!(job["read"]["total_ios"].as_u64().is_some_and(|ops| ops > 0), "{job:#}");
    assert_eq!((&job["error"], &value["error"]), (&1.into(), &job["ebbtide"]["error"]));
    // What is fast enough goes on to its end; limits of a job file are of each clone.
    let (_, status, errors) =
        json(&mut null(&home, &["--rate_min=1k", "--rate_cycle=1000", "--runtime=2500ms"]));
    assert_eq!(status, 0, "{errors}");
    let jobs = home.path().join("jobs.fio");
    fs::write(&jobs, "[a]\nfilename=/dev/null\nsize=1m\nrw=write\nnumjobs=3\nratemin=1000\n")
        .expect("writes");
    let (value, status, errors) = json(run(&home, "bench").arg(&jobs));
    assert_eq!(status, 0, "{errors}");
    assert_eq!(value["jobs"][0]["ebbtide"]["workload"]["conditions"]["floor"]["throughput"], 3000);
}

/// As fio does, a job that says neither how long nor how much goes once over what is there.
#[test]
fn a_job_without_an_end_goes_once_over_its_file() {
    let home = directory();
    fs::write(home.path().join("f"), vec![7; 1 << 20]).expect("writes");
    let jobs = home.path().join("jobs.fio");
    fs::write(&jobs, "[a]\nfilename=f\nrw=read\nbs=64k\noffset=25%\n").expect("writes");
    let (value, status, errors) = json(run(&home, "bench").arg(&jobs).arg(home.path()));
    assert_eq!(status, 0, "{errors}");
    assert_eq!(value["jobs"][0]["read"]["io_bytes"], 768 << 10);
}

/// Each clone has its files; a sequential job writes a block to each in turn, or one file after the other.
#[test]
fn a_job_has_several_files() {
    let home = directory();
    let jobs = home.path().join("jobs.fio");
    let text = "[global]\nrw=write\nsize=64k\nbs=4k\nnrfiles=4\nio_size=20k\n[turn]\nnumjobs=2\n[whole]\nstonewall\n\
                file_service_type=sequential\n[any]\nstonewall\nrw=randread\nio_size=1m\n";
    fs::write(&jobs, text).expect("writes");
    let (value, status, errors) = json(run(&home, "bench").arg(&jobs).arg(home.path()));
    assert_eq!(status, 0, "{errors}");
    let members = |job: usize, kind: &str| -> Vec<u64> {
        let members = value["jobs"][job]["ebbtide"]["members"].as_array().expect("has members");
        members.iter().map(|member| member[kind]["bytes"].as_u64().expect("a number")).collect()
    };
    // Five blocks of each clone: the first file of each has a second one.
    assert_eq!(members(0, "write"), [8192, 4096, 4096, 4096, 8192, 4096, 4096, 4096]);
    assert_eq!(members(1, "write"), [16384, 4096, 0, 0]);
    // 256 blocks over four files: none is left out.
    let read = members(2, "read");
    assert!(read.iter().all(|bytes| *bytes > 0) && read.iter().sum::<u64>() == 1 << 20, "{read:?}");
    for file in ["turn.0.0", "turn.1.3", "whole.0.3", "any.0.0"] {
        assert_eq!(fs::metadata(home.path().join(file)).expect("is there").len(), 16384, "{file}");
    }
}

/// A directory has so many temporary files; a sequential job goes to each in turn, or to one after the other.
#[test]
fn a_directory_has_several_files() {
    let home = directory();
    let of = |options: &[&str]| {
        let mut command = run(&home, "bench");
        command.arg(home.path()).args(["--size=64k", "--nrfiles=4", "--bs=4k"]).args(options);
        let (value, status, errors) = json(&mut command);
        assert_eq!(status, 0, "{errors}");
        let members = value["jobs"][0]["ebbtide"]["members"].as_array().expect("has members").clone();
        members.iter().map(|member| member["write"]["bytes"].as_u64().expect("a number")).collect::<Vec<_>>()
    };
    assert_eq!(of(&["--rw=write", "--io_size=20k"]), [8192, 4096, 4096, 4096]);
    assert_eq!(of(&["--rw=write", "--io_size=20k", "--file_service_type=sequential"]), [16384, 4096, 0, 0]);
    assert_eq!(of(&["--rw=randwrite", "--io_size=4m"]).iter().filter(|bytes| **bytes > 0).count(), 4);
    let left: Vec<_> =
        fs::read_dir(home.path()).expect("lists").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| name == "state"), "the files are removed again: {left:?}");
    let mut refused = run(&home, "bench");
    refused.arg(home.path()).args(["--size=8k", "--nrfiles=4", "--rw=write"]);
    let (_, status, errors) = json(&mut refused);
    assert_eq!(status, 2);
    assert!(
        errors.contains("--nrfiles 4 with a size of less than a block for each; write a larger size"),
        "{errors}"
    );
}
