//! Headline, table, JSON and exit status of many simulated sessions tell one story.
#![allow(clippy::disallowed_methods)]

use ebbtide_analysis::stop::Decider;
use ebbtide_analysis::{WarningKind, analyse, unanswered};
use ebbtide_model::session::Session;
use ebbtide_report::{JsonOptions, Report, json, markdown, text};
use serde_json::Value;

/// One, two, one unsteady and one more volume, under a load with a rate of its own and one without; `precision` and
/// noise decide how much of it is decided.
fn session(seed: u64) -> Session {
    let precision = [1, 5, 20][(seed % 3) as usize];
    let sigma = [0.002, 0.05, 0.3][(seed / 3 % 3) as usize];
    let paced = "[workloads.paced]\nrw = \"randread\"\nbs = \"8KiB\"\niodepth = 16\nrate_iops = 150\nruntime = \"300ms\"\n";
    let free = "[workloads.free]\nrw = \"randread\"\nbs = \"8KiB\"\niodepth = 16\nruntime = \"300ms\"\n";
    let workloads = match seed % 4 {
        0 => free.to_owned(),
        1 => paced.to_owned(),
        _ => format!("{free}{paced}"),
    };
    let metric = if seed.is_multiple_of(5) { "metric = \"p99\"\n" } else { "" };
    let toml = format!(
        "name = \"story\"\n[volumes.v]\ncount = 4\nsize = \"1GiB\"\n[volumes.v.shape]\niops = 400\n\
         read_latency = {{ median = \"2ms\", p99 = \"9ms\" }}\ndrift = {{ sigma = {sigma}, timescale = \"2s\" }}\n\
         [designs.one]\nlayout = \"linear\"\nmembers = [\"v0\"]\n\
         [designs.other]\nlayout = \"linear\"\nmembers = [\"v1\"]\n\
         [designs.pair]\nlayout = \"stripe\"\nmembers = [\"v[0..1]\"]\n\
         [designs.twins]\nlayout = \"mirror\"\nmembers = [\"v[2..3]\"]\n\
         {workloads}[answer]\n{metric}control = \"one\"\nprecision = \"{precision}%\"\ntrials_max = {}\n",
        [7, 9, 14][(seed / 2 % 3) as usize]
    );
    let experiment = ebbtide_experiment::parse(&toml, "story.toml").expect("is right");
    ebbtide_sim::session(&experiment, seed, Decider::new(&experiment)).expect("runs")
}

/// A number as the views print ratios: three digits below 100.
fn printed(ratio: f64) -> String {
    match ratio {
        r if r >= 99.95 => format!("{r:.0}"),
        r if r >= 9.995 => format!("{r:.1}"),
        r if r >= 0.0995 => format!("{r:.2}"),
        r => format!("{r:.3}"),
    }
}

fn interval(of: &Value, separator: &str) -> String {
    let end = |key: &str| printed(of[key].as_f64().unwrap_or(f64::NAN));
    if of["ci_low"].is_null() { "too few".to_owned() } else { end("ci_low") + separator + &end("ci_high") }
}

#[test]
fn headline_table_json_and_exit_status_agree() {
    let (mut undecided, mut best, mut ties, mut latencies, mut unlike) = (0, 0, 0, 0, 0);
    for seed in 0..72 {
        let session = session(seed);
        let analysis = analyse(&session);
        let report = Report::new(&session, &analysis);
        let value = json(&report, JsonOptions::default());
        let page = text(&report, 400, false).into_string();
        let answer = report.answer.join(" ");
        let shown = format!("seed {seed}\n{page}");
        let primary = |workload: &Value| {
            let all = value["workloads"].as_array().expect("has some");
            all.iter().find(|w| w["name"] == *workload).expect("is one")["primary_metric"].clone()
        };
        let compared: Vec<&Value> = value["comparisons"].as_array().expect("has some").iter().collect();
        let compared: Vec<&Value> =
            compared.into_iter().filter(|c| c["metric"] == primary(&c["workload"])).collect();
        assert_eq!(compared.len(), 3 * report.workloads.len(), "{shown}");

        // JSON names as undecided what its comparisons leave open, with the control and with the design that is ahead, and the exit
        // status is 3 for them or for A/A.
        let standings = value["best"].as_array().expect("has some");
        let against = |standing: &Value| standing["against"].as_array().expect("has some").clone();
        let all_against: Vec<Value> = standings.iter().flat_map(against).collect();
        let is_open = |c: &Value| c["conclusion"] == "inconclusive";
        let open = compared.iter().filter(|c| is_open(c)).count()
            + all_against
                .iter()
                .filter(|c| is_open(c) && c["design"] != "one" && c["control"] != "one")
                .count();
        assert_eq!(value["undecided"].as_array().map(Vec::len), Some(open), "{shown}");
        assert_eq!(standings.len(), report.workloads.len(), "{shown}");
        // The word is what the interval allows: faster and slower by more than the margin, and no difference within the bound.
        for c in value["comparisons"].as_array().expect("has some").iter().chain(&all_against) {
            let judged = c["metric"] == primary(&c["workload"]);
            assert_eq!(c["conclusion"] == "not_judged", !judged, "{shown}");
            assert_eq!(c["family"], if judged { compared.len() } else { 1 }, "{shown}");
            let (Some(low), Some(high)) = (c["ci_low"].as_f64(), c["ci_high"].as_f64()) else { continue };
            let better = if c["metric"].as_str().is_some_and(|name| name.starts_with("lat_")) {
                "slower"
            } else {
                "faster"
            };
            let worse = if better == "slower" { "faster" } else { "slower" };
            let word = c["conclusion"].as_str().expect("text");
            if judged {
                assert_eq!(word == better, low > 1.02, "{shown}");
                assert_eq!(word == worse, high < 1.0 / 1.02, "{shown}");
                assert!(word != "no_difference" || high < 1.41 && low > 1.0 / 1.41, "{shown}");
            }
        }
        let differs = analysis.warnings.iter().filter(|w| w.kind == WarningKind::AaDiffers).count();
        assert_eq!(unanswered(&session, &analysis).len(), open + differs, "{shown}");
        undecided += usize::from(open > 0);

        // Each ratio stands in the table in the row of its design as JSON has it.
        for c in &compared {
            let section = page.split(&format!("\n\n{}: ", c["workload"].as_str().expect("text"))).nth(1);
            let design = c["design"].as_str().expect("text");
            let row = section
                .and_then(|section| section.lines().find(|line| line.trim_start().starts_with(design)));
            let cell = format!("{} ({})", printed(c["ratio"].as_f64().expect("a number")), interval(c, "–"));
            assert!(row.is_some_and(|row| row.contains(&cell)), "{cell} of {design}\n{shown}");
            let pasted = markdown(&report);
            let is_row = |line: &str| line.starts_with(&format!("| {design} |")) && line.contains(&cell);
            assert!(pasted.lines().any(is_row), "{cell} of {design}\n{pasted}");
        }

        // Under each workload the answer names the designs that may be the best, and no other as such; what it says of them is what
        // their comparisons say.
        for standing in standings {
            let (workload, ahead) = (&standing["workload"], &standing["design"]);
            let several = report.workloads.len() > 1;
            let under =
                if several { format!("{}: ", workload.as_str().expect("text")) } else { String::new() };
            let own: Vec<&String> =
                report.answer.iter().filter(|sentence| sentence.starts_with(&under)).collect();
            let first = own[0].as_str();
            let others = against(standing);
            assert_eq!(others.len(), 3, "{shown}");
            let with = |conclusion: &str| others.iter().filter(|c| c["conclusion"] == conclusion).count();
            let (tied, open) = (with("no_difference"), with("inconclusive") + with("slower"));
            // Nobody is ahead of the one that is ahead, as far as the control's comparisons tell.
            let gain = |design: &Value| {
                let found = compared.iter().find(|c| c["design"] == *design && c["workload"] == *workload);
                let ratio = found.map_or(1.0, |c| c["ratio"].as_f64().expect("a number"));
                if standing["metric"] == "lat_p99" { 1.0 / ratio } else { ratio }
            };
            let most = compared.iter().map(|c| gain(&c["design"])).fold(1.0, f64::max);
            assert!(gain(ahead) > most * 0.9, "{ahead}\n{shown}");
            if open > 0 {
                assert!(first.contains("not decided"), "{shown}");
                assert!(
                    own.iter().any(|told| told.contains("rounds would")),
                    "what would decide it?\n{shown}"
                );
            } else if tied == 3 {
                assert!(first.contains("the 4 designs tie: they differ by at most "), "{shown}");
            } else {
                assert!(first.contains("the best"), "{shown}");
                ties += usize::from(tied > 0);
                best += usize::from(tied == 0);
                assert_eq!(first.contains(" tie for the best within "), tied > 0, "{shown}");
            }
            // The names stand before the word, or behind that it is not decided.
            let who = match first.split_once(" one of ").or(first.split_once(" between ")) {
                Some((_, names)) if open > 0 => names,
                _ => first
                    .split(" is the best")
                    .next()
                    .and_then(|who| who.split(" tie for").next())
                    .unwrap_or(first),
            };
            for c in &others {
                let name = c["control"].as_str().expect("text");
                let may_be = c["conclusion"] != "faster";
                assert!(who.contains(name) == may_be || tied == 3, "{name}\n{shown}");
                // How much better it is than the control stands there with its interval.
                if name == "one" && c["conclusion"] == "faster" {
                    let ratio = printed(c["ratio"].as_f64().expect("a number"));
                    let told =
                        own.iter().any(|told| told.contains(&ratio) && told.contains(&interval(c, " to ")));
                    assert!(told, "{ratio}\n{shown}");
                    if c["metric"] == "lat_p99" {
                        latencies += 1;
                        assert!(
                            own.iter().any(|told| told.contains("p99 latency")),
                            "which percentile?\n{shown}"
                        );
                    }
                }
            }
        }

        // A control that differs from itself is said.
        let unsure = report.headline_aa().any(|aa| aa.same == Some(false));
        unlike += usize::from(unsure);
        assert_eq!(answer.contains("could not tell the control from itself"), unsure, "{shown}");

        // No figure of speed in the answer that no comparison has.
        for word in answer.split(" times").filter_map(|part| part.split(' ').next_back()) {
            if word.parse::<f64>().is_ok() {
                let known = compared
                    .iter()
                    .copied()
                    .chain(&all_against)
                    .any(|c| printed(c["ratio"].as_f64().expect("a number")) == word);
                assert!(known, "{word} is no ratio of a comparison\n{shown}");
            }
        }
    }
    assert!(
        undecided > 10 && undecided < 72,
        "{undecided} of 72 sessions are inconclusive: both kinds must occur"
    );
    let seen = [best, ties, latencies, unlike];
    assert!(seen.iter().all(|times| *times > 0), "{seen:?}");
}
