//! What is measured of a volume again and again, for weeks to years.

pub mod events;

use crate::observe::diskstats::DiskCounters;
use crate::samples::LimitsExceeded;
use crate::units::{Nanos, UnixTime};
use serde::{Deserialize, Serialize};

/// What a pass over a volume measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Random reads of 4 KiB per second, one at a time: the canary's.
    Seeks,
    /// Bytes per second of large reads in a row: the canary's.
    Throughput,
    /// Requests per second that the host made since the pass before.
    LoadIops,
    /// Bytes per second that the host moved since then.
    LoadThroughput,
    /// Mean time of the host's requests since then, in seconds.
    LoadWait,
    /// Share of the time since then, 0 to 1, in which the host asked for more than the volume's limit of operations or of bytes, whichever
    /// is larger: as EBS counts it, at no cost.
    VolumeExceeded,
    /// The same of the instance's limits.
    InstanceExceeded,
}

impl Measure {
    /// All measures.
    pub const ALL: [Measure; 7] = [
        Measure::Seeks,
        Measure::Throughput,
        Measure::LoadIops,
        Measure::LoadThroughput,
        Measure::LoadWait,
        Measure::VolumeExceeded,
        Measure::InstanceExceeded,
    ];

    /// Name as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Measure::Seeks => "seeks",
            Measure::Throughput => "throughput",
            Measure::LoadIops => "load_iops",
            Measure::LoadThroughput => "load_throughput",
            Measure::LoadWait => "load_wait",
            Measure::VolumeExceeded => "volume_exceeded",
            Measure::InstanceExceeded => "instance_exceeded",
        }
    }

    /// The number under which it is stored: never changed.
    pub const fn number(self) -> u8 {
        match self {
            Measure::Seeks => 1,
            Measure::Throughput => 2,
            Measure::LoadIops => 3,
            Measure::LoadThroughput => 4,
            Measure::LoadWait => 5,
            Measure::VolumeExceeded => 6,
            Measure::InstanceExceeded => 7,
        }
    }

    /// The measure of that number.
    pub fn numbered(number: u8) -> Option<Measure> {
        Measure::ALL.into_iter().find(|measure| measure.number() == number)
    }

    /// Whether it says what the volume can do; the others say what was asked of it.
    pub const fn is_of_volume(self) -> bool {
        matches!(self, Measure::Seeks | Measure::Throughput)
    }
}

/// A volume that is monitored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// What stays the same wherever it is attached: a volume id, serial number or the like.
    pub id: String,
    /// What it was called last, such as `sdf`.
    pub name: String,
    /// The host it was last seen at.
    pub host: String,
}

/// What one pass saw of one volume.
#[derive(Debug, Clone, PartialEq)]
pub struct Pass {
    /// The volume that was measured.
    pub volume: Watched,
    /// When the pass read it.
    pub at: UnixTime,
    /// What was measured: finite numbers of at least 0.
    pub values: Vec<(Measure, f64)>,
    /// What the kernel had counted by then.
    pub counted: Option<Counted>,
    /// What the volume and its host were.
    pub found: Option<events::VolumeContext>,
}

/// What the kernel had counted for a device since it appeared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// When it was read.
    pub at: UnixTime,
    /// Reads and writes that completed.
    pub ops: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Milliseconds that they took, summed.
    pub ms: u64,
    /// Time above limits, where it is an EBS volume that says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceeded: Option<LimitsExceeded>,
}

impl Counted {
    /// The sums of `counters`, read at `at`.
    pub fn of(counters: &DiskCounters, at: UnixTime) -> Counted {
        let (read, write) = (&counters.read, &counters.write);
        Counted {
            at,
            ops: read.ops.saturating_add(write.ops),
            bytes: read.bytes().saturating_add(write.bytes()),
            ms: read.ms.saturating_add(write.ms),
            exceeded: None,
        }
    }

    /// What the host did from `before` to now; nothing where the device was replaced or the host started again.
    pub fn since(&self, before: &Counted) -> Vec<(Measure, f64)> {
        let span = Nanos(self.at.0.saturating_sub(before.at.0)).as_secs_f64();
        let grown = |now: u64, before: u64| now.checked_sub(before).map(|grown| grown as f64);
        let (Some(ops), Some(bytes), Some(ms)) =
            (grown(self.ops, before.ops), grown(self.bytes, before.bytes), grown(self.ms, before.ms))
        else {
            return Vec::new();
        };
        if span <= 0.0 {
            return Vec::new();
        }
        let mut values = vec![(Measure::LoadIops, ops / span), (Measure::LoadThroughput, bytes / span)];
        if ops > 0.0 {
            values.push((Measure::LoadWait, ms / 1000.0 / ops));
        }
        values.extend(self.exceeded.zip(before.exceeded).into_iter().flat_map(|(now, before)| {
            let share = |one: fn(&LimitsExceeded) -> Nanos, other: fn(&LimitsExceeded) -> Nanos| {
                let grown = |of: fn(&LimitsExceeded) -> Nanos| of(&now).0.checked_sub(of(&before).0);
                let most = grown(one)?.max(grown(other)?);
                Some((Nanos(most).as_secs_f64() / span).min(1.0))
            };
            let volume = share(|all| all.volume_iops, |all| all.volume_throughput);
            let instance = share(|all| all.instance_iops, |all| all.instance_throughput);
            [(Measure::VolumeExceeded, volume), (Measure::InstanceExceeded, instance)]
                .into_iter()
                .filter_map(|(measure, share)| Some((measure, share?)))
        }));
        values
    }
}

/// What is known of a measure over a span.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Value {
    /// Where the span begins.
    pub at: UnixTime,
    /// Its length; zero for a single value.
    pub span: Nanos,
    /// Median of its values.
    pub median: f64,
    /// Smallest of the values.
    pub min: f64,
    /// Largest of the values.
    pub max: f64,
    /// How many there were.
    pub count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_stores_that_exist() {
        let numbers: Vec<u8> = Measure::ALL.iter().map(|measure| measure.number()).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
        assert!(Measure::ALL.iter().all(|m| Measure::numbered(m.number()) == Some(*m)));
        assert_eq!(Measure::numbered(9), None);
    }

    #[test]
    fn what_the_host_did_is_the_growth_of_its_counters() {
        let at = UnixTime::from_secs;
        let before = Counted { at: at(100), ops: 50, bytes: 4096, ms: 7, exceeded: None };
        let now = Counted { at: at(110), ops: 150, bytes: 4096 + 1_000_000, ms: 507, exceeded: None };
        let expected =
            [(Measure::LoadIops, 10.0), (Measure::LoadThroughput, 100_000.0), (Measure::LoadWait, 0.005)];
        assert_eq!(now.since(&before), expected);
        let idle = Counted { at: at(120), ..now };
        assert_eq!(idle.since(&now), [(Measure::LoadIops, 0.0), (Measure::LoadThroughput, 0.0)]);
        assert_eq!(before.since(&now), [], "started again");
        assert_eq!(now.since(&now), [], "no time");
    }

    #[test]
    fn time_above_limits_is_a_share_of_the_time() {
        let of = |at: u64, volume_iops: u64, volume_throughput: u64| {
            let millis = Nanos::from_millis;
            let exceeded = LimitsExceeded {
                volume_iops: millis(volume_iops),
                volume_throughput: millis(volume_throughput),
                ..LimitsExceeded::default()
            };
            Counted { at: UnixTime::from_secs(at), ops: 0, bytes: 0, ms: 0, exceeded: Some(exceeded) }
        };
        let shares = |now: Counted, before: Counted| now.since(&before).split_off(2);
        let expected = [(Measure::VolumeExceeded, 0.25), (Measure::InstanceExceeded, 0.0)];
        assert_eq!(shares(of(110, 3500, 2000), of(100, 1000, 1000)), expected);
        assert_eq!(shares(of(110, 90_000, 0), of(100, 0, 0))[0], (Measure::VolumeExceeded, 1.0));
        // It was attached again, and counts from the beginning.
        assert_eq!(shares(of(110, 5, 0), of(100, 9, 0)), [(Measure::InstanceExceeded, 0.0)]);
        let unasked = Counted { exceeded: None, ..of(110, 0, 0) };
        assert_eq!(
            (shares(unasked, of(100, 0, 0)), shares(of(120, 0, 0), unasked)),
            (Vec::new(), Vec::new())
        );
        // As stores of earlier versions have it.
        let old: Counted = serde_json::from_str(r#"{"at":5,"ops":1,"bytes":2,"ms":3}"#).expect("reads");
        assert_eq!(old.exceeded, None);
    }
}
