//! What an array can do by arithmetic: the limits of its volumes and of its instance, in operations or bytes of the array.
//!
//! Every member is asked for the same, as on arrays of equal volumes it is in the mean; what chance makes of that is the simulator's
//! to say. What an operation counts is what `ebbtide_model::volume::Model` makes it count.

use crate::array::Array;
use ebbtide_model::layout::ArrayKind;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::units::Bytes;
use ebbtide_model::volume::{Costs, Limit, LinkShape, Shape};
use serde::Serialize;
use std::fmt;
use strum::IntoStaticStr;

/// Least block of sequential access.
const SEQUENTIAL_BLOCK: u64 = Bytes::MIB;

/// What is asked of an array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Operations of this size at random; the rate is in operations.
    Random {
        /// Size of each operation.
        bs: Bytes,
        /// Share of reads, 0 to 1.
        reads: f64,
    },
    /// From one end to the other in large blocks; the rate is in bytes.
    Sequential {
        /// Share of reads, 0 to 1.
        reads: f64,
    },
}

impl Load {
    /// Bytes of an operation of the array: of sequential access 1 MiB, on arrays with parity whole stripes of at least that.
    pub fn block(&self, array: &Array) -> Bytes {
        match (self, array.stripe()) {
            (Load::Random { bs, .. }, _) => *bs,
            (Load::Sequential { .. }, None) => Bytes(SEQUENTIAL_BLOCK),
            (Load::Sequential { .. }, Some(stripe)) => stripe * SEQUENTIAL_BLOCK.div_ceil(stripe.0.max(1)),
        }
    }

    fn reads(&self) -> f64 {
        match self {
            Load::Random { reads, .. } | Load::Sequential { reads } => *reads,
        }
    }
}

/// What gives out first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Bottleneck {
    /// The operations of the volumes.
    VolumeIops,
    /// The bytes of the volumes.
    VolumeThroughput,
    /// The operations of the instance towards its volumes.
    InstanceIops,
    /// The bytes of the instance towards its volumes.
    InstanceThroughput,
}

impl Bottleneck {
    /// Whether it is a limit of the volumes, not of the instance.
    pub fn is_volumes(self) -> bool {
        matches!(self, Bottleneck::VolumeIops | Bottleneck::VolumeThroughput)
    }

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bottleneck::VolumeIops => "the volumes' IOPS",
            Bottleneck::VolumeThroughput => "the volumes' throughput",
            Bottleneck::InstanceIops => "the instance's IOPS",
            Bottleneck::InstanceThroughput => "the instance's throughput",
        })
    }
}

/// One limit in what it lets the array do per second, in the load's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bound {
    /// What has the limit: the volumes, the link, or the instance.
    pub what: Bottleneck,
    /// What it lets through for any length of time.
    pub sustained: f64,
    /// While credits last; absent where it does not burst.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<f64>,
    /// Credits when full, in the load's unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credits: Option<f64>,
}

impl Bound {
    /// That of `limit`, of which each operation or byte of the load takes `1 / times`.
    pub(crate) fn new(what: Bottleneck, limit: &Limit, times: f64) -> Bound {
        let burst = limit.burst_rate.map(|rate| rate * times);
        Bound {
            what,
            sustained: limit.rate * times,
            burst,
            credits: burst.map(|_| limit.burst_credits * times),
        }
    }

    /// Hours of each day for which it lets `rate` through: 24 below its sustained rate, 0 beyond its burst; between them until a full
    /// bucket is empty, and no more than the rest of the day earns back.
    pub fn hours(&self, rate: f64) -> f64 {
        const DAY: f64 = 24.0;
        // A hair of rounding is no shortage.
        if rate <= self.sustained * (1.0 + 1e-9) {
            return DAY;
        }
        match (self.burst, self.credits) {
            (Some(burst), Some(credits)) if rate <= burst * (1.0 + 1e-9) => {
                let bucket = credits / (rate - self.sustained) / 3600.0;
                bucket.min(DAY * self.sustained / rate).min(DAY)
            }
            _ => 0.0,
        }
    }

    /// The most that it lets through for `hours` of each day.
    pub fn rate_for(&self, hours: f64) -> f64 {
        let (Some(burst), Some(credits)) = (self.burst, self.credits) else { return self.sustained };
        let bucket = self.sustained + credits / (hours * 3600.0);
        bucket.min(24.0 * self.sustained / hours).min(burst).max(self.sustained)
    }
}

/// What one operation of the array costs its members all together.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    /// Against the volumes' and the instance's operations.
    units: f64,
    /// Against the volumes' bytes.
    bytes: f64,
    /// Against the instance's bytes, in each direction.
    carried: PerOp<f64>,
}

/// Some bounds as one: the least that is sustained, and what a burst of all together gives and for how long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CombinedBound {
    /// What it lets through for any length of time.
    pub sustained: f64,
    /// While the credits of all that burst last, and how many seconds from full ones; absent where that is no more.
    pub burst: Option<(f64, f64)>,
}

/// `bounds` as one; nothing where there are none. A burst of one is held by what the others sustain: gp2's operations burst beyond
/// what its throughput lets through.
pub fn together<'b>(bounds: impl Iterator<Item = &'b Bound> + Clone) -> Option<CombinedBound> {
    let least = |of: fn(&Bound) -> f64| bounds.clone().map(of).min_by(f64::total_cmp);
    let sustained = least(|bound| bound.sustained)?;
    let burst = least(|bound| bound.burst.unwrap_or(bound.sustained))?;
    let empty =
        |bound: &Bound| Some(bound.credits? / (burst - bound.sustained)).filter(|seconds| *seconds > 0.0);
    let seconds = bounds.clone().filter_map(empty).min_by(f64::total_cmp);
    Some(CombinedBound { sustained, burst: Some(burst).filter(|burst| *burst > sustained).zip(seconds) })
}

/// Operations of members that one operation of the array becomes, and their size.
fn pieces(array: &Array, load: &Load, copies: f64) -> (PerOp<PerOp<f64>>, f64) {
    let block = load.block(array).0;
    let chunk = array.kind.chunk().map_or(u64::MAX, |chunk| chunk.0);
    let pieces = block.div_ceil(chunk).max(1);
    let size = (block / pieces) as f64;
    let pieces = pieces as f64;
    let parity = f64::from(array.parity());
    let whole = array.stripe().is_none_or(|stripe| block.is_multiple_of(stripe.0.max(1)));
    let read = PerOp { read: pieces, write: 0.0 };
    let write = if whole {
        // Of whole stripes each has its parity; copies are written all.
        let stripes = array.stripe().map_or(0.0, |stripe| block as f64 / stripe.0 as f64);
        PerOp { read: 0.0, write: pieces * copies + stripes * parity }
    } else {
        // Old data and old parity are read, or the rest of the stripe where that is less (md's choice); new data and parity are written.
        let rest = (f64::from(array.members) - parity - pieces).max(0.0);
        PerOp { read: (pieces + parity).min(rest), write: pieces + parity }
    };
    (PerOp { read, write }, size)
}

fn cost(array: &Array, shape: &Shape, load: &Load, copies: f64) -> Cost {
    let (of, size) = pieces(array, load, copies);
    let reads = load.reads();
    let each = |kind: fn(&PerOp<f64>) -> f64| reads * kind(&of.read) + (1.0 - reads) * kind(&of.write);
    let unit = shape.io_unit.map_or(f64::INFINITY, |unit| unit.0 as f64);
    let default = Costs { read: 1.0, write: 1.0, min_bytes: Bytes(1), write_bytes: 1.0 };
    let costs = shape.character.costs.unwrap_or(default);
    let whole_units = shape.character.merge_sequential && shape.io_unit == Some(costs.min_bytes);
    // Of one direction from one end to the other, what a member gets continues what it got before and shares its units; where
    // reads and writes take turns, little does.
    let continues = shape.character.merge_sequential
        && matches!(load, Load::Sequential { reads } if *reads <= 0.0 || *reads >= 1.0);
    let units = if continues && unit.is_finite() { size / unit } else { (size / unit).ceil().max(1.0) };
    let bytes = if whole_units { units * unit } else { size.max(costs.min_bytes.0 as f64) };
    let mut cost = Cost::default();
    let counts = PerOp { read: each(|op| op.read), write: each(|op| op.write) };
    for (count, weight, written) in
        [(counts.read, costs.read, 1.0), (counts.write, costs.write, costs.write_bytes)]
    {
        cost.units += count * units * weight;
        cost.bytes += count * bytes * written;
    }
    cost.carried = PerOp { read: counts.read * size, write: counts.write * size };
    cost
}

/// The limits that `load` meets on `array` of volumes of `shape` behind `link`.
pub fn bounds(array: &Array, shape: &Shape, link: Option<&LinkShape>, load: &Load) -> Vec<Bound> {
    let copies = f64::from(array.copies());
    let carried = cost(array, shape, load, copies);
    // A reader that goes from one end of a mirror to the other stays with one copy (md's read balancing). Writes in between
    // break the row, and RAID10 chooses chunk by chunk.
    let is_one_stream = matches!(load, Load::Sequential { .. }) && load.reads() >= 1.0;
    let (members, borne) = match array.kind {
        ArrayKind::Mirror if is_one_stream => {
            (f64::from(array.members) / copies, cost(array, shape, load, 1.0))
        }
        _ => (f64::from(array.members), carried),
    };
    let unit = match load {
        Load::Random { .. } => 1.0,
        Load::Sequential { .. } => load.block(array).0 as f64,
    };
    let of = |what, limit: Option<Limit>, times: f64, each: f64| {
        limit.filter(|_| each > 0.0).map(|limit| Bound::new(what, &limit, times * unit / each))
    };
    let volumes = [
        of(Bottleneck::VolumeIops, shape.iops, members, borne.units),
        of(Bottleneck::VolumeThroughput, shape.throughput, members, borne.bytes),
    ];
    let instance = link.map_or([None; 4], |link| {
        let (bytes, way) = (carried.carried, Bottleneck::InstanceThroughput);
        [
            of(Bottleneck::InstanceIops, link.iops, 1.0, carried.units),
            of(way, link.throughput, 1.0, bytes.read + bytes.write),
            of(way, link.one_way.read.throughput, 1.0, bytes.read),
            of(way, link.one_way.write.throughput, 1.0, bytes.write),
        ]
    });
    volumes.into_iter().chain(instance).flatten().collect()
}

/// The bound that is met first when the load lasts `hours` of each day, which may depend on the bound, and the rate there.
pub fn tightest(bounds: &[Bound], hours: impl Fn(&Bound) -> f64) -> Option<(&Bound, f64)> {
    bounds.iter().map(|bound| (bound, bound.rate_for(hours(bound)))).min_by(|a, b| a.1.total_cmp(&b.1))
}
