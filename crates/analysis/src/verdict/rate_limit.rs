//! `rate-limit`: somebody set a rate, and it is reached.
//!
//! Derivation. What holds operations to a rate (a cloud volume of which nobody said the type, a cgroup, a hypervisor, a SAN's
//! quality of service) lets so many operations pass in a second, or so many bytes, and nothing else changes that: the rate is the
//! same however many wait, and it is even over time. Operations of twice the size are then as many (operations are
//! counted), or half as many (bytes are). A device that serves as fast as it can is neither: its rate varies by some percent from
//! second to second, and larger operations take longer and move more. Where the operations wait says more: in a cgroup's
//! queue they have not reached the device yet, which looks idle; behind the device they fill its queue.

use crate::ArrayBelow;
use crate::evidence::{Check, Unit, evidence, share_is};
use crate::facts::Facts;
use crate::facts::case::Case;
use crate::facts::group::FullestLimit;
use crate::facts::round_rates::{fitting, round, shown};
use crate::facts::served::SERVED_AT_ONCE;
use crate::facts::set_rate;
use crate::facts::standing::AT_DEVICES;
use crate::facts::usage::{Counted, NEAR, REACHED};
use crate::judged::{Absent, Basis, Judged, Verdict, VerdictKind};

/// Share of the operations in flight from which on the array waits for the members at which they are: the others then have less than
/// half of what those have.
const WAITED_FOR: f64 = 0.70;

/// Devices of an array whose rates are within this part of one another are held alike: chance gives one of four some 1% more at 1,000 operations
/// a second.
const ALIKE: f64 = 0.05;

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("use of a limit of the load's control group", NEAR, Unit::Share, "operations come in lots, the last of which may be missing"),
    Check::below("inferred: distance of what was done by some time from an even rate, above the device", set_rate::EVEN, Unit::Share, "nothing but a limit makes it even"),
    Check::below("the same at the device", set_rate::EVEN_AT_DEVICES, Unit::Share, "a device's own pace varies by 1%"),
    Check::below("and how much higher the rate of a short run is than that of the trials", set_rate::SAME, Unit::Share, "the rate is the same whatever the depth"),
];

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    facts.yield_to_volumes("a declared limit is reached")?;
    if facts.served_at_once(case) {
        return Err(Absent::because(SERVED_AT_ONCE));
    }
    let members = case.working().count();
    let held: Vec<&FullestLimit> = facts.held.iter().filter(|held| held.is_reached()).collect();
    if !held.is_empty() {
        return if held.len() == members { Ok(by_group(&held)) } else { of_some(case, facts, &held) };
    }
    let found = facts.set_rate.clone()?;
    // What waits above the devices is held there, whatever is below.
    let disks = if found.above { None } else { alike_below(case, found.counted) };
    let each = disks.map_or(found.rate / members.max(1) as f64, |(_, each)| each);
    // A link, a platter and a drive's own bus move bytes as evenly as a limit lets them pass.
    let or_its_own =
        if !found.above && found.counted == Counted::Bytes { ", or the device's own" } else { "" };
    let mut sentence =
        format!("looks like a rate that somebody set{or_its_own}: {}", shown(found.counted, each));
    match disks {
        Some((array, _)) => {
            sentence.push_str(&format!(" for each of the {} devices of {}", array.devices.len(), array.name));
        }
        None if members > 1 => sentence.push_str(" for each volume"),
        None => {}
    }
    sentence.push_str(", whatever the depth");
    sentence.push_str(match found.counted {
        Counted::Operations => " and the size",
        Counted::Bytes => " (with larger operations, fewer of them)",
    });
    let at_device = facts.at_devices().is_none_or(|share| share >= AT_DEVICES);
    sentence.push_str(if found.above {
        "; operations wait above the device, which has time to spare: a cgroup or the like holds them back here"
    } else if !at_device {
        "; most operations wait above the device, which others keep busy: a cgroup or the like holds them back here"
    } else {
        "; operations wait at the device, which always has some to do: it is held back behind it"
    });
    // Sizes of devices below an array are not known, and what a type grants depends on them.
    let types = if disks.is_some() { Vec::new() } else { fitting(case, found.counted, each) };
    if !types.is_empty() {
        sentence.push_str(&format!("; {} has this figure", types.join(" or ")));
    }
    let (rounded, unit) = (round(found.counted, each), found.counted.unit());
    let what =
        format!("rate that it looks like, for each {}", if disks.is_some() { "device" } else { "volume" });
    let mut figures = vec![evidence(what, rounded, unit, Some(each))];
    figures.extend(found.figures);
    let confidence = if found.above { 0.9 } else { 0.8 };
    Ok(Verdict::new(VerdictKind::RateLimit, confidence, 1.0, sentence, figures).known(Basis::Inferred))
}

/// The array of the host that the design is on, where each of its devices does as much as the others, and what that is in a second: what looks
/// like one rate is then as many as there are devices.
fn alike_below<'a>(case: &Case<'a>, counted: Counted) -> Option<(&'a ArrayBelow, f64)> {
    let ([array], 1) = (case.result.below.as_slice(), case.working().count()) else { return None };
    let rates = array.devices.iter().map(|device| match counted {
        Counted::Operations => device.iops,
        Counted::Bytes => device.throughput,
    });
    let (least, most) =
        rates.clone().fold((f64::MAX, 0.0f64), |(least, most), rate| (least.min(rate), most.max(rate)));
    let count = array.devices.len();
    (count > 1 && most > 0.0 && least >= most * (1.0 - ALIKE))
        .then(|| (array, rates.sum::<f64>() / count as f64))
}

/// Every member that works uses up what a control group allows.
fn by_group(held: &[&FullestLimit]) -> Verdict {
    let least = held.iter().map(|held| held.share()).fold(f64::MAX, f64::min);
    let more = match held.len() {
        1 => String::new(),
        all => format!("; so it is for each of {all} members"),
    };
    let first = held.first().map(|held| held.in_words()).unwrap_or_default();
    let confidence = if least >= REACHED { 0.95 } else { 0.7 };
    let sentence = format!("the load's control group is held to a rate: {first}{more}");
    let figures = held.iter().map(|held| held.evidence()).collect();
    Verdict::new(VerdictKind::RateLimit, confidence, least, sentence, figures).known(Basis::Declared)
}

/// Only some of the members that work use up what a control group allows: whether the array waits for them.
fn of_some(case: &Case<'_>, facts: &Facts<'_>, held: &[&FullestLimit]) -> Judged {
    let names: Vec<&str> = held.iter().map(|held| held.member.as_str()).collect();
    let first = held.first().map(|held| held.in_words()).unwrap_or_default();
    facts.yield_to(VerdictKind::Member, &format!("one member is held to a rate alone: {first}"))?;
    let in_flight = |held: bool| {
        let members = case.result.members.iter().filter(|m| !held || names.contains(&m.name.as_str()));
        members.filter_map(|member| member.in_flight).sum::<f64>()
    };
    let (there, all) = (in_flight(true), in_flight(false));
    let share = if all > 0.0 { there / all } else { 0.0 };
    let what = format!("share of the operations in flight that are at {}", names.join(", "));
    if share < WAITED_FOR {
        let why = format!(
            "only {} of the busy members are held to a rate, and the others have as much to do: {first}",
            names.join(", ")
        );
        return Err(Absent::because(why).seen(&what, share, Unit::Share, WAITED_FOR));
    }
    let mut verdict = by_group(held);
    verdict.explains = share;
    verdict.sentence = format!(
        "the load's control group is held to a rate on {} of {} members: {first}; {:.0}% of the operations in flight wait there",
        held.len(),
        case.result.members.len(),
        share * 100.0
    );
    verdict.evidence.push(share_is(&what, share, WAITED_FOR));
    Ok(verdict)
}
