//! Programs that cannot be seen from where the program runs.

use super::common::{EBB, Home, status};
use super::states::held_device;

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
