//! `cache`: memory answered, not the volume.
//!
//! Derivation. The disks below the members count what they move. Bytes that were asked for and not moved came
//! from a cache in between: the hit share is `1 - moved / asked`. Where the disks were not observed, two weaker
//! grounds remain: that the region was in the page cache before the trial, and answers faster than any device
//! gives them while I/O goes through the page cache to a region that fits in memory.

use super::{Case, Rule, evidence, moved};
use crate::analysis::{Evidence, Metric, Verdict, VerdictKind};
use crate::units::{Bytes, Nanos, format_latency};
use crate::workload::Mix;

/// Hit share from which on a cache shapes the result: the ratio of cached to uncached speed then exceeds 1.2.
pub const HIT_SHARE: f64 = 0.20;
/// Share of the region that must have been resident before the trial.
pub const RESIDENT: f64 = 0.50;
/// A median below this for small requests is memory: the fastest NVMe devices need 10 us for 4 KiB through the
/// kernel, and a copy from the page cache 1 to 5 us.
pub const MEMORY_LATENCY: Nanos = Nanos(8_000);
/// What counts as a small request.
const SMALL: Bytes = Bytes(16 * Bytes::KIB);

/// The rule.
#[derive(Debug)]
pub struct Cache;

impl Rule for Cache {
    fn kind(&self) -> VerdictKind {
        VerdictKind::Cache
    }

    fn judge(&self, case: &Case<'_>) -> Option<Verdict> {
        match by_bytes(case) {
            Observed::Hits(verdict) => Some(*verdict),
            Observed::NoHits => None,
            Observed::Nothing => by_residency(case).or_else(|| by_speed(case)),
        }
    }
}

enum Observed {
    Hits(Box<Verdict>),
    NoHits,
    Nothing,
}

fn verdict(confidence: f64, explains: f64, sentence: String, evidence: Vec<Evidence>) -> Verdict {
    Verdict { kind: VerdictKind::Cache, confidence, explains: explains.clamp(0.0, 1.0), sentence, evidence }
}

/// Share of what was asked that the disks did not move, reads and writes each, the larger of the two.
fn hit_share(m: &moved::Moved) -> Option<f64> {
    [(m.asked.read, m.moved.read), (m.asked.write, m.moved.write)]
        .into_iter()
        .filter(|(asked, _)| *asked > 0)
        .map(|(asked, moved)| 1.0 - (moved as f64 / asked as f64).min(1.0))
        .fold(None, |most: Option<f64>, share| Some(most.map_or(share, |most| most.max(share))))
}

fn by_bytes(case: &Case<'_>) -> Observed {
    let Some(share) = case.median(|t| hit_share(&moved::moved(t)?)) else { return Observed::Nothing };
    if share < HIT_SHARE {
        return Observed::NoHits;
    }
    let total = |of: fn(&moved::Moved) -> u64| {
        case.median(|t| moved::moved(t).map(|m| of(&m) as f64)).unwrap_or(f64::NAN)
    };
    let asked = total(|m| m.asked.read.saturating_add(m.asked.write));
    let moved = total(|m| m.moved.read.saturating_add(m.moved.write));
    Observed::Hits(Box::new(verdict(
        0.95,
        share,
        format!(
            "a cache answered {:.0}% of the bytes: the disks moved {:.0} MB of {:.0} MB asked for",
            share * 100.0,
            moved / 1e6,
            asked / 1e6
        ),
        vec![
            evidence("bytes that the disks moved, against those asked for", moved, "bytes", Some(asked)),
            evidence("share answered by a cache", share, "share", Some(HIT_SHARE)),
        ],
    )))
}

/// Bytes of the region that the trials used, at most: what the volumes have, or the workload's span.
fn region(case: &Case<'_>) -> Option<u64> {
    let sizes: Option<Vec<u64>> = case
        .design
        .layout
        .volumes()
        .into_iter()
        .map(|leaf| {
            let volume = case.experiment.volumes.get(leaf)?;
            let prepared = case.session.meta.inventory.volumes.iter().find(|v| v.name == volume.name);
            prepared.map(|v| v.size).or(volume.size.map(|size| size.0))
        })
        .collect();
    let volumes: u64 = sizes?.iter().sum();
    Some(case.workload.span.map_or(volumes, |span| span.0.min(volumes)))
}

fn by_residency(case: &Case<'_>) -> Option<Verdict> {
    if case.workload.direct || case.workload.mix == Mix::Write {
        return None;
    }
    let region = region(case).filter(|region| *region > 0)? as f64;
    let resident = case.median(|t| {
        let observed = t.observed.as_ref()?;
        let known: Vec<u64> =
            observed.members.iter().filter_map(|m| m.resident_before.map(|b| b.0)).collect();
        (!known.is_empty()).then(|| known.iter().sum::<u64>() as f64)
    })?;
    let share = (resident / region).min(1.0);
    (share >= RESIDENT).then(|| {
        verdict(
            0.85,
            share,
            format!("{:.0}% of the region was in the page cache before the trial", share * 100.0),
            vec![evidence(
                "bytes in the page cache before the trial, against the region",
                resident,
                "bytes",
                Some(region),
            )],
        )
    })
}

fn by_speed(case: &Case<'_>) -> Option<Verdict> {
    let memory = case.session.meta.host.memory_bytes;
    let region = region(case)?;
    let median = case.result.metric(Metric::LatP50)?.median;
    let fast = median < MEMORY_LATENCY.0 as f64 && case.workload.bs <= SMALL;
    // Writes through the page cache end there unless each is synchronous; they too are memory's speed.
    (!case.workload.direct && !case.workload.sync && fast && memory > 0 && region <= memory).then(|| {
        verdict(
            0.8,
            0.9,
            format!(
                "half of the operations took less than {}, which no device does, through a page cache that holds the \
                 whole region",
                format_latency(median.max(1.0))
            ),
            vec![
                evidence("median latency, against the fastest that devices give", median, "ns", Some(MEMORY_LATENCY.0 as f64)),
                evidence("region in use, against memory", region as f64, "bytes", Some(memory as f64)),
            ],
        )
    })
}
