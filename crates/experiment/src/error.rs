//! What can be wrong with an experiment file: where it is, what is wrong, and what to write instead.

use ebbtide_model::shown::{self, EXCERPT_MOST, LINE_MOST, escape, one_line, shortened};
use ebbtide_model::units::UnitError;
use serde::Serialize;
use std::fmt;
use std::iter::repeat_n;
use std::ops::Range;
use unicode_width::UnicodeWidthChar;

/// What is wrong, and what to write instead.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// The mistake, as it is told.
    pub mistake: Mistake,
    /// What to write instead, as the rest of a sentence that begins with `help:`.
    pub remedy: String,
}

/// One kind of mistake; `Display` says what is wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of a variant says what its fields are")]
pub enum Mistake {
    /// The text is not TOML.
    #[error("this is not valid TOML: {message}")]
    Syntax { message: String },
    /// A key that nothing reads.
    #[error("unknown key `{key}` in {section}")]
    UnknownKey { key: String, section: &'static str },
    /// A key that has to be there.
    #[error("{section} has no `{key}`")]
    MissingKey {
        /// The key that is not there.
        key: &'static str,
        section: String,
    },
    /// A section or list with nothing in it.
    #[error("{0}")]
    Nothing(String),
    /// A value of another type.
    #[error("expected {expected}, found {found}")]
    WrongType { expected: &'static str, found: String },
    /// A text that is not the quantity it should be.
    #[error("{}", unit_message(.0))]
    Unit(UnitError),
    /// A quantity that is given in the wrong unit.
    #[error("`{found}` is not {expected}")]
    WrongUnit { found: String, expected: &'static str },
    /// Not one of the words that are possible here.
    #[error("unknown {what} `{found}`")]
    UnknownChoice { what: &'static str, found: String },
    /// A number outside its range.
    #[error("`{key}` is {found}, but must be {range}")]
    OutOfRange {
        key: &'static str,
        /// Its value, with its unit.
        found: String,
        range: String,
    },
    /// A name with characters that names cannot have.
    #[error("`{name}` cannot be the name of {what}")]
    BadName { what: &'static str, name: String },
    /// Two things of the same name, or two volumes on the same bytes.
    #[error("{what} `{name}` is defined twice")]
    Duplicate {
        /// What both are: a volume, a design.
        what: &'static str,
        name: String,
    },
    /// A name that nothing has.
    #[error("there is no {what} `{name}`")]
    UnknownName { what: &'static str, name: String },
    /// Two keys of which only one can be.
    #[error("`{first}` and `{second}` exclude each other")]
    Conflict {
        /// The key that the message names first.
        first: &'static str,
        second: &'static str,
    },
    /// A key that has no effect in its place.
    #[error("`{key}` means nothing here: {why}")]
    Pointless { key: &'static str, why: String },
    /// An array that cannot be built.
    #[error("{0}")]
    Geometry(String),
    /// A sweep that cannot be made.
    #[error("{0}")]
    Sweep(String),
    /// An option that cannot stand, or a profile that cannot be used.
    #[error("{0}")]
    Workload(String),
}

impl Mistake {
    /// The problem of having made it.
    pub(super) fn with(self, remedy: impl Into<String>) -> Problem {
        Problem { mistake: self, remedy: remedy.into() }
    }
}

/// What is wrong with a quantity, without the advice of [`UnitError`].
fn unit_message(error: &UnitError) -> String {
    match error {
        UnitError::NoNumber(text, _) => format!("`{text}` does not begin with a number"),
        UnitError::UnknownUnit(text, unit, _) => format!("`{text}` has the unknown unit `{unit}`"),
        UnitError::NoUnit(text, _) => format!("`{text}` has no unit"),
        UnitError::OutOfRange(..) => error.to_string(),
    }
}

/// One mistake and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// How many characters of the line it is about, at least 1.
    pub width: usize,
    /// Characters of the line on which it begins that are left out before [`source_line`](Self::source_line).
    pub left_out: usize,
    /// The text of that line around it: a line may have any length.
    pub source_line: String,
    /// What is wrong and what to write.
    pub problem: Problem,
}

/// An [`ExperimentError`] as `--json` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorRecord {
    /// Name of the file, as it was given.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, in words.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

/// Everything that is wrong with one experiment file, in the order of its lines; never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentErrors {
    /// Name of the file, for messages.
    pub file_name: String,
    /// The mistakes, the first hundred at most.
    pub errors: Vec<ExperimentError>,
    /// Whether there are more.
    pub more: bool,
}

impl ExperimentErrors {
    /// The mistakes as flat records.
    pub fn records(&self) -> Vec<ErrorRecord> {
        self.errors
            .iter()
            .map(|error| ErrorRecord {
                file: self.file_name.clone(),
                line: error.line,
                column: error.column,
                message: shortened(&error.problem.mistake.to_string()).into_owned(),
                help: shortened(&error.problem.remedy).into_owned(),
            })
            .collect()
    }
}

impl std::error::Error for ExperimentErrors {}

impl fmt::Display for ExperimentErrors {
    /// As compilers do it: `file:line:column: error: ...`, the line, a caret, the remedy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                writeln!(f, "\n")?;
            }
            let ExperimentError { line, column, width, left_out, source_line, problem } = error;
            let Problem { mistake, remedy } = problem;
            let number = line.to_string();
            let gutter = " ".repeat(number.len());
            // What stands in front of the caret and above it, as it is shown: tabs stay tabs, controls are longer.
            let text_of = |from: usize, length: usize| source_line.chars().skip(from).take(length).collect();
            let at = column - 1 - left_out;
            let (before, marked): (String, String) = (text_of(0, at), text_of(at, *width));
            let source_line = escape(source_line);
            let indent: String = escape(&before)
                .chars()
                .flat_map(|c| repeat_n(if c == '\t' { '\t' } else { ' ' }, c.width().unwrap_or(1)))
                .collect();
            let width = shown::width(&escape(&marked)).max(1);
            writeln!(f, "{}:{line}:{column}: error: {mistake}", one_line(&self.file_name))?;
            writeln!(f, "{gutter} |")?;
            writeln!(f, "{number} | {source_line}")?;
            writeln!(f, "{gutter} | {indent}{}", "^".repeat(width))?;
            write!(f, "{gutter} = help: {remedy}")?;
        }
        if self.more {
            write!(f, "\n\n{}: there are more mistakes; correct these first", one_line(&self.file_name))?;
        }
        Ok(())
    }
}

/// The place of the byte range `span` in `text`; a range over several lines is cut at the end of the first.
pub(super) fn locate(text: &str, span: Range<usize>, problem: Problem) -> ExperimentError {
    let start = floor_char_boundary(text, span.start);
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let source_line = text[line_start..].lines().next().unwrap_or("");
    let end = floor_char_boundary(text, span.end).clamp(start, (line_start + source_line.len()).max(start));
    let column = text[line_start..start].chars().count() + 1;
    let (mut left_out, mut kept) = (0, source_line.to_owned());
    if source_line.chars().nth(LINE_MOST).is_some() {
        left_out = column.saturating_sub(EXCERPT_MOST);
        kept = source_line.chars().skip(left_out).take(2 * EXCERPT_MOST).collect();
    }
    ExperimentError {
        line: text[..line_start].matches('\n').count() + 1,
        column,
        width: text[start..end].chars().take(EXCERPT_MOST).count().max(1),
        left_out,
        source_line: kept,
        problem,
    }
}

/// The nearest character boundary of `text` at or below `index`.
fn floor_char_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}
