//! `iostat -o JSON` and `sadf -j`: each list of disks is read by itself, so that what is damaged around it costs nothing.

use super::columns::{Figure, set};
use super::{IostatError, IostatReport, IostatRow, Log};
use crate::pasted;
use serde_json::Value;

/// The names of devices, of iostat and of sadf.
const NAMES: [&str; 2] = ["disk_device", "disk-device"];

pub(super) fn is_like(text: &str) -> bool {
    let own = text.trim_start_matches(['\u{feff}', '>', '|', ' ', '\n', '\r', '\t']);
    let begins = own.strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with('"'));
    begins || NAMES.iter().any(|name| text.contains(name))
}

pub(super) fn read(text: &str) -> Result<Log, IostatError> {
    let own = |line: &str| pasted::own(line).0.to_owned() + "\n";
    let log = lists(&pasted::lines(text).map(|line| own(&line)).collect::<String>());
    if log.as_ref().is_ok_and(|log| log.notes.is_empty()) {
        return log;
    }
    let unbroken = lists(&pasted::unbroken(text).iter().map(|line| own(line)).collect::<String>());
    let count = |log: &Result<Log, _>| log.as_ref().map_or(0, |log| log.reports.len());
    if count(&unbroken) > count(&log) { unbroken } else { log }
}

fn lists(text: &str) -> Result<Log, IostatError> {
    let text = mended(text);
    let mut log = Log { since_boot: true, ..Log::default() };
    let mut damage = None;
    let mut rest = text.as_str();
    while let Some((_, after)) = rest.split_once("\"disk\"") {
        rest = after;
        let list = after.trim_start().trim_start_matches(':');
        match serde_json::Deserializer::from_str(list).into_iter::<Vec<Value>>().next() {
            Some(Ok(disks)) => {
                log.since_boot &= !disks.iter().any(|disk| disk.get(NAMES[1]).is_some());
                log.reports.push(IostatReport { devices: disks.iter().filter_map(row).collect() });
            }
            // The parser counts lines from the list.
            Some(Err(error)) => damage = error.to_string().split(" at line ").next().map(str::to_owned),
            None => {}
        }
    }
    if log.reports.iter().all(|report| report.devices.is_empty()) {
        let none = || IostatError::Json("there is no list of disks (`\"disk\": [`) in it".to_owned());
        return Err(damage.map_or_else(none, IostatError::Damaged));
    }
    let left_out = |what| format!("a report that is cut off or damaged is left out: {what}");
    log.notes.extend(damage.map(left_out));
    Ok(log)
}

/// `text` without commas that follow nothing (sysstat 11.6 to 12.1 writes one with `-y`), and with points for those within
/// figures.
fn mended(text: &str) -> String {
    let (mut in_string, mut is_escaped, mut last, mut before) = (false, false, ' ', ' ');
    let mut mended = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let comma = !in_string && c == ',';
        in_string ^= c == '"' && !is_escaped;
        is_escaped = in_string && c == '\\' && !is_escaped;
        if comma && before.is_ascii_digit() && characters.peek().is_some_and(char::is_ascii_digit) {
            mended.push('.');
        } else if !(comma && matches!(last, '[' | '{' | ',')) {
            mended.push(c);
        }
        before = c;
        if !c.is_whitespace() {
            last = c;
        }
    }
    mended
}

fn row(disk: &Value) -> Option<IostatRow> {
    let name = NAMES.iter().find_map(|name| disk.get(*name)?.as_str())?;
    let mut row = IostatRow { device: name.to_owned(), ..IostatRow::default() };
    for (column, value) in disk.as_object()? {
        set(&mut row, column, Figure { value: value.as_f64(), has_unit: false });
    }
    Some(row)
}
