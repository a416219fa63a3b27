//! The records of the catalogue, as its files write them.

use super::date::Date;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A file of volume types: the built-in one, or a user's.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CatalogFile {
    /// Sources by the short name that records use.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub source: BTreeMap<String, Source>,
    /// Records of volume types.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_type: Vec<VolumeType>,
    /// Records of instance types.
    pub instance: Vec<Instance>,
}

impl CatalogFile {
    /// The records as TOML.
    pub fn to_toml(&self) -> String {
        // Only maps with keys that are no text cannot be written, and there are none.
        toml::to_string(self).unwrap_or_default()
    }
}

/// Where figures come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Its name, with version, date and licence where known.
    pub name: String,
}

/// A volume type during one period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeType {
    /// `aws`, `azure`, `gcp`, or a user's own.
    pub provider: String,
    /// Its name with the provider, for example `gp3`.
    pub id: String,
    /// Its name in full.
    pub name: String,
    /// First day on which this held; absent: from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "date")]
    pub valid_from: Option<Date>,
    /// Last day on which this held; absent: until now.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "date")]
    pub valid_until: Option<Date>,
    /// `ssd`, `hdd` or `nfs`.
    pub media: String,
    /// Sizes that can be ordered.
    pub size_gib: Range,
    /// An operation of more KiB counts as several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_unit_kib: Option<u64>,
    /// Sequential operations share one unit.
    #[serde(default)]
    pub merge_sequential: bool,
    /// An operation of fewer KiB counts as this many against the throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_bytes_kib: Option<u64>,
    /// What a write counts against the operations; a read counts 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cost: Option<f64>,
    /// Operations per second.
    pub iops: IopsRule,
    /// Bytes per second.
    pub throughput: ThroughputLimit,
    /// Sizes sold in steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<Tier>,
    /// Latencies of an operation, for simulation.
    pub latency: LatencyFigures,
    /// What it costs, where a source has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// What else a reader has to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Short names of sources.
    pub sources: Vec<String>,
}

/// From and to, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Smallest size that is sold.
    pub min: u64,
    /// Largest size that is sold.
    pub max: u64,
}

/// How many operations per second a volume may do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub enum IopsRule {
    /// One rate for all sizes.
    Fixed {
        /// Operations per second.
        value: f64,
    },
    /// A baseline by size, and a burst from credits where the baseline is below it (gp2).
    Credit {
        /// Baseline per GiB.
        per_gib: f64,
        /// Least baseline, operations per second.
        min: f64,
        /// Most baseline, operations per second.
        max: f64,
        /// Rate while credits last.
        burst: f64,
        /// Credits at the start and at most.
        credits: f64,
    },
    /// Ordered and paid for.
    Provisioned {
        /// What every volume has; absent where the order has to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        included: Option<f64>,
        /// Least that can be ordered, operations per second.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min: Option<f64>,
        /// Most that can be ordered, operations per second.
        max: f64,
        /// Most per GiB of size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_per_gib: Option<f64>,
    },
    /// Grows with the size.
    PerGib {
        /// What size 0 would have.
        base: f64,
        /// Rate granted for each GiB of size.
        per_gib: f64,
        /// Most that it grows to, operations per second.
        max: f64,
    },
    /// The rate of the type's tier.
    Tier,
}

/// A throughput rule and the unit of its figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThroughputLimit {
    /// How the limit follows from the size and the order.
    #[serde(flatten)]
    pub rule: ThroughputRule,
    /// `MiB/s` or `MB/s`.
    pub unit: String,
}

/// How many bytes per second a volume may move.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case")]
pub enum ThroughputRule {
    /// One rate for all sizes.
    Fixed {
        /// The limit, in the unit of the rule.
        value: f64,
    },
    /// gp2: a step by size, above which credits are needed until the baseline is enough.
    Gp2 {
        /// Rate up to `small_upto_gib`.
        small: f64,
        /// Largest size of the small step.
        small_upto_gib: u64,
        /// The limit above that size, in the unit of the rule.
        large: f64,
        /// Up to this size, `large` needs credits.
        burst_upto_gib: u64,
    },
    /// Ordered and paid for.
    Provisioned {
        /// What every volume has.
        included: f64,
        /// Most that can be ordered, in the unit of the rule.
        max: f64,
        /// Most per provisioned operation per second.
        max_per_iops: f64,
    },
    /// Follows the operations per second.
    PerIops {
        /// KiB per operation.
        kib_per_iops: f64,
        /// Most, up to `above_iops`.
        max: f64,
        /// KiB per operation for volumes of more than `above_iops`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kib_per_iops_above: Option<f64>,
        /// Where the second step begins.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        above_iops: Option<f64>,
        /// Most of the second step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_above: Option<f64>,
    },
    /// Grows with the size.
    PerGib {
        /// What size 0 would have.
        base: f64,
        /// Rate granted for each GiB of size.
        per_gib: f64,
        /// Most that it grows to, in the unit of the rule.
        max: f64,
    },
    /// A baseline and a burst by size, credits of one full scan (st1, sc1).
    CreditPerTib {
        /// Baseline per TiB.
        base: f64,
        /// Largest baseline.
        base_max: f64,
        /// Burst per TiB.
        burst: f64,
        /// Largest burst.
        burst_max: f64,
    },
    /// EFS in bursting mode.
    Efs {
        /// Baseline per TiB stored.
        base_per_tib: f64,
        /// Least baseline.
        base_min: f64,
        /// Burst per TiB stored.
        burst_per_tib: f64,
        /// Least burst.
        burst_min: f64,
        /// Credits in TiB, up to 1 TiB stored, and per TiB above.
        credit_tib: f64,
    },
    /// The rate of the type's tier.
    Tier,
}

/// One step of a type that is sold in steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// As the provider calls the step.
    pub name: String,
    /// Largest size of the step, GiB.
    pub upto_gib: u64,
    /// Operations per second.
    pub iops: f64,
    /// Throughput, in the unit of the record.
    pub throughput: f64,
    /// Operations per second while credits of 30 minutes last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_iops: Option<f64>,
    /// Throughput while credits of 30 minutes last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_throughput: Option<f64>,
}

/// Latencies of an operation, for simulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyFigures {
    /// Median of reads, microseconds.
    pub read_median_us: u64,
    /// 99th percentile of reads, microseconds.
    pub read_p99_us: u64,
    /// Median of writes, microseconds.
    pub write_median_us: u64,
    /// 99th percentile of writes, microseconds.
    pub write_p99_us: u64,
    /// Whether it is published or assumed.
    pub basis: String,
}

/// What a provider says of one type of machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// `aws` or a user's own.
    pub provider: String,
    /// Name, for example `m6i.2xlarge`.
    pub id: String,
    /// Virtual CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    /// Memory, MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
    /// Limits towards its network volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<InstanceLimits>,
    /// Network bandwidth that it always has, Gbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_gbps: Option<f64>,
    /// Local (instance store) disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks: Option<LocalDisks>,
    /// What an hour of it costs, where a price list was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hour: Option<HourPrice>,
    /// Last day on which it was seen, for retired ones.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "date")]
    pub last_seen: Option<Date>,
    /// Where the figures come from.
    pub sources: Vec<String>,
}

/// What an hour of an instance costs on demand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HourPrice {
    /// US dollars.
    pub usd: f64,
    /// Where it holds, as the provider calls the region.
    pub region: String,
    /// A day on which it held, where the source has one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "date")]
    pub as_of: Option<Date>,
}

/// Hours of a month, as AWS bills them: 365 days of 24 hours by 12.
const HOURS_A_MONTH: f64 = 730.0;

impl Instance {
    /// What its name begins with: `m6i` of `m6i.2xlarge`.
    pub fn family(&self) -> &str {
        self.id.split('.').next().unwrap_or_default()
    }

    /// US dollars a month on demand, where the price of an hour is known.
    pub fn month_usd(&self) -> Option<f64> {
        self.hour.as_ref().map(|hour| hour.usd * HOURS_A_MONTH)
    }
}

/// An instance's limits towards its network volumes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceLimits {
    /// Megabits per second (10^6) that it always has.
    pub baseline_mbps: f64,
    /// Megabits per second at most.
    pub max_mbps: f64,
    /// Operations per second that it always has.
    pub baseline_iops: f64,
    /// Operations per second at most.
    pub max_iops: f64,
    /// Minutes per day that it can run at its most, where that is more than the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_minutes: Option<f64>,
    /// Most volumes that can be attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments: Option<u32>,
}

/// An instance's local disks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalDisks {
    /// How many of them.
    pub count: u32,
    /// Size of each in GB (10^9 bytes).
    pub size_gb: u64,
    /// `ssd` or `hdd`.
    pub media: String,
    /// Speed of each, where published or measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<DiskSpeed>,
}

/// Speed of one local disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpeed {
    /// 4 KiB random reads per second.
    pub read_iops: f64,
    /// 4 KiB random writes per second.
    pub write_iops: f64,
    /// Bytes per second read sequentially.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes_s: Option<f64>,
    /// Bytes per second written sequentially.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bytes_s: Option<f64>,
    /// Where the figure is published.
    pub source: String,
}

/// What a provider takes for a volume of a type, in US dollars a month, as long as it exists. What is billed by use is not in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// For each GiB of size (AWS and Google write GB for it).
    pub gib_month: f64,
    /// For each operation per second that is ordered, the lowest step first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iops_month: Vec<PriceStep>,
    /// For each unit of throughput that is ordered, in the unit of the record; the lowest step first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throughput_month: Vec<PriceStep>,
    /// Where it holds, as the provider calls the region.
    pub region: String,
    /// A day on which it held, where the source has one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "date")]
    pub as_of: Option<Date>,
    /// Short name of the source.
    pub source: String,
}

/// What each further unit of a rate costs a month.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceStep {
    /// What is above this, up to the next step, costs it; what is below the first step is included.
    pub above: f64,
    /// US dollars a month for each.
    pub each: f64,
}

/// A day from a TOML date or from a text.
pub(super) fn date<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Date>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Toml(toml::value::Datetime),
        Text(String),
    }
    let text = match Option::<Either>::deserialize(deserializer)? {
        None => return Ok(None),
        Some(Either::Toml(date)) => date.to_string(),
        Some(Either::Text(text)) => text,
    };
    text.parse().map(Some).map_err(serde::de::Error::custom)
}
