//! What the engine writes and reads through a layout, on real files.
#![allow(clippy::disallowed_methods)]

mod common;

use common::*;
use ebbtide_engine::Shaper;
use ebbtide_model::blank;
use ebbtide_model::layout::{Arrangement, ArrayKind};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::units::{ArrayOffset, Bytes, Nanos};
use ebbtide_model::volume::{Latency, Shape};
use ebbtide_model::workload::{Access, IoEngine, Mix, OpKind, Workload};
use std::fs;
use std::path::Path;

fn contents(dir: &Path, count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|index| fs::read(dir.join(format!("vol{index}"))).expect("reads back")).collect()
}

/// Blocks of 4 KiB that hold nothing but zeroes.
fn blank_blocks(data: &[u8]) -> usize {
    data.chunks(4096).filter(|block| block.iter().all(|byte| *byte == 0)).count()
}

fn both_engines() -> [IoEngine; 2] {
    [IoEngine::IoUring, IoEngine::Psync]
}

/// The figures that have to agree in every trial.
fn assert_consistent(samples: &TrialSamples) {
    for op in [OpKind::Read, OpKind::Write] {
        let of = samples.array.get(op);
        assert_eq!(of.count.ops, of.latency.count());
        let in_series: u64 = samples.series.iter().map(|i| i.array.get(op).ops).sum();
        assert_eq!(in_series, of.count.ops, "series and total");
        for (index, member) in samples.members.iter().enumerate() {
            let of = member.ops.get(op);
            assert_eq!(of.count.ops, of.latency.count());
            let bytes: u64 = samples.series.iter().map(|i| i.members[index].get(op).bytes).sum();
            assert_eq!(bytes, of.count.bytes, "{} in the series", member.name);
        }
    }
    assert_eq!(samples.series.last().map(|interval| interval.end), Some(samples.elapsed));
}

#[test]
fn a_stripe_writes_every_chunk_of_every_member_once() {
    for ioengine in both_engines() {
        let dir = tempfile::tempdir().expect("a directory");
        let target = array(dir.path(), ArrayKind::Stripe { chunk: Bytes(16 * KIB) }, 4, MIB);
        // Blocks of 24 KiB straddle chunks of 16 KiB.
        let w = Workload {
            bs: Bytes(24 * KIB),
            ioengine,
            ..workload(Access::Sequential, Mix::Write, size(3 * MIB))
        };
        let samples = trial(&target, &w);
        assert_consistent(&samples);
        assert_eq!(samples.array.write.count.bytes, 3 * MIB);
        assert_eq!(samples.array.write.count.ops, 128);
        for (member, data) in samples.members.iter().zip(contents(dir.path(), 4)) {
            assert_eq!(member.ops.write.count.bytes, 768 * KIB);
            assert_eq!(blank_blocks(&data[..768 * KIB as usize]), 0, "{} has holes", member.name);
            assert_eq!(blank_blocks(&data[768 * KIB as usize..]), 64, "{} was written too far", member.name);
        }
    }
}

#[test]
fn a_mirror_writes_the_same_to_all_and_reads_from_each() {
    for ioengine in both_engines() {
        let dir = tempfile::tempdir().expect("a directory");
        let target = array(dir.path(), ArrayKind::Mirror, 3, MIB);
        let w = Workload { ioengine, ..workload(Access::Sequential, Mix::Write, size(MIB)) };
        let written = trial(&target, &w);
        assert_consistent(&written);
        assert_eq!(written.array.write.count.bytes, MIB);
        assert!(written.members.iter().all(|m| m.ops.write.count.bytes == MIB));
        let data = contents(dir.path(), 3);
        assert_eq!(blank_blocks(&data[0]), 0);
        assert!(data[0] == data[1] && data[1] == data[2]);

        let w = Workload { ioengine, ..workload(Access::Random, Mix::Read, size(3 * MIB)) };
        let read = trial(&target, &w);
        assert_consistent(&read);
        assert!(read.members.iter().all(|m| m.ops.read.count.bytes == MIB), "random reads spread evenly");
    }
}

#[test]
fn raid10_of_three_has_two_copies_of_everything() {
    for arrangement in [Arrangement::Near, Arrangement::Far, Arrangement::Offset] {
        let dir = tempfile::tempdir().expect("a directory");
        let kind = ArrayKind::Raid10 { chunk: Bytes(64 * KIB), copies: 2, arrangement };
        let target = array(dir.path(), kind, 3, MIB);
        let capacity = target.map.capacity().0;
        let w = workload(Access::Sequential, Mix::Write, size(capacity));
        let samples = trial(&target, &w);
        assert_consistent(&samples);
        let on_members: u64 = samples.members.iter().map(|m| m.ops.write.count.bytes).sum();
        assert_eq!(on_members, 2 * capacity);
        // Every block that the map names as a copy of another is equal to it.
        let data = contents(dir.path(), 3);
        for block in (0..capacity).step_by(4096) {
            let copies = target.map.locate(ArrayOffset(block), Bytes(4096)).expect("inside");
            assert_eq!(copies.len(), 2);
            let of = |i: usize| {
                let at = copies[i].offset.0 as usize;
                &data[copies[i].member][at..at + 4096]
            };
            assert!(of(0) == of(1) && blank_blocks(of(0)) == 0, "{arrangement:?} at {block}");
        }
    }
}

#[test]
fn a_rewrite_reads_each_block_and_leaves_it_as_it_was() {
    for ioengine in both_engines() {
        let dir = tempfile::tempdir().expect("a directory");
        let target = array(dir.path(), ArrayKind::Stripe { chunk: Bytes(16 * KIB) }, 2, MIB);
        trial(&target, &workload(Access::Sequential, Mix::Write, size(2 * MIB)));
        let before = contents(dir.path(), 2);
        let w = Workload { ioengine, ..workload(Access::Sequential, Mix::Rewrite, size(2 * MIB)) };
        let samples = trial(&target, &w);
        assert_consistent(&samples);
        assert_eq!(samples.array.read.count.bytes, 2 * MIB);
        assert_eq!(samples.array.write.count.bytes, 2 * MIB);
        assert!(before == contents(dir.path(), 2));
    }
}

#[test]
fn a_size_that_is_no_multiple_of_the_block_is_written_exactly() {
    for (numjobs, ioengine) in [(1, IoEngine::IoUring), (3, IoEngine::IoUring), (3, IoEngine::Psync)] {
        let dir = tempfile::tempdir().expect("a directory");
        let target = single(dir.path(), MIB);
        let w = Workload {
            numjobs,
            ioengine,
            end_fsync: true,
            ..workload(Access::Sequential, Mix::Write, size(300_000))
        };
        let samples = trial(&target, &w);
        assert_consistent(&samples);
        assert_eq!(samples.array.write.count.bytes, 300_000);
        assert_eq!(samples.members[0].ops, samples.array);
    }
}

#[test]
fn the_same_seed_writes_the_same_bytes_and_another_does_not() {
    let written = |seed| {
        let dir = tempfile::tempdir().expect("a directory");
        let target = single(dir.path(), MIB);
        let w = Workload { iodepth: 1, ..workload(Access::Random, Mix::Write, size(256 * KIB)) };
        ebbtide_engine::run(&target, &w, seed, &Default::default()).expect("the trial runs");
        let data = contents(dir.path(), 1).remove(0);
        data.chunks(4096).map(|block| block.iter().any(|b| *b != 0)).collect::<Vec<_>>()
    };
    assert_eq!(written(5), written(5));
    assert_ne!(written(5), written(6));
}

/// Syncs are no operations: they have counts and latencies of their own, at any depth and on every member.
#[test]
fn syncs_between_writes_are_counted_apart() {
    for (ioengine, iodepth) in [(IoEngine::IoUring, 1), (IoEngine::IoUring, 8), (IoEngine::Psync, 1)] {
        for members in [1, 2] {
            let dir = tempfile::tempdir().expect("a directory");
            let target = match members {
                1 => single(dir.path(), MIB),
                _ => array(dir.path(), ArrayKind::Mirror, members, MIB),
            };
            let mut w = Workload { ioengine, iodepth, ..workload(Access::Sequential, Mix::Write, size(MIB)) };
            w.details.fsync_every = Some(10);
            w.details.fdatasync_every = Some(100);
            let samples = trial(&target, &w);
            let writes = MIB / w.bs.0;
            assert_eq!(samples.array.write.count.ops, writes);
            assert_eq!(samples.array.write.latency.count(), writes);
            assert_eq!(samples.execution.syncs.count(), writes / 10 + writes / 100, "{ioengine:?} {iodepth}");
            assert_eq!(samples.execution.ioengine, Some(ioengine));
            assert_eq!(samples.members.len(), members);
        }
    }
}

#[test]
fn a_mixed_workload_writes_what_a_write_does_and_not_what_it_has_read() {
    for (access, ioengine) in [
        (Access::Random, IoEngine::IoUring),
        (Access::Random, IoEngine::Psync),
        (Access::Sequential, IoEngine::IoUring),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let target = array(dir.path(), ArrayKind::Stripe { chunk: Bytes(16 * KIB) }, 2, MIB);
        let mixed = Mix::Mixed { read_percent: 50 };
        // Blocks of 24 KiB have pieces on both members; half of the places are read before anything is there.
        let w = Workload { bs: Bytes(24 * KIB), ioengine, ..workload(access, mixed, size(4 * MIB)) };
        let samples = trial(&target, &w);
        assert_consistent(&samples);
        assert!(samples.array.read.count.ops > 0 && samples.array.write.count.ops > 0);
        let data = contents(dir.path(), 2).concat();
        assert!(blank_blocks(&data) < data.len() / 4096, "nothing was written");
        assert_eq!(blank::first_foreign(&data), None, "{access:?} on {ioengine:?}");
        // What random bytes do not do: a written block is not zeros with a number.
        let zeros = |block: &[u8]| block.iter().filter(|byte| **byte == 0).count();
        let sparse = |block: &&[u8]| (64..4096).contains(&zeros(block));
        assert_eq!(data.chunks(4096).filter(sparse).count(), 0, "{access:?} on {ioengine:?}");
    }
}

/// A shaped volume's flushes take what its shape says, on all members at the same time, and so do writes that are durable each.
#[test]
fn flushes_of_shaped_volumes_take_as_long_as_their_shape_says() {
    let flush = Nanos::from_millis(20);
    let mut shape = Shape::default();
    shape.character.flush_latency = Some(Latency::Constant(flush));
    for ioengine in both_engines() {
        for durable in [true, false] {
            let dir = tempfile::tempdir().expect("a directory");
            let mut target = array(dir.path(), ArrayKind::Stripe { chunk: Bytes(16 * KIB) }, 2, MIB);
            for member in &mut target.members {
                member.shaper = Some(std::sync::Arc::new(Shaper::new(&shape, 1, None)));
            }
            let mut w = Workload {
                ioengine,
                iodepth: 1,
                sync: durable,
                ..workload(Access::Sequential, Mix::Write, size(40 * KIB))
            };
            w.details.fsync_every = (!durable).then_some(1);
            let samples = trial(&target, &w);
            let writes = samples.array.write.count.ops;
            assert!(
                writes >= 10 && samples.elapsed >= flush.times(writes - 1),
                "{ioengine:?} {durable} {samples:?}"
            );
            if !durable {
                assert!(samples.execution.syncs.percentile(1.0) >= Some(flush.0 * 99 / 100), "{ioengine:?}");
            }
        }
    }
}
