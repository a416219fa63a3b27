//! `cache`: memory answered, not the volume.
//!
//! Derivation. The disks below the members count what they move. Bytes that were asked for and not moved came
//! from a cache in between: the hit share is `1 - moved / due`, where `due` is what the disks have to move at least for what
//! was asked: as much, or more below a mirror or parity. Where the disks were not observed, or nothing is due (thin
//! provisioning), two weaker grounds remain: that the region was in the page cache before the trial, and answers faster than any device
//! gives them while I/O goes through the page cache to a region that fits in memory. A cache behind the disks moves nothing
//! in their counters: see [`far_end`].

mod far_end;

use super::*;
use crate::facts::moved;
use crate::facts::moved::HIT_SHARE;
use ebbtide_model::units::{Bytes, format_bytes, format_latency};
use ebbtide_model::workload::{Mix, OpKind};

/// What counts as a small request.
const SMALL: Bytes = Bytes(16 * Bytes::KIB);
/// Share of the bytes read that the disks did not move from which on there may be nothing on them.
const NOTHING_READ: f64 = 0.99;

checks! {
    HITS: at_least("share of the bytes due that the disks did not move", HIT_SHARE, Share, "the cached speed is then more than 1.2 times the other");
    RESIDENT: at_least("where no disk was seen: share of the region in the page cache before the trial", 0.50, Share, "most reads then find their block there");
    // The fastest NVMe devices need 10 us for 4 KiB through the kernel, and a copy from the page cache 1 to 5 us.
    FAST: below("or: median latency of requests up to 16 KiB through the page cache", 8_000.0, Nanoseconds, "the fastest devices need 10 us");
    FASTER: at_least("behind the disks: rate of a volume over that of the same volume in another design", 2.0, Times, "no volume does more with no more in flight");
    // From a quarter of a disk.
    QUICKER: at_least("and its median latency there over that here", 5.0, Times, "a shorter way of an arm makes it half at most");
}

pub(super) fn judge(case: &Case<'_>, _: &Facts<'_>) -> Judged {
    // What memory answers waits for the shape, too.
    let mut working = case.working().peekable();
    let held = working.peek().is_some() && working.all(|member| case.slowed_by_tool(&member.name));
    let hits = most_hits(case);
    // `/dev/null` and the like store nothing that could be cached.
    let endless = case.meta.inventory.volumes.iter().any(|volume| volume.endless);
    let found = match &hits {
        _ if held => None,
        Some(hits) => HITS.holds(hits.share()).then(|| answered(case, hits)),
        None if endless => None,
        None => by_residency(case).or_else(|| by_speed(case)),
    };
    found.or_else(|| far_end::verdict(case)).ok_or_else(|| match hits {
        _ if held => {
            Absent::because("the volumes are held to shapes, for which what a cache answers waits, too")
        }
        Some(hits) => {
            let why = "the disks moved what was requested, and nothing shows a cache behind them";
            Absent::because(why).with([HITS.missed(hits.share())])
        }
        None => {
            let why = "what the disks moved is not known, and neither residency nor speed shows a cache";
            let resident = resident(case).map(|(.., share)| RESIDENT.missed(share));
            Absent::unmeasured(why).with(resident)
        }
    })
}

/// One direction of one trial: what was asked, what the disks have to move for it at least, and what they moved of it or
/// for others.
#[derive(Debug, Clone, Copy)]
struct Hits {
    what: &'static str,
    asked: u64,
    due: f64,
    moved: u64,
}

impl Hits {
    fn share(&self) -> f64 {
        1.0 - (self.moved as f64 / self.due).min(1.0)
    }
}

/// The direction of which the cache answered most, where what the disks moved is known: of each the trial in the middle by its hit share, whose share and
/// bytes belong together, which medians of each would not.
fn most_hits(case: &Case<'_>) -> Option<Hits> {
    let middle = |(op, what)| {
        let hits = |trial: &TrialSamples| {
            let m = moved::moved(trial)?;
            let (asked, due, moved) = (*m.asked.get(op), m.due.get(op).least, *m.moved.get(op));
            (due > 0.0).then_some(Hits { what, asked, due, moved })
        };
        case.in_the_middle(hits, Hits::share)
    };
    let both = [(OpKind::Read, "read"), (OpKind::Write, "written")];
    both.into_iter().filter_map(middle).max_by(|a, b| a.share().total_cmp(&b.share()))
}

fn answered(case: &Case<'_>, hits: &Hits) -> Verdict {
    let (what, share) = (hits.what, hits.share());
    // A loop device goes through the page cache of its file, which direct I/O to it does not end.
    let observed = case.trials.iter().find_map(|trial| trial.observed.as_deref());
    let mut devices = observed.filter(|_| case.workload.direct).into_iter().flat_map(|o| &o.devices);
    let how = devices.find(|device| device.page_cached).map_or(String::new(), |device| {
        let name = &device.name;
        format!("; {name} goes through the page cache of its file; `losetup --direct-io=on /dev/{name}` avoids that")
    });
    // What was never written, of a file with holes or a thin volume, is nowhere to be read.
    let holes = match what == "read" && share >= NOTHING_READ {
        true => "; blocks that were never written are answered without the disk too",
        false => "",
    };
    let (moved, asked) = (format_bytes(hits.moved as f64), format_bytes(hits.asked as f64));
    let of = match hits.due > hits.asked as f64 {
        true => format!("where the {asked} requested come to {} on them", format_bytes(hits.due)),
        false => format!("of {asked} requested"),
    };
    let sentence = format!(
        "a cache answered {:.0}% of the bytes {what}: in the median trial the disks moved {moved} {of}{how}{holes}",
        share * 100.0
    );
    let of_bytes = format!("bytes {what} by the disks in the median trial, against those requested");
    let figures =
        vec![evidence(of_bytes, hits.moved as f64, Unit::Bytes, Some(hits.due)), HITS.figure(share)];
    Verdict::new(VerdictKind::Cache, Sure::Certain, share, sentence, figures)
}

/// Bytes of the region that the trials used, at most: what the volumes have, or the workload's span.
fn region(case: &Case<'_>) -> Option<u64> {
    let size = |leaf: usize| {
        let volume = case.experiment.volumes.get(leaf)?;
        let prepared = case.meta.inventory.volumes.iter().find(|v| v.name == volume.name);
        prepared.map(|v| v.size).or(volume.size)
    };
    let volumes: Bytes = case.design.layout.volumes().into_iter().map(size).sum::<Option<Bytes>>()?;
    Some(case.workload.span.unwrap_or(volumes).min(volumes).0)
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
    let (resident, region, share) = resident(case).filter(|(.., share)| RESIDENT.holds(*share))?;
    let sentence = format!("{:.0}% of the region was in the page cache before the trial", share * 100.0);
    let what = "bytes in the page cache before the trial, against the region";
    let figures = vec![evidence(what, resident, Unit::Bytes, Some(region))];
    Some(Verdict::new(VerdictKind::Cache, Sure::Likely, share, sentence, figures))
}

fn by_speed(case: &Case<'_>) -> Option<Verdict> {
    let (memory, region) = (case.meta.host.memory_bytes, region(case)?);
    let median = case.metric(Metric::LatP50).filter(|median| FAST.holds(*median))?;
    // Writes through the page cache end there unless each is synchronous; they too are memory's speed.
    let through = !case.workload.direct && !case.workload.sync && case.workload.bs <= SMALL;
    if !through || memory == 0 || region > memory {
        return None;
    }
    let sentence = format!(
        "half of the operations took less than {}, which no device does, through a page cache that holds the whole region",
        format_latency(median.max(1.0))
    );
    let of_region =
        evidence("region in use, against memory", region as f64, Unit::Bytes, Some(memory as f64));
    let figures = vec![FAST.figure(median), of_region];
    Some(Verdict::new(VerdictKind::Cache, Sure::Likely, 0.9, sentence, figures))
}
