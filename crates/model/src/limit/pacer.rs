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

/// The longest stop for the network. Half a second is promised, and waking takes its time on a busy host: servers and clients
/// drop connections that say nothing for some seconds.
pub const LONGEST_SILENCE: Duration = Duration::from_millis(400);
/// The longest stop for an old debt of storage's, in which nobody waits for an answer.
pub const LONGEST_REST: Duration = Duration::from_secs(10);
/// What a stop waits for: as many seconds of the limit.
pub const QUANTUM: f64 = 0.1;
/// What a bucket holds at most of what a program that runs leaves, in seconds of the limit: what it may catch up on.
const CAPACITY: f64 = 0.25;
/// The shortest that a program is let run: less than that and it might not run at all.
const PULSE: Duration = Duration::from_micros(100);
/// Between two looks at a program that runs.
const SHORTEST_RUN: Duration = Duration::from_millis(1);
const LONGEST_RUN: Duration = Duration::from_millis(50);
/// The same in the beginning, when nobody knows how fast the program is.
const FIRST_RUN: Duration = Duration::from_micros(200);
/// The same when it has moved nothing for a time, so that looking at it costs little.
const IDLE_RUN: Duration = Duration::from_millis(4);
/// How long a program is looked at as often as can be, in the beginning and after it moved something.
const BEGINNING: Duration = Duration::from_millis(300);
/// What remains of the fastest that was seen, from look to look: a program that was fast will be again.
const REMEMBERED: f64 = 0.95;

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
    /// What had been moved in the beginning.
    begun: f64,
    /// What was moved since the program was let run the last time.
    slice: f64,
    /// The most that was moved beyond what the limit gave until then.
    ahead: f64,
}

impl Bucket {
    /// How much longer a stop lasts that has lasted `stopped_for`.
    fn wait(&self, stopped_for: Duration) -> Duration {
        let missing = self.limit * QUANTUM - self.level;
        let longest = match self.kind {
            Kind::Net => LONGEST_SILENCE,
            _ => LONGEST_REST.max(seconds(self.slice / self.limit)),
        };
        seconds(missing / self.limit).min(longest.saturating_sub(stopped_for))
    }

    /// How long it lasts at this rate.
    fn lasts_at(&self, rate: f64) -> Duration {
        if self.level > 0.0 && rate <= 0.0 { A_DAY } else { seconds(self.level / rate) }
    }
}

/// More than anything is waited for.
const A_DAY: Duration = Duration::from_secs(86_400);

/// At least nothing, at most a day.
fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.max(0.0).min(A_DAY.as_secs_f64()))
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
        let bucket = |(kind, limit): (Kind, u64)| {
            let (limit, begun) = (limit.max(1) as f64, moved[kind] as f64);
            Bucket { kind, limit, level: limit * QUANTUM, fastest: 0.0, begun, slice: 0.0, ahead: 0.0 }
        };
        Pacer {
            buckets: limits.set().map(bucket).collect(),
            at: Duration::ZERO,
            moved,
            held: None,
            ran: true,
            busy: Duration::ZERO,
        }
    }

    /// What could be moved of `kind` at once, in seconds of its limit; less than nothing is a debt.
    pub fn ahead(&self, kind: Kind) -> Option<f64> {
        let bucket = self.of(kind)?;
        Some(bucket.level / bucket.limit)
    }

    /// What was moved of `kind` at one time beyond all that the limit had given until then: a burst.
    pub fn burst(&self, kind: Kind) -> Option<u64> {
        self.of(kind).map(|bucket| bucket.ahead as u64)
    }

    fn of(&self, kind: Kind) -> Option<&Bucket> {
        self.buckets.iter().find(|bucket| bucket.kind == kind)
    }

    /// What to do when `moved` was counted `at` this time after the beginning. What falls for a moment is what it was.
    pub fn next(&mut self, at: Duration, moved: Counts) -> Step {
        let passed = at.saturating_sub(self.at).as_secs_f64();
        let more = moved.minus(self.moved);
        (self.at, self.moved) = (at, self.moved.with(moved, u64::max));
        for bucket in &mut self.buckets {
            let (more, all) = (more[bucket.kind] as f64, moved[bucket.kind] as f64);
            let filled = bucket.level + bucket.limit * passed;
            // What a stop gave that lasted longer than it was asked to, on a busy host, the program could not use: it stays.
            bucket.level =
                if self.ran { filled.min(bucket.level.max(bucket.limit * CAPACITY)) } else { filled } - more;
            if self.ran && passed > 0.0 {
                bucket.fastest = (bucket.fastest * REMEMBERED).max(more / passed);
            }
            bucket.slice = if self.ran { more } else { bucket.slice + more };
            bucket.ahead = bucket.ahead.max(all - bucket.begun - bucket.limit * at.as_secs_f64());
            if more > 0.0 {
                self.busy = at;
            }
        }
        let stopped_for = self.held.map(|since| at.saturating_sub(since));
        let wait = self.buckets.iter().map(|bucket| bucket.wait(stopped_for.unwrap_or_default())).max();
        let wait = wait.unwrap_or_default();
        let goes_on = match stopped_for {
            Some(_) => wait.is_zero(),
            None => self.buckets.iter().all(|bucket| bucket.level > 0.0),
        };
        self.ran = goes_on;
        if goes_on {
            let least = |rate: fn(&Bucket) -> f64| self.buckets.iter().map(|b| b.lasts_at(rate(b))).min();
            let surely = least(|bucket| bucket.fastest).unwrap_or(LONGEST_RUN);
            if surely < SHORTEST_RUN {
                self.held = Some(at);
                return Step::Pulse(surely.max(PULSE));
            }
            let perhaps = least(|bucket| bucket.fastest.max(bucket.kind.presumed())).unwrap_or(LONGEST_RUN);
            self.held = None;
            // How fast it is nobody knows at first, and loopback moves a hundredth of a second's worth of any limit in a moment.
            let (shortest, longest) = match at {
                _ if at < BEGINNING => (FIRST_RUN, SHORTEST_RUN),
                _ if at.saturating_sub(self.busy) < BEGINNING => (SHORTEST_RUN, LONGEST_RUN),
                _ => (IDLE_RUN, LONGEST_RUN),
            };
            return Step::Run(perhaps.clamp(shortest, longest));
        }
        self.held.get_or_insert(at);
        // A wait that rounds to nothing would spin.
        Step::Hold(wait.max(Duration::from_micros(100)))
    }
}
