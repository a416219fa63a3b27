//! `device-waves`: a device swings between two speeds by itself.
//!
//! Derivation. An SSD collects garbage when it runs out of erased blocks, and throttles itself when it is hot: under a steady
//! load it is fast and slow in turn, for a while each, and nothing outside of it changes. What is behind a network volume does
//! the like. From outside this is a rate with two levels ([`waves`](crate::analysis::waves)) while operations wait at the device, which is
//! busy all the time and takes longer for each, moves no more for others than before, and the processors have time. What it
//! does meanwhile is not seen from here; that it does it by itself is.

use super::background::Background;
use super::burst::{self, Burst};
use super::write_cache::WriteCache;
use super::{Absent, Case, Judged, Rule, cpu, evidence, saturated, standing, volume_limit};
use crate::analysis::estimate::median;
use crate::analysis::ladder::in_flight;
use crate::analysis::waves::{self, Waves};
use crate::analysis::{Basis, Metric, Verdict, VerdictKind};
use crate::samples::{Observation, TrialSamples};
use crate::units::{Nanos, format_iops, format_latency, format_throughput};
use crate::workload::Arrival;

/// Share of what would be done at the faster level that the slower times cost, from which on it matters.
pub const COST: f64 = 0.10;
/// Time of a request while it is slow over that while it is fast, at least: less than the step between the levels makes of it.
pub const LONGER: f64 = 1.15;
/// Waves that one trial alone must show.
const ALONE: usize = 4;

/// The rule.
#[derive(Debug)]
pub struct DeviceWaves;

/// A trial with its waves.
struct Found<'a> {
    trial: &'a TrialSamples,
    waves: Waves,
    /// End of each point of the series, in seconds.
    times: Vec<f64>,
}

impl Found<'_> {
    fn slow_share(&self) -> f64 {
        self.waves.slow.iter().filter(|slow| **slow).count() as f64 / self.waves.slow.len() as f64
    }

    /// What the slow times cost of what the faster level would have done.
    fn cost(&self) -> f64 {
        self.slow_share() * (1.0 - self.waves.low / self.waves.high)
    }

    /// Seconds from one slow time to the next.
    fn period(&self) -> f64 {
        let slow = &self.waves.slow;
        let starts = (1..slow.len()).filter(|at| slow[*at] && !slow[*at - 1]).map(|at| self.times[at - 1]);
        let starts: Vec<f64> = starts.collect();
        let apart: Vec<f64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        median(&apart).unwrap_or(0.0)
    }

    /// Whether all from `begin` to `end` was slow, or all was fast; nothing where some was.
    fn level(&self, begin: f64, end: f64) -> Option<bool> {
        let first = self.times.iter().position(|time| *time > begin + 1e-9)?;
        let last = self.times.iter().position(|time| *time >= end - 1e-9)?;
        let slow = *self.waves.slow.get(first)?;
        self.waves.slow.get(first..=last)?.iter().all(|other| *other == slow).then_some(slow)
    }
}

/// What was seen of a device and of the processors while a trial was at one level.
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

/// Sums over the observer's intervals that are within one level; `index` is that of the device.
fn sums(found: &Found<'_>, observed: &Observation, index: usize) -> (At, At) {
    let (mut fast, mut slow, mut begin) = (At::default(), At::default(), 0.0);
    for interval in &observed.series {
        let end = interval.end.as_secs_f64();
        let (from, seconds) = (begin, end - begin);
        begin = end;
        let (Some(is_slow), Some(device)) = (found.level(from, end), interval.devices.get(index)) else {
            continue;
        };
        let at = if is_slow { &mut slow } else { &mut fast };
        at.seconds += seconds;
        at.requests += device.ops.read.saturating_add(device.ops.write) as f64;
        at.bytes += device.bytes.read.saturating_add(device.bytes.write) as f64;
        at.time += device.time.read.plus(device.time.write).0 as f64;
        at.busy += device.busy.as_secs_f64();
        at.weighted += device.weighted.as_secs_f64();
        at.cores += interval.core_busy.iter().map(|core| core.as_secs_f64()).sum::<f64>();
    }
    (fast, slow)
}

/// The device of a member whose requests take most longer while a trial is slow; nothing where no device was seen at both levels.
fn slowest(found: &Found<'_>) -> Option<Seen> {
    let observed = found.trial.observed.as_deref()?;
    let mut indices: Vec<usize> =
        observed.members.iter().filter_map(|m| m.devices.first().copied()).collect();
    indices.sort_unstable();
    indices.dedup();
    let cores = observed.cores.len();
    let mut all: Vec<Seen> = Vec::new();
    for index in indices {
        let (fast, slow) = sums(found, observed, index);
        if fast.seconds <= 0.0 || slow.seconds <= 0.0 || fast.requests <= 0.0 || slow.requests <= 0.0 {
            continue;
        }
        let name = observed.devices.get(index)?.shown_name().to_owned();
        let cores = (cores > 0).then(|| slow.share(slow.cores) / cores as f64);
        all.push(Seen { name, fast, slow, queue: 0.0, cores });
    }
    let queue = all.iter().map(|seen| seen.slow.share(seen.slow.weighted)).sum();
    let longer = |seen: &Seen| seen.slow.wait() / seen.fast.wait();
    let most = all.into_iter().max_by(|a, b| longer(a).total_cmp(&longer(b)))?;
    Some(Seen { queue, ..most })
}

/// The trials with waves; why there are none.
fn find<'a>(case: &Case<'a>, metric: Metric) -> Result<Vec<Found<'a>>, Absent> {
    let waves_of = |trial: &&'a TrialSamples| {
        let (times, rates) = burst::points(trial, metric);
        Some(Found { trial, waves: waves::waves(&rates)?, times })
    };
    let found: Vec<Found<'a>> = case.trials.iter().filter_map(waves_of).collect();
    let (told, all) = (found.len(), case.trials.len());
    let number: usize = found.iter().map(|found| found.waves.number).sum();
    if 2 * told <= all || number < ALONE {
        let absent = Absent::because("the trials do not go back and forth between two levels");
        let absent = absent.seen("trials that do", told as f64, "trials", all as f64 / 2.0);
        return Err(absent.seen("times that they do, in all", number as f64, "times", ALONE as f64));
    }
    Ok(found)
}

/// Has it yield to whatever else makes a rate go up and down.
fn yield_to_others(case: &Case<'_>) -> Result<(), Absent> {
    if let Some(stolen) = standing::stolen(case).filter(|stolen| *stolen >= cpu::STEAL) {
        let absent = Absent::because("the hypervisor takes the processors now and then");
        return Err(absent.seen("time stolen, of all cores", stolen, "share", cpu::STEAL));
    }
    let others: [&dyn Rule; 3] = [&Burst, &WriteCache, &Background];
    if let Some(rule) = others.iter().find(|rule| rule.judge(case).is_ok()) {
        return Err(Absent::yields(rule.kind(), "its steps look the same"));
    }
    saturated::yield_to_named(case)
}

impl Rule for DeviceWaves {
    fn kind(&self) -> VerdictKind {
        VerdictKind::DeviceWaves
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        let workload = case.workload;
        let steady =
            workload.arrival == Arrival::Closed && workload.rate.is_none() && workload.think_time == Nanos(0);
        if !steady || !workload.direct {
            return Err(Absent::because(
                "the load is not a steady one: operations come at times of their own, or go through the page cache",
            ));
        }
        if case.result.members.iter().any(|member| case.slowed_by_tool(&member.name)) {
            return Err(Absent::because(
                "the volumes are held to a shape, and not as fast as their devices are",
            ));
        }
        volume_limit::yield_to(case, "the members are at their limits")?;
        let metric = burst::metric_of(case);
        let found = find(case, metric)?;
        let of = |value: &dyn Fn(&Found<'_>) -> f64| {
            median(&found.iter().map(value).collect::<Vec<f64>>()).unwrap_or(0.0)
        };
        let cost = of(&|found| found.cost());
        let what = "share of what the faster level would have done that the slower times cost";
        if cost < COST {
            return Err(Absent::because("the slower times cost little").seen(what, cost, "share", COST));
        }
        yield_to_others(case)?;
        let seen: Vec<Seen> = found.iter().filter_map(slowest).collect();
        let levels = of(&|found| found.waves.low / found.waves.high);
        let seen = seen_of_most(seen, found.len())?;
        by_itself(case, &seen, levels)?;
        let (low, high) = (of(&|found| found.waves.low), of(&|found| found.waves.high));
        let (period, share) = (of(&|found| found.period()), of(&|found| found.slow_share()));
        let shown = |rate: f64| match metric {
            Metric::Throughput => format_throughput(rate),
            _ => format!("{} operations/s", format_iops(rate)),
        };
        let unit = if metric == Metric::Throughput { "bytes/s" } else { "ops/s" };
        let (slow, fast) = (seen.slow.wait(), seen.fast.wait());
        let processors = seen.cores.map_or_else(String::new, |busy| {
            format!(", the processors are busy {:.0}% meanwhile", busy * 100.0)
        });
        let mut figures = vec![
            evidence("rate at the slower level, against the faster one", low, unit, Some(high)),
            evidence("time from one slow stretch to the next", period, "s", None),
            evidence("share of the time that is slow", share, "share", None),
            evidence(what, cost, "share", Some(COST)),
            evidence(
                &format!("time of a request at {} while slow, against while fast", seen.name),
                slow,
                "ns",
                Some(fast),
            ),
            evidence(
                &format!("busy share of {} while slow", seen.name),
                seen.slow.share(seen.slow.busy),
                "share",
                Some(saturated::BUSY),
            ),
            evidence("trials that show it", found.len() as f64, "trials", Some(case.trials.len() as f64)),
        ];
        figures.extend(seen.cores.map(|busy| {
            evidence("busy share of all cores while slow", busy, "share", Some(saturated::HOST_BUSY))
        }));
        Ok(Verdict {
            kind: VerdictKind::DeviceWaves,
            basis: Some(Basis::Inferred),
            confidence: if found.len() > 1 { 0.8 } else { 0.65 },
            explains: cost.clamp(0.0, 1.0),
            sentence: format!(
                "{} swings by itself: {} for {:.0}% of the time, every {period:.1} s, and {} in between; its requests take {} \
                 then instead of {}{processors}, and nobody else is seen at work on it: an SSD's garbage collection or \
                 throttling by heat, or what is behind a network volume",
                seen.name,
                shown(low),
                share * 100.0,
                shown(high),
                format_latency(slow),
                format_latency(fast),
            ),
            evidence: figures,
        })
    }
}

/// The device that most trials name, as the one with the middle wait has it.
fn seen_of_most(mut seen: Vec<Seen>, trials: usize) -> Result<Seen, Absent> {
    let unseen = "the devices of the members were not observed for long enough while it was slow and while it was fast";
    if 2 * seen.len() <= trials {
        return Err(Absent::because(unseen));
    }
    let count = |name: &str| seen.iter().filter(|other| other.name == name).count();
    let named = seen.iter().map(|one| one.name.clone()).max_by_key(|name| count(name));
    let all = seen.len();
    seen.retain(|one| Some(&one.name) == named.as_ref());
    if 2 * seen.len() <= all {
        return Err(Absent::because("it is another device in each trial that is slow"));
    }
    seen.sort_by(|a, b| a.slow.wait().total_cmp(&b.slow.wait()));
    let middle = seen.len() / 2;
    seen.into_iter().nth(middle).ok_or_else(|| Absent::because(unseen))
}

/// Whether it is the device, and the device alone, that is slower.
fn by_itself(case: &Case<'_>, seen: &Seen, levels: f64) -> Result<(), Absent> {
    let longer = seen.slow.wait() / seen.fast.wait();
    let busy = seen.slow.share(seen.slow.busy).min(1.0);
    let waiting = seen.queue / f64::from(in_flight(case.workload)).max(1.0);
    if longer < LONGER || busy < saturated::BUSY || waiting < saturated::AT_DEVICES {
        let absent = Absent::because(
            "while it is slow, operations do not wait at a device that takes longer for each",
        );
        return Err(absent
            .seen(
                &format!("time of a request at {} while slow over while fast", seen.name),
                longer,
                "times",
                LONGER,
            )
            .seen("its busy share while slow", busy, "share", saturated::BUSY)
            .seen(
                "share of the operations in flight that are at the devices",
                waiting,
                "share",
                saturated::AT_DEVICES,
            ));
    }
    // Others who have what the load has lost: then as much moves as before.
    let moved = seen.slow.share(seen.slow.bytes) / seen.fast.share(seen.fast.bytes);
    let most = (1.0 + levels) / 2.0;
    if moved > most {
        let absent =
            Absent::because("while it is slow for the load, the device moves as much as before: for others");
        return Err(absent.seen(
            "bytes that it moves while slow over while fast, which would have to be below",
            moved,
            "times",
            most,
        ));
    }
    if let Some(cores) = seen.cores.filter(|cores| *cores >= saturated::HOST_BUSY) {
        let absent = Absent::because("while it is slow, the processors have little time left");
        let what = "busy share of all cores while slow, which would have to be below";
        return Err(absent.seen(what, cores, "share", saturated::HOST_BUSY));
    }
    Ok(())
}
