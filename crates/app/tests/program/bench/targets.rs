//! What `ebb bench` runs on: files, directories, devices.

use super::*;

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
        &["bench", "--profile", "seek", "/dev/nosuchdev", "--size=1m"],
        &["bench", jobs],
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
        let output = run(&home, "bench").args(["--profile", profile]).arg(&path).output().expect("runs");
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
    let job_file = ["bench", jobs.to_str().expect("text")];
    let runs: [(&Path, &[&str]); 3] = [
        (&path, &["bench", "--rw=randread", "--runtime=100ms"]),
        (&path, &["bench", "--profile=seek", "--runtime=200ms"]),
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
        // 3: on a disk that is busy with what was filled no read may end within the time.
        let filled = matches!(output.status.code(), Some(0 | 3));
        assert!(filled && !said.contains("holes"), "{arguments:?}: {said}");
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

/// What docs/explanation/performance.md measures, with the program itself; and nothing else in /dev is a target.
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
    let value = json(run(&home, "bench").arg(&jobs));
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
fn a_failure_gives_the_figures_until_then_and_says_so() {
    let home = directory();
    let path = home.path().join("f");
    file(&path, 8 << 20);
    // Sequential: it meets the end of the file in the middle of the run, whatever the machine does.
    let cut = fs::File::options().write(true).open(&path).expect("opens");
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_ebb"))
        .env("XDG_DATA_HOME", home.path().join("data"))
        .env("XDG_STATE_HOME", home.path().join("state"))
        .args(["--quiet", "--json", "bench", "--rw=read", "--direct=0", "--rate=8m", "--runtime=60s"])
        .arg(&path)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    crate::common::until_at_work(child.id(), std::time::Duration::from_millis(5));
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
