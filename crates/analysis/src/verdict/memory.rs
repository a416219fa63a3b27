//! `memory`: the load waits for memory to be freed, not for the disk.
//!
//! Derivation. I/O through the page cache needs a page for whatever it moves. Where the control group is at its limit, or the
//! host has no pages left, the thread that needs one frees others first, waits until somebody has, or for pages that were given up
//! too early to come back; the kernel counts the time in which a task does that (PSI). "Some" is the time with at least one
//! such task: of one operation in flight alone it is the share of that operation's time. "Full" is the time in which none of the
//! others ran meanwhile, though they may have waited for the disk: of several in flight it takes most of the time, and operations
//! that are not at the devices. Only the load's own control group is asked: on the whole host it may be anybody. Writes that wait for
//! dirty pages to be written back wait for the disk, which is busy then.

use crate::evidence::{Check, Unit, evidence};
use crate::facts::case::{Case, part};
use crate::facts::standing::{AT_DEVICES, BUSY};
use crate::facts::{Facts, standing};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use ebbtide_model::samples::{GroupMemory, MemoryUse, TrialSamples};
use ebbtide_model::units::{Bytes, Nanos, format_iops};

/// Share of the time that the one operation in flight must have waited for memory: as much as of stolen time, from which on
/// latencies are visibly longer.
pub const ALONE: f64 = 0.10;
/// Share of the time in which somebody waited for memory and nobody ran, with several in flight: most of it, since the others
/// may have been at the disk.
pub const SEVERAL: f64 = 0.50;

/// Median over the trials of a share of their time.
fn share(case: &Case<'_>, of: impl Fn(&MemoryUse) -> Option<Nanos>) -> Option<f64> {
    case.median(|trial| Some(part(trial, of(trial.observed.as_ref()?.memory.as_ref()?)?)))
}

/// Median over the trials of what `of` makes of the control group.
fn group(case: &Case<'_>, of: impl Fn(&TrialSamples, &GroupMemory) -> Option<f64>) -> Option<f64> {
    case.median(|trial| of(trial, trial.observed.as_ref()?.memory?.group.as_ref()?))
}

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[ONE, MANY];
#[rustfmt::skip]
const ONE: Check = Check::at_least("one in flight: share of the time that the load's group waited for memory (PSI)", ALONE, Unit::Share, "latencies are visibly longer");
#[rustfmt::skip]
const MANY: Check = Check::at_least("several: share of the time in which it waited and nobody ran (PSI full)", SEVERAL, Unit::Share, "the others may have been at the disk");

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    facts.yield_to_limits("the members are at their limits, whatever waits for memory")?;
    facts.yield_to_set_rate("waits for memory do not make a rate even")?;
    if case.workload.direct {
        return Err(Absent::because("direct I/O needs no pages of the page cache"));
    }
    let host = share(case, |memory| memory.pressure_some);
    let some = share(case, |memory| memory.group?.pressure_some);
    let full = share(case, |memory| memory.group?.pressure_full);
    let Some((some, full)) = some.map(|some| (some, full.unwrap_or(some))) else {
        let why = match host {
            Some(_) => {
                "the load has no control group of its own, so the waits for memory may be another process's"
            }
            None => "nobody counted for how long tasks waited for memory",
        };
        let what = "share of the time that somebody of the host waited for memory (PSI)";
        return Err(Absent::because(why).seen_where_known(what, host, Unit::Share, ALONE));
    };
    let alone = case.in_flight() <= 1;
    let (check, seen) = if alone { (ONE, some) } else { (MANY, full) };
    let needed = check.edge;
    let waited = check.require(seen, "the load hardly waited for memory")?;
    let elsewhere = elsewhere(case, facts)?;
    let others = group(case, |_, group| group.others.map(f64::from)).unwrap_or(f64::INFINITY);
    // Another process of the group may be the one that waits: then what the load did otherwise must leave room for it.
    let room = elsewhere.map(|elsewhere| (1.0 - elsewhere).max(0.0));
    if others > 0.0 && room.is_none_or(|room| room < needed) {
        let why = "another process in the load's control group may be what waited for memory";
        let what = "share of the time in which an operation was neither at the devices nor in user code";
        return Err(Absent::because(why).seen_where_known(what, room, Unit::Share, needed));
    }
    // Others use the devices too: where the group is the load alone, its own counter is the better one.
    let waits = if others > 0.0 { seen.min(room.unwrap_or(1.0)) } else { seen };
    let mut figures = vec![waited];
    figures.extend(standing::waits(case));
    let limit = group(case, |_, group| group.limit.map(|limit| limit.0 as f64));
    let met = group(case, |trial, group| Some(group.met? as f64 / trial.elapsed.as_secs_f64()));
    let came_back = case.median(|trial| {
        Some(trial.observed.as_ref()?.memory?.refaulted?.0 as f64 / trial.elapsed.as_secs_f64())
    });
    figures
        .extend(limit.map(|limit| evidence("memory limit of the control group", limit, Unit::Bytes, None)));
    figures.extend(met.map(|met| evidence("times that a limit was met", met, Unit::PerSecond, None)));
    figures.extend(came_back.map(|rate| {
        let what = "pages of files that came back after they were given up, of all of the host";
        evidence(what, rate, Unit::BytesPerSecond, None)
    }));
    for (who, cores) in facts.users.iter().filter(|(who, _)| who.starts_with("kswapd")) {
        figures.push(evidence(format!("processor time of {who}, of one core"), *cores, Unit::Share, None));
    }
    let who = if others > 0.0 {
        "a task of the load's control group, in which other processes are too,"
    } else {
        "the load"
    };
    let at_limit = limit.zip(met.filter(|met| *met >= 1.0)).map_or_else(String::new, |(limit, met)| {
        let (limit, met) = (Bytes(limit as u64), format_iops(met));
        format!(" (the group's limit of {limit} was met {met} times a second)")
    });
    let change = if at_limit.is_empty() { "more memory" } else { "a higher limit" };
    let sentence = format!(
        "{who} spends {:.0}% of the time waiting for free memory, not for the disk{at_limit}: {change}, a smaller working set or \
             direct I/O would help",
        seen * 100.0
    );
    // What a thread waits for a processor meanwhile is not memory's.
    let waited = facts.waited.unwrap_or(0.0);
    let confidence = if alone && others <= 0.0 { 0.9 } else { 0.7 };
    Ok(Verdict::new(VerdictKind::Memory, confidence, waits * (1.0 - waited), sentence, figures))
}

/// Share of an operation's time that is known to be something else than waiting for memory: at the devices, where it reads, or in
/// user code.
///
/// # Errors
/// When that is what the load waits for.
fn elsewhere(case: &Case<'_>, facts: &Facts<'_>) -> Result<Option<f64>, Absent> {
    let Some(devices) = facts.devices else { return Ok(None) };
    if case.workload.writes() && devices.least_busy >= BUSY {
        let why = "the disks are busy all the time: what waits for dirty pages to be freed waits for them";
        let what = "busy share of the least busy member's device, which would have to be below";
        return Err(Absent::because(why).seen(what, devices.least_busy, Unit::Share, BUSY));
    }
    // What is written back, and what readahead fetches, are no operations in flight: then the share says at least nothing wrong.
    let at_devices = facts.at_devices().filter(|_| !case.workload.writes()).unwrap_or(0.0).min(1.0);
    if case.in_flight() > 1 && at_devices >= AT_DEVICES {
        let why = "operations are at the members' devices, whatever else waited for memory";
        let what = "share of the operations in flight that are at the devices, which would have to be below";
        return Err(Absent::because(why).seen(what, at_devices, Unit::Share, AT_DEVICES));
    }
    let threads = f64::from(case.workload.numjobs.max(1));
    let user = case.median(|trial| Some(part(trial, trial.cpu.load_user) / threads)).unwrap_or(0.0);
    Ok(Some((at_devices + user).min(1.0)))
}
