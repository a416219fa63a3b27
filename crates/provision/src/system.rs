//! How a host boots: where its files are and what has to be run after they changed.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What puts mdadm's configuration where it is read before the root file system is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initramfs {
    /// `update-initramfs`: Debian, Ubuntu.
    UpdateInitramfs,
    /// `dracut`: Fedora, RHEL and what is made of it, Amazon Linux, SUSE.
    Dracut,
}

impl Initramfs {
    /// The command that makes it anew.
    fn command(self) -> [&'static str; 2] {
        match self {
            Initramfs::UpdateInitramfs => ["update-initramfs", "-u"],
            Initramfs::Dracut => ["dracut", "--force"],
        }
    }

    /// Whether `words` make it anew.
    pub fn is_made_by(words: &[String]) -> bool {
        [Initramfs::UpdateInitramfs, Initramfs::Dracut].iter().any(|tool| tool.command().iter().eq(words))
    }
}

/// How a host boots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct System {
    /// What its release calls itself: "debian 12".
    pub release: String,
    /// Path of mdadm.conf(5).
    pub mdadm_conf: PathBuf,
    /// What makes the initramfs; nothing where the host has no such program.
    pub initramfs: Option<Initramfs>,
    /// Whether systemd mounts what fstab says.
    pub systemd: bool,
    /// Whether udev names devices and can be told rules.
    pub udev: bool,
}

impl System {
    /// Of the text of `/etc/os-release`; `has` says whether a path is there, as `/usr/sbin/dracut`.
    pub fn of(os_release: &str, has: impl Fn(&Path) -> bool) -> System {
        let field = |key: &str| {
            let found = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            found.unwrap_or_default().trim_matches(['"', '\'']).to_owned()
        };
        let (id, version) = (field("ID"), field("VERSION_ID"));
        let like = format!("{id} {}", field("ID_LIKE"));
        let is_debian = like.split_whitespace().any(|word| word == "debian" || word == "ubuntu");
        let installed = |program: &str| {
            ["/usr/sbin", "/sbin", "/usr/bin", "/bin"]
                .iter()
                .any(|place| has(&Path::new(place).join(program)))
        };
        let initramfs = if installed("update-initramfs") {
            Some(Initramfs::UpdateInitramfs)
        } else if installed("dracut") {
            Some(Initramfs::Dracut)
        } else {
            None
        };
        // Debian's mdadm reads its own place first; elsewhere mdadm's default holds (mdadm.conf(5)).
        let conf = if is_debian || has(Path::new("/etc/mdadm")) {
            "/etc/mdadm/mdadm.conf"
        } else {
            "/etc/mdadm.conf"
        };
        System {
            release: [id, version].join(" ").trim().to_owned(),
            mdadm_conf: conf.into(),
            initramfs,
            systemd: has(Path::new("/run/systemd/system")),
            udev: has(Path::new("/run/udev")),
        }
    }

    /// What brings a changed configuration of mdadm into the initramfs.
    pub fn refresh_initramfs(&self) -> Option<Vec<String>> {
        Some(self.initramfs?.command().map(str::to_owned).to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(release: &str, paths: &[&str]) -> System {
        System::of(release, |path| paths.iter().any(|there| Path::new(there) == path))
    }

    #[test]
    fn each_family_of_distributions_has_its_places_and_programs() {
        let debian = of(
            "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nVERSION_ID=\"12\"\n",
            &["/usr/sbin/update-initramfs", "/run/systemd/system", "/run/udev"],
        );
        assert_eq!((debian.release.as_str(), debian.systemd, debian.udev), ("debian 12", true, true));
        assert_eq!(debian.mdadm_conf, Path::new("/etc/mdadm/mdadm.conf"));
        assert_eq!(
            debian.refresh_initramfs().map(|words| words.join(" ")).as_deref(),
            Some("update-initramfs -u")
        );
        let ubuntu = of("ID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"24.04\"\n", &["/usr/bin/dracut"]);
        assert_eq!(ubuntu.mdadm_conf, Path::new("/etc/mdadm/mdadm.conf"));
        for (release, like) in [("amzn", "fedora"), ("rhel", "fedora"), ("fedora", "")] {
            let system = of(&format!("ID=\"{release}\"\nID_LIKE=\"{like}\"\n"), &["/usr/bin/dracut"]);
            assert_eq!(system.mdadm_conf, Path::new("/etc/mdadm.conf"), "{release}");
            assert_eq!(
                system.refresh_initramfs().map(|words| words.join(" ")).as_deref(),
                Some("dracut --force")
            );
        }
        let bare = of("", &[]);
        assert_eq!((bare.refresh_initramfs(), bare.systemd, bare.release.as_str()), (None, false, ""));
    }
}
