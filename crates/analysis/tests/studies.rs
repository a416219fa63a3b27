//! The published studies beside the simulator: the tables of docs/studies/NAME.md are what experiments/NAME.toml gives beside
//! experiments/published/NAME.csv. `EBB_TEST_WRITE=1 cargo test -p ebbtide-analysis --test studies` writes them.
//!
//! A line of a file of figures: configuration (as the source calls it), design and workload of the experiment, unit, share,
//! published, role, note. `share` is the part of the simulated figure that the source counts: bonnie++ counts a rewritten block
//! once, the report its read and its write. Several published values have blanks between them. Of roles, `fitted` has a
//! parameter of the experiment that was chosen to meet it; `contradictory` and `missed` need a note that says why.
#![allow(clippy::disallowed_methods)]

use ebbtide_analysis::estimate::median;
use ebbtide_analysis::metric;
use ebbtide_analysis::stop::Decider;
use ebbtide_model::metric::Metric;
use ebbtide_model::session::{Outcome, Session};
use std::fmt::Write as _;
use std::path::Path;

const NAMES: [&str; 5] =
    ["ec2-disk-overview", "heroku-night", "lvm-linear-vs-striped", "instance-store-raid0", "efs-small-io"];
const MARKERS: [&str; 2] = ["<!-- written by a test: begin -->\n", "<!-- written by a test: end -->\n"];
/// Largest deviation of a predicted figure, and of a fitted one.
const PREDICTED: f64 = 0.15;
const FITTED: f64 = 0.05;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A published figure beside the simulated one.
struct Row<'a> {
    /// Configuration, design, workload.
    names: [&'a str; 3],
    role: &'a str,
    note: &'a str,
    metric: Metric,
    published: Vec<f64>,
    /// Of each trial.
    simulated: Vec<f64>,
}

impl<'a> Row<'a> {
    fn new(line: &'a str, session: &Session) -> Row<'a> {
        let cells: Vec<&str> = line.splitn(8, ',').collect();
        let [configuration, design, workload, unit, share, published, role, note] = cells[..] else {
            panic!("{line}: not 8 columns");
        };
        let (metric, factor) = match unit {
            "KiB/s" => (Metric::Throughput, 1024.0),
            "MB/s" => (Metric::Throughput, 1e6),
            "MiB/s" => (Metric::Throughput, 1_048_576.0),
            "ops/s" => (Metric::Iops, 1.0),
            _ => panic!("{line}: units are KiB/s, MiB/s, MB/s and ops/s"),
        };
        let explained = !note.is_empty() && ["contradictory", "missed"].contains(&role);
        assert!(["fitted", "predicted"].contains(&role) || explained, "{line}: its role, or no note");
        let number = |text: &str| text.parse::<f64>().unwrap_or_else(|error| panic!("{line}: {error}"));
        let share = number(share);
        let mut published: Vec<f64> = published.split(' ').map(|value| number(value) * factor).collect();
        published.sort_by(f64::total_cmp);
        let mut simulated = simulated(session, design, workload, metric);
        simulated.iter_mut().for_each(|value| *value *= share);
        simulated.sort_by(f64::total_cmp);
        assert!(!simulated.is_empty(), "{line}: the experiment has no such design and workload");
        Row { names: [configuration, design, workload], role, note, metric, published, simulated }
    }

    /// Simulated over published.
    fn ratio(&self) -> f64 {
        median(&self.simulated).zip(median(&self.published)).map_or(f64::NAN, |(here, there)| here / there)
    }

    /// The middle of `values` with its unit, and the least and the most.
    fn shown(&self, values: &[f64]) -> [String; 3] {
        let (unit, per) = if self.metric == Metric::Throughput { ("MB/s", 1e6) } else { ("/s", 1.0) };
        let number = |value: f64| format!("{value:.*}", usize::from(value < 100.0));
        let middle = number(median(values).unwrap_or(f64::NAN) / per);
        [format!("{middle} {unit}"), number(values[0] / per), number(values[values.len() - 1] / per)]
    }
}

/// What each trial gave.
fn simulated(session: &Session, design: &str, workload: &str, asked: Metric) -> Vec<f64> {
    let experiment = &session.experiment;
    let is_asked = |trial: &ebbtide_model::schedule::Trial| {
        experiment.designs[trial.design].name == design
            && experiment.workloads[trial.workload].name == workload
    };
    let trials = session.trials.iter().filter(|record| is_asked(&record.trial));
    let value = |outcome: &Outcome| match outcome {
        Outcome::Samples(samples) => metric(samples, asked),
        Outcome::Failed(_) => None,
    };
    trials.filter_map(|record| value(&record.outcome)).collect()
}

fn table(rows: &[Row<'_>]) -> String {
    let mut out = String::from(
        "| published configuration | here | published | simulated | simulated / published | |\n\
         | --- | --- | ---: | ---: | ---: | --- |\n",
    );
    let mut notes: Vec<&str> = Vec::new();
    for row in rows {
        let [configuration, design, workload] = row.names;
        let ([mut published, low, high], number) = (row.shown(&row.published), row.published.len());
        if number > 1 {
            published += &format!(" ({low} to {high} in {number})");
        }
        let [mut simulated, low, high] = row.shown(&row.simulated);
        if row.simulated[row.simulated.len() - 1] > 1.02 * row.simulated[0] {
            simulated += &format!(" ({low} to {high})");
        }
        let mut role = row.role.to_owned();
        if !row.note.is_empty() {
            let known = notes.iter().position(|note| *note == row.note).unwrap_or_else(|| {
                notes.push(row.note);
                notes.len() - 1
            });
            role += &format!(" [{}]", known + 1);
        }
        let ratio = row.ratio();
        let _ = writeln!(
            out,
            "| {configuration} | {design}, {workload} | {published} | {simulated} | {ratio:.2} | {role} |"
        );
    }
    let predicted: Vec<&Row> = rows.iter().filter(|row| row.role == "predicted").collect();
    let within = predicted.iter().filter(|row| (row.ratio() - 1.0).abs() <= PREDICTED).count();
    let (of, percent) = (predicted.len(), PREDICTED * 100.0);
    let _ =
        writeln!(out, "\n{within} of {of} predicted figures are within {percent:.0}% of the published ones.");
    for (number, note) in notes.iter().enumerate() {
        let _ = writeln!(out, "\n[{}] {note}", number + 1);
    }
    out
}

fn study(name: &str) {
    let text = read(&format!("experiments/{name}.toml"));
    let experiment = ebbtide_experiment::parse(&text, name).expect("is right");
    let session = ebbtide_sim::session(&experiment, 1, Decider::new(&experiment)).expect("runs");
    let figures = read(&format!("experiments/published/{name}.csv"));
    // After the sources comes the line of columns.
    let lines = figures.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).skip(1);
    let rows: Vec<Row> = lines.map(|line| Row::new(line, &session)).collect();
    assert!(rows.iter().any(|row| row.role == "predicted"), "{name} predicts nothing");
    for row in &rows {
        let within = match row.role {
            "predicted" => PREDICTED,
            "fitted" => FITTED,
            _ => f64::INFINITY,
        };
        assert!((row.ratio() - 1.0).abs() <= within, "{name}: {:?} is off: {}", row.names, row.ratio());
    }
    let path = format!("docs/studies/{name}.md");
    let page = read(&path);
    let (before, rest) = page.split_once(MARKERS[0]).expect("has the table's begin");
    let (_, after) = rest.split_once(MARKERS[1]).expect("has the table's end");
    let written = [before, MARKERS[0], "\n", &table(&rows), "\n", MARKERS[1], after].concat();
    if std::env::var_os("EBB_TEST_WRITE").is_some() {
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&path), &written)
            .expect("is written");
    } else {
        assert!(written == page, "{path} is out of date: run this test with EBB_TEST_WRITE=1");
    }
}

#[test]
fn the_pages_are_what_the_simulator_gives_and_every_prediction_is_within_15_percent() {
    std::thread::scope(|scope| {
        for name in NAMES {
            scope.spawn(move || study(name));
        }
    });
}
