//! `ebb run --on kernel` as far as it can be seen without touching a device.

use crate::common::{EBB, Home};
use std::io::{Read, Write};
use std::process::{Output, Stdio};

const STACK: &str = "name = \"stack\"\n[volumes.v]\ncount = 2\nsize = \"64MiB\"\n[designs.d]\nlayout = \"stripe\"\n\
    chunk = \"64KiB\"\nmembers = [\"v*\"]\nfilesystem = \"xfs\"\nreadahead = \"1MiB\"\n\
    [workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n";

/// [`STACK`], encrypted with a key that is asked for.
fn with_a_prompt() -> String {
    STACK.replace("filesystem", "encryption = { format = \"luks2\", key = \"prompt\" }\nfilesystem")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_only_the_kernel_can_is_refused_elsewhere_by_name() {
    let home = Home::new();
    home.write("e.toml", STACK);
    for command in ["run e.toml --dry-run --on files", "bench --design e.toml:d --rw read --size 1m"] {
        let output = home.ebb(command).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("design d has `filesystem`, `readahead`") && said.contains("--on kernel"),
            "{said}"
        );
    }
}

/// The simulator has a model of readahead, and none of a file system.
#[test]
fn the_simulator_refuses_what_it_has_no_model_of() {
    let home = Home::new();
    let shaped = STACK.replace("size = \"64MiB\"", "size = \"64MiB\"\nshape = { iops = 100 }");
    home.write("e.toml", &shaped);
    let output = home.ebb("run e.toml --dry-run --on sim").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("design d") && said.contains("no model of `filesystem`"), "{said}");
    home.write("r.toml", &shaped.replace("filesystem = \"xfs\"\n", ""));
    let output = home.ebb("run r.toml --dry-run --on sim").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_shape_is_refused_by_the_kernel() {
    let home = Home::new();
    home.write("e.toml", &STACK.replace("size = \"64MiB\"", "size = \"64MiB\"\nshape = { iops = 100 }"));
    let output = home.ebb("run e.toml --dry-run --on kernel").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("volume v0 has a `shape`"), "{output:?}");
}

/// Whether the plan was made: status 0 where this host can carry it out, else 1 and why not.
fn planned(output: &Output) -> bool {
    let why = text(&output.stderr);
    match output.status.code() {
        Some(0) => why.is_empty(),
        Some(1) => why.contains("this host cannot run it: "),
        _ => false,
    }
}

/// As the run itself would: nothing is built without what builds.
#[test]
fn a_dry_run_fails_where_what_builds_is_missing() {
    let home = Home::new();
    home.write("e.toml", STACK);
    let output =
        home.ebb("run e.toml --dry-run --on kernel").env("PATH", home.path("nothing")).output().unwrap();
    let has_md = ["/usr/sbin/mdadm", "/sbin/mdadm"].iter().any(|path| std::path::Path::new(path).exists())
        && std::path::Path::new("/proc/mdstat").exists();
    assert!(planned(&output), "{output:?}");
    assert_eq!(output.status.code() == Some(0), has_md, "{output:?}");
    assert!(text(&output.stdout).contains("--level=0"), "the plan is printed all the same: {output:?}");
}

#[test]
fn a_dry_run_prints_the_exact_commands() {
    let home = Home::new();
    home.write("e.toml", STACK);
    let output = home.ebb("run e.toml --dry-run --on kernel").output().unwrap();
    let said = text(&output.stdout);
    assert!(planned(&output), "{output:?}");
    for part in [
        "losetup --direct-io=on /dev/loop",
        "--level=0 --chunk=64K --raid-devices=2 /dev/loop",
        "read_ahead_kb  # 2048 sectors of 512 bytes",
        "mkfs.xfs -q -f -K -d su=65536,sw=2",
        "[undo: umount /run/ebbtide/",
    ] {
        let (before, _) = said.split_once("\nround").unwrap();
        assert!(before.contains(part), "{part} is not before the rounds in\n{said}");
    }
    let plan = home.json("run e.toml --dry-run --on kernel", &[0, 1]);
    assert_eq!(plan["builds"][0]["steps"][0]["do"]["run"]["program"], "mdadm");
    assert!(!home.path("state").join("ebbtide").exists(), "a dry run leaves no journal");
}

#[test]
fn parity_is_written_by_the_kernel_if_not_in_user_space() {
    let home = Home::new();
    let parity =
        STACK.replace("count = 2", "count = 3").replace("stripe", "raid5").replace("\"read\"", "\"write\"");
    home.write("e.toml", &parity);
    let output = home.ebb("run e.toml --dry-run --on kernel").output().unwrap();
    assert!(planned(&output), "{output:?}");
    assert!(text(&output.stdout).contains("--level=5"), "{output:?}");
}

#[test]
fn a_key_is_asked_for_at_a_terminal_or_not_at_all() {
    let home = Home::new();
    home.write("e.toml", &with_a_prompt());
    // In a session of its own a program has no terminal.
    let alone = ["--wait", EBB, "run", "e.toml", "--on", "kernel"];
    let output = home.command("setsid").args(alone).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no terminal to ask at") && said.contains("key_file"), "{said}");
    let plan = home.json("run e.toml --dry-run --on kernel", &[0, 1]);
    let step = &plan["builds"][0]["steps"][1]["do"]["run_with_key"];
    assert_eq!(step["program"], "cryptsetup", "{plan:#}");
}

#[test]
fn a_key_that_is_typed_is_not_shown_and_ctrl_c_ends_it() {
    let home = Home::new();
    home.write("e.toml", &with_a_prompt());
    let run = format!("{EBB} run e.toml --on kernel --no-save");
    let mut child = home.on_a_terminal(&run).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = Vec::new();
    let mut output = child.stdout.take().unwrap();
    // Earlier than the question nothing is listened to.
    while !text(&said).contains("(not shown): ") {
        let mut byte = [0];
        assert_eq!(output.read(&mut byte).unwrap(), 1, "{}", text(&said));
        said.push(byte[0]);
    }
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"s3cret\x03").unwrap();
    output.read_to_end(&mut said).unwrap();
    let said = text(&said);
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("nothing was done") && !said.contains("s3cret"), "{said}");
    assert!(!home.path("state").join("ebbtide").exists(), "nothing was made, so there is no journal");
}

#[test]
fn an_existing_device_is_not_built_on_without_destroy() {
    let home = Home::new();
    home.write("image", "x");
    home.write(
        "e.toml",
        &STACK
            .replace(
                "count = 2\nsize = \"64MiB\"",
                "count = 1\nsize = \"64MiB\"\n[volumes.i]\nfile = \"image\"",
            )
            .replace("\"v*\"", "\"v0\", \"i\""),
    );
    let output = home.ebb("run e.toml --on kernel").output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("say --destroy") || said.contains("by root only"), "{said}");
    assert_eq!(std::fs::read(home.path("image")).unwrap(), b"x");
}
