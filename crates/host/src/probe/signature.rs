//! What is written on a device: from udev's database, or fresh from the device through `blkid`.

use super::tables::Udev;
use crate::command::{CommandError, Runner};
use ebbtide_door::read;
use ebbtide_model::shown::Shown;
use serde::Serialize;
use std::fs::File;
use std::path::Path;

/// What is written on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Nothing that has a signature.
    Nothing,
    /// Something with a signature.
    Signature(Signature),
    /// A partition table: `gpt`, `dos`.
    PartitionTable(String),
    /// It could not be read; the text says why.
    Unknown(String),
}

/// A signature found on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Signature {
    /// blkid's type: `ext4`, `xfs`, `linux_raid_member`, `LVM2_member`, `crypto_LUKS`, `swap`, ...
    pub kind: String,
    /// blkid's usage: `filesystem`, `raid`, `crypto`, `other`.
    pub usage: Option<String>,
    /// The label, where it has one.
    pub label: Option<String>,
    /// The UUID as blkid has it, where it has one.
    pub uuid: Option<String>,
    /// The UUID of this device among others of one file system or one array, as blkid has it.
    #[serde(skip)]
    pub uuid_sub: Option<String>,
}

impl Content {
    /// The UUID that this device alone carries; nothing where it has none.
    pub fn own_uuid(&self) -> Option<&str> {
        let Content::Signature(found) = self else { return None };
        let of_all = found.uuid.as_ref().filter(|_| found.kind != "linux_raid_member");
        found.uuid_sub.as_ref().or(of_all).map(String::as_str)
    }
}

/// Partitions that carry something without a signature, by their type in the partition table: for MBR the extended
/// partition, which holds the logical ones, and PReP; for GPT BIOS boot, where GRUB's core image is written raw, PReP, and
/// Microsoft's reserved partition.
const RESERVED: &[(&str, &str)] = &[
    ("0x5", "extended partition"),
    ("0xf", "extended partition"),
    ("0x85", "extended partition"),
    ("0x41", "PReP boot"),
    ("21686148-6449-6e6f-744e-656564454649", "BIOS boot"),
    ("9e1a2d38-c612-4316-aa26-8b49521e5a8b", "PReP boot"),
    ("e3c9e316-0b5c-4db8-817d-f92df00215ae", "Microsoft reserved"),
];

/// What a device without a signature has on it, when its entry in the partition table is of type `entry`.
fn unsigned(entry: Option<&str>) -> Content {
    let reserved =
        RESERVED.iter().find(|(kind, _)| entry.is_some_and(|entry| entry.eq_ignore_ascii_case(kind)));
    reserved.map_or(Content::Nothing, |(_, words)| {
        Content::Signature(Signature {
            kind: (*words).to_owned(),
            usage: None,
            label: None,
            uuid: None,
            uuid_sub: None,
        })
    })
}

/// Whether the partition table in `udev`'s properties of a partition is that of its disk: udev hands the disk's down
/// (`IMPORT{parent}="ID_*"`).
pub fn table_is_of_disk(udev: &Udev, disk: &Udev) -> bool {
    ["ID_PART_TABLE_TYPE", "ID_PART_TABLE_UUID"].into_iter().all(|key| udev.get(key) == disk.get(key))
}

/// What udev found when the device appeared or changed last; nothing when udev did not look at it. A partition comes
/// with what is known of its `disk`.
pub fn from_udev(udev: &Udev, disk: Option<&Udev>) -> Option<Content> {
    if let Some(kind) = udev.get("ID_FS_TYPE") {
        return Some(Content::Signature(Signature {
            kind: kind.to_owned(),
            usage: udev.get("ID_FS_USAGE").map(str::to_owned),
            label: udev.get("ID_FS_LABEL").map(str::to_owned),
            uuid: udev.get("ID_FS_UUID").map(str::to_owned),
            uuid_sub: udev.get("ID_FS_UUID_SUB").map(str::to_owned),
        }));
    }
    let inherited = disk.is_some_and(|disk| table_is_of_disk(udev, disk));
    match udev.get("ID_PART_TABLE_TYPE").filter(|_| !inherited) {
        Some(table) => Some(Content::PartitionTable(table.to_owned())),
        None if udev.properties.is_empty() => None,
        None => Some(unsigned(udev.get("ID_PART_ENTRY_TYPE"))),
    }
}

/// What is on the device at `device` now.
pub fn read(runner: &dyn Runner, device: &Path) -> Content {
    match read::open(device) {
        Ok(file) => read_open(runner, &file),
        Err(e) => Content::Unknown(format!("{}: {e}", device.shown())),
    }
}

/// A program's standard input, to be opened again; /dev/stdin is missing where no udev made it, and blkid says of what is
/// missing what it says of what is blank.
const OPEN_AS: &str = "/proc/self/fd/0";

/// What is on the device that `file` is open on: the very one, whatever its name leads to by now.
pub fn read_open(runner: &dyn Runner, file: &File) -> Content {
    match runner.run_on("blkid", &["-p", "-o", "export", OPEN_AS], file) {
        // It ends with 2 both where there is nothing and where it could not look.
        Ok(output) if output.status == Some(2) && !output.stderr.trim().is_empty() => {
            Content::Unknown(output.stderr.trim().to_owned())
        }
        Ok(output) => parse_blkid(output.status, &output.text()),
        Err(CommandError::Missing(program)) => Content::Unknown(format!("{program} is not installed")),
        Err(e) => Content::Unknown(e.to_string()),
    }
}

/// What `blkid -p -o export` says. Exit status 2: nothing found; 8: several contradicting signatures.
pub fn parse_blkid(status: Option<i32>, stdout: &str) -> Content {
    let get = |key: &str| {
        stdout
            .lines()
            .filter_map(|l| l.split_once('='))
            .find(|(k, v)| *k == key && !v.is_empty())
            .map(|(_, v)| unquote(v))
    };
    match status {
        Some(0) => match (get("TYPE"), get("PTTYPE")) {
            (Some(kind), _) => Content::Signature(Signature {
                kind,
                usage: get("USAGE"),
                label: get("LABEL"),
                uuid: get("UUID"),
                uuid_sub: get("UUID_SUB"),
            }),
            (None, Some(table)) => Content::PartitionTable(table),
            // Only PART_ENTRY_*: what the partition table says of it.
            (None, None) => unsigned(get("PART_ENTRY_TYPE").as_deref()),
        },
        Some(2) => Content::Nothing,
        Some(8) => Content::Signature(Signature {
            kind: "several contradicting signatures".to_owned(),
            usage: None,
            label: None,
            uuid: None,
            uuid_sub: None,
        }),
        Some(other) => Content::Unknown(format!("blkid ended with status {other}")),
        None => Content::Unknown("blkid was killed".to_owned()),
    }
}

/// Undoes the backslashes that `-o export` puts before characters that a shell would read.
fn unquote(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        plain.extend(if c == '\\' { characters.next() } else { Some(c) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(content: &Content) -> &str {
        match content {
            Content::Signature(s) => &s.kind,
            Content::PartitionTable(t) => t,
            Content::Nothing => "nothing",
            Content::Unknown(_) => "unknown",
        }
    }

    /// Outputs of blkid 2.38 on a guest with each of them.
    #[test]
    fn recorded_outputs() {
        let lvm = "DEVNAME=/dev/nvme2n1\nUUID=sOhl78-bDTe-6Xzk-GgsP-4VOq-WJod-X96J4Q\nVERSION=LVM2\\ 001\nTYPE=LVM2_member\nUSAGE=raid\n";
        let raid = "DEVNAME=/dev/nvme0n1\nUUID=2c489a92-8b07-e035-2ebf-d6583605bd0e\nUUID_SUB=e0ccdf42-e50d-36cc-071c-c37c1400841a\nLABEL=rec:0\nVERSION=1.2\nTYPE=linux_raid_member\nUSAGE=raid\n";
        let table = "DEVNAME=/dev/vdb\nPTUUID=06ce52e9\nPTTYPE=dos\n";
        let empty_partition =
            "DEVNAME=/dev/vdc1\nPART_ENTRY_SCHEME=dos\nPART_ENTRY_UUID=9baf95a3-01\nPART_ENTRY_TYPE=0x83\n";
        assert_eq!(kind(&parse_blkid(Some(0), lvm)), "LVM2_member");
        assert_eq!(kind(&parse_blkid(Some(0), table)), "dos");
        assert_eq!(parse_blkid(Some(0), empty_partition), Content::Nothing);
        let boot = "DEVNAME=/dev/vda14\nPART_ENTRY_SCHEME=gpt\nPART_ENTRY_TYPE=21686148-6449-6e6f-744e-656564454649\n";
        assert_eq!(kind(&parse_blkid(Some(0), boot)), "BIOS boot");
        assert_eq!(parse_blkid(Some(2), ""), Content::Nothing);
        assert_eq!(kind(&parse_blkid(Some(8), "")), "several contradicting signatures");
        assert_eq!(kind(&parse_blkid(Some(4), "")), "unknown");
        let Content::Signature(member) = parse_blkid(Some(0), raid) else { panic!("a signature") };
        assert_eq!((member.usage.as_deref(), member.label.as_deref()), (Some("raid"), Some("rec:0")));
    }

    #[test]
    fn a_device_that_cannot_be_opened_is_unknown() {
        let content = read(&crate::command::Real, Path::new("/dev/ebb-no-such-device"));
        assert_eq!(kind(&content), "unknown");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".*", status in 0..9) {
            let _ = parse_blkid(Some(status), &text);
            let udev = super::super::tables::udev(&text);
            let _ = (from_udev(&udev, None), from_udev(&udev, Some(&udev)));
        }
    }
}
