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

use super::*;
use crate::facts::calls;
use crate::facts::latency::FLOOR_SHARE;
use crate::facts::rungs::{HELPS, MoreInFlight, NO_GAIN, Rungs};
use crate::facts::shared::parallel;
use crate::facts::standing::BUSY;
use crate::{ArrayBelow, MemberShare};
use ebbtide_model::units::format_latency;

/// Rate with twice as many in flight over that with as many from which on they helped beyond doubt: half of what they promise.
pub const GAIN: f64 = 1.50;
/// Requests that one operation has at a device that is always busy, from which on it is several of them.
const SEVERAL: f64 = 1.5;

checks! {
    ALONE: at_least("what one operation alone takes, of the members' mean latency", FLOOR_SHARE, Share, "then none waits for another");
    OF_MISSES: at_least("or: what a miss of the volume's cache takes alone, of the 99th percentile of latency, or the other way round", FLOOR_SHARE, Share, "the slowest operations did not wait");
    IDLE: below("or: operations in flight for each member that works", 0.75, Operations, "members are idle for want of work");
    GAINS: at_least("or: rate with twice as many in flight over that with as many", HELPS, Times, "less nobody would look for; from 1.25 it is surer");
    HOLDS: at_least("and where short runs were made, what they gained at least", NO_GAIN, Times, "otherwise the verdict is withdrawn");
}

/// A ground for it: how sure it is, how much it explains, and what says so.
type Ground = (Sure, f64, String, Option<Evidence>);

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    if !case.keeps_in_flight() {
        let why = "operations come at times of their own: the workload keeps no number of them in flight";
        return Err(Absent::because(why));
    }
    if !case.workload.direct {
        let why = "through the page cache the kernel decides what is in flight at the volumes";
        return Err(Absent::because(why));
    }
    let iops = case.metric(Metric::Iops).ok_or_else(|| Absent::unmeasured("no rate was measured"))?;
    let kept = case.kept();
    let workers = Workers::of(case);
    let ground = below_floor(case, facts)
        .or_else(|| idle_members(facts, &workers, kept))
        .or_else(|| one_at_a_time(facts, kept))
        .or_else(|| more_helped(case, facts));
    let (mut sure, explains, mut sentence, shown) = ground.ok_or_else(|| waiting(facts, &workers))?;
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
        // A mere sign needs the ladder to say so too.
        let unclear = sure == Sure::Possible && matches!(more, MoreInFlight::Unclear(..));
        if unclear || matches!(more, MoreInFlight::Flat(..)) {
            let why =
                "a short probe at the end of the session withdrew it: more in flight hardly raised the rate";
            let what =
                format!("rate with {in_flight} in flight instead of {kept:.0}, over that with as many");
            return Err(Absent::because(why).seen(what, gain, Unit::Times, NO_GAIN));
        }
        let what = format!("operations per second with {in_flight} in flight, in a short probe");
        figures.push(evidence(what, step.ops.rate, Unit::OpsPerSecond, Some(rungs.reference())));
        if rungs.deeper.iter().any(|step| step.ops.rate / rungs.reference() >= rungs.needed(step, GAIN)) {
            sure = Sure::Certain;
            if !sentence.contains(&format!("with {in_flight} in flight")) {
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
    Ok(Verdict::new(VerdictKind::Concurrency, sure, explains, sentence, figures))
}

/// Why none of the grounds holds.
fn waiting(facts: &Facts<'_>, workers: &Workers) -> Absent {
    let why = if facts.limited_above() {
        Absent::yields(VerdictKind::InstanceLimit, "members idle while operations wait for the link")
    } else {
        Absent::because("operations wait for something else, and the members have enough of them")
    };
    let alone = facts.latency.map(|(latency, floor)| ALONE.missed(floor / latency));
    why.with(alone.into_iter().chain(workers.each().map(|each| IDLE.missed(each))))
}

/// Those that work: of a single member that is an array of the host, the array's devices.
struct Workers {
    working: usize,
    /// Operations in flight at all of them.
    in_flight: Option<f64>,
    /// Whether they are worked at once, each by an operation of its own.
    at_once: bool,
}

impl Workers {
    fn of(case: &Case<'_>) -> Workers {
        let array = case.result.below.first().filter(|_| case.result.members.len() == 1);
        let each: Vec<(f64, Option<f64>)> = match array {
            Some(ArrayBelow { devices, .. }) => devices.iter().map(|d| (d.iops, d.in_flight)).collect(),
            None => case.result.members.iter().map(|m| (m.iops, m.in_flight)).collect(),
        };
        let known = each.iter().filter_map(|(_, in_flight)| *in_flight);
        Workers {
            working: each.iter().filter(|(iops, _)| *iops > 0.0).count(),
            in_flight: known.reduce(|sum, more| sum + more),
            at_once: match array.map(|array| array.join) {
                Some(join) => join.is_parallel() && !(case.workload.writes() && join.is_redundant()),
                None => parallel(&case.design.layout),
            },
        }
    }

    /// Operations in flight for each, where there are several.
    fn each(&self) -> Option<f64> {
        self.in_flight.filter(|_| self.working > 1).map(|all| all / self.working as f64)
    }
}

/// So many operations in flight, with a verb that is `one` or `many`.
fn in_flight(kept: f64, one: &str, many: &str) -> String {
    match kept == 1.0 {
        true => format!("1 operation in flight {one}"),
        false => format!("{kept:.0} operations in flight {many}"),
    }
}

/// The beginning of a sentence that says that so many are too few.
fn too_few(case: &Case<'_>) -> String {
    format!("{} not fill {}", in_flight(case.kept(), "does", "do"), case.measured())
}

/// The 99th percentile of latency and what an operation takes that misses the far-end cache of the slowest working member, the longer one first; nothing
/// where one has no such cache, or an arm.
fn of_misses(case: &Case<'_>) -> Option<(f64, f64)> {
    let miss = |member: &MemberShare| {
        let shape = case.shape(&member.name)?;
        let has_cache = shape.character.cache.is_some() && shape.character.seek.is_none();
        let latency = if case.workload.reads() { &shape.read_latency } else { &shape.write_latency };
        has_cache.then(|| latency.mean())
    };
    let each = case.working().map(miss).collect::<Option<Vec<f64>>>()?;
    let (miss, longest) = (each.into_iter().reduce(f64::max)?, case.metric(Metric::LatP99)?);
    Some((longest.max(miss), longest.min(miss)))
}

/// Operations take hardly longer than one alone.
fn below_floor(case: &Case<'_>, facts: &Facts<'_>) -> Option<Ground> {
    let known = facts.latency.or_else(|| of_misses(case));
    let (latency, floor) = known.filter(|(latency, floor)| ALONE.holds(floor / latency))?;
    let (who, what) = match facts.latency {
        Some(_) => ("each takes", "mean latency of the members, against what one operation alone takes"),
        None => {
            ("the slowest take", "99th percentile of latency against a miss of the cache, the longer first")
        }
    };
    let sentence = format!(
        "{}: {who} {} where one alone takes {}, so none waits; a larger iodepth or more jobs raise the rate",
        too_few(case),
        format_latency(latency),
        format_latency(floor)
    );
    let figure = evidence(what, latency, Unit::Nanoseconds, Some(floor));
    Some((Sure::Certain, floor / latency, sentence, Some(figure)))
}

/// Members that are worked at once have nothing to do: not where they wait for a slow one among them, for the link or for a
/// thread, or are one disk, nor where operations are elsewhere (a cache, a processor).
fn idle_members(facts: &Facts<'_>, workers: &Workers, kept: f64) -> Option<Ground> {
    let each = workers.each().filter(|each| IDLE.holds(*each))?;
    let elsewhere =
        facts.shared.is_some() || facts.limited_above() || facts.asserted(VerdictKind::Member).is_some();
    if !workers.at_once || elsewhere || workers.in_flight? < FLOOR_SHARE * kept {
        return None;
    }
    let sentence = format!(
        "{} members idle: {each:.2} per member on average; a larger iodepth or more jobs would use all {}",
        in_flight(kept, "leaves", "leave"),
        workers.working
    );
    let figure = evidence("operations in flight per working member", each, Unit::Operations, Some(1.0));
    Some((Sure::Possible, 1.0 - each, sentence, Some(figure)))
}

/// With one in flight nothing can wait for anything, where it is not known what one alone takes; one that is cut into many keeps a disk as full as many do.
fn one_at_a_time(facts: &Facts<'_>, kept: f64) -> Option<Ground> {
    let is_cut = facts.devices.is_some_and(|at| at.least_busy >= BUSY && at.share >= SEVERAL);
    let sentence =
        "one operation at a time: each waits for the one before it, and the volume never has more to do";
    (kept == 1.0 && facts.latency.is_none() && !is_cut)
        .then(|| (Sure::Possible, 0.5, sentence.to_owned(), None))
}

/// More in flight had more of them done in the same time, whatever they wait for.
fn more_helped(case: &Case<'_>, facts: &Facts<'_>) -> Option<Ground> {
    let rungs = facts.rungs.as_ref()?;
    let Some(MoreInFlight::Helped(step, gain)) = rungs.more(HELPS) else { return None };
    // A disk that others keep busy is full whatever the load keeps in flight.
    let few = match facts.asserted(VerdictKind::Background) {
        Some(_) => {
            format!("{} only a share of disks that others use too", in_flight(case.kept(), "gets", "get"))
        }
        None => too_few(case),
    };
    let (depth, more) = (step.rung.in_flight, (gain - 1.0) * 100.0);
    let sentence = format!("{few}: with {depth} in flight the rate is {more:.0}% higher");
    Some((Sure::Likely, hidden_by_more(rungs)?, sentence, None))
}

/// The part of an operation's time that more in flight hide, by what the most productive of the short runs had, where one helped.
fn hidden_by_more(rungs: &Rungs<'_>) -> Option<f64> {
    let Some(MoreInFlight::Helped(..)) = rungs.more(HELPS) else { return None };
    let most = rungs.deeper.iter().map(|step| step.ops.rate / rungs.as_many()).reduce(f64::max)?;
    Some(1.0 - 1.0 / most.max(1.0))
}
