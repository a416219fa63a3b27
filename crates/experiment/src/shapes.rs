//! `[volumes.NAME.shape]` and `[links.NAME]`: the speed that volumes are given.

use super::error::Mistake;
use super::limits::{LatencySpec, positive};
use super::names;
use super::problems::{Problems, Span};
use super::read::{Given, Named, Section, entries, valid};
use super::traits;
use super::volume_keys::{RawLink, RawShape};
use ebbtide_model::units::Bytes;
use ebbtide_model::volume::{LinkShape, Shape};

pub(super) fn resolve_shape(
    raw: &RawShape,
    span: &Span,
    links: &[LinkShape],
    size: Option<Bytes>,
    problems: &mut Problems,
) -> Option<Shape> {
    let latency = |own: &Given<LatencySpec>| {
        let spec = valid(own).or(valid(&raw.latency));
        spec.map_or(traits::NO_LATENCY, |(spec, _)| spec.0)
    };
    let link = valid(&raw.link).and_then(|(name, span)| find_link(name, span, links, problems));
    if let (Some(at), None) = (&raw.io_unit, &raw.iops) {
        let why = "it says how `iops` counts, and there is no such limit";
        problems.pointless(&at.span, "io_unit", why, "write an `iops` limit with it, or remove it");
    }
    let io_unit = valid(&raw.io_unit).and_then(|(unit, span)| positive("io_unit", *unit, span, problems));
    if raw.given().all(|(key, _)| key == "io_unit") {
        let remedy = "write for example `iops = 3000` and `throughput = \"125MiB/s\"`, or remove the shape";
        problems.report(span, Mistake::Nothing("this shape limits nothing".to_owned()), remedy);
    }
    Some(Shape {
        iops: valid(&raw.iops).map(|(limit, _)| limit.limit),
        throughput: valid(&raw.throughput).map(|(limit, _)| limit.limit),
        io_unit,
        read_latency: latency(&raw.read_latency),
        write_latency: latency(&raw.write_latency),
        link,
        character: traits::resolve(raw, size, problems),
    })
}

fn find_link(name: &str, span: &Span, links: &[LinkShape], problems: &mut Problems) -> Option<usize> {
    let found = links.iter().position(|link| link.name == name);
    if found.is_none() {
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        let remedy = match names.is_empty() {
            true => format!("write a table `[links.{name}]` with its limits"),
            false => names::choose(name, &names),
        };
        problems.report(span, Mistake::UnknownName { what: "link", name: name.to_owned() }, remedy);
    }
    found
}

pub(super) fn resolve_links(raw: &Given<Named<RawLink>>, problems: &mut Problems) -> Vec<LinkShape> {
    let mut links = Vec::new();
    for entry in entries(raw) {
        names::check(&entry.name, "a link", &entry.span, problems);
        let section = entry.value.as_ref();
        if section.is_some_and(|link| link.given().next().is_none()) {
            let what = format!("link `{}` limits nothing", entry.name);
            let remedy = "write for example `throughput = \"1GB/s\"`";
            problems.report(&entry.span, Mistake::Nothing(what), remedy);
        }
        // A link with a mistake keeps its name, so that the volumes on it are not reported as well.
        links.push(LinkShape {
            name: entry.name.clone(),
            iops: section.and_then(|link| valid(&link.iops)).map(|(limit, _)| limit.limit),
            throughput: section.and_then(|link| valid(&link.throughput)).map(|(limit, _)| limit.limit),
            one_way: section.map(|link| traits::one_way(&link.reads, &link.writes)).unwrap_or_default(),
        });
    }
    links
}
