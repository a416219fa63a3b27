//! `sync-writes`: one write at a time, each made durable before the next.
//!
//! Derivation. A job that waits until each write is on stable storage (O_SYNC, fsync or fdatasync after it, as a database's log
//! does) has one operation in flight, and its rate is one over what that takes, whatever the volume could do. What it takes is
//! the device's own time for the write, the time in which the device empties its cache (the kernel counts flushes apart since
//! 5.5), and the rest: the file system, whose journal commits, and the way there and back. Several writes that are made durable
//! together share all but the first of these. Counters of the device are everybody's, so that the parts are at most what they
//! say.

use super::concurrency::NO_GAIN;
use super::rungs::{More, Rungs};
use super::{Absent, Case, Judged, Rule, cpu, evidence, rate_limit, volume_limit};
use crate::ladder::in_flight;
use crate::{Evidence, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::units::{Nanos, format_latency};
use ebbtide_model::workload::Workload;

/// Writes that are made durable together in the estimate that is told.
const TOGETHER: f64 = 8.0;

/// Most requests of one write: its own, and a journal's description and commit of it. More of them are others'.
const MOST_REQUESTS: f64 = 3.0;

#[derive(Debug)]
pub struct SyncWrites;

/// How each write is made durable; nothing where it is not.
fn how(workload: &Workload) -> Option<&'static str> {
    let details = &workload.details;
    match (workload.sync, details.fsync_every, details.fdatasync_every) {
        _ if !workload.writes() => None,
        (true, ..) => Some("O_SYNC"),
        (_, Some(1), _) => Some("fsync after each"),
        (_, _, Some(1)) => Some("fdatasync after each"),
        _ => None,
    }
}

/// What an operation took of which part, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Parts {
    whole: f64,
    write: f64,
    flush: f64,
}

impl Parts {
    fn rest(&self) -> f64 {
        (self.whole - self.write - self.flush).max(0.0)
    }
}

/// Time of an operation, from the rate; what of it the members' devices had requests or flushes.
fn parts(case: &Case<'_>, trial: &TrialSamples) -> Option<Parts> {
    let array = &trial.array;
    let ops = array.read.count.ops.saturating_add(array.write.count.ops) as f64;
    if ops <= 0.0 {
        return None;
    }
    let whole = trial.elapsed.0 as f64 * f64::from(case.workload.numjobs) / ops;
    let observed = trial.observed.as_ref()?;
    let (mut time, mut flush) = (0.0, 0.0);
    let mut seen: Vec<usize> = Vec::new();
    for member in &observed.members {
        let device = *member.devices.first()?;
        if seen.contains(&device) {
            continue;
        }
        seen.push(device);
        let total = observed.devices.get(device)?.total;
        let requests = |count: u64| (count as f64).min(MOST_REQUESTS * ops) / count.max(1) as f64;
        time += total.time.write.0 as f64 * requests(total.ops.write);
        if case.workload.reads() {
            time += total.time.read.0 as f64 * requests(total.ops.read);
        }
        flush += total.flush_time.unwrap_or(Nanos(0)).0 as f64;
    }
    // Requests of one operation may overlap (a journal's and the file's), and others' count too.
    let flush = (flush / ops).min(whole);
    let write = (time / ops).min(whole - flush);
    (!seen.is_empty()).then_some(Parts { whole, write, flush })
}

impl Rule for SyncWrites {
    fn kind(&self) -> VerdictKind {
        VerdictKind::SyncWrites
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        let workload = case.workload;
        let how = how(workload).ok_or_else(|| Absent::because("writes are not made durable one by one"))?;
        let in_flight = in_flight(workload);
        if !workload.is_free() || in_flight > workload.numjobs {
            let absent = Absent::because(
                "more than one write of a job is under way, or the workload holds itself back",
            );
            return Err(absent.seen(
                "operations in flight, which would have to be at most",
                f64::from(in_flight),
                "operations",
                f64::from(workload.numjobs),
            ));
        }
        volume_limit::yield_to(case, "the members are at their limits")?;
        if rate_limit::find(case).is_ok() {
            return Err(Absent::yields(
                VerdictKind::RateLimit,
                "its even rate is not that of writes which wait for one another",
            ));
        }
        // One job waits for nothing but its own write; of several it takes the ladder to tell.
        let more = Rungs::of(case).and_then(|rungs| rungs.more(NO_GAIN));
        let helped = match more {
            Some(More::Helped(step, gain)) => Some((step, gain)),
            Some(More::Flat(step, gain)) => {
                let what = format!("rate with {} at a time over that with as many", step.rung.in_flight);
                let absent = Absent::because(
                    "more at a time have hardly more done, so that it is not each one's own time",
                );
                return Err(absent.seen(&what, gain, "times", NO_GAIN));
            }
            _ if workload.numjobs > 1 => {
                return Err(Absent::because(
                    "several jobs write, and whether they wait for one another is not known",
                ));
            }
            _ => None,
        };
        let iops = case.result.metric(Metric::Iops).map(|estimate| estimate.median);
        let iops = iops.filter(|iops| *iops > 0.0).ok_or_else(|| Absent::because("no rate was measured"))?;
        let each = 1e9 * f64::from(workload.numjobs) / iops;
        let of = |value: fn(Parts) -> f64| case.median(|trial| parts(case, trial).map(value));
        let parts = of(|p| p.whole).zip(of(|p| p.write)).zip(of(|p| p.flush));
        let parts = parts.map(|((whole, write), flush)| Parts { whole, write, flush });
        let mut figures = vec![evidence("time of a write until it is durable", each, "ns", None)];
        let mut sentence = if workload.numjobs == 1 {
            format!("one synchronous write at a time ({how}): each takes {}", format_latency(each))
        } else {
            format!(
                "each of {} jobs has one synchronous write at a time ({how}), which takes {}",
                workload.numjobs,
                format_latency(each)
            )
        };
        if let Some(parts) = parts {
            sentence.push_str(&told(&parts, &mut figures));
        }
        if let Some((step, gain)) = helped {
            sentence.push_str(&format!("; {} at a time had {gain:.1} times the rate", step.rung.in_flight));
            figures.push(evidence(
                &format!("rate with {} at a time, in a short run", step.rung.in_flight),
                step.ops.rate,
                "ops/s",
                Some(iops),
            ));
        }
        // What a thread waits for a processor is not the device's.
        let waited = cpu::waited(case).unwrap_or(0.0);
        Ok(Verdict {
            kind: VerdictKind::SyncWrites,
            basis: None,
            confidence: if helped.is_some() { 0.9 } else { 0.75 },
            explains: (0.9 * (1.0 - waited)).clamp(0.0, 1.0),
            sentence,
            evidence: figures,
        })
    }
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
        figures.push(evidence(&format!("of it {what}"), part, "ns", Some(parts.whole)));
    }
    // Each still has its own request; what remains is shared.
    let together = write + (flush + rest) / TOGETHER;
    let gain = parts.whole / together.max(1.0);
    figures.push(evidence(
        &format!("time of a write where {TOGETHER:.0} are made durable together, if each still has a request of its own"),
        together,
        "ns",
        Some(parts.whole),
    ));
    format!(
        ", of which the device's requests are {} ({:.0}%), its flushes {} ({:.0}%), and the file system and the rest {} \
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
