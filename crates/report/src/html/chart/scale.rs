//! Scales: from a value to a place between 0 and 1, with round ticks.

use crate::words;
use ebbtide_analysis::Unit;
use ebbtide_model::civil::Civil;
use ebbtide_model::units::{UnixTime, format_iops};

/// What is on an axis; says how its numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::html) enum Quantity {
    /// Figures in a unit.
    In(Unit),
    /// `-log10(1 - quantile)`.
    Nines,
    /// Seconds since the epoch.
    Date,
}

impl Quantity {
    /// `value` as a label of the axis.
    pub(in crate::html) fn label(self, value: f64) -> String {
        match self {
            Quantity::Nines => format!("p{}", quantile_name(value)),
            Quantity::Date => Civil::from_unix(UnixTime::from_secs(value.max(0.0) as u64)).day(),
            Quantity::In(_) if value == 0.0 => "0".to_owned(),
            // Steps of 0.2 add up to 0.6000000000000001; nothing finer than a microsecond is drawn.
            Quantity::In(Unit::Seconds) => format!("{} s", libm::round(value * 1e6) / 1e6),
            Quantity::In(Unit::Share) => words::percent(value).replace(".0%", "%"),
            Quantity::In(Unit::OpsPerSecond) => short(&format_iops(value)),
            Quantity::In(unit) => short(&unit.shown(value)),
        }
    }

    /// Name for the script that inverts the axis.
    pub(in crate::html) fn key(self) -> &'static str {
        match self {
            Quantity::In(unit) => unit.into(),
            Quantity::Nines => "nines",
            Quantity::Date => "date",
        }
    }
}

/// `50`, `99`, `99.9` from the number of nines.
fn quantile_name(nines: f64) -> String {
    let percent = 100.0 * (1.0 - libm::pow(10.0, -nines));
    let text = format!("{percent:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A round number without the digits that are not needed: `1.00 ms` is `1 ms`.
fn short(text: &str) -> String {
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        None if text.contains('.') => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        _ => text.to_owned(),
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::html) struct Scale {
    low: f64,
    high: f64,
    log: bool,
    quantity: Quantity,
}

impl Scale {
    /// From 0 to a round number at or above `most`, in at most `parts` round parts.
    pub(in crate::html) fn from_zero(quantity: Quantity, most: f64, parts: usize) -> Self {
        let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
        let step = round_step(most, parts);
        Scale { low: 0.0, high: libm::ceil(most / step - 1e-9) * step, log: false, quantity }
    }

    /// From `low` to `high` as they are.
    pub(in crate::html) fn exact(quantity: Quantity, low: f64, high: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Scale { low, high, log: false, quantity }
    }

    /// Around `low` to `high` with some air on both sides, from 0 when that is not far away.
    pub(in crate::html) fn around(quantity: Quantity, low: f64, high: f64, parts: usize) -> Self {
        if !low.is_finite() || !high.is_finite() || low < 0.7 * high {
            return Self::from_zero(quantity, high, parts);
        }
        let air = ((high - low) * 0.15).max(high * 0.002);
        Scale { low: (low - air).max(0.0), high: high + air, log: false, quantity }
    }

    /// Logarithmic, out to tick marks on both sides of `low` to `high` (both above 0).
    pub(in crate::html) fn log(quantity: Quantity, low: f64, high: f64) -> Self {
        let low = if low.is_finite() && low > 0.0 { low } else { 1.0 };
        let high = if high.is_finite() && high > low { high } else { low * 10.0 };
        Scale { low: one_two_five(low, false), high: one_two_five(high, true), log: true, quantity }
    }

    /// The label of its upper end.
    pub(in crate::html) fn top(&self) -> String {
        self.quantity.label(self.high)
    }

    /// Whether it begins at 0 (a logarithmic one never does).
    pub(in crate::html) fn begins_at_zero(&self) -> bool {
        self.low == 0.0
    }

    /// The place of `value`, 0 to 1; outside values go to the edge, NaN to 0.
    pub(in crate::html) fn place(&self, value: f64) -> f64 {
        let place = if self.log {
            libm::log(value.max(f64::MIN_POSITIVE) / self.low) / libm::log(self.high / self.low)
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    /// At most `most` round values (at least 2) with their labels, ascending.
    pub(in crate::html) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        let values = if self.log { self.log_ticks(most) } else { self.linear_ticks(most) };
        values.into_iter().map(|v| (v, self.quantity.label(v))).collect()
    }

    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        let span = self.high - self.low;
        let mut step = round_step(span, most);
        let within = |step: f64| {
            let first = libm::ceil(self.low / step - 1e-9) as i64;
            let last = libm::floor(self.high / step + 1e-9) as i64;
            (first, last)
        };
        let (mut first, mut last) = within(step);
        while (last - first + 1) as usize > most.max(2) {
            step = round_step(step * 1.5, 1);
            (first, last) = within(step);
        }
        (first..=last).map(|i| i as f64 * step).collect()
    }

    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let (first, last) = (
            libm::floor(libm::log10(self.low) + 1e-9) as i32,
            libm::ceil(libm::log10(self.high) - 1e-9) as i32,
        );
        let inside = |v: &f64| *v >= self.low * (1.0 - 1e-9) && *v <= self.high * (1.0 + 1e-9);
        let candidates = |digits: &[f64], every: usize| -> Vec<f64> {
            (first..=last)
                .step_by(every)
                .flat_map(|e| {
                    digits.iter().map(move |d| d * libm::pow(10.0, f64::from(e))).collect::<Vec<_>>()
                })
                .filter(inside)
                .collect()
        };
        [(&[1.0, 2.0, 5.0][..], 1), (&[1.0, 3.0][..], 1), (&[1.0][..], 1), (&[1.0][..], 2), (&[1.0][..], 3)]
            .into_iter()
            .map(|(digits, every)| candidates(digits, every))
            .find(|ticks| ticks.len() <= most.max(2))
            .unwrap_or_else(|| vec![self.low, self.high])
    }

    /// `low,high,lin|log,quantity` for the script.
    pub(in crate::html) fn data(&self) -> String {
        format!("{},{},{},{}", self.low, self.high, if self.log { "log" } else { "lin" }, self.quantity.key())
    }
}

/// The least of 1, 2, 5 times a power of ten that cuts `span` into at most `parts`.
fn round_step(span: f64, parts: usize) -> f64 {
    one_two_five(span / parts.max(1) as f64, true)
}

/// The next of 1, 2, 5 times a power of ten above or below `value` (above 0).
fn one_two_five(value: f64, up: bool) -> f64 {
    let power = libm::pow(10.0, libm::floor(libm::log10(value)));
    let digit = value / power;
    let pick = if up {
        [1.0, 2.0, 5.0, 10.0].into_iter().find(|d| *d >= digit * (1.0 - 1e-9))
    } else {
        [5.0, 2.0, 1.0].into_iter().find(|d| *d <= digit * (1.0 + 1e-9))
    };
    pick.unwrap_or(if up { 10.0 } else { 1.0 }) * power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round() {
        let labels = |scale: Scale, n| scale.ticks(n).into_iter().map(|(_, l)| l).collect::<Vec<_>>();
        assert_eq!(
            labels(Scale::from_zero(Quantity::In(Unit::BytesPerSecond), 127e6, 4), 4),
            ["0", "50 MB/s", "100 MB/s", "150 MB/s"]
        );
        assert_eq!(
            labels(Scale::log(Quantity::In(Unit::Nanoseconds), 2.4e5, 8e6), 6),
            ["200 us", "500 us", "1 ms", "2 ms", "5 ms", "10 ms"]
        );
        assert_eq!(
            labels(Scale::exact(Quantity::In(Unit::Seconds), 0.0, 3.0), 4),
            ["0", "1 s", "2 s", "3 s"]
        );
        assert_eq!(Quantity::Nines.label(3.0), "p99.9");
        assert_eq!(Quantity::Nines.label(libm::log10(2.0)), "p50");
    }

    proptest! {
        #[test]
        fn ticks_are_few_ascending_and_inside(low in 1.0f64..1e12, factor in 1.0001f64..1e6, most in 2usize..8, kind in 0u8..3) {
            let high = low * factor;
            let scale = match kind {
                0 => Scale::from_zero(Quantity::In(Unit::Nanoseconds), high, most),
                1 => Scale::log(Quantity::In(Unit::Nanoseconds), low, high),
                _ => Scale::around(Quantity::In(Unit::Nanoseconds), low, high, most),
            };
            let ticks = scale.ticks(most);
            prop_assert!(ticks.len() <= most.max(2) + 1, "{ticks:?}");
            prop_assert!(ticks.windows(2).all(|w| w[0].0 < w[1].0));
            for (value, _) in &ticks {
                let place = scale.place(*value);
                prop_assert!((0.0..=1.0).contains(&place));
            }
            prop_assert!(scale.place(low) <= scale.place(high));
        }

        #[test]
        fn any_number_has_a_place(value in any::<f64>(), low in any::<f64>(), high in any::<f64>()) {
            for scale in [
                Scale::from_zero(Quantity::In(Unit::OpsPerSecond), high, 4),
                Scale::exact(Quantity::In(Unit::OpsPerSecond), 0.0, 1.0),
                Scale::log(Quantity::In(Unit::OpsPerSecond), low, high),
            ] {
                prop_assert!((0.0..=1.0).contains(&scale.place(value)));
            }
        }
    }
}
