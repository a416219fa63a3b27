//! Text and JSON of every sysstat since 9: columns are found by their names.

use super::{IostatError, IostatReport, IostatRow};
use serde_json::Value;

/// Reads all reports of a text.
///
/// # Errors
/// When there is none, or none with waits and queues.
pub fn parse(text: &str) -> Result<Vec<IostatReport>, IostatError> {
    let reports = if text.trim_start().starts_with('{') { from_json(text)? } else { from_text(text) };
    let mut rows = reports.iter().flat_map(|r| &r.devices).peekable();
    if rows.peek().is_none() {
        return Err(IostatError::NoReport);
    }
    if rows.all(|r| {
        r.queue.is_none() && r.all_await.is_none() && r.read_await.is_none() && r.write_await.is_none()
    }) {
        return Err(IostatError::NotExtended);
    }
    Ok(reports)
}

fn from_text(text: &str) -> Vec<IostatReport> {
    let mut reports: Vec<IostatReport> = Vec::new();
    let mut header: Vec<&str> = Vec::new();
    // `-h` prints a report as several tables with different columns: the same column again begins the next report.
    let mut seen: Vec<&str> = Vec::new();
    let mut in_table = false;
    for line in text.lines() {
        let words = words(line);
        let is_device = |word: &&&str| word.trim_end_matches(':') == "Device";
        let device = words.iter().position(|word| is_device(&word));
        if let Some(at) = device.filter(|_| words.len() > 1) {
            // A time or a mark may stand before it; some print it last.
            header = if at + 1 == words.len() { words } else { words[at..].to_vec() };
            let columns = || header.iter().copied().filter(|c| !is_device(&c));
            if reports.is_empty() || columns().any(|c| seen.contains(&c)) {
                reports.push(IostatReport::default());
                seen.clear();
            }
            seen.extend(columns());
            in_table = true;
        } else if (words.is_empty() && !line.contains('-'))
            || words.first().is_some_and(|w| w.starts_with("avg-cpu"))
        {
            in_table = false;
        } else if in_table
            && let Some(row) = row(&header, &words)
            && let Some(report) = reports.last_mut()
        {
            take_row(&header, row, report);
        }
    }
    reports
}

/// Words of `line` without the signs that quote it in a mail or draw a table.
fn words(line: &str) -> Vec<&str> {
    let is_sign = |word: &&str| !word.is_empty() && !word.chars().all(|c| matches!(c, '>' | '-' | ':'));
    line.trim_start_matches(['>', ' ']).split([' ', '\t', '\r', '|']).filter(is_sign).collect()
}

/// The row that `words` are under `header`, without what stands before it, such as a time.
fn row<'a, 'b>(header: &[&str], words: &'a [&'b str]) -> Option<&'a [&'b str]> {
    let row = &words[words.len().checked_sub(header.len())?..];
    let is_figure = |word: &&str| figure(word).is_some();
    let is_whole = row.len() == words.len();
    (is_whole || !is_figure(&row[0]) && row[1..].iter().all(is_figure)).then_some(row)
}

fn take_row(header: &[&str], words: &[&str], report: &mut IostatReport) {
    let Some(at) = header.iter().position(|c| c.trim_end_matches(':') == "Device") else { return };
    let Some(name) = words.get(at) else { return };
    let index = report.devices.iter().position(|d| d.device == *name).unwrap_or_else(|| {
        report.devices.push(IostatRow { device: (*name).to_owned(), ..IostatRow::default() });
        report.devices.len() - 1
    });
    let Some(row) = report.devices.get_mut(index) else { return };
    for (column, word) in header.iter().zip(words) {
        if let Some(value) = figure(word) {
            set(row, column, value);
        }
    }
}

/// A figure, and whether it carries a unit of its own, as `-h` prints them.
#[derive(Clone, Copy)]
struct Figure {
    value: f64,
    has_unit: bool,
}

fn figure(word: &str) -> Option<Figure> {
    let word = word.trim_end_matches('%');
    let (digits, factor) = match word.char_indices().last()? {
        (at, 'k') => (&word[..at], Some(1024.0)),
        (at, 'M') => (&word[..at], Some(1_048_576.0)),
        (at, 'G') => (&word[..at], Some(1_073_741_824.0)),
        (at, 'T') => (&word[..at], Some(1_099_511_627_776.0)),
        (at, 'B' | 's') => (&word[..at], None),
        _ => (word, None),
    };
    // Some locales print a decimal comma.
    let value: f64 = digits.replace(',', ".").parse().ok().filter(|v: &f64| v.is_finite() && *v >= 0.0)?;
    Some(Figure { value: value * factor.unwrap_or(1.0), has_unit: factor.is_some() })
}

/// Names of columns over the years (sysstat's CHANGES; -k, -m and -s choose units and the short form).
fn set(row: &mut IostatRow, column: &str, figure: Figure) {
    let bytes = |unit: f64| Some(if figure.has_unit { figure.value } else { figure.value * unit });
    let value = Some(figure.value);
    match column {
        "r/s" | "tps" => row.reads = value,
        "w/s" => row.writes = value,
        "rkB/s" | "kB/s" => row.read_bytes = bytes(1024.0),
        "rMB/s" | "MB/s" => row.read_bytes = bytes(1_048_576.0),
        "rsec/s" | "sec/s" => row.read_bytes = bytes(512.0),
        "wkB/s" => row.write_bytes = bytes(1024.0),
        "wMB/s" => row.write_bytes = bytes(1_048_576.0),
        "wsec/s" => row.write_bytes = bytes(512.0),
        "await" => row.all_await = value,
        "r_await" => row.read_await = value,
        "w_await" => row.write_await = value,
        "avgqu-sz" | "aqu-sz" => row.queue = value,
        "%util" | "util" => row.util = value.map(|v| v / 100.0),
        _ => {}
    }
}

fn from_json(text: &str) -> Result<Vec<IostatReport>, IostatError> {
    let value: Value =
        serde_json::from_str(&without_stray_commas(text)).map_err(|e| IostatError::Json(e.to_string()))?;
    let hosts = value["sysstat"]["hosts"].as_array();
    let hosts = hosts.ok_or_else(|| IostatError::Json("there is no sysstat.hosts".to_owned()))?;
    let statistics = hosts.iter().filter_map(|h| h["statistics"].as_array()).flatten();
    let report = |disks: &Vec<Value>| IostatReport { devices: disks.iter().filter_map(json_row).collect() };
    Ok(statistics.filter_map(|s| s["disk"].as_array()).map(report).collect())
}

/// `text` without commas that follow nothing: sysstat 11.6 to 12.1 writes one with `-y`.
fn without_stray_commas(text: &str) -> String {
    let (mut in_string, mut is_escaped, mut last) = (false, false, ' ');
    let keeps = |&c: &char| {
        let is_stray = !in_string && c == ',' && matches!(last, '[' | '{' | ',');
        in_string ^= c == '"' && !is_escaped;
        is_escaped = in_string && c == '\\' && !is_escaped;
        if !c.is_whitespace() {
            last = c;
        }
        !is_stray
    };
    text.chars().filter(keeps).collect()
}

fn json_row(disk: &Value) -> Option<IostatRow> {
    let mut row = IostatRow { device: disk["disk_device"].as_str()?.to_owned(), ..IostatRow::default() };
    for (column, value) in disk.as_object()? {
        if let Some(value) = value.as_f64() {
            set(&mut row, column, Figure { value, has_unit: false });
        }
    }
    Some(row)
}
