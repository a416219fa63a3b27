//! A rate that looks set: the same however many operations are in flight, and even over time.

use super::queues::growth;
use super::rungs::Step;
use super::standing::{AT_DEVICES, BUSY, at_devices_is, least_busy_is};
use super::*;
use crate::pace::{self, Pace};
use ebbtide_model::units::Nanos;

/// Rate over that with half of the requests at the device, from which on they hardly wait for one another, so that no rate is set
/// behind it: twice would be in proportion.
const IN_PROPORTION: f64 = 1.7;
/// How far a rung's rate may be from the others' and be the same; where operations wait above the devices and come in lots, as
/// much more as its series is coarse.
pub const SAME: f64 = 0.04;
/// The most that a coarse series adds to it, as a share of the rate.
const COARSE: f64 = 0.06;
/// How far what was done may be from what an even rate would have done, of all, where operations wait above the devices: there
/// nothing but a limit makes it even. A lot more or less comes on top.
pub const EVEN: f64 = 0.02;
/// The lots that the kernel lets pass are those of this time (block/blk-throttle.c, `throtl_slice`).
const LOT: Nanos = Nanos(100_000_000);
/// The same where they wait at the devices: an arm that moves at random is 1% off after a thousand operations, a device of even
/// pace as little as this.
pub const EVEN_AT_DEVICES: f64 = 0.005;
/// As even as no device is: short runs may then be [`SAME`] further from the trials' rate, which the first moments of a limit do,
/// when it lets more pass.
const AS_A_CLOCK: f64 = 0.0005;
/// How far the trials' rates may be from one another.
const SAME_TRIALS: f64 = 0.03;
/// After a step down a limit may let nothing pass for as long as what it let pass before lasts at the new rate: of the kernel's that is
/// [`LOT`] times the old rate over the new one.
const SETTLES: Nanos = Nanos(600_000_000);

/// A rate that looks set.
#[derive(Debug, Clone)]
pub struct SetRate {
    /// What the limit counts.
    pub counted: Counted,
    /// Of the array, per second.
    pub rate: f64,
    /// Operations wait above the devices, not at them.
    pub above: bool,
    /// The figures that show it.
    pub figures: Vec<Evidence>,
}

/// Whether the trials and the ladder look like a rate that is set.
pub fn find(
    case: &Case<'_>,
    rungs: Option<&Rungs<'_>>,
    devices: Option<Devices>,
    queues: &[FullQueue],
) -> Result<SetRate, Absent> {
    let telling = rungs.filter(|rungs| !rungs.deeper.is_empty() && !rungs.sizes.is_empty());
    let rungs = telling.ok_or_else(|| {
        Absent::because(
            "no short runs with more in flight and with other sizes were made, which would show it",
        )
    })?;
    let above = devices.is_some_and(|at| at.least_busy < BUSY && at.share < AT_DEVICES);
    let (ops, uneven, even) = over_time(case, above)?;
    let mut all = even.to_vec();
    let depths = rungs.depths();
    let coarse = depths.iter().chain(&rungs.sizes).map(|step| step.ops.grain).fold(0.0, f64::max);
    let alike = SAME
        + match uneven <= AS_A_CLOCK {
            true => SAME,
            false if above => coarse.min(COARSE),
            false => 0.0,
        };
    all.extend(whatever_the_depth(&depths, ops, alike)?);
    let counted = counted(case, rungs, ops, (alike, above), &mut all)?;
    let grows = queues.first().and_then(|queue| growth(case, rungs, queue)).map(|(_, grows)| grows);
    if let Some(grows) = grows.filter(|grows| *grows >= IN_PROPORTION && !above && case.keeps_in_flight()) {
        let what = "rate for each doubling of the requests at the device, which would have to be below";
        return Err(Absent::yields(
            VerdictKind::QueueLimit,
            "its disk's queue is full, and has as much more done for each request as it holds more",
        )
        .seen(what, grows, Unit::Times, IN_PROPORTION));
    }
    if let Some(at) = devices {
        all.extend([least_busy_is(at.least_busy), at_devices_is(at.share)]);
    }
    all.push(evidence("operations in flight", case.kept(), Unit::Operations, None));
    let rate = match counted {
        Counted::Operations => ops,
        Counted::Bytes => ops * case.workload.mean_bs(),
    };
    Ok(SetRate { counted, rate, above, figures: all })
}

/// Whether as many, fewer and more in flight have the rate of the trials: none a higher one, and most of them that one. What else
/// goes on makes a short run slower now and then.
fn whatever_the_depth(depths: &[Step<'_>], rate: f64, alike: f64) -> Result<[Evidence; 2], Absent> {
    let ratios: Vec<f64> = depths.iter().map(|step| step.over(rate)).collect();
    let highest = ratios.iter().copied().fold(0.0, f64::max);
    let same = ratios.iter().filter(|ratio| (*ratio - 1.0).abs() <= alike).count();
    let highest_is = "highest rate of the short runs over that of the trials, which would have to be below";
    let runs_are = "short runs of this size with the rate of the trials";
    let runs = ratios.len() as f64;
    let figures = |needed| {
        [
            evidence(highest_is, highest, Unit::Times, Some(1.0 + alike)),
            evidence(runs_are, same as f64, Unit::Runs, Some(needed)),
        ]
    };
    let why = if highest > 1.0 + alike {
        "the short runs had a higher rate than the trials"
    } else if 2 * same <= ratios.len() {
        "the rate changes with the number in flight"
    } else {
        return Ok(figures(runs));
    };
    Err(Absent::because(why).with(figures(runs / 2.0)))
}

/// Whether operations are counted or bytes: by what stays the same with other sizes.
fn counted(
    case: &Case<'_>,
    rungs: &Rungs<'_>,
    rate: f64,
    (alike, above): (f64, bool),
    figures: &mut Vec<Evidence>,
) -> Result<Counted, Absent> {
    let same = |ratio: f64| usize::from((ratio - 1.0).abs() <= alike);
    let (mut by_ops, mut by_bytes, asked) = (0, 0, case.workload.bs);
    for step in &rungs.sizes {
        let bs = step.rung.bs;
        let (ops, bytes) = (step.over(rate), step.over(rate * asked.0 as f64 / bs.0 as f64));
        by_ops += same(ops);
        by_bytes += same(bytes);
        let of_ops = format!("operations per second of {bs}, over those of {asked}");
        let of_bytes = format!("bytes per second in operations of {bs}, over those in {asked}");
        figures.push(evidence(of_ops, ops, Unit::Times, Some(1.0)));
        figures.push(evidence(of_bytes, bytes, Unit::Times, Some(1.0)));
    }
    // What fits neither may have run into another limit, or a device's own pace: that looks idle only below a limit.
    let enough = if above { 1 } else { rungs.sizes.len() };
    match (by_ops, by_bytes) {
        (ops, bytes) if ops + bytes < enough => {
            let why = "neither operations nor bytes are as many with other sizes";
            Err(Absent::because(why).with(figures.drain(..)))
        }
        (ops, bytes) if ops >= bytes => Ok(Counted::Operations),
        _ => Ok(Counted::Bytes),
    }
}

/// Where the rate of the trials is even: the rate in operations per second, how far it is from even, and the figures that show it. Of a trial that
/// slowed down in a step its end counts. The distance is that of what was done by some time from what an even rate would have done, of all.
pub fn over_time(case: &Case<'_>, above: bool) -> Result<(f64, f64, [Evidence; 2]), Absent> {
    let settled = |down: steps::StepDown| Nanos::from_secs_f64(down.seconds).plus(SETTLES);
    let lasting = |trial: &TrialSamples| steps::down(trial, steps::metric_of(case)).map_or(Nanos(0), settled);
    let paces: Vec<Pace> = case.trials.iter().filter_map(|trial| pace::of(trial, lasting(trial))).collect();
    let rates: Vec<f64> = paces.iter().map(|pace| pace.rate).collect();
    let uneven = median(paces.iter().map(|pace| pace.unevenness));
    let (Some(rate), Some(uneven)) = (median(&rates), uneven) else {
        return Err(Absent::unmeasured("too little was done to tell how even it was"));
    };
    // A lot at the end of one interval may as well be at the beginning of the next.
    let shortest = paces.iter().map(|pace| pace.span).fold(f64::MAX, f64::min);
    let lot = if above { LOT.as_secs_f64() / shortest } else { 0.0 };
    let even = lot + if above { EVEN } else { EVEN_AT_DEVICES };
    let alike = lot + SAME_TRIALS;
    // Half of the trials may have been disturbed.
    let apart = median(rates.iter().map(|other| (other / rate - 1.0).abs())).unwrap_or(0.0);
    let of_time = "distance of what was done by some time from an even rate, which would have to be below";
    let of_trials = "distance of the trials' rates from one another, which would have to be below";
    let figures = [share_is(of_time, uneven, even), share_is(of_trials, apart, alike)];
    if uneven > even || apart > alike {
        return Err(Absent::because("the rate varies over time, as that of a device does").with(figures));
    }
    Ok((rate, uneven, figures))
}
