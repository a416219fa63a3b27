//! The Heroku night as its author held it and as a race, on the simulator: `experiments/heroku-sweep.toml` itself through the session and the race
//! of `ebb run --on sim`, under 100 seeds; and the same with all designs equal.

use super::{Night, best, grid, halving, in_a_row};
use crate::pages::{read, root};
use ebbtide_analysis::TrialSummary;
use ebbtide_analysis::estimate::median;
use ebbtide_analysis::race::{Figures, Raced, of_trials};
use ebbtide_analysis::stop::Decider;
use ebbtide_model::backend::Control;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::schedule::{Role, Schedule, Trial};
use ebbtide_model::session::{Outcome, TrialRecord};
use ebbtide_model::sweep::{Planted, Sweep};
use ebbtide_sim::{session, simulate};
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Seeds of the nights: 1 to this.
const NIGHTS: u64 = 100;
/// Share of the full grid's I/O that a race and halving may use.
const SHARE: f64 = 0.2;
/// By how much one of the best is faster than the others, in the nights with a clear winner.
const AHEAD: f64 = 1.10;
/// Rounds without moods whose mean is a design's true rate.
const TRUE_ROUNDS: usize = 10;

/// The trials of a night, one after the other.
struct Simulated<'a> {
    experiment: &'a Experiment,
    sweep: &'a Sweep,
    schedule: Schedule,
    seed: u64,
    /// Of each arm: its trials so far.
    times: Vec<u32>,
    rounds: u32,
    /// Trials so far, and their seconds of I/O, warm-up included.
    trials: u32,
    seconds: f64,
}

impl<'a> Simulated<'a> {
    fn new(experiment: &'a Experiment, sweep: &'a Sweep, seed: u64) -> Self {
        Simulated {
            experiment,
            sweep,
            schedule: Schedule::new(experiment, seed),
            seed,
            times: vec![0; sweep.arms.len()],
            rounds: 0,
            trials: 0,
            seconds: 0.0,
        }
    }

    /// What arm number `arm` is worth in `trial`, which runs now; 0 where it failed.
    fn run(&mut self, arm: usize, trial: Trial) -> f64 {
        let arm = &self.sweep.arms[arm];
        let trial = Trial { index: self.trials, ..trial };
        self.trials += 1;
        let design = &self.experiment.designs[trial.design];
        let Some(load) = self.experiment.load(trial.design, trial.workload) else { return 0.0 };
        let outcome = match simulate(self.experiment, self.seed, design, load, &trial, &Control::default()) {
            Ok(samples) => Outcome::Samples(Box::new(samples)),
            Err(error) => Outcome::Failed(error.to_string()),
        };
        let ran = TrialSummary::of(self.experiment, &TrialRecord { trial, outcome });
        self.seconds += ran.io_seconds;
        Figures::new(arm, &ran).worth(&self.sweep.objective).unwrap_or(0.0)
    }
}

impl Night for Simulated<'_> {
    fn designs(&self) -> usize {
        self.sweep.arms.len()
    }

    fn trial(&mut self, design: usize) -> f64 {
        let times = self.times[design];
        self.times[design] += 1;
        let of_arm = self.sweep.arms[design].design;
        let wanted = |trial: &Trial| trial.design == of_arm && trial.role == Role::Candidate;
        self.schedule.round(times).into_iter().find(wanted).map_or(0.0, |trial| self.run(design, trial))
    }

    fn round(&mut self, which: &[usize]) -> Vec<Option<f64>> {
        let runs = |design: usize| which.iter().any(|arm| self.sweep.arms[*arm].design == design);
        let trials = self.schedule.round_of(self.rounds, self.trials, runs);
        self.rounds += 1;
        let mut round = vec![None; self.sweep.arms.len()];
        for trial in trials.into_iter().filter(|trial| trial.role == Role::Candidate) {
            if let Some(arm) = self.sweep.arms.iter().position(|arm| arm.design == trial.design) {
                round[arm] = Some(self.run(arm, trial));
            }
        }
        round
    }
}

/// What a method says.
struct Said {
    /// The designs that may be the best, by the number of their arms.
    held: Vec<usize>,
    names_one: bool,
    /// Seconds of I/O that it took, of those of the full grid.
    share: f64,
    /// Of a race: whether more trials could change nothing that matters.
    decided: Option<bool>,
}

/// The methods, as the table calls them.
const METHODS: [&str; 6] = [
    "one run each",
    "three runs in a row each, averaged",
    "the full grid, highest median",
    "sequential halving",
    "race, a fifth of the grid (`budget = \"20%\"`)",
    "race to its end",
];

/// What each of [`METHODS`] says of a night.
fn said(experiment: &Experiment, seed: u64) -> Result<Vec<Said>, String> {
    let sweep = sweep(experiment)?;
    let rounds = experiment.answer.trials_max as usize;
    let mut whole = Simulated::new(experiment, sweep, seed);
    let by_grid = grid(&mut whole, rounds);
    let one = |said: &dyn Fn(&mut Simulated<'_>) -> usize| {
        let mut night = Simulated::new(experiment, sweep, seed);
        let held = vec![said(&mut night)];
        Said { held, names_one: true, share: night.seconds / whole.seconds, decided: None }
    };
    let trials = (SHARE * f64::from(whole.trials)) as usize;
    let mut said = vec![
        one(&|night| in_a_row(night, 1)),
        one(&|night| in_a_row(night, 3)),
        Said { held: vec![by_grid], names_one: true, share: 1.0, decided: None },
        one(&|night| halving(night, trials)),
    ];
    for budget in [Some(SHARE), None] {
        let raced = race(experiment, budget, seed)?;
        let arm = |design: &usize| sweep.arms.iter().position(|arm| arm.design == *design);
        said.push(Said {
            held: raced.left.iter().filter_map(arm).collect(),
            names_one: raced.winner().is_some(),
            share: raced.io_seconds / whole.seconds,
            decided: Some(raced.decided),
        });
    }
    Ok(said)
}

fn sweep(experiment: &Experiment) -> Result<&Sweep, String> {
    experiment.sweep.as_ref().ok_or_else(|| format!("{}: has no [sweep]", experiment.name))
}

/// The race as `ebb run --on sim --seed SEED` holds it, with that `budget` in `[sweep]`.
fn race(experiment: &Experiment, budget: Option<f64>, seed: u64) -> Result<Raced, String> {
    let mut experiment = experiment.clone();
    experiment.sweep.iter_mut().for_each(|sweep| sweep.budget = budget);
    let session = session(&experiment, seed, Decider::new(&experiment)).map_err(|error| error.to_string())?;
    let ran: Vec<TrialSummary> =
        session.trials.iter().map(|record| TrialSummary::of(&experiment, record)).collect();
    of_trials(&experiment, &ran).ok_or_else(|| format!("{}: no race", experiment.name))
}

/// The same experiment with designs that differ in their names alone: each is the first one's array, and nothing is planted.
fn equal(experiment: &Experiment) -> Experiment {
    let mut equal = experiment.clone();
    if let Some(first) = experiment.designs.first() {
        equal.designs.iter_mut().for_each(|design| design.layout.clone_from(&first.layout));
    }
    equal.environment.planted.values_mut().for_each(|planted| *planted = Planted::default());
    equal
}

/// The same experiment with the design of arm `arm` so much faster.
fn ahead(experiment: &Experiment, arm: usize) -> Result<Experiment, String> {
    let mut ahead = experiment.clone();
    let design = sweep(experiment)?.arms.get(arm).map(|arm| experiment.designs[arm.design].name.clone());
    let planted = ahead.environment.planted.entry(design.unwrap_or_default()).or_default();
    *planted = planted.and(Planted { rate: AHEAD, latency: 1.0 / AHEAD });
    Ok(ahead)
}

/// The true rate of each arm: the mean of so many rounds on volumes without moods.
fn truth(experiment: &Experiment, rounds: usize) -> Result<Vec<f64>, String> {
    let mut even = experiment.clone();
    even.volumes
        .iter_mut()
        .filter_map(|volume| volume.shape.as_mut())
        .for_each(|shape| shape.character.moods.clear());
    let sweep = sweep(&even)?;
    let mut night = Simulated::new(&even, sweep, 1);
    let all: Vec<usize> = (0..night.designs()).collect();
    let mut sums = vec![0.0; all.len()];
    for _ in 0..rounds {
        sums.iter_mut().zip(night.round(&all)).for_each(|(sum, value)| *sum += value.unwrap_or(0.0));
    }
    Ok(sums.into_iter().map(|sum| sum / rounds as f64).collect())
}

/// `of` for each seed, on all processors.
fn nights<T: Send + Sync>(of: impl Fn(u64) -> Result<T, String> + Sync) -> Result<Vec<T>, String> {
    let slots: Vec<OnceLock<Result<T, String>>> = (0..NIGHTS).map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = slots.get(at) else { break };
            slot.get_or_init(|| of(at as u64 + 1));
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..processors).for_each(|_| drop(scope.spawn(work))));
    slots
        .into_iter()
        .map(|slot| slot.into_inner().unwrap_or_else(|| Err("a night was not held".to_owned())))
        .collect()
}

/// The experiment, as it is simulated.
fn heroku() -> Result<Experiment, String> {
    let path = root().join("experiments/heroku-sweep.toml");
    let mut experiment = ebbtide_experiment::parse(&read(&path)?, &path.to_string_lossy())
        .map_err(|errors| errors.to_string())?;
    // As `ebb run --on sim` does.
    experiment.builds_nothing_in_turn();
    Ok(experiment)
}

/// The table.
///
/// # Errors
/// When the experiment cannot be read or simulated.
pub fn table() -> Result<String, String> {
    let experiment = heroku()?;
    let rates = truth(&experiment, TRUE_ROUNDS)?;
    let fastest = rates.iter().copied().fold(0.0, f64::max);
    let indifference = sweep(&experiment)?.indifference;
    let margin = indifference * 100.0;
    let is_good = |arm: &usize| rates[*arm] * (1.0 + indifference) >= fastest;
    let good = (0..rates.len()).filter(is_good).count();
    let real = nights(|seed| said(&experiment, seed))?;
    let winner = best(&rates);
    let ahead = ahead(&experiment, winner)?;
    let clear = nights(|seed| said(&ahead, seed))?;
    let equal = equal(&experiment);
    let even = nights(|seed| said(&equal, seed))?;
    let mut out = format!(
        "`experiments/heroku-sweep.toml` on the simulator, seeds 1 to {NIGHTS}: {} designs, of which {good} are within {:.0}% of the best; the full grid is \
         {} interleaved rounds. Right is a winner within {:.0}% of the best, or a tie that holds the best; the true rates are the means of {TRUE_ROUNDS} rounds without \
         moods. Ahead: one of the best is planted {:.0}% faster. Equal: the first design's array under 48 names, nothing planted. Standard error at most \
         5 points, 2 at 95%.\n\n\
         | method | right | names a winner | designs still in, median | of these within {:.0}% of the best | of the grid's I/O time, median | decided | \
         one is {:.0}% ahead: names it | all equal: names a winner |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
        rates.len(),
        margin,
        experiment.answer.trials_max,
        margin,
        (AHEAD - 1.0) * 100.0,
        margin,
        (AHEAD - 1.0) * 100.0,
    );
    for (method, name) in METHODS.iter().enumerate() {
        let share = |nights: &[Vec<Said>], is: &dyn Fn(&Said) -> bool| {
            let count = nights.iter().filter_map(|said| said.get(method)).filter(|said| is(said)).count();
            format!("{:.0}%", count as f64 / nights.len() as f64 * 100.0)
        };
        let middle = |of: &dyn Fn(&Said) -> f64| {
            let all: Vec<f64> = real.iter().filter_map(|said| said.get(method)).map(of).collect();
            median(&all).unwrap_or(f64::NAN)
        };
        let right = |said: &Said| match said.held.as_slice() {
            [one] => is_good(one),
            several => several.iter().any(|arm| rates[*arm] >= fastest),
        };
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {:.0} | {:.0} | {:.1}% | {} | {} | {} |",
            share(&real, &right),
            share(&real, &|said| said.names_one),
            middle(&|said| said.held.len() as f64),
            middle(&|said| said.held.iter().filter(|arm| is_good(arm)).count() as f64),
            middle(&|said| said.share * 100.0),
            if real.iter().any(|said| said[method].decided.is_some()) {
                share(&real, &|said| said.decided == Some(true))
            } else {
                "–".to_owned()
            },
            share(&clear, &|said| said.names_one && said.held == [winner]),
            share(&even, &|said| said.names_one),
        );
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_equal_are_equal_and_one_is_ahead() {
        let heroku = heroku().expect("is right");
        let rates = truth(&heroku, 1).expect("runs");
        let (first, fastest) = (best(&rates), rates.iter().copied().fold(0.0, f64::max));
        assert_eq!((rates.len(), rates[first]), (48, fastest));
        assert!(rates.iter().any(|rate| *rate < fastest / 2.0));
        let planted = truth(&ahead(&heroku, first).expect("has arms"), 1).expect("runs");
        for (arm, (rate, before)) in planted.iter().zip(&rates).enumerate() {
            let expected = if arm == first { before * AHEAD } else { *before };
            assert!((rate / expected - 1.0).abs() < 0.001, "{arm}: {rate} {before}");
        }
        let even = truth(&equal(&heroku), 1).expect("runs");
        assert!(even.iter().all(|rate| (rate / even[0] - 1.0).abs() < 0.001), "{even:?}");
    }

    #[test]
    fn a_race_of_a_night_keeps_its_share_and_holds_the_best() {
        let heroku = heroku().expect("is right");
        let rates = truth(&heroku, 1).expect("runs");
        let raced = race(&heroku, Some(SHARE), 1).expect("runs");
        let fastest = sweep(&heroku).expect("has one").arms[best(&rates)].design;
        assert!(raced.io_seconds <= SHARE * raced.full_grid_io_seconds);
        assert!(raced.left.contains(&fastest) && raced.left.len() < 24, "{:?}", raced.left);
    }
}
