//! `concurrency`: too few operations in flight.
//!
//! Derivation (Little's law): in a closed loop of `N` operations in flight, the rate is `N / latency`. While
//! latency is no more than the members need for one operation alone (their floor), no operation waits for
//! another, and twice the `N` gives twice the rate. When latency is well above the floor, operations already
//! wait, and more of them would wait longer. Behind a far-end cache the floor depends on what it holds; but when the
//! slowest operations take what one that misses it takes alone, none of them waited. Where nothing is known of the
//! floor there are two weaker grounds: members of a parallel layout that are idle because there are fewer operations
//! than members, and `N = 1`, at which nothing can wait for anything.
//!
//! After the last trial the same runs for a moment with twice and four times the operations in flight (the ladder): that
//! settles whether more of them help, and shows it where nothing else does.

use crate::ArrayBelow;
use crate::evidence::{Check, Evidence, Unit, evidence};
use crate::facts::case::Case;
use crate::facts::latency::FLOOR_SHARE;
use crate::facts::rungs::{HELPS, MORE, MoreInFlight, NO_GAIN, Rungs, Step};
use crate::facts::shared::parallel;
use crate::facts::standing::BUSY;
use crate::facts::{Facts, calls};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::Join;
use ebbtide_model::units::format_latency;

/// Operations in flight per member below which members are idle for want of work.
pub const IDLE_MEMBERS: f64 = 0.75;

/// Rate with twice as many in flight over that with as many from which on they helped beyond doubt: half of what they promise.
pub const GAIN: f64 = 1.50;

/// Requests that one operation has at a device that is always busy, from which on it is several of them.
const SEVERAL: f64 = 1.5;

/// Confidence of grounds that hold against a ladder that says nothing.
const SURE: f64 = 0.8;

/// What an operation takes that misses the far-end cache, in nanoseconds, of the slowest working member; `None` where one of
/// them has no such cache, or an arm.
fn miss(case: &Case<'_>) -> Option<f64> {
    let mut slowest = 0.0_f64;
    for member in case.working() {
        let shape = case.shape(&member.name)?;
        if shape.character.cache.is_none() || shape.character.seek.is_some() {
            return None;
        }
        if case.workload.reads() {
            slowest = slowest.max(shape.read_latency.mean());
        }
        if case.workload.writes() {
            slowest = slowest.max(shape.write_latency.mean());
        }
    }
    (slowest > 0.0).then_some(slowest)
}

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("what one operation alone takes, of the members' mean latency", FLOOR_SHARE, Unit::Share, "then none waits for another"),
    Check::at_least("or: what a miss of the volume's cache takes alone, of the 99th percentile of latency, or the other way round", FLOOR_SHARE, Unit::Share, "the slowest operations did not wait"),
    Check::below("or: operations in flight for each member that works", IDLE_MEMBERS, Unit::Operations, "members are idle for want of work"),
    Check::at_least("or: rate with twice as many in flight over that with as many", HELPS, Unit::Times, "less nobody would look for; from 1.25 it is surer"),
    Check::at_least("and where short runs were made, what they gained at least", NO_GAIN, Unit::Times, "otherwise the verdict is withdrawn"),
];

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    if !case.keeps_in_flight() {
        let why = "operations come at times of their own: the workload keeps no number of them in flight";
        return Err(Absent::because(why));
    }
    facts.yield_to_limits("more operations in flight would only wait longer")?;
    facts.yield_to(VerdictKind::SyncWrites, "it says what the one at a time consists of")?;
    facts.yield_to_a_busy_thread()?;
    if !case.workload.direct {
        let why = "through the page cache the kernel decides what is in flight at the volumes";
        return Err(Absent::because(why));
    }
    facts.yield_to(VerdictKind::RemoteQueue, "more in flight would wait at the client")?;
    let iops = case.metric(Metric::Iops).ok_or_else(|| Absent::because("no rate was measured"))?;
    let kept = case.kept();
    // A small write is at two members or more at each moment, unless it waits for its stripe.
    if workers(case).1.is_some_and(|at_members| at_members < kept) {
        facts.yield_to(VerdictKind::PartialStripe, "writes wait in the array for what is read for parity")?;
    }
    let base = facts.rungs.as_ref().map_or(iops, Rungs::reference);
    let mut by_ladder = false;
    let ground = below_floor(case, facts.latency)
        .or_else(|| far_misses(case))
        .or_else(|| idle_members(case, facts, kept))
        // Where the floor is known, something makes this one operation wait that is not another.
        .or_else(|| facts.latency.is_none().then(|| one_at_a_time(case, facts, kept)).flatten())
        .or_else(|| {
            by_ladder = true;
            more_helped(case, facts, kept)
        });
    let Verdict { explains, mut confidence, mut sentence, evidence: shown, .. } =
        ground.ok_or_else(|| waiting(case, facts))?;
    let mut figures = vec![
        evidence("operations in flight", kept, Unit::Operations, None),
        evidence("operations per second", iops, Unit::OpsPerSecond, None),
    ];
    figures.extend(shown);
    if let Some(rungs) = &facts.rungs
        && let Some(more) = rungs.more(NO_GAIN)
    {
        let (step, gain) = more.seen();
        let in_flight = step.rung.in_flight;
        // What is known of one operation alone holds unless the ladder says otherwise; the other grounds need it.
        let sure = confidence >= SURE;
        if matches!(more, MoreInFlight::Flat(..)) || (!sure && matches!(more, MoreInFlight::Unclear(..))) {
            let why =
                "a short probe at the end of the session withdrew it: more in flight hardly raised the rate";
            let what =
                format!("rate with {in_flight} in flight instead of {kept:.0}, over that with as many");
            return Err(Absent::because(why).seen(what, gain, Unit::Times, NO_GAIN));
        }
        let what = format!("operations per second with {in_flight} in flight, in a short probe");
        figures.push(evidence(what, step.ops.rate, Unit::OpsPerSecond, Some(base)));
        if matches!(more, MoreInFlight::Helped(..)) && beyond_doubt(rungs) {
            confidence = f64::max(confidence, 0.95);
            if !by_ladder {
                sentence.push_str(&format!(
                    "; a short probe with {in_flight} in flight had {gain:.1} times the rate"
                ));
            }
        }
    }
    if let Some((clause, calls)) = calls::round_trips(case, kept) {
        sentence.push_str(&clause);
        figures.extend(calls);
    }
    // What an operation waits for a processor, or behind those of others, is none of what the array takes for it; what more in
    // flight gain was seen beside the others, and is theirs where they lose it.
    let seen = facts.rungs.as_ref().filter(|_| facts.gained.is_none()).and_then(hidden_by_more);
    let left = (1.0 - facts.behind_others()) * explains;
    let explains = left.max(seen.unwrap_or(0.0)) * (1.0 - facts.waited.unwrap_or(0.0));
    Ok(Verdict::new(VerdictKind::Concurrency, confidence, explains, sentence, figures))
}

/// Why none of the grounds holds.
fn waiting(case: &Case<'_>, facts: &Facts<'_>) -> Absent {
    let per_member = per_working_member(case);
    let idle = per_member.is_some_and(|each| each < IDLE_MEMBERS) && works_at_once(case);
    let why = if !idle {
        Absent::because(if case.in_flight() == 1 {
            "one operation at a time takes longer than it has to: something else makes it wait"
        } else {
            "operations wait, and the members have enough of them"
        })
    } else if facts.shared.is_some() {
        Absent::yields(VerdictKind::SharedDevice, "more operations in flight would not keep more disks busy")
    } else if facts.limited_above() {
        Absent::yields(VerdictKind::InstanceLimit, "members idle while operations wait for the link")
    } else {
        Absent::yields(VerdictKind::Member, "members idle while operations wait for a slow one")
    };
    let alone = facts.latency.map(|(latency, floor)| floor / latency);
    let alone_is = "what one operation alone takes, of the members' mean latency";
    why.seen_where_known(alone_is, alone, Unit::Share, FLOOR_SHARE).seen_where_known(
        "operations in flight per working member, which would have to be below",
        per_member,
        Unit::Operations,
        IDLE_MEMBERS,
    )
}

/// Those that work: how many, and the operations in flight at all of them. Of a single member that is an array of the host,
/// the array's devices.
fn workers(case: &Case<'_>) -> (usize, Option<f64>) {
    let all = |each: &[(f64, Option<f64>)]| {
        let known: Vec<f64> = each.iter().filter_map(|(_, in_flight)| *in_flight).collect();
        let working = each.iter().filter(|(iops, _)| *iops > 0.0).count();
        (working, (!known.is_empty()).then(|| known.iter().sum::<f64>()))
    };
    match array_alone(case) {
        Some(array) => all(&array.devices.iter().map(|d| (d.iops, d.in_flight)).collect::<Vec<_>>()),
        None => all(&case.result.members.iter().map(|m| (m.iops, m.in_flight)).collect::<Vec<_>>()),
    }
}

/// The array that is the design's one member.
fn array_alone<'a>(case: &Case<'a>) -> Option<&'a ArrayBelow> {
    case.result.below.first().filter(|_| case.result.members.len() == 1)
}

/// Whether the layout, or that of the array that is its one member, works its members at once.
fn works_at_once(case: &Case<'_>) -> bool {
    array_alone(case).map_or_else(|| parallel(&case.design.layout), |array| array.join.is_parallel())
}

/// Operations in flight per member that works, where there are several.
fn per_working_member(case: &Case<'_>) -> Option<f64> {
    let (working, in_flight) = workers(case);
    in_flight.filter(|_| working > 1).map(|all| all / working as f64)
}

fn operations(number: f64) -> String {
    format!("{number:.0} operation{}", if number == 1.0 { "" } else { "s" })
}

/// The beginning of a sentence that says that so many are too few.
fn too_few(case: &Case<'_>) -> String {
    let kept = case.kept();
    let es = if kept == 1.0 { "es" } else { "" };
    format!("{} in flight do{es} not fill {}", operations(kept), case.measured())
}

/// A ground for it, with all that it says.
fn ground(confidence: f64, explains: f64, sentence: String, figures: Vec<Evidence>) -> Option<Verdict> {
    Some(Verdict::new(VerdictKind::Concurrency, confidence, explains, sentence, figures))
}

/// Operations take hardly longer than one alone.
fn below_floor(case: &Case<'_>, latency: Option<(f64, f64)>) -> Option<Verdict> {
    let (latency, floor) = latency.filter(|(latency, floor)| *floor >= FLOOR_SHARE * latency)?;
    let what = "mean latency of the members, against what one operation alone takes";
    let sentence = format!(
        "{}: each takes {} where one alone takes {}, so none waits; a larger iodepth or more jobs raise the rate",
        too_few(case),
        format_latency(latency),
        format_latency(floor)
    );
    let figures = vec![evidence(what, latency, Unit::Nanoseconds, Some(floor))];
    ground(0.9, floor / latency, sentence, figures)
}

/// The slowest operations take what a miss of the far-end cache takes alone.
fn far_misses(case: &Case<'_>) -> Option<Verdict> {
    let (longest, miss) = case
        .metric(Metric::LatP99)
        .zip(miss(case))
        .filter(|(longest, miss)| longest.min(*miss) >= FLOOR_SHARE * longest.max(*miss))?;
    let what = "99th percentile of latency, against a miss";
    let sentence = format!(
        "{}: 99% take at most {} and one alone that misses the volume's cache {}, so none waits; a larger iodepth or more jobs \
         raise the rate",
        too_few(case),
        format_latency(longest),
        format_latency(miss)
    );
    let figures = vec![evidence(what, longest, Unit::Nanoseconds, Some(miss))];
    ground(0.8, miss / longest, sentence, figures)
}

/// Members of a parallel layout have nothing to do: not where they wait for a slow one among them, for the link or for a
/// thread, or are one disk.
fn idle_members(case: &Case<'_>, facts: &Facts<'_>, kept: f64) -> Option<Verdict> {
    let (working, _) = workers(case);
    let per_member = per_working_member(case).filter(|each| *each < IDLE_MEMBERS)?;
    let elsewhere =
        facts.shared.is_some() || facts.limited_above() || facts.asserted(VerdictKind::Member).is_some();
    if !works_at_once(case) || elsewhere {
        return None;
    }
    // What the kernel counted at an array's devices is not all: operations that are elsewhere (a cache, a processor) are no
    // want of operations, and one that is written to copies or parity is several.
    if let Some(array) = array_alone(case) {
        let several = case.workload.writes() && !matches!(array.join, Join::Stripe { .. });
        if several || per_member * (working as f64) < FLOOR_SHARE * kept {
            return None;
        }
    }
    let what = "operations in flight per working member";
    let sentence = format!(
        "{} in flight leave{} members idle: {per_member:.2} per member on average; a larger \
         iodepth or more jobs would use all {working}",
        operations(kept),
        if kept == 1.0 { "s" } else { "" },
    );
    let figures = vec![evidence(what, per_member, Unit::Operations, Some(1.0))];
    ground(0.7, 1.0 - per_member, sentence, figures)
}

/// More in flight had more of them done in the same time, whatever they wait for.
fn more_helped(case: &Case<'_>, facts: &Facts<'_>, kept: f64) -> Option<Verdict> {
    let rungs = facts.rungs.as_ref()?;
    let (more, confidence) = match rungs.more(MORE)? {
        more @ MoreInFlight::Helped(..) => (more, 0.8),
        _ => (rungs.more(HELPS)?, 0.6),
    };
    let MoreInFlight::Helped(step, gain) = more else { return None };
    // A disk that others keep busy is full whatever the load keeps in flight.
    let few = match facts.asserted(VerdictKind::Background) {
        Some(_) => {
            let get = if kept == 1.0 { "gets" } else { "get" };
            format!("{} in flight {get} only a share of disks that others use too", operations(kept))
        }
        None => too_few(case),
    };
    let sentence = format!(
        "{few}: with {} in flight the rate is {:.0}% higher",
        step.rung.in_flight,
        (gain - 1.0) * 100.0
    );
    ground(confidence, hidden_by_more(rungs)?, sentence, Vec::new())
}

/// The part of an operation's time that more in flight hide, by what the most productive of the short runs had, where one helped.
fn hidden_by_more(rungs: &Rungs<'_>) -> Option<f64> {
    let Some(MoreInFlight::Helped(..)) = rungs.more(HELPS) else { return None };
    let most = rungs.deeper.iter().map(|step| step.ops.rate / rungs.as_many()).reduce(f64::max)?;
    Some(1.0 - 1.0 / most.max(1.0))
}

/// Whether more in flight had so much more done that it cannot be chance.
fn beyond_doubt(rungs: &Rungs<'_>) -> bool {
    let gained = |step: &Step<'_>| step.ops.rate / rungs.reference() >= rungs.needed(step, GAIN);
    rungs.deeper.iter().any(gained)
}

/// With one in flight nothing can wait for anything, but for the arm of a disk that spins.
fn one_at_a_time(case: &Case<'_>, facts: &Facts<'_>, kept: f64) -> Option<Verdict> {
    // One that is cut into many keeps a disk as full as many do; what others have there does not count.
    if facts.devices.is_some_and(|at| at.least_busy >= BUSY && at.share >= SEVERAL) {
        return None;
    }
    let mut observed = case.trials.iter().filter_map(|t| t.observed.as_ref());
    let spins = observed.any(|o| o.devices.iter().any(|device| device.rotational == Some(true)));
    let sentence =
        "one operation at a time: each waits for the one before it, and the volume never has more to do";
    if kept == 1.0 && !spins { ground(0.6, 0.5, sentence.to_owned(), Vec::new()) } else { None }
}
