//! RAID0: chunk by chunk over all members; where members differ in size, zone by zone.
//!
//! ```text
//!            member 0  member 1  member 2
//! row 0         c0        c1        c2      zone 0: as many rows as the smallest member has chunks
//! row 1         c3        c4        c5
//! row 2         c7        --        c6      zone 1: the members that are larger, and so on
//! row 3         c9        --        c8
//! ```
//!
//! Each member counts with its whole chunks only; a zone ends where the smallest member that still
//! takes part ends (Linux `drivers/md/raid0.c`, `create_strip_zones`).
//!
//! In zones after the first, the member is chosen by the chunk's number *in the array* modulo the
//! zone's members, so a zone need not begin on its first member (c6 above). This is md's `original`
//! layout, which `mdadm --create` records since Linux 5.4 and mdadm 4.2; the `alternate` layout of
//! arrays first made by Linux 3.14 to 5.3 counts from the zone's start instead. They differ only with
//! members of unequal size.

use super::divisor::Divisor;
use super::piece::Piece;
use super::{LayoutError, Role};
use crate::units::{ArrayOffset, Bytes, MemberOffset};

#[derive(Debug, Clone)]
pub(super) struct Stripe {
    chunk: Divisor,
    /// At least one; the first covers all members.
    zones: Vec<Zone>,
}

/// Rows over the same members.
#[derive(Debug, Clone)]
struct Zone {
    /// Array offset of the first byte.
    start: ArrayOffset,
    /// Array offset after the last byte.
    end: ArrayOffset,
    /// Where its rows begin on each of its members.
    member_start: MemberOffset,
    width: Divisor,
    /// Members in the order in which the zone's chunks visit them.
    slots: Vec<usize>,
}

/// Least members of a stripe that is asked for; the map itself takes one, which is then linear.
pub const LEAST_MEMBERS: usize = 2;

impl Stripe {
    /// `chunk` as [`super::name::Chunks`] allows it.
    pub fn new(sizes: &[Bytes], chunk: Bytes) -> Result<Self, LayoutError> {
        const LAYOUT: &str = "stripe";
        if sizes.is_empty() {
            return Err(LayoutError::TooFewMembers { layout: LAYOUT, least: 1, given: 0 });
        }
        let divisor = Divisor::of(chunk);
        // Where each member's whole chunks end.
        let whole: Vec<MemberOffset> =
            sizes.iter().map(|size| MemberOffset::START + chunk * divisor.parts(*size).0).collect();
        let mut zones: Vec<Zone> = Vec::new();
        let (mut member_start, mut start) = (MemberOffset::START, ArrayOffset::START);
        loop {
            let members: Vec<usize> = (0..whole.len()).filter(|m| whole[*m] > member_start).collect();
            let Some(lowest) = members.iter().map(|m| whole[*m]).min() else { break };
            let width = members.len();
            if zones.is_empty() && width < whole.len() {
                let member = sizes.iter().position(|size| *size < chunk).unwrap_or(0);
                let size = sizes[member];
                return Err(LayoutError::MemberTooSmall { layout: LAYOUT, member, size, least: chunk });
            }
            let end = (lowest - member_start)
                .0
                .checked_mul(width as u64)
                .and_then(|bytes| bytes.checked_add(start.0))
                .map(ArrayOffset)
                .ok_or(LayoutError::TooLarge { layout: LAYOUT })?;
            // The array's chunk number at the zone's start decides which member comes first.
            let first = divisor.parts(start - ArrayOffset::START).0 % width as u64;
            let mut slots = members;
            slots.rotate_left(first as usize);
            zones.push(Zone { start, end, member_start, width: Divisor::new(width as u64), slots });
            (member_start, start) = (lowest, end);
        }
        Ok(Stripe { chunk: divisor, zones })
    }

    pub fn capacity(&self) -> Bytes {
        self.zones.last().map_or(Bytes(0), |zone| zone.end - ArrayOffset::START)
    }

    #[inline(always)]
    pub fn split(&self, offset: ArrayOffset, length: Bytes, sink: &mut impl FnMut(Piece)) {
        let end = offset + length;
        let mut zone = if offset < self.zones[0].end { 0 } else { self.zone_after(|z| z.end <= offset) };
        let mut at = offset;
        while at < end {
            self.split_in_zone(&self.zones[zone], at, end, sink);
            at = self.zones[zone].end;
            zone += 1;
        }
    }

    #[inline(always)]
    fn split_in_zone(&self, zone: &Zone, start: ArrayOffset, end: ArrayOffset, sink: &mut impl FnMut(Piece)) {
        let chunk = self.chunk.bytes();
        let (number, mut within) = self.chunk.parts(start - zone.start);
        let (row, column) = zone.width.div_rem(number);
        let mut column = column as usize;
        let mut row_start = zone.member_start + chunk * row;
        let stop = end.min(zone.end);
        let mut at = start;
        while at < stop {
            let length = (chunk - within).min(stop - at);
            sink(Piece { slot: zone.slots[column], offset: row_start + within, length, array_offset: at });
            at += length;
            within = Bytes(0);
            column += 1;
            if column == zone.slots.len() {
                column = 0;
                row_start += chunk;
            }
        }
    }

    #[cold]
    fn zone_after(&self, before: impl Fn(&Zone) -> bool) -> usize {
        self.zones.partition_point(before)
    }

    pub fn reverse(&self, slot: usize, offset: MemberOffset) -> Option<(ArrayOffset, Role)> {
        let zone = self.zones.iter().rev().find(|z| z.member_start <= offset)?;
        let column = zone.slots.iter().position(|s| *s == slot)? as u64;
        let (row, within) = self.chunk.parts(offset - zone.member_start);
        let number = row.checked_mul(zone.width.get())?.checked_add(column)?;
        let array_offset = ArrayOffset(zone.start.0.checked_add(number.checked_mul(self.chunk.get())?)?);
        (array_offset < zone.end).then(|| (array_offset + within, Role::Data { copy: 0 }))
    }
}
