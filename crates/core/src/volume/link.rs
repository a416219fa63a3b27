//! The link that several volumes share.

use super::limiter::Limiter;
use super::{LinkShape, OneWay};
use crate::samples::PerOp;
use crate::workload::OpKind;

/// The state of a [`LinkShape`].
#[derive(Debug, Clone)]
pub struct Link {
    pub(super) iops: Option<Limiter>,
    pub(super) throughput: Option<Limiter>,
    pub(super) one_way: OneWayLimiters,
}

/// The state of [`OneWay`] limits; nothing where there are none, so that they cost nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct OneWayLimiters(Option<Box<PerOp<[Option<Limiter>; 2]>>>);

impl OneWayLimiters {
    pub(super) fn new(limits: &PerOp<OneWay>, credits: f64) -> Self {
        if *limits == PerOp::default() {
            return OneWayLimiters(None);
        }
        let of = |way: &OneWay| {
            [way.iops, way.throughput].map(|limit| limit.map(|limit| Limiter::with_credits(&limit, credits)))
        };
        OneWayLimiters(Some(Box::new(PerOp { read: of(&limits.read), write: of(&limits.write) })))
    }

    /// Operations, then bytes, of one direction.
    #[inline]
    pub(super) fn of(&mut self, op: OpKind) -> Option<&mut [Option<Limiter>; 2]> {
        self.0.as_deref_mut().map(|limiters| limiters.get_mut(op))
    }

    pub(super) fn set_scale(&mut self, scale: f64) {
        for limiters in self.0.iter_mut().flat_map(|ways| [&mut ways.read, &mut ways.write]) {
            limiters.iter_mut().flatten().for_each(|limiter| limiter.set_scale(scale));
        }
    }
}

impl OneWayLimiters {
    /// Its limiters beside those of an earlier state of the same.
    fn pairs<'a>(&'a mut self, earlier: &'a Self) -> impl Iterator<Item = (&'a mut Limiter, &'a Limiter)> {
        let now = self.0.iter_mut().flat_map(|ways| [&mut ways.read, &mut ways.write]);
        let before = earlier.0.iter().flat_map(|ways| [&ways.read, &ways.write]);
        now.zip(before).flat_map(|(now, before)| now.iter_mut().flatten().zip(before.iter().flatten()))
    }

    pub(super) fn leap(&mut self, earlier: &Self, now: u64, cells: u64, cell: u64) {
        self.pairs(earlier).for_each(|(limiter, before)| limiter.leap(before, now, cells, cell));
    }

    pub(super) fn cells_left(&self, earlier: &Self, now: u64, cell: u64) -> u64 {
        let ours = self.0.iter().flat_map(|ways| [&ways.read, &ways.write]).flatten().flatten();
        let before = earlier.0.iter().flat_map(|ways| [&ways.read, &ways.write]).flatten().flatten();
        ours.zip(before)
            .map(|(limiter, before)| limiter.cells_left(before, now, cell))
            .min()
            .unwrap_or(u64::MAX)
    }
}

impl Link {
    /// A fresh link, credits full.
    pub fn new(shape: &LinkShape) -> Self {
        Link {
            iops: shape.iops.as_ref().map(Limiter::new),
            throughput: shape.throughput.as_ref().map(Limiter::new),
            one_way: OneWayLimiters::new(&shape.one_way, 1.0),
        }
    }

    /// The limiter of operations, for its credits.
    pub fn iops(&self) -> Option<&Limiter> {
        self.iops.as_ref()
    }

    /// The limiter of bytes, for its credits.
    pub fn throughput(&self) -> Option<&Limiter> {
        self.throughput.as_ref()
    }

    /// See [`Model::leap`](super::Model::leap).
    pub(crate) fn leap(&mut self, earlier: &Link, now: u64, cells: u64, cell: u64) {
        leap(&mut self.iops, &earlier.iops, now, cells, cell);
        leap(&mut self.throughput, &earlier.throughput, now, cells, cell);
        self.one_way.leap(&earlier.one_way, now, cells, cell);
    }

    /// See [`Model::cells_left`](super::Model::cells_left).
    pub(crate) fn cells_left(&self, earlier: &Link, now: u64, cell: u64) -> u64 {
        let iops = cells_left(&self.iops, &earlier.iops, now, cell);
        let both = iops.min(cells_left(&self.throughput, &earlier.throughput, now, cell));
        both.min(self.one_way.cells_left(&earlier.one_way, now, cell))
    }
}

pub(super) fn leap(
    limiter: &mut Option<Limiter>,
    earlier: &Option<Limiter>,
    now: u64,
    cells: u64,
    cell: u64,
) {
    if let (Some(limiter), Some(earlier)) = (limiter, earlier) {
        limiter.leap(earlier, now, cells, cell);
    }
}

pub(super) fn cells_left(limiter: &Option<Limiter>, earlier: &Option<Limiter>, now: u64, cell: u64) -> u64 {
    limiter
        .as_ref()
        .zip(earlier.as_ref())
        .map_or(u64::MAX, |(limiter, earlier)| limiter.cells_left(earlier, now, cell))
}
