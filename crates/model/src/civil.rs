//! Instants as people write them: UTC date and time of a count of nanoseconds since the epoch.

use crate::units::Nanos;
use std::fmt;

/// A date and time in UTC (proleptic Gregorian calendar, no leap seconds, as Unix time counts).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Civil {
    /// Year, 1970 to 2554 (what 64 bits of nanoseconds hold).
    pub year: u32,
    /// Month, 1 to 12.
    pub month: u32,
    /// Day of the month, 1 to 31.
    pub day: u32,
    /// Hour, 0 to 23.
    pub hour: u32,
    /// Minute, 0 to 59.
    pub minute: u32,
    /// Second, 0 to 59.
    pub second: u32,
}

impl Civil {
    /// The date and time of `unix` nanoseconds since the epoch, seconds rounded down.
    ///
    /// Years are counted from March, so that the leap day comes last: the day of the 400-year era and
    /// from it the year, month and day follow by division (H. Hinnant, "chrono-compatible low-level
    /// date algorithms", `civil_from_days`).
    pub fn from_unix(unix: Nanos) -> Self {
        let seconds = unix.0 / Nanos::PER_SECOND;
        let (days, in_day) = (seconds / 86_400, (seconds % 86_400) as u32);
        let days_since_year_0 = days + 719_468;
        let (era, day_of_era) = (days_since_year_0 / 146_097, (days_since_year_0 % 146_097) as u32);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        Civil {
            year: era as u32 * 400 + year_of_era + u32::from(month <= 2),
            month,
            day: day_of_year - (153 * march_month + 2) / 5 + 1,
            hour: in_day / 3_600,
            minute: in_day / 60 % 60,
            second: in_day % 60,
        }
    }

    /// Without separators, for names that sort by time: `20261121-143005`.
    pub fn compact(self) -> String {
        let Civil { year, month, day, hour, minute, second } = self;
        format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
    }
}

impl fmt::Display for Civil {
    /// `2026-11-21 14:30:05 UTC`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day, hour, minute, second } = self;
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
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
            assert_eq!(Civil::from_unix(Nanos::from_secs(seconds)).to_string(), text);
        }
        assert_eq!(Civil::from_unix(Nanos(u64::MAX)).year, 2554);
        assert_eq!(Civil::from_unix(Nanos::from_secs(1_795_271_405)).compact(), "20261121-143005");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let leap =
            |year: u32| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..200_000 {
            let civil = Civil::from_unix(Nanos::from_secs(days * 86_400));
            assert_eq!((civil.year, civil.month, civil.day), (year, month, day));
            let length = match month {
                2 => 28 + u32::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
