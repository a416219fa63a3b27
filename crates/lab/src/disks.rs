//! A guest's disks: sparse files behind QEMU's throttle.
//!
//! QEMU's throttle is a leaky bucket for operations and one for bytes (docs/throttle.txt, util/throttle.c): it
//! leaks at the sustained rate and holds `max * max-length`, so that a burst of `max` per second lasts
//! `max * max-length / (max - rate)` seconds. A limit with burst credits C lasts `C / (burst - rate)` seconds:
//! the same when `max-length` is `C / burst`, to whole seconds, which is all that QEMU takes.
//!
//! A bucket is an object of its own (a throttle group), and a disk passes through as many as it has filters:
//! that of both directions, that of each direction, and that of the link which it shares with others. (A group has
//! limits of both directions or of each, never both.)

use super::LabError;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::volume::{Character, Limit, LinkShape, OneWay, Shape};
use serde_json::{Map, Value, json};

/// Most bytes of a disk's serial that the guest sees (virtio-blk).
const SERIAL_BYTES_MAX: usize = 20;

/// Sizes are multiples of it, as those of volumes in experiment files.
const BLOCK: u64 = 4096;

/// Most disks of one guest: QEMU's q35 board has 32 slots, some of them taken.
pub const DISKS_MAX: usize = 24;

/// QEMU takes rates up to this (`THROTTLE_VALUE_MAX`).
const RATE_MAX: f64 = 1e15;

/// A virtio disk of QEMU's. A write for which the host has no room fails in the guest: by default QEMU would have the guest stand still, and
/// whoever waits for it with it.
pub(super) const VIRTIO: &str = "virtio-blk-pci,werror=report";

/// What a disk is to its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bus {
    /// /dev/vda, /dev/vdb...
    #[default]
    Virtio,
    /// An NVMe drive with a controller of its own: /dev/nvme0n1, /dev/nvme1n1...
    Nvme,
}

/// A disk of a guest.
#[derive(Debug, Clone, PartialEq)]
pub struct Disk {
    /// Its serial: in the guest it is [`device`](Self::device).
    pub name: String,
    /// How the guest's kernel sees it.
    pub bus: Bus,
    /// Size in bytes, a multiple of 4096: what O_DIRECT takes on any disk of the host.
    pub size: u64,
    /// Limits; absent: as fast as emulation goes.
    pub throttle: Throttle,
    /// Index of the machine's link that it shares with others.
    pub link: Option<usize>,
}

/// Limits of a disk or of a link.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Throttle {
    /// Operations per second.
    pub iops: Option<Limit>,
    /// Bytes per second.
    pub throughput: Option<Limit>,
    /// Limits of each direction beside those of both.
    pub one_way: PerOp<OneWay>,
    /// An operation of more bytes counts as several.
    pub io_unit: Option<u64>,
}

impl Throttle {
    /// The limits of a volume's shape. Its latencies, costs, caches, moods and failures are nothing that QEMU
    /// can do: see [`beyond_qemu`].
    pub fn of(shape: &Shape) -> Self {
        Throttle {
            iops: shape.iops,
            throughput: shape.throughput,
            one_way: shape.character.one_way,
            io_unit: shape.io_unit.map(|bytes| bytes.0),
        }
    }

    /// The limits of a link.
    pub fn of_link(link: &LinkShape) -> Self {
        Throttle { iops: link.iops, throughput: link.throughput, one_way: link.one_way, io_unit: None }
    }

    /// QEMU's throttle groups for it, their names beginning with `name`: name and `-object` argument of each.
    fn groups(&self, name: &str) -> Vec<(String, String)> {
        let ways = &self.one_way;
        let each = [
            (ways.read.iops, "iops-read"),
            (ways.read.throughput, "bps-read"),
            (ways.write.iops, "iops-write"),
            (ways.write.throughput, "bps-write"),
        ];
        let kinds = [
            ("both", limits(&[(self.iops, "iops-total"), (self.throughput, "bps-total")], self.io_unit)),
            ("each", limits(&each, self.io_unit)),
        ];
        kinds
            .into_iter()
            .filter(|(_, limits)| !limits.is_empty())
            .map(|(kind, limits)| {
                let id = format!("{name}-{kind}");
                let group = json!({ "qom-type": "throttle-group", "id": id, "limits": limits });
                (id, group.to_string())
            })
            .collect()
    }
}

/// Limits as a throttle group has them.
fn limits(of: &[(Option<Limit>, &str)], io_unit: Option<u64>) -> Map<String, Value> {
    let mut limits = Map::new();
    // At most 10^15, which is whole in both.
    let mut add = |key: String, value: f64| limits.insert(key, Value::from(value as u64));
    for (limit, key) in of {
        let Some(limit) = limit else { continue };
        let rate = limit.rate.round().clamp(1.0, RATE_MAX);
        add((*key).to_owned(), rate);
        if let Some(burst) = limit.burst_rate.map(f64::round).filter(|burst| *burst > rate) {
            let seconds = (limit.burst_credits / burst).round().max(1.0);
            let most = (RATE_MAX / burst).floor().max(1.0);
            add(format!("{key}-max"), burst);
            add(format!("{key}-max-length"), seconds.min(most));
        }
    }
    let counts_operations = of.iter().any(|(limit, key)| limit.is_some() && key.starts_with("iops"));
    if let (Some(unit), true) = (io_unit, counts_operations) {
        add("iops-size".to_owned(), unit as f64);
    }
    limits
}

/// What a shape asks for that a guest's disk does not have, in words.
pub fn beyond_qemu(shape: &Shape) -> Vec<&'static str> {
    let done = within_qemu(shape);
    let (asked, done_of) = (&shape.character, &done.character);
    let mut beyond = Vec::new();
    if (shape.read_latency, shape.write_latency) != (done.read_latency, done.write_latency) {
        beyond.push("latency");
    }
    if asked.costs != done_of.costs {
        beyond.push("costs");
    }
    if (Character { costs: None, ..asked.clone() }) != *done_of {
        beyond.push("character (moods, caches, first touch, failures)");
    }
    beyond
}

/// The part of a shape that a guest's disk has: its limits and its link.
pub fn within_qemu(shape: &Shape) -> Shape {
    Shape {
        iops: shape.iops,
        throughput: shape.throughput,
        io_unit: shape.io_unit,
        link: shape.link,
        character: Character { one_way: shape.character.one_way, ..Character::default() },
        ..Shape::default()
    }
}

/// QEMU's arguments for the links of a machine, which come before its disks.
pub(super) fn link_arguments(links: &[Throttle]) -> Vec<String> {
    let groups = links.iter().enumerate().flat_map(|(index, link)| link.groups(&format!("link{index}")));
    groups.flat_map(|(_, group)| ["-object".to_owned(), group]).collect()
}

impl Disk {
    /// A virtio disk without limits.
    pub fn plain(name: &str, size: u64) -> Disk {
        Disk { name: name.to_owned(), bus: Bus::Virtio, size, throttle: Throttle::default(), link: None }
    }

    /// Checks what QEMU would refuse later or, worse, change silently.
    ///
    /// # Errors
    /// With what to write instead.
    pub fn check(&self) -> Result<(), LabError> {
        let fail = |why: String| Err(LabError::Disk { name: self.name.clone(), why });
        let fine = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || self.name.len() > SERIAL_BYTES_MAX || !self.name.chars().all(fine) {
            return fail(format!("write a name of 1 to {SERIAL_BYTES_MAX} letters, digits, - _ or ."));
        }
        if self.size == 0 || !self.size.is_multiple_of(BLOCK) {
            return fail(format!("a size of {} bytes is not a multiple of 4KiB above 0", self.size));
        }
        Ok(())
    }

    /// The disk's file in the guest's directory.
    pub fn file(&self) -> String {
        format!("{}.disk", self.name)
    }

    /// Where the guest has it.
    pub fn device(&self) -> String {
        match self.bus {
            Bus::Virtio => format!("/dev/disk/by-id/virtio-{}", self.name),
            Bus::Nvme => format!("/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_{}", self.name),
        }
    }

    /// QEMU's arguments for it: its file, past the host's page cache where that can be, a filter for each of its throttle groups and its link's,
    /// the device.
    pub(super) fn arguments(&self, index: usize, direct: bool, links: &[Throttle]) -> Vec<String> {
        let how = match direct {
            true => ["cache.direct=on", "file.cache.direct=on,file.aio=native"],
            false => ["cache.direct=off", "file.cache.direct=off,file.aio=threads"],
        };
        let mut node = format!("disk{index}");
        let mut all = vec![
            "-blockdev".to_owned(),
            format!(
                "driver=raw,node-name={node},discard=unmap,{},file.driver=file,file.filename={},file.discard=unmap,{}",
                how[0],
                self.file(),
                how[1]
            ),
        ];
        let own = self.throttle.groups(&format!("limit{index}"));
        for (_, group) in &own {
            all.extend(["-object".to_owned(), group.clone()]);
        }
        let link = self.link.and_then(|link| Some((link, links.get(link)?)));
        let shared = link.map_or_else(Vec::new, |(number, link)| link.groups(&format!("link{number}")));
        for (number, (group, _)) in own.into_iter().chain(shared).enumerate() {
            let filter = format!("disk{index}-filter{number}");
            all.extend([
                "-blockdev".to_owned(),
                format!("driver=throttle,node-name={filter},throttle-group={group},file={node}"),
            ]);
            node = filter;
        }
        let device = match self.bus {
            Bus::Virtio => VIRTIO,
            Bus::Nvme => "nvme",
        };
        all.extend(["-device".to_owned(), format!("{device},drive={node},serial={}", self.name)]);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::units::{Bytes, Nanos};
    use ebbtide_model::volume::Latency;

    fn disk(throttle: Throttle, link: Option<usize>) -> Disk {
        Disk { name: "vol0".to_owned(), bus: Bus::Virtio, size: 1 << 30, throttle, link }
    }

    #[test]
    fn a_shape_becomes_a_throttle() {
        // gp2 of 100 GiB: 300 IOPS, bursts to 3000 with 5.4 million credits.
        let shape = Shape {
            iops: Some(Limit { rate: 300.0, burst_rate: Some(3000.0), burst_credits: 5.4e6 }),
            throughput: Some(Limit::steady(128e6)),
            io_unit: Some(Bytes(256 << 10)),
            ..Shape::default()
        };
        let arguments = disk(Throttle::of(&shape), None).arguments(3, true, &[]);
        assert_eq!(
            arguments,
            [
                "-blockdev",
                "driver=raw,node-name=disk3,discard=unmap,cache.direct=on,file.driver=file,file.filename=vol0.disk,\
                 file.discard=unmap,file.cache.direct=on,file.aio=native",
                "-object",
                "{\"id\":\"limit3-both\",\"limits\":{\"bps-total\":128000000,\"iops-size\":262144,\"iops-total\":300,\
                 \"iops-total-max\":3000,\"iops-total-max-length\":1800},\"qom-type\":\"throttle-group\"}",
                "-blockdev",
                "driver=throttle,node-name=disk3-filter0,throttle-group=limit3-both,file=disk3",
                "-device",
                "virtio-blk-pci,werror=report,drive=disk3-filter0,serial=vol0",
            ]
        );
        let nvme = Disk { bus: Bus::Nvme, ..disk(Throttle::default(), None) };
        assert_eq!(
            nvme.arguments(0, true, &[]).last().map(String::as_str),
            Some("nvme,drive=disk0,serial=vol0")
        );
        // Credits last 5.4e6 / 2700 = 2000 s; QEMU's bucket 3000 * 1800 / 2700 = 2000 s.
        assert!(beyond_qemu(&shape).is_empty());
    }

    #[test]
    fn a_disk_passes_its_own_limits_then_its_links() {
        let way = |rate| OneWay { iops: None, throughput: Some(Limit::steady(rate)) };
        let throttle =
            Throttle { one_way: PerOp { read: way(40e6), write: way(15e6) }, ..Throttle::default() };
        let link = Throttle { throughput: Some(Limit::steady(6e6)), ..Throttle::default() };
        assert_eq!(
            link_arguments(&[link]),
            ["-object", r#"{"id":"link0-both","limits":{"bps-total":6000000},"qom-type":"throttle-group"}"#]
        );
        let text = disk(throttle, Some(0)).arguments(0, false, &[link]).join(" ");
        assert!(
            text.contains(r#""limit0-each","limits":{"bps-read":40000000,"bps-write":15000000}"#),
            "{text}"
        );
        assert!(
            text.contains("node-name=disk0-filter1,throttle-group=link0-both,file=disk0-filter0 "),
            "{text}"
        );
        assert!(text.ends_with("drive=disk0-filter1,serial=vol0"), "{text}");
        let unlimited = disk(Throttle::default(), None).arguments(0, true, &[]).join(" ");
        assert!(!unlimited.contains("throttle") && unlimited.contains("drive=disk0,"), "{unlimited}");
    }

    #[test]
    fn a_burst_that_is_none_is_left_out() {
        let limit = Limit { rate: 100.0, burst_rate: Some(100.0), burst_credits: 10.0 };
        let limits = limits(&[(Some(limit), "iops-total")], None);
        assert_eq!(Value::from(limits), json!({ "iops-total": 100 }));
    }

    #[test]
    fn what_qemu_cannot_is_named_and_left_out() {
        let shape = Shape {
            throughput: Some(Limit::steady(1e6)),
            read_latency: Latency::Constant(Nanos(1)),
            link: Some(0),
            character: Character { credits_at_start: Some(0.5), ..Character::default() },
            ..Shape::default()
        };
        assert_eq!(beyond_qemu(&shape), ["latency", "character (moods, caches, first touch, failures)"]);
        let done = within_qemu(&shape);
        assert_eq!((done.throughput, done.link), (shape.throughput, Some(0)));
        assert!(beyond_qemu(&done).is_empty());
    }

    #[test]
    fn names_that_are_options_to_qemu_are_refused() {
        for name in ["", "a,readonly=on", "a b", "twenty-one-characters"] {
            let disk = Disk { name: name.to_owned(), ..disk(Throttle::default(), None) };
            assert!(disk.check().is_err(), "{name}");
        }
    }
}
