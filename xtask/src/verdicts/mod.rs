//! `cargo xtask verdicts`: how often the verdicts are right, on set-ups whose truth is known.
//!
//! Cases are drawn from seeds: even ones to tune rules and thresholds on, odd ones to report from.

mod cases;
mod random;
mod real;

use crate::pages;
use cases::{CLASSES, Case, case};
use ebbtide_analysis::stop::Decider;
use ebbtide_analysis::{VerdictKind, analyse};
use ebbtide_model::session::{Outcome, Session};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Cases of each class in a set.
const EACH: u64 = 30;

/// What came of a case.
#[derive(Debug)]
struct Judged {
    truth: VerdictKind,
    first: VerdictKind,
    /// All verdicts in their order.
    named: Vec<VerdictKind>,
    /// Whether a cause was named that is not there, first or further down.
    invented: bool,
    seed: u64,
    sentence: String,
}

/// Which half of the seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Set {
    Tuning,
    Reporting,
}

#[derive(clap::Args)]
pub struct Options {
    /// The cases of even seeds, which rules are tuned on; nothing is written
    #[arg(long)]
    tuning: bool,
    /// Cases of each class
    #[arg(long, value_name = "N", default_value_t = EACH, conflicts_with = "real")]
    each: u64,
    /// On real devices of this machine: takes about a quarter of an hour, root, and 3 GiB in /var/tmp and /dev/shm each
    #[arg(long)]
    real: bool,
    /// What the real cases are, without running them
    #[arg(long, requires = "real")]
    list: bool,
    /// No real case begins after so many; the table says how many were left out
    #[arg(long, value_name = "N", requires = "real")]
    minutes: Option<u64>,
    /// The program that real cases judge [default: target/release/ebb, which is built]
    #[arg(long, value_name = "PATH", requires = "real")]
    ebb: Option<String>,
    /// Classes of cases, of real ones also single cases as CLASS:SEED [default: all]
    #[arg(value_name = "CLASS")]
    only: Vec<String>,
}

impl Options {
    fn set(&self) -> Set {
        if self.tuning { Set::Tuning } else { Set::Reporting }
    }
}

/// Judges the cases that are asked for.
///
/// # Errors
/// When a case cannot be simulated or the page cannot be written.
pub fn run(options: &Options) -> Result<(), String> {
    if options.real {
        return real::run(options);
    }
    let (set, each) = (options.set(), options.each);
    if let Some(class) = options.only.iter().find(|class| CLASSES.iter().all(|kind| kind.name() != **class)) {
        return Err(format!("there is no class {class:?}"));
    }
    let asked =
        |class: &VerdictKind| options.only.is_empty() || options.only.iter().any(|one| one == class.name());
    let classes: Vec<VerdictKind> = CLASSES.into_iter().filter(asked).collect();
    let judged = judge_all(&classes, set, each)?;
    let table = matrix(&judged);
    println!("{table}");
    if set == Set::Tuning {
        for case in judged.iter().filter(|case| case.first != case.truth || case.invented) {
            let named: Vec<&str> = case.named.iter().map(|kind| kind.name()).collect();
            println!("{} {}: {} ({})", case.truth.name(), case.seed, named.join(" "), case.sentence);
        }
    } else if options.only.is_empty() && each == EACH {
        let path = pages::root().join("docs/verdict-accuracy.md");
        let text = pages::read(&path)?;
        pages::write(&path, &pages::between(&text, "verdicts", None, &table)?)?;
    }
    Ok(())
}

fn judge_all(classes: &[VerdictKind], set: Set, each: u64) -> Result<Vec<Judged>, String> {
    let work: Vec<(VerdictKind, u64)> = classes
        .iter()
        .flat_map(|class| (0..each).map(|n| (*class, 2 * n + u64::from(set == Set::Reporting))))
        .collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((class, n)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let index = CLASSES.iter().position(|known| known == class).unwrap_or(0) as u64;
                    let seed = n * 100 + index;
                    let judged = judge(&case(*class, seed), seed);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push(judged);
                }
            });
        }
    });
    let mut judged: Vec<Judged> =
        done.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect::<Result<_, _>>()?;
    judged.sort_by_key(|case| case.seed);
    Ok(judged)
}

fn judge(case: &Case, seed: u64) -> Result<Judged, String> {
    let session = ebbtide_sim::session(&case.experiment, seed, Decider::new(&case.experiment))
        .map_err(|error| format!("{} {seed}: {error}", case.truth.name()))?;
    let session = if case.shared_disk { on_one_disk(session) } else { session };
    if let Some(Outcome::Failed(why)) = session.trials.first().map(|record| &record.outcome) {
        return Err(format!("{} {seed}: {why}", case.truth.name()));
    }
    let analysis = analyse(&session);
    let verdicts = analysis.results.first().map(|result| result.verdicts.as_slice()).unwrap_or_default();
    let first = verdicts.first().ok_or_else(|| format!("{} {seed}: no verdict", case.truth.name()))?;
    let there =
        |kind: VerdictKind| kind == case.truth || kind == VerdictKind::Unknown || case.also.contains(&kind);
    Ok(Judged {
        truth: case.truth,
        first: first.kind,
        named: verdicts.iter().map(|verdict| verdict.kind).collect(),
        invented: verdicts.iter().any(|verdict| !there(verdict.kind)),
        seed,
        sentence: first.sentence.clone(),
    })
}

/// The session as it looks on volumes of unknown speed that the inventory found on one disk.
fn on_one_disk(mut session: Session) -> Session {
    for volume in &mut session.experiment.volumes {
        volume.shape = None;
    }
    for volume in &mut session.meta.inventory.volumes {
        volume.disk = Some("8:0".into());
        volume.disk_name = Some("sda".into());
    }
    for record in &mut session.trials {
        if let Outcome::Samples(samples) = &mut record.outcome {
            samples.observed = None;
        }
    }
    session
}

/// The confusion matrix with its sums.
fn matrix(judged: &[Judged]) -> String {
    let mut columns: Vec<VerdictKind> = CLASSES.to_vec();
    columns.retain(|kind| judged.iter().any(|case| case.first == *kind));
    let mut out = String::from("| truth \\ verdict |");
    for kind in &columns {
        let _ = write!(out, " {} |", kind.name());
    }
    let _ = write!(out, " recall |\n| --- |{}\n", " ---: |".repeat(columns.len() + 1));
    for truth in CLASSES {
        let row: Vec<&Judged> = judged.iter().filter(|case| case.truth == truth).collect();
        if row.is_empty() {
            continue;
        }
        let _ = write!(out, "| {} |", truth.name());
        for kind in &columns {
            match row.iter().filter(|case| case.first == *kind).count() {
                0 => out.push_str(" |"),
                n => {
                    let _ = write!(out, " {n} |");
                }
            }
        }
        let right = row.iter().filter(|case| case.first == truth).count();
        let _ = writeln!(out, " {:.0}% |", right as f64 / row.len() as f64 * 100.0);
    }
    let share = |count: usize| count as f64 / judged.len().max(1) as f64 * 100.0;
    let right = judged.iter().filter(|case| case.first == case.truth).count();
    let wrong =
        judged.iter().filter(|case| case.first != case.truth && case.first != VerdictKind::Unknown).count();
    let invented = judged.iter().filter(|case| case.invented).count();
    let _ = write!(
        out,
        "\n{} cases: the first verdict is right in {right} ({:.1}%) and names another cause in {wrong} ({:.1}%). Any \
         verdict, also below the first, names a cause that is not there in {invented} ({:.1}%).\n",
        judged.len(),
        share(right),
        share(wrong),
        share(invented),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_cases_of_each_class_are_judged_as_well_as_the_page_says() {
        let judged = judge_all(&CLASSES, Set::Reporting, 2).expect("simulates");
        assert_eq!(judged.len(), 2 * CLASSES.len());
        let right = judged.iter().filter(|case| case.first == case.truth).count();
        assert!(right * 10 >= judged.len() * 9, "{judged:#?}");
    }

    #[test]
    fn cases_are_the_same_for_the_same_seed_and_plausible() {
        for class in CLASSES {
            let (a, b) = (case(class, 7), case(class, 7));
            assert_eq!(a.experiment, b.experiment);
            assert!((1..=8).contains(&a.experiment.volumes.len()));
            assert!(a.experiment.workloads[0].iodepth >= 1);
        }
    }
}
