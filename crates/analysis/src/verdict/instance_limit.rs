//! `instance-limit`: the link that the volumes share is full.
//!
//! Derivation. A link that carries `L` bytes (or operations) per second for all of its volumes bounds their sum,
//! however many they are. When the sum is nearly `L` while the volumes' own limits are not reached, more
//! volumes change nothing. An EBS volume also reports the time above the instance's limits (NVMe log page 0xD0).
//! Of remote members the link is the network interface that they are reached by, whose speed its driver knows, or does not: then
//! a network that is full looks like a rate that somebody set.

use super::*;
use crate::facts::calls::fullest_link;
use crate::facts::exceeded::{EXCEEDED, longest_exceeded};
use crate::facts::usage;
use crate::facts::usage::{LinkUse, NEAR, REACHED};
use ebbtide_model::samples::MemberSamples;

checks! {
    LINK: at_least("use of the link that the volumes share", NEAR, Share, "from 95% on it is certain");
    REPORTED: at_least("or: share of the time above the instance's limit that volumes report", EXCEEDED, Share, "less is a moment");
    // They have the headers of Ethernet, but not what is between frames: frames of 1,514 bytes take the time of 1,538.
    INTERFACE: at_least("or: share of the network interface's speed, of remote members", 0.90, Share, "counters cannot show more than 98%");
    OWN: at_least("and the load's own share of what the interface carries", 0.50, Share, "otherwise others fill it");
}

pub(super) fn judge(case: &Case<'_>, _: &Facts<'_>) -> Judged {
    let fullest = usage::links(case).into_iter().max_by(|a, b| a.used.share.total_cmp(&b.used.share));
    if let Some(full) = fullest.as_ref().filter(|link| LINK.holds(link.used.share)) {
        return Ok(by_link(full));
    }
    let interface = fullest_link(case);
    by_report(case).or_else(|| by_interface(case, interface.as_ref()?)).ok_or_else(|| {
        let why = "no link that the volumes share is known to be full of the load, and no volume reports time above the instance's limits";
        let link = fullest.map(|link| LINK.missed(link.used.share));
        let interface = interface.map(|(_, share)| INTERFACE.missed(share));
        Absent::unmeasured(why).with(link.into_iter().chain(interface))
    })
}

/// By what is declared of a link.
fn by_link(LinkUse { link, used, counted }: &LinkUse<'_>) -> Verdict {
    let (share, unit) = (used.share, counted.unit());
    let limit = unit.rate_in_words(used.limit);
    let carries = match usage::as_told(share) {
        1.0 => format!("all of its {limit}"),
        _ => format!("{} of its {limit}", unit.rate_in_words(used.rate)),
    };
    let what = format!("sum over the volumes behind {link}, against its limit");
    let mut figures = vec![evidence(what, used.rate, unit, Some(used.limit))];
    let mut lasts = String::new();
    if used.burst() {
        lasts = format!(" while its credits last; {} is what lasts", unit.rate_in_words(used.lasts));
        figures.push(evidence(format!("what lasts of {link}"), used.lasts, unit, Some(used.rate)));
    }
    let sentence = format!(
        "the link `{link}` that the volumes share carries {carries}{lasts}: more volumes behind it add nothing"
    );
    let sure = if share >= REACHED { Sure::Certain } else { Sure::Possible };
    Verdict::new(VerdictKind::InstanceLimit, sure, share, sentence, figures)
}

fn by_report(case: &Case<'_>) -> Option<Verdict> {
    let (_, share, when) =
        longest_exceeded(case, [("IOPS", |e| e.instance_iops), ("throughput", |e| e.instance_throughput)])?;
    let sentence = format!(
        "the volumes report that demand was above the instance's limit for {:.0}% of the time{when}: more volumes \
         add nothing, a larger instance would",
        share * 100.0
    );
    let figures = vec![REPORTED.figure(share)];
    Some(Verdict::new(VerdictKind::InstanceLimit, Sure::Certain, share, sentence, figures))
}

/// By the network interface of remote members.
fn by_interface(case: &Case<'_>, (name, share): &(String, f64)) -> Option<Verdict> {
    let carried = case.median(|trial| {
        let network = &trial.observed.as_ref()?.network;
        let used = network.iter().find(|used| used.interface == *name)?;
        Some(used.sent.max(used.received) as f64 / trial.elapsed.as_secs_f64())
    })?;
    let own = case.median(|trial| {
        // The interface's busier direction carries one of them.
        let bytes = |of: fn(&MemberSamples) -> u64| trial.members.iter().map(of).sum::<u64>();
        let (read, written) = (bytes(|m| m.ops.read.count.bytes), bytes(|m| m.ops.write.count.bytes));
        Some(read.max(written) as f64 / trial.elapsed.as_secs_f64())
    })?;
    if !INTERFACE.holds(*share) || !OWN.holds(own / carried) {
        return None;
    }
    let sentence = format!(
        "the network interface {name} carries {} of its {}: more volumes behind it add nothing",
        Unit::BytesPerSecond.rate_in_words(carried),
        Unit::BytesPerSecond.rate_in_words(carried / share)
    );
    let figures = vec![INTERFACE.figure(*share), OWN.figure((own / carried).min(1.0))];
    Some(Verdict::new(VerdictKind::InstanceLimit, Sure::Likely, share.min(1.0), sentence, figures))
}
