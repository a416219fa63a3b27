//! The host beside its disks, with the meanings of iostat and vmstat: what the processors did, and what was swapped.

use super::diskstats::growth;
use crate::units::Nanos;
use serde::Serialize;

/// Counters that only grow: of the line `cpu` of `/proc/stat` in ticks (user, nice, system, idle, iowait, irq, softirq, steal),
/// and pages swapped in and out (`pswpin` and `pswpout` of `/proc/vmstat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCounters {
    cpu: Option<[u64; 8]>,
    swap: Option<(u64, u64)>,
}

/// Shares of all processors' time, 0 to 1, as iostat's first line has them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct CpuShares {
    /// In programs that are not niced.
    pub user: f64,
    /// Programs of lower priority.
    pub nice: f64,
    /// The kernel, with its interrupts.
    pub system: f64,
    /// Idle while a request to a disk was outstanding.
    pub iowait: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// With nothing to do and no I/O to wait for.
    pub idle: f64,
}

/// Swapping, in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct SwapRates {
    /// Read back from swap.
    pub in_bytes_per_second: f64,
    /// Written out to swap.
    pub out_bytes_per_second: f64,
}

/// What the host did over a span.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct HostRates {
    /// Its processors; nothing while no tick has passed.
    pub cpu: Option<CpuShares>,
    /// Swapping, where the host has swap.
    pub swap: Option<SwapRates>,
}

impl HostCounters {
    /// From the texts of `/proc/stat` and `/proc/vmstat`; nothing of what is not in them.
    pub fn parse(stat: &str, vmstat: &str) -> HostCounters {
        let cpu = stat.lines().find_map(|line| {
            let mut words = line.strip_prefix("cpu ")?.split_ascii_whitespace();
            // Old kernels have fewer columns.
            let first = words.next()?.parse().ok()?;
            let mut next = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            Some([first, next(), next(), next(), next(), next(), next(), next()])
        });
        let pages = |name: &str| {
            vmstat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
        };
        HostCounters { cpu, swap: pages("pswpin").zip(pages("pswpout")) }
    }

    /// Growth since `before`; nothing of what fell or was not there.
    pub fn since(&self, before: &HostCounters) -> HostCounters {
        let cpu = self.cpu.zip(before.cpu).map(|(now, before)| {
            // iowait may fall by a little (proc(5)): then nothing was waited for.
            std::array::from_fn(|i| now[i].saturating_sub(before[i]))
        });
        let swap = self
            .swap
            .zip(before.swap)
            .and_then(|(now, before)| Some((growth(before.0, now.0)?, growth(before.1, now.1)?)));
        HostCounters { cpu, swap }
    }

    /// Rates of this growth over `span`, with pages of `page` bytes.
    pub fn rates(&self, span: Nanos, page: u64) -> HostRates {
        let cpu = self.cpu.and_then(|ticks| {
            let all = ticks.iter().fold(0u64, |sum, part| sum.saturating_add(*part));
            let share = |of: u64| of as f64 / all as f64;
            let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
            (all > 0).then(|| CpuShares {
                user: share(user),
                nice: share(nice),
                system: share(system.saturating_add(irq).saturating_add(softirq)),
                iowait: share(iowait),
                steal: share(steal),
                idle: share(idle),
            })
        });
        let swap = self.swap.filter(|_| span.0 > 0).map(|(read, written)| {
            let bytes = |pages: u64| pages.saturating_mul(page) as f64 / span.as_secs_f64();
            SwapRates { in_bytes_per_second: bytes(read), out_bytes_per_second: bytes(written) }
        });
        HostRates { cpu, swap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  26380 96204 16981 66408 3203 100 66 177 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\nintr 5 6\n";

    /// Two readings, 2 s apart.
    #[test]
    fn shares_and_rates_between_two_readings() {
        let before = HostCounters::parse(STAT, "nr_free_pages 5\npswpin 10\npswpout 20\npswpout_x 7\n");
        let stat = "cpu  26400 96204 16991 66508 3243 105 71 197 0 0\n";
        let now = HostCounters::parse(stat, "pswpin 266\npswpout 20\n");
        let rates = now.since(&before).rates(Nanos::from_secs(2), 4096);
        let cpu = rates.cpu.expect("shares");
        let parts = [cpu.user, cpu.nice, cpu.system, cpu.iowait, cpu.steal, cpu.idle];
        assert_eq!(parts, [0.1, 0.0, 0.1, 0.2, 0.1, 0.5]);
        let swap = rates.swap.expect("rates");
        assert_eq!((swap.in_bytes_per_second, swap.out_bytes_per_second), (524_288.0, 0.0));
    }

    #[test]
    fn what_is_not_there_is_nothing() {
        let none = HostCounters::parse("intr 5\n", "nr_free_pages 5\n");
        assert_eq!(none.rates(Nanos::from_secs(1), 4096), HostRates::default());
        let some = HostCounters::parse(STAT, "pswpin 1\npswpout 2\n");
        assert_eq!(some.since(&some).rates(Nanos(0), 4096), HostRates::default());
        // Waiting for I/O is the one that may fall.
        let fallen = HostCounters::parse("cpu  26390 96204 16981 66408 3200 100 66 177\n", "");
        assert_eq!(fallen.since(&some).rates(Nanos::from_secs(1), 4096).cpu.map(|c| c.user), Some(1.0));
        // A 2.4 kernel's four columns.
        assert!(HostCounters::parse("cpu 1 2 3 4\n", "").rates(Nanos::from_secs(1), 4096).cpu.is_some());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(stat in "(cpu |[0-9]{1,20} |\n|.){0,30}", vmstat in "(pswpin |pswpout |[0-9]{1,20}|\n|.){0,20}") {
            let found = HostCounters::parse(&stat, &vmstat);
            let _ = found.since(&HostCounters::default()).rates(Nanos(1), u64::MAX);
            let _ = found.rates(Nanos(1), u64::MAX);
        }
    }
}
