//! `instance-limit`: the link that the volumes share is full.
//!
//! Derivation. A link that carries `L` bytes (or operations) per second for all of its volumes bounds their sum,
//! however many they are. When the sum is nearly `L` while the volumes' own limits are not reached, more
//! volumes change nothing. An EBS volume also reports the time above the instance's limits (NVMe log page 0xD0).
//! Of remote members the link is the network interface that they are reached by, whose speed its driver knows, or does not: then
//! a network that is full looks like a rate that somebody set.

use crate::evidence::{Check, Evidence, Unit, evidence, share_is};
use crate::facts::calls::fullest_link;
use crate::facts::case::Case;
use crate::facts::exceeded::{EXCEEDED, longest_exceeded};
use crate::facts::usage::{LinkUse, NEAR, REACHED};
use crate::facts::{Facts, usage};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use ebbtide_model::samples::TcpUse;

/// Share of an interface's speed from which on it is full. Its counters have the headers of Ethernet, but not what is between frames:
/// with frames of 1,514 bytes, each of which takes the time of 1,538, they cannot show more than 98%.
const INTERFACE_FULL: f64 = 0.90;
/// Share of what the interface carried that must be the load's own at least: otherwise others fill it.
const OWN: f64 = 0.50;

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("use of the link that the volumes share", NEAR, Unit::Share, "from 95% on it is certain"),
    Check::at_least("or: share of the time above the instance's limit that volumes report", EXCEEDED, Unit::Share, "less is a moment"),
    Check::at_least("or: share of the network interface's speed, of remote members", INTERFACE_FULL, Unit::Share, "counters cannot show more than 98%"),
    Check::at_least("and the load's own share of what the interface carries", OWN, Unit::Share, "otherwise others fill it"),
];

pub(super) fn judge(case: &Case<'_>, _: &Facts<'_>) -> Judged {
    let fullest = usage::links(case).into_iter().max_by(|a, b| a.used.share.total_cmp(&b.used.share));
    if let Some(LinkUse { link, used, counted }) = fullest.as_ref().filter(|link| link.used.share >= NEAR) {
        let (share, unit) = (used.share, counted.unit());
        let carries = match usage::as_told(share) {
            1.0 => format!("all of its {}", unit.rate_in_words(used.limit)),
            _ => format!("{} of its {}", unit.rate_in_words(used.rate), unit.rate_in_words(used.limit)),
        };
        let confidence = if share >= REACHED { 0.95 } else { 0.7 };
        let lasts = match used.burst() {
            true => format!(" while its credits last; {} is what lasts", unit.rate_in_words(used.lasts)),
            false => String::new(),
        };
        let sentence = format!(
            "the link `{link}` that the volumes share carries {carries}{lasts}: more volumes behind it add nothing"
        );
        let what = format!("sum over the volumes behind {link}, against its limit");
        let mut figures = vec![evidence(what, used.rate, unit, Some(used.limit))];
        if used.burst() {
            figures.push(evidence(format!("what lasts of {link}"), used.lasts, unit, Some(used.rate)));
        }
        return Ok(Verdict::new(VerdictKind::InstanceLimit, confidence, share, sentence, figures));
    }
    let interface = fullest_link(case);
    by_report(case).or_else(|| by_interface(case, interface.as_ref()?)).ok_or_else(|| {
        match (fullest, interface) {
            (None, Some((name, share))) => {
                let why = "the network interface of the remote members is not full, or others fill it";
                let what = format!("share of {name}'s speed");
                Absent::because(why).seen(what, share, Unit::Share, INTERFACE_FULL).with(tcp_figures(case))
            }
            (Some(fullest), _) => {
                let absent = Absent::because("the link that the volumes share is not full");
                absent.seen(
                    format!("use of the link `{}`", fullest.link),
                    fullest.used.share,
                    Unit::Share,
                    NEAR,
                )
            }
            (None, None) => {
                Absent::because("no link with known limits, and no volume reports time above the instance's")
            }
        }
    })
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
