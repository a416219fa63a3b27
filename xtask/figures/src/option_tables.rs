//! `cargo xtask options`: the tables of a workload's options in the documentation, from the one in the model.

use crate::pages::{between, read, root, write};
use ebbtide_model::workload::options::{Grammar, page};

/// Each table: its page and its name there.
const TABLES: [(&str, &str, Grammar); 3] = [
    ("docs/reference/experiment-file.md", "experiment", Grammar::Experiment),
    ("docs/reference/bench.md", "command", Grammar::Command),
    ("docs/reference/bench.md", "jobfile", Grammar::JobFile),
];

/// `text`, the page at `path`, with its tables as they are now.
fn renewed(path: &str, mut text: String) -> Result<String, String> {
    for (_, part, grammar) in TABLES.into_iter().filter(|(page, ..)| *page == path) {
        text = between(&text, "options", Some(part), &page(grammar))
            .map_err(|what| format!("{path}: {what}"))?;
    }
    Ok(text)
}

/// `cargo xtask options`
///
/// # Errors
/// When a page lacks a marker or cannot be written.
pub fn run() -> Result<(), String> {
    for (path, ..) in TABLES {
        let file = root().join(path);
        write(&file, &renewed(path, read(&file)?)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_the_documentation_are_those_of_the_code() {
        for (path, ..) in TABLES {
            let text = read(&root().join(path)).expect("is there");
            assert!(renewed(path, text.clone()) == Ok(text), "{path}: run `cargo xtask options`");
        }
    }
}
