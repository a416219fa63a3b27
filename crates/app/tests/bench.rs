//! `ebb bench` as its users run it.
#![allow(clippy::disallowed_methods)]

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// `ebb bench` with its state in `state`, and no progress.
fn ebb(state: &TempDir) -> Command {
    run(state, "bench")
}

/// The same for another subcommand.
fn run(state: &TempDir, subcommand: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command.env("XDG_STATE_HOME", state.path().join("state")).args(["--quiet", subcommand]);
    command
}

fn directory() -> TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a directory")
}

fn json(command: &mut Command) -> Value {
    let output = command.arg("--json").output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("stdout is JSON alone")
}

/// A file of `size` bytes of something.
fn file(path: &Path, size: usize) {
    let bytes: Vec<u8> = (0..size).map(|n| (n * 31 % 251) as u8).collect();
    fs::write(path, bytes).expect("writes");
}

#[test]
fn a_directory_gets_a_file_that_is_removed() {
    let home = directory();
    let place = home.path().join("place");
    fs::create_dir(&place).expect("makes it");
    let output = ebb(&home)
        .arg(&place)
        .args(["--rw=randrw", "--bs=4k", "--iodepth=4", "--size=4m", "--runtime=150ms"])
        .output()
        .expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    for part in ["random mix with 50% reads, bs 4KiB, iodepth 4", "read", "write", "p99.9", "CPU", "seed"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(fs::read_dir(&place).expect("is there").count(), 0, "nothing is left");
}

#[test]
fn a_new_file_is_made_filled_and_kept() {
    let home = directory();
    let path = home.path().join("new");
    ebb(&home).arg(&path).args(["--rw=randread", "--runtime=100ms"]).assert().code(2);
    assert!(!path.exists(), "without a size there is no file");
    ebb(&home).arg(&path).args(["--rw=randread", "--size=1m", "--runtime=100ms"]).assert().success();
    let bytes = fs::read(&path).expect("is kept");
    assert_eq!(bytes.len(), 1 << 20);
    for block in bytes.chunks(4096) {
        assert!(block.iter().any(|byte| *byte != 0), "every block is filled");
    }
}

/// A mistyped device is no file to be made, and nothing gets a size that nobody said.
#[test]
fn nothing_is_made_among_devices_or_without_a_size() {
    let home = directory();
    let jobs = home.path().join("jobs.fio");
    fs::write(&jobs, "[a]\nfilename=/dev/nosuchdev\nsize=1m\n").expect("writes");
    let jobs = jobs.to_str().expect("text");
    let runs: [&[&str]; 4] = [
        &["bench", "/dev/nosuchdev", "--size=1m"],
        &["bench", "/dev/../dev/nosuchdev", "--size=1m", "--rw=write"],
        &["profile", "run", "seek", "/dev/nosuchdev", "--size=1m"],
        &["fio", jobs],
    ];
    for arguments in runs {
        let output = run(&home, arguments[0]).args(&arguments[1..]).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains("there is no device /dev/"), "{arguments:?}: {errors}");
        assert!(!Path::new("/dev/nosuchdev").exists(), "{arguments:?}");
    }
    let path = home.path().join("nofile");
    for profile in ["seek", "dd", "bonnie", "ladder"] {
        let output = run(&home, "profile").args(["run", profile]).arg(&path).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{profile}: {errors}");
        assert!(errors.contains("give --size"), "{profile}: {errors}");
        assert!(!path.exists(), "{profile}");
    }
}

#[test]
fn a_device_by_its_bare_name_is_pointed_at() {
    use std::os::unix::fs::FileTypeExt;
    let devices = fs::read_dir("/dev").expect("is there").flatten();
    let mut blocks = devices.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_block_device()));
    let Some(name) = blocks.next().map(|entry| entry.file_name()) else {
        eprintln!("skipped: no block device in /dev");
        return;
    };
    let home = directory();
    let output = ebb(&home).current_dir(home.path()).arg(&name).output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains(&format!("the device is /dev/{}", name.display())), "{errors}");
    // Any other name is one of a file that could be made.
    let output = ebb(&home).current_dir(home.path()).arg("nodevice").output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("give --size 1g") && !errors.contains("/dev/"), "{errors}");
}

#[test]
fn holes_are_pointed_out_and_filled_with_destroy() {
    let home = directory();
    let path = home.path().join("sparse");
    let jobs = home.path().join("jobs.fio");
    fs::write(&jobs, "[a]\nfilename=sparse\nrw=randread\ntime_based\nruntime=100ms\n").expect("writes");
    let job_file = ["fio", jobs.to_str().expect("text")];
    let runs: [(&Path, &[&str]); 3] = [
        (&path, &["bench", "--rw=randread", "--runtime=100ms"]),
        (&path, &["profile", "run", "seek", "--runtime=200ms"]),
        (home.path(), &job_file),
    ];
    for (target, arguments) in runs {
        let ebb = || {
            let mut command = run(&home, arguments[0]);
            command.args(&arguments[1..]).arg(target);
            command
        };
        fs::File::create(&path).and_then(|file| file.set_len(1 << 20)).expect("a file of holes");
        let output = ebb().output().expect("runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("fill it with --destroy"), "{arguments:?}: {said}");
        assert!(fs::read(&path).expect("reads").iter().all(|byte| *byte == 0), "only with --destroy");
        let output = ebb().arg("--destroy").output().expect("runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && !said.contains("holes"), "{arguments:?}: {said}");
        for block in fs::read(&path).expect("reads").chunks(4096) {
            assert!(block.iter().any(|byte| *byte != 0), "{arguments:?}: every block is filled");
        }
    }
}

#[test]
fn existing_files_are_only_written_with_destroy() {
    let home = directory();
    let path = home.path().join("precious");
    file(&path, 1 << 20);
    let before = fs::read(&path).expect("reads");
    for rw in ["write", "randwrite", "rw", "randrw", "rewrite"] {
        let output = ebb(&home).arg(&path).args(["--rw", rw, "--runtime=100ms"]).output().expect("runs");
        assert_eq!(output.status.code(), Some(2), "{rw}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--destroy"), "{rw}");
    }
    ebb(&home).arg(&path).args(["--rw=randread", "--destroy", "--runtime=100ms"]).assert().success();
    assert_eq!(before, fs::read(&path).expect("reads"), "reading changes nothing, whatever is allowed");
    ebb(&home).arg(&path).args(["--rw=write", "--destroy", "--size=64k"]).assert().success();
    let after = fs::read(&path).expect("reads");
    assert_ne!(before[..65536], after[..65536]);
    assert_eq!(before[65536..], after[65536..], "only --size bytes of it");
}

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
    let arguments = ["--design=one", "--rw=randread", "--rate_iops=5000", "--runtime=400ms"];
    let output = ebb(&home).arg("--file").arg(&experiment).args(arguments).output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("of which slot wait") && text.contains("of the mean latency is slot wait"),
        "{text}"
    );
    let value = json(ebb(&home).arg("--file").arg(&experiment).args(arguments));
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
    let arguments = ["--design=stripe-4", "--rw=read", "--bs=256k", "--runtime=150ms"];
    let value = json(ebb(&home).arg("--file").arg(&experiment).args(arguments));
    let members = value["jobs"][0]["ebbtide"]["members"].as_array().expect("members").clone();
    assert_eq!(members.len(), 4);
    for member in &members {
        let share = member["share"].as_f64().expect("a share");
        assert!((share - 0.25).abs() < 0.02, "{member}");
    }
    ebb(&home).arg("--file").arg(&experiment).arg("--design=other").assert().code(2);
}

#[test]
fn what_is_wrong_is_said_with_a_way_out() {
    let home = directory();
    let path = home.path().join("f");
    file(&path, 1 << 20);
    let path = path.to_str().expect("text");
    for (arguments, words) in [
        (&[][..], "no target"),
        (&["/nowhere/f", "--size=1m"], "cannot make /nowhere/f"),
        (&[path, "--offset=1m", "--size=1m"], "has 1MiB and --size 1MiB from offset 1MiB on reaches beyond"),
        (&[path, "--offset=1m"], "offset 1MiB is beyond that"),
        (&["/dev/tty0", "--rw=read"], "neither a file nor a block device"),
        (&[path, "--size=2m"], "smaller --size"),
        (&[path, "--bs=0"], "--bs"),
        (&[path, "--size=0"], "--size is 0"),
        (&[path, "--cpus_allowed=8191"], "there is no CPU 8191 here; there are 0"),
        (&[path, "--hipri", "--ioengine=psync"], "--hipri changes nothing: psync has no ring"),
        (&[path, "--sqthread_poll", "--ioengine=psync"], "--sqthread_poll changes nothing"),
        (&[path, "--hipri", "--direct=0"], "the page cache is not polled"),
        (&[path, "--rw=randread", "--fsync=2"], "--fsync changes nothing: nothing is written"),
        (&[path, "--fdatasync=2"], "--fdatasync changes nothing: nothing is written"),
        (&[path, "--time_based"], "--runtime"),
        (&[path, "--bs=1000"], "write --bs=512B or --direct=0"),
        (&[path, "--rate_process=poisson"], "write for example --rate_iops=1000, or remove --rate_process"),
        (&[path, "--rwmixread=70"], "--rwmixread changes nothing: reads and writes are not mixed"),
        (&[path, "--loops=2"], "--loops changes nothing: a time ends it"),
        (&[path, "--io_size=1m", "--runtime=1"], "--runtime and --io_size exclude each other"),
        (&[path, "--iodepth=4097"], "--iodepth is 4097, but must be from 1 to 4096"),
        (&[path, "--runtime=0"], "--runtime"),
        (&[path, "--rate-iops=0"], "--rate_iops"),
        (&[path, "--rw=sideways"], "randread"),
        (&[path, "--cpus_allowed=x"], "0-3,6"),
        (&[path, "--rwmixread=101"], "100"),
        (&[path, "--bs=2m"], "--bs 2MiB is larger than the used part of"),
        (&[path, "--bs=8k", "--size=4k"], ", 4KiB; give a smaller --bs"),
        (&[path, "--file_service_type=random"], "there is one file; write for example --nrfiles=8"),
        (&[path, "--filename=x"], "--filename and the target"),
        (&["--filename", path, "--sync", "1"], "write the value of an option such as --sync after `=`"),
        (&["--file=e.toml", "--design=d", "--end_fsync", "1"], "such as --sync after `=`"),
        (&["--file=e.toml", "--design=d", "--nrfiles=2"], "--nrfiles 2 changes nothing"),
    ] {
        let output = ebb(&home).args(arguments).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        let tried = errors.contains("cannot make");
        assert_eq!(output.status.code(), Some(if tried { 1 } else { 2 }), "{arguments:?}: {errors}");
        assert!(errors.contains(words), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

/// Every key of `theirs` that is not in `ours`, with its path.
fn missing(theirs: &Value, ours: &Value, path: &str, found: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, value) in theirs {
                match ours.get(key) {
                    None => found.push(format!("{path}.{key}")),
                    Some(own) => missing(value, own, &format!("{path}.{key}"), found),
                }
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            if let (Some(value), Some(own)) = (theirs.first(), ours.first()) {
                missing(value, own, &format!("{path}[]"), found);
            }
        }
        (theirs, ours) => {
            let number = |value: &Value| value.is_number();
            if number(theirs) != number(ours) || theirs.is_string() != ours.is_string() {
                found.push(format!("{path}: {ours} instead of {theirs}"));
            }
        }
    }
}

/// fio 3.33's own output for a randrw job has no key that ours lacks, and the values are of the same kind.
#[test]
fn json_has_every_key_that_fio_writes() {
    let home = directory();
    let path = home.path().join("f");
    let arguments = ["--rw=randrw", "--size=4m", "--runtime=150ms", "--iodepth=4", "--name=x"];
    let mut ours = json(ebb(&home).arg(&path).args(arguments));
    let theirs: Value = serde_json::from_str(include_str!("recorded/fio-3.33.json")).expect("JSON");
    // Which options were given is up to the caller.
    ours["jobs"][0]["job options"] = theirs["jobs"][0]["job options"].clone();
    let mut found = Vec::new();
    missing(&theirs, &ours, "", &mut found);
    // A file system without a disk below has no disk to tell of.
    found.retain(|key| !key.starts_with(".disk_util"));
    assert!(found.is_empty(), "{found:#?}");
    assert_eq!(ours["jobs"][0]["jobname"], "x");
}

#[test]
fn a_pasted_fio_command_line_runs() {
    let home = directory();
    let line = "--name=test --ioengine=libaio --rw=randread --bs=4k --buffered=1 --size=1m --numjobs=2 --iodepth=4 \
                --runtime=0.1 --time_based --group_reporting --norandommap --randrepeat=0 --refill_buffers \
                --iodepth_batch 8 --gtod_reduce=1 --fallocate=none --invalidate=1 --nrfiles=1 --filename=a \
                --output-format=json";
    let output =
        ebb(&home).args(line.split_whitespace()).arg("--directory").arg(home.path()).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON, as fio's --output-format says");
    let job = &value["jobs"][0];
    for (name, given) in [("rw", "randread"), ("ioengine", "libaio"), ("direct", "0"), ("size", "1048576")] {
        assert_eq!(job["job options"][name], given, "{name}");
    }
    assert!(job["ebbtide"]["notes"].to_string().contains("ioengine=libaio runs on io_uring"), "{job}");
    assert!(home.path().join("a").exists(), "--filename is below --directory");
    for (arguments, words) in [
        (["--nrfiles=2", "--rw=read"], "is no directory; name one"),
        (["--ioengine=rbd", "--rw=read"], "[possible values: io_uring, libaio"),
        (["--direct=1", "--buffered=1"], "--direct and --buffered contradict each other"),
        (["--rwmixread=70", "--rwmixwrite=40"], "--rwmixread and --rwmixwrite contradict each other"),
        (["--direct=2", "--rw=read"], "write 0 or 1"),
        (
            ["--rw=read", "--random_distribution=zipf:1.2"],
            "offsets are not random; write for example --rw=randread",
        ),
        (["--rw=randread", "--bssplit=4k/60:64k/50"], "make 110%"),
        (["--rw=read:8x", "--direct=0"], "write for example --rw=read:-8k"),
    ] {
        let output = ebb(&home).arg(home.path().join("a")).args(arguments).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(words), "{arguments:?}: {errors}");
    }
}

#[test]
fn json_lists_the_options_that_were_given() {
    let home = directory();
    let path = home.path().join("f");
    file(&path, 1 << 20);
    let arguments = [
        "--rw=randrw",
        "--rwmixwrite=30",
        "--destroy",
        "--rate_iops=300",
        "--rate_process=poisson",
        "--rate=10MB",
        "--thinktime=5",
        "--runtime=100ms",
        "--offset=4k",
        "--fsync=7",
    ];
    let value = json(ebb(&home).arg(&path).args(arguments));
    let options = &value["jobs"][0]["job options"];
    for (name, given) in [
        ("rw", "randrw"),
        ("rwmixread", "70"),
        ("rate_iops", "300"),
        ("rate_process", "poisson"),
        ("rate", "10000000"),
        ("thinktime", "5"),
        ("runtime", "0.1"),
        ("offset", "4096"),
        ("fsync", "7"),
    ] {
        assert_eq!(options[name], given, "{name} of {options}");
    }
    assert!(options.get("sync").is_none(), "{options}");
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

#[test]
fn a_fio_job_file_runs_in_groups() {
    let home = directory();
    let jobs = home.path().join("jobs.fio");
    fs::write(home.path().join("common.fio"), "ioengine=io_uring\nsize=1m\n").expect("writes");
    let text = "[global]\ninclude common.fio\ndirect=0\n\
        [fill]\nrw=write\nbs=64k\nfilename=shared\n\
        [readers]\nstonewall\nrw=randread\nnumjobs=2\nbs=4k\nfilename=shared\ntime_based\nruntime=1\n\
        [own]\nrw=write\nbs=16k\nnumjobs=2\n\
        [slow]\nstonewall\nrw=read\nfilename=shared\nrate=100k\nruntime=1\n";
    fs::write(&jobs, text).expect("writes");
    let value = json(run(&home, "fio").arg(&jobs).arg(home.path()));
    let list = value["jobs"].as_array().expect("jobs");
    let names: Vec<(&str, u64)> = list
        .iter()
        .map(|job| (job["jobname"].as_str().expect("name"), job["groupid"].as_u64().expect("group")))
        .collect();
    assert_eq!(names, [("fill", 0), ("readers", 1), ("own", 1), ("slow", 2)]);
    assert_eq!(list[0]["write"]["io_bytes"], 1 << 20);
    assert_eq!(list[2]["write"]["io_bytes"], 2 << 20, "size counts for every clone");
    assert!(list[1]["read"]["total_ios"].as_u64() > Some(0));
    assert_eq!(list[1]["job options"]["numjobs"], "2");
    let global = serde_json::json!({ "ioengine": "io_uring", "size": "1m", "direct": "0" });
    assert_eq!(value["global options"], global);
    // Its size would take ten seconds at its rate: the runtime comes first.
    let slow = list[3]["read"]["io_bytes"].as_u64().expect("bytes");
    assert!(slow > 0 && slow < 500_000, "{slow}");
    for file in ["shared", "own.0.0", "own.1.0"] {
        assert_eq!(fs::metadata(home.path().join(file)).expect("is there").len(), 1 << 20, "{file}");
    }
    let bytes = fs::read(home.path().join("own.1.0")).expect("reads");
    assert!(bytes.chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)), "each clone wrote its file");
    // Now the files exist.
    run(&home, "fio").arg(&jobs).arg(home.path()).assert().code(2);
    let twice = ["--destroy", "--json"];
    run(&home, "fio").arg(&jobs).arg(home.path()).args(twice).assert().success();
}

#[test]
fn an_unknown_option_of_fio_is_refused_by_name_and_place() {
    let home = directory();
    let jobs = home.path().join("jobs.fio");
    fs::write(&jobs, "[a]\nsize=1m\npercentage_random=50\n").expect("writes");
    let output = run(&home, "fio").arg(&jobs).output().expect("runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("jobs.fio:3: percentage_random"), "{errors}");
    for (text, place, words) in [
        ("", "jobs.fio:1: ", "there is no job"),
        (
            "; nothing\n[a]\nfilename=small\nsize=1m\n",
            "jobs.fio:2: ",
            "size=1MiB is more; give a smaller size,",
        ),
        ("[a]\nfilename=small\nruntime=1\nrw=write\n", "jobs.fio:1: ", "say --destroy"),
        ("[a]\nfilename=none\nruntime=1\n", "jobs.fio:1: ", "give size=1g, for example"),
    ] {
        file(&home.path().join("small"), 4096);
        fs::write(&jobs, text).expect("writes");
        let output = run(&home, "fio").arg(&jobs).arg(home.path()).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {errors}");
        assert!(errors.contains(place) && errors.contains(words), "{text}: {errors}");
    }
    for arguments in [&["--bs=8k", "--rw=read"][..], &["--name=x"], &["--iodepth=4"]] {
        let output = run(&home, "fio").arg(&jobs).args(arguments).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "options beside a job file are not passed over: {errors}");
        assert!(errors.contains("unexpected argument") && errors.contains("Usage: ebb fio"), "{errors}");
        let of_workload = !arguments.contains(&"--name=x");
        assert_eq!(errors.contains("the job file says what to run: write it there"), of_workload, "{errors}");
    }
}

/// The old spellings of what are commands of their own now work as these do, with a line that says what to write.
#[test]
fn old_spellings_work_and_say_the_new_one() {
    let home = directory();
    fs::write(home.path().join("j.fio"), "[a]\nfilename=new\nrw=write\nsize=64k\n").expect("writes");
    let old = |arguments: &str, quiet: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
        command.env("XDG_STATE_HOME", home.path().join("state")).current_dir(home.path()).arg("bench");
        command.args(arguments.split(' ')).args(quiet.then_some("--quiet"));
        command.output().expect("runs")
    };
    for (arguments, shown, hint) in [
        ("--profile list", "ladder", "`ebb bench --profile list` is `ebb profile list` now"),
        ("--profile show dd", "imitates:", "`ebb profile show NAME`"),
        ("--profile=dd . --size 1m --json", "conclusions", "`ebb profile run NAME TARGET`"),
        ("--fio j.fio --destroy", "write", "`ebb fio JOBFILE [DIRECTORY]`"),
        (". --fio=j.fio --destroy --json", "jobname", "`ebb fio JOBFILE [DIRECTORY]`"),
        ("--self-test --json", "cpu_ns_per_io", "`ebb self-test`"),
    ] {
        let output = old(arguments, false);
        let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{arguments}: {said}");
        assert!(told.contains(shown) && said.contains(hint), "{arguments}: {told}{said}");
        assert!(!arguments.contains("--json") || serde_json::from_str::<Value>(&told).is_ok(), "{told}");
        let said = String::from_utf8_lossy(&old(arguments, true).stderr).into_owned();
        assert!(!said.contains("spelling"), "{arguments}: {said}");
    }
    // What is wrong is said of the new spelling, after the hint.
    let output = old("--fio j.fio --bs=4k", true);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.starts_with("ebb: `ebb bench --fio JOBFILE` is") && said.contains("Usage: ebb fio"),
        "{said}"
    );
}

#[test]
fn each_command_refuses_the_options_of_the_others() {
    let home = directory();
    for (line, names) in [
        ("bench . --format bonnie-csv", "Usage: ebb bench"),
        ("profile list --size 1m", "Usage: ebb profile list"),
        ("profile show dd --destroy", "Usage: ebb profile show"),
        ("profile run dd . --verify", "Usage: ebb profile run"),
        ("profile run dd . --iodepth 2", "the profile says what to run"),
        ("fio j.fio . --name l", "Usage: ebb fio"),
        ("self-test --seed 1", "Usage: ebb self-test"),
    ] {
        let mut words = line.split(' ');
        let output = run(&home, words.next().expect("a word")).args(words).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains("unexpected argument") && said.contains(names), "{line}: {said}");
    }
}

/// What docs/performance.md measures, with the program itself; and nothing else in /dev is a target.
#[test]
fn devices_without_an_end_are_targets_where_a_size_is_given() {
    let home = directory();
    let write = ["--rw=randwrite", "--iodepth=32", "--direct=0", "--io_size=4m"];
    let value = json(ebb(&home).args(["/dev/null", "--size=1m"]).args(write));
    assert_eq!(value["jobs"][0]["write"]["total_ios"], 1024);
    let value =
        json(ebb(&home).args(["/dev/zero", "--size=1m", "--io_size=2m", "--rw=randread", "--direct=0"]));
    assert_eq!(value["jobs"][0]["read"]["total_ios"], 512);
    // There is no page cache in between, whatever is asked for.
    for direct in ["--direct=0", "--direct=1"] {
        let output = ebb(&home)
            .args(["/dev/zero", "--size=1m", "--runtime=0.2", "--rw=read", direct])
            .output()
            .expect("runs");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains("IOPS") && !shown.contains("O_DIRECT was"), "{shown}");
        assert!(!shown.contains("limit    cache") && !shown.contains("devtmpfs"), "{shown}");
    }
    for value in ["0", "1"] {
        let output =
            ebb(&home).args(["--rw=write", "--size=1m", "--sync", value]).current_dir(home.path()).output();
        let output = output.expect("runs");
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("--sync={value}")));
        assert!(!home.path().join(value).exists());
    }
    let jobs = home.path().join("jobs.fio");
    fs::write(&jobs, "[a]\nfilename=/dev/null\nrw=write\nsize=1m\n").expect("writes");
    let value = json(run(&home, "fio").arg(&jobs));
    assert_eq!(value["jobs"][0]["write"]["total_ios"], 256);
    for (arguments, words) in [
        (&["/dev/null", "--rw=write"][..], "has no size; give --size 1g"),
        (&["/dev/null", "--rw=randrw", "--size=1m"], "gives nothing to read; write to it, or read /dev/zero"),
        (&["/dev/random", "--rw=read", "--size=1m"], "is neither a file nor a block device"),
        (&["/dev/tty", "--rw=write", "--size=1m", "--destroy"], "is neither a file nor a block device"),
    ] {
        let output = ebb(&home).args(arguments).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(words), "{arguments:?}: {errors}");
    }
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
    let value = json(run(&home, "fio").arg(&jobs).arg(home.path()).arg("--size=64k"));
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
    let of_file = json(run(&home, "fio").arg(&jobs).arg(home.path()));
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
fn a_failure_gives_the_figures_until_then_and_says_so() {
    let home = directory();
    let path = home.path().join("f");
    file(&path, 8 << 20);
    // Sequential: it meets the end of the file in the middle of the run, whatever the machine does.
    let cut = fs::File::options().write(true).open(&path).expect("opens");
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_ebb"))
        .env("XDG_STATE_HOME", home.path().join("state"))
        .args(["--quiet", "--json", "bench", "--rw=read", "--direct=0", "--rate=8m", "--runtime=60s"])
        .arg(&path)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    std::thread::sleep(std::time::Duration::from_millis(500));
    cut.set_len(4096).expect("cuts");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(1));
    let value: Value = serde_json::from_slice(&output.stdout).expect("stdout is JSON alone");
    assert!(value["error"].as_str().is_some_and(|why| why.contains("end of the file")), "{value:#}");
    assert!(value["timestamp"].as_u64().is_some_and(|seconds| seconds > 1_700_000_000), "{value:#}");
    let job = &value["jobs"][0];
    assert_eq!(job["error"], 5);
    assert!(job["read"]["total_ios"].as_u64().is_some_and(|ops| ops > 0), "{value:#}");
    assert_eq!(job["ebbtide"]["members"][0]["errors"][0]["name"], "short");
    assert!(String::from_utf8_lossy(&output.stderr).contains("end of the file"));
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
