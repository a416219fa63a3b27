//! The comparison as CSV (RFC 4180): one row per comparison.

use super::model::{Beside, BesideRow};
use crate::csv::row;

/// Names of the columns.
const HEADER: &str = "against,session,design,workload,other_design,other_workload,metric,unit,trials_against,trials,median_against,median,\
                      ratio,ci_low,ci_high,ci_level,p,conclusion,gate,detectable,paired";

/// One record per comparison with a header; what is not known is empty.
pub fn csv(beside: &Beside) -> String {
    let mut text = format!("{HEADER}\r\n");
    for one in &beside.rows {
        row(&mut text, &fields(beside, one));
    }
    text
}

fn fields(beside: &Beside, one: &BesideRow) -> Vec<String> {
    let answered = &one.answered;
    let number = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
    let median = |side: usize| number(one.estimates[side].map(|e| e.median));
    let conclusion = serde_json::to_value(answered.conclusion).ok();
    let gate = serde_json::to_value(answered.gate).ok();
    let word = |value: Option<serde_json::Value>| {
        value.and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    };
    vec![
        beside.id(0).to_owned(),
        beside.id(one.side).to_owned(),
        one.designs[0].clone(),
        one.workloads[0].clone(),
        one.designs[1].clone(),
        one.workloads[1].clone(),
        one.metric.name().to_owned(),
        one.metric.unit().to_owned(),
        one.values[0].len().to_string(),
        one.values[1].len().to_string(),
        median(0),
        median(1),
        number(answered.ratio),
        number(answered.interval.map(|i| i.0)),
        number(answered.interval.map(|i| i.1)),
        beside.bounds.level.to_string(),
        answered.p.to_string(),
        word(conclusion),
        word(gate),
        number(answered.detectable),
        one.paired.to_string(),
    ]
}
