//! Parts of the kernel that building needs, looked for before anything is touched: without them the first step of every
//! trial would fail alike.

use crate::sys::{self, Sys};
use std::collections::BTreeSet;

/// A part: its name in words, what shows that it is there, and the module that brings it.
struct Part {
    name: &'static str,
    sign: fn(&Sys) -> bool,
    module: &'static str,
}

const MD: Part =
    Part { name: "software RAID (md)", sign: |sys| sys.proc.join("mdstat").exists(), module: "md-mod" };
const MAPPER: Part = Part {
    name: "the device mapper (LVM, dm-crypt)",
    sign: |sys| sys.sys.join("class/misc/device-mapper").exists() || sys.dev.join("mapper/control").exists(),
    module: "dm-mod",
};

/// What `program` works on, where that may be absent.
fn part(program: &str) -> Option<Part> {
    match program {
        "mdadm" => Some(MD),
        "lvcreate" | "vgcreate" | "cryptsetup" => Some(MAPPER),
        "mkfs.xfs" => Some(filesystem("XFS", |sys| has_filesystem(sys, "xfs"), "xfs")),
        "mkfs.btrfs" => Some(filesystem("btrfs", |sys| has_filesystem(sys, "btrfs"), "btrfs")),
        "mkfs.jfs" => Some(filesystem("JFS", |sys| has_filesystem(sys, "jfs"), "jfs")),
        _ => None,
    }
}

fn filesystem(name: &'static str, sign: fn(&Sys) -> bool, module: &'static str) -> Part {
    Part { name, sign, module }
}

fn has_filesystem(sys: &Sys, name: &str) -> bool {
    let known = sys::text(&sys.proc.join("filesystems")).unwrap_or_default();
    known.lines().any(|line| line.split_whitespace().next_back() == Some(name))
}

/// Whether the running kernel has a module of that name to load, or built in.
fn has_module(sys: &Sys, module: &str) -> bool {
    let Some(release) = sys::word(&sys.proc.join("sys/kernel/osrelease")) else { return false };
    let place = sys.root().join("lib/modules").join(release);
    let file = format!("/{module}.ko");
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        sys::text(&place.join(list)).is_some_and(|list| {
            // `kernel/drivers/md/md-mod.ko.xz: kernel/lib/crc.ko`
            list.lines().filter_map(|line| line.split(':').next()).any(|path| path.contains(&file))
        })
    })
}

/// What this kernel neither has nor can load of that which `programs` work on, in words.
pub fn missing_in_kernel<'a>(sys: &Sys, programs: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let absent: BTreeSet<&str> = programs
        .into_iter()
        .filter_map(part)
        .filter(|part| !(part.sign)(sys) && !has_module(sys, part.module))
        .map(|part| part.name)
        .collect();
    let names: Vec<&str> = absent.into_iter().collect();
    (!names.is_empty()).then(|| {
        format!(
            "this kernel has no {}, and no module to load for it: `--on lab` brings a kernel that has",
            names.join(" and no ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;

    #[test]
    fn what_the_kernel_has_is_told_from_what_it_lacks() {
        let programs = ["mdadm", "lvcreate", "mkfs.ext4", "mkfs.xfs", "losetup"];
        let bare =
            unpack("f proc/sys/kernel/osrelease\n|6.1.0-test\nf proc/filesystems\n|nodev\tproc\n|\text4\n");
        let said = missing_in_kernel(&Sys::below(bare.path()), programs).expect("lacks all of it");
        assert!(said.contains("md") && said.contains("device mapper") && said.contains("XFS"), "{said}");
        let able = unpack(
            "f proc/sys/kernel/osrelease\n|6.1.0-test\nf proc/filesystems\n|\txfs\n\
             f lib/modules/6.1.0-test/modules.dep\n|kernel/drivers/md/md-mod.ko.xz:\n\
             f lib/modules/6.1.0-test/modules.builtin\n|kernel/drivers/md/dm-mod.ko\n",
        );
        assert_eq!(missing_in_kernel(&Sys::below(able.path()), programs), None);
        let loaded = unpack("f proc/mdstat\n|Personalities :\n");
        assert_eq!(missing_in_kernel(&Sys::below(loaded.path()), ["mdadm"]), None);
    }
}
