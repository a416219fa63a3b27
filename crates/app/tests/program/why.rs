//! `ebb show --why`: the reasoning behind a session's verdicts.

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

fn ebb(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("ebb").expect("the program is built");
    command.args(arguments);
    command
}

/// A simulated session: the reasoning names every rule, as a verdict or as ruled out.
#[test]
fn the_reasoning_of_a_session_is_whole() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("store.sqlite");
    let store = store.to_str().expect("UTF-8");
    let experiment = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/first-run.toml");
    let done = ebb(&["run", experiment, "--on", "sim", "--seed", "1", "-q", "--store", store])
        .output()
        .expect("it runs");
    assert!(matches!(done.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&done.stderr));
    let output = ebb(&["show", "last:stripe-8", "--why", "--store", store]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("stripe-8 under seqread") && !text.contains("linear-8 under"), "{text}");
    assert!(text.contains("1. volume-limit"), "{text}");
    let row = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
    assert!(
        row("resource").contains("queue or waiting") && row("resource").contains("gain when changed"),
        "{text}"
    );
    assert!(row("a limit that is set").contains("1. volume-limit"), "{text}");
    assert!(row("devices").contains("in flight there"), "{text}");
    let first = text.split("\n\nstripe-8 under").next().unwrap_or_default();
    for rule in &ebbtide_analysis::verdict::RULES {
        let line = format!("\n   {}: ", rule.kind.name());
        let held = format!(". {} (", rule.kind.name());
        assert!(first.contains(&line) || first.contains(&held), "{} is not in {first}", rule.kind.name());
    }
    // What was seen, against what it would have taken.
    let concurrency = "concurrency: held back by `volume-limit`: that is what operations wait for\n     \
                       - use of the working members' limits: ";
    assert!(first.contains(concurrency) && first.contains("% (asked: below 90.0%)"), "{first}");
    let mut wrong = ebb(&["show", "last:no-such", "--why", "--store", store]);
    wrong.assert().code(2).stderr(contains("`no-such`").and(contains("linear-8, stripe-8")));
}
