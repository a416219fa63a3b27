//! A need: what somebody asks of storage that is not bought yet. How it is written is `ebbtide-experiment`'s, what answers it
//! `ebbtide-plan`'s.

use crate::catalog::Date;
use crate::units::{Bytes, Nanos};
use serde::Serialize;

/// What storage has to give. Rates are sustained unless `hours_a_day` says for how long; operations and sequential bytes are needed
/// one at a time, not together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Need {
    /// Name of the need, which its plans carry.
    pub name: String,
    /// What it is for, in the author's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Bytes that must fit, after what redundancy takes.
    pub capacity: Bytes,
    /// Bytes that are used again and again, where they are fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_set: Option<Bytes>,
    /// Operations per second of `bs` bytes, at random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<f64>,
    /// Bytes per second, sequentially.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<f64>,
    /// 99th percentile of latency: while `iops` operations per second arrive, or of one operation at a time without `iops`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lat_p99: Option<Nanos>,
    /// Bytes of a random operation.
    pub bs: Bytes,
    /// Share of reads in percent, of operations and of bytes.
    pub read_percent: u8,
    /// Volumes that may be lost, whichever they are, without loss of data.
    pub may_lose: u32,
    /// The hosts that copies are on, where they are to be on several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over: Option<OverHosts>,
    /// Whether the data may be gone when the instance stops: its own disks are enough then.
    pub ephemeral: bool,
    /// Most US dollars a month for the volumes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_month: Option<f64>,
    /// Instance types that may be used, by their names or their beginnings (`m6i.*`); none: no instance's limits count.
    pub instances: Vec<String>,
    /// Volume types that may be used; none: every block volume of AWS.
    pub types: Vec<String>,
    /// Region whose prices count; the catalogue's own where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The day whose figures count; today's where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<Date>,
    /// Hours of each day during which the rates are needed, more than 0 to 24.
    pub hours_a_day: f64,
    /// What volumes must give beyond the need, as a share of it: EBS promises 90% of what is ordered in 99% of the year.
    pub headroom: f64,
}

/// Copies on storage hosts, of which a client makes one volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OverHosts {
    /// Storage hosts, at least 2.
    pub hosts: u32,
    /// Copies of every byte, no two on one host: 2 or more, at most as many as hosts.
    pub copies: u32,
    /// Clients that write to the same volume at one time, at least 1.
    pub writers: u32,
    /// Whether the copies of a host that is lost are to be made anew on the others by themselves.
    pub self_healing: bool,
}

/// What a recorded load asked of storage.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Operations per second in all but its busiest hundredth; absent where it went from one end to the other.
    pub iops: Option<f64>,
    /// Bytes per second likewise, where it went from one end to the other.
    pub throughput: Option<f64>,
    /// Mean bytes of an operation.
    pub bs: Bytes,
    /// Share of reads in percent of the operations.
    pub read_percent: u8,
    /// Bytes that were touched, where places were recorded.
    pub working_set: Option<Bytes>,
    /// Where the last of them end, where places were recorded.
    pub extent: Option<Bytes>,
    /// How long it was, in seconds.
    pub seconds: f64,
}

impl Need {
    /// Whether an instance of this name may be used.
    pub fn may_use(&self, instance: &str) -> bool {
        self.instances.iter().any(|wanted| is_meant(wanted, instance))
    }

    /// Operations or bytes per second that volumes must be able to do for `rate` to be there.
    pub fn with_headroom(&self, rate: f64) -> f64 {
        // In millionths, whole: 1.1 is no number of a computer's, and 100,000 of it would be more than 110,000.
        let millionths = (1.0 + self.headroom) * 1e6;
        rate * millionths.round() / 1e6
    }
}

/// Whether `pattern`, the name of an instance type or its beginning and `*`, means `id`.
pub fn is_meant(pattern: &str, id: &str) -> bool {
    let pattern = pattern.strip_prefix("aws:").unwrap_or(pattern);
    match pattern.strip_suffix('*') {
        Some(beginning) => id.starts_with(beginning),
        None => id == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Need, is_meant};

    fn need() -> Need {
        Need {
            name: String::new(),
            description: None,
            capacity: Bytes(1),
            working_set: None,
            iops: None,
            throughput: None,
            lat_p99: None,
            bs: Bytes(4096),
            read_percent: 70,
            may_lose: 0,
            over: None,
            ephemeral: false,
            budget_month: None,
            instances: Vec::new(),
            types: Vec::new(),
            region: None,
            as_of: None,
            hours_a_day: 24.0,
            headroom: 0.0,
        }
    }

    #[test]
    fn headroom_is_exact() {
        for (rate, headroom, needed) in [
            (100_000.0, 0.1, 110_000.0),
            (3000.0, 0.1, 3300.0),
            (20_000.0, 0.1, 22_000.0),
            (7.0, 0.0, 7.0),
            (30.0, 0.07, 32.1),
        ] {
            let need = Need { headroom, ..need() };
            assert_eq!(need.with_headroom(rate), needed, "{rate} {headroom}");
        }
    }

    #[test]
    fn a_family_is_meant_by_its_beginning() {
        for (pattern, id, meant) in [
            ("m6i.*", "m6i.large", true),
            ("m6i.*", "m6idn.large", false),
            ("m6i*", "m6idn.large", true),
            ("aws:m6i.large", "m6i.large", true),
            ("m6i", "m6i.large", false),
        ] {
            assert_eq!(is_meant(pattern, id), meant, "{pattern} {id}");
        }
    }
}
