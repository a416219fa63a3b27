//! What each host did, where several ran the trials at once, and how far apart they began.

use ebbtide_analysis::Estimate;
use ebbtide_analysis::estimate::{estimate, median};
use ebbtide_analysis::ordered::entry;
use ebbtide_model::samples::{Histogram, HostSamples, Skew, TrialSamples};
use ebbtide_model::units::Nanos;

/// One host in one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct HostFigures {
    /// As the user wrote it.
    pub name: String,
    /// Jobs that it ran.
    pub jobs: u32,
    /// Operations per second.
    pub iops: f64,
    /// Bytes per second.
    pub throughput: f64,
    /// Median latency of its operations in nanoseconds, where it had any.
    pub lat_p50: Option<f64>,
    /// 99th percentile of the same.
    pub lat_p99: Option<f64>,
    /// Seconds from the agreed instant until its last job was at work.
    pub late_s: f64,
    /// Seconds that its monotonic clock is ahead, and how wrong that may be.
    pub clock_ahead_s: (f64, f64),
    /// The same of its wall clock.
    pub wall_ahead_s: (f64, f64),
}

/// All hosts in one trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrialHosts {
    /// In the order of the design's members.
    pub hosts: Vec<HostFigures>,
    /// Seconds from the first that was at work to the last, and how wrong that may be; of two or more.
    pub skew_s: Option<(f64, f64)>,
}

impl TrialHosts {
    /// Of a trial; nothing of one on no host but this.
    pub(super) fn new(samples: &TrialSamples) -> Option<TrialHosts> {
        if samples.hosts.is_empty() {
            return None;
        }
        let skew = Skew::of(&samples.hosts);
        Some(TrialHosts {
            hosts: samples.hosts.iter().map(|host| figures(host, samples.elapsed)).collect(),
            skew_s: skew.map(|skew| (skew.spread.as_secs_f64(), skew.error.as_secs_f64())),
        })
    }
}

fn figures(host: &HostSamples, elapsed: Nanos) -> HostFigures {
    let count = host.ops.counts().total();
    let rate = |of: u64| if elapsed.0 > 0 { of as f64 / elapsed.as_secs_f64() } else { 0.0 };
    let latency: Histogram = host.ops.latency();
    let percentile = |p: f64| latency.percentile(p).map(|ns| ns as f64);
    let seconds = |ns: i64| ns as f64 / 1e9;
    let clock = |of: ebbtide_model::hosts::Offset| (seconds(of.ahead_ns), of.error.as_secs_f64());
    HostFigures {
        name: host.name.clone(),
        jobs: host.jobs,
        iops: rate(count.ops),
        throughput: rate(count.bytes),
        lat_p50: percentile(50.0),
        lat_p99: percentile(99.0),
        late_s: host.late.as_secs_f64(),
        clock_ahead_s: clock(host.clock),
        wall_ahead_s: clock(host.wall),
    }
}

/// One host over the trials of a result: medians with their intervals.
#[derive(Debug, Clone, PartialEq)]
pub struct HostRow {
    /// As the user wrote it.
    pub name: String,
    /// Jobs that it ran.
    pub jobs: u32,
    /// Operations per second; absent where it ran no job.
    pub iops: Option<Estimate>,
    /// Bytes per second.
    pub throughput: Option<Estimate>,
    /// Median latency of a trial, nanoseconds.
    pub lat_p50: Option<Estimate>,
    /// 99th percentile of a trial, nanoseconds.
    pub lat_p99: Option<Estimate>,
    /// Nanoseconds from the agreed instant until its last job was at work.
    pub late: Option<f64>,
}

/// The hosts of a result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostsView {
    /// Each, in the order of their coming.
    pub rows: Vec<HostRow>,
    /// Nanoseconds from the first that was at work to the last: the median trial's, the worst trial's, and how wrong the worst may be.
    pub skew: Option<(f64, f64, f64)>,
}

impl HostsView {
    /// Over `trials`, at this level; nothing where none was on several hosts.
    pub(super) fn new(trials: &[&TrialSamples], level: f64) -> Option<HostsView> {
        let of_trials: Vec<TrialHosts> = trials.iter().filter_map(|trial| TrialHosts::new(trial)).collect();
        let mut by_host: Vec<(&str, Vec<&HostFigures>)> = Vec::new();
        for host in of_trials.iter().flat_map(|trial| &trial.hosts) {
            entry(&mut by_host, host.name.as_str()).push(host);
        }
        if by_host.is_empty() {
            return None;
        }
        let rows = by_host.into_iter().map(|(name, figures)| row(name, &figures, level)).collect();
        let skews: Vec<(f64, f64)> = of_trials.iter().filter_map(|trial| trial.skew_s).collect();
        let worst = skews.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0));
        let skew = median(skews.iter().map(|skew| skew.0))
            .zip(worst)
            .map(|(median, (worst, error))| (median * 1e9, worst * 1e9, error * 1e9));
        Some(HostsView { rows, skew })
    }
}

fn row(name: &str, figures: &[&HostFigures], level: f64) -> HostRow {
    let ran: Vec<&&HostFigures> = figures.iter().filter(|host| host.jobs > 0).collect();
    let over = |of: &dyn Fn(&HostFigures) -> Option<f64>| {
        let values: Vec<f64> = ran.iter().filter_map(|host| of(host)).collect();
        estimate(&values, level)
    };
    HostRow {
        name: name.to_owned(),
        jobs: ran.first().map_or(0, |host| host.jobs),
        iops: over(&|host| Some(host.iops)),
        throughput: over(&|host| Some(host.throughput)),
        lat_p50: over(&|host| host.lat_p50),
        lat_p99: over(&|host| host.lat_p99),
        late: median(ran.iter().map(|host| host.late_s * 1e9)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::hosts::Offset;
    use ebbtide_model::per_op::PerOp;
    use ebbtide_model::samples::{Count, CpuUse, Execution, OpSamples};
    use ebbtide_model::units::UnixTime;

    fn host(name: &str, jobs: u32, latencies: &[u64], late: u64) -> HostSamples {
        let mut read = OpSamples::default();
        for latency in latencies {
            read.latency.record(*latency);
            read.count += Count { ops: 1, bytes: 4096 };
        }
        HostSamples {
            name: name.into(),
            jobs,
            ops: PerOp { read, write: OpSamples::default() },
            late: Nanos(late),
            clock: Offset { ahead_ns: -2_000_000_000, error: Nanos(50_000) },
            wall: Offset { ahead_ns: 3_000_000_000, error: Nanos(50_000) },
            ..HostSamples::default()
        }
    }

    fn trial(hosts: Vec<HostSamples>) -> TrialSamples {
        TrialSamples {
            started_unix: UnixTime::EPOCH,
            elapsed: Nanos::from_secs(2),
            interval: Nanos::from_secs(1),
            array: PerOp::default(),
            members: Vec::new(),
            series: Vec::new(),
            cpu: CpuUse::default(),
            mean_in_flight: None,
            execution: Execution::default(),
            observed: None,
            hosts,
            notes: Vec::new(),
        }
    }

    #[test]
    fn each_host_has_its_rates_and_the_worst_start_is_told_with_its_error() {
        let trials: Vec<TrialSamples> = (0..6)
            .map(|i| {
                trial(vec![
                    host("a", 2, &[1000, 2000, 3000, 4000], 1000),
                    host("b", 2, &[500, 500], 1000 + 100 * i),
                ])
            })
            .collect();
        let view = HostsView::new(&trials.iter().collect::<Vec<_>>(), 0.95).expect("hosts");
        let rates: Vec<f64> = view.rows.iter().filter_map(|row| Some(row.iops.as_ref()?.median)).collect();
        assert_eq!(rates, [2.0, 1.0]);
        assert!(view.rows[0].iops.as_ref().is_some_and(|iops| iops.interval.is_some()));
        let (median, worst, error) = view.skew.expect("two hosts");
        assert!(
            (median - 250.0).abs() < 1.0 && (worst - 500.0).abs() < 1.0 && (error - 100_000.0).abs() < 1.0
        );
        let one = TrialHosts::new(&trials[0]).expect("hosts");
        assert_eq!((one.hosts[0].wall_ahead_s, one.hosts[0].clock_ahead_s), ((3.0, 5e-5), (-2.0, 5e-5)));
    }

    #[test]
    fn a_host_without_a_job_has_a_row_and_no_figures() {
        let trials = [trial(vec![host("a", 1, &[1000], 0), host("b", 0, &[], 0)])];
        let view = HostsView::new(&trials.iter().collect::<Vec<_>>(), 0.95).expect("hosts");
        assert_eq!((view.rows[1].jobs, &view.rows[1].iops, view.skew), (0, &None, None));
        assert_eq!(HostsView::new(&[&trial(Vec::new())], 0.95), None);
    }
}
