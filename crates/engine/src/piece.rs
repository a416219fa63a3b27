//! What one member has to do of an operation or of a call, and what becomes of it.

use crate::error::{EngineError, MemberFailure, errno_name};
use crate::record::Recorder;
use crate::shared::Shared;
use crate::source::Sync;
use crate::target::Shaped;
use ebbtide_model::layout::Extent;
use ebbtide_model::units::{Bytes, Instant, MemberOffset};
use ebbtide_model::workload::{Op, OpKind};
use ebbtide_sys::memory::Buffer;
use ebbtide_sys::ring;
use std::num::NonZeroI32;
use std::sync::atomic::Ordering;

/// What one member has to do for a slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    /// Number of the slot.
    pub(crate) slot: u32,
    pub(crate) member: u32,
    pub(crate) started: Instant,
    pub(crate) task: Task,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Task {
    Transfer(Transfer),
    /// Not over before this instant, where the member is shaped.
    Sync(Sync, Option<Instant>),
}

/// One extent of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    /// What is still to do of it.
    pub(crate) rest: ring::Transfer,
    pub(crate) length: u32,
    /// What the member's model says, where it is shaped.
    pub(crate) shaped: Option<Shaped>,
}

impl Transfer {
    pub(crate) fn kind(&self) -> OpKind {
        if self.rest.is_write { OpKind::Write } else { OpKind::Read }
    }
}

/// All of `op` on the only member there is.
#[inline(always)]
pub(crate) fn whole(op: Op, buffer: Buffer) -> ring::Transfer {
    ring::Transfer {
        is_write: op.kind == OpKind::Write,
        file: 0,
        offset: op.offset.0,
        buffer,
        at: 0,
        // At most `bs`, which `run` limits to 1 GiB.
        length: op.length.0 as u32,
    }
}

impl Piece {
    /// All of `op` on the only member there is.
    #[inline]
    pub(crate) fn whole(slot: u32, op: Op, buffer: Buffer, started: Instant) -> Piece {
        let rest = whole(op, buffer);
        let task = Task::Transfer(Transfer { rest, length: rest.length, shaped: None });
        Piece { slot, member: 0, started, task }
    }

    /// `sync` on a member, at `now`.
    #[cold]
    pub(crate) fn sync(shared: &Shared<'_>, slot: u32, member: u32, sync: Sync, now: Instant) -> Piece {
        let shaper = shared.target.members[member as usize].shaper.as_ref();
        let due = shaper.map(|shaper| shaper.flush(now));
        Piece { slot, member, started: now, task: Task::Sync(sync, due) }
    }

    /// The piece of `op`, which began at `now`, that `extent` is.
    #[inline]
    pub(crate) fn new(
        shared: &Shared<'_>,
        (slot, buffer): (u32, Buffer),
        op: Op,
        extent: Extent,
        now: Instant,
        origin: Instant,
    ) -> Piece {
        let shaper = shared.target.members[extent.member].shaper.as_ref();
        let shaped = shaper.map(|shaper| {
            let shaped = shaper.shape(now, origin, op.kind, extent.offset, extent.length);
            let durable = shared.workload.sync && op.kind == OpKind::Write && shaped.fault.is_none();
            if durable { Shaped { due: shaper.flush(shaped.due), ..shaped } } else { shaped }
        });
        let (member, length) = (extent.member as u32, extent.length.0 as u32);
        let rest = ring::Transfer {
            file: member,
            offset: extent.offset.0,
            at: (extent.array_offset - op.offset).0 as u32,
            length,
            ..whole(op, buffer)
        };
        Piece { slot, member, started: now, task: Task::Transfer(Transfer { rest, length, shaped }) }
    }

    /// Not delivered before this instant, where the member is shaped.
    #[inline]
    pub(crate) fn due(&self) -> Option<Instant> {
        match &self.task {
            Task::Transfer(transfer) => transfer.shaped.map(|shaped| shaped.due),
            Task::Sync(_, due) => *due,
        }
    }

    /// Error number that a shaped member returns instead of what really came of it.
    #[inline]
    pub(crate) fn fault(&self) -> Option<NonZeroI32> {
        match &self.task {
            Task::Transfer(transfer) => transfer.shaped?.fault,
            Task::Sync(..) => None,
        }
    }

    /// Whether `result` (bytes, or a negative error number) is that all of it is done.
    #[inline]
    pub(crate) fn is_done(&self, result: i32) -> bool {
        match &self.task {
            Task::Transfer(transfer) => result == transfer.rest.length as i32,
            Task::Sync(..) => result == 0,
        }
    }
}

/// What to do with a result that is not the whole of what was asked for.
pub(crate) enum AfterPartial {
    /// Ask for the rest.
    Again,
    /// Its operation has failed with this error number, and the trial goes on.
    GoOn(i32),
    /// The trial has failed.
    Failed(EngineError),
}

/// Whether `errno` is what a device says of one operation, which the next need not meet: the block layer's statuses (block/blk-core.c,
/// `blk_errors`) but for those that say the device is gone, full, or was asked for what it never does. fio goes on after the first two.
fn is_of_one_operation(errno: i32) -> bool {
    matches!(
        errno,
        libc::EIO
            | libc::EILSEQ
            | libc::ETIMEDOUT
            | libc::ENOLINK
            | libc::EREMOTEIO
            | libc::EBADE
            | libc::ENODATA
    )
}

/// Judges `result` (bytes, or a negative error number) of a piece that is not complete, counts it, and moves the
/// piece behind what was done.
#[cold]
pub(crate) fn judge(
    shared: &Shared<'_>,
    recorder: &mut Recorder,
    piece: &mut Piece,
    result: i32,
) -> AfterPartial {
    let member = piece.member as usize;
    let cause = match (result, &mut piece.task) {
        (1.., Task::Transfer(Transfer { rest, .. })) => {
            recorder.error(member, "short");
            let done = (result as u32).min(rest.length);
            rest.offset += u64::from(done);
            rest.at += done;
            rest.length -= done;
            return AfterPartial::Again;
        }
        (0.., _) => {
            recorder.error(member, "short");
            MemberFailure::End
        }
        _ => {
            let errno = -result;
            recorder.error(member, &errno_name(errno));
            if matches!(errno, libc::EAGAIN | libc::EINTR) {
                return AfterPartial::Again;
            }
            if let Task::Transfer(transfer) = &piece.task
                && shared.workload.conditions.go_on.after(transfer.kind())
                && is_of_one_operation(errno)
            {
                return AfterPartial::GoOn(errno);
            }
            MemberFailure::Errno(errno)
        }
    };
    // Not only when the job ends: a ring waits first for what the kernel still has.
    shared.failed.store(true, Ordering::Relaxed);
    let of = &shared.target.members[member];
    let (op, offset, length) = match &piece.task {
        Task::Sync(..) => (None, MemberOffset::START, of.size),
        Task::Transfer(t) => (Some(t.kind()), MemberOffset(t.rest.offset), Bytes(t.rest.length.into())),
    };
    AfterPartial::Failed(EngineError::Member { member: of.name.clone(), op, offset, length, cause })
}
