//! `rate-limit`: somebody set a rate, and it is reached.
//!
//! Derivation. What holds operations to a rate (a cloud volume of which nobody said the type, a cgroup, a hypervisor, a SAN's
//! quality of service) lets so many operations pass in a second, or so many bytes, and nothing else changes that: the rate is the
//! same however many wait, and it is even over time. Operations of twice the size are then as many (operations are
//! counted), or half as many (bytes are). A device that serves as fast as it can is neither: its rate varies by some percent from
//! second to second, and larger operations take longer and move more. Where the operations wait says more: in a cgroup's
//! queue they have not reached the device yet, which looks idle; behind the device they fill its queue.

use super::*;
use crate::ArrayBelow;
use crate::facts::group::FullestLimit;
use crate::facts::round_rates::{round, shown};
use crate::facts::served::SERVED_AT_ONCE;
use crate::facts::set_rate;
use crate::facts::usage::{Counted, NEAR, REACHED};

checks! {
    OF_GROUP: at_least("use of a limit of the load's control group", NEAR, Share, "operations come in lots, the last of which may be missing");
    // The others then have less than half of what those have.
    WAITED_FOR: at_least("and share of the operations in flight that are at members held to it, where only some are", 0.70, Share, "the array waits for them");
    IS_EVEN: below("inferred: distance of what was done by some time from an even rate, above the device", set_rate::EVEN, Share, "nothing but a limit makes it even");
    IS_EVEN_THERE: below("the same at the device", set_rate::EVEN_AT_DEVICES, Share, "a device's own pace varies by 1%");
    NO_HIGHER: below("and how much higher the rate of a short run is than that of the trials", set_rate::SAME, Share, "the rate is the same whatever the depth");
}

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
    let sentence = format!(
        "looks like a rate that somebody set{or_its_own}: {}{whose}, whatever the depth{size}; {place}",
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
    let (mut explains, mut rest) = (least, String::new());
    if number < members {
        facts.yield_to(VerdictKind::Member, &format!("one member is held to a rate alone: {told}"))?;
        let is_held = |name: &str| held.iter().any(|held| held.member == name);
        let in_flight = |all: bool| -> f64 {
            let counted = case.result.members.iter().filter(|member| all || is_held(&member.name));
            counted.filter_map(|member| member.in_flight).sum()
        };
        explains = in_flight(false) / in_flight(true).max(f64::MIN_POSITIVE);
        let why = format!(
            "only {number} of the busy members are held to a rate, and the others have as much to do: {told}"
        );
        figures.push(WAITED_FOR.require(explains, &why)?);
        let percent = explains * 100.0;
        rest = format!(
            "; so it is for {number} of {members} members, where {percent:.0}% of the operations in flight wait"
        );
    } else if number > 1 {
        rest = format!("; so it is for each of {number} members");
    }
    let sure = if least >= REACHED { Sure::Certain } else { Sure::Possible };
    let sentence = format!("the load's control group is held to a rate: {told}{rest}");
    Ok(Verdict::new(VerdictKind::RateLimit, sure, explains, sentence, figures).known(Basis::Declared))
}
