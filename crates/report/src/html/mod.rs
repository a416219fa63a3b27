//! The report as one self-contained HTML file: no request leaves it, it works offline, in light and dark, on a desk
//! and on a phone.
//!
//! Sections are functions from the report to markup, listed in [`SECTIONS`]; to add one, write the function and add a
//! line. Text from users reaches the page only through maud, which escapes its markup; controls, which HTML has no use
//! for or which would reorder the page, are written out last.

mod chart;
mod intervals;
mod latency;
mod members;
mod order;
mod over_time;
mod seen;
mod summary;
mod tables;
mod trust;

use super::model::Report;
use super::words;
use ebbtide_model::civil::Civil;
use ebbtide_model::shown::escape;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Nothing may be loaded and nothing sent: the browser enforces it.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// One section of the page.
struct Section {
    id: &'static str,
    title: &'static str,
    /// The title in the navigation, where that is too long to stand beside the others.
    short: Option<&'static str>,
    render: fn(&Report) -> Option<Markup>,
}

/// The page from top to bottom; a section without anything to show is left out.
const SECTIONS: &[Section] = &[
    Section { id: "summary", title: "Result", short: None, render: summary::section },
    Section { id: "limits", title: "What limits them", short: Some("Limits"), render: trust::limits },
    Section { id: "trust", title: "How far to trust it", short: Some("Trust"), render: trust::section },
    Section {
        id: "intervals",
        title: "Intervals side by side",
        short: Some("Intervals"),
        render: intervals::section,
    },
    Section {
        id: "time",
        title: "Throughput over time",
        short: Some("Over time"),
        render: over_time::section,
    },
    Section { id: "latency", title: "Latency", short: None, render: latency::section },
    Section { id: "members", title: "Members", short: None, render: members::section },
    Section { id: "seen", title: "Surroundings", short: None, render: seen::section },
    Section { id: "order", title: "Trials in order", short: Some("Trials"), render: order::section },
    Section { id: "environment", title: "Environment", short: None, render: tables::environment },
    Section { id: "experiment", title: "Experiment", short: None, render: tables::experiment },
    Section { id: "figures", title: "Every figure", short: None, render: tables::figures },
];

/// The report as an HTML document.
pub fn html(report: &Report) -> String {
    let sections: Vec<(&Section, Markup)> =
        SECTIONS.iter().filter_map(|section| Some((section, (section.render)(report)?))).collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { (report.experiment) " · ebbtide" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (header(report))
                nav aria-label="Sections" {
                    @for (section, _) in &sections { a href={ "#" (section.id) } { (section.short.unwrap_or(section.title)) } }
                }
                main {
                    @for (section, markup) in &sections {
                        section id=(section.id) aria-labelledby={ "h-" (section.id) } {
                            h2 id={ "h-" (section.id) } { (section.title) }
                            (markup)
                        }
                    }
                }
                footer {
                    "Every figure is recomputed from the samples that are stored with session " code { (report.session.id) }
                    " · ebb " (report.session.version)
                }
                div #tip role="status" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string();
    escape(&page).into_owned()
}

/// Title, the answer, and what kind of session it was.
fn header(report: &Report) -> Markup {
    let session = &report.session;
    let failed = report.trials.iter().filter(|t| t.outcome.is_err()).count();
    html! {
        header {
            div.bar {
                p.what { span.name { (report.experiment) } " · " (Civil::from_unix(session.started_unix)) }
                button #theme type="button" title="Switch between light and dark" { "Light / dark" }
            }
            @for (index, sentence) in report.answer.iter().enumerate() {
                @if index == 0 { h1 #answer { (sentence) } } @else { p.answer { (sentence) } }
            }
            @if let Some(description) = &report.description { p.description { (description) } }
            ul.chips {
                li { (words::count(report.rounds.into(), "round")) ", " (words::count(report.trials.len() as u64, "trial")) }
                @if failed > 0 { li.bad { (words::count(failed as u64, "trial")) " failed" } }
                li { (words::level(report.ci_level)) " intervals" }
                li { "seed " (session.seed) }
                li { (report.ending()) }
            }
        }
    }
}

/// Class that gives a design its colour; the control is always the grey one.
fn design_class(report: &Report, design: usize) -> String {
    if design == report.control {
        return "d0".to_owned();
    }
    let rank = design - usize::from(design > report.control);
    format!("d{} t{}", rank % 7 + 1, rank / 7 % 3)
}

/// A design's name with its colour.
fn key(report: &Report, design: usize) -> Markup {
    html! {
        span class={ "key " (design_class(report, design)) } { i {} span { (report.design_name(design)) } }
    }
}

/// A table in a box that scrolls sideways by itself, so that the page never does.
fn scrolling(label: &str, table: Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (table) } }
}
