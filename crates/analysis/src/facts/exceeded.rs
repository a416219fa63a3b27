//! Time above limits as EBS volumes report it (NVMe log page 0xD0): how long, and when.

use super::case::Case;
use crate::evidence::{Evidence, Unit, evidence, share_is};
use ebbtide_model::samples::{DeviceObservation, LimitsExceeded, TrialSamples};
use ebbtide_model::units::Nanos;

/// Share of the time above its limit that makes an EBS volume's own report a cause.
pub const EXCEEDED: f64 = 0.10;
/// Slack at the ends of a trial within which a stretch is still all of it: readings are a second apart.
const ENDS: Nanos = Nanos(1_000_000_000);

/// A limit that volumes reported to have been above.
#[derive(Debug, Clone, PartialEq)]
pub struct Exceeded {
    /// Share of the measurement above it, of the device that was longest; median over trials.
    pub share: f64,
    /// When that was, in the trial in which it was longest; nothing where pages were read at the ends only.
    pub when: Option<Stretch>,
}

/// A stretch of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// Kernel name of the device.
    pub device: String,
    /// Start of the first interval above the limit, from the start of the measurement.
    pub from: Nanos,
    /// End of the last one.
    pub until: Nanos,
    /// Whether that is the whole trial.
    pub throughout: bool,
}

impl Exceeded {
    /// The stretch as the end of a sentence: ", throughout", ", from 3.0 s to 9.0 s of a trial", or nothing.
    pub fn stretch(&self) -> String {
        match &self.when {
            None => String::new(),
            Some(when) if when.throughout => ", throughout".to_owned(),
            Some(when) => format!(
                ", between {:.0} s and {:.0} s of the trial in which it was longest",
                when.from.as_secs_f64(),
                when.until.as_secs_f64()
            ),
        }
    }

    /// The figures: the share, and when.
    pub fn evidence(&self, whose: &str) -> Vec<Evidence> {
        let mut found =
            vec![share_is(format!("time above the {whose} limit, as reported"), self.share, EXCEEDED)];
        if let Some(when) = &self.when {
            let at = |what: &str, at: Nanos| {
                let what = format!("{} was {what} above it, from the start of the measurement", when.device);
                evidence(&what, at.as_secs_f64(), Unit::Seconds, None)
            };
            found.extend([at("first", when.from), at("last", when.until)]);
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
    let longest = known.reduce(|a, b| if b.1.share > a.1.share { b } else { a });
    longest.filter(|(_, exceeded)| exceeded.share >= EXCEEDED)
}

/// How long and when devices were above the limit that `which` takes; nothing where no device reports it.
fn exceeded(case: &Case<'_>, which: Which) -> Option<Exceeded> {
    let share = case.median(|trial| longest(trial, which).map(|(share, _)| share))?;
    let trials = case.trials.iter().filter_map(|trial| {
        let (share, device) = longest(trial, which)?;
        Some((share, *trial, device))
    });
    let (_, trial, device) = trials.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Exceeded { share, when: when(trial, device, which) })
}

/// The device that was longest above the limit, and its share of the measurement.
fn longest(trial: &TrialSamples, which: Which) -> Option<(f64, &DeviceObservation)> {
    let devices = trial.observed.as_ref()?.devices.iter();
    let times = devices.filter_map(|d| Some((which(d.exceeded.as_ref()?).0, d)));
    let (time, device) = times.max_by_key(|(time, _)| *time)?;
    (trial.elapsed.0 > 0).then(|| (time as f64 / trial.elapsed.0 as f64, device))
}

/// From the first to the last interval that was above the limit for a share that counts.
fn when(trial: &TrialSamples, device: &DeviceObservation, which: Which) -> Option<Stretch> {
    let above: Vec<_> = device
        .exceeded_series
        .iter()
        .filter(|i| {
            let span = i.end.0.saturating_sub(i.start.0);
            span > 0 && which(&i.exceeded).0 as f64 / span as f64 >= EXCEEDED
        })
        .collect();
    let (from, until) = (above.first()?.start, above.last()?.end);
    // A gap in the middle makes two stretches of it, which is not all of the trial.
    let whole = above.len() == device.exceeded_series.len();
    let ends = from <= ENDS && until.0.saturating_add(ENDS.0) >= trial.elapsed.0;
    Some(Stretch { device: device.name.clone(), from, until, throughout: whole && ends })
}
