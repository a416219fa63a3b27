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
use std::collections::BTreeSet;
use std::ops::Range;
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
    /// Workloads by index that run at the same time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<Range<usize>>,
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
            together: experiment.groups().into_iter().filter(|group| group.len() > 1).collect(),
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

/// As `--dry-run` prints it. What follows from a plan on a host, such as the commands that build a design, belongs between the two parts.
impl RunPlan {
    /// What it is of, and what is done before the first trial; of a sweep with the names of `all` designs.
    pub fn beginning(&self, all: bool) -> String {
        let mut text = format!("plan of `{}`, seed {}\n", self.experiment, self.seed);
        for (heading, what) in self.sweep.iter().flat_map(|sweep| sweep.rows(all)) {
            text += &format!("  {heading:<18} {what}\n");
        }
        for (number, step) in (1..).zip(&self.steps) {
            let size =
                |size: &Option<Bytes>| size.map_or_else(String::new, |size| format!(", {}", size.short()));
            let action = match &step.action {
                Action::CreateFile { volume, directory, size: bytes } => {
                    let place = match directory {
                        Some(directory) => directory.shown().to_string(),
                        None => "the run's own directory".to_owned(),
                    };
                    format!("create volume {volume}{}, in {place}", size(bytes))
                }
                Action::GuestDisk { volume, size: bytes } => {
                    format!("give the guest a disk for volume {volume}{}", size(bytes))
                }
                Action::Open { volume, path, overwrites } => {
                    let lost = if *overwrites { ", WHAT IT HOLDS IS OVERWRITTEN" } else { "" };
                    format!("open volume {volume} at {}{lost}", path.shown())
                }
                Action::Fill { volume } => format!("fill volume {volume} with incompressible data"),
                Action::Round { .. } | Action::MoreRounds { .. } => continue,
            };
            let undo = match step.undo {
                Undo::Nothing => "",
                Undo::RemoveFile => "  [undo: remove the file]",
                Undo::Close => "  [undo: close]",
            };
            text += &format!("{number:>4}. {action}{undo}\n");
        }
        text
    }

    /// The rounds, with `all` their trials, and what comes of them.
    pub fn rounds(&self, all: bool) -> String {
        let rounds: Vec<&[Trial]> = self
            .steps
            .iter()
            .filter_map(|step| match &step.action {
                Action::Round { trials, .. } => Some(trials.as_slice()),
                _ => None,
            })
            .collect();
        let mut text = String::new();
        for (number, trials) in (1..).zip(&rounds).filter(|_| all) {
            text += &format!("round {number}:\n");
            for batch in trials.chunk_by(|one, next| self.run_together(one, next)) {
                let trial = batch[0];
                let design = Self::name_of(&self.designs, trial.design);
                let workloads = batch.iter().map(|trial| Self::name_of(&self.workloads, trial.workload));
                let workloads = workloads.collect::<Vec<_>>().join(" and ");
                let again = if trial.role == Role::ControlAgain { " (again, A/A)" } else { "" };
                text += &format!("      {design} under {workloads}{again}\n");
            }
        }
        if let Some(first) = rounds.first().filter(|_| !all) {
            text += &self.summary(rounds.len(), first);
        }
        for step in &self.steps {
            text += &match step.action {
                Action::MoreRounds { from, until } if from + 1 == until => {
                    format!("round {until}, in a fresh order, if it is needed\n")
                }
                Action::MoreRounds { from, until } => {
                    format!(
                        "rounds {} to {until}, each in a fresh order, as far as they are needed\n",
                        from + 1
                    )
                }
                _ => continue,
            };
        }
        if !self.metrics.is_empty() {
            let metrics: Vec<&str> = self.metrics.iter().map(|metric| metric.in_words()).collect();
            text += &format!("estimated and compared: {}\n", metrics.join(", "));
        }
        if let Some(time) = self.round_time {
            let least = Nanos(time.0.saturating_mul(u64::from(self.rounds_min)));
            text += &format!(
                "about {} a round, at least {} in {} rounds, without preparation; {}\n{SHORT_RUNS_AFTER}\n",
                format_waiting(time),
                format_waiting(least),
                self.rounds_min,
                match self.budget {
                    NO_BUDGET => "no time ends it".to_owned(),
                    budget => format!("no new round after {}", format_waiting(budget)),
                }
            );
        }
        text.extend(self.notes.iter().map(|note| format!("note: {note}\n")));
        text
    }

    /// Whether two trials that follow one another in a round run at the same time.
    fn run_together(&self, one: &Trial, next: &Trial) -> bool {
        let together = |group: &Range<usize>| group.contains(&one.workload) && group.contains(&next.workload);
        (one.design, one.role) == (next.design, next.role) && self.together.iter().any(together)
    }

    /// The first `count` rounds in a line, by the trials of one of them.
    fn summary(&self, count: usize, trials: &[Trial]) -> String {
        let rounds = match count {
            1 => "round 1".to_owned(),
            _ => format!("rounds 1 to {count}, each in a fresh order"),
        };
        let of = |names: &[String], noun: &str| match names {
            [one] => one.clone(),
            _ => format_count(names.len() as u64, noun),
        };
        let again: BTreeSet<&str> = trials
            .iter()
            .filter(|trial| trial.role == Role::ControlAgain)
            .map(|trial| Self::name_of(&self.designs, trial.design))
            .collect();
        let again = match again.is_empty() {
            true => String::new(),
            // Designs of a sweep are called by all that varies.
            false if self.sweep.is_some() => ", and the control once more (A/A)".to_owned(),
            false => format!(", and {} once more (A/A)", again.into_iter().collect::<Vec<_>>().join(", ")),
        };
        let groups = self
            .together
            .iter()
            .map(|group| self.workloads.get(group.clone()).unwrap_or_default().join(" and "))
            .collect::<Vec<_>>();
        let together = match groups.is_empty() {
            true => String::new(),
            false => format!("; at the same time run {}", groups.join("; ")),
        };
        format!(
            "{rounds}: {}, {} under {}{again}{together}\n",
            format_count(trials.len() as u64, "trial"),
            of(&self.designs, "design"),
            of(&self.workloads, "workload")
        )
    }
}
