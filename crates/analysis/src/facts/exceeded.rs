//! Time above limits as EBS volumes report it (NVMe log page 0xD0): how long, and when.

use super::*;
use ebbtide_model::samples::{DeviceObservation, ExceededInterval, LimitsExceeded};
use ebbtide_model::units::Nanos;

/// Share of the time above its limit that makes an EBS volume's own report a cause.
pub const EXCEEDED: f64 = 0.10;

/// Takes one of the limits.
type Which = fn(&LimitsExceeded) -> Nanos;

/// Which of two limits, given with their names, devices were above for longer: its name, the share of the measurement, and when that was, as the
/// end of a sentence. The share is that of the device that was longest, the median over trials. Nothing where that is less than [`EXCEEDED`], or no
/// device reports them.
pub fn longest_exceeded(
    case: &Case<'_>,
    limits: [(&'static str, Which); 2],
) -> Option<(&'static str, f64, String)> {
    let share = |which: Which| case.median(|trial| longest(trial, which).map(|(share, _)| share));
    let known = limits.into_iter().filter_map(|(name, which)| Some((name, which, share(which)?)));
    let (name, which, share) = known.max_by(|a, b| a.2.total_cmp(&b.2)).filter(|l| l.2 >= EXCEEDED)?;
    let trials = case.trials.iter().filter_map(|trial| longest(trial, which));
    let (_, device) = trials.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let above = |i: &&ExceededInterval| {
        which(&i.exceeded).0 as f64 > EXCEEDED * i.end.0.saturating_sub(i.start.0) as f64
    };
    let mut above = device.exceeded_series.iter().filter(above);
    // Pages may have been read at the ends only.
    let when = above.next().map_or(String::new(), |first| {
        let (from, until) = (first.start.as_secs_f64(), above.next_back().unwrap_or(first).end.as_secs_f64());
        format!(", between {from:.0} s and {until:.0} s of the trial in which it was longest")
    });
    Some((name, share, when))
}

/// The device that was longest above the limit, and its share of the measurement.
fn longest(trial: &TrialSamples, which: Which) -> Option<(f64, &DeviceObservation)> {
    let devices = trial.observed.as_ref()?.devices.iter();
    let shares = devices.filter_map(|d| Some((part(trial, which(d.exceeded.as_ref()?)), d)));
    shares.max_by(|a, b| a.0.total_cmp(&b.0))
}
