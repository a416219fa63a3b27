//! What the ladder of a case saw (`analysis::ladder`).

use super::*;
use crate::metrics::operations;
use crate::pace::{self, Pace};
use ebbtide_model::metric::Metric;
use ebbtide_model::session::Rung;
use ebbtide_model::units::{Bytes, Nanos};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Rate with twice the operations in flight over that with as many below which they did not help; twice that for four times
/// as many. Double the rate is what Little's law promises; a probe of half a second varies by some percent.
pub const NO_GAIN: f64 = 1.10;
/// The same from which on they are a cause by themselves, where nothing is known of what one operation alone takes.
pub const MORE: f64 = 1.25;
/// The same from which on they help at all: some percent more are no cause that anybody would look for.
pub const HELPS: f64 = 1.15;
/// Rate of the trials and of the rung that repeats them, the higher over the lower, up to which they are the same.
const REPEATS: f64 = 1.25;
/// The same of a rung that ran several times: what it has is then no chance, and the trials had a better or a worse time.
const REPEATS_OF_SEVERAL: f64 = 1.5;
/// Standard error of a rung's rate, relative to it, above which it tells nothing.
const UNSURE: f64 = 0.25;

/// A rung with its pace.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    pub rung: &'a Rung,
    /// Operations per second.
    pub ops: Pace,
    /// The same as it was counted, from its start to its end: of lots, one too many or too few.
    counted: f64,
    /// Of how many runs it is the middle.
    runs: usize,
}

impl<'a> Step<'a> {
    /// Of several runs of the same the one in the middle, with the standard error that their distance from one another makes of it; of
    /// two the slower.
    fn of(mut same: Vec<Step<'a>>) -> Option<Step<'a>> {
        same.sort_by(|a, b| a.ops.rate.total_cmp(&b.ops.rate));
        let number = same.len() as f64;
        let mut middle = *same.get(same.len().checked_sub(1)? / 2)?;
        middle.runs = same.len();
        if same.len() > 1 {
            let mean = same.iter().map(|step| step.ops.rate).sum::<f64>() / number;
            let apart = same.iter().map(|step| (step.ops.rate / mean - 1.0).powi(2)).sum::<f64>();
            let alone = middle.ops.error / number.sqrt();
            middle.ops.error = (apart / (number - 1.0) / number).sqrt().max(alone);
        }
        Some(middle)
    }

    /// The lower of the two.
    pub fn low(&self) -> f64 {
        self.ops.rate.min(self.counted)
    }

    /// Its rate over `rate`: 1 where that is between the two.
    pub fn over(&self, rate: f64) -> f64 {
        rate.clamp(self.low(), self.ops.rate.max(self.counted)) / rate
    }
}

/// The rungs of one design under one workload.
#[derive(Debug, Clone)]
pub struct Rungs<'a> {
    /// As many in flight as in the trials, and of the same size; where there was no time for it, nothing.
    pub same: Option<Step<'a>>,
    /// More in flight, the fewest first.
    pub deeper: Vec<Step<'a>>,
    /// Fewer in flight, the fewest first.
    pub shallower: Vec<Step<'a>>,
    /// As many in flight, of other sizes, the smallest first.
    pub sizes: Vec<Step<'a>>,
    /// Rungs with more in flight that are left out: so little was done in them that they have no rate.
    pub untold: Vec<Step<'a>>,
    /// Operations per second of the rung that is the same as the trials, or of the trials where there is none.
    pub base: f64,
    /// Standard error of that, relative to it.
    error: f64,
    /// Operations per second of the trials.
    measured: f64,
    /// The same as they were counted: of trials that stood still for most of the time, far more.
    counted: f64,
    /// Operations in flight of the trials.
    kept: f64,
}

/// What more in flight did, with the rate over that with as many.
#[derive(Debug, Clone, Copy)]
pub enum MoreInFlight<'a> {
    /// More of them had more done.
    Helped(Step<'a>, f64),
    /// More of them had no more done.
    Flat(Step<'a>, f64),
    /// Something between, or what else went on hides it.
    Unclear(Step<'a>, f64),
}

impl<'a> MoreInFlight<'a> {
    /// The rung, and the rate over that with as many.
    pub fn seen(&self) -> (Step<'a>, f64) {
        match self {
            MoreInFlight::Helped(step, gain)
            | MoreInFlight::Flat(step, gain)
            | MoreInFlight::Unclear(step, gain) => (*step, *gain),
        }
    }
}

/// Rate of a rung; as it was counted where too little was done: a pace needs three intervals with something done.
///
/// Of `n` operations one more or less may belong to it, `1/n`. How they vary is not known of what was counted only: of a Poisson process `n` are
/// `1/sqrt(n)` off.
fn pace_of(rung: &Rung) -> Option<Pace> {
    let done = (operations(&rung.samples) as f64).max(1.0);
    let error = 1.0 / done.sqrt();
    let counted = || Some(Pace { rate: rung.iops()?, error, unevenness: 0.0, grain: 0.0, span: 0.0 });
    let paced = pace::of(&rung.samples, Nanos(0)).map(|p| Pace { error: p.error.hypot(1.0 / done), ..p });
    paced.or_else(counted).filter(|pace| pace.rate > 0.0)
}

impl<'a> Rungs<'a> {
    /// Those of `case`; nothing where none ran, or no rate is known.
    pub fn of(case: &Case<'a>) -> Option<Rungs<'a>> {
        let (kept, bs) = (case.in_flight(), case.workload.bs);
        let (mut all, mut untold) = (BTreeMap::<(u32, Bytes), Vec<Step<'_>>>::new(), Vec::new());
        for rung in &case.meta.rungs {
            if rung.design != case.design.name || rung.workload != case.workload.name {
                continue;
            }
            let Some((ops, counted)) = pace_of(rung).zip(rung.iops()) else { continue };
            let step = Step { rung, ops, counted, runs: 1 };
            if step.ops.error <= UNSURE {
                all.entry((rung.in_flight, rung.bs)).or_default().push(step);
            } else if rung.bs == bs && rung.in_flight > kept {
                untold.push(step);
            }
        }
        if all.is_empty() && untold.is_empty() {
            return None;
        }
        let (mut same, mut deeper, mut shallower, mut sizes) = (None, Vec::new(), Vec::new(), Vec::new());
        for ((depth, size), steps) in all {
            let step = Step::of(steps)?;
            match (depth.cmp(&kept), size == bs) {
                (Ordering::Equal, true) => same = Some(step),
                (Ordering::Greater, true) => deeper.push(step),
                (Ordering::Less, true) => shallower.push(step),
                (Ordering::Equal, false) => sizes.push(step),
                _ => {}
            }
        }
        let paces = case.median(|trial| Some(pace::of(trial, Nanos(0))?.rate));
        let measured = paces.or_else(|| case.metric(Metric::Iops)).or(same.map(|step| step.ops.rate));
        let measured = measured.filter(|rate| *rate > 0.0)?;
        Some(Rungs {
            same,
            deeper,
            shallower,
            sizes,
            untold,
            base: same.map_or(measured, |step| step.ops.rate),
            error: same.map_or(0.0, |step| step.ops.error),
            measured,
            counted: case.metric(Metric::Iops).unwrap_or(measured),
            kept: f64::from(kept).max(1.0),
        })
    }

    /// The highest of the trials' rates and that of the rung that repeats them: a gain is what more in flight have over all, for any may have
    /// had a bad moment.
    pub fn reference(&self) -> f64 {
        self.base.max(self.measured).max(self.counted)
    }

    /// What as many in flight as in the trials have, of the trials and of the rung that repeats them: their geometric mean, for either may be the one
    /// that had a bad moment.
    pub fn as_many(&self) -> f64 {
        (self.base * self.measured.max(self.counted)).sqrt()
    }

    /// What the rate with as many in flight as in `step` is over that of the trials where each doubling gains `by_doubling`.
    pub fn needed(&self, step: &Step<'_>, by_doubling: f64) -> f64 {
        1.0 + (by_doubling - 1.0) * (f64::from(step.rung.in_flight) / self.kept).log2()
    }

    /// Rate of the rung that repeats the trials over theirs; 1 where there is none.
    pub fn repeated(&self) -> f64 {
        self.base / self.measured
    }

    /// Whether the rung that repeats the trials had about their rate, so that others can be held against both.
    pub fn repeat(&self) -> bool {
        self.base.max(self.measured) <= self.may_differ() * self.base.min(self.measured)
    }

    /// The factor between the two up to which that is so.
    pub fn may_differ(&self) -> f64 {
        if self.is_sure() { REPEATS_OF_SEVERAL } else { REPEATS }
    }

    /// Whether the rung that repeats the trials ran so often that its rate is no chance.
    fn is_sure(&self) -> bool {
        self.same.is_some_and(|step| step.runs > 2)
    }

    /// Every rung of the trials' size, the fewest in flight first.
    pub fn depths(&self) -> Vec<Step<'a>> {
        self.shallower.iter().copied().chain(self.same).chain(self.deeper.iter().copied()).collect()
    }

    /// Rate with as many in flight as in the trials over that of `step`, at least: less one standard error, and never below zero.
    pub fn surely_over(&self, step: &Step<'_>) -> f64 {
        let sure = 1.0 - self.error.hypot(step.ops.error);
        sure.max(0.0) * self.base / step.ops.rate
    }

    /// What more in flight did: they helped where one of them gained `by_doubling` with each doubling beyond what chance
    /// makes of it, over what ran as long as they, over the trials, and over what fewer had done; they did not where none of
    /// them gained that over the slower of the former. Nothing where none ran.
    pub fn more(&self, by_doubling: f64) -> Option<MoreInFlight<'a>> {
        let needed = |step: &Step<'_>| self.needed(step, by_doubling);
        // What fewer have done at least, as many can have done.
        let fewer = self.shallower.iter().map(|step| (1.0 - step.ops.error) * step.low()).fold(0.0, f64::max);
        // A ladder that repeats itself is held against itself.
        let (slower, faster) = match self.is_sure() {
            true => (self.base, self.base),
            false => (self.base.min(self.measured), self.reference()),
        };
        let (slower, faster) = (slower.max(fewer), faster.max(fewer));
        let sure = |step: &Step<'_>| (1.0 - self.error.hypot(step.ops.error)) * step.low();
        let most =
            |of: fn(&Step<'_>) -> f64| self.deeper.iter().max_by(|a, b| of(a).total_cmp(&of(b))).copied();
        let best = most(|step| step.ops.rate)?;
        if self.deeper.iter().any(|step| sure(step) / faster >= needed(step)) {
            // The fewest of those that had about as much done as any.
            let step = *self.deeper.iter().find(|step| step.ops.rate >= best.ops.rate / NO_GAIN)?;
            return Some(MoreInFlight::Helped(step, step.ops.rate / self.reference()));
        }
        let surest = most(|step| step.low())?;
        let flat = self.deeper.iter().all(|step| step.low() / slower < needed(step));
        Some(if self.repeat() && flat {
            MoreInFlight::Flat(surest, surest.low() / slower)
        } else {
            MoreInFlight::Unclear(best, best.ops.rate / self.base)
        })
    }
}
