//! When a program has to stop so that it moves no more than it may.
//!
//! Each limited kind has a bucket that fills at the limit. What was moved is taken out when it is counted, which is after the
//! fact, so a bucket may be in debt, without a bound. The program stops when one is empty and goes on when each holds a
//! [`QUANTUM`]: whatever happens between two looks, in the long run the rate is the limit. A stop for the network ends after
//! [`LONGEST_SILENCE`], one for storage after [`LONGEST_REST`]; what is owed then stays owed, and the program runs for as short
//! as can be before it stops again. A stop for storage lasts longer where what passed before it is worth more: so a debt
//! never grows by more than what passes at a time.

use super::{Counts, Kind, Limits};
use std::time::Duration;

/// The longest stop for the network: servers and clients drop connections that say nothing for some seconds.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(1);
/// The longest stop for an old debt of storage's, in which nobody waits for an answer.
pub const LONGEST_REST: Duration = Duration::from_secs(10);
/// What a stop waits for: as many seconds of the limit.
const QUANTUM: f64 = 0.1;
/// What a bucket holds at most of what a program leaves, in seconds of the limit, where it ran and where it stood still. A stop
/// that lasts longer than it was asked to, on a busy host, gives what the program could not use; one of somebody else's does not.
const CAPACITY: (f64, f64) = (0.25, 1.0);
/// The shortest that a program is let run: less than that and it might not run at all.
const PULSE: Duration = Duration::from_micros(100);
/// Between two looks at a program that runs.
const SHORTEST_RUN: Duration = Duration::from_millis(1);
const LONGEST_RUN: Duration = Duration::from_millis(50);
/// The same when it has moved nothing for a time, so that looking at it costs little.
const IDLE_RUN: Duration = Duration::from_millis(4);
/// For how long it is looked at as often as can be after it moved something.
const BUSY: Duration = Duration::from_millis(300);
/// What remains of the fastest that was seen, from look to look: a program that was fast will be again.
const REMEMBERED: f64 = 0.95;
/// More bytes than a program moves in a second on common hardware: what has not been seen to be slower may be this fast.
const PRESUMED: f64 = 1e9;

/// What the program is to do now, and for how long before the next look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Runs until the next look.
    Run(Duration),
    /// It runs and stops again without a look in between, which would take longer.
    Pulse(Duration),
    /// Is stopped until the next look.
    Hold(Duration),
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    kind: Kind,
    /// Limit per second.
    limit: f64,
    /// Less than nothing is a debt.
    level: f64,
    /// The most that was moved in a second of running, lately.
    fastest: f64,
    /// What was moved since the program was let run the last time.
    slice: f64,
}

impl Bucket {
    /// How much longer a stop lasts that has lasted `stopped_for`.
    fn wait(&self, stopped_for: Duration) -> Duration {
        let longest = match self.kind {
            Kind::Net => LONGEST_SILENCE,
            _ => LONGEST_REST.max(seconds(self.slice / self.limit)),
        };
        seconds(QUANTUM - self.level / self.limit).min(longest.saturating_sub(stopped_for))
    }

    /// How long it lasts at this rate.
    fn lasts_at(&self, rate: f64) -> Duration {
        if rate > 0.0 { seconds(self.level / rate) } else { LONGEST_RUN }
    }
}

/// At least nothing, at most a day.
fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.clamp(0.0, 86_400.0))
}

/// Decides about stops from what was counted.
#[derive(Debug, Clone)]
pub struct Pacer {
    buckets: Vec<Bucket>,
    /// When counts were last looked at, since the beginning.
    at: Duration,
    moved: Counts,
    /// Since when the program is stopped.
    held: Option<Duration>,
    /// Whether it ran since the last look.
    ran: bool,
    /// When it moved something last.
    busy: Duration,
}

impl Pacer {
    /// For a program that has moved `moved` at the beginning and runs.
    pub fn new(limits: &Limits, moved: Counts) -> Pacer {
        let bucket = |(kind, _, limit): (Kind, &str, u64)| {
            let limit = limit.max(1) as f64;
            Bucket { kind, limit, level: limit * QUANTUM, fastest: 0.0, slice: 0.0 }
        };
        let buckets = limits.set().map(bucket).collect();
        Pacer { buckets, at: Duration::ZERO, moved, held: None, ran: true, busy: Duration::ZERO }
    }

    /// What to do when `moved` was counted `at` this time after the beginning. What falls for a moment is what it was.
    pub fn next(&mut self, at: Duration, moved: Counts) -> Step {
        let passed = at.saturating_sub(self.at).as_secs_f64();
        let more = moved.minus(self.moved);
        (self.at, self.moved) = (at, self.moved.with(moved, u64::max));
        for bucket in &mut self.buckets {
            let more = more[bucket.kind] as f64;
            let capacity = bucket.limit * if self.ran { CAPACITY.0 } else { CAPACITY.1 };
            let filled = bucket.level + bucket.limit * passed;
            bucket.level = filled.min(bucket.level.max(capacity)) - more;
            if self.ran && passed > 0.0 {
                bucket.fastest = (bucket.fastest * REMEMBERED).max(more / passed);
            }
            bucket.slice = if self.ran { more } else { bucket.slice + more };
            if more > 0.0 {
                self.busy = at;
            }
        }
        let stopped_for = self.held.map(|since| at.saturating_sub(since));
        let wait = self.buckets.iter().map(|bucket| bucket.wait(stopped_for.unwrap_or_default())).max();
        let wait = wait.unwrap_or_default();
        self.ran = match stopped_for {
            Some(_) => wait.is_zero(),
            None => self.buckets.iter().all(|bucket| bucket.level > 0.0),
        };
        if !self.ran {
            self.held.get_or_insert(at);
            // A wait that rounds to nothing would spin.
            return Step::Hold(wait.max(PULSE));
        }
        let least = |presumed: f64| {
            let lasts = self.buckets.iter().map(|bucket| bucket.lasts_at(bucket.fastest.max(presumed)));
            lasts.min().unwrap_or(LONGEST_RUN)
        };
        let surely = least(0.0);
        if surely < SHORTEST_RUN {
            self.held = Some(at);
            return Step::Pulse(surely.max(PULSE));
        }
        self.held = None;
        let shortest = if at.saturating_sub(self.busy) < BUSY { SHORTEST_RUN } else { IDLE_RUN };
        Step::Run(least(PRESUMED).clamp(shortest, LONGEST_RUN))
    }
}
