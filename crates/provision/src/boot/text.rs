//! What is put onto a machine: a script, and the user data that has cloud-init run it.

use super::{Boot, Brought, Ebb, Members};
use std::fmt::Write;

const COMMON: &str = include_str!("common.sh");
const BOOT: &str = include_str!("boot.sh");
const APPLY: &str = include_str!("apply.sh");

/// Seconds for which disks are waited for that are not there yet: an EBS volume may be attached after the machine has started.
pub const WAIT: u32 = 120;

/// What the script itself runs. Without one of these a disk with data could look blank.
const PROGRAMS: &str =
    "mdadm blkid wipefs lsblk findmnt flock awk cut dd grep head paste readlink sed sort tail tr wc";

impl Boot {
    /// The shell script that makes the array.
    pub fn script(&self) -> String {
        let kind = if matches!(self.members, Members::Kind(_)) { "yes" } else { "no" };
        let mkfs = format!("mkfs.{}", self.filesystem.as_ref());
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
            ("programs", &format!("{PROGRAMS} {mkfs}")),
            ("packages", &packages(["mdadm", &mkfs])),
            ("wait", &WAIT.to_string()),
        ];
        head(&self.source, &values) + COMMON + BOOT
    }
}

impl Brought {
    /// The shell script that brings `ebb` and has it make the design.
    pub fn script(&self) -> String {
        let (url, sha256) = match &self.ebb {
            Ebb::Installed => ("", ""),
            Ebb::Fetched { url, sha256 } => (url.as_str(), sha256.as_str()),
        };
        let links = match &self.members {
            Members::Links(links) => links.join(" "),
            Members::Kind(_) => String::new(),
        };
        let programs = self.programs.join(" ");
        let fetched = if url.is_empty() { "ebb" } else { "sha256sum" };
        let values = [
            ("name", self.name.as_str()),
            ("url", url),
            ("sha256", sha256),
            ("links", &links),
            ("programs", &format!("{programs} {fetched}")),
            ("packages", &packages(self.programs.iter().map(String::as_str))),
            ("wait", &WAIT.to_string()),
        ];
        let mut text = head(&self.source, &values) + COMMON + APPLY;
        let file = format!("/etc/ebbtide/{}.toml", self.name);
        let end = end_of(&self.experiment);
        let _ = writeln!(
            text,
            "mkdir -p /etc/ebbtide && cat >{file} <<'{end}' || refuse \"cannot write {file}\""
        );
        text += self.experiment.trim_end();
        let named = format!("{file}:{}", self.design);
        let words: Vec<String> =
            std::iter::once(&named).chain(&self.arguments).map(|word| quoted(word)).collect();
        let _ = writeln!(text, "\n{end}\nexec ebb apply {}", words.join(" "));
        text
    }
}

/// The beginning of a script: for people, and the `values` of its variables.
fn head(source: &str, values: &[(&str, &str)]) -> String {
    let mut text = format!("#!/bin/sh\n# Written by `ebb user-data`: {}.\n", printable(source));
    for (name, value) in values {
        let _ = writeln!(text, "{name}={}", quoted(value));
    }
    text + "# Everything above is what is wanted; what follows is the same everywhere.\n\n"
}

/// The packages that have `programs`, on every distribution that is known.
fn packages<'a>(programs: impl IntoIterator<Item = &'a str>) -> String {
    let package = |program: &str| match program {
        "mdadm" | "cryptsetup" => Some(program.to_owned()),
        "mkfs.xfs" => Some("xfsprogs".to_owned()),
        "mkfs.btrfs" => Some("btrfs-progs".to_owned()),
        "mkfs.jfs" => Some("jfsutils".to_owned()),
        "lvm" | "lvcreate" | "vgcreate" | "pvcreate" => Some("lvm2".to_owned()),
        ext if ext.starts_with("mkfs.ext") => Some("e2fsprogs".to_owned()),
        _ => None,
    };
    let mut packages: Vec<String> = programs.into_iter().filter_map(package).collect();
    packages.sort();
    packages.dedup();
    packages.join(" ")
}

/// A line that `text` does not have.
fn end_of(text: &str) -> String {
    let mut end = "END".to_owned();
    while text.lines().any(|line| line == end) {
        end.push('_');
    }
    end
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
