//! `type`, `instance` and `as_of`: speeds by name, from the catalogue.

use super::error::{Mistake, Problem};
use super::read::{FromToml, Given, valid};
use crate::problems::{Problems, Span};

use super::surroundings::RawHost;
use super::volume_keys::{RawShape, RawVolume};
use ebbtide_model::catalog::{Catalog, CatalogError, Date, Instance, Ordered, VolumeOrder};
use ebbtide_model::experiment::Host;
use ebbtide_model::units::Bytes;
use ebbtide_model::volume::{LinkShape, Shape};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use toml::de::DeValue;

/// Name of the type that stands for the instance's own disks.
const LOCAL: &str = "instance-store";

/// A date of TOML, as `2026-11-21`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Day(Date);

impl Day {
    pub fn date(self) -> Date {
        self.0
    }
}

impl FromToml for Day {
    fn from_toml(value: &DeValue<'_>, span: &Span, problems: &mut Problems) -> Option<Self> {
        let text = match value {
            DeValue::Datetime(date) => date.to_string(),
            DeValue::String(text) => text.to_string(),
            _ => String::new(),
        };
        match text.parse() {
            Ok(date) => Some(Day(date)),
            Err(_) => {
                problems.wrong_type(span, "a day of the calendar", value, "write for example `2016-01-31`");
                None
            }
        }
    }
}

impl JsonSchema for Day {
    fn schema_name() -> Cow<'static, str> {
        "Day".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A day: 2016-01-31",
            "type": "string",
            "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
        })
    }
}

/// What the file says about the catalogue, resolved.
pub(super) struct Figures<'c> {
    catalog: &'c Catalog,
    as_of: Option<Date>,
    instance: Option<&'c Instance>,
    /// Index of the instance's link.
    link: Option<usize>,
}

impl<'c> Figures<'c> {
    /// Looks the instance up and adds its link to `links`.
    pub fn new(
        catalog: &'c Catalog,
        instance: &Given<String>,
        as_of: &Given<Day>,
        links: &mut Vec<LinkShape>,
        problems: &mut Problems,
    ) -> Self {
        let as_of = valid(as_of).map(|(Day(date), _)| *date);
        let mut figures = Figures { catalog, as_of, instance: None, link: None };
        let Some((name, span)) = valid(instance) else { return figures };
        match catalog.instance(name) {
            Ok(found) => figures.instance = Some(found),
            Err(error) => problems.add(span, from_catalog("instance type", name, &error)),
        }
        if let Some(link) = figures.instance.and_then(Instance::link) {
            if links.iter().any(|other| other.name == link.name) {
                let remedy = "give the link another name; the instance's own is added by itself";
                problems.report(span, Mistake::Duplicate { what: "link", name: link.name }, remedy);
                return figures;
            }
            figures.link = Some(links.len());
            links.push(link);
        }
        figures
    }

    /// The shape of the volume's type, with what `[shape]` says instead, and what was ordered to get it.
    pub fn shape(
        &self,
        raw: &RawVolume,
        size: Option<Bytes>,
        own: Option<Shape>,
        problems: &mut Problems,
    ) -> (Option<Shape>, Option<Ordered>) {
        let Some(given) = &raw.r#type else {
            report_without_type("provisioned_size", &raw.provisioned_size, problems);
            report_without_type("provisioned_iops", &raw.provisioned_iops, problems);
            report_without_type("provisioned_throughput", &raw.provisioned_throughput, problems);
            return (own, None);
        };
        let span = &given.span;
        let typed = given.value.as_ref().and_then(|name| match name.rsplit(':').next() {
            Some(LOCAL) => Some((self.local(name, span, problems)?, None)),
            _ => self.ordered(name, span, raw, size, problems).map(|(shape, order)| (shape, Some(order))),
        });
        let Some((typed, ordered)) = typed else { return (None, None) };
        let shape = match (valid(&raw.shape), own) {
            (Some((raw, _)), Some(own)) => instead(typed, raw, own),
            _ => typed,
        };
        (Some(shape), ordered)
    }

    /// A local disk of the instance.
    fn local(&self, name: &str, span: &Span, problems: &mut Problems) -> Option<Shape> {
        let Some(instance) = self.instance else {
            let remedy = "write for example `instance = \"i3.large\"` at the top of the file";
            problems.report(span, Mistake::Nothing(format!("`{name}` needs to know the instance")), remedy);
            return None;
        };
        if let Some(shape) = instance.disk_shape() {
            return Some(shape);
        }
        let (what, remedy) = match &instance.disks {
            None => (format!("{} has no local disks", instance.id), "choose another `type`"),
            Some(_) => (
                format!("the speed of {}'s local disks is not in the catalogue", instance.id),
                "give the volume a `[shape]` instead of the `type`",
            ),
        };
        problems.report(span, Mistake::Nothing(what), remedy);
        None
    }

    fn ordered(
        &self,
        name: &str,
        span: &Span,
        raw: &RawVolume,
        size: Option<Bytes>,
        problems: &mut Problems,
    ) -> Option<(Shape, Ordered)> {
        let record = match self.catalog.volume_type(name, self.as_of) {
            Ok(record) => record,
            Err(error) => {
                problems.add(span, from_catalog("volume type", name, &error));
                return None;
            }
        };
        let Some(size) = valid(&raw.provisioned_size).map(|(size, _)| *size).or(size) else {
            if raw.size.is_none() && raw.provisioned_size.is_none() {
                let section = format!("a volume of type `{name}`");
                problems.missing(span, "provisioned_size", section, "provisioned_size = \"100GiB\"");
            }
            return None;
        };
        let order = VolumeOrder {
            size,
            iops: valid(&raw.provisioned_iops).map(|(iops, _)| *iops),
            throughput: valid(&raw.provisioned_throughput).map(|(rate, _)| rate.0),
        };
        match record.shape(&order) {
            Ok(mut shape) => {
                if record.media != "nfs" {
                    shape.link = self.link;
                }
                let volume_type = record.full_name();
                let price = record.price_of(&order);
                Some((shape, Ordered { volume_type, as_of: self.as_of, order, price }))
            }
            Err(error) => {
                let remedy = format!(
                    "`ebb catalog show {}` says what can be ordered; `provisioned_size` may differ from `size`",
                    record.full_name()
                );
                problems.report(span, Mistake::Geometry(error.to_string()), remedy);
                None
            }
        }
    }

    /// The host, with the instance's cores and memory where the file does not say.
    pub fn host(&self, mut host: Host, raw: &Given<RawHost>) -> Host {
        let said = valid(raw).map(|(raw, _)| raw);
        if let Some(instance) = self.instance {
            if said.is_none_or(|raw| raw.cores.is_none()) {
                host.cores = instance.vcpus.unwrap_or(host.cores).max(1);
            }
            if said.is_none_or(|raw| raw.memory.is_none()) {
                host.memory = instance.memory_mib.map(|mib| Bytes(mib.saturating_mul(Bytes::MIB)));
            }
        }
        host
    }
}

fn report_without_type<T>(key: &'static str, given: &Given<T>, problems: &mut Problems) {
    if let Some(at) = given {
        let remedy = "write for example `type = \"aws:gp3\"` with it, or a `[shape]`";
        problems.pointless(&at.span, key, "it is a setting of a volume `type`", remedy);
    }
}

pub(super) fn from_catalog(what: &'static str, name: &str, error: &CatalogError) -> Problem {
    let unknown = Mistake::UnknownName { what, name: name.to_owned() };
    match error {
        CatalogError::Unknown { remedy, .. } => unknown.with(remedy),
        CatalogError::Ambiguous { choices, .. } => unknown.with(format!("write one of {choices}")),
        other => Mistake::Geometry(other.to_string()).with("choose another day for `as_of`, or leave it out"),
    }
}

/// The type's shape, with what the file's own says instead.
fn instead(typed: Shape, raw: &RawShape, own: Shape) -> Shape {
    let said = |read: bool| raw.latency.is_some() || read;
    let mut character = own.character;
    if raw.merge_sequential.is_none() {
        character.merge_sequential = typed.character.merge_sequential;
    }
    character.flush_latency = character.flush_latency.or(typed.character.flush_latency);
    if raw.costs.is_none() {
        character.costs = typed.character.costs;
    }
    Shape {
        iops: own.iops.or(typed.iops),
        throughput: own.throughput.or(typed.throughput),
        io_unit: own.io_unit.or(typed.io_unit),
        read_latency: if said(raw.read_latency.is_some()) { own.read_latency } else { typed.read_latency },
        write_latency: if said(raw.write_latency.is_some()) {
            own.write_latency
        } else {
            typed.write_latency
        },
        link: own.link.or(typed.link),
        character,
    }
}
