//! Random trees over random members: the mapping agrees with the simulation everywhere.

use super::oracle::{Cell, SECTOR, Table, table};
use super::*;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::{BTreeMap, BTreeSet};

/// A layout whose leaves carry their sizes.
#[derive(Debug, Clone)]
enum Tree {
    Volume(u64),
    Array(ArrayKind, Vec<Tree>),
}

impl Tree {
    /// The layout, its volumes numbered against their order so that indices and positions differ.
    fn layout(&self) -> (LayoutNode, Vec<u64>) {
        fn count(tree: &Tree) -> usize {
            match tree {
                Tree::Volume(_) => 1,
                Tree::Array(_, members) => members.iter().map(count).sum(),
            }
        }
        fn number(tree: &Tree, sizes: &mut Vec<u64>, next: &mut usize) -> LayoutNode {
            match tree {
                Tree::Volume(size) => {
                    *next -= 1;
                    sizes[*next] = *size;
                    LayoutNode::Volume(*next)
                }
                Tree::Array(kind, members) => LayoutNode::Array {
                    kind: *kind,
                    members: members.iter().map(|m| number(m, sizes, next)).collect(),
                },
            }
        }
        let mut next = count(self);
        let mut sizes = vec![0; next];
        (number(self, &mut sizes, &mut next), sizes)
    }
}

fn volume() -> impl Strategy<Value = Tree> + Clone {
    // Mostly a few chunks, sometimes with an odd rest; equal sizes are common.
    prop_oneof![
        3 => Just(Tree::Volume(96 * K)),
        2 => (16u64..40).prop_map(|k4| Tree::Volume(k4 * 4 * K)),
        1 => (64 * K..160 * K).prop_map(Tree::Volume),
    ]
}

fn any_array(member: impl Strategy<Value = Tree> + Clone + 'static, most: usize) -> BoxedStrategy<Tree> {
    let arrangement = prop::sample::select(Arrangement::ALL);
    let of = move |layout: LayoutName| {
        let facts = layout.facts();
        // A stripe of one member is mapped, too.
        let least = if facts.is_redundant() { facts.least_members } else { 1 };
        let odd = if facts.chunks == Chunks::WholeKib { &[12, 5][..] } else { &[] };
        let chunk = prop::sample::select([&[4, 8, 16], odd].concat());
        let members = prop::collection::vec(member.clone(), least..=most.max(least));
        (chunk, arrangement.clone(), 0u32..5, members).prop_map(
            move |(chunk, arrangement, copies, members)| {
                let copies = 2 + copies % (members.len() as u32).saturating_sub(1).max(1);
                Tree::Array(layout.array(Bytes(chunk * K), copies, arrangement), members)
            },
        )
    };
    prop::sample::select(LayoutName::ALL).prop_flat_map(of).boxed()
}

fn tree() -> impl Strategy<Value = Tree> {
    let flat = any_array(volume(), 6);
    let nested = any_array(prop_oneof![2 => any_array(volume(), 4), 1 => volume().boxed()], 4);
    let deep = any_array(prop_oneof![any_array(any_array(volume(), 2), 3), volume().boxed()], 2);
    prop_oneof![4 => flat, 3 => nested, 1 => deep]
}

/// Parity on a far or offset RAID10 inside another array: there a stripe's first byte may be out of
/// use while later ones are not, which the simulation's tables do not describe.
fn is_beyond_the_simulation(tree: &Tree, inside: bool) -> bool {
    fn has_parity(tree: &Tree) -> bool {
        match tree {
            Tree::Volume(_) => false,
            Tree::Array(kind, _) if kind.facts().parity() > 0 => true,
            Tree::Array(_, members) => members.iter().any(has_parity),
        }
    }
    let Tree::Array(kind, members) = tree else { return false };
    let wraps = matches!(kind.copies(), Some((_, Arrangement::Far | Arrangement::Offset)));
    (inside && wraps && has_parity(tree)) || members.iter().any(|m| is_beyond_the_simulation(m, true))
}

fn compiled(tree: &Tree) -> Result<(Map, Table, Vec<u64>), TestCaseError> {
    if is_beyond_the_simulation(tree, false) {
        return Err(TestCaseError::reject("parity below far copies inside another array"));
    }
    let (layout, sizes) = tree.layout();
    match Map::new(&layout, &bytes(&sizes)) {
        Ok(map) => Ok((map, table(&layout, &sizes), sizes)),
        // The generator does not know how much an inner array leaves to an outer one.
        Err(LayoutError::MemberTooSmall { .. }) => Err(TestCaseError::reject("member too small")),
        Err(other) => Err(TestCaseError::fail(format!("{layout:?}: {other}"))),
    }
}

/// Compares one copy's extents with the table, byte by byte at both ends of each sector piece: they
/// cover the range in order, once, where the table says, and none could have been merged.
fn check_copy(extents: &[Extent], table: &Table, offset: u64, length: u64) -> Result<(), TestCaseError> {
    let mut at = offset;
    for (i, e) in extents.iter().enumerate() {
        prop_assert!(e.length.0 > 0);
        prop_assert_eq!(e.array_offset.0, at);
        let Role::Data { copy } = e.role else { return Err(TestCaseError::fail("parity among data")) };
        let mut inside = 0;
        while inside < e.length.0 {
            let (array_at, member_at) = (e.array_offset.0 + inside, e.offset.0 + inside);
            let cell = table.data[(array_at / SECTOR) as usize].get(&copy).copied();
            prop_assert_eq!(cell, Some((e.member, member_at / SECTOR)), "copy {} of byte {}", copy, array_at);
            prop_assert_eq!(array_at % SECTOR, member_at % SECTOR);
            inside += SECTOR - array_at % SECTOR;
        }
        if let Some(next) = extents.get(i + 1) {
            let touches = e.member == next.member && e.offset.0 + e.length.0 == next.offset.0;
            prop_assert!(!(touches && e.role == next.role), "{:?} and {:?} are one extent", e, next);
        }
        at += e.length.0;
    }
    prop_assert_eq!(at, offset + length);
    Ok(())
}

/// Parity that depends on an extent: every byte of it in the table, none elsewhere.
fn check_parity(extents: &[Extent], table: &Table, offset: u64, length: u64) -> Result<(), TestCaseError> {
    let mut wanted = BTreeSet::new();
    let mut at = offset;
    while at < offset + length {
        let next = (at - at % SECTOR + SECTOR).min(offset + length);
        for (role, (member, sector), stripe) in &table.parity[(at / SECTOR) as usize] {
            for byte in [at % SECTOR, (next - 1) % SECTOR] {
                wanted.insert((*role, *member, sector * SECTOR + byte, stripe * SECTOR));
            }
        }
        at = next;
    }
    let parity: Vec<&Extent> = extents.iter().filter(|e| !matches!(e.role, Role::Data { .. })).collect();
    for (role, member, byte, stripe) in &wanted {
        let holding = parity
            .iter()
            .filter(|e| (e.role, e.member, e.array_offset.0) == (*role, *member, *stripe))
            .filter(|e| (e.offset.0..e.offset.0 + e.length.0).contains(byte))
            .count();
        prop_assert_eq!(holding, 1, "{:?} on member {} at {}", role, member, byte);
    }
    for e in parity {
        // Both ends of every extent, and of every sector inside it, are wanted.
        for byte in [e.offset.0, e.offset.0 + e.length.0 - 1] {
            prop_assert!(
                wanted.contains(&(e.role, e.member, byte, e.array_offset.0)),
                "{:?} is not asked for at {}",
                e,
                byte
            );
        }
    }
    Ok(())
}

fn check_extent(
    map: &Map,
    table: &Table,
    offset: u64,
    length: u64,
    selector: u64,
) -> Result<(), TestCaseError> {
    let mut read = Vec::new();
    map.read_extents(ArrayOffset(offset), Bytes(length), selector, &mut |e| read.push(e)).unwrap();
    check_copy(&read, table, offset, length)?;

    let located = map.locate(ArrayOffset(offset), Bytes(length)).unwrap();
    check_parity(&located, table, offset, length)?;
    let data: Vec<Extent> = located.iter().copied().filter(|e| matches!(e.role, Role::Data { .. })).collect();
    if map.supports_write() {
        let mut written = Vec::new();
        map.write_extents(ArrayOffset(offset), Bytes(length), &mut |e| written.push(e)).unwrap();
        written.sort_by_key(|e| (e.array_offset.0, e.role));
        prop_assert_eq!(&written, &data);
    }
    // All copies of all bytes: as many bytes as the table has, each extent where the table says.
    let mut wanted = 0;
    let mut at = offset;
    while at < offset + length {
        let next = (at - at % SECTOR + SECTOR).min(offset + length);
        wanted += (next - at) * table.data[(at / SECTOR) as usize].len() as u64;
        at = next;
    }
    prop_assert_eq!(data.iter().map(|e| e.length.0).sum::<u64>(), wanted);
    for e in &data {
        check_copy(std::slice::from_ref(e), table, e.array_offset.0, e.length.0)?;
    }
    for e in &located {
        for byte in [0, e.length.0 - 1] {
            let into = if matches!(e.role, Role::Data { .. }) { Bytes(byte) } else { Bytes(0) };
            let array_offset = e.array_offset + into;
            prop_assert_eq!(
                map.reverse(e.member, e.offset + Bytes(byte)),
                Some(Reverse { array_offset, role: e.role })
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_is_where_the_simulation_puts_it(
        tree in tree(),
        extents in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 12),
    ) {
        let (map, table, sizes) = compiled(&tree)?;
        prop_assert_eq!(map.capacity(), Bytes(table.data.len() as u64 * SECTOR));

        // No two array bytes share a member byte; parity is not data.
        let mut owner: BTreeMap<Cell, Reverse> = BTreeMap::new();
        for (sector, places) in table.data.iter().enumerate() {
            for (copy, cell) in places {
                let array_offset = ArrayOffset(sector as u64 * SECTOR);
                let data = Reverse { array_offset, role: Role::Data { copy: *copy } };
                prop_assert_eq!(owner.insert(*cell, data), None, "two owners of {:?}", cell);
            }
        }
        for (role, cell, stripe) in table.parity.iter().flatten() {
            let parity = Reverse { array_offset: ArrayOffset(stripe * SECTOR), role: *role };
            let before = owner.insert(*cell, parity);
            prop_assert!(before.is_none_or(|b| b == parity), "two owners of {:?}", cell);
        }
        // And the reverse agrees on every sector of every member, the unused ones too.
        for (member, size) in sizes.iter().enumerate() {
            for sector in 0..size.div_ceil(SECTOR) {
                let found = map.reverse(member, MemberOffset(sector * SECTOR));
                prop_assert_eq!(found, owner.get(&(member, sector)).copied());
            }
            prop_assert_eq!(map.reverse(member, MemberOffset(*size)), None);
        }

        let capacity = map.capacity().0;
        for (i, (a, b, selector)) in extents.into_iter().enumerate() {
            // Ends of the array, whole arrays, then anything, mostly short.
            let (offset, length) = match i {
                0 => (0, capacity),
                1 => (0, 1),
                2 => (capacity - 1, 1),
                3 => { let l = 1 + b % capacity; (capacity - l, l) }
                _ => {
                    let offset = a % capacity;
                    let most = if i % 2 == 0 { 40 * K } else { capacity };
                    (offset, 1 + b % most.min(capacity - offset))
                }
            };
            check_extent(&map, &table, offset, length, selector)?;
        }
    }

    #[test]
    fn all_selectors_together_read_every_copy(tree in tree()) {
        let (map, table, _) = compiled(&tree)?;
        let copies: BTreeSet<u32> = table.data[0].keys().copied().collect();
        let mut seen = BTreeSet::new();
        for selector in 0..u64::from(map.copies()) {
            map.read_extents(ArrayOffset(0), Bytes(1), selector, &mut |e| {
                if let Role::Data { copy } = e.role { seen.insert(copy); }
            }).unwrap();
        }
        prop_assert_eq!(seen, copies);
    }
}
