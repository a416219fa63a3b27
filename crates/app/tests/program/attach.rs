//! `ebb attach` and `ebb undo` as they are called; what they do to devices is in tests/lab.

use crate::common::{Home, refused};

#[test]
fn what_cannot_be_attached_is_wrong_usage_with_what_to_write() {
    let home = Home::new();
    for (line, wanted) in [
        ("attach", ["<PLACE>", "Usage"]),
        ("attach vdb", ["no volume on another host", "[USER@]HOST:/dev/DEVICE"]),
        ("attach ada@store1:vdb", ["no absolute path", "/dev/disk/by-id/"]),
        ("attach -- -oProxyCommand=x:/dev/vdb", ["no name of a host", "letters, digits"]),
        ("attach nvme-tcp://10.0.0.1/iqn.2026-11.a:b", ["is no NQN", "nqn.2026-11"]),
        (
            "attach nvme-tcp://10.0.0.1/nqn.2026-11.a:b --transport iscsi",
            ["says its protocol itself", "--transport"],
        ),
        ("attach nvme-tcp://10.0.0.1/nqn.2026-11.a:b --copy-ebb", ["nothing is run", "--copy-ebb"]),
        ("attach ada@store1:/dev/vdb --hold forever", ["--hold", "forever"]),
        ("attach ada@store1:/dev/vdb --hold 0s", ["1s to 24h", "--hold"]),
        ("attach ada@store1:/dev/vdb --name Data", ["the name `Data`", "--name"]),
        ("attach ada@store1:/dev/vdb --mount data", ["mount point data", "begin it with /"]),
        ("attach ada@store1:/dev/vdb --mount /usr", ["the system's own", "/data"]),
        ("attach ada@store1:/dev/vdb --integrity", ["--encrypt", "Usage"]),
        ("attach ada@store1:/dev/vdb --header-backup h", ["--encrypt", "Usage"]),
        ("attach ada@store1:/dev/vdb --mount /data --filesystem ntfs", ["ntfs", "ext4"]),
        ("attach ada@store1:/dev/vdb --transport nbd", ["nbd", "nvme-tcp"]),
    ] {
        refused(&home, line, 2, &wanted);
        refused(&home, &line.replacen("attach", "attach --dry-run", 1), 2, &wanted);
    }
}

#[test]
fn a_dry_run_says_what_would_be_done_and_touches_nothing() {
    let home = Home::new();
    let plan = home.json(
        "attach ada@store1:/dev/vdb --name backup --encrypt key --integrity --header-backup header --mount /backup --hold 10s --dry-run",
        &[0],
    );
    assert_eq!(
        (plan["schema"].as_str(), plan["name"].as_str()),
        (Some("ebbtide.attach-plan/1"), Some("backup"))
    );
    let steps: Vec<&str> =
        plan["steps"].as_array().unwrap().iter().map(|step| step.as_str().unwrap()).collect();
    for (step, wanted) in [
        (0, "on ada@store1: ebb export /dev/vdb"),
        (1, "-L 127.0.0.1:PORT:127.0.0.1:4420 ada@store1"),
        (2, "fast_io_fail_tmo=10 s"),
        (3, "luksFormat --type luks2 --integrity hmac-sha256"),
        (4, "luksHeaderBackup"),
        (5, "/dev/mapper/backup"),
        (6, "mkfs.ext4"),
        (7, "mount on /backup"),
    ] {
        assert!(steps[step].contains(wanted), "{wanted} is not in {steps:?}");
    }
    let direct = home.ebb("attach iscsi://10.0.0.1/iqn.2026-11.ebbtide:a --dry-run").output().unwrap();
    let said = String::from_utf8(direct.stdout).unwrap();
    assert!(said.contains("replacement_timeout=60 s") && !said.contains("ssh"), "{said}");
}

#[test]
fn what_was_never_attached_is_not_known_and_keys_are_looked_at_first() {
    let home = Home::new();
    if !rustix::process::geteuid().is_root() {
        for line in ["attach ada@store1:/dev/vdb", "undo data"] {
            refused(&home, line, 1, &["needs root", "sudo"]);
        }
        return;
    }
    refused(&home, "undo nothing_of_this_name", 1, &["there is no nothing_of_this_name", "ebb status"]);
    for kind in ["", " --kind array", " --kind attached", " --kind export"] {
        let line = format!("undo nothing_of_this_name --dry-run{kind}");
        refused(&home, &line, 1, &["there is no ", "nothing_of_this_name"]);
    }
    for (line, said) in [
        ("undo a --kind export --destroy", "--destroy is for an array; a is of the kind `export`"),
        ("undo a --kind attached --force", "--force is for an export"),
        ("undo a --kind volume", "possible values: array, attached, export, monitor"),
    ] {
        refused(&home, line, 2, &[said]);
    }
    refused(&home, "attach ada@store1:/dev/vdb --encrypt none", 2, &["the key file none cannot be read"]);
    let empty = home.write("empty", "");
    for (mode, said) in [(0o644, "`chmod 600` it first"), (0o600, "/dev/urandom")] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&empty, mode).unwrap();
        refused(&home, "attach ada@store1:/dev/vdb --encrypt empty", 2, &["empty", said]);
    }
    refused(&home, "attach-supervisor nothing_of_this_name", 0, &[]);
}
