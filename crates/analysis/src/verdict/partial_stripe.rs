//! `partial-stripe`: an array of parity updates stripes in part.
//!
//! Derivation. The parity of a stripe is computed from all of its data. Who writes a whole stripe knows them; of a smaller
//! write the array first has to read: the old data and the old parity (read-modify-write), or the rest of the stripe
//! (reconstruct-write), whichever is less (md: drivers/md/raid5.c, `handle_stripe_dirtying`). So a byte written in a small write of RAID5
//! has its members read up to two and write two, of RAID6 three and three, where whole stripes have them read none and write
//! `members / data`. Members that read more than the array was asked to read, and no more than that, read for parity.

use super::*;
use crate::below;
use crate::facts::moved;
use crate::facts::served::served;
use crate::members;
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::Join;
use ebbtide_model::units::Bytes;

/// How far above the most that parity can take the reads may be.
const SLACK: f64 = 1.10;
/// What a disk counts in, in bytes.
const SECTOR: f64 = 512.0;

checks! {
    FOR_PARITY: at_least("bytes that members read for parity, for each byte written", 0.10, Times, "metadata stays below");
    IN_VAIN: at_least("share of what members moved that whole stripes would not have needed", 0.10, Share, "less is within what trials vary");
}

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

    /// What members moved for so many writes of what was asked; nothing where none were.
    fn traffic(&self, asked: PerOp<u64>, writes: u64, moved: PerOp<u64>) -> Option<Traffic> {
        let each = |bytes: u64| bytes as f64 / asked.write as f64;
        let needed = asked.read as f64 + asked.write as f64 * self.whole();
        let touched = asked.write.saturating_add(moved::ends(asked.write, writes));
        (asked.write > 0 && writes > 0).then(|| Traffic {
            read: each(moved.read.saturating_sub(asked.read)),
            most: f64::from(1 + self.parity) * each(touched),
            written: each(moved.write),
            needless: (1.0 - needed / moved.total().max(1) as f64).max(0.0),
            size: asked.write as f64 / writes as f64,
        })
    }
}

/// What the members of an array moved in a trial, for each byte that was written to it.
#[derive(Debug, Clone, Copy)]
struct Traffic {
    /// Bytes read beyond what was asked to read.
    read: f64,
    /// Most that may be read for parity.
    most: f64,
    written: f64,
    /// Share of all that they moved that whole stripes would not have needed.
    needless: f64,
    /// Bytes of a write.
    size: f64,
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

/// Median over the trials.
fn usual(traffic: &[Traffic], of: fn(&Traffic) -> f64) -> f64 {
    median(traffic.iter().map(of)).unwrap_or(0.0)
}

/// The array of parity whose members moved most in vain, with its traffic in each trial.
fn find(case: &Case<'_>) -> Option<(Geometry, Vec<Traffic>)> {
    // Through the page cache readahead and delayed writes move bytes that nobody asks for, or later.
    let own = of_layout(&case.design.layout).filter(|_| case.workload.direct).map(|geometry| {
        let traffic = case.trials.iter().filter_map(|trial| {
            let moved = trial.members.iter().map(|member| members::bytes(&member.ops)).sum();
            geometry.traffic(members::bytes(&trial.array), trial.array.write.count.ops, moved)
        });
        let traffic = traffic.collect();
        (geometry, traffic)
    });
    // One that lacks a device reads its others for that. What was asked of one below is what anybody asked, as the kernel counted it.
    let below = case.result.below.iter().filter(|array| array.missing == 0).filter_map(|array| {
        let Join::Parity { parity, of, chunk } = array.join else { return None };
        let name = format!("{} ({})", array.name, array.join.name());
        let geometry = Geometry { name, of, parity, chunk };
        let traffic = case.trials.iter().filter_map(|trial| {
            let moved = below::same(trial, array)?.devices.iter().map(|device| device.total.bytes).sum();
            let devices = &trial.observed.as_ref()?.devices;
            let own = devices.iter().find(|device| device.shown_name() == array.name)?.total;
            geometry.traffic(own.bytes, own.ops.write, moved)
        });
        let traffic = traffic.collect();
        Some((geometry, traffic))
    });
    let all = own.into_iter().chain(below).filter(|(_, traffic): &(_, Vec<Traffic>)| !traffic.is_empty());
    let needless = |traffic: &[Traffic]| usual(traffic, |traffic| traffic.needless);
    all.max_by(|a, b| needless(&a.1).total_cmp(&needless(&b.1)))
}

pub(super) fn judge(case: &Case<'_>, _: &Facts<'_>) -> Judged {
    if !case.workload.writes() {
        return Err(Absent::because("the workload writes nothing"));
    }
    let (geometry, traffic) = find(case)
        .ok_or_else(|| Absent::because("nothing was seen to be written to a whole array of parity"))?;
    let of = |of: fn(&Traffic) -> f64| usual(&traffic, of);
    let (read, most) = (of(|traffic| traffic.read), of(|traffic| traffic.most));
    let (written, needless) = (of(|traffic| traffic.written), of(|traffic| traffic.needless));
    let little = "members read little for parity";
    let (for_parity, in_vain) = (FOR_PARITY.require(read, little)?, IN_VAIN.require(needless, little)?);
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
    let (name, whole, stripe) = (&geometry.name, geometry.whole(), geometry.stripe());
    let size = of(|traffic| traffic.size);
    // To whole sectors: no write is less.
    let told = Bytes((size / SECTOR).round().max(1.0) as u64 * SECTOR as u64).short();
    let how = match stripe {
        None => format!("update stripes of {name} in part"),
        Some(stripe) if size < stripe as f64 => {
            format!("are smaller than a stripe of {name} ({})", Bytes(stripe))
        }
        Some(stripe) => format!("are not aligned to a stripe of {name} ({})", Bytes(stripe)),
    };
    let advice = match stripe.map(|stripe| (Bytes(stripe), case.workload.is_multiple_of(stripe))) {
        None => "write whole stripes, or use RAID10".to_owned(),
        Some((stripe, false)) => format!("write {stripe} or a multiple of it, aligned to it, or use RAID10"),
        Some(_) => {
            "look for where they are split or moved: the start of a partition or of the array's data, \
                    max_sectors_kb, the file system, stripe_cache_size"
                .to_owned()
        }
    };
    let of_written = "bytes that members write for each byte written, against whole stripes";
    let of_size = "bytes of a write, against a whole stripe";
    let figures = vec![
        for_parity,
        evidence(of_written, written, Unit::Times, Some(whole)),
        in_vain,
        evidence(of_size, size, Unit::Bytes, stripe.map(|stripe| stripe as f64)),
    ];
    let sentence = format!(
        "writes of {told} {how}: for each byte written its members read {read:.2} and write {written:.2}, where whole stripes have \
         them read none and write {whole:.2}; {advice}"
    );
    Ok(Verdict::new(VerdictKind::PartialStripe, Sure::Certain, needless, sentence, figures))
}
