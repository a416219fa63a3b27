//! What an experiment would do, in figures, before anything is touched.

use ebbtide_model::experiment::{Design, Experiment, Volume, VolumeSource};
use ebbtide_model::layout::Map;
use ebbtide_model::metric::Metric;
use ebbtide_model::plan::{SHORT_RUNS_AFTER, SweepPlan};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::{Bytes, Nanos, format_count, format_waiting};
use ebbtide_model::workload::Workload;
use serde::Serialize;
use std::fmt;

/// What an experiment would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the experiment.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Volumes, equal neighbours together.
    pub volumes: Vec<VolumeSummary>,
    /// What varies, where the designs are those of a sweep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepPlan>,
    /// Designs, in the file's order.
    pub designs: Vec<DesignSummary>,
    /// Workloads, in the file's order.
    pub workloads: Vec<WorkloadSummary>,
    /// What is estimated and compared: of each workload what suits it, where the file names nothing.
    pub metrics: Vec<Metric>,
    /// Confidence level of the intervals.
    pub level: f64,
    /// Half-width of an interval that is narrow enough, relative to the median.
    pub precision: f64,
    /// Trials of one round: every workload on every design, and on the control once more.
    pub trials_per_round: u64,
    /// Least and most rounds.
    pub rounds: (u32, u32),
    /// Space that the run's own files take.
    pub new_file_bytes: u64,
    /// Time of one round in nanoseconds, without filling files; absent when a workload ends by size.
    pub round_ns: Option<u64>,
    /// Time of the least rounds, in nanoseconds.
    pub least_ns: Option<u64>,
    /// Longest time in nanoseconds: no round starts after the budget, and the last one ends.
    pub longest_ns: Option<u64>,
    /// Things worth knowing before the run.
    pub notes: Vec<String>,
}

/// Volumes that differ in their names only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VolumeSummary {
    /// Names of the volumes.
    pub names: Vec<String>,
    /// What they are, for people.
    pub what: String,
}

/// A design in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DesignSummary {
    /// Name of the design.
    pub name: String,
    /// Whether the others are compared with it.
    pub control: bool,
    /// The layout, for people.
    pub what: String,
    /// Volumes that it uses.
    pub members: usize,
    /// Capacity in bytes, where the sizes of its volumes are known.
    pub capacity: Option<Bytes>,
}

/// A workload in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkloadSummary {
    /// Name of the workload.
    pub name: String,
    /// Of workloads that run at the same time: what they have in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What it does, for people.
    pub what: String,
}

impl Summary {
    /// What `experiment` would do.
    pub fn new(experiment: &Experiment) -> Summary {
        let trials_per_round = (experiment.workloads.len() as u64) * (experiment.designs.len() as u64 + 1);
        let round = experiment.round_time().map(|round| round.0);
        let (least, most) = (experiment.answer.trials_min, experiment.answer.trials_max);
        let least_time = round.map(|round| round.saturating_mul(least.into()));
        let longest = round.map(|round| {
            // A round that starts just before the budget's end is the last.
            round.saturating_mul(most.into()).min(experiment.answer.budget.0.saturating_add(round))
        });
        let new_files =
            experiment.volumes.iter().filter(|volume| matches!(volume.source, VolumeSource::NewFile { .. }));
        Summary {
            name: experiment.name.clone(),
            description: experiment.description.clone(),
            volumes: volume_summaries(experiment),
            sweep: SweepPlan::of(experiment),
            designs: design_summaries(experiment),
            workloads: experiment
                .workloads
                .iter()
                .map(|workload| WorkloadSummary {
                    name: workload.name.clone(),
                    group: workload.group.clone(),
                    what: describe_workload(workload),
                })
                .collect(),
            metrics: experiment.metrics(),
            level: experiment.answer.level,
            precision: experiment.answer.precision,
            trials_per_round,
            rounds: (least, most),
            new_file_bytes: new_files
                .filter_map(|volume| volume.size)
                .fold(0, |sum, size| sum.saturating_add(size.0)),
            round_ns: round,
            least_ns: least_time,
            longest_ns: longest,
            notes: notes(experiment),
        }
    }
}

fn volume_summaries(experiment: &Experiment) -> Vec<VolumeSummary> {
    let mut groups: Vec<VolumeSummary> = Vec::new();
    for volume in &experiment.volumes {
        let what = describe_volume(volume, experiment);
        match groups.last_mut().filter(|group| group.what == what) {
            Some(group) => group.names.push(volume.name.clone()),
            None => groups.push(VolumeSummary { names: vec![volume.name.clone()], what }),
        }
    }
    groups
}

fn design_summaries(experiment: &Experiment) -> Vec<DesignSummary> {
    let sizes: Vec<Bytes> = experiment.volumes.iter().map(|volume| volume.size.unwrap_or_default()).collect();
    let summary = |(index, design): (usize, &Design)| {
        let leaves = design.layout.volumes();
        let known = leaves
            .iter()
            .all(|leaf| experiment.volumes.get(*leaf).is_some_and(|volume| volume.size.is_some()));
        let map = if known { Map::new(&design.layout, &sizes).ok() } else { None };
        DesignSummary {
            name: design.name.clone(),
            control: index == experiment.control,
            what: design.what(),
            members: leaves.len(),
            capacity: map.map(|map| map.capacity()).filter(|_| design.stack.directory.is_none()),
        }
    };
    experiment.designs.iter().enumerate().map(summary).collect()
}

fn notes(experiment: &Experiment) -> Vec<String> {
    let mut notes: Vec<String> = unused_volumes(experiment).into_iter().collect();
    notes.extend(experiment.cannot_decide());
    notes.extend(experiment.refused_in_user_space().map(|why| format!("`--on files` refuses this: {why}")));
    if experiment.designs.len() == 1 {
        notes.push("a single design is measured, and compared with nothing but itself".to_owned());
    }
    notes
}

/// Up to so many volumes that are in no design are named.
const MOST_NAMES: usize = 8;

/// Which volumes are in no design, in one sentence.
fn unused_volumes(experiment: &Experiment) -> Option<String> {
    let used = experiment.used_volumes();
    let volumes = experiment.volumes.iter().enumerate();
    let unused: Vec<&str> =
        volumes.filter(|(index, _)| !used.contains(index)).map(|(_, volume)| volume.name.as_str()).collect();
    match unused.as_slice() {
        [] => None,
        [one] => Some(format!("volume {one} is in no design")),
        [most @ .., last] if unused.len() <= MOST_NAMES => {
            Some(format!("volumes {} and {last} are in no design", most.join(", ")))
        }
        [first, .., last] => {
            Some(format!("{} volumes, from {first} to {last}, are in no design", unused.len()))
        }
    }
}

fn describe_volume(volume: &Volume, experiment: &Experiment) -> String {
    let source = match &volume.source {
        VolumeSource::NewFile { directory: None } => "new file".to_owned(),
        VolumeSource::NewFile { directory: Some(directory) } => {
            format!("new file in {}", directory.shown())
        }
        VolumeSource::ExistingFile { path } => format!("file {}", path.shown()),
        VolumeSource::Device { path, .. } => format!("device {}", path.shown()),
    };
    let size = volume.size.map_or_else(|| "its own size".to_owned(), |size| size.short());
    let host = volume.host.as_ref().map_or_else(String::new, |host| format!(", on host {host}"));
    match &volume.shape {
        None => format!("{size}, {source}, as fast as it is{host}"),
        Some(shape) => {
            let link = shape.link.and_then(|link| experiment.links.get(link));
            let link = link.map_or_else(String::new, |link| format!(", on link {}", link.name));
            format!("{size}, {source}, {shape}{link}{host}")
        }
    }
}

fn describe_workload(workload: &Workload) -> String {
    [Some(workload.in_words()), workload.before_in_words()]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

/// A fraction in percent, to a hundredth: `5%`, `99.5%`.
fn percent(fraction: f64) -> String {
    format!("{}%", (fraction * 10_000.0).round() / 100.0)
}

/// `{:#}` lists every design of a sweep.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.description {
            // Its own lines stand apart from those of the table.
            Some(description) => {
                writeln!(f, "{}: {}", self.name, description.trim_end().replace('\n', "\n    "))?;
            }
            None => writeln!(f, "{}", self.name)?,
        }
        for (index, volumes) in self.volumes.iter().enumerate() {
            let names = match volumes.names.as_slice() {
                [first, _, .., last] => format!("{first} .. {last} ({})", volumes.names.len()),
                names => names.join(", "),
            };
            row(f, index, "volumes", &names, &volumes.what)?;
        }
        let swept = |design: &&DesignSummary| {
            self.sweep.as_ref().is_none_or(|sweep| design.control || !sweep.designs.contains(&design.name))
        };
        for (index, design) in self.designs.iter().filter(swept).enumerate() {
            let capacity = design.capacity.map(|bytes| format!(", {}", bytes.short())).unwrap_or_default();
            let control = if design.control { " (control)" } else { "" };
            row(f, index, "designs", &design.name, &format!("{}{capacity}{control}", design.what))?;
        }
        let all = f.alternate();
        for (heading, what) in self.sweep.iter().flat_map(|sweep| sweep.rows(all)) {
            writeln!(f, "  {heading:<18} {what}")?;
        }
        for (index, workload) in self.workloads.iter().enumerate() {
            row(f, index, "workloads", &workload.name, &workload.what)?;
        }
        let metrics: Vec<&str> = self.metrics.iter().map(|metric| metric.in_words()).collect();
        let (within, level) = (percent(self.precision), percent(self.level));
        let answer = format!("{}: median within {within} at {level} confidence", metrics.join(", "));
        writeln!(f, "  {:<10} {answer}", "answer")?;
        let (least, most) = self.rounds;
        let rounds = if least == most { String::new() } else { format!("{least} to ") };
        let (most, trials) = (format_count(most.into(), "round"), self.trials_per_round);
        writeln!(f, "  {:<10} {rounds}{most} of {}", "trials", format_count(trials, "trial"))?;
        if self.new_file_bytes > 0 {
            writeln!(f, "  {:<10} {} of new files", "space", Bytes(self.new_file_bytes).short())?;
        }
        match (self.least_ns, self.longest_ns) {
            (Some(least), Some(longest)) => {
                let fill = if self.new_file_bytes > 0 { ", and the time to fill new files" } else { "" };
                let cut = if least > longest { ", when the budget ends it" } else { "" };
                let [least, longest] = [least.min(longest), longest].map(|time| format_waiting(Nanos(time)));
                let span = if least == longest { longest } else { format!("{least} to {longest}") };
                let fill = format!("{cut}{fill}");
                writeln!(f, "  {:<10} {span}{fill}", "time")?;
                writeln!(f, "  {:<10} {SHORT_RUNS_AFTER}", "")?;
            }
            _ => {
                let why = "a workload ends by size or is a program, and not by time";
                writeln!(f, "  {:<10} not known: {why}", "time")?;
            }
        }
        for note in &self.notes {
            writeln!(f, "  note: {note}")?;
        }
        Ok(())
    }
}

/// One line of the table; the heading stands on its first line only.
fn row(f: &mut fmt::Formatter<'_>, index: usize, heading: &str, name: &str, what: &str) -> fmt::Result {
    let heading = if index == 0 { heading } else { "" };
    writeln!(f, "  {heading:<10} {name:<16} {what}")
}
