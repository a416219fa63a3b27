//! Layouts against md's pictures, and against a slow simulation.

use super::*;

const K: u64 = 1024;

fn array(kind: ArrayKind, members: usize) -> LayoutNode {
    LayoutNode::Array { kind, members: (0..members).map(LayoutNode::Volume).collect() }
}

#[test]
fn a_stripe_deals_chunks_in_turn() {
    let map = Map::new(&array(ArrayKind::Stripe { chunk: Bytes(64 * K) }, 4), &[K * K; 4]).unwrap();
    assert_eq!(map.capacity(), 4 * K * K);
    let mut seen = Vec::new();
    map.read_extents(60 * K, 72 * K, 0, &mut |e| seen.push((e.member, e.offset, e.length, e.array_offset)))
        .unwrap();
    assert_eq!(seen, [(0, 60 * K, 4 * K, 60 * K), (1, 0, 64 * K, 64 * K), (2, 0, 4 * K, 128 * K)]);
}
