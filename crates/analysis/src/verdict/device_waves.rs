//! `device-waves`: a device swings between two speeds by itself.
//!
//! Derivation. An SSD collects garbage when it runs out of erased blocks, and throttles itself when it is hot: under a steady
//! load it is fast and slow in turn, for a while each, and nothing outside of it changes. What is behind a network volume does
//! the like. From outside this is a rate with two levels ([`waves`](crate::waves)) while operations wait at the device, which is
//! busy all the time and takes longer for each, and the processors have time. The rate is the device's own, of all who use it: what
//! it does for others instead is no wave of it. What it does meanwhile is not seen from here; that it does it by itself is.

use super::*;
use crate::facts::standing::{AT_DEVICES, BUSY, HOST_BUSY};
use crate::facts::steps::metric_of;
use crate::waves::{self, Waves};
use ebbtide_model::samples::{Observation, ObservedInterval};
use ebbtide_model::units::format_latency;
use std::collections::BTreeSet;

/// Most points of a series; more are put together.
const MAX_POINTS: usize = 200;

checks! {
    IN_ALL: at_least("times that the rate goes down and up again, in all trials", 4.0, Times, "fewer may be something else");
    COSTS: at_least("share of what the faster level would have done that the slower times cost", 0.10, Share, "less is not worth looking for");
    // Less than the step between the levels makes of it.
    TAKES_LONGER: at_least("time of a request while it is slow over while it is fast", 1.15, Times, "the device is slower, not asked for less");
    WORKS: at_least("busy share of the device while it is slow", BUSY, Share, "requests wait for it all the time");
    THERE: at_least("share of the operations in flight that are at the devices", AT_DEVICES, Share, "what waits elsewhere waits for something else");
    CORES: below("busy share of all cores while it is slow", HOST_BUSY, Share, "otherwise they may be what is short");
}

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

/// An interval of the observer's series with its seconds.
type Timed<'a> = (f64, &'a ObservedInterval);

impl At {
    fn of<'a>(intervals: impl Iterator<Item = &'a Timed<'a>>, device: usize) -> Option<At> {
        let mut at = At::default();
        for (seconds, interval) in intervals {
            let used = interval.devices.get(device)?;
            at.seconds += seconds;
            at.requests += used.ops.total() as f64;
            at.bytes += used.bytes.total() as f64;
            at.time += used.time.read.plus(used.time.write).0 as f64;
            at.busy += used.busy.as_secs_f64();
            at.weighted += used.weighted.as_secs_f64();
            at.cores += interval.core_busy.iter().map(|core| core.as_secs_f64()).sum::<f64>();
        }
        Some(at)
    }

    /// Nanoseconds that a request takes.
    fn wait(&self) -> f64 {
        self.time / self.requests
    }
}

/// The points of the observer's series, each of some intervals.
fn points(observed: &Observation) -> Vec<Vec<Timed<'_>>> {
    let mut begin = 0.0;
    let timed = observed.series.iter().map(|interval| {
        let end = interval.end.as_secs_f64();
        (end - std::mem::replace(&mut begin, end), interval)
    });
    let width = observed.series.len().div_ceil(MAX_POINTS).max(1);
    let mut points: Vec<Vec<Timed<'_>>> =
        timed.collect::<Vec<_>>().chunks_exact(width).map(<[_]>::to_vec).collect();
    // What is left over at the end of the measurement is no interval.
    let usual = median(points.iter().map(|point| seconds(point))).unwrap_or(0.0);
    points.retain(|point| usual > 0.0 && seconds(point) >= 0.5 * usual);
    points
}

fn seconds(point: &[Timed<'_>]) -> f64 {
    point.iter().map(|(seconds, _)| seconds).sum()
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
    let observed = trial.observed.as_deref()?;
    let devices = observed.members.iter().filter_map(|member| member.devices.first().copied());
    let devices: BTreeSet<usize> = devices.collect();
    let points = points(observed);
    let rate = |at: At| if metric == Metric::Throughput { at.bytes } else { at.requests } / at.seconds;
    let of_all = |point: &Vec<Timed<'_>>| -> Option<f64> {
        devices.iter().map(|device| At::of(point.iter(), *device).map(rate)).sum()
    };
    let waves = waves::waves(&points.iter().map(of_all).collect::<Option<Vec<f64>>>()?)?;
    let level = |device: usize, wanted: bool| {
        let at = points.iter().zip(&waves.slow).filter(|(_, slow)| **slow == wanted);
        At::of(at.flat_map(|(point, _)| point), device).filter(|at| at.requests > 0.0)
    };
    let both = devices.iter().filter_map(|at| Some((*at, level(*at, false)?, level(*at, true)?)));
    let both: Vec<(usize, At, At)> = both.collect();
    let queue = both.iter().map(|(.., slow)| slow.weighted / slow.seconds).sum();
    let longer = |(_, fast, slow): &(usize, At, At)| slow.wait() / fast.wait();
    let (device, fast, slow) = both.into_iter().max_by(|a, b| longer(a).total_cmp(&longer(b)))?;
    let cores = observed.cores.len() as f64;
    let cores = (cores > 0.0).then(|| slow.cores / slow.seconds / cores);
    let name = observed.devices.get(device)?.shown_name();
    Some(Found { waves, name, fast, slow, queue, cores, each: seconds(points.first()?) })
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
    if case.trials.iter().all(|trial| trial.observed.is_none()) {
        return Err(Absent::unmeasured("the devices of the members were not observed"));
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
