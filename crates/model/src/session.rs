//! A session: one run of one experiment, as the store keeps it and the analysis reads it.

use crate::backend::{BackendKind, Inventory};
use crate::experiment::Experiment;
use crate::samples::TrialSamples;
use crate::trial::Trial;
use crate::units::{Bytes, UnixTime};
use serde::{Deserialize, Serialize};

/// Marks an SQLite database as a store of sessions (`PRAGMA application_id`): "ebbt" in ASCII.
pub const STORE_APPLICATION_ID: u32 = 0x6562_6274;

/// The host a session ran on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HostInfo {
    /// As the kernel has it.
    pub hostname: String,
    /// Its release, such as `6.1.0-28-amd64`.
    pub kernel: String,
    /// As `/proc/cpuinfo` has it.
    pub cpu_model: String,
    /// Cores that are online.
    pub cores: u32,
    /// Memory of the host, bytes.
    pub memory_bytes: u64,
    /// Cloud instance type or virtualisation, where known.
    pub machine: Option<String>,
}

/// One of several hosts that a session ran on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NamedHost {
    /// As the user wrote it.
    pub name: String,
    /// What it said that it is.
    pub host: HostInfo,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Every interval is narrow enough.
    Reached,
    /// The most trials or the time budget came first.
    NotReached,
    /// The user ended it (SIGINT or SIGTERM); what was measured by then counts.
    Interrupted,
    /// Something failed; the text says what.
    Failed(String),
    /// No end on record: still running, or killed.
    Unfinished,
}

/// What is known of a session beside its trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionMeta {
    /// Identifier, unique in its store, for example `20261121-143005-7f3a`.
    pub id: String,
    /// What carried it out.
    pub backend: BackendKind,
    /// Seed; the same seed gives the same order.
    pub seed: u64,
    /// Version of `ebb` that measured it.
    pub version: String,
    /// When the session started.
    pub started_unix: UnixTime,
    /// When it ended, where it did.
    pub ended_unix: Option<UnixTime>,
    /// Why there were no more trials.
    pub ending: Ending,
    /// Where it was measured; of one on several hosts, where it was run from.
    pub host: HostInfo,
    /// The hosts that ran the trials, where that were others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<NamedHost>,
    /// Operations per second that the engine reached on this host with nothing behind it, where measured:
    /// a result near it measures the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_ceiling_iops: Option<f64>,
    /// What the backend found.
    pub inventory: Inventory,
    /// Warnings raised while running.
    pub warnings: Vec<String>,
    /// Short looks, after the last trial, at what more and fewer operations in flight and other sizes do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rungs: Vec<Rung>,
}

impl SessionMeta {
    /// Of a session that begins at `started_unix`: unfinished, nothing known yet of host and volumes, and run by this
    /// version.
    pub fn new(
        id: impl Into<String>,
        backend: BackendKind,
        seed: u64,
        started_unix: UnixTime,
    ) -> SessionMeta {
        SessionMeta {
            id: id.into(),
            backend,
            seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix,
            ended_unix: None,
            ending: Ending::Unfinished,
            host: HostInfo::default(),
            hosts: Vec::new(),
            engine_ceiling_iops: None,
            inventory: Inventory::default(),
            warnings: Vec::new(),
            rungs: Vec::new(),
        }
    }

    /// Whether another program measured it.
    pub fn imported(&self) -> bool {
        self.backend == BackendKind::Import
    }

    /// Whether each of its jobs ran once, without a precision that was asked for.
    pub fn is_once(&self) -> bool {
        matches!(self.backend, BackendKind::Import | BackendKind::Bench)
    }
}

/// A rung of a ladder: a design under a workload for a moment, with as many or other operations in flight, of the same
/// or another size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rung {
    /// Name of the design.
    pub design: String,
    /// Name of the workload that the ladder is for.
    pub workload: String,
    /// Operations in flight.
    pub in_flight: u32,
    /// Size of each operation.
    pub bs: Bytes,
    /// Samples of the moment.
    pub samples: Box<TrialSamples>,
}

impl Rung {
    /// Operations per second; nothing when no time passed.
    pub fn iops(&self) -> Option<f64> {
        let array = &self.samples.array;
        self.per_second(array.read.count.ops.saturating_add(array.write.count.ops))
    }

    /// Bytes per second; nothing when no time passed.
    pub fn throughput(&self) -> Option<f64> {
        let array = &self.samples.array;
        self.per_second(array.read.count.bytes.saturating_add(array.write.count.bytes))
    }

    fn per_second(&self, count: u64) -> Option<f64> {
        let seconds = self.samples.elapsed.as_secs_f64();
        (seconds > 0.0).then(|| count as f64 / seconds)
    }
}

/// What came of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The trial was measured.
    Samples(Box<TrialSamples>),
    /// It failed; the text says what and where.
    Failed(String),
}

/// One trial with what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Which design ran what, when and in which role.
    pub trial: Trial,
    /// What came of it.
    pub outcome: Outcome,
}

/// A session as it is stored: what was asked, what was found around it, and every trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// What is known beside the trials.
    pub meta: SessionMeta,
    /// The experiment as run.
    pub experiment: Experiment,
    /// The experiment file's text.
    pub experiment_text: String,
    /// Trials in the order they ran.
    pub trials: Vec<TrialRecord>,
}
