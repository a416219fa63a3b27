//! From a record and an order (size, provisioned rates) to a shape; from an instance to a link.

use super::date::Date;
use super::types::{Instance, IopsRule, ThroughputRule, Tier, VolumeType};
use crate::per_op::PerOp;
use crate::units::{Bytes, Nanos};
use crate::volume::{Character, Costs, Latency, Limit, LinkShape, Shape};
use serde::{Deserialize, Serialize};

/// What an order of a volume says: its size and what is provisioned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VolumeOrder {
    /// Size of the volume.
    pub size: Bytes,
    /// Provisioned operations per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<f64>,
    /// Provisioned bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<f64>,
}

/// What a volume was ordered as: with it [`Catalog::volume_type`](super::Catalog::volume_type) finds all that the catalogue
/// knows of the type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ordered {
    /// Type of the volume, `PROVIDER:ID`.
    pub volume_type: String,
    /// The day whose figures count; today's where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Date>,
    /// Size, IOPS and throughput as ordered.
    #[serde(flatten)]
    pub order: VolumeOrder,
    /// US dollars a month, where the catalogue has a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<f64>,
}

/// Why an order cannot be had.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum OrderError {
    /// Outside the sizes sold.
    #[error("{id} has {min} to {max} GiB, not {size}")]
    Size {
        id: String,
        /// Smallest size sold, GiB.
        min: u64,
        /// Largest size sold, GiB.
        max: u64,
        size: Bytes,
    },
    /// The type has no such setting.
    #[error("{id} has no provisioned {what}: {why}")]
    NotProvisioned {
        id: String,
        /// `IOPS` or `throughput`.
        what: &'static str,
        why: &'static str,
    },
    /// The order has to name it.
    #[error("{id} is ordered with its IOPS: write `provisioned_iops`, {min} to {max}")]
    Unsaid { id: String, min: f64, max: f64 },
    /// Outside what can be provisioned.
    #[error("{id} of {size} can have {min} to {max} {unit}, not {asked}")]
    Range {
        id: String,
        size: Bytes,
        /// Least that can be ordered, in `unit`.
        min: f64,
        /// Most that can be ordered, in `unit`.
        max: f64,
        unit: String,
        /// What was asked for, in `unit`.
        asked: f64,
    },
}

const KIB: f64 = 1024.0;
const GIB: f64 = 1_073_741_824.0;
const TIB: f64 = 1_099_511_627_776.0;
/// Credits of tiers that burst: 30 minutes (Azure, disk bursting).
const TIER_BURST_SECONDS: f64 = 1800.0;

/// A limit that bursts from `credits` where `burst` is more than `rate`.
fn bursting(rate: f64, burst: f64, credits: f64) -> Limit {
    if burst > rate {
        Limit { rate, burst_rate: Some(burst), burst_credits: credits }
    } else {
        Limit::steady(rate)
    }
}

/// Least and most operations per second that are sold with a volume of `size`, from the fields of
/// [`IopsRule::Provisioned`].
fn iops_for_sale(
    size: Bytes,
    included: Option<f64>,
    min: Option<f64>,
    max: f64,
    max_per_gib: Option<f64>,
) -> (f64, f64) {
    let gib = size.0 as f64 / GIB;
    let least = included.or(min).unwrap_or(1.0);
    let most = max_per_gib.map_or(max, |per_gib| (per_gib * gib).floor().min(max)).max(least);
    (least, most)
}

/// Most that is sold with `iops` operations per second, in the rule's unit, from the fields of
/// [`ThroughputRule::Provisioned`].
fn most_throughput(iops: f64, included: f64, max: f64, max_per_iops: f64) -> f64 {
    (max_per_iops * iops).min(max).max(included)
}

impl VolumeType {
    /// Bytes per second of one unit of the throughput's figures.
    pub fn throughput_unit(&self) -> f64 {
        if self.throughput.unit == "MB/s" { 1e6 } else { 1_048_576.0 }
    }

    /// The shape of a volume of this type.
    ///
    /// # Errors
    /// When the order cannot be had; says what can.
    pub fn shape(&self, order: &VolumeOrder) -> Result<Shape, OrderError> {
        let gib = order.size.0 as f64 / GIB;
        if gib < self.size_gib.min as f64 || gib > self.size_gib.max as f64 {
            let (min, max) = (self.size_gib.min, self.size_gib.max);
            return Err(OrderError::Size { id: self.id.clone(), min, max, size: order.size });
        }
        let tier = self.tiers.iter().find(|tier| gib <= tier.upto_gib as f64);
        let iops = self.iops_limit(order, gib, tier)?;
        let throughput = self.throughput_limit(order, gib, iops, tier)?;
        let figures = &self.latency;
        let latency = |median: u64, p99: u64| Latency::Lognormal {
            median: Nanos(median.saturating_mul(1000)),
            p99: Nanos(p99.saturating_mul(1000)),
        };
        let costs = (self.write_cost.is_some() || self.min_bytes_kib.is_some()).then(|| Costs {
            read: 1.0,
            write: self.write_cost.unwrap_or(1.0),
            min_bytes: Bytes(self.min_bytes_kib.map_or(1, |kib| kib << 10)),
            write_bytes: 1.0,
        });
        Ok(Shape {
            iops: Some(iops),
            throughput: Some(throughput),
            io_unit: self.io_unit_kib.map(|kib| Bytes(kib << 10)),
            read_latency: latency(figures.read_median_us, figures.read_p99_us),
            write_latency: latency(figures.write_median_us, figures.write_p99_us),
            link: None,
            character: Character { merge_sequential: self.merge_sequential, costs, ..Character::default() },
        })
    }

    /// Least and most operations per second that can be ordered with a volume of `size`; `None` where none are.
    pub fn iops_range(&self, size: Bytes) -> Option<(f64, f64)> {
        let IopsRule::Provisioned { included, min, max, max_per_gib } = self.iops else { return None };
        Some(iops_for_sale(size, included, min, max, max_per_gib))
    }

    /// Least and most bytes per second that can be ordered with a volume of `iops` operations per second; `None`
    /// where none are.
    pub fn throughput_range(&self, iops: f64) -> Option<(f64, f64)> {
        let ThroughputRule::Provisioned { included, max, max_per_iops } = self.throughput.rule else {
            return None;
        };
        let most = most_throughput(iops, included, max, max_per_iops);
        Some((included * self.throughput_unit(), most * self.throughput_unit()))
    }

    fn not_provisioned(&self, what: &'static str, why: &'static str) -> OrderError {
        OrderError::NotProvisioned { id: self.id.clone(), what, why }
    }

    fn iops_limit(&self, order: &VolumeOrder, gib: f64, tier: Option<&Tier>) -> Result<Limit, OrderError> {
        let provisioned = matches!(self.iops, IopsRule::Provisioned { .. });
        if order.iops.is_some() && !provisioned {
            return Err(self.not_provisioned("IOPS", "its size decides"));
        }
        Ok(match self.iops {
            IopsRule::Fixed { value } => Limit::steady(value),
            IopsRule::Credit { per_gib, min, max, burst, credits } => {
                bursting((per_gib * gib).max(min).min(max), burst, credits)
            }
            IopsRule::PerGib { base, per_gib, max } => Limit::steady((base + per_gib * gib).min(max)),
            IopsRule::Tier => tier.map_or(Limit::steady(1.0), |tier| {
                let burst = tier.burst_iops.unwrap_or(tier.iops);
                bursting(tier.iops, burst, (burst - tier.iops) * TIER_BURST_SECONDS)
            }),
            IopsRule::Provisioned { included, min, max, max_per_gib } => {
                let (least, most) = iops_for_sale(order.size, included, min, max, max_per_gib);
                let asked = match (order.iops, included) {
                    (Some(asked), _) => asked,
                    (None, Some(included)) => included,
                    (None, None) => {
                        return Err(OrderError::Unsaid { id: self.id.clone(), min: least, max: most });
                    }
                };
                if !(least..=most).contains(&asked) {
                    let (id, size, unit) = (self.id.clone(), order.size, "IOPS".to_owned());
                    return Err(OrderError::Range { id, size, min: least, max: most, unit, asked });
                }
                Limit::steady(asked)
            }
        })
    }

    fn throughput_limit(
        &self,
        order: &VolumeOrder,
        gib: f64,
        iops: Limit,
        tier: Option<&Tier>,
    ) -> Result<Limit, OrderError> {
        let unit = self.throughput_unit();
        let provisioned = matches!(self.throughput.rule, ThroughputRule::Provisioned { .. });
        if order.throughput.is_some() && !provisioned {
            return Err(self.not_provisioned("throughput", "its size and IOPS decide"));
        }
        Ok(match self.throughput.rule {
            ThroughputRule::Fixed { value } => Limit::steady(value * unit),
            ThroughputRule::Gp2 { small, small_upto_gib, large, burst_upto_gib } => {
                if gib <= small_upto_gib as f64 {
                    Limit::steady(small * unit)
                } else if gib < burst_upto_gib as f64 {
                    // Beyond the baseline's share every operation of 256 KiB costs one credit of the IOPS bucket.
                    let per_operation = 256.0 * KIB;
                    bursting(
                        (iops.rate * per_operation).min(large * unit),
                        large * unit,
                        iops.burst_credits * per_operation,
                    )
                } else {
                    Limit::steady(large * unit)
                }
            }
            ThroughputRule::Provisioned { included, max, max_per_iops } => {
                let most = most_throughput(iops.rate, included, max, max_per_iops);
                let asked = order.throughput.map_or(included, |bytes| bytes / unit);
                // A rate given in the other unit (MB for MiB) may lie a hair outside.
                if asked < included - 1e-9 || asked > most + 1e-9 {
                    let (id, size, unit) = (self.id.clone(), order.size, self.throughput.unit.clone());
                    return Err(OrderError::Range { id, size, min: included, max: most, unit, asked });
                }
                Limit::steady(asked * unit)
            }
            ThroughputRule::PerIops { kib_per_iops, max, kib_per_iops_above, above_iops, max_above } => {
                let rate = match (kib_per_iops_above, above_iops, max_above) {
                    (Some(kib), Some(above), Some(most)) if iops.rate > above => {
                        (iops.rate * kib * KIB).min(most * unit)
                    }
                    _ => (iops.rate * kib_per_iops * KIB).min(max * unit),
                };
                Limit::steady(rate)
            }
            ThroughputRule::PerGib { base, per_gib, max } => {
                Limit::steady((base + per_gib * gib).min(max) * unit)
            }
            ThroughputRule::CreditPerTib { base, base_max, burst, burst_max } => {
                let tib = gib / 1024.0;
                let rate = (base * tib).min(base_max) * unit;
                bursting(rate, (burst * tib).min(burst_max) * unit, order.size.0 as f64)
            }
            ThroughputRule::Efs { base_per_tib, base_min, burst_per_tib, burst_min, credit_tib } => {
                let tib = gib / 1024.0;
                let rate = (base_per_tib * tib).max(base_min) * unit;
                let burst = (burst_per_tib * tib).max(burst_min) * unit;
                bursting(rate, burst, credit_tib * tib.max(1.0) * TIB)
            }
            ThroughputRule::Tier => tier.map_or(Limit::steady(1.0), |tier| {
                let burst = tier.burst_throughput.unwrap_or(tier.throughput);
                let credits = (burst - tier.throughput) * TIER_BURST_SECONDS * unit;
                bursting(tier.throughput * unit, burst * unit, credits)
            }),
        })
    }
}

impl Instance {
    /// The link to its network volumes: the limits for them where it has such, its network otherwise.
    pub fn link(&self) -> Option<LinkShape> {
        let name = self.id.clone();
        let Some(limits) = &self.volumes else {
            let throughput = Limit::steady(self.network_gbps? * 1e9 / 8.0);
            return Some(LinkShape {
                name,
                iops: None,
                throughput: Some(throughput),
                one_way: PerOp::default(),
            });
        };
        let seconds = limits.burst_minutes.unwrap_or(0.0) * 60.0;
        let limit = |rate: f64, most: f64| {
            if seconds > 0.0 {
                bursting(rate, most, (most - rate) * seconds)
            } else {
                Limit::steady(most.max(rate))
            }
        };
        Some(LinkShape {
            name,
            iops: Some(limit(limits.baseline_iops, limits.max_iops)),
            throughput: Some(limit(limits.baseline_mbps * 1e6 / 8.0, limits.max_mbps * 1e6 / 8.0)),
            one_way: PerOp::default(),
        })
    }

    /// The shape of one of its local disks, where their speed is known. Reads and writes share one limit: a write
    /// counts as many reads as the disk can do for one.
    pub fn disk_shape(&self) -> Option<Shape> {
        let speed = self.disks.as_ref()?.speed.as_ref()?;
        let latency = |iops: f64| {
            // Assumed: these disks reach their rate at about 32 operations in flight.
            let median = (16e9 / iops.max(1.0)).clamp(60e3, 20e6) as u64;
            Latency::Lognormal { median: Nanos(median), p99: Nanos(median.saturating_mul(4)) }
        };
        Some(Shape {
            iops: Some(Limit::steady(speed.read_iops)),
            throughput: speed.read_bytes_s.map(Limit::steady),
            read_latency: latency(speed.read_iops),
            write_latency: latency(speed.write_iops),
            character: Character {
                costs: Some(Costs {
                    read: 1.0,
                    write: (speed.read_iops / speed.write_iops).max(0.01),
                    min_bytes: Bytes(1),
                    write_bytes: speed
                        .read_bytes_s
                        .zip(speed.write_bytes_s)
                        .map_or(1.0, |(read, write)| (read / write).max(0.01)),
                }),
                ..Character::default()
            },
            ..Shape::default()
        })
    }
}
