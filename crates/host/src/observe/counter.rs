//! Counters of the kernel's, read now and then, and what they grew by in between.

use std::time::Duration;

/// A counter over time.
#[derive(Debug, Default)]
pub(super) struct Counter(Vec<(Duration, u64)>);

impl Counter {
    /// Adds what was read at `at`, where it could be.
    pub fn read(&mut self, at: Duration, value: impl Into<Option<u64>>) {
        self.0.extend(value.into().map(|value| (at, value)));
    }

    /// When it was read last.
    pub fn last(&self) -> Option<Duration> {
        self.0.last().map(|(at, _)| *at)
    }

    /// Whether it ever fell: it belongs to something else since.
    pub fn fell(&self) -> bool {
        self.0.windows(2).any(|pair| pair[1].1 < pair[0].1)
    }

    /// What it grew by from `from` to `to`; nothing where it was not read twice.
    pub fn grown(&self, from: Duration, to: Duration) -> Option<f64> {
        (self.0.len() > 1).then(|| (self.value(to) - self.value(from)).max(0.0))
    }

    /// Its value at `at`, between the readings around it; the first before all, the last after.
    fn value(&self, at: Duration) -> f64 {
        let next = self.0.partition_point(|(time, _)| *time < at);
        let before = next.checked_sub(1).and_then(|before| self.0.get(before));
        match (before, self.0.get(next)) {
            (Some((begin, low)), Some((end, high))) => {
                let share = (at - *begin).as_secs_f64() / (*end - *begin).as_secs_f64().max(1e-9);
                *low as f64 + high.saturating_sub(*low) as f64 * share
            }
            (one, other) => one.or(other).map_or(0.0, |(_, value)| *value as f64),
        }
    }
}

/// Adds to several counters what was read of them together, where it could be.
pub(super) fn read_all<const N: usize>(counters: &mut [Counter; N], at: Duration, now: Option<[u64; N]>) {
    for (counter, now) in counters.iter_mut().zip(now.into_iter().flatten()) {
        counter.read(at, now);
    }
}
