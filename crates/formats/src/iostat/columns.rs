//! Names of columns over the years, and their figures.

use super::IostatRow;

/// Columns that have a field of [`IostatRow`] are in [`set`]; these stand beside them.
const OTHERS: [&str; 41] = [
    "rrqm/s",
    "wrqm/s",
    "drqm/s",
    "rqm/s",
    "%rrqm",
    "%wrqm",
    "%drqm",
    "rrqm",
    "wrqm",
    "d/s",
    "dkB/s",
    "dMB/s",
    "dsec/s",
    "d_await",
    "f/s",
    "f_await",
    "rareq-sz",
    "wareq-sz",
    "dareq-sz",
    "areq-sz",
    "avgrq-sz",
    "svctm",
    "kB_read/s",
    "kB_wrtn/s",
    "kB_dscd/s",
    "kB_read",
    "kB_wrtn",
    "kB_dscd",
    "MB_read/s",
    "MB_wrtn/s",
    "MB_dscd/s",
    "MB_read",
    "MB_wrtn",
    "MB_dscd",
    "Blk_read/s",
    "Blk_wrtn/s",
    "Blk_read",
    "Blk_wrtn",
    "kB_w+d/s",
    "kB_w+d",
    "MB_w+d/s",
];

pub(super) fn is_column(word: &str) -> bool {
    OTHERS.contains(&word) || set(&mut IostatRow::default(), word, Figure { value: None, has_unit: false })
}

/// What iostat and sar print over the names of devices.
pub(super) fn is_device(word: &str) -> bool {
    matches!(word, "Device" | "Device:" | "DEV")
}

/// A figure, and whether it carries a unit of its own, as `-h` prints them.
#[derive(Clone, Copy)]
pub(super) struct Figure {
    /// Nothing where something stands for a figure that is none.
    pub value: Option<f64>,
    pub has_unit: bool,
}

pub(super) fn figure(word: &str) -> Option<Figure> {
    if matches!(word, "-" | "nan" | "-nan" | "inf" | "-inf") {
        return Some(Figure { value: None, has_unit: false });
    }
    let word = word.trim_end_matches('%');
    let (digits, factor) = match word.char_indices().last()? {
        (at, 'k') => (&word[..at], Some(1024.0)),
        (at, 'M') => (&word[..at], Some(1_048_576.0)),
        (at, 'G') => (&word[..at], Some(1_073_741_824.0)),
        (at, 'T') => (&word[..at], Some(1_099_511_627_776.0)),
        (at, 'B' | 's') => (&word[..at], None),
        _ => (word, None),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit() || "-+.".contains(c)) {
        return None;
    }
    // Some locales print a decimal comma.
    let decimal = if digits.contains('.') { "" } else { "." };
    let value: f64 = digits.replace(',', decimal).parse().ok()?;
    let value = Some(value * factor.unwrap_or(1.0)).filter(|v| v.is_finite() && *v >= 0.0);
    Some(Figure { value, has_unit: factor.is_some() })
}

/// Puts a figure where the column of this name belongs; whether there is such a field (sysstat's CHANGES; -k, -m and -s choose
/// units and the short form; sar and sadf have names of their own).
pub(super) fn set(row: &mut IostatRow, column: &str, figure: Figure) -> bool {
    let (field, unit) = match column {
        "r/s" | "tps" => (&mut row.reads, 1.0),
        "w/s" => (&mut row.writes, 1.0),
        "rkB/s" | "kB/s" | "rkB" => (&mut row.read_bytes, 1024.0),
        "rMB/s" | "MB/s" => (&mut row.read_bytes, 1_048_576.0),
        "rsec/s" | "sec/s" | "rd_sec/s" | "rd_sec" => (&mut row.read_bytes, 512.0),
        "wkB/s" | "wkB" => (&mut row.write_bytes, 1024.0),
        "wMB/s" => (&mut row.write_bytes, 1_048_576.0),
        "wsec/s" | "wr_sec/s" | "wr_sec" => (&mut row.write_bytes, 512.0),
        "await" => (&mut row.all_await, 1.0),
        "r_await" => (&mut row.read_await, 1.0),
        "w_await" => (&mut row.write_await, 1.0),
        "avgqu-sz" | "aqu-sz" => (&mut row.queue, 1.0),
        "%util" | "util" | "util-percent" => (&mut row.util, 0.01),
        _ => return false,
    };
    if let Some(value) = figure.value {
        *field = Some(if figure.has_unit { value } else { value * unit });
    }
    true
}
