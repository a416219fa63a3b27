//! The pages of the documentation can be read: nine of ten sentences have 25 words at most, none more than 40, and lines of text 120
//! characters. Those of verdicts have four parts, 60 lines, and no sentence of more than 25 words; those that answer a question 80 lines.

use crate::pages;

/// Directories with pages.
const PLACES: [&str; 8] = [
    ".",
    "docs",
    "docs/decisions",
    "docs/explanation",
    "docs/how-to",
    "docs/reference",
    "docs/studies",
    "docs/verdicts",
];
/// The parts of a page, in their order.
const PARTS: [&str; 4] = ["## What it means", "## How to see it", "## What to do", "## How it is decided"];
const MOST_LINES: usize = 60;
/// Of a page that answers one question.
const MOST_LINES_OF_ANSWER: usize = 80;
const MOST_WORDS: usize = 25;
/// Of a sentence that is one of ten.
const MOST_WORDS_EVER: usize = 40;
const MOST_COLUMNS: usize = 120;

/// The lines of a page's paragraphs and lists; those of its tables, its examples and what commands write are empty.
fn prose(page: &str) -> Vec<&str> {
    let (mut example, mut written) = (false, false);
    let lines = page.lines().map(|line| {
        let fence = line.trim_start().starts_with("```");
        let marker = line.starts_with("<!-- written by");
        example ^= fence;
        written ^= marker;
        let other =
            fence || example || written || line.starts_with(['|', '#', '<']) || line.starts_with("    ");
        if other { "" } else { line }
    });
    lines.collect()
}

/// The sentences of those lines.
fn sentences(prose: &[&str]) -> Vec<String> {
    let (mut sentences, mut one) = (Vec::new(), String::new());
    let mut end = |one: &mut String| sentences.push(std::mem::take(one));
    for line in prose {
        if line.is_empty() || line.trim_start().starts_with("- ") {
            end(&mut one);
        }
        for word in line.split_whitespace().filter(|word| *word != "-") {
            one.push_str(word);
            one.push(' ');
            if word.trim_end_matches([')', '*', '"']).ends_with(['.', '!', '?', ':']) {
                end(&mut one);
            }
        }
    }
    end(&mut one);
    sentences.retain(|sentence| !sentence.is_empty());
    sentences
}

/// What is wrong with a page of any kind, of which no sentence may have more than `most` words.
fn faults(page: &str, most: usize) -> Vec<String> {
    let prose = prose(page);
    let sentences = sentences(&prose);
    let words = |sentence: &&String| sentence.split_whitespace().count();
    let long = sentences.iter().filter(|sentence| words(sentence) > MOST_WORDS).count();
    let mut faults = Vec::new();
    if long * 10 > sentences.len() {
        faults.push(format!("{long} of {} sentences have more than {MOST_WORDS} words", sentences.len()));
    }
    for sentence in sentences.iter().filter(|sentence| words(sentence) > most) {
        faults.push(format!("{} words, of {most} at most: {sentence}", words(&sentence)));
    }
    for line in prose.iter().filter(|line| line.chars().count() > MOST_COLUMNS) {
        faults.push(format!("a line of more than {MOST_COLUMNS} characters: {line}"));
    }
    faults
}

/// What is wrong with a page of a verdict.
fn verdict_faults(page: &str) -> Vec<String> {
    let mut faults = faults(page, MOST_WORDS);
    let parts: Vec<&str> = page.lines().filter(|line| line.starts_with("## ")).collect();
    if parts != PARTS {
        faults.push(format!("its parts are {parts:?} instead of {PARTS:?}"));
    }
    faults.extend(too_long(page, MOST_LINES));
    faults
}

/// What is wrong with the length of a page that may have `most` lines.
fn too_long(page: &str, most: usize) -> Option<String> {
    let lines = page.lines().count();
    (lines > most).then(|| format!("it has {lines} lines, of {most} at most"))
}

/// Looks at all pages.
///
/// # Errors
/// All that is wrong with them.
pub fn check() -> Result<(), String> {
    println!("== pages of the documentation");
    let mut wrong = Vec::new();
    for place in PLACES {
        let directory = pages::root().join(place);
        let told = |error: std::io::Error| format!("{}: {error}", directory.display());
        for entry in directory.read_dir().map_err(told)? {
            let path = entry.map_err(told)?.path();
            if path.extension().is_some_and(|ending| ending == "md") {
                let page = pages::read(&path)?;
                let mut of_page = match place {
                    "docs/verdicts" => verdict_faults(&page),
                    _ => faults(&page, MOST_WORDS_EVER),
                };
                of_page.extend(too_long(&page, MOST_LINES_OF_ANSWER).filter(|_| place == "docs/how-to"));
                wrong.extend(of_page.into_iter().map(|fault| format!("{}: {fault}", path.display())));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pages_and_long_sentences_are_told_and_tables_and_examples_are_not() {
        let page = |more: &str| format!("# `x`: y\n\n{}\n\n{more}\n", PARTS.join("\n\nIt is so.\n\n"));
        let long = ["w"; 26].join(" ");
        assert!(verdict_faults(&page("It is so.")).is_empty());
        assert!(verdict_faults(&page(&format!("| {long} |\n\n```text\n{long}\n```"))).is_empty());
        let told = verdict_faults(&page(&format!("{long}.")));
        assert!(told.iter().any(|fault| fault.starts_with("26 words")), "{told:?}");
        assert!(verdict_faults(&page(&format!("- {0}\n- {0}", "word ".repeat(20)))).is_empty());
        assert!(verdict_faults(&page(&"line\n\n".repeat(40)))[0].contains("lines, of 60"));
        let many = ["It is so."; 9].join(" ");
        assert!(faults(&format!("{many}\n{long}.\n"), MOST_WORDS_EVER).is_empty(), "one of ten");
        assert!(faults(&format!("{long}. It is so.\n"), MOST_WORDS_EVER)[0].starts_with("1 of 2 sentences"));
        assert!(
            faults(&format!("{many}\n{long} {long}.\n"), MOST_WORDS_EVER)[0].starts_with("52 words, of 40")
        );
        assert!(verdict_faults("# `x`: y\n")[0].contains("its parts are []"));
    }
}
