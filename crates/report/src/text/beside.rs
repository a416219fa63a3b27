//! Sessions beside one another, as tables.

use super::table::{Cell, Table};
use super::{LEAST_WIDTH, Page, bare};
use crate::beside::{Beside, BesideRow, BesideTable, NOT_PAIRED};
use crate::words;
use ebbtide_analysis::Estimate;
use ebbtide_model::civil::Civil;
use ebbtide_model::metric::Metric;
use ebbtide_model::shown::{Paint, Styled};

/// What a session is called in the tables: A, B, and so on; numbers after Z.
fn letter(session: usize) -> String {
    u8::try_from(session)
        .ok()
        .filter(|&index| index < 26)
        .map_or_else(|| (session + 1).to_string(), |index| char::from(b'A' + index).to_string())
}

/// The comparison for a terminal of `width` columns, with colours when `color`. Lines end in `\n`.
pub fn beside(beside: &Beside, width: usize, color: bool) -> Styled {
    let mut page = Page { lines: Vec::new(), width: width.max(LEAST_WIDTH), color };
    for (index, session) in beside.sessions.iter().enumerate() {
        let on = words::backend(session.backend);
        let host =
            if session.hostname.is_empty() { String::new() } else { format!(", {}", session.hostname) };
        let when = Civil::from_unix(session.started_unix);
        page.prose(
            &format!("{}  {}: {}, {on}, {when}{host}", letter(index), session.id, session.experiment),
            3,
            Paint::Plain,
        );
    }
    for table in &beside.tables {
        page.beside_table(table);
    }
    page.blank();
    page.prose(NOT_PAIRED, 0, Paint::Caution);
    if !beside.shares_a_workload() {
        page.prose(
            "No workload of one name is in two of these sessions; --workload A,B puts those named A and B into one \
             table.",
            0,
            Paint::Caution,
        );
    }
    Styled::lines(&page.lines)
}

impl Page {
    fn beside_table(&mut self, table: &BesideTable) {
        let mut names: Vec<&str> = table.workloads.iter().map(|(_, name, _)| name.as_str()).collect();
        names.dedup();
        self.heading(&names.join(", "), words::metric_label(table.metric));
        for (session, name, summary) in &table.workloads {
            let named = if names.len() > 1 { format!(" {name}") } else { String::new() };
            self.prose(&format!("  {}{named}: {summary}", letter(*session)), 5, Paint::Faint);
        }
        if !table.differences.is_empty() {
            let differ = table.differences.join(", ");
            self.prose(&format!("  not the same work, they differ in: {differ}"), 4, Paint::Caution);
        }
        let named = names.len() > 1;
        let tables = [true, false].map(|intervals| laid_out(table, named, intervals));
        let Some(fitting) = tables.iter().find(|t| t.fits(self.width)).or(tables.last()) else { return };
        self.lines.extend(fitting.lines(self.width, self.color));
    }
}

/// The rows as cells; `named` says the workload of each, `intervals` those of the latencies.
fn laid_out(table: &BesideTable, named: bool, intervals: bool) -> Table {
    let metric = table.metric;
    let level =
        table.rows.iter().find_map(|row| row.estimate).map_or(String::new(), |e| words::level(e.ci_level));
    let mut header: Vec<String> = vec!["session, design".to_owned()];
    if named {
        header.push("workload".to_owned());
    }
    header.extend([
        "trials".to_owned(),
        if metric == Metric::Iops { "IOPS" } else { "median" }.to_owned(),
        format!("{level} interval"),
        "ratio".to_owned(),
        "p50".to_owned(),
        "p99".to_owned(),
    ]);
    let row = |(index, row): (usize, &BesideRow)| {
        let mut cells = vec![Cell::plain(&format!("{} {}", letter(row.session), row.design))];
        if named {
            cells.push(Cell::plain(&row.workload));
        }
        cells.push(Cell::plain(&row.trials.to_string()));
        let median = row.estimate.map(|e| bare(metric, &words::value(metric, e.median)));
        cells.push(Cell::new(median.as_deref().unwrap_or("–"), Paint::Strong));
        cells.push(match row.estimate.and_then(|e| e.interval) {
            Some((low, high)) => Cell::plain(&bare(metric, &words::range(metric, low, high))),
            None => Cell::new("too few trials", Paint::Caution),
        });
        let ratio = match row.ratio {
            Some(ratio) => words::ratio(ratio),
            None if index == 0 => "first".to_owned(),
            None => "–".to_owned(),
        };
        cells.push(Cell::plain(&ratio));
        for (metric, estimate) in [(Metric::LatP50, &row.lat_p50), (Metric::LatP99, &row.lat_p99)] {
            cells.push(Cell::plain(&estimate.map_or("–".to_owned(), |e| latency(metric, &e, intervals))));
        }
        cells
    };
    Table { header, rows: table.rows.iter().enumerate().map(row).collect() }
}

/// `1.53 ms`, with its interval where there is one and it is asked for: `1.53 ms (1.50–1.61 ms)`.
fn latency(metric: Metric, estimate: &Estimate, interval: bool) -> String {
    let median = words::value(metric, estimate.median);
    match estimate.interval {
        Some((low, high)) if interval => format!("{median} ({})", words::range(metric, low, high)),
        _ => median,
    }
}
