//! From a session and what the analysis says of it to the report model.

use super::brief::is_large;
use super::hosts::{HostsView, TrialHosts};
use super::html::MOST_TRIALS;
use super::model::{
    DesignFacts, LatencyView, Percentiles, Report, ResultView, SeriesPoint, TrialFigures, TrialView,
    VolumeFacts, WorkloadFacts,
};
use super::race::RaceView;
use super::seen::SeenView;
use super::{answer, describe, words};
use ebbtide_analysis::estimate::estimate;
use ebbtide_analysis::trials::{by_design, of};
use ebbtide_analysis::{Analysis, DesignResult, metrics, primary, undecided};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::metric::Metric;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Histogram, TrialSamples};
use ebbtide_model::schedule::Role;
use ebbtide_model::session::{Outcome, Session, TrialRecord};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::volume::Shape;
use ebbtide_model::workload::{OpKind, Workload};

/// Quantiles of the latency plots and of JSON, in the places where people look.
const QUANTILES: [f64; 22] = [
    0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999,
    0.9995, 0.9999, 0.99999,
];

/// Bins of the latency distribution for each power of two.
const BINS_PER_OCTAVE: f64 = 6.0;

/// What is kept of each trial beside its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// Nothing: for text, CSV, and JSON without series.
    Figures,
    /// The series that are drawn: of the trial in the middle of each result, and of the first others.
    Drawn {
        /// How many of the other trials, the first ones, keep theirs too.
        others: usize,
    },
    /// Series and observations of every trial.
    All,
}

impl Kept {
    /// For a page of what `experiment` measured.
    pub fn drawn(experiment: &Experiment) -> Kept {
        Kept::Drawn { others: if is_large(experiment.designs.len()) { 0 } else { MOST_TRIALS } }
    }
}

/// What a report has to say of one design, of whose trials only that is kept.
#[derive(Debug, Clone)]
pub struct OfDesign {
    trials: Vec<TrialView>,
    /// With the place of the trial in the middle among those of the design.
    results: Vec<ResultView>,
}

impl OfDesign {
    /// From all the trials of a design and what the analysis says of them; of `session` its trials are not looked at.
    pub fn new(
        session: &Session,
        part: &ebbtide_analysis::OfDesign,
        records: &[&TrialRecord],
        kept: Kept,
    ) -> OfDesign {
        OfDesign::of(session, (part.design(), part.results()), records, kept)
    }

    fn of(
        session: &Session,
        (design, results): (usize, &[DesignResult]),
        records: &[&TrialRecord],
        kept: Kept,
    ) -> OfDesign {
        let mut trials: Vec<TrialView> =
            records.iter().map(|record| trial(session, record, kept == Kept::All)).collect();
        let views = results.iter().enumerate();
        let results: Vec<ResultView> = views
            .map(|(workload, result)| result_view(session, &trials, records, result, (design, workload)))
            .collect();
        if let Kept::Drawn { others } = kept {
            for view in &results {
                draw(&mut trials, records, view, others);
            }
        }
        OfDesign { trials, results }
    }
}

/// Adds the series that are drawn of a result.
fn draw(trials: &mut [TrialView], records: &[&TrialRecord], view: &ResultView, others: usize) {
    let mut left = others;
    for (place, (trial, record)) in trials.iter_mut().zip(records).enumerate() {
        let is_middle = view.median_trial == Some(place);
        if trial.workload != view.workload || trial.control_again || (left == 0 && !is_middle) {
            continue;
        }
        if let (Ok(figures), Outcome::Samples(samples)) = (&mut trial.outcome, &record.outcome) {
            add_series(figures, samples);
            left -= usize::from(!is_middle);
        }
    }
}

/// What of the workload `index` is another for each design of a sweep, as an end to its summary.
fn varied(experiment: &Experiment, index: usize) -> String {
    let sweep = experiment.sweep.as_ref().filter(|sweep| sweep.workload == index);
    let fields = sweep.into_iter().flat_map(|sweep| &sweep.factors);
    let varied: Vec<String> =
        fields.filter_map(|factor| factor.name.strip_prefix("workload.").map(str::to_owned)).collect();
    match varied.len() {
        0 => String::new(),
        1 => format!("; {} varies", varied[0]),
        _ => format!("; {} vary", words::list(&varied)),
    }
}

impl Report {
    /// Everything that the views of `session` need.
    pub fn new(session: &Session, analysis: &Analysis) -> Report {
        Report::with(session, analysis, Kept::All)
    }

    /// The same for views that need no more than what is `kept` of each trial.
    pub fn with(session: &Session, analysis: &Analysis, kept: Kept) -> Report {
        let records = by_design(session);
        let results = analysis.results.chunks(session.experiment.workloads.len().max(1));
        let parts = records
            .iter()
            .zip(results)
            .enumerate()
            .map(|(design, (records, results))| OfDesign::of(session, (design, results), records, kept));
        let parts = parts.collect();
        Report::together(session, analysis.clone(), parts)
    }

    /// From what there is to say of each design; of `session` its trials are not looked at.
    pub fn together(session: &Session, analysis: Analysis, parts: Vec<OfDesign>) -> Report {
        let experiment = &session.experiment;
        let workloads: Vec<WorkloadFacts> = experiment
            .workloads
            .iter()
            .enumerate()
            .map(|(index, workload)| WorkloadFacts {
                name: workload.name.clone(),
                summary: workload.in_words() + &varied(experiment, index),
                headline: primary(&experiment.answer, workload),
                metrics: Metric::of(workload),
            })
            .collect();
        let sizes = sizes(session);
        let designs: Vec<DesignFacts> = experiment
            .designs
            .iter()
            .map(|design| DesignFacts {
                name: design.name.clone(),
                layout: design.what(),
                members: describe::leaves(&design.layout, experiment),
                capacity: design.layout.capacity(&sizes).filter(|_| design.stack.directory.is_none()),
                survives: design.layout.survives(),
                price: design.price(&experiment.volumes).ok(),
            })
            .collect();
        let (trials, mut results) = in_order(parts);
        if session.meta.is_once() {
            // Each job has a design and a workload, and the other pairs were never asked for.
            results.retain(|view| view.result.trials > 0 || !view.result.failed.is_empty());
        }
        let mut rounds: Vec<u32> = trials.iter().filter(|t| t.outcome.is_ok()).map(|t| t.round).collect();
        rounds.sort_unstable();
        rounds.dedup();
        let mut report = Report {
            session: session.meta.clone(),
            stored: true,
            each_trial: false,
            all: false,
            experiment: experiment.name.clone(),
            description: experiment.description.clone(),
            experiment_text: session.experiment_text.clone(),
            ci_level: experiment.answer.level,
            precision: experiment.answer.precision,
            indifference: experiment.answer.indifference,
            rounds: rounds.len() as u32,
            answer: Vec::new(),
            control: experiment.control,
            volumes: volumes(session),
            undecided: undecided(experiment, &analysis),
            standings: analysis.standings,
            comparisons: analysis.comparisons,
            aa: analysis.aa,
            warnings: analysis.warnings,
            race: analysis
                .race
                .as_ref()
                .zip(analysis.factors.as_ref())
                .and_then(|(raced, found)| RaceView::new(experiment, raced, found)),
            designs,
            workloads,
            results,
            trials,
        };
        report.answer = answer::sentences(&report);
        report
    }
}

/// The sizes of the volumes, where they were found or are said.
fn sizes(session: &Session) -> Vec<Option<Bytes>> {
    let volumes = session.experiment.volumes.iter().enumerate();
    let found = |index: usize| session.meta.inventory.volumes.get(index).map(|found| found.size);
    volumes.map(|(index, volume)| found(index).or(volume.size)).collect()
}

/// The trials in the order in which they ran, and the results by workload and design.
fn in_order(parts: Vec<OfDesign>) -> (Vec<TrialView>, Vec<ResultView>) {
    let (mut trials, mut results) = (Vec::new(), Vec::new());
    for part in parts {
        let first = trials.len();
        trials.extend(part.trials);
        results.extend(
            part.results.into_iter().map(|view| ResultView {
                median_trial: view.median_trial.map(|place| first + place),
                ..view
            }),
        );
    }
    let mut order: Vec<usize> = (0..trials.len()).collect();
    order.sort_by_key(|place| trials[*place].index);
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, former)| places[*former] = place);
    for view in &mut results {
        view.median_trial = view.median_trial.map(|former| places[former]);
    }
    trials.sort_by_key(|trial: &TrialView| trial.index);
    results.sort_by_key(|view| (view.workload, view.design));
    (trials, results)
}

fn volumes(session: &Session) -> Vec<VolumeFacts> {
    session
        .experiment
        .volumes
        .iter()
        .enumerate()
        .map(|(index, volume)| {
            let mut facts = Vec::new();
            if let Some(found) = session.meta.inventory.volumes.get(index) {
                facts.push(found.size.short());
                facts.push(found.path.clone());
                if let Some(filesystem) = &found.filesystem {
                    facts.push(filesystem.clone());
                }
                facts.extend(found.through.clone());
                match (&found.disk_name, &found.disk) {
                    _ if !found.disks.is_empty() => {}
                    (Some(name), Some(number)) => facts.push(format!("on {name} ({number})")),
                    (Some(one), None) | (None, Some(one)) => facts.push(format!("on {one}")),
                    (None, None) => {}
                }
                facts.push(if found.direct { "O_DIRECT" } else { "no O_DIRECT" }.to_owned());
            } else if let Some(size) = volume.size {
                facts.push(size.short());
            }
            VolumeFacts {
                name: volume.name.clone(),
                facts,
                shape: volume.shape.as_ref().map(Shape::to_string),
            }
        })
        .collect()
}

fn trial(session: &Session, record: &TrialRecord, all: bool) -> TrialView {
    let asked = session.experiment.load(record.trial.design, record.trial.workload);
    TrialView {
        index: record.trial.index,
        round: record.trial.round,
        design: record.trial.design,
        workload: record.trial.workload,
        control_again: record.trial.role == Role::ControlAgain,
        outcome: match &record.outcome {
            Outcome::Samples(samples) => Ok(figures(asked, samples, all)),
            Outcome::Failed(why) => Err(why.clone()),
        },
    }
}

fn figures(asked: Option<&Workload>, samples: &TrialSamples, all: bool) -> TrialFigures {
    let mut figures = TrialFigures {
        started_unix_s: samples.started_unix.as_secs_f64(),
        elapsed_s: samples.elapsed.as_secs_f64(),
        values: asked.map_or_else(Vec::new, |asked| metrics(asked, samples)),
        series: Vec::new(),
        members: Vec::new(),
        notes: samples.notes.clone(),
        cpu: (samples.cpu.cores > 0).then_some(samples.cpu),
        observed: None,
        hosts: TrialHosts::new(samples),
    };
    if all {
        add_series(&mut figures, samples);
        figures.observed.clone_from(&samples.observed);
    }
    figures
}

fn add_series(figures: &mut TrialFigures, samples: &TrialSamples) {
    figures.series = series(samples);
    figures.members = samples.members.iter().map(|m| m.name.clone()).collect();
}

/// Rates interval by interval; an interval without length is left out.
fn series(samples: &TrialSamples) -> Vec<SeriesPoint> {
    let mut start = Nanos(0);
    let mut points = Vec::with_capacity(samples.series.len());
    for interval in &samples.series {
        let seconds = interval.end.since(start).as_secs_f64();
        start = interval.end;
        if seconds <= 0.0 {
            continue;
        }
        let array = interval.array.total();
        points.push(SeriesPoint {
            end_s: interval.end.as_secs_f64(),
            bytes_per_second: array.bytes as f64 / seconds,
            ops_per_second: array.ops as f64 / seconds,
            members: interval.members.iter().map(|m| m.total().bytes as f64 / seconds).collect(),
        });
    }
    points
}

fn result_view(
    session: &Session,
    trials: &[TrialView],
    records: &[&TrialRecord],
    result: &DesignResult,
    (design, workload): (usize, usize),
) -> ResultView {
    let finished: Vec<&TrialSamples> = of(records, workload, Role::Candidate)
        .filter_map(|record| match &record.outcome {
            Outcome::Samples(samples) => Some(samples.as_ref()),
            Outcome::Failed(_) => None,
        })
        .collect();
    let merged = |op: OpKind| -> Option<LatencyView> {
        let all = Histogram::sum_of(finished.iter().map(|samples| &samples.array.get(op).latency));
        (!all.is_empty()).then(|| latency_view(&all))
    };
    let level = session.experiment.answer.level;
    let percentiles = |op: OpKind| -> Option<Percentiles> {
        let of_each = |p: f64| -> Vec<f64> {
            let latencies = finished.iter().map(|samples| &samples.array.get(op).latency);
            latencies.filter_map(|latency| Some(latency.percentile(p)? as f64)).collect()
        };
        Some(Percentiles { p50: estimate(&of_each(50.0), level)?, p99: estimate(&of_each(99.0), level)? })
    };
    let mut candidates: Vec<(usize, f64)> = trials
        .iter()
        .enumerate()
        .filter(|(_, t)| t.workload == workload && !t.control_again)
        .filter_map(|(position, t)| Some((position, t.value(result.primary)?)))
        .collect();
    candidates.sort_by(|a, b| a.1.total_cmp(&b.1));
    ResultView {
        design,
        workload,
        result: result.clone(),
        latency: PerOp { read: merged(OpKind::Read), write: merged(OpKind::Write) },
        percentiles: PerOp { read: percentiles(OpKind::Read), write: percentiles(OpKind::Write) },
        median_trial: candidates.get(candidates.len().saturating_sub(1) / 2).map(|(position, _)| *position),
        seen: SeenView::new(&finished),
        hosts: HostsView::new(&finished, level),
    }
}

/// Percentiles that enough operations stand behind, and bins of equal width in the logarithm.
fn latency_view(histogram: &Histogram) -> LatencyView {
    let count = histogram.count();
    let percentiles = QUANTILES
        .into_iter()
        .chain([1.0])
        .filter(|&q| q == 1.0 || (1.0 - q) * count as f64 >= 1.0)
        .filter_map(|q| Some((q, histogram.percentile(q * 100.0)? as f64)))
        .collect();
    let mut bins: Vec<(f64, f64, u64)> = Vec::new();
    for bucket in histogram.buckets() {
        let middle = (bucket.low as f64 + bucket.high as f64) / 2.0;
        let index = libm::floor(libm::log2(middle.max(1.0)) * BINS_PER_OCTAVE);
        let low = libm::exp2(index / BINS_PER_OCTAVE);
        match bins.last_mut() {
            Some(last) if last.0 == low => last.2 += bucket.count,
            _ => bins.push((low, libm::exp2((index + 1.0) / BINS_PER_OCTAVE), bucket.count)),
        }
    }
    LatencyView { count, percentiles, bins }
}
