//! Workloads that run at the same time on a design, as the jobs of a program do.

use super::Experiment;
use crate::backend::TrialRun;
use crate::units::Nanos;
use crate::workload::{Stop, Workload};
use std::ops::Range;

impl Workload {
    /// Whether it and `other` run at the same time.
    pub fn runs_beside(&self, other: &Workload) -> bool {
        self.group.is_some() && self.group == other.group
    }
}

impl TrialRun<'_> {
    /// Whether this and `other`, which follows it in its round, run at the same time.
    pub fn runs_beside(&self, other: &TrialRun<'_>) -> bool {
        let place = |run: &TrialRun<'_>| (run.trial.round, run.trial.design, run.trial.role);
        self.workload.runs_beside(other.workload) && place(self) == place(other)
    }
}

impl Experiment {
    /// The workloads by index: each alone, or with those that run at the same time.
    pub fn groups(&self) -> Vec<Range<usize>> {
        let lengths = self.workloads.chunk_by(Workload::runs_beside).map(<[Workload]>::len);
        let ends = lengths.scan(0, |end, length| {
            let start = *end;
            *end += length;
            Some(start..*end)
        });
        ends.collect()
    }

    /// Whether any workloads run at the same time.
    pub fn has_groups(&self) -> bool {
        self.groups().iter().any(|group| group.len() > 1)
    }
}

/// Why `jobs`, which are to run at the same time, would not all be measured under the same load: the job, what is wrong with it, and
/// what to write instead.
pub fn unfair(jobs: &[Workload]) -> Option<(usize, String, String)> {
    let [_, _, ..] = jobs else { return None };
    let found = |wrong: &dyn Fn(&Workload) -> bool| jobs.iter().position(wrong);
    if let Some(at) = found(&|job| job.conditions.latency.is_some()) {
        let what = "looks for a load (`latency_target`) while others make theirs, which would be part of what it finds";
        return Some((at, what.to_owned(), "make it a workload of its own".to_owned()));
    }
    if let Some(at) = found(&|job| job.conditions.steady.is_some()) {
        let what = "ends when it is steady (`steadystate`), and those beside it go on without it";
        return Some((
            at,
            what.to_owned(),
            "write `runtime` instead, or make it a workload of its own".to_owned(),
        ));
    }
    if let Some(at) = found(&|job| job.details.verify) {
        let what = "reads back what it wrote, where those beside it may have written since";
        return Some((at, what.to_owned(), "remove `verify`, or make it a workload of its own".to_owned()));
    }
    let time = |job: &Workload| match job.stop {
        Stop::Runtime(runtime) => Some((job.details.start_delay.plus(job.warm_up), runtime)),
        Stop::Size(_) => None,
    };
    let (first, of_first) = jobs.iter().find_map(|job| Some((job, time(job)?)))?;
    let (at, own) = jobs
        .iter()
        .enumerate()
        .find_map(|(at, job)| Some((at, time(job)?)).filter(|(_, own)| *own != of_first))?;
    let words = |(before, runtime): (Nanos, Nanos)| match before {
        Nanos(0) => format!("for {runtime} from its start"),
        before => format!("for {runtime} after {before}"),
    };
    let what = format!(
        "is measured {}, and `{}` beside it {}: each would be measured partly without the other",
        words(own),
        first.name,
        words(of_first)
    );
    Some((at, what, "give both the same `runtime` and `ramp_time`".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::experiment;
    use crate::units::Bytes;

    #[test]
    fn what_runs_at_the_same_time_takes_its_time_once() {
        let mut experiment = experiment(2, 4);
        let alone = experiment.time_on(0).expect("a time");
        assert!(!experiment.has_groups());
        for index in [1, 2] {
            experiment.workloads[index].group = Some("g".to_owned());
        }
        assert_eq!(experiment.groups(), [0..1, 1..3, 3..4]);
        assert!(experiment.has_groups());
        let each = Nanos(alone.0 / 4);
        assert_eq!(experiment.time_on(0), Some(each.times(3)));
        experiment.workloads[2].stop = Stop::Size(Bytes(4096));
        assert_eq!(experiment.time_on(0), None);
    }

    #[test]
    fn jobs_are_measured_in_the_same_time_or_refused() {
        let job = |name: &str| {
            let stop = Stop::Runtime(Nanos::from_secs(10));
            Workload::new(name, crate::workload::Access::Random, crate::workload::Mix::Read, stop)
        };
        let mut jobs = [job("a"), job("b"), job("c")];
        assert_eq!(unfair(&jobs), None);
        jobs[1].stop = Stop::Size(Bytes(1 << 30));
        assert_eq!(unfair(&jobs), None, "what ends by size may");
        jobs[2].warm_up = Nanos::from_secs(1);
        let (at, what, _) = unfair(&jobs).expect("refused");
        assert_eq!(at, 2);
        assert!(
            what.starts_with("is measured for 10s after 1s, and `a` beside it for 10s from its start"),
            "{what}"
        );
        assert_eq!(unfair(&jobs[2..]), None, "alone it may");
        jobs[0].details.verify = true;
        assert_eq!(unfair(&jobs).map(|(at, ..)| at), Some(0));
    }
}
