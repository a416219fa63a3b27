//! The two lines of progress as text.

use ebbtide_analysis::Estimate;
use ebbtide_model::backend::Control;
use ebbtide_model::metric::Metric;
use ebbtide_model::units::{Bytes, format_iops, format_latency, format_throughput};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
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
    Probing {
        /// Design and workload.
        what: String,
    },
    /// Running a trial.
    Trial {
        /// Design and workload.
        what: String,
        /// Number of the trial, from 1.
        number: u32,
        /// Number of the round, from 1.
        round: u32,
        /// Trials in a round.
        round_length: u32,
        /// Least and most rounds.
        rounds: (u32, u32),
        /// The estimate from the trials before this one.
        so_far: Option<(Metric, Estimate)>,
        /// When the first trial began.
        began: Instant,
        /// Time after which no round starts.
        budget: Duration,
    },
    /// Running a job of a benchmark.
    Job {
        what: String,
        /// When it ends.
        goal: Goal,
        /// The counter of bytes when it began.
        done_before: u64,
        /// When it began.
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
    fn follow(&mut self, trial: u32) {
        if self.trial != trial {
            *self = Pace { seen: VecDeque::new(), trial };
        }
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
        match self {
            Activity::Preparing { volumes } => {
                let done = control.prepared.load(Ordering::Relaxed);
                let total = control.prepare_total.load(Ordering::Relaxed);
                let rate = pace.rates(now, done, 0).map(|(rate, _)| rate);
                (format!("filling {volumes} volumes"), filling(done, total, rate))
            }
            Activity::Checking => {
                let done = control.prepared.load(Ordering::Relaxed);
                let total = control.prepare_total.load(Ordering::Relaxed);
                let rate = pace.rates(now, done, 0).map(|(rate, _)| rate);
                ("checking what was acknowledged".to_owned(), filling(done, total, rate))
            }
            Activity::Probing { what } => {
                let ops = control.ops.load(Ordering::Relaxed);
                let bytes = control.bytes.load(Ordering::Relaxed);
                (
                    format!("a moment of more and of less load: {what}"),
                    figures(pace.rates(now, bytes, ops), None),
                )
            }
            Activity::Job { what, goal, done_before, began } => {
                let ops = control.ops.load(Ordering::Relaxed);
                let bytes = control.bytes.load(Ordering::Relaxed);
                let live = pace.rates(now, bytes, ops);
                let left = match goal {
                    Goal::Time(length) => {
                        Some(length.saturating_sub(now.duration_since(*began)).as_secs_f64())
                    }
                    Goal::Bytes(goal) => live.filter(|(rate, _)| *rate > 0.0).map(|(rate, _)| {
                        goal.saturating_sub(bytes.saturating_sub(*done_before)) as f64 / rate
                    }),
                };
                let left = left.map_or_else(String::new, |left| format!(" | {} left", duration(left)));
                (format!("{what}{left}"), figures(live, None))
            }
            Activity::Trial { what, number, round, round_length, rounds, so_far, began, budget } => {
                pace.follow(*number);
                let ops = control.ops.load(Ordering::Relaxed);
                let bytes = control.bytes.load(Ordering::Relaxed);
                let live = pace.rates(now, bytes, ops);
                let least = round_length * rounds.0;
                let most = round_length * rounds.1;
                let of = match (least < most, *number > least) {
                    (false, _) => least.to_string(),
                    (true, false) => format!("{least} to {most}"),
                    (true, true) => format!("at most {most}"),
                };
                let left = time_left(now.duration_since(*began), *number, (least, most), *budget);
                let first = format!("trial {number} of {of}, round {round}: {what} | {left}");
                (first, figures(live, so_far.as_ref()))
            }
        }
    }
}

fn filling(done: u64, total: u64, rate: Option<f64>) -> String {
    let mib = |bytes: u64| bytes / Bytes::MIB;
    let mut text = format!("{} of {} MiB", mib(done), mib(total));
    if let Some(rate) = rate.filter(|rate| *rate > 0.0) {
        let left = total.saturating_sub(done) as f64 / rate;
        text.push_str(&format!(", {}, {} left", format_throughput(rate), duration(left)));
    }
    text
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
            Metric::LatP50 | Metric::LatP99 => format_latency(value),
        };
        let trials = if estimate.trials == 1 { "trial" } else { "trials" };
        let interval = estimate.interval.map_or_else(String::new, |(low, high)| {
            format!(", {:.0}% interval {} to {}", estimate.ci_level * 100.0, shown(low), shown(high))
        });
        parts.push(format!(
            "so far {} median of {} {trials}{interval}",
            shown(estimate.median),
            estimate.trials
        ));
    }
    parts.join(" | ")
}

/// From the pace of the trials until now. Within the least rounds: the time to their end, or at least that where more may
/// follow; after them: the time to the end of the most rounds, or that in which new rounds may begin where it is less.
fn time_left(spent: Duration, number: u32, (least, most): (u32, u32), budget: Duration) -> String {
    let each = spent.as_secs_f64() / f64::from(number.saturating_sub(1).max(1));
    let to = |end: u32| each * f64::from((end + 1).saturating_sub(number));
    if number > least {
        let left = budget.saturating_sub(spent).as_secs_f64().min(to(most));
        return format!("at most about {} left", duration(left));
    }
    if number < 3 {
        return "time left unknown".to_owned();
    }
    let bound = if least < most { "at least" } else { "about" };
    format!("{bound} {} left", duration(to(least)))
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
        let minute = Duration::from_secs(60);
        assert_eq!(time_left(minute, 11, (20, 40), 2 * minute), "at least 1 min 00 s left");
        assert_eq!(time_left(minute, 11, (20, 20), 2 * minute), "about 1 min 00 s left");
        assert_eq!(time_left(minute, 21, (20, 80), 2 * minute), "at most about 1 min 00 s left");
        // Three trials of the most rounds are left, whatever the budget.
        assert_eq!(time_left(minute, 21, (20, 23), 7 * minute), "at most about 9 s left");
        assert_eq!(filling(0, 0, None), "0 of 0 MiB");
        assert_eq!(filling(1 << 30, 2 << 30, Some(1e9)), "1024 of 2048 MiB, 1.00 GB/s, 1 s left");
    }
}
