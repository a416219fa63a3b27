//! From a session to what may be said of it.

use super::compare::{self, Ratio};
use super::estimate::{estimate, lag1_autocorrelation, least_trials};
use super::metrics::{metric, natural, primary};
use super::steady::{self, Judged};
use super::{
    AaPair, Analysis, Comparison, DesignResult, VerdictKind, Warning, WarningKind, below, members, verdict,
};
use ebbtide_model::metric::Metric;
use ebbtide_model::plan::Role;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::session::{Ending, Outcome, Session, TrialRecord};

/// Estimates, comparisons, verdicts and warnings of a session, finished or not. Pure: the same session
/// always gives the same analysis.
pub fn analyse(session: &Session) -> Analysis {
    let experiment = &session.experiment;
    let mut analysis = Analysis::default();
    for design in 0..experiment.designs.len() {
        for workload in 0..experiment.workloads.len() {
            analysis.results.push(result(session, design, workload));
            if design != experiment.control {
                compare_with_control(session, design, workload, &mut analysis.comparisons);
            }
        }
    }
    for workload in 0..experiment.workloads.len() {
        control_with_itself(session, workload, &mut analysis);
    }
    warn(session, &mut analysis);
    analysis
}

/// Samples of one design under one workload in one role, with their rounds.
pub(super) fn samples(
    session: &Session,
    design: usize,
    workload: usize,
    role: Role,
) -> impl Iterator<Item = (u32, &TrialSamples)> {
    records(session, design, workload, role).filter_map(|record| match &record.outcome {
        Outcome::Samples(samples) if samples.elapsed.0 > 0 => Some((record.trial.round, samples.as_ref())),
        _ => None,
    })
}

fn records(
    session: &Session,
    design: usize,
    workload: usize,
    role: Role,
) -> impl Iterator<Item = &TrialRecord> {
    session.trials.iter().filter(move |record| {
        let trial = &record.trial;
        trial.design == design && trial.workload == workload && trial.role == role
    })
}

fn result(session: &Session, design: usize, workload: usize) -> DesignResult {
    let answer = &session.experiment.answer;
    let asked = &session.experiment.workloads[workload];
    let trials: Vec<&TrialSamples> =
        samples(session, design, workload, Role::Candidate).map(|(_, samples)| samples).collect();
    let metrics: Vec<_> = Metric::ALL
        .into_iter()
        .filter_map(|m| {
            let values: Vec<f64> = trials.iter().filter_map(|samples| metric(samples, m)).collect();
            Some((m, estimate(&values, answer.level)?))
        })
        .collect();
    let primary = primary(answer, asked);
    let judged = if natural(asked) == Metric::LatP99 { Judged::Latency } else { Judged::Throughput };
    let failed = records(session, design, workload, Role::Candidate)
        .filter_map(|record| match &record.outcome {
            Outcome::Failed(reason) => Some(format!("round {}: {reason}", record.trial.round + 1)),
            Outcome::Samples(samples) if samples.elapsed.0 == 0 => {
                Some(format!("round {}: the measurement took no time", record.trial.round + 1))
            }
            Outcome::Samples(_) => None,
        })
        .collect();
    let mut result = DesignResult {
        design: session.experiment.designs[design].name.clone(),
        workload: asked.name.clone(),
        primary,
        precise: None,
        steady: steady::majority(trials.iter().map(|samples| steady::judge(samples, judged))),
        members: members::shares(&trials),
        below: below::arrays(&trials),
        verdicts: Vec::new(),
        ruled_out: Vec::new(),
        trials: trials.len() as u32,
        failed,
        metrics,
    };
    result.precise =
        result.metric(primary).and_then(|e| e.relative_half_width()).map(|half| half <= answer.precision);
    if !trials.is_empty() {
        (result.verdicts, result.ruled_out) =
            verdict::judge(&verdict::Case::new(session, design, workload, &trials, &result));
    }
    result
}

/// Values of `metric` of two series of samples in the rounds that have both.
fn pairs<'a>(
    ones: impl Iterator<Item = (u32, &'a TrialSamples)>,
    others: impl Iterator<Item = (u32, &'a TrialSamples)>,
    m: Metric,
) -> Vec<(f64, f64)> {
    let others: Vec<_> = others.collect();
    ones.filter_map(|(round, one)| {
        let (_, other) = others.iter().find(|(r, _)| *r == round)?;
        Some((metric(one, m)?, metric(other, m)?))
    })
    .collect()
}

fn compare_with_control(session: &Session, design: usize, workload: usize, into: &mut Vec<Comparison>) {
    let experiment = &session.experiment;
    let Some(control) = experiment.designs.get(experiment.control) else { return };
    for m in Metric::ALL {
        let pairs = pairs(
            samples(session, design, workload, Role::Candidate),
            samples(session, experiment.control, workload, Role::Candidate),
            m,
        );
        let Some(seen) = compare::ratio(&pairs, experiment.answer.level) else { continue };
        into.push(Comparison {
            design: experiment.designs[design].name.clone(),
            control: control.name.clone(),
            workload: experiment.workloads[workload].name.clone(),
            metric: m,
            ratio: seen.ratio,
            interval: seen.interval,
            ci_level: experiment.answer.level,
            rounds: seen.rounds,
            conclusion: compare::conclude(m, &seen, experiment.answer.precision),
        });
    }
}

fn control_with_itself(session: &Session, workload: usize, analysis: &mut Analysis) {
    let experiment = &session.experiment;
    let Some(control) = experiment.designs.get(experiment.control) else { return };
    let level = experiment.answer.level;
    for m in Metric::ALL {
        let pairs = pairs(
            samples(session, experiment.control, workload, Role::ControlAgain),
            samples(session, experiment.control, workload, Role::Candidate),
            m,
        );
        let Some(Ratio { ratio, interval, rounds }) = compare::ratio(&pairs, level) else { continue };
        let workload_name = &experiment.workloads[workload].name;
        analysis.aa.push(AaPair {
            design: control.name.clone(),
            workload: workload_name.clone(),
            metric: m,
            ratio,
            interval,
            ci_level: level,
            rounds,
            same: interval.map(|(low, high)| low <= 1.0 && 1.0 <= high),
        });
        // One question per workload is asked of the session: together they are held to the level.
        let decides = m == primary(&experiment.answer, &experiment.workloads[workload]);
        if decides && compare::excludes_one(&pairs, level, experiment.workloads.len()) == Some(true) {
            analysis.warnings.push(Warning {
                kind: WarningKind::AaDiffers,
                subject: Some(format!("{} under {workload_name}", control.name)),
                message: format!(
                    "this machine cannot tell A from A: the second runs of the control gave {ratio:.3} times the {} of \
                     the first ones over {rounds} rounds",
                    m.name()
                ),
                advice: Some(
                    "treat ratios of this size as no difference; look for what else runs on the machine, rest longer \
                     between trials, or run more rounds"
                        .into(),
                ),
            });
        }
    }
}

fn warn(session: &Session, analysis: &mut Analysis) {
    let answer = &session.experiment.answer;
    let least = least_trials(answer.level).unwrap_or(usize::MAX);
    let mut warnings = Vec::new();
    for result in &analysis.results {
        let asked = session.experiment.workloads.iter().find(|workload| workload.name == result.workload);
        let mut warning = |kind, message: String, advice: &str| {
            warnings.push(Warning {
                kind,
                subject: Some(format!("{} under {}", result.design, result.workload)),
                message,
                advice: Some(advice.to_owned()),
            });
        };
        if !result.failed.is_empty() {
            warning(
                WarningKind::TrialsFailed,
                format!(
                    "{} of {} trials failed: {}",
                    result.failed.len(),
                    result.failed.len() + result.trials as usize,
                    result.failed[0]
                ),
                "the figures rest on the trials that ran; see the reasons before trusting them",
            );
        }
        // Another program measured once, as the session's own warning says: no advice makes its trials more.
        if !session.meta.imported() && (1..least).contains(&(result.trials as usize)) {
            warning(
                WarningKind::TooFewTrials,
                format!(
                    "only {} finished; an interval at {}% needs {least} trials",
                    result.trials,
                    answer.level * 100.0
                ),
                "run more rounds (trials_min), or ask for a lower level",
            );
        } else if result.precise == Some(false) {
            let half =
                result.metric(result.primary).and_then(|e| e.relative_half_width()).unwrap_or(f64::NAN);
            warning(
                WarningKind::NotReached,
                format!(
                    "{} is known within ±{:.1}%, not within the ±{:.1}% asked for",
                    result.primary.name(),
                    half * 100.0,
                    answer.precision * 100.0
                ),
                "allow more rounds (trials_max) or time (budget), or ask for less precision",
            );
        }
        if let Some(cache) = result.verdicts.iter().find(|verdict| verdict.kind == VerdictKind::Cache) {
            warning(
                WarningKind::Cache,
                cache.sentence.clone(),
                if asked.is_none_or(|workload| !workload.direct) {
                    "these figures are of a cache, not of the volumes: use direct I/O, or a span of at least twice the memory"
                } else {
                    "these figures are of a cache, not of the volumes, and one that O_DIRECT does not go past: end it where it \
                     is (a loop device's, a controller's), or use a span that it does not hold (`ebb bench --profile seek` looks \
                     for its size), or one as large as the application's"
                },
            );
        }
        if result.steady == Some(false) {
            warning(
                WarningKind::NotSteady,
                "most trials did not run in a steady state (SNIA: rounds within 20% of their mean, slope within 10%)".into(),
                "warm up longer (ramp_time), measure longer (runtime), or look at the series for a step or a drift",
            );
        }
    }
    dependent_rounds(session, &mut warnings);
    if let Ending::Failed(reason) = &session.meta.ending {
        warnings.push(Warning {
            kind: WarningKind::Session,
            subject: None,
            message: format!("the session ended early: {reason}"),
            advice: None,
        });
    }
    warnings.extend(session.meta.warnings.iter().map(|text| Warning {
        kind: WarningKind::Session,
        subject: None,
        message: text.clone(),
        advice: None,
    }));
    // What makes the whole session doubtful comes first.
    warnings.sort_by_key(|warning| warning.kind);
    analysis.warnings.extend(warnings);
}

/// Least trials from which a correlation of neighbours can be told from chance.
const DEPENDENT_LEAST: usize = 12;
/// Standard errors (1 / sqrt(n) for independent trials) of the correlation of neighbours that are no chance:
/// one result in 700 by chance.
const DEPENDENT_ERRORS: f64 = 3.0;

/// Warns of results whose trials depend on the ones before them: their intervals cover less than they say.
fn dependent_rounds(session: &Session, warnings: &mut Vec<Warning>) {
    for (design, named) in session.experiment.designs.iter().enumerate() {
        for (workload, asked) in session.experiment.workloads.iter().enumerate() {
            let values: Vec<f64> = samples(session, design, workload, Role::Candidate)
                .filter_map(|(_, samples)| metric(samples, primary(&session.experiment.answer, asked)))
                .collect();
            let Some(correlation) = lag1_autocorrelation(&values) else { continue };
            if values.len() < DEPENDENT_LEAST || correlation * (values.len() as f64).sqrt() < DEPENDENT_ERRORS
            {
                continue;
            }
            warnings.push(Warning {
                kind: WarningKind::Dependent,
                subject: Some(format!("{} under {}", named.name, asked.name)),
                message: format!(
                    "neighbouring rounds depend on each other (correlation {correlation:.2} over {} trials): the interval \
                     is narrower than it should be",
                    values.len()
                ),
                advice: Some("rest longer between trials, or repeat the session at another time; ratios are paired by round and suffer less".into()),
            });
        }
    }
}
