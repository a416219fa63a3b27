//! `cargo xtask studies`: the published studies beside the simulator.
//!
//! Runs experiments/NAME.toml in virtual time, compares with experiments/published/NAME.csv, and writes the table into
//! docs/studies/NAME.md between its two markers. The simulator is deterministic, so a test can ask that the pages are
//! what this command writes.

mod published;
#[cfg(test)]
mod tests;

use crate::pages::{between, read, root, write};
use ebbtide_analysis::metric;
use ebbtide_analysis::stop::Decider;
use ebbtide_model::metric::Metric;
use ebbtide_model::session::{Outcome, Session};
use published::{Figure, Role};
use std::fmt::Write as _;

/// The studies, by the names of their files.
pub const NAMES: [&str; 5] =
    ["ec2-disk-overview", "heroku-night", "lvm-linear-vs-striped", "instance-store-raid0", "efs-small-io"];

/// The seed of the sessions in the pages.
const SEED: u64 = 1;

/// Largest deviation of a figure that counts as predicted.
pub const WITHIN: f64 = 0.15;

/// A published figure with what the simulator gives.
#[derive(Debug, Clone)]
pub struct Compared {
    pub figure: Figure,
    /// Median over trials, in the source's counting.
    pub simulated: f64,
    /// Smallest and largest trial.
    pub range: (f64, f64),
}

impl Compared {
    /// Simulated figure as a multiple of the published one.
    pub fn ratio(&self) -> f64 {
        self.simulated / self.figure.median()
    }
}

#[derive(clap::Args)]
pub struct Options {
    /// Writes nothing, and fails where a page would change
    #[arg(long)]
    check: bool,
    /// Studies by their names [default: all]
    #[arg(value_name = "NAME", value_parser = NAMES)]
    names: Vec<String>,
}

/// Compares the studies that are asked for.
///
/// # Errors
/// When a file is missing or wrong, or with `--check` when a page is not what would be written.
pub fn run(options: &Options) -> Result<(), String> {
    for name in
        NAMES.iter().filter(|name| options.names.is_empty() || options.names.iter().any(|n| n == *name))
    {
        let table = table(&compare(name)?);
        println!("{name}\n\n{table}");
        let path = root().join(format!("docs/studies/{name}.md"));
        let page = read(&path)?;
        let written =
            between(&page, "studies", None, &table).map_err(|what| format!("{}: {what}", path.display()))?;
        if options.check && written != page {
            return Err(format!("{} is out of date: run cargo xtask studies", path.display()));
        }
        if written != page {
            write(&path, &written)?;
        }
    }
    Ok(())
}

/// Runs the study `name` and sets its figures beside the published ones.
///
/// # Errors
/// When a file is missing or wrong, or names what the experiment does not have.
pub fn compare(name: &str) -> Result<Vec<Compared>, String> {
    let experiment = root().join(format!("experiments/{name}.toml"));
    let text = read(&experiment)?;
    let experiment = ebbtide_experiment::parse(&text, name).map_err(|errors| errors.to_string())?;
    let path = root().join(format!("experiments/published/{name}.csv"));
    let figures = published::parse(&read(&path)?, &path.to_string_lossy())?;
    let session = ebbtide_sim::session(&experiment, SEED, Decider::new(&experiment))
        .map_err(|error| format!("{name}: {error}"))?;
    figures
        .into_iter()
        .map(|figure| {
            let mut values = values(&session, &figure)?;
            values.sort_by(f64::total_cmp);
            let simulated = ebbtide_analysis::estimate::median(&values)
                .ok_or_else(|| format!("{name}: no trial of {} under {}", figure.design, figure.workload))?;
            let range = (values[0], values[values.len() - 1]);
            Ok(Compared { figure, simulated, range })
        })
        .collect()
}

/// What every trial of the figure's design and workload gave.
fn values(session: &Session, figure: &Figure) -> Result<Vec<f64>, String> {
    let experiment = &session.experiment;
    let design = experiment.designs.iter().position(|design| design.name == figure.design);
    let workload = experiment.workloads.iter().position(|workload| workload.name == figure.workload);
    let (Some(design), Some(workload)) = (design, workload) else {
        return Err(format!("the experiment has no {} under {}", figure.design, figure.workload));
    };
    let trials = session.trials.iter().filter(|r| r.trial.design == design && r.trial.workload == workload);
    let values = trials.filter_map(|record| match &record.outcome {
        Outcome::Samples(samples) => metric(samples, figure.metric).map(|value| value * figure.share),
        Outcome::Failed(_) => None,
    });
    Ok(values.collect())
}

fn shown(value: f64, metric: Metric) -> String {
    let value = if metric == Metric::Throughput { value / 1e6 } else { value };
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// The table as Markdown.
pub fn table(rows: &[Compared]) -> String {
    let mut out = String::from(
        "| published configuration | here | published | simulated | simulated / published | |\n\
         | --- | --- | ---: | ---: | ---: | --- |\n",
    );
    let mut notes: Vec<&str> = Vec::new();
    for row in rows {
        let figure = &row.figure;
        let unit = if figure.metric == Metric::Throughput { "MB/s" } else { "/s" };
        let mut sorted = figure.values.clone();
        sorted.sort_by(f64::total_cmp);
        let mut published = format!("{} {unit}", shown(figure.median(), figure.metric));
        if let (Some(low), Some(high)) = (sorted.first(), sorted.last())
            && sorted.len() > 1
        {
            let (low, high) = (shown(*low, figure.metric), shown(*high, figure.metric));
            let _ = write!(published, " ({low} to {high} in {})", sorted.len());
        }
        let mut simulated = format!("{} {unit}", shown(row.simulated, figure.metric));
        let (low, high) = (shown(row.range.0, figure.metric), shown(row.range.1, figure.metric));
        if row.range.1 > 1.02 * row.range.0 {
            let _ = write!(simulated, " ({low} to {high})");
        }
        let mut role = figure.role.word().to_owned();
        if !figure.note.is_empty() {
            let known = notes.iter().position(|note| *note == figure.note);
            let number = known.unwrap_or_else(|| {
                notes.push(&figure.note);
                notes.len() - 1
            });
            let _ = write!(role, " [{}]", number + 1);
        }
        let _ = writeln!(
            out,
            "| {} | {}, {} | {published} | {simulated} | {:.2} | {role} |",
            figure.configuration,
            figure.design,
            figure.workload,
            row.ratio()
        );
    }
    let predicted: Vec<&Compared> = rows.iter().filter(|row| row.figure.role == Role::Predicted).collect();
    let within = predicted.iter().filter(|row| (row.ratio() - 1.0).abs() <= WITHIN).count();
    let _ = writeln!(
        out,
        "\n{within} of {} predicted figures are within {:.0}% of the published ones.",
        predicted.len(),
        WITHIN * 100.0
    );
    for (number, note) in notes.iter().enumerate() {
        let _ = writeln!(out, "\n[{}] {note}", number + 1);
    }
    out
}
