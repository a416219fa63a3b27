//! The state machine of one volume.

use super::character::{Costs, Failure, FailureKind};
use super::device::{Device, end_of};
use super::latency::Sampler;
use super::limiter::{Limiter, Slot};
use super::limiters::Limiters;
use super::weather::{Weather, derive};
use super::{Link, Shape};
use crate::units::{Bytes, Instant, MemberOffset, Nanos};
use crate::workload::OpKind;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// What decided when an operation completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// Its service latency alone: nothing delayed it.
    Latency,
    /// The volume's limit of operations.
    VolumeIops,
    /// The volume's limit of bytes.
    VolumeThroughput,
    /// The link's limit of operations.
    LinkIops,
    /// The link's limit of bytes.
    LinkThroughput,
    /// The spindle's arm, busy with this operation or those before it.
    Device,
}

/// How many operations each cause decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitedCounts {
    /// No limit: service latency alone.
    pub latency: u64,
    /// The volume's limit of operations.
    pub volume_iops: u64,
    /// The volume's limit of bytes.
    pub volume_throughput: u64,
    /// The link's limit of operations.
    pub link_iops: u64,
    /// The link's limit of bytes.
    pub link_throughput: u64,
    /// The device itself: the arm of a spinning disk.
    pub device: u64,
}

impl LimitedCounts {
    #[inline]
    fn add(&mut self, cause: LimitedBy) {
        let counter = match cause {
            LimitedBy::Latency => &mut self.latency,
            LimitedBy::VolumeIops => &mut self.volume_iops,
            LimitedBy::VolumeThroughput => &mut self.volume_throughput,
            LimitedBy::LinkIops => &mut self.link_iops,
            LimitedBy::LinkThroughput => &mut self.link_throughput,
            LimitedBy::Device => &mut self.device,
        };
        *counter += 1;
    }

    /// Operations of all causes together.
    pub fn total(&self) -> u64 {
        self.latency
            + self.volume_iops
            + self.volume_throughput
            + self.link_iops
            + self.link_throughput
            + self.device
    }
}

/// What a volume model knows after a trial: the truth about a shaped or simulated volume.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelReport {
    /// What decided the completions.
    pub limited: LimitedCounts,
    /// Share of the IOPS credits left at the end, 0 to 1; absent where the limit does not burst.
    pub iops_credits: Option<f64>,
    /// Share of the byte credits left at the end, 0 to 1; absent where the limit does not burst.
    pub throughput_credits: Option<f64>,
    /// Reads answered by the cache at the far end.
    pub cache_hits: u64,
    /// Operations that touched a block for the first time and paid for it.
    pub first_touches: u64,
}

/// Operations that continue each other, while they share accounting units.
#[derive(Debug, Clone, Copy)]
struct Run {
    op: OpKind,
    end: MemberOffset,
    /// What of the run's last unit is used; nothing when it is full.
    used: Bytes,
}

/// The state of one volume.
#[derive(Debug, Clone)]
pub struct Model {
    limiters: Limiters,
    read: Sampler,
    write: Sampler,
    flush: Option<Sampler>,
    /// Factors of the mood in force, and when to look again.
    rate_factor: f64,
    latency_factor: f64,
    next_change: Instant,
    io_unit: Bytes,
    run: Option<Run>,
    merge: bool,
    costs: Option<Costs>,
    device: Option<Box<Device>>,
    weather: Option<Box<Weather>>,
    failure: Option<Failure>,
    /// How old the volume is at the clock's start.
    age: Nanos,
    rng: Xoshiro256PlusPlus,
    limited: LimitedCounts,
}

/// The latest slot of an operation so far, and whose it is.
struct Latest {
    begin: Instant,
    end: Instant,
    cause: LimitedBy,
}

impl Latest {
    #[inline]
    fn consider(&mut self, slot: Slot, cause: LimitedBy) {
        self.begin = self.begin.max(slot.begin);
        if slot.end > self.end {
            self.end = slot.end;
            self.cause = cause;
        }
    }
}

impl Model {
    /// A fresh volume: credits as the shape says (full unless told otherwise), nothing in flight. `seed`
    /// decides everything random about it.
    pub fn new(shape: &Shape, seed: u64) -> Self {
        Self::with_history(shape, seed, seed, Nanos(0))
    }

    /// A volume that is of this `age` at the clock's start. Its birth quality, moods and drift come from `life_seed`,
    /// latencies from `seed`.
    pub fn with_history(shape: &Shape, life_seed: u64, seed: u64, age: Nanos) -> Self {
        let character = &shape.character;
        let start = character.credits_at_start.unwrap_or(1.0);
        let (iops, throughput) = (shape.iops.as_ref(), shape.throughput.as_ref());
        let weather =
            Weather::new(derive(life_seed, 5, 0), &character.moods, character.drift, character.birth);
        Model {
            limiters: Limiters::new(iops, throughput, &character.one_way, start),
            read: Sampler::new(&shape.read_latency),
            write: Sampler::new(&shape.write_latency),
            flush: character.flush_latency.as_ref().map(Sampler::new),
            rate_factor: 1.0,
            latency_factor: 1.0,
            next_change: if weather.is_some() { Instant::START } else { Instant::NEVER },
            io_unit: shape.io_unit.map_or(Bytes(u64::MAX), |unit| unit.max(Bytes(1))),
            run: None,
            merge: character.merge_sequential,
            costs: character.costs,
            device: Device::new(character.seek, character.cache, character.first_touch).map(Box::new),
            weather: weather.map(Box::new),
            failure: character.failure,
            age,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            limited: LimitedCounts::default(),
        }
    }

    /// Submits one operation at `now` and says when it completes: never before `now`.
    ///
    /// `link` is the state of the shape's shared link, where it has one. Operations of one volume are expected
    /// in the order of `now`; one that comes with an earlier instant than its predecessor is served after it.
    #[inline]
    pub fn submit(
        &mut self,
        now: Instant,
        op: OpKind,
        offset: MemberOffset,
        len: Bytes,
        link: Option<&mut Link>,
    ) -> Instant {
        if now >= self.next_change {
            self.change(now);
        }
        let sampler = match op {
            OpKind::Read => &self.read,
            OpKind::Write => &self.write,
        };
        let mut latency = sampler.draw(&mut self.rng) * self.latency_factor;
        let mut on_medium = true;
        if let Some(device) = &mut self.device {
            let service = device.look_up(op, offset, len, &mut self.rng);
            latency = service.latency.unwrap_or(latency) + service.extra;
            on_medium = !service.cached;
        }
        let (operations, bytes) = self.cost(op, offset, len);
        let mut latest = Latest { begin: now, end: Instant::START, cause: LimitedBy::Latency };
        if let Some(limiter) = self.limiters.iops.as_mut().filter(|_| on_medium) {
            latest.consider(limiter.take(now, operations), LimitedBy::VolumeIops);
        }
        if let Some(limiter) = &mut self.limiters.throughput {
            let weight = self.costs.map_or(1.0, |costs| costs.bytes(op));
            latest.consider(limiter.take(now, bytes * weight), LimitedBy::VolumeThroughput);
        }
        if let Some([iops, throughput]) = self.limiters.one_way(op) {
            if let Some(limiter) = iops.as_mut().filter(|_| on_medium) {
                latest.consider(limiter.take(now, operations), LimitedBy::VolumeIops);
            }
            if let Some(limiter) = throughput {
                latest.consider(limiter.take(now, bytes), LimitedBy::VolumeThroughput);
            }
        }
        // What the volume's own accounting rounds up does not travel.
        let carried = len.0 as f64;
        if let Some(Link { limiters: link }) = link {
            if let Some(limiter) = &mut link.iops {
                latest.consider(limiter.take(now, operations), LimitedBy::LinkIops);
            }
            if let Some(limiter) = &mut link.throughput {
                latest.consider(limiter.take(now, carried), LimitedBy::LinkThroughput);
            }
            if let Some([iops, throughput]) = link.one_way(op) {
                if let Some(limiter) = iops {
                    latest.consider(limiter.take(now, operations), LimitedBy::LinkIops);
                }
                if let Some(limiter) = throughput {
                    latest.consider(limiter.take(now, carried), LimitedBy::LinkThroughput);
                }
            }
        }
        if on_medium && let Some(device) = &mut self.device {
            let turn = device.turn(latest.begin, offset, len, self.rate_factor, &mut self.rng);
            if let Some(slot) = turn {
                latest.consider(slot, LimitedBy::Device);
            }
        }
        let served = latest.begin + Nanos(latency as u64);
        let undelayed = latest.begin == now && served >= latest.end;
        self.limited.add(if undelayed { LimitedBy::Latency } else { latest.cause });
        let end = served.max(latest.end);
        match self.failure {
            Some(failure) => frozen(&failure, now, end),
            None => end,
        }
    }

    /// When what was written before `now` is durable, where it is asked to make it so then.
    #[cold]
    pub fn flush(&mut self, now: Instant) -> Instant {
        let latency = self.flush.as_ref().map_or(0.0, |flush| flush.draw(&mut self.rng));
        let end = now + Nanos((latency * self.latency_factor) as u64);
        self.failure.map_or(end, |failure| frozen(&failure, now, end))
    }

    /// The failure in force at `now`, if it makes operations return errors. A frozen volume does not: it
    /// answers late.
    pub fn fails(&self, now: Instant) -> Option<FailureKind> {
        let failure = self.failure.filter(|failure| failure.kind != FailureKind::Freeze)?;
        failure.in_force(now.elapsed()).map(|_| failure.kind)
    }

    /// What the operation counts: accounting units and bytes.
    #[inline]
    fn cost(&mut self, op: OpKind, offset: MemberOffset, len: Bytes) -> (f64, f64) {
        let units = if self.merge {
            self.merged_units(op, offset, len)
        } else if len <= self.io_unit {
            1
        } else {
            len.0.div_ceil(self.io_unit.0)
        };
        match &self.costs {
            None => (units as f64, len.0 as f64),
            Some(costs) => {
                let each = if op == OpKind::Read { costs.read } else { costs.write };
                // Where whole units are what counts (EBS on HDD), what is merged into a unit is paid with it.
                let whole_units = self.merge && costs.min_bytes == self.io_unit;
                let bytes = if whole_units { self.io_unit * units } else { len.max(costs.min_bytes) };
                (units as f64 * each, bytes.0 as f64)
            }
        }
    }

    /// Units that are new when operations that continue each other share them; 0 when this one fits the last.
    fn merged_units(&mut self, op: OpKind, offset: MemberOffset, len: Bytes) -> u64 {
        let used = match self.run {
            Some(run) if run.op == op && run.end == offset => run.used,
            _ => Bytes(0),
        };
        let free = if used == Bytes(0) { used } else { self.io_unit - used };
        let units = len.0.saturating_sub(free.0).div_ceil(self.io_unit.0);
        let used = (used + len % self.io_unit) % self.io_unit;
        self.run = Some(Run { op, end: end_of(offset, len), used });
        units
    }

    /// Applies the mood at `now`.
    #[cold]
    fn change(&mut self, now: Instant) {
        let Some(weather) = &mut self.weather else { return };
        let factors = weather.at(now + self.age);
        self.next_change = (factors.until - self.age).max(now + Nanos(1));
        self.rate_factor = factors.rate;
        self.latency_factor = factors.latency;
        self.limiters.set_scale(factors.rate);
    }

    /// Whether limits and moods are all that it remembers of the past.
    pub fn is_memoryless(&self) -> bool {
        self.device.is_none() && self.failure.is_none()
    }

    /// First instant at which its mood may change.
    pub fn next_change(&mut self, now: Instant) -> Instant {
        if now >= self.next_change {
            self.change(now);
        }
        self.next_change
    }

    /// How many more stretches of length `cell` like the last one pass before credits run out; `earlier` is the
    /// state one such stretch ago.
    pub fn cells_left(&self, earlier: &Model, now: Instant, cell: Nanos) -> u64 {
        self.limiters.cells_left(&earlier.limiters, now, cell)
    }

    /// Moves `cells` such stretches ahead in time, in each of which happens what happened since `earlier`.
    pub fn leap(&mut self, earlier: &Model, now: Instant, cells: u64, cell: Nanos) {
        self.limiters.leap(&earlier.limiters, now, cells, cell);
        let (counts, before) = (&mut self.limited, &earlier.limited);
        for (count, before) in [
            (&mut counts.latency, before.latency),
            (&mut counts.volume_iops, before.volume_iops),
            (&mut counts.volume_throughput, before.volume_throughput),
            (&mut counts.link_iops, before.link_iops),
            (&mut counts.link_throughput, before.link_throughput),
            (&mut counts.device, before.device),
        ] {
            *count += (*count - before) * cells;
        }
    }

    /// What the volume knows about the operations so far, with its credits at `now`.
    pub fn report(&self, now: Instant) -> ModelReport {
        let share = |limiter: &Option<Limiter>| {
            let limiter = limiter.as_ref()?;
            Some(limiter.credits(now)? / limiter.credits_max())
        };
        ModelReport {
            limited: self.limited,
            iops_credits: share(&self.limiters.iops),
            throughput_credits: share(&self.limiters.throughput),
            cache_hits: self.device.as_ref().map_or(0, |device| device.cache_hits),
            first_touches: self.device.as_ref().map_or(0, |device| device.first_touches),
        }
    }
}

/// Completion of an operation submitted at `now` that would complete at `end`, were it not for the freeze.
fn frozen(failure: &Failure, now: Instant, end: Instant) -> Instant {
    let freeze = Instant::START + failure.at;
    let thaw = failure.lasts.map_or(Instant::NEVER, |lasts| freeze + lasts);
    if failure.kind != FailureKind::Freeze || end <= freeze || now >= thaw {
        return end;
    }
    end + (thaw - now.max(freeze))
}
