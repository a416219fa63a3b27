//! How many members may still fail.

use ebbtide_model::layout::{Arrangement, ArrayKind, LayoutNode};
use std::collections::BTreeSet;

/// How many more volumes may fail, whichever they are, before data are lost; nothing where data are lost already. `works` says of each
/// volume whether it does.
pub fn can_lose(layout: &LayoutNode, works: &impl Fn(usize) -> bool) -> Option<usize> {
    fewest(layout, works).checked_sub(1)
}

/// Whether every byte can be reached.
fn lives(node: &LayoutNode, works: &impl Fn(usize) -> bool) -> bool {
    match node {
        LayoutNode::Volume(volume) => works(*volume),
        LayoutNode::Array { kind, members } => match sets_of_copies(*kind, members.len()) {
            Some(sets) => sets.iter().all(|set| set.iter().any(|place| lives(&members[*place], works))),
            None => {
                let dead = members.iter().filter(|member| !lives(member, works)).count();
                dead <= kind.survives(members.len())
            }
        },
    }
}

/// The members, by their places, that together hold all copies of some chunk: for each chunk one set. Nothing where any so many members do. (Linux
/// `drivers/md/raid10.c`, `__raid10_find_phys`, and mdadm's `util.c`, `enough`.)
fn sets_of_copies(kind: ArrayKind, members: usize) -> Option<Vec<Vec<usize>>> {
    let ArrayKind::Raid10 { copies, arrangement, .. } = kind else { return None };
    let copies = copies as usize;
    let step = if arrangement == Arrangement::Near { copies } else { 1 };
    let set = |chunk: usize| (0..copies).map(|copy| (chunk * step + copy) % members).collect();
    Some((0..members).map(set).collect())
}

/// How many more hosts may be lost, each with all its volumes and whichever they are, before data are lost; nothing where data are lost
/// already, or no volume has a host. A volume without a host is lost with nobody.
pub fn can_lose_hosts<'a>(
    layout: &LayoutNode,
    works: &impl Fn(usize) -> bool,
    host_of: &impl Fn(usize) -> Option<&'a str>,
) -> Option<usize> {
    let volumes = layout.volumes();
    // A host none of whose volumes works is lost already.
    let hosts: BTreeSet<&str> =
        volumes.iter().filter(|volume| works(**volume)).filter_map(|volume| host_of(*volume)).collect();
    let hosts: Vec<&str> = hosts.into_iter().collect();
    if !lives(layout, works) || volumes.iter().all(|volume| host_of(*volume).is_none()) {
        return None;
    }
    let survives = |lost: &[&str]| {
        lives(layout, &|volume| works(volume) && host_of(volume).is_none_or(|host| !lost.contains(&host)))
    };
    let more = (1..=hosts.len()).find(|count| !every(&hosts, *count, &mut Vec::new(), &survives));
    Some(more.map_or(hosts.len(), |count| count - 1))
}

/// Whether `holds` of every choice of `count` of `from`, each with what was `chosen` before.
fn every<'a>(
    from: &[&'a str],
    count: usize,
    chosen: &mut Vec<&'a str>,
    holds: &impl Fn(&[&str]) -> bool,
) -> bool {
    if count == 0 {
        return holds(chosen);
    }
    (0..from.len()).all(|index| {
        chosen.push(from[index]);
        let all = every(&from[index + 1..], count - 1, chosen, holds);
        chosen.pop();
        all
    })
}

/// The fewest further failures that lose the data of `node`.
fn fewest(node: &LayoutNode, works: &impl Fn(usize) -> bool) -> usize {
    let (kind, members) = match node {
        LayoutNode::Volume(volume) => return usize::from(works(*volume)),
        LayoutNode::Array { kind, members } => (kind, members),
    };
    let mut of_members: Vec<usize> = members.iter().map(|member| fewest(member, works)).collect();
    if let Some(sets) = sets_of_copies(*kind, members.len()) {
        let of_set = |set: &Vec<usize>| set.iter().map(|place| of_members[*place]).sum();
        return sets.iter().map(of_set).min().unwrap_or_default();
    }
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

    /// Whether every byte can be read, of the very definition of each layout.
    fn by_definition(node: &LayoutNode, works: &dyn Fn(usize) -> bool) -> bool {
        let (kind, members) = match node {
            LayoutNode::Volume(volume) => return works(*volume),
            LayoutNode::Array { kind, members } => (kind, members),
        };
        let dead = members.iter().filter(|member| !by_definition(member, works)).count();
        match kind {
            ArrayKind::Linear | ArrayKind::Stripe { .. } => dead == 0,
            ArrayKind::Mirror => dead < members.len(),
            ArrayKind::Raid10 { copies, arrangement, .. } => (0..members.len()).all(|chunk| {
                let first = if *arrangement == Arrangement::Near { chunk * *copies as usize } else { chunk };
                (first..first + *copies as usize)
                    .any(|place| by_definition(&members[place % members.len()], works))
            }),
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
            more & broken == 0 && !by_definition(node, &|volume| dead & (1 << volume) == 0)
        });
        let least = lost.map(u32::count_ones).min().unwrap_or(u32::MAX);
        (least as usize).checked_sub(1)
    }

    fn kind() -> impl Strategy<Value = (ArrayKind, usize)> {
        let raid10 = |copies, arrangement| ArrayKind::Raid10 { chunk: CHUNK, copies, arrangement };
        prop_oneof![
            Just((ArrayKind::Linear, 1)),
            Just((ArrayKind::Stripe { chunk: CHUNK }, 2)),
            Just((ArrayKind::Mirror, 2)),
            Just((raid10(2, Arrangement::Offset), 3)),
            Just((raid10(2, Arrangement::Near), 4)),
            Just((raid10(3, Arrangement::Far), 4)),
            Just((ArrayKind::Raid5 { chunk: CHUNK }, 3)),
            Just((ArrayKind::Raid6 { chunk: CHUNK }, 4)),
        ]
    }

    /// Whichever two of four are lost: RAID10 as mdadm makes it has a copy on two neighbours.
    #[test]
    fn half_of_a_raid10_has_all_data_where_it_is_one_of_each_pair() {
        let raid10 = ArrayKind::Raid10 { chunk: CHUNK, copies: 2, arrangement: Arrangement::Near };
        let layout = LayoutNode::Array { kind: raid10, members: (0..4).map(LayoutNode::Volume).collect() };
        let with = |there: [usize; 2]| can_lose(&layout, &|volume| there.contains(&volume));
        assert_eq!((with([0, 2]), with([1, 3]), with([0, 3])), (Some(0), Some(0), Some(0)));
        assert_eq!((with([0, 1]), with([2, 3])), (None, None));
    }

    /// Two copies on three hosts with two volumes each.
    #[test]
    fn losses_are_counted_by_host() {
        let raid10 = ArrayKind::Raid10 { chunk: CHUNK, copies: 2, arrangement: Arrangement::Offset };
        let group = |kind, from: usize| LayoutNode::Array {
            kind,
            members: (from..6).step_by(2).map(LayoutNode::Volume).collect(),
        };
        let stripe = |kind| LayoutNode::Array {
            kind: ArrayKind::Stripe { chunk: CHUNK },
            members: vec![group(kind, 0), group(kind, 1)],
        };
        let host = |volume: usize| Some(["a", "b", "c"][volume / 2]);
        let of =
            |kind, dead: &[usize]| can_lose_hosts(&stripe(kind), &|volume| !dead.contains(&volume), &host);
        assert_eq!(of(raid10, &[]), Some(1));
        assert_eq!(of(raid10, &[2, 3]), Some(0));
        // Different hosts in different arrays of copies: no more may be lost, though each array has a copy.
        assert_eq!(of(raid10, &[0, 3]), Some(0));
        assert_eq!(of(raid10, &[0, 2]), None);
        assert_eq!((of(ArrayKind::Mirror, &[]), of(ArrayKind::Mirror, &[0, 1])), (Some(2), Some(1)));
        assert_eq!(of(ArrayKind::Mirror, &[0, 1, 2, 3]), Some(0));
        assert_eq!(can_lose_hosts(&stripe(raid10), &|_| true, &|_| None), None);
    }

    proptest! {
        /// Where every volume is a host of its own, hosts are counted as members are.
        #[test]
        fn hosts_of_one_volume_are_members(broken in 0u32..64) {
            let names = ["0", "1", "2", "3", "4", "5"];
            let mirror = |from: usize| LayoutNode::Array {
                kind: ArrayKind::Mirror,
                members: (from..from + 3).map(LayoutNode::Volume).collect(),
            };
            let layout = LayoutNode::Array { kind: ArrayKind::Linear, members: vec![mirror(0), mirror(3)] };
            let works = |volume: usize| broken & (1 << volume) == 0;
            prop_assert_eq!(can_lose_hosts(&layout, &works, &|volume| Some(names[volume])), can_lose(&layout, &works));
        }

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
