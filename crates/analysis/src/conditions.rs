//! What came of what a workload asks for beside its operations: the load that keeps a latency, a steady state, operations that may
//! fail.

use super::estimate::median;
use super::{DesignResult, Warning, WarningKind};
use ebbtide_model::samples::{DepthFound, TrialSamples};
use ebbtide_model::units::format_count;
use ebbtide_model::workload::{LatencyTarget, Workload};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What came of it over the trials of a result.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Conditioned {
    /// The largest iodepth that keeps the latency, where that was looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iodepth: Option<DepthRange>,
    /// Trials in which the largest iodepth that was asked for kept it: a larger one may.
    #[serde(skip_serializing_if = "is_zero")]
    pub capped: u32,
    /// Trials whose search was not over: their iodepth kept it, and a larger one may.
    #[serde(skip_serializing_if = "is_zero")]
    pub open: u32,
    /// Trials that were to end when they are steady, and did not become so.
    #[serde(skip_serializing_if = "is_zero")]
    pub unsteady: u32,
    /// Operations that failed without ending their trial; no other figure contains them.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// The error number of the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<i32>,
}

/// Operations in flight per job, over trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DepthRange {
    /// The latency that the depth was chosen to keep.
    pub goal: LatencyTarget,
    /// The median, rounded to a whole number.
    pub median: u32,
    /// The least of any trial.
    pub least: u32,
    /// The most of any trial.
    pub most: u32,
}

fn is_zero<T: PartialEq + Default>(number: &T) -> bool {
    *number == T::default()
}

impl Conditioned {
    /// Whether nothing of the kind was asked for, or it is as it was asked for.
    pub fn is_nothing(&self) -> bool {
        *self == Conditioned::default()
    }

    /// Of `trials` of `asked`.
    pub(super) fn of(asked: &Workload, trials: &[&TrialSamples]) -> Conditioned {
        let execution = || trials.iter().map(|samples| &samples.execution);
        let found: Vec<DepthFound> = execution().filter_map(|execution| execution.depth).collect();
        let depths: Vec<f64> = found
            .iter()
            .filter_map(|found| match found {
                DepthFound::Found(depth) | DepthFound::Open(depth) => Some(f64::from(*depth)),
                DepthFound::None => None,
            })
            .collect();
        let extreme = |by: fn(f64, f64) -> f64| depths.iter().copied().reduce(by);
        let iodepth =
            asked.conditions.latency.zip(median(&depths)).zip(extreme(f64::min)).zip(extreme(f64::max));
        Conditioned {
            iodepth: iodepth.map(|(((goal, median), least), most)| DepthRange {
                goal,
                median: median.round() as u32,
                least: least as u32,
                most: most as u32,
            }),
            capped: found.iter().filter(|found| **found == DepthFound::Found(asked.depth())).count() as u32,
            open: found.iter().filter(|found| matches!(found, DepthFound::Open(_))).count() as u32,
            unsteady: execution().filter_map(|e| e.steady.as_ref()).filter(|s| !s.attained).count() as u32,
            failed: execution().map(|execution| execution.failed).sum(),
            first_error: execution().find_map(|execution| execution.first_error),
        }
    }

    /// `workload` as it ran: at the iodepth that was found.
    pub(super) fn as_ran<'a>(&self, workload: &'a Workload) -> Cow<'a, Workload> {
        match self.iodepth {
            Some(DepthRange { median, .. }) => Cow::Owned(Workload { iodepth: median, ..workload.clone() }),
            None => Cow::Borrowed(workload),
        }
    }
}

/// What a reader must know of `result` for what `asked` asks beside its operations.
pub(super) fn warnings(result: &DesignResult, asked: &Workload) -> Vec<Warning> {
    let Conditioned { iodepth, capped, open, unsteady, failed, first_error } = result.conditioned;
    let warning =
        |kind, message, advice| Warning::of(kind, &result.design, &result.workload, message, advice);
    let of_trials = |n: u32| format!("in {n} of {}", format_count(u64::from(result.trials), "trial"));
    let goal = iodepth.map(|depth| depth.goal.in_words()).unwrap_or_default();
    let most = (capped > 0).then(|| {
        warning(
            WarningKind::Capped,
            format!(
                "{} the largest iodepth that was asked for, {}, keeps {goal}, and more was not tried: it may bear more load",
                of_trials(capped),
                asked.depth()
            ),
            "ask for a larger iodepth",
        )
    });
    let search = (open > 0).then(|| {
        warning(
            WarningKind::NotReached,
            format!(
                "{} the time was over before the largest iodepth that keeps {goal} was found",
                of_trials(open)
            ),
            "run longer (runtime), or with a shorter latency_window",
        )
    });
    let steady = (unsteady > 0).then(|| {
        warning(
            WarningKind::NotSteady,
            format!(
                "{} it did not become as steady as `steadystate` asks before its runtime ended",
                of_trials(unsteady)
            ),
            "run longer (runtime), or ask for less (steadystate, steadystate_duration)",
        )
    });
    let errors = (failed > 0).then(|| {
        let first = first_error.map(|errno| format!(", the first with error number {errno}"));
        warning(
            WarningKind::TrialsFailed,
            format!(
                "{} failed{}; no figure contains them",
                format_count(failed, "operation"),
                first.unwrap_or_default()
            ),
            "the trials went on, as `continue_on_error` says: find out what fails before trusting the figures",
        )
    });
    [most, search, steady, errors].into_iter().flatten().collect()
}
