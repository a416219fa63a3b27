//! `ebb bench --verify` and `ebb verify`: what was acknowledged is proved, what is not there is named.

use crate::common::until_true;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn directory() -> TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a directory")
}

fn ebb(home: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    command
        .env("XDG_DATA_HOME", home.path().join("data"))
        .env("XDG_STATE_HOME", home.path().join("state"))
        .arg("--quiet")
        .args(arguments);
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A stripe of four files of 1 MiB, written in full with a ledger.
fn written_stripe(home: &TempDir) -> (PathBuf, Vec<PathBuf>) {
    let layout = "layout = \"stripe\"\nchunk = \"64KiB\"";
    let (output, ledger, files) = write(home, layout, 4, "4m");
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("every acknowledged write is there"), "{}", text(&output));
    (ledger, files)
}

/// Writes `size` with a ledger to an array of `layout` over `count` files of 1 MiB.
fn write(home: &TempDir, layout: &str, count: usize, size: &str) -> (Output, PathBuf, Vec<PathBuf>) {
    let files: Vec<PathBuf> = (0..count).map(|n| home.path().join(format!("v{n}"))).collect();
    let mut volumes = String::new();
    for (n, file) in files.iter().enumerate() {
        fs::write(file, vec![0; 1 << 20]).expect("writes");
        volumes += &format!("[volumes.v{n}]\nfile = {file:?}\n");
    }
    let experiment = home.path().join("e.toml");
    let rest = format!(
        "[designs.array]\n{layout}\nmembers = [\"v[0..{}]\"]\n[workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n",
        count - 1
    );
    fs::write(&experiment, format!("name = \"e\"\n{volumes}{rest}")).expect("writes");
    let ledger = home.path().join("ledger");
    let output = ebb(home, &["bench", "--rw=write", "--bs=16k", "--size", size, "--destroy"])
        .args(["--verify", "--iodepth=4", "--design"])
        .arg(format!("{}:array", experiment.display()))
        .arg("--ledger")
        .arg(&ledger)
        .output()
        .expect("runs");
    (output, ledger, files)
}

fn verify(home: &TempDir, ledger: &Path, more: &[&str]) -> (Option<i32>, Value, String) {
    let human = ebb(home, &["verify"]).arg(ledger).args(more).output().expect("runs");
    let output = ebb(home, &["--json", "verify"]).arg(ledger).args(more).output().expect("runs");
    let value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), value, text(&human))
}

#[test]
fn a_flipped_byte_is_found_and_named() {
    let home = directory();
    let (ledger, files) = written_stripe(&home);
    let (code, value, _) = verify(&home, &ledger, &[]);
    assert_eq!((code, &value["ok"]), (Some(0), &Value::Bool(true)), "{value}");
    assert_eq!(value["blocks"], 1024);
    let file = File::options().read(true).write(true).open(&files[2]).expect("opens");
    let mut byte = [0];
    file.read_exact_at(&mut byte, 70_000).expect("reads");
    file.write_all_at(&[byte[0] ^ 1], 70_000).expect("writes");
    let (code, value, human) = verify(&home, &ledger, &[]);
    assert_eq!(code, Some(1));
    let bad = value["bad"].as_array().expect("a list");
    assert_eq!(bad.len(), 1, "{value}");
    // Byte 70000 of v2 is in its block at 69632; that is byte 4096 of its second chunk, chunk 6 of the array.
    assert_eq!(bad[0]["array_offset"], 6 * 65536 + 4096);
    assert_eq!(bad[0]["length"], 4096);
    assert_eq!(bad[0]["places"][0]["member"], "v2");
    assert_eq!(bad[0]["places"][0]["offset"], 69_632);
    assert!(
        human.contains("array offset 397312") && human.contains("on v2 (") && human.contains("69632"),
        "{human}"
    );
}

#[test]
fn a_truncated_member_is_found_and_named() {
    let home = directory();
    let (ledger, files) = written_stripe(&home);
    File::options().write(true).open(&files[1]).expect("opens").set_len(1 << 19).expect("cuts");
    let (code, value, human) = verify(&home, &ledger, &[]);
    assert_eq!(code, Some(1));
    let bad = value["bad"].as_array().expect("a list");
    let lost: u64 = bad.iter().filter_map(|bad| bad["length"].as_u64()).sum();
    assert_eq!(lost, 1 << 19, "exactly the half that is gone");
    for bad in bad {
        assert_eq!(bad["places"][0]["member"], "v1");
        assert!(bad["places"][0]["offset"].as_u64() >= Some(1 << 19));
    }
    assert!(human.contains("truncated") && human.contains("on v1"), "{human}");
}

#[test]
fn an_older_write_and_another_place_are_told_apart() {
    let home = directory();
    let (ledger, files) = written_stripe(&home);
    let file = File::options().read(true).write(true).open(&files[0]).expect("opens");
    let mut block = vec![0; 4096];
    file.read_exact_at(&mut block, 0).expect("reads");
    file.write_all_at(&block, 8192).expect("writes");
    file.write_all_at(&[0; 4096], 16384).expect("writes");
    let (code, value, human) = verify(&home, &ledger, &[]);
    assert_eq!(code, Some(1));
    assert_eq!(value["bad"].as_array().map(Vec::len), Some(2), "{value}");
    assert!(human.contains("written to another place") && human.contains("no stamp"), "{human}");
    // A member that was moved is found where it is said to be.
    let moved = home.path().join("moved");
    fs::rename(&files[3], &moved).expect("moves");
    assert_eq!(verify(&home, &ledger, &[]).0, Some(1));
    let argument = format!("--member=v3={}", moved.display());
    assert_eq!(verify(&home, &ledger, &[&argument]).1["blocks"], 1024);
    assert_eq!(verify(&home, &ledger, &["--member=v9=/x"]).0, Some(2));
}

/// Every copy is read: a byte that flips in one of them is found on its member, whichever it is, and the other copies
/// count as good.
#[test]
fn a_flipped_byte_in_one_copy_is_found_on_its_member() {
    let raid10 = "layout = \"raid10\"\nchunk = \"64KiB\"\ncopies = 2\narrangement = ";
    // Array offset 0x23000 (143360) is in chunk 2 of 64 KiB, 12288 bytes into it.
    let cases = [
        // Both members hold the same bytes at the same place.
        ("layout = \"mirror\"".to_owned(), 2, "1m", 512, [(0, 0x23000), (1, 0x23000)]),
        // near: chunk 2 begins the second row, on v0 and v1 again.
        (format!("{raid10}\"near\""), 4, "2m", 1024, [(0, 0x13000), (1, 0x13000)]),
        // far: a stripe over the first half; its copy one member further in the second half.
        (format!("{raid10}\"far\""), 4, "2m", 1024, [(2, 0x3000), (3, 0x83000)]),
        // offset: the copy is in the next row, one member further.
        (format!("{raid10}\"offset\""), 4, "2m", 1024, [(2, 0x3000), (3, 0x13000)]),
    ];
    for (layout, count, size, blocks, places) in cases {
        for (copy, (member, offset)) in places.into_iter().enumerate() {
            let home = directory();
            let (output, ledger, files) = write(&home, &layout, count, size);
            assert!(output.status.success(), "{layout}: {}", text(&output));
            let (code, value, _) = verify(&home, &ledger, &[]);
            assert_eq!(
                (code, value["blocks"].as_u64()),
                (Some(0), Some(blocks)),
                "{layout}: both copies are read"
            );
            let file = File::options().read(true).write(true).open(&files[member]).expect("opens");
            let mut byte = [0];
            file.read_exact_at(&mut byte, offset + 1000).expect("reads");
            file.write_all_at(&[byte[0] ^ 0x10], offset + 1000).expect("writes");
            let (code, value, human) = verify(&home, &ledger, &[]);
            assert_eq!(code, Some(1), "{layout}: {human}");
            let bad = &value["bad"];
            assert_eq!(bad.as_array().map(Vec::len), Some(1), "{layout}: {value}");
            assert_eq!(
                (&bad[0]["array_offset"], &bad[0]["length"]),
                (&0x23000.into(), &4096.into()),
                "{layout}: {value}"
            );
            assert_eq!(bad[0]["copy"], copy, "{layout}: {value}");
            assert_eq!(bad[0]["places"][0]["member"], format!("v{member}"), "{layout}: {value}");
            assert_eq!(bad[0]["places"][0]["offset"], offset, "{layout}: {value}");
            assert!(
                human.contains(&format!("on v{member}")) && human.contains("array offset 143360"),
                "{human}"
            );
        }
    }
}

#[test]
fn parity_is_not_written_and_says_so() {
    let home = directory();
    let (output, _, files) = write(&home, "layout = \"raid5\"\nchunk = \"64KiB\"", 3, "1m");
    assert!(matches!(output.status.code(), Some(1 | 2)), "{}", text(&output));
    assert!(text(&output).contains("raid5 is not written in user space"), "{}", text(&output));
    for file in files {
        assert!(fs::read(file).expect("reads").iter().all(|byte| *byte == 0), "nothing is written");
    }
}

#[test]
fn a_writer_that_is_killed_leaves_a_ledger_that_proves_its_writes() {
    let home = directory();
    let (path, ledger) = (home.path().join("f"), home.path().join("ledger"));
    let mut writer =
        ebb(&home, &["bench", "--rw=randwrite", "--bs=8k", "--size=8m", "--runtime=60", "--verify"])
            .args(["--iodepth=4", "--direct=0", "--ledger"])
            .arg(&ledger)
            .arg(&path)
            .stdout(Stdio::null())
            .spawn()
            .expect("runs");
    // Killed in the middle of its work, and not before it has done some.
    until_true("50,000 bytes of the ledger", || {
        fs::metadata(&ledger).is_ok_and(|found| found.len() >= 50_000)
    });
    writer.kill().expect("SIGKILL");
    writer.wait().expect("ends");
    let (code, value, human) = verify(&home, &ledger, &[]);
    assert_eq!(code, Some(0), "{human}");
    assert!(value["writes_acknowledged"].as_u64() > Some(100), "{value}");
    assert_eq!(value["ok"], true);
    // The proof can fail: one block goes back to what it was before.
    let file = File::options().write(true).open(&path).expect("is kept");
    file.write_all_at(&vec![0; 8 << 20], 0).expect("writes");
    assert_eq!(verify(&home, &ledger, &[]).0, Some(1));
}

#[test]
fn what_cannot_be_proved_is_refused() {
    let home = directory();
    let path = home.path().join("f");
    for (arguments, words) in [
        (&["--rw=read", "--size=1m"][..], "--rw write"),
        (&["--rw=write", "--size=1m", "--bs=5k", "--direct=0"], "--bs"),
        (&["--rw=write", "--size=1m", "--rate=1m"], "is no measurement: leave out --rate\n"),
        (&["--rw=write", "--size=1m", "--startdelay=1"], "is no measurement: leave out --startdelay\n"),
        (&["--rw=write", "--size=1m", "--fsync=4"], "leave out --fsync (--sync=1 has each write durable"),
        (&["--rw=write", "--size=1m", "--fdatasync=4"], "leave out --fdatasync (--sync=1"),
        (&["--rw=write", "--size=1m", "--dedupe_percentage=9"], "leave out --dedupe_percentage\n"),
        (
            &["--rw=write", "--size=1m", "--buffer_compress_percentage=9", "--rate=1m"],
            "is no measurement: leave out --rate; it gives each block a stamp of its own: leave out --buffer_compress_percentage",
        ),
        (&["--rw=write", "--size=1m", "--continue_on_error=all"], "leave out --continue_on_error\n"),
        (&["--rw=write", "--size=1m", "--iodepth=512"], "at most 256"),
    ] {
        let output = ebb(&home, &["bench", "--verify"]).args(arguments).arg(&path).output().expect("runs");
        assert!(matches!(output.status.code(), Some(1 | 2)), "{}", text(&output));
        assert!(text(&output).contains(words), "{}", text(&output));
        assert!(!path.exists(), "nothing is left");
    }
    let output = ebb(&home, &["bench", "--verify", "--rw=write", "--size=1m"]).arg(home.path()).output();
    assert_eq!(output.expect("runs").status.code(), Some(2), "a file that is removed cannot be proved later");
    fs::write(&path, "no ledger\n").expect("writes");
    let output = ebb(&home, &["verify"]).arg(&path).output().expect("runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("line 1"), "{}", text(&output));
}

#[test]
fn a_ledger_without_an_acknowledged_write_proves_nothing() {
    let home = directory();
    let (ledger, _) = written_stripe(&home);
    let whole = fs::read_to_string(&ledger).expect("reads");
    let (status, value, _) = verify(&home, &ledger, &[]);
    assert_eq!((status, &value["ok"]), (Some(0), &Value::Bool(true)));
    let header = whole.lines().next().expect("a header");
    fs::write(&ledger, format!("{header}\n")).expect("writes");
    let (status, value, said) = verify(&home, &ledger, &[]);
    assert_eq!((status, &value["ok"]), (Some(3), &Value::Bool(false)), "{said}");
    assert!(said.contains("nothing is proved") && !said.contains("is there and none is torn"), "{said}");
}

#[test]
fn a_ledger_is_no_target_and_is_told_of_when_it_is_there() {
    let home = directory();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
        command.env("XDG_DATA_HOME", home.path().join("data"));
        command.env("XDG_STATE_HOME", home.path().join("state")).current_dir(home.path());
        command
            .args(["bench", "--verify", "--rw=write", "--size=64k"])
            .args(arguments)
            .output()
            .expect("runs")
    };
    for there in [false, true] {
        if there {
            fs::write(home.path().join("f"), vec![0; 1 << 16]).expect("writes");
        }
        for ledger in ["--ledger=f", "--ledger=./f"] {
            let output = run(&["f", "--destroy", ledger]);
            assert_eq!(output.status.code(), Some(2), "{}", text(&output));
            assert!(text(&output).contains("the same file"), "{}", text(&output));
        }
        assert_eq!(home.path().join("f").exists(), there);
    }
    // Refused: an existing file without --destroy, an open ledger's name that is taken.
    fs::write(home.path().join("taken"), "somebody's").expect("writes");
    let output = run(&["f", "--destroy", "--ledger=taken"]);
    assert!(!output.status.success() && !text(&output).contains("proves it later"), "{}", text(&output));
    let output = run(&["f", "--destroy", "--ledger=l"]);
    assert!(output.status.success() && text(&output).contains("proves it later"), "{}", text(&output));
}

/// fio's `verify` in a job file is a run with a ledger, which `ebb verify` proves again.
#[test]
fn a_job_file_writes_and_verifies() {
    let home = directory();
    let jobs = home.path().join("jobs.fio");
    let text = "[write-and-verify]\nrw=randwrite\nbs=4k\ndirect=1\nioengine=libaio\niodepth=4\nverify=md5\nsize=1m\nnumjobs=2\n";
    fs::write(&jobs, text).expect("writes");
    let ledger = home.path().join("ledger");
    let fio = |more: &[&str]| {
        let mut command = ebb(&home, &["--json", "bench"]);
        command.arg(&jobs).arg(home.path()).args(more).output().expect("runs")
    };
    let output = fio(&["--ledger", ledger.to_str().expect("text")]);
    assert!(output.status.success(), "{}", self::text(&output));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert_eq!((&value["ok"], &value["writes_acknowledged"]), (&Value::Bool(true), &512.into()), "{value:#}");
    let notes = value["notes"].as_array().expect("has notes");
    assert!(
        notes.iter().any(|note| note.as_str().is_some_and(|note| note.contains("and a CRC-32C"))),
        "{value:#}"
    );
    let (code, value, _) = verify(&home, &ledger, &[]);
    assert_eq!((code, &value["ok"]), (Some(0), &Value::Bool(true)), "{value}");
    // Its second clone's file, with the stamp of a block changed: it is found.
    let file = home.path().join("write-and-verify.1.0");
    let file = File::options().read(true).write(true).open(&file).expect("is there");
    let mut byte = [0];
    let found = (0..256).any(|block| {
        file.read_exact_at(&mut byte, block * 4096 + 9).expect("reads");
        file.write_all_at(&[byte[0] ^ 1], block * 4096 + 9).expect("writes");
        verify(&home, &ledger, &[]).0 == Some(1)
    });
    assert!(found, "no block of it was written");
    for (text, said) in [
        ("[a]\nrw=read\nsize=1m\nverify=crc32c\n", "jobs.fio:1: verify: --verify writes"),
        ("[a]\nrw=write\nsize=1m\nverify=crc32c\n[b]\nsize=1m\n", "write a file for this job alone"),
        ("[a]\nrw=write\nsize=1m\nverify=crc32c\ncontinue_on_error=all\n", "leave out --continue_on_error"),
        ("[a]\nrw=write\nsize=1m\n", "--ledger changes nothing"),
    ] {
        fs::write(&jobs, text).expect("writes");
        let output = fio(&["--ledger", "/nowhere"]);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(self::text(&output).contains(said), "{}", self::text(&output));
    }
}

/// A machine that lost its power may have lost the end of the ledger, and what was written after it is there.
#[test]
fn a_ledger_without_its_end_proves_less_and_calls_nothing_lost() {
    let home = directory();
    let (volume, ledger) = (home.path().join("v"), home.path().join("ledger"));
    fs::write(&volume, vec![0; 1 << 16]).expect("writes");
    let output = ebb(&home, &["bench", "--rw=randwrite", "--bs=4k", "--io_size=1m", "--destroy", "--verify"])
        .arg("--ledger")
        .args([&ledger, &volume])
        .output()
        .expect("runs");
    assert!(output.status.success(), "{}", text(&output));
    let whole = fs::read_to_string(&ledger).expect("reads");
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    fs::write(&ledger, lines[..lines.len() / 2].concat()).expect("writes");
    let (code, value, human) = verify(&home, &ledger, &[]);
    assert_eq!((code, &value["ok"], &value["bad"]), (Some(3), &Value::Bool(false), &serde_json::json!([])));
    assert!(value["blocks_newer"].as_u64() > Some(0), "{value}");
    assert!(
        human.contains("its end is lost") && !human.contains("every acknowledged write is there"),
        "{human}"
    );
}
