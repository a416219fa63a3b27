//! `rate-limit`: somebody set a rate, and it is reached.
//!
//! Derivation. What holds operations to a rate (a cloud volume of which nobody said the type, a cgroup, a hypervisor, a SAN's
//! quality of service) lets so many operations pass in a second, or so many bytes, and nothing else changes that: the rate is the
//! same however many wait, and it is even over time. Operations of twice the size are then as many (operations are
//! counted), or half as many (bytes are). A device that serves as fast as it can is neither: its rate varies by some percent from
//! second to second, and larger operations take longer and move more. Where the operations wait says more: in a cgroup's
//! queue they have not reached the device yet, which looks idle; behind the device they fill its queue.

use super::group_limit::{self, Held, by_group};
use super::rungs::{Rungs, Step};
use super::set_rates::{Counted, fitting, round, shown};
use super::{Absent, Case, Judged, Rule, burst, evidence, queue_limit, standing, volume_limit};
use crate::estimate::median;
use crate::ladder::in_flight;
use crate::pace::{self, Pace};
use crate::{Basis, Evidence, Verdict, VerdictKind};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::units::Nanos;

/// How far a rung's rate may be from the others' and be the same; where operations wait above the devices and come in lots, as
/// much more as its series is coarse.
pub const SAME: f64 = 0.04;
/// Most of that.
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

#[derive(Debug)]
pub struct RateLimit;

/// A rate that looks set.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// What is counted.
    pub counted: Counted,
    /// Of the array, per second.
    pub rate: f64,
    /// Operations wait above the devices, not at them.
    pub above: bool,
    figures: Vec<Evidence>,
}

impl Rule for RateLimit {
    fn kind(&self) -> VerdictKind {
        VerdictKind::RateLimit
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        volume_limit::yield_to_volumes(case, "a declared limit is reached")?;
        let members = working(case);
        let held: Vec<Held> =
            group_limit::held(case).into_iter().filter(|held| held.share() >= volume_limit::NEAR).collect();
        if !held.is_empty() {
            return if held.len() == members {
                Ok(by_group(&held))
            } else {
                group_limit::of_some(case, &held)
            };
        }
        let found = find(case)?;
        let each = found.rate / members.max(1) as f64;
        let mut sentence = format!("looks like a rate that somebody set: {}", shown(found.counted, each));
        if members > 1 {
            sentence.push_str(" for each volume");
        }
        sentence.push_str(", whatever the depth");
        sentence.push_str(match found.counted {
            Counted::Operations => " and the size",
            Counted::Bytes => ", larger operations being fewer",
        });
        sentence.push_str(if found.above {
            "; operations wait above the device, which has time to spare: a cgroup or the like holds them back here"
        } else {
            "; the device's queue is full: it is held back behind it"
        });
        let types = fitting(case, found.counted, each);
        if !types.is_empty() {
            sentence.push_str(&format!("; {} has this figure", types.join(" or ")));
        }
        let mut figures = vec![evidence(
            "rate that it looks like, for each volume",
            round(found.counted, each),
            found.counted.unit(),
            Some(each),
        )];
        figures.extend(found.figures);
        Ok(Verdict {
            kind: VerdictKind::RateLimit,
            basis: Some(Basis::Inferred),
            confidence: if found.above { 0.9 } else { 0.8 },
            explains: 1.0,
            sentence,
            evidence: figures,
        })
    }
}

/// Members that did something.
fn working(case: &Case<'_>) -> usize {
    case.result.members.iter().filter(|member| member.iops > 0.0).count()
}

/// Whether the trials and the ladder look like a rate that is set.
pub(super) fn find(case: &Case<'_>) -> Result<Found, Absent> {
    let rungs = Rungs::of(case)
        .filter(|rungs| !rungs.deeper.is_empty() && !rungs.sizes.is_empty())
        .ok_or_else(|| {
            Absent::because(
                "no short runs with more in flight and with other sizes were made, which would show it",
            )
        })?;
    let at = standing::devices(case);
    let at_devices = standing::at_devices(case);
    let above = at.is_some_and(|at| at.least_busy < super::saturated::BUSY)
        && at_devices.is_some_and(|share| share < super::saturated::AT_DEVICES);
    let coarse = rungs.depths().iter().chain(&rungs.sizes).map(|step| step.ops.grain).fold(0.0, f64::max);
    let mut figures = Vec::new();
    let Even { rate: ops, uneven } = over_time(case, above, &mut figures)?;
    let more = if above { coarse.min(COARSE) } else { 0.0 };
    let more = if uneven <= AS_A_CLOCK { more.max(SAME) } else { more };
    let alike = SAME + more;
    let depths = rungs.depths();
    whatever_the_depth(&rungs, &depths, ops, alike, &mut figures)?;
    let counted = counted(case, &rungs, ops, (alike, above), &mut figures)?;
    if let Some((grows, needed)) = queue_limit::proportional(case, &rungs).filter(|_| !above) {
        let absent = Absent::yields(
            VerdictKind::QueueLimit,
            "its disk's queue is full, and has as much more done for each request as it holds more",
        );
        let what = "rate for each doubling of the requests at the device, which would have to be below";
        return Err(absent.seen(what, grows, "times", needed));
    }
    if let (Some(at), Some(share)) = (at, at_devices) {
        figures.push(evidence(
            "busy share of the least busy member's device",
            at.least_busy,
            "share",
            Some(super::saturated::BUSY),
        ));
        figures.push(evidence(
            "share of the operations in flight that are at the devices",
            share,
            "share",
            Some(super::saturated::AT_DEVICES),
        ));
    }
    let kept = f64::from(in_flight(case.workload));
    figures.push(evidence("operations in flight", kept, "operations", None));
    let rate = match counted {
        Counted::Operations => ops,
        Counted::Bytes => ops * case.workload.bs.0 as f64,
    };
    Ok(Found { counted, rate, above, figures })
}

/// Whether as many and more in flight have the rate of the trials: none a higher one, and most of them that one. What else
/// goes on makes a short run slower now and then.
fn whatever_the_depth(
    rungs: &Rungs<'_>,
    depths: &[Step<'_>],
    rate: f64,
    alike: f64,
    figures: &mut Vec<Evidence>,
) -> Result<(), Absent> {
    let ratios = |steps: &[Step<'_>]| steps.iter().map(|step| step.over(rate)).collect::<Vec<f64>>();
    let deeper = ratios(&rungs.deeper);
    let highest = ratios(depths).into_iter().fold(0.0, f64::max);
    let same = |ratio: &&f64| (**ratio - 1.0).abs() <= alike;
    let (of_all, all) = (ratios(depths).iter().filter(same).count(), depths.len());
    let what = [
        "highest rate of the short runs over that of the trials, which would have to be below",
        "short runs of this size with the rate of the trials",
    ];
    if highest > 1.0 + alike || deeper.iter().filter(same).count() == 0 || 2 * of_all <= all {
        let why = if highest > 1.0 + alike {
            "the short runs had a higher rate than the trials"
        } else {
            "the rate is not the same whatever the number in flight"
        };
        let absent = Absent::because(why).seen(what[0], highest, "times", 1.0 + alike);
        return Err(absent.seen(what[1], of_all as f64, "runs", all as f64 / 2.0));
    }
    figures.push(evidence(what[0], highest, "times", Some(1.0 + alike)));
    figures.push(evidence(what[1], of_all as f64, "runs", Some(all as f64)));
    Ok(())
}

/// Whether operations are counted or bytes: by what stays the same with other sizes.
fn counted(
    case: &Case<'_>,
    rungs: &Rungs<'_>,
    rate: f64,
    (alike, above): (f64, bool),
    figures: &mut Vec<Evidence>,
) -> Result<Counted, Absent> {
    let size = case.workload.bs.0 as f64;
    // Rates over the trials'.
    let ratio = |step: &Step<'_>| {
        let times = step.rung.bs.0 as f64 / size;
        (step.over(rate), step.over(rate / times))
    };
    let same = |ratio: f64| (ratio - 1.0).abs() <= alike;
    let fit = |of: fn((f64, f64)) -> f64| rungs.sizes.iter().filter(|step| same(of(ratio(step)))).count();
    let (by_ops, by_bytes) = (fit(|(ops, _)| ops), fit(|(_, bytes)| bytes));
    for step in &rungs.sizes {
        let (ops, bytes) = ratio(step);
        let bs = step.rung.bs;
        figures.push(evidence(
            &format!("operations per second of {bs}, over those of {}", case.workload.bs),
            ops,
            "times",
            Some(1.0),
        ));
        figures.push(evidence(
            &format!("bytes per second in operations of {bs}, over those in {}", case.workload.bs),
            bytes,
            "times",
            Some(1.0),
        ));
    }
    // What fits neither may have run into another limit, or a device's own pace: that looks idle only below a limit.
    let enough = if above { 1 } else { rungs.sizes.len() };
    match (by_ops, by_bytes) {
        (ops, bytes) if ops + bytes < enough => {
            let mut absent = Absent::because("neither operations nor bytes are as many with other sizes");
            absent.evidence.append(figures);
            Err(absent)
        }
        (ops, bytes) if ops >= bytes => Ok(Counted::Operations),
        _ => Ok(Counted::Bytes),
    }
}

/// An even rate.
pub(super) struct Even {
    /// Operations per second.
    rate: f64,
    /// Distance of what was done by some time from what an even rate would have done, of all.
    uneven: f64,
}

/// The rate of the trials, where it is even; of the end of one that slowed down in a step.
pub(super) fn over_time(case: &Case<'_>, above: bool, figures: &mut Vec<Evidence>) -> Result<Even, Absent> {
    let lasting = |trial: &TrialSamples| burst::step_down(case, trial).unwrap_or(Nanos(0));
    let paces: Vec<Pace> = case.trials.iter().filter_map(|trial| pace::of(trial, lasting(trial))).collect();
    let rates: Vec<f64> = paces.iter().map(|pace| pace.rate).collect();
    let uneven: Vec<f64> = paces.iter().map(|pace| pace.unevenness).collect();
    let (Some(rate), Some(uneven)) = (median(&rates), median(&uneven)) else {
        return Err(Absent::because("too little was done to tell how even it was"));
    };
    // A lot at the end of one interval may as well be at the beginning of the next.
    let shortest = paces.iter().map(|pace| pace.span).fold(f64::MAX, f64::min);
    let lot = if above { LOT.as_secs_f64() / shortest } else { 0.0 };
    let even = lot + if above { EVEN } else { EVEN_AT_DEVICES };
    let alike = lot + SAME_TRIALS;
    // Half of the trials may have been disturbed.
    let apart: Vec<f64> = rates.iter().map(|other| (other / rate - 1.0).abs()).collect();
    let apart = median(&apart).unwrap_or(0.0);
    let what = [
        "distance of what was done by some time from an even rate, which would have to be below",
        "distance of the trials' rates from one another, which would have to be below",
    ];
    if uneven > even || apart > alike {
        let absent = Absent::because("the rate varies over time, as that of a device does");
        return Err(absent.seen(what[0], uneven, "share", even).seen(what[1], apart, "share", alike));
    }
    figures.push(evidence(what[0], uneven, "share", Some(even)));
    figures.push(evidence(what[1], apart, "share", Some(alike)));
    Ok(Even { rate, uneven })
}
