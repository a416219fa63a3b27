//! How often the verdicts are right on simulated set-ups whose truth is known: a few of each class in every run, and all of them
//! for the table of docs/explanation/verdict-accuracy.md (`cargo xtask verdicts`).
//!
//! Cases are drawn from seeds: even ones to tune rules and thresholds on, odd ones to report from.
#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]

mod cases;
// Real cases are drawn with the same.
#[path = "../../../../xtask/figures/src/verdicts/random.rs"]
mod random;

use cases::{CLASSES, Case, case};
use ebbtide_analysis::stop::Decider;
use ebbtide_analysis::{VerdictKind, analyse};
use ebbtide_model::session::{Outcome, Session};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation/verdict-accuracy.md");
const MARKERS: [&str; 2] = [
    "<!-- written by `cargo xtask verdicts`: begin -->\n",
    "<!-- written by `cargo xtask verdicts`: end -->\n",
];
/// Cases of each class in the table.
const EACH: u64 = 30;
/// Hundreds of seeds at which the cases of the table begin: those before were looked at when rules were pruned.
const REPORTED_FROM: u64 = 700;

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

fn judge_all(classes: &[VerdictKind], odd: bool, each: u64) -> Vec<Judged> {
    let work: Vec<(VerdictKind, u64)> =
        classes.iter().flat_map(|class| (0..each).map(|n| (*class, 2 * n))).collect();
    let from = if odd { REPORTED_FROM + 1 } else { 0 };
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((class, n)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let index = CLASSES.iter().position(|known| known == class).unwrap_or(0) as u64;
                    let seed = (from + n) * 100 + index;
                    let judged = judge(&case(*class, seed), seed);
                    done.lock().expect("no thread broke").push(judged);
                }
            });
        }
    });
    let mut judged = done.into_inner().expect("no thread broke");
    judged.sort_by_key(|case| case.seed);
    judged
}

fn judge(case: &Case, seed: u64) -> Judged {
    let name = case.truth.name();
    let session = ebbtide_sim::session(&case.experiment, seed, Decider::new(&case.experiment))
        .unwrap_or_else(|error| panic!("{name} {seed}: {error}"));
    let session = if case.shared_disk { on_one_disk(session) } else { session };
    if let Some(Outcome::Failed(why)) = session.trials.first().map(|record| &record.outcome) {
        panic!("{name} {seed}: {why}");
    }
    let analysis = analyse(&session);
    let verdicts = analysis.results.first().map(|result| result.verdicts.as_slice()).unwrap_or_default();
    let first = verdicts.first().unwrap_or_else(|| panic!("{name} {seed}: no verdict"));
    let there =
        |kind: VerdictKind| kind == case.truth || kind == VerdictKind::Unknown || case.also.contains(&kind);
    Judged {
        truth: case.truth,
        first: first.kind,
        named: verdicts.iter().map(|verdict| verdict.kind).collect(),
        invented: verdicts.iter().any(|verdict| !there(verdict.kind)),
        seed,
        sentence: first.sentence.clone(),
    }
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

/// `EBB_TEST_VERDICTS`: `tuning` for even seeds, of which it writes nothing; words after it are the classes that are asked for.
#[test]
#[ignore = "minutes: cargo xtask verdicts"]
fn the_table() {
    let asked = std::env::var("EBB_TEST_VERDICTS").unwrap_or_default();
    let mut words = asked.split_whitespace();
    let tuning = words.next() == Some("tuning");
    let only: Vec<&str> = words.collect();
    let unknown = only.iter().find(|class| CLASSES.iter().all(|kind| kind.name() != **class));
    assert!(unknown.is_none(), "there is no class {unknown:?}");
    let classes: Vec<VerdictKind> =
        CLASSES.into_iter().filter(|class| only.is_empty() || only.contains(&class.name())).collect();
    let judged = judge_all(&classes, !tuning, EACH);
    let table = matrix(&judged);
    println!("{table}");
    for case in judged.iter().filter(|case| case.first != case.truth || case.invented) {
        let named: Vec<&str> = case.named.iter().map(|kind| kind.name()).collect();
        println!("{} {}: {} ({})", case.truth.name(), case.seed, named.join(" "), case.sentence);
    }
    if !tuning && only.is_empty() {
        let page = std::fs::read_to_string(PAGE).expect("is there");
        let (before, rest) = page.split_once(MARKERS[0]).expect("has the table's begin");
        let (_, after) = rest.split_once(MARKERS[1]).expect("has the table's end");
        let written = [before, MARKERS[0], "\n", &table, "\n", MARKERS[1], after].concat();
        std::fs::write(PAGE, written).expect("is written");
    }
}

#[test]
fn a_few_cases_of_each_class_are_judged_as_well_as_the_page_says() {
    let judged = judge_all(&CLASSES, true, 2);
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
