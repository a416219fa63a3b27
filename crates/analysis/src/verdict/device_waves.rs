//! `device-waves`: a device swings between two speeds by itself.
//!
//! Derivation. An SSD collects garbage when it runs out of erased blocks, and throttles itself when it is hot: under a steady
//! load it is fast and slow in turn, for a while each, and nothing outside of it changes. What is behind a network volume does
//! the like. From outside this is a rate with two levels ([`waves`](crate::waves)) while operations wait at the device, which is
//! busy all the time and takes longer for each, and the processors have time. The rate is the device's own, of all who use it: what
//! it does for others instead is no wave of it. What it does meanwhile is not seen from here; that it does it by itself is.

use crate::estimate::median;
use crate::evidence::{Check, Unit, evidence, share_is};
use crate::facts::Facts;
use crate::facts::case::Case;
use crate::facts::processors::STEAL;
use crate::facts::standing::{AT_DEVICES, BUSY, HOST_BUSY};
use crate::facts::steps::metric_of;
use crate::judged::{Absent, Basis, Judged, Verdict, VerdictKind};
use crate::waves::{self, Waves};
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::{DiskUse, Observation, TrialSamples};
use ebbtide_model::units::format_latency;

/// Share of what would be done at the faster level that the slower times cost, from which on it matters.
pub const COST: f64 = 0.10;
/// Time of a request while it is slow over that while it is fast, at least: less than the step between the levels makes of it.
pub const LONGER: f64 = 1.15;
/// Waves that all trials together must show.
const IN_ALL: usize = 4;
/// Most points of a series; more are put together.
const MAX_POINTS: usize = 200;

/// What was seen of a device, and of the processors, over a time.
#[derive(Debug, Clone, Copy, Default)]
struct At {
    seconds: f64,
    requests: f64,
    bytes: f64,
    time: f64,
    busy: f64,
    weighted: f64,
    cores: f64,
}

impl At {
    fn of(device: &DiskUse, seconds: f64, cores: f64) -> At {
        At {
            seconds,
            requests: device.ops.total() as f64,
            bytes: device.bytes.total() as f64,
            time: device.time.read.plus(device.time.write).0 as f64,
            busy: device.busy.as_secs_f64(),
            weighted: device.weighted.as_secs_f64(),
            cores,
        }
    }

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

    fn share(&self, of: f64) -> f64 {
        of / self.seconds
    }
}

/// A device at both levels.
#[derive(Debug, Clone)]
struct Seen {
    name: String,
    fast: At,
    slow: At,
    /// Requests in flight at all devices of members while it was slow.
    queue: f64,
    /// Busy share of all cores meanwhile.
    cores: Option<f64>,
}

/// The devices of a trial's members from point to point of the observer's series.
struct Watched<'a> {
    observed: &'a Observation,
    /// Places of the devices.
    devices: Vec<usize>,
    /// At each point each device; the points are as long as each other.
    points: Vec<Vec<At>>,
}

impl<'a> Watched<'a> {
    fn of(trial: &'a TrialSamples) -> Option<Watched<'a>> {
        let observed = trial.observed.as_deref()?;
        let mut devices: Vec<usize> =
            observed.members.iter().filter_map(|m| m.devices.first().copied()).collect();
        devices.sort_unstable();
        devices.dedup();
        let width = observed.series.len().div_ceil(MAX_POINTS).max(1);
        let mut begin = 0.0;
        let mut points = Vec::new();
        for chunk in observed.series.chunks_exact(width) {
            let mut point = vec![At::default(); devices.len()];
            for interval in chunk {
                let end = interval.end.as_secs_f64();
                let seconds = end - begin;
                begin = end;
                let cores = interval.core_busy.iter().map(|core| core.as_secs_f64()).sum();
                for (at, index) in point.iter_mut().zip(&devices) {
                    *at = at.plus(At::of(interval.devices.get(*index)?, seconds, cores));
                }
            }
            points.push(point);
        }
        // What is left over at the end of the measurement is no interval.
        let length = |point: &Vec<At>| point.first().map_or(0.0, |at| at.seconds);
        let usual = median(points.iter().map(length))?;
        points.retain(|point| length(point) >= 0.5 * usual);
        (usual > 0.0).then_some(Watched { observed, devices, points })
    }

    /// What all devices did in each second of each point.
    fn rates(&self, metric: Metric) -> Vec<f64> {
        let of = |at: &At| at.share(if metric == Metric::Throughput { at.bytes } else { at.requests });
        self.points.iter().map(|point| point.iter().map(of).sum()).collect()
    }

    /// The device whose requests take most longer while `slow` says so.
    fn slowest(&self, slow: &[bool]) -> Option<Seen> {
        let cores = self.observed.cores.len();
        let level = |place: usize, wanted: bool| {
            let at = self.points.iter().zip(slow).filter(|(_, slow)| **slow == wanted);
            at.filter_map(|(point, _)| point.get(place)).fold(At::default(), |sum, at| sum.plus(*at))
        };
        let mut all: Vec<Seen> = Vec::new();
        for (place, index) in self.devices.iter().enumerate() {
            let (fast, slow) = (level(place, false), level(place, true));
            if fast.requests <= 0.0 || slow.requests <= 0.0 {
                continue;
            }
            let name = self.observed.devices.get(*index)?.shown_name().to_owned();
            let cores = (cores > 0).then(|| slow.share(slow.cores) / cores as f64);
            all.push(Seen { name, fast, slow, queue: 0.0, cores });
        }
        let queue = all.iter().map(|seen| seen.slow.share(seen.slow.weighted)).sum();
        let longer = |seen: &Seen| seen.slow.wait() / seen.fast.wait();
        let most = all.into_iter().max_by(|a, b| longer(a).total_cmp(&longer(b)))?;
        Some(Seen { queue, ..most })
    }
}

/// A trial with its waves.
struct Found {
    waves: Waves,
    seen: Option<Seen>,
    /// Seconds of a point.
    each: f64,
}

impl Found {
    fn of(trial: &TrialSamples, metric: Metric) -> Option<Found> {
        let watched = Watched::of(trial)?;
        let waves = waves::waves(&watched.rates(metric))?;
        let each = watched.points.first()?.first()?.seconds;
        Some(Found { seen: watched.slowest(&waves.slow), waves, each })
    }
}

/// The trials with waves; why there are none.
fn find(case: &Case<'_>, metric: Metric) -> Result<Vec<Found>, Absent> {
    if !case.trials.iter().any(|trial| Watched::of(trial).is_some()) {
        return Err(Absent::because("the devices of the members were not observed"));
    }
    let found: Vec<Found> = case.trials.iter().filter_map(|trial| Found::of(trial, metric)).collect();
    let (told, all) = (found.len(), case.trials.len());
    let number: usize = found.iter().map(|found| found.waves.starts.len()).sum();
    if 2 * told <= all || number < IN_ALL {
        let absent =
            Absent::because("the devices of the members do not go back and forth between two levels");
        let absent = absent.seen("trials in which they do", told as f64, Unit::Trials, all as f64 / 2.0);
        return Err(absent.seen("times that they do, in all", number as f64, Unit::Times, IN_ALL as f64));
    }
    Ok(found)
}

/// Has it yield to whatever else makes a rate go up and down.
fn yield_to_others(facts: &Facts<'_>) -> Result<(), Absent> {
    if let Some(stolen) = facts.stolen.filter(|stolen| *stolen >= STEAL) {
        let absent = Absent::because("the hypervisor takes the processors now and then");
        return Err(absent.seen("time stolen, of all cores", stolen, Unit::Share, STEAL));
    }
    for kind in [VerdictKind::Burst, VerdictKind::WriteCache, VerdictKind::Background] {
        facts.yield_to(kind, "its steps look the same")?;
    }
    facts.yield_to_what_serves("that may make the device look slow now and then")
}

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("times that the rate goes down and up again, in all trials", IN_ALL as f64, Unit::Times, "fewer may be something else"),
    COSTS,
    TAKES_LONGER,
    WORKS,
    THERE,
    CORES,
];
#[rustfmt::skip]
const COSTS: Check = Check::at_least("share of what the faster level would have done that the slower times cost", COST, Unit::Share, "less is not worth looking for");
#[rustfmt::skip]
const TAKES_LONGER: Check = Check::at_least("time of a request while it is slow over while it is fast", LONGER, Unit::Times, "the device is slower, not asked for less");
#[rustfmt::skip]
const WORKS: Check = Check::at_least("busy share of the device while it is slow", BUSY, Unit::Share, "requests wait for it all the time");
#[rustfmt::skip]
const THERE: Check = Check::at_least("share of the operations in flight that are at the devices", AT_DEVICES, Unit::Share, "what waits elsewhere waits for something else");
#[rustfmt::skip]
const CORES: Check = Check::below("busy share of all cores while it is slow", HOST_BUSY, Unit::Share, "otherwise they may be what is short");

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let workload = case.workload;
    if !workload.is_free() || !workload.direct {
        return Err(Absent::because(
            "the load is not a steady one: operations come at times of their own, or go through the page cache",
        ));
    }
    if case.result.members.iter().any(|member| case.slowed_by_tool(&member.name)) {
        return Err(Absent::because("the volumes are held to a shape, and not as fast as their devices are"));
    }
    facts.yield_to_limits("the members are at their limits")?;
    let metric = metric_of(case);
    let found = find(case, metric)?;
    let of = |value: &dyn Fn(&Found) -> f64| median(found.iter().map(value)).unwrap_or(0.0);
    let cost = of(&|found| found.waves.cost);
    let costs = COSTS.require(cost, "the slower times cost little")?;
    yield_to_others(facts)?;
    let seen: Vec<Seen> = found.iter().filter_map(|found| found.seen.clone()).collect();
    let seen = seen_of_most(seen)?;
    by_itself(case, &seen)?;
    let (low, high) = (of(&|found| found.waves.low), of(&|found| found.waves.high));
    let (period, share) =
        (of(&|found| found.waves.period() * found.each), of(&|found| found.waves.slow_share()));
    let unit = if metric == Metric::Throughput { Unit::BytesPerSecond } else { Unit::RequestsPerSecond };
    let (slow, fast) = (seen.slow.wait(), seen.fast.wait());
    let of_wait = format!("time of a request at {} while slow, against while fast", seen.name);
    let of_device = format!("busy share of {} while slow", seen.name);
    let busy = seen.slow.share(seen.slow.busy);
    let trials = case.trials.len() as f64;
    let mut figures = vec![
        evidence("rate at the slower level, against the faster one", low, unit, Some(high)),
        evidence("time from one slow stretch to the next", period, Unit::Seconds, None),
        evidence("share of the time that is slow", share, Unit::Share, None),
        costs,
        evidence(of_wait, slow, Unit::Nanoseconds, Some(fast)),
        share_is(of_device, busy, BUSY),
        evidence("trials that show it", found.len() as f64, Unit::Trials, Some(trials)),
    ];
    let mut processors = String::new();
    if let Some(busy) = seen.cores {
        figures.push(share_is("busy share of all cores while slow", busy, HOST_BUSY));
        processors = format!(", the processors are busy {:.0}% meanwhile", busy * 100.0);
    }
    let sentence = format!(
        "{} swings by itself: {} for {:.0}% of the time, every {period:.1} s, and {} in between; its requests take {} \
         then instead of {}{processors}, and nobody else is seen at work on it: an SSD's garbage collection or \
         throttling by heat, or what is behind a network volume",
        seen.name,
        unit.rate_in_words(low),
        share * 100.0,
        unit.rate_in_words(high),
        format_latency(slow),
        format_latency(fast),
    );
    let confidence = if found.len() > 1 { 0.8 } else { 0.65 };
    Ok(Verdict::new(VerdictKind::DeviceWaves, confidence, cost, sentence, figures).known(Basis::Inferred))
}

/// The device that most trials name, as the one with the middle wait has it.
fn seen_of_most(mut seen: Vec<Seen>) -> Result<Seen, Absent> {
    let count = |name: &str| seen.iter().filter(|other| other.name == name).count();
    let named = seen.iter().map(|one| one.name.clone()).max_by_key(|name| count(name));
    let all = seen.len();
    seen.retain(|one| Some(&one.name) == named.as_ref());
    if 2 * seen.len() <= all {
        return Err(Absent::because("it is another device in each trial that is slow"));
    }
    seen.sort_by(|a, b| a.slow.wait().total_cmp(&b.slow.wait()));
    let middle = seen.len() / 2;
    seen.into_iter().nth(middle).ok_or_else(|| Absent::because("no device was seen at both levels"))
}

/// Whether it is the device, and the device alone, that is slower.
fn by_itself(case: &Case<'_>, seen: &Seen) -> Result<(), Absent> {
    let longer = seen.slow.wait() / seen.fast.wait();
    let busy = seen.slow.share(seen.slow.busy).min(1.0);
    let waiting = seen.queue / case.kept().max(1.0);
    if !(TAKES_LONGER.holds(longer) && WORKS.holds(busy) && THERE.holds(waiting)) {
        let why = "while it is slow, operations do not wait at a device that takes longer for each";
        let figures = [TAKES_LONGER.missed(longer), WORKS.missed(busy), THERE.missed(waiting)];
        return Err(Absent::because(why).with(figures));
    }
    let why = "while it is slow, the processors have little time left";
    seen.cores.map_or(Ok(()), |cores| CORES.require(cores, why).map(|_| ()))
}
