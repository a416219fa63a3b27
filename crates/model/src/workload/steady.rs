//! A steady state that ends a run (fio's `steadystate`): what is looked at, and when it is one.

use super::text::{Sizes, TextError};
use crate::units::{Nanos, format_iops, format_latency, format_throughput};
use serde::{Deserialize, Serialize};

/// Figure whose steadiness ends the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SteadyMetric {
    /// Operations per second.
    Iops,
    /// Bytes per second.
    Bw,
    /// Mean latency in nanoseconds.
    Lat,
}

/// A criterion and its limit (fio's `steadystate=iops_slope:0.3%`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Criterion {
    /// The figure that has to be steady.
    pub metric: SteadyMetric,
    /// The slope of the least squares line, per measurement; else the largest distance of a measurement from their mean.
    pub slope: bool,
    /// Below this it is steady: in the metric's unit, or in percent of the mean.
    pub limit: f64,
    /// Whether the limit is in percent of the mean.
    pub percent: bool,
}

/// A steady state that ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    /// When it is one.
    #[serde(flatten)]
    pub criterion: Criterion,
    /// The last so much time is judged (fio's `steadystate_duration`): a multiple of `interval`, at least twice that.
    pub window: Nanos,
    /// Time from the start of the measurement that is not looked at (fio's `steadystate_ramp_time`).
    pub ramp: Nanos,
    /// Time of one measurement (fio's `steadystate_check_interval`).
    pub interval: Nanos,
}

/// What was done in one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Moment {
    /// Operations that completed.
    pub ops: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// The sum of their latencies, in nanoseconds.
    pub latency: u64,
}

impl Moment {
    /// The sum of this and `more`.
    #[must_use]
    pub fn plus(self, more: Moment) -> Moment {
        Moment {
            ops: self.ops.saturating_add(more.ops),
            bytes: self.bytes.saturating_add(more.bytes),
            latency: self.latency.saturating_add(more.latency),
        }
    }
}

/// Whether a run became steady, and what the last window showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteadyResult {
    /// Whether it did, which ended it.
    pub attained: bool,
    /// What is held against the limit; absent where the window was not full, or nothing completed in it.
    pub criterion: Option<f64>,
    /// Slope of the metric per measurement, in its unit.
    pub slope: Option<f64>,
    /// Largest distance of a measurement from their mean, in the metric's unit.
    pub deviation: Option<f64>,
    /// Its measurements, at most a window full.
    pub moments: Vec<Moment>,
}

/// Digits after the point of a percentage, beyond which it is as good as none.
const MOST_DIGITS: usize = 12;

impl SteadyMetric {
    /// Its value in `moment`, which lasted `interval`; nothing where it has none.
    pub fn of(self, moment: &Moment, interval: Nanos) -> Option<f64> {
        let seconds = interval.as_secs_f64();
        match self {
            SteadyMetric::Iops => Some(moment.ops as f64 / seconds),
            SteadyMetric::Bw => Some(moment.bytes as f64 / seconds),
            SteadyMetric::Lat => (moment.ops > 0).then(|| moment.latency as f64 / moment.ops as f64),
        }
    }

    /// fio's word for it.
    pub fn name(self) -> &'static str {
        match self {
            SteadyMetric::Iops => "iops",
            SteadyMetric::Bw => "bw",
            SteadyMetric::Lat => "lat",
        }
    }

    /// `value` for people.
    pub fn shown(self, value: f64) -> String {
        match self {
            SteadyMetric::Iops => format!("{} IOPS", format_iops(value)),
            SteadyMetric::Bw => format_throughput(value),
            SteadyMetric::Lat => format_latency(value),
        }
    }
}

impl Criterion {
    /// `iops_slope:0.3%`, where `bytes` reads numbers of bytes.
    ///
    /// # Errors
    /// What is wrong, without what to write instead.
    pub fn parse(text: &str, bytes: Sizes<'_>) -> Result<Criterion, TextError> {
        let (word, limit) = text.split_once(':').ok_or_else(|| TextError::NoLimit(text.to_owned()))?;
        let (name, slope) = word.strip_suffix("_slope").map_or((word, false), |name| (name, true));
        let metric = [SteadyMetric::Iops, SteadyMetric::Bw, SteadyMetric::Lat];
        let metric = metric.into_iter().find(|metric| metric.name() == name);
        let metric = metric.ok_or_else(|| TextError::Criterion(word.to_owned()))?;
        let limit = limit.trim();
        let (number, percent) = limit.strip_suffix('%').map_or((limit, false), |number| (number, true));
        let plain = number.trim().parse::<f64>().ok();
        let limit = match (metric, percent) {
            (SteadyMetric::Bw, false) => bytes(number)?.0 as f64,
            (SteadyMetric::Lat, false) => match plain {
                // fio's unit of a bare latency.
                Some(microseconds) => microseconds * 1e3,
                None => number.parse::<Nanos>()?.0 as f64,
            },
            _ => plain.ok_or_else(|| TextError::NoNumber(number.to_owned()))?,
        };
        if !limit.is_finite() || limit <= 0.0 {
            return Err(TextError::Limit(number.to_owned()));
        }
        Ok(Criterion { metric, slope, limit, percent })
    }

    /// As fio writes it, its limit in its unit: operations or bytes per second, or microseconds.
    pub fn in_fios_words(&self) -> String {
        let slope = if self.slope { "_slope" } else { "" };
        let (limit, sign) = match (self.percent, self.metric) {
            (true, _) => (self.limit, "%"),
            (false, SteadyMetric::Lat) => (self.limit / 1e3, ""),
            (false, _) => (self.limit, ""),
        };
        format!("{}{slope}:{limit}{sign}", self.metric.name())
    }

    /// `value` of it for people.
    pub fn shown(&self, value: f64) -> String {
        if !self.percent {
            return self.metric.shown(value);
        }
        // Small slopes are what is asked for: as many digits as say it.
        let said = |digits: &usize| {
            let text = format!("{value:.digits$}");
            text.parse::<f64>().is_ok_and(|said| (said - value).abs() <= value.abs() / 100.0)
        };
        format!("{value:.*}%", (3..MOST_DIGITS).find(said).unwrap_or(MOST_DIGITS))
    }
}

impl SteadyState {
    /// Measurements in a window.
    pub fn measurements(&self) -> usize {
        usize::try_from(self.window.0 / self.interval.0.max(1)).unwrap_or(usize::MAX)
    }

    /// Judges the last measurements, a window full of them or fewer.
    ///
    /// The slope is that of the least squares line over the numbers of the measurements, 0, 1, 2..., as in fio (steadystate.c,
    /// `steadystate_slope`).
    pub fn judge(&self, moments: Vec<Moment>) -> SteadyResult {
        let mut seen =
            SteadyResult { attained: false, criterion: None, slope: None, deviation: None, moments };
        let values = seen.moments.iter().map(|moment| self.criterion.metric.of(moment, self.interval));
        let Some(values) = values.collect::<Option<Vec<f64>>>() else { return seen };
        if values.len() < self.measurements().max(2) {
            return seen;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let middle = (n - 1.0) / 2.0;
        let products = values.iter().enumerate().map(|(x, y)| (x as f64 - middle) * (y - mean)).sum::<f64>();
        let slope = products / (n * (n * n - 1.0) / 12.0);
        let deviation = values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max);
        (seen.slope, seen.deviation) = (Some(slope), Some(deviation));
        if mean <= 0.0 {
            // That nothing is done is no state to measure in.
            return seen;
        }
        let size = if self.criterion.slope { slope.abs() } else { deviation };
        let criterion = if self.criterion.percent { 100.0 * size / mean } else { size };
        seen.criterion = Some(criterion);
        seen.attained = criterion < self.criterion.limit;
        seen
    }

    /// `until the slope of the IOPS over 30s is below 0.3%`.
    pub fn in_words(&self) -> String {
        let Criterion { metric, slope, limit, .. } = self.criterion;
        let (metric, is, changes) = match metric {
            SteadyMetric::Iops => ("IOPS", "are", "change"),
            SteadyMetric::Bw => ("throughput", "is", "changes"),
            SteadyMetric::Lat => ("mean latency", "is", "changes"),
        };
        let limit = self.criterion.shown(limit);
        let limit = if self.criterion.percent { format!("{}%", self.criterion.limit) } else { limit };
        let (window, interval) = (self.window, self.interval);
        if slope {
            format!(
                "the {metric} of each {interval} {changes} by less than {limit} from one to the next, over {window}"
            )
        } else {
            format!("the {metric} of each {interval} {is} within {limit} of their mean over {window}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;
    use proptest::prelude::*;

    fn bytes(text: &str) -> Result<Bytes, TextError> {
        Ok(text.parse()?)
    }

    fn state(text: &str, seconds: u64) -> SteadyState {
        SteadyState {
            criterion: Criterion::parse(text, &bytes).expect(text),
            window: Nanos::from_secs(seconds),
            ramp: Nanos(0),
            interval: Nanos::from_secs(1),
        }
    }

    fn moments(ops: &[u64]) -> Vec<Moment> {
        ops.iter().map(|ops| Moment { ops: *ops, bytes: ops * 4096, latency: ops * 1000 }).collect()
    }

    #[test]
    fn a_limit_is_told_with_the_digits_that_it_has() {
        let criterion = |text| Criterion::parse(text, &bytes).expect("is one");
        let small = criterion("iops_slope:0.0001%");
        assert_eq!((small.shown(2.987_4), small.shown(small.limit)), ("2.987%".into(), "0.0001%".into()));
        assert_eq!(small.shown(0.0), "0.000%");
        let lat = SteadyState { interval: Nanos::from_millis(100), ..state("lat:5%", 1) };
        assert_eq!(lat.in_words(), "the mean latency of each 100ms is within 5% of their mean over 1s");
    }

    #[test]
    fn deviations_and_slopes_are_held_against_their_limits() {
        // Mean 100, furthest 8, slope of 90, 100, 110 is 10.
        for (text, ops, criterion, attained) in [
            ("iops:9%", vec![100, 92, 104, 104], Some(8.0), true),
            ("iops:8%", vec![100, 92, 104, 104], Some(8.0), false),
            ("iops:9", vec![100, 92, 104, 104], Some(8.0), true),
            ("bw:4096", vec![100, 101, 99, 100], Some(4096.0), false),
            ("iops_slope:11%", vec![90, 100, 110], Some(10.0), true),
            ("iops_slope:9", vec![110, 100, 90], Some(10.0), false),
            ("lat_slope:1%", vec![110, 100, 90], Some(0.0), true),
            ("iops:9%", vec![0, 0], None, false),
            ("lat:9%", vec![100, 0], None, false),
        ] {
            let seen = state(text, ops.len() as u64).judge(moments(&ops));
            assert_eq!((seen.criterion, seen.attained), (criterion, attained), "{text} {ops:?}");
        }
        assert_eq!(state("iops:9%", 4).judge(moments(&[100, 100, 100])).criterion, None, "is not full");
    }

    #[test]
    fn a_criterion_is_read_and_written_in_fios_words() {
        for text in ["iops:10%", "bw_slope:0.3%", "lat_slope:2.5", "iops:7", "bw:1000"] {
            assert_eq!(state(text, 2).criterion.in_fios_words(), text);
        }
        assert_eq!(state("lat:5us", 2).criterion.limit, 5e3);
        for (text, why) in [
            ("iops", "has no limit"),
            ("ipos:3", "is none of iops,"),
            ("iops:x%", "`x` is no number"),
            ("lat:0", "must be more than 0"),
            ("bw:-1", "does not begin with a number"),
            ("bw:0", "must be more than 0"),
            ("iops:nan", "must be more than 0"),
        ] {
            let found = Criterion::parse(text, &bytes).expect_err(text).to_string();
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    proptest! {
        /// The least squares line is the one of which no other is nearer.
        #[test]
        fn no_other_line_is_nearer(ops in proptest::collection::vec(1u64..10_000, 2..40), by in -1.0f64..1.0) {
            let seen = state("iops_slope:1%", ops.len() as u64).judge(moments(&ops));
            let slope = seen.slope.expect("is full");
            let mean = ops.iter().sum::<u64>() as f64 / ops.len() as f64;
            let middle = (ops.len() - 1) as f64 / 2.0;
            let distance = |slope: f64| -> f64 {
                let line = |x: usize| mean + slope * (x as f64 - middle);
                ops.iter().enumerate().map(|(x, y)| (*y as f64 - line(x)).powi(2)).sum()
            };
            prop_assert!(distance(slope) <= distance(slope + by) * (1.0 + 1e-9) + 1e-6);
            let furthest = ops.iter().map(|y| (*y as f64 - mean).abs()).fold(0.0, f64::max);
            prop_assert!((seen.deviation.expect("is full") - furthest).abs() < 1e-9);
        }
    }
}
