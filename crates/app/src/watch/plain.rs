//! A reading as lines: a table for people, JSON or CSV for programs.

use super::{Remark, Row, Watch};
use ebbtide_analysis::observe::outlier::Difference;
use ebbtide_analysis::observe::rates::{DiskRates, OpRates};
use ebbtide_model::observe::host::CpuShares;
use ebbtide_model::shown::{one_line, width};
use ebbtide_report::csv_field;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt::Write;

/// Number with about four significant digits in at most seven characters.
pub fn number(value: f64) -> String {
    let mut text = String::new();
    push_number(&mut text, value);
    text
}

fn push_number(text: &mut String, value: f64) {
    // Writing to a string cannot fail.
    let _infallible = match value.abs() {
        // Most figures of most devices, and the longest way through the formatter.
        0.0 => text.write_str("0.00"),
        v if v < 9.995 => write!(text, "{value:.2}"),
        v if v < 99.95 => write!(text, "{value:.1}"),
        v if v < 99_999.5 => write!(text, "{value:.0}"),
        v if v < 9_999_500.0 => write!(text, "{:.0}k", value / 1e3),
        _ => write!(text, "{:.0}M", value / 1e6),
    };
}

/// The same, or a dash for no data.
pub fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), number)
}

/// Columns of the table beside the name, with the unit of throughput in the header.
pub fn columns(watch: &Watch) -> Vec<String> {
    let unit = watch.unit.of().0;
    let op = |o: &str| {
        [
            format!("{o}/s"),
            format!("{o}{unit}"),
            format!("{o}rqm/s"),
            format!("{o}_await"),
            format!("{o}areq"),
        ]
    };
    let others = ["d/s", "f/s", "aqu-sz", "%util"].map(str::to_owned);
    op("r").into_iter().chain(op("w")).chain(others).collect()
}

/// The figures of a device in the order of [`columns`].
pub fn figures(rates: &DiskRates, bytes: f64) -> [Option<f64>; 14] {
    let op = |o: &OpRates| {
        let size = o.request_bytes.map(|b| b / 1024.0);
        [Some(o.per_second), Some(o.bytes_per_second / bytes), Some(o.merged_per_second), o.await_ms, size]
    };
    let ([a, b, c, d, e], [f, g, h, i, j]) = (op(&rates.read), op(&rates.write));
    let discards = rates.discard.map(|d| d.per_second);
    let (queue, util) = (Some(rates.queue), Some(rates.util * 100.0));
    [a, b, c, d, e, f, g, h, i, j, discards, rates.flush_per_second, queue, util]
}

/// A space and a figure at the right of seven characters: in place, since there are a thousand of them per reading.
fn push_cell(text: &mut String, value: Option<f64>) {
    const BLANKS: &str = "        ";
    let start = text.len();
    match value {
        Some(value) => push_number(text, value),
        None => text.push('-'),
    }
    let blanks = BLANKS.len().saturating_sub(text.len() - start).max(1);
    text.insert_str(start, &BLANKS[..blanks]);
}

/// What the processors did, and what was swapped: a line each, as far as it is known.
pub fn host(watch: &Watch) -> Vec<String> {
    let cpu = watch.host.cpu.map(|cpu| {
        let CpuShares { user, nice, system, iowait, steal, idle } = cpu;
        let parts = [
            ("user", user),
            ("nice", nice),
            ("system", system),
            ("iowait", iowait),
            ("steal", steal),
            ("idle", idle),
        ];
        let parts = parts.map(|(name, share)| format!("{name} {:.1}%", share * 100.0));
        format!("cpu   {}", parts.join("  "))
    });
    let (unit, bytes) = watch.unit.of();
    let swap = watch.host.swap.map(|swap| {
        let [read, written] =
            [swap.in_bytes_per_second, swap.out_bytes_per_second].map(|v| number(v / bytes));
        format!("swap  in {read} {unit}  out {written} {unit}")
    });
    cpu.into_iter().chain(swap).collect()
}

/// Over which time the figures are: `since boot, 1 h 22 min ago`; nothing of an interval.
pub fn since_boot(watch: &Watch) -> Option<String> {
    let minutes = watch.span.as_secs() / 60;
    let (days, hours, minutes) = (minutes / (24 * 60), minutes / 60 % 24, minutes % 60);
    let ago = match (days, hours) {
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    };
    watch.since_boot.then(|| format!("means since boot, {ago} ago"))
}

/// The reading as a table. Awaits are in ms, request sizes in KiB. Columns stay in place from one reading to the next.
pub fn table(watch: &Watch) -> String {
    let rows = watch.rows();
    let outliers = watch.outliers();
    let name = |row: &Row<'_>| format!("{}{}", " ".repeat(2 * row.depth), one_line(row.label));
    let most = rows.iter().map(|row| width(&name(row))).max().unwrap_or(0).max("Device".len()) + 1;
    let padded = |name: &str| format!("{name}{}", " ".repeat(most.saturating_sub(width(name))));
    let mut text = String::new();
    for line in since_boot(watch).into_iter().chain(host(watch)) {
        let _ = writeln!(text, "{line}");
    }
    text.push_str(&padded("Device"));
    columns(watch).iter().for_each(|c| text.push_str(&format!(" {c:>7}")));
    text.push('\n');
    for row in &rows {
        let mark = if outliers.iter().any(|r| r.outlier.name == row.entry.name) { "!" } else { "" };
        text.push_str(&padded(&format!("{}{mark}", name(row))));
        match &row.entry.rates {
            Some(rates) => {
                figures(rates, watch.unit.of().1).into_iter().for_each(|f| push_cell(&mut text, f))
            }
            None => text.push_str(" (new)"),
        }
        text.push('\n');
    }
    if let Some(why) = watch.nothing_to_show() {
        let _ = writeln!(text, "({why})");
    }
    for remark in &outliers {
        let _ = writeln!(text, "! {}", sentence(remark));
    }
    text
}

/// What makes a member an outlier, in one line.
pub fn sentence(remark: &Remark<'_>) -> String {
    let Remark { array, seconds, member, outlier } = remark;
    let how = match outlier.difference {
        Difference::Slow => "is slow",
        Difference::Busy => "does most of the work",
    };
    format!("{member} in {array} {how}: over {seconds:.0} s {} (median of its siblings)", outlier.reason())
}

/// The reading as one JSON value: base units, names that say them; `null` for no data.
pub fn to_json(watch: &Watch, unix_seconds: f64) -> Value {
    let devices: Vec<Value> = watch
        .rows()
        .iter()
        .map(|row| {
            let mut value = json!({ "device": row.entry.name, "name": row.label, "depth": row.depth });
            value["rates"] = json!(row.entry.rates);
            value
        })
        .collect();
    let outliers: Vec<Value> = watch
        .outliers()
        .iter()
        .map(|r| json!({ "array": r.array, "seconds": r.seconds, "outlier": r.outlier, "text": sentence(r) }))
        .collect();
    json!({
        "schema": "ebbtide.watch/1",
        "time_unix_seconds": unix_seconds,
        "interval_seconds": watch.span.as_secs_f64(),
        "cpu": watch.host.cpu,
        "swap": watch.host.swap,
        "devices": devices,
        "outliers": outliers,
    })
}

/// Header of the CSV form.
pub const CSV_HEADER: &str = "time_unix_s,interval_s,device,name,r_per_s,r_bytes_per_s,r_merged_per_s,r_await_ms,r_request_bytes,\
w_per_s,w_bytes_per_s,w_merged_per_s,w_await_ms,w_request_bytes,d_per_s,d_bytes_per_s,d_await_ms,f_per_s,f_await_ms,\
queue,util_share,outlier,cpu_user_share,cpu_nice_share,cpu_system_share,cpu_iowait_share,cpu_steal_share,cpu_idle_share,\
swap_in_bytes_per_s,swap_out_bytes_per_s\n";

/// The reading as CSV rows; an empty cell for no data. Devices without rates yet have no row.
pub fn csv(watch: &Watch, unix_seconds: f64) -> String {
    let outliers = watch.outliers();
    let mut text = String::new();
    let cell = |v: Option<f64>| v.map(|v| format!("{v}")).unwrap_or_default();
    for row in watch.rows() {
        let Some(rates) = &row.entry.rates else { continue };
        let mut fields = vec![format!("{unix_seconds:.3}"), format!("{:.6}", watch.span.as_secs_f64())];
        fields.extend([csv_field(&row.entry.name), csv_field(row.label)].map(Cow::into_owned));
        for op in [&rates.read, &rates.write] {
            fields.extend([op.per_second, op.bytes_per_second, op.merged_per_second].map(|v| v.to_string()));
            fields.extend([op.await_ms, op.request_bytes].map(cell));
        }
        fields.extend(
            [rates.discard.map(|d| d.per_second), rates.discard.map(|d| d.bytes_per_second)].map(cell),
        );
        fields.push(cell(rates.discard.and_then(|d| d.await_ms)));
        fields.extend([rates.flush_per_second, rates.flush_await_ms].map(cell));
        fields.extend([rates.queue, rates.util].map(|v| v.to_string()));
        let outlier = outliers.iter().find(|r| r.outlier.name == row.entry.name);
        fields.push(outlier.map(|r| csv_field(&r.outlier.reason()).into_owned()).unwrap_or_default());
        let (cpu, swap) = (watch.host.cpu, watch.host.swap);
        let parts = cpu.map(|c| [c.user, c.nice, c.system, c.iowait, c.steal, c.idle]);
        fields.extend((0..6).map(|part| cell(parts.map(|parts| parts[part]))));
        fields.extend([swap.map(|s| s.in_bytes_per_second), swap.map(|s| s.out_bytes_per_second)].map(cell));
        let _ = writeln!(text, "{}", fields.join(","));
    }
    text
}
