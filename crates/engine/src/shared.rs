//! What all jobs of a trial see.

use crate::clock::Clock;
use crate::error::EngineError;
use crate::patience::Patience;
use crate::target::Target;
use ebbtide_model::backend::Control;
use ebbtide_model::layout::Extent;
use ebbtide_model::workload::{Op, OpKind, Workload};
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
    /// Set when what was asked for was seen: the trial ends before its time, and as it should.
    pub(crate) enough: AtomicBool,
}

impl Shared<'_> {
    /// Whether the trial ends before its time.
    pub(crate) fn must_stop(&self) -> bool {
        [&self.control.stop, &self.failed, &self.enough].iter().any(|flag| flag.load(Ordering::Relaxed))
    }

    /// Calls `sink` with each piece of `op`. `turn` chooses the copy that a read comes from.
    #[inline]
    pub(crate) fn split(&self, op: Op, turn: u64, sink: &mut impl FnMut(Extent)) -> Result<(), EngineError> {
        let map = &self.target.map;
        match op.kind {
            OpKind::Read => map.read_extents(op.offset, op.length, turn, sink),
            OpKind::Write => map.write_extents(op.offset, op.length, sink),
        }
        .map_err(EngineError::NoPlace)
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
}
