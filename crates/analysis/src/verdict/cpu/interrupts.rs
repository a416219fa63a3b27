//! `cpu`: one core has nothing but interrupts to do, and the others nothing at all.
//!
//! Derivation. A device's completions arrive on the cores that its interrupt lines are bound to. Where one core is full, most of it
//! with interrupts and what they leave to be done (softirq), while the others have time and no thread of the load is full, more
//! completions cannot be taken however many cores there are. That it is the members' own devices shows in the line that
//! interrupts this core most: another device's interrupts delay nobody but who runs there.

use crate::estimate::median;
use crate::evidence::{Check, Unit, evidence, share_is};
use crate::facts::case::Case;
use crate::facts::processors::THREAD_FULL;
use crate::judged::{Sure, Verdict, VerdictKind};
use ebbtide_model::samples::{CoreUse, InterruptUse, Observation, TrialSamples};

// What threads have of a core's time then is no more than a fifth.
#[rustfmt::skip]
pub const TAKEN: Check = Check::at_least("or: share of one core's time that interrupts took", 0.80, Unit::Share, "threads have a fifth of it at most");
/// Busy share of the other cores, the median of them, below which they have time to take interrupts.
const OTHERS: f64 = 0.50;

/// The core with the most interrupts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    /// Share of its time that interrupts took.
    pub interrupted: f64,
    /// Busy share of this core, 0 to 1.
    busy: f64,
    /// Median of the busy shares of the others.
    others: f64,
    /// Its number and the line with the most interrupts of a member's device there, where it is the busiest of all devices' lines.
    line: Option<(u32, String, f64)>,
}

/// The same of one trial.
fn of_trial(trial: &TrialSamples) -> Option<Seen> {
    let observed: &Observation = trial.observed.as_deref()?;
    let share = |core: &CoreUse| core.interrupt_share().unwrap_or(0.0);
    let most = (0..observed.cores.len())
        .max_by(|a, b| share(&observed.cores[*a]).total_cmp(&share(&observed.cores[*b])))?;
    let busy = |core: &CoreUse| core.busy_share();
    let others = observed.cores.iter().enumerate().filter(|(index, _)| *index != most);
    let others = median(others.filter_map(|(_, core)| busy(core)))?;
    let core = &observed.cores[most];
    // Lines with a name are the processor's own: timers, calls between cores.
    let is_device =
        |line: &&InterruptUse| line.core == most && line.line.starts_with(|c: char| c.is_ascii_digit());
    let busiest = observed.interrupts.iter().filter(is_device).max_by_key(|line| line.count);
    let line = busiest.filter(|line| line.of_member).map(|line| {
        let name =
            if line.who.is_empty() { line.line.clone() } else { format!("{} ({})", line.line, line.who) };
        (line.cpu, name, line.count as f64 / trial.elapsed.as_secs_f64())
    });
    Some(Seen { interrupted: core.interrupt_share()?, busy: busy(core)?, others, line })
}

/// Over the trials: that of the median trial, by the share that interrupts took.
pub(super) fn find(case: &Case<'_>) -> Option<Seen> {
    let mut seen: Vec<Seen> = case.trials.iter().filter_map(|trial| of_trial(trial)).collect();
    seen.sort_by(|a, b| a.interrupted.total_cmp(&b.interrupted));
    let middle = seen.len().checked_sub(1)? / 2;
    Some(seen.swap_remove(middle))
}

impl Seen {
    /// Where that core is what stops the members' devices: in words and figures.
    pub fn finding(&self, thread: Option<f64>) -> Option<Verdict> {
        let (cpu, line, rate) = self.line.as_ref()?;
        let full = TAKEN.holds(self.interrupted) && self.busy >= THREAD_FULL && self.others < OTHERS;
        if !full || thread.is_some_and(|busy| busy >= THREAD_FULL) {
            return None;
        }
        let others = "busy share of the other cores, their median, which would have to be below";
        let figures = vec![
            TAKEN.figure(self.interrupted),
            share_is(format!("busy share of core {cpu}"), self.busy, THREAD_FULL),
            share_is(others, self.others, OTHERS),
            evidence(format!("interrupts of line {line} on core {cpu}"), *rate, Unit::PerSecond, None),
        ];
        let sentence = format!(
            "interrupts fill core {cpu}: {:.0}% of its time, {:.0} a second of line {line}, while the other cores are busy \
             {:.0}%; spread them with irqbalance or /proc/irq/N/smp_affinity, give the device more queues, or let the cores \
             that submit take completions (queue/rq_affinity 2)",
            self.interrupted * 100.0,
            rate,
            self.others * 100.0
        );
        Some(Verdict::new(VerdictKind::Cpu, Sure::Likely, self.interrupted, sentence, figures))
    }
}
