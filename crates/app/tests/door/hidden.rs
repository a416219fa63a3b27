//! Programs that cannot be seen from where the program runs.

use super::common::{EBB, Home, status, stderr};
use super::states::{Mount, held_device};

/// A PID namespace shows only its own programs: a device that one outside of it writes to looks like one that nobody has.
#[test]
#[ignore = "requires root and loop devices"]
fn where_programs_are_hidden_a_blank_device_is_not_enough() {
    let home = Home::new();
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let standing = held_device(place.path(), "f=os.open(PATH, os.O_RDWR)");
    let before = standing.bytes();
    let mut command = home.command("unshare");
    command.args([
        "--pid",
        "--fork",
        "--mount-proc",
        EBB,
        "bench",
        "--rw",
        "write",
        "--size",
        "1m",
        "--destroy",
    ]);
    let output = command.arg(&standing.target).output().unwrap();
    assert_eq!(status(&output), 1, "{output:?}");
    assert!(standing.bytes() == before, "it was written");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("PID namespace") && said.contains("not named by its stable id"), "{said}");
}

/// An overlay whose layers were named relative to wherever the mounting program was: the file below may be anybody's.
#[test]
#[ignore = "requires root"]
fn a_file_whose_file_below_is_not_told_is_only_read_or_made_anew() {
    let home = Home::new();
    for name in ["lower", "upper", "work", "merged"] {
        std::fs::create_dir(home.path(name)).unwrap();
    }
    let file = home.path("upper/file");
    std::fs::write(&file, vec![7; 1 << 20]).unwrap();
    let merged = home.path("merged");
    let layers = "lowerdir=lower,upperdir=upper,workdir=work";
    let mut mount = home.command("mount");
    let mounted = mount.args(["-t", "overlay", "-o", layers, "overlay"]).arg(&merged).status().unwrap();
    assert!(mounted.success());
    let _mount = Mount::of(&merged);
    let ends = |line: &str, expected: i32| {
        let output = home.ebb(line).output().unwrap();
        assert_eq!(status(&output), expected, "{line}: {output:?}");
        stderr(&output)
    };
    let said = ends("bench merged/file --rw write --runtime 20ms --destroy", 1);
    assert!(said.contains("in which file below this overlay"), "{said}");
    assert!(std::fs::read(&file).unwrap().iter().all(|byte| *byte == 7), "it was written");
    ends("bench merged/file --rw read --size 1m", 0);
    ends("bench merged/new --rw write --size 1m", 0);
}

/// Device nodes are the kernel's own file system, which can be mounted again: a device whose name was mistyped is no new
/// file there.
#[test]
#[ignore = "requires root"]
fn no_file_is_made_among_devices_wherever_they_are() {
    let home = Home::new();
    let devices = home.path("devices");
    let _mount = Mount::new("devtmpfs", &devices, &["-t", "devtmpfs"]);
    let output = home.ebb("bench devices/typo --rw write --size 1m").output().unwrap();
    let made = devices.join("typo").exists();
    let _ = std::fs::remove_file(devices.join("typo"));
    assert_eq!(status(&output), 2, "{output:?}");
    assert!(stderr(&output).contains("no file is made among devices") && !made, "{output:?}");
    // The opposite: a new file elsewhere is made.
    let output = home.ebb("bench volumes/typo --rw write --size 1m").output().unwrap();
    assert_eq!(status(&output), 0, "{output:?}");
}
