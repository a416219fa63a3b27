//! Rates of bytes as text: `125MB/s`, `16MiB/s`, `64k/s`, and AWS's spelling `125MBps`.

use super::{Bytes, UnitError, split_number};

/// Why a text is no rate of bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Not a size before the time.
    #[error("{0}")]
    Unit(UnitError),
    /// A small `b` after a prefix, or the word: bits.
    #[error("`{text}` counts bits; {remedy}")]
    Bits {
        /// The text that was given.
        text: String,
        /// What to write instead.
        remedy: String,
    },
    /// A size without a time.
    #[error("`{0}` does not say in what time; write `{0}/s`")]
    NoTime(String),
}

/// What a text counts, by the letters after its number.
struct Split<'a> {
    number: &'a str,
    /// Unit of the size, as bytes are written.
    size: String,
    is_bits: bool,
    has_time: bool,
}

fn split(text: &str) -> Result<Split<'_>, UnitError> {
    let (number, unit) = split_number(text, "125MB/s or 16MiB/s")?;
    let slash = unit.strip_suffix("/s").map(str::trim_end);
    let lower = unit.to_ascii_lowercase();
    let per = || (lower.ends_with("bps") || lower.ends_with("bitps")).then(|| &unit[..unit.len() - 2]);
    let size = slash.or_else(per).unwrap_or(unit);
    let lower = size.to_ascii_lowercase();
    let word = ["bits", "bit"].iter().find_map(|word| lower.strip_suffix(word)).map(str::len);
    let prefix = word.or_else(|| size.strip_suffix('b').map(str::len)).map(|end| &size[..end]);
    Ok(Split {
        number,
        is_bits: prefix.is_some(),
        size: prefix.map_or_else(|| size.to_owned(), in_bytes),
        has_time: size.len() < unit.len(),
    })
}

/// The unit of bytes with this prefix, of which bits were given, as it is properly written: `MB`, `kB`, `KiB`.
fn in_bytes(prefix: &str) -> String {
    let lower = prefix.to_ascii_lowercase();
    match lower.as_str() {
        "" | "k" => format!("{lower}B"),
        other => {
            let (first, rest) = other.split_at(other.chars().next().map_or(0, char::len_utf8));
            format!("{}{rest}B", first.to_ascii_uppercase())
        }
    }
}

impl Bytes {
    /// Reads bytes per second. A small `b` is bits, as everywhere where rates are told, and refused: `Mb/s`, `Mibit/s`, `Mbps`;
    /// a large one is bytes: `MB/s`, `MBps`.
    ///
    /// # Errors
    /// What it is instead, and what to write.
    pub fn per_second(text: &str) -> Result<Bytes, RateError> {
        let text = text.trim();
        let Split { number, size, is_bits, has_time } = split(text).map_err(RateError::Unit)?;
        let rate: Bytes = format!("{number}{size}").parse().map_err(|error: UnitError| {
            // In the words that were given.
            RateError::Unit(match error {
                UnitError::UnknownUnit(_, unit, known) => {
                    UnitError::UnknownUnit(text.to_owned(), unit, known)
                }
                UnitError::OutOfRange(_, of) => UnitError::OutOfRange(text.to_owned(), of),
                other => other,
            })
        })?;
        if is_bits {
            let eighth = number.replace('_', "").parse::<f64>().map_or(0.0, |number| number / 8.0);
            let exact = format!("{eighth}{size}");
            let written = match exact.parse::<Bytes>() {
                Ok(_) => exact,
                Err(_) => format!("{}B", rate.0.div_ceil(8)),
            };
            let remedy = format!("write \"{written}/s\", or \"{number}{size}/s\" if bytes are meant");
            return Err(RateError::Bits { text: text.to_owned(), remedy });
        }
        if has_time { Ok(rate) } else { Err(RateError::NoTime(text.to_owned())) }
    }

    /// Reads bytes per second where nothing but a rate can be meant: the time may be left out, `64k`.
    ///
    /// # Errors
    /// Those of [`Bytes::per_second`].
    pub fn rate(text: &str) -> Result<Bytes, RateError> {
        match Bytes::per_second(text) {
            Err(RateError::NoTime(text)) => text.parse().map_err(RateError::Unit),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_large_b_is_bytes() {
        for (text, bytes) in [
            ("100MB/s", 100_000_000),
            ("100MBps", 100_000_000),
            ("12.5MBps", 12_500_000),
            ("16MiB/s", 16 << 20),
            ("16MiBps", 16 << 20),
            ("1GBps", 1_000_000_000),
            ("100mB/s", 100_000_000),
            ("64k/s", 65_536),
            ("10M/s", 10 << 20),
            ("100 MB/s", 100_000_000),
            ("512/s", 512),
            ("512B/s", 512),
        ] {
            assert_eq!(Bytes::per_second(text), Ok(Bytes(bytes)), "{text}");
            assert_eq!(Bytes::rate(text), Ok(Bytes(bytes)), "{text}");
        }
        for (text, bytes) in [("64k", 65_536), ("1m", 1 << 20), ("10M", 10 << 20), ("20MB", 20_000_000)] {
            assert_eq!(Bytes::rate(text), Ok(Bytes(bytes)), "{text}");
            assert!(matches!(Bytes::per_second(text), Err(RateError::NoTime(_))), "{text}");
        }
    }

    #[test]
    fn a_small_b_is_bits_and_refused_with_the_bytes() {
        for (text, bytes, meant) in [
            ("100Mb/s", "12.5MB/s", "100MB/s"),
            ("100mb/s", "12.5MB/s", "100MB/s"),
            ("64kib/s", "8KiB/s", "64KiB/s"),
            ("100Mib/s", "12.5MiB/s", "100MiB/s"),
            ("10Gbps", "1.25GB/s", "10GB/s"),
            ("1Gb/s", "0.125GB/s", "1GB/s"),
            ("100Mbit/s", "12.5MB/s", "100MB/s"),
            ("100 Mbits/s", "12.5MB/s", "100MB/s"),
            ("100Mbitps", "12.5MB/s", "100MB/s"),
            ("8_000kbps", "1000kB/s", "8_000kB/s"),
            ("9bps", "2B/s", "9B/s"),
        ] {
            let Err(RateError::Bits { remedy, .. }) = Bytes::per_second(text) else { panic!("{text}") };
            assert_eq!(remedy, format!("write \"{bytes}\", or \"{meant}\" if bytes are meant"), "{text}");
            for said in [bytes, meant] {
                assert!(Bytes::per_second(said).is_ok(), "{text}: {said}");
            }
            assert!(matches!(Bytes::rate(text), Err(RateError::Bits { .. })), "{text}");
        }
        assert!(matches!(Bytes::rate("10Mb"), Err(RateError::Bits { .. })));
    }

    #[test]
    fn other_texts_are_no_rates() {
        for text in ["", "k", "-4k/s", "4q/s", "MB/s", "1.B/s", "0.3B/s", "10ps", "10MB/h", "99999999TiB/s"] {
            assert!(matches!(Bytes::per_second(text), Err(RateError::Unit(_))), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = Bytes::per_second(&text);
            let _ = Bytes::rate(&text);
        }

        #[test]
        fn what_is_printed_is_read_back(rate: u64) {
            prop_assert_eq!(Bytes::per_second(&format!("{}/s", Bytes(rate))), Ok(Bytes(rate)));
        }
    }
}
