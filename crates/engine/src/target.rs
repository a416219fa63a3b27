//! What a workload runs on: members, how they make an array, and the speed that they are given.

use ebbtide_door::Handle;
use ebbtide_model::layout::{LayoutError, LayoutNode, Map};
use ebbtide_model::units::Nanos;
use ebbtide_model::volume::{Failure, FailureKind, Link, LinkShape, Model, ModelReport, Shape};
use ebbtide_model::workload::OpKind;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::probe::HandOver;

/// A link that several [`Shaper`]s share.
pub type SharedLink = Arc<Mutex<Link>>;

/// One volume of the array.
#[derive(Debug)]
pub struct TargetMember {
    /// The volume's name, for results and errors.
    pub name: String,
    /// The file or device, opened as it is to be used (O_DIRECT, O_SYNC, access mode).
    pub file: Handle,
    /// Usable bytes, from offset 0.
    pub size: u64,
    /// The speed that it is given; its own when absent.
    pub shaper: Option<Arc<Shaper>>,
}

/// Gives a volume the speed of a [`Shape`].
///
/// Its state (burst credits, what is queued) lives as long as the shaper: keep one per volume over all trials of a
/// session and hand clones of the `Arc` to each target, so that credits spent by one trial are missing in the next, as
/// on the real thing; [`reset`](Self::reset) makes it fresh.
#[derive(Debug)]
pub struct Shaper {
    shape: Shape,
    /// Kept out of the model: it counts from the start of each trial, the model from the volume's.
    failure: Option<Failure>,
    model: Mutex<Model>,
    link: Option<SharedLink>,
}

/// The guard, also when a thread died while it held it: the state is plain numbers.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shaper {
    /// A fresh volume. `link` is the state of the link that `shape.link` names, shared with its other volumes.
    pub fn new(shape: &Shape, seed: u64, link: Option<SharedLink>) -> Self {
        let mut shape = shape.clone();
        let failure = shape.character.failure.take();
        let model = Mutex::new(Model::new(&shape, seed));
        Shaper { shape, failure, model, link }
    }

    /// A fresh link, to be given to the shapers of its volumes.
    pub fn link(shape: &LinkShape) -> SharedLink {
        Arc::new(Mutex::new(Link::new(shape)))
    }

    /// Full credits and an empty queue again. The link is not touched: it is its owner's.
    pub fn reset(&self, seed: u64) {
        *lock(&self.model) = Model::new(&self.shape, seed);
    }

    /// What the model knows since the shaper is fresh, with its credits at `now`.
    pub(crate) fn report(&self, now: u64) -> ModelReport {
        lock(&self.model).report(Nanos(now))
    }

    /// When an operation submitted at `now` completes, and the error number that it completes with. `origin` is the
    /// start of the trial.
    pub(crate) fn due(
        &self,
        now: u64,
        origin: u64,
        op: OpKind,
        offset: u64,
        length: u64,
    ) -> (u64, Option<i32>) {
        let mut model = lock(&self.model);
        let due = match &self.link {
            // Always volume first, then link.
            Some(link) => model.submit(Nanos(now), op, offset, length, Some(&mut lock(link))),
            None => model.submit(Nanos(now), op, offset, length, None),
        }
        .0;
        let Some(failure) = self.failure else { return (due, None) };
        let frozen_until = failure.in_force(Nanos(now.saturating_sub(origin)));
        match (failure.kind, frozen_until) {
            (_, None) => (due, None),
            (FailureKind::Error, Some(_)) => (due, Some(libc::EIO)),
            (FailureKind::Vanish, Some(_)) => (due, Some(libc::ENODEV)),
            (FailureKind::Freeze, Some(until)) => (due.max(origin.saturating_add(until.0)), None),
        }
    }
}

/// What a workload runs on.
#[derive(Debug)]
pub struct Target {
    /// Members; the map's leaf volume `i` is `members[i]`.
    pub members: Vec<TargetMember>,
    /// How they make one array.
    pub map: Map,
    /// What is known of io_uring on these members; found once, by the first trial that asks.
    pub(crate) hand_over: OnceLock<Option<HandOver>>,
}

impl Target {
    /// `members` behind `map`, whose leaf volume `i` is `members[i]`.
    pub fn new(members: Vec<TargetMember>, map: Map) -> Self {
        Target { members, map, hand_over: OnceLock::new() }
    }

    /// A file or device on its own.
    ///
    /// # Errors
    /// When its size is 0.
    pub fn single(member: TargetMember) -> Result<Self, LayoutError> {
        let map = Map::new(&LayoutNode::Volume(0), &[member.size])?;
        Ok(Target::new(vec![member], map))
    }

    /// Whether array offsets are member offsets and nothing has to be held: the short way through the loop.
    pub(crate) fn is_plain(&self) -> bool {
        self.members.len() == 1 && self.map.leaves().len() == 1 && self.members[0].shaper.is_none()
    }
}
