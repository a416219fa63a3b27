//! Why a result has its verdicts: the table of resources, the figures of each verdict, and what was looked for in vain.

use super::words;
use ebbtide_analysis::resources::{self, Row};
use ebbtide_analysis::{DesignResult, Evidence, Grounds, RuledOut, Verdict, VerdictKind};
use ebbtide_model::metric::Metric;
use ebbtide_model::shown::aligned;
use ebbtide_model::units::format_count;
use std::fmt::Write;

/// The columns of the table of resources.
pub(super) const HEADER: [&str; 5] =
    ["resource", "utilisation", "queue or waiting", "gain when changed", "verdict"];

/// The cells of a row.
pub(super) fn cells(row: &Row) -> [String; 5] {
    let figure = |figure: &Evidence| {
        let against = figure
            .reference
            .filter(|_| figure.asked.is_none())
            .map_or(String::new(), |most| format!(" of {}", figure.unit.shown(most)));
        format!("{}{against} {}", figure.unit.shown(figure.value), figure.what)
    };
    let known = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let ranked = |(rank, kind): &(usize, VerdictKind)| format!("{rank}. {}", kind.name());
    [
        row.resource.name().to_owned(),
        known(row.utilisation.map(words::percent)),
        known(
            row.waiting
                .as_ref()
                .filter(|shown| shown.asked.is_none() || row.utilisation.is_none())
                .map(&figure),
        ),
        row.gain.as_ref().map_or_else(|| "not tried".to_owned(), figure),
        row.verdicts.iter().map(ranked).collect::<Vec<_>>().join(", "),
    ]
}

/// A figure of a result in words; where it is above what lasts, with that beside it.
pub(super) fn figure(result: &DesignResult, metric: Metric, measured: f64) -> String {
    let lasts = result.lasting.as_ref().and_then(|lasting| lasting.of(metric, measured));
    let lasts = lasts.map_or(String::new(), |lasts| format!(" ({} lasts)", words::value(metric, lasts)));
    words::value(metric, measured) + &lasts
}

/// Each result with its table, every figure and what it was compared with, and what was looked for in vain.
pub fn why(results: &[&DesignResult]) -> String {
    let mut text = String::new();
    for result in results {
        let trials = format_count(result.trials.into(), "trial");
        let _ = writeln!(text, "{} under {} ({trials})", result.design, result.workload);
        for (metric, estimate) in &result.metrics {
            let shown = |value| words::value(*metric, value);
            let interval =
                estimate.interval.map_or("no interval: too few trials".to_owned(), |(low, high)| {
                    format!("{} to {}", shown(low), shown(high))
                });
            let _ = writeln!(text, "  {:<12} {} ({interval})", metric.name(), shown(estimate.median));
        }
        if let Some(lasting) = &result.lasting {
            let _ = writeln!(text, "  {}", lasting.in_words());
        }
        if !result.resources.is_empty() {
            let mut rows = vec![HEADER.map(str::to_owned)];
            rows.extend(result.resources.iter().map(cells));
            let _ = write!(text, "\n{}", aligned(&rows, 2, &[1]));
            if let Some(next) = resources::next(&result.resources) {
                let _ = writeln!(text, "\n  {next}");
            }
        }
        for (at, verdict) in result.verdicts.iter().enumerate() {
            of_verdict(at + 1, verdict, &mut text);
        }
        for grounds in Grounds::ALL {
            let of_it = result.ruled_out.iter().filter(|absent| absent.grounds == grounds);
            for (at, RuledOut { kind, why, evidence, .. }) in of_it.enumerate() {
                if at == 0 {
                    let _ = writeln!(text, "\n  {}:", grounds.heading());
                }
                let _ = writeln!(text, "   {}: {why}", kind.name());
                figures(evidence, &mut text);
            }
        }
        text.push('\n');
    }
    text
}

fn of_verdict(rank: usize, verdict: &Verdict, text: &mut String) {
    let _ = writeln!(
        text,
        "\n  {rank}. {} ({}confidence {:.0}%, explains {:.0}% of the gap to the next limit)\n     {}",
        verdict.limited_by(),
        verdict.how_known().map_or(String::new(), |how| format!("{how}, ")),
        verdict.confidence * 100.0,
        verdict.explains * 100.0,
        verdict.sentence
    );
    figures(&verdict.evidence, text);
}

fn figures(evidence: &[Evidence], text: &mut String) {
    for figure in evidence {
        let value = figure.unit.shown(figure.value);
        let compared = figure.compared().map_or(String::new(), |with| format!(" {with}"));
        let _ = writeln!(text, "     - {}: {value}{compared}", figure.what);
    }
}
