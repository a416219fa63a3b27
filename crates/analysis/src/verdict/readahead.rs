//! `readahead`: the window is too small to keep the disks at work.
//!
//! Derivation. A sequential reader through the page cache waits for one request at a time; what is in flight is what
//! the kernel reads ahead. A window smaller than a whole stripe (chunk times members) leaves members without work while
//! the reader waits, and disks that are idle part of the time while a reader waits for them were not asked enough.

use super::{Absent, Case, Judged, Rule, evidence, moved};
use crate::{Verdict, VerdictKind};
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::{Access, Mix};

/// Busy share of the disks below which they wait for requests.
pub const DISKS_IDLE: f64 = 0.80;
/// Share of a load thread's time from which on the reader, not the disks, is the slow part.
const READER_BUSY: f64 = 0.80;
/// Window that keeps a single network volume at work: at 1 ms and 250 MB/s, 250 KB are in flight.
const SINGLE_WINDOW: u64 = 256 * Bytes::KIB;

#[derive(Debug)]
pub struct Readahead;

impl Rule for Readahead {
    fn kind(&self) -> VerdictKind {
        VerdictKind::Readahead
    }

    fn judge(&self, case: &Case<'_>) -> Judged {
        let workload = case.workload;
        if workload.direct || workload.access != Access::Sequential || workload.mix != Mix::Read {
            return Err(Absent::because("only sequential reads through the page cache are read ahead"));
        }
        let needed = case.design.layout.stripe_width().map_or(SINGLE_WINDOW, |stripe| stripe.0);
        // The window is that of the topmost device with one: the array's, where the kernel has one.
        let window = case.median(|t| {
            let observed = t.observed.as_ref()?;
            let tops = observed.members.iter().flat_map(|m| observed.tops(m));
            let tops = tops.filter_map(|top| observed.devices.get(*top)?.readahead);
            tops.map(|b| b.0).min().map(|b| b as f64)
        });
        let busy = case.median(|t| {
            let disks = moved::disks(t)?;
            let busy: f64 = disks.iter().map(|disk| disk.total.busy.as_secs_f64()).sum();
            (!disks.is_empty()).then(|| busy / disks.len() as f64 / t.elapsed.as_secs_f64())
        });
        // A cache that answers leaves the disks idle too, and so does a reader with no time left.
        let from_disk = case.median(|t| {
            let m = moved::moved(t)?;
            (m.asked.read > 0).then(|| m.moved.read as f64 / m.asked.read as f64)
        });
        let reader = super::cpu::busiest_thread(case);
        let reader_busy = reader.is_some_and(|share| share >= READER_BUSY);
        let missed = 1.0 - super::cache::HIT_SHARE;
        let absent = || {
            let below = ", which would have to be below";
            Absent::because(
                "the window is large enough, the disks had no time to spare, or the reader had none",
            )
            .seen_where_known(&format!("readahead window{below}"), window, "bytes", needed as f64)
            .seen_where_known(&format!("busy share of the disks{below}"), busy, "share", DISKS_IDLE)
            .seen_where_known("share of the bytes read that came from the disks", from_disk, "share", missed)
            .seen_where_known(
                &format!("busy share of the busiest load thread{below}"),
                reader,
                "share",
                READER_BUSY,
            )
        };
        let (Some(window), Some(busy), Some(from_disk)) = (window, busy, from_disk) else {
            return Err(Absent::because("the disks or their readahead were not observed"));
        };
        (window < needed as f64 && busy < DISKS_IDLE && from_disk >= missed && !reader_busy)
            .then(|| Verdict {
                kind: VerdictKind::Readahead,
                basis: None,
                confidence: 0.75,
                explains: (1.0 - busy).clamp(0.0, 1.0),
                sentence: format!(
                    "readahead of {} does not cover {}: the disks are busy {:.0}% of the time while the reader waits",
                    Bytes(window as u64),
                    Bytes(needed),
                    busy * 100.0
                ),
                evidence: vec![
                    evidence("readahead window, against what keeps every disk at work", window, "bytes", Some(needed as f64)),
                    evidence("busy share of the disks", busy, "share", Some(DISKS_IDLE)),
                ],
            })
            .ok_or_else(absent)
    }
}
