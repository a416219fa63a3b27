//! The kernel's tables: mountinfo, swaps, and udev's database. Their parsers are pure; lines they do not know are left out.

use crate::sys::{self, DevNum, Sys};
use serde::Serialize;
use std::collections::BTreeMap;

/// One mount of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// Device number of the file system; major 0 for file systems without a device of their own.
    pub dev: DevNum,
    /// Which directory of the file system is mounted; `/` for all of it.
    pub root: String,
    /// Where it is mounted, with the table's escapes undone.
    pub mountpoint: String,
    /// Type of the file system, as the kernel calls it.
    pub fstype: String,
    /// What is mounted, for example `/dev/md0`.
    pub source: String,
    /// Options of the mount and of the file system, comma-separated.
    pub options: String,
}

impl Mount {
    /// Whether `option` (without a value) is among the options.
    pub fn has_option(&self, option: &str) -> bool {
        self.options.split(',').any(|o| o == option)
    }
}

/// What is mounted on the host of `sys`; nothing where that cannot be read.
pub fn mounts_of(sys: &Sys) -> Vec<Mount> {
    mountinfo(&sys::text(&sys.proc.join("self/mountinfo")).unwrap_or_default())
}

/// Parses `/proc/self/mountinfo`.
pub fn mountinfo(text: &str) -> Vec<Mount> {
    text.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(2);
    let dev = place.next()?.parse().ok()?;
    let (root, mountpoint, mount_options) = (place.next()?, place.next()?, place.next()?);
    let mut kind = kind.split(' ');
    let (fstype, source) = (kind.next()?, kind.next()?);
    let options = match kind.next() {
        Some(more) => format!("{mount_options},{more}"),
        None => mount_options.to_owned(),
    };
    Some(Mount {
        dev,
        root: unescape(root),
        mountpoint: unescape(mountpoint),
        fstype: fstype.to_owned(),
        source: unescape(source),
        options,
    })
}

/// One line of `/proc/swaps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Swap {
    /// The device or file.
    pub path: String,
    /// Bytes of swap in use.
    pub used_bytes: u64,
}

/// The swap areas in use on the host of `sys`; nothing where that cannot be read.
pub fn swaps_of(sys: &Sys) -> Vec<Swap> {
    swaps(&sys::text(&sys.proc.join("swaps")).unwrap_or_default())
}

/// Parses `/proc/swaps`.
pub fn swaps(text: &str) -> Vec<Swap> {
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let path = unescape(words.next()?);
            let used_kib: u64 = words.nth(2)?.parse().ok()?;
            Some(Swap { path, used_bytes: used_kib.saturating_mul(1024) })
        })
        .collect()
}

/// Properties of one device in udev's database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Udev {
    /// `E:` lines.
    pub properties: BTreeMap<String, String>,
    /// `S:` lines: links below /dev.
    pub links: Vec<String>,
}

impl Udev {
    /// A property that is set and not empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.properties.get(key).map(String::as_str).filter(|v| !v.is_empty())
    }
}

/// Parses one file of `/run/udev/data`.
pub fn udev(text: &str) -> Udev {
    let mut found = Udev::default();
    for line in text.lines() {
        match line.split_once(':') {
            Some(("E", property)) => {
                if let Some((key, value)) = property.split_once('=') {
                    found.properties.insert(key.to_owned(), value.to_owned());
                }
            }
            Some(("S", link)) => found.links.push(link.to_owned()),
            _ => {}
        }
    }
    found
}

/// Undoes the kernel's `\ooo` (three octal digits) in paths.
pub fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let digits = bytes
            .get(at + 1..at + 4)
            .filter(|d| byte == b'\\' && d.iter().all(|c| (b'0'..=b'7').contains(c)));
        let value = digits.map(|d| d.iter().fold(0u32, |v, c| v * 8 + u32::from(c - b'0')));
        match value.and_then(|v| u8::try_from(v).ok()) {
            Some(value) => {
                plain.push(value);
                at += 4;
            }
            None => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_with_spaces_and_optional_fields() {
        let text = "36 35 98:0 /mnt1 /mnt\\040two rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue\n\
                    27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\nnot a mount\n40 1 0:44 / /x rw - overlay overlay\n";
        let mounts = mountinfo(text);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].mountpoint, "/mnt two");
        assert_eq!((mounts[0].fstype.as_str(), mounts[0].source.as_str()), ("ext3", "/dev/root"));
        assert!(mounts[0].has_option("noatime") && mounts[0].has_option("errors=continue"));
        assert_eq!(mounts[1].dev, DevNum { major: 254, minor: 0 });
        assert_eq!(mounts[2].options, "rw");
    }

    #[test]
    fn swaps_in_use() {
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/vdc1                               partition\t204796\t\t12\t\t-2\n";
        assert_eq!(swaps(text), [Swap { path: "/dev/vdc1".into(), used_bytes: 12 * 1024 }]);
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape("a\\040b\\134\\0x\\777"), "a b\\\\0x\\777");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (mountinfo(&text), swaps(&text), udev(&text), unescape(&text));
        }
    }
}
