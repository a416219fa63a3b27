//! Which line interrupts the core that spends the most time on interrupts (`/proc/interrupts`, proc_interrupts(5)).

use crate::sys::{self, Sys};
use ebbtide_model::samples::{CoreUse, InterruptUse};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most lines that are kept.
const MOST: usize = 3;

/// The lines of members' devices: their numbers, and the beginnings of their names where sysfs lists no numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct MemberInterrupts {
    numbers: Vec<String>,
    names: Vec<String>,
}

impl MemberInterrupts {
    /// Adds those of the device at `place` in sysfs: of the nearest one above it that has any.
    pub fn add(&mut self, place: &Path) {
        let Ok(place) = std::fs::canonicalize(place) else { return };
        for above in place.ancestors() {
            self.names.extend(above.file_name().and_then(|name| name.to_str()).map(str::to_owned));
            let message_signalled = sys::names(&above.join("msi_irqs"));
            let pin = || sys::word(&above.join("irq")).filter(|number| number != "0");
            let found =
                if message_signalled.is_empty() { pin().into_iter().collect() } else { message_signalled };
            if !found.is_empty() {
                self.numbers.extend(found);
                return;
            }
        }
    }

    /// A disk by its number, `major:minor`.
    pub fn add_disk(&mut self, sys: &Sys, number: &str) {
        self.add(&sys.sys.join("dev/block").join(number));
    }

    /// A network interface by its name.
    pub fn add_interface(&mut self, sys: &Sys, name: &str) {
        let place: PathBuf = sys.sys.join("class/net").join(name).join("device");
        self.add(&place);
    }

    fn has(&self, line: &str, who: &str) -> bool {
        // `virtio1-req.0` is of virtio1, and not of virtio10.
        let begins =
            |name: &String| who.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('-'));
        self.numbers.iter().any(|number| number == line) || self.names.iter().any(begins)
    }
}

/// The table at an instant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Interrupts {
    /// Numbers of the cores, in the order of the columns.
    cpus: Vec<u32>,
    /// What each line is for, and its counts.
    lines: BTreeMap<String, (String, Vec<u64>)>,
}

impl Interrupts {
    pub fn read(sys: &Sys) -> Interrupts {
        parse(&sys::text(&sys.proc.join("interrupts")).unwrap_or_default())
    }

    /// The busiest lines until `now` of the core that spent the most time on interrupts. All of `observed` was counted, and is
    /// scaled to the `measured` part of it.
    pub fn until(
        &self,
        now: &Interrupts,
        cores: &[CoreUse],
        ours: &MemberInterrupts,
        (observed, measured): (Duration, Duration),
    ) -> Vec<InterruptUse> {
        let share = |core: &CoreUse| core.interrupt_share().unwrap_or(0.0);
        let busiest = (0..cores.len()).max_by(|a, b| share(&cores[*a]).total_cmp(&share(&cores[*b])));
        // A core that came or went meanwhile has another column.
        let Some(core) = busiest.filter(|_| self.cpus == now.cpus && now.cpus.len() == cores.len()) else {
            return Vec::new();
        };
        let part = if observed.is_zero() { 0.0 } else { measured.as_secs_f64() / observed.as_secs_f64() };
        let grown = now.lines.iter().filter_map(|(line, (who, counts))| {
            let before = self.lines.get(line).map_or(Some(0), |(_, counts)| counts.get(core).copied())?;
            let count = (counts.get(core)?.checked_sub(before)? as f64 * part.min(1.0)) as u64;
            let (line, who, of_member) = (line.clone(), who.clone(), ours.has(line, who));
            (count > 0).then(|| InterruptUse { core, cpu: now.cpus[core], line, who, count, of_member })
        });
        let mut grown: Vec<InterruptUse> = grown.collect();
        grown.sort_by_key(|line| std::cmp::Reverse(line.count));
        grown.truncate(MOST);
        grown
    }
}

fn parse(text: &str) -> Interrupts {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default().split_ascii_whitespace();
    let cpus: Option<Vec<u32>> = header.map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    let Some(cpus) = cpus else { return Interrupts::default() };
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let name = name.trim();
        let mut words = rest.split_ascii_whitespace();
        let counts: Option<Vec<u64>> =
            words.by_ref().take(cpus.len()).map(|word| word.parse().ok()).collect();
        // The sums over all cores (`ERR`, `MIS`) have one column.
        let counts = counts.filter(|counts| counts.len() == cpus.len())?;
        let words: Vec<&str> = words.collect();
        let numbered = name.parse::<u32>().is_ok();
        // Chip, the chip's number of it with its trigger, and the names of those who handle it; names may be missing.
        let who = if numbered { words.get(2..).unwrap_or_default().join(" ") } else { words.join(" ") };
        Some((name.to_owned(), (who, counts)))
    };
    let lines = lines.filter_map(line).collect();
    Interrupts { cpus, lines }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::unpack;
    use ebbtide_model::units::Nanos;

    /// Recorded on Linux 6.18 in a virtual machine whose disk (virtio1) was at work, 2 s apart; some lines.
    const BEFORE: &str = include_str!("../../tests/trees/interrupts-before.txt");
    const AFTER: &str = include_str!("../../tests/trees/interrupts-after.txt");

    fn core(interrupts: u64) -> CoreUse {
        CoreUse {
            system: Nanos(900),
            interrupts: Some(Nanos(interrupts)),
            idle: Nanos(100),
            ..CoreUse::default()
        }
    }

    #[test]
    fn the_busiest_lines_of_the_core_with_the_most_interrupts() {
        let (before, after) = (parse(BEFORE), parse(AFTER));
        assert_eq!(before.cpus, [0, 1]);
        let ours = MemberInterrupts { numbers: vec!["36".into()], names: Vec::new() };
        let span = (Duration::from_secs(2), Duration::from_secs(2));
        let found = before.until(&after, &[core(10), core(800)], &ours, span);
        let device = found.iter().find(|line| line.of_member).expect("the disk's line");
        assert_eq!(
            (device.core, device.cpu, device.line.as_str(), device.who.as_str()),
            (1, 1, "36", "virtio1-req.0")
        );
        assert_eq!(device.count, 307);
        assert!(found.len() == MOST && found.is_sorted_by(|a, b| a.count >= b.count), "{found:?}");
        let half = before.until(&after, &[core(10), core(800)], &ours, (span.0, Duration::from_secs(1)));
        assert_eq!(half.iter().find(|line| line.of_member).map(|line| line.count), Some(153));
        // The other core's lines; a core that came meanwhile.
        assert!(before.until(&after, &[core(800), core(10)], &ours, span).iter().all(|line| line.cpu == 0));
        assert!(before.until(&after, &[core(800)], &ours, span).is_empty());
    }

    #[test]
    fn lines_of_a_disk_by_number_or_by_name() {
        let root = unpack(
            "l /sys/dev/block/259:0 -> ../../devices/pci0000:00/0000:00:1d.0/0000:02:00.0/nvme/nvme0/nvme0n1\n\
             d /sys/devices/pci0000:00/0000:00:1d.0/0000:02:00.0/nvme/nvme0/nvme0n1\n\
             f /sys/devices/pci0000:00/0000:00:1d.0/0000:02:00.0/msi_irqs/41\n|msix\n\
             f /sys/devices/pci0000:00/0000:00:1d.0/irq\n|16\n\
             l /sys/dev/block/254:0 -> ../../devices/platform/a003e00.virtio_mmio/virtio1/block/vda\n\
             d /sys/devices/platform/a003e00.virtio_mmio/virtio1/block/vda\n",
        );
        let sys = Sys::below(root.path());
        let mut ours = MemberInterrupts::default();
        ours.add_disk(&sys, "259:0");
        assert!(ours.has("41", "nvme0q1") && !ours.has("16", "pcieport"), "{ours:?}");
        ours.add_disk(&sys, "254:0");
        assert!(ours.has("7", "virtio1-req.0") && !ours.has("8", "virtio10-req.0"));
    }

    #[test]
    fn what_is_no_table_is_nothing() {
        for text in ["", "garbage\n1: 2 3", "CPU0 CPU1\n 1: 2\nERR: 0\nx"] {
            assert!(parse(text).lines.is_empty(), "{text}");
        }
    }
}
