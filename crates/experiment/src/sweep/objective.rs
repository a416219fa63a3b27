//! `objective`: what makes a design good.

use crate::answer;
use crate::error::{Mistake, Problem};
use crate::names::{self, choose};
use crate::problems::{Problems, Span};
use crate::read::FromToml;
use ebbtide_model::metric::Metric;
use ebbtide_model::sweep::{Goal, Limit, Objective};
use ebbtide_model::units::{Bytes, Nanos, format_number};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const EXAMPLE: &str = "write for example \"iops\", { most = \"iops\", while = \"lat_p99 <= 5ms\" }, \
                       { pareto = [\"throughput\", \"lat_p99\"] } or { weights = { iops = 1, lat_p99 = 0.5 } }";
const KEYS: &[&str] = &["most", "least", "while", "pareto", "weights"];
/// Largest weight: a figure to a higher power is noise.
const WEIGHT_MAX: f64 = 100.0;

/// An objective as it is written.
#[derive(Debug)]
pub(crate) struct RawObjective(pub Objective);

impl FromToml for RawObjective {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        match value {
            DeValue::String(name) => {
                goal(name, span, problems).map(|goal| RawObjective(Objective::Best(goal)))
            }
            DeValue::Table(table) => table_of(table, span, problems).map(RawObjective),
            _ => {
                problems.wrong_type(span, "an objective", value, EXAMPLE);
                None
            }
        }
    }
}

/// The goals that `objective` has.
pub(super) fn goals(objective: &Objective) -> Vec<Goal> {
    match objective {
        Objective::Best(goal) => vec![*goal],
        Objective::Within { best, limits } => {
            std::iter::once(*best).chain(limits.iter().map(|limit| limit.of)).collect()
        }
        Objective::Weighted(weights) => weights.iter().map(|(goal, _)| *goal).collect(),
        Objective::Pareto(goals) => goals.clone(),
    }
}

/// What is wrong where prices alone, which are known, decide everything, or leave no design to be measured; `cheapest` is the first
/// of the designs that cost least, and what it costs.
pub(super) fn known_from_prices(objective: &Objective, (name, least): (&str, f64)) -> Option<Problem> {
    if goals(objective).iter().all(|goal| *goal == Goal::Price) {
        let what = format!(
            "a price is known without a trial, and nothing else is asked for: {name} costs least, ${least:.2} a month"
        );
        let remedy = "write what it has to do for its price, for example `objective = { least = \"price\", while = \"iops >= 3000\" }`";
        return Some(Mistake::Sweep(what).with(remedy));
    }
    let Objective::Within { limits, .. } = objective else { return None };
    let limit = limits.iter().find(|limit| limit.of == Goal::Price && !limit.keeps(least))?;
    let what = format!(
        "no design costs at most ${}: {name} costs least, ${least:.2} a month, and a price is known without a trial",
        limit.bound
    );
    // Rounded up: the bound that is proposed has to be kept.
    let bound = format_number((least * 100.0).ceil() / 100.0);
    Some(Mistake::Sweep(what).with(format!("write \"price <= {bound}\" or more, or order other volumes")))
}

fn goal(name: &str, span: &Span, problems: &mut Problems) -> Option<Goal> {
    if name == Goal::Price.name() {
        return Some(Goal::Price);
    }
    let found = answer::metric_called(name).map(Goal::Measured);
    if found.is_none() {
        let known = Metric::ALL.map(Metric::name);
        let known: Vec<&str> = known.into_iter().chain([Goal::Price.name()]).collect();
        let mistake = Mistake::UnknownChoice { what: "objective", found: name.to_owned() };
        problems.report(span, mistake, choose(name, &known));
    }
    found
}

fn goal_of(value: &Spanned<DeValue<'_>>, problems: &mut Problems) -> Option<Goal> {
    let name = String::from_toml(value.get_ref(), &value.span(), problems)?;
    goal(&name, &value.span(), problems)
}

fn table_of(table: &DeTable<'_>, span: &Span, problems: &mut Problems) -> Option<Objective> {
    let before = problems.count();
    for (key, _) in table.iter().filter(|(key, _)| !KEYS.contains(&key.get_ref().as_ref())) {
        problems.add(&key.span(), names::unknown_key(key.get_ref(), "`objective`", KEYS));
    }
    let kinds: Vec<&'static str> =
        KEYS.iter().copied().filter(|key| *key != "while" && table.contains_key(*key)).collect();
    let [kind] = kinds[..] else {
        if let [first, second, ..] = kinds[..] {
            problems.report(span, Mistake::Conflict { first, second }, EXAMPLE);
        } else if problems.count() == before {
            problems.report(span, Mistake::Nothing("the objective says nothing".to_owned()), EXAMPLE);
        }
        return None;
    };
    let limits = table.get("while").map(|value| limits(value, problems));
    if let (true, Some(at)) = (matches!(kind, "pareto" | "weights"), table.get("while")) {
        let why = format!("it goes with `most` or `least`, not with `{kind}`");
        problems.pointless(&at.span(), "while", why, "remove it");
    }
    let value = &table[kind];
    let objective = match kind {
        "pareto" => pareto(value, problems),
        "weights" => weights(value, problems),
        _ => goal_of(value, problems).and_then(|best| {
            let right = if best.lower_is_better() { "least" } else { "most" };
            if right != kind {
                let what = format!("{kind} {} would choose the worst design", best.name());
                problems.report(
                    &value.span(),
                    Mistake::Sweep(what),
                    format!("write `{right} = \"{}\"`", best.name()),
                );
            }
            match limits {
                None => Some(Objective::Best(best)),
                Some(limits) => limits.map(|limits| Objective::Within { best, limits }),
            }
        }),
    };
    objective.filter(|_| problems.count() == before)
}

fn pareto(value: &Spanned<DeValue<'_>>, problems: &mut Problems) -> Option<Objective> {
    let DeValue::Array(values) = value.get_ref() else {
        let remedy = "write for example `pareto = [\"throughput\", \"lat_p99\"]`";
        problems.wrong_type(&value.span(), "a list of figures", value.get_ref(), remedy);
        return None;
    };
    let goals: Vec<Goal> = values.iter().filter_map(|value| goal_of(value, problems)).collect();
    let twice = goals.iter().enumerate().find(|(index, goal)| goals[..*index].contains(goal));
    if let Some((_, goal)) = twice {
        let mistake = Mistake::Duplicate { what: "the figure", name: goal.name().to_owned() };
        problems.report(&value.span(), mistake, "write each figure once");
    } else if values.len() < 2 {
        let remedy = "write two or more, or the one figure as `objective = \"iops\"`";
        problems.report(&value.span(), Mistake::Sweep("a front has at least two figures".to_owned()), remedy);
    }
    Some(Objective::Pareto(goals))
}

fn weights(value: &Spanned<DeValue<'_>>, problems: &mut Problems) -> Option<Objective> {
    let DeValue::Table(table) = value.get_ref() else {
        let remedy = "write for example `weights = { iops = 1, lat_p99 = 0.5 }`";
        problems.wrong_type(&value.span(), "a table of weights", value.get_ref(), remedy);
        return None;
    };
    let mut weights = Vec::new();
    for (key, value) in table {
        let goal = goal(key.get_ref(), &key.span(), problems);
        let weight = f64::from_toml(value.get_ref(), &value.span(), problems);
        if let Some(weight) = weight.filter(|weight| !(*weight > 0.0 && *weight <= WEIGHT_MAX)) {
            let remedy = "write for example 1; less of a latency or a price is better by itself";
            let range = format!("more than 0 and at most {WEIGHT_MAX}");
            problems.out_of_range(&value.span(), "weight", weight, range, remedy);
        }
        weights.extend(goal.zip(weight));
    }
    weights.sort_by_key(|(goal, _)| Metric::ALL.iter().position(|metric| Goal::Measured(*metric) == *goal));
    if table.is_empty() {
        problems.report(&value.span(), Mistake::Nothing("there are no weights".to_owned()), EXAMPLE);
    }
    Some(Objective::Weighted(weights))
}

/// One limit, or a list of them.
fn limits(value: &Spanned<DeValue<'_>>, problems: &mut Problems) -> Option<Vec<Limit>> {
    let one = |value: &Spanned<DeValue<'_>>, problems: &mut Problems| {
        let span = value.span();
        let text = String::from_toml(value.get_ref(), &span, problems)?;
        match limit(&text) {
            Ok(limit) => Some(limit),
            Err(problem) => {
                problems.add(&span, problem);
                None
            }
        }
    };
    match value.get_ref() {
        DeValue::Array(values) if values.is_empty() => {
            let remedy = "write for example `while = \"lat_p99 <= 5ms\"`, or remove it";
            problems.report(&value.span(), Mistake::Nothing("there are no limits".to_owned()), remedy);
            None
        }
        DeValue::Array(values) => {
            let limits: Vec<_> = values.iter().map(|value| one(value, problems)).collect();
            limits.into_iter().collect()
        }
        _ => one(value, problems).map(|limit| vec![limit]),
    }
}

/// `FIGURE <= BOUND` where less is better, otherwise `FIGURE >= BOUND`.
fn limit(text: &str) -> Result<Limit, Problem> {
    const REMEDY: &str = "write for example \"lat_p99 <= 5ms\", \"iops >= 3000\", \"throughput >= 100MB/s\" or \"price <= 200\" (US dollars a month)";
    let wrong = |what: String| Mistake::Sweep(what).with(REMEDY);
    let parts = text.split_once("<=").map(|parts| (parts, true));
    let parts = parts.or_else(|| text.split_once(">=").map(|parts| (parts, false)));
    let Some(((name, bound), at_most)) = parts else {
        return Err(wrong(format!("`{text}` is no limit")));
    };
    let (name, bound) = (name.trim(), bound.trim());
    let mut problems = Problems::default();
    let Some(of) = goal(name, &(0..0), &mut problems) else {
        return Err(wrong(format!("`{text}` limits something that is not measured, `{name}`")));
    };
    if at_most != of.lower_is_better() {
        let (sign, what) = if of.lower_is_better() { ("<=", "less") } else { (">=", "more") };
        let mistake = Mistake::Sweep(format!("of {name} {what} is better"));
        return Err(mistake.with(format!("write \"{name} {sign} {bound}\"")));
    }
    let number = || bound.replace('_', "").parse::<f64>().ok();
    let value = match of {
        Goal::Measured(Metric::LatP50 | Metric::LatP99 | Metric::Time) => {
            bound.parse::<Nanos>().ok().map(|time| time.0 as f64)
        }
        Goal::Measured(Metric::Throughput) => {
            bound.strip_suffix("/s").and_then(|rate| rate.parse::<Bytes>().ok()).map(|rate| rate.0 as f64)
        }
        Goal::Measured(Metric::Iops | Metric::Own(_)) | Goal::Price => number(),
    };
    match value.filter(|value| value.is_finite() && *value > 0.0) {
        Some(bound) => Ok(Limit { of, bound }),
        None => Err(wrong(format!("`{bound}` is no bound of {name}"))),
    }
}

impl JsonSchema for RawObjective {
    fn schema_name() -> Cow<'static, str> {
        "Objective".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let goals: Vec<&str> =
            Metric::ALL.into_iter().map(Metric::name).chain([Goal::Price.name()]).collect();
        let goal = serde_json::json!({ "type": "string", "enum": goals });
        let weight = serde_json::json!({ "type": "number", "minimum": 0, "maximum": WEIGHT_MAX });
        json_schema!({
            "description": "What makes a design good: a figure, the most or least of one while limits are kept, a front of several, or \
                            the product of several to the powers of their weights",
            "anyOf": [
                goal,
                {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "most": goal,
                        "least": goal,
                        "while": { "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] },
                        "pareto": { "type": "array", "minItems": 2, "items": goal },
                        "weights": { "type": "object", "minProperties": 1, "additionalProperties": weight }
                    }
                }
            ]
        })
    }
}
