//! How much of their known limits the members used.
//!
//! A trial is cut into stretches of equal time, because a linear array works one member after the other: over
//! a whole trial each of them may look idle although one was always at its limit.

use super::*;
use crate::MemberShare;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, MemberSamples};
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
    fn each(&self) -> impl Iterator<Item = (LimitUse, Counted)> + use<> {
        let each = [(self.iops, Counted::Operations), (self.bytes, Counted::Bytes)];
        each.into_iter().filter_map(|(used, counted)| Some((used?, counted)))
    }

    /// The one that is most above what lasts, where one is.
    pub fn most_above_lasting(&self) -> Option<(LimitUse, Counted)> {
        let above = |used: &LimitUse| used.rate / used.lasts;
        self.each().filter(|(used, _)| used.burst()).max_by(|a, b| above(&a.0).total_cmp(&above(&b.0)))
    }

    /// The fuller of the two.
    pub fn fullest(&self) -> Option<(LimitUse, Counted)> {
        self.each().max_by(|a, b| by_share(&a.0, &b.0))
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

/// Use of `limit` at `rate` per second: of the sustained rate, or of the burst rate where `rate` is above what is sustained.
fn used(limit: Limit, rate: f64) -> Option<LimitUse> {
    let burst = limit.burst_rate.filter(|_| rate > limit.rate * SUSTAINED_SLACK).unwrap_or(0.0);
    let ceiling = burst.max(limit.rate);
    (ceiling > 0.0).then(|| LimitUse { share: rate / ceiling, rate, limit: ceiling, lasts: limit.rate })
}

/// What `count` costs against the limit of operations: larger operations than `io_unit` count several times
/// (EBS documentation, "I/O size and throughput limits"), sequential ones share a unit where the volume merges.
fn counted_ops(shape: &Shape, access: Access, count: &PerOp<Count>) -> f64 {
    let merges = shape.character.merge_sequential && access == Access::Sequential;
    let units = |count: Count| {
        let (ops, bytes) = (count.ops as f64, count.bytes as f64);
        match shape.io_unit.map(|unit| unit.0.max(1) as f64).filter(|_| count.ops > 0) {
            None => ops,
            Some(unit) if merges => bytes / unit,
            Some(unit) => ops * (bytes / ops / unit).ceil().max(1.0),
        }
    };
    let (read, write) = shape.character.costs.map_or((1.0, 1.0), |costs| (costs.read, costs.write));
    units(count.read) * read + units(count.write) * write
}

/// Use of the limits of a volume or a link: the fullest of those of `both` directions and of each of the `ways`. `costs` says what counts against them
/// per second, operations and bytes.
fn of_limits(
    both: &OneWay,
    ways: &PerOp<OneWay>,
    count: PerOp<Count>,
    costs: impl Fn(PerOp<Count>) -> (f64, f64),
) -> Use {
    let reads = PerOp { write: Count::default(), ..count };
    let writes = PerOp { read: Count::default(), ..count };
    let all = [(both, costs(count)), (&ways.read, costs(reads)), (&ways.write, costs(writes))];
    let fullest = |each: [Option<LimitUse>; 3]| each.into_iter().flatten().max_by(by_share);
    Use {
        iops: fullest(all.map(|(limits, (ops, _))| used(limits.iops?, ops))),
        bytes: fullest(all.map(|(limits, (_, bytes))| used(limits.throughput?, bytes))),
    }
}

fn by_share(a: &LimitUse, b: &LimitUse) -> std::cmp::Ordering {
    a.share.total_cmp(&b.share)
}

fn of_shape(case: &Case<'_>, shape: &Shape, count: PerOp<Count>, seconds: f64) -> Use {
    let both = OneWay { iops: shape.iops, throughput: shape.throughput };
    let weight = shape.character.costs.map_or(1.0, |costs| costs.write_bytes);
    of_limits(&both, &shape.character.one_way, count, |count| {
        let bytes = count.read.bytes as f64 + count.write.bytes as f64 * weight;
        (counted_ops(shape, case.workload.access, &count) / seconds, bytes / seconds)
    })
}

/// Seconds and each member's counts of the stretches of a trial.
fn counts_by_stretch(trial: &TrialSamples) -> Vec<(f64, Vec<PerOp<Count>>)> {
    let totals: Vec<PerOp<Count>> = trial.members.iter().map(|member| member.ops.counts()).collect();
    let (series, members) = (&trial.series, totals.len());
    let busiest = totals.iter().map(|total| total.total().ops).max().unwrap_or(0);
    let parts = series.len().min((busiest / STRETCH_OPS).min(MAX_STRETCHES) as usize);
    if parts < 2 || series.iter().any(|interval| interval.members.len() != members) {
        return vec![(trial.elapsed.as_secs_f64(), totals)];
    }
    let mut start = 0u64;
    let stretch = |part: usize| {
        let slice = &series[series.len() * part / parts..series.len() * (part + 1) / parts];
        let mut sums = vec![PerOp::<Count>::default(); members];
        for interval in slice {
            sums.iter_mut().zip(&interval.members).for_each(|(sum, more)| *sum = sum.plus(*more));
        }
        let end = slice.last().map_or(start, |interval| interval.end.0);
        let seconds = end.saturating_sub(start) as f64 / 1e9;
        start = end;
        (seconds, sums)
    };
    (0..parts).map(stretch).filter(|(seconds, _)| *seconds > 0.0).collect()
}

/// The stretches of each trial.
pub fn stretches(case: &Case<'_>) -> Vec<Vec<Stretch>> {
    let stretch = |trial: &TrialSamples, (seconds, counts): (f64, Vec<PerOp<Count>>)| -> Stretch {
        let moved: u64 = counts.iter().map(|count| count.total().bytes).sum();
        let member = |(count, member): (PerOp<Count>, &MemberSamples)| MemberStretch {
            share: count.total().bytes as f64 / moved.max(1) as f64,
            used: case
                .shape(&member.name)
                .map_or(Use { iops: None, bytes: None }, |shape| of_shape(case, shape, count, seconds)),
        };
        counts.into_iter().zip(&trial.members).map(member).collect()
    };
    let of_trial = |trial: &&TrialSamples| {
        counts_by_stretch(trial).into_iter().map(|counted| stretch(trial, counted)).collect()
    };
    case.trials.iter().map(of_trial).collect()
}

/// The members that were above the rate of a limit that lasts, over whole trials: each with the limit that it is most above.
pub fn bursting<'a>(case: &Case<'a>) -> Vec<(&'a str, Counted, LimitUse)> {
    let seen = |trial: &TrialSamples| {
        let of_member = |member: &'a MemberShare| {
            let count = trial.members.iter().find(|seen| seen.name == member.name)?.ops.counts();
            let used = of_shape(case, case.shape(&member.name)?, count, trial.elapsed.as_secs_f64());
            let (used, counted) = used.most_above_lasting()?;
            Some((member.name.as_str(), counted, used))
        };
        case.result.members.iter().filter_map(of_member).collect()
    };
    in_most(case.trials, seen, |a, b| (a.0, a.1) == (b.0, b.1), |(.., used)| used.rate)
}

/// How full a link is that volumes share, of one of its limits.
#[derive(Debug, Clone)]
pub struct LinkUse<'a> {
    /// Name of the link.
    pub link: &'a str,
    /// What it carries of its limit.
    pub used: LimitUse,
    /// What both are counted in.
    pub counted: Counted,
}

/// The links that working members are behind, each by the fullest of its limits: what all of these did, in the trial in the middle.
pub fn links<'a>(case: &Case<'a>) -> Vec<LinkUse<'a>> {
    links_by(case, Use::fullest)
}

/// The links that spend credits, each by the limit that is most above what lasts: the fullest may be another.
pub fn bursting_links<'a>(case: &Case<'a>) -> Vec<LinkUse<'a>> {
    links_by(case, Use::most_above_lasting)
}

fn links_by<'a>(case: &Case<'a>, which: impl Fn(&Use) -> Option<(LimitUse, Counted)>) -> Vec<LinkUse<'a>> {
    let seen = |trial: &TrialSamples| {
        let of_link = |(index, link): (usize, &'a LinkShape)| {
            let behind = |member: &&MemberSamples| {
                case.shape(&member.name).is_some_and(|shape| shape.link == Some(index))
            };
            let each = trial.members.iter().filter(behind).map(|member| carried(case, trial, member));
            let count = each.reduce(PerOp::<Count>::plus)?;
            let both = OneWay { iops: link.iops, throughput: link.throughput };
            let seconds = trial.elapsed.as_secs_f64();
            let used = of_limits(&both, &link.one_way, count, |count| {
                let Count { ops, bytes } = count.total();
                (ops as f64 / seconds, bytes as f64 / seconds)
            });
            let (used, counted) = which(&used)?;
            Some(LinkUse { link: &link.name, used, counted })
        };
        case.experiment.links.iter().enumerate().filter_map(of_link).collect()
    };
    in_most(case.trials, seen, |a, b| a.link == b.link, |link| link.used.share)
}

/// What is carried at least to the disks below a member for what was asked of it: a mirror's copies each take the way. This tool holds its volumes to
/// what is asked of them.
fn carried(case: &Case<'_>, trial: &TrialSamples, member: &MemberSamples) -> PerOp<Count> {
    let asked = member.ops.counts();
    let observed = trial.observed.as_deref().filter(|_| !case.slowed_by_tool(&member.name));
    let Some(cost) = observed.and_then(|o| Some(o.cost(o.member(&member.name)?))) else { return asked };
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
/// The median over stretches and trials; where writes are made durable one at a time, which stand still while that lasts, of the mean of each trial.
pub fn met(case: &Case<'_>, stretches: &[Vec<Stretch>]) -> Option<f64> {
    let still = durable::how(case.workload).is_some() && case.one_at_a_time();
    let used = |stretch: &Stretch| -> Option<f64> {
        let idle = stretch.iter().all(|m| m.share == 0.0);
        let counts = stretch.iter().filter(|m| still && idle || m.share > 0.0);
        counts.filter_map(|m| Some(m.used.fullest()?.0.share * m.share)).reduce(|sum, more| sum + more)
    };
    let each = stretches.iter().map(|trial| trial.iter().filter_map(used).collect::<Vec<f64>>());
    let mean = |known: Vec<f64>| (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
    let met = if still { median(each.filter_map(mean)) } else { median(each.flatten()) };
    met.map(as_told)
}

/// The use of a limit as it is told. A volume whose use seems to be a little above 1 uses all that it is granted: a shape's
/// limiter lets 10 ms of its rate pass at once after a pause, and what is in flight at the edges of a trial counts where it
/// completes. More than that says that the limit is not what was declared, and stays.
pub fn as_told(share: f64) -> f64 {
    if share <= SUSTAINED_SLACK { share.min(1.0) } else { share }
}
