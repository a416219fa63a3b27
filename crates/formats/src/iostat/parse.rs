//! Text of every sysstat since 9, of `sar -d` too: columns are found by their names, and a row is a name with as many
//! figures, wherever lines were broken.

use super::columns::{figure, is_column, is_device, set};
use super::{IostatError, IostatReport, IostatRow, Log, json};
use crate::pasted;
use ebbtide_model::units::format_count;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Columns in a row that are a header by themselves: the word over the devices' names is in the reader's language.
const LEAST_COLUMNS: usize = 3;
/// Figures after a name that are a row, where no header says how many.
const LEAST_FIGURES: usize = 4;
/// Figures that what is said of a row begins with.
const MOST_SAID: usize = 2;
/// Words of a row that are quoted.
const MOST_QUOTED: usize = 6;
/// Characters of it.
const MOST_CHARACTERS: usize = 60;

/// Reads all reports of a text.
///
/// # Errors
/// When there is none, or none with waits and queues.
pub fn parse(text: &str) -> Result<Log, IostatError> {
    let log = if json::is_like(text) { json::read(text)? } else { from_text(text)? };
    let has_waits =
        |r: &IostatRow| [r.queue, r.all_await, r.read_await, r.write_await].iter().any(Option::is_some);
    let mut rows = log.reports.iter().flat_map(|report| &report.devices);
    if rows.any(has_waits) { Ok(log) } else { Err(IostatError::NotExtended) }
}

fn from_text(text: &str) -> Result<Log, IostatError> {
    let reader = Reader::read(pasted::lines(text));
    if reader.lost.is_none() && reader.rows > 0 {
        return reader.log();
    }
    let unbroken = Reader::read(pasted::unbroken(text));
    // Lines that only happen to be as long as the longest make no rows that fit.
    let fits = unbroken.rows > reader.rows && (unbroken.lost.is_none() || unbroken.is_cut);
    if fits { unbroken.log() } else { reader.log() }
}

/// A word in a line.
struct Word {
    text: String,
    line: usize,
    /// A time stood in front of its line.
    stamped: bool,
}

impl Word {
    fn is_figure(&self) -> bool {
        figure(&self.text).is_some()
    }
}

/// The first of `words`, as they stood, and no more than can be read at a glance.
fn quoted<'a>(words: impl IntoIterator<Item = &'a Word>) -> String {
    let words: Vec<&str> = words.into_iter().take(MOST_QUOTED).map(|word| word.text.as_str()).collect();
    words.join(" ").chars().take(MOST_CHARACTERS).collect()
}

#[derive(Default)]
struct Table {
    columns: Vec<String>,
    /// The name stands behind its figures.
    name_last: bool,
    /// Its header may go on in the next line.
    is_open: bool,
    /// Of sar, which ends with means of all that it printed.
    sar: bool,
    /// Of these means.
    means: bool,
    /// Devices that it has had so far.
    had: BTreeSet<String>,
}

/// A name with the figures beside it, as places among words.
struct Row {
    begin: usize,
    end: usize,
    fits: bool,
}

/// A row of which not all figures are there, or too many.
struct Lost {
    line: usize,
    text: String,
    figures: usize,
    columns: usize,
}

/// Takes a log line by line.
#[derive(Default)]
struct Reader {
    reports: Vec<IostatReport>,
    table: Option<Table>,
    /// Words of the table that are in no row yet.
    pending: Vec<Word>,
    /// Columns of the last report: `-h` prints a report as several tables, and one of these again begins the next.
    seen: BTreeSet<String>,
    line: usize,
    rows: usize,
    /// There were lines of sar, of processors, and of systems other than Linux.
    sar: bool,
    processors: bool,
    foreign: bool,
    /// The first that was lost, and how many were.
    lost: Option<(Lost, u64)>,
    /// The last row was, for want of figures: the end is cut off.
    is_cut: bool,
    /// The first line of rows without a header.
    headless: Option<usize>,
    /// The first text beside a row, that row's name, and beside how many there is any.
    beside: Option<(String, String, u64)>,
}

impl Reader {
    fn read<'a>(lines: impl IntoIterator<Item = Cow<'a, str>>) -> Reader {
        let mut reader = Reader::default();
        lines.into_iter().for_each(|line| reader.line(&line));
        reader.close();
        reader
    }

    fn line(&mut self, line: &str) {
        self.line += 1;
        let (own, stamped) = pasted::own(line);
        let words: Vec<&str> = pasted::words(own).collect();
        // Where lines were run together, a header stands behind figures.
        let begins = |at: &usize| {
            let follows = *at > 0 && figure(words[at - 1]).is_some();
            let heads = is_device(words[*at]) && words.get(at + 1).is_some_and(|word| is_column(word));
            follows && (heads || words[*at] == "avg-cpu:")
        };
        let mut from = 0;
        for at in (0..words.len()).filter(begins).chain([words.len()]) {
            self.words(&words[from..at], stamped);
            from = at;
        }
    }

    /// Takes the words of a line.
    fn words(&mut self, words: &[&str], stamped: bool) {
        if words.is_empty() {
            return;
        }
        let begun = Table::begun_by(words, stamped);
        let anew = begun.as_ref().is_some_and(|(table, _)| is_device(words[0]) && !table.columns.is_empty());
        if let Some(table) = self.table.as_mut().filter(|table| table.is_open && !anew) {
            let rest = table.header(words);
            self.take(rest, stamped);
        } else if let Some((table, rest)) = begun {
            self.close();
            self.sar |= table.sar;
            self.table = Some(table);
            self.take(rest, stamped);
        } else if words.iter().filter(|word| word.ends_with("/s") || word.starts_with('%')).count() > 1 {
            // The header of another table.
            self.processors |= words.contains(&"%iowait");
            self.foreign |= words.contains(&"kr/s");
            self.close();
        } else if self.table.is_some() {
            self.take(words, stamped);
        } else if figure(words[0]).is_none() && !self.processors {
            let figures = words.iter().filter(|word| figure(word).is_some()).count();
            if figures >= LEAST_FIGURES && figures + 2 > words.len() {
                self.headless.get_or_insert(self.line);
            }
        }
    }

    /// Adds words of the table, and takes the rows that are whole with them.
    fn take(&mut self, words: &[&str], stamped: bool) {
        let line = self.line;
        let Some(table) = self.table.as_mut().filter(|_| !words.is_empty()) else { return };
        table.is_open = false;
        self.pending.extend(words.iter().map(|word| Word { text: (*word).to_owned(), line, stamped }));
        self.rows(false);
    }

    /// Ends the table: what is left of it is no row.
    fn close(&mut self) {
        self.rows(true);
        self.table = None;
        self.pending.clear();
    }

    fn rows(&mut self, at_end: bool) {
        let Some(mut table) = self.table.take().filter(|table| !table.columns.is_empty()) else { return };
        let words = std::mem::take(&mut self.pending);
        let mut at = 0;
        while let Some(row) = table.next(&words[at..]) {
            let (begin, end) = (at + row.begin, at + row.end);
            // Only the next line says whether it goes on.
            if end == words.len() && !at_end {
                break;
            }
            let own = &words[begin..end];
            let before = words[at..begin].iter().filter(|word| word.line == own[0].line);
            let before = quoted(before);
            if row.fits {
                let means = table.means || table.sar && !own[0].stamped && !before.is_empty();
                if !means {
                    self.row(&mut table, own, before);
                }
            } else if own.len() > LEAST_FIGURES {
                self.is_cut = end == words.len() && own.len() <= table.columns.len();
                let (text, columns) = (quoted(own), table.columns.len());
                let lost = Lost { line: own[0].line, text, figures: own.len() - 1, columns };
                self.lost.get_or_insert((lost, 0)).1 += 1;
            }
            at = end;
        }
        self.pending = words.into_iter().skip(at).collect();
        self.table = Some(table);
    }

    /// Adds a row to its report; text `before` it is skipped.
    fn row(&mut self, table: &mut Table, words: &[Word], before: String) {
        let at = if table.name_last { words.len() - 1 } else { 0 };
        let name = words[at].text.trim_start_matches("dev/").trim_end_matches([':', '-', '.']);
        if !before.is_empty() {
            self.beside.get_or_insert_with(|| (before, name.to_owned(), 0)).2 += 1;
        }
        let again = if table.had.is_empty() {
            table.columns.iter().any(|column| self.seen.contains(column))
        } else {
            table.had.contains(name)
        };
        if again || self.reports.is_empty() {
            self.reports.push(IostatReport::default());
            self.seen.clear();
            table.had.clear();
        }
        if table.had.is_empty() {
            self.seen.extend(table.columns.iter().cloned());
        }
        table.had.insert(name.to_owned());
        self.rows += 1;
        self.is_cut = false;
        let Some(IostatReport { devices }) = self.reports.last_mut() else { return };
        let index = devices.iter().position(|device| device.device == name).unwrap_or_else(|| {
            devices.push(IostatRow { device: name.to_owned(), ..IostatRow::default() });
            devices.len() - 1
        });
        let figures = words.iter().enumerate().filter(|(place, _)| *place != at).map(|(_, word)| word);
        for (column, word) in table.columns.iter().zip(figures) {
            if let Some(figure) = figure(&word.text) {
                set(&mut devices[index], column, figure);
            }
        }
    }

    fn log(mut self) -> Result<Log, IostatError> {
        if self.rows == 0 {
            return Err(match (self.lost, self.headless) {
                _ if self.foreign => IostatError::Foreign,
                (Some((Lost { line, figures, columns, .. }, _)), _) => {
                    IostatError::NoRow { line, figures, columns }
                }
                (None, Some(line)) => IostatError::NoHeader { line },
                (None, None) if self.processors => IostatError::OnlyProcessors,
                (None, None) => IostatError::NoReport,
            });
        }
        let mut notes = Vec::new();
        if self.is_cut && self.reports.len() > 1 {
            self.reports.pop();
            notes.push("the last report is cut off: left out".to_owned());
        }
        if let Some(line) = self.headless {
            notes.push(format!("line {line}: figures before the first header are left out"));
        }
        if let Some((Lost { line, text, figures, columns }, count)) = self.lost {
            let more = if count > 1 {
                format!(", and {} more", format_count(count - 1, "row"))
            } else {
                String::new()
            };
            notes.push(format!(
                "line {line}: `{text} ...` has {} under a header of {columns} columns: left out{more}",
                format_count(figures as u64, "figure"),
            ));
        }
        if let Some((text, name, count)) = self.beside {
            notes.push(format!(
                "text in front of {} is skipped, as `{text}` before {name}",
                format_count(count, "row")
            ));
        }
        // What is left when the beginning is cut off is no mean since boot.
        Ok(Log { reports: self.reports, since_boot: !self.sar && self.headless.is_none(), notes })
    }
}

impl Table {
    /// The table whose header `words` have, and what follows it in the line.
    fn begun_by<'a, 'b>(words: &'a [&'b str], stamped: bool) -> Option<(Table, &'a [&'b str])> {
        let device = words.iter().position(|word| is_device(word));
        let run = |at: usize| words[at..].iter().take_while(|word| is_column(word)).count();
        let first = words.iter().position(|word| is_column(word));
        let begin = match (device, first) {
            (_, Some(at)) if run(at) >= LEAST_COLUMNS => at,
            (Some(device), Some(at)) if at == device + 1 || device == at + run(at) => at,
            // Its columns are in the next line.
            (Some(device), None) if device + 1 == words.len() => words.len(),
            _ => return None,
        };
        let before = begin.checked_sub(1).map(|at| words[at]);
        let sar = before == Some("DEV");
        let mut table = Table { sar, means: sar && !stamped && begin > 1, is_open: true, ..Table::default() };
        let rest = table.header(&words[begin..]);
        table.name_last &= !before.is_some_and(is_device);
        Some((table, rest))
    }

    /// Takes the columns that `words` begin with; what is left of them.
    fn header<'a, 'b>(&mut self, words: &'a [&'b str]) -> &'a [&'b str] {
        let count = words.iter().take_while(|word| is_column(word)).count();
        let (columns, rest) = words.split_at(count);
        self.columns.extend(columns.iter().map(|column| (*column).to_owned()));
        match rest.split_first() {
            Some((word, rest)) if is_device(word) => {
                self.name_last = true;
                rest
            }
            _ => rest,
        }
    }

    /// The next name with figures among `words`.
    fn next(&self, words: &[Word]) -> Option<Row> {
        let columns = self.columns.len();
        let figures = |from: usize| words[from..].iter().take_while(|word| word.is_figure()).count();
        if self.name_last {
            let begin = words.iter().position(Word::is_figure)?;
            let count = figures(begin);
            let end = (begin + count + 1).min(words.len());
            return Some(Row { begin, end, fits: count == columns && begin + count < words.len() });
        }
        let is_name = |at: &usize| !words[*at].is_figure() && words.get(at + 1).is_none_or(Word::is_figure);
        let begin = (0..words.len()).find(is_name)?;
        let count = figures(begin + 1);
        let own = begin + 1 + columns;
        // What begins the next line, and is not all of it, is in front of the next row.
        let in_front = count > columns && words[own].line != words[own - 1].line && {
            let next = words[own..].iter().take_while(|word| word.line == words[own].line);
            next.clone().any(|word| !word.is_figure())
        };
        // What is said of a row may begin with a dash or a figure.
        let said = count > columns && count <= columns + MOST_SAID && {
            let after = words.get(begin + 1 + count).filter(|word| word.line == words[own - 1].line);
            after.is_some() && !words.get(begin + 2 + count).is_some_and(Word::is_figure)
        };
        let fits = in_front || said || count == columns;
        Some(Row { begin, end: if fits { own } else { begin + 1 + count }, fits })
    }
}
