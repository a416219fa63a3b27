//! Numbers and names as people read them, the same in every view.

use ebbtide_analysis::Comparison;
use ebbtide_analysis::evidence;
pub(crate) use ebbtide_analysis::evidence::{percent, ratio};
use ebbtide_model::backend::BackendKind;
use ebbtide_model::metric::Metric;
pub(crate) use ebbtide_model::units::format_count as count;

/// Of more names their number is told.
pub(crate) const MOST_NAMES: usize = 5;

/// A value of `metric` with its unit: `167 MB/s`, `12.4 k IOPS`, `1.53 ms`.
pub(crate) fn value(metric: Metric, value: f64) -> String {
    evidence::value_of(metric, value)
}

/// A range of `metric`; the unit is written once when both ends share it: `165–169 MB/s`.
pub(crate) fn range(metric: Metric, low: f64, high: f64) -> String {
    join_range(&value(metric, low), &value(metric, high), "–")
}

/// Joins two formatted quantities, leaving the first one's unit out when the second has the same.
pub(crate) fn join_range(low: &str, high: &str, separator: &str) -> String {
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, low_unit)), Some((_, high_unit))) if low_unit == high_unit => {
            format!("{number}{separator}{high}")
        }
        _ => format!("{low}{separator}{high}"),
    }
}

/// A confidence level: `95%`, `99.9%`.
pub(crate) fn level(level: f64) -> String {
    let text = format!("{:.1}", level * 100.0);
    format!("{}%", text.trim_end_matches(".0"))
}

/// `value` as `shown` writes it, or a dash where it is not known.
pub(crate) fn or_dash<T>(value: Option<T>, shown: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), shown)
}

/// The interval of a ratio: `0.98–1.00`.
pub(crate) fn ratio_range((low, high): (f64, f64)) -> String {
    format!("{}–{}", ratio(low), ratio(high))
}

/// How far from 1 the intervals reach, the other way round where that is farther, rounded up: `3.4%`.
pub(crate) fn bound<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> String {
    let reach = |(low, high): (f64, f64)| high.max(1.0 / low) - 1.0;
    let most = comparisons.into_iter().filter_map(|c| c.interval.map(reach)).fold(0.0, f64::max);
    // A tenth of a percent more would be said of a bound that is one in the file but not in binary.
    format!("{}%", (most * 1000.0 - 1e-6).ceil().max(1.0) / 10.0)
}

/// A duration in seconds as `3.0 s`, `2 min 5 s`, `1 h 3 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..=59 => format!("{seconds:.1} s"),
        60..=3_599 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3_600, whole / 60 % 60),
    }
}

/// A quantile as fio writes it in JSON: `99.000000`.
pub(crate) fn quantile_key(quantile: f64) -> String {
    format!("{:.6}", quantile * 100.0)
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// What a session ran on, as the option `--on` names it.
pub(crate) fn backend(kind: BackendKind) -> String {
    let name = serde_json::to_value(kind).ok();
    name.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_write_a_shared_unit_once() {
        assert_eq!(range(Metric::Throughput, 165e6, 169e6), "165–169 MB/s");
        assert_eq!(range(Metric::Throughput, 999e3, 1.02e6), "999 kB/s–1.02 MB/s");
        assert_eq!(range(Metric::Iops, 12_400.0, 12_600.0), "12.4–12.6 k IOPS");
        assert_eq!(range(Metric::LatP99, 950.0, 1500.0), "950 ns–1.50 us");
    }

    #[test]
    fn levels_keep_their_digits() {
        assert_eq!(level(0.95), "95%");
        assert_eq!(level(0.999), "99.9%");
    }
}
