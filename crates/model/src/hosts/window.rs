//! Which part of a trial counts: the time in which all hosts were at work, in whole intervals of its series.

use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// Share of the longest time that any host measured in which all must have been at work; less is no trial.
pub const ENOUGH: f64 = 0.8;

/// A part of a trial, from the instant at which its measurement was to begin: the same on every host, by the clock of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Window {
    /// Its first instant, since the measurement was to begin.
    pub from: Nanos,
    /// The first instant after it.
    pub until: Nanos,
}

impl Window {
    /// Its length; 0 where it ends before it begins.
    pub fn length(self) -> Nanos {
        Nanos(self.until.0.saturating_sub(self.from.0))
    }

    /// The time that is in all of `windows`; nothing where there is none.
    pub fn common(windows: &[Window]) -> Option<Window> {
        let from = windows.iter().map(|window| window.from).max()?;
        let until = windows.iter().map(|window| window.until).min()?;
        (from < until).then_some(Window { from, until })
    }

    /// The common time of `windows`, where it is [`ENOUGH`] of the longest.
    ///
    /// # Errors
    /// The place in `windows` of the one that began last or ended first, whichever cost more, and the length that is left.
    pub fn enough(windows: &[Window]) -> Result<Window, (usize, Nanos)> {
        let longest = windows.iter().map(|window| window.length()).max().unwrap_or_default();
        let common = Window::common(windows);
        let left = common.map_or(Nanos(0), Window::length);
        match common {
            Some(common) if left.0 as f64 >= ENOUGH * longest.0 as f64 => Ok(common),
            _ => {
                let first = windows.iter().map(|window| window.from).min().unwrap_or_default();
                let last = windows.iter().map(|window| window.until).max().unwrap_or_default();
                let cost = |window: &Window| (window.from.0 - first.0).max(last.0 - window.until.0);
                let worst = (0..windows.len()).max_by_key(|place| cost(&windows[*place]));
                Err((worst.unwrap_or_default(), left))
            }
        }
    }

    /// The whole intervals of the length `interval` that are in it: the first, and how many. The last of a trial that has ended at `ended`
    /// is whole although it may be shorter.
    pub fn whole_intervals(self, interval: Nanos, ended: Nanos) -> (u64, u64) {
        let interval = interval.0.max(1);
        let first = self.from.0.div_ceil(interval);
        let end = match self.until >= ended {
            true => self.until.0.div_ceil(interval),
            false => self.until.0 / interval,
        };
        (first, end.saturating_sub(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn window(from: u64, until: u64) -> Window {
        Window { from: Nanos(from), until: Nanos(until) }
    }

    #[test]
    fn only_the_time_of_all_counts_and_too_little_of_it_is_no_trial() {
        let (early, late) = (window(0, 100), window(15, 100));
        assert_eq!(Window::enough(&[early, late]), Ok(window(15, 100)));
        assert_eq!(Window::enough(&[early, window(0, 95), window(3, 100)]), Ok(window(3, 95)));
        assert_eq!(Window::enough(&[early, window(30, 100)]), Err((1, Nanos(70))));
        assert_eq!(Window::enough(&[window(0, 40), early, late]), Err((0, Nanos(25))));
        assert_eq!(Window::enough(&[window(0, 40), window(50, 90)]), Err((1, Nanos(0))));
        assert_eq!((Window::enough(&[]), Window::common(&[])), (Err((0, Nanos(0))), None));
    }

    #[test]
    fn intervals_count_whole_and_the_last_of_a_trial_is_whole() {
        let whole = |from, until, ended| window(from, until).whole_intervals(Nanos(10), Nanos(ended));
        assert_eq!(whole(0, 100, 100), (0, 10));
        assert_eq!(whole(0, 99, 100), (0, 9));
        assert_eq!(whole(1, 100, 100), (1, 9));
        assert_eq!(whole(10, 95, 95), (1, 9));
        assert_eq!(whole(0, 95, 96), (0, 9));
        assert_eq!(whole(41, 49, 100), (5, 0));
    }

    proptest! {
        #[test]
        fn an_instant_counts_when_it_is_in_a_whole_interval_in_which_all_were_at_work(
            windows in proptest::collection::vec((0_u64..60, 1_u64..60), 1..5),
            interval in 1_u64..12,
        ) {
            let windows: Vec<Window> =
                windows.into_iter().map(|(from, length)| window(from, from + length)).collect();
            let common = Window::common(&windows);
            for own in &windows {
                let Some(common) = common else { continue };
                let (first, count) = common.whole_intervals(Nanos(interval), own.until);
                for instant in 0..130_u64 {
                    let of = instant / interval;
                    let counts = (first..first + count).contains(&of);
                    // The oracle asks every instant of the interval, up to the end of the trial itself.
                    let mut inside = (of * interval..(of + 1) * interval).filter(|at| *at < own.until.0);
                    let all = inside.all(|at| windows.iter().all(|w| (w.from.0..w.until.0).contains(&at)));
                    let any = of * interval < own.until.0;
                    prop_assert_eq!(counts, all && any, "{} of {:?} in {:?}", instant, common, windows);
                }
            }
        }
    }
}
