//! What mapping one I/O costs: `cargo bench -p ebbtide-model --bench layout`.
//!
//! Prints the median and the range of 21 batches in ns per I/O; offsets are a precomputed random walk
//! so that the branch predictor cannot learn them.

#![allow(clippy::disallowed_methods, clippy::disallowed_macros, clippy::print_stdout)] // a bench has a clock and prints

use ebbtide_model::layout::{Arrangement, ArrayKind, Extent, LayoutNode, Map};
use ebbtide_model::units::{ArrayOffset, Bytes};
use std::hint::black_box;
use std::time::Instant;

const CHUNK: Bytes = Bytes(256 * Bytes::KIB);
const IOS: usize = 1 << 16;

fn array(kind: ArrayKind, members: std::ops::Range<usize>) -> LayoutNode {
    LayoutNode::Array { kind, members: members.map(LayoutNode::Volume).collect() }
}

fn measure(name: &str, map: &Map, length: u64, write: bool) {
    let blocks = map.capacity().0 / length - 1;
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let offsets: Vec<u64> = (0..IOS)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % blocks * length
        })
        .collect();
    let mut nanos: Vec<f64> = (0..21)
        .map(|_| {
            let start = Instant::now();
            for (i, offset) in offsets.iter().enumerate() {
                let mut sink = |extent: Extent| {
                    black_box(extent);
                };
                let done = if write {
                    map.write_extents(ArrayOffset(*offset), Bytes(length), &mut sink)
                } else {
                    map.read_extents(ArrayOffset(*offset), Bytes(length), i as u64, &mut sink)
                };
                assert!(done.is_ok());
            }
            start.elapsed().as_nanos() as f64 / IOS as f64
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    println!("{name:44} {:7.1} ns/IO  ({:.1} to {:.1})", nanos[10], nanos[0], nanos[20]);
}

fn main() {
    let sizes = [Bytes(Bytes::GIB); 8];
    let map = |layout: &LayoutNode| Map::new(layout, &sizes).expect("the geometry is possible");
    let kib = Bytes::KIB;
    let stripe8 = map(&array(ArrayKind::Stripe { chunk: CHUNK }, 0..8));
    measure("stripe of 8, 4 KiB read", &stripe8, 4 * kib, false);
    measure("stripe of 8, 4 KiB write", &stripe8, 4 * kib, true);
    measure("stripe of 8, 1 MiB read (4 extents)", &stripe8, 1024 * kib, false);
    let stripe7 = map(&array(ArrayKind::Stripe { chunk: CHUNK }, 0..7));
    measure("stripe of 7, 4 KiB read", &stripe7, 4 * kib, false);
    let linear = map(&array(ArrayKind::Linear, 0..8));
    measure("linear of 8, 4 KiB read", &linear, 4 * kib, false);
    let mirror = map(&array(ArrayKind::Mirror, 0..2));
    measure("mirror of 2, 4 KiB write (2 extents)", &mirror, 4 * kib, true);
    for arrangement in [Arrangement::Near, Arrangement::Far, Arrangement::Offset] {
        let raid10 = map(&array(ArrayKind::Raid10 { chunk: CHUNK, copies: 2, arrangement }, 0..8));
        measure(&format!("raid10 {arrangement:?} of 8, 4 KiB read"), &raid10, 4 * kib, false);
        measure(&format!("raid10 {arrangement:?} of 8, 4 KiB write (2 extents)"), &raid10, 4 * kib, true);
    }
    let mirrors = (0..4).map(|i| array(ArrayKind::Mirror, 2 * i..2 * i + 2)).collect();
    let nested = map(&LayoutNode::Array { kind: ArrayKind::Stripe { chunk: CHUNK }, members: mirrors });
    measure("stripe of 4 mirrors, 4 KiB read", &nested, 4 * kib, false);
    measure("stripe of 4 mirrors, 4 KiB write (2 extents)", &nested, 4 * kib, true);
}
