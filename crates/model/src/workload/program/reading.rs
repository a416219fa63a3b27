//! Figures in what a program printed.

use super::{Reading, Source};
use crate::metric::Figure;
use regex_lite::{Regex, RegexBuilder};
use serde_json::Value;

/// Largest compiled pattern, in bytes.
const PATTERN_MAX: usize = 1 << 16;
/// Characters of an output that a message quotes.
const QUOTED: usize = 60;

/// Why a figure was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadingError {
    /// The pattern is no regular expression.
    #[error("`{pattern}` is no pattern: {why}")]
    Pattern {
        /// As it is written.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// Nothing says which part of a match is the number.
    #[error("`{0}` has no group: put the number in parentheses, as in \"tps = ([0-9.]+)\"")]
    NoGroup(String),
    /// A JSON pointer that is none.
    #[error("`{0}` is no JSON pointer: write for example \"/results/0/mean\"")]
    Pointer(String),
    /// The output has no such thing.
    #[error("its output has no {name}: nothing matches {wanted}")]
    Missing {
        /// The figure.
        name: String,
        /// What was looked for.
        wanted: String,
    },
    /// What stands there is no number.
    #[error("its output has {name} as `{found}`, which is no number")]
    NoNumber {
        /// The figure.
        name: String,
        /// What stands there.
        found: String,
    },
    /// The output is no JSON.
    #[error("its output is no JSON, where {name} is looked for: {why}")]
    NoJson {
        /// The figure.
        name: String,
        /// What the parser says.
        why: String,
    },
}

/// What a program left to read figures from.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    /// Its standard output.
    pub text: &'a str,
    /// Latencies of transactions in microseconds, in ascending order, where [`Source::PgbenchLog`] is asked for.
    pub latencies: &'a [u64],
}

impl Source {
    /// Checks it before anything runs.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), ReadingError> {
        match self {
            Source::Pattern(pattern) => compiled(pattern).map(drop),
            Source::Pointer(pointer) if !pointer.is_empty() && !pointer.starts_with('/') => {
                Err(ReadingError::Pointer(pointer.clone()))
            }
            Source::Pointer(_) | Source::PgbenchLog(_) => Ok(()),
        }
    }
}

impl Reading {
    /// The figure in `output`.
    ///
    /// # Errors
    /// When it is not there, or is no finite number.
    pub fn read(&self, output: Output<'_>) -> Result<(Figure, f64), ReadingError> {
        let name = &self.figure.definition().name;
        let missing = |wanted: String| ReadingError::Missing { name: name.clone(), wanted };
        let value = match &self.from {
            Source::Pattern(pattern) => {
                let found = compiled(pattern)?.captures_iter(output.text).last();
                let found = found.and_then(|captures| captures.get(1)).map(|group| group.as_str());
                number(name, found.ok_or_else(|| missing(format!("`{pattern}`")))?)?
            }
            Source::Pointer(pointer) => {
                let json: Value = serde_json::from_str(output.text.trim())
                    .map_err(|error| ReadingError::NoJson { name: name.clone(), why: error.to_string() })?;
                match json.pointer(pointer).ok_or_else(|| missing(format!("`{pointer}`")))? {
                    Value::String(text) => number(name, text)?,
                    value => number(name, &value.to_string())?,
                }
            }
            Source::PgbenchLog(percentile) => {
                let count = output.latencies.len() as u64;
                let rank = (count * u64::from(*percentile)).div_ceil(100).max(1) - 1;
                let value = output.latencies.get(rank as usize);
                let value =
                    value.ok_or_else(|| missing("a line of pgbench's log (`pgbench -l`)".to_owned()))?;
                *value as f64 / 1e3
            }
        };
        Ok((self.figure, value))
    }
}

fn compiled(pattern: &str) -> Result<Regex, ReadingError> {
    let wrong = |why: String| ReadingError::Pattern { pattern: pattern.to_owned(), why };
    let regex = RegexBuilder::new(pattern).multi_line(true).size_limit(PATTERN_MAX).build();
    let regex = regex.map_err(|error| wrong(error.to_string()))?;
    if regex.captures_len() < 2 {
        return Err(ReadingError::NoGroup(pattern.to_owned()));
    }
    Ok(regex)
}

fn number(name: &str, text: &str) -> Result<f64, ReadingError> {
    let found = text.trim().replace(',', "").parse::<f64>().ok().filter(|value| value.is_finite());
    found.ok_or_else(|| ReadingError::NoNumber {
        name: name.to_owned(),
        found: text.chars().take(QUOTED).collect(),
    })
}

/// Latencies in microseconds of the transactions in `log`, lines of `pgbench -l`: the third field, in microseconds
/// (PostgreSQL's documentation of pgbench, "Per-Transaction Logging"). Transactions that were skipped or failed have none.
pub fn pgbench_latencies(log: &str) -> impl Iterator<Item = u64> {
    log.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::FigureDefinition;
    use proptest::prelude::*;

    fn reading(from: Source) -> Reading {
        let definition =
            FigureDefinition { name: "tps".to_owned(), unit: "tps".to_owned(), lower_is_better: false };
        Reading { figure: definition.into(), from }
    }

    fn read(from: Source, text: &str) -> Result<f64, ReadingError> {
        reading(from).read(Output { text, latencies: &[] }).map(|(_, value)| value)
    }

    #[test]
    fn the_last_match_counts_and_lines_have_beginnings() {
        let pattern = |text: &str| Source::Pattern(text.to_owned());
        let text = "scripts: (… tps = 9)\ntps = 1.5 (a)\ntps = 2,000.5 (b)\n";
        assert_eq!(read(pattern(r"^tps = ([0-9.,]+)"), text), Ok(2000.5));
        assert!(matches!(read(pattern("none (x)"), text), Err(ReadingError::Missing { .. })));
        assert!(matches!(read(pattern("^(tps)"), text), Err(ReadingError::NoNumber { .. })));
        assert!(matches!(pattern("tps = [0-9]").check(), Err(ReadingError::NoGroup(_))));
        assert!(matches!(pattern("(").check(), Err(ReadingError::Pattern { .. })));
    }

    #[test]
    fn numbers_of_json_are_found_by_pointers() {
        let pointer = |text: &str| Source::Pointer(text.to_owned());
        let text = r#"{"jobs": [{"read": {"iops": 12.5, "bw": "7", "name": "x", "nan": "NaN"}}]}"#;
        assert_eq!(read(pointer("/jobs/0/read/iops"), text), Ok(12.5));
        assert_eq!(read(pointer("/jobs/0/read/bw"), text), Ok(7.0));
        assert!(matches!(read(pointer("/jobs/0/read/nan"), text), Err(ReadingError::NoNumber { .. })));
        assert!(matches!(read(pointer("/jobs/1"), text), Err(ReadingError::Missing { .. })));
        assert!(matches!(read(pointer("/jobs"), "{"), Err(ReadingError::NoJson { .. })));
        assert_eq!(pointer("jobs").check(), Err(ReadingError::Pointer("jobs".to_owned())));
    }

    #[test]
    fn percentiles_of_a_log_are_those_of_its_transactions() {
        // As pgbench 15.14 wrote them, one skipped.
        let log =
            "0 1 1200 0 1764498000 100000\n0 2 800 0 1764498000 200000\n1 1 skipped 0 1764498000 300000 5\n";
        let mut latencies: Vec<u64> = pgbench_latencies(log).collect();
        latencies.sort_unstable();
        assert_eq!(latencies, [800, 1200]);
        let at = |p| reading(Source::PgbenchLog(p)).read(Output { text: "", latencies: &latencies });
        assert_eq!(at(50).map(|(_, value)| value), Ok(0.8));
        assert_eq!(at(99).map(|(_, value)| value), Ok(1.2));
        let none = reading(Source::PgbenchLog(99)).read(Output { text: "", latencies: &[] });
        assert!(matches!(none, Err(ReadingError::Missing { .. })));
    }

    proptest! {
        #[test]
        fn no_output_and_no_pattern_is_too_strange(text: String, pattern: String, percentile in 0u8..=100) {
            for from in [Source::Pattern(pattern.clone()), Source::Pointer(pattern), Source::PgbenchLog(percentile)] {
                let _ = from.check();
                if let Ok(value) = read(from, &text) {
                    prop_assert!(value.is_finite());
                }
            }
            let _ = pgbench_latencies(&text).count();
        }
    }
}
