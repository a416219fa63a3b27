//! `idle-copies`: of an array that holds copies, one copy answers what is read while the members with the others have little to do.
//!
//! Derivation. Any copy can answer a read, so that `n` members could give `n` times what one gives. md keeps a sequential
//! stream of a mirror on the member where it was (`raid1.c`, read_balance); RAID10 chooses for each chunk (`raid10.c`), on spindles the copy whose arm
//! is nearest. Whether that costs anything depends on what waits: with no more
//! operations in flight than members at work the others would have nothing to do either. Which copy it is may change from
//! trial to trial, so that each trial is looked at by itself. What is asked has to touch all members alike: a layout without a linear
//! part, offsets that are drawn evenly or ascend, over many stripes.

use super::*;
use crate::below;
use crate::members::in_flight;
use ebbtide_model::layout::{ArrayKind, LayoutNode};
use ebbtide_model::plan::build::Geometry;
use ebbtide_model::samples::Join;
use ebbtide_model::workload::{Access, Distribution, Mix};

checks! {
    SPREAD: below("share of what the members would read if each were as busy as the busiest", 0.75, Share, "one of three is idle, or a half of them");
    WAITS: at_least("operations in flight for each member at work", 1.5, Operations, "otherwise the others would have nothing to do");
}

/// Stripes that a load has to go over, so that each member holds as much of it.
const STRIPES: u64 = 16;
/// Share of the busiest member's bytes from which on a member is at work.
const AT_WORK: f64 = 0.5;

/// Who reads in one trial.
#[derive(Debug, Clone, Copy)]
struct Spread {
    members: usize,
    at_work: usize,
    /// What all read, of what they would were each as busy as the busiest.
    share: f64,
    /// Operations in flight for each at work.
    waiting: f64,
}

impl Spread {
    /// Of what each read, with the operations in flight at each.
    fn of(each: &[(u64, f64)]) -> Option<Spread> {
        let most = each.iter().map(|(bytes, _)| *bytes).max().filter(|most| *most > 0)? as f64;
        let all: f64 = each.iter().map(|(bytes, _)| *bytes as f64).sum();
        let at_work = each.iter().filter(|(bytes, _)| *bytes as f64 >= AT_WORK * most).count();
        let in_flight: f64 = each.iter().map(|(_, in_flight)| in_flight).sum();
        let share = all / (most * each.len() as f64);
        Some(Spread { members: each.len(), at_work, share, waiting: in_flight / at_work as f64 })
    }
}

pub(super) fn judge(case: &Case<'_>, facts: &Facts<'_>) -> Judged {
    if case.workload.mix != Mix::Read {
        return Err(Absent::because("only reads can choose among copies"));
    }
    let link = |member: &crate::MemberShare| case.shape(&member.name).and_then(|shape| shape.link);
    let first = case.result.members.first().and_then(link);
    if first.is_some() && case.result.members.iter().all(|member| link(member) == first) {
        let why = "the link of all members is full, whichever copy is read";
        facts.yield_to(VerdictKind::InstanceLimit, why)?;
    }
    let copies = case.result.below.iter().filter(|array| {
        array.missing == 0 && matches!(array.join, Join::Mirror { .. } | Join::StripedMirror { .. })
    });
    let below = copies.map(|array| {
        (array.name.as_str(), case.in_the_middle(|trial| of_devices(trial, array), |spread| spread.share))
    });
    let own = has_copies(case).then(|| ("the array", case.in_the_middle(of_members, |spread| spread.share)));
    let all = own.into_iter().chain(below).filter_map(|(name, seen)| Some((name, seen?)));
    let (name, seen) = all
        .min_by(|a, b| a.1.share.total_cmp(&b.1.share))
        .ok_or_else(|| Absent::because("no array that holds copies was seen to be read evenly all over"))?;
    if !SPREAD.holds(seen.share) || !WAITS.holds(seen.waiting) {
        let why = "every copy is read, or no operation waits that another copy could have answered";
        return Err(Absent::because(why).with([SPREAD.missed(seen.share), WAITS.missed(seen.waiting)]));
    }
    let how = match case.workload.access {
        Access::Sequential => {
            "a sequential stream stays on the member of a mirror where it is; RAID10 reads each chunk from any of its copies, and \
             several readers spread over a mirror"
        }
        Access::Random => {
            "what chooses among the copies prefers some of the members: write-mostly, a rotational one beside others, or a resync"
        }
    };
    let sentence = format!(
        "of {} members of {name} {} at a time answer what is read, with {:.1} operations waiting at each: the copies on the others are idle; {how}",
        seen.members, seen.at_work, seen.waiting
    );
    let figures = vec![SPREAD.figure(seen.share), WAITS.figure(seen.waiting)];
    Ok(Verdict::new(VerdictKind::IdleCopies, Sure::Certain, 1.0 - seen.share, sentence, figures))
}

fn of_members(trial: &TrialSamples) -> Option<Spread> {
    let each = trial.members.iter().enumerate().map(|(at, member)| {
        let bytes = member.ops.read.count.bytes;
        let known = in_flight(trial, at).or((bytes == 0).then_some(0.0));
        Some((bytes, known.filter(|_| member.errors.is_empty())?))
    });
    Spread::of(&each.collect::<Option<Vec<_>>>()?)
}

fn of_devices(trial: &TrialSamples, array: &crate::ArrayBelow) -> Option<Spread> {
    let found = below::same(trial, array)?;
    let seconds = trial.elapsed.as_secs_f64();
    let each = found.devices.iter().map(|device| {
        let total = &device.total;
        (total.bytes.read, total.weighted.as_secs_f64() / seconds)
    });
    Spread::of(&each.collect::<Vec<_>>())
}

/// Whether the design's own layout holds copies, and the load goes over all members alike.
fn has_copies(case: &Case<'_>) -> bool {
    let stripe = Geometry::of(&case.design.layout).map_or(0, |geometry| geometry.stripe().0);
    let over = case.workload.span.map_or(u64::MAX, |span| span.0);
    let evenly =
        case.workload.access == Access::Sequential || case.workload.distribution == Distribution::Uniform;
    evenly && over / STRIPES >= stripe && copies(&case.design.layout) > 1
}

/// Copies of every byte; none where members are used one after the other, or hold parity.
fn copies(node: &LayoutNode) -> usize {
    let LayoutNode::Array { kind, members } = node else { return 1 };
    let below = members.iter().map(copies).min().unwrap_or(0);
    let one_by_one = *kind == ArrayKind::Linear && members.len() > 1;
    if one_by_one || kind.facts().parity() > 0 { 0 } else { below * kind.copies_on(members.len()) }
}
