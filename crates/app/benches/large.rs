//! What a session as large as a sweep costs: `cargo bench -p ebbtide --bench large [TRIALS]...`.
//!
//! Simulates a round of 55 designs of up to 24 members under three workloads, stores it again and again until there are so
//! many trials, and prints how many bytes one takes, how long a report takes from the store, and the most memory that the
//! process had until then (sizes in ascending order therefore).

#![allow(clippy::disallowed_methods, clippy::disallowed_macros, clippy::print_stdout, clippy::print_stderr)] // a bench has a clock and prints

use ebbtide_analysis::stop::Estimates;
use ebbtide_analysis::{TrialSummary, together};
use ebbtide_model::backend::{Backend, BackendKind, Control};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::schedule::Schedule;
use ebbtide_model::session::{Outcome, Session, SessionMeta, TrialRecord};
use ebbtide_model::units::UnixTime;
use ebbtide_report::{Kept, OfDesign, Report, html, text};
use ebbtide_runner::store::Store;
use ebbtide_sim::SimBackend;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

const SEED: u64 = 1;

/// 24 volumes whose latencies vary, and 55 designs over them.
fn experiment() -> Result<Experiment, Box<dyn Error>> {
    let mut text = "name = \"large\"\n\
         [volumes.v]\ncount = 24\nsize = \"8GiB\"\n\
         [volumes.v.shape]\niops = 3000\nthroughput = \"125MB/s\"\nlatency = { median = \"0.5ms\", p99 = \"2ms\" }\n"
        .to_owned();
    for members in [1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24] {
        for (index, chunk) in ["16KiB", "64KiB", "128KiB", "256KiB", "1MiB"].into_iter().enumerate() {
            if members == 1 {
                writeln!(text, "[designs.one-{index}]\nlayout = \"linear\"\nmembers = [\"v{index}\"]")?;
            } else {
                writeln!(
                    text,
                    "[designs.stripe-{members}-{index}]\nlayout = \"stripe\"\nchunk = \"{chunk}\"\nmembers = [\"v[0..{}]\"]",
                    members - 1
                )?;
            }
        }
    }
    text += "[workloads.randread]\nrw = \"randread\"\nbs = \"4k\"\niodepth = 32\nruntime = \"2s\"\n\
             [workloads.seqread]\nrw = \"read\"\nbs = \"256k\"\niodepth = 16\nruntime = \"2s\"\n\
             [workloads.mixed]\nrw = \"randrw\"\nbs = \"8k\"\niodepth = 16\nruntime = \"2s\"\n";
    Ok(ebbtide_experiment::parse(&text, "large.toml").map_err(|errors| errors.to_string())?)
}

/// The trials of the first rounds, simulated.
fn simulated(experiment: &Experiment, rounds: u32) -> Result<Vec<TrialRecord>, Box<dyn Error>> {
    let control = Control::default();
    let mut backend = SimBackend::new(SEED);
    backend.prepare(experiment, &control)?;
    let schedule = Schedule::new(experiment, SEED);
    let mut records = Vec::new();
    for trial in (0..rounds).flat_map(|round| schedule.round(round)) {
        let design = &experiment.designs[trial.design];
        let load = experiment.load(trial.design, trial.workload).ok_or("no such workload")?;
        let samples = backend.run_trial(design, load, &trial, &control)?.condensed();
        records.push(TrialRecord { trial, outcome: Outcome::Samples(Box::new(samples)) });
    }
    Ok(records)
}

/// Most memory that this process has had, in MB.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? / 1000)
}

fn measure(
    path: &Path,
    experiment: &Experiment,
    rounds: &[TrialRecord],
    trials: usize,
) -> Result<(), Box<dyn Error>> {
    let mut store = Store::open(Some(path))?;
    let session = Session {
        meta: SessionMeta::new(format!("large-{trials}"), BackendKind::Sim, SEED, UnixTime::EPOCH),
        experiment: experiment.clone(),
        experiment_text: String::new(),
        trials: Vec::new(),
    };
    store.begin(&session, &serde_json::Value::Null)?;
    let before = std::fs::metadata(path)?.len();
    let of_these = rounds.last().map_or(1, |record| record.trial.round + 1);
    for (index, record) in rounds.iter().cycle().take(trials).enumerate() {
        let mut record = record.clone();
        record.trial.index = u32::try_from(index)?;
        record.trial.round += (index / rounds.len()) as u32 * of_these;
        store.add_trial(&session.meta.id, &record)?;
    }
    drop(store);
    let bytes = std::fs::metadata(path)?.len().saturating_sub(before);

    let start = Instant::now();
    let store = Store::open(Some(path))?;
    let head = store.head(&session.meta.id)?;
    let kept = Kept::drawn(&head.experiment);
    let parts = store.by_design(&head, |part, records| OfDesign::new(&head, part, records, kept))?;
    let (parts, of_designs) = parts.into_iter().unzip();
    let report = Report::together(&head, together(&head, parts), of_designs);
    let lines = text(&report, 100, false).into_string().lines().count();
    let shown = start.elapsed().as_secs_f64();
    let page = html(&report);
    let drawn = start.elapsed().as_secs_f64();
    let mut standing = Estimates::new(experiment);
    rounds.iter().for_each(|record| standing.add(&TrialSummary::of(experiment, record)));
    let decided = Instant::now();
    let newest = &rounds[rounds.len() - rounds.len().min(168)..];
    newest.iter().for_each(|record| standing.add(&TrialSummary::of(experiment, record)));
    println!(
        "{trials} trials: {:.1} kB each; text ({lines} lines) after {shown:.2} s; HTML {:.2} MB after {drawn:.2} s; {} taken \
         into account for the decision in {:.1} ms; {} MB of memory at most",
        bytes as f64 / trials as f64 / 1e3,
        page.len() as f64 / 1e6,
        newest.len(),
        decided.elapsed().as_secs_f64() * 1e3,
        most_memory().map_or("?".to_owned(), |mb| mb.to_string()),
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut sizes: Vec<usize> =
        std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![1_008, 5_040];
    }
    sizes.sort_unstable();
    let directory = tempfile::tempdir()?;
    let experiment = experiment()?;
    let rounds = simulated(&experiment, 1)?;
    for trials in sizes {
        measure(&directory.path().join(format!("{trials}.sqlite")), &experiment, &rounds, trials)?;
    }
    Ok(())
}
