//! From a session to what may be said of it.

use super::best::{self, ByRound, Standing};
use super::compare::{self, Margins, Ratio};
use super::conditions::{self, Conditioned};
use super::estimate::{estimate, lag1_autocorrelation, least_trials};
use super::facts::case::Case;
use super::facts::elsewhere::{Elsewhere, OfVolume, is_asked, order, shown};
use super::metrics::{natural, primary};
use super::steady::{self, SteadyMeasure};
use super::trials::{by_design, of, samples};
use super::{
    AaPair, Analysis, Comparison, DesignResult, TrialSummary, VerdictKind, Warning, WarningKind, below,
    factors, members, race, verdict,
};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::metric::Metric;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Role;
use ebbtide_model::session::{Ending, Outcome, Session, TrialRecord};
use ebbtide_model::workload::Workload;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Estimates, comparisons, verdicts and warnings of a session, finished or not. Pure: the same session
/// always gives the same analysis.
pub fn analyse(session: &Session) -> Analysis {
    let records = by_design(session);
    let mut elsewhere = Elsewhere::default();
    let mut parts = Vec::with_capacity(records.len());
    for design in order(&session.experiment).into_iter().flatten() {
        let part = of_design(session, design, &records[design], &elsewhere);
        part.tell(&mut elsewhere);
        parts.push(part);
    }
    together(session, parts)
}

/// What the analysis keeps of the trials of one design: no samples.
#[derive(Debug, Clone)]
pub struct OfDesign {
    design: usize,
    /// By workload, in the experiment's order.
    results: Vec<DesignResult>,
    /// The same of its volumes, where it may be asked of them.
    shown: Vec<Option<Arc<Vec<OfVolume>>>>,
    /// Its trials by their figures.
    ran: Vec<TrialSummary>,
}

impl OfDesign {
    /// Index of the design.
    pub fn design(&self) -> usize {
        self.design
    }

    /// Its results, by workload.
    pub fn results(&self) -> &[DesignResult] {
        &self.results
    }

    /// Makes known to the designs that come after it what its volumes did.
    pub fn tell(&self, elsewhere: &mut Elsewhere) {
        for (workload, shown) in self.shown.iter().enumerate() {
            if let Some(shown) = shown {
                elsewhere.add(self.design, workload, shown.clone());
            }
        }
    }

    /// Values of a metric in the trials under a workload, in the order in which they ran.
    fn values(&self, workload: usize, metric: Metric) -> Vec<f64> {
        self.under(workload, Role::Candidate).filter_map(|ran| ran.value(metric)).collect()
    }

    /// Its trials under a workload in a role that measured something, in the order in which they ran.
    fn under(&self, workload: usize, role: Role) -> impl Iterator<Item = &TrialSummary> {
        let meant = (workload, role);
        let own = self.ran.iter().filter(move |ran| (ran.trial.workload, ran.trial.role) == meant);
        own.filter(|ran| ran.has_figures())
    }
}

/// What the trials of one design say, of which `records` are all; of `session` its trials are not looked at. In `elsewhere`
/// are the designs of the groups of [`order`] that come before its own.
///
/// # Panics
/// When the experiment has no such design.
pub fn of_design(
    session: &Session,
    design: usize,
    records: &[&TrialRecord],
    elsewhere: &Elsewhere,
) -> OfDesign {
    let ran = records.iter().map(|record| TrialSummary::of(&session.experiment, record)).collect();
    let mut of = OfDesign { design, results: Vec::new(), shown: Vec::new(), ran };
    for workload in 0..session.experiment.workloads.len() {
        let asked = load(session, design, workload);
        let trials: Vec<&TrialSamples> =
            samples(records, workload, Role::Candidate).map(|(_, samples)| samples).collect();
        let members = members::with_latencies(&trials);
        let mut result = result(session, &of, workload, (records, &trials));
        result.members = members.iter().map(|(share, _)| share.clone()).collect();
        let ran = result.conditioned.as_ran(asked);
        if !trials.is_empty() {
            let judgement = verdict::judge(&Case {
                meta: &session.meta,
                records,
                elsewhere,
                experiment: &session.experiment,
                design: &session.experiment.designs[design],
                workload: &ran,
                trials: &trials,
                result: &result,
            });
            (result.verdicts, result.ruled_out) = (judgement.verdicts, judgement.ruled_out);
            (result.resources, result.lasting) = (judgement.resources, judgement.lasting);
        }
        of.results.push(result);
        of.shown.push(is_asked(asked).then(|| Arc::new(shown(&trials, members))));
    }
    of
}

/// What all designs say together; of `session` its trials are not looked at.
pub fn together(session: &Session, mut parts: Vec<OfDesign>) -> Analysis {
    let experiment = &session.experiment;
    parts.sort_by_key(OfDesign::design);
    let raced = parts.iter().filter(|_| experiment.sweep.is_some());
    let mut ran: Vec<TrialSummary> = raced.flat_map(|part| &part.ran).cloned().collect();
    ran.sort_by_key(|one| one.trial.index);
    let mut analysis = Analysis {
        race: race::of_trials(experiment, &ran),
        factors: factors::of_trials(experiment, &ran),
        ..Analysis::default()
    };
    let control = parts.iter().find(|part| part.design == experiment.control);
    for part in &parts {
        if let Some(control) = control.filter(|control| control.design != part.design) {
            for workload in 0..experiment.workloads.len() {
                compare_with_control(session, (part, control), workload, &mut analysis.comparisons);
            }
        }
    }
    if experiment.sweep.is_none() {
        let standings =
            (0..experiment.workloads.len()).filter_map(|workload| standing(experiment, workload, &parts));
        analysis.standings = standings.collect();
    }
    if let Some(control) = control {
        for workload in 0..experiment.workloads.len() {
            control_with_itself(session, control, workload, &mut analysis);
        }
    }
    let dependent = dependent_rounds(session, &parts);
    analysis.results = parts.into_iter().flat_map(|part| part.results).collect();
    warn(session, dependent, &mut analysis);
    analysis
}

/// How the designs stand under a workload, by its own metric.
fn standing(experiment: &Experiment, workload: usize, parts: &[OfDesign]) -> Option<Standing> {
    let metric = primary(&experiment.answer, experiment.workloads.get(workload)?);
    let mut values = vec![ByRound::new(); experiment.designs.len()];
    for part in parts {
        let ran = part.under(workload, Role::Candidate);
        let ran = ran.filter_map(|one| Some((one.trial.round, one.value(metric)?)));
        if let Some(of_design) = values.get_mut(part.design) {
            of_design.extend(ran);
        }
    }
    best::standing(experiment, workload, &values.iter().collect::<Vec<_>>())
}

/// What is asked of the design by the workload.
fn load(session: &Session, design: usize, workload: usize) -> &Workload {
    session.experiment.load(design, workload).unwrap_or(&session.experiment.workloads[workload])
}

fn result(
    session: &Session,
    part: &OfDesign,
    workload: usize,
    (records, trials): (&[&TrialRecord], &[&TrialSamples]),
) -> DesignResult {
    let answer = &session.experiment.answer;
    let design = part.design;
    let asked = load(session, design, workload);
    let metrics: Vec<_> = Metric::of(asked)
        .into_iter()
        .filter_map(|m| Some((m, estimate(&part.values(workload, m), answer.level)?)))
        .collect();
    let primary = primary(answer, asked);
    let judged =
        if natural(asked) == Metric::LatP99 { SteadyMeasure::Latency } else { SteadyMeasure::Throughput };
    let failed = of(records, workload, Role::Candidate)
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
        members: Vec::new(),
        below: below::arrays(trials),
        verdicts: Vec::new(),
        ruled_out: Vec::new(),
        resources: Vec::new(),
        lasting: None,
        trials: trials.len() as u32,
        failed,
        metrics,
        conditioned: Conditioned::of(asked, trials),
    };
    result.precise =
        result.metric(primary).and_then(|e| e.relative_half_width()).map(|half| half <= answer.precision);
    result
}

/// Values of each metric of a design's trials in a role and of the control's trials as candidates, in the rounds that have both.
fn pairs(
    (part, role): (&OfDesign, Role),
    control: &OfDesign,
    (workload, asked): (usize, &Workload),
) -> Vec<(Metric, Vec<(f64, f64)>)> {
    let mut others: BTreeMap<u32, &TrialSummary> = BTreeMap::new();
    for ran in control.under(workload, Role::Candidate) {
        others.entry(ran.trial.round).or_insert(ran);
    }
    let of_metric = |m: Metric| {
        let pair = |one: &TrialSummary| Some((one.value(m)?, others.get(&one.trial.round)?.value(m)?));
        (m, part.under(workload, role).filter_map(pair).collect())
    };
    Metric::of(asked).into_iter().map(of_metric).collect()
}

fn compare_with_control(
    session: &Session,
    (part, control): (&OfDesign, &OfDesign),
    workload: usize,
    into: &mut Vec<Comparison>,
) {
    let experiment = &session.experiment;
    let asked = &experiment.workloads[workload];
    let designs = [part.design, control.design];
    let pairs = pairs((part, Role::Candidate), control, (workload, asked));
    into.extend(
        pairs
            .iter()
            .filter_map(|(metric, pairs)| compare::compared(experiment, designs, asked, *metric, pairs)),
    );
}

fn control_with_itself(session: &Session, part: &OfDesign, workload: usize, analysis: &mut Analysis) {
    let experiment = &session.experiment;
    let control = &experiment.designs[part.design];
    let (level, asked) = (experiment.answer.level, &experiment.workloads[workload]);
    for (metric, pairs) in pairs((part, Role::ControlAgain), part, (workload, asked)) {
        // One question per workload is asked of the session: together they are held to the level.
        let decides = metric == primary(&experiment.answer, asked);
        let questions = if decides { experiment.workloads.len() } else { 1 };
        let Some(seen) = compare::ratio(&pairs, compare::level_of_each(level, questions)) else { continue };
        let same = Margins::of(&experiment.answer).same(&seen);
        let Ratio { ratio, interval, rounds, .. } = seen;
        analysis.aa.push(AaPair {
            design: control.name.clone(),
            workload: asked.name.clone(),
            metric,
            ratio,
            interval,
            ci_level: level,
            rounds,
            same,
        });
        if decides && same == Some(false) {
            let message = format!(
                "this machine cannot tell A from A: the second runs of the control gave {ratio:.3} times the {} of \
                 the first ones over {rounds} rounds",
                metric.name()
            );
            let advice = "treat ratios of this size as no difference; look for what else runs on the machine, rest longer \
                 between trials, or run more rounds";
            analysis.warnings.push(Warning::of(
                WarningKind::AaDiffers,
                &control.name,
                &asked.name,
                message,
                advice,
            ));
        }
    }
}

/// A warning of the whole session.
fn of_session(message: String) -> Warning {
    Warning { kind: WarningKind::Session, subject: None, message, advice: None }
}

fn warn(session: &Session, dependent: Vec<Warning>, analysis: &mut Analysis) {
    let answer = &session.experiment.answer;
    let least = least_trials(answer.level).unwrap_or(usize::MAX);
    let mut warnings = Vec::new();
    for result in &analysis.results {
        let asked = session.experiment.workloads.iter().find(|workload| workload.name == result.workload);
        let mut warning = |kind, message: String, advice: &str| {
            warnings.push(Warning::of(kind, &result.design, &result.workload, message, advice));
        };
        if let Some(lasting) = &result.lasting {
            let advice = "size for what lasts; to measure it, run until the credits are spent (ramp_time)";
            warning(WarningKind::AboveLasting, lasting.in_words(), advice);
        }
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
        // A race ends a design's trials when it has lost, whatever is known of it then.
        let raced = session.experiment.sweep.is_some();
        // What was measured once was meant so: no advice makes its trials more.
        if raced {
        } else if !session.meta.is_once() && (1..least).contains(&(result.trials as usize)) {
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
                    result.primary.in_words(),
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
        warnings.extend(asked.iter().flat_map(|asked| conditions::warnings(result, asked)));
    }
    if session.experiment.sweep.is_none() {
        warnings.extend(too_few_together(session, &analysis.comparisons));
    }
    warnings.extend(dependent);
    if let Ending::Failed(reason) = &session.meta.ending {
        warnings.push(of_session(format!("the session ended early: {reason}")));
    }
    warnings.extend(session.meta.warnings.iter().cloned().map(of_session));
    // What makes the whole session doubtful comes first.
    warnings.sort_by_key(|warning| warning.kind);
    analysis.warnings.extend(warnings);
}

/// Warns of comparisons that have rounds enough for an interval each, but not for all of them together.
fn too_few_together(session: &Session, comparisons: &[Comparison]) -> Option<Warning> {
    let (answer, family) = (&session.experiment.answer, compare::family(&session.experiment));
    let alone = least_trials(answer.level)? as u32;
    let together = compare::least_rounds(answer.level, family)?;
    let few = |c: &&Comparison| c.family == family && c.interval.is_none() && c.rounds >= alone;
    let rounds =
        comparisons.iter().filter(few).map(|c| c.rounds).min().filter(|_| !session.meta.is_once())?;
    let message = format!(
        "comparisons have {rounds} rounds; {family} of them together need {together} at {}%",
        answer.level * 100.0
    );
    let advice = Some("run more rounds (trials_min), or ask for a lower level".to_owned());
    Some(Warning { kind: WarningKind::TooFewTrials, subject: None, message, advice })
}

/// Least trials from which a correlation of neighbours can be told from chance.
const DEPENDENT_LEAST: usize = 12;
/// Standard errors (1 / sqrt(n) for independent trials) of the correlation of neighbours that are no chance:
/// one result in 700 by chance.
const DEPENDENT_ERRORS: f64 = 3.0;

/// Warns of results whose trials depend on the ones before them: their intervals cover less than they say.
fn dependent_rounds(session: &Session, parts: &[OfDesign]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for part in parts {
        let named = &session.experiment.designs[part.design];
        for (workload, asked) in session.experiment.workloads.iter().enumerate() {
            let values = part.values(workload, primary(&session.experiment.answer, asked));
            let Some(correlation) = lag1_autocorrelation(&values) else { continue };
            if values.len() < DEPENDENT_LEAST || correlation * (values.len() as f64).sqrt() < DEPENDENT_ERRORS
            {
                continue;
            }
            let message = format!(
                "neighbouring rounds depend on each other (correlation {correlation:.2} over {} trials): the interval \
                 is narrower than it should be",
                values.len()
            );
            let advice = "rest longer between trials, or repeat the session at another time; ratios are paired by round and suffer less";
            warnings.push(Warning::of(WarningKind::Dependent, &named.name, &asked.name, message, advice));
        }
    }
    warnings
}
