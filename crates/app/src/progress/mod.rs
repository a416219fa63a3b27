//! Progress of a session: lines on a terminal while it runs, remarks where something fails.

mod line;

use crate::views::{say, stderr_is_terminal};
use ebbtide_analysis::stop::Point;
use ebbtide_model::backend::Control;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::schedule::{Role, Schedule, Trial};
use ebbtide_model::session::{Outcome, Session, TrialRecord};
use ebbtide_model::shown::one_line;
use ebbtide_model::workload::{Stop, Workload};
use ebbtide_runner::listener::SessionListener;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use line::{Activity, Goal, Pace};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the live figures are renewed.
const TICK: Duration = Duration::from_millis(200);
/// How often a line is written where there is no terminal.
const LINE: Duration = Duration::from_secs(10);

/// From how many operations in flight on their buffers take seconds to be set up, and what is under way at the end takes
/// seconds to end: a quarter of a million took 3 seconds for a run of one, a million 8 (two busy processors, one disk).
const MANY_IN_FLIGHT: u64 = 1 << 17;

/// What is going on, shared with the thread that draws.
#[derive(Default)]
struct Shared {
    activity: Mutex<Option<(Activity, Arc<Control>)>>,
    ended: AtomicBool,
}

/// Shows progress on standard error: live lines on a terminal; elsewhere a line now and then, and what fails. Nothing when quiet.
pub struct Progress {
    quiet: bool,
    bar: ProgressBar,
    shared: Arc<Shared>,
    drawer: Option<JoinHandle<()>>,
    /// When the first trial began.
    trials_began: Option<Instant>,
    /// Why the last trial that failed did.
    failed_with: Option<String>,
    /// Designs that are left in a race, and all of them.
    left: Option<(usize, usize)>,
}

impl Progress {
    /// For standard error as it is.
    pub fn new(quiet: bool) -> Self {
        let live = !quiet && stderr_is_terminal();
        let target = if live { ProgressDrawTarget::stderr_with_hz(10) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let shared = Arc::new(Shared::default());
        let drawer = (!quiet).then(|| draw(live.then(|| bar.clone()), shared.clone())).flatten();
        Progress { quiet, bar, shared, drawer, trials_began: None, failed_with: None, left: None }
    }

    fn set(&self, activity: Activity, control: &Arc<Control>) {
        *self.shared.activity.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((activity, control.clone()));
    }
}

/// What is said before so many operations are set up that it takes its time.
fn many_in_flight(operations: u64) -> Option<String> {
    (operations >= MANY_IN_FLIGHT).then(|| {
        format!(
            "{operations} operations in flight: setting them up, and waiting for the last ones, takes seconds in addition to \
             the run itself"
        )
    })
}

/// Starts the thread that draws, or that writes lines where there is no bar; without one there is no progress, which nobody's
/// result depends on.
fn draw(bar: Option<ProgressBar>, shared: Arc<Shared>) -> Option<JoinHandle<()>> {
    if let (Some(bar), Ok(style)) = (&bar, ProgressStyle::with_template("{wide_msg}\n{prefix:.dim}")) {
        bar.set_style(style);
    }
    std::thread::Builder::new()
        .name("progress".to_owned())
        .spawn(move || {
            let (mut pace, mut written) = (Pace::default(), Instant::now());
            while !shared.ended.load(Ordering::Relaxed) {
                let now = shared
                    .activity
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .as_ref()
                    .map(|(activity, control)| activity.lines(control, &mut pace));
                match (now, &bar) {
                    (Some((first, second)), Some(bar)) => {
                        // indicatif prints what it is given.
                        bar.set_message(one_line(&first).into_owned());
                        bar.set_prefix(one_line(&second).into_owned());
                        bar.tick();
                    }
                    (Some((first, _)), None) if written.elapsed() >= LINE => {
                        say(&format!("ebb: {first}"));
                        written = Instant::now();
                    }
                    _ => {}
                }
                std::thread::park_timeout(TICK);
            }
        })
        .ok()
}

/// Names of the design and the workload of `trial`.
fn names<'a>(experiment: &'a Experiment, trial: &Trial) -> (&'a str, &'a str) {
    let design = experiment.designs.get(trial.design).map_or("?", |d| d.name.as_str());
    (design, experiment.workloads.get(trial.workload).map_or("?", |w| w.name.as_str()))
}

impl SessionListener for Progress {
    fn preparing(&mut self, volumes: usize, control: &Arc<Control>) {
        self.set(Activity::Preparing { volumes }, control);
    }

    fn trial_begins(
        &mut self,
        session: &Session,
        trial: &Trial,
        so_far: Option<&Point>,
        control: &Arc<Control>,
    ) {
        let began = *self.trials_began.get_or_insert_with(Instant::now);
        let experiment = &session.experiment;
        let round_length = Schedule::new(experiment, session.meta.seed).round_len() as u32;
        let race = experiment.sweep.as_ref().map(|sweep| {
            let (left, of) = self.left.unwrap_or((sweep.arms.len(), sweep.arms.len()));
            (left, of, sweep.budget.unwrap_or(1.0))
        });
        let again = if trial.role == Role::ControlAgain { " again" } else { "" };
        let (design, workload) = names(experiment, trial);
        let group = experiment.workloads.get(trial.workload).and_then(|workload| workload.group.as_deref());
        let workload = group.unwrap_or(workload);
        let activity = Activity::Trial {
            what: format!("{design}{again}, {workload}"),
            number: trial.index + 1,
            round: trial.round + 1,
            round_length,
            race,
            rounds: (experiment.answer.trials_min, experiment.answer.trials_max),
            so_far: so_far.and_then(|point| Some((point.metric, point.estimate?))),
            began,
            trial_began: Instant::now(),
            budget: Duration::from_nanos(experiment.answer.budget.0),
        };
        self.set(activity, control);
    }

    fn race(&mut self, left: usize, of: usize) {
        self.left = Some((left, of));
    }

    fn trial_ended(&mut self, session: &Session, record: &TrialRecord) {
        if let Outcome::Failed(why) = &record.outcome {
            let (design, workload) = names(&session.experiment, &record.trial);
            let alike = self.failed_with.as_ref() == Some(why);
            let told = if alike { " for the same reason".to_owned() } else { format!(": {why}") };
            self.say(&format!("trial {} ({design} under {workload}) failed{told}", record.trial.index + 1));
            self.failed_with = Some(why.clone());
        }
    }

    fn jobs_begin(&mut self, jobs: &[(&str, &Workload)], control: &Arc<Control>) {
        let mut names = Vec::new();
        let mut in_flight = 0u64;
        let mut time = Duration::ZERO;
        let mut bytes = 0u64;
        for (name, workload) in jobs {
            names.push(*name);
            in_flight = in_flight.saturating_add(u64::from(workload.numjobs) * u64::from(workload.depth()));
            time = time.max(Duration::from_nanos(workload.time().unwrap_or_default().0));
            if let Stop::Size(size) = workload.stop {
                bytes = bytes.saturating_add(size.0);
            }
        }
        if let Some(remark) = many_in_flight(in_flight) {
            self.say(&remark);
        }
        let goal = if bytes > 0 { Goal::Bytes(bytes) } else { Goal::Time(time) };
        let done_before = control.bytes.load(Ordering::Relaxed);
        let what = names.join(", ");
        self.set(Activity::Job { what, goal, done_before, began: Instant::now() }, control);
    }

    fn probing(&mut self, what: &str, control: &Arc<Control>) {
        self.set(Activity::Probing { what: what.to_owned() }, control);
    }

    fn checking(&mut self, control: &Arc<Control>) {
        self.set(Activity::Checking, control);
    }

    fn say(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| say(&format!("ebb: {text}")));
        }
    }

    fn done(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Some(drawer) = self.drawer.take() {
            drawer.thread().unpark();
            // It only draws: how it ended changes nothing.
            let _ = drawer.join();
        }
        self.bar.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_very_many_operations_are_remarked_on() {
        assert_eq!(many_in_flight(256 * 256), None);
        let said = many_in_flight(256 * 4096).expect("a remark");
        assert!(said.starts_with("1048576 operations in flight"), "{said}");
    }
}
