//! The steps of a profile as one table.

use super::LEAST_WIDTH;
use super::table::{Cell, Table};
use super::wrap::paragraph;
use crate::words;
use ebbtide_analysis::Verdict;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::shown::{Paint, Styled, one_line};
use ebbtide_model::units::{format_iops, format_latency, format_throughput};

/// A profile's step with its result, as the text shows it.
#[derive(Debug, Clone, Copy)]
pub struct ProfileStep<'a> {
    /// Name of the step.
    pub name: &'a str,
    /// Samples of its job.
    pub samples: &'a TrialSamples,
    /// What limits it, the best supported cause first; nothing where it was not judged.
    pub verdicts: &'a [Verdict],
}

/// The steps of a profile, each by name, what limits them, and what they show together.
pub fn steps(
    title: &str,
    steps: &[ProfileStep<'_>],
    remarks: &[String],
    columns: usize,
    color: bool,
) -> Styled {
    let columns = columns.max(LEAST_WIDTH);
    let header = ["step", "", "IOPS", "throughput", "p50", "p99", "max", "CPU", "limited by"]
        .map(str::to_owned)
        .to_vec();
    let mut rows = Vec::new();
    for ProfileStep { name, samples, verdicts } in steps {
        let seconds = samples.elapsed.as_secs_f64();
        let mut name = *name;
        let limit = verdicts.first().map_or("", |verdict| verdict.limited_by());
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
                Cell::plain(if name.is_empty() { "" } else { limit }),
            ]);
            // Name, CPU and limit belong to the step, not to its second line.
            name = "";
        }
    }
    let limits = limits(steps);
    let mut table = Table { header, rows };
    if limits.is_empty() {
        table.header.pop();
        table.rows.iter_mut().for_each(|row| row.truncate(table.header.len()));
    }
    let mut lines = vec![Paint::Strong.apply(&one_line(title), color), Styled::default()];
    lines.extend(table.lines(columns, color));
    if !limits.is_empty() || !remarks.is_empty() {
        lines.push(Styled::default());
    }
    for remark in limits.iter().chain(remarks) {
        let columns = columns.min(super::WIDEST_PROSE);
        lines.extend(paragraph(remark, "  ", 2, columns, (Paint::Plain, color)));
    }
    Styled::lines(&lines)
}

/// Of each cause the step of which it explains most, with its sentence, and in how many others it comes first.
fn limits(steps: &[ProfileStep<'_>]) -> Vec<String> {
    let mut found: Vec<(&str, &Verdict, usize)> = Vec::new();
    for step in steps {
        let Some(verdict) = step.verdicts.first() else { continue };
        match found.iter_mut().find(|(_, known, _)| known.kind == verdict.kind) {
            Some(known) if verdict.explains > known.1.explains => *known = (step.name, verdict, known.2 + 1),
            Some(known) => known.2 += 1,
            None => found.push((step.name, verdict, 0)),
        }
    }
    let told = found.into_iter().map(|(name, verdict, more)| {
        let others = match more {
            0 => String::new(),
            more => format!(" (and {})", words::count(more as u64, "other step")),
        };
        format!("limit of {name}{others}: {}: {}", verdict.limited_by(), verdict.sentence)
    });
    told.collect()
}
