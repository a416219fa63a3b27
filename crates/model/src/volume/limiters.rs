//! All limiters of a volume or of a link: of operations, of bytes, and of either in one direction.

use super::limiter::Limiter;
use super::{Limit, OneWay};
use crate::per_op::PerOp;
use crate::units::{Instant, Nanos};
use crate::workload::OpKind;

/// The state of a shape's limits. Two states of the same shape have the same limiters in the same order.
#[derive(Debug, Clone)]
pub(super) struct Limiters {
    pub(super) iops: Option<Limiter>,
    pub(super) throughput: Option<Limiter>,
    /// Operations, then bytes, of each direction; nothing where there are none, so that they cost nothing.
    one_way: Option<Box<PerOp<[Option<Limiter>; 2]>>>,
}

impl Limiters {
    /// Fresh, with `credits` (0 to 1) of the credits.
    pub(super) fn new(
        iops: Option<&Limit>,
        throughput: Option<&Limit>,
        one_way: &PerOp<OneWay>,
        credits: f64,
    ) -> Self {
        let limiter = |limit: &Limit| Limiter::with_credits(limit, credits);
        let of = |way: &OneWay| [&way.iops, &way.throughput].map(|limit| limit.as_ref().map(limiter));
        let any = *one_way != PerOp::default();
        Limiters {
            iops: iops.map(limiter),
            throughput: throughput.map(limiter),
            one_way: any.then(|| Box::new(PerOp { read: of(&one_way.read), write: of(&one_way.write) })),
        }
    }

    /// Operations, then bytes, of one direction.
    #[inline]
    pub(super) fn one_way(&mut self, op: OpKind) -> Option<&mut [Option<Limiter>; 2]> {
        self.one_way.as_deref_mut().map(|ways| ways.get_mut(op))
    }

    fn all(&self) -> impl Iterator<Item = &Limiter> {
        let ways = self.one_way.iter().flat_map(|ways| ways.read.iter().chain(&ways.write));
        [&self.iops, &self.throughput].into_iter().chain(ways).flatten()
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Limiter> {
        let ways = self.one_way.iter_mut().flat_map(|ways| {
            let PerOp { read, write } = ways.as_mut();
            read.iter_mut().chain(write)
        });
        [&mut self.iops, &mut self.throughput].into_iter().chain(ways).flatten()
    }

    /// Makes each limit `scale` times its rates from now on.
    pub(super) fn set_scale(&mut self, scale: f64) {
        self.all_mut().for_each(|limiter| limiter.set_scale(scale));
    }

    /// See [`Model::leap`](super::Model::leap).
    pub(super) fn leap(&mut self, earlier: &Limiters, now: Instant, cells: u64, cell: Nanos) {
        let pairs = self.all_mut().zip(earlier.all());
        pairs.for_each(|(limiter, before)| limiter.leap(before, now, cells, cell));
    }

    /// See [`Model::cells_left`](super::Model::cells_left).
    pub(super) fn cells_left(&self, earlier: &Limiters, now: Instant, cell: Nanos) -> u64 {
        let left =
            self.all().zip(earlier.all()).map(|(limiter, before)| limiter.cells_left(before, now, cell));
        left.min().unwrap_or(u64::MAX)
    }
}
