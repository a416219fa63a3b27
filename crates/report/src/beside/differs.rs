//! What is not the same in the sessions that are compared.

use super::model::{ComparedSession, Differs};
use crate::{describe, words};
use ebbtide_model::experiment::{Volume, VolumeSource};
use ebbtide_model::session::Session;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::options::{Kind, OPTIONS, WorkloadOption};
use serde_json::Value;

/// A property: what of it, of which thing (empty: of the session), and its value; empty where the thing has it not set.
type Fact = (String, String, String);

/// Everything in which the sessions differ, the host first; things with the same values are told together.
pub(super) fn differs(sides: &[ComparedSession<'_>]) -> Vec<Differs> {
    let facts: Vec<Vec<Fact>> = sides.iter().map(|side| facts(side)).collect();
    // Every property in the order in which it first appears.
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for (what, of, _) in facts.iter().flatten() {
        if !keys.contains(&(what, of)) {
            keys.push((what, of));
        }
    }
    // What of which things, and its values.
    type Group<'a> = (&'a str, Vec<String>, Vec<Option<String>>);
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (what, of) in keys {
        let value = |facts: &Vec<Fact>| {
            let found = facts.iter().find(|(w, o, _)| (w.as_str(), o.as_str()) == (what, of));
            found.map(|(_, _, value)| value.clone())
        };
        let values: Vec<Option<String>> = facts.iter().map(value).collect();
        // What belongs to a thing that only one session has is not compared, and said elsewhere.
        let known = values.iter().flatten().count();
        let values: Vec<Option<String>> =
            values.into_iter().map(|value| value.filter(|value| !value.is_empty())).collect();
        if values.iter().all(|v| *v == values[0]) || (!of.is_empty() && known < 2) {
            continue;
        }
        match groups.iter_mut().find(|(w, _, v)| (*w, v.as_slice()) == (what, values.as_slice())) {
            Some((_, things, _)) => things.push(of.to_owned()),
            None => groups.push((what, vec![of.to_owned()], values)),
        }
    }
    groups
        .into_iter()
        .map(|(what, things, values)| {
            let of = words::list(&things);
            Differs { what: if of.is_empty() { what.to_owned() } else { format!("{what} of {of}") }, values }
        })
        .collect()
}

fn facts(side: &ComparedSession<'_>) -> Vec<Fact> {
    let (meta, experiment) = (&side.session.meta, &side.session.experiment);
    let mut facts: Vec<Fact> = Vec::new();
    let mut add = |what: &str, of: &str, value: String| {
        if !value.is_empty() {
            facts.push((what.to_owned(), of.to_owned(), value));
        }
    };
    let host = &meta.host;
    add("host", "", host.hostname.clone());
    add("instance type", "", host.machine.clone().unwrap_or_default());
    add("kernel", "", host.kernel.clone());
    if !host.cpu_model.is_empty() {
        add("CPU", "", format!("{}, {}", host.cpu_model, words::count(host.cores.into(), "core")));
    }
    if host.memory_bytes > 0 {
        add("memory", "", format!("{:.1} GiB", host.memory_bytes as f64 / Bytes::GIB as f64));
    }
    add("ebb version", "", meta.version.clone());
    add("backend", "", words::backend(meta.backend));
    add("experiment", "", experiment.name.clone());
    add("rest between trials", "", experiment.answer.rest.to_string());
    for (key, value) in flat(serde_json::to_value(&experiment.environment).ok()) {
        add(&format!("simulated {key}"), "", value);
    }
    let used: Vec<&str> = experiment
        .used_volumes()
        .into_iter()
        .filter_map(|v| Some(experiment.volumes.get(v)?.name.as_str()))
        .collect();
    add("volumes", "", used.join(", "));
    for (index, volume) in
        experiment.volumes.iter().enumerate().filter(|(_, v)| used.contains(&v.name.as_str()))
    {
        for (what, value) in volume_facts(side.session, index, volume) {
            add(what, &volume.name, value);
        }
    }
    for (key, value) in flat(serde_json::to_value(&experiment.links).ok()) {
        add(&format!("shared link {key}"), "", value);
    }
    for design in experiment.designs.iter().filter(|d| side.design.is_none_or(|only| only == d.name)) {
        add("layout", &design.name, design.layout.to_string());
        add("members", &design.name, describe::leaves(&design.layout, experiment).join(", "));
        for (key, value) in flat(serde_json::to_value(&design.stack).ok()) {
            add(&key, &design.name, value);
        }
    }
    for workload in &experiment.workloads {
        for option in OPTIONS {
            // Also what is not set: another session may have it set of this workload.
            let value = (option.fio)(workload).map_or_else(String::new, |value| with_unit(option, value));
            facts.push((option.name.to_owned(), workload.name.clone(), value));
        }
    }
    facts
}

/// `value`, a bare number as fio takes it, with its unit where `option` has one.
fn with_unit(option: &WorkloadOption, value: String) -> String {
    let unit = match option.kind {
        Kind::Time { bare, .. } => bare.to_string().trim_start_matches('1').to_owned(),
        Kind::Throughput { .. } => "B/s".to_owned(),
        Kind::Size { .. } | Kind::Amount { .. } => "B".to_owned(),
        _ => return value,
    };
    let exact = |text: &str| match option.kind {
        Kind::Time { .. } => text.parse::<Nanos>().ok().map(|time| time.to_string()),
        Kind::Throughput { .. } => {
            text.trim_end_matches("/s").parse::<Bytes>().ok().map(|rate| format!("{rate}/s"))
        }
        _ => text.parse::<Bytes>().ok().map(|bytes| bytes.to_string()),
    };
    // A number with a fraction of a nanosecond, or one that is not exact in 64 bits, stays as it is.
    let text = format!("{value}{unit}");
    exact(&text).unwrap_or(text)
}

/// What is known of a volume: as it was asked for, and as it was found.
fn volume_facts(session: &Session, index: usize, volume: &Volume) -> Vec<(&'static str, String)> {
    let found = session.meta.inventory.volumes.get(index);
    let mut facts = Vec::new();
    let size = found.map(|f| f.size).filter(|size| size.0 > 0).or(volume.size);
    facts.push(("size", size.map_or(String::new(), |size| size.short())));
    match &volume.source {
        // A file that the run makes has another path each time.
        VolumeSource::NewFile { directory } => {
            facts.push(("directory", directory.as_ref().map_or(String::new(), |d| d.display().to_string())));
        }
        VolumeSource::ExistingFile { path } => facts.push(("path", path.display().to_string())),
        VolumeSource::Device { path, id } => {
            facts.push(("path", path.display().to_string()));
            facts.push(("id", id.clone().unwrap_or_default()));
        }
    }
    facts.push(("shape", volume.shape.as_ref().map_or(String::new(), ToString::to_string)));
    if let Some(ordered) = &volume.ordered {
        facts.extend([("catalogue type", ordered.volume_type.clone())]);
        facts.push(("catalogue order", serde_json::to_value(ordered).map_or(String::new(), compact)));
    }
    if let Some(found) = found {
        let disks: Vec<&str> = found.whole_disks().into_iter().map(|(_, name)| name).collect();
        facts.push(("disk", disks.join(", ")));
        facts.push(("file system", found.filesystem.clone().unwrap_or_default()));
        facts.push(("layers", found.through.clone().unwrap_or_default()));
        facts.push(("O_DIRECT", if found.direct { "yes" } else { "no" }.to_owned()));
    }
    facts
}

/// The fields of what is stored as an object, each with its value in one line; what is not set is left out.
fn flat(thing: Option<Value>) -> Vec<(String, String)> {
    let fields: Vec<(String, Value)> = match thing {
        Some(Value::Object(fields)) => fields.into_iter().collect(),
        Some(Value::Array(items)) => {
            items.into_iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    let set = |value: &Value| !value.is_null() && *value != Value::Array(Vec::new());
    let told = |(key, value): (String, Value)| (key.replace('_', " "), compact(value));
    fields.into_iter().filter(|(_, value)| set(value)).map(told).collect()
}

fn compact(value: Value) -> String {
    match value {
        Value::String(text) => text,
        value => value.to_string(),
    }
}
