//! What a design does in the simulator: the trials that `ebb run --on sim` makes of its experiment, without those that compare the
//! design with itself.

use crate::candidates::Candidate;
use crate::rules::Shortfall;
use crate::write::{LATENCY, RANDOM, SEQUENTIAL, experiment};
use ebbtide_analysis::estimate::estimate;
use ebbtide_analysis::metric;
use ebbtide_experiment::{ExperimentErrors, NoFiles, parse_with};
use ebbtide_model::backend::{BackendError, Control};
use ebbtide_model::catalog::Catalog;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::metric::Metric;
use ebbtide_model::need::Need;
use ebbtide_model::schedule::{Role, Schedule};
use ebbtide_model::units::{format_alike, format_latency};
use ebbtide_sim::simulate;
use serde::Serialize;

/// Seed of every prediction: that of the command which the experiment names.
const SEED: u64 = 1;

/// A median with its exact interval over trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// In the unit of what is predicted.
    pub median: f64,
    /// Lower end of the interval at 95%.
    pub ci_low: f64,
    /// Upper end of the interval.
    pub ci_high: f64,
}

/// What the simulator predicts of a design.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// Bytes per second from one end to the other.
    pub throughput: Interval,
    /// Random operations per second, as many as there can be.
    pub iops: Interval,
    /// 99th percentile of latency in nanoseconds, at the rate that is needed.
    pub lat_p99: Interval,
    /// The experiment that this comes from.
    #[serde(skip)]
    pub experiment: String,
}

/// Why a design has no figures.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// The language does not take its experiment.
    #[error(transparent)]
    Experiment(#[from] ExperimentErrors),
    /// The simulator does not take it.
    #[error(transparent)]
    Simulation(#[from] BackendError),
    /// Nothing was measured of a workload.
    #[error("the experiment has no figure for `{workload}`")]
    NoFigure {
        /// The workload's name.
        workload: String,
    },
    /// It was left out.
    #[error("it was not simulated")]
    NotSimulated,
}

/// Predicts designs, each by itself, in their order.
pub type Predict<'p> = &'p dyn Fn(&[&Candidate<'_>]) -> Vec<Result<Prediction, PredictError>>;

/// Predicts what `candidate` does. A pure function: may run on any thread.
///
/// # Errors
/// What the simulator or the language says of an experiment that it does not take.
pub fn predict(
    candidate: &Candidate<'_>,
    need: &Need,
    catalog: &Catalog,
) -> Result<Prediction, PredictError> {
    let text = experiment(candidate, need);
    let parsed = parse_with(&text, &candidate.name(), catalog, &NoFiles)?;
    let of = |workload: &str, what: Metric| interval(&parsed, workload, what);
    Ok(Prediction {
        throughput: of(SEQUENTIAL, Metric::Throughput)?,
        iops: of(RANDOM, Metric::Iops)?,
        lat_p99: of(LATENCY, Metric::LatP99)?,
        experiment: text,
    })
}

fn interval(experiment: &Experiment, workload: &str, what: Metric) -> Result<Interval, PredictError> {
    let missing = || PredictError::NoFigure { workload: workload.to_owned() };
    let index = experiment.workloads.iter().position(|known| known.name == workload).ok_or_else(missing)?;
    let schedule = Schedule::new(experiment, SEED);
    let design = experiment.designs.first().ok_or_else(missing)?;
    let load = experiment.load(0, index).ok_or_else(missing)?;
    let trials = (0..experiment.answer.trials_min).flat_map(|round| schedule.round(round));
    let wanted = trials.filter(|trial| trial.role == Role::Candidate && trial.workload == index);
    let mut values = Vec::new();
    for trial in wanted {
        let samples = simulate(experiment, SEED, design, load, &trial, &Control::default())?;
        values.extend(metric(&samples, what));
    }
    let found = estimate(&values, experiment.answer.level).ok_or_else(missing)?;
    let (ci_low, ci_high) = found.interval.ok_or_else(missing)?;
    Ok(Interval { median: found.median, ci_low, ci_high })
}

/// What a prediction lacks of the need: medians of rates must reach it, and all that the interval of the latency has.
pub(crate) fn missed(prediction: &Prediction, need: &Need) -> Option<Shortfall> {
    let too_few = |found: &Interval, rate: Option<f64>| rate.filter(|rate| found.median < *rate);
    let short = |why: &str, by: String, has| Some(Shortfall::new(format!("predicted: {why}"), by, has));
    if let Some(rate) = too_few(&prediction.iops, need.iops) {
        let (found, asked) = format_alike(prediction.iops.median, rate, "");
        let by = format!("a median of {found} of the {asked} IOPS needed");
        return short("too few operations", by, prediction.iops.median / rate);
    }
    if let Some(rate) = too_few(&prediction.throughput, need.throughput) {
        let (found, asked) = format_alike(prediction.throughput.median, rate, "B/s");
        let by = format!("a median of {found} of the {asked} needed");
        return short("too few bytes", by, prediction.throughput.median / rate);
    }
    let found = prediction.lat_p99.ci_high;
    let asked = need.lat_p99.filter(|asked| found > asked.0 as f64)?;
    let by = format!("p99 up to {}, {} is asked for", format_latency(found), format_latency(asked.0 as f64));
    let short = Shortfall::new("predicted: latency while the operations arrive", by, asked.0 as f64 / found);
    Some(Shortfall { is_latency: true, ..short })
}
