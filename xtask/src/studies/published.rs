//! The published figures: experiments/published/NAME.csv.
//!
//! One line for each figure that the experiment also gives. Lines that begin with `#` say where the figures come from.
//! Columns: configuration (as the source calls it), design and workload of the experiment, unit, share, published, role,
//! note. `share` is the part of the simulated figure that the source counts (bonnie++ counts a rewritten block once, the
//! report counts its read and its write). Several published values of one configuration are separated by spaces.

use ebbtide_analysis::estimate::median;
use ebbtide_model::metric::Metric;

/// What a figure is to the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A parameter of the experiment was chosen to meet it.
    Fitted,
    /// Nothing was chosen for it.
    Predicted,
    /// The source gives other figures for the same set-up; the note says which.
    Contradictory,
    /// The model does not meet it; the note says why.
    Missed,
}

impl Role {
    /// The word in the file and in the table.
    pub fn word(self) -> &'static str {
        match self {
            Role::Fitted => "fitted",
            Role::Predicted => "predicted",
            Role::Contradictory => "contradictory",
            Role::Missed => "missed",
        }
    }
}

/// A figure of a published study.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// As the source calls it.
    pub configuration: String,
    /// Design of the experiment.
    pub design: String,
    /// Workload of the experiment.
    pub workload: String,
    pub metric: Metric,
    /// Part of the simulated figure that the source counts.
    pub share: f64,
    /// Values in bytes per second or operations per second.
    pub values: Vec<f64>,
    pub role: Role,
    /// Remark for the reader.
    pub note: String,
}

impl Figure {
    /// The median of the published values.
    pub fn median(&self) -> f64 {
        median(&self.values).unwrap_or(f64::NAN)
    }
}

/// Reads a file of figures.
///
/// # Errors
/// Names the line that does not have the form above.
pub fn parse(text: &str, name: &str) -> Result<Vec<Figure>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .skip(1)
        .map(|(number, line)| figure(line).map_err(|what| format!("{name}:{}: {what}", number + 1)))
        .collect()
}

fn figure(line: &str) -> Result<Figure, String> {
    let cells: Vec<&str> = line.splitn(8, ',').collect();
    let [configuration, design, workload, unit, share, published, role, note] = cells[..] else {
        return Err(format!("{} columns instead of 8", cells.len()));
    };
    let (metric, factor) = match unit {
        "KiB/s" => (Metric::Throughput, 1024.0),
        "MB/s" => (Metric::Throughput, 1e6),
        "MiB/s" => (Metric::Throughput, 1_048_576.0),
        "ops/s" => (Metric::Iops, 1.0),
        other => return Err(format!("unknown unit {other:?}: KiB/s, MiB/s, MB/s or ops/s")),
    };
    let number = |text: &str| text.parse::<f64>().map_err(|error| format!("{text:?}: {error}"));
    let values = published.split(' ').map(|value| number(value).map(|value| value * factor));
    let values = values.collect::<Result<Vec<f64>, String>>()?;
    let role = [Role::Fitted, Role::Predicted, Role::Contradictory, Role::Missed]
        .into_iter()
        .find(|known| known.word() == role)
        .ok_or_else(|| format!("unknown role {role:?}"))?;
    if matches!(role, Role::Contradictory | Role::Missed) && note.is_empty() {
        return Err("a figure that is not met needs a note that says why".into());
    }
    Ok(Figure {
        configuration: configuration.to_owned(),
        design: design.to_owned(),
        workload: workload.to_owned(),
        metric,
        share: number(share)?,
        values,
        role,
        note: note.to_owned(),
    })
}
