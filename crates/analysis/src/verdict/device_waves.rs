//! `device-waves`: a device swings between two speeds by itself.
//!
//! Derivation. An SSD collects garbage when it runs out of erased blocks, and throttles itself when it is hot: under a steady
//! load it is fast and slow in turn, for a while each, and nothing outside of it changes. What is behind a network volume does
//! the like. From outside this is a rate with two levels ([`waves`](crate::waves)) while operations wait at the device, which is
//! busy all the time and takes longer for each, and the processors have time. The rate is the device's own, of all who use it: what
//! it does for others instead is no wave of it. What it does meanwhile is not seen from here; that it does it by itself is.

use crate::estimate::median;
use crate::evidence::{Check, Unit, evidence};
use crate::facts::Facts;
use crate::facts::case::Case;
use crate::facts::standing::{AT_DEVICES, BUSY, HOST_BUSY};
use crate::facts::steps::metric_of;
use crate::judged::{Absent, Basis, Judged, Sure, Verdict, VerdictKind};
use crate::waves::{self, Waves};
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::units::format_latency;

/// Most points of a series; more are put together.
const MAX_POINTS: usize = 200;

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[IN_ALL, COSTS, TAKES_LONGER, WORKS, THERE, CORES];
#[rustfmt::skip]
const IN_ALL: Check = Check::at_least("times that the rate goes down and up again, in all trials", 4.0, Unit::Times, "fewer may be something else");
#[rustfmt::skip]
const COSTS: Check = Check::at_least("share of what the faster level would have done that the slower times cost", 0.10, Unit::Share, "less is not worth looking for");
// Less than the step between the levels makes of it.
#[rustfmt::skip]
const TAKES_LONGER: Check = Check::at_least("time of a request while it is slow over while it is fast", 1.15, Unit::Times, "the device is slower, not asked for less");
#[rustfmt::skip]
const WORKS: Check = Check::at_least("busy share of the device while it is slow", BUSY, Unit::Share, "requests wait for it all the time");
#[rustfmt::skip]
const THERE: Check = Check::at_least("share of the operations in flight that are at the devices", AT_DEVICES, Unit::Share, "what waits elsewhere waits for something else");
#[rustfmt::skip]
const CORES: Check = Check::below("busy share of all cores while it is slow", HOST_BUSY, Unit::Share, "otherwise they may be what is short");

/// What was seen of a device, and of the processors, over a time.
#[derive(Debug, Clone, Copy, Default)]
struct At {
    seconds: f64,
    requests: f64,
    bytes: f64,
    /// Nanoseconds that all requests took.
    time: f64,
    busy: f64,
    weighted: f64,
    cores: f64,
}

impl At {
    fn plus(self, more: At) -> At {
        At {
            seconds: self.seconds + more.seconds,
            requests: self.requests + more.requests,
            bytes: self.bytes + more.bytes,
            time: self.time + more.time,
            busy: self.busy + more.busy,
            weighted: self.weighted + more.weighted,
            cores: self.cores + more.cores,
        }
    }

    /// Nanoseconds that a request takes.
    fn wait(&self) -> f64 {
        self.time / self.requests
    }
}

/// The members' devices of a trial, each from point to point of the observer's series.
fn watched(trial: &TrialSamples) -> Option<Vec<(&str, Vec<At>)>> {
    let observed = trial.observed.as_deref()?;
    let mut devices: Vec<usize> =
        observed.members.iter().filter_map(|m| m.devices.first().copied()).collect();
    devices.sort_unstable();
    devices.dedup();
    let width = observed.series.len().div_ceil(MAX_POINTS).max(1);
    let series = |index: usize| {
        let mut begin = 0.0;
        let at = observed.series.iter().map(|interval| {
            let (used, end) = (interval.devices.get(index)?, interval.end.as_secs_f64());
            let seconds = end - std::mem::replace(&mut begin, end);
            Some(At {
                seconds,
                requests: used.ops.total() as f64,
                bytes: used.bytes.total() as f64,
                time: used.time.read.plus(used.time.write).0 as f64,
                busy: used.busy.as_secs_f64(),
                weighted: used.weighted.as_secs_f64(),
                cores: interval.core_busy.iter().map(|core| core.as_secs_f64()).sum(),
            })
        });
        let at = at.collect::<Option<Vec<At>>>()?;
        let mut points: Vec<At> = at
            .chunks_exact(width)
            .map(|points| points.iter().fold(At::default(), |sum, at| sum.plus(*at)))
            .collect();
        // What is left over at the end of the measurement is no interval.
        let usual = median(points.iter().map(|point| point.seconds)).filter(|usual| *usual > 0.0)?;
        points.retain(|point| point.seconds >= 0.5 * usual);
        Some((observed.devices.get(index)?.shown_name(), points))
    };
    devices.into_iter().map(series).collect::<Option<Vec<_>>>().filter(|devices| !devices.is_empty())
}

/// A trial with its waves, and the device whose requests take most longer while it is slow.
struct Found<'a> {
    waves: Waves,
    name: &'a str,
    fast: At,
    slow: At,
    /// Requests in flight at all devices of members while it was slow.
    queue: f64,
    /// Busy share of all cores meanwhile, where it is known.
    cores: Option<f64>,
    /// Seconds of a point.
    each: f64,
}

impl Found<'_> {
    fn longer(&self) -> f64 {
        self.slow.wait() / self.fast.wait()
    }
}

fn found(trial: &TrialSamples, metric: Metric) -> Option<Found<'_>> {
    let devices = watched(trial)?;
    let rate = |at: &At| if metric == Metric::Throughput { at.bytes } else { at.requests } / at.seconds;
    let points = devices.first()?.1.len();
    let rates: Vec<f64> =
        (0..points).map(|point| devices.iter().map(|(_, at)| rate(&at[point])).sum()).collect();
    let waves = waves::waves(&rates)?;
    let level = |points: &[At], wanted: bool| {
        let at = points.iter().zip(&waves.slow).filter(|(_, slow)| **slow == wanted);
        at.fold(At::default(), |sum, (at, _)| sum.plus(*at))
    };
    let both = devices.iter().map(|(name, points)| (*name, level(points, false), level(points, true)));
    let both: Vec<(&str, At, At)> =
        both.filter(|(_, fast, slow)| fast.requests > 0.0 && slow.requests > 0.0).collect();
    let queue = both.iter().map(|(.., slow)| slow.weighted / slow.seconds).sum();
    let longer = |(_, fast, slow): &(&str, At, At)| slow.wait() / fast.wait();
    let (name, fast, slow) = both.into_iter().max_by(|a, b| longer(a).total_cmp(&longer(b)))?;
    let cores = trial.observed.as_ref()?.cores.len() as f64;
    let cores = (cores > 0.0).then(|| slow.cores / slow.seconds / cores);
    Some(Found { waves, name, fast, slow, queue, cores, each: devices.first()?.1.first()?.seconds })
}

pub(super) fn judge(case: &Case<'_>, _: &Facts<'_>) -> Judged {
    if !case.workload.is_free() || !case.workload.direct {
        return Err(Absent::because(
            "the load is not a steady one: operations come at times of their own, or go through the page cache",
        ));
    }
    if case.result.members.iter().any(|member| case.slowed_by_tool(&member.name)) {
        return Err(Absent::because("the volumes are held to a shape, and not as fast as their devices are"));
    }
    if case.trials.iter().all(|trial| watched(trial).is_none()) {
        return Err(Absent::because("the devices of the members were not observed"));
    }
    let metric = metric_of(case);
    let mut all: Vec<Found<'_>> = case.trials.iter().filter_map(|trial| found(trial, metric)).collect();
    let (told, trials) = (all.len() as f64, case.trials.len() as f64);
    let number = all.iter().map(|found| found.waves.starts.len()).sum::<usize>() as f64;
    if 2.0 * told <= trials || !IN_ALL.holds(number) {
        let absent =
            Absent::because("the devices of the members do not go back and forth between two levels");
        let absent = absent.seen("trials in which they do", told, Unit::Trials, trials / 2.0);
        return Err(absent.with([IN_ALL.missed(number)]));
    }
    let of = |value: &dyn Fn(&Found<'_>) -> f64| median(all.iter().map(value)).unwrap_or(0.0);
    let cost = of(&|found| found.waves.cost);
    let costs = COSTS.require(cost, "the slower times cost little")?;
    let (low, high) = (of(&|found| found.waves.low), of(&|found| found.waves.high));
    let (period, share) =
        (of(&|found| found.waves.period() * found.each), of(&|found| found.waves.slow_share()));
    // What the trial says in which the device takes the middle of times longer.
    all.sort_by(|a, b| a.longer().total_cmp(&b.longer()));
    let seen = &all[all.len() / 2];
    let same = all.iter().filter(|found| found.name == seen.name).count();
    let busy = (seen.slow.busy / seen.slow.seconds).min(1.0);
    let waiting = seen.queue / case.kept().max(1.0);
    if 2 * same <= all.len() {
        return Err(Absent::because("it is another device in each trial that is slow"));
    }
    let checked = [(TAKES_LONGER, seen.longer()), (WORKS, busy), (THERE, waiting)];
    if checked.iter().any(|(check, value)| !check.holds(*value)) {
        let why = "while it is slow, operations do not wait at a device that takes longer for each";
        return Err(Absent::because(why).with(checked.map(|(check, value)| check.missed(value))));
    }
    let why = "while it is slow, the processors have little time left";
    let cores = seen.cores.map(|cores| CORES.require(cores, why)).transpose()?;
    let unit = if metric == Metric::Throughput { Unit::BytesPerSecond } else { Unit::RequestsPerSecond };
    let (name, slow, fast) = (seen.name, seen.slow.wait(), seen.fast.wait());
    let mut figures = vec![
        evidence("rate at the slower level, against the faster one", low, unit, Some(high)),
        evidence("time from one slow stretch to the next", period, Unit::Seconds, None),
        evidence("share of the time that is slow", share, Unit::Share, None),
        costs,
        TAKES_LONGER.figure(slow / fast),
        WORKS.figure(busy),
        evidence("trials that show it", told, Unit::Trials, Some(trials)),
    ];
    figures.extend(cores);
    let sentence = format!(
        "{name} swings by itself: {} for {:.0}% of the time, every {period:.1} s, and {} in between; its requests take {} \
         then instead of {}, and nobody else is seen at work on it: an SSD's garbage collection or \
         throttling by heat, or what is behind a network volume",
        unit.rate_in_words(low),
        share * 100.0,
        unit.rate_in_words(high),
        format_latency(slow),
        format_latency(fast),
    );
    let sure = if told > 1.0 { Sure::Likely } else { Sure::Possible };
    Ok(Verdict::new(VerdictKind::DeviceWaves, sure, cost, sentence, figures).known(Basis::Inferred))
}
