//! What is wrong with a file, collected while it is read.

use super::error::{ExperimentError, ExperimentErrors, Problem, locate};
use std::ops::Range;

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
    /// Adds a mistake.
    pub fn report(&mut self, span: &Span, problem: Problem) {
        if self.0.len() < KEPT {
            self.0.push((span.clone(), problem));
        }
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
