//! `sync-writes`: one write at a time, each made durable before the next.
//!
//! Derivation. A job that waits until each write is on stable storage (O_SYNC, fsync or fdatasync after it, as a database's log
//! does) has one operation in flight, and its rate is one over what that takes, whatever the volume could do. What it takes is
//! the device's own time for the write, the time in which the device empties its cache (the kernel counts flushes apart since
//! 5.5; below arrays see `facts::durable`), and the rest: the file system, whose journal commits, and the way there and back. Several writes that are made durable
//! together share all but the first of these. Counters of the device are everybody's, so that the parts are at most what they
//! say.

use super::*;
use crate::evidence::percent;
use crate::facts::durable::{self, Parts};
use crate::facts::rungs::{MoreInFlight, NO_GAIN};
use crate::facts::standing;
use ebbtide_model::samples::{DeviceObservation, TrialSamples};
use ebbtide_model::units::{Nanos, format_latency};

/// What of the time of a write one at a time explains that nothing else makes wait.
const WHOLE: f64 = 0.9;
/// Writes that are made durable together in the estimate that is told.
const TOGETHER: f64 = 8.0;

/// Share of the time from which on a program's commits are what its members are busy with.
const IN_TURN: f64 = 0.6;
/// Requests at a device for each that is there alone.
const ALONE: f64 = 1.5;

checks! {
    ONE: below("operations in flight for each job, each made durable before the next", 2.0, Operations, "one waits for nothing of its own");
    FLUSHING: at_least("of a program: share of the time in which the slowest member flushed or wrote, one request at a time", IN_TURN, Share, "what commits waits for them, one after the other");
    HELPED: at_least("rate with twice as many at a time, where short runs were made", NO_GAIN, Times, "otherwise it is not each one's own time");
}

/// What the slowest member's device did in a trial for a program's durable writes.
struct InTurn {
    /// Share of the time in which it flushed, or worked on writes of which no two were there at a time.
    share: f64,
    /// The same of flushes alone.
    flushing: f64,
    /// Flushes a second.
    flushes: f64,
    /// A flush, in nanoseconds; nothing where there were none.
    flush: Option<f64>,
    /// A write, in nanoseconds.
    write: f64,
}

/// Of the member that did most of it; nothing where the devices were not observed, or only read.
fn in_turn(trial: &TrialSamples) -> Option<InTurn> {
    let seconds = trial.elapsed.as_secs_f64();
    let of_device = |device: &DeviceObservation| {
        let total = device.total;
        let busy = total.busy.as_secs_f64() / seconds;
        let queue = total.weighted.as_secs_f64() / seconds;
        let writing = total.time.write.0 as f64 / (total.time.read.0 + total.time.write.0).max(1) as f64;
        let alone = if queue <= ALONE * busy { busy * writing } else { 0.0 };
        let flushing = total.flush_time.map_or(0.0, Nanos::as_secs_f64) / seconds;
        let flushes = total.flushes.unwrap_or(0) as f64;
        let flush = total.flush_time.filter(|_| flushes > 0.0).map(|time| time.0 as f64 / flushes);
        InTurn {
            // A flush's time is also that of the request that asked for it.
            share: alone.max(flushing).min(1.0),
            flushing,
            flushes: flushes / seconds,
            flush,
            write: total.time.write.0.saturating_sub(total.flush_time.map_or(0, |time| time.0)) as f64
                / total.ops.write.max(1) as f64,
        }
    };
    let devices = standing::tops(trial).filter(|_| seconds > 0.0)?;
    devices.into_iter().map(of_device).max_by(|a, b| a.share.total_cmp(&b.share))
}

/// Of a program nobody sees the calls; its members show that they worked on one durable write after the other.
fn of_program(case: &Case<'_>) -> Judged {
    let middle = case.in_the_middle(in_turn, |seen| seen.share);
    let seen = middle.ok_or_else(|| Absent::unmeasured("the members' devices were not observed"))?;
    if !FLUSHING.holds(seen.share) {
        let why = "no member spent its time on one durable write after the other";
        return Err(Absent::because(why).with([FLUSHING.missed(seen.share)]));
    }
    let mut figures = vec![
        FLUSHING.figure(seen.share),
        evidence("share of the time in which it flushed", seen.flushing, Unit::Share, None),
        evidence("time of a write at the device", seen.write, Unit::Nanoseconds, None),
    ];
    let durable = if seen.flush.is_some() { "durable write" } else { "write" };
    let flushes = seen.flush.map_or_else(String::new, |flush| {
        figures.push(evidence("time of a flush", flush, Unit::Nanoseconds, None));
        figures.push(evidence("flushes", seen.flushes, Unit::PerSecond, None));
        format!(", {:.0} flushes a second of {} each", seen.flushes, format_latency(flush))
    });
    let sentence = format!(
        "{} of the time a member works on one {durable} after the other{flushes}, {} a write: what commits waits for it; a \
         volume of less latency, or more commits in one write, would help",
        percent(seen.share),
        format_latency(seen.write),
    );
    Ok(Verdict::new(VerdictKind::SyncWrites, Sure::Likely, seen.share, sentence, figures))
}

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    if case.workload.program.is_some() {
        return of_program(case);
    }
    let workload = case.workload;
    let how =
        durable::how(workload).ok_or_else(|| Absent::because("writes are not made durable one by one"))?;
    let jobs = f64::from(workload.numjobs);
    if !case.keeps_in_flight() || !case.one_at_a_time() {
        let why = "more than one write of a job is under way, or the workload holds itself back";
        let what = "operations in flight, which would have to be at most";
        return Err(Absent::because(why).seen(what, case.kept(), Unit::Operations, jobs));
    }
    // One job waits for nothing but its own write; of several it takes the ladder to tell.
    let more = facts.rungs.as_ref().and_then(|rungs| rungs.more(NO_GAIN));
    let helped = match more {
        Some(MoreInFlight::Helped(step, gain)) => Some((step, gain)),
        Some(MoreInFlight::Flat(step, gain)) => {
            let what = format!("rate with {} at a time over that with as many", step.rung.in_flight);
            let why = "more at a time hardly raise the rate, so that it is not each one's own time";
            return Err(Absent::because(why).seen(what, gain, Unit::Times, NO_GAIN));
        }
        _ if workload.numjobs > 1 => {
            let why = "several jobs write, and whether they wait for one another is not known";
            return Err(Absent::because(why));
        }
        _ => None,
    };
    let iops = case.metric(Metric::Iops);
    let iops = iops.filter(|iops| *iops > 0.0).ok_or_else(|| Absent::unmeasured("no rate was measured"))?;
    let each = 1e9 * jobs / iops;
    let of = |value: fn(Parts) -> f64| case.median(|trial| durable::parts(case, trial).map(value));
    let parts = of(|p| p.whole).zip(of(|p| p.write)).zip(of(|p| p.flush));
    let parts = parts.map(|((whole, write), flush)| Parts { whole, write, flush });
    let mut figures = vec![evidence("time of a write until it is durable", each, Unit::Nanoseconds, None)];
    let who = match workload.numjobs {
        1 => String::new(),
        jobs => format!("each of {jobs} jobs has "),
    };
    let mut sentence =
        format!("{who}one synchronous write at a time ({how}): each takes {}", format_latency(each));
    if let Some(parts) = parts {
        sentence.push_str(&told(&parts, &mut figures));
    }
    if let Some((clauses, more)) = durable::in_array(case) {
        sentence.push_str(&clauses);
        figures.extend(more);
    }
    if durable::flushes_are_this_machines(case) {
        sentence
            .push_str("; the shape says no `flush_latency`: what flushes take is this machine's own disk");
    }
    if let Some((step, gain)) = helped {
        sentence.push_str(&format!("; {} at a time had {gain:.1} times the rate", step.rung.in_flight));
        let what = format!("rate with {} at a time, in a short run", step.rung.in_flight);
        figures.push(evidence(what, step.ops.rate, Unit::OpsPerSecond, Some(iops)));
    }
    // What a thread waits for a processor is not the device's. Beside others the device's own request would take as long whether it is made
    // durable or not, and a flush waits behind them; where the parts are not known, what others explain is theirs.
    let waited = facts.waited.unwrap_or(0.0);
    let behind = facts.behind_others();
    let durable = match parts.filter(|_| behind > 0.0) {
        Some(parts) => 1.0 - (parts.write + parts.flush * durable::flushes_behind_others(case)) / parts.whole,
        None => WHOLE * (1.0 - behind),
    };
    let explains = durable * (1.0 - waited);
    let sure = if helped.is_some() { Sure::Certain } else { Sure::Likely };
    Ok(Verdict::new(VerdictKind::SyncWrites, sure, explains, sentence, figures))
}

/// The parts in words, with what writes together would take, and as figures.
fn told(parts: &Parts, figures: &mut Vec<Evidence>) -> String {
    let share = |part: f64| part / parts.whole * 100.0;
    let (write, flush, rest) = (parts.write, parts.flush, parts.rest());
    for (what, part) in [
        ("the device's requests", write),
        ("the device's flushes", flush),
        ("the rest: file system, journal, way there and back", rest),
    ] {
        figures.push(evidence(format!("of it {what}"), part, Unit::Nanoseconds, Some(parts.whole)));
    }
    // Each still has its own request; what remains is shared.
    let together = write + (flush + rest) / TOGETHER;
    let gain = parts.whole / together.max(1.0);
    let what = format!(
        "time of a write where {TOGETHER:.0} are made durable together, if each still has a request of its own"
    );
    figures.push(evidence(what, together, Unit::Nanoseconds, Some(parts.whole)));
    format!(
        ", of which the device's requests are at most {} ({:.0}%), its flushes at most {} ({:.0}%), and the file system and the rest {} \
         ({:.0}%); {TOGETHER:.0} made durable together would take about {} each, {gain:.1} times the rate, if each still had a request of its own",
        format_latency(write),
        share(write),
        format_latency(flush),
        share(flush),
        format_latency(rest),
        share(rest),
        format_latency(together),
    )
}
