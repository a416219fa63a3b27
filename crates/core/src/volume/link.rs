//! The link that several volumes share.

use super::LinkShape;
use super::limiter::Limiter;

/// The state of a [`LinkShape`].
#[derive(Debug, Clone)]
pub struct Link {
    pub(super) iops: Option<Limiter>,
    pub(super) throughput: Option<Limiter>,
}

impl Link {
    /// A fresh link, credits full.
    pub fn new(shape: &LinkShape) -> Self {
        Link {
            iops: shape.iops.as_ref().map(Limiter::new),
            throughput: shape.throughput.as_ref().map(Limiter::new),
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
}
