//! A guest's disks: sparse files behind QEMU's throttle.
//!
//! QEMU's throttle is a leaky bucket for operations and one for bytes (docs/throttle.txt, util/throttle.c): it
//! leaks at the sustained rate and holds `max * max-length`, so that a burst of `max` per second lasts
//! `max * max-length / (max - rate)` seconds. A limit with burst credits C lasts `C / (burst - rate)` seconds:
//! the same when `max-length` is `C / burst`, to whole seconds, which is all that QEMU takes.

use super::LabError;
use ebbtide_core::volume::{Limit, Shape};

/// Most bytes of a disk's serial that the guest sees (virtio-blk).
const SERIAL_BYTES_MAX: usize = 20;

/// Sizes are multiples of it, as those of volumes in experiment files.
const BLOCK: u64 = 4096;

/// Most disks of one guest: QEMU's q35 board has 32 slots, some of them taken.
pub const DISKS_MAX: usize = 24;

/// QEMU takes rates up to this (`THROTTLE_VALUE_MAX`).
const RATE_MAX: f64 = 1e15;

/// A disk of a guest.
#[derive(Debug, Clone, PartialEq)]
pub struct Disk {
    /// Its serial: in the guest it is /dev/disk/by-id/virtio-NAME.
    pub name: String,
    /// Size in bytes, a multiple of 4096: what O_DIRECT takes on any disk of the host.
    pub size: u64,
    /// Limits; absent: as fast as emulation goes.
    pub throttle: Throttle,
}

/// Limits of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Throttle {
    /// Operations per second.
    pub iops: Option<Limit>,
    /// Bytes per second.
    pub throughput: Option<Limit>,
    /// An operation of more bytes counts as several.
    pub io_unit: Option<u64>,
}

impl Throttle {
    /// The limits of a volume's shape. Its latencies, links, caches, moods and failures are nothing that QEMU
    /// can do: see [`beyond_qemu`].
    pub fn of(shape: &Shape) -> Self {
        Throttle {
            iops: shape.iops,
            throughput: shape.throughput,
            io_unit: shape.io_unit.map(|bytes| bytes.0),
        }
    }

    /// As options of `-drive`, each with a comma before it.
    fn options(&self) -> String {
        let mut text = String::new();
        for (limit, key) in [(self.iops, "iops-total"), (self.throughput, "bps-total")] {
            let Some(limit) = limit else { continue };
            let rate = limit.rate.round().clamp(1.0, RATE_MAX);
            text += &format!(",throttling.{key}={rate:.0}");
            if let Some(burst) = limit.burst_rate.map(f64::round).filter(|burst| *burst > rate) {
                let seconds = (limit.burst_credits / burst).round().max(1.0);
                let most = (RATE_MAX / burst).floor().max(1.0);
                text += &format!(
                    ",throttling.{key}-max={burst:.0},throttling.{key}-max-length={:.0}",
                    seconds.min(most)
                );
            }
        }
        if let (Some(unit), true) = (self.io_unit, self.iops.is_some()) {
            text += &format!(",throttling.iops-size={unit}");
        }
        text
    }
}

/// What a shape asks for that a guest's disk does not have, in words.
pub fn beyond_qemu(shape: &Shape) -> Vec<&'static str> {
    let plain = Shape { iops: None, throughput: None, io_unit: None, ..shape.clone() };
    let nothing = Shape::default();
    let mut beyond = Vec::new();
    if (plain.read_latency, plain.write_latency) != (nothing.read_latency, nothing.write_latency) {
        beyond.push("latency");
    }
    if plain.link.is_some() {
        beyond.push("the shared link");
    }
    if plain.character != nothing.character {
        beyond.push("character (moods, caches, first touch, failures)");
    }
    beyond
}

/// How QEMU reads and writes the files of disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Past the host's page cache.
    Direct,
    /// Through it, where the file system has nothing else.
    Buffered,
}

impl Disk {
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
        format!("/dev/disk/by-id/virtio-{}", self.name)
    }

    /// QEMU's arguments for it.
    pub(super) fn arguments(&self, index: usize, access: Access) -> [String; 4] {
        let how = match access {
            Access::Direct => "cache=none,aio=native",
            Access::Buffered => "cache=writeback,aio=threads",
        };
        let file = self.file();
        let throttle = self.throttle.options();
        [
            "-drive".to_owned(),
            format!("file={file},if=none,id=disk{index},format=raw,discard=unmap,{how}{throttle}"),
            "-device".to_owned(),
            format!("virtio-blk-pci,drive=disk{index},serial={}", self.name),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_core::units::Bytes;

    #[test]
    fn a_shape_becomes_a_throttle() {
        // gp2 of 100 GiB: 300 IOPS, bursts to 3000 with 5.4 million credits.
        let shape = Shape {
            iops: Some(Limit { rate: 300.0, burst_rate: Some(3000.0), burst_credits: 5.4e6 }),
            throughput: Some(Limit::steady(128e6)),
            io_unit: Some(Bytes(256 << 10)),
            ..Shape::default()
        };
        let disk = Disk { name: "vol0".to_owned(), size: 1 << 30, throttle: Throttle::of(&shape) };
        let [_, drive, _, device] = disk.arguments(3, Access::Direct);
        assert_eq!(
            drive,
            "file=vol0.disk,if=none,id=disk3,format=raw,discard=unmap,cache=none,aio=native,\
             throttling.iops-total=300,throttling.iops-total-max=3000,throttling.iops-total-max-length=1800,\
             throttling.bps-total=128000000,throttling.iops-size=262144"
        );
        assert_eq!(device, "virtio-blk-pci,drive=disk3,serial=vol0");
        // Credits last 5.4e6 / 2700 = 2000 s; QEMU's bucket 3000 * 1800 / 2700 = 2000 s.
        assert!(beyond_qemu(&shape).is_empty());
    }

    #[test]
    fn a_burst_that_is_none_is_left_out() {
        let limit = Limit { rate: 100.0, burst_rate: Some(100.0), burst_credits: 10.0 };
        let throttle = Throttle { iops: Some(limit), ..Throttle::default() };
        assert_eq!(throttle.options(), ",throttling.iops-total=100");
    }

    #[test]
    fn names_that_are_options_to_qemu_are_refused() {
        for name in ["", "a,readonly=on", "a b", "twenty-one-characters"] {
            let disk = Disk { name: name.to_owned(), size: 4096, throttle: Throttle::default() };
            assert!(disk.check().is_err(), "{name}");
        }
    }
}
