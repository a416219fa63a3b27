//! The volume model: a state machine from (operation, instant) to completion instant.
//! The simulator drives it with a virtual clock, the engine with the real one.
//!
//! One operation passes through, in this order:
//!
//! ```text
//! submit(now) ─┬─ IOPS limiter   ── slot [a1, e1]
//!              ├─ byte limiter   ── slot [a2, e2]       start    = max(now, a1, a2, a3, ...)
//!              ├─ shared link    ── slots [a3, e3] ...  complete = max(start + latency, e1, e2, e3, ...)
//!              ├─ spindle's arm  ── slot [a4, e4]
//!              └─ service latency, of the medium or of a cache in front of it
//! ```
//!
//! so an operation never completes before the slots that its limits gave it have ended, and a limit that
//! is not reached costs nothing. See [`limiter`] for what a limit with burst credits promises.

mod character;
mod device;
mod latency;
pub mod limiter;
mod limiters;
mod link;
mod model;
#[cfg(test)]
mod tests;
mod weather;
mod words;

pub use character::{
    Birth, Character, Costs, Drift, Failure, FailureKind, FarCache, FirstTouch, Mood, OneWay, Seek,
};
pub use latency::normal_quantile;
pub use link::Link;
pub use model::{LimitedBy, LimitedCounts, Model, ModelReport};
pub use weather::mood_shares;

use crate::per_op::PerOp;
use crate::units::{Bytes, Nanos};
use crate::workload::OpKind;
use serde::{Deserialize, Serialize};

/// A rate limit with burst credits: a token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Sustained rate per second (operations or bytes).
    pub rate: f64,
    /// Rate per second while credits last; absent: no burst above `rate`.
    pub burst_rate: Option<f64>,
    /// Credits (operations or bytes) that can be saved up and that a fresh volume starts with.
    pub burst_credits: f64,
}

impl Limit {
    /// A limit of `rate` per second that never bursts.
    pub const fn steady(rate: f64) -> Self {
        Limit { rate, burst_rate: None, burst_credits: 0.0 }
    }

    /// `factor` times as much of everything: a burst lasts as long as before.
    pub fn scaled(self, factor: f64) -> Self {
        Limit {
            rate: self.rate * factor,
            burst_rate: self.burst_rate.map(|rate| rate * factor),
            burst_credits: self.burst_credits * factor,
        }
    }
}

/// Distribution of the service latency of one operation, without queueing for a limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Latency {
    /// One latency for every operation.
    Constant(Nanos),
    /// Lognormal, given by its median and its 99th percentile.
    Lognormal {
        /// Half of the operations take less.
        median: Nanos,
        /// 99th percentile, at least the median.
        p99: Nanos,
    },
}

impl Latency {
    /// Mean of the distribution, nanoseconds.
    pub fn mean(&self) -> f64 {
        match self {
            Latency::Constant(value) => value.0 as f64,
            Latency::Lognormal { median, p99 } => {
                // p99 = median * exp(2.3263 sigma), mean = median * exp(sigma^2 / 2).
                let sigma = (p99.0.max(1) as f64 / median.0.max(1) as f64).ln().max(0.0) / 2.326_347_874;
                median.0 as f64 * (sigma * sigma / 2.0).exp()
            }
        }
    }
}

/// The speed that a volume is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shape {
    /// Limit of operations per second.
    pub iops: Option<Limit>,
    /// Limit of bytes per second.
    pub throughput: Option<Limit>,
    /// An operation of more bytes than this counts as several against `iops` (EBS: 256 KiB on SSD).
    pub io_unit: Option<Bytes>,
    /// Service latency of reads.
    pub read_latency: Latency,
    /// Service latency of writes.
    pub write_latency: Latency,
    /// Index of the shared link among the experiment's links.
    pub link: Option<usize>,
    /// What makes one volume behave unlike another of the same limits; all of it optional.
    #[serde(default)]
    pub character: Character,
}

impl Default for Shape {
    /// No limits and no latency: as fast as what is underneath.
    fn default() -> Self {
        Shape {
            iops: None,
            throughput: None,
            io_unit: None,
            read_latency: Latency::Constant(Nanos(0)),
            write_latency: Latency::Constant(Nanos(0)),
            link: None,
            character: Character::default(),
        }
    }
}

/// A link that several volumes share (an instance's network to its volumes).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkShape {
    /// Name, unique in its experiment.
    pub name: String,
    /// Limit of operations per second over all its volumes.
    pub iops: Option<Limit>,
    /// Limit of bytes per second over all its volumes.
    pub throughput: Option<Limit>,
    /// Limits of one direction: networks carry reads and writes side by side.
    #[serde(default)]
    pub one_way: PerOp<OneWay>,
}

/// `factor` times the limits of each direction.
fn scaled_ways(ways: &PerOp<OneWay>, factor: f64) -> PerOp<OneWay> {
    let scaled = |way: &OneWay| OneWay {
        iops: way.iops.map(|limit| limit.scaled(factor)),
        throughput: way.throughput.map(|limit| limit.scaled(factor)),
    };
    PerOp { read: scaled(&ways.read), write: scaled(&ways.write) }
}

impl LinkShape {
    /// The same link with `factor` times its limits.
    pub fn scaled(&self, factor: f64) -> Self {
        LinkShape {
            name: self.name.clone(),
            iops: self.iops.map(|limit| limit.scaled(factor)),
            throughput: self.throughput.map(|limit| limit.scaled(factor)),
            one_way: scaled_ways(&self.one_way, factor),
        }
    }
}

impl Shape {
    /// The same shape with `factor` times its limits; latencies and everything else stay.
    pub fn scaled(&self, factor: f64) -> Self {
        let one_way = scaled_ways(&self.character.one_way, factor);
        Shape {
            iops: self.iops.map(|limit| limit.scaled(factor)),
            throughput: self.throughput.map(|limit| limit.scaled(factor)),
            character: Character { one_way, ..self.character.clone() },
            ..self.clone()
        }
    }

    /// The limit of operations that `op` meets first.
    pub fn iops_for(&self, op: OpKind) -> Option<Limit> {
        tighter(self.iops, self.character.one_way.get(op).iops)
    }

    /// Bytes per second that operations of `bs` bytes get out of it at best; nothing where nothing limits them.
    pub fn most_throughput(&self, bs: f64) -> Option<f64> {
        let of = |op| {
            let top = |limit: Limit| limit.burst_rate.unwrap_or(limit.rate);
            let bytes = self.throughput_for(op).map(top);
            let ops = self.iops_for(op).map(|limit| top(limit) * bs);
            match (bytes, ops) {
                (Some(bytes), Some(ops)) => Some(bytes.min(ops)),
                (one, other) => one.or(other),
            }
        };
        of(OpKind::Read).zip(of(OpKind::Write)).map(|(read, write)| read.max(write))
    }

    /// The limit of bytes that `op` meets first, in bytes of the application.
    pub fn throughput_for(&self, op: OpKind) -> Option<Limit> {
        let each = self.character.costs.map_or(1.0, |costs| costs.bytes(op));
        let both = self.throughput.map(|limit| Limit {
            rate: limit.rate / each,
            burst_rate: limit.burst_rate.map(|rate| rate / each),
            burst_credits: limit.burst_credits / each,
        });
        tighter(both, self.character.one_way.get(op).throughput)
    }
}

fn tighter(a: Option<Limit>, b: Option<Limit>) -> Option<Limit> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.rate < a.rate { b } else { a }),
        (a, b) => a.or(b),
    }
}
