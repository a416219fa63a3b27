//! The race of a sweep: who was in it how long, and a picture of what each factor does.

use super::chart::{Quantity, Scale, percent};
use super::{key, meter, scrolling};
use crate::model::Report;
use crate::race::{RaceView, figure_words, figures, size_words, why};
use crate::words;
use ebbtide_analysis::Unit;
use ebbtide_analysis::factors::Effect;
use maud::{Markup, html};

/// Height of a level's row in CSS pixels.
const ROW: u32 = 30;
/// Most ticks: five labels fit beside each other on a phone.
const X_TICKS: usize = 5;

pub(super) fn lanes(report: &Report) -> Option<Markup> {
    let race = report.race.as_ref()?;
    let most = race.raced.lanes.iter().map(|lane| lane.rounds).max().unwrap_or(0).max(1);
    let end = |end: f64| if end.is_finite() && end > 0.0 { words::ratio(end) } else { "?".to_owned() };
    let table = html! {
        table.shares.race {
            thead { tr {
                th { "design" } th { "rounds" } th { "figures" } th { "of the best" } th { "interval" } th { "" }
            } }
            tbody { @for lane in &race.raced.lanes { tr {
                th scope="row" { (key(report, lane.design)) }
                td {
                    (meter(f64::from(lane.rounds) / f64::from(most)))
                    span.share { (lane.rounds) }
                }
                td { (figures(lane).join(", ")) }
                td { (words::or_dash(lane.ratio, words::ratio)) }
                td { (words::or_dash(lane.interval, |(low, high)| format!("{}–{}", end(low), end(high)))) }
                td { @match lane.gone {
                    None => span.good { "in" },
                    Some((round, gone)) => { "left after " (round) ": " (why(gone)) }
                } }
            } } }
        }
    };
    Some(html! {
        p.sub {
            "The bar is how long a design was in the race. Ratios are of the rounds that a design shares with the best; their intervals hold at any round, an end with "
            "a question mark is not known yet. The best one was dropped with a probability of at most " (words::level(race.raced.error)) "."
        }
        (scrolling("The race", table))
    })
}

pub(super) fn factors(report: &Report) -> Option<Markup> {
    let race = report.race.as_ref()?;
    if race.found.effects.is_empty() {
        return None;
    }
    Some(html! {
        p.sub {
            "What each level makes of " (figure_words(&race.raced.objective)) ", all else equal: a dot with its " (words::level(report.ci_level))
            " interval, beside the level that it is held against at 1. From the "
            (words::count(race.found.rounds.into(), "round")) " in which all designs ran."
        }
        div.panels {
            @for (factor, _) in race.factors.iter().enumerate() {
                @let effects: Vec<&Effect> = race.found.effects.iter().filter(|e| e.terms[0].factor == factor).collect();
                @if !effects.is_empty() { (picture(race, factor, &effects)) }
            }
        }
        @if !race.found.interactions.is_empty() {
            h3 { "Together" }
            ul { @for effect in &race.found.interactions { li { (race.effect_words(effect)) } } }
        }
    })
}

fn picture(race: &RaceView, factor: usize, effects: &[&Effect]) -> Markup {
    let ends = || {
        effects.iter().flat_map(|effect| {
            let (low, high) = effect.interval.unwrap_or((effect.ratio, effect.ratio));
            [low, high, 1.0]
        })
    };
    let (low, high) = (ends().fold(1.0, f64::min), ends().fold(1.0, f64::max));
    let scale = Scale::around(Quantity::In(Unit::Times), low, high, X_TICKS - 1);
    let against = effects[0].terms[0].against;
    let name = race.factors.get(factor).map_or("–", |factor| &factor.name);
    html! {
        figure.card.intervals {
            figcaption { (name) @if !scale.begins_at_zero() { span.faint { " · axis does not begin at 0" } } }
            div.row {
                span { (race.level(factor, against)) }
                (row(&scale, "d0", 1.0, None, race.level(factor, against)))
                span.told { "1" }
            }
            @for effect in effects {
                @let level = race.level(factor, effect.terms[0].level);
                div.row {
                    span { (level) }
                    (row(&scale, "d1", effect.ratio, effect.interval, &race.effect_words(effect)))
                    span.told { (size_words(effect)) }
                }
            }
            div.row.axis aria-hidden="true" {
                svg.lane height="20" {
                    g.ticks { @for (value, label) in scale.ticks(X_TICKS) {
                        line x1=(percent(scale.place(value))) x2=(percent(scale.place(value))) y1="0" y2="4" {}
                        text x=(percent(scale.place(value))) y="17" text-anchor="middle" { (label) }
                    } }
                }
            }
        }
    }
}

fn row(scale: &Scale, class: &str, ratio: f64, interval: Option<(f64, f64)>, label: &str) -> Markup {
    let middle = f64::from(ROW) / 2.0;
    html! {
        svg class={ "lane " (class) } role="img" aria-label=(label) height=(ROW) {
            @for (value, _) in scale.ticks(X_TICKS) {
                @let x = percent(scale.place(value));
                line.gridline x1=(x) x2=(x) y1="0" y2=(ROW) {}
            }
            @if let Some((low, high)) = interval {
                line.bar x1=(percent(scale.place(low))) x2=(percent(scale.place(high))) y1=(middle) y2=(middle) {}
            }
            circle.median cx=(percent(scale.place(ratio))) cy=(middle) r="5" { title { (label) } }
        }
    }
}
