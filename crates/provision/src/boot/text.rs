//! What is put onto a machine: the script, and the user data that has cloud-init run it.

use super::{Boot, Members};
use ebbtide_model::stack::Filesystem;
use std::fmt::Write;

const BODY: &str = include_str!("boot.sh");

/// Seconds for which disks are waited for that are not there yet: an EBS volume may be attached after the machine has started.
const WAIT: u32 = 120;

impl Boot {
    /// The shell script that makes the array.
    pub fn script(&self) -> String {
        let kind = if matches!(self.members, Members::Kind(_)) { "yes" } else { "no" };
        let package = match self.filesystem {
            Filesystem::Xfs => "xfsprogs",
            Filesystem::Btrfs => "btrfs-progs",
            Filesystem::Ext2 | Filesystem::Ext3 | Filesystem::Ext4 | Filesystem::Jfs => "e2fsprogs",
        };
        let values = [
            ("name", self.name.as_str()),
            ("members", &self.members.links().join(" ")),
            ("kind", kind),
            ("wanted", &self.wanted.to_string()),
            ("create", &self.create.join(" ")),
            ("filesystem", self.filesystem.as_ref()),
            ("mkfs", &self.mkfs.join(" ")),
            ("mount", &self.mountpoint),
            ("fstab", &self.fstab),
            ("settings", &self.settings.join(" ")),
            ("packages", &format!("mdadm {package}")),
            ("wait", &WAIT.to_string()),
        ];
        let mut text = format!("#!/bin/sh\n# Written by `ebb user-data`: {}.\n", printable(&self.source));
        for (name, value) in values {
            let _ = writeln!(text, "{name}={}", quoted(value));
        }
        text + BODY
    }
}

/// User data for cloud-init that runs `script`, of the array `name`, at the first boot; whether it is for instance store.
pub fn cloud_config(name: &str, script: &str, instance_store: bool) -> String {
    let mut text = "#cloud-config\n".to_owned();
    if instance_store {
        // cloud-init would mount the first one at /mnt by itself.
        text += "mounts:\n- [ephemeral0, null]\n";
    }
    text += "write_files:\n";
    let path = format!("/usr/local/sbin/ebb-{name}");
    let _ = writeln!(text, "- path: {path}\n  permissions: \"0755\"\n  content: |1");
    for line in script.lines() {
        // As little as YAML takes: user data may not be long.
        text += if line.is_empty() { "" } else { "   " };
        text += line;
        text.push('\n');
    }
    let _ = writeln!(text, "runcmd:\n- [{path}]");
    text
}

/// A value that a shell takes as it is.
fn quoted(value: &str) -> String {
    let fine = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !value.is_empty() && value.chars().all(fine) {
        value.to_owned()
    } else {
        format!("'{}'", value.replace('\'', "'\\''"))
    }
}

/// Text for a comment: one line, no signs that are not for terminals.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || !c.is_ascii() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_value_is_one_word() {
        assert_eq!(quoted("/dev/md/a"), "/dev/md/a");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("it's $HOME"), "'it'\\''s $HOME'");
    }
}
