//! The pages of verdicts can be read: four parts, 60 lines, and no sentence of more than 25 words.

use crate::pages;

/// The parts of a page, in their order.
const PARTS: [&str; 4] = ["## What it means", "## How to see it", "## What to do", "## How it is decided"];
const MOST_LINES: usize = 60;
const MOST_WORDS: usize = 25;

/// Sentences of a page: of its paragraphs and lists, and not of its tables and examples.
fn sentences(page: &str) -> Vec<String> {
    let (mut sentences, mut one, mut example) = (Vec::new(), String::new(), false);
    let mut end = |one: &mut String| sentences.push(std::mem::take(one));
    for line in page.lines() {
        let fence = line.starts_with("```");
        example ^= fence;
        let begins = line.starts_with("- ");
        let prose = !(fence || example || line.starts_with(['|', '#', '<']));
        if !prose || line.is_empty() || begins {
            end(&mut one);
        }
        for word in line.split_whitespace().filter(|word| prose && *word != "-") {
            one.push_str(word);
            one.push(' ');
            if word.trim_end_matches([')', '*', '"']).ends_with(['.', '!', '?', ':']) {
                end(&mut one);
            }
        }
    }
    end(&mut one);
    sentences
}

/// What is wrong with a page.
fn faults(page: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let parts: Vec<&str> = page.lines().filter(|line| line.starts_with("## ")).collect();
    if parts != PARTS {
        faults.push(format!("its parts are {parts:?} instead of {PARTS:?}"));
    }
    let lines = page.lines().count();
    if lines > MOST_LINES {
        faults.push(format!("it has {lines} lines, of {MOST_LINES} at most"));
    }
    for sentence in sentences(page) {
        let words = sentence.split_whitespace().count();
        if words > MOST_WORDS {
            faults.push(format!("{words} words, of {MOST_WORDS} at most: {sentence}"));
        }
    }
    faults
}

/// Looks at all pages.
///
/// # Errors
/// All that is wrong with them.
pub fn check() -> Result<(), String> {
    println!("== pages of verdicts");
    let directory = pages::root().join("docs/verdicts");
    let told = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut wrong = Vec::new();
    for entry in directory.read_dir().map_err(told)? {
        let path = entry.map_err(told)?.path();
        let of_page = faults(&pages::read(&path)?);
        wrong.extend(of_page.into_iter().map(|fault| format!("{}: {fault}", path.display())));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pages_and_long_sentences_are_told_and_tables_and_examples_are_not() {
        let page = |more: &str| format!("# `x`: y\n\n{}\n\n{more}\n", PARTS.join("\n\nIt is so.\n\n"));
        let long = ["word"; 26].join(" ");
        assert!(faults(&page("It is so.")).is_empty());
        assert!(faults(&page(&format!("| {long} |\n\n```text\n{long}\n```"))).is_empty());
        assert!(faults(&page(&format!("{long}.")))[0].starts_with("26 words"));
        assert!(faults(&page(&format!("- {0}\n- {0}", "word ".repeat(20)))).is_empty());
        assert!(faults(&page(&"line\n\n".repeat(40)))[0].contains("lines, of 60"));
        assert!(faults("# `x`: y\n")[0].contains("its parts are []"));
    }
}
