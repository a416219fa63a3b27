use super::*;
use proptest::prelude::*;

const FIRST_RUN: &str = include_str!("../../../../experiments/first-run.toml");

#[test]
fn the_first_run_is_good() {
    let experiment =
        Experiment::parse(FIRST_RUN, "first-run.toml").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(experiment.volumes.len(), 8);
    assert_eq!(experiment.designs[experiment.control].name, "linear-8");
    assert_eq!(experiment.workloads.len(), 4);
    assert_eq!(experiment.answer.trials_min, 6);
}

/// A line of the good file, damaged: dropped, doubled, cut, or with text from elsewhere put in.
fn damaged() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..6u8, "\\PC{0,6}");
    prop::collection::vec(edit, 1..4).prop_map(|edits| {
        let mut text: Vec<char> = FIRST_RUN.chars().collect();
        for (at, other, kind, insert) in edits {
            if text.is_empty() {
                break;
            }
            let (at, other) = (at.index(text.len()), other.index(text.len()));
            let (low, high) = (at.min(other), at.max(other));
            match kind {
                0 => drop(text.drain(low..high)),
                1 => drop(text.remove(at)),
                2 => drop(text.splice(at..at, insert.chars())),
                3 => text.swap(at, other),
                4 => drop(text.splice(at..=at, insert.chars())),
                _ => {
                    let piece: Vec<char> = text[low..high.min(low + 40)].to_vec();
                    drop(text.splice(at..at, piece));
                }
            }
        }
        text.into_iter().collect()
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = Experiment::parse(&text, "x.toml").map_err(|errors| errors.to_string());
    }

    #[test]
    fn damage_is_reported_where_it_is(text in damaged()) {
        if let Err(errors) = Experiment::parse(&text, "x.toml") {
            prop_assert!(!errors.errors.is_empty());
            for error in &errors.errors {
                let line = text.split('\n').nth(error.line - 1).map(|line| line.trim_end_matches('\r'));
                prop_assert_eq!(line, Some(error.source_line.as_str()));
                prop_assert!(!error.problem.remedy().is_empty());
            }
            let _ = errors.to_string();
        }
    }
}
