//! The job that looks for the most load that keeps a latency.

use super::{Bench, Done, Job, Results};
use crate::search::{self, Step};
use crate::trial::Trials;
use ebbtide_analysis::latency_target::DepthSearch;
use ebbtide_model::backend::TrialRun;
use ebbtide_model::units::Nanos;

impl Bench<'_> {
    /// Runs `job`, number `index`, as the steps of `search`. What is kept of it are the figures of the depth that it has come
    /// to; of one in flight, where none keeps the latency.
    pub(super) fn search(
        &mut self,
        (index, job): (usize, &Job),
        mut search: DepthSearch,
        trials: &mut Trials<'_>,
        results: &mut Results,
    ) {
        let told = search::run(
            &mut search,
            &job.workload,
            |done: &Done| &done.samples,
            |search, depth, time| {
                let done = self.step((index, job), (depth, time), search, trials, results);
                match done {
                    Some(done) if results.ended_early.is_none() => Step::Whole(done),
                    done => Step::Cut(done),
                }
            },
        );
        let Some(mut done) = told else { return };
        // As the engine says of a run at that depth; the steps of a search ask for no more than they get.
        if search.most() < job.workload.iodepth {
            let note = format!(
                "psync keeps one operation in flight per job: iodepth {} was not used",
                job.workload.iodepth
            );
            done.job.notes.push(note);
        }
        done.search = Some(search);
        self.judge(index, &mut done);
        results.done.push(done);
    }

    /// One depth, for `time`.
    fn step(
        &mut self,
        (index, job): (usize, &Job),
        (depth, time): (u32, Nanos),
        search: &DepthSearch,
        trials: &mut Trials<'_>,
        results: &mut Results,
    ) -> Option<Done> {
        let workload = search.step(&job.workload, depth, time);
        let step = Job { workload, ..job.clone() };
        let trial = search.trial(&self.trial(index, job));
        let run = TrialRun {
            design: &self.experiment.designs[job.design],
            workload: &step.workload,
            trial: &trial,
        };
        let name = format!("{}, iodepth {depth}", job.name);
        let named = [(name.as_str(), &step.workload)];
        let mut ran = trials.run(&[run], || self.watch.jobs_begin(&named, self.control));
        let result = ran.results.pop()?;
        self.done(&step, None, result, (ran.used, ran.ended), results)
    }
}
