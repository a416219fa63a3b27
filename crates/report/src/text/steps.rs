//! The steps of a profile as one table.

use super::LEAST_WIDTH;
use super::table::{Cell, Table};
use super::wrap::wrap;
use crate::words;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::shown::{Paint, Styled, one_line};
use ebbtide_model::units::{format_iops, format_latency, format_throughput};

/// The steps of a profile, each by name, and what they show together.
pub fn steps(
    title: &str,
    steps: &[(&str, &TrialSamples)],
    remarks: &[String],
    columns: usize,
    color: bool,
) -> Styled {
    let columns = columns.max(LEAST_WIDTH);
    let header = ["step", "", "IOPS", "throughput", "p50", "p99", "max", "CPU"].map(str::to_owned).to_vec();
    let mut rows = Vec::new();
    for (name, samples) in steps {
        let seconds = samples.elapsed.as_secs_f64();
        let mut name = *name;
        for (kind, op) in [("read", &samples.array.read), ("write", &samples.array.write)] {
            if op.count.ops == 0 || seconds <= 0.0 {
                continue;
            }
            let latency =
                |p| op.latency.percentile(p).map_or_else(String::new, |ns| format_latency(ns as f64));
            let cpu = (samples.cpu.load_user.0 + samples.cpu.load_system.0) as f64 / 1e9 / seconds;
            rows.push(vec![
                Cell::plain(name),
                Cell::plain(kind),
                Cell::new(&format_iops(op.count.ops as f64 / seconds), Paint::Strong),
                Cell::new(&format_throughput(op.count.bytes as f64 / seconds), Paint::Strong),
                Cell::plain(&latency(50.0)),
                Cell::plain(&latency(99.0)),
                Cell::plain(&latency(100.0)),
                Cell::plain(&if name.is_empty() { String::new() } else { words::percent(cpu) }),
            ]);
            // Name and CPU belong to the step, not to its second line.
            name = "";
        }
    }
    let mut lines = vec![Paint::Strong.apply(&one_line(title), color), Styled::default()];
    lines.extend(Table { header, rows }.lines(columns, color));
    if !remarks.is_empty() {
        lines.push(Styled::default());
    }
    for remark in remarks {
        lines.extend(
            wrap(&one_line(remark), columns.min(super::WIDEST_PROSE) - 2, 2)
                .iter()
                .map(|line| format!("  {line}").into()),
        );
    }
    Styled::lines(&lines)
}
