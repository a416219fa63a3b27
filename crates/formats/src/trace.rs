//! Recorded loads: fio's iolog with times (version 3, fio 3.31 and later), and logs of `iostat -x`. What they asked of storage becomes
//! figures that a need can have.

use crate::iostat;
use ebbtide_model::need::Recorded;
use ebbtide_model::samples::rank;
use ebbtide_model::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Why a text is no recorded load.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TraceError {
    /// Neither fio's iolog nor iostat's output.
    #[error("it is neither fio's iolog (`fio version 3 iolog`) nor a log of `iostat -x 1`")]
    Unknown,
    /// An iolog without times.
    #[error(
        "it is fio's iolog version {0}, which has no times; record it with fio 3.31 or later (`--write_iolog`)"
    )]
    NoTimes(String),
    /// A line of an iolog.
    #[error("line {line}: {what}")]
    Line {
        /// Number of the line.
        line: usize,
        /// What is wrong with the line.
        what: String,
    },
    /// Nothing in it was asked.
    #[error("it holds no reads and writes")]
    Empty,
    /// Too short to speak of rates.
    #[error("it is {0} long; a load needs several seconds to have a rate")]
    Short(String),
    /// Several devices, some of which may be parts of others.
    #[error(
        "it has several devices ({0}); say with `device` which one counts, the array and not its members"
    )]
    Several(String),
    /// Not a device of the log.
    #[error("it has no device {0}; it has {1}")]
    NoDevice(String, String),
}

/// Share of the intervals whose rate is at most the one that is told: all but the busiest hundredth.
const BUSY_PERCENT: f64 = 99.0;
/// Least intervals of a load.
const INTERVALS: usize = 3;
/// From this share of bytes on that continue what came before, a load is sequential.
const SEQUENTIAL: f64 = 0.5;
/// Longest load in seconds: a month.
const LONGEST: u64 = 31 * 86_400;

/// Reads a recorded load; `device` names the one that counts in a log of iostat.
///
/// # Errors
/// A text of neither format, or one that does not say enough.
pub fn parse(text: &str, device: Option<&str>) -> Result<Recorded, TraceError> {
    match text.lines().next().and_then(|line| line.strip_prefix("fio version ")) {
        Some(version) => match version.split_whitespace().next().unwrap_or_default() {
            "3" => iolog(text),
            other => Err(TraceError::NoTimes(other.to_owned())),
        },
        None => from_iostat(text, device),
    }
}

/// The rate that all but the busiest hundredth of the intervals keep below (nearest rank).
fn busy(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    let rank = rank(BUSY_PERCENT, rates.len() as u64) as usize;
    rates.get(rank - 1).copied().unwrap_or(0.0)
}

/// Operations of a load so far.
#[derive(Debug, Default)]
struct Totals {
    /// Operations and bytes of each second.
    seconds: BTreeMap<u64, (u64, u64)>,
    reads: u64,
    operations: u64,
    bytes: u64,
    continued: u64,
    /// Bytes that were touched, by file: from and to.
    touched: BTreeMap<String, BTreeMap<u64, u64>>,
    /// Where the last operation of each file ended.
    ends: BTreeMap<String, u64>,
}

impl Totals {
    fn add(&mut self, second: u64, file: &str, is_read: bool, (offset, length): (u64, u64)) {
        let end = offset.saturating_add(length);
        let slot = self.seconds.entry(second).or_default();
        slot.0 += 1;
        slot.1 = slot.1.saturating_add(length);
        self.operations += 1;
        self.reads += u64::from(is_read);
        self.bytes = self.bytes.saturating_add(length);
        if self.ends.get(file) == Some(&offset) {
            self.continued = self.continued.saturating_add(length);
        }
        self.ends.insert(file.to_owned(), end);
        touch(self.touched.entry(file.to_owned()).or_default(), offset, end);
    }
}

/// Takes `from..to` into ranges that neither overlap nor meet.
fn touch(ranges: &mut BTreeMap<u64, u64>, mut from: u64, mut to: u64) {
    if let Some((begin, end)) = ranges.range(..=from).next_back().map(|(begin, end)| (*begin, *end))
        && end >= from
    {
        (from, to) = (begin, to.max(end));
    }
    while let Some((begin, end)) = ranges.range(from..=to).next().map(|(begin, end)| (*begin, *end)) {
        ranges.remove(&begin);
        to = to.max(end);
    }
    ranges.insert(from, to);
}

fn iolog(text: &str) -> Result<Recorded, TraceError> {
    let mut seen = Totals::default();
    let mut last = 0;
    for (index, line) in text.lines().enumerate().skip(1) {
        let wrong = |what: &str| TraceError::Line { line: index + 1, what: what.to_owned() };
        let words: Vec<&str> = line.split_whitespace().collect();
        let (time, file, action, rest) = match words.as_slice() {
            [] => continue,
            [time, file, action, rest @ ..] => (time, file, *action, rest),
            _ => return Err(wrong("expected a time, a file and an action")),
        };
        let micros: u64 = time.parse().map_err(|_| wrong("the time is no number of microseconds"))?;
        let second = micros / 1_000_000;
        if second > LONGEST {
            return Err(wrong("more than a month after the begin"));
        }
        last = last.max(micros);
        if !matches!(action, "read" | "write") {
            continue;
        }
        let number = |word: Option<&&str>| word.and_then(|word| word.parse::<u64>().ok());
        let place = number(rest.first()).zip(number(rest.get(1)).filter(|length| *length > 0));
        let place = place.ok_or_else(|| wrong("expected an offset and a length in bytes"))?;
        seen.add(second, file, action == "read", place);
    }
    if seen.operations == 0 {
        return Err(TraceError::Empty);
    }
    let seconds = last / 1_000_000;
    if (seconds as usize) < INTERVALS {
        return Err(TraceError::Short(format!("{:.1} s", last as f64 / 1e6)));
    }
    // The last second is not whole; one in which nothing was asked counts as such.
    let rates = |of: fn(&(u64, u64)) -> u64| {
        let rate = |second| seen.seconds.get(&second).map_or(0, of) as f64;
        busy((0..seconds).map(rate).collect())
    };
    let mean = seen.bytes as f64 / seen.operations as f64;
    let (operations, bytes) = (rates(|slot| slot.0), rates(|slot| slot.1));
    let is_sequential = seen.continued as f64 >= SEQUENTIAL * seen.bytes as f64;
    let ranges = || seen.touched.values().flat_map(|ranges| ranges.iter());
    Ok(Recorded {
        iops: Some(operations).filter(|_| !is_sequential),
        throughput: Some(bytes).filter(|_| is_sequential),
        bs: block(mean),
        read_percent: percent(seen.reads as f64, seen.operations as f64),
        working_set: Some(Bytes(ranges().fold(0u64, |sum, (from, to)| sum.saturating_add(to - from)))),
        extent: Some(Bytes(
            seen.touched
                .values()
                .filter_map(|ranges| ranges.last_key_value().map(|(_, to)| *to))
                .fold(0u64, u64::saturating_add),
        )),
        seconds: seconds as f64,
    })
}

fn percent(part: f64, whole: f64) -> u8 {
    if whole > 0.0 { (part / whole * 100.0).round().clamp(0.0, 100.0) as u8 } else { 0 }
}

/// The block of this mean size: whole sectors, at most a MiB.
fn block(mean: f64) -> Bytes {
    let sectors = (mean / 512.0).ceil().clamp(1.0, 2048.0) as u64;
    Bytes(sectors * 512)
}

fn from_iostat(text: &str, device: Option<&str>) -> Result<Recorded, TraceError> {
    // sar has minutes in a report, and does not tell reads from writes.
    let log = iostat::parse(text).ok().filter(|log| log.since_boot).ok_or(TraceError::Unknown)?;
    let reports = log.reports;
    let names: BTreeSet<&str> =
        reports.iter().flat_map(|report| &report.devices).map(|row| row.device.as_str()).collect();
    let all = || names.iter().copied().collect::<Vec<_>>().join(", ");
    let wanted = match (device, names.len()) {
        (Some(wanted), _) if names.contains(wanted) => wanted,
        (Some(wanted), _) => return Err(TraceError::NoDevice(wanted.to_owned(), all())),
        (None, 1) => names.first().copied().unwrap_or_default(),
        (None, _) => return Err(TraceError::Several(all())),
    };
    // The first report is of the time since the boot.
    let rows: Vec<_> = reports
        .iter()
        .skip(1)
        .filter_map(|report| report.devices.iter().find(|row| row.device == wanted))
        .collect();
    if rows.len() < INTERVALS {
        return Err(TraceError::Short(format!("{} reports", rows.len())));
    }
    let sum = |of: fn(&iostat::IostatRow) -> f64| {
        rows.iter().map(|row| of(row)).filter(|v| v.is_finite()).sum::<f64>()
    };
    let (operations, bytes) = (sum(|row| row.requests()), sum(|row| row.bytes()));
    if operations < 1.0 {
        return Err(TraceError::Empty);
    }
    Ok(Recorded {
        iops: Some(busy(rows.iter().map(|row| row.requests()).filter(|v| v.is_finite()).collect())),
        throughput: None,
        bs: block(bytes / operations),
        read_percent: percent(sum(|row| row.reads.unwrap_or(0.0)), operations),
        working_set: None,
        extent: None,
        seconds: rows.len() as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn an_iolog_gives_the_rate_of_its_busy_seconds() {
        // As fio 3.33 writes it: 10 s of 5 operations a second, the third second with 50.
        let mut text = "fio version 3 iolog\n150 /dev/sdx add\n444 /dev/sdx open\n".to_owned();
        for second in 0..10u64 {
            for n in 0..if second == 2 { 50 } else { 5 } {
                let what = if n % 5 == 0 { "write" } else { "read" };
                let offset = (n * 7919 + second * 104_729) % 1000 * 8192;
                let _infallible =
                    writeln!(text, "{} /dev/sdx {what} {offset} 8192", second * 1_000_000 + n * 1000);
            }
        }
        text += "10000881 /dev/sdx close\n";
        let found = parse(&text, None).expect("is one");
        assert_eq!(
            (found.iops, found.throughput, found.bs.0, found.read_percent),
            (Some(50.0), None, 8192, 80)
        );
        assert_eq!(found.seconds, 10.0);
        let set = found.working_set.expect("is known").0;
        assert!(set <= 95 * 8192 && set.is_multiple_of(8192) && found.extent.expect("is known").0 >= set);
    }

    #[test]
    fn what_continues_is_sequential() {
        let mut text = "fio version 3 iolog\n".to_owned();
        for n in 0..400u64 {
            let _infallible = writeln!(text, "{} f read {} 1048576", n * 10_000, n << 20);
        }
        text += "4000000 f close\n";
        let found = parse(&text, None).expect("is one");
        assert_eq!((found.iops, found.throughput), (None, Some(100.0 * 1_048_576.0)));
        assert_eq!((found.working_set, found.extent), (Some(Bytes(400 << 20)), Some(Bytes(400 << 20))));
    }

    #[test]
    fn iostat_needs_the_device_where_there_are_several() {
        let report = |r: u64| {
            format!(
                "Device r/s rkB/s r_await w/s wkB/s w_await aqu-sz %util\nsda {r} {} 1 10 160 1 0.1 5\nmd0 {r} {} 1 10 160 1 0.1 5\n\n",
                r * 16,
                r * 16
            )
        };
        let text: String = [9000, 90, 90, 90].into_iter().map(report).collect();
        let found = parse(&text, Some("md0")).expect("is one");
        assert_eq!((found.iops, found.bs.0, found.read_percent), (Some(100.0), 16_384, 90));
        assert!(parse(&text, None).expect_err("two").to_string().contains("md0, sda"));
        assert!(parse(&text, Some("sdb")).expect_err("none").to_string().contains("no device sdb"));
        assert!(matches!(parse(&report(5), Some("md0")), Err(TraceError::Short(_))));
    }

    #[test]
    fn what_is_no_load_says_why() {
        for (text, said) in [
            ("", "neither"),
            ("fio version 2 iolog\nf read 0 1", "no times"),
            ("fio version 3 iolog\n1 f add\n", "no reads"),
            ("fio version 3 iolog\nx f read 0 1\n", "line 2"),
            ("fio version 3 iolog\n1 f read 0 0\n", "line 2: expected an offset"),
            ("fio version 3 iolog\n1 f read 18446744073709551615 18446744073709551615\n", "0.0 s"),
            ("fio version 3 iolog\n99999999999999999 f read 0 1\n", "a month"),
        ] {
            let error = parse(text, None).expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    /// Ranges against a set of every byte.
    #[test]
    fn touched_bytes_are_counted_once() {
        let (mut ranges, mut every) = (BTreeMap::new(), BTreeSet::new());
        let mut state = 7u64;
        for _ in 0..500 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (from, length) = (state >> 33 & 0xff, (state >> 50 & 0xf) + 1);
            touch(&mut ranges, from, from + length);
            every.extend(from..from + length);
            let sum: u64 = ranges.iter().map(|(from, to)| to - from).sum();
            assert_eq!(sum, every.len() as u64);
        }
    }
}
