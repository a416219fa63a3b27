//! One report model, rendered as terminal text, HTML, JSON and CSV.
//!
//! [`Report::new`] takes a session and what the analysis says of it; every view is a pure function of the model,
//! so that all of them show the same figures. Words, tables and pictures live here: a new figure goes into the model,
//! never into a view, and what is concluded from figures belongs to `ebbtide-analysis`. Nothing here prints or writes a file.

mod answer;
mod beside;
mod build;
mod csv;
mod describe;
mod html;
mod json;
mod model;
mod seen;
mod text;
mod words;

pub use beside::{Beside, BesideError, BesideRow, BesideSession, BesideTable};
pub use csv::{csv, csv_field};
pub use html::html;
pub use json::{JsonOptions, SCHEMA, json};
pub use model::{
    DesignFacts, LatencyView, Report, ResultView, SeriesPoint, TrialFigures, TrialView, VolumeFacts,
    WorkloadFacts,
};
pub use seen::{DiskSeen, NetworkSeen, OtherSeen, SeenView};
pub use text::{ProfileStep, Single, beside, single, steps, text, workload_words};

/// A figure of a verdict's evidence in its unit, as every view writes it.
pub fn evidence_text(value: f64, unit: &str) -> String {
    words::evidence(value, unit)
}
