//! `readahead`: the window is too small to keep the disks at work.
//!
//! Derivation. A sequential reader through the page cache waits for one request at a time; what is in flight is what
//! the kernel reads ahead. A window smaller than a whole stripe (chunk times members) leaves members without work while
//! the reader waits, and disks that are idle part of the time while a reader waits for them were not asked enough: one request at a time
//! keeps a disk busy for most of its time that could serve several, so that only one that always is has no time to spare. A window that is a small part of each
//! operation also has the reader ask that often, which may take all of its time.

use super::*;
use crate::facts::moved;
use crate::facts::moved::HIT_SHARE;
use crate::facts::served::served;
use crate::facts::standing::BUSY;
use ebbtide_model::plan::build::Geometry;
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::{Access, Mix};

/// Windows that make up one operation from which on asking for them is what the reader does.
const WINDOWS: f64 = 4.0;
/// Window that keeps a single network volume at work: at 1 ms and 250 MB/s, 250 KB are in flight.
const SINGLE_WINDOW: u64 = 256 * Bytes::KIB;

checks! {
    IDLE: below("busy share of the disks, with a window smaller than a stripe", BUSY, Share, "one that always is busy has no time to spare");
    READER: below("share of the time that the reader ran or waited to", 0.80, Share, "otherwise the reader is the slow part");
    AT_WORK: at_least("share of the time in which a disk or the reader works", 0.50, Share, "otherwise the reader waits for something else");
}

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
    // Busy shares of the disks together, and their mean.
    let busy = |over: fn(usize) -> f64| {
        case.median(|t| {
            let disks = moved::disks(t).filter(|disks| !disks.is_empty())?;
            let busy = disks.iter().map(|disk| disk.total.busy.as_secs_f64()).sum::<f64>();
            Some(busy / t.elapsed.as_secs_f64() / over(disks.len()))
        })
    };
    let (all_busy, busy) = (busy(|_| 1.0), busy(|disks| disks as f64));
    // A cache that answers leaves the disks idle too.
    let from_disk = case.median(|t| {
        let m = moved::moved(t)?;
        (m.asked.read > 0).then(|| m.moved.read as f64 / m.asked.read as f64)
    });
    let unseen = || Absent::unmeasured("the disks or their readahead were not observed");
    let ((window, busy), from_disk) = window.zip(busy).zip(from_disk).ok_or_else(unseen)?;
    let of_window = |what: &str| evidence(what, window, Unit::Bytes, Some(needed as f64));
    if window >= needed as f64 || from_disk < 1.0 - HIT_SHARE {
        let why = "the window is large enough, or a cache answered";
        let what = "share of the bytes read that came from the disks";
        return Err(Absent::because(why)
            .with([of_window("readahead window, which would have to be below")])
            .seen(what, from_disk, Unit::Share, 1.0 - HIT_SHARE));
    }
    let idle = IDLE.require(busy, "the disks had no time to spare")?;
    let reader = facts.pressed.unwrap_or(0.0);
    if window <= 0.0 || case.workload.mean_bs() < WINDOWS * window {
        READER.require(reader, "the reader had no time to spare")?;
    }
    let accounted = all_busy.unwrap_or(0.0) + reader;
    AT_WORK.require(accounted, "the reader waits for something else than the disks")?;
    let sentence = format!(
        "readahead of {} does not cover {}: the disks are busy {:.0}% of the time while the reader waits",
        Bytes(window as u64),
        Bytes(needed),
        busy * 100.0
    );
    let figures = vec![of_window("readahead window, against what keeps every disk busy"), idle];
    Ok(Verdict::new(VerdictKind::Readahead, Sure::Likely, 1.0 - busy, sentence, figures))
}
