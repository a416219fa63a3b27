//! `ebb explain --iostat` on the published slow member.

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::contains;

const SLOW_MEMBER: &str = "\
Device:         rrqm/s   wrqm/s     r/s     w/s    rMB/s    wMB/s avgrq-sz avgqu-sz   await  svctm  %util
md0               0.00     0.00    0.00  615.20     0.00    25.42    84.63     0.00    0.00   0.00   0.00
sdi1              0.00     0.06    0.00  307.41     0.00    12.71    84.67   148.55  483.20   3.25 100.02
sdi2              0.00     0.04    0.00  307.60     0.00    12.71    84.61    10.49   34.10   1.19  36.67
";

fn ebb(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("ebb").expect("the program is built");
    command.args(arguments).write_stdin(SLOW_MEMBER);
    command
}

#[test]
fn the_slow_member_is_named() {
    let output = ebb(&["explain", "--iostat", "-"]).output().expect("it runs");
    assert!(output.status.success());
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout));
}

#[test]
fn json_names_it_too() {
    let output = ebb(&["explain", "--iostat", "-", "--json"]).output().expect("it runs");
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["explanation"]["groups"][0]["outliers"][0]["name"], "sdi1");
}

#[test]
fn what_cannot_be_explained_says_why() {
    ebb(&["explain", "--iostat", "-", "--members", "sdi1,sdz"]).assert().code(2).stderr(contains("`sdz`"));
    ebb(&["explain", "--iostat", "/no/such/log"]).assert().code(1).stderr(contains("/no/such/log"));
    let mut nothing = ebb(&["explain", "--iostat", "-"]);
    nothing
        .write_stdin("hello")
        .assert()
        .code(1)
        .stderr(contains("no iostat report").and(contains("Device")));
}

/// A simulated session: the reasoning names every rule, as a verdict or as looked for in vain.
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
    let output = ebb(&["explain", "last", "stripe-8", "--store", store]).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("stripe-8 under seqread") && !text.contains("linear-8 under"), "{text}");
    assert!(text.contains("1. volume-limit"), "{text}");
    let first = text.split("\n\nstripe-8 under").next().unwrap_or_default();
    for rule in ebbtide_core::analysis::verdict::rules() {
        let line = format!("\n   {}: ", rule.kind().name());
        let held = format!(". {} (confidence", rule.kind().name());
        assert!(first.contains(&line) || first.contains(&held), "{} is not in {first}", rule.kind().name());
    }
    // What was seen, against what it would have taken.
    let concurrency = "concurrency: held back by `volume-limit`: more in flight would only wait longer\n     \
                       - use of the working members' limits, which would have to be below: ";
    assert!(first.contains(concurrency) && first.contains("%, against 90.0%"), "{first}");
    let mut wrong = ebb(&["explain", "last", "no-such", "--store", store]);
    wrong.assert().code(2).stderr(contains("`no-such`").and(contains("linear-8, stripe-8")));
}
