//! Days, for the periods in which a provider's figures held.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A day of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Date(jiff::civil::Date);

impl Date {
    /// Whether it is more than a year before `day`.
    pub fn is_a_year_before(self, day: Date) -> bool {
        self.0.checked_add(jiff::Span::new().years(1)).is_ok_and(|later| later < day.0)
    }
}

/// A text that is no day of the calendar.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no day; write for example 2016-01-31")]
pub struct DateError(String);

impl FromStr for Date {
    type Err = DateError;

    /// Reads `2016-01-31`, and no other of the forms of ISO 8601.
    fn from_str(text: &str) -> Result<Self, DateError> {
        let day = text.trim().parse::<jiff::civil::Date>().map(Date).ok();
        day.filter(|day| day.to_string() == text.trim()).ok_or_else(|| DateError(text.to_owned()))
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<String> for Date {
    type Error = DateError;
    fn try_from(text: String) -> Result<Self, DateError> {
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
    fn a_year_has_passed_the_day_after_its_anniversary() {
        let day = |text: &str| text.parse::<Date>().expect("a day");
        assert!(!day("2024-02-29").is_a_year_before(day("2025-02-28")));
        assert!(day("2024-02-29").is_a_year_before(day("2025-03-01")));
        assert!(!day("2026-01-01").is_a_year_before(day("2025-01-01")));
    }

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
            "20160131",
            "2016-01-31T00:00",
        ] {
            assert!(bad.parse::<Date>().is_err(), "{bad}");
        }
    }
}
