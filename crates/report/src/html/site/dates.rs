//! Round dates along an axis, in UTC.

use ebbtide_model::civil::Civil;
use ebbtide_model::units::UnixTime;

/// Labels that fit beside each other on a phone.
const MOST: usize = 5;
/// Seconds of a day.
pub(super) const DAY: u64 = 86_400;

/// Days from `from` to `to`, in seconds since the epoch, with labels: days, weeks (Mondays) or months, as few as fit.
pub(super) fn ticks(from: u64, to: u64) -> Vec<(f64, String)> {
    let days: Vec<(u64, Civil)> = (from.div_ceil(DAY)..=to / DAY)
        .map(|day| (day, Civil::from_unix(UnixTime::from_secs(day * DAY))))
        .collect();
    // 1 January 1970 was a Thursday.
    let monday = |day: u64| day % 7 == 4;
    let month = |civil: Civil| {
        let day = civil.day();
        let mut parts = day.split('-').map(|part| part.parse::<u64>().unwrap_or(0));
        let (year, month) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        (parts.next() == Some(1)).then_some(year * 12 + month - 1)
    };
    type Chosen<'a> = Box<dyn Fn(&(u64, Civil)) -> bool + 'a>;
    let by_days: [Chosen; 4] = [
        Box::new(|_| true),
        Box::new(|(day, _)| day % 2 == 0),
        Box::new(|(day, _)| monday(*day)),
        Box::new(|(day, _)| monday(*day) && day / 7 % 2 == 0),
    ];
    for chosen in by_days {
        let kept: Vec<&(u64, Civil)> = days.iter().filter(|day| chosen(day)).collect();
        if kept.len() <= MOST {
            return kept.into_iter().map(|(day, civil)| ((day * DAY) as f64, civil.short_day())).collect();
        }
    }
    let months: Vec<(u64, &(u64, Civil))> =
        days.iter().filter_map(|day| Some((month(day.1)?, day))).collect();
    let every = [1, 2, 3, 6, 12, 24, 60, 120].into_iter();
    let of = |every: u64| months.iter().filter(move |(month, _)| month % every == 0);
    let every = every.clone().find(|every| of(*every).count() <= MOST).unwrap_or(1200);
    of(every).map(|(_, (day, civil))| ((day * DAY) as f64, civil.month())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(from: &str, to: &str) -> Vec<String> {
        let at = |day| Civil::of_day(day).map_or(0, |civil| civil.unix().0 / 1_000_000_000);
        ticks(at(from), at(to)).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn days_weeks_and_months_are_round() {
        assert_eq!(labels("2026-03-01", "2026-03-02"), ["1 Mar", "2 Mar"]);
        assert_eq!(labels("2026-03-01", "2026-03-08"), ["2 Mar", "4 Mar", "6 Mar", "8 Mar"]);
        // Mondays.
        assert_eq!(labels("2026-03-01", "2026-03-29"), ["2 Mar", "9 Mar", "16 Mar", "23 Mar"]);
        assert_eq!(labels("2026-01-15", "2026-05-15"), ["Feb 2026", "Mar 2026", "Apr 2026", "May 2026"]);
        assert_eq!(labels("2024-06-15", "2026-06-15"), ["Jul 2024", "Jan 2025", "Jul 2025", "Jan 2026"]);
    }

    proptest! {
        #[test]
        fn dates_are_few_and_inside(from in 0u64..4_000_000_000, days in 1u64..8000) {
            let to = from + days * DAY;
            let ticks = ticks(from, to);
            prop_assert!((1..=MOST).contains(&ticks.len()) || days > 4000, "{ticks:?}");
            prop_assert!(ticks.iter().all(|(at, _)| (from as f64..=to as f64).contains(at)));
            prop_assert!(ticks.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
