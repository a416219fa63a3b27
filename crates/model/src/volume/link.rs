//! The link that several volumes share.

use super::LinkShape;
use super::limiters::Limiters;
use crate::units::{Instant, Nanos};

/// The state of a [`LinkShape`].
#[derive(Debug, Clone)]
pub struct Link {
    pub(super) limiters: Limiters,
}

impl Link {
    /// A fresh link, credits full.
    pub fn new(shape: &LinkShape) -> Self {
        let (iops, throughput) = (shape.iops.as_ref(), shape.throughput.as_ref());
        Link { limiters: Limiters::new(iops, throughput, &shape.one_way, 1.0) }
    }

    /// See [`Model::leap`](super::Model::leap).
    pub fn leap(&mut self, earlier: &Link, now: Instant, cells: u64, cell: Nanos) {
        self.limiters.leap(&earlier.limiters, now, cells, cell);
    }

    /// See [`Model::cells_left`](super::Model::cells_left).
    pub fn cells_left(&self, earlier: &Link, now: Instant, cell: Nanos) -> u64 {
        self.limiters.cells_left(&earlier.limiters, now, cell)
    }
}
