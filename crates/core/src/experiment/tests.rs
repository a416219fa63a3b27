use super::*;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;

const FIRST_RUN: &str = include_str!("../../../../experiments/first-run.toml");
const SHIPPED_SCHEMA: &str = include_str!("../../../../experiments/experiment.schema.json");
const EVERY_KEY: &str = include_str!("testdata/every-key.toml");

fn good(text: &str) -> Experiment {
    Experiment::parse(text, "test.toml").unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn the_first_run_is_what_its_readers_are_told() {
    let experiment = good(FIRST_RUN);
    assert_eq!(experiment.volumes.len(), 8);
    assert_eq!(experiment.designs[experiment.control].name, "linear-8");
    let summary = experiment.summary();
    assert_eq!(summary.new_file_bytes, 2 << 30);
    assert_eq!(summary.notes, Vec::<String>::new());
    assert!(summary.longest_ns.is_some_and(|ns| ns <= 120 * Nanos::PER_SECOND), "{:?}", summary.longest_ns);
    // Every member of the stripe is busy: a whole stripe row fits into what is in flight.
    for workload in &experiment.workloads {
        assert!(workload.bs.0 * u64::from(workload.iodepth) >= 8 * 64 * Bytes::KIB, "{}", workload.name);
    }
}

#[test]
fn every_key_reaches_the_model() {
    insta::assert_debug_snapshot!(good(EVERY_KEY));
}

#[test]
fn a_summary_says_what_would_happen() {
    insta::assert_snapshot!(good(EVERY_KEY).summary());
}

/// Keys that the schema knows, by the definition they stand in, names that users choose left out.
fn schema_keys(schema: &Value) -> BTreeSet<String> {
    let definitions =
        schema["definitions"].as_object().into_iter().flatten().map(|(_, definition)| definition);
    definitions
        .chain([schema])
        .filter_map(|definition| definition["properties"].as_object())
        .flat_map(|properties| properties.keys().cloned())
        .collect()
}

/// Keys of the file, wherever they stand; values below `volumes` and the like have one level of names.
fn file_keys(value: &toml::Value, keys: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                keys.insert(key.clone());
                file_keys(value, keys);
            }
        }
        toml::Value::Array(values) => values.iter().for_each(|value| file_keys(value, keys)),
        _ => {}
    }
}

#[test]
fn the_test_file_has_every_key_of_the_schema() {
    let mut keys = BTreeSet::new();
    file_keys(
        &EVERY_KEY.parse().map(toml::Value::Table).unwrap_or_else(|error| panic!("{error}")),
        &mut keys,
    );
    let missing: Vec<String> = schema_keys(&json_schema()).difference(&keys).cloned().collect();
    assert_eq!(missing, Vec::<String>::new(), "add them to testdata/every-key.toml");
}

#[test]
fn the_shipped_schema_is_the_one_of_the_code() {
    let shipped: Value = serde_json::from_str(SHIPPED_SCHEMA).unwrap_or_default();
    assert!(
        shipped == json_schema(),
        "run: cargo run -q -p ebbtide -- experiment schema > experiments/experiment.schema.json"
    );
}

/// The part of JSON Schema that our schema uses, except patterns; the first disagreement, if any.
fn disagreement(schema: &Value, value: &Value, root: &Value, path: &str) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#'));
        return disagreement(target.unwrap_or(&Value::Bool(false)), value, root, path);
    }
    if schema == &Value::Bool(false) {
        return Some(format!("{path}: nothing is allowed here"));
    }
    if let Some(variants) = schema["anyOf"].as_array() {
        let found: Vec<String> =
            variants.iter().map_while(|variant| disagreement(variant, value, root, path)).collect();
        if found.len() == variants.len() {
            return Some(found.join(" and "));
        }
    }
    let kind = match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        _ => "integer",
    };
    let allowed: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec![kind],
    };
    if !allowed.iter().any(|allowed| *allowed == kind || (*allowed == "number" && kind == "integer")) {
        return Some(format!("{path}: {kind} instead of {allowed:?}"));
    }
    if let Some(choices) = schema["enum"].as_array().filter(|choices| !choices.contains(value)) {
        return Some(format!("{path}: {value} is not one of {choices:?}"));
    }
    if let (Some(number), Some(least)) = (value.as_f64(), schema["minimum"].as_f64())
        && number < least
    {
        return Some(format!("{path}: {number} < {least}"));
    }
    if let (Some(number), Some(most)) = (value.as_f64(), schema["maximum"].as_f64())
        && number > most
    {
        return Some(format!("{path}: {number} > {most}"));
    }
    if let Some(values) = value.as_array() {
        return values.iter().find_map(|element| disagreement(&schema["items"], element, root, path));
    }
    let object = value.as_object()?;
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|key| !object.contains_key(*key)) {
        return Some(format!("{path}: no {missing}"));
    }
    object.iter().find_map(|(key, value)| {
        let inner = schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]);
        disagreement(inner, value, root, &format!("{path}.{key}"))
    })
}

fn schema_disagreement(text: &str) -> Option<String> {
    let value: toml::Table = text.parse().unwrap_or_else(|error| panic!("{error}"));
    let value = serde_json::to_value(value).unwrap_or_default();
    let schema = json_schema();
    disagreement(&schema, &value, &schema, "")
}

#[test]
fn the_schema_accepts_what_the_parser_accepts() {
    assert_eq!(schema_disagreement(FIRST_RUN), None);
    assert_eq!(schema_disagreement(EVERY_KEY), None);
}

#[test]
fn the_schema_refuses_unknown_and_missing_keys() {
    let wrong = [
        ("iodepth = 16", "io_depth = 16", "io_depth"),
        ("layout = \"stripe\"", "layout = \"raid0\"", "raid0"),
        ("rw = \"read\"\n", "", "no rw"),
        ("iops = 1000 ", "iops = \"1000\"", "iops"),
        ("[designs.stripe-8]", "[design.stripe-8]", "design"),
    ];
    for (from, to, expected) in wrong {
        assert!(FIRST_RUN.contains(from), "{from}");
        let found = schema_disagreement(&FIRST_RUN.replace(from, to)).unwrap_or_default();
        assert!(found.contains(expected), "{to}: {found}");
    }
}

#[test]
fn defaults_are_those_of_the_documentation() {
    let text = "name = \"n\"\n[volumes.a]\nsize = \"1MiB\"\n[volumes.b]\nsize = \"1MiB\"\n\
                [designs.s]\nlayout = \"stripe\"\nmembers = [\"a\", \"b\"]\n\
                [workloads.w]\nrw = \"randrw\"\nruntime = \"1s\"\n";
    insta::assert_debug_snapshot!(good(text));
}

#[test]
fn mistakes_are_independent() {
    let text = FIRST_RUN
        .replace("count = 8", "count = 0")
        .replace("rw = \"read\"", "rw = \"raed\"")
        .replace("level = 0.95", "level = 95");
    let errors = Experiment::parse(&text, "x.toml").expect_err("three mistakes");
    let messages: Vec<String> = errors.errors.iter().map(|error| error.problem.to_string()).collect();
    // The members of volumes whose count is wrong are not reported as unknown.
    assert_eq!(messages.len(), 3, "{errors}");
}

/// The good file, damaged: pieces dropped, doubled, swapped, or with text from elsewhere put in.
fn damaged() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..6u8, "\\PC{0,6}");
    let good = prop::sample::select(vec![FIRST_RUN, EVERY_KEY]);
    (good, prop::collection::vec(edit, 1..4)).prop_map(|(good, edits)| {
        let mut text: Vec<char> = good.chars().collect();
        for (at, other, kind, insert) in edits {
            if text.is_empty() {
                break;
            }
            let (at, other) = (at.index(text.len()), other.index(text.len()));
            let (low, high) = (at.min(other), at.max(other));
            match kind {
                0 => drop(text.drain(low..high.min(low + 200))),
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

/// Each value of the good file replaced by another kind of value.
fn with_strange_values() -> impl Strategy<Value = String> {
    let strange = prop::sample::select(vec![
        "0",
        "-1",
        "1e300",
        "nan",
        "inf",
        "99999999999999999999",
        "0x7fffffffffffffff",
        "true",
        "\"\"",
        "\"0\"",
        "\"18446744073709551615\"",
        "\"99999999TiB\"",
        "[]",
        "[[]]",
        "{}",
        "[{}]",
        "1979-05-27",
        "\"vol[0..4294967295]\"",
        "[\"vol[4294967295..4294967295]\"]",
        "[\"*\", \"*\"]",
        "{ rate = 1, burst = 2, credits = 0 }",
    ]);
    let good = prop::sample::select(vec![FIRST_RUN, EVERY_KEY]);
    (good, any::<prop::sample::Index>(), strange).prop_map(|(good, index, strange)| {
        let lines: Vec<&str> = good.lines().collect();
        let assignments: Vec<usize> = (0..lines.len())
            .filter(|i| lines[*i].contains(" = ") && !lines[*i].starts_with([' ', '#']))
            .collect();
        let chosen = assignments[index.index(assignments.len())];
        let key = lines[chosen].split(" = ").next().unwrap_or("");
        let replaced = format!("{key} = {strange}");
        let lines: Vec<&str> = lines
            .iter()
            .enumerate()
            .map(|(i, line)| if i == chosen { replaced.as_str() } else { line })
            .collect();
        lines.join("\n")
    })
}

fn check_errors(text: &str) -> Result<(), TestCaseError> {
    match Experiment::parse(text, "x.toml") {
        Ok(experiment) => {
            let _ = experiment.summary().to_string();
        }
        Err(errors) => {
            prop_assert!(!errors.errors.is_empty());
            for error in &errors.errors {
                let line = text.split('\n').nth(error.line - 1).map(|line| line.trim_end_matches('\r'));
                prop_assert_eq!(line, Some(error.source_line.as_str()));
                prop_assert!(error.column <= error.source_line.chars().count() + 1);
                prop_assert!(!error.problem.remedy().is_empty());
            }
            prop_assert!(errors.to_string().starts_with("x.toml:"));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        check_errors(&text)?;
    }

    #[test]
    fn damage_is_reported_where_it_is(text in damaged()) {
        check_errors(&text)?;
    }

    #[test]
    fn strange_values_are_reported_where_they_are(text in with_strange_values()) {
        check_errors(&text)?;
    }
}
