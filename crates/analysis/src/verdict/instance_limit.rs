//! `instance-limit`: the link that the volumes share is full.
//!
//! Derivation. A link that carries `L` bytes (or operations) per second for all of its volumes bounds their sum,
//! however many they are. When the sum is nearly `L` while the volumes' own limits are not reached, more
//! volumes change nothing. An EBS volume also reports the time above the instance's limits (NVMe log page 0xD0).
//! Of remote members the link is the network interface that they are reached by, whose speed its driver knows, or does not: then
//! a network that is full looks like a rate that somebody set.

use crate::evidence::{Evidence, Unit, evidence, share_is};
use crate::facts::calls::fullest_link;
use crate::facts::case::Case;
use crate::facts::exceeded::longest_exceeded;
use crate::facts::usage::{NEAR, REACHED};
use crate::facts::{Facts, usage};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, TcpUse, TrialSamples};
use ebbtide_model::volume::{Limit, LinkShape};

/// Share of an interface's speed from which on it is full. Its counters have the headers of Ethernet, but not what is between frames:
/// with frames of 1,514 bytes, each of which takes the time of 1,538, they cannot show more than 98%.
const INTERFACE_FULL: f64 = 0.90;
/// Share of what the interface carried that must be the load's own at least: otherwise others fill it.
const OWN: f64 = 0.50;

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
    let interface = fullest_link(case);
    by_report(case).or_else(|| by_interface(case, interface.as_ref()?)).ok_or_else(|| match fullest {
        None if interface.is_some() => {
            let (name, share) = interface.unwrap_or_default();
            let what = format!("share of {name}'s speed");
            let absent =
                Absent::because("the network interface of the remote members is not full, or others fill it");
            absent.seen(what, share, Unit::Share, INTERFACE_FULL).with(tcp_figures(case))
        }
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

/// By the network interface of remote members.
fn by_interface(case: &Case<'_>, (name, share): &(String, f64)) -> Option<Verdict> {
    if *share < INTERFACE_FULL {
        return None;
    }
    let carried = case.median(|trial| {
        let observed = trial.observed.as_ref()?;
        let used = observed.network.iter().find(|used| used.interface == *name)?;
        Some(used.sent.max(used.received) as f64 / trial.elapsed.as_secs_f64())
    })?;
    let own = case.median(|trial| {
        let each = trial.members.iter().map(|member| member.ops.counts());
        // The interface's busier direction carries one of them.
        let (read, written) =
            each.fold((0, 0), |sum, count| (sum.0 + count.read.bytes, sum.1 + count.write.bytes));
        Some(read.max(written) as f64 / trial.elapsed.as_secs_f64())
    })?;
    if own < OWN * carried {
        return None;
    }
    let sentence = format!(
        "the network interface {name} carries {} of its {}: more volumes behind it add nothing",
        Unit::BytesPerSecond.rate_in_words(carried),
        Unit::BytesPerSecond.rate_in_words(carried / share)
    );
    let mut figures = vec![
        share_is(format!("share of {name}'s speed"), *share, INTERFACE_FULL),
        share_is("the load's own share of what it carries", (own / carried).min(1.0), OWN),
    ];
    figures.extend(tcp_figures(case));
    Some(Verdict::new(VerdictKind::InstanceLimit, 0.85, share.min(1.0), sentence, figures))
}

/// What TCP says of the way: segments sent again, and the round trip of the busiest connection.
fn tcp_figures(case: &Case<'_>) -> Vec<Evidence> {
    let of = |value: fn(&TcpUse) -> Option<f64>| {
        case.median(|trial| value(trial.observed.as_ref()?.tcp.as_ref()?))
    };
    let again = of(|tcp| (tcp.sent > 0).then(|| tcp.sent_again as f64 / tcp.sent as f64));
    let round_trip = of(|tcp| Some(tcp.connections.first()?.round_trip?.0 as f64));
    let again = again.map(|share| evidence("segments that TCP sent again, of all", share, Unit::Share, None));
    let what = "round trip of the connection that moved most";
    again.into_iter().chain(round_trip.map(|time| evidence(what, time, Unit::Nanoseconds, None))).collect()
}
