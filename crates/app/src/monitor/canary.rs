//! The canary: a few reads of a volume, bounded in number and in time.

use crate::bench::target::{self, Wanted, Words};
use ebbtide_model::backend::Control;
use ebbtide_model::monitor::Measure;
use ebbtide_model::shown::Shown;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{Access, Mix, Stop, Workload};
use ebbtide_runner::bench::{self, Early, Job};
use ebbtide_runner::clock;
use ebbtide_runner::listener::SessionListener;
use std::path::Path;
use std::sync::Arc;

/// Random reads of 4 KiB, one at a time.
const SEEKS: u64 = 64;
/// Bytes read in a row, in pieces of [`PIECE`], [`DEPTH`] at a time: more than a limit lets pass at once.
const IN_A_ROW: u64 = 64 << 20;
const PIECE: u64 = 1 << 20;
const DEPTH: u32 = 4;
/// Either ends after this time, whatever is left: at most 2 s of the 15 minutes between passes are 0.2% of the volume's time.
const LONGEST: Nanos = Nanos::from_secs(1);

/// Why a canary was not measured.
#[derive(Debug, thiserror::Error)]
pub enum CanaryError {
    /// It has no place for the reads.
    #[error("{path} has less than 1 MiB, which is one read")]
    Small { path: String },
    /// It cannot be opened, or has no bytes.
    #[error(
        "{path} is empty, or this user may not read it; root, and most often the group `disk`, may read devices"
    )]
    Closed { path: String },
    /// It cannot be read.
    #[error("{0}")]
    Failed(String),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// Nobody is told how a canary is going.
struct Silent;

impl SessionListener for Silent {}

/// What the volume at `path` does: seeks and bytes per second. Only reads, with O_DIRECT.
///
/// # Errors
/// When it cannot be read.
pub fn measure(path: &Path, control: &Arc<Control>) -> Result<Vec<(Measure, f64)>, CanaryError> {
    let Some(length) = target::length(path) else {
        return Err(CanaryError::Closed { path: path.shown() });
    };
    if length.0 < PIECE {
        return Err(CanaryError::Small { path: path.shown() });
    }
    let failed = |error: &dyn std::fmt::Display| CanaryError::Failed(error.to_string());
    let wanted = Wanted {
        size: None,
        offset: Bytes(0),
        reads: true,
        writes: false,
        destroy: false,
        words: Words::COMMAND,
    };
    let seed = u64::from(clock::random()) << 32 | u64::from(clock::random());
    let jobs = vec![seeks(), in_a_row(length, seed)];
    let mut spec =
        target::resolve(path, wanted).map_err(|error| failed(&error))?.spec(path, jobs, false, false, seed);
    spec.ladder = false;
    let results = bench::run(spec, &mut |_| None, control, &mut Silent).map_err(|error| failed(&error))?;
    match results.ended_early {
        Some(Early::Interrupted) => return Err(CanaryError::Interrupted),
        Some(Early::Failed(why)) => return Err(CanaryError::Failed(why)),
        None => {}
    }
    let mut values = Vec::new();
    for done in &results.done {
        let reads = &done.samples.array.read;
        if done.job.workload.access == Access::Random {
            // One at a time: the mean time of each is that between two.
            let seeks = reads.latency.mean().filter(|mean| *mean > 0.0).map(|mean| 1e9 / mean);
            values.extend(seeks.map(|seeks| (Measure::Seeks, seeks)));
        } else {
            let seconds = done.samples.elapsed.as_secs_f64();
            let rate = (seconds > 0.0 && reads.count.bytes > 0).then(|| reads.count.bytes as f64 / seconds);
            values.extend(rate.map(|rate| (Measure::Throughput, rate)));
        }
    }
    Ok(values)
}

fn seeks() -> Job {
    let mut workload = Workload::new("seeks", Access::Random, Mix::Read, Stop::Size(Bytes(SEEKS * 4096)));
    workload.details.time_limit = Some(LONGEST);
    job(0, workload)
}

/// Reads in a row from somewhere on a volume of this length: what is read again and again may come from a cache.
fn in_a_row(length: Bytes, seed: u64) -> Job {
    let size = IN_A_ROW.min(length.0 / PIECE * PIECE);
    let places = (length.0 - size) / PIECE + 1;
    let mut workload = Workload::new("in a row", Access::Sequential, Mix::Read, Stop::Size(Bytes(size)));
    workload.bs = Bytes(PIECE);
    workload.iodepth = DEPTH;
    workload.span = Some(Bytes(size));
    workload.details.offset = Bytes(seed % places * PIECE);
    workload.details.time_limit = Some(LONGEST);
    job(1, workload)
}

fn job(group: u32, workload: Workload) -> Job {
    let name = workload.name.clone();
    Job { name, group, design: 0, workload, options: Vec::new(), notes: Vec::new() }
}
