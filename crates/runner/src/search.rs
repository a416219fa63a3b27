//! The search for the most load that keeps a latency: one trial after the other, each for a window.

use crate::trial::Trials;
use ebbtide_analysis::latency_target::{DepthSearch, DepthStep};
use ebbtide_model::backend::{BackendError, TrialFailure, TrialRun};
use ebbtide_model::samples::{DepthFound, TrialSamples};
use ebbtide_model::units::Nanos;
use ebbtide_model::workload::Workload;

/// One step of a search.
pub(crate) enum Step<T> {
    /// It ran for its time.
    Whole(T),
    /// It was ended before; there may be something to show.
    Cut(Option<T>),
}

/// Runs `search` for `workload` to its end, or to the end of its time; `run` runs a workload at a depth. What is returned is the
/// step whose figures stand for it: the last one at the depth that it has come to, at 1 where none keeps the latency.
pub(crate) fn run<T>(
    search: &mut DepthSearch,
    workload: &Workload,
    samples: impl Fn(&T) -> &TrialSamples,
    mut run: impl FnMut(&DepthSearch, u32, Nanos) -> Step<T>,
) -> Option<T> {
    let window = search.goal().window;
    let mut left = workload.measured_at_most().unwrap_or(Nanos(0));
    let mut ran: Vec<(u32, T)> = Vec::new();
    let mut cut = false;
    while let Some(depth) = search.next_depth().filter(|_| left >= window && !cut) {
        match run(search, depth, window) {
            Step::Whole(step) => {
                search.saw(DepthStep::of(search.goal(), depth, samples(&step)));
                ran.push((depth, step));
            }
            // What was cut short shows nothing of its depth.
            Step::Cut(step) => {
                ran.extend(step.map(|step| (depth, step)));
                cut = true;
            }
        }
        left = left.since(window);
    }
    if let DepthFound::Found(depth) = search.conclusion()
        && search.goal().run
        && left >= window
        && !cut
        && let Step::Whole(step) | Step::Cut(Some(step)) = run(search, depth, left)
    {
        search.held(DepthStep::of(search.goal(), depth, samples(&step)));
        ran.push((depth, step));
    }
    let deepest = search.deepest().max(1);
    let told = ran.iter().rposition(|(depth, _)| *depth == deepest).or(ran.len().checked_sub(1))?;
    Some(ran.swap_remove(told).1)
}

impl Trials<'_> {
    /// Runs `whole`, whose workload looks for the most load that keeps a latency, as the steps of `search` on its design, which
    /// is built once; its samples are those of the depth that is found.
    pub(crate) fn search(
        &mut self,
        whole: &TrialRun<'_>,
        mut search: DepthSearch,
    ) -> Result<TrialSamples, TrialFailure> {
        let TrialRun { design, workload, trial } = *whole;
        self.backend.hold(design, workload, trial, self.control)?;
        let mut failure = None;
        let found = run(
            &mut search,
            workload,
            |samples: &TrialSamples| samples,
            |search, depth, time| {
                let (workload, trial) = (search.step(workload, depth, time), search.trial(trial));
                let step = TrialRun { design, workload: &workload, trial: &trial };
                match self.run(&[step], || {}).results.pop() {
                    Some(Ok(samples)) => Step::Whole(samples),
                    failed => {
                        failure = failed.and_then(Result::err);
                        Step::Cut(None)
                    }
                }
            },
        );
        let released = self.backend.release();
        if let Some(failure) = failure {
            return Err(failure);
        }
        released?;
        let conclusion = search.conclusion();
        let searched: f64 = search.steps().iter().chain(search.rest()).map(|step| step.elapsed_seconds).sum();
        let mut samples = found.ok_or_else(TrialFailure::not_run)?;
        let goal = search.goal().in_words();
        match conclusion {
            DepthFound::None => {
                Err(BackendError::NotKept(format!("no iodepth keeps {goal}, not even 1")).into())
            }
            DepthFound::Open(0) => {
                Err(BackendError::NotKept(format!("the time was over before any iodepth kept {goal}")).into())
            }
            DepthFound::Open(_) | DepthFound::Found(_) => {
                samples.execution.depth = Some(conclusion);
                samples.execution.searched = Some(Nanos((searched * 1e9) as u64));
                Ok(samples)
            }
        }
    }
}
