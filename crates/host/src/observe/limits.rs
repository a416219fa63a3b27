//! NVMe log page 0xD0 of EBS volumes while a trial runs: when they were asked for more than their limits.

use crate::nvme::{self, Fetch};
use crate::probe::{Kind, classify_disk};
use crate::sys::Sys;
use ebbtide_door::read;
use ebbtide_model::observe::nvme::EbsPage;
use ebbtide_model::samples::ExceededInterval;
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Nanos;
use std::fs::File;
use std::time::Duration;

/// The shortest interval of AWS's own tool (`ebsnvme stats --interval`, whole seconds): an admin command per volume.
pub(super) const LIMITS_INTERVAL: Duration = Duration::from_secs(1);

/// Finds the log page of a device; tests answer with recorded and made-up pages.
pub trait LimitsReader {
    /// The page of the device with this kernel name, opened for many readings; nothing when it has none.
    fn open(&self, device: &str) -> Option<Box<dyn LimitsPage + Send>>;
}

/// The log page of one device.
pub trait LimitsPage {
    /// The page now; nothing when it may not be read.
    fn read(&mut self) -> Option<EbsPage>;
}

/// No device has such a page.
pub struct NoLimits;

impl LimitsReader for NoLimits {
    fn open(&self, _device: &str) -> Option<Box<dyn LimitsPage + Send>> {
        None
    }
}

/// Asks EBS volumes through `fetch`, which needs root.
pub struct EbsLimits {
    sys: Sys,
    fetch: Fetch,
}

impl EbsLimits {
    /// Reads the limits of this host's EBS volumes.
    pub fn host(fetch: Fetch) -> EbsLimits {
        EbsLimits { sys: Sys::host(), fetch }
    }
}

impl LimitsReader for EbsLimits {
    fn open(&self, device: &str) -> Option<Box<dyn LimitsPage + Send>> {
        if classify_disk(&self.sys, device) != Kind::Ebs {
            return None;
        }
        let node = self.sys.dev.join(device);
        let file = read::open(&node).map_err(|e| tracing::debug!("{}: {e}", node.shown())).ok()?;
        Some(Box::new(OpenDevice { file, fetch: self.fetch }))
    }
}

struct OpenDevice {
    file: File,
    fetch: Fetch,
}

impl LimitsPage for OpenDevice {
    fn read(&mut self) -> Option<EbsPage> {
        nvme::page(self.fetch, &self.file)
    }
}

/// Pages of all devices over time.
pub(super) struct LimitsLog {
    pages: Vec<Option<Box<dyn LimitsPage + Send>>>,
    readings: Vec<(Duration, Vec<Option<EbsPage>>)>,
}

impl LimitsLog {
    /// For the devices with these names.
    pub fn new<'a>(reader: &dyn LimitsReader, devices: impl Iterator<Item = &'a str>) -> LimitsLog {
        LimitsLog { pages: devices.map(|name| reader.open(name)).collect(), readings: Vec::new() }
    }

    /// Whether it is time for another reading at `at`; never where no device has a page.
    pub fn is_due(&self, at: Duration) -> bool {
        self.pages.iter().any(Option::is_some)
            && self.readings.last().is_none_or(|(last, _)| at.saturating_sub(*last) >= LIMITS_INTERVAL)
    }

    /// Reads every page at `at`.
    pub fn look(&mut self, at: Duration) {
        if self.pages.iter().any(Option::is_some) {
            let pages = self.pages.iter_mut().map(|page| page.as_mut()?.read()).collect();
            self.readings.push((at, pages));
        }
    }

    /// Time above limits of device `index` from `from` to `to`, reading by reading. What was counted between two
    /// readings is spread evenly over the time between them, so that both ends get their share.
    pub fn within(&self, index: usize, from: Duration, to: Duration) -> Vec<ExceededInterval> {
        let read = self.readings.iter().filter_map(|(at, pages)| Some((*at, (*pages.get(index)?)?)));
        let read: Vec<(Duration, EbsPage)> = read.collect();
        let spans = read.iter().zip(read.iter().skip(1)).filter_map(|((begun, before), (ended, now))| {
            let (start, end) = ((*begun).max(from), (*ended).min(to));
            let grown = now.exceeded_since(before).filter(|_| start < end)?;
            let share = (end - start).as_secs_f64() / ended.saturating_sub(*begun).as_secs_f64();
            let part = |time: Nanos| Nanos((time.0 as f64 * share).round() as u64);
            let nanos = |at: Duration| Nanos(u64::try_from((at - from).as_nanos()).unwrap_or(u64::MAX));
            Some(ExceededInterval { start: nanos(start), end: nanos(end), exceeded: grown.map(part) })
        });
        spans.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;
    use ebbtide_model::samples::LimitsExceeded;
    use std::io;

    /// Answers like an EBS volume with a made-up page, and checks what it is asked.
    fn fetch(_device: &File, namespace: u32, id: u8, page: &mut [u8]) -> io::Result<()> {
        assert_eq!((namespace, id, page.len()), (1, 0xD0, 4096));
        page[..4].copy_from_slice(&0x3C23_B510u32.to_le_bytes());
        page[56] = 9;
        Ok(())
    }

    fn refused(_device: &File, _namespace: u32, _id: u8, _page: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    #[test]
    fn only_ebs_volumes_are_asked() {
        let tree = include_str!("../../tests/trees/arrays.tree")
            .replace("|QEMU NVMe Ctrl", "|Amazon Elastic Block Store");
        let root = unpack(&format!("{tree}\nf /dev/nvme3n1\nf /dev/vdb\nf /dev/md0\n"));
        let reader = |fetch| EbsLimits { sys: Sys::below(root.path()), fetch };
        let mut page = reader(fetch).open("nvme3n1").expect("an EBS volume");
        let exceeded = page.read().and_then(|p| p.exceeded).expect("a page");
        assert_eq!(exceeded.volume_iops, Nanos(9_000));
        assert_eq!(reader(refused).open("nvme3n1").expect("an EBS volume").read(), None);
        assert!(reader(fetch).open("vdb").is_none() && reader(fetch).open("md0").is_none());
        assert!(reader(fetch).open("nvme2n1").is_none(), "its node is not there");
    }

    /// One made-up page after the other: microseconds above the volume's IOPS, or no page.
    struct Pages(std::vec::IntoIter<Option<u64>>);

    impl LimitsPage for Pages {
        fn read(&mut self) -> Option<EbsPage> {
            let micros = self.0.next()??;
            let volume_iops = Nanos(micros * 1000);
            let exceeded = Some(LimitsExceeded { volume_iops, ..LimitsExceeded::default() });
            Some(EbsPage { exceeded, ..EbsPage::default() })
        }
    }

    struct MadeUp(Vec<Option<u64>>);

    impl LimitsReader for MadeUp {
        fn open(&self, device: &str) -> Option<Box<dyn LimitsPage + Send>> {
            (device == "nvme1n1").then(|| Box::new(Pages(self.0.clone().into_iter())) as _)
        }
    }

    /// A reading each second from 0 on, of a device with pages and one without.
    fn log(micros: &[Option<u64>]) -> LimitsLog {
        let mut log = LimitsLog::new(&MadeUp(micros.to_vec()), ["nvme1n1", "vda"].into_iter());
        (0..micros.len()).for_each(|second| log.look(Duration::from_secs(second as u64)));
        log
    }

    fn seen(log: &LimitsLog, index: usize, from_ms: u64, to_ms: u64) -> Vec<(u64, u64, u64)> {
        let (from, to) = (Duration::from_millis(from_ms), Duration::from_millis(to_ms));
        let ms = |time: Nanos| time.0 / 1_000_000;
        log.within(index, from, to)
            .iter()
            .map(|i| (ms(i.start), ms(i.end), ms(i.exceeded.volume_iops)))
            .collect()
    }

    #[test]
    fn a_window_gets_its_share_of_the_readings_at_its_ends() {
        let log = log(&[Some(0), Some(0), Some(800_000), Some(1_800_000)]);
        let expected = [(0, 500, 0), (500, 1500, 800), (1500, 1750, 250)];
        assert_eq!(seen(&log, 0, 500, 2250), expected);
        assert!(seen(&log, 1, 0, 3000).is_empty(), "no page");
        assert!(seen(&log, 0, 3000, 4000).is_empty(), "nothing was read then");
    }

    #[test]
    fn a_missing_page_joins_two_intervals_and_fallen_counters_break_them() {
        assert_eq!(seen(&log(&[Some(0), None, Some(600_000)]), 0, 0, 2000), [(0, 2000, 600)]);
        assert_eq!(seen(&log(&[Some(9), Some(5), Some(1_005)]), 0, 0, 2000), [(1000, 2000, 1)]);
    }

    #[test]
    fn readings_are_due_each_second_and_only_where_there_is_a_page() {
        let log = log(&[Some(0)]);
        assert!(!log.is_due(Duration::from_millis(999)) && log.is_due(Duration::from_secs(1)));
        let without = LimitsLog::new(&NoLimits, ["vda"].into_iter());
        assert!(!without.is_due(Duration::from_secs(9)));
    }
}
