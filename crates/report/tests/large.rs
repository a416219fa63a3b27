//! Reports of more designs than anybody reads about.
#![allow(clippy::disallowed_methods)]

use ebbtide_analysis::analyse;
use ebbtide_model::session::{Outcome, Session, TrialRecord};
use ebbtide_model::testing::session::{self as fixture, Recipe};
use ebbtide_report::{JsonOptions, Kept, Report, csv, html, json, text};
use serde_json::Value;

/// Designs beside the control.
const OTHERS: usize = 20;

/// A made-up session whose second design is there many times, each a percent faster than the one before.
fn session() -> Session {
    let mut session = fixture::session(&Recipe::default());
    let second = session.experiment.designs[1].clone();
    let (control, of_second): (Vec<TrialRecord>, Vec<TrialRecord>) =
        session.trials.drain(..).partition(|record| record.trial.design == 0);
    session.experiment.designs.truncate(1);
    session.trials = control;
    for number in 1..=OTHERS {
        let mut design = second.clone();
        design.name = format!("d-{number:02}");
        session.experiment.designs.push(design);
        for record in &of_second {
            let mut record = record.clone();
            record.trial.design = number;
            if let Outcome::Samples(samples) = &mut record.outcome {
                for count in [&mut samples.array.read.count, &mut samples.array.write.count] {
                    count.ops = count.ops * (100 + number as u64) / 100;
                    count.bytes = count.bytes * (100 + number as u64) / 100;
                }
            }
            session.trials.push(record);
        }
    }
    session.trials.sort_by_key(|record| (record.trial.round, record.trial.design));
    for (index, record) in session.trials.iter_mut().enumerate() {
        record.trial.index = index as u32;
    }
    session
}

fn report(kept: Kept) -> Report {
    let session = session();
    Report::with(&session, &analyse(&session), kept)
}

#[test]
fn the_best_are_told_of_and_the_others_when_asked() {
    let mut report = report(Kept::Figures);
    assert!(report.is_large());
    let brief = text(&report, 100, false).into_string();
    assert!(brief.contains("The 10 best of 21 designs"), "{brief}");
    assert!(brief.contains(&format!("ebb show {} --all", report.session.id)), "{brief}");
    assert!(brief.contains("  d-20 ") && brief.contains("  d-11 ") && !brief.contains("  d-10 "), "{brief}");
    report.all = true;
    let all = text(&report, 100, false).into_string();
    assert!(all.contains("  d-10 ") && all.contains("  d-01 ") && !all.contains(" best of "), "{all}");
    assert!(brief.lines().count() < all.lines().count());
    assert!(!fixture_report().is_large());
}

fn fixture_report() -> Report {
    let session = fixture::session(&Recipe::default());
    Report::new(&session, &analyse(&session))
}

#[test]
fn what_is_not_kept_is_not_missed() {
    let (all, figures) = (report(Kept::All), report(Kept::Figures));
    assert_eq!(text(&all, 100, false), text(&figures, 100, false));
    assert_eq!(csv(&all), csv(&figures));
    assert_eq!(json(&all, JsonOptions::default()), json(&figures, JsonOptions::default()));
    let small = fixture::session(&Recipe::default());
    let drawn = Report::with(&small, &analyse(&small), Kept::drawn(&small.experiment));
    assert_eq!(html(&fixture_report()), html(&drawn));
}

#[test]
fn the_page_sorts_and_has_every_series_as_numbers() {
    let report = report(Kept::All);
    let page = html(&report);
    assert!(page.contains("class=\"stack sortable\"") && page.contains(">d-01<"));
    assert!(!html(&fixture_report()).contains("class=\"stack sortable\""));
    let start = "<script id=\"series\" type=\"application/json\">";
    let data = page.split_once(start).and_then(|(_, rest)| rest.split_once("</script>")).expect("data").0;
    let series: Vec<Value> = serde_json::from_str(data).expect("is JSON");
    assert_eq!(series.len(), report.results.len());
    for one in &series {
        let rates = one[3].as_array().expect("rates");
        assert!(one[2].as_f64() > Some(0.0) && rates.iter().all(Value::is_number), "{one}");
    }
}
