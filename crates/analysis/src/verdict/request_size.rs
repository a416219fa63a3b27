//! `request-size`: requests are too small for the limit, or are split on their way.
//!
//! Derivation. A volume with a limit of operations and a limit of bytes moves `bytes per request * operations`; when
//! sequential access uses up the operations and half or less of the bytes, larger requests move more with the same
//! operations. And when the disks, or the devices that the members are, complete several requests for each one asked, each
//! about as large as the device's largest, requests are split: each part pays the latency and counts as an operation.

use super::*;
use crate::facts::usage::{LimitUse, NEAR, Use};
use crate::facts::{durable, moved, standing};
use ebbtide_model::samples::DeviceObservation;
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::Access;

/// Asked and moved bytes must agree this well for the counts to be about the same requests.
const SAME_BYTES: f64 = 0.10;

checks! {
    OPERATIONS: at_least("use of the limit of operations, of sequential access", NEAR, Share, "they are used up");
    BYTES_UNUSED: below("and use of the limit of bytes", 0.50, Share, "twice the size moves twice as much");
    SPLIT: at_least("or: requests at the devices for each one asked", 1.5, Requests, "most are cut");
    AT_LARGEST: at_least("and their size, of the largest that the device takes", 0.8, Share, "that is what cuts them");
}

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    // A log is written as it comes: what one write at a time waits for is that it is durable.
    if durable::how(case.workload).is_some() && case.one_at_a_time() {
        let why = "each write is made durable before the next begins, whatever its size";
        return Err(Absent::because(why));
    }
    let (used, places) = (limits_used(case, facts), pieces(case));
    let found = used.and_then(|(iops, bytes)| too_small(case, iops, bytes));
    found.or_else(|| places.iter().find_map(|(whose, pieces)| split(whose, *pieces))).ok_or_else(|| {
        let used = used.map(|(iops, bytes)| [OPERATIONS.missed(iops), BYTES_UNUSED.missed(bytes)]);
        let split = places.iter().map(|(whose, (each, ..))| {
            let what = format!("requests at {whose} for each request of the workload");
            evidence(what, *each, Unit::Requests, Some(SPLIT.edge))
        });
        let figures: Vec<_> = used.into_iter().flatten().chain(split).collect();
        Absent::unmeasured("requests are neither too small for the limits nor split").with(figures)
    })
}

/// Use of the limits of operations and of bytes, where both are known of every working member.
fn limits_used(case: &Case<'_>, facts: &Facts<'_>) -> Option<(f64, f64)> {
    if case.workload.access != Access::Sequential || case.workload.split.is_some() {
        return None;
    }
    let weighted = |of: fn(&Use) -> Option<LimitUse>| {
        median(facts.stretches.iter().flatten().filter_map(|stretch| {
            let mut working = stretch.iter().filter(|m| m.share > 0.0);
            working.try_fold(0.0, |sum, m| Some(sum + of(&m.used)?.share * m.share))
        }))
    };
    weighted(|used| used.iops).zip(weighted(|used| used.bytes))
}

fn too_small(case: &Case<'_>, iops: f64, bytes: f64) -> Option<Verdict> {
    if !OPERATIONS.holds(iops) || !BYTES_UNUSED.holds(bytes) {
        return None;
    }
    let sentence = format!(
        "requests of {} use up the volumes' operations and only {:.0}% of their bytes per second: a larger bs moves more",
        case.workload.bs,
        bytes * 100.0
    );
    let figures = vec![OPERATIONS.figure(iops), BYTES_UNUSED.figure(bytes)];
    // What operations take besides would still be taken.
    let explains = (1.0 - bytes) * 0.9;
    Some(Verdict::new(VerdictKind::RequestSize, Sure::Likely, explains, sentence, figures))
}

/// Requests at devices for each one asked, the mean bytes of one, and those of the largest that all of the devices take.
type Pieces = (f64, f64, f64);

/// Those of a trial at `devices`, where their bytes are between these two. A mirror's copies are no parts: what counts is how much smaller than those
/// asked the requests are.
fn pieces_at(
    asked: &moved::Moved,
    devices: &[&DeviceObservation],
    (least, most): (f64, f64),
) -> Option<Pieces> {
    let bytes: f64 = devices.iter().map(|device| device.total.bytes.total() as f64).sum();
    let requests: f64 = devices.iter().map(|device| device.total.ops.total() as f64).sum();
    let same = bytes >= least * (1.0 - SAME_BYTES) && bytes <= most * (1.0 + SAME_BYTES);
    let copies = bytes / asked.asked.total() as f64;
    let largest = devices.iter().map(|device| device.max_request.map(|bytes| bytes.0)).min()??;
    (same && asked.asked_ops > 0 && copies > 0.0 && requests > 0.0)
        .then(|| (requests / asked.asked_ops as f64 / copies, bytes / requests, largest as f64))
}

/// What became of the requests at the disks, and at the devices that the members are: what these split, the disks below may merge again. Not below
/// an array with smaller chunks, which splits what is longer, whatever the disks take.
fn pieces(case: &Case<'_>) -> Vec<(&'static str, Pieces)> {
    let at_disks = |trial: &TrialSamples| {
        let m = moved::moved(trial)?;
        let due = (m.due.read.least + m.due.write.least, m.due.read.most + m.due.write.most);
        pieces_at(&m, &moved::disks(trial)?, due)
    };
    let at_members = |trial: &TrialSamples| {
        let m = moved::moved(trial)?;
        let asked = m.asked.total() as f64;
        pieces_at(&m, &standing::tops(trial)?, (asked, asked))
    };
    let chunk = case.median(|trial| {
        let observed = trial.observed.as_ref()?;
        let arrays = observed.members.iter().flat_map(|member| observed.arrays(member));
        arrays.filter_map(|array| array.below.join.chunk()).map(|chunk| chunk.0 as f64).reduce(f64::min)
    });
    let typical = |at: &dyn Fn(&TrialSamples) -> Option<Pieces>| {
        let of = |part: fn(Pieces) -> f64| case.median(|trial| at(trial).map(part));
        Some((of(|p| p.0)?, of(|p| p.1)?, of(|p| p.2)?))
    };
    let found = [("the disks", typical(&at_disks)), ("the members' devices", typical(&at_members))];
    let found = found.into_iter().filter_map(|(whose, pieces)| Some((whose, pieces?)));
    found.filter(|(_, (.., largest))| chunk.is_none_or(|chunk| chunk > *largest)).collect()
}

fn split(whose: &str, (parts, size, largest): Pieces) -> Option<Verdict> {
    if !SPLIT.holds(parts) || !AT_LARGEST.holds(size / largest) {
        return None;
    }
    let sentence = format!(
        "requests are split: {whose} complete {parts:.1} for each request of the workload, none larger than {} (max_sectors_kb)",
        Bytes(largest as u64)
    );
    let figures = vec![SPLIT.figure(parts), AT_LARGEST.figure(size / largest)];
    // Parts are served beside each other: half of what they are more.
    let explains = (1.0 - 1.0 / parts) * 0.5;
    Some(Verdict::new(VerdictKind::RequestSize, Sure::Possible, explains, sentence, figures))
}
