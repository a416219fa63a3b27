//! `partial-stripe`: an array of parity updates stripes in part.
//!
//! Derivation. The parity of a stripe is computed from all of its data. Who writes a whole stripe knows them; of a smaller
//! write the array first has to read: the old data and the old parity (read-modify-write), or the rest of the stripe
//! (reconstruct-write), whichever is less (md: drivers/md/raid5.c, `handle_stripe_dirtying`). So a byte written in a small write of RAID5
//! has its members read up to two and write two, of RAID6 three and three, where whole stripes have them read none and write
//! `members / data`. Members that read more than the array was asked to read, and no more than that, read for parity.
//!
//! Sequential writes that are no multiple of a stripe leave parts of stripes at the same members again and again. The array waits
//! for the member that is given most, so there its work counts for all of them: whole stripes would give each the same.

use crate::estimate::median;
use crate::evidence::{Check, Unit, evidence};
use crate::facts::case::Case;
use crate::facts::served::served;
use crate::facts::{Facts, moved};
use crate::judged::{Absent, Judged, Verdict, VerdictKind};
use crate::members;
use crate::{ArrayBelow, below};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Join, TrialSamples};
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::Access;

/// Bytes that members read for parity, for each byte written, from which on it is told: what is read of metadata, and at the edges of a
/// measurement, stays below.
pub const READ: f64 = 0.10;
/// Part of the members' work from which on it matters: below it whole stripes would gain less than trials vary.
pub const NEEDLESS: f64 = 0.10;
/// How far above the most that parity can take the reads may be.
const SLACK: f64 = 1.10;
/// Share of what all would move, were each as busy as the busiest, below which it is told.
const EVEN: f64 = 0.95;
/// What a disk counts in, in bytes.
const SECTOR: f64 = 512.0;

/// How an array of parity is put together.
#[derive(Debug, Clone, PartialEq)]
struct Geometry {
    /// As it is called in the sentence: `raid5`, `md0 (raid6)`.
    name: String,
    /// Members of a stripe, data and parity.
    of: u32,
    /// Of them with parity.
    parity: u32,
    chunk: Option<Bytes>,
}

impl Geometry {
    fn data(&self) -> f64 {
        f64::from(self.of.saturating_sub(self.parity).max(1))
    }

    /// Bytes of data in a whole stripe.
    fn stripe(&self) -> Option<u64> {
        let data = u64::from(self.of.saturating_sub(self.parity).max(1));
        self.chunk.map(|chunk| chunk.0.saturating_mul(data)).filter(|stripe| *stripe > 0)
    }
}

/// What was asked of an array in a trial, and what its members moved for it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Traffic {
    asked: PerOp<u64>,
    writes: u64,
    moved: PerOp<u64>,
    /// What the busiest member moved.
    busiest: u64,
}

impl Traffic {
    /// Bytes that members read beyond what was asked to read, for each byte written.
    fn read(&self) -> f64 {
        self.moved.read.saturating_sub(self.asked.read) as f64 / self.asked.write as f64
    }

    /// Bytes that members wrote for each byte written.
    fn written(&self) -> f64 {
        self.moved.write as f64 / self.asked.write as f64
    }

    /// Bytes of a write, on average.
    fn size(&self) -> f64 {
        self.asked.write as f64 / self.writes.max(1) as f64
    }

    /// Most that may be read for parity for each byte written.
    fn most(&self, parity: u32) -> f64 {
        let ends = moved::ends(self.asked.write, self.writes);
        let touched = self.asked.write.saturating_add(ends) as f64 / self.asked.write as f64;
        f64::from(1 + parity) * touched
    }

    /// Share of what the members moved that whole stripes would not have needed. Where access is `sequential`, all count as the
    /// busiest, for which the others wait.
    fn needless(&self, geometry: &Geometry, sequential: bool) -> f64 {
        let least = self.asked.write as f64 * f64::from(geometry.of) / geometry.data();
        let needed = self.asked.read as f64 + least;
        let moved = match sequential {
            true => self.busiest as f64 * f64::from(geometry.of),
            false => (self.moved.read + self.moved.write) as f64,
        };
        if moved > 0.0 { (1.0 - needed / moved).max(0.0) } else { 0.0 }
    }

    /// What the members moved, of what they would have moved were each as busy as the busiest.
    fn evenness(&self, geometry: &Geometry) -> f64 {
        (self.moved.read + self.moved.write) as f64 / (self.busiest as f64 * f64::from(geometry.of)).max(1.0)
    }
}

/// An array of parity in a case, with its traffic in each trial.
struct Seen {
    geometry: Geometry,
    traffic: Vec<Traffic>,
    sequential: bool,
}

impl Seen {
    fn median(&self, of: impl Fn(&Traffic) -> f64) -> f64 {
        median(self.traffic.iter().map(of)).unwrap_or(0.0)
    }

    fn needless(&self) -> f64 {
        self.median(|traffic| traffic.needless(&self.geometry, self.sequential))
    }
}

/// The parity of a design: of its outermost array, or of the arrays that a stripe or a concatenation has as its members, all alike.
fn of_layout(layout: &LayoutNode) -> Option<Geometry> {
    let LayoutNode::Array { kind, members } = layout else { return None };
    let facts = kind.facts();
    if facts.parity() > 0 {
        let leaves = members.iter().all(|member| matches!(member, LayoutNode::Volume(_)));
        let (of, parity) = (members.len() as u32, facts.parity() as u32);
        return leaves.then(|| Geometry { name: kind.name().to_owned(), of, parity, chunk: kind.chunk() });
    }
    let mut all = members.iter().map(of_layout).take_while(|_| !facts.is_redundant());
    let first = all.next()??;
    all.all(|other| other.as_ref() == Some(&first)).then_some(first)
}

/// Bytes of data in a whole stripe of a design's parity, if it has some.
pub(super) fn stripe(layout: &LayoutNode) -> Option<u64> {
    of_layout(layout)?.stripe()
}

/// What the array of the design was asked for by the application, and what its volumes moved.
fn designed(trial: &TrialSamples) -> Option<Traffic> {
    let array = &trial.array;
    let each = trial.members.iter().map(|member| members::bytes(&member.ops));
    let (moved, busiest) =
        (each.clone().sum(), each.map(|moved: PerOp<u64>| moved.total()).max().unwrap_or(0));
    let asked = members::bytes(array);
    (asked.write > 0).then_some(Traffic { asked, writes: array.write.count.ops, moved, busiest })
}

/// What an array below was asked for by anybody, as the kernel counted it, and what its devices moved.
fn existing(trial: &TrialSamples, array: &ArrayBelow) -> Option<Traffic> {
    let found = below::same(trial, array)?;
    let own = trial.observed.as_ref()?.devices.iter().find(|device| device.shown_name() == array.name)?;
    let (asked, writes) = (own.total.bytes, own.total.ops.write);
    let each = found.devices.iter().map(|device| device.total.bytes);
    let (moved, busiest) =
        (each.clone().sum(), each.map(|moved: PerOp<u64>| moved.total()).max().unwrap_or(0));
    (asked.write > 0 && writes > 0).then_some(Traffic { asked, writes, moved, busiest })
}

/// The array of parity whose members moved most in vain; why there is none.
fn find(case: &Case<'_>) -> Result<Seen, Absent> {
    let mut all: Vec<Seen> = Vec::new();
    let mut degraded = None;
    let sequential = case.workload.access == Access::Sequential;
    if let Some(geometry) = of_layout(&case.design.layout) {
        // Through the page cache readahead and delayed writes move bytes that nobody asks for, or later.
        let traffic = case.trials.iter().filter(|_| case.workload.direct).filter_map(|trial| designed(trial));
        all.push(Seen { geometry, traffic: traffic.collect(), sequential });
    }
    for array in &case.result.below {
        let Join::Parity { parity, of, chunk } = array.join else { continue };
        if array.missing > 0 {
            degraded = Some(array.name.clone());
            continue;
        }
        let name = format!("{} ({})", array.name, array.join.name());
        let traffic = case.trials.iter().filter_map(|trial| existing(trial, array)).collect();
        all.push(Seen { geometry: Geometry { name, of, parity, chunk }, traffic, sequential });
    }
    let known = !all.is_empty();
    all.retain(|seen| !seen.traffic.is_empty());
    let most = all.into_iter().max_by(|a, b| a.needless().total_cmp(&b.needless()));
    most.ok_or_else(|| {
        Absent::because(match (known, degraded) {
            (true, _) => {
                "nothing was written to an array of parity, or not counted at its members".to_owned()
            }
            (false, Some(name)) => {
                format!("{name} lacks a device, for which its others are read")
            }
            (false, None) => "nothing is written to an array of parity".to_owned(),
        })
    })
}

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[FOR_PARITY, IN_VAIN];
#[rustfmt::skip]
const FOR_PARITY: Check = Check::at_least("bytes that members read for parity, for each byte written", READ, Unit::Times, "metadata stays below");
#[rustfmt::skip]
const IN_VAIN: Check = Check::at_least("share of what members moved that whole stripes would not have needed", NEEDLESS, Unit::Share, "less is within what trials vary");

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    if !case.workload.writes() {
        return Err(Absent::because("the workload writes nothing"));
    }
    let seen = find(case)?;
    let read = seen.median(Traffic::read);
    let needless = seen.needless();
    let most = seen.median(|traffic| traffic.most(seen.geometry.parity));
    if !FOR_PARITY.holds(read) || !IN_VAIN.holds(needless) {
        let figures = [FOR_PARITY.missed(read), IN_VAIN.missed(needless)];
        return Err(Absent::because("members read little for parity").with(figures));
    }
    if read > most * SLACK {
        let absent = Absent::because("members read more than parity takes: somebody else reads them");
        let what = "bytes that members read beyond what was requested, for each byte written, which would have to be below";
        return Err(absent.seen(what, read, Unit::Times, most * SLACK));
    }
    if moved::resyncs(case.trials) {
        return Err(Absent::yields(VerdictKind::Background, "others read the members too"));
    }
    facts.yield_to(VerdictKind::Background, "others read the members too")?;
    if facts.thread_busy().is_some() {
        return Err(Absent::yields(VerdictKind::Cpu, "a load thread has little time left"));
    }
    if served(case) {
        return Err(Absent::because("the array keeps up with the offered load"));
    }
    Ok(verdict(case, &seen))
}

fn verdict(case: &Case<'_>, seen: &Seen) -> Verdict {
    let Seen { geometry, .. } = seen;
    let (read, written) = (seen.median(Traffic::read), seen.median(Traffic::written));
    let (needless, size) = (seen.needless(), seen.median(Traffic::size));
    let whole = f64::from(geometry.of) / geometry.data();
    let name = &geometry.name;
    let stripe = geometry.stripe();
    let how = match stripe {
        Some(stripe) if size < stripe as f64 => {
            format!("writes of {} are smaller than a stripe of {name} ({})", told(size), Bytes(stripe))
        }
        Some(stripe) => format!(
            "writes of {} reach {name} in parts of a stripe ({}), or not aligned to it",
            told(size),
            Bytes(stripe)
        ),
        None => format!("writes of {} update stripes of {name} in part", told(size)),
    };
    let advice = match stripe {
        Some(stripe) if case.workload.is_multiple_of(stripe) => {
            "look for where they are split or moved: the start of a partition or of the array's data, max_sectors_kb, \
             the file system, stripe_cache_size"
                .to_owned()
        }
        Some(stripe) => {
            format!("write {} or a multiple of it, aligned to it, or use RAID10", Bytes(stripe))
        }
        None => "write whole stripes, or use RAID10".to_owned(),
    };
    let evenness = seen.median(|traffic| traffic.evenness(geometry));
    let uneven = match seen.sequential && evenness < EVEN {
        true => format!(
            ", and its members move {:.0}% of what they would were each as busy as the busiest",
            evenness * 100.0
        ),
        false => String::new(),
    };
    let figures = vec![
        evidence(FOR_PARITY.what, read, Unit::Times, Some(0.0)),
        evidence(
            "bytes that members write for each byte written, against whole stripes",
            written,
            Unit::Times,
            Some(whole),
        ),
        IN_VAIN.figure(needless),
        evidence(
            "bytes of a write, against a whole stripe",
            size,
            Unit::Bytes,
            stripe.map(|stripe| stripe as f64),
        ),
    ];
    Verdict::new(
        VerdictKind::PartialStripe,
        0.95,
        needless,
        format!(
            "{how}: for each byte written its members read {read:.2} and write {written:.2}, where whole stripes have \
             them read none and write {whole:.2}{uneven}; {advice}"
        ),
        figures,
    )
}

/// An average size in words, to whole sectors: no write is less.
fn told(size: f64) -> String {
    Bytes((size / SECTOR).round().max(1.0) as u64 * SECTOR as u64).short()
}
