//! `cpu`: one core has nothing but interrupts to do, and the others nothing at all.
//!
//! Derivation. A device's completions arrive on the cores that its interrupt lines are bound to. Where one core is full, most of it
//! with interrupts and what they leave to be done (softirq), while the others have time and no thread of the load is full, more
//! completions cannot be taken however many cores there are. That it is the members' own devices shows in the line that
//! interrupts this core most: another device's interrupts delay nobody but who runs there.

use super::*;
use ebbtide_model::samples::{CoreUse, InterruptUse};

/// Busy share of the other cores, the median of them, below which they have time to take interrupts.
const OTHERS: f64 = 0.50;

/// What one trial says, of a load whose busiest thread is busy for this share: the share of the time that interrupts took of the core with the most of
/// them.
fn in_trial(trial: &TrialSamples, thread: Option<f64>) -> Option<(f64, Option<Verdict>)> {
    let observed = trial.observed.as_deref()?;
    let share = |core: &CoreUse| core.interrupt_share().unwrap_or(0.0);
    let (most, core) = observed.cores.iter().enumerate().max_by(|a, b| share(a.1).total_cmp(&share(b.1)))?;
    let others = observed.cores.iter().enumerate().filter(|(index, _)| *index != most);
    let others = median(others.filter_map(|(_, core)| core.busy_share()))?;
    let (interrupted, busy) = (core.interrupt_share()?, core.busy_share()?);
    // Lines with a name are the processor's own: timers, calls between cores.
    let is_device =
        |line: &&InterruptUse| line.core == most && line.line.starts_with(|c: char| c.is_ascii_digit());
    let busiest = observed.interrupts.iter().filter(is_device).max_by_key(|line| line.count);
    let full = INTERRUPTED.holds(interrupted) && busy >= THREAD_FULL && others < OTHERS;
    let full = full && thread.is_none_or(|busy| busy < THREAD_FULL);
    let found = busiest.filter(|line| full && line.of_member).map(|InterruptUse { line, who, cpu, count, .. }| {
        let line = if who.is_empty() { line.clone() } else { format!("{line} ({who})") };
        let rate = *count as f64 / trial.elapsed.as_secs_f64();
        let of_others = "busy share of the other cores, their median, which would have to be below";
        let figures = vec![
            INTERRUPTED.figure(interrupted),
            share_is(format!("busy share of core {cpu}"), busy, THREAD_FULL),
            share_is(of_others, others, OTHERS),
            evidence(format!("interrupts of line {line} on core {cpu}"), rate, Unit::PerSecond, None),
        ];
        let sentence = format!(
            "interrupts fill core {cpu}: {:.0}% of its time, {rate:.0} a second of line {line}, while the other cores are busy \
             {:.0}%; spread them with irqbalance or /proc/irq/N/smp_affinity, give the device more queues, or let the cores \
             that submit take completions (queue/rq_affinity 2)",
            interrupted * 100.0,
            others * 100.0
        );
        ground(Sure::Likely, interrupted, sentence, figures)
    });
    Some((interrupted, found))
}

/// That of the trial in the middle, by the share that interrupts took.
pub(super) fn find(case: &Case<'_>, thread: Option<f64>) -> Option<Seen> {
    let (interrupted, found) = case.in_the_middle(|trial| in_trial(trial, thread), |seen| seen.0)?;
    Some((vec![(INTERRUPTED, interrupted)], found))
}
