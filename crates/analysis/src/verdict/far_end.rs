//! The other half of `cache`: one at the far end, behind the volumes, which the disks' counters do not see.
//!
//! Derivation, where the volume says what a hit and a miss take: reads below the geometric mean of the two are hits.
//!
//! Where it does not, another design of the session is asked that uses the same volumes otherwise. No volume does more with
//! fewer operations in flight, the same operations, unless they are other operations to it: over a smaller part of it, which
//! fits into a cache. So a volume that does at least twice as much here, with no more in flight, and whose reads take a
//! fifth of the time, had them from a cache, if the other design knew some as fast: a rate limit that ran out of credits makes
//! all of them slow at once, and a volume that was slow for a while is not steady.

use super::{Case, evidence, verdict_of};
use crate::analyse::samples;
use crate::members::{self, totals};
use crate::steady::{Judged, judge, majority};
use crate::{Evidence, MemberShare, Verdict, VerdictKind};
use ebbtide_model::plan::Role;
use ebbtide_model::samples::{Histogram, TrialSamples};
use ebbtide_model::units::{format_iops, format_latency};
use ebbtide_model::workload::{Access, Mix};

/// Rate of a volume here over that of the same volume in the other design.
const FASTER: f64 = 2.0;
/// The other median over that here. Shorter ways of an arm, from a quarter of a disk, make a read half as long.
const QUICKER: f64 = 5.0;
/// What a miss takes over what a hit takes, so that one can be told from the other.
const APART: f64 = 3.0;
/// Share of the other design's reads that must have been as fast as here.
const AS_FAST: f64 = 0.02;
/// The most a volume's rate may vary between the trials that are compared.
const VARIATION: f64 = 1.5;
/// More in flight than this many times the other's are no ground.
const AS_MANY: f64 = 1.1;

/// The verdict; `None` where nothing shows a cache behind the volumes.
pub(super) fn verdict(case: &Case<'_>) -> Option<Verdict> {
    let workload = case.workload;
    // Of sequential reads the far end may have read ahead, which is no cache to be warned of.
    if !workload.direct || workload.mix != Mix::Read || workload.access != Access::Random {
        return None;
    }
    known(case).or_else(|| shown_by_another(case))
}

fn read_latency(trials: &[&TrialSamples], name: Option<&str>) -> Histogram {
    let mut all = Histogram::default();
    for trial in trials {
        for member in trial.members.iter().filter(|m| name.is_none_or(|name| m.name == name)) {
            all.merge(&member.ops.read.latency);
        }
    }
    all
}

fn between(low: f64, high: f64) -> u64 {
    (low * high).sqrt() as u64
}

/// By what the volumes' shapes say of a hit and a miss.
fn known(case: &Case<'_>) -> Option<Verdict> {
    let (mut reads, mut hits, mut slowest_hit, mut fastest_miss) = (0.0, 0.0, 0.0_f64, f64::INFINITY);
    for member in case.result.members.iter().filter(|m| m.iops > 0.0) {
        let shape = case.volume(&member.name)?.shape.as_ref()?;
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
    let share = hits / reads;
    (share >= super::cache::HIT_SHARE).then(|| {
        let latency = read_latency(case.trials, None).percentile(50.0).unwrap_or_default() as f64;
        found(
            0.9,
            share,
            format!(
                "a cache at the far end of the volumes answered {:.0}% of the reads, in about {} where one that misses it \
                 takes {}: the disks that the host sees moved all of it",
                share * 100.0,
                format_latency(slowest_hit),
                format_latency(fastest_miss)
            ),
            vec![evidence("median latency of the members' reads, against a miss", latency, "ns", Some(fastest_miss))],
        )
    })
}

fn found(confidence: f64, share: f64, sentence: String, mut figures: Vec<Evidence>) -> Verdict {
    figures.push(evidence("share answered by a cache", share, "share", Some(super::cache::HIT_SHARE)));
    verdict_of(VerdictKind::Cache, confidence, share, sentence, figures)
}

/// By another design that has one of the volumes too.
fn shown_by_another(case: &Case<'_>) -> Option<Verdict> {
    let index = case.experiment.workloads.iter().position(|w| w.name == case.workload.name)?;
    let here: Vec<&MemberShare> = case.result.members.iter().filter(|m| m.iops > 0.0).collect();
    let mine = case.design.layout.volumes();
    // With fewer volumes each holds more of the span.
    let larger_parts = |design: &usize| {
        let volumes = case.experiment.designs[*design].layout.volumes();
        volumes.len() < mine.len() && volumes.iter().any(|volume| mine.contains(volume))
    };
    (0..case.experiment.designs.len()).filter(larger_parts).find_map(|design| {
        let trials: Vec<&TrialSamples> =
            samples(case.session, design, index, Role::Candidate).map(|(_, samples)| samples).collect();
        let others = members::shares(&trials);
        let name = &case.experiment.designs[design].name;
        here.iter().find_map(|member| {
            let other = others.iter().find(|other| other.name == member.name && other.iops > 0.0)?;
            compared(case, member, other, &trials, name)
        })
    })
}

/// Whether the volume did about the same in all of these trials.
fn steady(trials: &[&TrialSamples], name: &str) -> bool {
    let rates = trials.iter().filter_map(|trial| {
        let member = trial.members.iter().find(|member| member.name == name)?;
        Some(totals(member).0 as f64 / trial.elapsed.as_secs_f64())
    });
    let (least, most) =
        rates.fold((f64::INFINITY, 0.0_f64), |(least, most), rate| (least.min(rate), most.max(rate)));
    most <= least * VARIATION
        && majority(trials.iter().map(|trial| judge(trial, Judged::Throughput))) != Some(false)
}

fn compared(
    case: &Case<'_>,
    here: &MemberShare,
    other: &MemberShare,
    trials: &[&TrialSamples],
    design: &str,
) -> Option<Verdict> {
    let (fast, slow) = (here.lat_p50?, other.lat_p50?);
    let (in_flight, in_flight_there) = (here.in_flight?, other.in_flight?);
    let name = &here.name;
    if here.iops < other.iops * FASTER
        || in_flight > in_flight_there * AS_MANY
        || slow < fast * QUICKER
        || !steady(case.trials, name)
        || !steady(trials, name)
    {
        return None;
    }
    let apart = between(fast, slow);
    if read_latency(trials, Some(name)).share_at_most(apart)? < AS_FAST {
        return None;
    }
    let share = read_latency(case.trials, None).share_at_most(apart)?;
    (share >= super::cache::HIT_SHARE).then(|| {
        found(
            0.85,
            share,
            format!(
                "a cache at the far end of the volumes answered {:.0}% of the reads: {name} does {} operations a second here \
                 with {in_flight:.2} in flight, half of them within {}, and in {design} {} with {in_flight_there:.2}, half of \
                 them within {}; no volume does more with fewer, but for what a cache holds",
                share * 100.0,
                format_iops(here.iops),
                format_latency(fast),
                format_iops(other.iops),
                format_latency(slow),
            ),
            vec![
                evidence(&format!("operations per second of {name}, against {design}"), here.iops, "ops/s", Some(other.iops)),
                evidence(&format!("median latency of {name}, against {design}"), fast, "ns", Some(slow)),
            ],
        )
    })
}
