//! bonnie++'s CSV: of 1.96 and 1.97 with 48 fields, of 1.98 and 2.x with 50, two of them about seeks after the chunk size
//! (bon_csv2html(1)); of 1.03 with 27, which begin with the machine and the size.
//!
//! Rates of blocks are KiB/s, of seeks operations per second; pluses are a test that was too fast to be timed, and
//! an empty field one that was not run.

use super::{ImportError, Imported, Measured, VOLUME, samples, tell_apart};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::profile::{BONNIE_CHUNK, BONNIE_SEEKERS, BONNIE_SEEKS};
use ebbtide_model::samples::{Count, OpSamples};
use ebbtide_model::units::{Bytes, Nanos, UnixTime};
use ebbtide_model::workload::{Access, IoEngine, Mix, Stop, Workload};

/// Largest figure that is believed: an exabyte per second in KiB.
const MOST: f64 = 1e15;

/// One test of the line.
struct Test {
    name: &'static str,
    /// Position of its rate after the fields that only newer versions have.
    at: usize,
    access: Access,
    mix: Mix,
    by_byte: bool,
}

const TESTS: [Test; 6] = [
    Test { name: "putc", at: 7, access: Access::Sequential, mix: Mix::Write, by_byte: true },
    Test { name: "write", at: 9, access: Access::Sequential, mix: Mix::Write, by_byte: false },
    Test { name: "rewrite", at: 11, access: Access::Sequential, mix: Mix::Rewrite, by_byte: false },
    Test { name: "getc", at: 13, access: Access::Sequential, mix: Mix::Read, by_byte: true },
    Test { name: "read", at: 15, access: Access::Sequential, mix: Mix::Read, by_byte: false },
    // One seek in ten is followed by a write of what was read.
    Test {
        name: "seeks",
        at: 17,
        access: Access::Random,
        mix: Mix::Mixed { read_percent: 91 },
        by_byte: false,
    },
];

/// Fields of 1.03.
const OLD_FIELDS: usize = 27;
/// Where its first rate is.
const OLD_FIRST: usize = 2;
/// Where that of the others is.
const FIRST: usize = 7;

/// Whether a line is of 1.03, which has no version: its size and its rates are where they must be.
fn is_old(line: &str) -> bool {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let is_figure = |text: &&str| text.bytes().all(|byte| byte == b'+') || text.parse::<f64>().is_ok();
    fields.len() == OLD_FIELDS && old_size(fields[1]).is_some() && fields[OLD_FIRST..14].iter().all(is_figure)
}

/// `4G`, `1024M:64k`: the size of the file, and of a chunk.
fn old_size(text: &str) -> Option<(Bytes, Option<Bytes>)> {
    let (size, chunk) = text.split_once(':').map_or((text, None), |(size, chunk)| (size, Some(chunk)));
    // A bare number is in MiB.
    let size = match size.parse::<u64>() {
        Ok(mib) => Bytes(mib.checked_mul(Bytes::MIB)?),
        Err(_) => size.parse().ok()?,
    };
    Some((size, chunk.map(str::parse).transpose().ok()?))
}

/// Whether a line is one of bonnie++'s: a format version of 1.9x or later comes first.
fn is_result(line: &str) -> bool {
    let mut fields = line.split(',');
    let version = fields.next().and_then(|first| first.trim().parse::<f64>().ok());
    version.is_some_and(|version| (1.9..3.0).contains(&version)) && fields.count() >= 8
}

pub(super) fn parse(text: &str) -> Result<Vec<Imported>, ImportError> {
    let found: Vec<Imported> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| is_result(line) || is_old(line))
        .map(|(index, line)| one(line.trim_end(), index + 1))
        .collect::<Result<_, _>>()?;
    if found.is_empty() { Err(ImportError::Unknown) } else { Ok(found) }
}

enum Rate {
    NotRun,
    TooFast,
    Of(f64),
}

fn one(text: &str, line: usize) -> Result<Imported, ImportError> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    let old = is_old(text);
    // Where the first rate is.
    let first = match fields.len() {
        OLD_FIELDS if old => OLD_FIRST,
        48 => FIRST,
        50 => FIRST + 2,
        found => return Err(ImportError::Fields { line, found }),
    };
    let wrong = |at: usize, name: &'static str| ImportError::Field {
        line,
        field: at + 1,
        name,
        value: fields[at].chars().take(40).collect(),
    };
    let rate = |at: usize, name: &'static str| match fields[at] {
        "" => Ok(Rate::NotRun),
        pluses if pluses.bytes().all(|b| b == b'+') => Ok(Rate::TooFast),
        text => match text.parse::<f64>() {
            Ok(rate) if rate > 0.0 && rate <= MOST => Ok(Rate::Of(rate)),
            _ => Err(wrong(at, name)),
        },
    };
    let whole = |at: usize, name: &'static str| match fields[at] {
        "" => Ok(None),
        text => text.parse::<Bytes>().map(|n| Some(n.0)).map_err(|_| wrong(at, name)),
    };
    let (size, chunk, concurrency) = match old_size(fields[1]).filter(|_| old) {
        Some((size, chunk)) => (Some(size), chunk.map(|chunk| chunk.0), 1),
        None => {
            let size = match fields[5] {
                "" => None,
                text => Some(text.parse::<Bytes>().map_err(|_| wrong(5, "file size"))?),
            };
            (size, whole(6, "chunk size")?, fields[3].parse::<u32>().ok().filter(|n| *n > 0).unwrap_or(1))
        }
    };
    let size = size.map(|size| Bytes(size.0.min(1 << 60)));
    // What the line does not say is bonnie++'s default.
    let chunk = chunk.filter(|chunk| *chunk > 0).unwrap_or(BONNIE_CHUNK);
    let (mut seeks, mut seekers) = (BONNIE_SEEKS, BONNIE_SEEKERS);
    if first > FIRST {
        seeks = whole(7, "seeks")?.unwrap_or(BONNIE_SEEKS).clamp(1, 1 << 40);
        seekers = whole(8, "seekers")?.and_then(|n| u32::try_from(n).ok()).unwrap_or(BONNIE_SEEKERS).max(1);
    }
    let (mut measured, mut notes) = (Vec::new(), Vec::new());
    for test in &TESTS {
        let rate = match rate(test.at - FIRST + first, test.name)? {
            Rate::Of(rate) => rate,
            Rate::NotRun => continue,
            Rate::TooFast => {
                notes.push(format!("{} took less than bonnie++ times (0.5 s): left out", test.name));
                continue;
            }
        };
        let seek = test.name == "seeks";
        let bs = if test.by_byte { 1 } else { chunk };
        let bytes = if seek { seeks.saturating_mul(chunk) } else { size.unwrap_or(Bytes(1 << 30)).0 };
        let elapsed = if seek { seeks as f64 / rate } else { bytes as f64 / (rate * 1024.0) };
        let count = Count { ops: if seek { seeks } else { bytes / bs }, bytes };
        let of = |count: Count| OpSamples { count, ..OpSamples::default() };
        let array = match test.mix {
            Mix::Read => PerOp { read: of(count), write: OpSamples::default() },
            // A rewrite's rate counts each block once.
            Mix::Write | Mix::Rewrite => PerOp { read: OpSamples::default(), write: of(count) },
            // Its rate counts seeks, whether or not a write follows.
            Mix::Mixed { .. } => PerOp { read: of(count), write: OpSamples::default() },
        };
        let elapsed = Nanos((elapsed * 1e9).clamp(1.0, 1e18) as u64);
        let mut samples = samples(UnixTime::EPOCH, elapsed, array, VOLUME);
        let latency = fields.get(29 + first + (test.at - FIRST) / 2).filter(|text| !text.is_empty());
        if let Some(latency) = latency.filter(|_| !old) {
            samples
                .notes
                .push(format!("the slowest operation took {latency}; bonnie++ keeps no other latency"));
        }
        measured.push(Measured {
            workload: Workload {
                bs: Bytes(bs),
                numjobs: if seek { seekers.saturating_mul(concurrency) } else { concurrency },
                span: size,
                direct: false,
                end_fsync: matches!(test.mix, Mix::Write | Mix::Rewrite),
                ioengine: IoEngine::Psync,
                ..Workload::new(test.name, test.access, test.mix, Stop::Size(Bytes(bytes)))
            },
            samples,
            failed: None,
        });
    }
    if measured.is_empty() {
        return Err(ImportError::Nothing(format!(
            "line {line}: no test of the file was long enough to be timed ({}); tests of many small files are not imported",
            if notes.is_empty() { "none was run".to_owned() } else { notes.join("; ") }
        )));
    }
    // The tests of many files come after those of one and four fields about them, in 1.03 one.
    let many = if old { first + 13 } else { first + 17 };
    if fields[many..many + 12].iter().any(|field| !field.is_empty()) {
        notes.push("tests of creating, reading and removing many files are not imported".to_owned());
    }
    tell_apart(&mut measured);
    Ok(Imported {
        program: format!("bonnie++-{}", if old { "1.03" } else { fields[1] }),
        hostname: Some(fields[if old { 0 } else { 2 }].to_owned()).filter(|name| !name.is_empty()),
        target: None,
        size,
        // The format has no time: its fifth field is the seed, which happens to be the time unless -z is given.
        ended_unix: None,
        measured,
        failed: None,
        notes,
        text: format!("{text}\n"),
    })
}
