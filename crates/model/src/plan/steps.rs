//! What a run will do, step by step, each with its undo: printed by `--dry-run`, stored with the session.

use super::SweepPlan;
use crate::backend::BackendKind;
use crate::experiment::{Experiment, NO_BUDGET, VolumeSource};
use crate::metric::Metric;
use crate::schedule::{Role, Schedule, Trial};
use crate::shown::Shown;
use crate::units::{Bytes, Nanos, format_count, format_waiting};
use crate::workload::Mix;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// What takes time after the last trial.
pub const SHORT_RUNS_AFTER: &str = "then 3 s and more of short runs for each design and workload of which the trials do not show what limits it";

/// What a run will do. Nothing is touched before it exists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// Name of the experiment.
    pub experiment: String,
    /// What will carry it out.
    pub backend: BackendKind,
    /// Seed of the order and of everything random in the trials.
    pub seed: u64,
    /// Design names, for reading the trials.
    pub designs: Vec<String>,
    /// Workload names, for reading the trials.
    pub workloads: Vec<String>,
    /// What varies and what it costs, where the designs are those of a sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepPlan>,
    /// Steps in the order in which they are done; undone in reverse.
    pub steps: Vec<Step>,
    /// What is estimated and compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// Least rounds that are run.
    pub rounds_min: u32,
    /// Most rounds that are run.
    pub rounds_max: u32,
    /// Time that one round takes (warm-up, measurement and rest, without preparation); absent when a
    /// workload ends by size.
    pub round_time: Option<Nanos>,
    /// Time after which no new round starts.
    pub budget: Nanos,
    /// Why a run would be refused: existing volumes that it overwrites, which nobody has allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What stands in the way of the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One thing that is done, and what takes it back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What the run will do.
    #[serde(rename = "do")]
    pub action: Action,
    /// What puts it back.
    pub undo: Undo,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Creates a file of this size for a volume.
    CreateFile {
        /// Name of the volume.
        volume: String,
        /// Directory; the run's own one when absent.
        directory: Option<PathBuf>,
        /// Bytes; absent where the experiment does not say.
        size: Option<Bytes>,
    },
    /// Gives the guest a disk for a volume, held to the volume's limits.
    GuestDisk {
        /// Name of the volume.
        volume: String,
        /// Bytes; absent where the experiment does not say.
        size: Option<Bytes>,
    },
    /// Opens an existing file or device, exclusively where it is a device.
    Open {
        /// Name of the volume.
        volume: String,
        /// The file or device.
        path: PathBuf,
        /// Whether trials write to it, so that what it holds is lost.
        overwrites: bool,
    },
    /// Fills the used part of a volume with incompressible data, so that reads find data.
    Fill {
        /// Name of the volume.
        volume: String,
    },
    /// Runs the trials of one round in this order.
    Round {
        /// The round, from 0.
        round: u32,
        /// In the order in which they run.
        trials: Vec<Trial>,
    },
    /// Runs more rounds, each in a fresh order, until the answer is good enough.
    MoreRounds {
        /// First of them, from 0.
        from: u32,
        /// One past the last of them.
        until: u32,
    },
}

/// What puts a step back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undo {
    /// There is nothing to put back.
    Nothing,
    /// Removes the file (kept when the run is asked to).
    RemoveFile,
    /// Closes it; what was written stays.
    Close,
}

impl RunPlan {
    /// The plan of `experiment` under `seed` on `backend`; `destroy` allows that existing volumes are overwritten.
    pub fn new(experiment: &Experiment, backend: BackendKind, seed: u64, destroy: bool) -> Self {
        let schedule = Schedule::new(experiment, seed);
        let answer = &experiment.answer;
        let (mut steps, mut lost) = (Vec::new(), Vec::new());
        // An array overwrites its members, whatever the workloads do.
        let writes = backend == BackendKind::Kernel || experiment.loads().any(|w| w.mix != Mix::Read);
        for volume in experiment.used_volumes().iter().filter_map(|index| experiment.volumes.get(*index)) {
            let name = volume.name.clone();
            if backend == BackendKind::Lab {
                let action = Action::GuestDisk { volume: name, size: volume.size };
                steps.push(Step { action, undo: Undo::RemoveFile });
                continue;
            }
            match &volume.source {
                VolumeSource::NewFile { directory } => {
                    steps.push(Step {
                        action: Action::CreateFile {
                            volume: name.clone(),
                            directory: directory.clone(),
                            size: volume.size,
                        },
                        undo: Undo::RemoveFile,
                    });
                    steps.push(Step { action: Action::Fill { volume: name }, undo: Undo::Nothing });
                }
                VolumeSource::ExistingFile { path } | VolumeSource::Device { path, .. } => {
                    // What may be overwritten is filled first, as a new file is, so that reads find data.
                    let filled = destroy && matches!(backend, BackendKind::Files | BackendKind::Hosts);
                    let overwrites = writes || filled;
                    if overwrites && !destroy {
                        lost.push(format!("{name} ({})", path.shown()));
                    }
                    steps.push(Step {
                        action: Action::Open { volume: name.clone(), path: path.clone(), overwrites },
                        undo: Undo::Close,
                    });
                    if filled {
                        steps.push(Step { action: Action::Fill { volume: name }, undo: Undo::Nothing });
                    }
                }
            }
        }
        for round in 0..answer.trials_min.min(answer.trials_max) {
            let trials = schedule.round(round);
            steps.push(Step { action: Action::Round { round, trials }, undo: Undo::Nothing });
        }
        if answer.trials_min < answer.trials_max {
            let action = Action::MoreRounds { from: answer.trials_min, until: answer.trials_max };
            steps.push(Step { action, undo: Undo::Nothing });
        }
        Self {
            experiment: experiment.name.clone(),
            backend,
            seed,
            designs: experiment.designs.iter().map(|d| d.name.clone()).collect(),
            workloads: experiment.workloads.iter().map(|w| w.name.clone()).collect(),
            sweep: SweepPlan::of(experiment),
            steps,
            metrics: experiment.metrics(),
            rounds_min: answer.trials_min,
            rounds_max: answer.trials_max,
            round_time: experiment.round_time(),
            budget: answer.budget,
            refused: (!lost.is_empty() && backend != BackendKind::Sim).then(|| {
                format!(
                    "a run is refused: it would overwrite what is on {}; say --destroy if that may be lost",
                    lost.join(", ")
                )
            }),
            notes: experiment.cannot_decide(),
        }
    }

    fn name_of(names: &[String], index: usize) -> &str {
        names.get(index).map_or("?", String::as_str)
    }
}

/// `{:#}` lists every design and every trial of a sweep.
impl fmt::Display for RunPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan of `{}`, seed {}", self.experiment, self.seed)?;
        let all = f.alternate() || self.sweep.is_none();
        for (heading, what) in self.sweep.iter().flat_map(|sweep| sweep.rows(all)) {
            writeln!(f, "  {heading:<18} {what}")?;
        }
        for (number, step) in (1..).zip(&self.steps) {
            write!(f, "{number:>4}. ")?;
            match &step.action {
                Action::CreateFile { volume, directory, size } => {
                    write!(f, "create volume {volume}")?;
                    if let Some(size) = size {
                        write!(f, ", {}", size.short())?;
                    }
                    match directory {
                        Some(directory) => write!(f, ", in {}", directory.shown())?,
                        None => write!(f, ", in the run's own directory")?,
                    }
                }
                Action::GuestDisk { volume, size } => {
                    write!(f, "give the guest a disk for volume {volume}")?;
                    if let Some(size) = size {
                        write!(f, ", {}", size.short())?;
                    }
                }
                Action::Open { volume, path, overwrites } => {
                    write!(f, "open volume {volume} at {}", path.shown())?;
                    if *overwrites {
                        write!(f, ", WHAT IT HOLDS IS OVERWRITTEN")?;
                    }
                }
                Action::Fill { volume } => write!(f, "fill volume {volume} with incompressible data")?,
                Action::Round { round, trials } => {
                    if !all {
                        write!(f, "round {}: {}", round + 1, format_count(trials.len() as u64, "trial"))?;
                    } else {
                        write!(f, "round {}:", round + 1)?;
                    }
                    for trial in trials.iter().filter(|_| all) {
                        let design = Self::name_of(&self.designs, trial.design);
                        let workload = Self::name_of(&self.workloads, trial.workload);
                        let again = if trial.role == Role::ControlAgain { " (again, A/A)" } else { "" };
                        write!(f, "\n        {design} under {workload}{again}")?;
                    }
                }
                Action::MoreRounds { from, until } if from + 1 == *until => {
                    write!(f, "round {until}, in a fresh order, if it is needed")?;
                }
                Action::MoreRounds { from, until } => write!(
                    f,
                    "rounds {} to {until}, each in a fresh order, as far as they are needed",
                    from + 1
                )?,
            }
            match step.undo {
                Undo::Nothing => writeln!(f)?,
                Undo::RemoveFile => writeln!(f, "  [undo: remove the file]")?,
                Undo::Close => writeln!(f, "  [undo: close]")?,
            }
        }
        if !self.metrics.is_empty() {
            let metrics: Vec<&str> = self.metrics.iter().map(|metric| metric.in_words()).collect();
            writeln!(f, "estimated and compared: {}", metrics.join(", "))?;
        }
        if let Some(time) = self.round_time {
            let least = Nanos(time.0.saturating_mul(u64::from(self.rounds_min)));
            writeln!(
                f,
                "about {} a round, at least {} in {} rounds, without preparation; {}",
                format_waiting(time),
                format_waiting(least),
                self.rounds_min,
                match self.budget {
                    NO_BUDGET => "no time ends it".to_owned(),
                    budget => format!("no new round after {}", format_waiting(budget)),
                }
            )?;
            writeln!(f, "{SHORT_RUNS_AFTER}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        Ok(())
    }
}
