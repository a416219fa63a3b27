//! From a session and what the analysis says of it to the report model.

use super::model::{
    DesignFacts, LatencyView, Percentiles, Report, ResultView, SeriesPoint, TrialFigures, TrialView,
    VolumeFacts, WorkloadFacts,
};
use super::seen::SeenView;
use super::{answer, describe};
use ebbtide_analysis::estimate::estimate;
use ebbtide_analysis::{Analysis, DesignResult, metric, primary, undecided};
use ebbtide_model::metric::Metric;
use ebbtide_model::plan::Role;
use ebbtide_model::samples::{Count, Histogram, PerOp, TrialSamples};
use ebbtide_model::session::{Outcome, Session, TrialRecord};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::OpKind;

/// Quantiles of the latency plots and of JSON, in the places where people look.
const QUANTILES: [f64; 22] = [
    0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999,
    0.9995, 0.9999, 0.99999,
];

/// Bins of the latency distribution for each power of two.
const BINS_PER_OCTAVE: f64 = 6.0;

impl Report {
    /// Everything that the views of `session` need.
    pub fn new(session: &Session, analysis: &Analysis) -> Report {
        let experiment = &session.experiment;
        let workloads: Vec<WorkloadFacts> = experiment
            .workloads
            .iter()
            .map(|workload| WorkloadFacts {
                name: workload.name.clone(),
                summary: describe::workload(workload),
                verb: describe::verb(workload),
                headline: primary(&experiment.answer, workload),
            })
            .collect();
        let designs: Vec<DesignFacts> = experiment
            .designs
            .iter()
            .map(|design| DesignFacts {
                name: design.name.clone(),
                layout: design.layout.to_string(),
                members: describe::leaves(&design.layout, experiment),
            })
            .collect();
        let trials: Vec<TrialView> = session.trials.iter().map(trial).collect();
        let mut results: Vec<ResultView> = analysis
            .results
            .iter()
            .filter_map(|result| {
                let design = designs.iter().position(|d| d.name == result.design)?;
                let workload = workloads.iter().position(|w| w.name == result.workload)?;
                Some(result_view(session, &trials, result, (design, workload)))
            })
            .collect();
        results.sort_by_key(|view| (view.workload, view.design));
        let mut rounds: Vec<u32> = trials.iter().filter(|t| t.outcome.is_ok()).map(|t| t.round).collect();
        rounds.sort_unstable();
        rounds.dedup();
        let mut report = Report {
            session: session.meta.clone(),
            stored: true,
            each_trial: false,
            experiment: experiment.name.clone(),
            description: experiment.description.clone(),
            experiment_text: session.experiment_text.clone(),
            ci_level: experiment.answer.level,
            precision: experiment.answer.precision,
            rounds: rounds.len() as u32,
            answer: Vec::new(),
            control: experiment.control,
            volumes: volumes(session),
            comparisons: analysis.comparisons.clone(),
            undecided: undecided(experiment, &analysis.comparisons),
            aa: analysis.aa.clone(),
            warnings: analysis.warnings.clone(),
            designs,
            workloads,
            results,
            trials,
        };
        report.answer = answer::sentences(&report);
        report
    }
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
                facts.push(Bytes(found.size).short());
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
            VolumeFacts { name: volume.name.clone(), facts, shape: describe::volume_shape(volume) }
        })
        .collect()
}

fn trial(record: &TrialRecord) -> TrialView {
    TrialView {
        index: record.trial.index,
        round: record.trial.round,
        design: record.trial.design,
        workload: record.trial.workload,
        control_again: record.trial.role == Role::ControlAgain,
        outcome: match &record.outcome {
            Outcome::Samples(samples) => Ok(figures(samples)),
            Outcome::Failed(why) => Err(why.clone()),
        },
    }
}

fn figures(samples: &TrialSamples) -> TrialFigures {
    let elapsed_s = samples.elapsed.as_secs_f64();
    TrialFigures {
        started_unix_s: samples.started_unix.as_secs_f64(),
        elapsed_s,
        values: Metric::ALL.into_iter().filter_map(|m| Some((m, metric(samples, m)?))).collect(),
        series: series(samples),
        members: samples.members.iter().map(|m| m.name.clone()).collect(),
        notes: samples.notes.clone(),
        cpu: (samples.cpu.cores > 0).then_some(samples.cpu),
        observed: samples.observed.clone(),
    }
}

/// Reads and writes together.
fn both(per_op: &PerOp<Count>) -> Count {
    Count {
        ops: per_op.read.ops.saturating_add(per_op.write.ops),
        bytes: per_op.read.bytes.saturating_add(per_op.write.bytes),
    }
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
        let array = both(&interval.array);
        points.push(SeriesPoint {
            end_s: interval.end.as_secs_f64(),
            bytes_per_second: array.bytes as f64 / seconds,
            ops_per_second: array.ops as f64 / seconds,
            members: interval.members.iter().map(|m| both(m).bytes as f64 / seconds).collect(),
        });
    }
    points
}

fn result_view(
    session: &Session,
    trials: &[TrialView],
    result: &DesignResult,
    (design, workload): (usize, usize),
) -> ResultView {
    let finished: Vec<&TrialSamples> = session
        .trials
        .iter()
        .filter(|record| {
            let trial = &record.trial;
            (trial.design, trial.workload, trial.role) == (design, workload, Role::Candidate)
        })
        .filter_map(|record| match &record.outcome {
            Outcome::Samples(samples) => Some(samples.as_ref()),
            Outcome::Failed(_) => None,
        })
        .collect();
    let merged = |op: OpKind| -> Option<LatencyView> {
        let mut all = Histogram::default();
        finished.iter().for_each(|samples| all.merge(&samples.array.get(op).latency));
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
        .filter(|(_, t)| t.design == design && t.workload == workload && !t.control_again)
        .filter_map(|(position, t)| Some((position, t.outcome.as_ref().ok()?.value(result.primary)?)))
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
