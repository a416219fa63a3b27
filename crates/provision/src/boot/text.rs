//! What is put onto a machine: the script, its units, and the two ways in which they get there.

use super::{Boot, Members};
use crate::Class;
use crate::monitor::word;
use ebbtide_model::stack::Filesystem;
use std::fmt::Write;
use std::path::Path;

const BODY: &str = include_str!("boot.sh");

/// Seconds for which disks are waited for that are not there yet: an EBS volume may be attached after the machine has started.
const WAIT: u32 = 120;

/// How long systemd waits for the script. Making a file system on large instance store discards it before, which has no known end.
const TIMEOUT: &str = "infinity";

/// A file that is put onto a machine.
struct File {
    path: String,
    mode: &'static str,
    content: String,
}

impl Boot {
    /// The shell script that makes the array at boot.
    pub fn script(&self) -> String {
        let redundant = if self.redundant { "yes" } else { "no" };
        let exact = if matches!(self.members, Members::Links(_)) { "yes" } else { "no" };
        let package = match self.filesystem {
            Filesystem::Xfs => "xfsprogs",
            Filesystem::Btrfs => "btrfs-progs",
            Filesystem::Ext2 | Filesystem::Ext3 | Filesystem::Ext4 | Filesystem::Jfs => "e2fsprogs",
        };
        let class: &str = self.class.as_ref();
        let again = match self.class {
            Class::Ephemeral => "made anew where all of its disks are blank",
            Class::Persistent => "made once, never again",
        };
        let (least, wait) = (self.least.to_string(), WAIT.to_string());
        let values = [
            ("name", self.name.as_str()),
            ("class", class),
            // Its beginning: each machine that makes one draws the rest.
            ("uuid", self.uuid.rsplit_once(':').map_or(self.uuid.as_str(), |(begin, _)| begin)),
            ("create", &self.create.join(" ")),
            ("filesystem", self.filesystem.as_ref()),
            ("filesystem_uuid", &self.filesystem_uuid),
            ("mkfs", &self.mkfs.join(" ")),
            ("mount", &self.mountpoint),
            ("options", &self.mount_options),
            ("settings", &self.settings.join(" ")),
            ("members", &self.members.links().join(" ")),
            ("exact", exact),
            ("least", &least),
            ("redundant", redundant),
            ("wait", &wait),
            ("packages", &format!("mdadm {package}")),
        ];
        let mut text = format!(
            "#!/bin/sh\n# Written by `ebb user-data`: {}, {class}: {again}.\n",
            printable(&self.source)
        );
        for (name, value) in values {
            let _ = writeln!(text, "{name}={}", quoted(value));
        }
        text + &body()
    }

    /// The unit that runs it at each boot.
    fn unit(&self) -> String {
        format!(
            "[Unit]\n\
             Description=Array {name}: started, or made of blank disks, and mounted\n\
             DefaultDependencies=no\n\
             After=systemd-remount-fs.service systemd-udev-trigger.service\n\
             RequiresMountsFor=/usr/local/sbin /var/lib {above}\n\
             Before=local-fs.target shutdown.target\n\
             Conflicts=shutdown.target\n\
             \n\
             [Service]\n\
             Type=oneshot\n\
             RemainAfterExit=yes\n\
             ExecStart={script} start\n\
             ExecStop={script} note\n\
             TimeoutStartSec={TIMEOUT}\n\
             \n\
             [Install]\n\
             WantedBy=local-fs.target\n",
            above = word(&Path::new(&self.mountpoint).parent().unwrap_or(Path::new("/")).to_string_lossy()),
            name = self.name,
            script = self.path(),
        )
    }

    /// The unit for whoever needs what is mounted: systemd finds it by the mount point. The script mounts it.
    fn mount_unit(&self) -> String {
        format!(
            "[Unit]\n\
             Description=Array {name}\n\
             Requires=ebb-{name}.service\n\
             After=ebb-{name}.service\n\
             \n\
             [Mount]\n\
             What=/dev/disk/by-uuid/{uuid}\n\
             Where={mountpoint}\n\
             Type={filesystem}\n\
             Options={options},nofail\n",
            name = self.name,
            uuid = self.filesystem_uuid,
            mountpoint = self.mountpoint.replace('%', "%%"),
            filesystem = self.filesystem.as_ref(),
            options = self.mount_options.replace('%', "%%"),
        )
    }

    fn path(&self) -> String {
        format!("/usr/local/sbin/ebb-{}", self.name)
    }

    fn files(&self) -> [File; 3] {
        let unit = |name: String, content| File {
            path: format!("/etc/systemd/system/{name}"),
            mode: "0644",
            content,
        };
        [
            File { path: self.path(), mode: "0755", content: self.script() },
            unit(format!("ebb-{}.service", self.name), self.unit()),
            unit(format!("{}.mount", escaped_path(&self.mountpoint)), self.mount_unit()),
        ]
    }

    /// As user data for cloud-init.
    pub fn cloud_config(&self) -> String {
        let mut text = format!("#cloud-config\n# Written by `ebb user-data`: {}\n", printable(&self.source));
        if self.members.links().iter().any(|link| link.contains("Instance_Storage")) {
            // cloud-init would mount the first one at /mnt by itself.
            text += "mounts:\n- [ephemeral0, null]\n";
        }
        text += "write_files:\n";
        for File { path, mode, content } in self.files() {
            let _ = writeln!(text, "- path: {path}\n  permissions: \"{mode}\"\n  content: |");
            for line in content.lines() {
                // As little as YAML takes: user data may not be long.
                text += if line.is_empty() { "" } else { "   " };
                text += line;
                text.push('\n');
            }
        }
        let _ = writeln!(text, "runcmd:\n- [{}, install]", self.path());
        text
    }

    /// As a script that puts everything into place and runs it: as user data where there is no cloud-init, or by hand.
    pub fn installer(&self) -> String {
        let mut text = format!(
            "#!/bin/sh\n# Written by `ebb user-data`: {}\nset -eu\n\
             put() {{ mkdir -p \"${{1%/*}}\"; cat >\"$1.new\"; chmod \"$2\" \"$1.new\"; mv -f \"$1.new\" \"$1\"; }}\n",
            printable(&self.source)
        );
        for File { path, mode, content } in self.files() {
            let _ = write!(text, "put {} {mode} <<'END_OF_FILE'\n{content}END_OF_FILE\n", quoted(&path));
        }
        let _ = writeln!(text, "exec {} install", self.path());
        text
    }
}

/// The script's own part without what only its readers here need: user data may not be long.
fn body() -> String {
    let mut text =
        "# Everything above is what is wanted; what follows is the same for every array.\n".to_owned();
    for line in BODY.lines() {
        let code = line.trim_start_matches(' ');
        if code.is_empty() || code.starts_with('#') {
            continue;
        }
        text.extend(std::iter::repeat_n('\t', (line.len() - code.len()) / 4));
        text += code;
        text.push('\n');
    }
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

/// A path as the name of a unit (systemd.unit(5), "String Escaping for Inclusion in Unit Names").
fn escaped_path(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut name = String::new();
    for (index, byte) in parts.join("/").bytes().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if index == 0 => name += "\\x2e",
            b'_' | b':' | b'.' => name.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            byte => {
                let _ = write!(name, "\\x{byte:02x}");
            }
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_unit_as_systemd_escape_has_it() {
        for (path, name) in [
            ("/data", "data"),
            ("/srv//my data/", "srv-my\\x20data"),
            ("/a-b/.c", "a\\x2db-.c"),
            ("/.hidden", "\\x2ehidden"),
        ] {
            assert_eq!(escaped_path(path), name, "{path}");
        }
    }

    #[test]
    fn a_quoted_value_is_one_word() {
        assert_eq!(quoted("/dev/md/a"), "/dev/md/a");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("it's $HOME"), "'it'\\''s $HOME'");
    }
}
