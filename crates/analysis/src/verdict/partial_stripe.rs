//! `partial-stripe`: an array of parity updates stripes in part.
//!
//! Derivation. The parity of a stripe is computed from all of its data. Who writes a whole stripe knows them; of a smaller
//! write the array first has to read: the old data and the old parity (read-modify-write), or the rest of the stripe
//! (reconstruct-write), whichever is less (md: drivers/md/raid5.c, `handle_stripe_dirtying`). So a byte written in a small write of RAID5
//! has its members read up to two and write two, of RAID6 three and three, where whole stripes have them read none and write
//! `members / data`. Members that read more than the array was asked to read, and no more than that, read for parity.

use crate::estimate::median;
use crate::evidence::{Check, Unit, evidence};
use crate::facts::case::Case;
use crate::facts::served::served;
use crate::facts::{Facts, moved};
use crate::judged::{Absent, Judged, Sure, Verdict, VerdictKind};
use crate::members;
use crate::{ArrayBelow, below};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Join, TrialSamples};
use ebbtide_model::units::Bytes;

/// How far above the most that parity can take the reads may be.
const SLACK: f64 = 1.10;
/// What a disk counts in, in bytes.
const SECTOR: f64 = 512.0;

/// What is looked at, each with its edge.
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[FOR_PARITY, IN_VAIN];
#[rustfmt::skip]
const FOR_PARITY: Check = Check::at_least("bytes that members read for parity, for each byte written", 0.10, Unit::Times, "metadata stays below");
#[rustfmt::skip]
const IN_VAIN: Check = Check::at_least("share of what members moved that whole stripes would not have needed", 0.10, Unit::Share, "less is within what trials vary");

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
    fn data(&self) -> u32 {
        self.of.saturating_sub(self.parity).max(1)
    }

    /// Bytes of data in a whole stripe.
    fn stripe(&self) -> Option<u64> {
        let stripe = self.chunk.map(|chunk| chunk.0.saturating_mul(self.data().into()));
        stripe.filter(|stripe| *stripe > 0)
    }

    /// Bytes that members write for each byte written, in whole stripes.
    fn whole(&self) -> f64 {
        f64::from(self.of) / f64::from(self.data())
    }
}

/// What was asked of an array in a trial, and what its members moved for it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Traffic {
    asked: PerOp<u64>,
    writes: u64,
    moved: PerOp<u64>,
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

    /// Most that may be read for parity for each byte written.
    fn most(&self, parity: u32) -> f64 {
        let ends = moved::ends(self.asked.write, self.writes);
        let touched = self.asked.write.saturating_add(ends) as f64 / self.asked.write as f64;
        f64::from(1 + parity) * touched
    }

    /// Share of what the members moved that whole stripes would not have needed.
    fn needless(&self, geometry: &Geometry) -> f64 {
        let needed = self.asked.read as f64 + self.asked.write as f64 * geometry.whole();
        (1.0 - needed / self.moved.total().max(1) as f64).max(0.0)
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
    let asked = members::bytes(&trial.array);
    let moved = trial.members.iter().map(|member| members::bytes(&member.ops)).sum();
    (asked.write > 0).then_some(Traffic { asked, writes: trial.array.write.count.ops, moved })
}

/// What an array below was asked for by anybody, as the kernel counted it, and what its devices moved.
fn existing(trial: &TrialSamples, array: &ArrayBelow) -> Option<Traffic> {
    let found = below::same(trial, array)?;
    let own = trial.observed.as_ref()?.devices.iter().find(|device| device.shown_name() == array.name)?;
    let (asked, writes) = (own.total.bytes, own.total.ops.write);
    let moved = found.devices.iter().map(|device| device.total.bytes).sum();
    (asked.write > 0 && writes > 0).then_some(Traffic { asked, writes, moved })
}

/// An array of parity in a case, with its traffic in each trial.
struct Seen {
    geometry: Geometry,
    traffic: Vec<Traffic>,
}

impl Seen {
    fn median(&self, of: impl Fn(&Traffic) -> f64) -> f64 {
        median(self.traffic.iter().map(of)).unwrap_or(0.0)
    }

    fn needless(&self) -> f64 {
        self.median(|traffic| traffic.needless(&self.geometry))
    }
}

/// The array of parity whose members moved most in vain.
fn find(case: &Case<'_>) -> Option<Seen> {
    // Through the page cache readahead and delayed writes move bytes that nobody asks for, or later.
    let own = of_layout(&case.design.layout).filter(|_| case.workload.direct).map(|geometry| {
        let traffic = case.trials.iter().filter_map(|trial| designed(trial));
        Seen { geometry, traffic: traffic.collect() }
    });
    // One that lacks a device reads its others for that.
    let below = case.result.below.iter().filter(|array| array.missing == 0).filter_map(|array| {
        let Join::Parity { parity, of, chunk } = array.join else { return None };
        let name = format!("{} ({})", array.name, array.join.name());
        let traffic = case.trials.iter().filter_map(|trial| existing(trial, array));
        Some(Seen { geometry: Geometry { name, of, parity, chunk }, traffic: traffic.collect() })
    });
    let all = own.into_iter().chain(below).filter(|seen| !seen.traffic.is_empty());
    all.max_by(|a, b| a.needless().total_cmp(&b.needless()))
}

pub(super) fn judge(case: &Case<'_>, _: &Facts<'_>) -> Judged {
    if !case.workload.writes() {
        return Err(Absent::because("the workload writes nothing"));
    }
    let seen = find(case)
        .ok_or_else(|| Absent::because("nothing was seen to be written to a whole array of parity"))?;
    let (read, needless) = (seen.median(Traffic::read), seen.needless());
    let most = seen.median(|traffic| traffic.most(seen.geometry.parity));
    FOR_PARITY.require(read, "members read little for parity")?;
    IN_VAIN.require(needless, "members read little for parity")?;
    if read > most * SLACK {
        let absent = Absent::because("members read more than parity takes: somebody else reads them");
        let what = "bytes that members read beyond what was requested, for each byte written, which would have to be below";
        return Err(absent.seen(what, read, Unit::Times, most * SLACK));
    }
    if moved::resyncs(case.trials) {
        return Err(Absent::yields(VerdictKind::Background, "others read the members too"));
    }
    if served(case) {
        return Err(Absent::because("the array keeps up with the offered load"));
    }
    let Geometry { name, .. } = &seen.geometry;
    let (written, whole) = (seen.median(Traffic::written), seen.geometry.whole());
    let size = seen.median(|traffic| traffic.asked.write as f64 / traffic.writes.max(1) as f64);
    // To whole sectors: no write is less.
    let told = Bytes((size / SECTOR).round().max(1.0) as u64 * SECTOR as u64).short();
    let stripe = seen.geometry.stripe();
    let (how, advice) = match stripe {
        None => {
            (format!("update stripes of {name} in part"), "write whole stripes, or use RAID10".to_owned())
        }
        Some(stripe) => {
            let how = match size < stripe as f64 {
                true => format!("are smaller than a stripe of {name} ({})", Bytes(stripe)),
                false => format!("are not aligned to a stripe of {name} ({})", Bytes(stripe)),
            };
            let advice = match case.workload.is_multiple_of(stripe) {
                true => "look for where they are split or moved: the start of a partition or of the array's data, \
                         max_sectors_kb, the file system, stripe_cache_size"
                    .to_owned(),
                false => format!("write {} or a multiple of it, aligned to it, or use RAID10", Bytes(stripe)),
            };
            (how, advice)
        }
    };
    let of_written = "bytes that members write for each byte written, against whole stripes";
    let of_size = "bytes of a write, against a whole stripe";
    let figures = vec![
        FOR_PARITY.figure(read),
        evidence(of_written, written, Unit::Times, Some(whole)),
        IN_VAIN.figure(needless),
        evidence(of_size, size, Unit::Bytes, stripe.map(|stripe| stripe as f64)),
    ];
    let sentence = format!(
        "writes of {told} {how}: for each byte written its members read {read:.2} and write {written:.2}, where whole stripes have \
         them read none and write {whole:.2}; {advice}"
    );
    Ok(Verdict::new(VerdictKind::PartialStripe, Sure::Certain, needless, sentence, figures))
}
