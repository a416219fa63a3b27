//! Limits as text: of volumes, of their types, and of the instance.

use crate::known_limits::{Known, KnownLimits};
use ebbtide_model::catalog::{Candidate, DiskSpeed, Granted};
use ebbtide_model::shown::columns;
use ebbtide_model::units::{Nanos, format_iops, format_throughput, format_waiting};
use ebbtide_model::volume::{Limit, LinkShape};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The section of `ebb volumes`; empty when nothing is known.
pub fn section(known: &KnownLimits) -> String {
    let mut text = String::new();
    let mut sources: Vec<&str> = Vec::new();
    for volume in &known.volumes {
        let (names, label, size) = (volume.devices.join(", "), volume.kind.label(), volume.size);
        match &volume.known {
            Known::OneOf(candidates) => {
                let what = format!("{label} of {size}; the device does not report its type, which may be");
                let _infallible = writeln!(text, "  {names}  {what}");
                text.push_str(&types(candidates));
                sources.extend(candidates.iter().flat_map(|c| c.sources.iter().map(String::as_str)));
            }
            Known::Disk { instance, speed } => {
                let _infallible =
                    writeln!(text, "  {names}  {label} of {instance}, {size}\n    {}", disk(speed));
                sources.push(&speed.source);
            }
            Known::Nothing(why) => {
                let _infallible = writeln!(text, "  {names}  {label} of {size}: limits unknown, {why}");
            }
        }
    }
    if let Some(instance) = &known.instance {
        let words = link_words(&instance.link, limit_words);
        let _infallible =
            writeln!(text, "  {}  all its EBS volumes together\n    {words}", instance.instance);
        sources.extend(instance.sources.iter().map(String::as_str));
    }
    if text.is_empty() {
        return text;
    }
    let mut seen = BTreeSet::new();
    let sources: String = sources
        .iter()
        .filter(|source| seen.insert(**source))
        .map(|source| format!("    {source}\n"))
        .collect();
    let sources = if sources.is_empty() { sources } else { format!("  sources\n{sources}") };
    format!("Known limits\n{text}{sources}\n")
}

fn types(candidates: &[Candidate]) -> String {
    let row = |candidate: &Candidate| {
        let (iops, ordered_iops) = granted(&candidate.iops, &iops_words);
        let (throughput, ordered) = granted(&candidate.throughput, &format_throughput);
        let as_ordered = if ordered_iops || ordered { ", as ordered" } else { "" };
        [candidate.volume_type.clone(), format!("{iops}; {throughput}{as_ordered}")]
    };
    columns(&candidates.iter().map(row).collect::<Vec<_>>(), 4)
}

/// A limit in words, and whether an order decides it.
fn granted(granted: &Granted, rate: &dyn Fn(f64) -> String) -> (String, bool) {
    if granted.least == granted.most {
        return (limit_words(&granted.least, rate), false);
    }
    (format!("{} to {}", rate(granted.least.rate), rate(granted.most.rate)), true)
}

fn disk(speed: &DiskSpeed) -> String {
    let way = |iops: f64, bytes: Option<f64>| {
        let bytes = bytes.map(|b| format!(" or {}", format_throughput(b))).unwrap_or_default();
        format!("{}{bytes}", iops_words(iops))
    };
    format!(
        "reads {}; writes {} (each disk)",
        way(speed.read_iops, speed.read_bytes_s),
        way(speed.write_iops, speed.write_bytes_s)
    )
}

/// A rate of operations as people read it.
pub fn iops_words(rate: f64) -> String {
    format!("{} IOPS", format_iops(rate))
}

/// How a limit is put into words, given how its rates are.
pub type Words = fn(&Limit, &dyn Fn(f64) -> String) -> String;

/// The limits of a link.
pub fn link_words(link: &LinkShape, words: Words) -> String {
    let throughput = link.throughput.as_ref().map(|limit| words(limit, &format_throughput));
    let iops = link.iops.as_ref().map(|limit| words(limit, &iops_words));
    [throughput, iops].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// A limit as people read it.
pub fn limit_words(limit: &Limit, rate: &dyn Fn(f64) -> String) -> String {
    let Some(burst) = limit.burst_rate else { return rate(limit.rate) };
    let time = format_waiting(Nanos::from_secs_f64(limit.burst_credits / (burst - limit.rate)));
    format!("{}, {} for {time} from full credits", rate(limit.rate), rate(burst))
}
