//! The race of a sweep on the terminal: the best, what left when, and what mattered.

use super::Page;
use super::table::{Cell, Table};
use crate::model::Report;
use crate::names::Among;
use crate::race::{RaceView, figure_words, figures, objective_words, why};
use crate::words;
use ebbtide_analysis::race::Lane;
use ebbtide_model::shown::Paint;

/// Up to so many designs have a row.
const MOST_ROWS: usize = 10;
/// Up to so many designs that left in a round are named.
const MOST_NAMES: usize = 2;
/// Up to so many interactions are told.
const MOST_INTERACTIONS: usize = 5;

impl Page {
    pub(super) fn race(&mut self, report: &Report) {
        let Some(race) = &report.race else { return };
        self.heading("The race", &format!("the best {}", objective_words(&race.raced.objective)));
        let (shared, table) = best(race);
        if let Some(shared) = shared {
            self.prose(&format!("  each with {shared}:"), 4, Paint::Faint);
        }
        self.lines.extend(table.lines(self.width, self.color));
        if race.raced.lanes.iter().any(|lane| lane.design == report.control && lane.gone.is_some()) {
            let text =
                "  figures are of these rounds; the control ran on, and the tables below have all its trials";
            self.prose(text, 4, Paint::Faint);
        }
        for (round, gone) in race.departures() {
            let left: Vec<usize> = gone.iter().map(|(lane, _)| lane.design).collect();
            let among = race.among(&left);
            let named: Vec<String> = left.iter().take(MOST_NAMES).map(|design| among.name(*design)).collect();
            let shared = among.shared().map_or(String::new(), |shared| format!(", each with {shared}"));
            let more = match gone.len().saturating_sub(MOST_NAMES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let mut reasons: Vec<String> = gone.iter().map(|(_, gone)| why(*gone)).collect();
            reasons.sort();
            reasons.dedup();
            let when =
                if round == 0 { "before the first round".to_owned() } else { format!("after round {round}") };
            let designs = words::count(gone.len() as u64, "design");
            self.prose(
                &format!(
                    "  {when}, {designs} dropped{shared} ({}): {}{more}",
                    reasons.join(", "),
                    named.join("; ")
                ),
                4,
                Paint::Faint,
            );
        }
        self.factors(race);
    }

    fn factors(&mut self, race: &RaceView) {
        let found = &race.found;
        if found.effects.is_empty() {
            return;
        }
        let rounds = words::count(found.rounds.into(), "round");
        let figure = figure_words(&race.raced.objective);
        let what = format!(
            "what levels make of {figure}, all else equal, from the {rounds} in which all designs ran"
        );
        self.heading("What mattered", &what);
        for effect in &found.effects {
            let paint = if effect.distinguishable() { Paint::Plain } else { Paint::Faint };
            self.prose(&format!("  {}", race.effect_words(effect)), 4, paint);
        }
        for effect in found.interactions.iter().take(MOST_INTERACTIONS) {
            self.prose(&format!("  {}", race.effect_words(effect)), 4, Paint::Plain);
        }
        if let more @ 1.. = found.interactions.len().saturating_sub(MOST_INTERACTIONS) {
            self.prose(
                &format!(
                    "  {} more can be told from none (--json has them)",
                    words::count(more as u64, "pair")
                ),
                4,
                Paint::Faint,
            );
        }
    }
}

/// What the designs that are ahead share, and a table of them.
pub(crate) fn best(race: &RaceView) -> (Option<String>, Table) {
    let shown: Vec<&Lane> = race.raced.lanes.iter().filter(|lane| lane.rounds > 0).take(MOST_ROWS).collect();
    let designs: Vec<usize> = shown.iter().map(|lane| lane.design).collect();
    let among = race.among(&designs);
    (among.shared(), table(race, &shown, &among))
}

/// These lanes, named by what tells them apart.
fn table(race: &RaceView, lanes: &[&Lane], among: &Among) -> Table {
    let header = ["design", "figures", "of the best", "interval", "rounds"].map(str::to_owned).into();
    let end = |end: f64| if end.is_finite() && end > 0.0 { words::ratio(end) } else { "?".to_owned() };
    let rows = lanes
        .iter()
        .map(|lane| {
            let leads = race.raced.leader == Some(lane.design);
            vec![
                Cell::new(&among.name(lane.design), if leads { Paint::Strong } else { Paint::Plain }),
                Cell::plain(&figures(lane).join(", ")),
                Cell::plain(&words::or_dash(lane.ratio, words::ratio)),
                Cell::plain(&words::or_dash(lane.interval, |(low, high)| {
                    match high.is_finite() || low > 0.0 {
                        true => format!("{}–{}", end(low), end(high)),
                        false => "too few".to_owned(),
                    }
                })),
                Cell::plain(&lane.rounds.to_string()),
            ]
        })
        .collect();
    Table { header, rows }
}
