//! A resync beside the workload: sequential I/O of its own on every member.

use super::array::Array;
use ebbtide_model::experiment;
use ebbtide_model::workload::OpKind;

/// Bytes of one step; md's RESYNC_BLOCK_SIZE is 64 KiB, and 8 of them are under way.
const STEP: u64 = 512 << 10;

#[derive(Debug)]
pub(super) struct Resync {
    nanos_per_byte: f64,
    position: u64,
    end: u64,
    read: u64,
    written: u64,
}

impl Resync {
    pub(super) fn new(resync: experiment::Resync, array: &Array) -> Self {
        let end = (0..array.len()).map(|member| array.member_size(member)).min().unwrap_or(0);
        Resync { nanos_per_byte: 1e9 / resync.rate.max(1.0), position: 0, end, read: 0, written: 0 }
    }

    /// Reads the next piece of every member but the last, writes it to the last; says when to go on.
    pub(super) fn step(&mut self, now: u64, array: &mut Array) -> Option<u64> {
        let length = STEP.min(self.end - self.position);
        if length == 0 || array.len() == 0 {
            return None;
        }
        let target = array.len() - 1;
        let mut there = now;
        for member in 0..target {
            there = there.max(array.background_io(now, OpKind::Read, (member, self.position, length)));
            self.read += length;
        }
        // Submitted with the reads rather than after them: the model takes instants in order, and over a resync
        // the two overlap anyhow.
        there = there.max(array.background_io(now, OpKind::Write, (target, self.position, length)));
        self.written += length;
        self.position += length;
        Some(there.max((self.position as f64 * self.nanos_per_byte) as u64))
    }

    /// Bytes read and written.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.read, self.written)
    }
}
