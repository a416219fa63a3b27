//! Headline, table, JSON and exit status of many simulated sessions tell one story.
#![allow(clippy::disallowed_methods)]

use ebbtide_analysis::stop::Decider;
use ebbtide_analysis::{WarningKind, analyse, unanswered};
use ebbtide_model::session::Session;
use ebbtide_report::{JsonOptions, Report, json, text};
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
    let mut too_few = 0;
    let (mut undecided, mut latencies, mut left_out, mut decided_elsewhere) = (0, 0, 0, 0);
    let (mut unsure_of_itself, mut better_elsewhere) = (0, 0);
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

        // JSON names as undecided what its comparisons leave open, and the exit status is 3 for them or for A/A.
        let open: Vec<&&Value> = compared.iter().filter(|c| c["conclusion"] == "inconclusive").collect();
        assert_eq!(value["undecided"].as_array().map(Vec::len), Some(open.len()), "{shown}");
        // The word is what the interval allows: faster and slower by more than the margin, and no difference within the bound.
        for c in value["comparisons"].as_array().expect("has some") {
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
        assert_eq!(unanswered(&session, &analysis).len(), open.len() + differs, "{shown}");
        undecided += usize::from(!open.is_empty());

        // Each ratio stands in the table in the row of its design as JSON has it.
        for c in &compared {
            let section = page.split(&format!("\n{}: ", c["workload"].as_str().expect("text"))).nth(1);
            let design = c["design"].as_str().expect("text");
            let row = section
                .and_then(|section| section.lines().find(|line| line.trim_start().starts_with(design)));
            let cell = format!("{} ({})", printed(c["ratio"].as_f64().expect("a number")), interval(c, "–"));
            assert!(row.is_some_and(|row| row.contains(&cell)), "{cell} of {design}\n{shown}");
        }

        // The first sentence has the ratio and the interval of one of them, and its conclusion.
        let first = &report.answer[0];
        let told = compared.iter().find(|c| {
            let design = c["design"].as_str().expect("text");
            let begins = first.starts_with(&format!("{design} "))
                || first.starts_with(&format!("No difference between {design} "));
            let range = interval(c, " to ");
            let sure =
                if range == "too few" { format!(", {range}: ") } else { format!("interval {range}, ") };
            too_few += usize::from(begins && range == "too few");
            begins && first.contains(&sure)
        });
        let told = told.unwrap_or_else(|| panic!("of which comparison is it?\n{shown}"));
        assert!(first.contains(&printed(told["ratio"].as_f64().expect("a number"))), "{shown}");
        let conclusion = &told["conclusion"];
        assert_eq!(first.contains("is shown yet"), conclusion == "inconclusive", "{shown}");
        assert_eq!(first.contains(": ratio "), conclusion == "no_difference", "{shown}");
        assert_eq!(first.contains(" to within "), conclusion == "no_difference", "{shown}");
        if told["metric"] == "lat_p99" {
            latencies += 1;
            assert!(first.contains("p99 latency"), "which percentile is it?\n{shown}");
        }

        // A control that differs from itself stands beside the figure that was measured beside it.
        let unsure = report
            .headline_aa()
            .any(|aa| aa.same == Some(false) && told["workload"].as_str() == Some(aa.workload.as_str()));
        unsure_of_itself += usize::from(unsure);
        assert_eq!(first.contains("cannot tell one from itself"), unsure, "{shown}");

        // Nobody who reads the answer takes its first design for the best under a workload where another one is.
        let gain = |c: &Value| {
            let ratio = c["ratio"].as_f64().expect("a number");
            if c["metric"].as_str().is_some_and(|name| name.starts_with("lat_")) {
                1.0 / ratio
            } else {
                ratio
            }
        };
        if *conclusion != "inconclusive" {
            let mut better: Vec<&Value> = Vec::new();
            for workload in &report.workloads {
                let here = compared.iter().filter(|c| c["workload"] == workload.name.as_str());
                let own = here.clone().find(|c| c["design"] == told["design"]).map_or(0.0, |c| gain(c));
                let decided = |c: &&&Value| c["conclusion"] == "faster" || c["conclusion"] == "slower";
                let best = here.filter(decided).max_by(|a, b| gain(a).total_cmp(&gain(b)));
                better.extend(best.filter(|c| gain(c) > 1.0 && gain(c) > own * 1.02));
            }
            better_elsewhere += better.len();
            for c in &better {
                let design = c["design"].as_str().expect("text");
                assert!(
                    better.len() > 3 || answer.contains(design) && answer.contains(&interval(c, " to ")),
                    "{design}\n{shown}"
                );
            }
        }

        // What is open of another design stands in the first sentence, what is open of the same one in the answer.
        for c in &open {
            let (design, workload) =
                (c["design"].as_str().expect("text"), c["workload"].as_str().expect("text"));
            let there = if c["design"] == told["design"] { &answer } else { first };
            left_out += usize::from(c["design"] != told["design"]);
            assert!(
                there.contains(design) && (there.contains(&interval(c, " to ")) || open.len() > 3),
                "{design}, {workload}\n{shown}"
            );
        }

        // Where the first sentence decides nothing, what is decided of another design is told.
        let decided = |c: &&&Value| c["conclusion"] == "faster" || c["conclusion"] == "slower";
        let elsewhere: Vec<&&Value> =
            compared.iter().filter(decided).filter(|c| c["design"] != told["design"]).collect();
        if conclusion == "inconclusive" && (1..=3).contains(&elsewhere.len()) {
            decided_elsewhere += 1;
            for c in elsewhere {
                let design = c["design"].as_str().expect("text");
                assert!(
                    answer.contains(&format!("{design} ")) && answer.contains(&interval(c, " to ")),
                    "{shown}"
                );
            }
        }

        // No figure of speed in the answer that no comparison has.
        for word in answer.split(" times").filter_map(|part| part.split(' ').next_back()) {
            if word.parse::<f64>().is_ok() {
                let known = compared.iter().any(|c| printed(c["ratio"].as_f64().expect("a number")) == word);
                assert!(known, "{word} is no ratio of a comparison\n{shown}");
            }
        }
    }
    assert!(
        undecided > 10 && undecided < 72,
        "{undecided} of 72 sessions are inconclusive: both kinds must occur"
    );
    assert!(
        too_few > 3 && latencies > 5 && left_out > 10 && decided_elsewhere > 0,
        "{too_few} {latencies} {left_out} {decided_elsewhere}"
    );
    assert!(unsure_of_itself > 0 && better_elsewhere > 2, "{unsure_of_itself} {better_elsewhere}");
}
