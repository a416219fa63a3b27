//! `ebb export` as a program, without a kernel that exports: what is refused before anything is made, and what it would tell the kernel.

use crate::common::{Home, status, stderr};
use std::os::unix::fs::PermissionsExt;

const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:1";
const IQN: &str = "iqn.1993-08.org.debian:01:a";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_wrong_command_line_says_what_to_write() {
    let home = Home::new();
    for (line, said) in [
        ("export".to_owned(), "--client <NAME>"),
        ("export f".to_owned(), "--client <NAME>"),
        (format!("export f --client {IQN}"), "/etc/nvme/hostnqn"),
        (format!("export f --client {NQN} --transport iscsi"), "/etc/iscsi/initiatorname.iscsi"),
        (format!("export f --client {NQN} --transport nbd"), "write nvme-tcp or iscsi"),
        (format!("export f --client {NQN} --name A-b"), "1 to 24 of a-z, 0-9 and _"),
        (format!("export f --client {NQN} --listen store.example"), "names are not looked up"),
        (format!("export f --client {NQN} --start a"), "cannot be used with"),
    ] {
        let output = home.ebb(&line).output().unwrap();
        assert!(status(&output) == 2 && stderr(&output).contains(said), "{line}: {output:?}");
    }
}

#[test]
fn who_is_not_root_is_told_to_be() {
    if is_root() {
        return;
    }
    let home = Home::new();
    for line in ["status".to_owned(), "undo a".to_owned(), format!("export f --client {NQN}")] {
        let output = home.ebb(&line).output().unwrap();
        assert!(status(&output) == 1 && stderr(&output).contains("run it with sudo"), "{line}: {output:?}");
    }
}

#[test]
fn a_dry_run_says_what_the_kernel_would_be_told_and_no_secret() {
    if !is_root() {
        return;
    }
    let home = Home::new();
    let file = home.path("volumes/a.img");
    std::fs::File::create(&file).unwrap().set_len(8 << 20).unwrap();
    let secret = home.write("secret", "a-secret-of-24-signs-123\n");
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let plan = |rest: &str| home.json(&format!("export volumes/a.img --dry-run {rest}"), &[0]);
    let value = plan(&format!("--client {NQN}"));
    assert_eq!((&value["schema"], &value["name"]), (&"ebbtide.export-plan/1".into(), &"a_img".into()));
    let text = value.to_string();
    assert!(text.contains("127.0.0.1 > /sys/kernel/config/nvmet/ports/60000/addr_traddr"), "{text}");
    assert!(text.contains("echo 0 > ") && text.contains("attr_allow_any_host"), "{text}");
    let value = plan(&format!("--client {IQN} --transport iscsi --secret secret --listen 10.0.0.5:3300"));
    let text = value.to_string();
    assert!(text.contains("np/10.0.0.5:3300") && text.contains("fd_dev_size=8388608"), "{text}");
    assert!(text.contains("(the secret) > ") && !text.contains("a-secret-of-24"), "{text}");
    assert_eq!(std::fs::read_dir(home.path("state")).unwrap().count(), 0, "nothing was made");

    for (line, said) in [
        (format!("volumes/none --client {NQN}"), "No such file or directory"),
        (format!("/dev/null --client {NQN}"), "neither a regular file nor a block device"),
        (format!("volumes/a.img --client {NQN} --secret secret"), "nvme gen-dhchap-key"),
        (format!("volumes/a.img --client {IQN} --transport iscsi --secret volumes/none"), "No such file"),
    ] {
        let output = home.ebb(&format!("export --dry-run {line}")).output().unwrap();
        assert!([1, 2].contains(&status(&output)) && stderr(&output).contains(said), "{line}: {output:?}");
        assert!(!stderr(&output).contains("a-secret-of-24"), "{output:?}");
    }
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o640)).unwrap();
    let line = format!("export --dry-run volumes/a.img --client {IQN} --transport iscsi --secret secret");
    let output = home.ebb(&line).output().unwrap();
    assert!(status(&output) == 2 && stderr(&output).contains("chmod 600"), "{output:?}");
}
