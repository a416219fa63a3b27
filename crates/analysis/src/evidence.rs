//! Figures that support a verdict, and their units: one list of them, and one way in which people read them.

use crate::judged::Absent;
use ebbtide_model::metric::Metric;
use ebbtide_model::units::{format_bytes, format_count, format_iops, format_latency, format_throughput};
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

/// What a figure is counted in; its name is that of JSON. Earlier names are read too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[serde(into = "&'static str", try_from = "String")]
#[strum(serialize_all = "lowercase")]
pub enum Unit {
    /// Part of a whole, 0 to 1.
    Share,
    /// One value over another.
    Times,
    /// Power of a power law.
    Exponent,
    /// Nanoseconds.
    #[strum(serialize = "ns")]
    Nanoseconds,
    /// Seconds.
    #[strum(serialize = "s")]
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    #[strum(to_string = "bytes/s", serialize = "B/s")]
    BytesPerSecond,
    /// Operations per second.
    #[strum(to_string = "ops/s", serialize = "1/s", serialize = "iops", serialize = "IOPS")]
    OpsPerSecond,
    /// Requests of a device per second.
    #[strum(serialize = "requests/s")]
    RequestsPerSecond,
    /// Any other events per second.
    #[strum(serialize = "per second")]
    PerSecond,
    /// Processors' cores.
    Cores,
    /// Calls to a file server.
    Calls,
    /// Devices of an array.
    Devices,
    /// Members of a design.
    Members,
    /// Operations of the load.
    Operations,
    /// Requests of a device.
    Requests,
    /// Short runs of a ladder.
    Runs,
    /// Trials of a session that show something.
    Trials,
    /// A unit of a program's own, which is told beside it.
    Other,
}

impl TryFrom<String> for Unit {
    type Error = strum::ParseError;

    fn try_from(name: String) -> Result<Unit, strum::ParseError> {
        name.parse()
    }
}

impl From<Metric> for Unit {
    fn from(metric: Metric) -> Unit {
        match metric {
            Metric::Throughput => Unit::BytesPerSecond,
            Metric::Iops => Unit::OpsPerSecond,
            Metric::LatP50 | Metric::LatP99 | Metric::Time => Unit::Nanoseconds,
            Metric::Own(_) => Unit::Other,
        }
    }
}

impl Unit {
    /// `value` in it as people read it: `167 MB/s`, `12.4 k IOPS`, `1.53 ms`, `12.5%`, `6 trials`.
    pub fn shown(self, value: f64) -> String {
        let name: &str = self.into();
        let with_name = || format!("{} {name}", ratio(value));
        match self {
            Unit::BytesPerSecond => format_throughput(value),
            Unit::OpsPerSecond => format!("{} IOPS", format_iops(value)),
            Unit::Nanoseconds => format_latency(value),
            Unit::Share => percent(value),
            Unit::Bytes if value >= 0.0 => format_bytes(value.round()),
            Unit::Times
            | Unit::Exponent
            | Unit::Seconds
            | Unit::Bytes
            | Unit::Other
            | Unit::RequestsPerSecond
            | Unit::PerSecond => with_name(),
            Unit::Calls
            | Unit::Cores
            | Unit::Devices
            | Unit::Members
            | Unit::Operations
            | Unit::Requests
            | Unit::Runs
            | Unit::Trials => {
                // Things that are counted, unless the figure is a mean of counts.
                let whole = value >= 0.0 && value.fract() == 0.0;
                if whole { format_count(value as u64, name.trim_end_matches('s')) } else { with_name() }
            }
        }
    }

    /// A rate of bytes or of operations in words, the latter as "operations/s".
    pub(crate) fn rate_in_words(self, rate: f64) -> String {
        match self {
            Unit::BytesPerSecond => format_throughput(rate),
            Unit::RequestsPerSecond => format!("{} requests/s", format_iops(rate)),
            _ => format!("{} operations/s", format_iops(rate)),
        }
    }
}

/// A value of `metric` as people read it: `12.4 k IOPS`, `1 234 tps`.
pub fn value_of(metric: Metric, value: f64) -> String {
    match metric {
        Metric::Own(figure) => {
            let unit = &figure.definition().unit;
            let number = if value.abs() < 1000.0 { ratio(value) } else { format_iops(value) };
            format!("{number} {unit}").trim_end().to_owned()
        }
        metric => Unit::from(metric).shown(value),
    }
}

/// A ratio with three significant digits below 100: `7.95`, `12.4`, `1.00`.
pub fn ratio(value: f64) -> String {
    match value.abs() {
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.0995 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// A share in percent: `12.5%`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent.abs() {
        p if p >= 99.95 || p == 0.0 => format!("{percent:.0}%"),
        p if p < 0.095 => "<0.1%".to_owned(),
        _ => format!("{percent:.1}%"),
    }
}

/// On which side of its edge a figure is asked to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// At it or above.
    #[strum(serialize = "at least")]
    AtLeast,
    /// At it or below.
    #[strum(serialize = "at most")]
    AtMost,
    /// Below it.
    #[strum(serialize = "below")]
    Below,
}

/// A figure that supports a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What the figure is, for example "iops of vol3 against its limit".
    pub what: String,
    /// The measured figure, in `unit`.
    pub value: f64,
    /// What it is counted in.
    pub unit: Unit,
    /// What it is compared with, in the same unit.
    pub reference: Option<f64>,
    /// Where that is the edge of a check: the side on which the figure has to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Side>,
}

impl Evidence {
    /// What it is compared with, in brackets: the edge that is asked for, or a figure that stands beside it.
    pub fn compared(&self) -> Option<String> {
        let reference = self.unit.shown(self.reference?);
        Some(match self.asked {
            Some(side) => format!("(asked: {} {reference})", <&str>::from(side)),
            None => format!("(beside {reference})"),
        })
    }

    /// The figure of a cause that is not asserted: what it is compared with, it would have had to be.
    pub(crate) fn in_vain(mut self) -> Evidence {
        let sides = [("below", Side::Below), ("at most", Side::AtMost)];
        for (word, side) in sides {
            if let Some(what) = self.what.strip_suffix(&format!(", which would have to be {word}")) {
                (self.what, self.asked) = (what.to_owned(), Some(side));
            }
        }
        let asked = self.asked.unwrap_or(Side::AtLeast);
        Evidence { asked: self.reference.map(|_| asked), ..self }
    }

    /// Whether it is a number, and so shows something: no other is one in JSON.
    pub(crate) fn is_finite(&self) -> bool {
        self.value.is_finite() && self.reference.is_none_or(f64::is_finite)
    }
}

/// One thing that a rule looks at: what it is, the edge beyond which it speaks for the cause, and why the edge is there. Rules decide by these
/// edges, and the table of a verdict's page is made of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Check {
    /// What is looked at.
    pub what: &'static str,
    /// The edge, in `unit`.
    pub edge: f64,
    /// What it is counted in.
    pub unit: Unit,
    /// Whether what is below the edge speaks for the cause, and not what is at it or above.
    pub below: bool,
    /// Why the edge is there.
    pub why: &'static str,
}

impl Check {
    /// That a figure is `edge` or more.
    pub(crate) const fn at_least(what: &'static str, edge: f64, unit: Unit, why: &'static str) -> Check {
        Check { what, edge, unit, below: false, why }
    }

    /// That a figure is below `edge`.
    pub(crate) const fn below(what: &'static str, edge: f64, unit: Unit, why: &'static str) -> Check {
        Check { what, edge, unit, below: true, why }
    }

    /// Whether this value speaks for the cause.
    pub(crate) fn holds(&self, value: f64) -> bool {
        (value < self.edge) == self.below
    }

    /// The value as a figure.
    pub(crate) fn figure(&self, value: f64) -> Evidence {
        let asked = Some(if self.below { Side::Below } else { Side::AtLeast });
        Evidence { asked, ..evidence(self.what, value, self.unit, Some(self.edge)) }
    }

    /// The value as a figure of a cause that is not asserted.
    pub(crate) fn missed(&self, value: f64) -> Evidence {
        self.figure(value)
    }

    /// The figure; `why` the cause is not asserted where it does not hold.
    pub(crate) fn require(&self, value: f64, why: &str) -> Result<Evidence, Absent> {
        if self.holds(value) {
            Ok(self.figure(value))
        } else {
            Err(Absent::because(why).with([self.missed(value)]))
        }
    }

    /// Its row in the table of a page.
    pub fn row(&self) -> String {
        let side = if self.below { "below" } else { "at least" };
        format!("| {} | {side} {} | {} |", self.what, self.unit.shown(self.edge), self.why)
    }
}

/// The checks of a rule, each a constant, and the list of them in the order of its page.
macro_rules! checks {
    ($($name:ident: $side:ident($what:expr, $edge:expr, $unit:ident, $why:expr);)+) => {
        $(pub(super) const $name: $crate::evidence::Check =
            $crate::evidence::Check::$side($what, $edge, $crate::evidence::Unit::$unit, $why);)+
        pub(super) const CHECKS: &[$crate::evidence::Check] = &[$($name),+];
    };
}
pub(crate) use checks;

/// A figure with its unit, and what it is compared with.
pub(crate) fn evidence(what: impl Into<String>, value: f64, unit: Unit, reference: Option<f64>) -> Evidence {
    let figure = Evidence { what: what.into(), value, unit, reference, asked: None };
    // Something was divided by nothing, and a rule may have been decided by it: no test of the rules may see that.
    #[cfg(test)]
    assert!(figure.is_finite(), "{figure:?}");
    figure
}

/// A share, and the one that it is compared with.
pub(crate) fn share_is(what: impl Into<String>, value: f64, reference: f64) -> Evidence {
    evidence(what, value, Unit::Share, Some(reference))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_counts_in_whole_numbers_and_nouns() {
        assert_eq!(Unit::Operations.shown(1.0), "1 operation");
        assert_eq!(Unit::Trials.shown(6.0), "6 trials");
        assert_eq!(Unit::Operations.shown(0.5), "0.50 operations", "a mean");
        assert_eq!(Unit::Bytes.shown(67_108_864.0), "67.1 MB");
    }

    #[test]
    fn shares_keep_their_digits() {
        assert_eq!(percent(0.125), "12.5%");
        assert_eq!(percent(1.0), "100%");
        assert_eq!(percent(0.0001), "<0.1%");
    }

    #[test]
    fn units_are_written_as_ever_and_earlier_names_are_read() {
        let written = |unit: Unit| serde_json::to_value(unit).expect("a text");
        assert_eq!(written(Unit::BytesPerSecond), "bytes/s");
        assert_eq!(written(Unit::OpsPerSecond), "ops/s");
        assert_eq!((written(Unit::Share), written(Unit::PerSecond)), ("share".into(), "per second".into()));
        let read = |name: &str| serde_json::from_value::<Unit>(name.into());
        assert_eq!(read("B/s").expect("known"), Unit::BytesPerSecond);
        assert_eq!(read("IOPS").expect("known"), Unit::OpsPerSecond);
        assert!(read("furlongs").is_err());
    }
}
