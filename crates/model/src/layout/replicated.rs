//! Copies on different hosts: which members make one array of copies, so that no two of its members are on one host.
//!
//! ```text
//! host   a: a0 a1 a2    b: b0 b1    c: c0          2 copies
//!
//! group 0: a0 b0        group 1: a1 b1             group 2: a2 c0
//! ```
//!
//! Members are dealt, host by host, to as many groups as the largest host has members. No host comes to a group twice, because it has no
//! more members than there are groups; and groups differ in size by one at most.

use super::{Arrangement, ArrayKind, LayoutNode};
use crate::units::Bytes;

/// Why copies cannot be on different hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unplaceable {
    /// There are fewer hosts than copies.
    #[error("{copies} copies need as many hosts, and its members are on {hosts}")]
    Hosts {
        /// Copies that are asked for.
        copies: usize,
        /// Hosts of the members.
        hosts: usize,
    },
    /// One host has so many of the members that they find no copies elsewhere.
    #[error(
        "host {host} has {members} of {all} members: with {copies} copies, the others are enough for {most} of them"
    )]
    Lopsided {
        /// The host that has too many.
        host: String,
        /// How many members are on it.
        members: usize,
        /// Members of all hosts.
        all: usize,
        /// Copies that are asked for.
        copies: usize,
        /// How many of its members find copies on the other hosts.
        most: usize,
    },
}

/// The members, by their places in `hosts` (which says the host of each), in groups of at least `copies`, no two members of a group on one
/// host. `copies` is at least 1.
///
/// # Errors
/// When that is not possible.
pub fn groups(hosts: &[&str], copies: usize) -> Result<Vec<Vec<usize>>, Unplaceable> {
    let mut of_hosts: Vec<(&str, Vec<usize>)> = Vec::new();
    for (member, host) in hosts.iter().enumerate() {
        match of_hosts.iter_mut().find(|(known, _)| known == host) {
            Some((_, members)) => members.push(member),
            None => of_hosts.push((host, vec![member])),
        }
    }
    if of_hosts.len() < copies {
        return Err(Unplaceable::Hosts { copies, hosts: of_hosts.len() });
    }
    // The first of those that have most.
    let Some((host, largest)) = of_hosts.iter().rev().max_by_key(|(_, members)| members.len()) else {
        return Ok(Vec::new());
    };
    let count = largest.len();
    if hosts.len() < copies * count {
        let most = (hosts.len() - count) / (copies - 1).max(1);
        let host = (*host).to_owned();
        return Err(Unplaceable::Lopsided { host, members: count, all: hosts.len(), copies, most });
    }
    let mut groups = vec![Vec::new(); count];
    for (turn, member) in of_hosts.iter().flat_map(|(_, members)| members).enumerate() {
        groups[turn % count].push(*member);
    }
    Ok(groups)
}

/// The array of copies over one group: a mirror where each member has a copy, RAID10 where there are more members than copies.
pub fn of_group(volumes: &[usize], copies: u32, arrangement: Arrangement, chunk: Bytes) -> LayoutNode {
    let kind = match volumes.len() == copies as usize {
        true => ArrayKind::Mirror,
        false => ArrayKind::Raid10 { chunk, copies, arrangement },
    };
    LayoutNode::Array { kind, members: volumes.iter().map(|volume| LayoutNode::Volume(*volume)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn members_are_dealt_host_by_host() {
        let even = ["a", "a", "b", "b", "c", "c"];
        assert_eq!(groups(&even, 3), Ok(vec![vec![0, 2, 4], vec![1, 3, 5]]));
        assert_eq!(groups(&["a", "a", "a", "b", "b", "c"], 2), Ok(vec![vec![0, 3], vec![1, 4], vec![2, 5]]));
        assert_eq!(groups(&["a", "a"], 2), Err(Unplaceable::Hosts { copies: 2, hosts: 1 }));
        let lopsided = groups(&["a", "a", "a", "b"], 2).map_err(|error| error.to_string());
        let told = "host a has 3 of 4 members: with 2 copies, the others are enough for 1 of them";
        assert_eq!(lopsided, Err(told.to_owned()));
    }

    proptest! {
        /// Whatever hosts have: groups are as they should be, or one host has more members than the others can hold copies of.
        #[test]
        fn no_group_has_a_host_twice(
            hosts in proptest::collection::vec(0usize..5, 1..24),
            copies in 1usize..4,
        ) {
            let names: Vec<String> = hosts.iter().map(usize::to_string).collect();
            let hosts: Vec<&str> = names.iter().map(String::as_str).collect();
            let of = |host: &str| hosts.iter().filter(|other| **other == host).count();
            match groups(&hosts, copies) {
                Ok(groups) => {
                    let mut all: Vec<usize> = groups.iter().flatten().copied().collect();
                    all.sort_unstable();
                    prop_assert_eq!(all, (0..hosts.len()).collect::<Vec<_>>());
                    for group in &groups {
                        let distinct: BTreeSet<&str> = group.iter().map(|member| hosts[*member]).collect();
                        prop_assert_eq!(distinct.len(), group.len());
                        prop_assert!(group.len() >= copies);
                    }
                    let sizes = groups.iter().map(Vec::len);
                    prop_assert!(sizes.clone().max().zip(sizes.min()).is_some_and(|(most, least)| most - least <= 1));
                }
                Err(Unplaceable::Hosts { .. }) => {
                    prop_assert!(hosts.iter().collect::<BTreeSet<_>>().len() < copies);
                }
                Err(Unplaceable::Lopsided { host, most, .. }) => {
                    // Each of its members needs copies - 1 on other hosts.
                    prop_assert!(of(&host) * (copies - 1) > hosts.len() - of(&host));
                    prop_assert!(most * (copies - 1) <= hosts.len() - of(&host));
                }
            }
        }
    }
}
