//! One report model, rendered as terminal text, HTML, Markdown, JSON and CSV.
//!
//! [`Report::new`] takes a session and what the analysis says of it; every view is a pure function of the model,
//! so that all of them show the same figures. Words, tables and pictures live here: a new figure goes into the model,
//! never into a view, and what is concluded from figures belongs to `ebbtide-analysis`. Nothing here prints or writes a file.

mod answer;
mod beside;
mod brief;
mod build;
mod csv;
mod describe;
mod designs;
mod hosts;
mod html;
mod json;
mod markdown;
mod model;
mod names;
mod race;
mod seen;
mod text;
mod why;
mod words;

pub use beside::{
    Beside, BesideError, BesideFigures, BesideRow, BesideSession, BesideTable, CompareRequest,
    ComparedSession, Differs, beside_csv,
};
pub use build::{Kept, OfDesign};
pub use csv::{csv, csv_field};
pub use hosts::{HostFigures, HostRow, HostsView, TrialHosts};
pub use html::{beside_html, html, site};
pub use json::{JsonOptions, SCHEMA, json};
pub use markdown::{beside_markdown, markdown};
pub use model::{
    DesignFacts, LatencyView, Report, ResultView, SeriesPoint, TrialFigures, TrialView, VolumeFacts,
    WorkloadFacts,
};
pub use race::RaceView;
pub use seen::{DiskSeen, NetworkSeen, OtherSeen, SeenView};
pub use text::{ProfileStep, Single, beside, single, steps, text, workload_words};
pub use why::why;
