//! A resync beside the workload: sequential I/O of its own on every member.

use super::array::Array;
use ebbtide_model::experiment;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::units::{Bytes, Instant, MemberOffset, Nanos};
use ebbtide_model::workload::OpKind;

/// One step; md's RESYNC_BLOCK_SIZE is 64 KiB, and 8 of them are under way.
const STEP: Bytes = Bytes(512 << 10);

#[derive(Debug)]
pub(super) struct Resync {
    nanos_per_byte: f64,
    position: MemberOffset,
    end: MemberOffset,
    moved: PerOp<Bytes>,
}

impl Resync {
    pub(super) fn new(resync: experiment::Resync, array: &Array) -> Self {
        let size = (0..array.len()).map(|member| array.member_size(member)).min().unwrap_or_default();
        let (position, end) = (MemberOffset::START, MemberOffset::START + size);
        Resync { nanos_per_byte: 1e9 / resync.rate.max(1.0), position, end, moved: PerOp::default() }
    }

    /// Reads the next piece of every member but the last, writes it to the last; says when to go on.
    pub(super) fn step(&mut self, now: Instant, array: &mut Array) -> Option<Instant> {
        let length = STEP.min(self.end - self.position);
        if length == Bytes(0) || array.len() == 0 {
            return None;
        }
        let target = array.len() - 1;
        let mut there = now;
        for member in 0..target {
            there = there.max(array.background_io(now, OpKind::Read, member, self.position, length));
            self.moved.read += length;
        }
        // Submitted with the reads rather than after them: the model takes instants in order, and over a resync
        // the two overlap anyhow.
        there = there.max(array.background_io(now, OpKind::Write, target, self.position, length));
        self.moved.write += length;
        self.position += length;
        let paced = Nanos((self.position.0 as f64 * self.nanos_per_byte) as u64);
        Some(there.max(Instant::START + paced))
    }

    /// Bytes read and written.
    pub(super) fn moved(&self) -> PerOp<Bytes> {
        self.moved
    }
}
