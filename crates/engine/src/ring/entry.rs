//! Submission queue entries.

use crate::buffers::Buffers;
use ebbtide_model::workload::OpKind;
use io_uring::{opcode, squeue, types};
use std::os::fd::RawFd;

/// How the buffers are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FixedBuffers {
    /// Not at all.
    No,
    /// All as one.
    One,
    /// Each by itself.
    PerBuffer,
}

/// How entries name files and buffers.
#[derive(Debug)]
pub(super) struct Addressing {
    /// The members' files; registered in this order when `fixed_files`.
    pub(super) files: Vec<RawFd>,
    pub(super) fixed_files: bool,
    pub(super) fixed_buffers: FixedBuffers,
    /// RWF_ flags of writes.
    pub(super) write_flags: i32,
}

/// One transfer between a member and the memory of a slot.
pub(super) struct Transfer {
    pub(super) kind: OpKind,
    pub(super) member: u32,
    pub(super) offset: u64,
    pub(super) address: *mut u8,
    pub(super) length: u32,
    pub(super) slot: u32,
}

impl Addressing {
    /// The entry of `transfer`, to or from one of the `buffers`.
    #[inline(always)]
    pub(super) fn entry(&self, transfer: &Transfer, buffers: &Buffers) -> squeue::Entry {
        let Transfer { kind, member, offset, address, length, slot } = *transfer;
        let is_numbered = self.fixed_buffers == FixedBuffers::PerBuffer;
        let index = if is_numbered { buffers.index(kind, slot) as u16 } else { 0 };
        let (fixed, flags) = (self.fixed_buffers != FixedBuffers::No, self.write_flags);
        // The two ways to name a file are types of their own, with no public trait in common.
        macro_rules! on {
            ($file:expr) => {
                match (kind, fixed) {
                    (OpKind::Read, true) => {
                        opcode::ReadFixed::new($file, address, length, index).offset(offset).build()
                    }
                    (OpKind::Write, true) => opcode::WriteFixed::new($file, address, length, index)
                        .offset(offset)
                        .rw_flags(flags)
                        .build(),
                    (OpKind::Read, false) => opcode::Read::new($file, address, length).offset(offset).build(),
                    (OpKind::Write, false) => {
                        opcode::Write::new($file, address, length).offset(offset).rw_flags(flags).build()
                    }
                }
            };
        }
        if self.fixed_files { on!(types::Fixed(member)) } else { on!(types::Fd(self.files[member as usize])) }
    }
}
