//! Instants as people write them: date and time in UTC.

use crate::units::UnixTime;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;
use std::fmt;

/// A date and time in UTC, of which seconds are shown (no leap seconds, as Unix time counts).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Civil(Timestamp);

impl Civil {
    /// The date and time of `unix`, in 1970 to 2554.
    pub fn from_unix(unix: UnixTime) -> Self {
        Civil(Timestamp::from_nanosecond(unix.0.into()).unwrap_or(Timestamp::MAX))
    }

    /// The date alone, `2026-11-21`.
    pub fn day(self) -> String {
        self.0.strftime("%Y-%m-%d").to_string()
    }

    /// The beginning of a day that is written as [`Civil::day`] writes it.
    pub fn of_day(text: &str) -> Option<Self> {
        let midnight = text.parse::<Date>().ok()?.at(0, 0, 0, 0);
        let timestamp = Offset::UTC.to_timestamp(midnight).ok()?;
        (timestamp >= Timestamp::UNIX_EPOCH).then_some(Civil(timestamp))
    }

    /// As time since the epoch.
    pub fn unix(self) -> UnixTime {
        UnixTime(u64::try_from(self.0.as_nanosecond()).unwrap_or(0))
    }

    /// The day without its year, short: `3 Mar`.
    pub fn short_day(self) -> String {
        self.0.strftime("%-d %b").to_string()
    }

    /// The month, short: `Mar 2026`.
    pub fn month(self) -> String {
        self.0.strftime("%b %Y").to_string()
    }

    /// As in a sentence, to the minute: `21 November 2026 14:30 UTC`.
    pub fn in_words(self) -> String {
        self.0.strftime("%-d %B %Y %H:%M UTC").to_string()
    }

    /// The time of the day, to the minute: `14:30`.
    pub fn minute(self) -> String {
        self.0.strftime("%H:%M").to_string()
    }

    /// As in data, to the second: `2026-11-21T14:30:05Z` (RFC 3339).
    pub fn rfc3339(self) -> String {
        self.0.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// Without separators, for names that sort by time: `20261121-143005`.
    pub fn compact(self) -> String {
        self.0.strftime("%Y%m%d-%H%M%S").to_string()
    }
}

impl fmt::Display for Civil {
    /// `2026-11-21 14:30:05 UTC`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.strftime("%Y-%m-%d %H:%M:%S UTC").fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_795_271_405, "2026-11-21 14:30:05 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(Civil::from_unix(UnixTime::from_secs(seconds)).to_string(), text);
        }
        assert_eq!(
            Civil::from_unix(UnixTime(999_999_999)).to_string(),
            "1970-01-01 00:00:00 UTC",
            "rounded down"
        );
        assert_eq!(Civil::from_unix(UnixTime(u64::MAX)).to_string(), "2554-07-21 23:34:33 UTC");
        let instant = Civil::from_unix(UnixTime::from_secs(1_795_271_405));
        assert_eq!(instant.compact(), "20261121-143005");
        assert_eq!(instant.rfc3339(), "2026-11-21T14:30:05Z");
        assert_eq!((instant.short_day(), instant.month()), ("21 Nov".to_owned(), "Nov 2026".to_owned()));
        let day = Civil::of_day("2026-11-21").map(Civil::unix);
        assert_eq!(day, Some(UnixTime::from_secs(1_795_219_200)));
        assert_eq!(["", "2026-13-01", "1969-12-31", "x"].map(Civil::of_day), [None; 4]);
        assert_eq!(Civil::from_unix(UnixTime::from_secs(1_772_511_000)).in_words(), "3 March 2026 04:10 UTC");
    }
}
