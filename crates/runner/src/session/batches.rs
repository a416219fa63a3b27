//! Which trials of a round begin together, and what becomes of those beside one that failed.

use ebbtide_model::backend::{BackendError, TrialFailure, TrialRun};
use ebbtide_model::samples::TrialSamples;

/// `runs` in parts that begin together: what runs at the same time is in one part, and others with it as long as it has up to `most`
/// trials.
pub(super) fn parts<'r, 'a>(runs: &'r [TrialRun<'a>], most: usize) -> Vec<&'r [TrialRun<'a>]> {
    let mut parts = Vec::new();
    let (mut start, mut end) = (0, 0);
    for batch in runs.chunk_by(TrialRun::runs_beside) {
        if end > start && end - start + batch.len() > most {
            parts.push(&runs[start..end]);
            start = end;
        }
        end += batch.len();
    }
    parts.extend((end > start).then(|| &runs[start..end]));
    parts
}

/// `results` of `runs`, in which all fail that ran at the same time as one that failed: they had less beside them than they were to have.
pub(super) fn whole(
    runs: &[TrialRun<'_>],
    mut results: Vec<Result<TrialSamples, TrialFailure>>,
) -> Vec<Result<TrialSamples, TrialFailure>> {
    let mut from = 0;
    for batch in runs.chunk_by(TrialRun::runs_beside) {
        let Some(of_batch) = results.get_mut(from..from + batch.len()) else { break };
        from += batch.len();
        let failed = of_batch.iter().zip(batch).find_map(|(result, run)| {
            let error = &result.as_ref().err()?.error;
            let why = format!("{}, which ran at the same time, failed: {error}", run.workload.name);
            Some(if *error == BackendError::Stopped {
                BackendError::Stopped
            } else {
                BackendError::Other(why)
            })
        });
        let Some(why) = failed else { continue };
        for result in of_batch.iter_mut().filter(|result| result.is_ok()) {
            *result = Err(why.clone().into());
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{of_experiment, tests::samples};
    use ebbtide_model::schedule::{Role, Schedule, Trial};
    use ebbtide_model::testing::experiment;

    #[test]
    fn parts_are_of_whole_batches_and_no_smaller_than_they_must_be() {
        let lengths = [2, 1, 3, 1];
        let mut experiment = experiment(2, lengths.iter().sum());
        let groups = lengths.iter().enumerate().flat_map(|(group, length)| vec![group; *length]);
        for (workload, group) in experiment.workloads.iter_mut().zip(groups) {
            workload.group = Some(format!("g{group}"));
        }
        let trials = Schedule::new(&experiment, 3).round(0);
        let runs: Vec<TrialRun<'_>> =
            trials.iter().map(|trial| of_experiment(&experiment, trial).expect("is there")).collect();
        let batches =
            |part: &[TrialRun<'_>]| part.chunk_by(TrialRun::runs_beside).map(<[_]>::len).collect::<Vec<_>>();
        for most in 1..10 {
            let parts = parts(&runs, most);
            let seeds = parts.iter().flat_map(|part| part.iter().map(|run| run.trial.seed));
            assert!(seeds.eq(trials.iter().map(|trial| trial.seed)));
            assert!(parts.iter().all(|part| part.len() <= most || batches(part).len() == 1));
            for pair in parts.windows(2) {
                assert!(!pair[0][pair[0].len() - 1].runs_beside(&pair[1][0]));
                assert!(pair[0].len() + batches(pair[1])[0] > most, "there was room");
            }
        }
    }

    #[test]
    fn what_ran_beside_a_failure_failed_and_nothing_else() {
        let mut experiment = experiment(1, 4);
        for workload in &mut experiment.workloads[1..3] {
            workload.group = Some("g".to_owned());
        }
        let trials: Vec<_> = (0..4)
            .map(|workload| Trial { index: 0, round: 0, design: 0, workload, role: Role::Candidate, seed: 1 })
            .collect();
        let runs: Vec<TrialRun<'_>> =
            trials.iter().map(|trial| of_experiment(&experiment, trial).expect("is there")).collect();
        let ran = |fails: usize, why: BackendError| {
            let result = |index| if index == fails { Err(why.clone().into()) } else { Ok(samples()) };
            let results = whole(&runs, (0..4).map(result).collect());
            results
                .into_iter()
                .map(|result| result.err().map(|failure| failure.error.to_string()))
                .collect::<Vec<_>>()
        };
        let eio = BackendError::Other("EIO".to_owned());
        let beside = Some("randread-2, which ran at the same time, failed: EIO".to_owned());
        assert_eq!(ran(2, eio.clone()), [None, beside, Some("EIO".to_owned()), None]);
        assert_eq!(ran(0, eio), [Some("EIO".to_owned()), None, None, None]);
        assert_eq!(ran(1, BackendError::Stopped)[2].as_deref(), Some("stopped"));
    }
}
