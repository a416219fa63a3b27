//! What all jobs of a trial see.

use crate::clock::Clock;
use crate::error::{EngineError, MemberFailure, errno_name};
use crate::record::Recorder;
use crate::ring::Patience;
use crate::source::Sync;
use crate::target::Target;
use ebbtide_model::backend::Control;
use ebbtide_model::layout::Extent;
use ebbtide_model::workload::{Access, Op, OpKind, Workload};
use std::num::NonZeroI32;
use std::sync::atomic::{AtomicBool, Ordering};

/// What all jobs of a trial see.
pub(crate) struct Shared<'a> {
    pub(crate) target: &'a Target,
    pub(crate) workload: &'a Workload,
    pub(crate) control: &'a Control,
    pub(crate) seed: u64,
    pub(crate) clock: Clock,
    /// See [`Target::is_plain`].
    pub(crate) plain: bool,
    /// How long the end of the trial waits for what does not come back.
    pub(crate) patience: Patience,
    /// Set by the first job that fails, so that the others end too.
    pub(crate) failed: AtomicBool,
}

impl Shared<'_> {
    /// Whether the trial has to end before its time.
    pub(crate) fn must_stop(&self) -> bool {
        self.control.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }

    /// Calls `sink` with each piece of `op`. `turn` chooses the copy that a read comes from.
    #[inline]
    pub(crate) fn split(&self, op: Op, turn: u64, sink: &mut impl FnMut(Extent)) -> Result<(), EngineError> {
        let map = &self.target.map;
        match op.kind {
            OpKind::Read => map.read_extents(op.offset, op.length, turn, sink),
            OpKind::Write => map.write_extents(op.offset, op.length, sink),
        }
        .map_err(|error| EngineError::Target(format!("the layout has no place for an operation: {error}")))
    }

    /// Whether jobs watch for what they wait for before they sleep: where operations have their instants and a core is left
    /// for whoever else must run meanwhile.
    pub(crate) fn watches(&self) -> bool {
        let workload = self.workload;
        let timed = workload.is_open_loop() || workload.rate.is_some();
        let spare = || {
            std::thread::available_parallelism().is_ok_and(|cores| (workload.numjobs as usize) < cores.get())
        };
        timed && spare()
    }

    /// Whether the copy that a read comes from changes with every operation: random reads spread over the copies, a
    /// sequential stream stays where it is.
    pub(crate) fn turns(&self) -> bool {
        self.workload.access == Access::Random
    }
}

/// One extent of one operation on one member.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) slot: u32,
    pub(crate) member: u32,
    pub(crate) kind: OpKind,
    /// Not an operation but this call; `left` is 1 then and everything else of the transfer 0.
    pub(crate) sync: Option<Sync>,
    /// Where the rest of it begins, on the member and in the slot's buffer.
    pub(crate) offset: u64,
    pub(crate) at: u32,
    /// Bytes that are still to do.
    pub(crate) left: u32,
    /// Bytes in all.
    pub(crate) length: u32,
    pub(crate) started: u64,
    /// Not delivered before this instant; 0 where the member is not shaped.
    pub(crate) due: u64,
    /// Error number that a shaped member returns instead of what really came of it.
    pub(crate) fault: Option<NonZeroI32>,
}

impl Piece {
    /// The piece of `op` that `extent` is.
    #[inline]
    pub(crate) fn new(
        shared: &Shared<'_>,
        slot: u32,
        op: Op,
        extent: Extent,
        now: u64,
        origin: u64,
    ) -> Piece {
        let (due, fault) = match &shared.target.members[extent.member].shaper {
            Some(shaper) => shaper.due(now, origin, op.kind, extent.offset, extent.length),
            None => (0, None),
        };
        Piece {
            slot,
            member: extent.member as u32,
            kind: op.kind,
            sync: None,
            offset: extent.offset,
            // At most `bs`, which `run` limits to 1 GiB.
            at: (extent.array_offset - op.offset) as u32,
            left: extent.length as u32,
            length: extent.length as u32,
            started: now,
            due,
            fault: fault.and_then(NonZeroI32::new),
        }
    }
}

impl Piece {
    /// The call `sync` on `member`, which starts now.
    pub(crate) fn of_sync(slot: u32, member: u32, sync: Sync, now: u64) -> Piece {
        Piece {
            slot,
            member,
            kind: OpKind::Write,
            sync: Some(sync),
            offset: 0,
            at: 0,
            left: 1,
            length: 0,
            started: now,
            due: 0,
            fault: None,
        }
    }
}

/// What to do with a result that is not the whole of what was asked for.
pub(crate) enum Verdict {
    /// Ask for the rest.
    Again,
    /// The trial has failed.
    Failed(EngineError),
}

/// Judges `result` (bytes, or a negative error number) of a piece that is not complete, counts it, and moves the
/// piece behind what was done.
#[cold]
pub(crate) fn judge(shared: &Shared<'_>, recorder: &mut Recorder, piece: &mut Piece, result: i32) -> Verdict {
    let member = piece.member as usize;
    let cause = match result {
        1.. if piece.sync.is_none() => {
            recorder.error(member, "short");
            let done = (result as u32).min(piece.left);
            piece.offset += u64::from(done);
            piece.at += done;
            piece.left -= done;
            return Verdict::Again;
        }
        0.. => {
            recorder.error(member, "short");
            MemberFailure::End
        }
        _ => {
            let errno = -result;
            recorder.error(member, &errno_name(errno));
            if matches!(errno, libc::EAGAIN | libc::EINTR) {
                return Verdict::Again;
            }
            MemberFailure::Errno(errno)
        }
    };
    // Not only when the job ends: a ring waits first for what the kernel still has.
    shared.failed.store(true, Ordering::Relaxed);
    let of = &shared.target.members[member];
    let (op, length) = match piece.sync {
        Some(_) => (None, of.size),
        None => (Some(piece.kind), u64::from(piece.left)),
    };
    Verdict::Failed(EngineError::Member { member: of.name.clone(), op, offset: piece.offset, length, cause })
}
