//! Quantities as types: a byte count is never a sector count, an instant never a duration, a place in the array never
//! one on a member.
//!
//! Text forms. A bare letter `k m g t` is a power of 1024 (as fio reads it); `KiB MiB GiB TiB` are
//! powers of 1024 (IEC) and `kB MB GB TB` powers of 1000 (SI). Letters may be of either case except
//! that only the presence of `i` makes a unit binary: `4KB` is 4000 bytes, `4KiB` and `4k` are 4096. In a rate a small `b` is
//! bits, which are refused: `100Mb/s` is 12.5 MB/s ([`Bytes::per_second`]).

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Rem, Sub, SubAssign};
use std::str::FromStr;

/// Makes `$span` the distance between two of `$point`: what may be added and subtracted follows from that.
macro_rules! point {
    ($point:ident, $span:ident, $add:path, $sub:path) => {
        impl std::ops::Add<$span> for $point {
            type Output = $point;
            #[inline(always)]
            fn add(self, span: $span) -> $point {
                $point($add(self.0, span.0))
            }
        }
        impl std::ops::AddAssign<$span> for $point {
            #[inline(always)]
            fn add_assign(&mut self, span: $span) {
                *self = *self + span;
            }
        }
        impl std::ops::Sub<$span> for $point {
            type Output = $point;
            #[inline(always)]
            fn sub(self, span: $span) -> $point {
                $point($sub(self.0, span.0))
            }
        }
        impl std::ops::Sub for $point {
            type Output = $span;
            #[inline(always)]
            fn sub(self, from: $point) -> $span {
                $span($sub(self.0, from.0))
            }
        }
    };
}

mod offset;
mod rate;
mod time;

pub use offset::{ArrayOffset, MemberOffset};
pub use rate::RateError;
pub use time::{Instant, Nanos, UnixTime};

/// A number of bytes: a size or a length. Where something is, is an [`ArrayOffset`] or a [`MemberOffset`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No digits in front of the unit.
    #[error("`{0}` does not begin with a number; write for example {1}")]
    NoNumber(String, &'static str),
    /// A unit that is not one of ours.
    #[error("`{0}` has the unknown unit `{1}`; write one of {2}")]
    UnknownUnit(String, String, &'static str),
    /// A time without a unit could be anything.
    #[error("`{0}` has no unit; write one of {1} after it")]
    NoUnit(String, &'static str),
    /// Not a whole number of the base unit, or more than 64 bits of it.
    #[error("`{0}` is not a whole number of {1} below 2^64")]
    OutOfRange(String, &'static str),
}

const BYTE_UNITS: &str =
    "k, M, G, T or KiB, MiB, GiB, TiB (powers of 1024), kB, MB, GB, TB (powers of 1000), B";
const TIME_UNITS: &str = "ns, us, ms, s, m, h, d";

/// Splits `text` into its number and its unit, both trimmed.
fn split_number<'a>(text: &'a str, example: &'static str) -> Result<(&'a str, &'a str), UnitError> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(UnitError::NoNumber(text.to_owned(), example));
    }
    Ok((number, unit.trim()))
}

/// `number` (decimal, `_` allowed between digits) times `factor`, exactly, or nothing.
fn scale(number: &str, factor: u64) -> Option<u64> {
    let digits: String = number.chars().filter(|c| *c != '_').collect();
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    if fraction.len() > 18 || (digits.contains('.') && fraction.is_empty()) {
        return None;
    }
    let factor = u128::from(factor);
    let whole: u128 = whole.parse::<u64>().ok()?.into();
    let fraction_value: u128 = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()?.into() };
    let denominator = 10u128.pow(fraction.len() as u32);
    let scaled = fraction_value * factor;
    if !scaled.is_multiple_of(denominator) {
        return None;
    }
    u64::try_from(whole * factor + scaled / denominator).ok()
}

impl Bytes {
    /// 2^10 bytes.
    pub const KIB: u64 = 1 << 10;
    /// 2^20 bytes.
    pub const MIB: u64 = 1 << 20;
    /// 2^30 bytes.
    pub const GIB: u64 = 1 << 30;
}

macro_rules! sums {
    ($($op:ident $method:ident $assign:ident $assign_method:ident $sign:tt)*) => {$(
        impl $op for Bytes {
            type Output = Bytes;
            #[inline(always)]
            fn $method(self, other: Bytes) -> Bytes {
                Bytes(self.0 $sign other.0)
            }
        }
        impl $assign for Bytes {
            #[inline(always)]
            fn $assign_method(&mut self, other: Bytes) {
                *self = *self $sign other;
            }
        }
    )*};
}

sums!(Add add AddAssign add_assign + Sub sub SubAssign sub_assign -);

impl Mul<u64> for Bytes {
    type Output = Bytes;
    #[inline(always)]
    fn mul(self, times: u64) -> Bytes {
        Bytes(self.0 * times)
    }
}

impl Rem for Bytes {
    type Output = Bytes;
    fn rem(self, unit: Bytes) -> Bytes {
        Bytes(self.0 % unit.0)
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(each: I) -> Bytes {
        Bytes(each.map(|bytes| bytes.0).sum())
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split_number(text, "4k, 256KiB or 10GB")?;
        let mut rest = unit.to_ascii_lowercase();
        let factor = if rest.is_empty() || rest == "b" {
            1
        } else {
            let power = match rest.remove(0) {
                'k' => 1,
                'm' => 2,
                'g' => 3,
                't' => 4,
                'p' => 5,
                _ => 0,
            };
            match (power, rest.as_str()) {
                (1.., "" | "i" | "ib") => 1u64 << (10 * power),
                (1.., "b") => 1000u64.pow(power),
                _ => return Err(UnitError::UnknownUnit(text.to_owned(), unit.to_owned(), BYTE_UNITS)),
            }
        };
        scale(number, factor).map(Bytes).ok_or_else(|| UnitError::OutOfRange(text.to_owned(), "bytes"))
    }
}

impl fmt::Display for Bytes {
    /// The largest binary unit that divides the value exactly; what this prints, `parse` reads back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 != 0 && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl Bytes {
    /// As people write it: exact where that is short, else to three digits: `256KiB`, `47.1GiB`. [`Display`](fmt::Display)
    /// is exact.
    pub fn short(self) -> String {
        let exact = self.to_string();
        if exact.bytes().take_while(u8::is_ascii_digit).count() <= 4 {
            return exact;
        }
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let (shift, unit) = units.into_iter().find(|(shift, _)| self.0 >> shift > 0).unwrap_or((0, "B"));
        format!("{}{unit}", three_digits(self.0 as f64 / (1u64 << shift) as f64))
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A size: 4k, 256KiB (powers of 1024), 10GB (powers of 1000), or a number of bytes",
            "type": ["string", "integer"],
            "pattern": "^[0-9][0-9_.]* *([kKmMgGtTpP]([iI]?[bB]?)|[bB])?$",
            "minimum": 0
        })
    }
}

/// A count with its noun, which takes an `s` in the plural: `1 round`, `6 rounds`.
pub fn format_count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `value` (bytes per second) as people read it, in powers of 1000: `167.3 MB/s`.
pub fn format_throughput(value: f64) -> String {
    format!("{}B/s", si(value))
}

/// `value` (bytes) as people read it, in powers of 1000: `67.1 MB`.
pub fn format_bytes(value: f64) -> String {
    format!("{}B", si(value))
}

/// `value` (operations per second) as people read it: `12.4k`.
pub fn format_iops(value: f64) -> String {
    si(value).trim_end().to_owned()
}

/// `value` (nanoseconds) as people read it: `1.53 ms`.
pub fn format_latency(value: f64) -> String {
    for (factor, unit) in [(1e9, "s"), (1e6, "ms"), (1e3, "us")] {
        if value >= factor {
            return format!("{} {unit}", three_digits(value / factor));
        }
    }
    format!("{} ns", three_digits(value))
}

/// `time` as people read how long to wait: `800 ms`, `90 s`, `12 min`, `3.5 h`.
pub fn format_waiting(time: Nanos) -> String {
    match time.as_secs_f64() {
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// Hours as people tell them: `1 hour`, `2.5 hours`.
pub fn format_hours(hours: f64) -> String {
    let shown = (hours * 10.0).round() / 10.0;
    format!("{shown} hour{}", if shown == 1.0 { "" } else { "s" })
}

/// A number as it would be written: `0.05`, `3000`, `1e-300`.
pub fn format_number(value: f64) -> String {
    if value == 0.0 || (1e-6..1e15).contains(&value.abs()) { value.to_string() } else { format!("{value:e}") }
}

/// Number with an SI prefix, a space before the prefix, and the unit to follow.
fn si(value: f64) -> String {
    let (factor, prefix) = prefix(value.abs());
    format!("{} {prefix}", three_digits(value / factor))
}

/// The largest prefix of which there is one in `value`, and what it stands for.
fn prefix(value: f64) -> (f64, &'static str) {
    let known = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    known.into_iter().find(|(factor, _)| value >= *factor).unwrap_or((1.0, ""))
}

/// Two values as people read them side by side, both in the prefix of the lesser one: `160` and `1000`, `81.2 MB/s` and `1250 MB/s`.
/// `unit` is that of both: `B/s`, or nothing for operations.
pub fn format_alike(one: f64, other: f64, unit: &str) -> (String, String) {
    let (factor, prefix) = prefix(one.abs().min(other.abs()));
    let written =
        |value: f64| format!("{} {prefix}{unit}", three_digits(value / factor)).trim_end().to_owned();
    (written(one), written(other))
}

/// About three significant digits, never in exponent form.
fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 || v == 0.0 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_are_short_for_people_and_exact_for_programs() {
        for (bytes, short) in [
            (49_368_184 << 10, "47.1GiB"),
            (10_000_000_000 / 4096 * 4096, "9.31GiB"),
            (256 << 10, "256KiB"),
            (1536 << 20, "1536MiB"),
            (3 << 40, "3TiB"),
            (100_000, "97.7KiB"),
            (1023, "1023B"),
            (0, "0B"),
        ] {
            assert_eq!(Bytes(bytes).short(), short);
            assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }
    }

    #[test]
    fn sizes_keep_binary_and_decimal_apart() {
        for (text, bytes) in [
            ("4k", 4096),
            ("4K", 4096),
            ("4KiB", 4096),
            ("4kB", 4000),
            ("10GB", 10_000_000_000),
            ("1.5MiB", 1_572_864),
            ("0", 0),
            ("512", 512),
            ("512 B", 512),
            ("1_000", 1000),
        ] {
            assert_eq!(text.parse::<Bytes>(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "k", "-4k", "4q", "4kiBs", "0.3B", "99999999999TiB", "1.", "4 k i"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_need_a_unit() {
        assert_eq!("1.5ms".parse::<Nanos>(), Ok(Nanos(1_500_000)));
        assert_eq!("2m".parse::<Nanos>(), Ok(Nanos::from_secs(120)));
        assert_eq!("0".parse::<Nanos>(), Ok(Nanos(0)));
        assert!(matches!("10".parse::<Nanos>(), Err(UnitError::NoUnit(..))));
    }

    #[test]
    fn people_read_three_digits() {
        assert_eq!(format_throughput(167_333_000.0), "167 MB/s");
        assert_eq!(format_iops(12_449.0), "12.4 k");
        assert_eq!(format_latency(1_530_000.0), "1.53 ms");
        assert_eq!(format_latency(0.0), "0 ns");
        assert_eq!([1.0, 2.0, 10.26].map(format_hours), ["1 hour", "2 hours", "10.3 hours"]);
        let alike = |one, other, unit| format_alike(one, other, unit);
        assert_eq!(alike(2500.0, 12_000.0, ""), ("2.50 k".into(), "12.0 k".into()));
        assert_eq!(alike(160.0, 1000.0, ""), ("160".into(), "1000".into()));
        assert_eq!(alike(1.25e9, 81.25e6, "B/s"), ("1250 MB/s".into(), "81.2 MB/s".into()));
        let waiting = [800, 90_000, 720_000, 12_600_000].map(|ms| format_waiting(Nanos::from_millis(ms)));
        assert_eq!(waiting, ["800 ms", "90 s", "12 min", "3.5 h"]);
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(v: u64) {
            prop_assert_eq!(Bytes(v).to_string().parse::<Bytes>(), Ok(Bytes(v)));
            prop_assert_eq!(Nanos(v).to_string().parse::<Nanos>(), Ok(Nanos(v)));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<Nanos>();
        }
    }
}
