//! `ebb compare` as a gate of a CI job: sessions of the simulator whose truth is known.

use crate::common::{Home, status, stderr};
use serde_json::Value;

/// Two designs over volumes of so many operations a second, each trial a little different, in so many rounds.
fn experiment(name: &str, iops: u32, rounds: u32) -> String {
    format!(
        r#"
name = "{name}"
[volumes.vol]
count = 2
size = "64MiB"
shape = {{ iops = {iops}, latency = {{ median = "0.5ms", p99 = "2ms" }} }}
[designs.single]
layout = "linear"
members = ["vol0"]
[designs.stripe]
layout = "stripe"
chunk = "64KiB"
members = ["vol[0..1]"]
[workloads.randread]
rw = "randread"
bs = "4KiB"
iodepth = 16
runtime = "2s"
[answer]
trials_min = {rounds}
trials_max = {rounds}
"#
    )
}

/// Runs an experiment on the simulator; the session's id.
fn run(home: &Home, text: &str, seed: u32) -> String {
    home.write("experiment.toml", text);
    let ran = home.json(&format!("run experiment.toml --on sim --seed {seed}"), &[0, 3]);
    ran["session"]["id"].as_str().unwrap().to_owned()
}

fn comparison<'a>(compared: &'a Value, design: &str, metric: &str) -> &'a Value {
    let all = compared["comparisons"].as_array().unwrap();
    all.iter()
        .find(|c| c["design"] == design && c["metric"] == metric)
        .unwrap_or_else(|| panic!("{compared}"))
}

#[test]
fn a_volume_that_is_a_fifth_slower_is_a_regression_and_the_same_one_is_none() {
    let home = Home::new();
    let base = run(&home, &experiment("base", 1000, 12), 1);
    let same = run(&home, &experiment("base", 1000, 12), 2);
    let slow = run(&home, &experiment("slow", 800, 12), 3);

    // 1 is for a regression alone.
    for wrong in
        [format!("compare {base} nope"), format!("compare {base} 2"), format!("compare {base} {slow} -o c")]
    {
        let output = home.ebb(&wrong).output().unwrap();
        assert_eq!(status(&output), 2, "{wrong}: {}", stderr(&output));
    }
    let worse = home.json(&format!("compare {base} {slow}"), &[1]);
    assert_eq!(worse["schema"], "ebbtide.compare/1");
    let iops = comparison(&worse, "single", "iops");
    assert_eq!((&iops["conclusion"], &iops["gate"]), (&"slower".into(), &"regression".into()));
    let (ratio, low, high) = (&iops["ratio"], &iops["ci_low"], &iops["ci_high"]);
    let ratio = ratio.as_f64().unwrap();
    assert!((0.78..0.82).contains(&ratio), "{iops}");
    assert!(
        low.as_f64().unwrap() <= ratio && ratio <= high.as_f64().unwrap() && high.as_f64().unwrap() < 0.95,
        "{iops}"
    );
    assert_eq!(iops["paired"], false);
    let shape =
        worse["differs"].as_array().unwrap().iter().find(|d| d["what"] == "shape of vol0 and vol1").unwrap();
    assert_eq!(shape["values"].as_array().unwrap().len(), 2, "{shape}");

    let none = home.json(&format!("compare {base} {same} --metric iops"), &[0]);
    assert_eq!(none["gate"], "pass");
    assert_eq!(comparison(&none, "stripe", "iops")["conclusion"], "no_difference");
    assert_eq!(none["differs"], serde_json::json!([]), "the same host, version and experiment");

    // What got better is no regression, and a threshold that allows for it lets it pass.
    let better = home.json(&format!("compare {slow} {base} -m iops"), &[0]);
    assert_eq!(comparison(&better, "single", "iops")["conclusion"], "faster");
    let allowed = home.json(&format!("compare {base} {slow} -m iops --threshold 25%"), &[0]);
    assert_eq!(
        comparison(&allowed, "single", "iops")["conclusion"],
        "slower",
        "beyond the indifference margin all the same"
    );

    // Each later session is compared with the first.
    let three = home.json(&format!("compare {base} {same} {slow} -m iops"), &[1]);
    let gates: Vec<(&Value, &Value)> = three["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (&c["session"]["session"], &c["gate"]))
        .collect();
    assert_eq!(gates.len(), 4);
    for (session, gate) in gates {
        assert_eq!(gate, if session == slow.as_str() { "regression" } else { "pass" }, "{three}");
    }
}

#[test]
fn too_few_rounds_decide_nothing() {
    let home = Home::new();
    let base = run(&home, &experiment("base", 1000, 12), 1);
    let few = experiment("few", 800, 2).replace("[answer]", "[answer]\nlevel = 0.5");
    let slow = run(&home, &few, 3);
    // Two trials below twelve others: 2 of 91 orders, which decides one row, and none of four.
    let one = home.json(&format!("compare {base}:single {slow}:single -m iops"), &[1]);
    assert_eq!(one["comparisons"].as_array().unwrap().len(), 1);
    let four = home.json(&format!("compare {base} {slow}"), &[3]);
    for row in four["comparisons"].as_array().unwrap() {
        assert_eq!((&row["gate"], &row["detectable"]), (&"undecided".into(), &Value::Null), "{row}");
    }
    let output = home.ebb(&format!("compare {base} {slow}")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.starts_with("Not decided: 4 of 4 comparisons"), "{text}");
    assert!(text.contains("there are too few trials for 4 comparisons"), "{text}");
}

#[test]
fn designs_of_one_session_are_paired_by_round() {
    let home = Home::new();
    let base = run(&home, &experiment("base", 1000, 8), 1);
    let compared = home.json(&format!("compare {base}:single {base}:stripe -m iops"), &[0]);
    let one = &compared["comparisons"][0];
    assert_eq!((&one["paired"], &one["conclusion"]), (&true.into(), &"faster".into()), "{one}");
    // As the session's own report has it.
    let shown = home.json(&format!("show {base}"), &[0, 3]);
    let own = shown["comparisons"].as_array().unwrap().iter().find(|c| c["metric"] == "iops").unwrap();
    for field in ["ratio", "ci_low", "ci_high"] {
        let (seen, wanted) = (one[field].as_f64().unwrap(), own[field].as_f64().unwrap());
        assert!((seen / wanted - 1.0).abs() < 1e-9, "{field}: {seen} and {wanted}");
    }
}

#[test]
fn the_comparison_is_written_as_html_and_csv() {
    let home = Home::new();
    let base = run(&home, &experiment("<base>", 1000, 8), 1);
    let slow = run(&home, &experiment("slow", 800, 8), 3);
    for file in ["c.html", "c.csv", "c.md", "c.json", "c.txt"] {
        let output = home.ebb(&format!("compare {base} {slow} -o {file}")).output().unwrap();
        assert_eq!(status(&output), 1, "{output:?}");
        assert!(stderr(&output).contains(file), "{}", stderr(&output));
    }
    let page = std::fs::read_to_string(home.path("c.html")).unwrap();
    for told in [
        "slower, a regression",
        "&lt;base&gt;",
        "What differs",
        "shape of vol0 and vol1",
        "default-src 'none'",
    ] {
        assert!(page.contains(told), "{told}");
    }
    assert!(!page.contains("<base>"), "names are escaped");
    let table = std::fs::read_to_string(home.path("c.csv")).unwrap();
    let mut rows = table.lines();
    let columns = rows.next().unwrap().split(',').count();
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), 4, "two designs, two metrics");
    assert!(rows.iter().all(|row| row.len() == columns && row[0] == base && row[1] == slow), "{table}");
    for (form, file) in [("csv", "c.csv"), ("markdown", "c.md"), ("json", "c.json"), ("text", "c.txt")] {
        let printed = home.ebb(&format!("compare {base} {slow} --format {form}")).output().unwrap();
        let written = std::fs::read_to_string(home.path(file)).unwrap();
        assert_eq!(String::from_utf8(printed.stdout).unwrap(), written, "{form}: and nothing else");
    }
    let pasted = std::fs::read_to_string(home.path("c.md")).unwrap();
    assert!(
        pasted.contains("\n| design | metric | A | B | B / A |") && !pasted.contains("<base>"),
        "{pasted}"
    );
    let nowhere = home.ebb(&format!("compare {base} {slow} -o no/c.html")).output().unwrap();
    assert_eq!((status(&nowhere), nowhere.stdout.is_empty()), (2, true), "{nowhere:?}");
    let said = stderr(&nowhere);
    assert!(said.contains("make it, or name another file"), "{said}");
}

#[test]
fn a_search_is_compared_with_what_it_found_and_what_it_was_asked() {
    let home = Home::new();
    let search = |target: &str| {
        let load =
            format!("latency_target = \"{target}\"\nlatency_window = \"300ms\"\nlatency_percentile = 50");
        experiment("search", 1000, 6).replace("runtime = \"2s\"", &load)
    };
    let plain = run(&home, &experiment("search", 1000, 6), 1);
    let [low, high] = ["3ms", "10ms"].map(|target| run(&home, &search(target), 1));
    let value_of = |compared: &Value, what: &str| {
        let differs = compared["differs"].as_array().unwrap().iter().find(|d| d["what"] == what);
        differs.unwrap_or_else(|| panic!("{what}: {compared}"))["values"].clone()
    };
    let one = home.json(&format!("compare {plain} {high}"), &[0, 1, 3]);
    assert_eq!(value_of(&one, "latency_target of randread"), serde_json::json!([null, "10ms"]));
    assert_eq!(
        value_of(&one, "runtime of randread"),
        serde_json::json!(["2s", null]),
        "nobody wrote another"
    );
    let both = home.json(&format!("compare {low} {high}"), &[0, 1, 3]);
    assert_eq!(value_of(&both, "latency_target of randread"), serde_json::json!(["3ms", "10ms"]));
    let remarks = both["remarks"].to_string();
    assert!(
        remarks.contains("The largest iodepth that keeps the latency, of single under randread: A "),
        "{remarks}"
    );
    let output = home.ebb(&format!("compare {low} {high}")).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    for own in ["within 3ms", "within 10ms"] {
        assert!(text.contains(own), "{own} is not in {text}");
    }
}
