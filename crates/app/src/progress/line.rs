//! The two lines of progress as text.

use ebbtide_analysis::Estimate;
use ebbtide_analysis::evidence::value_of;
use ebbtide_model::backend::Control;
use ebbtide_model::metric::Metric;
use ebbtide_model::units::{Bytes, format_count, format_iops, format_throughput};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Live rates look back this far.
const WINDOW: Duration = Duration::from_secs(1);

/// What a session is doing.
#[derive(Debug, Clone)]
pub enum Activity {
    /// Making and filling volumes.
    Preparing { volumes: usize },
    /// Reading what was written, to prove that it is there.
    Checking,
    /// Looking for a moment at more and at less load, after the last trial.
    Probing { what: String },
    Trial {
        what: String,
        /// Number of the trial, from 1.
        number: u32,
        /// Number of the round, from 1.
        round: u32,
        /// Trials in a round.
        round_length: u32,
        /// Of a race: designs that are left, all of them, and the share of the most trials that it may take.
        race: Option<(usize, usize, f64)>,
        /// Least and most rounds.
        rounds: (u32, u32),
        /// The estimate from the trials before this one.
        so_far: Option<(Metric, Estimate)>,
        /// When the first trial began.
        began: Instant,
        /// When this one did.
        trial_began: Instant,
        /// Time after which no round starts.
        budget: Duration,
    },
    /// Running a job of a benchmark.
    Job {
        what: String,
        /// What the session ends by, as far as it is known.
        goal: Goal,
        /// The counter of bytes when it began.
        done_before: u64,
        began: Instant,
    },
}

/// When a job of a benchmark ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// After this time, warm-up included.
    Time(Duration),
    /// After this many bytes.
    Bytes(u64),
}

/// Rates from counters that are read now and then.
#[derive(Debug, Default)]
pub struct Pace {
    seen: VecDeque<(Instant, u64, u64)>,
    /// The trial that they belong to.
    trial: u32,
}

impl Pace {
    /// Forgets what belongs to another trial than `trial`.
    fn follow(&mut self, trial: u32) -> &mut Pace {
        if self.trial != trial {
            *self = Pace { seen: VecDeque::new(), trial };
        }
        self
    }

    /// Per second over the last [`WINDOW`], of two counters that start anew now and then.
    fn rates(&mut self, now: Instant, first: u64, second: u64) -> Option<(f64, f64)> {
        if self.seen.back().is_some_and(|&(_, a, b)| first < a || second < b) {
            self.seen.clear();
        }
        self.seen.push_back((now, first, second));
        while self.seen.len() > 2 && now.duration_since(self.seen[0].0) > WINDOW {
            self.seen.pop_front();
        }
        let (then, a, b) = self.seen[0];
        let seconds = now.duration_since(then).as_secs_f64();
        (seconds > 0.05).then(|| ((first - a) as f64 / seconds, (second - b) as f64 / seconds))
    }
}

impl Activity {
    /// What is running, and how it is going.
    pub fn lines(&self, control: &Control, pace: &mut Pace) -> (String, String) {
        let now = Instant::now();
        let counted = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (done, total) = (counted(&control.prepared), counted(&control.prepare_total));
        let (bytes, ops) = (counted(&control.bytes), counted(&control.ops));
        let live = match self {
            Activity::Preparing { .. } | Activity::Checking => pace.rates(now, done, 0),
            Activity::Trial { number, .. } => pace.follow(*number).rates(now, bytes, ops),
            Activity::Probing { .. } | Activity::Job { .. } => pace.rates(now, bytes, ops),
        };
        let rate = live.map(|(rate, _)| rate).filter(|rate| *rate > 0.0);
        match self {
            Activity::Preparing { volumes } => {
                (format!("filling {}", format_count(*volumes as u64, "volume")), filling(done, total, rate))
            }
            Activity::Checking => ("checking acknowledged writes".to_owned(), filling(done, total, rate)),
            Activity::Probing { what } => {
                (format!("short runs with more and less load: {what}"), figures(live, None))
            }
            Activity::Job { what, goal, done_before, began } => {
                let left = match goal {
                    Goal::Time(length) => {
                        Some(length.saturating_sub(now.duration_since(*began)).as_secs_f64())
                    }
                    Goal::Bytes(goal) => {
                        let left = goal.saturating_sub(bytes.saturating_sub(*done_before));
                        rate.map(|rate| left as f64 / rate)
                    }
                };
                let left = left.map_or_else(String::new, |left| format!(" | {} left", duration(left)));
                (format!("{what}{left}"), figures(live, None))
            }
            Activity::Trial {
                what,
                number,
                round,
                round_length,
                rounds,
                race: Some((left, of, share)),
                so_far,
                began,
                trial_began,
                budget,
            } => {
                let most = (f64::from(*round_length) * f64::from(rounds.1) * share).ceil() as u32;
                let time =
                    duration(most_left(Spent::until(now, *began, *trial_began), *number, most, *budget));
                let first = format!(
                    "trial {number}, round {round}, {left} of {of} designs left: {what} | at most about {time} left"
                );
                (first, figures(live, so_far.as_ref()))
            }
            Activity::Trial {
                what,
                number,
                round,
                round_length,
                rounds,
                so_far,
                began,
                trial_began,
                budget,
                race: None,
            } => {
                let least = round_length * rounds.0;
                let most = round_length * rounds.1;
                let of = match (least < most, *number > least) {
                    (false, _) => least.to_string(),
                    (true, false) => format!("{least} to {most}"),
                    (true, true) => format!("at most {most}"),
                };
                let left =
                    time_left(Spent::until(now, *began, *trial_began), *number, (least, most), *budget);
                let first = format!("trial {number} of {of}, round {round}: {what} | {left}");
                (first, figures(live, so_far.as_ref()))
            }
        }
    }
}

fn filling(done: u64, total: u64, rate: Option<f64>) -> String {
    let mib = |bytes: u64| bytes / Bytes::MIB;
    let left = total.saturating_sub(done) as f64;
    let how = rate.map(|rate| format!(", {}, {} left", format_throughput(rate), duration(left / rate)));
    format!("{} of {} MiB{}", mib(done), mib(total), how.unwrap_or_default())
}

/// The live rate, and the median of the trials before with its interval.
fn figures(live: Option<(f64, f64)>, so_far: Option<&(Metric, Estimate)>) -> String {
    let mut parts = Vec::new();
    if let Some((bytes, ops)) = live {
        parts.push(format!("now {}, {} ops/s", format_throughput(bytes), format_iops(ops)));
    }
    if let Some((metric, estimate)) = so_far {
        let shown = |value: f64| match metric {
            Metric::Throughput => format_throughput(value),
            Metric::Iops => format!("{} ops/s", format_iops(value)),
            metric => value_of(*metric, value),
        };
        let interval = estimate.interval.map_or_else(String::new, |(low, high)| {
            format!(", {:.0}% interval {} to {}", estimate.ci_level * 100.0, shown(low), shown(high))
        });
        parts.push(format!(
            "so far {} median of {}{interval}",
            shown(estimate.median),
            format_count(estimate.trials.into(), "trial")
        ));
    }
    parts.join(" | ")
}

/// Time that trials took.
#[derive(Debug, Clone, Copy)]
struct Spent {
    /// Those that have ended.
    ended: Duration,
    /// The one that runs.
    running: Duration,
}

impl Spent {
    fn until(now: Instant, began: Instant, trial_began: Instant) -> Spent {
        Spent { ended: trial_began.duration_since(began), running: now.duration_since(trial_began) }
    }
}

/// From the pace of the trials until now. Within the least rounds: the time to their end, or at least that where more may
/// follow; after them: the time to the end of the most rounds, or that in which new rounds may begin where it is less.
fn time_left(spent: Spent, number: u32, (least, most): (u32, u32), budget: Duration) -> String {
    if number > least {
        return format!("at most about {} left", duration(most_left(spent, number, most, budget)));
    }
    if number < 3 {
        return "time left unknown".to_owned();
    }
    let bound = if least < most { "at least" } else { "about" };
    format!("{bound} {} left", duration(to(spent, number, least)))
}

/// Seconds from within trial number `number` to the end of trial number `end`, at the pace of those before it.
fn to(spent: Spent, number: u32, end: u32) -> f64 {
    let each = spent.ended.as_secs_f64() / f64::from(number.saturating_sub(1).max(1));
    // One that takes longer than the others is nearly over.
    let this = (each - spent.running.as_secs_f64()).max(0.0);
    if number > end { 0.0 } else { this + each * f64::from(end - number) }
}

/// Seconds until the last of `most` trials ends, or in which new rounds may begin where that is less. Two trials are too few for a pace.
fn most_left(spent: Spent, number: u32, most: u32, budget: Duration) -> f64 {
    let within = budget.saturating_sub(spent.ended + spent.running).as_secs_f64();
    if number < 3 { within } else { within.min(to(spent, number, most)) }
}

/// In the units that people count down in.
fn duration(seconds: f64) -> String {
    let whole = seconds.round().clamp(0.0, 1e9) as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_start_anew_with_their_counters() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut pace = Pace::default();
        assert_eq!(pace.rates(at(0), 0, 0), None);
        assert_eq!(pace.rates(at(500), 500, 50), Some((1000.0, 100.0)));
        assert_eq!(pace.rates(at(2000), 3500, 350), Some((2000.0, 200.0)));
        assert_eq!(pace.rates(at(2100), 10, 1), None, "a new trial");
    }

    #[test]
    fn the_lines_say_what_how_fast_and_how_long() {
        let estimate = Estimate { trials: 6, median: 134e6, interval: Some((133e6, 135e6)), ci_level: 0.95 };
        assert_eq!(
            figures(Some((130e6, 992.0)), Some(&(Metric::Throughput, estimate))),
            "now 130 MB/s, 992 ops/s | so far 134 MB/s median of 6 trials, 95% interval 133 MB/s to 135 MB/s"
        );
        assert_eq!(figures(None, None), "");
        let seconds = Duration::from_secs;
        let budget = |minutes: u64| seconds(60 * minutes);
        // So much for those that have ended, and in this one.
        let spent = |ended: u64, running: u64| Spent { ended: seconds(ended), running: seconds(running) };
        assert_eq!(time_left(spent(60, 0), 11, (20, 40), budget(2)), "at least 1 min 00 s left");
        assert_eq!(time_left(spent(60, 0), 11, (20, 20), budget(2)), "about 1 min 00 s left");
        assert_eq!(time_left(spent(60, 0), 21, (20, 80), budget(2)), "at most about 1 min 00 s left");
        // Three trials of the most rounds are left, whatever the budget.
        assert_eq!(time_left(spent(60, 0), 21, (20, 23), budget(7)), "at most about 9 s left");
        assert_eq!(most_left(spent(60, 0), 21, 30, budget(7)), 30.0);
        assert_eq!(
            (most_left(spent(60, 0), 2, 30, budget(7)), most_left(spent(60, 0), 40, 30, budget(2))),
            (360.0, 0.0)
        );
        // It counts down within a trial, and waits where one takes longer than the others.
        let left = [0, 3, 6, 60].map(|running| to(spent(60, running), 11, 20));
        assert_eq!(left, [60.0, 57.0, 54.0, 54.0]);
        assert_eq!(filling(0, 0, None), "0 of 0 MiB");
        assert_eq!(filling(1 << 30, 2 << 30, Some(1e9)), "1024 of 2048 MiB, 1.00 GB/s, 1 s left");
    }
}
