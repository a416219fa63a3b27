//! fio's numbers.

use crate::units::{Bytes, Nanos};

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
pub(super) fn bytes(text: &str, binary: bool) -> Result<Bytes, String> {
    integer(text, binary).map(Bytes)
}

/// A time; a bare number is in `unit` nanoseconds.
pub(super) fn time(text: &str, unit: u64) -> Result<Nanos, String> {
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
pub(super) fn switch(value: Option<&str>) -> Result<bool, String> {
    match value.map(str::trim) {
        None | Some("1" | "true") => Ok(true),
        Some("0" | "false") => Ok(false),
        Some(other) => Err(format!("`{other}` is neither 0 nor 1")),
    }
}
