//! `cpu`: the host's processors, or the tool itself, are what is full.
//!
//! Derivation. A thread that submits and reaps has one core; when it is busy all the time, it cannot ask for
//! more, whatever the array could do. The same holds when others have the core: the kernel counts for each thread how long it
//! was ready to run and did not (its run queue's wait), and a thread that ran or waited all the time had none to sleep, which
//! is what it does while the array works. With one operation in flight every wait is a part of that operation's latency. The
//! same holds when all cores are busy, when the hypervisor takes them away, and when the rate is near what the engine reaches
//! with nothing behind it. Not asserted while the members are at known limits, or held to a rate: then a busy thread is
//! not what stops the array.

use super::{
    Absent, Case, Judged, Rule, encryption, evidence, interrupts, rate_limit, saturated, standing,
    volume_limit,
};
use crate::ladder::in_flight;
use crate::{Evidence, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::{ProcessorUser, TrialSamples};
use ebbtide_model::units::Nanos;

/// Busy share of the busiest load thread above which it has no time left (the rest is the sampling error of
/// thread times over seconds).
pub const THREAD_FULL: f64 = 0.95;
/// A load thread that ran, or waited to, for more than this share may itself be what latency consists of.
pub const THREAD_BUSY: f64 = 0.80;
/// Share of the time that a load thread must have waited for a processor for others to be what it lacks.
pub const WAITED: f64 = 0.20;
/// Share of the operations in flight that must be at the devices or can be done and wait for the thread: one that is done wakes
/// it, so that it waits no longer than the thread runs or waits to. What is neither is held elsewhere, by a limit above the
/// devices. The rest is on its way there and back.
pub const ACCOUNTED: f64 = 0.85;
/// Busy share of all cores together above which the host has no time left.
pub const HOST_BUSY: f64 = 0.95;
/// Share of time taken by the hypervisor that shows in latencies.
pub const STEAL: f64 = 0.10;
/// Share of the engine's ceiling above which a result measures the engine: within 20% of it.
pub const CEILING: f64 = 0.80;
/// Processor time that the kernel's workers must have had, of one core, for operations to have waited for them to get more: a
/// worker that has something to do all the time has as much beside five others on its core.
const WORKERS: f64 = 0.15;
/// Share of all busy time from which on it is the load's own.
const OWN: f64 = 0.80;
/// Most of those who use the processors whom the sentence names.
const NAMED: usize = 3;

/// Share of a core from which on somebody on the load's own processors is named: as the observer does of all.
const WORTH_NAMING: f64 = 0.05;

#[derive(Debug)]
pub struct Cpu;

/// A ground: how much it explains, with which confidence, its sentence and its figures.
pub(super) type Finding = (f64, f64, String, Vec<Evidence>);

impl Rule for Cpu {
    fn kind(&self) -> VerdictKind {
        VerdictKind::Cpu
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        volume_limit::yield_to(
            case,
            "the members are at their limits, so that a busy processor is not what stops the array",
        )?;
        if rate_limit::find(case).is_ok() {
            return Err(Absent::yields(VerdictKind::RateLimit, "a busy processor does not make a rate even"));
        }
        let thread = busiest_thread(case);
        let waited = waited(case);
        let host = standing::host_busy(case);
        let steal = standing::stolen(case);
        let ceiling = case.session.meta.engine_ceiling_iops.filter(|ceiling| *ceiling > 0.0);
        let ceiling = ceiling.zip(threads(case)).map(|(one, threads)| one * threads);
        let iops = case.result.metric(Metric::Iops).map(|estimate| estimate.median);
        let of_ceiling = ceiling.zip(iops).map(|(ceiling, iops)| iops / ceiling);

        let encrypting = encryption::find(case);
        let mut findings: Vec<Finding> = Vec::new();
        if let Some(seen) = encrypting.as_ref().filter(|seen| seen.holds()) {
            findings.push(seen.finding());
        }
        let interrupts = interrupts::find(case);
        findings.extend(interrupts.as_ref().and_then(|seen| seen.finding(case)));
        if let Some(busy) = thread.filter(|busy| *busy >= THREAD_FULL) {
            let figure = evidence("busy share of the busiest load thread", busy, "share", Some(THREAD_FULL));
            let sentence = "a load thread is busy all the time: more jobs (numjobs), larger requests or a faster core would help";
            findings.push((busy, 0.85, sentence.to_owned(), vec![figure]));
        }
        findings.extend(taken_by_others(case));
        if let Some(busy) = host.filter(|busy| *busy >= HOST_BUSY) {
            findings.extend(all_cores(case, busy));
        }
        if let Some(share) = of_ceiling.filter(|share| *share >= CEILING) {
            let figure =
                evidence("operations per second against the engine's ceiling", share, "share", Some(CEILING));
            let sentence = "the rate is within 20% of what the engine reaches with nothing behind it: this measures the tool";
            findings.push((share, 0.8, sentence.to_owned(), vec![figure]));
        }
        if let Some(share) = steal.filter(|share| *share >= STEAL) {
            let figure = evidence("time stolen, of all cores", share, "share", Some(STEAL));
            let sentence = format!(
                "the hypervisor took {:.0}% of the cores' time: neighbours on this host are measured too",
                share * 100.0
            );
            findings.push((share, 0.7, sentence, vec![figure]));
        }
        let (explains, confidence, sentence, _) = findings.first().ok_or_else(|| {
            let full = [(thread, THREAD_FULL), (host, HOST_BUSY), (waited, WAITED)];
            let some = full.iter().any(|(seen, most)| seen.is_some_and(|seen| seen >= *most));
            Absent::because(if some {
                "processors were short, but operations were at the devices meanwhile: nothing shows that they waited for one"
            } else {
                "neither processors nor the tool were full, and the load did not wait for them"
            })
                .seen_where_known("busy share of the busiest load thread", thread, "share", THREAD_FULL)
                .seen_where_known(
                    "share of the time that a load thread waited for a processor",
                    waited,
                    "share",
                    WAITED,
                )
                .seen_where_known(
                    "share of the time that the least idle load thread ran or waited to",
                    pressed(case),
                    "share",
                    THREAD_BUSY,
                )
                .seen_where_known("busy share of all cores", host, "share", HOST_BUSY)
                .seen_where_known("rate against the engine's own ceiling", of_ceiling, "share", CEILING)
                .seen_where_known("time stolen, of all cores", steal, "share", STEAL)
                .seen_where_known(
                    "share of the time of the core with the most interrupts that they took",
                    interrupts.as_ref().map(|seen| seen.interrupted),
                    "share",
                    interrupts::INTERRUPTED,
                )
                .seen_where_known(
                    "processor time of dm-crypt's workers, of one core",
                    encrypting.as_ref().map(|seen| seen.cores),
                    "cores",
                    encryption::WHOLE,
                )
                .seen_where_known(
                    "share of a request's time that it was in dm-crypt",
                    encrypting.as_ref().map(|seen| seen.inside),
                    "share",
                    encryption::INSIDE,
                )
        })?;
        Ok(Verdict {
            kind: VerdictKind::Cpu,
            basis: None,
            confidence: *confidence,
            explains: explains.min(1.0),
            sentence: sentence.clone(),
            evidence: findings.iter().flat_map(|finding| finding.3.clone()).collect(),
        })
    }
}

/// All cores are busy: the load has none, where nothing says how long it waited, or what serves the devices has none. Cores that
/// are busy with what neither of them waits for are none of their business.
fn all_cores(case: &Case<'_>, busy: f64) -> Option<Finding> {
    let figure = evidence("busy share of all cores", busy, "share", Some(HOST_BUSY));
    // Only the simulator counts the host's time with the load's.
    if case.trials.iter().any(|trial| trial.cpu.host_busy.is_some()) {
        let sentence = "all cores of the host are busy: the array is not what limits".to_owned();
        return Some((busy, 0.8, sentence, vec![figure]));
    }
    let device = standing::served_here(case)?;
    let waiting = standing::at_devices(case).filter(|share| *share >= saturated::AT_DEVICES)?;
    let mut figures = vec![figure];
    let what = "share of the operations in flight that are at the devices";
    figures.push(evidence(what, waiting, "share", Some(saturated::AT_DEVICES)));
    figures.extend(standing::waits(case));
    let users = users(case);
    let workers = users.iter().filter(|(who, _)| who.starts_with("kworker"));
    let workers: f64 = workers.map(|(_, cores)| cores).sum();
    if workers < WORKERS {
        return None;
    }
    figures.push(evidence(
        "processor time of the kernel's workers, of one core",
        workers,
        "share",
        Some(WORKERS),
    ));
    let named: Vec<String> =
        users.iter().take(NAMED).map(|(who, cores)| format!("{who} {:.0}%", cores * 100.0)).collect();
    let who = if named.is_empty() { String::new() } else { format!("; of one core: {}", named.join(", ")) };
    let sentence = format!(
        "all cores of the host are busy, and {device} is served by them: operations wait there for a processor{who}"
    );
    Some((busy, 0.6, sentence, figures))
}

/// Load threads wait for a processor that others have.
fn taken_by_others(case: &Case<'_>) -> Option<Finding> {
    let waited = waited(case).filter(|waited| *waited >= WAITED)?;
    let pressed = pressed(case).unwrap_or(waited);
    // Otherwise it slept while the array worked, and what was in flight went on without it: unless that was done already, and
    // waited for the thread to take note of it.
    let alone = in_flight(case.workload) <= case.workload.numjobs;
    let at_devices = standing::at_devices(case);
    let done = at_devices.is_some_and(|share| share < saturated::AT_DEVICES && share + pressed >= ACCOUNTED);
    if pressed < THREAD_BUSY && !alone && !done {
        return None;
    }
    let ran = (pressed - waited).max(0.0);
    let mut figures = vec![
        evidence(
            "share of the time that a load thread waited for a processor",
            waited,
            "share",
            Some(WAITED),
        ),
        evidence(
            "share of the time that the least idle load thread ran or waited to",
            pressed,
            "share",
            Some(THREAD_BUSY),
        ),
    ];
    figures.extend(at_devices.map(|share| {
        let what = "share of the operations in flight that are at the devices";
        evidence(what, share, "share", Some(saturated::AT_DEVICES))
    }));
    figures.extend(standing::waits(case));
    let own = own_share(case);
    figures.extend(own.map(|own| {
        evidence(
            "share of all busy time that was the load's, which would have to be below",
            own,
            "share",
            Some(OWN),
        )
    }));
    let slept = (1.0 - pressed).max(0.0);
    let times = format!(
        "a load thread runs {:.0}% of the time, waits {:.0}% for a processor",
        ran * 100.0,
        waited * 100.0
    );
    let sleeps = if slept >= 0.01 { format!(" and sleeps {:.0}%", slept * 100.0) } else { String::new() };
    let sentence = if own.is_some_and(|own| own >= OWN) {
        format!(
            "{times}{sleeps}: the load's own threads ({} jobs) want more than the {} cores that they have; fewer jobs with \
             more in flight each, or larger requests",
            case.workload.numjobs,
            cores_for(case)
        )
    } else {
        let (users, bound) = users_beside(case);
        let named: Vec<String> = users
            .iter()
            .take(NAMED)
            .map(|(who, cores)| format!("{who} {:.0}% of one", cores * 100.0))
            .collect();
        let there = if bound { " on the load's own processors" } else { "" };
        figures.extend(users.iter().map(|(who, cores)| {
            evidence(&format!("processor time of {who}{there}, of one core"), *cores, "share", None)
        }));
        let who = if named.is_empty() {
            format!("who is not visible from here{there}")
        } else {
            format!("{}{there}", named.join(", "))
        };
        format!("processors are taken by others: {times}{sleeps}; {who}")
    };
    let confidence = if pressed >= THREAD_BUSY { 0.9 } else { 0.75 };
    Some((waited.min(1.0), confidence, sentence, figures))
}

pub(super) fn part(trial: &TrialSamples, time: Nanos) -> f64 {
    time.as_secs_f64() / trial.elapsed.as_secs_f64()
}

/// Cores that the load may run on.
fn cores_for(case: &Case<'_>) -> usize {
    match case.workload.engine.cpus_allowed.len() {
        0 => case.trials.iter().map(|trial| trial.cpu.cores as usize).max().unwrap_or(0),
        bound => bound,
    }
}

/// Share of all busy time of the host that was the load's own; of a load that is bound to some processors, of that on these.
fn own_share(case: &Case<'_>) -> Option<f64> {
    let bound = !case.workload.engine.cpus_allowed.is_empty();
    case.median(|trial| {
        let observed = trial.observed.as_ref()?;
        let own = trial.cpu.load_user.as_secs_f64() + trial.cpu.load_system.as_secs_f64();
        let busy: f64 = if bound {
            let beside = observed.users.iter().filter_map(|user| user.beside);
            own + beside.map(Nanos::as_secs_f64).sum::<f64>()
        } else {
            observed.cores.iter().map(|core| core.user.as_secs_f64() + core.system.as_secs_f64()).sum()
        };
        (busy > 0.0).then(|| (own / busy).min(1.0))
    })
}

/// Who else used the processors, and how much of one core over the trials, the busiest first.
pub(super) fn users(case: &Case<'_>) -> Vec<(String, f64)> {
    users_by(case, |user| Some(user.time))
}

/// The same of the processors that the load is bound to, where it is, and whether it is: who is busy elsewhere takes none of these.
fn users_beside(case: &Case<'_>) -> (Vec<(String, f64)>, bool) {
    if case.workload.engine.cpus_allowed.is_empty() {
        return (users(case), false);
    }
    let mut beside = users_by(case, |user| user.beside);
    beside.retain(|(_, cores)| *cores >= WORTH_NAMING);
    (beside, true)
}

fn users_by(case: &Case<'_>, time: impl Fn(&ProcessorUser) -> Option<Nanos>) -> Vec<(String, f64)> {
    let mut found: Vec<(String, f64)> = Vec::new();
    let elapsed: f64 = case.trials.iter().map(|trial| trial.elapsed.as_secs_f64()).sum();
    for user in case.trials.iter().filter_map(|t| t.observed.as_ref()).flat_map(|observed| &observed.users) {
        let Some(time) = time(user) else { continue };
        let cores = time.as_secs_f64() / elapsed;
        match found.iter_mut().find(|(who, _)| *who == user.who) {
            Some((_, sum)) => *sum += cores,
            None => found.push((user.who.clone(), cores)),
        }
    }
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}

/// Load threads that can run at a time: each reaches the ceiling of one.
fn threads(case: &Case<'_>) -> Option<f64> {
    let jobs = f64::from(case.workload.numjobs);
    case.median(|t| Some(jobs.min(f64::from(t.cpu.cores)).max(1.0)))
}

/// A share that is counted in thousandths, median over trials.
fn permille(case: &Case<'_>, of: fn(&TrialSamples) -> Option<u32>) -> Option<f64> {
    case.median(|t| Some(f64::from(of(t)?) / 1000.0))
}

/// Busy share of the busiest load thread, median over trials.
pub(super) fn busiest_thread(case: &Case<'_>) -> Option<f64> {
    permille(case, |t| t.cpu.busiest_thread_permille)
}

/// Share of the time that a load thread waited for a processor, median over trials.
pub(super) fn waited(case: &Case<'_>) -> Option<f64> {
    permille(case, |t| t.cpu.most_waiting_permille)
}

/// Share of the time that the least idle load thread ran or waited to, median over trials; where no waits are counted, that it
/// ran.
pub(super) fn pressed(case: &Case<'_>) -> Option<f64> {
    permille(case, |t| t.cpu.least_idle_permille.or(t.cpu.busiest_thread_permille))
}

/// Whether a load thread has so little time left that latency may be its own.
pub(super) fn thread_is_busy(case: &Case<'_>) -> bool {
    pressed(case).is_some_and(|pressed| pressed >= THREAD_BUSY)
}
