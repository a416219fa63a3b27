//! Every trial as CSV (RFC 4180): one row per trial and metric, for spreadsheets, R and pandas.

use super::model::{Report, TrialView};
use ebbtide_model::metric::Metric;
use std::borrow::Cow;

/// Names of the columns.
const HEADER: &str =
    "session,trial,round,design,workload,role,outcome,elapsed_s,metric,unit,value,limited_by,error";

/// The column that sessions on several hosts have beside.
const HOST: &str = ",host";

/// One row per trial and metric with a header; a failed trial has one row for each metric, without values. On several hosts
/// each has rows of its own, of metrics of their own: who adds up a metric of trials adds nothing twice.
pub fn csv(report: &Report) -> String {
    let on_hosts = !report.session.hosts.is_empty();
    let mut text = format!("{HEADER}{}\r\n", if on_hosts { HOST } else { "" });
    for trial in &report.trials {
        for metric in report.metrics_of(trial.workload) {
            let mut fields = trial_row(report, trial, metric);
            fields.extend(on_hosts.then(String::new));
            row(&mut text, &fields);
        }
        host_rows(&mut text, report, trial);
    }
    text
}

/// What each host did in a trial, a row for each metric.
fn host_rows(text: &mut String, report: &Report, trial: &TrialView) {
    let hosts = trial.outcome.as_ref().ok().and_then(|figures| figures.hosts.as_ref());
    for host in hosts.iter().flat_map(|hosts| &hosts.hosts) {
        let figures = [
            (Metric::Throughput, Some(host.throughput)),
            (Metric::Iops, Some(host.iops)),
            (Metric::LatP50, host.lat_p50),
            (Metric::LatP99, host.lat_p99),
        ];
        for (metric, value) in figures.into_iter().filter(|_| host.jobs > 0) {
            let mut fields = trial_row(report, trial, metric);
            fields[METRIC] = format!("host_{}", metric.name());
            fields[VALUE] = value.map(|value| value.to_string()).unwrap_or_default();
            fields.push(host.name.clone());
            row(text, &fields);
        }
    }
}

/// Places of columns.
const METRIC: usize = 8;
const VALUE: usize = 10;

fn trial_row(report: &Report, trial: &TrialView, metric: Metric) -> Vec<String> {
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
    vec![
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
    ]
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
