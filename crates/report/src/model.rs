//! The report model: everything that a view shows, already computed, in plain numbers.
//!
//! Views are pure functions of this model and compute nothing but positions on paper. Indices of
//! designs and workloads point into [`Report::designs`] and [`Report::workloads`]; text is as the
//! user wrote it, so every view escapes it for its own medium.

use super::hosts::{HostsView, TrialHosts};
use super::race::RaceView;
use super::seen::SeenView;
use super::words;
use ebbtide_analysis::ordered::entry;
use ebbtide_analysis::{AaPair, Comparison, DesignResult, Estimate, Standing, Undecided, Verdict, Warning};
use ebbtide_model::metric::Metric;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{CpuUse, Observation};
use ebbtide_model::session::{Ending, SessionMeta};
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::OpKind;

/// Everything that the views of one session need.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The session, its host and its inventory.
    pub session: SessionMeta,
    /// Whether the session is in a store, from which it can be reported again.
    pub stored: bool,
    /// Whether the text tells every trial's figure too.
    pub each_trial: bool,
    /// Whether the text tells of every design where there are many.
    pub all: bool,
    /// Name of the experiment.
    pub experiment: String,
    /// What the experiment is for, in its author's words.
    pub description: Option<String>,
    /// The experiment file's text.
    pub experiment_text: String,
    /// Confidence level of the intervals, for example 0.95.
    pub ci_level: f64,
    /// Half-width of an interval relative to its median that was asked for.
    pub precision: f64,
    /// Ratio, less 1, up to which two designs are as good as each other.
    pub indifference: f64,
    /// Rounds that have at least one finished trial.
    pub rounds: u32,
    /// The answer: one or two sentences with the figure that matters and its interval.
    pub answer: Vec<String>,
    /// Designs in the experiment's order.
    pub designs: Vec<DesignFacts>,
    /// Index of the design that the others are compared with.
    pub control: usize,
    /// Workloads in the experiment's order.
    pub workloads: Vec<WorkloadFacts>,
    /// Volumes in the experiment's order.
    pub volumes: Vec<VolumeFacts>,
    /// One result for every (workload, design) that has at least one finished trial, by workload, then design.
    pub results: Vec<ResultView>,
    /// Each design against the control.
    pub comparisons: Vec<Comparison>,
    /// The design that is ahead under each workload, against the others; none in a race.
    pub standings: Vec<Standing>,
    /// Which of them, by the metric of their workload, decide nothing.
    pub undecided: Vec<Undecided>,
    /// The control against itself.
    pub aa: Vec<AaPair>,
    /// Every trial in the order it ran.
    pub trials: Vec<TrialView>,
    /// What the reader must know before trusting a figure.
    pub warnings: Vec<Warning>,
    /// The race, where designs raced.
    pub race: Option<RaceView>,
}

/// A warning with everything that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarningOnce<'a> {
    /// What is wrong.
    pub message: &'a str,
    /// Designs and workloads; none where it is of the whole session.
    pub subjects: Vec<&'a str>,
}

impl WarningOnce<'_> {
    /// What it is about, to stand before the message; of more than five their number.
    pub(crate) fn of(&self) -> String {
        match self.subjects.as_slice() {
            [] => String::new(),
            few if few.len() <= words::MOST_NAMES => format!("{}: ", few.join("; ")),
            many => format!("{} results: ", many.len()),
        }
    }
}

/// A design as the report names it.
#[derive(Debug, Clone, PartialEq)]
pub struct DesignFacts {
    /// As the experiment names it.
    pub name: String,
    /// Its layout in words, for example `stripe of 8, chunk 256KiB`.
    pub layout: String,
    /// Names of the volumes it uses, in layout order.
    pub members: Vec<String>,
    /// Bytes that it holds, where the sizes of its volumes are known.
    pub capacity: Option<Bytes>,
    /// How many of its volumes may fail, whichever they are, before data are lost.
    pub survives: usize,
    /// US dollars a month for its volumes, where each has a price.
    pub price: Option<f64>,
}

/// A workload as the report names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadFacts {
    /// As the experiment names it.
    pub name: String,
    /// What it does in words, for example `sequential read, bs 256KiB, iodepth 16, O_DIRECT, 3s`.
    pub summary: String,
    /// The metric by which it is judged first.
    pub headline: Metric,
    /// All that its trials have.
    pub metrics: Vec<Metric>,
}

/// A volume as the report names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeFacts {
    /// As the experiment names it.
    pub name: String,
    /// Path, size, disk underneath: one phrase each.
    pub facts: Vec<String>,
    /// The shape it was given in words; absent: as fast as it is.
    pub shape: Option<String>,
}

/// What was found for one design under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultView {
    /// Index of the design.
    pub design: usize,
    /// Index of the workload.
    pub workload: usize,
    /// What the analysis says.
    pub result: DesignResult,
    /// Latency over all its trials, by operation kind.
    pub latency: PerOp<Option<LatencyView>>,
    /// Percentiles of each trial, by operation kind.
    pub percentiles: PerOp<Option<Percentiles>>,
    /// Position in [`Report::trials`] of the trial whose headline figure is the (lower) median.
    pub median_trial: Option<usize>,
    /// What was seen around its trials, where somebody looked.
    pub seen: Option<SeenView>,
    /// What each host did, where several ran its trials.
    pub hosts: Option<HostsView>,
}

/// Median over the trials of what each of them has, with its interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Percentiles {
    /// Median latency of a trial.
    pub p50: Estimate,
    /// 99th percentile of a trial.
    pub p99: Estimate,
}

/// Latency of one operation kind over all trials of a result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LatencyView {
    /// Operations counted.
    pub count: u64,
    /// (quantile 0 to 1, nanoseconds), ascending.
    pub percentiles: Vec<(f64, f64)>,
    /// (lowest, highest nanoseconds, operations) of non-empty bins, ascending.
    pub bins: Vec<(f64, f64, u64)>,
}

/// A trial as the views list it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialView {
    /// Position in the session.
    pub index: u32,
    /// Its round, from 0.
    pub round: u32,
    /// Index of the design.
    pub design: usize,
    /// Index of the workload.
    pub workload: usize,
    /// Whether it repeats the control for the A/A comparison.
    pub control_again: bool,
    /// What it gave, or why it failed.
    pub outcome: Result<TrialFigures, String>,
}

impl TrialView {
    /// Why it was run, in JSON and CSV.
    pub(crate) fn role_key(&self) -> &'static str {
        if self.control_again { "control_again" } else { "candidate" }
    }
}

/// What a finished trial gave.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrialFigures {
    /// Wall clock at the start of the measurement, seconds since the epoch.
    pub started_unix_s: f64,
    /// Length of the measurement in seconds.
    pub elapsed_s: f64,
    /// One value for each metric that was measured.
    pub values: Vec<(Metric, f64)>,
    /// Rates and latencies over the trial.
    pub series: Vec<SeriesPoint>,
    /// Names of the members, in the order of [`SeriesPoint::members`].
    pub members: Vec<String>,
    /// Things the reader must know.
    pub notes: Vec<String>,
    /// CPU that was used, where it was measured.
    pub cpu: Option<CpuUse>,
    /// What was seen around it as it was recorded, where somebody looked.
    pub observed: Option<Box<Observation>>,
    /// What each host did, where several ran it.
    pub hosts: Option<TrialHosts>,
}

impl TrialFigures {
    /// The value of `metric`, where it was measured.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.values.iter().find(|(m, _)| *m == metric).map(|(_, v)| *v)
    }
}

/// Rates during one interval.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SeriesPoint {
    /// End of the interval in seconds from the start of the measurement.
    pub end_s: f64,
    /// Bytes per second of the array.
    pub bytes_per_second: f64,
    /// Operations per second of the array.
    pub ops_per_second: f64,
    /// Bytes per second of each member.
    pub members: Vec<f64>,
}

impl Report {
    /// Name of a design; a dash for an index that the experiment does not have.
    pub fn design_name(&self, design: usize) -> &str {
        self.designs.get(design).map_or("–", |d| &d.name)
    }

    /// Name of a workload; a dash for an index that the experiment does not have.
    pub fn workload_name(&self, workload: usize) -> &str {
        self.workloads.get(workload).map_or("–", |w| &w.name)
    }

    /// The metrics of a workload.
    pub(crate) fn metrics_of(&self, workload: usize) -> Vec<Metric> {
        self.workloads.get(workload).map_or_else(|| Metric::ALL.to_vec(), |facts| facts.metrics.clone())
    }

    /// The metrics that a table of a workload has beside the one that decides: latencies, or what a program printed.
    pub(crate) fn beside_headline(&self, workload: usize) -> Vec<Metric> {
        let headline = self.workloads.get(workload).map(|facts| facts.headline);
        let rates = [Some(Metric::Throughput), Some(Metric::Iops), headline];
        self.metrics_of(workload).into_iter().filter(|metric| !rates.contains(&Some(*metric))).collect()
    }

    /// Results with what was seen around their trials, where somebody looked.
    pub(super) fn seen(&self) -> Vec<(&ResultView, &SeenView)> {
        self.results.iter().filter_map(|view| Some((view, view.seen.as_ref()?))).collect()
    }

    /// Results whose trials were on several hosts, with what each host did.
    pub(super) fn on_hosts(&self) -> Vec<(&ResultView, &HostsView)> {
        self.results.iter().filter_map(|view| Some((view, view.hosts.as_ref()?))).collect()
    }

    /// How far apart hosts began, over all results: the worst is named.
    pub(super) fn skew_in_words(&self) -> Option<String> {
        let skews = self.on_hosts().into_iter().filter_map(|(view, hosts)| Some((view, hosts.skew?)));
        let (view, (median, worst, error)) = skews.max_by(|a, b| a.1.1.total_cmp(&b.1.1))?;
        let told = ebbtide_model::units::format_latency;
        Some(format!(
            "hosts began within {} of one another (±{}) at worst, in a trial of {} under {}, where the median is {}; only the time in which \
             all were at work counts",
            told(worst),
            told(error),
            view.result.design,
            view.result.workload,
            told(median),
        ))
    }

    /// Seconds from one round to the next, where two or more have run.
    pub(super) fn time_of_a_round(&self) -> Option<f64> {
        let starts =
            || self.trials.iter().filter_map(|t| Some((t.round, t.outcome.as_ref().ok()?.started_unix_s)));
        let first = starts().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let last = starts().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let rounds = last.0.checked_sub(first.0).filter(|rounds| *rounds > 0)?;
        Some((last.1 - first.1) / f64::from(rounds))
    }

    /// The metric by which a workload is judged first.
    pub fn headline(&self, workload: usize) -> Metric {
        self.workloads.get(workload).map_or(Metric::Throughput, |w| w.headline)
    }

    /// The comparison of a design with the control under a workload by `metric`.
    pub fn comparison(&self, view: &ResultView, metric: Metric) -> Option<&Comparison> {
        self.comparisons.iter().find(|c| {
            c.design == view.result.design && c.workload == view.result.workload && c.metric == metric
        })
    }

    /// Results of one workload in the experiment's order of designs.
    pub fn results_of(&self, workload: usize) -> impl Iterator<Item = &ResultView> {
        self.results.iter().filter(move |r| r.workload == workload)
    }

    /// The trials behind a result, with their positions in [`Report::trials`].
    pub fn trials_of(&self, view: &ResultView) -> impl Iterator<Item = (usize, &TrialView)> {
        let wanted = (view.design, view.workload, false);
        let trials = self.trials.iter().enumerate();
        trials.filter(move |(_, t)| (t.design, t.workload, t.control_again) == wanted)
    }

    /// The control against itself by the metric of each workload.
    pub fn headline_aa(&self) -> impl Iterator<Item = &AaPair> {
        let judged =
            |aa: &AaPair| self.workloads.iter().any(|w| (&w.name, w.headline) == (&aa.workload, aa.metric));
        self.aa.iter().filter(move |aa| judged(aa))
    }

    /// First verdicts with the results that they were given to, in order; equal ones are told once.
    pub fn limits(&self) -> Vec<(&Verdict, Vec<&ResultView>)> {
        let mut groups: Vec<(&Verdict, Vec<&ResultView>)> = Vec::new();
        for view in &self.results {
            let Some(verdict) = view.result.verdicts.first() else { continue };
            match groups.iter_mut().find(|(v, _)| v.kind == verdict.kind && v.sentence == verdict.sentence) {
                Some((_, views)) => views.push(view),
                None => groups.push((verdict, vec![view])),
            }
        }
        groups
    }

    /// Warnings by what helps, in order: those that have the same remedy are told together, and equal ones once.
    pub fn warnings_once(&self) -> Vec<(Option<&str>, Vec<WarningOnce<'_>>)> {
        let mut groups: Vec<(Option<&str>, Vec<WarningOnce<'_>>)> = Vec::new();
        for warning in &self.warnings {
            let advice = warning.advice.as_deref();
            let alike = groups.iter().position(|(known, _)| advice.is_some() && *known == advice);
            let place = alike.unwrap_or(groups.len());
            if alike.is_none() {
                groups.push((advice, Vec::new()));
            }
            let of_advice = &mut groups[place].1;
            match of_advice.iter_mut().find(|known| known.message == warning.message) {
                Some(known) => known.subjects.extend(warning.subject.as_deref()),
                None => of_advice.push(WarningOnce {
                    message: &warning.message,
                    subjects: warning.subject.as_deref().into_iter().collect(),
                }),
            }
        }
        groups
    }

    /// Notes of trials with what they were about, `stripe-8, seqread (2 of 6 trials)`, in order; equal ones are told once.
    pub fn trial_notes(&self) -> Vec<(&str, Vec<String>)> {
        // Of each note: design and workload, and trials that carry it.
        type Carriers = Vec<((usize, usize), usize)>;
        let mut notes: Vec<(&str, Carriers)> = Vec::new();
        let finished = || self.trials.iter().filter_map(|t| Some((t, t.outcome.as_ref().ok()?)));
        for (trial, note) in finished().flat_map(|(t, figures)| figures.notes.iter().map(move |n| (t, n))) {
            *entry(entry(&mut notes, note.as_str()), (trial.design, trial.workload)) += 1;
        }
        let subject = |&((design, workload), trials): &((usize, usize), usize)| {
            let all = finished().filter(|(t, _)| (t.design, t.workload) == (design, workload)).count();
            let some = if trials < all { format!(" ({trials} of {all} trials)") } else { String::new() };
            format!("{}, {}{some}", self.design_name(design), self.workload_name(workload))
        };
        notes.into_iter().map(|(note, subjects)| (note, subjects.iter().map(subject).collect())).collect()
    }

    /// How the session ended, as a phrase.
    pub fn ending(&self) -> String {
        match &self.session.ending {
            Ending::Failed(why) => format!("failed: {why}"),
            _ if self.session.imported() => "imported: measured once, by another program".to_owned(),
            Ending::NotReached if self.session.is_once() => "measured once".to_owned(),
            Ending::Reached if self.race.is_some() => "the race is decided".to_owned(),
            Ending::NotReached if self.race.is_some() => {
                "the race was not decided within the time and rounds allowed".to_owned()
            }
            Ending::Reached if self.undecided.is_empty() => {
                "every interval is as narrow as requested".to_owned()
            }
            Ending::Reached => "as precise as requested, which does not decide every comparison".to_owned(),
            Ending::NotReached => {
                "the wanted precision was not reached within the time and trials allowed".to_owned()
            }
            Ending::Interrupted => "interrupted; what had finished is reported".to_owned(),
            Ending::Unfinished => {
                "not finished: still running, or killed; what had finished is reported".to_owned()
            }
        }
    }
}

impl TrialView {
    /// Its value of `metric`, where it finished and has one.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.outcome.as_ref().ok()?.value(metric)
    }
}

impl ResultView {
    /// How many members did at least half of an even share.
    pub fn busy_members(&self) -> usize {
        let even = 1.0 / self.result.members.len().max(1) as f64;
        self.result.members.iter().filter(|m| m.share.is_some_and(|share| share >= even / 2.0)).count()
    }

    /// Latency by operation kind, where there were operations of that kind.
    pub fn latencies(&self) -> impl Iterator<Item = (OpKind, &LatencyView)> {
        [OpKind::Read, OpKind::Write]
            .into_iter()
            .filter_map(|op| self.latency.get(op).as_ref().map(|latency| (op, latency)))
    }
}
