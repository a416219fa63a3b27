//! `readahead`: the window is too small to keep the disks at work.
//!
//! Derivation. A sequential reader through the page cache waits for one request at a time; what is in flight is what
//! the kernel reads ahead. A window smaller than a whole stripe (chunk times members) leaves members without work while
//! the reader waits, and disks that are idle part of the time while a reader waits for them were not asked enough: one request at a time
//! keeps a disk busy for most of its time that could serve several, so that only one that always is has no time to spare. A window that is a small part of each
//! operation also has the reader ask that often, which may take all of its time.

use crate::evidence::{Check, Unit, evidence, share_is};
use crate::facts::case::Case;
use crate::facts::moved::HIT_SHARE;
use crate::facts::served::served;
use crate::facts::standing::BUSY;
use crate::facts::{Facts, moved};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use ebbtide_model::plan::build::Geometry;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::{Access, Mix};

/// Share of a load thread's time from which on the reader, not the disks, is the slow part.
const READER_BUSY: f64 = 0.80;
/// Share of the time in which a disk or the reader works below which it is something else that the reader waits for.
const ACCOUNTED: f64 = 0.50;
/// Windows that make up one operation from which on asking for them is what the reader does.
const WINDOWS: f64 = 4.0;
/// Window that keeps a single network volume at work: at 1 ms and 250 MB/s, 250 KB are in flight.
const SINGLE_WINDOW: u64 = 256 * Bytes::KIB;

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    Check::below("busy share of the disks, with a window smaller than a stripe", BUSY, Unit::Share, "one that always is busy has no time to spare"),
    Check::below("share of the time that the reader ran or waited to", READER_BUSY, Unit::Share, "otherwise the reader is the slow part"),
    AT_WORK,
];
#[rustfmt::skip]
const AT_WORK: Check = Check::at_least("share of the time in which a disk or the reader works", ACCOUNTED, Unit::Share, "otherwise the reader waits for something else");

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    let workload = case.workload;
    if workload.direct || workload.access != Access::Sequential || workload.mix != Mix::Read {
        return Err(Absent::because("only sequential reads through the page cache are read ahead"));
    }
    if served(case) {
        return Err(Absent::because("the load has all that it asks for"));
    }
    let needed = Geometry::of(&case.design.layout).map_or(SINGLE_WINDOW, |geometry| geometry.stripe().0);
    // The window is that of the topmost device with one: the array's, where the kernel has one.
    let window = case.median(|t| {
        let observed = t.observed.as_ref()?;
        let tops = observed.members.iter().flat_map(|m| observed.tops(m));
        let tops = tops.filter_map(|top| observed.devices.get(*top)?.readahead);
        tops.map(|b| b.0).min().map(|b| b as f64)
    });
    // Busy shares of the disks together, and how many they are.
    let disks = |t: &TrialSamples| {
        let disks = moved::disks(t)?;
        let busy: f64 = disks.iter().map(|disk| disk.total.busy.as_secs_f64()).sum();
        (!disks.is_empty()).then(|| (busy / t.elapsed.as_secs_f64(), disks.len() as f64))
    };
    let busy = case.median(|t| disks(t).map(|(busy, number)| busy / number));
    let at_disks = case.median(|t| disks(t).map(|(busy, _)| busy));
    // A cache that answers leaves the disks idle too, and so does a reader with no time left.
    let from_disk = case.median(|t| {
        let m = moved::moved(t)?;
        (m.asked.read > 0).then(|| m.moved.read as f64 / m.asked.read as f64)
    });
    let reader = facts.pressed;
    let missed = 1.0 - HIT_SHARE;
    let (Some(window), Some((busy, at_disks)), Some(from_disk)) = (window, busy.zip(at_disks), from_disk)
    else {
        return Err(Absent::because("the disks or their readahead were not observed"));
    };
    let needed_bytes = needed as f64;
    let asks = window > 0.0 && case.workload.mean_bs() >= WINDOWS * window;
    let reader_busy = !asks && reader.is_some_and(|share| share >= READER_BUSY);
    if window >= needed_bytes || busy >= BUSY || from_disk < missed || reader_busy {
        let why = "the window is large enough, the disks had no time to spare, or the reader had none";
        let below = ", which would have to be below";
        let of_reader = format!("share of the time that the least idle load thread ran or waited to{below}");
        return Err(Absent::because(why)
            .seen(format!("readahead window{below}"), window, Unit::Bytes, needed_bytes)
            .seen(format!("busy share of the disks{below}"), busy, Unit::Share, BUSY)
            .seen("share of the bytes read that came from the disks", from_disk, Unit::Share, missed)
            .seen_where_known(of_reader, reader, Unit::Share, READER_BUSY));
    }
    let accounted = at_disks + reader.unwrap_or(0.0);
    AT_WORK.require(accounted, "the reader waits for something else than the disks")?;
    let sentence = format!(
        "readahead of {} does not cover {}: the disks are busy {:.0}% of the time while the reader waits",
        Bytes(window as u64),
        Bytes(needed),
        busy * 100.0
    );
    let what = "readahead window, against what keeps every disk busy";
    let figures = vec![
        evidence(what, window, Unit::Bytes, Some(needed_bytes)),
        share_is("busy share of the disks", busy, BUSY),
    ];
    Ok(Verdict::new(VerdictKind::Readahead, 0.75, 1.0 - busy, sentence, figures))
}
