//! `instance-limit`: the link that the volumes share is full.
//!
//! Derivation. A link that carries `L` bytes (or operations) per second for all of its volumes bounds their sum,
//! however many they are. When the sum is nearly `L` while the volumes' own limits are not reached, more
//! volumes change nothing. An EBS volume also reports the time above the instance's limits (NVMe log page 0xD0).

use crate::evidence::{Unit, evidence};
use crate::facts::case::Case;
use crate::facts::exceeded::longest_exceeded;
use crate::facts::usage::{NEAR, REACHED};
use crate::facts::{Facts, usage};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, TrialSamples};
use ebbtide_model::volume::{Limit, LinkShape};

pub(super) fn judge(case: &Case<'_>, _: &Facts<'_>) -> Judged {
    let links = case.experiment.links.iter().enumerate();
    let fullest = links
        .filter_map(|(index, link)| {
            let used = limits(link).into_iter().filter_map(|limit| full(case, index, limit));
            Some((used.max_by(|a, b| a.share.total_cmp(&b.share))?, link))
        })
        .max_by(|a, b| a.0.share.total_cmp(&b.0.share));
    if let Some((Used { share, rate, limit, unit }, link)) = fullest.filter(|(used, _)| used.share >= NEAR) {
        let carries = match usage::as_told(share) {
            1.0 => format!("all of its {}", unit.rate_in_words(limit)),
            _ => format!("{} of its {}", unit.rate_in_words(rate), unit.rate_in_words(limit)),
        };
        let confidence = if share >= REACHED { 0.95 } else { 0.7 };
        let sentence = format!(
            "the link `{}` that the volumes share carries {carries}: more volumes behind it add nothing",
            link.name
        );
        let what = format!("sum over the volumes behind {}, against its limit", link.name);
        let figures = vec![evidence(what, rate, unit, Some(limit))];
        return Ok(Verdict::new(VerdictKind::InstanceLimit, confidence, share, sentence, figures));
    }
    by_report(case).ok_or_else(|| match fullest {
        Some((used, link)) => {
            let what = format!("use of the link `{}`", link.name);
            let absent = Absent::because("the link that the volumes share is not full");
            absent.seen(what, used.share, Unit::Share, NEAR)
        }
        None => Absent::because("no link with known limits, and no volume reports time above the instance's"),
    })
}

/// A limit, in which unit, and what of the counts goes against it.
type LimitUse = (Option<Limit>, Unit, fn(&PerOp<Count>) -> u64);

/// Those of a link.
fn limits(link: &LinkShape) -> [LimitUse; 6] {
    let PerOp { read, write } = link.one_way;
    [
        (link.iops, Unit::OpsPerSecond, |count| count.read.ops + count.write.ops),
        (read.iops, Unit::OpsPerSecond, |count| count.read.ops),
        (write.iops, Unit::OpsPerSecond, |count| count.write.ops),
        (link.throughput, Unit::BytesPerSecond, |count| count.read.bytes + count.write.bytes),
        (read.throughput, Unit::BytesPerSecond, |count| count.read.bytes),
        (write.throughput, Unit::BytesPerSecond, |count| count.write.bytes),
    ]
}

/// How full a link is.
#[derive(Clone, Copy)]
struct Used {
    share: f64,
    rate: f64,
    limit: f64,
    unit: Unit,
}

/// Use of a limit of link `index`: median over trials of what all its volumes did.
fn full(case: &Case<'_>, index: usize, (limit, unit, of): LimitUse) -> Option<Used> {
    let limit = limit?;
    let behind = |name: &str| case.shape(name).is_some_and(|shape| shape.link == Some(index));
    if !case.result.members.iter().any(|member| behind(&member.name)) {
        return None;
    }
    let rate = case.median(|trial| {
        let seconds = trial.elapsed.as_secs_f64();
        let members = trial.members.iter().enumerate().filter(|(_, member)| behind(&member.name));
        let each = members.map(|(m, member)| {
            let asked = usage::whole(trial, m);
            // This tool holds its volumes to what is asked of them, and a link carries what the disks move.
            let held = case.slowed_by_tool(&member.name);
            of(&if held { asked } else { carried(trial, &member.name, asked) }) as f64
        });
        let sum: f64 = each.sum();
        (seconds > 0.0).then(|| sum / seconds)
    })?;
    let limit = usage::ceiling(&limit, rate);
    (limit > 0.0).then(|| Used { share: rate / limit, rate, limit, unit })
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

fn by_report(case: &Case<'_>) -> Option<Verdict> {
    let (_, longest) =
        longest_exceeded(case, [("IOPS", |e| e.instance_iops), ("throughput", |e| e.instance_throughput)])?;
    let sentence = format!(
        "the volumes report that demand was above the instance's limit for {:.0}% of the time{}: more volumes \
         add nothing, a larger instance would",
        longest.share * 100.0,
        longest.stretch()
    );
    let figures = longest.evidence("instance's");
    Some(Verdict::new(VerdictKind::InstanceLimit, 0.9, longest.share, sentence, figures))
}
