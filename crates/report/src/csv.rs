//! Every trial as CSV (RFC 4180): one row per trial and metric, for spreadsheets, R and pandas.

use super::model::{Report, TrialView};
use ebbtide_model::metric::Metric;
use std::borrow::Cow;

/// Names of the columns.
const HEADER: &str =
    "session,trial,round,design,workload,role,outcome,elapsed_s,metric,unit,value,limited_by,error";

/// One row per trial and metric with a header; a failed trial has one row for each metric, without values.
pub fn csv(report: &Report) -> String {
    let mut text = format!("{HEADER}\r\n");
    for trial in &report.trials {
        for metric in Metric::ALL {
            trial_row(&mut text, report, trial, metric);
        }
    }
    text
}

fn trial_row(text: &mut String, report: &Report, trial: &TrialView, metric: Metric) {
    let limited_by = report
        .results
        .iter()
        .find(|view| view.design == trial.design && view.workload == trial.workload)
        .and_then(|view| view.result.verdicts.first())
        .map_or("", |verdict| verdict.kind.name());
    let (outcome, elapsed, value, error) = match &trial.outcome {
        Ok(figures) => (
            "ok",
            figures.elapsed_s.to_string(),
            figures.value(metric).map(|v| v.to_string()).unwrap_or_default(),
            String::new(),
        ),
        Err(why) => ("failed", String::new(), String::new(), why.clone()),
    };
    row(
        text,
        &[
            report.session.id.clone(),
            trial.index.to_string(),
            trial.round.to_string(),
            report.design_name(trial.design).to_owned(),
            report.workload_name(trial.workload).to_owned(),
            trial.role_key().to_owned(),
            outcome.to_owned(),
            elapsed,
            metric.name().to_owned(),
            metric.unit().to_owned(),
            value,
            limited_by.to_owned(),
            error,
        ],
    );
}

/// Appends one record; lines end in CR LF.
pub(super) fn row(text: &mut String, fields: &[String]) {
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        text.push_str(&csv_field(field));
    }
    text.push_str("\r\n");
}

/// `field` as RFC 4180 has it: in quotes when it holds what would end it.
pub fn csv_field(field: &str) -> Cow<'_, str> {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\"")).into()
    } else {
        field.into()
    }
}
