//! Where the kernel's files are, and how they are read.

pub mod md;
pub mod process;

use ebbtide_door::read;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The roots below which the kernel and udev publish what they know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sys {
    /// procfs, `/proc`.
    pub proc: PathBuf,
    /// sysfs, `/sys`.
    pub sys: PathBuf,
    /// Device nodes, `/dev`.
    pub dev: PathBuf,
    /// Run-time data, `/run` (udev's database is in `/run/udev/data`).
    pub run: PathBuf,
}

impl Sys {
    /// File trees of this host.
    pub fn host() -> Sys {
        Sys::below(Path::new("/"))
    }

    /// The host whose root is mounted, or whose files are recorded, at `root`.
    pub fn below(root: &Path) -> Sys {
        Sys { proc: root.join("proc"), sys: root.join("sys"), dev: root.join("dev"), run: root.join("run") }
    }

    /// The host's root directory.
    pub fn root(&self) -> &Path {
        self.dev.parent().unwrap_or(Path::new("/"))
    }

    /// An absolute path on the host.
    pub fn at(&self, path: &Path) -> PathBuf {
        self.root().join(path.strip_prefix("/").unwrap_or(path))
    }

    /// What tells this boot of the host from others, where it says.
    pub fn boot(&self) -> Option<String> {
        word(&self.proc.join("sys/kernel/random/boot_id"))
    }

    /// Whether this is the running host itself and not a copy.
    pub fn is_host(&self) -> bool {
        *self == Sys::host()
    }
}

/// Longest file of the kernel's or udev's that is read: a mount table of ten thousand mounts has a few megabytes.
pub(crate) const LONGEST: u64 = 64 << 20;

/// The content of a small file without white space at its end; nothing when it is absent, no regular file, unreadable, too
/// long or not text.
pub fn text(path: &Path) -> Option<String> {
    let mut text = read::text(path, LONGEST).ok()?;
    text.truncate(text.trim_end().len());
    Some(text)
}

/// The first `most` bytes of the device or file `path`, as many as there are; nothing where it cannot be read.
pub fn beginning(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    read::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The content of a file as a number, surrounding white space allowed.
pub fn number<T: FromStr>(path: &Path) -> Option<T> {
    text(path)?.trim().parse().ok()
}

/// Non-empty text of a file, without surrounding white space.
pub fn word(path: &Path) -> Option<String> {
    text(path).map(|t| t.trim().to_owned()).filter(|t| !t.is_empty())
}

/// What stands behind `key` on the first line of `text` that begins with it, as in most of the kernel's tables.
pub fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// The value of the first of `keys` in a table of lines like `flags : fpu sse4_2`, as /proc/cpuinfo is.
pub fn value<'a>(text: &'a str, keys: &[&str]) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| keys.contains(&key.trim())).map(|(_, value)| value.trim())
}

/// [`field`] in bytes, of a line like `MemTotal: 1000 kB`.
pub fn field_in_kib(text: &str, key: &str) -> Option<u64> {
    field(text, key)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Names in a directory, sorted so that `sda2` comes before `sda10`; empty when there is no such directory.
pub fn names(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort_by(|a, b| natural_order(a, b));
    names
}

/// Those that are numbers, as of processes and threads in /proc, in no order.
pub fn numbers(directory: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The queue directory of the device at `place` in sysfs: a partition has none of its own but its disk's.
pub fn queue(place: &Path) -> Option<PathBuf> {
    [place.join("queue"), place.join("../queue")].into_iter().find(|queue| queue.is_dir())
}

/// The word in brackets of a list like `none [mq-deadline] kyber`.
pub fn chosen(list: &str) -> Option<&str> {
    let (_, rest) = list.split_once('[')?;
    rest.split_once(']').map(|(chosen, _)| chosen.trim())
}

/// Order in which people count: runs of digits compare as numbers.
pub fn natural_order(a: &str, b: &str) -> std::cmp::Ordering {
    fn pieces(text: &str) -> impl Iterator<Item = (bool, &str)> {
        text.split_inclusive(|c: char| !c.is_ascii_digit()).flat_map(|part| {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            [(true, &part[..digits]), (false, &part[digits..])].into_iter().filter(|(_, t)| !t.is_empty())
        })
    }
    pieces(a)
        .map(|(digits, text)| Piece::new(digits, text))
        .cmp(pieces(b).map(|(digits, text)| Piece::new(digits, text)))
        .then_with(|| a.cmp(b))
}

/// A run of digits by value, or one other character.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Piece<'a> {
    Number(usize, &'a str),
    Text(&'a str),
}

impl<'a> Piece<'a> {
    fn new(digits: bool, text: &'a str) -> Piece<'a> {
        if digits {
            let value = text.trim_start_matches('0');
            Piece::Number(value.len(), value)
        } else {
            Piece::Text(text)
        }
    }
}

/// Device number, major and minor, as in /proc and /sys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DevNum {
    /// Major number: the driver.
    pub major: u32,
    /// Minor number: the device or partition.
    pub minor: u32,
}

impl DevNum {
    /// From the number as `stat` returns it.
    pub fn from_raw(raw: u64) -> DevNum {
        DevNum { major: rustix::fs::major(raw), minor: rustix::fs::minor(raw) }
    }
}

impl fmt::Display for DevNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl FromStr for DevNum {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.trim().split_once(':').ok_or(())?;
        Ok(DevNum { major: major.parse().map_err(drop)?, minor: minor.parse().map_err(drop)? })
    }
}

impl serde::Serialize for DevNum {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_count_devices_by_number() {
        let mut names = ["sda10", "nvme10n1", "sda", "sda2", "nvme9n1", "md0", "nvme1n1p12", "nvme1n1p2"];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, ["md0", "nvme1n1p2", "nvme1n1p12", "nvme9n1", "nvme10n1", "sda", "sda2", "sda10"]);
    }

    #[test]
    fn device_numbers_print_as_they_parse() {
        assert_eq!("259:4\n".parse(), Ok(DevNum { major: 259, minor: 4 }));
        assert_eq!(DevNum { major: 259, minor: 4 }.to_string(), "259:4");
        for bad in ["", "8", "8:", ":1", "8:x", "8:1:2"] {
            assert!(bad.parse::<DevNum>().is_err(), "{bad}");
        }
    }
}
