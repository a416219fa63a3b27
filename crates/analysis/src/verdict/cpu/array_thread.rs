//! `cpu`: the one thread of an array that keeps copies or parity has no time left.
//!
//! Derivation. The kernel's md, on which LVM's RAID is too, does what copies and parity need in one thread for each array, `md0_raid5` for
//! example (drivers/md: `raid5d`, `raid10d`, `raid1d`). Where that thread uses a whole core while every device of the array has time to
//! spare, requests wait for it, however many cores there are. Only md's own parity can be given more of them (`group_thread_cnt`).

use crate::evidence::{Unit, evidence, share_is};
use crate::facts::case::{Case, part};
use crate::facts::standing::{self, BUSY};
use crate::judged::{Verdict, VerdictKind};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::samples::{Below, DeviceObservation, TrialSamples};

/// Share of one core that the thread must use to have no time left: what it waits for a core is not known.
pub const FULL: f64 = 0.85;
/// Names of figures that are told where it is asserted and where it is not.
pub const THREAD: &str = "processor time of the array's own thread, of one core";
const BUSIEST: &str = "busy share of the array's busiest device, which would have to be below";
/// How the names of the threads end: those of [`COPIES`] first.
const LEVELS: [&str; 5] = ["raid1", "raid10", "raid4", "raid5", "raid6"];
const COPIES: usize = 2;
/// What md calls an array that has no device node of its own, as those of LVM.
const NAMELESS: &str = "mdX";

/// An array that has such a thread.
#[derive(Debug, Clone, PartialEq)]
struct Array {
    /// Kernel name; nothing where it is the design's.
    device: Option<String>,
    /// Name as it is printed.
    shown: String,
    /// How many devices it has, and how busy the busiest of them is.
    devices: usize,
    busiest: f64,
}

/// The thread of the members' array, or of one below them, that uses the most of a core.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    thread: String,
    /// Of one core.
    pub cores: f64,
    array: Array,
}

fn busy(trial: &TrialSamples, device: &DeviceObservation) -> f64 {
    part(trial, device.total.busy).min(1.0)
}

/// Those of a trial.
fn arrays(case: &Case<'_>, trial: &TrialSamples) -> Vec<Array> {
    let Some(observed) = trial.observed.as_deref() else { return Vec::new() };
    let below = observed.devices.iter().filter_map(|device| {
        let Below { devices, .. } = device.below.as_ref().filter(|below| below.join.is_redundant())?;
        let each = devices.iter().filter_map(|at| Some(busy(trial, observed.devices.get(*at)?)));
        Some(Array {
            device: Some(device.name.clone()),
            shown: device.shown_name().to_owned(),
            devices: devices.len(),
            busiest: each.reduce(f64::max)?,
        })
    });
    let of_design = match &case.design.layout {
        LayoutNode::Array { kind, .. } if kind.facts().is_redundant() => standing::of(trial),
        _ => None,
    };
    let of_design = of_design.and_then(|devices| {
        let busiest = devices.iter().map(|device| device.busy).reduce(f64::max)?;
        Some(Array { device: None, shown: "the array".to_owned(), devices: devices.len(), busiest })
    });
    below.chain(of_design).collect()
}

impl Array {
    /// Whether a thread of this name is its own: `md0_raid5`, or `mdX_raid5` of an array of LVM.
    fn has(&self, thread: &str) -> bool {
        let Some((array, level)) = thread.split_once('_') else { return false };
        let named = match self.device.as_deref() {
            Some(device) if device.starts_with("dm-") => array == NAMELESS,
            Some(device) => array == device,
            None => array.starts_with("md"),
        };
        named && LEVELS.contains(&level)
    }
}

/// See [`Seen`]; nothing where no such thread used a processor.
pub(super) fn find(case: &Case<'_>, users: &[(String, f64)]) -> Option<Seen> {
    // The busiest comes first.
    users.iter().find_map(|(who, cores)| {
        let thread = who.split_once(" (").map_or(who.as_str(), |(name, _)| name);
        let its = |trial: &TrialSamples| arrays(case, trial).into_iter().find(|array| array.has(thread));
        let array = case.trials.iter().find_map(|trial| its(trial))?;
        let busiest = case.median(|trial| Some(its(trial)?.busiest))?;
        Some(Seen { thread: thread.to_owned(), cores: *cores, array: Array { busiest, ..array } })
    })
}

impl Seen {
    /// Whether it is what requests wait for: in words and figures.
    pub fn finding(&self) -> Option<Verdict> {
        let Seen { thread, cores, array } = self;
        if *cores < FULL || array.busiest >= BUSY {
            return None;
        }
        let figures =
            vec![evidence(THREAD, *cores, Unit::Share, Some(FULL)), share_is(BUSIEST, array.busiest, BUSY)];
        let parity = LEVELS.iter().skip(COPIES).any(|level| thread.ends_with(level));
        let advice = match array.device.as_deref() {
            Some(device) if parity && !device.starts_with("dm-") => {
                format!(
                    "more threads (group_thread_cnt) and a larger stripe_cache_size in /sys/block/{device}/md, writes of whole \
                     stripes, or faster cores"
                )
            }
            _ => "larger writes, several arrays beside each other, or faster cores".to_owned(),
        };
        let sentence = format!(
            "one thread does all that {} needs beside reading and writing, and has no time left: {thread} uses {:.0}% of a core, while the busiest \
             of the {} devices is busy {:.0}%; {advice}",
            array.shown,
            cores * 100.0,
            array.devices,
            array.busiest * 100.0,
        );
        Some(Verdict::new(VerdictKind::Cpu, 0.85, cores.min(1.0), sentence, figures))
    }
}
