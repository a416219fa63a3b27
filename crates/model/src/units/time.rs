//! Time: how long, and when by which clock. Sums and differences of instants stay within what 64 bits hold.

use super::{TIME_UNITS, UnitError, scale, split_number};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

/// A duration in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// An instant of a monotonic clock, nanoseconds since its start: the engine's clock, or the simulator's virtual one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

/// An instant by the wall clock, nanoseconds since 1970-01-01 00:00 UTC; virtual for the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixTime(pub u64);

point!(Instant, Nanos, u64::saturating_add, u64::saturating_sub);
point!(UnixTime, Nanos, u64::saturating_add, u64::saturating_sub);

impl Instant {
    /// Where the clock starts.
    pub const START: Instant = Instant(0);
    /// The end of time: no instant is later, and nothing ever happens then.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// Time since the clock's start.
    pub const fn elapsed(self) -> Nanos {
        Nanos(self.0)
    }
}

impl UnixTime {
    /// 1970-01-01 00:00 UTC, where it counts from.
    pub const EPOCH: UnixTime = UnixTime(0);

    /// A whole number of seconds since then; saturates.
    pub const fn from_secs(seconds: u64) -> Self {
        UnixTime(Nanos::from_secs(seconds).0)
    }

    /// Seconds since then.
    pub fn as_secs_f64(self) -> f64 {
        Nanos(self.0).as_secs_f64()
    }
}

impl From<SystemTime> for UnixTime {
    /// The epoch for what lies before it.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        UnixTime(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl Nanos {
    /// Nanoseconds in one second.
    pub const PER_SECOND: u64 = 1_000_000_000;

    /// A whole number of seconds; saturates.
    pub const fn from_secs(seconds: u64) -> Self {
        Nanos(seconds.saturating_mul(Self::PER_SECOND))
    }

    /// A whole number of milliseconds; saturates.
    pub const fn from_millis(millis: u64) -> Self {
        Nanos(millis.saturating_mul(1_000_000))
    }

    /// A non-negative number of seconds, rounded to the nearest nanosecond; saturates, and NaN is 0.
    pub fn from_secs_f64(seconds: f64) -> Self {
        Nanos((seconds * 1e9 + 0.5) as u64)
    }

    /// The same time in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How much longer it is than `other`, zero when it is shorter: the time between two ends that count from one begin.
    pub const fn since(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }

    /// The sum of both; saturates.
    pub const fn plus(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }

    /// So many times as long; saturates.
    pub const fn times(self, count: u64) -> Nanos {
        Nanos(self.0.saturating_mul(count))
    }
}

impl FromStr for Nanos {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split_number(text, "500us, 10s or 2m")?;
        let factor = match unit.to_ascii_lowercase().as_str() {
            "ns" => 1,
            "us" | "µs" | "usec" => 1_000,
            "ms" | "msec" => 1_000_000,
            "s" | "sec" => Self::PER_SECOND,
            "m" | "min" => 60 * Self::PER_SECOND,
            "h" => 3_600 * Self::PER_SECOND,
            "d" => 86_400 * Self::PER_SECOND,
            "" if number.trim_matches(['0', '.']).is_empty() => 1,
            "" => return Err(UnitError::NoUnit(text.to_owned(), TIME_UNITS)),
            _ => return Err(UnitError::UnknownUnit(text.to_owned(), unit.to_owned(), TIME_UNITS)),
        };
        scale(number, factor).map(Nanos).ok_or_else(|| UnitError::OutOfRange(text.to_owned(), "nanoseconds"))
    }
}

impl fmt::Display for Nanos {
    /// The largest unit that divides the value exactly; what this prints, `parse` reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (factor, unit) in [
            (3_600 * Self::PER_SECOND, "h"),
            (60 * Self::PER_SECOND, "m"),
            (Self::PER_SECOND, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
        ] {
            if self.0 != 0 && self.0.is_multiple_of(factor) {
                return write!(f, "{}{unit}", self.0 / factor);
            }
        }
        write!(f, "{}ns", self.0)
    }
}

impl JsonSchema for Nanos {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration with its unit: 500us, 1.5ms, 10s, 2m, 1h",
            "type": "string",
            "pattern": "^[0-9][0-9_.]* *(ns|us|µs|usec|ms|msec|s|sec|m|min|h|d)$"
        })
    }
}
