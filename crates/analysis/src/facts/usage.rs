//! How much of their known limits the members used.
//!
//! A trial is cut into stretches of equal time, because a linear array works one member after the other: over
//! a whole trial each of them may look idle although one was always at its limit.

use super::case::Case;
use crate::estimate::median;
use crate::evidence::Unit;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, TrialSamples};
use ebbtide_model::volume::{Limit, OneWay, Shape};
use ebbtide_model::workload::Access;

/// Operations that the busiest member must complete in a stretch on average: one more or less is then 5%.
const STRETCH_OPS: u64 = 20;
/// Most stretches of a trial.
const MAX_STRETCHES: u64 = 20;
/// Use of the limits that counts as reached. A shaped volume holds its limit within 3% over 10 s, and up to two
/// more points go to the edges of a measurement of a second.
pub const REACHED: f64 = 0.95;
/// Between this and [`REACHED`] the limit is near: asserted with less confidence.
pub const NEAR: f64 = 0.90;
/// A rate up to this factor of the sustained one counts as held to it; above, credits are being spent.
const SUSTAINED_SLACK: f64 = 1.05;

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Operations per second.
    Operations,
    /// Bytes per second.
    Bytes,
}

impl Counted {
    /// What a rate of it is told in.
    pub fn unit(self) -> Unit {
        match self {
            Counted::Operations => Unit::OpsPerSecond,
            Counted::Bytes => Unit::BytesPerSecond,
        }
    }
}

/// Use of one limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitUse {
    /// Rate over the limit.
    pub share: f64,
    /// What counts against the limit, per second.
    pub rate: f64,
    /// The limit, per second.
    pub limit: f64,
    /// Whether that is the burst rate, which lasts as long as credits do.
    pub burst: bool,
}

/// Use of one member's limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Use {
    /// Of the limit of operations, where there is one.
    pub iops: Option<LimitUse>,
    /// Of the limit of bytes, where there is one.
    pub bytes: Option<LimitUse>,
}

impl Use {
    /// The fuller of the two.
    pub fn fullest(&self) -> Option<(LimitUse, Counted)> {
        match (self.iops, self.bytes) {
            (Some(iops), Some(bytes)) if bytes.share >= iops.share => Some((bytes, Counted::Bytes)),
            (Some(iops), _) => Some((iops, Counted::Operations)),
            (None, bytes) => bytes.map(|bytes| (bytes, Counted::Bytes)),
        }
    }
}

/// A member in one stretch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemberStretch {
    /// Its share of the bytes that all members moved in the stretch.
    pub share: f64,
    /// Use of its limits.
    pub used: Use,
}

/// Each member in a stretch, in the order of `trial.members`.
pub type Stretch = Vec<MemberStretch>;

/// What bounds `rate`: the sustained rate, or the burst rate when `rate` is above what is sustained.
pub fn ceiling(limit: &Limit, rate: f64) -> f64 {
    match limit.burst_rate {
        Some(burst) if rate > limit.rate * SUSTAINED_SLACK => burst.max(limit.rate),
        _ => limit.rate,
    }
}

/// Use of `limit` at `rate` per second.
fn used(limit: &Limit, rate: f64) -> Option<LimitUse> {
    let ceiling = ceiling(limit, rate);
    (ceiling > 0.0).then(|| LimitUse {
        share: rate / ceiling,
        rate,
        limit: ceiling,
        burst: ceiling > limit.rate,
    })
}

/// What `count` costs against the limit of operations: larger operations than `io_unit` count several times
/// (EBS documentation, "I/O size and throughput limits"), sequential ones share a unit where the volume merges.
pub fn counted_ops(shape: &Shape, access: Access, count: &PerOp<Count>) -> f64 {
    let costs = shape.character.costs.map_or((1.0, 1.0), |costs| (costs.read, costs.write));
    [(count.read, costs.0), (count.write, costs.1)]
        .into_iter()
        .filter(|(count, _)| count.ops > 0)
        .map(|(count, cost)| {
            let ops = count.ops as f64;
            let units = match shape.io_unit {
                None => ops,
                Some(unit) if shape.character.merge_sequential && access == Access::Sequential => {
                    count.bytes as f64 / unit.0.max(1) as f64
                }
                Some(unit) => ops * (count.bytes as f64 / ops / unit.0.max(1) as f64).ceil().max(1.0),
            };
            units * cost
        })
        .sum()
}

/// What `count` costs against the volume's limit of bytes.
fn counted_bytes(shape: &Shape, count: &PerOp<Count>) -> f64 {
    let weight = shape.character.costs.map_or(1.0, |costs| costs.write_bytes);
    count.read.bytes as f64 + count.write.bytes as f64 * weight
}

/// Use of the fullest of the limits of one resource: of both directions and of each.
fn fullest(
    shape: &Shape,
    count: &PerOp<Count>,
    of: fn(&OneWay) -> Option<Limit>,
    both: Option<Limit>,
    rate: impl Fn(&PerOp<Count>) -> f64,
) -> Option<LimitUse> {
    let ways = &shape.character.one_way;
    let reads = PerOp { read: count.read, write: Count::default() };
    let writes = PerOp { read: Count::default(), write: count.write };
    [(both, count), (of(&ways.read), &reads), (of(&ways.write), &writes)]
        .into_iter()
        .filter_map(|(limit, count)| used(&limit?, rate(count)))
        .max_by(|a, b| a.share.total_cmp(&b.share))
}

/// A member's counts over the whole trial.
pub fn whole(trial: &TrialSamples, member: usize) -> PerOp<Count> {
    trial.members.get(member).map_or_else(PerOp::default, |m| m.ops.counts())
}

/// Seconds and each member's counts of the stretches of a trial.
fn counts_by_stretch(trial: &TrialSamples) -> Vec<(f64, Vec<PerOp<Count>>)> {
    let members = trial.members.len();
    let totals: Vec<PerOp<Count>> = (0..members).map(|m| whole(trial, m)).collect();
    let usable: Vec<_> = trial.series.iter().filter(|interval| interval.members.len() == members).collect();
    let busiest = totals.iter().map(|t| t.total().ops).max().unwrap_or(0);
    let parts = (busiest / STRETCH_OPS).clamp(1, MAX_STRETCHES).min(usable.len().max(1) as u64) as usize;
    if usable.len() != trial.series.len() || parts < 2 {
        return vec![(trial.elapsed.as_secs_f64(), totals)];
    }
    let mut start_time = 0u64;
    (0..parts)
        .map(|part| {
            let slice = &usable[usable.len() * part / parts..usable.len() * (part + 1) / parts];
            let mut sums = vec![PerOp::<Count>::default(); members];
            for interval in slice {
                sums.iter_mut().zip(&interval.members).for_each(|(sum, more)| *sum = sum.plus(*more));
            }
            let end_time = slice.last().map_or(start_time, |interval| interval.end.0);
            let seconds = end_time.saturating_sub(start_time) as f64 / 1e9;
            start_time = end_time;
            (seconds, sums)
        })
        .filter(|(seconds, _)| *seconds > 0.0)
        .collect()
}

/// The stretches of each trial.
pub fn stretches(case: &Case<'_>) -> Vec<Vec<Stretch>> {
    case.trials.iter().map(|trial| by_stretch(case, trial)).collect()
}

fn by_stretch(case: &Case<'_>, trial: &TrialSamples) -> Vec<Stretch> {
    let shapes: Vec<Option<&Shape>> = trial.members.iter().map(|m| case.shape(&m.name)).collect();
    counts_by_stretch(trial)
        .into_iter()
        .map(|(seconds, counts)| {
            let moved: u64 = counts.iter().map(|count| count.total().bytes).sum();
            counts
                .iter()
                .zip(&shapes)
                .map(|(count, shape)| MemberStretch {
                    share: if moved == 0 { 0.0 } else { count.total().bytes as f64 / moved as f64 },
                    used: shape.map_or(Use { iops: None, bytes: None }, |shape| Use {
                        iops: fullest(
                            shape,
                            count,
                            |way| way.iops,
                            shape.iops,
                            |count| counted_ops(shape, case.workload.access, count) / seconds,
                        ),
                        bytes: fullest(
                            shape,
                            count,
                            |way| way.throughput,
                            shape.throughput,
                            |count| counted_bytes(shape, count) / seconds,
                        ),
                    }),
                })
                .collect()
        })
        .collect()
}

/// How full the working members' limits were: in each stretch the members' use weighted by the bytes that
/// they moved, then the median over stretches and trials. `None` when no working member has a known limit.
///
/// The weight makes it the use that the average byte met: 1 when every working member was at its limit,
/// whether all of them worked (stripe) or one at a time (linear), and low when one slow member at its
/// limit held back seven that were not.
pub fn met(stretches: &[Vec<Stretch>]) -> Option<f64> {
    let known = |stretch: &&Stretch| stretch.iter().any(|m| m.share > 0.0 && m.used.fullest().is_some());
    let used = |stretch: &Stretch| -> f64 {
        stretch.iter().filter_map(|m| m.used.fullest().map(|(used, _)| used.share * m.share)).sum()
    };
    median(stretches.iter().flatten().filter(known).map(used)).map(as_told)
}

/// The use of a limit as it is told. A volume whose use seems to be a little above 1 uses all that it is granted: a shape's
/// limiter lets 10 ms of its rate pass at once after a pause, and what is in flight at the edges of a trial counts where it
/// completes. More than that says that the limit is not what was declared, and stays.
pub fn as_told(share: f64) -> f64 {
    if share <= SUSTAINED_SLACK { share.min(1.0) } else { share }
}
