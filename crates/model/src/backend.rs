//! What every backend does: prepare volumes, run trials, put things back.

use crate::experiment::{Design, Experiment, Volume};
use crate::hosts::Window;
use crate::samples::TrialSamples;
use crate::trial::Trial;
use crate::units::{Bytes, Instant, Nanos};
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

/// Which backend ran a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendKind {
    /// Real I/O on files or devices, the layout computed in user space.
    Files,
    /// md, LVM, dm-crypt, file systems on this host.
    Kernel,
    /// The kernel backend inside QEMU guests.
    Lab,
    /// The `files` backend on several hosts at once.
    Hosts,
    /// The simulator, in virtual time.
    Sim,
    /// Another program; its results were imported.
    Import,
    /// `ebb bench`: as `files`, each job once.
    Bench,
}

/// What a volume turned out to be once prepared.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PreparedVolume {
    /// Name of the volume in the experiment.
    pub name: String,
    /// Path of the file or device, as text.
    pub path: String,
    /// What of it is used.
    pub size: Bytes,
    /// Whether O_DIRECT is possible; false is said in the report.
    pub direct: bool,
    /// The disk underneath, as "major:minor" of the whole disk where it is known; equal values mean a shared disk.
    pub disk: Option<String>,
    /// Name of that disk (`vda`, `nvme1n1`), where known.
    pub disk_name: Option<String>,
    /// All whole disks underneath where there are several: below an array, or a file system over several devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskBelow>,
    /// What is between it and the disks, in words, where there is something: `md0 (stripe of 2 over vdb, vdc)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// File system type it is on, where it is a file.
    pub filesystem: Option<String>,
    /// Whether it is a character device that takes and gives any number of bytes: there is no storage and no cache.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub endless: bool,
}

/// A whole disk below a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskBelow {
    /// Device number, "major:minor".
    pub number: String,
    /// Kernel name.
    pub name: String,
}

impl PreparedVolume {
    /// For a volume that no design uses, and that was not made.
    pub fn unused(volume: &Volume) -> PreparedVolume {
        PreparedVolume {
            name: volume.name.clone(),
            size: volume.size.unwrap_or_default(),
            direct: true,
            ..PreparedVolume::default()
        }
    }

    /// Number and name of each whole disk underneath, as far as they are known.
    pub fn whole_disks(&self) -> Vec<(&str, &str)> {
        let one = self.disk.iter().map(|number| {
            let name = self.disk_name.as_deref().unwrap_or(number);
            (number.as_str(), name)
        });
        let several = self.disks.iter().map(|disk| (disk.number.as_str(), disk.name.as_str()));
        if self.disks.is_empty() { one.collect() } else { several.collect() }
    }
}

/// What the backend found and made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Inventory {
    /// Volumes in the order of `Experiment::volumes`.
    pub volumes: Vec<PreparedVolume>,
    /// Things the reader must know.
    pub notes: Vec<String>,
}

/// Shared with a running trial: how to end it early, and how it is going.
#[derive(Debug, Default)]
pub struct Control {
    /// Set to end the trial (and whatever prepares it) soon.
    pub stop: AtomicBool,
    /// Operations completed so far in the running trial, warm-up included.
    pub ops: AtomicU64,
    /// Bytes completed so far in the running trial, warm-up included.
    pub bytes: AtomicU64,
    /// Bytes of preparation (filling volumes) done so far.
    pub prepared: AtomicU64,
    /// Bytes of preparation in all; 0 while unknown.
    pub prepare_total: AtomicU64,
    /// Who is told when a trial's own I/O begins and has ended.
    pub edges: Edges,
    /// With whom trials begin at one instant, where they do.
    pub gate: CurrentGate,
}

/// Where a trial's own I/O begins and ends. What a backend does before and after it (making files durable, dropping
/// their cached pages) uses the same disks, and is no part of the trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// Its first operation, warm-up included, comes next.
    Begins,
    /// All that it had to do is done; not told of a trial that time has ended, some of whose operations may come back
    /// after its window.
    Done,
}

/// Is called with an edge, and with the seed of the trial: trials that run at the same time have different ones.
type Listener = Box<dyn Fn(Edge, u64) + Send + Sync>;

/// Listeners to the edges of trials.
#[derive(Default)]
pub struct Edges(Mutex<Vec<Listener>>);

impl Edges {
    /// Calls `listener` at each edge from now on, on the thread that is about to begin or has ended the I/O.
    pub fn listen(&self, listener: impl Fn(Edge, u64) + Send + Sync + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    /// Tells the listeners that the trial with this seed is at `edge`.
    pub fn tell(&self, edge: Edge, seed: u64) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .for_each(|listener| listener(edge, seed));
    }

    /// Removes every listener.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl fmt::Debug for Edges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edges").finish_non_exhaustive()
    }
}

/// Who has trials begin at one instant, and says which part of each counts. A trial asks twice, on one thread.
pub trait Gate: Send + Sync {
    /// The trial is ready: waits until it is to begin, and says when that was agreed to be, by the engine's clock; nothing when it is not to
    /// begin at all. `stopped` says whether it was stopped meanwhile.
    fn begin(&self, stopped: &dyn Fn() -> bool) -> Option<Instant>;

    /// The trial was at work in `ran`, the last of its jobs `late` after the agreed instant: waits until it is known which part of that counts. Nothing when none
    /// does.
    fn counts(&self, ran: Window, late: Nanos, stopped: &dyn Fn() -> bool) -> Option<Window>;
}

/// The gate of the trials that come, where there is one.
#[derive(Default)]
pub struct CurrentGate(Mutex<Option<Arc<dyn Gate>>>);

impl CurrentGate {
    /// Trials from now on pass `gate`.
    pub fn set(&self, gate: Arc<dyn Gate>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(gate);
    }

    /// Trials from now on begin when they are ready, and count as a whole.
    pub fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The gate, where there is one.
    pub fn get(&self) -> Option<Arc<dyn Gate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for CurrentGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CurrentGate").finish_non_exhaustive()
    }
}

/// Why a trial or a preparation gave no samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum BackendError {
    /// Ended by [`Control::stop`].
    #[error("stopped")]
    Stopped,
    /// A volume failed: which, where and how.
    #[error("volume {volume}: {what}")]
    Volume {
        /// Name of the volume in the experiment.
        volume: String,
        /// What happened and what to do.
        what: String,
    },
    /// No load keeps the latency that is asked for: what was looked for, and what came of it.
    #[error("{0}")]
    NotKept(String),
    /// Any other failure, in words.
    #[error("{0}")]
    Other(String),
}

/// A trial, what it runs on and what it runs: its own workload, or another in its place.
#[derive(Debug, Clone, Copy)]
pub struct TrialRun<'a> {
    /// What it runs on.
    pub design: &'a Design,
    /// The workload to run.
    pub workload: &'a Workload,
    /// Its place in the schedule, and its seed.
    pub trial: &'a Trial,
}

/// Why a trial is no result.
#[derive(Debug)]
pub struct TrialFailure {
    /// Why; it may have been stopped.
    pub error: BackendError,
    /// The error number behind it, where there is one.
    pub errno: Option<i32>,
    /// What it had seen by then.
    pub seen: Option<Box<TrialSamples>>,
}

impl From<BackendError> for TrialFailure {
    fn from(error: BackendError) -> Self {
        TrialFailure { error, errno: None, seen: None }
    }
}

impl TrialFailure {
    /// That of a trial of which nothing came.
    pub fn not_run() -> TrialFailure {
        BackendError::Other("the trial did not run".to_owned()).into()
    }
}

/// What came of a trial that [`Backend::run_together`] was given alone.
///
/// # Errors
/// Why it is no result.
pub fn alone(mut results: Vec<Result<TrialSamples, TrialFailure>>) -> Result<TrialSamples, BackendError> {
    results.pop().unwrap_or_else(|| Err(TrialFailure::not_run())).map_err(|failure| failure.error)
}

/// Builds designs and runs workloads on them.
pub trait Backend {
    /// Which one this is.
    fn kind(&self) -> BackendKind;
    /// Creates and fills what the experiment needs. Called once, before the first trial.
    ///
    /// # Errors
    /// When a volume cannot be made or opened; nothing is left behind then.
    fn prepare(&mut self, experiment: &Experiment, control: &Control) -> Result<Inventory, BackendError>;
    /// Runs one trial.
    ///
    /// # Errors
    /// When a volume fails; the session goes on with the next trial.
    fn run_trial(
        &mut self,
        design: &Design,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples, BackendError>;
    /// Runs trials, at the same time where the backend can, else one after the other; what came of each, in their order.
    fn run_together(
        &mut self,
        runs: &[TrialRun<'_>],
        control: &Control,
    ) -> Vec<Result<TrialSamples, TrialFailure>> {
        let mut one = |run: &TrialRun<'_>| self.run_trial(run.design, run.workload, run.trial, control);
        runs.iter().map(|run| Ok(one(run)?)).collect()
    }
    /// Has `design` stand until [`release`](Self::release), so that what runs on it meanwhile finds it ready: a backend
    /// that builds each design for its trial builds it here, once. `workload` is what will run, or much like it.
    ///
    /// # Errors
    /// When it cannot be built; nothing of it is left then.
    fn hold(
        &mut self,
        _design: &Design,
        _workload: &Workload,
        _trial: &Trial,
        _control: &Control,
    ) -> Result<(), BackendError> {
        Ok(())
    }
    /// Lets go of the design that stands.
    ///
    /// # Errors
    /// When it cannot be taken apart, naming what is left.
    fn release(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
    /// Puts everything back; keeps created volumes when `keep`.
    ///
    /// # Errors
    /// When something could not be put back, naming what is left.
    fn finish(&mut self, keep: bool) -> Result<(), BackendError>;
}
