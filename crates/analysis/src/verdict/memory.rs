//! `memory`: the load waits for memory to be freed, not for the disk.
//!
//! Derivation. I/O through the page cache needs a page for whatever it moves. Where the control group is at its limit, or the
//! host has no pages left, the thread that needs one frees others first, waits until somebody has, or for pages that were given up
//! too early to come back; the kernel counts the time in which a task does that (PSI). "Some" is the time with at least one
//! such task: of one operation in flight alone it is the share of that operation's time. "Full" is the time in which none of the
//! others ran meanwhile, though they may have waited for the disk: of several in flight it takes most of the time, and operations
//! that are not at the devices. Only the load's own control group is asked: on the whole host it may be anybody. Writes that wait for
//! dirty pages to be written back wait for the disk, which is busy then.

use super::*;
use crate::facts::case::part;
use crate::facts::standing;
use crate::facts::standing::{AT_DEVICES, BUSY};
use ebbtide_model::samples::GroupMemory;
use ebbtide_model::units::{Bytes, format_iops};

checks! {
    // As much as of stolen time.
    ONE: at_least("one in flight: share of the time that the load's group waited for memory (PSI)", 0.10, Share, "latencies are visibly longer");
    MANY: at_least("several: share of the time in which it waited and nobody ran (PSI full)", 0.50, Share, "the others may have been at the disk");
}
// As much as of stolen time.

/// Median over the trials of what `of` makes of the control group.
fn group(case: &Case<'_>, of: impl Fn(&TrialSamples, &GroupMemory) -> Option<f64>) -> Option<f64> {
    case.median(|trial| of(trial, trial.observed.as_ref()?.memory?.group.as_ref()?))
}

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    if case.workload.direct {
        return Err(Absent::because("direct I/O needs no pages of the page cache"));
    }
    let some = group(case, |trial, group| Some(part(trial, group.pressure_some?)));
    let some = some.ok_or_else(|| {
        Absent::unmeasured("nobody counted for how long the load's own control group waited for memory")
    })?;
    let full = group(case, |trial, group| Some(part(trial, group.pressure_full?))).unwrap_or(some);
    let alone = case.workload.program.is_none() && case.in_flight() <= 1;
    let (check, seen) = if alone { (ONE, some) } else { (MANY, full) };
    let mut figures = vec![check.require(seen, "the load hardly waited for memory")?];
    let elsewhere = elsewhere(case, facts)?;
    // Another process of the group may be the one that waits: then what the load did otherwise must leave room for it.
    let others = group(case, |_, group| group.others.map(f64::from)).unwrap_or(f64::INFINITY) > 0.0;
    let room = elsewhere.map_or(0.0, |elsewhere| 1.0 - elsewhere);
    if others && !check.holds(room) {
        let why = "another process in the load's control group may be what waited for memory";
        let what = "share of the time in which an operation was neither at the devices nor in user code";
        return Err(Absent::because(why).seen(what, room, Unit::Share, check.edge));
    }
    // Others use the devices too: where the group is the load alone, its own counter is the better one.
    let waits = if others { seen.min(room) } else { seen };
    figures.extend(standing::waits(case));
    let limit = group(case, |_, group| group.limit.map(|limit| limit.0 as f64));
    let met = group(case, |trial, group| Some(group.met? as f64 / trial.elapsed.as_secs_f64()));
    figures
        .extend(limit.map(|limit| evidence("memory limit of the control group", limit, Unit::Bytes, None)));
    figures.extend(met.map(|met| evidence("times that a limit was met", met, Unit::PerSecond, None)));
    let who = match others {
        true => "a task of the load's control group, in which other processes are too,",
        false => "the load",
    };
    let (at_limit, change) = match limit.zip(met.filter(|met| *met >= 1.0)) {
        None => (String::new(), "more memory"),
        Some((limit, met)) => {
            let (limit, met) = (Bytes(limit as u64), format_iops(met));
            (format!(" (the group's limit of {limit} was met {met} times a second)"), "a higher limit")
        }
    };
    let sentence = format!(
        "{who} spends {:.0}% of the time waiting for free memory, not for the disk{at_limit}: {change}, a smaller working set or \
             direct I/O would help",
        seen * 100.0
    );
    // What a thread waits for a processor meanwhile is not memory's.
    let explains = waits * (1.0 - facts.waited.unwrap_or(0.0));
    let sure = if alone && !others { Sure::Certain } else { Sure::Possible };
    Ok(Verdict::new(VerdictKind::Memory, sure, explains, sentence, figures))
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
