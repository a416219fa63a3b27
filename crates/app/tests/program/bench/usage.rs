//! What is refused, and how else it may be spelled.

use super::*;

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
        (&["--design=e.toml:d", "--end_fsync", "1"], "such as --sync after `=`"),
        (&["--design=e.toml:d", "--nrfiles=2"], "--nrfiles 2 changes nothing"),
    ] {
        let output = ebb(&home).args(arguments).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        let tried = errors.contains("cannot make");
        assert_eq!(output.status.code(), Some(if tried { 1 } else { 2 }), "{arguments:?}: {errors}");
        assert!(errors.contains(words), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn each_form_refuses_the_options_of_the_others_and_says_whose_they_are() {
    let home = directory();
    let begins = home.path().join("begins");
    fs::write(&begins, "# a comment\n\n[a]\nsize=1m\n").expect("writes");
    let begins = format!("bench {} --bs 8k", begins.display());
    let workload = "it belongs to `ebb bench TARGET`";
    for (line, refused, takes) in [
        ("bench --profile dd --dry-run --format csv", "runs no benchmark prints text or json", ""),
        ("bench . -o r.toml", "write one of .html, .json, .csv, .md, .txt", ""),
        (
            "bench . --dry-run",
            "take --dry-run",
            "it belongs to `ebb bench JOBS.fio` and `ebb bench --profile NAME`",
        ),
        ("bench . other", "take the argument `other`", "it belongs to `ebb bench JOBS.fio`"),
        ("bench . --sync 1", "a second target, 1", "--sync=1"),
        ("bench . --ledger l", "--ledger changes nothing without --verify", ""),
        ("bench --profile list --size 1m", "`ebb bench --profile list` does not take --size", workload),
        ("bench . --profile", "`ebb bench --profile list` does not take the argument `.`", workload),
        ("bench --profile dd . --verify", "`ebb bench --profile NAME` does not take --verify", workload),
        ("bench --profile dd . --iodepth 2", "the profile says what to run", workload),
        ("bench --profile dd . more", "take the argument `more`", "it belongs to `ebb bench JOBS.fio`"),
        ("bench --profile dd", "name a file, a device or a directory behind it", "--dry-run"),
        ("bench j.fio . --name l", "`ebb bench JOBS.fio` does not take --name", workload),
        (&begins, "the job file says what to run: write it there", workload),
        ("self-test --seed 1", "unexpected argument", "Usage: ebb self-test"),
        ("fio j.fio", "unrecognized subcommand", "'fio'"),
    ] {
        let mut words = line.split(' ');
        let output = run(&home, words.next().expect("a word")).args(words).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(refused) && said.contains(takes), "{line}: {said}");
    }
}
