//! `ebb apply`, `ebb status` and `ebb undo` as they are called; what they do to devices is in tests/lab.

use crate::common::{Home, refused};

const ON_DEVICES: &str = "name = \"e\"\n[volumes]\na = { device = \"/dev/disk/by-id/none-a\" }\nb = { device = \"/dev/disk/by-id/none-b\" }\n\
    [designs.raid0-xfs]\nlayout = \"stripe\"\nchunk = \"64KiB\"\nmembers = [\"a\", \"b\"]\nfilesystem = \"xfs\"\n\
    [workloads.w]\nrw = \"read\"\nruntime = \"1s\"\n";

#[test]
fn what_cannot_be_applied_is_wrong_usage_with_what_to_write() {
    let home = Home::new();
    home.write("e.toml", ON_DEVICES);
    home.write(
        "two.toml",
        &ON_DEVICES.replace(
            "[workloads",
            "[designs.other]\nlayout = \"mirror\"\nmembers = [\"a\", \"b\"]\n[workloads",
        ),
    );
    home.write(
        "files.toml",
        &ON_DEVICES
            .replace("device = \"/dev/disk/by-id/none-a\"", "size = \"64MiB\"")
            .replace("device = \"/dev/disk/by-id/none-b\"", "size = \"64MiB\""),
    );
    home.write(
        "end.toml",
        &ON_DEVICES
            .replace("layout = \"stripe\"\nchunk = \"64KiB\"", "layout = \"mirror\"\nmetadata = \"1.0\""),
    );
    home.write("moving.toml", &ON_DEVICES.replace("/dev/disk/by-id/none-a", "/dev/none-at-all"));
    for (line, wanted) in [
        ("apply e.toml", ["raid0-xfs", "--mount /data"]),
        ("apply two.toml --mount /data", ["2 designs", "FILE:DESIGN: raid0-xfs, other"]),
        ("apply two.toml:none --mount /data", ["no design `none`", "raid0-xfs, other"]),
        ("apply files.toml --mount /data", ["volume a is a file", "/dev/disk/by-id/"]),
        (
            "apply end.toml --mount /data",
            ["metadata 1.0 is at the end of a volume", "Leave `metadata` out (1.2)"],
        ),
        ("apply moving.toml --mount /data", ["/dev/none-at-all may be another device", "ebb volumes"]),
        ("apply e.toml --mount data", ["mount point data", "begin it with /"]),
        ("apply e.toml --mount /data --name 0", ["the name `0`", "--name"]),
        ("apply e.toml --mount /data --class other", ["other", "persistent"]),
        ("apply", ["<FILE:DESIGN>", "Usage"]),
    ] {
        refused(&home, line, 2, &wanted);
        refused(&home, &format!("{line} --dry-run"), 2, &wanted);
    }
}

#[test]
fn what_was_never_applied_is_not_known() {
    let home = Home::new();
    if rustix::process::geteuid().is_root() {
        refused(
            &home,
            "status nothing_of_this_name",
            1,
            &["there is no nothing_of_this_name", "on this host"],
        );
        refused(&home, "undo nothing_of_this_name", 1, &["there is no nothing_of_this_name", "ebb status"]);
    } else {
        for line in ["status", "undo data"] {
            refused(&home, line, 1, &["needs root", "sudo"]);
        }
    }
}
