//! What a workload runs on: members, how they make an array, and the speed that they are given.

use ebbtide_door::Handle;
use ebbtide_model::layout::{LayoutError, LayoutNode, Map};
use ebbtide_model::units::{Bytes, Instant, MemberOffset, Nanos};
use ebbtide_model::volume::{Failure, FailureKind, Link, LinkShape, Model, ModelReport, Shape};
use ebbtide_model::workload::OpKind;
use std::num::NonZeroI32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A link that several [`Shaper`]s share.
pub type SharedLink = Arc<Mutex<Link>>;

/// One volume of the array.
#[derive(Debug)]
pub struct TargetMember {
    /// The volume's name, for results and errors.
    pub name: String,
    /// The file or device, opened as it is to be used (O_DIRECT, O_SYNC, access mode).
    pub file: Handle,
    /// What of it is used, from its beginning.
    pub size: Bytes,
    /// The speed that it is given; its own when absent.
    pub shaper: Option<Arc<Shaper>>,
}

/// Gives a volume the speed of a [`Shape`].
///
/// Its state (burst credits, what is queued) lives as long as the shaper: keep one per volume over all trials of a
/// session and hand clones of the `Arc` to each target, so that credits spent by one trial are missing in the next, as
/// on the real thing.
#[derive(Debug)]
pub struct Shaper {
    /// Kept out of the model: it counts from the start of each trial, the model from the volume's.
    failure: Option<Failure>,
    model: Mutex<Model>,
    link: Option<SharedLink>,
    /// When the latest of what it was given has passed, on the engine's clock.
    latest: AtomicU64,
}

/// The guard, also when a thread died while it held it: the state is plain numbers.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shaper {
    /// A fresh volume. `link` is the state of the link that `shape.link` names, shared with its other volumes.
    pub fn new(shape: &Shape, seed: u64, link: Option<SharedLink>) -> Self {
        let mut shape = shape.clone();
        let failure = shape.character.failure.take();
        let model = Mutex::new(Model::new(&shape, seed));
        Shaper { failure, model, link, latest: AtomicU64::new(0) }
    }

    /// A fresh link, to be given to the shapers of its volumes.
    pub fn link(shape: &LinkShape) -> SharedLink {
        Arc::new(Mutex::new(Link::new(shape)))
    }

    /// What the model knows since the shaper is fresh, with its credits at `now`.
    pub(crate) fn report(&self, now: Instant) -> ModelReport {
        lock(&self.model).report(now)
    }

    /// What becomes of an operation submitted at `now`. `origin` is the start of the trial.
    pub(crate) fn shape(
        &self,
        now: Instant,
        origin: Instant,
        op: OpKind,
        offset: MemberOffset,
        length: Bytes,
    ) -> Shaped {
        let failure = self.failure.and_then(|failure| Some((failure.kind, failure.in_force(now - origin)?)));
        // What fails is not served: it takes nothing of what the volume may do.
        let fails = |errno| Shaped { due: now, fault: NonZeroI32::new(errno) };
        let thaws = match failure {
            Some((FailureKind::Error, _)) => return fails(libc::EIO),
            Some((FailureKind::Vanish, _)) => return fails(libc::ENODEV),
            Some((FailureKind::Freeze, until)) => origin + until,
            None => now,
        };
        let mut model = lock(&self.model);
        let due = match &self.link {
            // Always volume first, then link.
            Some(link) => model.submit(now, op, offset, length, Some(&mut lock(link))),
            None => model.submit(now, op, offset, length, None),
        };
        let due = due.max(thaws);
        self.latest.fetch_max(due.0, Ordering::Relaxed);
        Shaped { due, fault: None }
    }

    /// When what was written before `now` is durable, asked to make it so then.
    #[cold]
    pub(crate) fn flush(&self, now: Instant) -> Instant {
        let due = lock(&self.model).flush(now);
        self.latest.fetch_max(due.0, Ordering::Relaxed);
        due
    }

    /// When all that it was given has passed.
    pub(crate) fn idle_from(&self) -> Instant {
        Instant(self.latest.load(Ordering::Relaxed))
    }
}

/// What a [`Shaper`] makes of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shaped {
    /// Not delivered before this instant.
    pub(crate) due: Instant,
    /// Error number that it returns instead of what really came of it.
    pub(crate) fault: Option<NonZeroI32>,
}

/// How a single read fares through a ring and with pread, medians.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadCost {
    pub(crate) ring: Nanos,
    pub(crate) pread: Nanos,
}

/// What a workload runs on.
#[derive(Debug)]
pub struct Target {
    /// Members; the map's leaf volume `i` is `members[i]`.
    pub members: Vec<TargetMember>,
    /// How they make one array.
    pub map: Map,
    /// What is known of io_uring on these members; found once, by the first trial that asks.
    pub(crate) hand_over: OnceLock<Option<ReadCost>>,
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
