//! A table of devices that is brought up to date from `/proc/diskstats` once per interval.
//!
//! Devices come and go between two readings. The kernel lists them in the same order each time, so that the entry of
//! a line is found without searching, and nothing is allocated for a device that is known.

use super::rates::DiskRates;
use ebbtide_model::observe::diskstats::{DiskCounters, lines};
use ebbtide_model::units::Nanos;
use std::collections::VecDeque;

/// Intervals of history that are kept per device: enough for the widest sparkline.
pub const HISTORY: usize = 240;

/// A device with its latest reading and its rates.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Kernel name.
    pub name: String,
    /// Device number, major and minor.
    pub number: (u32, u32),
    /// Counters at the last reading.
    pub counters: DiskCounters,
    /// Rates over the last interval; nothing while only one reading is there.
    pub rates: Option<DiskRates>,
    /// Bytes per second, reads and writes, the newest last; nothing for an interval without figures.
    pub history: VecDeque<Option<f64>>,
    /// Reading in which it was seen last.
    seen: u64,
}

/// Rates and history of every device, from one reading to the next.
#[derive(Debug, Clone, Default)]
pub struct DiskTable {
    entries: Vec<Entry>,
    last: Option<Nanos>,
    reading: u64,
}

impl DiskTable {
    /// Takes the text of `/proc/diskstats` as read at `at` on any clock that only goes forward.
    pub fn update(&mut self, text: &str, at: Nanos) {
        self.reading += 1;
        let span = self.last.map(|last| at.since(last));
        let mut next = 0;
        for line in lines(text) {
            let known = self.place_of(next, line.name, (line.major, line.minor));
            let index = known.unwrap_or_else(|| {
                let place = next.min(self.entries.len());
                self.entries.insert(place, Entry::new(line.name, (line.major, line.minor)));
                place
            });
            next = index + 1;
            let reading = self.reading;
            if let Some(entry) = self.entries.get_mut(index) {
                entry.take(line.counters, span.filter(|_| known.is_some()), reading);
            }
        }
        let reading = self.reading;
        self.entries.retain(|e| e.seen == reading);
        self.last = Some(at);
    }

    fn place_of(&self, guess: usize, name: &str, number: (u32, u32)) -> Option<usize> {
        let is = |e: &Entry| e.name == name && e.number == number;
        match self.entries.get(guess) {
            Some(entry) if is(entry) => Some(guess),
            _ => self.entries.iter().position(is),
        }
    }

    /// The same devices with their means since boot, `up` ago; without history.
    pub fn since_boot(&self, up: Nanos) -> DiskTable {
        let mean = |entry: &Entry| Entry {
            rates: DiskRates::over(&entry.counters, up),
            history: VecDeque::new(),
            ..entry.clone()
        };
        DiskTable { entries: self.entries.iter().map(mean).collect(), ..*self }
    }

    /// Devices in the kernel's order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The device with this kernel name.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name == name)
    }
}

impl Entry {
    fn new(name: &str, number: (u32, u32)) -> Entry {
        let (counters, rates, history) = (DiskCounters::default(), None, VecDeque::new());
        Entry { name: name.to_owned(), number, counters, rates, history, seen: 0 }
    }

    fn take(&mut self, now: DiskCounters, span: Option<Nanos>, reading: u64) {
        self.rates = span.and_then(|span| DiskRates::over(&now.since(&self.counters)?, span));
        self.counters = now;
        self.seen = reading;
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(self.rates.map(|r| r.bytes_per_second()));
    }

    /// Whether it ever moved anything; iostat leaves out devices that did not.
    pub fn was_used(&self) -> bool {
        self.counters.read.ops != 0 || self.counters.write.ops != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(devices: &[(&str, u64)]) -> String {
        devices
            .iter()
            .enumerate()
            .map(|(i, (name, n))| format!("8 {i} {name} {n} 0 {} {n} 0 0 0 0 0 {n} {n}\n", n * 8))
            .collect()
    }

    fn rates(table: &DiskTable) -> Vec<(&str, Option<f64>)> {
        table.entries().iter().map(|e| (e.name.as_str(), e.rates.map(|r| r.read.per_second))).collect()
    }

    #[test]
    fn devices_come_and_go() {
        let mut table = DiskTable::default();
        table.update(&text(&[("sda", 100), ("sdb", 10)]), Nanos::from_secs(1));
        assert_eq!(rates(&table), [("sda", None), ("sdb", None)]);
        table.update(&text(&[("sda", 150), ("sdb", 10), ("sdc", 7)]), Nanos::from_secs(3));
        assert_eq!(rates(&table), [("sda", Some(25.0)), ("sdb", Some(0.0)), ("sdc", None)]);
        // sda is gone; the others now have other minor numbers here, as after a re-attachment.
        table.update("8 1 sdb 20 0 0 0 0 0 0 0 0 0 0\n", Nanos::from_secs(4));
        assert_eq!(rates(&table), [("sdb", None)], "milliseconds fell: another device");
        assert_eq!(table.entries()[0].history.len(), 3);
    }

    #[test]
    fn means_since_boot() {
        let mut table = DiskTable::default();
        table.update(&text(&[("sda", 100)]), Nanos::from_secs(7));
        assert_eq!(rates(&table.since_boot(Nanos::from_secs(50))), [("sda", Some(2.0))]);
        assert_eq!(
            (rates(&table), rates(&table.since_boot(Nanos(0)))),
            (vec![("sda", None)], vec![("sda", None)])
        );
    }

    #[test]
    fn a_device_in_the_middle_keeps_its_neighbours_history() {
        let mut table = DiskTable::default();
        table.update("8 0 a 1 0 0 0 0 0 0 0 0 0 0\n8 2 c 5 0 0 0 0 0 0 0 0 0 0\n", Nanos::from_secs(1));
        let three = "8 0 a 1 0 0 0 0 0 0 0 0 0 0\n8 1 b 9 0 0 0 0 0 0 0 0 0 0\n8 2 c 9 0 0 0 0 0 0 0 0 0 0\n";
        table.update(three, Nanos::from_secs(2));
        assert_eq!(rates(&table), [("a", Some(0.0)), ("b", None), ("c", Some(4.0))]);
    }

    proptest! {
        /// Against the obvious way: a map from name to the last counters.
        #[test]
        fn any_coming_and_going_gives_the_same_as_a_map(
            readings in proptest::collection::vec(proptest::collection::btree_map(0u32..6, 0u64..1000, 0..6), 1..8)
        ) {
            let mut table = DiskTable::default();
            let mut known: std::collections::BTreeMap<u32, u64> = Default::default();
            for (second, reading) in readings.iter().enumerate() {
                let text: String = reading.iter().map(|(i, n)| format!("8 {i} d{i} {n} 0 0 0 0 0 0 0 0 0 0\n")).collect();
                table.update(&text, Nanos::from_secs(second as u64 + 1));
                prop_assert_eq!(table.entries().len(), reading.len());
                for (i, n) in reading {
                    let expected = known.get(i).and_then(|before| n.checked_sub(*before)).map(|d| d as f64);
                    let entry = table.get(&format!("d{i}")).expect("listed");
                    prop_assert_eq!(entry.rates.map(|r| r.read.per_second), expected);
                }
                known = reading.clone();
            }
        }
    }
}
