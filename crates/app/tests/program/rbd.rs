//! Images of Ceph by their names. There is no cluster: what the kernel's rbd would say in /sys is said by files, over a loop device.

use crate::common::{Home, Loop, status, stderr};
use ebbtide_host::testing;
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

/// An experiment on the volume `v`, which has the lines `volume`.
fn experiment(volume: &str) -> String {
    format!(
        "name = \"x\"\n[volumes.v]\n{volume}\n[designs.d]\nlayout = \"linear\"\nmembers = [\"v\"]\n\
         [workloads.w]\nrw = \"randwrite\"\nbs = \"4k\"\nruntime = \"20ms\"\n[answer]\ntrials_min = 6\n\
         trials_max = 6\nbudget = \"10s\"\n"
    )
}

#[test]
fn what_is_no_image_or_none_of_this_host_says_what_to_write() {
    let home = Home::new();
    home.write("good.toml", &experiment("device = \"rbd:rbd/none\""));
    home.write("bad.toml", &experiment("device = \"rbd:none\""));
    for (line, ends, said) in [
        ("bench rbd:vol1 --rw read", 2, "rbd:POOL/vol1"),
        ("bench rbd:/vol1 --rw read", 2, "write rbd:POOL/IMAGE, rbd:POOL/NAMESPACE/IMAGE"),
        ("bench rbd:rbd/none --rw read", 2, "not mapped on this host: `rbd device map rbd/none` maps it"),
        ("bench rbd:rbd/a/none@old --rw read", 2, "`rbd device map rbd/a/none@old`"),
        ("watch rbd:rbd/none", 1, "`rbd device map rbd/none` maps it"),
        ("run good.toml --destroy", 1, "volume v: rbd:rbd/none is not mapped on this host"),
        ("run good.toml --destroy --dry-run", 1, "volume v: rbd:rbd/none is not mapped on this host"),
        ("check bad.toml", 2, "bad.toml:3:10: error: `rbd:none` is not an image of Ceph"),
    ] {
        let output = home.ebb(line).output().unwrap();
        assert!(status(&output) == ends && stderr(&output).contains(said), "{line}: {output:?}");
    }
}

#[test]
fn volumes_are_shown_with_their_image() {
    let root = testing::unpack(testing::RBD);
    let home = Home::new();
    let shown = |which: &str| {
        let output = home.ebb(&format!("volumes {which} --root")).arg(root.path()).output().unwrap();
        assert_eq!(status(&output), 0, "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let all = shown("");
    for id in ["rbd:rbd/vol1", "rbd:fast/team-a/db", "rbd:rbd/vol1@monday"] {
        assert!(all.lines().any(|line| line.trim() == format!("id {id}")), "{id}: {all}");
    }
    assert!(!all.contains("rbd:rbd/twice") && !all.contains("rbd:rbd/everywhere"), "{all}");
    let one = shown("rbd:fast/team-a/db");
    assert!(one.contains("rbd1 ") && one.contains("ext4") && !one.contains("rbd0"), "{one}");
}

/// What `ebb` said to each line of `script`, and its exit status, on a host where rbd:rbd/vol1 is the device `device`.
fn on_host_with_image(home: &Home, device: &Loop, script: &str) -> HashMap<String, (i32, String)> {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program/rbd/mapped.sh");
    let mut command = home.command("unshare");
    command
        .args(["--mount", "--propagation", "private", "bash", program, &device.device])
        .env("EBB", crate::common::EBB);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let part = |part: &str| {
        let (name, said) = part.split_once('\n').unwrap();
        let (said, status) = said.rsplit_once("status ").unwrap_or((said, "0"));
        (name.trim().to_owned(), (status.trim().parse().unwrap(), said.to_owned()))
    };
    text.split("== ").filter(|one| !one.is_empty()).map(part).collect()
}

#[test]
#[ignore = "requires root and a free loop device"]
fn an_image_is_opened_by_its_name_and_judged_by_what_was_opened() {
    let home = Home::new();
    let path = home.path("volumes/image");
    let file = std::fs::File::create_new(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    file.write_all_at(b"somebody's", 1 << 19).unwrap();
    let device = Loop::over(&path);
    home.write("unnamed.toml", &experiment("device = \"rbd:rbd/vol1\""));
    home.write("named.toml", &experiment("device = \"rbd:rbd/vol1\"\nid = \"rbd:rbd/vol1\""));
    home.write("other.toml", &experiment("device = \"/dev/rbd0\"\nid = \"rbd:rbd/other\""));
    let said = on_host_with_image(
        &home,
        &device,
        "reads bench rbd:rbd/vol1 --rw randread --io_size 64k --json\n\
         unnamed run unnamed.toml --destroy\n\
         other run other.toml --destroy\n\
         unsaid bench rbd:rbd/vol1 --rw write --size 1m\n\
         race race run named.toml --destroy\n\
         export export rbd:rbd/vol1 --dry-run --client nqn.2014-08.org.nvmexpress:uuid:1\n\
         volumes volumes rbd:rbd/vol1\n\
         second map 1 vol1\n\
         ambiguous bench rbd:rbd/vol1 --rw read --io_size 64k\n\
         twice bench /dev/rbd0 --rw write --size 1m --destroy\n\
         first unmap 1\n\
         apply apply named.toml --destroy --dry-run\n",
    );
    let expect = |name: &str, ends: i32, part: &str| {
        let (status, text) = &said[name];
        assert!(*status == ends && text.contains(part), "{name}: {status} {text}");
    };
    expect("reads", 0, "rbd0");
    expect("unnamed", 1, "give `id = \"rbd:rbd/vol1\"` in the experiment and `--destroy`");
    expect("other", 1, "its stable id is not `rbd:rbd/other`");
    expect("unsaid", 2, "say --destroy if its content may be lost");
    expect("race", 1, "rbd:rbd/vol1 is not mapped on this host");
    expect("export", 0, "/dev/rbd0");
    expect("volumes", 0, "id rbd:rbd/vol1");
    expect("ambiguous", 2, "mapped more than once on this host, as rbd0 and rbd1");
    expect("twice", 1, "rbd0 is the same image of Ceph as rbd1");
    expect("apply", 2, "have rbdmap(8) map it");
    let mut there = [0; 10];
    file.read_exact_at(&mut there, 1 << 19).unwrap();
    assert_eq!(&there, b"somebody's", "nothing of it was written");

    let said = on_host_with_image(&home, &device, "named run named.toml --destroy\n");
    assert!([0, 3].contains(&said["named"].0), "{said:?}");
    drop(device);
    let mut byte = [0; 10];
    file.read_exact_at(&mut byte, 1 << 19).unwrap();
    assert_ne!(&byte, b"somebody's", "it was filled and written");
}
