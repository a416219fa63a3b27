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
mod encryption;
mod interrupts;

use super::*;
use crate::facts::case::part;
use crate::facts::processors::{STEAL, THREAD_BUSY, THREAD_FULL, WAITED, users_by};
use crate::facts::standing;
use crate::facts::standing::{AT_DEVICES, at_devices_is};
use ebbtide_model::samples::GroupQuota;
use ebbtide_model::units::Nanos;

/// Share of the operations in flight that must be at the devices or can be done and wait for the thread: one that is done wakes
/// it, so that it waits no longer than the thread runs or waits to. What is neither is held elsewhere, by a limit above the
/// devices. The rest is on its way there and back.
const ACCOUNTED: f64 = 0.85;
/// Processor time that the kernel's workers must have had, of one core, for operations to have waited for them to get more: a
/// worker that has something to do all the time has as much beside five others on its core.
const WORKERS: f64 = 0.15;
/// Share of all busy time from which on it is the load's own.
const OWN: f64 = 0.80;
/// Part of what a thread waited for a processor for which a quota must have held it back to be the reason.
const QUOTA: f64 = 0.50;
/// Most of those who use the processors whom the sentence names.
const NAMED: usize = 3;
/// Share of a core from which on somebody on the load's own processors is named: as the observer does of all.
const WORTH_NAMING: f64 = 0.05;

checks! {
    THREAD: at_least("busy share of the busiest load thread", THREAD_FULL, Share, "it has no time left");
    WAITS: at_least("or: share of the time that a load thread waited for a processor", WAITED, Share, "it has what others leave");
    PRESSED: at_least("and share of the time that it ran or waited to, unless it has one operation in flight", THREAD_BUSY, Share, "otherwise it slept while the array worked");
    CORES: at_least("or: busy share of all cores, where they serve the devices", 0.95, Share, "requests wait there for a processor");
    STOLEN: at_least("or: share of the cores' time that the hypervisor took", STEAL, Share, "it shows in latencies");
    CEILING: at_least("or: rate over what the engine reaches with nothing behind it", 0.80, Share, "the tool is measured");
    ENCRYPTING: at_least("or: cores that dm-crypt's workers use", 0.95, Cores, "one is full, or several as much");
    INSIDE: at_least("and share of a request's time that it is in dm-crypt", 0.50, Share, "most of it");
    ARRAY_THREAD: at_least("or: processor time of the array's own thread, of one core", 0.85, Share, "what it waits for a core is not known");
    // What threads have of a core's time then is no more than a fifth.
    INTERRUPTED: at_least("or: share of one core's time that interrupts took", 0.80, Share, "threads have a fifth of it at most");
}

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let thread = facts.busiest_thread;
    // Each of as many threads as can run at a time reaches the ceiling of one.
    let threads = case.median(|t| Some(f64::from(case.workload.numjobs.min(t.cpu.cores).max(1))));
    let ceiling = case.meta.engine_ceiling_iops.zip(threads).map(|(one, threads)| one * threads);
    let of_ceiling = ceiling.filter(|ceiling| *ceiling > 0.0).zip(case.metric(Metric::Iops));
    let of_ceiling = of_ceiling.map(|(ceiling, iops)| iops / ceiling);
    let apart = [
        encryption::find(case, &facts.users),
        interrupts::find(case, thread),
        array_thread::find(case, &facts.users),
    ];
    let (seen, mut grounds): (Vec<_>, Vec<_>) = apart.into_iter().flatten().unzip();
    // One that is busy with a small readahead window has less to do with a larger one.
    let small_window = facts.asserted(VerdictKind::Readahead).is_some();
    // Operations that are at the devices wait for no processor.
    let elsewhere = |share: f64| facts.at_devices().is_none_or(|at_devices| 1.0 - at_devices >= share);
    let beyond = |check: Check, value: Option<f64>| value.filter(|value| check.holds(*value));
    grounds.extend([
        beyond(THREAD, thread).filter(|_| !small_window).map(|busy| {
            let sentence = "a load thread is busy all the time: more jobs (numjobs), larger requests or a faster core would help";
            ground(Sure::Likely, busy, sentence, vec![THREAD.figure(busy)])
        }),
        beyond(WAITS, facts.waited).and_then(|waited| taken_by_others(case, facts, waited)),
        beyond(CORES, facts.host_busy).and_then(|busy| all_cores(case, facts, busy)),
        beyond(CEILING, of_ceiling).map(|share| {
            let sentence = "the rate is within 20% of what the engine reaches with no device behind it: the tool is being measured, not the array";
            ground(Sure::Likely, share, sentence, vec![CEILING.figure(share)])
        }),
        beyond(STOLEN, facts.stolen).filter(|share| elsewhere(*share)).map(|share| {
            let percent = share * 100.0;
            let sentence = format!("the hypervisor took {percent:.0}% of the cores' time: neighbours on this host are measured too");
            ground(Sure::Possible, share, sentence, vec![STOLEN.figure(share)])
        }),
    ]);
    // The first is told; the figures of all are.
    let told = grounds.into_iter().flatten().reduce(|mut first, more| {
        first.evidence.extend(more.evidence);
        first
    });
    told.ok_or_else(|| {
        let of_all =
            [(THREAD, thread), (WAITS, facts.waited), (PRESSED, facts.pressed), (CORES, facts.host_busy)];
        let short = of_all.iter().any(|(check, value)| beyond(*check, *value).is_some());
        let why = match short {
            true => "processors were short, but nothing shows that operations waited for one",
            false => "neither processors nor the tool were full, and the load did not wait for them",
        };
        let at_devices = facts.at_devices().filter(|_| short).map(at_devices_is);
        let all = of_all.into_iter().chain([(CEILING, of_ceiling), (STOLEN, facts.stolen)]);
        let known = all.filter_map(|(check, value)| Some((check, value?))).chain(seen.into_iter().flatten());
        let figures = known.map(|(check, value)| check.missed(value));
        Absent::unmeasured(why).with(at_devices.into_iter().chain(figures))
    })
}

/// What was seen of a ground, by its checks, and the ground where it holds.
type Seen = (Vec<(Check, f64)>, Option<Verdict>);

/// A ground, with the figures that show it.
fn ground(sure: Sure, explains: f64, sentence: impl Into<String>, figures: Vec<Evidence>) -> Verdict {
    Verdict::new(VerdictKind::Cpu, sure, explains, sentence, figures)
}

/// All cores are busy: the load has none, where nothing says how long it waited, or what serves the devices has none. Cores that
/// are busy with what neither of them waits for are none of their business.
fn all_cores(case: &Case<'_>, facts: &Facts<'_>, busy: f64) -> Option<Verdict> {
    let mut figures = vec![CORES.figure(busy)];
    // Only the simulator counts the host's time with the load's.
    if case.trials.iter().any(|trial| trial.cpu.host_busy.is_some()) {
        let sentence = "all cores of the host are busy: the array is not the limit";
        return Some(ground(Sure::Likely, busy, sentence, figures));
    }
    let device = standing::served_here(case)?;
    figures.push(facts.at_devices().filter(|share| *share >= AT_DEVICES).map(at_devices_is)?);
    figures.extend(standing::waits(case));
    let workers = facts.users.iter().filter(|(who, _)| who.starts_with("kworker"));
    let workers: f64 = workers.map(|(_, cores)| cores).sum();
    figures.push(share_is("processor time of the kernel's workers, of one core", workers, WORKERS));
    let named = named(&facts.users);
    let sentence = format!(
        "all cores of the host are busy, and {device} is served by them: operations wait there for a processor; {named}"
    );
    (workers >= WORKERS).then(|| ground(Sure::Possible, busy, sentence, figures))
}

/// The busiest of these users of processors, each with its share of one core.
fn named(users: &[(String, f64)]) -> String {
    let each = users.iter().take(NAMED).map(|(who, cores)| format!("{who} {:.0}% of one", cores * 100.0));
    match users.is_empty() {
        true => "by whom cannot be seen from here".to_owned(),
        false => each.collect::<Vec<String>>().join(", "),
    }
}

/// Load threads wait for a processor that others have.
fn taken_by_others(case: &Case<'_>, facts: &Facts<'_>, waited: f64) -> Option<Verdict> {
    let pressed = facts.pressed.unwrap_or(waited);
    let at_devices = facts.at_devices();
    // One that slept did so while the array worked, and what was in flight went on without it: unless that was done already, and
    // waited for the thread to take note of it. Of those at the devices none waited for the thread.
    let rest = at_devices.filter(|share| share + pressed >= ACCOUNTED).map(|share| 1.0 - share);
    let (sure, explains) = if PRESSED.holds(pressed) {
        (Sure::Certain, waited)
    } else if case.one_at_a_time() {
        (Sure::Possible, waited)
    } else {
        (Sure::Possible, waited.min(rest.filter(|rest| *rest >= WAITED)?))
    };
    let mut figures = vec![WAITS.figure(waited), PRESSED.figure(pressed)];
    figures.extend(at_devices.map(at_devices_is));
    figures.extend(standing::waits(case));
    let bound = &case.workload.engine.cpus_allowed;
    let own = own_share(case);
    let what = "share of all busy time that was the load's, which would have to be below";
    figures.extend(own.map(|own| share_is(what, own, OWN)));
    let slept = (1.0 - pressed).max(0.0);
    let sleeps = if slept >= 0.01 { format!(" and sleeps {:.0}%", slept * 100.0) } else { String::new() };
    let times = format!(
        "a load thread runs {:.0}% of the time, waits {:.0}% for a processor{sleeps}",
        (pressed - waited).max(0.0) * 100.0,
        waited * 100.0
    );
    let sentence = if let Some((quota, held)) = held_to_a_quota(case, waited) {
        let what = "share of the time for which the quota held the load back";
        figures.push(share_is(what, held, QUOTA * waited));
        format!(
            "the load's control group may use {:.0}% of a core ({}), and is held back {:.0}% of the time: {times}",
            quota.per_second.as_secs_f64() * 100.0,
            quota.file,
            held * 100.0
        )
    } else if own.is_some_and(|own| own >= OWN) {
        let cores = case.trials.iter().map(|trial| trial.cpu.cores as usize).max().unwrap_or(0);
        format!(
            "{times}: the load's own threads ({} jobs) want more than the {} cores that they have; fewer jobs with \
             more in flight each, or larger requests",
            case.workload.numjobs,
            if bound.is_empty() { cores } else { bound.len() }
        )
    } else {
        // Who is busy elsewhere takes nothing of a load that is bound to some processors; what the members' own workers do is for the load.
        let (mut users, there) = match bound.is_empty() {
            true => (facts.users.clone(), ""),
            false => (users_by(case, |user| user.beside), " on the load's own processors"),
        };
        let observed = case.trials.iter().filter_map(|trial| trial.observed.as_ref());
        let own: Vec<String> = observed
            .flat_map(|observed| &observed.devices)
            .map(|device| format!("{} (kworkers)", device.name))
            .collect();
        users.retain(|(who, cores)| *cores >= WORTH_NAMING && !own.contains(who));
        figures.extend(users.iter().map(|(who, cores)| {
            evidence(format!("processor time of {who}{there}, of one core"), *cores, Unit::Share, None)
        }));
        format!("processors are taken by others: {times}; {}{there}", named(&users))
    };
    Some(ground(sure, explains, sentence, figures))
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
