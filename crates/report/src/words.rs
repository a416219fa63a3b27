//! Numbers and names as people read them, the same in every view.

use super::model::TrialView;
use ebbtide_model::backend::BackendKind;
use ebbtide_model::metric::Metric;
pub(crate) use ebbtide_model::units::format_count as count;
use ebbtide_model::units::{format_iops, format_latency, format_throughput};

/// The metric's name in text.
pub(crate) fn metric_label(metric: Metric) -> &'static str {
    match metric {
        Metric::Throughput => "throughput",
        Metric::Iops => "operations per second",
        Metric::LatP50 => "median latency",
        Metric::LatP99 => "p99 latency",
    }
}

/// A value of `metric` with its unit: `167 MB/s`, `12.4 k IOPS`, `1.53 ms`.
pub(crate) fn value(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Throughput => format_throughput(value),
        Metric::Iops => format!("{} IOPS", format_iops(value)),
        Metric::LatP50 | Metric::LatP99 => format_latency(value),
    }
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

/// A ratio with three significant digits below 100: `7.95`, `12.4`, `1.00`.
pub(crate) fn ratio(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.0995 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A share in percent: `12.5%`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        p if p >= 99.95 || p == 0.0 => format!("{percent:.0}%"),
        p if p < 0.095 => "<0.1%".to_owned(),
        _ => format!("{percent:.1}%"),
    }
}

/// A confidence level: `95%`, `99.9%`.
pub(crate) fn level(level: f64) -> String {
    let text = format!("{:.1}", level * 100.0);
    format!("{}%", text.trim_end_matches(".0"))
}

/// A figure of evidence in its unit.
pub(crate) fn evidence(value: f64, unit: &str) -> String {
    match unit {
        "bytes/s" | "B/s" => format_throughput(value),
        "ns" => format_latency(value),
        "share" => percent(value),
        "1/s" | "iops" | "IOPS" | "ops/s" => format!("{} IOPS", format_iops(value)),
        "" => ratio(value),
        "bytes" if value >= 0.0 => bytes(value.round() as u64),
        // Things that are counted, unless the figure is a mean of counts.
        "members" | "operations" | "requests" | "trials" if value >= 0.0 && value.fract() == 0.0 => {
            count(value as u64, unit.trim_end_matches('s'))
        }
        other => format!("{} {other}", ratio(value)),
    }
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

/// Why a trial was run, in JSON and CSV.
pub(crate) fn role_key(trial: &TrialView) -> &'static str {
    if trial.control_again { "control_again" } else { "candidate" }
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

/// A number of bytes in powers of 1000: `12.3 MB`.
pub(crate) fn bytes(bytes: u64) -> String {
    format_throughput(bytes as f64).trim_end_matches("/s").to_owned()
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
    fn evidence_counts_in_whole_numbers_and_nouns() {
        assert_eq!(evidence(1.0, "operations"), "1 operation");
        assert_eq!(evidence(6.0, "trials"), "6 trials");
        assert_eq!(evidence(0.5, "operations"), "0.50 operations", "a mean");
        assert_eq!(evidence(67_108_864.0, "bytes"), "67.1 MB");
    }

    #[test]
    fn shares_and_levels_keep_their_digits() {
        assert_eq!(percent(0.125), "12.5%");
        assert_eq!(percent(1.0), "100%");
        assert_eq!(percent(0.0001), "<0.1%");
        assert_eq!(level(0.95), "95%");
        assert_eq!(level(0.999), "99.9%");
    }
}
