//! How much of their known limits the members used.
//!
//! A trial is cut into stretches of equal time, because a linear array works one member after the other: over
//! a whole trial each of them may look idle although one was always at its limit.

use super::case::Case;
use super::durable;
use crate::MemberShare;
use crate::estimate::median;
use crate::evidence::Unit;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, TrialSamples};
use ebbtide_model::volume::{Limit, LinkShape, OneWay, Shape};
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
    /// The rate that lasts: less than `limit` where that is the burst rate, which lasts as long as credits do.
    pub lasts: f64,
}

impl LimitUse {
    /// Whether the limit is the burst rate.
    pub fn burst(&self) -> bool {
        self.limit > self.lasts
    }
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
    (ceiling > 0.0).then(|| LimitUse { share: rate / ceiling, rate, limit: ceiling, lasts: limit.rate })
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
    let stretch = |(seconds, counts): (f64, Vec<PerOp<Count>>)| {
        let moved: u64 = counts.iter().map(|count| count.total().bytes).sum();
        let member = |(count, shape): (&PerOp<Count>, &Option<&Shape>)| MemberStretch {
            share: if moved == 0 { 0.0 } else { count.total().bytes as f64 / moved as f64 },
            used: shape
                .map_or(Use { iops: None, bytes: None }, |shape| of_shape(case, shape, count, seconds)),
        };
        counts.iter().zip(&shapes).map(member).collect()
    };
    counts_by_stretch(trial).into_iter().map(stretch).collect()
}

fn of_shape(case: &Case<'_>, shape: &Shape, count: &PerOp<Count>, seconds: f64) -> Use {
    let ops = |count: &PerOp<Count>| counted_ops(shape, case.workload.access, count) / seconds;
    let bytes = |count: &PerOp<Count>| counted_bytes(shape, count) / seconds;
    Use {
        iops: fullest(shape, count, |way| way.iops, shape.iops, ops),
        bytes: fullest(shape, count, |way| way.throughput, shape.throughput, bytes),
    }
}

/// The members that were above the rate of a limit that lasts, over whole trials: each with the limit that it is most above.
pub fn bursting<'a>(case: &Case<'a>) -> Vec<(&'a str, Counted, LimitUse)> {
    let of_member = |(index, member): (usize, &'a MemberShare)| {
        let shape = case.shape(&member.name)?;
        let used = |of: fn(&Use) -> Option<LimitUse>| {
            let mut each: Vec<LimitUse> = case
                .trials
                .iter()
                .filter_map(|trial| {
                    let seconds = trial.elapsed.as_secs_f64();
                    of(&of_shape(case, shape, &whole(trial, index), seconds))
                })
                .collect();
            each.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            each.get(each.len() / 2).copied().filter(LimitUse::burst)
        };
        let both = [(Counted::Operations, used(|used| used.iops)), (Counted::Bytes, used(|used| used.bytes))];
        let both = both.into_iter().filter_map(|(counted, used)| Some((counted, used?)));
        let (counted, used) =
            both.max_by(|a, b| (a.1.rate / a.1.lasts).total_cmp(&(b.1.rate / b.1.lasts)))?;
        Some((member.name.as_str(), counted, used))
    };
    case.result.members.iter().enumerate().filter_map(of_member).collect()
}

/// How full a link is that volumes share: of the fullest of its limits.
#[derive(Debug, Clone)]
pub struct LinkUse<'a> {
    /// Name of the link.
    pub link: &'a str,
    /// What it carries of its limit.
    pub used: LimitUse,
    /// What both are counted in.
    pub counted: Counted,
}

/// The links that working members are behind: what all of these did, medians over the trials.
pub fn links<'a>(case: &Case<'a>) -> Vec<LinkUse<'a>> {
    let links = case.experiment.links.iter().enumerate();
    let of_link = |(index, link): (usize, &'a LinkShape)| {
        let behind = |name: &str| case.shape(name).is_some_and(|shape| shape.link == Some(index));
        if !case.result.members.iter().any(|member| behind(&member.name)) {
            return None;
        }
        let full = |limit: Option<Limit>, of: fn(&PerOp<Count>) -> u64| {
            let rate = case.median(|trial| {
                let seconds = trial.elapsed.as_secs_f64();
                let members = trial.members.iter().enumerate().filter(|(_, member)| behind(&member.name));
                let each = members.map(|(m, member)| {
                    let asked = whole(trial, m);
                    // This tool holds its volumes to what is asked of them, and a link carries what the disks move.
                    let held = case.slowed_by_tool(&member.name);
                    of(&if held { asked } else { carried(trial, &member.name, asked) }) as f64
                });
                let sum: f64 = each.sum();
                (seconds > 0.0).then(|| sum / seconds)
            })?;
            used(&limit?, rate)
        };
        let PerOp { read, write } = link.one_way;
        let all = [
            (Counted::Operations, full(link.iops, |count| count.read.ops + count.write.ops)),
            (Counted::Operations, full(read.iops, |count| count.read.ops)),
            (Counted::Operations, full(write.iops, |count| count.write.ops)),
            (Counted::Bytes, full(link.throughput, |count| count.read.bytes + count.write.bytes)),
            (Counted::Bytes, full(read.throughput, |count| count.read.bytes)),
            (Counted::Bytes, full(write.throughput, |count| count.write.bytes)),
        ];
        let known = all.into_iter().filter_map(|(counted, used)| Some((counted, used?)));
        let (counted, used) = known.max_by(|a, b| a.1.share.total_cmp(&b.1.share))?;
        Some(LinkUse { link: &link.name, used, counted })
    };
    links.filter_map(of_link).collect()
}

/// What is carried at least to the disks below a member for what was asked of it: a mirror's copies each take the way.
fn carried(trial: &TrialSamples, member: &str, asked: PerOp<Count>) -> PerOp<Count> {
    let observed = trial.observed.as_deref();
    let below = observed.and_then(|o| Some(o.cost(o.member(member)?)));
    let Some(cost) = below else { return asked };
    let times = |count: Count, by: f64| {
        let by = by.max(1.0);
        Count { ops: (count.ops as f64 * by) as u64, bytes: (count.bytes as f64 * by) as u64 }
    };
    PerOp { read: times(asked.read, cost.read.read.least), write: times(asked.write, cost.write.write.least) }
}

/// How full the working members' limits were: in each stretch the members' use weighted by the bytes that they moved. `None` when no working
/// member has a known limit.
///
/// The weight makes it the use that the average byte met. It is 1 when every working member was at its limit, whether all of them worked
/// (stripe) or one at a time (linear). It is low when one slow member at its limit held back seven that were not.
///
/// The median over stretches and trials; where writes are made durable one at a time, which stand still while that lasts, the mean of each
/// trial.
pub fn met(case: &Case<'_>, stretches: &[Vec<Stretch>]) -> Option<f64> {
    let used = |stretch: &Stretch| -> Option<f64> {
        let known = stretch.iter().any(|m| m.used.fullest().is_some());
        if stretch.iter().all(|m| m.share == 0.0) {
            return known.then_some(0.0);
        }
        let worked = stretch.iter().filter(|m| m.share > 0.0);
        let each = worked.filter_map(|m| m.used.fullest().map(|(used, _)| used.share * m.share));
        each.reduce(|sum, more| sum + more)
    };
    let met = if durable::how(case.workload).is_some() && case.one_at_a_time() {
        median(stretches.iter().filter_map(|trial| {
            let known: Vec<f64> = trial.iter().filter_map(used).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        }))
    } else {
        median(
            stretches
                .iter()
                .flatten()
                .filter(|stretch| stretch.iter().any(|m| m.share > 0.0))
                .filter_map(used),
        )
    };
    met.map(as_told)
}

/// The use of a limit as it is told. A volume whose use seems to be a little above 1 uses all that it is granted: a shape's
/// limiter lets 10 ms of its rate pass at once after a pause, and what is in flight at the edges of a trial counts where it
/// completes. More than that says that the limit is not what was declared, and stays.
pub fn as_told(share: f64) -> f64 {
    if share <= SUSTAINED_SLACK { share.min(1.0) } else { share }
}
