//! fio's numbers and words.

use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{Access, Mix};

/// A whole number with fio's suffixes; `binary` is `kb_base=1024`, with which `k` is 1024 and `ki` is 1000.
pub(super) fn integer(text: &str, binary: bool) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || format!("`{text}` is not a number; write for example 4k or 10g");
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    // In hexadecimal `b` is a digit, so there is no unit of bytes.
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (number, unit) = digits.split_at(end);
    let number = u64::from_str_radix(number, radix).map_err(|_| wrong())?;
    let unit = unit.trim().to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (letter, iec) = match unit.strip_suffix('i') {
        Some(letter) => (letter, true),
        None => (unit, false),
    };
    let power = match letter {
        "" if !iec => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(wrong()),
    };
    let base: u64 = if iec == binary { 1000 } else { 1024 };
    number.checked_mul(base.pow(power)).ok_or_else(|| format!("`{text}` is more than 64 bits hold"))
}

/// A number of bytes.
pub(crate) fn bytes(text: &str, binary: bool) -> Result<Bytes, String> {
    integer(text, binary).map(Bytes)
}

/// A time; a bare number is in `unit` nanoseconds.
pub(crate) fn time(text: &str, unit: u64) -> Result<Nanos, String> {
    let text = text.trim();
    let wrong = || format!("`{text}` is not a time; write for example 30s or 500ms");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let factor = match suffix.trim().to_ascii_lowercase().as_str() {
        "" => unit,
        "us" | "usec" => 1_000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => Nanos::PER_SECOND,
        "m" => 60 * Nanos::PER_SECOND,
        "h" => 3_600 * Nanos::PER_SECOND,
        "d" => 86_400 * Nanos::PER_SECOND,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(factor)
        .map(Nanos)
        .ok_or_else(|| format!("`{text}` is more than 64 bits of nanoseconds"))
}

/// 0 or 1; an option without a value is on.
pub(crate) fn switch(value: Option<&str>) -> Result<bool, String> {
    match value.map(str::trim) {
        None | Some("1" | "true") => Ok(true),
        Some("0" | "false") => Ok(false),
        Some(other) => Err(format!("`{other}` is neither 0 nor 1")),
    }
}

pub(super) fn operation(text: &str) -> Result<(Access, Mix), String> {
    let mixed = Mix::Mixed { read_percent: 50 };
    choice(
        text,
        &[
            ("read", (Access::Sequential, Mix::Read)),
            ("write", (Access::Sequential, Mix::Write)),
            ("randread", (Access::Random, Mix::Read)),
            ("randwrite", (Access::Random, Mix::Write)),
            ("rw", (Access::Sequential, mixed)),
            ("readwrite", (Access::Sequential, mixed)),
            ("randrw", (Access::Random, mixed)),
        ],
    )
}

pub(super) fn choice<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("`{text}` is not one of {}", names.join(", "))
    })
}

/// fio takes a value each for reads, writes and trims; here they have to be the same.
pub(crate) fn one_value<T: PartialEq + Copy>(
    text: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<T, String> {
    let mut parts = text.split(',').filter(|part| !part.trim().is_empty()).map(read);
    let first = parts.next().ok_or("it has no value")??;
    for other in parts {
        if other? != first {
            return Err(format!("`{text}`: one value for reads and another for writes is not done"));
        }
    }
    Ok(first)
}

pub(super) fn one_block_size(text: &str, binary: bool) -> Result<Bytes, String> {
    let (low, high) = text.split_once(['-', ':']).unwrap_or((text, text));
    let (low, high) = (bytes(low, binary)?, bytes(high, binary)?);
    if low == high { Ok(low) } else { Err(format!("`{text}`: a range of block sizes is not done")) }
}

/// An amount in bytes or a share of something, up to all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Amount {
    Bytes(Bytes),
    /// Percent, 0 to 100.
    Percent(u8),
}

/// Bytes, or a share such as `50%`.
pub(super) fn amount(text: &str, binary: bool) -> Result<Amount, String> {
    match text.trim().strip_suffix('%') {
        Some(share) => percent(integer(share, true)?).map(Amount::Percent),
        None => bytes(text, binary).map(Amount::Bytes),
    }
}

pub(super) fn at_least_one(count: u32) -> Result<u32, String> {
    match count {
        0 => Err("0 is too few; write at least 1".to_owned()),
        1..=4096 => Ok(count),
        _ => Err(format!("{count} is more than 4096")),
    }
}

pub(super) fn percent(number: u64) -> Result<u8, String> {
    u8::try_from(number)
        .ok()
        .filter(|n| *n <= 100)
        .ok_or_else(|| format!("{number} is more than 100 percent"))
}

pub(crate) fn sync(value: Option<&str>) -> Result<bool, String> {
    match value.map(str::trim) {
        Some("none") => Ok(false),
        Some("sync") => Ok(true),
        Some("dsync") => Err("`dsync` is not done; write sync".to_owned()),
        other => switch(other),
    }
}
