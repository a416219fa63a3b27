//! Where reports go: to the terminal as it is, to standard output, or to a file that is never half written.

pub mod explain;
pub mod limits;
pub mod volumes;

use crate::cli::CliError;
use ebbtide_core::report::{JsonOptions, Report, csv, html, json, text};
use rustix::termios::{isatty, tcgetwinsize};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Columns that are used when the output is no terminal.
const COLUMNS_ELSEWHERE: usize = 100;

/// A form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For a terminal.
    Text,
    /// One self-contained file for a browser.
    Html,
    /// Schema `ebbtide.session/1`.
    Json(JsonOptions),
    /// One row per trial and metric.
    Csv,
}

/// `report` in `format`, ready to be written to a file or a pipe.
pub fn render(report: &Report, format: Format) -> String {
    match format {
        Format::Text => text(report, COLUMNS_ELSEWHERE, false),
        Format::Html => html(report),
        Format::Json(options) => format!("{:#}\n", json(report, options)),
        Format::Csv => csv(report),
    }
}

/// `report` as text for standard output: as wide as the terminal, coloured unless NO_COLOR is set.
pub fn for_stdout(report: &Report) -> String {
    let (columns, color) = stdout_width();
    text(report, columns, color)
}

/// Columns of standard output, and whether it takes colours.
pub fn stdout_width() -> (usize, bool) {
    let stdout = io::stdout();
    if !isatty(&stdout) {
        return (COLUMNS_ELSEWHERE, false);
    }
    let columns = tcgetwinsize(&stdout).map_or(80, |size| usize::from(size.ws_col));
    let color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    (if columns == 0 { 80 } else { columns }, color)
}

/// Writes `text` to standard output; a reader that has seen enough (`| head`) is no error.
///
/// # Errors
/// When standard output cannot be written.
pub fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CliError::Failed(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// A line on standard error. A reader that went away (`2>&1 | head`) must not end a run, as `eprintln!` would.
pub fn say(text: &str) {
    // There is nobody left to tell.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Looks whether [`save`] could write `path`, for a report that takes minutes to measure.
///
/// # Errors
/// When its directory is not there, is none, or may not be written.
pub fn can_save(path: &Path) -> Result<(), CliError> {
    if path.as_os_str() == "-" {
        return Ok(());
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let refuse = |what: &str| {
        Err(CliError::Usage(format!(
            "cannot write the report to {}: {what}; choose another file with -o",
            path.display()
        )))
    };
    if path.is_dir() {
        return refuse("it is a directory");
    }
    if !directory.is_dir() {
        return refuse("its directory does not exist");
    }
    match rustix::fs::access(directory, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Ok(()),
        Err(error) => refuse(&format!("its directory may not be written ({error})")),
    }
}

/// Writes `text` to `path`: a regular file is replaced as a whole or not at all; `-` is standard output.
///
/// # Errors
/// When it cannot be written, with the path and what to do.
pub fn save(path: &Path, text: &str) -> Result<(), CliError> {
    if path.as_os_str() == "-" {
        return print(text);
    }
    let failed = |error: io::Error| {
        let remedy = match error.kind() {
            ErrorKind::NotFound => "; its directory does not exist: make it, or choose another file with -o",
            ErrorKind::PermissionDenied => "; choose a file in a directory that you may write with -o",
            ErrorKind::StorageFull => "; free some space, or choose another place with -o",
            ErrorKind::IsADirectory => "; it is a directory: name a file in it with -o",
            _ => "",
        };
        CliError::Failed(format!("cannot write the report to {}: {error}{remedy}", path.display()))
    };
    let special = fs::metadata(path).is_ok_and(|found| !found.is_file());
    if special {
        return File::create(path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed);
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&part, path)).map_err(|error| {
        // Only what was written here is removed; that it is not there is fine.
        let _ = fs::remove_file(&part);
        failed(error)
    })
}
