//! Layouts against md's pictures, and against a slow simulation.
#![allow(clippy::unwrap_used)]

mod oracle;
mod properties;

use super::*;

const K: u64 = 1024;
const CHUNK: Bytes = Bytes(64 * K);

fn array(kind: ArrayKind, members: usize) -> LayoutNode {
    LayoutNode::Array { kind, members: (0..members).map(LayoutNode::Volume).collect() }
}

fn bytes(sizes: &[u64]) -> Vec<Bytes> {
    sizes.iter().copied().map(Bytes).collect()
}

fn raid10(copies: u32, arrangement: Arrangement) -> ArrayKind {
    ArrayKind::Raid10 { chunk: CHUNK, copies, arrangement }
}

/// The first rows of all members, each cell the number of the chunk it holds, P, Q, or `--`.
fn picture(map: &Map, rows: u64) -> Vec<String> {
    let cell = |member: usize, row: u64| match map.reverse(member, MemberOffset(row * CHUNK.0)) {
        None => "--".to_owned(),
        Some(Reverse { role: Role::ParityP, .. }) => "P".to_owned(),
        Some(Reverse { role: Role::ParityQ, .. }) => "Q".to_owned(),
        Some(Reverse { array_offset, .. }) => (array_offset.0 / CHUNK.0).to_string(),
    };
    (0..rows).map(|row| map.leaves().iter().map(|m| cell(*m, row)).collect::<Vec<_>>().join(" ")).collect()
}

fn of_chunks(kind: ArrayKind, chunks: &[u64]) -> Map {
    let sizes: Vec<Bytes> = chunks.iter().map(|chunks| CHUNK * *chunks).collect();
    Map::new(&array(kind, chunks.len()), &sizes).unwrap()
}

#[test]
fn near_copies_are_side_by_side() {
    assert_eq!(picture(&of_chunks(raid10(2, Arrangement::Near), &[3; 3]), 3), ["0 0 1", "1 2 2", "3 3 --"]);
    assert_eq!(picture(&of_chunks(raid10(2, Arrangement::Near), &[2; 4]), 2), ["0 0 1 1", "2 2 3 3"]);
    assert_eq!(picture(&of_chunks(raid10(3, Arrangement::Near), &[2; 3]), 2), ["0 0 0", "1 1 1"]);
}

#[test]
fn far_copies_are_in_sections_of_their_own() {
    assert_eq!(
        picture(&of_chunks(raid10(2, Arrangement::Far), &[5; 3]), 5),
        ["0 1 2", "3 4 5", "2 0 1", "5 3 4", "-- -- --"]
    );
    assert_eq!(picture(&of_chunks(raid10(3, Arrangement::Far), &[3; 3]), 3), ["0 1 2", "2 0 1", "1 2 0"]);
}

#[test]
fn offset_copies_are_in_the_next_row_shifted_by_one() {
    assert_eq!(
        picture(&of_chunks(raid10(2, Arrangement::Offset), &[5; 3]), 5),
        ["0 1 2", "2 0 1", "3 4 5", "5 3 4", "-- -- --"]
    );
    assert_eq!(picture(&of_chunks(raid10(3, Arrangement::Offset), &[3; 3]), 3), ["0 1 2", "2 0 1", "1 2 0"]);
}

#[test]
fn parity_rotates_left_symmetric() {
    let raid5 = of_chunks(ArrayKind::Raid5 { chunk: CHUNK }, &[5; 4]);
    assert_eq!(picture(&raid5, 5), ["0 1 2 P", "4 5 P 3", "8 P 6 7", "P 9 10 11", "12 13 14 P"]);
    let raid6 = of_chunks(ArrayKind::Raid6 { chunk: CHUNK }, &[4; 5]);
    assert_eq!(picture(&raid6, 4), ["Q 0 1 2 P", "3 4 5 P Q", "7 8 P Q 6", "11 P Q 9 10"]);
}

/// Linux 5.4 and later, layout `original`: in the second zone the chunk's number in the array chooses.
#[test]
fn a_stripe_over_unequal_members_has_zones() {
    let map = of_chunks(ArrayKind::Stripe { chunk: CHUNK }, &[2, 4, 5]);
    assert_eq!(picture(&map, 6), ["0 1 2", "3 4 5", "-- 6 7", "-- 8 9", "-- -- 10", "-- -- --"]);
    let odd = of_chunks(ArrayKind::Stripe { chunk: CHUNK }, &[4, 1, 3]);
    assert_eq!(picture(&odd, 4), ["0 1 2", "4 -- 3", "6 -- 5", "7 -- --"]);
}

#[test]
fn only_whole_chunks_and_the_smallest_member_count() {
    let sizes = [10 * CHUNK.0 + 5000, 10 * CHUNK.0 + 60_000, 12 * CHUNK.0 + 1];
    let capacity = |kind| Map::new(&array(kind, 3), &bytes(&sizes)).unwrap().capacity().0;
    assert_eq!(capacity(ArrayKind::Stripe { chunk: CHUNK }), 32 * CHUNK.0);
    assert_eq!(capacity(ArrayKind::Raid5 { chunk: CHUNK }), 20 * CHUNK.0);
    assert_eq!(capacity(raid10(2, Arrangement::Near)), 15 * CHUNK.0);
    assert_eq!(capacity(raid10(2, Arrangement::Far)), 15 * CHUNK.0);
    assert_eq!(capacity(raid10(3, Arrangement::Offset)), 9 * CHUNK.0);
    // No chunks: mdadm rounds to 64 KiB all the same, which happens to be the chunk here.
    assert_eq!(capacity(ArrayKind::Mirror), 10 * CHUNK.0);
    // Whole sectors of 512 bytes.
    assert_eq!(capacity(ArrayKind::Linear), 10 * CHUNK.0 + 4608 + 10 * CHUNK.0 + 59_904 + 12 * CHUNK.0);
}

#[test]
fn a_stripe_deals_chunks_in_turn() {
    let map = of_chunks(ArrayKind::Stripe { chunk: CHUNK }, &[16; 4]);
    let mut seen = Vec::new();
    let mut sink = |e: Extent| seen.push((e.member, e.offset.0, e.length.0, e.array_offset.0));
    map.read_extents(ArrayOffset(60 * K), Bytes(72 * K), 0, &mut sink).unwrap();
    assert_eq!(seen, [(0, 60 * K, 4 * K, 60 * K), (1, 0, 64 * K, 64 * K), (2, 0, 4 * K, 128 * K)]);
}

#[test]
fn selectors_spread_reads_over_the_copies() {
    let map = of_chunks(ArrayKind::Mirror, &[4; 3]);
    for selector in 0..7u64 {
        let mut members = Vec::new();
        map.read_extents(ArrayOffset(K), Bytes(K), selector, &mut |e| members.push((e.member, e.offset.0)))
            .unwrap();
        assert_eq!(members, [((selector % 3) as usize, K)]);
    }
}

#[test]
fn a_write_goes_to_every_copy_and_chunks_in_line_are_one_extent() {
    // Two members, two near copies: both hold everything in order.
    let map = of_chunks(raid10(2, Arrangement::Near), &[8; 2]);
    let mut seen = Vec::new();
    let mut sink = |e: Extent| seen.push((e.member, e.offset.0, e.length.0, e.role));
    map.write_extents(ArrayOffset(K), Bytes(300 * K), &mut sink).unwrap();
    let copy = |copy| Role::Data { copy };
    assert_eq!(seen, [(0, K, 300 * K, copy(0)), (1, K, 300 * K, copy(1))]);
}

#[test]
fn parity_of_a_small_write_is_as_small() {
    let map = of_chunks(ArrayKind::Raid6 { chunk: CHUNK }, &[4; 5]);
    let at = 4 * CHUNK.0 + 8 * K;
    let seen: Vec<_> = map
        .locate(ArrayOffset(at), Bytes(4 * K))
        .unwrap()
        .iter()
        .map(|e| (e.member, e.offset.0, e.length.0, e.role, e.array_offset.0))
        .collect();
    let stripe = 3 * CHUNK.0;
    assert_eq!(
        seen,
        [
            (1, 72 * K, 4 * K, Role::Data { copy: 0 }, at),
            (3, 72 * K, 4 * K, Role::ParityP, stripe),
            (4, 72 * K, 4 * K, Role::ParityQ, stripe),
        ]
    );
    // The tail of one chunk and the head of the next: two parts of the parity, not all of it.
    let parity: Vec<_> = map
        .locate(ArrayOffset(CHUNK.0 - K), Bytes(2 * K))
        .unwrap()
        .iter()
        .filter(|e| e.role == Role::ParityP)
        .map(|e| (e.offset.0, e.length.0))
        .collect();
    assert_eq!(parity, [(0, K), (63 * K, K)]);
}

#[test]
fn writes_through_parity_are_refused() {
    let map = of_chunks(ArrayKind::Raid5 { chunk: CHUNK }, &[4; 3]);
    assert!(!map.supports_write());
    let refused = map.write_extents(ArrayOffset(0), Bytes(K), &mut |_| panic!("called"));
    assert_eq!(refused, Err(ExtentError::ParityWrite));
}

#[test]
fn extents_beyond_the_end_are_errors() {
    let map = of_chunks(ArrayKind::Stripe { chunk: CHUNK }, &[2; 2]);
    let capacity = map.capacity();
    for (offset, length) in
        [(capacity.0, 1), (capacity.0 - 1, 2), (u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX)]
    {
        let (offset, length) = (ArrayOffset(offset), Bytes(length));
        let error = ExtentError::OutOfBounds { offset, length, capacity };
        assert_eq!(map.locate(offset, length), Err(error.clone()));
        assert_eq!(map.read_extents(offset, length, 0, &mut |_| panic!("called")), Err(error.clone()));
        assert_eq!(map.write_extents(offset, length, &mut |_| panic!("called")), Err(error));
    }
    assert_eq!(map.locate(ArrayOffset(capacity.0), Bytes(0)), Ok(Vec::new()));
    assert_eq!(map.reverse(0, MemberOffset(u64::MAX)), None);
    assert_eq!(map.reverse(7, MemberOffset(0)), None);
}

#[test]
fn impossible_geometries_say_what_to_write() {
    let refuse = |layout: LayoutNode, sizes: &[u64]| {
        Map::new(&layout, &bytes(sizes)).map(|_| ()).unwrap_err().to_string()
    };
    let stripe = |chunk| ArrayKind::Stripe { chunk: Bytes(chunk) };
    let m = 1024 * K;
    let cases = [
        (array(ArrayKind::Mirror, 1), vec![m], "mirror needs at least 2 members, 1 given"),
        (array(ArrayKind::Linear, 0), vec![], "linear needs at least 1 member"),
        (array(ArrayKind::Raid5 { chunk: CHUNK }, 2), vec![m; 2], "raid5 needs at least 3 members, 2 given"),
        (array(ArrayKind::Raid6 { chunk: CHUNK }, 3), vec![m; 3], "raid6 needs at least 4 members, 3 given"),
        (array(raid10(3, Arrangement::Far), 2), vec![m; 2], "write a number of copies from 2 to 2"),
        (array(raid10(1, Arrangement::Near), 4), vec![m; 4], "write a number of copies from 2 to 4"),
        (array(stripe(1000), 2), vec![m; 2], "a whole number of KiB from 4KiB to 1GiB"),
        (array(stripe(0), 2), vec![m; 2], "a whole number of KiB from 4KiB to 1GiB"),
        (array(ArrayKind::Raid5 { chunk: Bytes(12 * K) }, 3), vec![m; 3], "a power of two from 4KiB to 1GiB"),
        (
            array(stripe(64 * K), 2),
            vec![m, 60 * K],
            "member 1 of the stripe holds 60KiB, less than the 64KiB",
        ),
        (array(raid10(2, Arrangement::Far), 2), vec![64 * K; 2], "less than the 128KiB"),
        (array(ArrayKind::Linear, 2), vec![m, 511], "member 1 of the linear holds 511B"),
        (array(ArrayKind::Linear, 3), vec![m; 2], "names volume 2, but there are only 2 volumes"),
        (array(ArrayKind::Linear, 2), vec![u64::MAX, u64::MAX], "more than 2^63 - 1 bytes"),
        (array(stripe(64 * K), 3), vec![u64::MAX; 3], "more than 2^63 - 1 bytes"),
        (array(raid10(2, Arrangement::Near), 5), vec![u64::MAX; 5], "more than 2^63 - 1 bytes"),
        (array(ArrayKind::Raid5 { chunk: CHUNK }, 4), vec![u64::MAX; 4], "more than 2^63 - 1 bytes"),
    ];
    for (layout, sizes, wanted) in cases {
        let message = refuse(layout, &sizes);
        assert!(message.contains(wanted), "{message:?} does not say {wanted:?}");
    }
    let twice = LayoutNode::Array { kind: ArrayKind::Mirror, members: vec![LayoutNode::Volume(0); 2] };
    assert!(refuse(twice, &[m]).contains("volume 0 is a member twice"));
    for kind in [ArrayKind::Linear, stripe(64 * K)] {
        let deep =
            (0..100).fold(LayoutNode::Volume(0), |inner, _| LayoutNode::Array { kind, members: vec![inner] });
        assert!(refuse(deep, &[m]).contains("nested more than 32 deep"));
    }
}

#[test]
fn a_volume_alone_is_an_array() {
    let map = Map::new(&LayoutNode::Volume(3), &bytes(&[1, 2, 3, 4096])).unwrap();
    assert_eq!((map.capacity(), map.leaves(), map.copies()), (Bytes(4096), &[3][..], 1));
    assert_eq!(
        map.reverse(3, MemberOffset(100)),
        Some(Reverse { array_offset: ArrayOffset(100), role: Role::Data { copy: 0 } })
    );
    assert_eq!(map.reverse(0, MemberOffset(0)), None);
}

/// Every chunk chooses its copy, so that a stream uses all members; a mirror chooses once for a whole read.
#[test]
fn a_stream_of_reads_takes_the_copies_of_raid10_row_by_row() {
    let of = |kind, members: &[u64], length| {
        let map = of_chunks(kind, members);
        let mut read = Vec::new();
        map.read_extents(ArrayOffset(0), Bytes(length), 0, &mut |e: Extent| read.push(e.member)).unwrap();
        read
    };
    assert_eq!(of(raid10(2, Arrangement::Near), &[8; 4], 4 * CHUNK.0), [0, 2, 1, 3]);
    assert_eq!(of(raid10(2, Arrangement::Near), &[8; 2], 4 * CHUNK.0), [0, 1, 0, 1]);
    assert_eq!(of(ArrayKind::Mirror, &[8; 3], 4 * CHUNK.0), [0]);
}
