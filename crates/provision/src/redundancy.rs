//! How many members may still fail.

use ebbtide_model::layout::LayoutNode;

/// How many more volumes may fail, whichever they are, before data are lost; nothing where data are lost already. `works` says of each
/// volume whether it does.
pub fn can_lose(layout: &LayoutNode, works: &impl Fn(usize) -> bool) -> Option<usize> {
    fewest(layout, works).checked_sub(1)
}

/// The fewest further failures that lose the data of `node`.
fn fewest(node: &LayoutNode, works: &impl Fn(usize) -> bool) -> usize {
    let (kind, members) = match node {
        LayoutNode::Volume(volume) => return usize::from(works(*volume)),
        LayoutNode::Array { kind, members } => (kind, members),
    };
    let mut of_members: Vec<usize> = members.iter().map(|member| fewest(member, works)).collect();
    of_members.sort_unstable();
    // So many members together hold the only copies of something: in the worst case the weakest ones.
    let lost = kind.survives(members.len()) + 1;
    of_members.into_iter().take(lost).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::layout::{Arrangement, ArrayKind};
    use ebbtide_model::units::Bytes;
    use proptest::prelude::*;

    const CHUNK: Bytes = Bytes(65536);

    /// Whether any byte is lost, of the very definition of each layout. RAID10 as if any `copies` members held the copies of some
    /// chunk, which holds for arrays large enough.
    fn lives(node: &LayoutNode, works: &dyn Fn(usize) -> bool) -> bool {
        let (kind, members) = match node {
            LayoutNode::Volume(volume) => return works(*volume),
            LayoutNode::Array { kind, members } => (kind, members),
        };
        let dead = members.iter().filter(|member| !lives(member, works)).count();
        match kind {
            ArrayKind::Linear | ArrayKind::Stripe { .. } => dead == 0,
            ArrayKind::Mirror => dead < members.len(),
            ArrayKind::Raid10 { copies, .. } => dead < *copies as usize,
            ArrayKind::Raid5 { .. } => dead <= 1,
            ArrayKind::Raid6 { .. } => dead <= 2,
        }
    }

    /// By trying every set of failures.
    fn oracle(node: &LayoutNode, broken: u32) -> Option<usize> {
        let volumes = node.volumes();
        let all = 1u32 << volumes.len();
        let lost = (0..all).filter(|more| {
            let dead = more | broken;
            more & broken == 0 && !lives(node, &|volume| dead & (1 << volume) == 0)
        });
        let least = lost.map(u32::count_ones).min().unwrap_or(u32::MAX);
        (least as usize).checked_sub(1)
    }

    fn kind() -> impl Strategy<Value = (ArrayKind, usize)> {
        let raid10 = ArrayKind::Raid10 { chunk: CHUNK, copies: 2, arrangement: Arrangement::Offset };
        prop_oneof![
            Just((ArrayKind::Linear, 1)),
            Just((ArrayKind::Stripe { chunk: CHUNK }, 2)),
            Just((ArrayKind::Mirror, 2)),
            Just((raid10, 2)),
            Just((ArrayKind::Raid5 { chunk: CHUNK }, 3)),
            Just((ArrayKind::Raid6 { chunk: CHUNK }, 4)),
        ]
    }

    proptest! {
        #[test]
        fn as_many_as_trying_every_set_of_failures_says((outer, least) in kind(), inner in kind(), broken: u32) {
            let (inner, of_inner) = inner;
            let mut next = 0;
            let mut volume = || { next += 1; LayoutNode::Volume(next - 1) };
            let mut members: Vec<LayoutNode> = (1..least.max(2)).map(|_| volume()).collect();
            members.push(LayoutNode::Array { kind: inner, members: (0..of_inner).map(|_| volume()).collect() });
            let layout = LayoutNode::Array { kind: outer, members };
            let broken = broken & ((1 << next) - 1);
            prop_assert_eq!(can_lose(&layout, &|volume| broken & (1 << volume) == 0), oracle(&layout, broken));
        }
    }
}
