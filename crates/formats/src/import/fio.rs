//! fio's JSON, of 2.x and 3.x.
//!
//! What differs (fio's stat.c through the years): 2.x gives `io_bytes` in KiB and latencies in microseconds
//! (`clat`); 3.x gives `io_bytes` in bytes beside `io_kbytes`, and nanoseconds (`clat_ns`). `bw` is KiB/s in both,
//! `runtime` milliseconds. `job options` exists since 2.10, and what all jobs share is in `global options`.

use super::{ImportError, Imported, Measured, VOLUME, add, name, samples, tell_apart};
use crate::fio::jobfile::values;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, Histogram, OpSamples, rank};
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

/// With what fio prints `text`, where that is not JSON.
pub(super) fn other_form(text: &str) -> Option<&'static str> {
    let terse = |line: &str| {
        let mut fields = line.split(';');
        fields.next().is_some_and(|version| matches!(version, "2" | "3" | "4" | "5"))
            && (fields.next().is_some_and(|version| version.starts_with("fio-")) || fields.count() > 40)
    };
    if text.lines().any(terse) {
        return Some("with --output-format=terse or --minimal");
    }
    let plain = |line: &str| line.contains(": (g=0): rw=") || line.starts_with("Run status group ");
    text.lines().any(plain).then_some("for people")
}

/// A run's last whole document, where its text ends, and how many there are.
struct Run {
    document: Value,
    text: std::ops::Range<usize>,
    documents: usize,
}

/// The runs in `text`, the first of which begins at `start`, and whether another document was cut off.
///
/// With --status-interval fio writes one each time, and each counts from the beginning; of runs one after the other each has its own.
fn runs(text: &str, start: usize) -> Result<(Vec<Run>, bool), ImportError> {
    let (mut at, mut runs) = (start, Vec::<Run>::new());
    loop {
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        let document = match values.next() {
            Some(Ok(document)) => document,
            _ if !runs.is_empty() => return Ok((runs, true)),
            Some(Err(error)) => {
                return Err(ImportError::Json {
                    line: text[..at].matches('\n').count() + error.line(),
                    column: error.column(),
                    // The parser counts lines from where the JSON begins.
                    what: error.to_string().split(" at line ").next().unwrap_or_default().to_owned(),
                });
            }
            None => return Err(ImportError::Unknown),
        };
        let end = at + values.byte_offset();
        match runs.last_mut().filter(|run| goes_on(&run.document, &document)) {
            Some(run) => *run = Run { document, text: run.text.start..end, documents: run.documents + 1 },
            None => runs.push(Run {
                document,
                text: runs.last().map_or(0, |run| run.text.end)..end,
                documents: 1,
            }),
        }
        match self::start(&text[end..]) {
            Some(next) => at = end + next,
            None => return Ok((runs, false)),
        }
    }
}

/// Whether the run of one document goes on in the next: the same jobs, begun at the same time.
fn goes_on(before: &Value, after: &Value) -> bool {
    let names = |document: &Value| -> Vec<Value> {
        document["jobs"]
            .as_array()
            .map(|jobs| jobs.iter().map(|job| job["jobname"].clone()).collect())
            .unwrap_or_default()
    };
    let elapsed = |document: &Value| {
        let jobs = document["jobs"].as_array();
        jobs.into_iter().flatten().filter_map(|job| number(&job["elapsed"])).fold(0.0, f64::max)
    };
    let begun = |document: &Value| {
        let ended = number(&document["timestamp_ms"])
            .map(|ms| ms / 1000.0)
            .or_else(|| number(&document["timestamp"]))?;
        Some(ended - elapsed(document))
    };
    // Both are in whole seconds, of which one began.
    let same = begun(before).zip(begun(after)).is_none_or(|(a, b)| (a - b).abs() <= 2.0);
    names(before) == names(after) && elapsed(before) <= elapsed(after) && same
}

pub(super) fn parse(text: &str, start: usize) -> Result<Vec<Imported>, ImportError> {
    let (runs, cut) = runs(text, start)?;
    let last = runs.len() - 1;
    let of_run = |(place, run): (usize, Run)| {
        let cut = cut && place == last;
        let mut notes = Vec::new();
        if run.documents > 1 || cut {
            let of_last = if cut { "the one after it was cut off" } else { "each counts from the beginning" };
            let (count, told) = (run.documents, "results as it ran: the last whole one is imported");
            notes.push(format!("fio wrote {count} {told}, {of_last}"));
        }
        let own = if place == last { run.text.start..text.len() } else { run.text };
        imported(&run.document, &text[own], notes)
    };
    runs.into_iter().enumerate().map(of_run).collect()
}

/// What one run measured, as its last document says it.
fn imported(document: &Value, text: &str, mut notes: Vec<String>) -> Result<Imported, ImportError> {
    let program = document["fio version"].as_str().unwrap_or("fio").to_owned();
    let mut failures = Vec::new();
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
        // With --continue_on_error the job went on, and `total_err` says so.
        let error = whole(&job["error"]).filter(|error| *error > 0);
        let failed = error.map(|error| format!("job {job_name} ended with {}", error_in_words(error)));
        failures.extend(failed.clone());
        match one(job, &job_name, &option, ended.unwrap_or_default()) {
            Some((found, together)) => {
                measured.push(Measured { failed, ..found });
                notes.extend(together.map(|what| format!("job {job_name}: {what}")));
            }
            None => notes.push(format!("job {job_name} completed no reads and no writes: left out")),
        }
        target = target.or_else(|| option("filename").or_else(|| option("directory")).map(str::to_owned));
        size = size.or_else(|| values::bytes(option("size")?, binary(&option)).ok());
    }
    let failed = (!failures.is_empty()).then(|| failures.join("; "));
    if measured.is_empty() {
        let why = failed.unwrap_or_else(|| "it names no error".to_owned());
        return Err(ImportError::Nothing(format!(
            "no job in this result of fio completed a read or a write: {why}"
        )));
    }
    notes.extend(failed.iter().map(|failed| format!("the run failed: {failed}")));
    tell_apart(&mut measured);
    let hostname = document["client_stats"][0]["hostname"].as_str().map(str::to_owned);
    let text = text.to_owned();
    Ok(Imported { program, hostname, target, size, ended_unix: ended, measured, failed, notes, text })
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite() && *number >= 0.0)
}

/// A count; `None` for anything that is none.
fn whole(value: &Value) -> Option<u64> {
    number(value).map(|number| number as u64)
}

/// An error number as fio gives it.
fn error_in_words(error: u64) -> String {
    let known = i32::try_from(error).ok().filter(|error| *error < 4096);
    known.map_or_else(
        || format!("error {error}"),
        |error| {
            let words = std::io::Error::from_raw_os_error(error).to_string();
            format!("error {error}: {}", words.split(" (os error").next().unwrap_or_default())
        },
    )
}

/// What the options say of one job, and what fio shows of a group of them as one, with the options of its last job.
struct Group {
    /// Threads whose figures are added up.
    threads: u32,
    /// The class of operations in flight that held for most of the time.
    depth: u32,
}

/// Whether `job` is a group whose options are those of one of its jobs only.
fn group<'a>(
    job: &Value,
    array: &PerOp<OpSamples>,
    elapsed: Nanos,
    option: &dyn Fn(&str) -> Option<&'a str>,
) -> Option<Group> {
    // Before 2.10 there are none, which is no group.
    job["job options"].as_object()?;
    let asked =
        |key: &str| option(key).and_then(|text| text.parse::<u32>().ok()).filter(|n| *n > 0).unwrap_or(1);
    // The times of all threads, in milliseconds.
    let threads = number(&job["job_runtime"])
        .map(|all| (all / elapsed.as_secs_f64() / 1000.0).round() as u32)
        .filter(|threads| *threads > 0)
        .unwrap_or(asked("numjobs"));
    let levels = ["1", "2", "4", "8", "16", "32", ">=64"];
    let share = |level: &str| number(&job["iodepth_level"][level]).unwrap_or(0.0);
    let held = levels.into_iter().filter(|level| share(level) > 0.0);
    let most = held.max_by(|a, b| share(a).total_cmp(&share(b))).unwrap_or("1");
    let depth = most.trim_start_matches(">=").parse().unwrap_or(1);
    let (reads, writes) = (array.read.count, array.write.count);
    let rw = option("rw").or_else(|| option("readwrite")).unwrap_or("read");
    let mixed = rw.contains("rw") || rw.contains("readwrite");
    let only_writes = rw.contains("write") && !mixed;
    let other_way = !mixed && if only_writes { reads.ops > 0 } else { writes.ops > 0 };
    let other_size = ["bs", "blocksize"].iter().find_map(|key| option(key)).is_some_and(|text| {
        let one = values::one_value(text, |part| values::bytes(part, binary(option)));
        one.is_ok_and(|bs| {
            let mean = (reads.bytes + writes.bytes) as f64 / (reads.ops + writes.ops).max(1) as f64;
            // The last operation may be short.
            (mean / bs.0.max(1) as f64 - 1.0).abs() > 0.02
        })
    });
    let deeper = depth > asked("iodepth");
    let several = threads > asked("numjobs");
    (other_way || other_size || deeper || several).then_some(Group { threads, depth })
}

/// What one job of the result measured; what the reader must know where it is several.
fn one<'a>(
    job: &Value,
    job_name: &str,
    option: &dyn Fn(&str) -> Option<&'a str>,
    ended: UnixTime,
) -> Option<(Measured, Option<String>)> {
    let mut ways = PerOp { read: direction(&job["read"]), write: direction(&job["write"]) };
    // With unified_rw_reporting=1 this takes the place of both.
    let unified = job["mixed"].is_object() && ways.read.0.count.ops + ways.write.0.count.ops == 0;
    let mut read_percent = None;
    if unified {
        let rw = option("rw").or_else(|| option("readwrite")).unwrap_or("rw");
        let share = option("rwmixread").and_then(|text| text.parse().ok());
        let of_writes = option("rwmixwrite").and_then(|text| text.parse::<u8>().ok());
        let percent = match (rw.contains("rw"), rw.contains("write")) {
            (true, _) => {
                share.or(of_writes.map(|writes| 100u8.saturating_sub(writes))).unwrap_or(50).min(100)
            }
            (false, true) => 0,
            (false, false) => 100,
        };
        read_percent = Some(percent);
        ways = apart(&job["mixed"], percent);
    }
    let elapsed = ways.read.1.max(ways.write.1);
    let array = PerOp { read: ways.read.0, write: ways.write.0 };
    let (reads, writes) = (array.read.count, array.write.count);
    let (ops, bytes) = (reads.ops + writes.ops, reads.bytes + writes.bytes);
    if elapsed.0 == 0 || ops == 0 {
        return None;
    }
    let group = group(job, &array, elapsed, option).filter(|_| !unified);
    // Of a group the options say nothing that holds for all of it.
    let said = |key: &str| option(key).filter(|_| group.is_none());
    let together = group.as_ref().map(|group| {
        format!(
            "fio tells a group of jobs as one (group_reporting), with the options of the last: their order, block sizes and depths are \
             not known; {} threads and {} operations in flight each are what its totals show",
            group.threads, group.depth
        )
    });
    let mut notes: Vec<String> = together.iter().cloned().collect();
    if let Some(percent) = read_percent {
        notes.push(format!(
            "fio reported reads and writes together (unified_rw_reporting): {percent}% are told as reads, as its options say, and both \
             with the latencies of all"
        ));
    }
    let rw = said("rw").or_else(|| said("readwrite"));
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
    let depth = |key: &str| said(key).and_then(|text| text.parse::<u32>().ok()).filter(|n| *n > 0);
    // An option without a value is on.
    let text = |key: &str| option(key).map(|text| Some(text).filter(|text| !text.is_empty()));
    let flag = |key: &str| text(key).is_some_and(|text| switch(text, &[]).unwrap_or(false));
    let block = said("bs")
        .or_else(|| said("blocksize"))
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
    let measured = Measured {
        workload: Workload {
            bs: block.unwrap_or(Bytes(per_op)),
            iodepth: group.as_ref().map_or_else(|| depth("iodepth").unwrap_or(1), |group| group.depth),
            numjobs: group
                .as_ref()
                .map_or_else(|| threads(job, elapsed, depth("numjobs")), |group| group.threads),
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
        failed: None,
    };
    Some((measured, together))
}

/// Threads of a job, whose clones fio tells one by one unless it is to tell them together.
fn threads(job: &Value, elapsed: Nanos, asked: Option<u32>) -> u32 {
    let asked = asked.unwrap_or(1);
    match number(&job["job_runtime"]) {
        Some(all) => ((all / elapsed.as_secs_f64() / 1000.0).round() as u32).clamp(1, asked),
        None => asked,
    }
}

/// Reads and writes told as one: `percent` of them are reads.
fn apart(value: &Value, percent: u8) -> PerOp<(OpSamples, Nanos)> {
    let (both, elapsed) = direction(value);
    let share = |all: u64| (u128::from(all) * u128::from(percent) / 100) as u64;
    let reads = Count { ops: share(both.count.ops), bytes: share(both.count.bytes) };
    let writes = Count { ops: both.count.ops - reads.ops, bytes: both.count.bytes - reads.bytes };
    let of = |count: Count| {
        let latency = both.latency.scaled(count.ops.min(both.latency.count()), 1.0);
        (OpSamples { count, latency, service: None }, if count.ops > 0 { elapsed } else { Nanos(0) })
    };
    PerOp { read: of(reads), write: of(writes) }
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
        let upto = rank(percent, count).min(all_but_slowest);
        add(&mut histogram, at, upto.saturating_sub(before));
        before = before.max(upto);
    }
    add(&mut histogram, most.max(last), count.saturating_sub(before));
    histogram.compact();
    Some(histogram)
}
