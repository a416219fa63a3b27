//! The kernel's tables, fstab, and udev's database. Their parsers are pure; lines they do not know are left out.

use crate::sys::{self, DevNum, Sys};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One mount of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The kernel's number of this mount.
    #[serde(skip)]
    pub id: u64,
    /// The mount that it is mounted on.
    #[serde(skip)]
    pub parent: u64,
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
    let mut place = place.split(' ');
    let (id, parent) = (place.next()?.parse().ok()?, place.next()?.parse().ok()?);
    let dev = place.next()?.parse().ok()?;
    let (root, mountpoint, mount_options) = (place.next()?, place.next()?, place.next()?);
    let mut kind = kind.split(' ');
    let (fstype, source) = (kind.next()?, kind.next()?);
    let options = match kind.next() {
        Some(more) => format!("{mount_options},{more}"),
        None => mount_options.to_owned(),
    };
    Some(Mount {
        id,
        parent,
        dev,
        root: unescape(root),
        mountpoint: unescape(mountpoint),
        fstype: fstype.to_owned(),
        source: unescape(source),
        options,
    })
}

/// The mount in which a look-up of `path`, which is without symbolic links, ends: others below may be covered by it.
pub fn seen_at<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let mut at: Option<&Mount> = None;
    // Every step goes to another mount.
    for _ in mounts {
        let begins = at.map_or("/", |at| at.mountpoint.as_str());
        let is_on = |mount: &&Mount| match at {
            Some(at) => mount.parent == at.id && mount.id != at.id,
            // What the first of all stands on is in no table.
            None => !mounts.iter().any(|below| below.id == mount.parent && mount.parent != mount.id),
        };
        let next = mounts
            .iter()
            .filter(is_on)
            .filter(|mount| {
                path.starts_with(&mount.mountpoint) && Path::new(&mount.mountpoint).starts_with(begins)
            })
            .rev()
            .min_by_key(|mount| Path::new(&mount.mountpoint).components().count());
        match next {
            Some(next) => at = Some(next),
            None => break,
        }
    }
    at
}

/// One line of `/etc/fstab`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FstabLine {
    /// Its number in the file, from 1.
    pub number: usize,
    /// What is mounted: a device, `UUID=...`, `LABEL=...`, or what its file system calls it.
    pub source: String,
    /// Where, with the table's escapes undone.
    pub mountpoint: String,
    /// How, comma-separated.
    pub options: String,
}

/// Parses fstab(5): what is mounted somewhere.
pub fn fstab(text: &str) -> Vec<FstabLine> {
    let line = |(index, line): (usize, &str)| {
        let mut words = line.split_ascii_whitespace().map(unescape);
        let source = words.next().filter(|source| !source.starts_with('#'))?;
        let mountpoint = words.next().filter(|place| place.starts_with('/'))?;
        let options = words.nth(1).unwrap_or_default();
        Some(FstabLine { number: index + 1, source, mountpoint, options })
    };
    text.lines().enumerate().filter_map(line).collect()
}

/// One line of `/proc/swaps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Swap {
    /// The device or file.
    pub path: String,
    /// Bytes of swap in all.
    #[serde(skip)]
    pub size_bytes: u64,
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
            let [size_bytes, used_bytes] = [words.nth(1)?, words.next()?]
                .map(|kib| kib.parse().ok().map(|kib: u64| kib.saturating_mul(1024)));
            Some(Swap { path, size_bytes: size_bytes?, used_bytes: used_bytes? })
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
    fn what_is_seen_at_a_path_is_on_top_of_what_is_below_it() {
        let text = "20 1 254:0 / / rw - ext4 /dev/vda rw\n\
                    30 20 254:1 / /srv rw - ext4 /dev/vdb rw\n\
                    31 30 254:2 / /srv/data rw - ext4 /dev/vdc rw\n\
                    32 20 254:3 / /mnt rw - ext4 /dev/vdd rw\n\
                    33 32 254:4 / /mnt rw - xfs /dev/vde rw\n\
                    34 32 254:5 / /mnt/below rw - xfs /dev/vdf rw\n\
                    35 31 254:6 / /srv/data/a rw - xfs /dev/vdg rw\n";
        let of = |text: &str, path: &str| {
            seen_at(&mountinfo(text), Path::new(path)).map(|mount| mount.source.clone()).unwrap_or_default()
        };
        for (path, source) in [
            ("/", "/dev/vda"),
            ("/etc", "/dev/vda"),
            ("/srv", "/dev/vdb"),
            ("/srv/database", "/dev/vdb"),
            ("/srv/data", "/dev/vdc"),
            ("/srv/data/a/b", "/dev/vdg"),
            ("/mnt", "/dev/vde"),
            ("/mnt/below", "/dev/vde"),
        ] {
            assert_eq!(of(text, path), source, "{path}");
        }
        let covered = format!("{text}40 20 254:7 / /srv rw - xfs /dev/vdh rw\n");
        assert_eq!(of(&covered, "/srv/data"), "/dev/vdh", "the last of two on one place");
        assert_eq!(of("", "/srv"), "");
        // Numbers that make a ring end the walk, too.
        let ring =
            "1 2 254:0 / / rw - ext4 a rw\n2 1 254:0 / / rw - ext4 b rw\n3 3 254:0 / / rw - ext4 c rw\n";
        assert_eq!(of(ring, "/srv"), "c");
    }

    #[test]
    fn fstab_is_read_with_its_escapes_and_without_its_comments() {
        let text = "# /dev/sda1 / ext4\n\nUUID=1 / ext4 defaults 0 1\n/dev/sdb\t/my\\040data\\011x xfs noauto,nofail\nUUID=2 none swap sw 0 0\nx\n";
        let lines = fstab(text);
        let read: Vec<(usize, &str, &str, &str)> = lines
            .iter()
            .map(|line| (line.number, line.source.as_str(), line.mountpoint.as_str(), line.options.as_str()))
            .collect();
        assert_eq!(read, [(3, "UUID=1", "/", "defaults"), (4, "/dev/sdb", "/my data\tx", "noauto,nofail")]);
    }

    #[test]
    fn swaps_in_use() {
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/vdc1                               partition\t204796\t\t12\t\t-2\n";
        assert_eq!(
            swaps(text),
            [Swap { path: "/dev/vdc1".into(), size_bytes: 204_796 * 1024, used_bytes: 12 * 1024 }]
        );
    }

    #[test]
    fn escapes() {
        assert_eq!(unescape("a\\040b\\134\\0x\\777"), "a b\\\\0x\\777");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (mountinfo(&text), swaps(&text), udev(&text), unescape(&text), fstab(&text));
        }
    }
}
