//! What changes without each clause of the rules: `cargo xtask verdicts --without CLAUSE`, which compiles this with a copy of the crate
//! in which each can be switched off.
//!
//! Each case is judged as it is, with a ladder, and once more as if nobody had said what its volumes grant.

use super::cases::{CLASSES, case};
use super::on_one_disk;
use ebbtide_analysis::ladder;
use ebbtide_analysis::stop::Decider;
use ebbtide_analysis::{Elsewhere, VerdictKind, clauses, of_design};
use ebbtide_model::backend::Control;
use ebbtide_model::session::{Session, TrialRecord};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/clauses/list");
/// Cases of each class: each is judged some hundred times.
const CASES: u64 = 8;
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/clauses/table");

/// What a first verdict is, of a case whose truth is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    Right,
    Unknown,
    Wrong,
    Broke,
}

struct Judgement {
    said: Said,
    /// All kinds in their order.
    named: Vec<VerdictKind>,
    invented: bool,
}

struct Labelled {
    session: Session,
    truth: Vec<VerdictKind>,
    also: &'static [VerdictKind],
    noted: Vec<u8>,
    before: Judgement,
}

fn verdicts(session: &Session) -> Vec<VerdictKind> {
    let records: Vec<&TrialRecord> = session.trials.iter().collect();
    let part = of_design(session, 0, &records, &Elsewhere::default());
    part.results()[0].verdicts.iter().map(|verdict| verdict.kind).collect()
}

fn judged(session: &Session, truth: &[VerdictKind], also: &[VerdictKind]) -> Judgement {
    let Ok(named) = catch_unwind(AssertUnwindSafe(|| verdicts(session))) else {
        return Judgement { said: Said::Broke, named: Vec::new(), invented: false };
    };
    let first = named[0];
    let there =
        |kind: &VerdictKind| *kind == VerdictKind::Unknown || truth.contains(kind) || also.contains(kind);
    let said = match first {
        first if truth.contains(&first) => Said::Right,
        VerdictKind::Unknown => Said::Unknown,
        _ => Said::Wrong,
    };
    Judgement { said, invented: !named.iter().all(there), named }
}

/// The session with the rungs that it wants, as on real volumes.
fn with_ladder(mut session: Session, seed: u64) -> Session {
    for _ in 0..2 {
        let records: Vec<&TrialRecord> = session.trials.iter().collect();
        let part = of_design(&session, 0, &records, &Elsewhere::default());
        let ladders = ladder::of_design(&session, &part, &records);
        let mut more = Vec::new();
        for ladder in ladders {
            for (index, workload) in ladder.rungs.iter().enumerate() {
                let trial = ladder::trial_of(&ladder.trial, ladder.ran + index);
                let design = &session.experiment.designs[0];
                let ran = ebbtide_sim::simulate(
                    &session.experiment,
                    seed,
                    design,
                    workload,
                    &trial,
                    &Control::default(),
                );
                more.extend(ran.ok().map(|samples| ladder::ran(&design.name, workload, samples)));
            }
        }
        session.meta.rungs.extend(more);
    }
    session
}

/// The session as it is where nobody said what the volumes grant; its ladder is that of the volumes as they are.
fn undeclared(session: &Session, seed: u64) -> Session {
    let mut blind = session.clone();
    blind.meta.rungs.clear();
    let hide = |session: &mut Session| {
        session.experiment.volumes.iter_mut().for_each(|volume| volume.shape = None);
        session.experiment.links.clear();
    };
    for _ in 0..2 {
        let mut hidden = blind.clone();
        hide(&mut hidden);
        let records: Vec<&TrialRecord> = hidden.trials.iter().collect();
        let part = of_design(&hidden, 0, &records, &Elsewhere::default());
        for ladder in ladder::of_design(&hidden, &part, &records) {
            for (index, workload) in ladder.rungs.iter().enumerate() {
                let trial = ladder::trial_of(&ladder.trial, ladder.ran + index);
                let (experiment, control) = (&blind.experiment, Control::default());
                let design = &experiment.designs[0];
                let ran = ebbtide_sim::simulate(experiment, seed, design, workload, &trial, &control);
                let rung = ran.ok().map(|samples| ladder::ran(&design.name, workload, samples));
                blind.meta.rungs.extend(rung);
            }
        }
    }
    hide(&mut blind);
    blind
}

/// What may come first where nobody said what the volumes grant: a limit looks like a rate that somebody set, or like the device's own.
fn truth_of(truth: VerdictKind) -> Vec<VerdictKind> {
    use VerdictKind::{
        Burst, Concurrency, FirstTouch, InstanceLimit, RateLimit, RequestSize, VolumeLimit, WriteCache,
    };
    match truth {
        VolumeLimit | InstanceLimit | RequestSize => vec![truth, VolumeLimit, RateLimit],
        Burst => vec![Burst, WriteCache],
        // What a first access takes longer is a latency, which more in flight hide.
        FirstTouch => vec![FirstTouch, Concurrency],
        truth => vec![truth],
    }
}

fn labelled(clauses: usize) -> Vec<Labelled> {
    let all: Vec<(VerdictKind, u64)> = CLASSES
        .iter()
        .enumerate()
        .flat_map(|(index, kind)| (0..CASES).map(move |n| (*kind, 200 * n + index as u64)))
        .collect();
    each(&all, |(kind, seed)| {
        let case = case(*kind, *seed);
        let session = ebbtide_sim::session(&case.experiment, *seed, Decider::new(&case.experiment));
        let session = session.expect("is simulated");
        let session = if case.shared_disk { on_one_disk(session) } else { with_ladder(session, *seed) };
        let blind = if case.shared_disk { session.clone() } else { undeclared(&session, *seed) };
        let of = |session: Session, truth: Vec<VerdictKind>| {
            clauses::watch(clauses);
            let before = judged(&session, &truth, case.also);
            Labelled { noted: clauses::noted(), session, truth, also: case.also, before }
        };
        [of(session, vec![case.truth]), of(blind, truth_of(case.truth))]
    })
    .into_iter()
    .flatten()
    .collect()
}

/// What `work` makes of each, on all processors.
fn each<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(one) = all.get(at) else { break };
                    let made = work(one);
                    done.lock().expect("no thread broke").insert(at, made);
                }
            });
        }
    });
    done.into_inner().expect("no thread broke").into_values().collect()
}

struct Clause {
    id: u32,
    how: u8,
    place: String,
    text: String,
}

impl Clause {
    /// Whether it may change what is said of a case in which clauses had these values.
    fn matters(&self, noted: &[u8]) -> bool {
        let noted = noted[self.id as usize];
        match self.how {
            0 => noted & 1 > 0,
            1 => noted & 2 > 0,
            _ => noted & 4 > 0,
        }
    }
}

fn all_clauses() -> (Vec<Clause>, usize) {
    let asked = std::env::var("EBB_TEST_WITHOUT").unwrap_or_default();
    let list = std::fs::read_to_string(LIST).expect("the harness has made it");
    let number = list.lines().count();
    let mut all = Vec::new();
    for line in list.lines() {
        let [id, place, kind, text] = line.splitn(4, '\t').collect::<Vec<_>>()[..] else { continue };
        let named = asked.split_whitespace().any(|name| name == "all" || place.starts_with(name));
        let hows: &[u8] = if kind == "condition" { &[0, 1] } else { &[2] };
        for how in hows.iter().filter(|_| named) {
            let id = id.parse().expect("a number");
            all.push(Clause { id, how: *how, place: place.to_owned(), text: text.to_owned() });
        }
    }
    (all, number)
}

/// Judges every case without each clause.
#[test]
#[ignore = "minutes: cargo xtask verdicts --without CLAUSE"]
fn without_clauses() {
    let (clauses_of, number) = all_clauses();
    assert!(!clauses_of.is_empty(), "no clause is there");
    let cases = labelled(number);
    for half in [0, 1] {
        let of_half = || cases.iter().skip(half).step_by(2);
        let count = |said| of_half().filter(|case| case.before.said == said).count();
        println!(
            "{}: {} right, {} unknown, {} wrong, {} name one that is not there",
            ["declared", "undeclared"][half],
            count(Said::Right),
            count(Said::Unknown),
            count(Said::Wrong),
            of_half().filter(|case| case.before.invented).count()
        );
        for case in of_half().filter(|case| case.before.said != Said::Right) {
            println!("   {:?}: {:?}", case.truth, case.before.named);
        }
    }
    std::panic::set_hook(Box::new(|_| {}));
    let written = Mutex::new(std::fs::File::create(TABLE).expect("is made"));
    let rows = each(&clauses_of, |clause| {
        let (mut reached, mut changed, mut invented) = (0, 0, 0i32);
        let mut moves: BTreeMap<(Said, Said), usize> = BTreeMap::new();
        for case in cases.iter().filter(|case| clause.matters(&case.noted)) {
            reached += 1;
            clauses::off(Some((clause.id, clause.how)));
            let now = judged(&case.session, &case.truth, case.also);
            clauses::off(None);
            changed += usize::from(now.named != case.before.named);
            invented += i32::from(now.invented) - i32::from(case.before.invented);
            if now.said != case.before.said {
                *moves.entry((case.before.said, now.said)).or_default() += 1;
            }
        }
        let how = ["always", "never", "without"][usize::from(clause.how)];
        let mut row = format!("{}\t{how}\t{reached}\t{changed}\t{invented}\t", clause.place);
        for ((from, to), number) in moves {
            let _ = write!(row, "{from:?}>{to:?} {number} ");
        }
        let _ = writeln!(row, "\t{}", clause.text);
        written.lock().expect("no thread broke").write_all(row.as_bytes()).expect("is written");
        row
    });
    let table = rows.concat();
    let count = |test: &dyn Fn(&[&str]) -> bool| {
        table.lines().filter(|line| test(&line.split('\t').collect::<Vec<_>>())).count()
    };
    println!(
        "{} ways to switch one off: {} meet no case, {} change no verdict, {} change first ones",
        rows.len(),
        count(&|row| row[2] == "0"),
        count(&|row| row[2] != "0" && row[3] == "0"),
        count(&|row| !row[5].is_empty())
    );
}
