//! What the collector looks at while a trial runs: whether it is steady by now, and whether it is fast enough.
//!
//! The jobs tell what they did interval by interval, each when its own interval has ended; a step is judged when every job has told
//! of all of it.

use crate::error::EngineError;
use crate::record::Record;
use ebbtide_model::units::Nanos;
use ebbtide_model::workload::{Floor, Moment, SteadyResult, SteadyState, Stop, Workload};
use std::collections::VecDeque;

/// What follows from a step.
#[derive(Debug)]
pub(crate) enum Follows {
    /// The job goes on.
    Nothing,
    /// It is steady: that is enough.
    Steady,
    /// It is slower than it has to be.
    TooSlow(EngineError),
}

/// Intervals put together to steps of the same length.
#[derive(Debug)]
struct Steps {
    /// Intervals before the first step.
    skipped: u64,
    /// Intervals of a step.
    length: u64,
    /// Steps that were taken.
    taken: u64,
    /// Intervals after those, which no step has taken yet.
    open: VecDeque<Moment>,
}

impl Steps {
    fn new(ramp: Nanos, step: Nanos, interval: Nanos) -> Steps {
        let interval = interval.0.max(1);
        Steps {
            skipped: ramp.0.div_ceil(interval),
            length: (step.0 / interval).max(1),
            taken: 0,
            open: VecDeque::new(),
        }
    }

    fn add(&mut self, interval: u64, done: Moment) {
        let Some(after) = interval.checked_sub(self.skipped) else { return };
        // All jobs have told of what was taken.
        let Some(index) = (after / self.length).checked_sub(self.taken) else { return };
        let index = index as usize;
        if self.open.len() <= index {
            self.open.resize(index + 1, Moment::default());
        }
        self.open[index] = self.open[index].plus(done);
    }

    /// The next step, once every interval below `told` was told of.
    fn take(&mut self, told: u64) -> Option<Moment> {
        if told < self.skipped + (self.taken + 1) * self.length {
            return None;
        }
        self.taken += 1;
        Some(self.open.pop_front().unwrap_or_default())
    }

    /// When the last step that was taken began and ended, from the start of the measurement.
    fn last(&self, interval: Nanos) -> (Nanos, Nanos) {
        let at = |steps: u64| interval.times(self.skipped + steps * self.length);
        (at(self.taken.saturating_sub(1)), at(self.taken))
    }
}

/// Looks at what all jobs did, step by step.
#[derive(Debug)]
pub(crate) struct StepWatcher {
    interval: Nanos,
    /// The measured time, where that ends the trial.
    runtime: Option<Nanos>,
    /// The window in which it became steady.
    attained: Option<SteadyResult>,
    /// Of each job's thread, the interval before which it has told of everything.
    told: Vec<u64>,
    /// Whether a thread has ended: what the others still do is not what was asked for.
    ended: bool,
    steady: Option<(SteadyState, Steps, VecDeque<Moment>)>,
    floor: Option<(Floor, Steps)>,
}

impl StepWatcher {
    /// For the `threads` of `workload`'s jobs; nothing where nothing is looked at.
    pub(crate) fn of(workload: &Workload, threads: usize) -> Option<StepWatcher> {
        let (steady, floor, interval) =
            (workload.conditions.steady, workload.conditions.floor, workload.series_interval());
        if steady.is_none() && floor.is_none() {
            return None;
        }
        let runtime = if let Stop::Runtime(runtime) = workload.stop { Some(runtime) } else { None };
        Some(StepWatcher {
            interval,
            runtime,
            attained: None,
            told: vec![0; threads],
            ended: false,
            steady: steady
                .map(|steady| (steady, Steps::new(steady.ramp, steady.interval, interval), VecDeque::new())),
            floor: floor.map(|floor| (floor, Steps::new(Nanos(0), floor.cycle, interval))),
        })
    }

    /// A thread has ended.
    pub(crate) fn ended(&mut self) {
        self.ended = true;
    }

    /// What follows from what thread number `thread` did in an interval, its `last` one: that is a whole one only where the time
    /// that ends the trial does.
    pub(crate) fn saw(&mut self, thread: usize, record: &Record, last: bool) -> Follows {
        let Some(interval) = record.interval else { return Follows::Nothing };
        let whole = !last || self.runtime.is_some_and(|runtime| self.interval.times(interval + 1) <= runtime);
        if !whole || self.attained.is_some() {
            return Follows::Nothing;
        }
        let (counts, latency) = (record.array.counts().total(), &record.array.latency);
        let sum = latency.read.sum().saturating_add(latency.write.sum());
        let done = Moment { ops: counts.ops, bytes: counts.bytes, latency: sum };
        if let Some(told) = self.told.get_mut(thread) {
            *told = interval + 1;
        }
        let told = self.told.iter().copied().min().unwrap_or(0);
        if let Some((_, steps)) = &mut self.floor {
            steps.add(interval, done);
        }
        if let Some((_, steps, _)) = &mut self.steady {
            steps.add(interval, done);
        }
        if self.ended { Follows::Nothing } else { self.judge(told) }
    }

    fn judge(&mut self, told: u64) -> Follows {
        if let Some((floor, steps)) = &mut self.floor {
            while let Some(done) = steps.take(told) {
                if let Some((seen, option)) = floor.missed(done.ops, done.bytes) {
                    let (from, until) = steps.last(self.interval);
                    return Follows::TooSlow(EngineError::TooSlow { seen, option, from, until });
                }
            }
        }
        if let Some((steady, steps, window)) = &mut self.steady {
            while let Some(done) = steps.take(told) {
                window.push_back(done);
                if window.len() > steady.measurements() {
                    window.pop_front();
                }
                let seen = steady.judge(window.iter().copied().collect());
                if seen.attained {
                    self.attained = Some(seen);
                    return Follows::Steady;
                }
            }
        }
        Follows::Nothing
    }

    /// What the last window showed, where a steady state was waited for.
    pub(crate) fn steadied(&self) -> Option<SteadyResult> {
        if self.attained.is_some() {
            return self.attained.clone();
        }
        let (steady, _, window) = self.steady.as_ref()?;
        Some(steady.judge(window.iter().copied().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::units::Bytes;
    use ebbtide_model::workload::{Access, Criterion, Mix, OpKind, SteadyMetric, Stop};

    const MS: Nanos = Nanos::from_millis(1);

    fn workload() -> Workload {
        Workload::new("w", Access::Random, Mix::Read, Stop::Runtime(Nanos::from_secs(9)))
    }

    /// A record of `ops` operations in interval number `interval`.
    fn record(interval: u64, ops: u64) -> Record {
        let mut record = Record::new(0, false);
        record.interval = Some(interval);
        (0..ops).for_each(|_| record.array.record(OpKind::Read, MS, Bytes(4096)));
        record
    }

    #[test]
    fn a_step_is_judged_when_every_thread_has_told_of_all_of_it() {
        let mut workload = workload();
        let cycle = Nanos::from_millis(200);
        workload.conditions.floor = Some(Floor { throughput: None, iops: Some(100.0), cycle });
        assert_eq!(workload.series_interval(), Nanos::from_millis(200));
        workload.conditions.floor =
            Some(Floor { throughput: None, iops: Some(100.0), cycle: cycle.plus(cycle.times(2)) });
        let mut looking = StepWatcher::of(&workload, 2).expect("looks");
        // 600 ms are three intervals of 200 ms; 60 operations are 100 per second.
        for (thread, interval, ops) in [(0, 0, 10), (0, 1, 10), (0, 2, 10), (1, 0, 29)] {
            assert!(
                matches!(looking.saw(thread, &record(interval, ops), false), Follows::Nothing),
                "{thread} {interval}"
            );
        }
        // The second thread did nothing in interval 1, and one operation less than it had to.
        let Follows::TooSlow(error) = looking.saw(1, &record(2, 0), false) else { panic!("59 are too few") };
        assert_eq!(
            error.to_string(),
            "from 0ns to 600ms it was 98.3 IOPS, less than 100 IOPS (rate_iops_min)"
        );
        let mut enough = StepWatcher::of(&workload, 1).expect("looks");
        for interval in 0..6 {
            assert!(matches!(enough.saw(0, &record(interval, 20), false), Follows::Nothing));
        }
        // The last interval is judged where the runtime, 9 s, ends with it, and not where it was cut short.
        assert!(matches!(enough.saw(0, &record(6, 20), false), Follows::Nothing));
        assert!(matches!(enough.saw(0, &record(7, 20), false), Follows::Nothing));
        assert!(matches!(enough.saw(0, &record(46, 0), true), Follows::Nothing));
        // A thread that has ended does not do what was asked for.
        enough.ended();
        assert!(matches!(enough.saw(0, &record(11, 0), false), Follows::Nothing));
    }

    #[test]
    fn it_is_enough_once_the_last_window_is_steady() {
        let mut workload = workload();
        workload.conditions.steady = Some(SteadyState {
            criterion: Criterion { metric: SteadyMetric::Iops, slope: false, limit: 10.0, percent: true },
            window: Nanos::from_millis(600),
            ramp: Nanos::from_millis(200),
            interval: Nanos::from_millis(200),
        });
        let mut looking = StepWatcher::of(&workload, 1).expect("looks");
        // The first is not looked at; 50, 100, 100 differ, 100, 100, 95 do not.
        for (interval, ops) in [(0, 7), (1, 50), (2, 100), (3, 100)] {
            assert!(matches!(looking.saw(0, &record(interval, ops), false), Follows::Nothing), "{interval}");
        }
        assert!(looking.steadied().is_some_and(|seen| !seen.attained && seen.moments.len() == 3));
        assert!(matches!(looking.saw(0, &record(4, 95), false), Follows::Steady));
        assert!(looking.steadied().is_some_and(|seen| seen.attained && seen.moments[2].ops == 95));
        // What the jobs do until they notice is not looked at any more.
        assert!(matches!(looking.saw(0, &record(5, 1), false), Follows::Nothing));
        assert!(looking.steadied().is_some_and(|seen| seen.attained && seen.moments[2].ops == 95));
    }
}
