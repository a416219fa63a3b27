//! Snapshots of device and core counters, cut to a window.

use crate::sys::Sys;
use ebbtide_door::read;
use ebbtide_model::observe::diskstats::{self, DiskCounters, OpCounters, growth};
use ebbtide_model::samples::{CoreUse, DiskUse, ObservedInterval};
use ebbtide_model::units::Nanos;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

/// Nanoseconds of a tick in `/proc/stat` and `/proc/PID/stat`: USER_HZ is 100 on every architecture that Linux supports today.
pub(super) const TICK: u64 = 10_000_000;

/// Times of one core in ticks, in the order of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
pub(super) type CoreTicks = [u64; 8];

struct Snapshot {
    at: Duration,
    disks: Vec<Option<DiskCounters>>,
    cores: Vec<CoreTicks>,
}

/// Snapshots in the order of time.
pub(super) struct Timeline {
    diskstats: PathBuf,
    stat: PathBuf,
    names: Vec<String>,
    snapshots: Vec<Snapshot>,
    /// When the trial had done all it had to.
    done: Option<Duration>,
    buffer: String,
}

/// The part of a timeline between two instants.
pub(super) struct TimelineWindow {
    pub totals: Vec<DiskUse>,
    pub series: Vec<ObservedInterval>,
    pub cores: Vec<CoreUse>,
}

impl Timeline {
    pub fn new(sys: &Sys, names: Vec<String>) -> Timeline {
        let (diskstats, stat) = (sys.proc.join("diskstats"), sys.proc.join("stat"));
        Timeline { diskstats, stat, names, snapshots: Vec::new(), done: None, buffer: String::new() }
    }

    /// Takes a snapshot before the first operation of a trial: nothing of it is in the counters until `now`, asked
    /// once they are read.
    pub fn look_before_trial(&mut self, now: impl Fn() -> Duration) {
        self.look(now());
        if let Some(snapshot) = self.snapshots.last_mut() {
            snapshot.at = now();
        }
    }

    /// Takes a snapshot at `at`, when all that the trial had to do is done.
    pub fn look_after_trial(&mut self, at: Duration) {
        self.look(at);
        self.done = Some(at);
    }

    /// The trial's last operation ended at `to`: what [`look_after_trial`](Self::look_after_trial) saw after it holds
    /// from then on. Whatever else is in the counters by then is counted with the trial rather than a part of the
    /// trial being lost.
    pub fn ended_at(&mut self, to: Duration) {
        let Some(done) = self.done.take().filter(|done| *done >= to) else { return };
        self.snapshots.retain(|s| s.at < to || s.at >= done);
        if let Some(snapshot) = self.snapshots.iter_mut().find(|s| s.at == done) {
            snapshot.at = to;
        }
    }

    /// Takes a snapshot at `at`.
    pub fn look(&mut self, at: Duration) {
        let mut disks = vec![None; self.names.len()];
        if read_into(&self.diskstats, &mut self.buffer) {
            for line in diskstats::lines(&self.buffer) {
                if let Some(index) = self.names.iter().position(|n| n == line.name) {
                    disks[index] = Some(line.counters);
                }
            }
        }
        let cores =
            if read_into(&self.stat, &mut self.buffer) { parse_cores(&self.buffer) } else { Vec::new() };
        self.snapshots.push(Snapshot { at, disks, cores });
    }

    /// What happened from `from` to `to`: counters between snapshots are interpolated at both ends.
    pub fn cut(&self, from: Duration, to: Duration) -> TimelineWindow {
        let mut points: Vec<Snapshot> = Vec::new();
        points.extend(self.at(from));
        let within = self.snapshots.iter().filter(|s| s.at > from && s.at < to);
        points.extend(within.map(|s| Snapshot { at: s.at, disks: s.disks.clone(), cores: s.cores.clone() }));
        points.extend(self.at(to));
        let mut totals = vec![DiskCounters::default(); self.names.len()];
        let mut series = Vec::new();
        for (before, now) in points.iter().zip(points.iter().skip(1)) {
            let grown = before.disks.iter().zip(&now.disks);
            let grown = grown.map(|(before, now)| now.as_ref()?.since(before.as_ref()?));
            let grown: Vec<DiskCounters> = grown.map(Option::unwrap_or_default).collect();
            for (total, grown) in totals.iter_mut().zip(&grown) {
                // In flight is what was there at the end.
                *total = DiskCounters { in_flight: grown.in_flight, ..total.plus(grown) };
            }
            series.push(ObservedInterval {
                end: Nanos(nanos(now.at.saturating_sub(from))),
                devices: grown.iter().map(DiskCounters::to_use).collect(),
                core_busy: cores_between(before, now).iter().map(|c| Nanos(c.user.0 + c.system.0)).collect(),
            });
        }
        let cores = match (points.first(), points.last()) {
            (Some(first), Some(last)) => cores_between(first, last),
            _ => Vec::new(),
        };
        TimelineWindow { totals: totals.iter().map(DiskCounters::to_use).collect(), series, cores }
    }

    /// The counters at an instant, between the snapshots around it.
    fn at(&self, at: Duration) -> Option<Snapshot> {
        let after = self.snapshots.iter().position(|s| s.at >= at)?;
        let now = self.snapshots.get(after)?;
        let before = self.snapshots.get(after.saturating_sub(1))?;
        let span = now.at.saturating_sub(before.at).as_secs_f64();
        let share = if span > 0.0 { at.saturating_sub(before.at).as_secs_f64() / span } else { 1.0 };
        let disks =
            before.disks.iter().zip(&now.disks).map(|(b, n)| between(b.as_ref()?, n.as_ref()?, share));
        let cores = before
            .cores
            .iter()
            .zip(&now.cores)
            .map(|(b, n)| std::array::from_fn(|i| b[i] + part(n[i].saturating_sub(b[i]), share)));
        Some(Snapshot { at, disks: disks.collect(), cores: cores.collect() })
    }
}

/// Reads a whole file into `buffer`; false when it cannot be read.
pub(super) fn read_into(path: &std::path::Path, buffer: &mut String) -> bool {
    buffer.clear();
    read::open(path).and_then(|mut file| file.read_to_string(buffer)).is_ok()
}

fn part(of: u64, share: f64) -> u64 {
    (of as f64 * share).round() as u64
}

fn between(before: &DiskCounters, now: &DiskCounters, share: f64) -> Option<DiskCounters> {
    let grown = now.since(before)?;
    let op = |before: &OpCounters, grown: &OpCounters| OpCounters {
        ops: before.ops + part(grown.ops, share),
        merged: before.merged + part(grown.merged, share),
        sectors: before.sectors + part(grown.sectors, share),
        ms: before.ms + part(grown.ms, share),
    };
    Some(DiskCounters {
        read: op(&before.read, &grown.read),
        write: op(&before.write, &grown.write),
        in_flight: if share < 0.5 { before.in_flight } else { now.in_flight },
        busy_ms: before.busy_ms + part(grown.busy_ms, share),
        weighted_ms: before.weighted_ms + part(grown.weighted_ms, share),
        discard: before.discard.zip(grown.discard).map(|(b, g)| op(&b, &g)),
        flush: before.flush.zip(grown.flush).map(|(b, g)| (b.0 + part(g.0, share), b.1 + part(g.1, share))),
    })
}

fn cores_between(before: &Snapshot, now: &Snapshot) -> Vec<CoreUse> {
    before
        .cores
        .iter()
        .zip(&now.cores)
        .map(|(before, now)| {
            // Idle and iowait may step back a little (kernel documentation of /proc/stat): no growth then.
            let ticks = |i: usize| growth(before[i], now[i]).unwrap_or(0);
            let nanos = |ticks: u64| Nanos(ticks.saturating_mul(TICK));
            CoreUse {
                user: nanos(ticks(0) + ticks(1)),
                system: nanos(ticks(2) + ticks(5) + ticks(6)),
                interrupts: Some(nanos(ticks(5) + ticks(6))),
                iowait: nanos(ticks(4)),
                steal: nanos(ticks(7)),
                idle: nanos(ticks(3)),
            }
        })
        .collect()
}

/// Per-core lines of `/proc/stat`; the sum over all cores is left out.
fn parse_cores(text: &str) -> Vec<CoreTicks> {
    text.lines()
        .map_while(|line| line.strip_prefix("cpu"))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_digit()))
        .map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            std::array::from_fn(|_| words.next().and_then(|w| w.parse().ok()).unwrap_or(0))
        })
        .collect()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(at_ms: u64, writes: u64, user: u64) -> Snapshot {
        let write = OpCounters { ops: writes, merged: 0, sectors: writes * 8, ms: writes * 2 };
        let disk = DiskCounters { write, busy_ms: at_ms, ..DiskCounters::default() };
        Snapshot {
            at: Duration::from_millis(at_ms),
            disks: vec![Some(disk)],
            cores: vec![[user, 0, 0, 100, 0, 0, 0, 0]],
        }
    }

    fn timeline(snapshots: Vec<Snapshot>) -> Timeline {
        let mut timeline = Timeline::new(&Sys::host(), vec!["vda".to_owned()]);
        timeline.snapshots = snapshots;
        timeline
    }

    #[test]
    fn a_window_between_snapshots_gets_its_share() {
        let timeline = timeline(vec![
            snapshot(0, 0, 0),
            snapshot(1000, 100, 40),
            snapshot(2000, 300, 80),
            snapshot(3000, 300, 80),
        ]);
        let cut = timeline.cut(Duration::from_millis(500), Duration::from_millis(1500));
        assert_eq!(cut.totals[0].ops.write, 50 + 100);
        assert_eq!(cut.totals[0].bytes.write, 150 * 8 * 512);
        assert_eq!(cut.totals[0].busy, Nanos::from_millis(1000));
        let ends: Vec<u64> = cut.series.iter().map(|i| i.end.0 / 1_000_000).collect();
        assert_eq!(ends, [500, 1000]);
        assert_eq!(cut.series[1].devices[0].ops.write, 100);
        assert_eq!(cut.cores[0].user, Nanos::from_millis(400));
    }

    /// 100 writes of others end before the trial begins, 50 of its own follow within 20 ms, and 400 of others come after.
    #[test]
    fn a_short_trial_is_told_from_what_surrounds_it_where_its_edges_are_known() {
        let looks =
            || vec![snapshot(0, 0, 0), snapshot(100, 100, 0), snapshot(123, 150, 0), snapshot(250, 550, 0)];
        let (from, to) = (Duration::from_millis(100), Duration::from_millis(120));
        let mut timeline = timeline(looks());
        timeline.done = Some(Duration::from_millis(123));
        timeline.ended_at(to);
        let cut = timeline.cut(from, to);
        assert_eq!((cut.totals[0].ops.write, cut.series.len()), (50, 1));
        // A trial that time has ended goes on for a moment: its share counts.
        let unmarked = super::tests::timeline(looks()).cut(from, to);
        assert_eq!(unmarked.totals[0].ops.write, 43);
    }

    #[test]
    fn a_device_that_vanishes_and_comes_back_counts_while_it_is_there() {
        let mut gone = snapshot(1000, 0, 0);
        gone.disks = vec![None];
        let timeline = timeline(vec![snapshot(0, 10, 0), gone, snapshot(2000, 5, 0), snapshot(3000, 9, 0)]);
        let cut = timeline.cut(Duration::ZERO, Duration::from_secs(3));
        assert_eq!(cut.totals[0].ops.write, 4);
        assert_eq!(cut.series.len(), 3);
    }

    #[test]
    fn nothing_seen_is_nothing() {
        let cut = timeline(Vec::new()).cut(Duration::ZERO, Duration::from_secs(1));
        assert!(cut.series.is_empty() && cut.cores.is_empty() && cut.totals == [DiskUse::default()]);
    }

    #[test]
    fn cores_of_a_recorded_stat() {
        let cores = parse_cores(
            "cpu  10 2 3 400 5 6 7 8 0 0\ncpu0 4 1 1 200 2 3 3 4 0 0\ncpu1 6 1 2 200 3 3 4 4\nintr 9 9\n",
        );
        assert_eq!(cores, [[4, 1, 1, 200, 2, 3, 3, 4], [6, 1, 2, 200, 3, 3, 4, 4]]);
        let at = |cores| Snapshot { at: Duration::ZERO, disks: Vec::new(), cores };
        let used = cores_between(&at(vec![[0; 8]]), &at(vec![cores[0]]))[0];
        assert_eq!((used.system, used.interrupts), (Nanos(7 * TICK), Some(Nanos(6 * TICK))));
    }
}
