//! Results in the shape of `fio --output-format=json` (fio 3.33).
//!
//! fio's keys keep fio's meanings and units: `bw` is KiB/s, `bw_bytes` bytes/s, `*_ns` nanoseconds, shares are percent.
//! What fio would have measured and we do not is given as fio gives it when told not to measure it: `slat_ns` is all
//! zeros with `N` 0. `clat_ns` contains the submission, as fio's `lat_ns` does. What only we know is below `ebbtide`.

use ebbtide_model::samples::{Count, DeviceObservation, Histogram, OpSamples, ProcessUse, TrialSamples};
use ebbtide_model::units::{Nanos, UnixTime};
use ebbtide_model::workload::{LatencyTarget, OpKind, SteadyMetric, SteadyResult, SteadyState, Workload};
use serde_json::{Map, Value, json};

/// Percentiles that fio reports unless told otherwise.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// A finished job, as fio's JSON lists it.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// What stands as `jobname`.
    pub name: &'a str,
    /// Number of the group of jobs that ran at the same time, from 0.
    pub group: u32,
    /// The options that it was given, with fio's names.
    pub options: &'a [(String, String)],
    /// The job's workload.
    pub workload: &'a Workload,
    /// The job's samples.
    pub samples: &'a TrialSamples,
    /// fio's `error` field: 0 for none, as fio writes it, and 1 where the failure has no number.
    pub error: i32,
    /// What the process used while it ran.
    pub usage: ProcessUse,
    /// What fio has no place for; goes below `ebbtide`.
    pub more: &'a Value,
}

/// The whole document for `jobs` that ended at `ended_unix`; `tool` is our name and version.
pub fn document(tool: &str, ended_unix: UnixTime, time: &str, jobs: &[Job<'_>]) -> Value {
    let mut disks: Vec<Value> = Vec::new();
    for job in jobs {
        let observed = job.samples.observed.as_deref();
        for device in observed.into_iter().flat_map(|o| &o.devices) {
            let known = |disk: &Value| disk["name"].as_str() == Some(device.name.as_str());
            if !disks.iter().any(known) {
                disks.push(disk(device, job.samples.elapsed));
            }
        }
    }
    json!({
        "fio version": tool,
        "timestamp": ended_unix.0 / Nanos::PER_SECOND,
        "timestamp_ms": ended_unix.0 / 1_000_000,
        "time": time,
        "jobs": jobs.iter().map(self::job).collect::<Vec<_>>(),
        "disk_util": disks,
    })
}

fn job(job: &Job<'_>) -> Value {
    let (samples, workload) = (job.samples, job.workload);
    let seconds = samples.elapsed.as_secs_f64();
    let percent = |part: Nanos| if seconds > 0.0 { part.as_secs_f64() / seconds * 100.0 } else { 0.0 };
    let depth = u64::from(workload.iodepth) * u64::from(workload.numjobs);
    let both = samples.latency();
    let latency =
        workload.conditions.latency.unwrap_or(LatencyTarget { window: Nanos(0), ..LatencyTarget::default() });
    // A search has one depth for all jobs, which fio says of each.
    let latency_depth = if latency.target > Nanos(0) { workload.iodepth.into() } else { depth };
    let options: Map<String, Value> =
        job.options.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut value = json!({
        "jobname": job.name,
        "groupid": job.group,
        "error": job.error,
        "eta": 0,
        "elapsed": samples.elapsed.0.div_ceil(Nanos::PER_SECOND),
        "job options": options,
        "read": direction(samples, OpKind::Read),
        "write": direction(samples, OpKind::Write),
        "trim": nothing_done(),
        "sync": { "total_ios": samples.execution.syncs.count(), "lat_ns": with_percentiles(&samples.execution.syncs) },
        "job_runtime": samples.elapsed.0 / 1_000_000,
        "usr_cpu": percent(samples.cpu.load_user),
        "sys_cpu": percent(samples.cpu.load_system),
        "ctx": job.usage.context_switches,
        "majf": job.usage.major_faults,
        "minf": job.usage.minor_faults,
        "iodepth_level": depth_shares(level(workload, samples.mean_in_flight), true),
        "iodepth_submit": depth_shares(None, false),
        "iodepth_complete": depth_shares(None, false),
        "latency_ns": latency_shares(&both, &NS, 1, None),
        "latency_us": latency_shares(&both, &NS, 1_000, None),
        "latency_ms": latency_shares(&both, &MS, 1_000_000, Some(">=2000")),
        "latency_depth": latency_depth,
        "latency_target": latency.target,
        "latency_percentile": latency.percentile,
        // fio has the target in nanoseconds and this in microseconds.
        "latency_window": latency.window.0 / 1_000,
        "ebbtide": job.more,
    });
    if workload.conditions.go_on.name().is_some() {
        value["total_err"] = json!(samples.execution.failed);
        value["first_error"] = json!(samples.execution.first_error.unwrap_or(0));
    }
    if let (Some(asked), Some(seen)) = (&workload.conditions.steady, &samples.execution.steady) {
        value["steadystate"] = steadystate(asked, seen);
    }
    value
}

/// Whether it became steady, as fio 3.42 has it.
fn steadystate(asked: &SteadyState, seen: &SteadyResult) -> Value {
    let sign = if asked.criterion.percent { "%" } else { "" };
    let of = |metric: SteadyMetric| -> Vec<u64> {
        seen.moments.iter().map(|moment| metric.of(moment, asked.interval).unwrap_or(0.0) as u64).collect()
    };
    let mean = |values: &[u64]| values.iter().sum::<u64>() / (values.len() as u64).max(1);
    let (bw, iops, lat) = (of(SteadyMetric::Bw), of(SteadyMetric::Iops), of(SteadyMetric::Lat));
    json!({
        "ss": asked.criterion.in_fios_words(),
        "duration": asked.window.0 / Nanos::PER_SECOND,
        "attained": u8::from(seen.attained),
        "criterion": format!("{:.6}{sign}", seen.criterion.unwrap_or(0.0)),
        "max_deviation": seen.deviation.unwrap_or(0.0),
        "slope": seen.slope.unwrap_or(0.0),
        "data": {
            "bw_mean": mean(&bw),
            "iops_mean": mean(&iops),
            "lat_mean": mean(&lat),
            "lat_ns": lat,
            "iops": iops,
            "bw": bw,
        },
    })
}

/// One of read and write.
fn direction(samples: &TrialSamples, kind: OpKind) -> Value {
    let op: &OpSamples = samples.array.get(kind);
    let seconds = samples.elapsed.as_secs_f64();
    let per_second = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
    let bytes_per_second = per_second(op.count.bytes);
    // What reads fio's results shows clat's percentiles. In an open loop they would hide the wait for earlier operations
    // if they counted from the submission, so that both count from the intended start.
    let mut clat = with_percentiles(&op.latency);
    if let (Value::Object(fields), false) = (&mut clat, op.latency.is_empty()) {
        let bins = op.latency.buckets().map(|bin| (bin.low.to_string(), json!(bin.count)));
        fields.insert("bins".to_owned(), Value::Object(bins.collect()));
    }
    let short: u64 = samples
        .members
        .iter()
        .flat_map(|member| &member.errors)
        .filter(|error| error.name == "short" && samples.array.get(other(kind)).count.ops == 0)
        .map(|error| error.count)
        .sum();
    let mut fields = json!({
        "io_bytes": op.count.bytes,
        "io_kbytes": op.count.bytes / 1024,
        "bw_bytes": bytes_per_second as u64,
        "bw": (bytes_per_second / 1024.0) as u64,
        "iops": per_second(op.count.ops),
        "runtime": if op.count.ops > 0 { samples.elapsed.0 / 1_000_000 } else { 0 },
        "total_ios": op.count.ops,
        "short_ios": short,
        "drop_ios": 0,
        "slat_ns": spread(None),
        "clat_ns": clat,
        "lat_ns": with_percentiles(&op.latency),
    });
    if let Value::Object(fields) = &mut fields {
        fields.extend(over_time(samples, kind));
    }
    fields
}

fn other(kind: OpKind) -> OpKind {
    match kind {
        OpKind::Read => OpKind::Write,
        OpKind::Write => OpKind::Read,
    }
}

/// The fields of a direction in which nothing was done.
fn nothing_done() -> Value {
    let empty = TrialSamples {
        started_unix: UnixTime::EPOCH,
        elapsed: Nanos(0),
        interval: Nanos(0),
        array: Default::default(),
        members: Vec::new(),
        series: Vec::new(),
        cpu: Default::default(),
        execution: Default::default(),
        mean_in_flight: None,
        observed: None,
        hosts: Vec::new(),
        notes: Vec::new(),
    };
    direction(&empty, OpKind::Read)
}

/// [`spread`] with fio's percentiles where anything was recorded.
pub fn with_percentiles(histogram: &Histogram) -> Value {
    let mut value = spread(Some(histogram));
    if let (Value::Object(fields), false) = (&mut value, histogram.is_empty()) {
        let shares =
            PERCENTILES.iter().filter_map(|p| Some((format!("{p:.6}"), json!(histogram.percentile(*p)?))));
        fields.insert("percentile".to_owned(), Value::Object(shares.collect()));
    }
    value
}

/// Minimum, maximum, mean and deviation; zeros where nothing was recorded, as fio has it.
fn spread(histogram: Option<&Histogram>) -> Value {
    let empty = Histogram::default();
    let histogram = histogram.unwrap_or(&empty);
    json!({
        "min": histogram.min().unwrap_or(0),
        "max": histogram.max().unwrap_or(0),
        "mean": histogram.mean().unwrap_or(0.0),
        "stddev": histogram.std_dev().unwrap_or(0.0),
        "N": histogram.count(),
    })
}

/// Minimum, maximum, mean and deviation of a rate over the intervals of the series that are at least half as long as
/// the nominal one (the last may be short).
fn over_time(samples: &TrialSamples, kind: OpKind) -> Map<String, Value> {
    let mut start = Nanos(0);
    let mut rates: Vec<(f64, f64)> = Vec::new();
    if samples.array.get(kind).count.ops > 0 {
        for interval in &samples.series {
            let span = interval.end.since(start);
            start = interval.end;
            if span.0 * 2 >= samples.interval.0 && span.0 > 0 {
                let Count { ops, bytes } = *interval.array.get(kind);
                rates.push((bytes as f64 / 1024.0 / span.as_secs_f64(), ops as f64 / span.as_secs_f64()));
            }
        }
    }
    let n = rates.len();
    let mut fields = Map::new();
    for (name, deviation, values) in [
        ("bw", "dev", rates.iter().map(|rate| rate.0).collect::<Vec<f64>>()),
        ("iops", "stddev", rates.iter().map(|rate| rate.1).collect()),
    ] {
        let mean = if n > 0 { values.iter().sum::<f64>() / n as f64 } else { 0.0 };
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        // fio divides by n - 1 (stat.c, calc_lat).
        let spread = if n > 1 { libm::sqrt(squares / (n - 1) as f64) } else { 0.0 };
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        fields.insert(format!("{name}_min"), json!(if n > 0 { least as u64 } else { 0 }));
        fields.insert(format!("{name}_max"), json!(most as u64));
        if name == "bw" {
            fields.insert("bw_agg".to_owned(), json!(if n > 0 { 100.0 } else { 0.0 }));
        }
        fields.insert(format!("{name}_mean"), json!(mean));
        fields.insert(format!("{name}_{deviation}"), json!(spread));
        fields.insert(format!("{name}_samples"), json!(n));
    }
    fields
}

/// Operations in flight per job. The engine records the mean, not each level: a closed loop submits again as soon as one
/// completes, so its level is its depth, unless the mean shows that the depth was not kept (an engine without a queue, a
/// wait for fsync).
fn level(workload: &Workload, mean: Option<f64>) -> Option<u64> {
    let depth = u64::from(workload.iodepth);
    let mean = mean? / f64::from(workload.numjobs.max(1));
    // A mean of 3.9 is a queue of 4 with pauses.
    let rounded = ((mean + 0.5) as u64).max(1);
    Some(if workload.is_free() && rounded * 2 > depth { depth } else { rounded })
}

/// All of it in the class of `level`.
fn depth_shares(level: Option<u64>, from_one: bool) -> Value {
    let classes: &[(u64, &str)] = if from_one {
        &[(1, "1"), (2, "2"), (4, "4"), (8, "8"), (16, "16"), (32, "32"), (64, ">=64")]
    } else {
        &[(0, "0"), (4, "4"), (8, "8"), (16, "16"), (32, "32"), (64, "64"), (u64::MAX, ">=64")]
    };
    let class = level
        .filter(|depth| *depth > 0)
        .map(|depth| classes.iter().rposition(|(least, _)| *least <= depth).unwrap_or(0));
    let shares = classes.iter().enumerate().map(|(index, (_, name))| {
        ((*name).to_owned(), json!(if class == Some(index) { 100.0 } else { 0.0 }))
    });
    Value::Object(shares.collect())
}

const NS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
const MS: [u64; 11] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000, 2000];

/// Share of latencies below each edge (times `unit` nanoseconds) and not in a class before it, in percent; `rest` is
/// what lies above the last edge. Edges of a finer unit come before: the first class begins at its predecessor's end.
fn latency_shares(histogram: &Histogram, edges: &[u64], unit: u64, rest: Option<&str>) -> Value {
    // fio's microsecond classes begin where the nanosecond ones end, and so on.
    let first = if unit == 1 { 0 } else { unit };
    let share = |low: u64, high: u64| {
        let count: u64 = histogram
            .buckets()
            .filter(|bucket| {
                let middle = bucket.low + (bucket.high - bucket.low) / 2;
                (low..high).contains(&middle)
            })
            .map(|bucket| bucket.count)
            .sum();
        if histogram.is_empty() { 0.0 } else { count as f64 / histogram.count() as f64 * 100.0 }
    };
    let mut shares = Map::new();
    let mut low = first;
    for edge in edges {
        let high = edge * unit;
        shares.insert(edge.to_string(), json!(share(low, high)));
        low = high;
    }
    if let Some(rest) = rest {
        shares.insert(rest.to_owned(), json!(share(low, u64::MAX)));
    }
    Value::Object(shares)
}

/// A device's counters as fio's `disk_util` has them: ticks are milliseconds.
fn disk(device: &DeviceObservation, elapsed: Nanos) -> Value {
    let total = &device.total;
    let millis = |time: Nanos| time.0 / 1_000_000;
    let util = if elapsed.0 > 0 { total.busy.0 as f64 / elapsed.0 as f64 * 100.0 } else { 0.0 };
    json!({
        "name": device.name,
        "read_ios": total.ops.read,
        "write_ios": total.ops.write,
        "read_merges": total.merged.read,
        "write_merges": total.merged.write,
        "read_ticks": millis(total.time.read),
        "write_ticks": millis(total.time.write),
        "in_queue": millis(total.weighted),
        "util": util.min(100.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::units::Bytes;
    use ebbtide_model::workload::{Access, Arrival, Mix, Stop};

    #[test]
    fn latencies_fall_into_one_class_each() {
        let mut histogram = Histogram::default();
        for value in [3, 999, 1_500, 30_000, 1_900_000, 3_000_000_000] {
            histogram.record(value);
        }
        let parts = [
            latency_shares(&histogram, &NS, 1, None),
            latency_shares(&histogram, &NS, 1_000, None),
            latency_shares(&histogram, &MS, 1_000_000, Some(">=2000")),
        ];
        let sum: f64 = parts
            .iter()
            .flat_map(|part| part.as_object().into_iter().flatten())
            .filter_map(|(_, share)| share.as_f64())
            .sum();
        assert!((sum - 100.0).abs() < 1e-9, "{parts:?}");
        let sixth = 100.0 / 6.0;
        for (part, class) in [(0, "4"), (0, "1000"), (1, "2"), (1, "50"), (2, "2"), (2, ">=2000")] {
            let share = parts[part][class].as_f64().expect("a share");
            assert!((share - sixth).abs() < 1e-9, "{class} of {:?}", parts[part]);
        }
    }

    #[test]
    fn a_closed_loop_has_the_level_of_its_depth() {
        let closed = |iodepth, numjobs| Workload {
            iodepth,
            numjobs,
            ..Workload::new("w", Access::Random, Mix::Read, Stop::Size(Bytes(1)))
        };
        // fio has it at 32 for 99.97% of the time when the mean in flight is 29.
        assert_eq!(level(&closed(32, 1), Some(29.0)), Some(32));
        assert_eq!(level(&closed(32, 4), Some(4.0 * 25.0)), Some(32));
        assert_eq!(level(&closed(32, 1), Some(1.0)), Some(1), "one at a time in spite of the depth");
        assert_eq!(level(&closed(2, 1), Some(0.99)), Some(1), "one at a time in spite of the depth");
        let open = Workload { arrival: Arrival::Fixed { iops: 9.0 }, ..closed(32, 1) };
        assert_eq!(level(&open, Some(20.2)), Some(20));
        let thinking = Workload { think_time: Nanos(1), ..closed(32, 4) };
        assert_eq!(level(&thinking, Some(3.99)), Some(1));
        assert_eq!(level(&closed(1, 1), Some(0.4)), Some(1));
        assert_eq!(level(&closed(1, 1), None), None);
        assert_eq!(depth_shares(Some(31), true)["16"], 100.0);
        assert_eq!(depth_shares(Some(100), true)[">=64"], 100.0);
        assert_eq!(depth_shares(None, true)["1"], 0.0);
    }
}
