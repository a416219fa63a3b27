//! Days, for the periods in which a provider's figures held.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A day of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl FromStr for Date {
    type Err = String;

    /// Reads `2016-01-31`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no day; write for example 2016-01-31");
        let mut parts = text.trim().splitn(3, '-');
        let mut next = |digits: usize| {
            let part = parts.next().filter(|part| part.len() == digits)?;
            part.parse::<u16>().ok().filter(|_| part.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let (year, month, day) = match (next(4), next(2), next(2)) {
            (Some(year), Some(month), Some(day)) => (year, month, day),
            _ => return Err(wrong()),
        };
        let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        let days = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => 0,
        };
        if !(1..=days).contains(&day) {
            return Err(wrong());
        }
        Ok(Date { year, month: month as u8, day: day as u8 })
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl TryFrom<String> for Date {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Date> for String {
    fn from(date: Date) -> String {
        date.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_exist_or_are_refused() {
        for good in ["2016-01-31", "2016-02-29", "2000-02-29", "2026-12-31"] {
            assert_eq!(good.parse::<Date>().map(|date| date.to_string()).as_deref(), Ok(good));
        }
        for bad in [
            "2015-02-29",
            "1900-02-29",
            "2016-13-01",
            "2016-1-1",
            "16-01-01",
            "2016-04-31",
            "",
            "a-b-c",
            "2016-01-+1",
        ] {
            assert!(bad.parse::<Date>().is_err(), "{bad}");
        }
    }
}
