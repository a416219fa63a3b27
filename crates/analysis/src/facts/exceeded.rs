//! Time above limits as EBS volumes report it (NVMe log page 0xD0): how long, and when.

use super::case::{Case, part};
use crate::evidence::{Evidence, Unit, evidence, share_is};
use ebbtide_model::samples::{DeviceObservation, ExceededInterval, LimitsExceeded, TrialSamples};
use ebbtide_model::units::Nanos;

/// Share of the time above its limit that makes an EBS volume's own report a cause.
pub const EXCEEDED: f64 = 0.10;

/// A limit that volumes reported to have been above.
#[derive(Debug, Clone, PartialEq)]
pub struct Exceeded {
    /// Share of the measurement above it, of the device that was longest; median over trials.
    pub share: f64,
    /// The device and the seconds at which it was first and last above it, in the trial in which it was longest; nothing where pages were read at the
    /// ends only.
    pub when: Option<(String, f64, f64)>,
}

impl Exceeded {
    /// When, as the end of a sentence.
    pub fn stretch(&self) -> String {
        let when = |(_, from, until): &(String, f64, f64)| {
            format!(", between {from:.0} s and {until:.0} s of the trial in which it was longest")
        };
        self.when.as_ref().map_or(String::new(), when)
    }

    /// The figures: the share, and when.
    pub fn evidence(&self, whose: &str) -> Vec<Evidence> {
        let mut found =
            vec![share_is(format!("time above the {whose} limit, as reported"), self.share, EXCEEDED)];
        if let Some((device, from, until)) = &self.when {
            for (what, at) in [("first", from), ("last", until)] {
                let what = format!("{device} was {what} above it, from the start of the measurement");
                found.push(evidence(what, *at, Unit::Seconds, None));
            }
        }
        found
    }
}

/// Takes one of the limits.
type Which = fn(&LimitsExceeded) -> Nanos;

/// Which of two limits, given with their names, devices were above for longer; nothing where that was for less than
/// [`EXCEEDED`] of the time, or no device reports them.
pub fn longest_exceeded(
    case: &Case<'_>,
    limits: [(&'static str, Which); 2],
) -> Option<(&'static str, Exceeded)> {
    let known = limits.into_iter().filter_map(|(name, which)| Some((name, exceeded(case, which)?)));
    let longest = known.max_by(|a, b| a.1.share.total_cmp(&b.1.share));
    longest.filter(|(_, exceeded)| exceeded.share >= EXCEEDED)
}

fn exceeded(case: &Case<'_>, which: Which) -> Option<Exceeded> {
    let share = case.median(|trial| longest(trial, which).map(|(share, _)| share))?;
    let trials = case.trials.iter().filter_map(|trial| longest(trial, which));
    let (_, device) = trials.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let above = |i: &&ExceededInterval| {
        let span = i.end.0.saturating_sub(i.start.0) as f64;
        which(&i.exceeded).0 as f64 > EXCEEDED * span
    };
    let mut above = device.exceeded_series.iter().filter(above);
    let when = above.next().map(|first| {
        let last = above.next_back().unwrap_or(first);
        (device.name.clone(), first.start.as_secs_f64(), last.end.as_secs_f64())
    });
    Some(Exceeded { share, when })
}

/// The device that was longest above the limit, and its share of the measurement.
fn longest(trial: &TrialSamples, which: Which) -> Option<(f64, &DeviceObservation)> {
    let devices = trial.observed.as_ref()?.devices.iter();
    let shares = devices.filter_map(|d| Some((part(trial, which(d.exceeded.as_ref()?)), d)));
    shares.max_by(|a, b| a.0.total_cmp(&b.0))
}
