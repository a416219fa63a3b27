//! The sessions of the store, a page of them at a time, and the choice of those to compare.

use super::{PageContext, SESSIONS, address, of_session, simple};
use crate::html::{Section, answer, bar, scrolling};
use crate::words;
use ebbtide_model::civil::Civil;
use ebbtide_model::units::UnixTime;
use maud::{Markup, html};

/// A session in the list.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Id of the session.
    pub id: String,
    /// When the session began.
    pub started: UnixTime,
    /// Name of its experiment.
    pub experiment: String,
    /// Backend, as its lower-case name.
    pub backend: String,
    /// Its trials, in words.
    pub trials: String,
    /// How it ended, in words.
    pub ended: String,
    /// The answer in one line, as it read when it ended.
    pub headline: Option<String>,
}

/// A page of the list.
#[derive(Debug, Clone)]
pub struct SessionsPage {
    /// What is shown, the newest first.
    pub sessions: Vec<Listed>,
    /// How many there are in all that were asked for.
    pub all: u64,
    /// What is in the names of their experiments.
    pub asked: Option<String>,
    /// Whether newer ones are left out.
    pub newer: bool,
    /// Whether older ones are left out.
    pub older: bool,
}

pub(super) fn html(shown: &SessionsPage) -> String {
    let named = shown
        .asked
        .as_ref()
        .map_or(String::new(), |asked| format!(" of experiments with “{asked}” in their name"));
    let title = match shown.all {
        0 if shown.asked.is_none() => {
            "Nothing is stored yet: `ebb run FILE` or `ebb import FILE` makes a session".to_owned()
        }
        all => format!("{}{named}", words::count(all, "session")),
    };
    let header = html! { header { (bar(&html! { span.name { "Sessions" } })) (answer(&[title])) } };
    simple(
        shown,
        &[Section::new("sessions", "The newest first", section)],
        "Sessions",
        &header,
        PageContext::at(SESSIONS),
    )
}

fn section(shown: &SessionsPage) -> Option<Markup> {
    let asked = shown.asked.as_deref();
    Some(html! {
        form.ask action=(SESSIONS) method="get" role="search" {
            label for="asked" { "Name of the experiment" }
            input #asked type="search" name="experiment" value=(asked.unwrap_or_default());
            button { "Find" }
        }
        @if !shown.sessions.is_empty() {
            form action="/compare" method="get" {
                input type="hidden" name="order" value="oldest-first";
                (scrolling("Sessions", table(shown)))
                p.sub { "Compared with the oldest of those that are chosen." }
                button { "Compare the chosen ones" }
            }
        }
        (pages(shown))
    })
}

fn table(shown: &SessionsPage) -> Markup {
    html! { table.stack {
        thead { tr { th { "compare" } th { "session" } th { "started" } th { "experiment" } th { "on" } th { "trials" } th { "ended" } th { "answer" } } }
        tbody { @for session in &shown.sessions { tr {
            td data-l="compare" { input type="checkbox" name="session" value=(session.id) aria-label={ "compare " (session.id) }; }
            th scope="row" { a href=(of_session(&session.id)) { (session.id) } }
            td data-l="started" { (Civil::from_unix(session.started)) }
            td.long data-l="experiment" { (session.experiment) }
            td data-l="on" { (session.backend) }
            td data-l="trials" { (session.trials) }
            td data-l="ended" { (session.ended) }
            td.long data-l="answer" { (session.headline.as_deref().unwrap_or("–")) }
        } } }
    } }
}

fn pages(shown: &SessionsPage) -> Markup {
    let with = |more: Option<(&str, &str)>| {
        let asked = shown.asked.as_deref().map(|asked| ("experiment", asked));
        address(SESSIONS, &asked.into_iter().chain(more).collect::<Vec<_>>())
    };
    let last = shown.sessions.last().filter(|_| shown.older);
    html! { p.pages {
        @if shown.newer { a href=(with(None)) { "The newest" } }
        @if let Some(last) = last { a href=(with(Some(("before", &last.id)))) rel="next" { "Older ones" } }
    } }
}
