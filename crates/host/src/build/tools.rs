//! Outside programs: one list, with the Debian package that brings each.

use crate::command::installed;
use std::fmt;

/// Every program that builds, with its Debian package.
const PROGRAMS: &[(&str, &str)] = &[
    ("blkid", "util-linux"),
    ("cryptsetup", "cryptsetup-bin"),
    ("losetup", "mount"),
    ("lvcreate", "lvm2"),
    ("lvextend", "lvm2"),
    ("lvremove", "lvm2"),
    ("lvs", "lvm2"),
    ("mdadm", "mdadm"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.ext2", "e2fsprogs"),
    ("mkfs.ext3", "e2fsprogs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.jfs", "jfsutils"),
    ("mkfs.xfs", "xfsprogs"),
    ("mkswap", "util-linux"),
    ("mount", "mount"),
    ("pvcreate", "lvm2"),
    ("pvremove", "lvm2"),
    ("pvs", "lvm2"),
    ("swapoff", "mount"),
    ("swapon", "mount"),
    ("umount", "mount"),
    ("vgcreate", "lvm2"),
    ("vgremove", "lvm2"),
    ("vgs", "lvm2"),
    ("wipefs", "util-linux"),
];

/// Programs that are not installed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Missing(pub Vec<String>);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let package = |program: &str| PROGRAMS.iter().find(|(name, _)| *name == program).map(|(_, p)| *p);
        let mut packages: Vec<&str> = self.0.iter().filter_map(|program| package(program)).collect();
        packages.sort_unstable();
        packages.dedup();
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
