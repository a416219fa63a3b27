//! fio's numbers and words.

use super::ValueError;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::TextError;
use ebbtide_model::workload::options::{Amount, Read, Written, switch};

/// A whole number with fio's suffixes; `binary` is `kb_base=1024`, with which `k`, `kb` and `ki` are 1024 and `kib` is 1000.
pub(super) fn integer(text: &str, binary: bool) -> Result<u64, ValueError> {
    let text = text.trim();
    let wrong = || ValueError::NoNumber(text.to_owned());
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => (hex, 16),
        None => (text, 10),
    };
    // In hexadecimal `b` is a digit, so there is no unit of bytes.
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (number, unit) = digits.split_at(end);
    let number = u64::from_str_radix(number, radix).map_err(|_| wrong())?;
    let unit = unit.trim().to_ascii_lowercase();
    // fio turns the base around for the whole of `kib` only: `ki` is `k`.
    let (letter, turned) = match unit.strip_suffix("ib") {
        Some(letter) => (letter, true),
        None => (unit.strip_suffix('b').unwrap_or(&unit), false),
    };
    let letter = match letter.strip_suffix('i') {
        Some(letter @ ("k" | "m" | "g" | "t" | "p")) if !turned => letter,
        _ => letter,
    };
    let power = match letter {
        "" if !turned => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(wrong()),
    };
    let base: u64 = if turned == binary { 1000 } else { 1024 };
    number.checked_mul(base.pow(power)).ok_or_else(|| ValueError::TooLarge(text.to_owned()))
}

/// A number of bytes.
pub(crate) fn bytes(text: &str, binary: bool) -> Result<Bytes, ValueError> {
    integer(text, binary).map(Bytes)
}

/// A time; a bare number is in `unit` nanoseconds.
pub(crate) fn time(text: &str, unit: u64) -> Result<Nanos, ValueError> {
    let text = text.trim();
    let wrong = || ValueError::NoTime(text.to_owned());
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
    number.checked_mul(factor).map(Nanos).ok_or_else(|| ValueError::TooLong(text.to_owned()))
}

/// fio takes a value each for reads, writes and trims; here they have to be the same.
pub(crate) fn one_value<T: PartialEq + Copy>(
    text: &str,
    read: impl Fn(&str) -> Result<T, ValueError>,
) -> Result<T, ValueError> {
    let mut parts = text.split(',').filter(|part| !part.trim().is_empty()).map(read);
    let first = parts.next().ok_or(ValueError::Absent)??;
    for other in parts {
        if other? != first {
            return Err(ValueError::Different(text.to_owned()));
        }
    }
    Ok(first)
}

/// A number of bytes; a range of block sizes has to be of one.
fn size(text: &str, binary: bool) -> Result<Bytes, ValueError> {
    let (low, high) = text.split_once(['-', ':']).unwrap_or((text, text));
    let (low, high) = (bytes(low, binary)?, bytes(high, binary)?);
    if low == high { Ok(low) } else { Err(ValueError::Range(text.to_owned())) }
}

fn signed(number: u64) -> Result<i64, ValueError> {
    i64::try_from(number).map_err(|_| ValueError::Unsigned(number))
}

/// The value of an option in a job file.
pub(crate) struct Value<'a> {
    /// Absent where there is no `=`: a switch that is turned on.
    pub(crate) text: Option<&'a str>,
    /// See [`integer`].
    pub(crate) binary: bool,
}

impl<'a> Value<'a> {
    /// What is there, where it has to be something.
    pub(super) fn given(&self) -> Result<&'a str, ValueError> {
        self.text.filter(|text| !text.is_empty()).ok_or(ValueError::Absent)
    }

    /// A number that counts no bytes.
    pub(super) fn number(&self) -> Result<u64, ValueError> {
        one_value(self.given()?, |part| integer(part, true))
    }
}

impl Written for Value<'_> {
    fn size(&mut self) -> Read<Bytes> {
        Ok(one_value(self.given()?, |part| size(part, self.binary))?)
    }
    fn size_in(&self, text: &str) -> Result<Bytes, TextError> {
        bytes(text, self.binary).map_err(|error| TextError::Size(error.to_string()))
    }
    fn amount(&mut self) -> Read<Amount> {
        let Some(share) = self.given()?.trim().strip_suffix('%') else {
            return self.size().map(Amount::Bytes);
        };
        let percent = integer(share, true)?;
        let share = u8::try_from(percent).ok().filter(|percent| *percent <= 100);
        Ok(Amount::Percent(share.ok_or(ValueError::Percent(percent))?))
    }
    fn whole(&mut self) -> Read<i64> {
        match self.given()?.trim().strip_prefix('-') {
            Some(digits) => Ok(-signed(integer(digits, true)?)?),
            None => Ok(signed(Value::number(self)?)?),
        }
    }
    fn number(&mut self) -> Read<f64> {
        // Only a percentage of latency_percentile has a fraction in fio, and no suffix then.
        match self.given()?.trim() {
            text if text.contains('.') => {
                text.parse().map_err(|_| ValueError::NoNumber(text.to_owned()).into())
            }
            _ => Ok(Value::number(self)? as f64),
        }
    }
    fn time(&mut self, bare: Nanos) -> Read<Nanos> {
        Ok(time(self.given()?, bare.0)?)
    }
    fn switch(&mut self, words: &[(&str, bool)]) -> Read<bool> {
        switch(self.text, words)
    }
    fn text(&mut self) -> Read<String> {
        Ok(self.given()?.to_owned())
    }
}
