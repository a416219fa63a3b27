//! `cpu`: the one thread of an array that keeps copies or parity has no time left.
//!
//! Derivation. The kernel's md, on which LVM's RAID is too, does what copies and parity need in one thread for each array, `md0_raid5` for
//! example (drivers/md: `raid5d`, `raid10d`, `raid1d`). Where that thread uses a whole core while every device of the array has time to
//! spare, requests wait for it, however many cores there are. Only md's own parity can be given more of them (`group_thread_cnt`).

use super::*;
use crate::facts::standing::BUSY;
use ebbtide_model::layout::LayoutNode;

/// How the names of the threads end: those of parity last.
const LEVELS: [&str; 5] = ["raid1", "raid10", "raid4", "raid5", "raid6"];
const PARITY: &[&str] = &["raid4", "raid5", "raid6"];

/// The array of a trial that has a thread of this name: `md0_raid5`, or `mdX_raid5` of one of LVM. Its kernel name where it is not the design's, its name
/// as it is printed and the busy share of its busiest device.
fn array_of(case: &Case<'_>, trial: &TrialSamples, thread: &str) -> Option<(Option<String>, String, f64)> {
    let (array, _) = thread.split_once('_').filter(|(_, level)| LEVELS.contains(level))?;
    let observed = trial.observed.as_deref()?;
    let mut arrays = observed.devices.iter().filter(|device| {
        let named = if device.name.starts_with("dm-") { array == "mdX" } else { array == device.name };
        named && device.below.as_ref().is_some_and(|below| below.join.is_redundant())
    });
    if let Some(device) = arrays.next() {
        let members = device.below.iter().flat_map(|below| &below.devices);
        let busy = members.filter_map(|at| Some(part(trial, observed.devices.get(*at)?.total.busy).min(1.0)));
        return Some((Some(device.name.clone()), device.shown_name().to_owned(), busy.reduce(f64::max)?));
    }
    let LayoutNode::Array { kind, .. } = &case.design.layout else { return None };
    let busy = standing::of(trial)?.iter().map(|device| device.busy).reduce(f64::max)?;
    (kind.facts().is_redundant() && array.starts_with("md")).then(|| (None, "the array".to_owned(), busy))
}

/// The thread of the members' array, or of one below them, that uses the most of a core; nothing where no such thread used a processor.
pub(super) fn find(case: &Case<'_>, users: &[(String, f64)]) -> Option<Seen> {
    // The busiest comes first.
    users.iter().find_map(|(who, cores)| {
        let thread = who.split_once(" (").map_or(who.as_str(), |(name, _)| name);
        let (device, shown, _) = case.trials.iter().find_map(|trial| array_of(case, trial, thread))?;
        let busiest = case.median(|trial| Some(array_of(case, trial, thread)?.2))?;
        let what = "busy share of the array's busiest device, which would have to be below";
        let figures = vec![ARRAY_THREAD.figure(*cores), share_is(what, busiest, BUSY)];
        let own = device.filter(|device| !device.starts_with("dm-"));
        let advice = match own.filter(|_| PARITY.iter().any(|level| thread.ends_with(level))) {
            Some(device) => format!(
                "more threads (group_thread_cnt) and a larger stripe_cache_size in /sys/block/{device}/md, writes of whole \
                 stripes, or faster cores"
            ),
            None => "larger writes, several arrays beside each other, or faster cores".to_owned(),
        };
        let sentence = format!(
            "one thread does all that {shown} needs beside reading and writing, and has no time left: {thread} uses {:.0}% of a core, while the \
             busiest of its devices is busy {:.0}%; {advice}",
            cores * 100.0,
            busiest * 100.0,
        );
        let full = ARRAY_THREAD.holds(*cores) && busiest < BUSY;
        let found = full.then(|| ground(Sure::Likely, cores.min(1.0), sentence, figures));
        Some((vec![(ARRAY_THREAD, *cores)], found))
    })
}
