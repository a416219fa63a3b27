//! What the host that runs a session and a worker, in its guest or on another host, say to each other: one JSON value a line.

use ebbtide_model::backend::{BackendError, Inventory};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::hosts::Window;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Trial;
use ebbtide_model::session::HostInfo;
use ebbtide_model::units::{Nanos, UnixTime};
use ebbtide_model::workload::Workload;
use serde::{Deserialize, Serialize};
use std::io;

/// What the host wants.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Make the volumes ready. Comes once, first.
    Prepare {
        /// Id of the session.
        id: String,
        /// Seed that the guest's worker uses, as the host's session.
        seed: u64,
        /// The experiment, its volumes being those of the guest or the host.
        experiment: Box<Experiment>,
        /// On another host: existing volumes may be overwritten. What is in a guest is the guest's.
        #[serde(default)]
        destroy: bool,
    },
    /// Run this trial, with this workload: its own, or another in its place.
    Trial(Trial, Box<Workload>),
    /// Run these trials of one design at the same time, each with this workload.
    Batch(Vec<(Trial, Workload)>),
    /// Have the design of this trial stand, for this workload and others like it.
    Hold(Trial, Box<Workload>),
    /// Let go of the design that stands.
    Release,
    /// Say what time it is.
    Clock,
    /// Run this trial at the same time as other hosts: say when it is ready, and begin when told.
    Together(Trial, Box<Workload>),
    /// Begin at this instant of the worker's clock.
    Begin {
        /// Time since the clock's start.
        at: Nanos,
    },
    /// This part of the trial that has ended counts.
    Count(Window),
    /// End the trial that runs.
    Stop,
    /// Somebody is still there.
    Alive,
    /// Put everything back.
    Finish {
        /// Whether new volumes stay.
        keep: bool,
    },
}

/// What the worker answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Word {
    /// The first word, before any order.
    Here {
        /// The guest as a host.
        host: HostInfo,
        /// What the engine reaches in it with nothing behind it, operations per second, or why that is not known.
        ceiling: Result<f64, String>,
    },
    /// How it is going; also a sign of life.
    Progress {
        /// Operations of the running trial.
        ops: u64,
        /// Bytes of the running trial.
        bytes: u64,
    },
    /// What came of [`Order::Prepare`].
    Prepared(Result<Inventory, BackendError>),
    /// What came of [`Order::Trial`] or [`Order::Together`].
    Ran(Result<Box<TrialSamples>, BackendError>),
    /// What came of each trial of [`Order::Batch`].
    RanBatch(Vec<Result<Box<TrialSamples>, BackendError>>),
    /// What came of [`Order::Hold`] or [`Order::Release`].
    Held(Result<(), BackendError>),
    /// What time it is.
    Clock {
        /// Time since the start of the monotonic clock.
        now: Nanos,
        /// The wall clock.
        wall: UnixTime,
    },
    /// The trial of [`Order::Together`] is ready to begin.
    Ready,
    /// It was at work in this time.
    Worked {
        /// From the instant at which its measurement was to begin.
        ran: Window,
        /// From the agreed instant until the last of its jobs was at work.
        late: Nanos,
    },
    /// What came of [`Order::Finish`].
    Finished(Result<(), BackendError>),
}

/// A value as a line.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}
