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
use crate::facts::usage::{Counted, NEAR, REACHED};
use crate::judged::{Absent, Basis, Judged, Sure, Verdict, VerdictKind};

/// Share of the operations in flight from which on the array waits for the members at which they are: the others then have less than
/// half of what those have.
const WAITED_FOR: f64 = 0.70;

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("use of a limit of the load's control group", NEAR, Unit::Share, "operations come in lots, the last of which may be missing"),
    Check::below("inferred: distance of what was done by some time from an even rate, above the device", set_rate::EVEN, Unit::Share, "nothing but a limit makes it even"),
    Check::below("the same at the device", set_rate::EVEN_AT_DEVICES, Unit::Share, "a device's own pace varies by 1%"),
    Check::below("and how much higher the rate of a short run is than that of the trials", set_rate::SAME, Unit::Share, "the rate is the same whatever the depth"),
];

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    if facts.served_at_once(case) {
        return Err(Absent::because(SERVED_AT_ONCE));
    }
    let members = case.working().count();
    let held: Vec<&FullestLimit> = facts.held.iter().filter(|held| held.is_reached()).collect();
    if let Some(first) = held.first() {
        return by_group(case, facts, &held, first);
    }
    let found = facts.set_rate.clone()?;
    // What waits above the devices is held there, whatever is below: what looks like one rate below may be as many as an array has devices.
    let array = case.result.below.first().filter(|array| {
        !found.above && members == 1 && array.devices.len() > 1 && are_alike(array, found.counted)
    });
    let number = array.map_or(members.max(1), |array| array.devices.len());
    let each = found.rate / number as f64;
    // A link, a platter and a drive's own bus move bytes as evenly as a limit lets them pass.
    let or_its_own = match !found.above && found.counted == Counted::Bytes {
        true => ", or the device's own",
        false => "",
    };
    let whose = match array {
        Some(array) => format!(" for each of the {number} devices of {}", array.name),
        None if members > 1 => " for each volume".to_owned(),
        None => String::new(),
    };
    let size = match found.counted {
        Counted::Operations => " and the size",
        Counted::Bytes => " (with larger operations, fewer of them)",
    };
    let place = match found.above {
        true => "operations wait above the device: a cgroup or the like holds them back here",
        false => "operations wait at the device: it is held back behind it",
    };
    // Sizes of devices below an array are not known, and what a type grants depends on them.
    let types = if array.is_some() { Vec::new() } else { fitting(case, found.counted, each) };
    let types = match types.is_empty() {
        true => String::new(),
        false => format!("; {} has this figure", types.join(" or ")),
    };
    let sentence = format!(
        "looks like a rate that somebody set{or_its_own}: {}{whose}, whatever the depth{size}; {place}{types}",
        shown(found.counted, each)
    );
    let (rounded, unit) = (round(found.counted, each), found.counted.unit());
    let mut figures = vec![evidence("rate that it looks like, for each", rounded, unit, Some(each))];
    figures.extend(found.figures);
    Ok(Verdict::new(VerdictKind::RateLimit, Sure::Likely, 1.0, sentence, figures).known(Basis::Inferred))
}

/// Whether the devices of an array do as much as one another: chance gives one of four some 1% more at 1,000 operations a second.
fn are_alike(array: &ArrayBelow, counted: Counted) -> bool {
    const ALIKE: f64 = 0.05;
    let rates = array.devices.iter().map(|device| match counted {
        Counted::Operations => device.iops,
        Counted::Bytes => device.throughput,
    });
    let most = rates.clone().fold(0.0, f64::max);
    rates.fold(f64::MAX, f64::min) >= most * (1.0 - ALIKE)
}

/// Members that use up what a control group allows: all that work, or some for which the array waits.
fn by_group(case: &Case<'_>, facts: &Facts<'_>, held: &[&FullestLimit], first: &FullestLimit) -> Judged {
    let (number, members, told) = (held.len(), case.working().count(), first.in_words());
    let mut figures: Vec<_> = held.iter().map(|held| held.evidence()).collect();
    let least = held.iter().map(|held| held.share()).fold(f64::MAX, f64::min);
    let (explains, rest) = if number == members {
        let rest =
            if number > 1 { format!("; so it is for each of {number} members") } else { String::new() };
        (least, rest)
    } else {
        facts.yield_to(VerdictKind::Member, &format!("one member is held to a rate alone: {told}"))?;
        let is_held = |name: &str| held.iter().any(|held| held.member == name);
        let in_flight = case.result.members.iter().map(|m| (is_held(&m.name), m.in_flight.unwrap_or(0.0)));
        let there: f64 = in_flight.clone().filter(|(held, _)| *held).map(|(_, number)| number).sum();
        let all: f64 = in_flight.map(|(_, number)| number).sum();
        let share = if all > 0.0 { there / all } else { 0.0 };
        let waits = share_is(
            "share of the operations in flight that are at members held to a rate",
            share,
            WAITED_FOR,
        );
        if share < WAITED_FOR {
            let why = format!(
                "only {number} of the busy members are held to a rate, and the others have as much to do: {told}"
            );
            return Err(Absent::because(why).with([waits]));
        }
        figures.push(waits);
        let percent = share * 100.0;
        (
            share,
            format!(
                "; so it is for {number} of {members} members, where {percent:.0}% of the operations in flight wait"
            ),
        )
    };
    let sure = if least >= REACHED { Sure::Certain } else { Sure::Possible };
    let sentence = format!("the load's control group is held to a rate: {told}{rest}");
    Ok(Verdict::new(VerdictKind::RateLimit, sure, explains, sentence, figures).known(Basis::Declared))
}
