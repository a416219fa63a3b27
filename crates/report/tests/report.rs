//! The views of the report, on made-up sessions.
#![allow(clippy::disallowed_methods)]

use ebbtide_analysis::analyse;
use ebbtide_model::samples::{Below, DeviceObservation, Join, MemberObservation};
use ebbtide_model::session::{Ending, Outcome};
use ebbtide_model::shown::{is_control, one_line};
use ebbtide_model::testing::session::{self as fixture, Recipe};
use ebbtide_model::units::Bytes;
use ebbtide_report::{JsonOptions, Report, csv, html, json, markdown, text};
use proptest::prelude::*;
use serde_json::Value;

fn report(recipe: &Recipe) -> Report {
    let session = fixture::session(recipe);
    Report::new(&session, &analyse(&session))
}

/// Columns of the widest line.
fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn text_of_80_columns() {
    let text = text(&report(&Recipe::default()), 80, false);
    assert!(widest(&text) <= 80, "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn text_of_120_columns_says_more() {
    let text = text(&report(&Recipe { failure: true, ..Recipe::default() }), 120, false);
    assert!(widest(&text) <= 120, "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn markdown_is_the_answer_and_its_tables() {
    insta::assert_snapshot!(markdown(&report(&Recipe { failure: true, ..Recipe::default() })));
}

#[test]
fn latencies_of_reads_and_writes_stand_apart_and_trials_on_request() {
    let mut report = report(&Recipe::default());
    let page = text(&report, 120, false).into_string();
    let latencies = page.split("\nLatency: ").nth(1).expect("a section").split("\n\n").next().unwrap();
    let mixed: Vec<&str> = latencies.lines().filter(|line| line.contains("rand-mix   linear-8")).collect();
    assert!(mixed.len() == 2 && mixed[0].contains("read") && mixed[1].contains("write"), "{latencies}");
    assert!(mixed.iter().all(|line| line.matches('–').count() == 2), "both intervals: {latencies}");
    assert!(!page.contains("standard deviation"), "{page}");
    report.each_trial = true;
    let page = text(&report, 120, false).into_string();
    let told = page.split("\nEvery trial: ").nth(1).expect("a section");
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let of = told.split("linear-8, seq-read: ").nth(1).expect("is told");
    assert!(
        of.starts_with("throughput of 8 trials: mean ") && of.contains(", standard deviation "),
        "{told}"
    );
    let each = of.split(": ").nth(2).unwrap();
    assert_eq!(each.split(", ").take(8).filter(|figure| figure.contains("MB/s")).count(), 8, "{each}");
}

#[test]
fn colours_change_nothing_but_colours() {
    let report = report(&Recipe::default());
    let coloured = text(&report, 100, true);
    assert!(coloured.contains("\u{1b}[1m"));
    let mut bare = String::new();
    let mut rest = &*coloured;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        bare.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    bare.push_str(rest);
    assert_eq!(bare, text(&report, 100, false).into_string());
}

/// An interval that holds both 1 and a large difference is no agreement.
#[test]
fn the_control_is_the_same_differs_or_cannot_be_told() {
    let session = fixture::session(&Recipe::default());
    for (interval, same, on_page, in_text) in [
        ((0.99, 1.01), Some(true), "same", "(0.99–1.01)"),
        ((0.93, 1.39), None, "cannot tell", "(0.93–1.39, cannot tell)"),
        ((1.12, 1.39), Some(false), "differs", "(1.12–1.39, differs)"),
    ] {
        let mut analysis = analyse(&session);
        analysis.aa.iter_mut().for_each(|pair| (pair.interval, pair.same) = (Some(interval), same));
        let report = Report::new(&session, &analysis);
        let page = html(&report).to_string();
        let (_, table) = page.split_once("The control against itself").expect("a table");
        let (table, _) = table.split_once("</table>").expect("its end");
        assert!(table.contains(&format!(">{on_page}</span>")), "{table}");
        assert!(!table.contains(">yes<"), "{table}");
        let text = text(&report, 200, false).into_string();
        assert!(text.contains(in_text), "{text}");
    }
}

#[test]
fn json_has_the_promised_shape() {
    let value = json(&report(&Recipe { rounds: 8, members: 2, ..Recipe::default() }), JsonOptions::default());
    assert_eq!(value["schema"], "ebbtide.session/1");
    assert_eq!(value["results"].as_array().map(Vec::len), Some(2 * 4 * 4), "designs, workloads, metrics");
    insta::assert_snapshot!(serde_json::to_string_pretty(&one_of_each_shape(&value)).unwrap());
}

/// `value` with each kind of entry once in every list: its first of the same keys with values of the same types.
fn one_of_each_shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), one_of_each_shape(value))).collect()
        }
        Value::Array(entries) => {
            let mut shapes = Vec::new();
            let is_new = |entry: &&Value| {
                let shape = shape(entry);
                let is_new = !shapes.contains(&shape);
                shapes.push(shape);
                is_new
            };
            entries.iter().filter(is_new).map(one_of_each_shape).collect()
        }
        other => other.clone(),
    }
}

/// The keys of `value`, and the types of its values as empty ones.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        Value::Array(_) => one_of_each_shape(value).as_array().into_iter().flatten().map(shape).collect(),
        Value::String(_) => Value::from(""),
        Value::Number(_) => Value::from(0),
        Value::Bool(_) => Value::from(false),
        Value::Null => Value::Null,
    }
}

#[test]
fn json_adds_percentiles_and_series_when_asked() {
    let report = report(&Recipe { rounds: 2, failure: true, ..Recipe::default() });
    let value = json(&report, JsonOptions { percentiles: true, series: true });
    let trials = value["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2 * 12);
    assert_eq!(trials.iter().filter(|t| t["failed"].is_string()).count(), 1);
    let finished = trials.iter().find(|t| t["failed"].is_null()).unwrap();
    assert_eq!(finished["series"].as_array().map(Vec::len), Some(30));
    assert_eq!(finished["series"][0]["members_throughput"].as_array().map(Vec::len), Some(8));
    let p99 = &value["latencies"][0]["percentiles"]["99.000000"];
    assert!(p99.as_f64().is_some_and(|ns| ns > 0.0), "{p99}");
    assert!(value["results"][0]["ci_low"].is_null(), "two rounds have no interval");
}

#[test]
fn what_was_observed_is_in_every_view_that_shows_it() {
    let report = report(&Recipe { rounds: 2, ..Recipe::default() });
    let full = json(&report, JsonOptions { percentiles: true, series: true });
    let trial = &full["trials"][0];
    assert_eq!(trial["observed"]["devices"][0]["name"], "nvme0n1");
    assert_eq!(trial["observed"]["memory"]["pressure_some"], 30_000_000, "ns");
    assert_eq!(trial["cpu"]["busiest_thread_permille"], 140);
    let told = text(&report, 120, false);
    assert!(
        told.contains("nvme0n1 36.7%") && told.contains("also active: backup (pid 4711) on nvme0n1"),
        "{told}"
    );
    let page = html(&report);
    let section = between(&page, "<section id=\"seen\"", "</section>");
    for figure in
        ["13.0%", "14.0%", "nvme0n1", "36.7%", "6.44 GB", "3.15 MB", "backup (pid 4711)", "ens5", "1.00 MB/s"]
    {
        assert!(section.contains(figure), "{figure}: {section}");
    }
}

/// The made-up members on an array of two, which was there before.
#[test]
fn the_devices_of_an_array_below_are_in_every_view() {
    let mut session = fixture::session(&Recipe { rounds: 2, members: 2, ..Recipe::default() });
    for record in &mut session.trials {
        let Outcome::Samples(samples) = &mut record.outcome else { continue };
        let names: Vec<String> = samples.members.iter().map(|member| member.name.clone()).collect();
        let observed = samples.observed.as_mut().unwrap();
        let disk = observed.devices[0].clone();
        let on = |devices: &[usize], join| Some(Below { devices: devices.to_vec(), join, missing: 0 });
        let named = |name: &str, below| DeviceObservation { name: name.to_owned(), below, ..disk.clone() };
        let chunk = Some(Bytes(512 << 10));
        observed.devices = vec![
            named("md0", on(&[1, 2], Join::Stripe { chunk })),
            named("vdb", on(&[], Join::Other)),
            named("vdc", on(&[], Join::Other)),
        ];
        let member = |member| MemberObservation {
            member,
            devices: vec![0, 1, 2],
            below: on(&[0], Join::Through),
            ..MemberObservation::default()
        };
        observed.members = names.into_iter().map(member).collect();
    }
    let report = Report::new(&session, &analyse(&session));
    for width in [60, 80, 120] {
        let told = text(&report, width, false);
        assert!(told.contains("Below the members") && widest(&told) <= width, "{told}");
        assert!(told.contains("md0 (stripe of 2, chunk 512KiB)"), "{told}");
        let row = told.lines().find(|line| line.trim_start().starts_with("vdb ")).expect("a row");
        assert!(row.contains("50.0%"), "{row}");
    }
    let page = html(&report);
    let section = between(&page, "<section id=\"members\"", "</section>");
    assert!(section.contains("md0, stripe of 2, chunk 512KiB") && section.contains(">vdc<"), "{section}");
    let value = json(&report, JsonOptions::default());
    let below = &value["results"][0]["below"][0];
    assert_eq!((&below["name"], &below["join"]["kind"]), (&"md0".into(), &"stripe".into()), "{below}");
    assert_eq!(below["devices"][1]["name"], "vdc");
    assert_eq!(below["members"].as_array().map(Vec::len), Some(2));
}

#[test]
fn where_nobody_looked_no_view_says_anything_of_it() {
    let mut session = fixture::session(&Recipe { rounds: 1, members: 2, ..Recipe::default() });
    for record in &mut session.trials {
        if let Outcome::Samples(samples) = &mut record.outcome {
            samples.observed = None;
        }
    }
    let report = Report::new(&session, &analyse(&session));
    assert!(!text(&report, 80, false).contains("Seen around"));
    assert!(!html(&report).contains("id=\"seen\""));
    let full = json(&report, JsonOptions { percentiles: true, series: true });
    assert!(full["trials"][0]["observed"].is_null());
}

#[test]
fn csv_has_a_row_for_each_trial_and_metric() {
    let text = csv(&report(&Recipe { rounds: 2, failure: true, ..Recipe::default() }));
    assert_eq!(text.matches("\r\n").count(), 1 + 2 * 12 * 4);
    let start: String = text.lines().take(9).map(|line| format!("{line}\n")).collect();
    insta::assert_snapshot!(start);
}

#[test]
fn csv_quotes_what_users_write() {
    let report = report(&Recipe { rounds: 1, prefix: "a,\"b\"\r\n".to_owned(), ..Recipe::default() });
    let text = csv(&report);
    assert!(text.contains(",\"a,\"\"b\"\"\r\nlinear-8\","), "{}", &text[..400]);
}

#[test]
fn a_session_without_a_single_trial_has_every_view() {
    let report = report(&Recipe { rounds: 0, ..Recipe::default() });
    assert_eq!(report.answer, ["No trial has finished, so there is no answer."]);
    assert!(text(&report, 80, false).contains("No trial has finished"));
    assert_eq!(csv(&report).lines().count(), 1);
    assert_eq!(json(&report, JsonOptions::default())["session"]["rounds"], 0);
}

#[test]
fn indices_that_the_experiment_does_not_have_are_dashes() {
    let mut session = fixture::session(&Recipe { rounds: 1, ..Recipe::default() });
    let analysis = analyse(&session);
    session.trials[0].trial.design = 99;
    session.trials[1].trial.workload = 99;
    session.experiment.control = 99;
    session.meta.ending = Ending::Failed("the store was cut".to_owned());
    let report = Report::new(&session, &analysis);
    assert!(csv(&report).contains(",–,"));
    let told = text(&report, 80, false).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("failed: the store was cut"), "{told}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_name_gives_json_that_parses_and_text_that_fits(prefix in "\\PC{0,12}", control in "[\\x00-\\x1f\\u{7f}-\\u{9f}\u{202e}\u{2066}\"\\\\<&|`*_]{0,4}", width in 40usize..200) {
        let prefix = format!("{prefix}{control}");
        let report = report(&Recipe { rounds: 1, members: 2, prefix: prefix.clone(), failure: false });
        let written = json(&report, JsonOptions { percentiles: true, series: true }).to_string();
        let read: serde_json::Value = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(&read["results"][0]["design"], &serde_json::Value::from(format!("{prefix}linear-2")));
        let harmful = |text: &str| text.replace(['\n', '\t'], "").contains(is_control);
        prop_assert!(!harmful(&text(&report, width, false)));
        prop_assert!(!harmful(&html(&report)));
        let pasted = markdown(&report);
        prop_assert!(!harmful(&pasted) && !pasted.contains(['<', '>']), "{}", pasted);
        let blocks: Vec<&str> = pasted.split("\n\n").collect();
        let tables = blocks.iter().filter(|block| block.starts_with("| "));
        for row in tables.clone().flat_map(|table| table.lines().map(move |row| (cells(row), cells(table), row))) {
            prop_assert_eq!(row.0, row.1, "{}", row.2);
        }
        let name = one_line(&prefix).trim().to_owned();
        prop_assert!(tables.count() >= 2 && seen(&pasted).contains(&name), "{} in {}", name, pasted);
    }
}

/// Cells of the first row of `table`, as GitHub splits it: at each bar that no backslash stands before.
fn cells(table: &str) -> usize {
    let row = table.lines().next().unwrap_or_default();
    let mut bars = 0;
    let mut signs = row.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => drop(signs.next()),
            '|' => bars += 1,
            _ => {}
        }
    }
    bars
}

/// `text` as a reader of its page sees it.
fn seen(text: &str) -> String {
    let (mut out, mut signs) = (String::new(), text.chars());
    while let Some(sign) = signs.next() {
        out.extend(if sign == '\\' { signs.next() } else { Some(sign) });
    }
    out.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// Whether the markup is well formed as far as a reader of tags can tell: every element that is opened is closed.
fn assert_balanced(page: &str) {
    const VOID: [&str; 4] = ["meta", "link", "input", "!DOCTYPE"];
    let body = page.replace(&between(page, "<style>", "</style>"), "");
    let body = body.replace(&between(&body, "<script>", "</script>"), "");
    let mut open: Vec<&str> = Vec::new();
    for part in body.split('<').skip(1) {
        let tag = part.split('>').next().unwrap_or_default();
        let name = tag.split([' ', '/']).find(|n| !n.is_empty()).unwrap_or_default();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "closed in {:?}", part.chars().take(80).collect::<String>());
        } else if !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

fn between(text: &str, start: &str, end: &str) -> String {
    text.split_once(start)
        .and_then(|(_, rest)| rest.split_once(end))
        .map_or(String::new(), |(t, _)| t.to_owned())
}

#[test]
fn html_escapes_every_name() {
    let evil = "<script>alert(1)</script>\"'&<img src=x onerror=alert(2)>";
    let mut session =
        fixture::session(&Recipe { rounds: 8, members: 2, failure: true, prefix: evil.to_owned() });
    session.meta.host.hostname = evil.to_owned();
    session.meta.warnings.push(evil.to_owned());
    session.meta.inventory.notes.push(evil.to_owned());
    session.experiment.description = Some(evil.to_owned());
    session.experiment_text = evil.to_owned();
    let page = html(&Report::new(&session, &analyse(&session)));
    assert_eq!(page.matches("<script>").count(), 1, "only our own");
    assert!(!page.contains("<img"));
    assert!(!page.contains(&format!("\"{evil}")));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&quot;"));
    assert_balanced(&page);
}

/// What a button is called by those who hear it contains what others read (WCAG 2.5.3).
#[test]
fn a_button_is_called_what_it_shows() {
    let page = html(&report(&Recipe::default()));
    for button in page.split("<button").skip(1) {
        let (attributes, rest) = button.split_once('>').unwrap();
        let shown = rest.split("</button>").next().unwrap();
        let named = attributes.split_once("aria-label=\"").and_then(|(_, name)| name.split('"').next());
        assert!(named.is_none_or(|name| name.contains(shown)), "{attributes}: {shown}");
    }
}

#[test]
fn html_asks_for_nothing() {
    let page = html(&report(&Recipe { rounds: 8, ..Recipe::default() }));
    assert!(page.contains("default-src 'none'"));
    for address in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!page.contains(address), "{address}");
    }
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn html_of_little_leaves_sections_out() {
    for rounds in [0, 1] {
        let page = html(&report(&Recipe { rounds, ..Recipe::default() }));
        assert_balanced(&page);
        assert!(page.contains("id=\"environment\""));
        assert_eq!(page.contains("id=\"time\""), rounds > 0);
        assert!(!page.contains("NaN") && !page.contains(">inf"));
    }
}

#[test]
fn html_of_many_designs_tells_them_apart() {
    let mut session = fixture::session(&Recipe { rounds: 8, members: 2, ..Recipe::default() });
    let copies: Vec<_> = (0..12)
        .map(|n| {
            let mut design = session.experiment.designs[1].clone();
            design.name = format!("variant-{n}");
            design
        })
        .collect();
    session.experiment.designs.extend(copies);
    for record in session.trials.clone() {
        if record.trial.design == 1 && record.trial.workload == 0 {
            for design in 2..session.experiment.designs.len() {
                let mut copy = record.clone();
                copy.trial.design = design;
                session.trials.push(copy);
            }
        }
    }
    let page = html(&Report::new(&session, &analyse(&session)));
    let mut classes: Vec<&str> =
        page.split("class=\"key ").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    classes.sort_unstable();
    classes.dedup();
    assert_eq!(classes.len(), session.experiment.designs.len(), "{classes:?}");
    assert_balanced(&page);
}
