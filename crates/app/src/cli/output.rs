//! The one rule of output: what is printed is `--format`, what is written to a file is `-o FILE`, of the kind that its ending says.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views::Format;
use clap::{Args, ValueEnum};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::shown::Shown;
use ebbtide_report::JsonOptions;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use strum::AsRefStr;

/// A form of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, AsRefStr)]
#[strum(serialize_all = "lowercase")]
pub enum Form {
    /// For people
    Text,
    /// For programs
    Json,
    /// For spreadsheets, R and pandas
    Csv,
    /// For tickets and write-ups
    Markdown,
}

impl Form {
    /// All of them.
    pub const ALL: &[Form] = &[Form::Text, Form::Json, Form::Csv, Form::Markdown];
    /// Those of a command that has no table.
    pub const PLAIN: &[Form] = &[Form::Text, Form::Json];

    /// That of a report. `full` JSON has everything.
    pub fn format(self, full: bool) -> Format {
        match self {
            Form::Text => Format::Text,
            Form::Json => Format::Json(JsonOptions { percentiles: full, series: full }),
            Form::Csv => Format::Csv,
            Form::Markdown => Format::Markdown,
        }
    }
}

/// What is printed.
#[derive(Debug, Clone, Default, Args)]
pub struct Printed {
    /// Form of what is printed on standard output; a command that lacks one says which it has [default: text]
    #[arg(long, global = true, value_enum, value_name = "FORM")]
    format: Option<Form>,
    /// Short for --format json: JSON, and only JSON, on standard output
    #[arg(long, global = true)]
    json: bool,
}

impl Printed {
    /// JSON.
    pub const JSON: Printed = Printed { format: Some(Form::Json), json: false };

    /// The form that was asked for.
    pub fn asked(&self) -> Option<Form> {
        self.json.then_some(Form::Json).or(self.format)
    }

    /// Refuses a form that is not among `forms`, those of `command`.
    ///
    /// # Errors
    /// Wrong usage: which it has.
    pub fn among(&self, command: &str, forms: &[Form]) -> Result<(), CliError> {
        match (self.asked(), self.format) {
            (Some(Form::Json), Some(other)) if other != Form::Json => {
                Err(CliError::Usage(format!("--json and --format {}: give one of them", other.as_ref())))
            }
            (Some(asked), _) if !forms.contains(&asked) => {
                let has: Vec<&str> = forms.iter().map(AsRef::as_ref).collect();
                Err(CliError::Usage(format!(
                    "--format {}: {command} prints {}",
                    asked.as_ref(),
                    has.join(" or ")
                )))
            }
            _ => Ok(()),
        }
    }
}

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One page for a browser.
    Html,
    /// For programs.
    Json,
    /// For spreadsheets.
    Csv,
    /// For tickets and write-ups.
    Markdown,
    /// As on a terminal.
    Text,
    /// The best design, as an experiment.
    Toml,
}

impl Kind {
    const ALL: [Kind; 6] = [Kind::Html, Kind::Json, Kind::Csv, Kind::Markdown, Kind::Text, Kind::Toml];
    /// Those of a report.
    pub const REPORT: &[Kind] = &[Kind::Html, Kind::Json, Kind::Csv, Kind::Markdown, Kind::Text];

    /// Those of a session of `experiment`.
    pub fn of_session(experiment: &Experiment) -> &'static [Kind] {
        if experiment.sweep.is_some() { &Kind::ALL } else { Kind::REPORT }
    }

    fn ending(self) -> &'static str {
        match self {
            Kind::Html => "html",
            Kind::Json => "json",
            Kind::Csv => "csv",
            Kind::Markdown => "md",
            Kind::Text => "txt",
            Kind::Toml => "toml",
        }
    }

    fn of(path: &Path) -> Option<Kind> {
        let ending = path.extension().and_then(OsStr::to_str)?;
        Kind::ALL.into_iter().find(|kind| kind.ending().eq_ignore_ascii_case(ending))
    }

    /// The form of a report that it is; none where it is no report. `full` JSON has everything.
    pub fn format(self, full: bool) -> Option<Format> {
        match self {
            Kind::Html => Some(Format::Html),
            Kind::Json => Some(Form::Json.format(full)),
            Kind::Csv => Some(Format::Csv),
            Kind::Markdown => Some(Format::Markdown),
            Kind::Text => Some(Format::Text),
            Kind::Toml => None,
        }
    }
}

impl From<Form> for Kind {
    fn from(form: Form) -> Kind {
        match form {
            Form::Text => Kind::Text,
            Form::Json => Kind::Json,
            Form::Csv => Kind::Csv,
            Form::Markdown => Kind::Markdown,
        }
    }
}

/// Where the result goes beside standard output.
#[derive(Debug, Clone, Default, Args)]
pub struct Output {
    /// Write the result to FILE as its ending says: .html, .json, .csv, .md, .txt; with none of them as --format
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Output {
    /// The file, and what it is to hold, which is one of `kinds`.
    ///
    /// # Errors
    /// Wrong usage: its ending says nothing, or what is not written here.
    pub fn file(&self, globals: &Globals, kinds: &[Kind]) -> Result<Option<(&Path, Kind)>, CliError> {
        let Some(path) = self.output.as_deref() else { return Ok(None) };
        let endings: Vec<String> = kinds.iter().map(|kind| format!(".{}", kind.ending())).collect();
        let endings = endings.join(", ");
        let wrong = |what: String| Err(CliError::Usage(format!("-o {}: {what}", path.shown())));
        if path.as_os_str() == "-" {
            return wrong("it is no file; leave out -o: what is printed is --format".to_owned());
        }
        match (Kind::of(path), globals.printed.asked()) {
            (Some(kind), _) if kinds.contains(&kind) => Ok(Some((path, kind))),
            (Some(Kind::Toml), _) => wrong(format!(
                "only a sweep finds a best design, and this has no [sweep]; write one of {endings}"
            )),
            (Some(kind), _) => {
                wrong(format!("a file .{} is not written here; write one of {endings}", kind.ending()))
            }
            (None, Some(form)) => Ok(Some((path, form.into()))),
            (None, None) => {
                wrong(format!("its ending says no kind; write one of {endings}, or say --format"))
            }
        }
    }
}
