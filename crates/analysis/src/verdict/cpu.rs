//! `cpu`: the host's processors, or the tool itself, are what is full.
//!
//! Derivation. A thread that submits and reaps has one core; when it is busy all the time, it cannot ask for
//! more, whatever the array could do. The same holds when others have the core: the kernel counts for each thread how long it
//! was ready to run and did not (its run queue's wait), and a thread that ran or waited all the time had none to sleep, which
//! is what it does while the array works. With one operation in flight every wait is a part of that operation's latency. The
//! same holds when all cores are busy, when the hypervisor takes them away, and when the rate is near what the engine reaches
//! with nothing behind it; and when the work that is for the array's own threads (encryption, copies, parity) fills theirs. Not asserted while the members are at known limits, or held to a rate: then a busy thread is
//! not what stops the array.

mod array_thread;
pub(super) mod encryption;
pub(super) mod interrupts;

use crate::estimate::median;
use crate::evidence::{Check, Evidence, Unit, evidence, share_is};
use crate::facts::case::{Case, part};
use crate::facts::processors::{STEAL, THREAD_BUSY, THREAD_FULL, WAITED, users_by};
use crate::facts::standing::{AT_DEVICES, at_devices_is};
use crate::facts::{Facts, standing};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::{GroupQuota, TrialSamples};
use ebbtide_model::units::Nanos;

/// Share of the operations in flight that must be at the devices or can be done and wait for the thread: one that is done wakes
/// it, so that it waits no longer than the thread runs or waits to. What is neither is held elsewhere, by a limit above the
/// devices. The rest is on its way there and back.
pub const ACCOUNTED: f64 = 0.85;
/// Busy share of all cores together above which the host has no time left.
pub const HOST_BUSY: f64 = 0.95;
/// Share of the engine's ceiling above which a result measures the engine: within 20% of it.
pub const CEILING: f64 = 0.80;
/// Processor time that the kernel's workers must have had, of one core, for operations to have waited for them to get more: a
/// worker that has something to do all the time has as much beside five others on its core.
const WORKERS: f64 = 0.15;
/// Share of all busy time from which on it is the load's own.
const OWN: f64 = 0.80;
/// Part of what a thread waited for a processor for which a quota must have held it back to be the reason.
const QUOTA: f64 = 0.50;
/// Most of those who use the processors whom the sentence names.
const NAMED: usize = 3;

/// Names of figures that are told where it is asserted and where it is not.
const THREAD_WAITED: &str = "share of the time that a load thread waited for a processor";
const THREAD_PRESSED: &str = "share of the time that the least idle load thread ran or waited to";

/// Share of a core from which on somebody on the load's own processors is named: as the observer does of all.
const WORTH_NAMING: f64 = 0.05;

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("busy share of the busiest load thread", THREAD_FULL, Unit::Share, "it has no time left"),
    Check::at_least("or: share of the time that a load thread waited for a processor", WAITED, Unit::Share, "it has what others leave"),
    Check::at_least("and share of the time that it ran or waited to, unless it has one operation in flight", THREAD_BUSY, Unit::Share, "otherwise it slept while the array worked"),
    Check::at_least("or: busy share of all cores, where they serve the devices", HOST_BUSY, Unit::Share, "requests wait there for a processor"),
    Check::at_least("or: share of the cores' time that the hypervisor took", STEAL, Unit::Share, "it shows in latencies"),
    Check::at_least("or: rate over what the engine reaches with nothing behind it", CEILING, Unit::Share, "the tool is measured"),
    Check::at_least("or: cores that dm-crypt's workers use", encryption::WHOLE, Unit::Cores, "one is full, or several as much"),
    Check::at_least("or: processor time of the array's own thread, of one core", array_thread::FULL, Unit::Share, "what it waits for a core is not known"),
    Check::at_least("or: share of one core's time that interrupts took", interrupts::INTERRUPTED, Unit::Share, "threads have a fifth of it at most"),
];

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let why = "the members are at their limits, so that a busy processor is not what stops the array";
    facts.yield_to_limits(why)?;
    facts.yield_to_set_rate("a busy processor does not make a rate even")?;
    let (thread, waited, host) = (facts.busiest_thread, facts.waited, facts.host_busy);
    let ceiling = case.meta.engine_ceiling_iops.filter(|ceiling| *ceiling > 0.0);
    let ceiling = ceiling.zip(threads(case)).map(|(one, threads)| one * threads);
    let of_ceiling = ceiling.zip(case.metric(Metric::Iops)).map(|(ceiling, iops)| iops / ceiling);
    let encrypting = encryption::find(case, &facts.users);
    let interrupts = interrupts::find(case);
    let array_thread = array_thread::find(case, &facts.users);
    let small_window = facts.asserted(VerdictKind::Readahead).is_some();
    let grounds = [
        encrypting.as_ref().filter(|seen| seen.holds()).map(|seen| seen.finding()),
        interrupts.as_ref().and_then(|seen| seen.finding(thread)),
        array_thread.as_ref().and_then(|seen| seen.finding()),
        // One that is busy with a small readahead window has less to do with a larger one.
        thread.filter(|busy| *busy >= THREAD_FULL && !small_window).map(full_thread),
        taken_by_others(case, facts),
        host.filter(|busy| *busy >= HOST_BUSY).and_then(|busy| all_cores(case, facts, busy)),
        of_ceiling.filter(|share| *share >= CEILING).map(tool_itself),
        facts.stolen.filter(|share| *share >= STEAL && may_have_waited(facts, *share)).map(hypervisor),
    ];
    // The first is told; the figures of all are.
    let told = grounds.into_iter().flatten().reduce(|mut first, more| {
        first.evidence.extend(more.evidence);
        first
    });
    told.ok_or_else(|| {
        let full = [(thread, THREAD_FULL), (host, HOST_BUSY), (waited, WAITED)];
        let some = full.iter().any(|(seen, most)| seen.is_some_and(|seen| seen >= *most));
        let why = if some && facts.devices.is_none() {
            "processors were short, but no device of the members was observed, and nothing shows that operations waited for a processor"
        } else if some {
            "processors were short, but operations were at the devices meanwhile: nothing shows that they waited for one"
        } else {
            "neither processors nor the tool were full, and the load did not wait for them"
        };
        let interrupted = interrupts.as_ref().map(|seen| seen.interrupted);
        let crypt_cores = encrypting.as_ref().map(|seen| seen.cores);
        let of_array = array_thread.as_ref().map(|seen| seen.cores);
        let in_crypt = encrypting.as_ref().map(|seen| seen.inside);
        Absent::because(why)
            .seen_where_known("share of the operations in flight that are at the devices, which would have to be below", facts.at_devices().filter(|_| some), Unit::Share, 1.0 - WAITED)
            .seen_where_known("busy share of the busiest load thread", thread, Unit::Share, THREAD_FULL)
            .seen_where_known(THREAD_WAITED, waited, Unit::Share, WAITED)
            .seen_where_known(THREAD_PRESSED, facts.pressed, Unit::Share, THREAD_BUSY)
            .seen_where_known("busy share of all cores", host, Unit::Share, HOST_BUSY)
            .seen_where_known("rate against the engine's own ceiling", of_ceiling, Unit::Share, CEILING)
            .seen_where_known("time stolen, of all cores", facts.stolen, Unit::Share, STEAL)
            .seen_where_known(
                "share of the time of the core with the most interrupts that they took",
                interrupted,
                Unit::Share,
                interrupts::INTERRUPTED,
            )
            .seen_where_known(array_thread::THREAD, of_array, Unit::Share, array_thread::FULL)
            .seen_where_known(encryption::CORES, crypt_cores, Unit::Cores, encryption::WHOLE)
            .seen_where_known(encryption::WITHIN, in_crypt, Unit::Share, encryption::INSIDE)
    })
}

/// A ground, with the figures that show it.
fn ground(confidence: f64, explains: f64, sentence: impl Into<String>, figures: Vec<Evidence>) -> Verdict {
    Verdict::new(VerdictKind::Cpu, confidence, explains, sentence, figures)
}

fn full_thread(busy: f64) -> Verdict {
    let figure = share_is("busy share of the busiest load thread", busy, THREAD_FULL);
    let sentence = "a load thread is busy all the time: more jobs (numjobs), larger requests or a faster core would help";
    ground(0.85, busy, sentence, vec![figure])
}

fn tool_itself(share: f64) -> Verdict {
    let what = "operations per second against the engine's ceiling";
    let sentence = "the rate is within 20% of what the engine reaches with no device behind it: the tool is being measured, not the array";
    ground(0.8, share, sentence, vec![share_is(what, share, CEILING)])
}

/// Whether as many operations were elsewhere than at the devices, which is where they wait for a processor.
fn may_have_waited(facts: &Facts<'_>, share: f64) -> bool {
    facts.at_devices().is_none_or(|at_devices| 1.0 - at_devices >= share)
}

fn hypervisor(share: f64) -> Verdict {
    let sentence = format!(
        "the hypervisor took {:.0}% of the cores' time: neighbours on this host are measured too",
        share * 100.0
    );
    ground(0.7, share, sentence, vec![share_is("time stolen, of all cores", share, STEAL)])
}

/// All cores are busy: the load has none, where nothing says how long it waited, or what serves the devices has none. Cores that
/// are busy with what neither of them waits for are none of their business.
fn all_cores(case: &Case<'_>, facts: &Facts<'_>, busy: f64) -> Option<Verdict> {
    let mut figures = vec![share_is("busy share of all cores", busy, HOST_BUSY)];
    // Only the simulator counts the host's time with the load's.
    if case.trials.iter().any(|trial| trial.cpu.host_busy.is_some()) {
        return Some(ground(
            0.8,
            busy,
            "all cores of the host are busy: the array is not the limit",
            figures,
        ));
    }
    let device = standing::served_here(case)?;
    figures.push(facts.at_devices().filter(|share| *share >= AT_DEVICES).map(at_devices_is)?);
    figures.extend(standing::waits(case));
    let workers = facts.users.iter().filter(|(who, _)| who.starts_with("kworker"));
    let workers: f64 = workers.map(|(_, cores)| cores).sum();
    if workers < WORKERS {
        return None;
    }
    figures.push(share_is("processor time of the kernel's workers, of one core", workers, WORKERS));
    let named = named(&facts.users, "");
    let who = if named.is_empty() { named } else { format!("; of one core: {named}") };
    let sentence = format!(
        "all cores of the host are busy, and {device} is served by them: operations wait there for a processor{who}"
    );
    Some(ground(0.6, busy, sentence, figures))
}

/// The busiest of these users of processors, each with its share of one core and what that is `of`.
fn named(users: &[(String, f64)], of: &str) -> String {
    let named = users.iter().take(NAMED).map(|(who, cores)| format!("{who} {:.0}%{of}", cores * 100.0));
    named.collect::<Vec<String>>().join(", ")
}

/// Load threads wait for a processor that others have.
fn taken_by_others(case: &Case<'_>, facts: &Facts<'_>) -> Option<Verdict> {
    let waited = facts.waited.filter(|waited| *waited >= WAITED)?;
    let pressed = facts.pressed.unwrap_or(waited);
    // Otherwise it slept while the array worked, and what was in flight went on without it: unless that was done already, and
    // waited for the thread to take note of it.
    let alone = case.one_at_a_time();
    let at_devices = facts.at_devices();
    let accounted = at_devices.filter(|share| share + pressed >= ACCOUNTED);
    let done = accounted.is_some_and(|share| share < AT_DEVICES);
    // Of those at the devices none waited for the thread: what it explains is at most the rest.
    let rest = accounted.map(|share| 1.0 - share).filter(|rest| *rest >= WAITED);
    if pressed < THREAD_BUSY && !alone && !done && rest.is_none() {
        return None;
    }
    let mut figures =
        vec![share_is(THREAD_WAITED, waited, WAITED), share_is(THREAD_PRESSED, pressed, THREAD_BUSY)];
    figures.extend(at_devices.map(at_devices_is));
    figures.extend(standing::waits(case));
    let own = own_share(case);
    let what = "share of all busy time that was the load's, which would have to be below";
    figures.extend(own.map(|own| share_is(what, own, OWN)));
    let (ran, slept) = ((pressed - waited).max(0.0), (1.0 - pressed).max(0.0));
    let sleeps = if slept >= 0.01 { format!(" and sleeps {:.0}%", slept * 100.0) } else { String::new() };
    let times = format!(
        "a load thread runs {:.0}% of the time, waits {:.0}% for a processor{sleeps}",
        ran * 100.0,
        waited * 100.0
    );
    let quota = held_to_a_quota(case, waited);
    let sentence = if let Some((quota, held)) = &quota {
        figures.push(share_is(
            "share of the time for which the quota held the load back",
            *held,
            QUOTA * waited,
        ));
        format!(
            "the load's control group may use {:.0}% of a core ({}), and is held back {:.0}% of the time: {times}",
            quota.per_second.as_secs_f64() * 100.0,
            quota.file,
            held * 100.0
        )
    } else if own.is_some_and(|own| own >= OWN) {
        format!(
            "{times}: the load's own threads ({} jobs) want more than the {} cores that they have; fewer jobs with \
             more in flight each, or larger requests",
            case.workload.numjobs,
            cores_for(case)
        )
    } else {
        let (mut users, bound) = users_beside(case, facts);
        users.retain(|(who, _)| !serves_members(case, who));
        let there = if bound { " on the load's own processors" } else { "" };
        figures.extend(users.iter().map(|(who, cores)| {
            evidence(format!("processor time of {who}{there}, of one core"), *cores, Unit::Share, None)
        }));
        let named = named(&users, " of one");
        let who = if named.is_empty() { "by whom cannot be seen from here" } else { &named };
        format!("processors are taken by others: {times}; {who}{there}")
    };
    let (confidence, explains) = if pressed >= THREAD_BUSY {
        (0.9, waited)
    } else if alone || done {
        (0.75, waited)
    } else {
        (0.6, waited.min(rest.unwrap_or(0.0)))
    };
    Some(ground(confidence, explains, sentence, figures))
}

/// The quota of the load's control group, and the share of the time for which it held the load back, where that is most of what a thread waited.
fn held_to_a_quota<'a>(case: &Case<'a>, waited: f64) -> Option<(&'a GroupQuota, f64)> {
    let quotas =
        case.trials.iter().filter_map(|trial| Some((*trial, trial.observed.as_ref()?.quota.as_ref()?)));
    let quotas: Vec<(&TrialSamples, &GroupQuota)> = quotas.collect();
    let held = median(quotas.iter().map(|(trial, quota)| part(trial, quota.throttled).min(1.0)))?;
    let (_, quota) = quotas.first()?;
    (held >= QUOTA * waited).then_some((*quota, held))
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

/// Whether these are the workers that serve a device of the members: what they do is for the load.
fn serves_members(case: &Case<'_>, who: &str) -> bool {
    let observed = case.trials.iter().filter_map(|trial| trial.observed.as_ref());
    let mut devices = observed.flat_map(|observed| &observed.devices);
    who.strip_suffix(" (kworkers)").is_some_and(|queue| devices.any(|device| device.name == queue))
}

/// Who else used the processors, and how much of one core: of those that the load is bound to, where it is, and whether it is: who is busy elsewhere takes none of these.
fn users_beside(case: &Case<'_>, facts: &Facts<'_>) -> (Vec<(String, f64)>, bool) {
    if case.workload.engine.cpus_allowed.is_empty() {
        return (facts.users.clone(), false);
    }
    let mut beside = users_by(case, |user| user.beside);
    beside.retain(|(_, cores)| *cores >= WORTH_NAMING);
    (beside, true)
}

/// Load threads that can run at a time: each reaches the ceiling of one.
fn threads(case: &Case<'_>) -> Option<f64> {
    let jobs = f64::from(case.workload.numjobs);
    case.median(|t| Some(jobs.min(f64::from(t.cpu.cores)).max(1.0)))
}
