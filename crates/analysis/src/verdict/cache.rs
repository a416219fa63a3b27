//! `cache`: memory answered, not the volume.
//!
//! Derivation. The disks below the members count what they move. Bytes that were asked for and not moved came
//! from a cache in between: the hit share is `1 - moved / due`, where `due` is what the disks have to move at least for what
//! was asked: as much, or more below a mirror or parity. Where the disks were not observed, or nothing is due (thin
//! provisioning), two weaker grounds remain: that the region was in the page cache before the trial, and answers faster than any device
//! gives them while I/O goes through the page cache to a region that fits in memory. A cache behind the disks moves nothing
//! in their counters: see [`far_end`].

mod far_end;

use crate::evidence::{Check, Unit, evidence, share_is};
use crate::facts::case::Case;
use crate::facts::moved::HIT_SHARE;
use crate::facts::{Facts, moved};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::LeastMost;
use ebbtide_model::units::{Bytes, Nanos, format_bytes, format_latency};
use ebbtide_model::workload::{Mix, OpKind};

/// Share of the region that must have been resident before the trial.
pub const RESIDENT: f64 = 0.50;
/// A median below this for small requests is memory: the fastest NVMe devices need 10 us for 4 KiB through the
/// kernel, and a copy from the page cache 1 to 5 us.
pub const MEMORY_LATENCY: Nanos = Nanos(8_000);
/// What counts as a small request.
const SMALL: Bytes = Bytes(16 * Bytes::KIB);
/// Share of the bytes read that the disks did not move from which on there may be nothing on them.
const NOTHING_READ: f64 = 0.99;

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("share of the bytes due that the disks did not move", HIT_SHARE, Unit::Share, "the cached speed is then more than 1.2 times the other"),
    Check::at_least("where no disk was seen: share of the region in the page cache before the trial", RESIDENT, Unit::Share, "most reads then find their block there"),
    Check::below("or: median latency of requests up to 16 KiB through the page cache", MEMORY_LATENCY.0 as f64, Unit::Nanoseconds, "the fastest devices need 10 us"),
    Check::at_least("behind the disks: rate of a volume over that of the same volume in another design", far_end::FASTER, Unit::Times, "no volume does more with no more in flight"),
    Check::at_least("and its median latency there over that here", far_end::QUICKER, Unit::Times, "a shorter way of an arm makes it half at most"),
];

pub(super) fn judge(case: &Case<'_>, _: &Facts<'_>) -> Judged {
    let by_bytes = most_hits(case);
    let found = match by_bytes {
        Some((what, hits)) if hits.share() >= HIT_SHARE => Some(answered(case, what, &hits)),
        Some(_) => None,
        None if is_endless(case) => None,
        None => by_residency(case).or_else(|| by_speed(case)),
    };
    found.or_else(|| far_end::verdict(case)).ok_or_else(|| match by_bytes {
        Some((_, hits)) => {
            let why = "the disks moved what was requested, and nothing shows a cache behind them";
            let what = "share of the bytes due that the disks did not move";
            Absent::because(why).seen(what, hits.share(), Unit::Share, HIT_SHARE)
        }
        None => unseen(case),
    })
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
    fn new(asked: PerOp<u64>, due: PerOp<LeastMost>, moved: PerOp<u64>, op: OpKind) -> Hits {
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
            return format!("the disks moved {moved} where the {asked} requested come to {due} on them");
        }
        format!("the disks moved {moved} of {asked} requested")
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

/// The direction of which the cache answered most, where what the disks moved is known.
fn most_hits(case: &Case<'_>) -> Option<(&'static str, Hits)> {
    let directions = [("read", middle(case, OpKind::Read)), ("written", middle(case, OpKind::Write))];
    let known = directions.into_iter().filter_map(|(what, hits)| Some((what, hits?)));
    known.max_by(|a, b| a.1.share().total_cmp(&b.1.share()))
}

fn answered(case: &Case<'_>, what: &str, hits: &Hits) -> Verdict {
    let share = hits.share();
    let by_loop = if case.workload.direct { cached_loop(case) } else { None };
    let how = by_loop.map_or(String::new(), |name| {
        format!("; {name} goes through the page cache of its file; `losetup --direct-io=on /dev/{name}` avoids that")
    });
    // What was never written, of a file with holes or a thin volume, is nowhere to be read.
    let holes = if what == "read" && share >= NOTHING_READ {
        "; blocks that were never written are answered without the disk too"
    } else {
        ""
    };
    let sentence = format!(
        "a cache answered {:.0}% of the bytes {what}: in the median trial {}{how}{holes}",
        share * 100.0,
        hits.in_words()
    );
    let of_bytes = format!("bytes {what} by the disks in the median trial, against those requested");
    let figures = vec![
        evidence(of_bytes, hits.moved as f64, Unit::Bytes, Some(hits.due)),
        share_is("share answered by a cache", share, HIT_SHARE),
    ];
    Verdict::new(VerdictKind::Cache, 0.95, share, sentence, figures)
}

/// A loop device below the members that goes through the page cache of its file, which direct I/O to it does not end.
fn cached_loop<'a>(case: &Case<'a>) -> Option<&'a str> {
    let observed = case.trials.iter().find_map(|trial| trial.observed.as_deref())?;
    observed.devices.iter().find(|device| device.page_cached).map(|device| device.name.as_str())
}

/// Bytes of the region that the trials used, at most: what the volumes have, or the workload's span.
fn region(case: &Case<'_>) -> Option<u64> {
    let sizes: Option<Vec<Bytes>> = case
        .design
        .layout
        .volumes()
        .into_iter()
        .map(|leaf| {
            let volume = case.experiment.volumes.get(leaf)?;
            let prepared = case.meta.inventory.volumes.iter().find(|v| v.name == volume.name);
            prepared.map(|v| v.size).or(volume.size)
        })
        .collect();
    let volumes: Bytes = sizes?.into_iter().sum();
    Some(case.workload.span.unwrap_or(volumes).min(volumes).0)
}

/// Whether it is `/dev/null` or the like that is measured.
fn is_endless(case: &Case<'_>) -> bool {
    case.meta.inventory.volumes.iter().any(|volume| volume.endless)
}

/// Why there is none where the disks were not observed.
fn unseen(case: &Case<'_>) -> Absent {
    if is_endless(case) {
        return Absent::because("the target stores nothing that could be cached");
    }
    let asked = |m: &moved::Moved| m.asked.total() > 0;
    if case.trials.iter().filter_map(|t| moved::moved(t)).any(|m| asked(&m)) {
        return Absent::because(
            "what the disks have to move for what is asked is not known: a thin volume or a snapshot is below",
        );
    }
    if case.workload.direct {
        return Absent::because("the disks were not observed, and direct I/O goes past the page cache");
    }
    let latency = case.metric(Metric::LatP50);
    Absent::because("the disks were not observed; neither residency nor speed shows a cache")
        .seen_where_known(
            "share of the region in the page cache before",
            resident(case).map(|r| r.2),
            Unit::Share,
            RESIDENT,
        )
        .seen_where_known(
            "median latency, which would have to be below",
            latency,
            Unit::Nanoseconds,
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
    let (resident, region, share) = resident(case).filter(|(.., share)| *share >= RESIDENT)?;
    let sentence = format!("{:.0}% of the region was in the page cache before the trial", share * 100.0);
    let what = "bytes in the page cache before the trial, against the region";
    let figures = vec![evidence(what, resident, Unit::Bytes, Some(region))];
    Some(Verdict::new(VerdictKind::Cache, 0.85, share, sentence, figures))
}

fn by_speed(case: &Case<'_>) -> Option<Verdict> {
    let (memory, fastest) = (case.meta.host.memory_bytes, MEMORY_LATENCY.0 as f64);
    let region = region(case)?;
    let median = case.metric(Metric::LatP50)?;
    let fast = median < fastest && case.workload.bs <= SMALL;
    // Writes through the page cache end there unless each is synchronous; they too are memory's speed.
    if case.workload.direct || case.workload.sync || !fast || memory == 0 || region > memory {
        return None;
    }
    let sentence = format!(
        "half of the operations took less than {}, which no device does, through a page cache that holds the whole region",
        format_latency(median.max(1.0))
    );
    let what = "median latency, against the fastest that devices give";
    let figures = vec![
        evidence(what, median, Unit::Nanoseconds, Some(fastest)),
        evidence("region in use, against memory", region as f64, Unit::Bytes, Some(memory as f64)),
    ];
    Some(Verdict::new(VerdictKind::Cache, 0.8, 0.9, sentence, figures))
}
