//! `cpu`: the host's processors, or the tool itself, are what is full.
//!
//! Derivation. A thread that submits and reaps has one core; when it is busy all the time, it cannot ask for
//! more, whatever the array could do. The same holds when all cores are busy, when the hypervisor takes
//! them away, and when the rate is near what the engine reaches with nothing behind it. Not asserted
//! while the members are at known limits: then a busy thread is not what stops the array.

use super::{Absent, Case, Judged, Rule, evidence, volume_limit};
use crate::analysis::{Metric, Verdict, VerdictKind};

/// Busy share of the busiest load thread above which it has no time left (the rest is the sampling error of
/// thread times over seconds).
pub const THREAD_FULL: f64 = 0.95;
/// A load thread busier than this share may itself be what latency consists of.
pub const THREAD_BUSY: f64 = 0.80;
/// Busy share of all cores together above which the host has no time left.
pub const HOST_BUSY: f64 = 0.95;
/// Share of time taken by the hypervisor that shows in latencies.
pub const STEAL: f64 = 0.10;
/// Share of the engine's ceiling above which a result measures the engine: within 20% of it.
pub const CEILING: f64 = 0.80;

/// The rule.
#[derive(Debug)]
pub struct Cpu;

impl Rule for Cpu {
    fn kind(&self) -> VerdictKind {
        VerdictKind::Cpu
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        volume_limit::yield_to(
            case,
            "the members are at their limits, so that a busy processor is not what stops the array",
        )?;
        let thread = busiest_thread(case);
        let host = case.median(|t| {
            let all = t.elapsed.as_secs_f64() * f64::from(t.cpu.cores);
            (all > 0.0).then_some(t.cpu.host_busy?.as_secs_f64() / all)
        });
        let steal = case.median(|t| {
            let all = t.elapsed.as_secs_f64() * f64::from(t.cpu.cores);
            (all > 0.0).then_some(t.cpu.host_steal?.as_secs_f64() / all)
        });
        let ceiling = case.session.meta.engine_ceiling_iops.filter(|ceiling| *ceiling > 0.0);
        let ceiling = ceiling.zip(threads(case)).map(|(one, threads)| one * threads);
        let iops = case.result.metric(Metric::Iops).map(|estimate| estimate.median);
        let of_ceiling = ceiling.zip(iops).map(|(ceiling, iops)| iops / ceiling);

        let mut findings = Vec::new();
        if let Some(busy) = thread.filter(|busy| *busy >= THREAD_FULL) {
            findings.push((
                busy,
                0.85,
                "a load thread is busy all the time: more jobs (numjobs), larger requests or a faster core would help",
                evidence("busy share of the busiest load thread", busy, "share", Some(THREAD_FULL)),
            ));
        }
        if let Some(busy) = host.filter(|busy| *busy >= HOST_BUSY) {
            findings.push((
                busy,
                0.8,
                "all cores of the host are busy: the array is not what limits",
                evidence("busy share of all cores", busy, "share", Some(HOST_BUSY)),
            ));
        }
        if let Some(share) = of_ceiling.filter(|share| *share >= CEILING) {
            findings.push((
                share,
                0.8,
                "the rate is within 20% of what the engine reaches with nothing behind it: this measures the tool",
                evidence("operations per second against the engine's ceiling", share, "share", Some(CEILING)),
            ));
        }
        if let Some(share) = steal.filter(|share| *share >= STEAL) {
            findings.push((
                share,
                0.7,
                "the hypervisor takes processor time away: neighbours on this host are measured too",
                evidence("time stolen, of all cores", share, "share", Some(STEAL)),
            ));
        }
        let (explains, confidence, sentence, _) = findings.first().ok_or_else(|| {
            Absent::because("neither processors nor the tool were full")
                .seen_where_known("busy share of the busiest load thread", thread, "share", THREAD_FULL)
                .seen_where_known("busy share of all cores", host, "share", HOST_BUSY)
                .seen_where_known("rate against the engine's own ceiling", of_ceiling, "share", CEILING)
                .seen_where_known("time stolen, of all cores", steal, "share", STEAL)
        })?;
        Ok(Verdict {
            kind: VerdictKind::Cpu,
            confidence: *confidence,
            explains: explains.min(1.0),
            sentence: (*sentence).to_owned(),
            evidence: findings.iter().map(|finding| finding.3.clone()).collect(),
        })
    }
}

/// Load threads that can run at a time: each reaches the ceiling of one.
fn threads(case: &Case<'_>) -> Option<f64> {
    let jobs = f64::from(case.workload.numjobs);
    case.median(|t| Some(jobs.min(f64::from(t.cpu.cores)).max(1.0)))
}

/// Busy share of the busiest load thread, median over trials.
pub(super) fn busiest_thread(case: &Case<'_>) -> Option<f64> {
    case.median(|t| Some(f64::from(t.cpu.busiest_thread_permille?) / 1000.0))
}

/// Whether a load thread is so busy that latency may be its own.
pub(super) fn thread_is_busy(case: &Case<'_>) -> bool {
    busiest_thread(case).is_some_and(|busy| busy >= THREAD_BUSY)
}
