//! What is pasted into a ticket: the answer, then the tables of the text report as GitHub's Markdown has them.

use crate::beside::{Beside, letter};
use crate::brief::BEST;
use crate::model::Report;
use crate::text::{self, Cell, Table, race};
use ebbtide_model::shown::one_line;
use std::fmt::Write;

/// The report: of many designs the best, as on a terminal.
pub fn markdown(report: &Report) -> String {
    let brief = report.is_large().then(|| report.in_brief(BEST));
    let told = brief.as_ref().unwrap_or(report);
    let labels = told.labels();
    let mut page = Page::default();
    report.answer.iter().for_each(|sentence| page.prose(sentence));
    if let Some(race) = &report.race {
        let (shared, best) = race::best(race);
        page.heading("The race");
        shared.iter().for_each(|shared| page.prose(&format!("each with {shared}:")));
        page.table(&best);
    }
    if let Some(designs) = told.design_table() {
        page.heading("Designs");
        page.table(&text::designs_beside(told, &labels, &designs, true, 0));
    }
    for (index, workload) in told.workloads.iter().enumerate() {
        let views: Vec<_> = told.results_of(index).collect();
        if !views.is_empty() {
            page.heading(&workload.name);
            page.prose(&workload.summary);
            page.table(&text::table_of(told, &labels, &views, workload.headline, (true, true)));
        }
    }
    let limits = told.limits().into_iter().map(|(verdict, views)| {
        let cells =
            [text::limited(told, &labels, &views), verdict.limited_by().to_owned(), verdict.sentence.clone()];
        cells.map(|cell| Cell::plain(&cell)).to_vec()
    });
    page.section("What limits them", ["", "limited by", "why"], limits.collect());
    let warnings = told.warnings_once().into_iter().flat_map(|(advice, warnings)| {
        let told = move |warning: &crate::model::WarningOnce<'_>| {
            let cells =
                [format!("{}{}", warning.of(), warning.message), advice.unwrap_or_default().to_owned()];
            cells.map(|cell| Cell::plain(&cell)).to_vec()
        };
        warnings.iter().map(told).collect::<Vec<_>>()
    });
    page.section("Warnings", ["warning", "what to do"], warnings.collect());
    page.prose(&text::foot(report));
    page.0
}

/// The comparison.
pub fn beside_markdown(beside: &Beside) -> String {
    let mut page = Page::default();
    beside.answer.iter().for_each(|sentence| page.prose(sentence));
    let sessions = beside.sessions.iter().enumerate();
    let sessions = sessions
        .map(|(at, session)| [letter(at), text::which(session)].map(|cell| Cell::plain(&cell)).to_vec());
    page.table(&Table { header: ["", "session"].map(str::to_owned).to_vec(), rows: sessions.collect() });
    for of_workload in text::by_workload(beside) {
        let Some(work) = text::work(beside, of_workload) else { continue };
        page.heading(&work.name);
        let said =
            std::iter::once(&work.more).filter(|more| !more.is_empty()).chain(&work.each).chain(&work.differ);
        said.for_each(|said| page.prose(said));
        page.table(&text::laid_out(beside, of_workload, true));
    }
    let differs = beside.differs.iter().map(|differs| {
        let values = differs.values.iter().map(|value| value.as_deref().unwrap_or("–"));
        std::iter::once(differs.what.as_str()).chain(values).map(Cell::plain).collect()
    });
    let header = std::iter::once(String::new()).chain((0..beside.sessions.len()).map(letter));
    if !beside.differs.is_empty() {
        page.heading("What differs");
        page.table(&Table { header: header.collect(), rows: differs.collect() });
    }
    beside.remarks.iter().for_each(|remark| page.prose(remark));
    page.0
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn block(&mut self, text: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        let _infallible = writeln!(self.0, "{text}");
    }

    fn prose(&mut self, text: &str) {
        self.block(&line(text));
    }

    fn heading(&mut self, text: &str) {
        self.block(&format!("### {}", escaped(text)));
    }

    fn table(&mut self, table: &Table) {
        let row = |cells: &mut dyn Iterator<Item = String>| {
            format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
        };
        let columns = table.header.len();
        let mut lines = vec![row(&mut table.header.iter().map(|name| escaped(name)))];
        lines.push(row(&mut table.header.iter().map(|_| "---".to_owned())));
        lines.extend(table.rows.iter().map(|cells| {
            let cells = cells.iter().map(|cell| escaped(cell.text())).chain(std::iter::repeat(String::new()));
            row(&mut cells.take(columns))
        }));
        self.block(&lines.join("\n"));
    }

    /// A table under a heading, where it has rows.
    fn section<const N: usize>(&mut self, name: &str, header: [&str; N], rows: Vec<Vec<Cell>>) {
        if !rows.is_empty() {
            self.heading(name);
            self.table(&Table { header: header.map(str::to_owned).to_vec(), rows });
        }
    }
}

/// `text` as a paragraph that begins neither a heading nor a list.
fn line(text: &str) -> String {
    let text = escaped(text);
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let at = if text[digits..].starts_with(['.', ')']) { digits } else { 0 };
    let begins = at > 0 && text[at + 1..].starts_with(' ') || text.starts_with(['#', '-', '+', '=']);
    if begins { format!("{}\\{}", &text[..at], &text[at..]) } else { text }
}

/// `text` on one line, as it is read: none of it is Markdown or HTML.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    let text = one_line(text);
    let mut signs = text.trim().chars().peekable();
    let is_word = |sign: Option<char>| sign.is_some_and(char::is_alphanumeric);
    let mut before = None;
    while let Some(sign) = signs.next() {
        match sign {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // Within a word it is no emphasis.
            '_' if is_word(before) && is_word(signs.peek().copied()) => out.push(sign),
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '~' => out.extend(['\\', sign]),
            _ => out.push(sign),
        }
        before = Some(sign);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_begins_no_list() {
        assert_eq!(line("# a"), "\\# a");
        assert_eq!(line("12. a"), "12\\. a");
        assert_eq!(line("2.00 times"), "2.00 times");
        assert_eq!(line("a|b <c> O_DIRECT _d_"), "a\\|b &lt;c&gt; O_DIRECT \\_d\\_");
    }
}
