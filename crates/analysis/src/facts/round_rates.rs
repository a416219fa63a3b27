//! Rates that somebody set, as people say them: the round figure.

use super::usage::Counted;
use ebbtide_model::units::{Bytes, format_iops, format_throughput};

/// How far a rate may be from a round one to be told as that.
const ROUND: f64 = 0.015;

/// The round figure that `rate` is about, or itself: of one digit, of a quarter of that (125), or of two; of operations, of MiB/s or
/// of MB/s.
pub fn round(counted: Counted, rate: f64) -> f64 {
    const QUARTER: f64 = 0.25;
    let units: &[f64] = match counted {
        Counted::Operations => &[1.0],
        Counted::Bytes => &[Bytes::MIB as f64, 1e6],
    };
    for (part, within) in [(1.0, ROUND), (QUARTER, ROUND / 2.0), (0.1, ROUND)] {
        for unit in units {
            let step = (10f64.powf((rate / unit).log10().floor()) * part).max(part.min(1.0));
            let round = (rate / unit / step).round() * step;
            let told = part >= QUARTER || (round - round.round()).abs() < 1e-9;
            if told && (rate / unit / round - 1.0).abs() <= within {
                return round * unit;
            }
        }
    }
    rate
}

/// The round figure of `rate` in words: `1,000 operations a second`, `40 MiB/s`.
pub fn shown(counted: Counted, rate: f64) -> String {
    let round = round(counted, rate);
    match counted {
        Counted::Operations if round < 1e5 => format!("{} operations a second", grouped(round)),
        Counted::Operations => format!("{} operations a second", format_iops(round)),
        Counted::Bytes => {
            let mib = round / Bytes::MIB as f64;
            if (mib - mib.round()).abs() < 1e-6 && mib >= 1.0 {
                format!("{mib:.0} MiB/s")
            } else {
                format_throughput(round)
            }
        }
    }
}

/// A number with its thousands apart: `1,000`.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_told_as_people_set_them() {
        let ops = |rate| shown(Counted::Operations, rate);
        assert_eq!(ops(1003.0), "1,000 operations a second");
        assert_eq!(ops(2993.0), "3,000 operations a second");
        assert_eq!(ops(1234.0), "1,234 operations a second");
        assert_eq!(ops(99.6), "100 operations a second");
        assert_eq!(ops(16_010.0), "16,000 operations a second");
        let bytes = |rate| shown(Counted::Bytes, rate);
        assert_eq!(bytes(40.1 * 1_048_576.0), "40 MiB/s");
        assert_eq!(bytes(100.2e6), "100 MB/s");
        assert_eq!(bytes(123.4e6), "123 MB/s");
    }
}
