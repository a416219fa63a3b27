//! Device-mapper's tables as `dmsetup table` prints them: what each mapping does, and over which devices.
//!
//! ```text
//! vg0-data: 0 819200 striped 2 128 259:2 2048 254:48 2048
//! NAME      START LENGTH TARGET ARGUMENTS
//! ```
//!
//! Arguments by target: Linux Documentation/admin-guide/device-mapper.

use crate::command::{Never, Real, Runner};
use crate::sys::{DevNum, Sys};
use ebbtide_model::graph::Join;
use ebbtide_model::samples::Encryption;
use ebbtide_model::units::Bytes;
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// Every mapping of the host, asked for when first needed: only root may see them.
pub struct Tables<'a> {
    runner: &'a dyn Runner,
    asked: OnceCell<BTreeMap<String, Vec<Segment>>>,
}

/// A part of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    target: String,
    arguments: Vec<String>,
}

/// What a mapping is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// How its devices are put together.
    pub join: Join,
    /// Those that hold its data, in the table's order; without those that only describe it.
    pub devices: Vec<DevNum>,
    /// How many more there should be.
    pub missing: u32,
}

impl<'a> Tables<'a> {
    /// To be asked through `runner`.
    pub fn new(runner: &'a dyn Runner) -> Tables<'a> {
        Tables { runner, asked: OnceCell::new() }
    }

    /// To be asked on the host of `sys`: a copy of a host has no programs to ask, those of this host know nothing of it.
    pub fn of_host(sys: &Sys) -> Tables<'static> {
        Tables::new(if sys.is_host() { &Real } else { &Never })
    }

    /// The mapping of this name; nothing where it cannot be seen.
    pub fn of(&self, name: &str) -> Option<Mapping> {
        mapping(self.all().get(name)?)
    }

    /// How the mapping of this name encrypts; nothing where it does not, or cannot be seen.
    pub fn encryption(&self, name: &str) -> Option<Encryption> {
        self.all().get(name)?.iter().find_map(Segment::encryption)
    }

    fn all(&self) -> &BTreeMap<String, Vec<Segment>> {
        self.asked.get_or_init(|| {
            // Without --showkeys the keys of dm-crypt are left out.
            let asked = self.runner.run("dmsetup", &["table", "--manglename", "none"]);
            asked.map(|said| tables(&said.text())).unwrap_or_default()
        })
    }
}

fn tables(text: &str) -> BTreeMap<String, Vec<Segment>> {
    let mut tables: BTreeMap<String, Vec<Segment>> = BTreeMap::new();
    for line in text.lines() {
        // A name may contain anything, and the table's words contain no ": ".
        let Some((name, table)) = line.rsplit_once(": ") else { continue };
        let mut words = table.split_ascii_whitespace();
        let numbers = words.by_ref().take(2).filter(|word| word.parse::<u64>().is_ok()).count();
        let Some(target) = words.next().filter(|_| numbers == 2) else { continue };
        let arguments = words.map(str::to_owned).collect();
        tables.entry(name.to_owned()).or_default().push(Segment { target: target.to_owned(), arguments });
    }
    tables
}

/// Sectors of 512 bytes; 0 is none.
fn sectors(word: Option<&String>) -> Option<Bytes> {
    let sectors: u64 = word?.parse().ok()?;
    sectors.checked_mul(512).filter(|bytes| *bytes > 0).map(Bytes)
}

fn mapping(segments: &[Segment]) -> Option<Mapping> {
    let mut whole: Option<Mapping> = None;
    for segment in segments {
        let part = segment.mapping();
        let Some(whole) = &mut whole else {
            whole = Some(part);
            continue;
        };
        for device in part.devices {
            if !whole.devices.contains(&device) {
                whole.devices.push(device);
            }
        }
        whole.missing = whole.missing.max(part.missing);
        whole.join = match (whole.join, part.join) {
            (a, b) if a == b => a,
            (Join::Indirect, _) | (_, Join::Indirect) => Join::Indirect,
            // Parts of several kinds are one after the other.
            (a, b)
                if [a, b].iter().all(|j| matches!(j, Join::Through | Join::Linear | Join::Stripe { .. })) =>
            {
                Join::Linear
            }
            _ => Join::Other,
        };
    }
    let mut whole = whole?;
    if whole.join == Join::Linear && whole.devices.len() < 2 {
        whole.join = Join::Through;
    }
    Some(whole)
}

impl Segment {
    fn mapping(&self) -> Mapping {
        let arguments = &self.arguments;
        // Devices are written as numbers, and nothing else is.
        let mut devices: Vec<DevNum> = Vec::new();
        for device in arguments.iter().skip(self.not_data()).filter_map(|word| word.parse().ok()) {
            if !devices.contains(&device) {
                devices.push(device);
            }
        }
        let mut missing = 0;
        let join = match self.target.as_str() {
            "linear" => Join::Linear,
            "crypt" | "delay" | "flakey" | "dust" | "verity" | "error" | "zero" => Join::Through,
            "striped" => Join::Stripe { chunk: sectors(arguments.get(1)) },
            "raid" => {
                // Pairs of a device for metadata and one for data; a dash where there is none.
                let count = self.raid_devices();
                let pairs = arguments.get(arguments.len().saturating_sub(2 * count)..).unwrap_or_default();
                devices = pairs.iter().skip(1).step_by(2).filter_map(|word| word.parse().ok()).collect();
                missing = count.saturating_sub(devices.len()) as u32;
                self.raid(count as u32)
            }
            "mirror" => Join::Mirror { copies: devices.len() as u32 },
            "multipath" => Join::Paths,
            "cache" | "writecache" => Join::Cache,
            "thin" | "thin-pool" | "snapshot" | "snapshot-origin" | "snapshot-merge" | "vdo" | "zoned"
            | "clone" | "integrity" => Join::Indirect,
            _ => Join::Other,
        };
        Mapping { join, devices, missing }
    }

    /// `crypt CIPHER KEY IV DEVICE OFFSET [#OPTIONS OPTIONS...]`
    fn encryption(&self) -> Option<Encryption> {
        let arguments = Some(&self.arguments).filter(|_| self.target == "crypt")?;
        let (sizes, options): (Vec<&String>, Vec<&String>) =
            arguments.iter().skip(6).partition(|word| word.starts_with("sector_size:"));
        let sector = sizes.first().and_then(|size| size.strip_prefix("sector_size:")?.parse().ok());
        Some(Encryption {
            cipher: arguments.first().cloned(),
            // 512 bytes unless it says otherwise.
            sector: Some(Bytes(sector.unwrap_or(512))),
            options: options.into_iter().cloned().collect(),
            aes_instructions: None,
        })
    }

    /// Arguments at the beginning that name devices which hold no data.
    fn not_data(&self) -> usize {
        match self.target.as_str() {
            // Metadata first.
            "thin-pool" | "cache" => 1,
            // `mirror LOG #ARGUMENTS ARGUMENTS... #DEVICES DEVICE OFFSET...`
            "mirror" => {
                self.arguments.get(1).and_then(|n| n.parse::<usize>().ok()).unwrap_or(0).saturating_add(2)
            }
            _ => 0,
        }
    }

    /// `raid TYPE #PARAMETERS PARAMETERS... #DEVICES DEVICES...`
    fn raid_devices(&self) -> usize {
        let parameters: usize = self.arguments.get(1).and_then(|n| n.parse().ok()).unwrap_or(0);
        let at = parameters.saturating_add(2);
        self.arguments.get(at).and_then(|n| n.parse().ok()).unwrap_or(0).min(self.arguments.len() / 2)
    }

    fn raid(&self, of: u32) -> Join {
        let chunk = sectors(self.arguments.get(2));
        let parameter = |name: &str| {
            let at = self.arguments.iter().position(|word| word == name)?;
            self.arguments.get(at + 1)?.parse::<u32>().ok()
        };
        match self.arguments.first().map_or("", String::as_str) {
            "raid0" => Join::Stripe { chunk },
            "raid1" => Join::Mirror { copies: of },
            kind if kind.starts_with("raid10") => {
                Join::StripedMirror { copies: parameter("raid10_copies").unwrap_or(2), chunk }
            }
            kind if kind.starts_with("raid4") || kind.starts_with("raid5") => {
                Join::Parity { parity: 1, of, chunk }
            }
            kind if kind.starts_with("raid6") => Join::Parity { parity: 2, of, chunk },
            _ => Join::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `dmsetup table` of a guest with Linux 6.1 and LVM 2.03.16.
    const RECORDED: &str = include_str!("../../tests/trees/stacks.dmsetup");

    fn of(name: &str, text: &str) -> (Join, String) {
        let tables = tables(text);
        let found = mapping(tables.get(name).expect("it is in the table")).expect("a mapping");
        let devices: Vec<String> = found.devices.iter().map(DevNum::to_string).collect();
        (found.join, devices.join(" "))
    }

    #[test]
    fn every_kind_of_mapping_and_the_devices_of_its_data() {
        let chunk = Some(Bytes(64 * Bytes::KIB));
        for (name, join, devices) in [
            ("vg-one", Join::Through, "254:0"),
            ("vg-linear", Join::Linear, "254:0 254:16"),
            ("vg-striped", Join::Stripe { chunk }, "254:0 254:16 254:32 254:48"),
            ("vg-r1", Join::Mirror { copies: 2 }, "253:4 253:6"),
            ("vg-r5", Join::Parity { parity: 1, of: 4, chunk }, "253:9 253:11 253:13 253:15"),
            ("vg-r10", Join::StripedMirror { copies: 2, chunk }, "253:18 253:20 253:22 253:24"),
            ("vg-mir", Join::Mirror { copies: 2 }, "253:27 253:28"),
            ("vg-thin", Join::Indirect, "253:32"),
            ("vg-pool-tpool", Join::Indirect, "253:31"),
            ("vg-orig", Join::Indirect, "253:36"),
            ("vg-snap", Join::Indirect, "253:36 253:37"),
            ("secret", Join::Through, "9:10"),
        ] {
            assert_eq!(of(name, RECORDED), (join, devices.to_owned()), "{name}");
        }
    }

    /// Made up after the kernel's documentation.
    #[test]
    fn mappings_that_were_not_recorded() {
        let text = "fast: 0 8192 cache 253:1 253:2 8:16 512 1 writeback smq 0\n\
                    late: 0 8192 writecache s 8:16 253:4 4096 0\n\
                    ways: 0 8192 multipath 0 0 2 1 service-time 0 1 2 8:16 1 1 service-time 0 1 2 8:32 1 1\n\
                    hurt: 0 8192 raid raid1 3 0 region_size 4096 2 253:3 253:4 - -\n\
                    odd: name: 0 8192 linear 8:16 0\nodd: name: 8192 8192 striped 2 128 8:32 0 8:48 0\n\
                    mixed: 0 8192 linear 8:16 0\nmixed: 8192 8192 snapshot 8:32 8:48 P 8\n\
                    other: 0 8192 era 8:1 8:2 128\n";
        for (name, join, devices) in [
            ("fast", Join::Cache, "253:2 8:16"),
            ("late", Join::Cache, "8:16 253:4"),
            ("ways", Join::Paths, "8:16 8:32"),
            ("hurt", Join::Mirror { copies: 2 }, "253:4"),
            ("odd: name", Join::Linear, "8:16 8:32 8:48"),
            ("mixed", Join::Indirect, "8:16 8:32 8:48"),
            ("other", Join::Other, "8:1 8:2"),
        ] {
            assert_eq!(of(name, text), (join, devices.to_owned()), "{name}");
        }
        let hurt = tables(text);
        assert_eq!(mapping(&hurt["hurt"]).map(|mapping| mapping.missing), Some(1));
    }

    #[test]
    fn how_a_mapping_encrypts() {
        let of = |text: &str| tables(text).values().flatten().find_map(Segment::encryption);
        let recorded = of(RECORDED).expect("one of them encrypts");
        assert_eq!(recorded.cipher.as_deref(), Some("aes-xts-plain64"));
        assert_eq!((recorded.sector, recorded.options.len()), (Some(Bytes(512)), 0));
        // After the documentation of dm-crypt.
        let tuned = of(
            "a: 0 8192 crypt capi:xts(aes)-plain64 :64:logon:k 0 8:0 0 3 allow_discards no_read_workqueue sector_size:4096",
        );
        let tuned = tuned.expect("it encrypts");
        assert_eq!(
            (tuned.sector, tuned.options),
            (Some(Bytes(4096)), vec!["allow_discards".into(), "no_read_workqueue".into()])
        );
        assert_eq!(of("a: 0 8192 linear 8:0 0"), None);
    }

    #[test]
    fn what_is_no_table_is_left_out() {
        assert!(tables("No devices found\n\na: b c linear 8:0 0\nx: 0 8\n").is_empty());
        assert_eq!(mapping(&[]), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(?s)([a-z]{1,3}: |[0-9]{1,3} |raid |raid5_ls |striped |8:[0-9] |- |\n|.){0,40}") {
            for segments in tables(&text).values() {
                let _ = (mapping(segments), segments.iter().find_map(Segment::encryption));
            }
        }
    }
}
