//! The volume itself is the limit, which nobody declared: inferred from the ladder.
//!
//! Derivation. In a closed loop of `N` operations the rate is `N / latency`. Where two and four times the `N` leave the rate
//! as it is, only the latency grows: something serves at its own pace, however many wait. That it is the members'
//! devices shows in where the operations are: they are always busy, and what is in flight waits at them, not above
//! (a lock in a file system, a throttle, a thread without time) nor below a link or a slow member that is known. The knee is
//! the fewest in flight that have this rate.

use super::background::Background;
use super::cpu::{Cpu, THREAD_BUSY, pressed, waited};
use super::instance_limit::InstanceLimit;
use super::member::SlowMember;
use super::queue_limit::{self, QueueLimit};
use super::rate_limit::RateLimit;
use super::rungs::{More, Rungs};
use super::{Absent, Case, Judged, Rule, concurrency, evidence, remote, shared_device, standing};
use crate::ladder::in_flight;
use crate::metrics::natural;
use crate::{Basis, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::session::Rung;
use ebbtide_model::units::{format_iops, format_throughput};

/// Busy share of every member's device from which on it works all the time.
pub const BUSY: f64 = 0.90;
/// Share of the operations in flight that must be at the devices: what is on its way to or from them is not.
pub const AT_DEVICES: f64 = 0.50;
/// Busy share of all cores above which they, and not the devices, may be what serves no faster.
pub const HOST_BUSY: f64 = 0.90;
/// Share of the highest rate from which on a rung has it.
const PLATEAU: f64 = 0.90;

/// Whether the ladder shows that the members' devices serve no faster.
pub(super) fn judge(case: &Case<'_>) -> Judged {
    let rungs = Rungs::of(case).filter(|rungs| !rungs.deeper.is_empty()).ok_or_else(|| {
        Absent::because("no short runs with more in flight were made, which would show whether they are one")
    })?;
    let more =
        rungs.more(concurrency::NO_GAIN).ok_or_else(|| Absent::because("no rate of a short run is known"))?;
    let (step, gain) = more.seen();
    if !matches!(more, More::Flat(..)) {
        let what = format!("rate with {} in flight over that with as many, at most", step.rung.in_flight);
        let why = match more {
            More::Helped(..) => "more in flight have more done",
            _ => "whether more in flight have more done is hidden by what else varies",
        };
        return Err(Absent::because(why).seen(&what, gain, "times", concurrency::NO_GAIN));
    }
    yield_to_others(case)?;
    if QueueLimit.judge(case).is_ok() {
        return Err(Absent::yields(VerdictKind::QueueLimit, "more in flight do not reach the device"));
    }
    let Some(devices) = standing::devices(case) else {
        return remote::serves_no_faster(case, gain);
    };
    let kept = in_flight(case.workload);
    let served: Vec<&Rung> = rungs.depths().iter().map(|step| step.rung).collect();
    let (Some(knee), Some(deepest)) = (knee(&served), served.last().copied()) else {
        return Err(Absent::because("no rate of a short run is known"));
    };
    if served.len() > 1 && knee.in_flight >= deepest.in_flight {
        let what = format!("rate with {} in flight, against the highest with fewer", deepest.in_flight);
        let fewer = served.iter().filter(|rung| rung.in_flight < deepest.in_flight);
        let highest = fewer.filter_map(|rung| rung.iops()).fold(0.0, f64::max);
        let absent =
            Absent::because("only the most in flight had this rate, so that yet more may have more done");
        return Err(absent.seen(&what, deepest.iops().unwrap_or(0.0), "ops/s", highest));
    }
    let full = queue_limit::full(case, Some(&rungs));
    if let Some(queue) = full.first().filter(|queue| queue.wanted(f64::from(knee.in_flight)) > queue.holds) {
        let what = format!(
            "requests that the fewest with this rate want, against what the queue of {} holds",
            queue.name
        );
        let absent = Absent::because(
            "no more reach the device than its queue holds, and whether it could serve more is not known",
        );
        return Err(absent.seen(&what, queue.wanted(f64::from(knee.in_flight)), "requests", queue.holds));
    }
    // Behind a full queue nothing else can be at the device.
    let at_devices = if full.is_empty() { standing::at_devices(case).unwrap_or(0.0) } else { 1.0 };
    let busy = |absent: Absent| {
        absent.seen("busy share of the least busy member's device", devices.least_busy, "share", BUSY).seen(
            "share of the operations in flight that are at the devices",
            at_devices,
            "share",
            AT_DEVICES,
        )
    };
    if devices.least_busy < BUSY || at_devices < AT_DEVICES {
        let why =
            "more in flight have no more done, but wait above the members' devices, which have time to spare";
        return Err(busy(Absent::because(why)));
    }
    // Of a single rung the trials are the other.
    let (fewest, base, latency) = if served.len() == 1 {
        (kept, rungs.base, case.median(|trial| trial.latency().mean()))
    } else {
        (knee.in_flight, knee.iops().unwrap_or(0.0), knee.samples.latency().mean())
    };
    let ((rate, unit), (reference, _)) =
        (in_its_unit(case, deepest.iops().unwrap_or(0.0)), in_its_unit(case, base));
    let grown = deepest.samples.latency().mean().zip(latency).map(|(deep, knee)| (deep, knee, deep / knee));
    let host = standing::host_busy(case);
    let mut figures = vec![
        evidence(
            &format!("rate with {} in flight, against that with {fewest}", deepest.in_flight),
            rate,
            unit,
            Some(reference),
        ),
        evidence(
            "most that more in flight gained, over the rate with as many",
            gain,
            "times",
            Some(concurrency::NO_GAIN),
        ),
        evidence("busy share of the least busy member's device", devices.least_busy, "share", Some(BUSY)),
        evidence(
            "requests in flight at the members' devices, against operations in flight",
            devices.queue,
            "requests",
            Some(f64::from(kept)),
        ),
    ];
    if let Some((deep, knee, _)) = grown {
        figures.push(evidence(
            "mean latency with the most in flight, against the fewest that have this rate",
            deep,
            "ns",
            Some(knee),
        ));
    }
    if let Some(host) = host {
        figures.push(evidence("busy share of all cores", host, "share", Some(HOST_BUSY)));
    }
    let shown = |rate: f64| {
        if unit == "ops/s" { format!("{} operations/s", format_iops(rate)) } else { format_throughput(rate) }
    };
    let (shown, deeper) = (shown(reference), shown(rate));
    let grows = grown.map_or_else(String::new, |(_, _, times)| format!(" (x{times:.1})"));
    let (volumes, disks) = if devices.number == 1 {
        ("the volume itself is the limit".to_owned(), "its disk is".to_owned())
    } else {
        (format!("the {} volumes themselves are the limit", devices.number), "their disks are".to_owned())
    };
    let processors = host.map_or_else(String::new, |busy| format!(", the processors {:.0}%", busy * 100.0));
    Ok(Verdict {
        kind: VerdictKind::VolumeLimit,
        basis: Some(Basis::Inferred),
        // With one rung only a moment in which others were at work looks the same.
        confidence: if rungs.deeper.len() > 1 { 0.85 } else { 0.7 },
        explains: (2.0 - gain).clamp(0.5, 1.0),
        sentence: format!(
            "{volumes}: {shown} with {fewest} in flight and {deeper} with {}, only the latency grows{grows}; {disks} busy {:.0}% \
             of the time with a queue of {:.0}{processors}",
            deepest.in_flight,
            devices.least_busy * 100.0,
            devices.queue,
        ),
        evidence: figures,
    })
}

/// Has it yield to what is known to serve no faster, or to have been in the way, and to processors without time.
fn yield_to_others(case: &Case<'_>) -> Result<(), Absent> {
    if let Some(busy) = pressed(case).filter(|busy| *busy >= THREAD_BUSY) {
        let what = "share of the time that the least idle load thread ran or waited to, which would have to be below";
        let absent = Absent::because("a load thread has little time left, of which latency may consist");
        return Err(absent.seen(what, busy, "share", THREAD_BUSY));
    }
    // Busy with what neither the load nor its devices wait for, they are no part of it.
    let in_the_way = waited(case).is_none() || standing::served_here(case).is_some();
    if let Some(busy) = standing::host_busy(case).filter(|busy| *busy >= HOST_BUSY && in_the_way) {
        let what = "busy share of all cores, which would have to be below";
        let absent = Absent::because("the processors have little time left, which the devices may wait for");
        return Err(absent.seen(what, busy, "share", HOST_BUSY));
    }
    yield_to_named(case, "that is what more in flight would wait for")
}

/// Has a rule yield to causes that are asserted of what serves the operations; `why` it does.
pub(super) fn yield_to_named(case: &Case<'_>, why: &str) -> Result<(), Absent> {
    if shared_device::shared(case).is_some() {
        return Err(Absent::yields(VerdictKind::SharedDevice, "it is one disk that several members share"));
    }
    let others: [&dyn Rule; 5] = [&RateLimit, &Cpu, &InstanceLimit, &SlowMember, &Background];
    match others.iter().find(|rule| rule.judge(case).is_ok()) {
        Some(rule) => Err(Absent::yields(rule.kind(), why)),
        None => Ok(()),
    }
}

/// The fewest in flight that have the rate of the most.
fn knee<'a>(rungs: &[&'a Rung]) -> Option<&'a Rung> {
    let most = rungs.iter().filter_map(|rung| rung.iops()).reduce(f64::max)?;
    rungs.iter().copied().find(|rung| rung.iops().is_some_and(|rate| rate >= PLATEAU * most))
}

/// So many operations per second in the unit of the workload's natural metric.
fn in_its_unit(case: &Case<'_>, iops: f64) -> (f64, &'static str) {
    if natural(case.workload) == Metric::Throughput {
        (iops * case.workload.bs.0 as f64, "bytes/s")
    } else {
        (iops, "ops/s")
    }
}
