//! Where and how it was measured, the experiment's text, and every figure.

use super::scrolling;
use super::summary::{conclusion_class, conclusion_words, interval};
use crate::model::Report;
use crate::words;
use ebbtide_model::civil::Civil;
use ebbtide_model::units::{Bytes, format_iops};
use maud::{Markup, html};

/// Names and values of the session and its host.
fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let session = &report.session;
    let host = &session.host;
    let gib = host.memory_bytes as f64 / Bytes::GIB as f64;
    let took = session.ended_unix.map(|end| (end - session.started_unix).as_secs_f64());
    let all = [
        ("session", Some(session.id.clone())),
        ("experiment", Some(report.experiment.clone())),
        ("started", Some(Civil::from_unix(session.started_unix).to_string())),
        ("took", took.map(words::duration)),
        ("ended", Some(report.ending())),
        ("backend", Some(words::backend(session.backend))),
        ("seed", Some(session.seed.to_string())),
        ("ebb", Some(session.version.clone())),
        ("host", Some(host.hostname.clone())),
        ("machine", host.machine.clone()),
        ("kernel", Some(host.kernel.clone())),
        ("CPU", Some(format!("{}, {}", host.cpu_model, words::count(host.cores.into(), "core")))),
        ("memory", Some(format!("{gib:.1} GiB"))),
        (
            "engine alone",
            session
                .engine_ceiling_iops
                .map(|iops| format!("{} IOPS with nothing behind it", format_iops(iops))),
        ),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value.filter(|v| !v.is_empty())?))).collect()
}

pub(super) fn environment(report: &Report) -> Option<Markup> {
    Some(html! {
        dl.facts { @for (name, value) in facts(report) { div { dt { (name) } dd { (value) } } } }
        @if !report.session.inventory.notes.is_empty() {
            ul { @for note in &report.session.inventory.notes { li { (note) } } }
        }
        h3 { "Volumes" }
        (scrolling("Volumes", html! { table {
            thead { tr { th { "volume" } th { "what it is" } th { "shaped to" } } }
            tbody { @for volume in &report.volumes { tr {
                th scope="row" { (volume.name) }
                td { (volume.facts.join(", ")) }
                td { (volume.shape.as_deref().unwrap_or("full speed")) }
            } } }
        } }))
    })
}

pub(super) fn experiment(report: &Report) -> Option<Markup> {
    Some(html! {
        (scrolling("Designs of the experiment", html! { table {
            thead { tr { th { "design" } th { "layout" } th { "members" } } }
            tbody { @for (index, design) in report.designs.iter().enumerate() { tr {
                th scope="row" { (design.name) @if index == report.control { span.faint { " (control)" } } }
                td { (design.layout) }
                td { (design.members.join(", ")) }
            } } }
        } }))
        (scrolling("Workloads", html! { table {
            thead { tr { th { "workload" } th { "what it does" } th { "judged by" } } }
            tbody { @for workload in &report.workloads { tr {
                th scope="row" { (workload.name) }
                td { (workload.summary) }
                td { (workload.headline.in_words()) }
            } } }
        } }))
        p {
            "Asked for: " (words::level(report.ci_level)) " intervals of the median within ±"
            (words::percent(report.precision)) "."
        }
        @if !report.experiment_text.trim().is_empty() {
            details { summary { "The experiment file" } pre tabindex="0" { (report.experiment_text) } }
        }
    })
}

pub(super) fn figures(report: &Report) -> Option<Markup> {
    if report.results.is_empty() {
        return None;
    }
    Some(html! {
        details {
            summary { "Medians and intervals of every metric" }
            (scrolling("Table of every figure", html! { table {
                thead { tr {
                    th { "workload" } th { "design" } th { "metric" } th.n { "trials" } th.n { "median" }
                    th.n { (words::level(report.ci_level)) " interval" } th.n { "ratio" } th.n { "interval of the ratio" } th { "conclusion" }
                } }
                tbody { @for view in &report.results { @for (metric, estimate) in &view.result.metrics {
                    @let comparison = report.comparison(view, *metric);
                    tr {
                        td { (view.result.workload) }
                        th scope="row" { (view.result.design) }
                        td { (metric.in_words()) }
                        td.n { (estimate.trials) }
                        td.n { (words::value(*metric, estimate.median)) }
                        td.n { (interval(*metric, estimate)) }
                        td.n { (words::or_dash(comparison, |c| words::ratio(c.ratio))) }
                        td.n { (words::or_dash(comparison.and_then(|c| c.interval), words::ratio_range)) }
                        td { @match comparison {
                            Some(c) => span class=(conclusion_class(c.conclusion)) { (conclusion_words(c.conclusion)) },
                            None => "–",
                        } }
                    }
                } } }
            } }))
        }
        @if report.stored { p.sub { "The same figures for programs: " code { "ebb show " (report.session.id) " --json" } ", or " code { "--format csv" } " for every trial." } }
    })
}
