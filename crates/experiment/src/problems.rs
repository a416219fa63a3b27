//! What is wrong with a file, collected while it is read.

use super::error::{ExperimentError, ExperimentErrors, Mistake, Problem, locate};
use std::ops::Range;
use toml::de::DeValue;

/// Bytes of the text that a value or key stands in.
pub(super) type Span = Range<usize>;

/// Mistakes that are kept: enough for any file that a person wrote, and soon done for any other.
const KEPT: usize = 1000;
/// Mistakes that are told at once.
const TOLD: usize = 100;

/// Collects what is wrong.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<(Span, Problem)>);

impl Problems {
    /// Adds a problem found at `span`.
    pub fn add(&mut self, span: &Span, problem: Problem) {
        if self.0.len() < KEPT {
            self.0.push((span.clone(), problem));
        }
    }

    /// Adds a mistake and its remedy.
    pub fn report(&mut self, span: &Span, mistake: Mistake, remedy: impl Into<String>) {
        self.add(span, mistake.with(remedy));
    }

    /// The number `found` of `key` is not in its `range`.
    pub fn out_of_range(
        &mut self,
        span: &Span,
        key: &'static str,
        found: impl ToString,
        range: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let (found, range) = (found.to_string(), range.into());
        self.report(span, Mistake::OutOfRange { key, found, range }, remedy);
    }

    /// `value` is not of the type `expected`.
    pub fn wrong_type(
        &mut self,
        span: &Span,
        expected: &'static str,
        value: &DeValue<'_>,
        remedy: impl Into<String>,
    ) {
        self.report(span, Mistake::WrongType { expected, found: describe(value) }, remedy);
    }

    /// `key` has no effect where it stands.
    pub fn pointless(
        &mut self,
        span: &Span,
        key: &'static str,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.report(span, Mistake::Pointless { key, why: why.into() }, remedy);
    }

    /// `section` has no `key`, of which `example` is one.
    pub fn missing(&mut self, span: &Span, key: &'static str, section: impl Into<String>, example: &str) {
        let section = section.into();
        self.report(span, Mistake::MissingKey { key, section }, format!("write for example `{example}`"));
    }

    /// How many mistakes are kept so far.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The mistakes in the order in which they were found.
    pub fn into_list(self) -> Vec<(Span, Problem)> {
        self.0
    }

    /// Whether nothing is wrong so far.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All mistakes, located in `text`, in the order of the file.
    pub fn into_errors(mut self, text: &str, file_name: &str) -> ExperimentErrors {
        self.0.sort_by_key(|(span, _)| span.start);
        let mut errors: Vec<ExperimentError> = Vec::with_capacity(self.0.len());
        for (span, problem) in self.0 {
            let error = locate(text, span, problem);
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        let more = errors.len() > TOLD;
        errors.truncate(TOLD);
        ExperimentErrors { file_name: file_name.to_owned(), errors, more }
    }
}

/// `value` in words, for "found ...".
pub(super) fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text {}", quoted(text)),
        DeValue::Integer(number) => format!("the number {number}"),
        DeValue::Float(number) => format!("the number {number}"),
        DeValue::Boolean(value) => format!("the boolean {value}"),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "an array".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// `text` in double quotes, shortened when it is long, on one line.
fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    format!("\"{short}\"")
}
