//! One design of a sweep as an experiment of its own.

use super::condition::Condition;
use super::vary::Vary;
use super::{OF_WORKLOAD, label_at};
use crate::problems::Problems;
use crate::read::FromToml;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::sweep::SweptDesign;
use std::collections::{BTreeMap, BTreeSet};
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// Whether the text is that of an experiment with a sweep.
pub fn is_sweep(text: &str) -> bool {
    DeTable::parse(text).is_ok_and(|file| file.get_ref().contains_key("sweep"))
}

/// The text of the experiment `text`, which was read as `experiment`, with the sweep's design number `design` written out in place of all
/// designs, and the workload as it was for that. Comments are not kept, and keys come in alphabetical order. Nothing where it has no
/// such design of a sweep.
pub fn alone(text: &str, experiment: &Experiment, design: usize) -> Option<String> {
    let sweep = experiment.sweep.as_ref()?;
    let arm = sweep.arm(design)?;
    let parsed = DeTable::parse(text).ok()?;
    let file = parsed.get_ref();
    let vary = file.get("sweep")?.get_ref().get("vary")?;
    let Vary(factors) = Vary::from_toml(vary.get_ref(), &vary.span(), &mut Problems::default())?;
    let with_levels = |fields: &DeTable<'_>, of_workload: bool| {
        let mut fields = plain_table(fields);
        for (factor, level) in factors.iter().zip(&arm.levels) {
            let path = match factor.name.strip_prefix(OF_WORKLOAD) {
                Some(path) if of_workload => path,
                None if !of_workload => factor.name.as_str(),
                _ => continue,
            };
            match level.and_then(|level| factor.levels.get(level)) {
                None => remove(&mut fields, path),
                Some(level) => {
                    let value = plain(level.value.toml().get_ref());
                    let value = if path == "members" { members(value, experiment, arm) } else { value };
                    insert(&mut fields, path, value);
                }
            }
        }
        fields
    };
    let mut whole = plain_table(file);
    whole.remove("sweep");
    let template = file.get("designs")?.get_ref().get(sweep.template.as_str())?.get_ref().as_table()?;
    let fields = with_levels(template, false);
    whole.insert(
        "designs".to_owned(),
        Value::Table(Table::from_iter([(sweep.template.clone(), fields.into())])),
    );
    let workload = &experiment.workloads.get(sweep.workload)?.name;
    let written = file.get("workloads").and_then(|all| all.get_ref().get(workload.as_str()));
    if let (Some(written), Some(Value::Table(workloads))) =
        (written.and_then(|written| written.get_ref().as_table()), whole.get_mut("workloads"))
    {
        workloads.insert(workload.clone(), with_levels(written, true).into());
    }
    let value = |field: &str| match factors.iter().zip(&arm.levels).find(|(factor, _)| factor.name == field) {
        Some((factor, level)) => level.and_then(|level| factor.levels.get(level)).map(|l| l.label.clone()),
        None => label_at(template, field),
    };
    match planted(file, value) {
        Some(effects) if !effects.is_empty() => drop(whole.insert("effects".to_owned(), effects.into())),
        _ => drop(whole.remove("effects")),
    }
    if let Some(Value::Table(answer)) = whole.get_mut("answer") {
        answer.remove("control");
    }
    toml::to_string(&whole).ok()
}

/// The effects that are those of a design with these values of its fields, asked of that design. A field that only the effects of others
/// name has one that changes nothing: else a simulation would have no word about it.
fn planted(file: &DeTable<'_>, value: impl Fn(&str) -> Option<String>) -> Option<Vec<Value>> {
    let effects = file.get("effects")?.get_ref().as_array()?;
    // What is no field of the only design any more, or is written in it in other words.
    let stays = |field: &str| !field.starts_with(OF_WORKLOAD) && field != "members";
    let (mut kept, mut named, mut told) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    for effect in effects {
        let table = effect.get_ref().as_table()?;
        let condition = table.get("where")?;
        let condition =
            Condition::from_toml(condition.get_ref(), &condition.span(), &mut Problems::default())?;
        let fields = condition.0.iter().map(|field| &field.name).filter(|field| stays(field));
        let mut here: BTreeMap<String, String> =
            fields.filter_map(|field| Some((field.clone(), value(field)?))).collect();
        named.extend(here.clone());
        if condition.holds(&value) {
            told.extend(here.keys().cloned());
            if here.is_empty() {
                here.insert("layout".to_owned(), value("layout")?);
            }
            let mut effect = plain_table(table);
            effect.insert("where".to_owned(), condition_of(here));
            kept.push(effect.into());
        }
    }
    named.retain(|field, _| !told.contains(field));
    if !named.is_empty() {
        let nothing = [("where".to_owned(), condition_of(named)), ("rate".to_owned(), Value::Float(1.0))];
        kept.push(Value::Table(nothing.into_iter().collect()));
    }
    Some(kept)
}

fn condition_of(fields: BTreeMap<String, String>) -> Value {
    Value::Table(fields.into_iter().map(|(field, value)| (field, Value::String(value))).collect())
}

/// A number of members as their names.
fn members(value: Value, experiment: &Experiment, arm: &SweptDesign) -> Value {
    let Some(design) = experiment.designs.get(arm.design).filter(|_| value.is_integer()) else {
        return value;
    };
    let names = design.layout.volumes().into_iter().filter_map(|volume| experiment.volumes.get(volume));
    Value::Array(names.map(|volume| Value::String(volume.name.clone())).collect())
}

fn insert(table: &mut Table, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(table.insert(path.to_owned(), value)),
        Some((first, rest)) => {
            let inner = table.entry(first).or_insert_with(|| Table::new().into());
            if !inner.is_table() {
                *inner = Table::new().into();
            }
            if let Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

fn remove(table: &mut Table, path: &str) {
    match path.split_once('.') {
        None => drop(table.remove(path)),
        Some((first, rest)) => {
            if let Some(Value::Table(inner)) = table.get_mut(first) {
                remove(inner, rest);
            }
        }
    }
}

fn plain_table(table: &DeTable<'_>) -> Table {
    table.iter().map(|(key, value)| (key.get_ref().to_string(), plain(value.get_ref()))).collect()
}

fn plain(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        // What TOML cannot hold as a number was refused when the file was read.
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::String(number.to_string()), Value::Integer),
        DeValue::Float(number) => {
            number.as_str().parse().map_or_else(|_| Value::String(number.to_string()), Value::Float)
        }
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(date) => Value::Datetime(*date),
        DeValue::Array(values) => Value::Array(values.iter().map(|value| plain(value.get_ref())).collect()),
        DeValue::Table(table) => Value::Table(plain_table(table)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use ebbtide_model::experiment::Environment;

    /// What is planted for it goes with the winner, what is planted for other levels does not, and no field is left of which a
    /// simulation would know nothing.
    #[test]
    fn its_effects_go_with_it() {
        for text in [
            include_str!("../../../../experiments/heroku-sweep.toml"),
            include_str!("../testdata/sweep.toml"),
        ] {
            let experiment = parse(text, "sweep.toml").expect("is right");
            let before = &experiment.environment;
            for arm in &experiment.sweep.as_ref().expect("has one").arms {
                let design = &experiment.designs[arm.design];
                let written = alone(text, &experiment, arm.design).expect("is of the sweep");
                let one = parse(&written, "best.toml").unwrap_or_else(|errors| panic!("{errors}\n{written}"));
                let of = |environment: &Environment, name: &str| {
                    environment.planted.get(name).copied().unwrap_or_default()
                };
                let (was, is) = (of(before, &design.name), of(&one.environment, &one.designs[0].name));
                assert!(
                    (was.rate / is.rate - 1.0).abs() < 1e-9,
                    "{}: {was:?}, {is:?}\n{written}",
                    design.name
                );
                assert!((was.latency / is.latency - 1.0).abs() < 1e-9, "{}: {was:?}, {is:?}", design.name);
                for key in design.stack.kernel_only() {
                    let known = before.planted_fields.contains(key);
                    assert_eq!(one.environment.planted_fields.contains(key), known, "{key}\n{written}");
                }
            }
        }
    }

    /// Every design of the sweep, alone, is read as what it was in the sweep.
    #[test]
    fn alone_it_is_what_it_was() {
        let text = include_str!("../testdata/sweep.toml");
        let experiment = parse(text, "sweep.toml").expect("is right");
        let sweep = experiment.sweep.clone().expect("has one");
        assert!(sweep.arms.len() > 4);
        for arm in &sweep.arms {
            let written = alone(text, &experiment, arm.design).expect("is of the sweep");
            let one = parse(&written, "best.toml").unwrap_or_else(|errors| panic!("{errors}\n{written}"));
            let design = &experiment.designs[arm.design];
            assert_eq!((one.designs.len(), &one.designs[0].layout), (1, &design.layout), "{written}");
            assert_eq!(one.designs[0].stack, design.stack);
            assert_eq!(one.volumes, experiment.volumes);
            assert_eq!(one.workloads.len(), experiment.workloads.len());
            for workload in &one.workloads {
                let number = experiment.workloads.iter().position(|known| known.name == workload.name);
                let asked = experiment.load(arm.design, number.expect("is one")).expect("is one");
                assert_eq!(workload, asked, "{written}");
            }
            assert_eq!((&one.answer, &one.sweep), (&experiment.answer, &None));
        }
        assert_eq!(alone(text, &experiment, 0).is_some(), sweep.arm(0).is_some());
        assert_eq!(alone("name = 3", &experiment, sweep.arms[0].design), None);
    }
}
