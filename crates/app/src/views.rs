//! Where reports go: to the terminal as it is, to standard output, or to a file that is never half written.

pub mod blame;
pub mod changes;
pub mod events;
pub mod explain;
pub mod limit;
pub mod limits;
pub mod monitor;
mod out;
pub mod plan;
pub mod volumes;

pub use out::{
    COLUMNS_ELSEWHERE, Lines, answer, command_line, pass_on, print, print_data, print_json, print_more,
    print_more_data, print_styled, say, stderr_is_terminal, stdout_is_terminal, stdout_size, stdout_width,
    tell_panics, to_program,
};

use crate::error::CliError;
use ebbtide_door::DoorError;
use ebbtide_host::judge;
use ebbtide_model::session::Session;
use ebbtide_model::shown::{self, Shown};
use ebbtide_report::{JsonOptions, Kept, Report, csv, html, json, markdown, text};
use std::io::ErrorKind;
use std::path::Path;

/// A form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text for a terminal.
    Text,
    /// One self-contained file for a browser.
    Html,
    /// Schema `ebbtide.session/1`.
    Json(JsonOptions),
    /// One row per trial and metric.
    Csv,
    /// The answer and its tables, to be pasted.
    Markdown,
}

impl Format {
    /// What it shows of each trial of `session`.
    pub fn kept(self, session: &Session) -> Kept {
        match self {
            Format::Json(JsonOptions { series: true, .. }) => Kept::All,
            Format::Html => Kept::drawn(&session.experiment),
            Format::Text | Format::Json(_) | Format::Csv | Format::Markdown => Kept::Figures,
        }
    }
}

/// `report` in `format`, ready to be written to a file or a pipe.
pub fn render(report: &Report, format: Format) -> String {
    match format {
        Format::Text => text(report, COLUMNS_ELSEWHERE, false).into_string(),
        Format::Html => html(report),
        Format::Json(options) => shown::json(&json(report, options)),
        Format::Csv => csv(report),
        Format::Markdown => markdown(report),
    }
}

/// Prints `report` in `format`: text as wide as the terminal, coloured unless NO_COLOR is set.
///
/// # Errors
/// When standard output cannot be written.
pub fn print_report(report: &Report, format: Format) -> Result<(), CliError> {
    match format {
        Format::Text => {
            let (columns, color) = stdout_width();
            print_styled(&text(report, columns, color))
        }
        other => print_data(&render(report, other)),
    }
}

/// Looks whether [`save`] could write `path`, for a report that takes minutes to measure; touches nothing.
///
/// # Errors
/// When nothing may be written there, or its directory is not there, is none, or may not be written.
pub fn can_save(path: &Path) -> Result<(), CliError> {
    judge::door().output(path).map(drop).map_err(|error| CliError::Usage(cannot_save(path, &error)))
}

/// Writes `text` to `path`: a regular file is replaced as a whole or not at all.
///
/// # Errors
/// When it cannot be written, or must not be, with the path and what to do.
pub fn save(path: &Path, text: &str) -> Result<(), CliError> {
    let door = judge::door();
    door.output(path).and_then(|output| output.write(text.as_bytes())).map_err(|error| {
        let what = cannot_save(path, &error);
        match error {
            DoorError::System { .. } => CliError::Failed(what),
            DoorError::Refused(_) | DoorError::NoVolume { .. } | DoorError::Unnamed(_) => {
                CliError::Usage(what)
            }
        }
    })
}

/// That the report cannot go to `path`, and what to do.
fn cannot_save(path: &Path, error: &DoorError) -> String {
    let (what, remedy) = match error {
        DoorError::Refused(refusal) => (refusal.reasons_in_words(), "name another file"),
        DoorError::NoVolume { what, .. } => (format!("it is {what}"), "name another file"),
        DoorError::Unnamed(what) => (what.clone(), "name another file"),
        DoorError::System { source, .. } => {
            let remedy = match source.kind() {
                ErrorKind::NotFound => "its directory does not exist: make it, or name another file",
                ErrorKind::PermissionDenied => "name a file in a directory that you can write to",
                ErrorKind::StorageFull => "free some space, or name a file in another place",
                ErrorKind::IsADirectory => "name a file in it",
                _ => "name another file",
            };
            (source.to_string(), remedy)
        }
    };
    format!("cannot write the report to {}: {what}; {remedy}", path.shown())
}
