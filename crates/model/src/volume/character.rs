//! What makes one volume behave unlike another of the same limits. All of it is optional.

use super::{Latency, Limit};
use crate::per_op::PerOp;
use crate::units::{Bytes, Nanos};
use crate::workload::OpKind;
use serde::{Deserialize, Serialize};
use strum::{EnumString, VariantNames};

/// Optional traits of a volume beyond limits and latency.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Character {
    /// Operations that continue where the previous one of the same kind ended share one `io_unit`
    /// (EBS merges physically sequential I/O before it counts).
    pub merge_sequential: bool,
    /// Share of its burst credits that it starts with, 0 to 1; full when absent.
    pub credits_at_start: Option<f64>,
    /// Limits of one direction, beside those of both together.
    pub one_way: PerOp<OneWay>,
    /// Reads and writes that cost differently (an NFS server's accounting).
    pub costs: Option<Costs>,
    /// What it takes to make durable what was written; what is underneath takes when absent.
    pub flush_latency: Option<Latency>,
    /// A spindle: one arm, one operation at a time.
    pub seek: Option<Seek>,
    /// A cache at the far end, in front of the medium.
    pub cache: Option<FarCache>,
    /// A penalty on the first access to each block.
    pub first_touch: Option<FirstTouch>,
    /// States between which it wanders (a Markov chain); none: always the same.
    pub moods: Vec<Mood>,
    /// A slow change over days on top of the moods.
    pub drift: Option<Drift>,
    /// How unlike its siblings it was made.
    pub birth: Option<Birth>,
    /// One that every trial meets.
    pub failure: Option<Failure>,
}

/// What an operation counts against the limits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// A read against `iops`.
    pub read: f64,
    /// A write against `iops`.
    pub write: f64,
    /// A request of fewer bytes counts as this many against `throughput`.
    pub min_bytes: Bytes,
    /// A byte written counts as so many against the volume's `throughput` (a medium that writes more slowly than it
    /// reads); a link carries it once.
    #[serde(default = "once")]
    pub write_bytes: f64,
}

fn once() -> f64 {
    1.0
}

impl Costs {
    /// What a byte of `op` counts against the volume's throughput.
    pub fn bytes(&self, op: OpKind) -> f64 {
        match op {
            OpKind::Read => 1.0,
            OpKind::Write => self.write_bytes,
        }
    }
}

/// Limits that only reads or only writes count against.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct OneWay {
    /// Limit of operations per second.
    pub iops: Option<Limit>,
    /// Limit of bytes per second.
    pub throughput: Option<Limit>,
}

/// A disk's mechanics. An operation that does not continue the previous one pays
/// `track_to_track + (full_stroke - track_to_track) * sqrt(distance / capacity)` and a uniform part of one rotation;
/// every operation pays its transfer. (Square-root seek curve: Ruemmler and Wilkes, "An introduction to disk
/// drive modeling", IEEE Computer 27(3), 1994, without its linear part for long seeks.)
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Seek {
    /// Seek to a neighbouring track.
    pub track_to_track: Nanos,
    /// Seek over the whole capacity.
    pub full_stroke: Nanos,
    /// Time of one rotation (7200/min: 8.33 ms).
    pub rotation: Nanos,
    /// Transfer rate of the medium in bytes per second.
    pub transfer: f64,
    /// Capacity over which the arm moves.
    pub capacity: Bytes,
}

/// A cache at the far end. A read hits with the share of the range touched so far that fits into it; a hit takes
/// `latency` and costs neither the medium's time nor operations, only bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FarCache {
    /// Bytes that it keeps.
    pub size: Bytes,
    /// Latency of a hit.
    pub latency: Latency,
}

/// Blocks that are slow the first time (a volume restored from a snapshot). Every trial starts untouched.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FirstTouch {
    /// Block that is fetched as a whole.
    pub block: Bytes,
    /// Latency that the first access to a block pays more.
    pub latency: Latency,
}

/// One state of the chain. It lasts an exponential time of mean `dwell`; the next is another one, drawn by `weight`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mood {
    /// Name, for example `bad`.
    pub name: String,
    /// Mean time that it lasts.
    pub dwell: Nanos,
    /// How often it is entered, relative to the others.
    pub weight: f64,
    /// Factor on every limit's rate while it lasts.
    pub rate: f64,
    /// Factor on the service latency while it lasts.
    pub latency: f64,
}

/// A slow change: the logarithm of the rates' factor follows a Gaussian noise of this deviation, with independent
/// values every `timescale`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Standard deviation of the factor's logarithm: 0.1 is about 10%.
    pub sigma: f64,
    /// Time after which it has forgotten where it was.
    pub timescale: Nanos,
}

/// Birth quality: factors drawn once per volume, lognormal around 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Birth {
    /// Standard deviation of the logarithm of the rates' factor.
    pub rate_sigma: f64,
    /// Standard deviation of the logarithm of the latency's factor.
    pub latency_sigma: f64,
}

/// How a volume fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, EnumString, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum FailureKind {
    /// Every operation returns EIO.
    Error,
    /// The device is gone: every operation returns ENODEV.
    Vanish,
    /// Operations are not answered while it lasts.
    Freeze,
}

/// A failure during every trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What operations meet from then on.
    pub kind: FailureKind,
    /// When, from the start of the trial (warm-up included).
    pub at: Nanos,
    /// How long it lasts; for good when absent.
    pub lasts: Option<Nanos>,
}

impl Failure {
    /// Whether it is in force at `now`, and until when (for good: the end of time).
    pub fn in_force(&self, now: Nanos) -> Option<Nanos> {
        let end = self.lasts.map_or(Nanos(u64::MAX), |lasts| self.at.plus(lasts));
        (now >= self.at && now < end).then_some(end)
    }
}
