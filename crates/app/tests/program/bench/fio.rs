//! What users of fio know: its options, job files and JSON.

use super::*;

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
    let theirs: Value = serde_json::from_str(include_str!("../../recorded/fio-3.33.json")).expect("JSON");
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
    let value = json(run(&home, "bench").arg(&jobs).arg(home.path()));
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
    run(&home, "bench").arg(&jobs).arg(home.path()).assert().code(2);
    let twice = ["--destroy", "--json"];
    run(&home, "bench").arg(&jobs).arg(home.path()).args(twice).assert().success();
}

#[test]
fn an_unknown_option_of_fio_is_refused_by_name_and_place() {
    let home = directory();
    let jobs = home.path().join("jobs.fio");
    fs::write(&jobs, "[a]\nsize=1m\npercentage_random=50\n").expect("writes");
    let output = run(&home, "bench").arg(&jobs).output().expect("runs");
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
        let output = run(&home, "bench").arg(&jobs).arg(home.path()).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}: {errors}");
        assert!(errors.contains(place) && errors.contains(words), "{text}: {errors}");
    }
    for arguments in [&["--bs=8k", "--rw=read"][..], &["--name=x"], &["--iodepth=4"]] {
        let output = run(&home, "bench").arg(&jobs).args(arguments).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "options beside a job file are not passed over: {errors}");
        assert!(errors.contains("`ebb bench JOBS.fio` does not take --"), "{errors}");
        assert!(errors.contains("the job file says what to run: write it there"), "{errors}");
    }
}
