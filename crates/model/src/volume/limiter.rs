//! A rate limit with burst credits, as virtual scheduling (GCRA, ITU-T I.371 annex A) that delays
//! instead of dropping.
//!
//! Each amount taken gets a *slot* on the limit's own time axis, as long as the amount takes at the limit's
//! rate; slots follow each other without gaps while the caller keeps up. A caller that comes late (a timer
//! that fired late, a thread that was not scheduled) may fill slots of the past, [`TOLERANCE`] of them at
//! most, so lateness does not cost capacity. The price: after a pause, `rate × TOLERANCE` can pass at once.
//! One that comes alone passes at once whatever the rate, as through the kernel's and the clouds' limits: its slot has passed.
//! A limit starts with that one and without the other reserve, so it is no excess at the start of a trial; in any window of
//! length t at most `rate × (t + TOLERANCE)` and one more completes, 0.1% too much over 10 s.
//!
//! With credits there are two axes: one at `burst_rate`, and one at `rate` that may run ahead of the
//! clock by as much time as the credits are worth. That is gp2's bucket: it starts full, earns `rate` per
//! second up to the cap, pays one credit per operation, and at `burst_rate` lasts
//! `credits / (burst_rate - rate)` seconds.

use super::Limit;
use crate::units::{Instant, Nanos};

/// How far behind the clock a limit's slots may begin.
pub const TOLERANCE: Nanos = Nanos::from_millis(10);

/// Slots on one time axis.
#[derive(Debug, Clone)]
struct Axis {
    nanos_per_unit: f64,
    /// How far the axis may run ahead of the clock without delaying anybody.
    ahead: Nanos,
    /// How far it is ahead when the first slot is asked for.
    spent: Nanos,
    /// End of the last slot; none before the first.
    end: Option<Instant>,
    /// Part of a nanosecond that `end` is short of, so that rates are exact over any number of slots.
    rest: f64,
}

impl Axis {
    fn new(rate: f64, credits: f64, share: f64) -> Self {
        // A rate that is not positive never lets anything through; the experiment's check refuses it earlier.
        // Finite, since a request may cost nothing: nothing times no end would be no number.
        let nanos_per_unit = if rate > 0.0 { (1e9 / rate).min(f64::MAX) } else { f64::MAX };
        let ahead = if rate > 0.0 && credits > 0.0 { (credits * nanos_per_unit) as u64 } else { 0 };
        let spent = (ahead as f64 * (1.0 - share.clamp(0.0, 1.0))) as u64;
        Axis { nanos_per_unit, ahead: Nanos(ahead), spent: Nanos(spent), end: None, rest: 0.0 }
    }

    /// The slot of `amount` asked for at `now`, as the clock sees it.
    #[inline]
    fn take(&mut self, now: Instant, amount: f64) -> Slot {
        let exact = amount * self.nanos_per_unit + self.rest;
        let whole = exact as u64;
        self.rest = exact - whole as f64;
        let length = Nanos(whole);
        let (begin, end) = match self.end {
            Some(end) => {
                let begin = end.max(now - TOLERANCE.max(length));
                (begin, begin + length)
            }
            // Nobody came before: a slot has passed.
            None if self.spent == Nanos(0) => (now - length, now),
            None => (now + self.spent, now + self.spent + length),
        };
        self.end = Some(end);
        Slot { begin: begin - self.ahead, end: end - self.ahead }
    }

    /// How far the end moved since `earlier`, a state of the same axis one cell ago: as far as the clock where there
    /// are no credits, or none left.
    fn moved(&self, earlier: &Axis, now: Instant, cell: Nanos) -> Nanos {
        match (self.end, earlier.end) {
            (Some(end), Some(before)) if self.ahead > end - now => end - before,
            _ => cell,
        }
    }

    fn leap(&mut self, earlier: &Axis, now: Instant, cells: u64, cell: Nanos) {
        let moved = self.moved(earlier, now, cell);
        self.end = self.end.map(|end| end + moved.times(cells));
    }
}

/// When an amount may begin and when it has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    /// Begin; may lie before the instant it was asked for.
    pub(super) begin: Instant,
    pub(super) end: Instant,
}

/// The state of a [`Limit`].
#[derive(Debug, Clone)]
pub struct Limiter {
    sustained: Axis,
    /// Present where the limit bursts.
    peak: Option<Axis>,
    rate: f64,
    credits_max: f64,
    scale: f64,
}

impl Limiter {
    /// A fresh limit with `share` (0 to 1) of its credits.
    pub fn with_credits(limit: &Limit, share: f64) -> Self {
        let burst = limit.burst_rate.filter(|burst| *burst > limit.rate && limit.burst_credits > 0.0);
        let credits_max = if burst.is_some() { limit.burst_credits } else { 0.0 };
        Limiter {
            sustained: Axis::new(limit.rate, credits_max, share),
            peak: burst.map(|rate| Axis::new(rate, 0.0, 1.0)),
            rate: limit.rate,
            credits_max,
            scale: 1.0,
        }
    }

    /// Makes the limit `scale` times its rates from now on (a volume's mood); 1 is nominal.
    pub fn set_scale(&mut self, scale: f64) {
        self.scale = if scale > 0.0 { 1.0 / scale } else { f64::MAX };
    }

    /// Takes `amount` (operations or bytes) at `now`.
    #[inline]
    pub(super) fn take(&mut self, now: Instant, amount: f64) -> Slot {
        let amount = amount * self.scale;
        let slot = self.sustained.take(now, amount);
        match &mut self.peak {
            None => slot,
            Some(peak) => {
                let at_peak = peak.take(now, amount);
                if at_peak.end > slot.end { at_peak } else { slot }
            }
        }
    }

    /// How many more cells like the last one pass before credits run out; `earlier` is the state one cell ago.
    pub(super) fn cells_left(&self, earlier: &Limiter, now: Instant, cell: Nanos) -> u64 {
        let axis = &self.sustained;
        let spent = axis.end.map_or(Nanos(0), |end| end - now);
        let per_cell = axis.moved(&earlier.sustained, now, cell).since(cell);
        // Nothing to run out, nothing spent, or run out already.
        if axis.ahead.0 == 0 || per_cell.0 == 0 || spent >= axis.ahead {
            return u64::MAX;
        }
        axis.ahead.since(spent).0 / per_cell.0
    }

    /// Moves `cells` cells ahead in time from `now`, in each of which happens what happened since `earlier`.
    pub(super) fn leap(&mut self, earlier: &Limiter, now: Instant, cells: u64, cell: Nanos) {
        self.sustained.leap(&earlier.sustained, now, cells, cell);
        if let (Some(peak), Some(before)) = (&mut self.peak, &earlier.peak) {
            peak.leap(before, now, cells, cell);
        }
    }

    /// Credits left at `now`, in the limit's unit; absent where the limit does not burst.
    pub fn credits(&self, now: Instant) -> Option<f64> {
        self.peak.as_ref()?;
        let spent = self.sustained.end.map_or(self.sustained.spent, |end| end - now);
        Some((self.credits_max - spent.0 as f64 * 1e-9 * self.rate).max(0.0))
    }

    /// Most credits that can be saved up; 0 where the limit does not burst.
    pub fn credits_max(&self) -> f64 {
        self.credits_max
    }
}
