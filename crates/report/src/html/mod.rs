//! The report as one self-contained HTML file: no request leaves it, it works offline, in light and dark, on a desk
//! and on a phone.
//!
//! Sections are functions from the report to markup, listed in [`SECTIONS`]; to add one, write the function and add a
//! line. Sessions beside one another are a page of the same kind with sections of their own. Text from users reaches the page only through maud, which escapes its markup; controls, which HTML has no use
//! for or which would reorder the page, are written out last.

mod beside;
mod chart;
mod designs;
mod hosts;
mod intervals;
mod latency;
mod members;
mod navigation;
mod order;
mod over_time;
mod race;
mod seen;
pub mod site;
mod summary;
mod tables;
mod trust;
mod verdicts;

pub use beside::html as beside_html;
pub(super) use over_time::MOST_TRIALS;

use super::brief::MOST_TRIALS as MOST_DRAWN;
use super::model::Report;
use super::words;
use ebbtide_model::civil::Civil;
use ebbtide_model::shown::escape;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use navigation::PageContext;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Designs that the sections of a page of many tell of, beside the control: the table of all and the series are in it.
const BEST: usize = 5;

/// Nothing may be loaded and nothing sent: the browser enforces it.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// One section of the page of a model.
struct Section<M> {
    id: &'static str,
    title: &'static str,
    /// The title in the navigation, where that is too long to stand beside the others.
    short: Option<&'static str>,
    /// Whether it tells of every design where there are many.
    whole: bool,
    render: fn(&M) -> Option<Markup>,
}

impl<M> Section<M> {
    const fn new(id: &'static str, title: &'static str, render: fn(&M) -> Option<Markup>) -> Self {
        Section { id, title, short: None, whole: false, render }
    }

    const fn whole(self) -> Self {
        Section { whole: true, ..self }
    }

    const fn short(self, short: &'static str) -> Self {
        Section { short: Some(short), ..self }
    }
}

/// The page from top to bottom; a section without anything to show is left out.
const SECTIONS: &[Section<Report>] = &[
    Section::new("race", "The race", race::lanes).short("Race"),
    Section::new("factors", "What mattered", race::factors),
    Section::new("designs", "Designs", designs::section).whole(),
    Section::new("summary", "Result", summary::section).whole(),
    Section::new("limits", "What limits them", verdicts::section).short("Limits"),
    Section::new("trust", "How far to trust it", trust::section).short("Trust"),
    Section::new("intervals", "Intervals side by side", intervals::section).short("Intervals"),
    Section::new("time", "Throughput over time", over_time::section).short("Over time"),
    Section::new("latency", "Latency", latency::section),
    Section::new("hosts", "Hosts", hosts::section),
    Section::new("members", "Members", members::section),
    Section::new("seen", "Surroundings", seen::section),
    Section::new("order", "Trials in order", order::section).short("Trials"),
    Section::new("environment", "Environment", tables::environment).whole(),
    Section::new("experiment", "Experiment", tables::experiment).whole(),
    Section::new("figures", "Every figure", tables::figures),
];

/// The report as an HTML document.
pub fn html(report: &Report) -> String {
    of_report(report, None)
}

/// The report as a file, or as a page of a site.
fn of_report(report: &Report, site: Option<PageContext>) -> String {
    let footer = html! {
        "Every figure is recomputed from the samples that are stored with session " code { (report.session.id) }
        " · ebb " (report.session.version)
    };
    let brief = report.is_large().then(|| report.in_brief(BEST));
    let data = report.is_large().then(|| over_time::data(report));
    let header = header(report);
    let frame = Frame { title: &report.experiment, header: &header, footer: &footer, site };
    page((report, brief.as_ref(), data), SECTIONS, &frame)
}

/// What is around the sections of a page.
struct Frame<'a> {
    title: &'a str,
    header: &'a Markup,
    footer: &'a Markup,
    /// Where it stands among the pages of a server; nothing for a file.
    site: Option<PageContext>,
}

/// The page of a model: its header, its sections with a way to each, its footer. Where there is a brief form of it, the sections
/// that are not whole tell of that, and the data that the page draws when asked are in it.
fn page<M>(
    (model, brief, data): (&M, Option<&M>, Option<String>),
    sections: &[Section<M>],
    Frame { title, header, footer, site }: &Frame<'_>,
) -> String {
    let of = |section: &Section<M>| brief.filter(|_| !section.whole).unwrap_or(model);
    let sections: Vec<(&Section<M>, Markup)> =
        sections.iter().filter_map(|section| Some((section, (section.render)(of(section))?))).collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                // A server says it itself, and by hashes.
                @if site.is_none() { meta http-equiv="Content-Security-Policy" content=(POLICY); }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                title { (title) " · ebbtide" }
                style { (PreEscaped(STYLE)) }
            }
            body data-refresh=[site.as_ref().and_then(|site| site.refresh)] {
                @if let Some(site) = site { (site.ways()) }
                (header)
                @if sections.len() > 1 || site.is_none() {
                    nav aria-label="Sections" {
                        @for (section, _) in &sections { a href={ "#" (section.id) } { (section.short.unwrap_or(section.title)) } }
                    }
                }
                main {
                    @for (section, markup) in &sections {
                        section id=(section.id) aria-labelledby={ "h-" (section.id) } {
                            h2 id={ "h-" (section.id) } { (section.title) }
                            @if brief.is_some() && !section.whole {
                                p.sub { "Of the " (BEST) " best designs and the control, with at most " (MOST_DRAWN) " trials of each; the table of results has all designs." }
                            }
                            (markup)
                        }
                    }
                }
                footer { (footer) }
                div #tip role="status" hidden {}
                @if let Some(data) = &data {
                    script #series type="application/json" { (PreEscaped(data)) }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string();
    escape(&page).into_owned()
}

/// The line above the answer, with the switch between light and dark.
fn bar(what: &Markup) -> Markup {
    html! {
        div.bar {
            p.what { (what) }
            button #theme type="button" title="Switch between light and dark" { "Light / dark" }
        }
    }
}

/// The answer: its first sentence is the page's title.
fn answer(sentences: &[String]) -> Markup {
    html! {
        @for (index, sentence) in sentences.iter().enumerate() {
            @if index == 0 { h1 #answer { (sentence) } } @else { p.answer { (sentence) } }
        }
    }
}

/// Title, the answer, and what kind of session it was.
fn header(report: &Report) -> Markup {
    let session = &report.session;
    let failed = report.trials.iter().filter(|t| t.outcome.is_err()).count();
    html! {
        header {
            (bar(&html! { span.name { (report.experiment) } " · " (Civil::from_unix(session.started_unix)) }))
            (answer(&report.answer))
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
    let rank = design + usize::from(design < report.control);
    if design == report.control { class(0) } else { class(rank) }
}

/// Class of the colour of the thing of this rank; 0 is grey.
fn class(rank: usize) -> String {
    rank.checked_sub(1).map_or_else(|| "d0".to_owned(), |rank| format!("d{} t{}", rank % 7 + 1, rank / 7 % 3))
}

/// A design's name with its colour.
fn key(report: &Report, design: usize) -> Markup {
    colored(&design_class(report, design), report.design_name(design))
}

/// A name with the colour of a class.
fn colored(class: &str, name: &str) -> Markup {
    html! { span class={ "key " (class) } { i {} span { (name) } } }
}

/// A bar for a share from 0 to 1, beside its figure.
fn meter(share: f64) -> Markup {
    html! { svg.meter aria-hidden="true" width="64" height="9" { rect width=(chart::percent(share.clamp(0.0, 1.0))) height="9" {} } }
}

/// A table in a box that scrolls sideways by itself, so that the page never does.
fn scrolling(label: &str, table: Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-label=(label) { (table) } }
}
