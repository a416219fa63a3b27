//! What it does there.

use super::*;

#[test]
fn a_size_ends_the_run_and_is_done_exactly() {
    let home = directory();
    let path = home.path().join("f");
    let arguments = ["--rw=write", "--bs=64k", "--size=1000k", "--direct=0", "--end_fsync=1"];
    let value = json(ebb(&home).arg(&path).args(arguments));
    let job = &value["jobs"][0];
    assert_eq!(job["write"]["io_bytes"], 1_024_000);
    assert_eq!(job["write"]["total_ios"], 16);
    assert_eq!(job["read"]["total_ios"], 0);
}

#[test]
fn offset_and_size_bound_what_is_written() {
    let home = directory();
    let path = home.path().join("f");
    file(&path, 1 << 20);
    let before = fs::read(&path).expect("reads");
    let arguments = ["--rw=write", "--destroy", "--offset=512k", "--size=64k", "--fsync=4", "--direct=0"];
    let output = ebb(&home).arg(&path).args(arguments).output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success() && line.contains("on 64KiB from offset 512KiB"), "{text}");
    assert!(line.contains("fsync after 4 writes"), "{text}");
    assert!(text.contains("sync"), "{text}");
    let after = fs::read(&path).expect("reads");
    assert_eq!(before[..512 << 10], after[..512 << 10]);
    assert_ne!(before[512 << 10..576 << 10], after[512 << 10..576 << 10]);
    assert_eq!(before[576 << 10..], after[576 << 10..]);
}

#[test]
fn an_open_loop_gives_service_time_beside_latency() {
    let home = directory();
    let path = home.path().join("f");
    file(&path, 1 << 20);
    let output = ebb(&home)
        .arg(&path)
        .args(["--rw=randread", "--rate-iops=500", "--rate_process=poisson", "--runtime=200ms"])
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("of which service"), "{text}");
    let value = json(ebb(&home).arg(&path).args(["--rw=randread", "--rate_iops=500", "--runtime=200ms"]));
    let read = &value["jobs"][0]["read"];
    assert_eq!(read["clat_ns"]["N"], read["lat_ns"]["N"]);
    assert_eq!(read["clat_ns"]["percentile"], read["lat_ns"]["percentile"], "both from the intended start");
    let service = &value["jobs"][0]["ebbtide"]["service_ns"]["read"];
    assert_eq!(service["N"], read["lat_ns"]["N"]);
    assert!(read["lat_ns"]["mean"].as_f64() >= service["mean"].as_f64());
    assert_eq!(value["jobs"][0]["ebbtide"]["latency_counts_from"], "intended start");
    let closed = json(ebb(&home).arg(&path).args(["--rw=randread", "--runtime=100ms"]));
    assert!(
        closed["jobs"][0]["ebbtide"]["slot_wait_ns"].is_null(),
        "in a closed loop none is due before there is a place"
    );
}

/// Ten times as many operations as can be done are asked for: the wait for those before shows in what others read.
#[test]
fn an_overloaded_open_loop_shows_the_wait_in_fios_percentiles() {
    let home = directory();
    let path = home.path().join("f");
    let shape = "shape = { iops = 500, latency = \"100us\" }";
    let text = format!(
        "name = \"e\"\n[volumes.v]\nfile = {path:?}\n{shape}\n[designs.one]\nlayout = \"linear\"\n\
         members = [\"v\"]\n[workloads.read]\nrw = \"read\"\nruntime = \"1s\"\n"
    );
    file(&path, 1 << 20);
    let experiment = home.path().join("e.toml");
    fs::write(&experiment, text).expect("writes");
    let design = format!("{}:one", experiment.display());
    let arguments = ["--design", &design, "--rw=randread", "--rate_iops=5000", "--runtime=400ms"];
    let output = ebb(&home).args(arguments).output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("of which slot wait") && text.contains("of the mean latency is slot wait"),
        "{text}"
    );
    let value = json(ebb(&home).args(arguments));
    let job = &value["jobs"][0];
    let part = |name: &str| {
        let part = &job["ebbtide"][name];
        part["read"]["mean"].as_f64().or_else(|| part["mean"].as_f64()).unwrap_or(0.0)
    };
    let parts = part("service_ns") + part("slot_wait_ns") + part("lateness_ns");
    let mean = job["read"]["lat_ns"]["mean"].as_f64().expect("a mean");
    // The parts count where operations begin, the whole where they end.
    assert!((parts / mean - 1.0).abs() < 0.05, "{parts} of {mean}");
    let median = |at: &Value| at["percentile"]["50.000000"].as_f64().expect("a median");
    let (seen, service) = (median(&job["read"]["clat_ns"]), median(&job["ebbtide"]["service_ns"]["read"]));
    assert!(seen > 10.0 * service, "{seen} beside {service}");
}

#[test]
fn a_design_shows_its_members() {
    let home = directory();
    let experiment = home.path().join("e.toml");
    let text = format!(
        "name = \"e\"\n[volumes.vol]\ncount = 4\nsize = \"1MiB\"\ndirectory = {:?}\n\
         [designs.stripe-4]\nlayout = \"stripe\"\nmembers = [\"vol*\"]\nchunk = \"64KiB\"\n\
         [workloads.read]\nrw = \"read\"\nruntime = \"1s\"\n",
        home.path()
    );
    fs::write(&experiment, text).expect("writes");
    let design = format!("{}:stripe-4", experiment.display());
    let arguments = ["--design", &design, "--rw=read", "--bs=256k", "--runtime=150ms"];
    let value = json(ebb(&home).args(arguments));
    let members = value["jobs"][0]["ebbtide"]["members"].as_array().expect("members").clone();
    assert_eq!(members.len(), 4);
    for member in &members {
        let share = member["share"].as_f64().expect("a share");
        assert!((share - 0.25).abs() < 0.02, "{member}");
    }
    ebb(&home).arg("--design").arg(format!("{}:other", experiment.display())).assert().code(2);
}

#[test]
fn the_cache_is_kept_and_the_start_delayed_where_asked() {
    let home = directory();
    let path = home.path().join("f");
    file(&path, 1 << 20);
    let begin = std::time::Instant::now();
    let arguments =
        ["--rw=read", "--direct=0", "--size=1m", "--io_size=1m", "--invalidate", "0", "--startdelay=1"];
    let value = json(ebb(&home).arg(&path).args(arguments));
    assert!(begin.elapsed() >= std::time::Duration::from_secs(1));
    let options = &value["jobs"][0]["job options"];
    assert!(options["invalidate"] == "0" && options["startdelay"] == "1", "{options}");
    let errors = ebb(&home).arg(&path).args(["--rw=read", "--invalidate=0"]).output().expect("runs").stderr;
    let errors = String::from_utf8_lossy(&errors);
    assert!(
        errors.contains("O_DIRECT does not read from the page cache; write for example --direct=0"),
        "{errors}"
    );
    // Options beside a job file are those of its jobs that have none.
    let jobs = home.path().join("jobs.fio");
    fs::write(&jobs, "[a]\nfilename=f\n[b]\nfilename=f\nsize=8k\n").expect("writes");
    let value = json(run(&home, "bench").arg(&jobs).arg(home.path()).arg("--size=64k"));
    let moved: Vec<&Value> = (0..2).map(|job| &value["jobs"][job]["read"]["io_bytes"]).collect();
    assert_eq!(moved, [65_536, 8192]);
    assert_eq!(value["global options"]["size"], "64k");
}

/// A job file and the command line take the same loads, and what runs is what they say.
#[test]
fn several_sizes_and_skewed_offsets_run() {
    let home = directory();
    let jobs = home.path().join("jobs.fio");
    let text = "[a]\nfilename=f\nsize=8m\nio_size=32m\nrw=randread\nbssplit=4k/50:16k\nrandom_distribution=zipf:1.2\n";
    fs::write(&jobs, text).expect("writes");
    let command = [
        "--size=8m",
        "--io_size=32m",
        "--rw=randread",
        "--bssplit=4k/50:16k",
        "--random_distribution=zipf:1.2",
    ];
    let of_file = json(run(&home, "bench").arg(&jobs).arg(home.path()));
    let of_command = json(ebb(&home).arg(home.path().join("f")).args(command).arg("--direct=0"));
    for value in [of_file, of_command] {
        let (read, options) = (&value["jobs"][0]["read"], &value["jobs"][0]["job options"]);
        assert_eq!(read["io_bytes"], 32 << 20);
        let mean = f64::from(32 << 20) / read["total_ios"].as_f64().expect("a number");
        // 10 KiB, of about 3277 operations with a standard deviation of 6 KiB each.
        assert!((mean / 10_240.0 - 1.0).abs() < 0.06, "{mean}");
        assert!(options["random_distribution"] == "zipf:1.2" && options["bs"].is_null(), "{options}");
    }
    let back = ["--rw=read:-8k", "--io_size=1m", "--direct=0"];
    let value = json(ebb(&home).arg(home.path().join("f")).args(back));
    assert_eq!(value["jobs"][0]["job options"]["rw"], "read:-8192");
    assert_eq!(value["jobs"][0]["read"]["total_ios"], 256);
}

#[test]
fn nothing_completed_is_inconclusive() {
    let home = directory();
    let path = home.path().join("f");
    fs::File::create(&path).and_then(|file| file.set_len(1 << 30)).expect("makes it");
    // The clock's first look after a gigabyte comes later than a millisecond on any machine.
    let arguments = ["--bs=1g", "--runtime=1ms", "--direct=0"];
    let output = ebb(&home).arg(&path).args(arguments).output().expect("runs");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("under way at the end): run longer"),
        "{output:?}"
    );
}

#[test]
fn syncs_are_counted_apart_in_json() {
    let home = directory();
    let path = home.path().join("f");
    let arguments = ["--rw=write", "--size=400k", "--iodepth=8", "--fdatasync=10"];
    let job = &json(ebb(&home).arg(&path).args(arguments))["jobs"][0];
    assert_eq!((&job["sync"]["total_ios"], &job["write"]["total_ios"]), (&10.into(), &100.into()));
    assert!(job["sync"]["lat_ns"]["mean"].as_f64().is_some_and(|mean| mean > 0.0), "{job:#}");
    assert_eq!(job["ebbtide"]["ioengine"], "iouring");
}

#[test]
fn the_self_test_tells_of_clock_and_ceiling() {
    let home = directory();
    let value = json(&mut run(&home, "self-test"));
    assert!(value["clock"]["cost_ns"].as_f64() > Some(0.0));
    assert!(value["null_write"]["iops"].as_f64() > Some(0.0));
    let text = run(&home, "self-test").output().expect("runs").stdout;
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("ns per reading") && text.contains("measures the tool"), "{text}");
}
