//! `cache`: memory answered, not the volume.
//!
//! Derivation. The disks below the members count what they move. Bytes that were asked for and not moved came
//! from a cache in between: the hit share is `1 - moved / due`, where `due` is what the disks have to move at least for what
//! was asked: as much, or more below a mirror or parity. Where the disks were not observed, or nothing is due (thin
//! provisioning), two weaker grounds remain: that the region was in the page cache before the trial, and answers faster than any device
//! gives them while I/O goes through the page cache to a region that fits in memory. A cache behind the disks moves nothing
//! in their counters: see [`far_end`].

use super::{Absent, Case, Judged, Rule, evidence, far_end, moved, verdict_of};
use crate::{Evidence, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::Span;
use ebbtide_model::units::{Bytes, Nanos, format_bytes, format_latency};
use ebbtide_model::workload::{Mix, OpKind};

/// Hit share from which on a cache shapes the result: the ratio of cached to uncached speed then exceeds 1.2.
pub const HIT_SHARE: f64 = 0.20;
/// Share of the region that must have been resident before the trial.
pub const RESIDENT: f64 = 0.50;
/// A median below this for small requests is memory: the fastest NVMe devices need 10 us for 4 KiB through the
/// kernel, and a copy from the page cache 1 to 5 us.
pub const MEMORY_LATENCY: Nanos = Nanos(8_000);
/// What counts as a small request.
const SMALL: Bytes = Bytes(16 * Bytes::KIB);

#[derive(Debug)]
pub struct Cache;

impl Rule for Cache {
    fn kind(&self) -> VerdictKind {
        VerdictKind::Cache
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        match by_bytes(case) {
            Observed::Hits(verdict) => Ok(*verdict),
            Observed::NoHits(share) => far_end::verdict(case).ok_or_else(|| {
                let why = "the disks moved what was asked for, and nothing shows a cache behind them";
                let what = "share of the bytes due that the disks did not move";
                Absent::because(why).seen(what, share, "share", HIT_SHARE)
            }),
            Observed::Nothing => {
                let found = by_residency(case).or_else(|| by_speed(case)).or_else(|| far_end::verdict(case));
                found.ok_or_else(|| unseen(case))
            }
        }
    }
}

enum Observed {
    Hits(Box<Verdict>),
    NoHits(f64),
    Nothing,
}

fn verdict(confidence: f64, explains: f64, sentence: String, evidence: Vec<Evidence>) -> Verdict {
    verdict_of(VerdictKind::Cache, confidence, explains, sentence, evidence)
}

/// One direction of one trial: what was asked, what the disks have to move for it at least, and what they moved of it or
/// for others.
#[derive(Debug, Clone, Copy)]
struct Hits {
    asked: u64,
    due: f64,
    moved: u64,
}

impl Hits {
    fn new(asked: PerOp<u64>, due: PerOp<Span>, moved: PerOp<u64>, op: OpKind) -> Hits {
        Hits { asked: *asked.get(op), due: due.get(op).least, moved: *moved.get(op) }
    }

    fn share(&self) -> f64 {
        1.0 - (self.moved as f64 / self.due).min(1.0)
    }

    /// What the disks moved, against what.
    fn in_words(&self) -> String {
        let (moved, asked) = (format_bytes(self.moved as f64), format_bytes(self.asked as f64));
        if self.due > self.asked as f64 {
            let due = format_bytes(self.due);
            return format!("the disks moved {moved} where the {asked} asked for come to {due} on them");
        }
        format!("the disks moved {moved} of {asked} asked for")
    }
}

/// The trial in the middle by its hit share: its share and its bytes belong together, which medians of each would not.
fn middle(case: &Case<'_>, op: OpKind) -> Option<Hits> {
    let trials = case.trials.iter().filter_map(|t| moved::moved(t));
    let hits = trials.map(|m| Hits::new(m.asked, m.due, m.moved, op));
    let mut hits: Vec<Hits> = hits.filter(|hits| hits.due > 0.0).collect();
    hits.sort_by(|a, b| a.share().total_cmp(&b.share()));
    // Of two in the middle the one with the smaller share.
    hits.get(hits.len().checked_sub(1)? / 2).copied()
}

fn by_bytes(case: &Case<'_>) -> Observed {
    let directions = [("read", middle(case, OpKind::Read)), ("written", middle(case, OpKind::Write))];
    let known = directions.into_iter().filter_map(|(what, hits)| Some((what, hits?)));
    let Some((what, hits)) = known.max_by(|a, b| a.1.share().total_cmp(&b.1.share())) else {
        return Observed::Nothing;
    };
    let share = hits.share();
    let by_loop = if case.workload.direct { cached_loop(case) } else { None };
    let how = by_loop.map_or(String::new(), |name| {
        format!("; {name} goes through the page cache of its file, which `losetup --direct-io=on /dev/{name}` ends")
    });
    if share < HIT_SHARE {
        return Observed::NoHits(share);
    }
    Observed::Hits(Box::new(verdict(
        0.95,
        share,
        format!(
            "a cache answered {:.0}% of the bytes {what}: in the median trial {}{how}",
            share * 100.0,
            hits.in_words()
        ),
        vec![
            evidence(
                &format!("bytes {what} by the disks in the median trial, against those asked for"),
                hits.moved as f64,
                "bytes",
                Some(hits.due),
            ),
            evidence("share answered by a cache", share, "share", Some(HIT_SHARE)),
        ],
    )))
}

/// A loop device below the members that goes through the page cache of its file, which direct I/O to it does not end.
pub fn cached_loop<'a>(case: &Case<'a>) -> Option<&'a str> {
    let observed = case.trials.iter().find_map(|trial| trial.observed.as_deref())?;
    observed.devices.iter().find(|device| device.page_cached).map(|device| device.name.as_str())
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

/// Why there is none where the disks were not observed.
fn unseen(case: &Case<'_>) -> Absent {
    let asked = |m: &moved::Moved| m.asked.read.saturating_add(m.asked.write) > 0;
    if case.trials.iter().filter_map(|t| moved::moved(t)).any(|m| asked(&m)) {
        return Absent::because(
            "what the disks have to move for what is asked is not known: a thin volume or a snapshot is below",
        );
    }
    if case.workload.direct {
        return Absent::because("the disks were not observed, and direct I/O goes past the page cache");
    }
    let latency = case.result.metric(Metric::LatP50).map(|estimate| estimate.median);
    Absent::because("the disks were not observed; neither residency nor speed shows a cache")
        .seen_where_known(
            "share of the region in the page cache before",
            resident(case).map(|r| r.2),
            "share",
            RESIDENT,
        )
        .seen_where_known(
            "median latency, which would have to be below",
            latency,
            "ns",
            MEMORY_LATENCY.0 as f64,
        )
}

/// Bytes in the page cache before the trial, bytes of the region, and the share.
fn resident(case: &Case<'_>) -> Option<(f64, f64, f64)> {
    let region = region(case).filter(|region| *region > 0)? as f64;
    let resident = case.median(|t| {
        let observed = t.observed.as_ref()?;
        let known: Vec<u64> =
            observed.members.iter().filter_map(|m| m.resident_before.map(|b| b.0)).collect();
        (!known.is_empty()).then(|| known.iter().sum::<u64>() as f64)
    })?;
    Some((resident, region, (resident / region).min(1.0)))
}

fn by_residency(case: &Case<'_>) -> Option<Verdict> {
    if case.workload.direct || case.workload.mix == Mix::Write {
        return None;
    }
    let (resident, region, share) = resident(case)?;
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
