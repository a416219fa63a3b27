//! `request-size`: requests are too small for the limit, or are split on their way.
//!
//! Derivation. A volume with a limit of operations and a limit of bytes moves `bytes per request * operations`; when
//! sequential access uses up the operations and half or less of the bytes, larger requests move more with the same
//! operations. And when the disks, or the devices that the members are, complete several requests for each one asked, each
//! about as large as the device's largest, requests are split: each part pays the latency and counts as an operation.

use crate::estimate::median;
use crate::evidence::{Check, Unit, evidence, share_is};
use crate::facts::case::Case;
use crate::facts::usage::{LimitUse, NEAR, Use};
use crate::facts::{Facts, durable, moved, standing};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use ebbtide_model::samples::{DeviceObservation, DiskUse, LeastMost, TrialSamples};
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::Access;

/// Use of the limit of bytes below which it is out of reach for want of request size.
pub const BYTES_UNUSED: f64 = 0.50;
/// Requests at the disks for each one asked from which on they are being split.
pub const SPLIT: f64 = 1.5;
/// How near to the disk's largest the split requests are.
const AT_LARGEST: f64 = 0.8;
/// Asked and moved bytes must agree this well for the counts to be about the same requests.
const SAME_BYTES: f64 = 0.10;

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::at_least("use of the limit of operations, of sequential access", NEAR, Unit::Share, "they are used up"),
    Check::below("and use of the limit of bytes", BYTES_UNUSED, Unit::Share, "twice the size moves twice as much"),
    Check::at_least("or: requests at the devices for each one asked", SPLIT, Unit::Requests, "most are cut"),
    Check::at_least("and their size, of the largest that the device takes", AT_LARGEST, Unit::Share, "that is what cuts them"),
];

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    // A log is written as it comes: what one write at a time waits for is that it is durable.
    if durable::how(case.workload).is_some() && case.one_at_a_time() {
        let why = "each write is made durable before the next begins, whatever its size";
        return Err(Absent::because(why));
    }
    too_small(case, facts).or_else(|| split(case)).ok_or_else(|| absent(case, facts))
}

fn absent(case: &Case<'_>, facts: &Facts<'_>) -> Absent {
    let (iops, bytes) = limits_used(facts).unzip();
    let absent = match case.workload.access {
        Access::Sequential => Absent::because("requests are neither too small for the limits nor split")
            .seen_where_known("use of the limit of operations", iops, Unit::Share, NEAR)
            .seen_where_known(
                "use of the limit of bytes, which would have to be below",
                bytes,
                Unit::Share,
                BYTES_UNUSED,
            ),
        _ => Absent::because(
            "random requests are as small as they are asked for, and not split by what takes no larger ones",
        ),
    };
    let [disks, members] = [at_disks, at_members]
        .map(|at: fn(&TrialSamples) -> Option<Pieces>| case.median(|t| Some(at(t)?.each)));
    absent
        .seen_where_known(
            "requests at the disks for each request of the workload",
            disks,
            Unit::Requests,
            SPLIT,
        )
        .seen_where_known(
            "requests at the members' devices for each request of the workload",
            members,
            Unit::Requests,
            SPLIT,
        )
}

/// Use of the limits of operations and of bytes, where both are known of every working member.
fn limits_used(facts: &Facts<'_>) -> Option<(f64, f64)> {
    let weighted = |of: fn(&Use) -> Option<LimitUse>| {
        median(facts.stretches.iter().flatten().filter_map(|stretch| {
            let mut working = stretch.iter().filter(|m| m.share > 0.0);
            working.try_fold(0.0, |sum, m| Some(sum + of(&m.used)?.share * m.share))
        }))
    };
    weighted(|used| used.iops).zip(weighted(|used| used.bytes))
}

fn too_small(case: &Case<'_>, facts: &Facts<'_>) -> Option<Verdict> {
    let (iops, bytes) = limits_used(facts)
        .filter(|_| case.workload.access == Access::Sequential && case.workload.split.is_none())?;
    if iops < NEAR || bytes > BYTES_UNUSED {
        return None;
    }
    let sentence = format!(
        "requests of {} use up the volumes' operations and only {:.0}% of their bytes per second: a larger bs moves more",
        case.workload.bs,
        bytes * 100.0
    );
    let figures = vec![
        share_is("use of the limit of operations", iops, NEAR),
        share_is("use of the limit of bytes", bytes, BYTES_UNUSED),
    ];
    Some(Verdict::new(VerdictKind::RequestSize, 0.85, (1.0 - bytes) * 0.9, sentence, figures))
}

/// What became of the requests that were asked, at devices below them.
#[derive(Debug, Clone, Copy)]
struct Pieces {
    /// Requests there for each one asked.
    each: f64,
    /// Mean bytes of one.
    size: f64,
    /// Bytes of the largest that all of the devices take.
    largest: Option<f64>,
}

/// Those at `devices`, where their bytes are those that were asked, `due` times. A mirror's copies are no parts: what counts is
/// how much smaller than those asked the requests are.
fn pieces(asked: &moved::Moved, devices: &[&DeviceObservation], due: LeastMost) -> Option<Pieces> {
    let sum = |of: fn(&DiskUse) -> u64| devices.iter().map(|device| of(&device.total) as f64).sum::<f64>();
    let (bytes, requests) = (sum(|used| used.bytes.total()), sum(|used| used.ops.total()));
    let same = bytes >= due.least * (1.0 - SAME_BYTES) && bytes <= due.most * (1.0 + SAME_BYTES);
    let copies = bytes / asked.asked.total() as f64;
    let largest = devices.iter().map(|device| device.max_request.map(|bytes| bytes.0)).min()?;
    (same && asked.asked_ops > 0 && copies > 0.0 && requests > 0.0).then(|| Pieces {
        each: requests / asked.asked_ops as f64 / copies,
        size: bytes / requests,
        largest: largest.map(|bytes| bytes as f64),
    })
}

/// Those at the disks.
fn at_disks(trial: &TrialSamples) -> Option<Pieces> {
    let m = moved::moved(trial)?;
    let due =
        LeastMost { least: m.due.read.least + m.due.write.least, most: m.due.read.most + m.due.write.most };
    pieces(&m, &moved::disks(trial)?, due)
}

/// Those at the devices that the members are: what these split, the disks below may merge again.
fn at_members(trial: &TrialSamples) -> Option<Pieces> {
    let m = moved::moved(trial)?;
    let asked = m.asked.total() as f64;
    pieces(&m, &standing::tops(trial)?, LeastMost { least: asked, most: asked })
}

/// Smallest chunk of an array below the members: what is longer is split by the array, whatever the disks take.
fn chunk_below(trial: &TrialSamples) -> Option<f64> {
    let observed = trial.observed.as_ref()?;
    let arrays = observed.members.iter().flat_map(|member| observed.arrays(member));
    arrays.filter_map(|array| array.below.join.chunk()).map(|chunk| chunk.0 as f64).reduce(f64::min)
}

/// Where requests are split, and by how much.
fn split(case: &Case<'_>) -> Option<Verdict> {
    split_at(case, at_disks, "the disks").or_else(|| split_at(case, at_members, "the members' devices"))
}

fn split_at(case: &Case<'_>, at: fn(&TrialSamples) -> Option<Pieces>, whose: &str) -> Option<Verdict> {
    let typical = |of: fn(Pieces) -> Option<f64>| case.median(|trial| at(trial).and_then(of));
    let parts = typical(|pieces| Some(pieces.each)).filter(|parts| *parts >= SPLIT)?;
    let size = typical(|pieces| Some(pieces.size))?;
    let largest = typical(|pieces| pieces.largest)?;
    let by_array = case.median(chunk_below).is_some_and(|chunk| chunk <= largest);
    if size < AT_LARGEST * largest || by_array {
        return None;
    }
    let sentence = format!(
        "requests are split: {whose} complete {parts:.1} for each request of the workload, none larger than {} (max_sectors_kb)",
        Bytes(largest as u64)
    );
    let of_parts = format!("requests at {whose} for each request of the workload");
    let of_size = format!("bytes of a request at {whose}, against the largest they take");
    let figures = vec![
        evidence(of_parts, parts, Unit::Requests, Some(SPLIT)),
        evidence(of_size, size, Unit::Bytes, Some(largest)),
    ];
    Some(Verdict::new(VerdictKind::RequestSize, 0.6, (1.0 - 1.0 / parts) * 0.5, sentence, figures))
}
