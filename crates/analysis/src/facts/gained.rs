//! What the load gains by keeping more in flight where others lose it: the disks have no more to give.
//!
//! Derivation. A disk that is full serves so many requests, or moves so many bytes, whoever asks. Whoever has more in flight there has a larger
//! share of them, and all together have as much as before. Where the disks had room, what the load gains comes on top of what others have.

use super::rungs::{MORE, Step};
use super::*;
use ebbtide_model::samples::{Count, DiskUse};

/// What the disks do for all together, in one short run over another, up to which it is unchanged: rates of a moment vary by some percent.
pub const UNCHANGED: f64 = 1.15;
/// What the load gained by keeping more in flight, over all that the disks did before, from which on it shows whether others lost it: by less the others'
/// own ups and downs decide.
const TELLS: f64 = 0.08;
/// Part of what the load gained by keeping more in flight that others must have lost for the disks to have no more of it.
const TAKEN: f64 = 0.5;

/// What all had of the disks per second in a short run, and the load of it.
pub fn rates(
    step: &Step<'_>,
    crowded: Option<&Crowded>,
    all: fn(&DiskUse) -> u64,
    own: fn(&Count) -> u64,
) -> Option<(f64, f64)> {
    let samples = &step.rung.samples;
    let seconds = samples.elapsed.as_secs_f64();
    let disks = crowded::looked_at(samples, crowded)?;
    let all: u64 = disks.iter().map(|disk| all(&disk.total)).sum();
    let counts = samples.array.counts();
    let own = (own(&counts.read) + own(&counts.write)) as f64 * crowded.map_or(1.0, |crowded| crowded.part);
    (all > 0 && seconds > 0.0).then(|| (all as f64 / seconds, own / seconds))
}

/// What all who use the disks have no more of when the load has more in flight and more done; nothing where that does not show.
pub fn from_others(rungs: Option<&Rungs<'_>>, crowded: Option<&Crowded>) -> Option<(Counted, Evidence)> {
    let rungs = rungs?;
    let (same, deepest) = (rungs.same?, *rungs.deeper.last()?);
    if deepest.ops.rate < MORE * same.ops.rate {
        return None;
    }
    let compared = |all: fn(&DiskUse) -> u64, own: fn(&Count) -> u64| {
        let ((before, own_before), (after, own_after)) =
            (rates(&same, crowded, all, own)?, rates(&deepest, crowded, all, own)?);
        let gained = own_after - own_before;
        let lost = (before - own_before) - (after - own_after);
        Some((after / before, gained >= TELLS * before && lost >= TAKEN * gained))
    };
    let unchanged = |times: f64| times.ln().abs() <= UNCHANGED.ln();
    let in_flight = deepest.rung.in_flight;
    let found = |(of, counted, compared): (&str, Counted, Option<(f64, bool)>)| {
        let (times, _) = compared.filter(|(times, taken)| *taken && unchanged(*times))?;
        let what = format!(
            "{of} of the disks, from any source, with {in_flight} of the load's in flight over those with as many as in the trials"
        );
        Some((counted, evidence(what, times, Unit::Times, Some(UNCHANGED))))
    };
    let bytes = ("bytes", Counted::Bytes, compared(|disk| disk.bytes.total(), |count| count.bytes));
    let requests = ("requests", Counted::Operations, compared(|disk| disk.ops.total(), |count| count.ops));
    let nearest = |a: &(Counted, Evidence), b: &(Counted, Evidence)| {
        a.1.value.ln().abs().total_cmp(&b.1.value.ln().abs())
    };
    [bytes, requests].into_iter().filter_map(found).min_by(nearest)
}
