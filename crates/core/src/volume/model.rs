//! The state machine of one volume, and of the link that several share.

use super::latency::Sampler;
use super::limiter::{Limiter, Slot};
use super::{LinkShape, Shape};
use crate::units::Nanos;
use crate::workload::OpKind;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// What decided when an operation completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// Its service latency alone: no limit delayed it.
    Latency,
    /// The volume's limit of operations.
    VolumeIops,
    /// The volume's limit of bytes.
    VolumeThroughput,
    /// The link's limit of operations.
    LinkIops,
    /// The link's limit of bytes.
    LinkThroughput,
}

/// How many operations each cause decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitedCounts {
    /// Service latency alone.
    pub latency: u64,
    /// The volume's limit of operations.
    pub volume_iops: u64,
    /// The volume's limit of bytes.
    pub volume_throughput: u64,
    /// The link's limit of operations.
    pub link_iops: u64,
    /// The link's limit of bytes.
    pub link_throughput: u64,
}

impl LimitedCounts {
    fn add(&mut self, cause: LimitedBy) {
        let counter = match cause {
            LimitedBy::Latency => &mut self.latency,
            LimitedBy::VolumeIops => &mut self.volume_iops,
            LimitedBy::VolumeThroughput => &mut self.volume_throughput,
            LimitedBy::LinkIops => &mut self.link_iops,
            LimitedBy::LinkThroughput => &mut self.link_throughput,
        };
        *counter += 1;
    }

    /// Operations in all.
    pub fn total(&self) -> u64 {
        self.latency + self.volume_iops + self.volume_throughput + self.link_iops + self.link_throughput
    }
}

/// The state of a [`LinkShape`].
#[derive(Debug, Clone)]
pub struct Link {
    iops: Option<Limiter>,
    throughput: Option<Limiter>,
}

impl Link {
    /// A fresh link, credits full.
    pub fn new(shape: &LinkShape) -> Self {
        Link {
            iops: shape.iops.as_ref().map(Limiter::new),
            throughput: shape.throughput.as_ref().map(Limiter::new),
        }
    }

    /// The limiter of operations, for its credits.
    pub fn iops(&self) -> Option<&Limiter> {
        self.iops.as_ref()
    }

    /// The limiter of bytes, for its credits.
    pub fn throughput(&self) -> Option<&Limiter> {
        self.throughput.as_ref()
    }
}

/// Operations that continue each other, while they share accounting units.
#[derive(Debug, Clone, Copy)]
struct Run {
    op: OpKind,
    end: u64,
    /// Bytes of the run's last unit that are used; 0 when it is full.
    used: u64,
}

/// The state of one volume.
#[derive(Debug, Clone)]
pub struct Model {
    iops: Option<Limiter>,
    throughput: Option<Limiter>,
    read: Sampler,
    write: Sampler,
    io_unit: u64,
    run: Option<Run>,
    merge: bool,
    rng: Xoshiro256PlusPlus,
    limited: LimitedCounts,
}

/// The latest slot of an operation so far, and whose it is.
struct Latest {
    begin: u64,
    end: u64,
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
    /// A fresh volume: credits full, nothing in flight. `seed` decides its latencies.
    pub fn new(shape: &Shape, seed: u64) -> Self {
        Model {
            iops: shape.iops.as_ref().map(Limiter::new),
            throughput: shape.throughput.as_ref().map(Limiter::new),
            read: Sampler::new(&shape.read_latency),
            write: Sampler::new(&shape.write_latency),
            io_unit: shape.io_unit.map_or(u64::MAX, |unit| unit.0.max(1)),
            run: None,
            merge: shape.character.merge_sequential,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            limited: LimitedCounts::default(),
        }
    }

    /// Submits one operation at `now` and says when it completes: never before `now`.
    ///
    /// `link` is the state of the shape's shared link, where it has one. Operations of one volume are expected
    /// in the order of `now`; one that comes with an earlier instant than its predecessor is served after it.
    pub fn submit(
        &mut self,
        now: Nanos,
        op: OpKind,
        offset: u64,
        len: u64,
        link: Option<&mut Link>,
    ) -> Nanos {
        let now = now.0;
        let units = self.units(op, offset, len);
        let mut latest = Latest { begin: now, end: 0, cause: LimitedBy::Latency };
        if let Some(limiter) = &mut self.iops {
            latest.consider(limiter.take(now, units as f64), LimitedBy::VolumeIops);
        }
        if let Some(limiter) = &mut self.throughput {
            latest.consider(limiter.take(now, len as f64), LimitedBy::VolumeThroughput);
        }
        if let Some(link) = link {
            if let Some(limiter) = &mut link.iops {
                latest.consider(limiter.take(now, units as f64), LimitedBy::LinkIops);
            }
            if let Some(limiter) = &mut link.throughput {
                latest.consider(limiter.take(now, len as f64), LimitedBy::LinkThroughput);
            }
        }
        let sampler = match op {
            OpKind::Read => &self.read,
            OpKind::Write => &self.write,
        };
        let latency = sampler.draw(&mut self.rng) as u64;
        let served = latest.begin.saturating_add(latency);
        let undelayed = latest.begin == now && served >= latest.end;
        self.limited.add(if undelayed { LimitedBy::Latency } else { latest.cause });
        Nanos(served.max(latest.end))
    }

    /// Accounting units that the operation costs; 0 when it still fits the last unit of its run.
    #[inline]
    fn units(&mut self, op: OpKind, offset: u64, len: u64) -> u64 {
        if !self.merge {
            return if len <= self.io_unit { 1 } else { len.div_ceil(self.io_unit) };
        }
        let used = match self.run {
            Some(run) if run.op == op && run.end == offset => run.used,
            _ => 0,
        };
        let free = if used == 0 { 0 } else { self.io_unit - used };
        let units = len.saturating_sub(free).div_ceil(self.io_unit);
        let used = (used + len % self.io_unit) % self.io_unit;
        self.run = Some(Run { op, end: offset.saturating_add(len), used });
        units
    }

    /// What decided the completions so far.
    pub fn limited(&self) -> LimitedCounts {
        self.limited
    }

    /// The limiter of operations, for its credits.
    pub fn iops(&self) -> Option<&Limiter> {
        self.iops.as_ref()
    }

    /// The limiter of bytes, for its credits.
    pub fn throughput(&self) -> Option<&Limiter> {
        self.throughput.as_ref()
    }
}
