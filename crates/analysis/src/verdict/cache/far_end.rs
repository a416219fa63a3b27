//! The other half of `cache`: one at the far end, behind the volumes, which the disks' counters do not see.
//!
//! Derivation, where the volume says what a hit and a miss take: reads below the geometric mean of the two are hits.
//!
//! Where it does not, another design of the session is asked that uses the same volumes otherwise. No volume does more with
//! fewer operations in flight, the same operations, unless they are other operations to it: over a smaller part of it, which
//! fits into a cache. So a volume that does at least twice as much here, with no more in flight, and whose reads take a
//! fifth of the time, had them from a cache, if the other design knew some as fast: a rate limit that ran out of credits makes
//! all of them slow at once, and a volume that was slow for a while is not steady.

use super::*;
use crate::facts::elsewhere::{OfVolume, is_asked, read_latency, shown};
use crate::facts::moved::HIT_SHARE;
use crate::members::with_latencies;
use ebbtide_model::units::{format_iops, format_latency};

/// What a miss takes over what a hit takes, so that one can be told from the other.
const APART: f64 = 3.0;
/// Share of the other design's reads that must have been as fast as here.
const AS_FAST: f64 = 0.02;
/// More in flight than this many times the other's are no ground.
const AS_MANY: f64 = 1.1;

/// The verdict; `None` where nothing shows a cache behind the volumes.
pub(super) fn verdict(case: &Case<'_>) -> Option<Verdict> {
    // Of sequential reads the far end may have read ahead, which is no cache to be warned of.
    if !is_asked(case.workload) {
        return None;
    }
    known(case).or_else(|| shown_by_another(case))
}

fn between(low: f64, high: f64) -> u64 {
    (low * high).sqrt() as u64
}

/// By what the volumes' shapes say of a hit and a miss.
fn known(case: &Case<'_>) -> Option<Verdict> {
    let (mut reads, mut hits, mut slowest_hit, mut fastest_miss) = (0.0, 0.0, 0.0_f64, f64::INFINITY);
    for member in case.working() {
        let shape = case.shape(&member.name)?;
        let cache = shape.character.cache.as_ref().filter(|_| shape.character.seek.is_none())?;
        let (hit, miss) = (cache.latency.mean(), shape.read_latency.mean());
        if miss < hit * APART {
            return None;
        }
        let latency = read_latency(case.trials, Some(&member.name));
        let count = latency.count() as f64;
        reads += count;
        hits += count * latency.share_at_most(between(hit, miss))?;
        (slowest_hit, fastest_miss) = (slowest_hit.max(hit), fastest_miss.min(miss));
    }
    let share = Some(hits / reads).filter(|share| *share >= HIT_SHARE)?;
    let latency = read_latency(case.trials, None).percentile(50.0).unwrap_or_default() as f64;
    let sentence = format!(
        "a cache at the far end of the volumes answered {:.0}% of the reads, in about {} where one that misses it \
         takes {}: the disks that the host sees moved all of it",
        share * 100.0,
        format_latency(slowest_hit),
        format_latency(fastest_miss)
    );
    let what = "median latency of the members' reads, against a miss";
    let figures = vec![evidence(what, latency, Unit::Nanoseconds, Some(fastest_miss))];
    Some(found(Sure::Certain, share, sentence, figures))
}

fn found(sure: Sure, share: f64, sentence: String, mut figures: Vec<Evidence>) -> Verdict {
    figures.push(share_is("share answered by a cache", share, HIT_SHARE));
    Verdict::new(VerdictKind::Cache, sure, share, sentence, figures)
}

/// By another design that has one of the volumes too.
fn shown_by_another(case: &Case<'_>) -> Option<Verdict> {
    let index = case.experiment.workloads.iter().position(|w| w.name == case.workload.name)?;
    let mine = case.design.layout.volumes();
    // With fewer volumes each holds more of the span.
    let larger_parts = |design: &usize| {
        let volumes = case.experiment.designs[*design].layout.volumes();
        volumes.len() < mine.len() && volumes.iter().any(|volume| mine.contains(volume))
    };
    let here = shown(case.trials, with_latencies(case.trials));
    (0..case.experiment.designs.len()).filter(larger_parts).find_map(|design| {
        let name = &case.experiment.designs[design].name;
        let others = case.elsewhere.of(design, index);
        here.iter().find_map(|here| {
            let other = others.iter().find(|o| o.share.name == here.share.name && o.share.iops > 0.0)?;
            compared(case, here, other, name)
        })
    })
}

/// Whether a volume does so much more here, in so much less time, that only a cache explains it.
fn compared(case: &Case<'_>, here: &OfVolume, other: &OfVolume, design: &str) -> Option<Verdict> {
    let (rates, reads) = (here.holds_its_rate && other.holds_its_rate, &other.reads);
    let (here, other) = (&here.share, &other.share);
    let (fast, slow) = (here.lat_p50?, other.lat_p50?);
    let (in_flight, in_flight_there) = (here.in_flight?, other.in_flight?);
    let fewer = in_flight <= in_flight_there * AS_MANY;
    let apart = between(fast, slow);
    let faster = FASTER.holds(here.iops / other.iops) && QUICKER.holds(slow / fast);
    if !rates || !fewer || !faster || reads.share_at_most(apart)? < AS_FAST {
        return None;
    }
    let share = read_latency(case.trials, None).share_at_most(apart).filter(|share| *share >= HIT_SHARE)?;
    let name = &here.name;
    let sentence = format!(
        "a cache at the far end of the volumes answered {:.0}% of the reads: {name} does {} operations a second here \
         with {in_flight:.2} in flight, half of them within {}, and in {design} {} with {in_flight_there:.2}, half of \
         them within {}; no volume does more with fewer, but for what a cache holds",
        share * 100.0,
        format_iops(here.iops),
        format_latency(fast),
        format_iops(other.iops),
        format_latency(slow),
    );
    let of_rate = format!("operations per second of {name}, against {design}");
    let of_latency = format!("median latency of {name}, against {design}");
    let figures = vec![
        evidence(of_rate, here.iops, Unit::OpsPerSecond, Some(other.iops)),
        evidence(of_latency, fast, Unit::Nanoseconds, Some(slow)),
    ];
    Some(found(Sure::Likely, share, sentence, figures))
}
