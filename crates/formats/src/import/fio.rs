//! fio's JSON, of 2.x and 3.x.
//!
//! What differs (fio's stat.c through the years): 2.x gives `io_bytes` in KiB and latencies in microseconds
//! (`clat`); 3.x gives `io_bytes` in bytes beside `io_kbytes`, and nanoseconds (`clat_ns`). `bw` is KiB/s in both,
//! `runtime` milliseconds. `job options` exists since 2.10, and what all jobs share is in `global options`.

use super::{ImportError, Imported, Measured, VOLUME, add, name, samples, tell_apart};
use crate::fio::jobfile::values;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, Histogram, OpSamples};
use ebbtide_model::units::{Bytes, Nanos, UnixTime};
use ebbtide_model::workload::options::switch;
use ebbtide_model::workload::{Access, IoEngine, Mix, Stop, Workload};
use serde_json::{Map, Value};

/// More operations than any run completes, so that sums of hostile files stay below 2^64.
const MOST: u64 = 1 << 48;
/// The least and most that a histogram tells apart.
const LONGEST_NS: f64 = (1_u64 << 40) as f64;

/// Where the JSON begins: fio prints warnings of jobs before it, each on a line of its own.
pub(super) fn start(text: &str) -> Option<usize> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with('{') {
            return text[at..].contains("\"fio version\"").then_some(at);
        }
        at += line.len();
    }
    None
}

pub(super) fn parse(text: &str, start: usize) -> Result<Imported, ImportError> {
    let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    let lines_before = text[..start].matches('\n').count();
    let document = match values.next() {
        Some(Ok(document)) => document,
        Some(Err(error)) => {
            return Err(ImportError::Json {
                line: lines_before + error.line(),
                column: error.column(),
                // The parser counts lines from where the JSON begins.
                what: error.to_string().split(" at line ").next().unwrap_or_default().to_owned(),
            });
        }
        None => return Err(ImportError::Unknown),
    };
    let program = document["fio version"].as_str().unwrap_or("fio").to_owned();
    let mut notes = Vec::new();
    // Servers' results: a job for each client, and their sum, which would count everything twice.
    let clients: Option<Vec<&Value>> = document["client_stats"]
        .as_array()
        .map(|jobs| jobs.iter().filter(|job| job["jobname"] != "All clients").collect());
    let jobs: Vec<&Value> = match (document["jobs"].as_array(), clients) {
        (Some(jobs), _) => jobs.iter().collect(),
        (None, Some(clients)) => clients,
        (None, None) => Vec::new(),
    };
    let ended = whole(&document["timestamp_ms"])
        .map(|ms| ms.saturating_mul(1_000_000))
        .or_else(|| whole(&document["timestamp"]).map(|s| s.saturating_mul(Nanos::PER_SECOND)))
        .map(UnixTime);
    let empty = Map::new();
    let global = document["global options"].as_object().unwrap_or(&empty);
    let mut measured = Vec::new();
    let (mut target, mut size) = (None, None);
    for job in jobs {
        let own = job["job options"].as_object().unwrap_or(&empty);
        let option = |key: &str| own.get(key).or_else(|| global.get(key)).and_then(Value::as_str);
        let job_name = name(job["jobname"].as_str().unwrap_or_default(), "job");
        match one(job, &job_name, &option, ended.unwrap_or_default()) {
            Some(found) => measured.push(found),
            None => notes.push(format!("job {job_name} completed no reads and no writes: left out")),
        }
        target = target.or_else(|| option("filename").or_else(|| option("directory")).map(str::to_owned));
        size = size.or_else(|| values::bytes(option("size")?, binary(&option)).ok());
    }
    if measured.is_empty() {
        return Err(ImportError::Nothing(
            "no job in this result of fio completed a read or a write; is there an `error` in it?".to_owned(),
        ));
    }
    tell_apart(&mut measured);
    let hostname = document["client_stats"][0]["hostname"].as_str().map(str::to_owned);
    let text = text.to_owned();
    Ok(Imported { program, hostname, target, size, ended_unix: ended, measured, notes, text })
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite() && *number >= 0.0)
}

/// A count; `None` for anything that is none.
fn whole(value: &Value) -> Option<u64> {
    number(value).map(|number| number as u64)
}

fn one<'a>(
    job: &Value,
    job_name: &str,
    option: &dyn Fn(&str) -> Option<&'a str>,
    ended: UnixTime,
) -> Option<Measured> {
    let ways = PerOp { read: direction(&job["read"]), write: direction(&job["write"]) };
    let elapsed = ways.read.1.max(ways.write.1);
    let array = PerOp { read: ways.read.0, write: ways.write.0 };
    let (reads, writes) = (array.read.count, array.write.count);
    let (ops, bytes) = (reads.ops + writes.ops, reads.bytes + writes.bytes);
    if elapsed.0 == 0 || ops == 0 {
        return None;
    }
    let mut notes = Vec::new();
    let rw = option("rw").or_else(|| option("readwrite"));
    let random = match rw {
        Some(rw) => rw.contains("rand"),
        None => {
            notes.push(
                "fio did not write down the order of access; taken from the job's name: `rand` in it is random"
                    .to_owned(),
            );
            job_name.contains("rand")
        }
    };
    let mix = match (reads.ops > 0, writes.ops > 0) {
        (true, false) => Mix::Read,
        (false, _) => Mix::Write,
        (true, true) => Mix::Mixed { read_percent: (reads.ops as f64 / ops as f64 * 100.0).round() as u8 },
    };
    let depth = |key: &str| option(key).and_then(|text| text.parse::<u32>().ok()).filter(|n| *n > 0);
    // An option without a value is on.
    let text = |key: &str| option(key).map(|text| Some(text).filter(|text| !text.is_empty()));
    let flag = |key: &str| text(key).is_some_and(|text| switch(text, &[]).unwrap_or(false));
    let block = option("bs")
        .or_else(|| option("blocksize"))
        .and_then(|text| values::one_value(text, |part| values::bytes(part, binary(option))).ok());
    if !(array.read.latency.is_empty() && array.write.latency.is_empty()) {
        notes.push(
            "latencies are completion latencies, restored from the percentiles that fio gave: between two of them they \
             are not known"
                .to_owned(),
        );
    }
    let mut samples = samples(ended, elapsed, array, VOLUME);
    samples.notes = notes;
    let per_op = bytes.checked_div(ops).unwrap_or(0);
    Some(Measured {
        workload: Workload {
            bs: block.unwrap_or(Bytes(per_op)),
            iodepth: depth("iodepth").unwrap_or(1),
            numjobs: depth("numjobs").unwrap_or(1),
            warm_up: option("ramp_time")
                .and_then(|text| values::time(text, Nanos::PER_SECOND).ok())
                .unwrap_or(Nanos(0)),
            direct: flag("direct"),
            sync: text("sync").is_some_and(|text| switch(text, &[("none", false)]).unwrap_or(true)),
            end_fsync: flag("end_fsync"),
            ioengine: match option("ioengine") {
                Some("psync" | "sync" | "pvsync" | "pvsync2" | "vsync" | "mmap") | None => IoEngine::Psync,
                Some(_) => IoEngine::IoUring,
            },
            ..Workload::new(
                job_name,
                if random { Access::Random } else { Access::Sequential },
                mix,
                Stop::Runtime(elapsed),
            )
        },
        samples,
    })
}

/// Whether `k` is 1024.
fn binary<'a>(option: &dyn Fn(&str) -> Option<&'a str>) -> bool {
    option("kb_base") != Some("1000")
}

/// Reads or writes, and how long they went on.
fn direction(value: &Value) -> (OpSamples, Nanos) {
    let elapsed = Nanos(whole(&value["runtime"]).unwrap_or(0).min(MOST).saturating_mul(1_000_000));
    let bytes = match (whole(&value["io_kbytes"]), whole(&value["io_bytes"])) {
        (Some(_), Some(bytes)) => bytes,
        (Some(kib), None) | (None, Some(kib)) => kib.saturating_mul(1024),
        (None, None) => 0,
    };
    // Before 2.2 there is no count, only the rate.
    let ops = whole(&value["total_ios"])
        .or_else(|| number(&value["iops"]).map(|iops| (iops * elapsed.as_secs_f64()).round() as u64))
        .unwrap_or(0)
        .min(MOST);
    let latency = [("clat_ns", 1.0), ("lat_ns", 1.0), ("clat", 1e3), ("lat", 1e3)]
        .into_iter()
        .find_map(|(key, ns)| distribution(&value[key], ns, ops))
        .unwrap_or_default();
    (OpSamples { count: Count { ops, bytes: bytes.min(1 << 60) }, latency, service: None }, elapsed)
}

/// A distribution of `count` latencies from its percentiles; `unit` is nanoseconds. `None` without percentiles.
fn distribution(value: &Value, unit: f64, count: u64) -> Option<Histogram> {
    let mut points: Vec<(f64, u64)> = value["percentile"]
        .as_object()?
        .iter()
        .filter_map(|(percent, at)| {
            let percent = percent.parse::<f64>().ok().filter(|p| (0.0..=100.0).contains(p))?;
            Some((percent, (number(at)? * unit).min(LONGEST_NS) as u64))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    // fio pads with zeros what it was not asked for, and gives nothing but zeros where nothing was done.
    let most = number(&value["max"]).map_or(0, |max| (max * unit).min(LONGEST_NS) as u64);
    points.retain(|(percent, at)| *percent > 0.0 && (*at > 0 || most == 0));
    if points.is_empty() || count == 0 {
        return None;
    }
    let mut histogram = Histogram::default();
    // The slowest is the maximum, which fio gives exactly.
    let all_but_slowest = if most > 0 { count - 1 } else { count };
    let mut before = 0;
    let last = points.last().map_or(0, |(_, at)| *at);
    for (percent, at) in points {
        // The smallest rank that has this share at or below it, as `Histogram::percentile` counts.
        let upto = ((percent / 100.0 * count as f64).ceil() as u64).min(all_but_slowest);
        add(&mut histogram, at, upto.saturating_sub(before));
        before = before.max(upto);
    }
    add(&mut histogram, most.max(last), count.saturating_sub(before));
    histogram.compact();
    Some(histogram)
}
