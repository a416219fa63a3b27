//! Outside programs: one list, with the Debian package that brings each.

use crate::command::installed;
use std::fmt;

/// Debian packages, each with the programs that build and come with it.
const PACKAGES: &[(&str, &[&str])] = &[
    ("util-linux", &["blkid", "mkswap", "wipefs"]),
    ("cryptsetup-bin", &["cryptsetup"]),
    ("mount", &["losetup", "mount", "swapoff", "swapon", "umount"]),
    (
        "lvm2",
        &[
            "lvconvert",
            "lvcreate",
            "lvextend",
            "lvremove",
            "lvs",
            "pvcreate",
            "pvremove",
            "pvs",
            "vgcreate",
            "vgextend",
            "vgremove",
            "vgs",
        ],
    ),
    ("mdadm", &["mdadm"]),
    ("btrfs-progs", &["mkfs.btrfs"]),
    ("e2fsprogs", &["mkfs.ext2", "mkfs.ext3", "mkfs.ext4"]),
    ("jfsutils", &["mkfs.jfs"]),
    ("xfsprogs", &["mkfs.xfs"]),
];

/// Programs that are not installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Missing(pub Vec<String>);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = |programs: &[&str]| programs.iter().any(|one| self.0.iter().any(|absent| absent == one));
        let packages = PACKAGES.iter().filter(|(_, programs)| needed(programs)).map(|(package, _)| *package);
        let mut packages: Vec<&str> = packages.collect();
        packages.sort_unstable();
        write!(f, "{} not installed", self.0.join(", "))?;
        if !packages.is_empty() {
            write!(f, ": on Debian `apt install {}`", packages.join(" "))?;
        }
        Ok(())
    }
}

/// Checks that `programs` are installed before anything is touched.
///
/// # Errors
/// Those that are not.
pub fn missing<'a>(programs: impl IntoIterator<Item = &'a str>) -> Result<(), Missing> {
    let mut absent: Vec<String> =
        programs.into_iter().filter(|program| !installed(program)).map(str::to_owned).collect();
    absent.sort();
    absent.dedup();
    if absent.is_empty() { Ok(()) } else { Err(Missing(absent)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        assert_eq!(missing(["mount"]), Ok(()));
        let error = Missing(vec!["lvs".into(), "mkfs.xfs".into(), "pvs".into()]).to_string();
        assert_eq!(error, "lvs, mkfs.xfs, pvs not installed: on Debian `apt install lvm2 xfsprogs`");
        assert_eq!(missing(["ebb-no-such"]), Err(Missing(vec!["ebb-no-such".into()])));
    }
}
