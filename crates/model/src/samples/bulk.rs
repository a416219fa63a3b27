//! The bulk of a trial's samples, its histograms and its series, apart from the rest: the store keeps it as bytes, because
//! as JSON it takes ten times as long to read.

use super::bytes::{Malformed, Reader, put, put_change};
use super::{Count, Histogram, Interval, OpSamples, TrialSamples};
use crate::per_op::PerOp;
use crate::units::Nanos;

/// Latencies of a member are kept to 1/64 of their value, those of the array to 1/1024: a member's are compared with its
/// siblings', which differ by tenths where they differ.
pub const MEMBER_BITS: u32 = 6;
/// Latencies of an interval are kept to 1/8 of their value: what is asked of them is their mean, which stays exact.
pub const INTERVAL_BITS: u32 = 3;

/// Samples without their bulk, and the bulk as bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Parted {
    /// With empty histograms and no series.
    pub rest: TrialSamples,
    /// The histograms and the series.
    pub bulk: Vec<u8>,
}

impl TrialSamples {
    /// The samples as they are kept: latencies of members and intervals coarser than those of the array
    /// ([`MEMBER_BITS`], [`INTERVAL_BITS`]), which a store would otherwise consist of.
    #[must_use]
    pub fn condensed(mut self) -> TrialSamples {
        for member in &mut self.members {
            for op in [&mut member.ops.read, &mut member.ops.write] {
                op.latency = op.latency.coarsened(MEMBER_BITS);
                op.service = op.service.take().map(|service| service.coarsened(MEMBER_BITS));
            }
        }
        for host in &mut self.hosts {
            for op in [&mut host.ops.read, &mut host.ops.write] {
                op.latency = op.latency.coarsened(MEMBER_BITS);
                op.service = op.service.take().map(|service| service.coarsened(MEMBER_BITS));
            }
        }
        for interval in &mut self.series {
            interval.latency = interval.latency.coarsened(INTERVAL_BITS);
        }
        self
    }

    /// Parts the bulk from the rest.
    pub fn part(&self) -> Parted {
        let mut bulk = Vec::new();
        let mut rest = TrialSamples { series: Vec::new(), ..self.clone() };
        for histogram in rest.histograms() {
            std::mem::take(histogram).pack(&mut bulk);
        }
        pack_series(&self.series, &mut bulk);
        Parted { rest, bulk }
    }

    /// Every histogram but those of the series, in the order in which they are written.
    fn histograms(&mut self) -> impl Iterator<Item = &mut Histogram> {
        fn of(ops: &mut PerOp<OpSamples>) -> impl Iterator<Item = &mut Histogram> {
            [&mut ops.read, &mut ops.write]
                .into_iter()
                .flat_map(|op| std::iter::once(&mut op.latency).chain(op.service.as_mut()))
        }
        let execution = &mut self.execution;
        of(&mut self.array)
            .chain(self.members.iter_mut().flat_map(|member| of(&mut member.ops)))
            .chain([&mut execution.syncs, &mut execution.lateness, &mut execution.slot_waits])
            .chain(self.hosts.iter_mut().flat_map(|host| of(&mut host.ops)))
    }
}

impl Parted {
    /// Puts both together again.
    ///
    /// # Errors
    /// When the bytes are not the bulk of these samples.
    pub fn join(self) -> Result<TrialSamples, Malformed> {
        let Parted { rest: mut samples, bulk } = self;
        let mut reader = Reader::new(&bulk);
        for histogram in samples.histograms() {
            *histogram = Histogram::unpack(&mut reader)?;
        }
        samples.series = unpack_series(&mut reader)?;
        if reader.is_at_end() { Ok(samples) } else { Err(Malformed("more of them than there should be")) }
    }
}

/// What is foretold of the next counts: as many operations as before, of the same size.
#[derive(Debug, Clone, Copy, Default)]
struct Foretold {
    ops: u64,
    size: u64,
}

impl Foretold {
    fn pack(&mut self, count: Count, to: &mut Vec<u8>) {
        put_change(to, self.ops, count.ops);
        let expected = count.ops.wrapping_mul(self.size);
        put_change(to, expected, count.bytes);
        self.learn(count);
    }

    fn unpack(&mut self, from: &mut Reader<'_>) -> Result<Count, Malformed> {
        let ops = from.changed(self.ops)?;
        let count = Count { ops, bytes: from.changed(ops.wrapping_mul(self.size))? };
        self.learn(count);
        Ok(count)
    }

    fn learn(&mut self, count: Count) {
        self.ops = count.ops;
        self.size = count.bytes.checked_div(count.ops).unwrap_or(self.size);
    }
}

type OfBoth = PerOp<Foretold>;

fn pack_series(series: &[Interval], to: &mut Vec<u8>) {
    put(to, series.len() as u64);
    let (mut end, mut array, mut members) = (0, OfBoth::default(), Vec::<OfBoth>::new());
    let pack = |told: &mut OfBoth, count: &PerOp<Count>, to: &mut Vec<u8>| {
        told.read.pack(count.read, to);
        told.write.pack(count.write, to);
    };
    for interval in series {
        put_change(to, end, interval.end.0);
        end = interval.end.0;
        pack(&mut array, &interval.array, to);
        interval.latency.pack(to);
        put(to, interval.members.len() as u64);
        members.resize(members.len().max(interval.members.len()), OfBoth::default());
        members.iter_mut().zip(&interval.members).for_each(|(told, count)| pack(told, count, to));
    }
}

fn unpack_series(from: &mut Reader<'_>) -> Result<Vec<Interval>, Malformed> {
    // Its end, four numbers of the array, its latency, its members.
    let length = from.length(7)?;
    let (mut end, mut array, mut members) = (0, OfBoth::default(), Vec::<OfBoth>::new());
    let unpack = |told: &mut OfBoth, from: &mut Reader<'_>| -> Result<PerOp<Count>, Malformed> {
        Ok(PerOp { read: told.read.unpack(from)?, write: told.write.unpack(from)? })
    };
    let mut series = Vec::with_capacity(length);
    for _ in 0..length {
        end = from.changed(end)?;
        let of_array = unpack(&mut array, from)?;
        let latency = Histogram::unpack(from)?;
        let number = from.length(4)?;
        members.resize(members.len().max(number), OfBoth::default());
        let of_members =
            members.iter_mut().take(number).map(|told| unpack(told, from)).collect::<Result<_, _>>()?;
        series.push(Interval { end: Nanos(end), array: of_array, latency, members: of_members });
    }
    Ok(series)
}

#[cfg(test)]
#[path = "bulk_tests.rs"]
mod tests;
