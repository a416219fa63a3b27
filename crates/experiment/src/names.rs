//! Names: which are possible, and what a name that nobody knows was probably meant to be.

use super::error::{Mistake, Problem};
use crate::problems::{Problems, Span};
pub(super) use ebbtide_model::near::{choose, nearest};
use ebbtide_model::workload::options::{Grammar, OPTIONS, WorkloadOption, named};

/// Names that users choose: they appear in file names, tables, CSV and on command lines.
pub(super) const PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$";

/// Reports `name` unless it matches [`PATTERN`].
pub(super) fn check(name: &str, what: &'static str, span: &Span, problems: &mut Problems) {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let possible =
        name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(plain);
    if !possible {
        let remedy = "write 1 to 64 letters, digits and . _ + -, beginning with a letter or digit";
        problems.report(span, Mistake::BadName { what, name: name.to_owned() }, remedy);
    }
}

/// An unknown key in a section that has `keys`.
pub(super) fn unknown_key(key: &str, section: &'static str, keys: &[&'static str]) -> Problem {
    if let Some(instead) = elsewhere(key) {
        return Mistake::UnknownKey { key: key.to_owned(), section }.with(format!("remove it: {instead}"));
    }
    let remedy = match meant(key, keys) {
        Some(meant) => {
            let remark = familiar(key).filter(|(here, _)| *here == meant).map_or("", |(_, remark)| remark);
            format!("write `{meant}`{remark}")
        }
        None => format!("remove it; the keys of {section} are {}", keys.join(", ")),
    };
    Mistake::UnknownKey { key: key.to_owned(), section }.with(remedy)
}

/// Which of `keys` the unknown `key` was probably meant to be.
pub(super) fn meant(key: &str, keys: &[&'static str]) -> Option<&'static str> {
    if elsewhere(key).is_some() {
        return None;
    }
    let familiar = familiar(key).map(|(here, _)| here).filter(|here| keys.contains(here));
    familiar.or_else(|| nearest(key, keys.iter().copied()))
}

/// What an experiment writes instead of an option of a workload that only the other grammars have, where there is something.
fn elsewhere(key: &str) -> Option<&'static str> {
    let meant =
        |option: &&WorkloadOption| option.names().any(|name| name == key) && option.stands_for.is_none();
    let option = OPTIONS.iter().find(meant).filter(|option| !option.is_in(Grammar::Experiment))?;
    (!option.remark.is_empty()).then_some(option.remark)
}

/// What a key of fio, mdadm or LVM is called here, and a remark on it.
fn familiar(key: &str) -> Option<(&'static str, &'static str)> {
    let names = |option: &&WorkloadOption| option.name == key || option.aliases.contains(&key);
    let here = |option: &WorkloadOption| option.stands_for.map_or(*option, |name| *named(name));
    let named = OPTIONS.iter().find(names).filter(|option| here(option).is_in(Grammar::Experiment));
    if let Some(option) = named {
        return Some((here(option).key(Grammar::Experiment), option.remark));
    }
    Some(match key {
        "ramp" | "warm_up" | "warmup" => ("ramp_time", ""),
        "time_based" => ("runtime", " alone: it always bounds the trial"),
        "arrival" => ("rate_process", ""),
        "level" | "raid" | "raid_level" | "type" => {
            ("layout", ", for example `layout = \"stripe\"` for RAID0")
        }
        "stripesize" | "stripe_size" | "chunk_size" | "chunksize" => ("chunk", ", the bytes on one member"),
        "devices" | "volumes" | "raid-devices" | "raid_devices" => ("members", ", a list of volume names"),
        "filename" | "path" => ("file", " for an existing file, `directory` for new ones"),
        "bandwidth" | "bw" => ("throughput", ", for example \"125MB/s\""),
        "trials" | "repeats" | "rounds" => ("trials_min", " and `trials_max`"),
        "confidence" => ("level", ""),
        "budget" | "price" | "cost" => ("budget_month", ", in US dollars a month"),
        "latency" | "p99" => ("lat_p99", ""),
        _ => return None,
    })
}
