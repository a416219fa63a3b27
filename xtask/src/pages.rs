//! The pages of the documentation that commands write: whole, or between two markers.

use std::path::{Path, PathBuf};

/// Root of the repository.
pub fn root() -> PathBuf {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    above.find(|directory| directory.join("Cargo.lock").is_file()).unwrap_or(Path::new(".")).to_owned()
}

/// The text of a file.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// `page` with `table` between the two markers of `cargo xtask COMMAND`; `part` where that writes several tables.
///
/// # Errors
/// When the page lacks the markers.
pub fn between(page: &str, command: &str, part: Option<&str>, table: &str) -> Result<String, String> {
    let part = part.map_or_else(String::new, |part| format!(" {part}"));
    let marker = |edge| format!("<!-- written by `cargo xtask {command}`: {edge}{part} -->\n");
    let (begin, end) = (marker("begin"), marker("end"));
    let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)));
    let (before, after) = parts.ok_or_else(|| {
        format!("the table goes between two lines that are missing: {} and {}", begin.trim(), end.trim())
    })?;
    Ok(format!("{before}{begin}\n{table}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_goes_between_its_own_markers_only() {
        let mark = |edge: &str| format!("<!-- written by `cargo xtask x`: {edge} -->\n");
        let page = |one: &str, two: &str| {
            format!(
                "before\n{}{one}{}middle\n{}{two}{}after\n",
                mark("begin one"),
                mark("end one"),
                mark("begin"),
                mark("end")
            )
        };
        let old = page("old\n", "old\n");
        assert_eq!(between(&old, "x", Some("one"), "new"), Ok(page("\nnew\n", "old\n")));
        assert_eq!(between(&old, "x", None, "new"), Ok(page("old\n", "\nnew\n")));
        let missing = between(&old, "x", Some("two"), "new").expect_err("no such markers");
        assert!(missing.contains("begin two -->") && missing.contains("end two -->"), "{missing}");
    }
}
