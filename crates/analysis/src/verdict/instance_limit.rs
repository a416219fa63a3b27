//! `instance-limit`: the link that the volumes share is full.
//!
//! Derivation. A link that carries `L` bytes (or operations) per second for all of its volumes bounds their sum,
//! however many they are. When the sum is nearly `L` while the volumes' own limits are not reached, more
//! volumes change nothing. An EBS volume also reports the time above the instance's limits (NVMe log page 0xD0).

use super::exceeded::longest_exceeded;
use super::volume_limit::{NEAR, REACHED};
use super::{Absent, Case, Judged, Rule, usage};
use crate::{Evidence, Verdict, VerdictKind};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, TrialSamples};
use ebbtide_model::units::{format_iops, format_throughput};
use ebbtide_model::volume::Limit;

#[derive(Debug)]
pub struct InstanceLimit;

impl Rule for InstanceLimit {
    fn kind(&self) -> VerdictKind {
        VerdictKind::InstanceLimit
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        let links = case.experiment.links.iter().enumerate().filter_map(|(index, link)| {
            let bytes = fullest(
                case,
                index,
                [
                    (link.throughput, |count| (count.read.bytes + count.write.bytes) as f64),
                    (link.one_way.read.throughput, |count| count.read.bytes as f64),
                    (link.one_way.write.throughput, |count| count.write.bytes as f64),
                ],
            );
            let ops = fullest(
                case,
                index,
                [
                    (link.iops, |count| (count.read.ops + count.write.ops) as f64),
                    (link.one_way.read.iops, |count| count.read.ops as f64),
                    (link.one_way.write.iops, |count| count.write.ops as f64),
                ],
            );
            let (used, rate, limit, unit) = match (bytes, ops) {
                (Some(b), Some(o)) if o.0 > b.0 => (o.0, o.1, o.2, "ops/s"),
                (Some(b), _) => (b.0, b.1, b.2, "bytes/s"),
                (None, o) => o.map(|o| (o.0, o.1, o.2, "ops/s"))?,
            };
            Some((used, rate, limit, unit, link))
        });
        let fullest = links.max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((used, rate, limit, unit, link)) = fullest.filter(|link| link.0 >= NEAR) {
            let shown = |rate| match unit {
                "bytes/s" => format_throughput(rate),
                _ => format!("{} operations/s", format_iops(rate)),
            };
            let carries = match usage::as_told(used) {
                1.0 => format!("all of its {}", shown(limit)),
                _ => format!("{} of its {}", shown(rate), shown(limit)),
            };
            return Ok(Verdict {
                kind: VerdictKind::InstanceLimit,
                basis: None,
                confidence: if used >= REACHED { 0.95 } else { 0.7 },
                explains: used.min(1.0),
                sentence: format!(
                    "the link `{}` that the volumes share carries {carries}: more volumes behind it add nothing",
                    link.name
                ),
                evidence: vec![Evidence {
                    what: format!("sum over the volumes behind {}, against its limit", link.name),
                    value: rate,
                    unit: unit.to_owned(),
                    reference: Some(limit),
                }],
            });
        }
        by_report(case).ok_or_else(|| match fullest {
            Some((used, .., link)) => {
                let what = format!("use of the link `{}`", link.name);
                Absent::because("the link that the volumes share is not full")
                    .seen(&what, used, "share", NEAR)
            }
            None => {
                Absent::because("no link with known limits, and no volume reports time above the instance's")
            }
        })
    }
}

/// A limit, and what of the counts goes against it.
type Against = (Option<Limit>, fn(&PerOp<Count>) -> f64);

/// [`full`] of the fullest of these limits.
fn fullest(case: &Case<'_>, index: usize, limits: [Against; 3]) -> Option<(f64, f64, f64)> {
    let uses = limits.into_iter().filter_map(|(limit, of)| full(case, index, &limit?, of));
    uses.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Use, rate and limit of link `index`: median over trials of what all its volumes did.
fn full(
    case: &Case<'_>,
    index: usize,
    limit: &Limit,
    of: impl Fn(&PerOp<Count>) -> f64,
) -> Option<(f64, f64, f64)> {
    let behind = |name: &str| {
        case.volume(name).and_then(|v| v.shape.as_ref()).is_some_and(|shape| shape.link == Some(index))
    };
    if !case.result.members.iter().any(|member| behind(&member.name)) {
        return None;
    }
    let rate = case.median(|trial| {
        let seconds = trial.elapsed.as_secs_f64();
        let sum: f64 = trial
            .members
            .iter()
            .enumerate()
            .filter(|(_, member)| behind(&member.name))
            .map(|(m, member)| {
                let asked = usage::whole(trial, m);
                // This tool holds its volumes to what is asked of them, and a link carries what the disks move.
                of(&if case.slowed_by_tool(&member.name) {
                    asked
                } else {
                    carried(trial, &member.name, asked)
                })
            })
            .sum();
        (seconds > 0.0).then(|| sum / seconds)
    })?;
    let ceiling = usage::ceiling(limit, rate);
    (ceiling > 0.0).then(|| (rate / ceiling, rate, ceiling))
}

/// What is carried at least to the disks below a member for what was asked of it: a mirror's copies each take the way.
fn carried(trial: &TrialSamples, member: &str, asked: PerOp<Count>) -> PerOp<Count> {
    let observed = trial.observed.as_deref();
    let below = observed.and_then(|o| Some(o.cost(o.members.iter().find(|m| m.member == member)?)));
    let Some(cost) = below else { return asked };
    let times = |count: Count, by: f64| {
        let by = by.max(1.0);
        Count { ops: (count.ops as f64 * by) as u64, bytes: (count.bytes as f64 * by) as u64 }
    };
    PerOp { read: times(asked.read, cost.read.read.least), write: times(asked.write, cost.write.write.least) }
}

fn by_report(case: &Case<'_>) -> Option<Verdict> {
    let limits =
        longest_exceeded(case, [("IOPS", |e| e.instance_iops), ("throughput", |e| e.instance_throughput)]);
    let (_, longest) = limits?;
    Some(Verdict {
        kind: VerdictKind::InstanceLimit,
        basis: None,
        confidence: 0.9,
        explains: longest.share.min(1.0),
        sentence: format!(
            "the volumes report that demand was above the instance's limit for {:.0}% of the time{}: more volumes \
             add nothing, a larger instance would",
            longest.share * 100.0,
            longest.stretch()
        ),
        evidence: longest.evidence("instance's"),
    })
}
