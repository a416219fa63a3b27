//! `ebb catalog`: volume types and instance types by name, with their figures and sources.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views::limits::{iops_words, limit_words, link_words};
use crate::{catalog, views};
use clap::{Args, Subcommand};
use ebbtide_formats::aws::{self, AwsOutput};
use ebbtide_model::catalog::{Catalog, CatalogFile, Date, Instance, Price, VolumeOrder, VolumeType};
use ebbtide_model::shown::{Shown, columns};
use ebbtide_model::units::{Bytes, format_latency, format_throughput};
use ebbtide_model::volume::{Latency, Limit, Shape};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

const SCHEMA: &str = "ebbtide.catalog/1";

/// Look up cloud volume and instance types
///
/// With figures, periods and sources.
#[derive(Debug, Args)]
pub struct CatalogArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List volume types, or instance types
    List(ListArgs),
    /// Show everything known about a type, and the speed of a volume of it
    Show(ShowArgs),
    /// Convert the output of `aws ec2 describe-instance-types` to a catalogue file
    Import(ImportArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only names that contain TEXT
    #[arg(value_name = "TEXT")]
    pattern: Option<String>,
    /// Instance types instead of volume types
    #[arg(long)]
    instances: bool,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// A volume type (`aws:gp3`) or an instance type (`m6i.2xlarge`)
    name: String,
    /// The figures as of this day, for example 2016-01-31 [default: today's]
    #[arg(long, value_name = "DATE")]
    as_of: Option<Date>,
    /// Size of a volume whose limits are to be computed
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Operations per second ordered with it
    #[arg(long, value_name = "N", requires = "size")]
    provisioned_iops: Option<f64>,
    /// Bytes per second ordered with it: 250MiB/s
    #[arg(long, value_name = "RATE", value_parser = Bytes::rate, requires = "size")]
    provisioned_throughput: Option<Bytes>,
}

#[derive(Debug, Args)]
struct ImportArgs {
    /// The JSON that the AWS command printed
    file: PathBuf,
    /// Write here instead of standard output; an existing file is not overwritten
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs `ebb catalog`.
///
/// # Errors
/// A name that the catalogue does not have, an order that cannot be had, or a file that is no catalogue: status 2.
pub fn run(args: &CatalogArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let (value, text) = match &args.action {
        Action::Import(args) => return import(args),
        Action::List(args) => list(&load(globals)?, args),
        Action::Show(args) => show(&load(globals)?, args)?,
    };
    views::answer(globals.json(), &value, &text)
}

/// The catalogue that the command line asks for.
///
/// # Errors
/// A file that is no catalogue: status 2.
pub(super) fn load(globals: &Globals) -> Result<Catalog, CliError> {
    catalog::load(&globals.catalog)
}

fn list(catalog: &Catalog, args: &ListArgs) -> (Value, String) {
    let wanted = |name: &str| args.pattern.as_ref().is_none_or(|pattern| name.contains(pattern.as_str()));
    if args.instances {
        let found: Vec<&Instance> = catalog.instances().iter().filter(|i| wanted(&i.id)).collect();
        let mut rows =
            vec![["instance", "vCPU", "memory", "to volumes (burst)", "local disks"].map(str::to_owned)];
        rows.extend(found.iter().map(|instance| instance_row(instance)));
        return (json!({ "schema": SCHEMA, "instances": found }), columns(&rows, 2));
    }
    let name = |t: &VolumeType| format!("{}:{}", t.provider, t.id);
    let found: Vec<&VolumeType> = catalog.types().iter().filter(|t| wanted(&name(t))).collect();
    let mut rows = vec![["type", "name", "GiB", "figures of"].map(str::to_owned)];
    rows.extend(
        found.iter().map(|t| {
            [name(t), t.name.clone(), format!("{} to {}", t.size_gib.min, t.size_gib.max), t.period()]
        }),
    );
    (json!({ "schema": SCHEMA, "volume_types": found }), columns(&rows, 2))
}

fn instance_row(instance: &Instance) -> [String; 5] {
    let number = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let disks = instance
        .disks
        .as_ref()
        .map_or("-".to_owned(), |disks| format!("{} x {} GB {}", disks.count, disks.size_gb, disks.media));
    let link = instance.link().map_or("-".to_owned(), |link| link_words(&link, short));
    let memory =
        instance.memory_mib.map_or("-".to_owned(), |mib| Bytes(mib.saturating_mul(Bytes::MIB)).to_string());
    [instance.id.clone(), number(instance.vcpus.map(u64::from)), memory, link, disks]
}

/// A limit in a table: `312 MB/s (1.25 GB/s)`, the burst in parentheses.
fn short(limit: &Limit, rate: &dyn Fn(f64) -> String) -> String {
    match limit.burst_rate {
        None => rate(limit.rate),
        Some(burst) => format!("{} ({})", rate(limit.rate), rate(burst)),
    }
}

fn show(catalog: &Catalog, args: &ShowArgs) -> Result<(Value, String), CliError> {
    if let (Ok(instance), None) = (catalog.instance(&args.name), args.size) {
        return Ok(show_instance(instance));
    }
    let record = catalog.volume_type(&args.name, args.as_of).map_err(CliError::usage)?;
    let throughput = args.provisioned_throughput.map(|rate| rate.0 as f64);
    let order = |size| VolumeOrder { size, iops: args.provisioned_iops, throughput };
    let shape = args.size.map(|size| record.shape(&order(size))).transpose().map_err(CliError::usage)?;
    let sources: Vec<_> =
        record.source_names().filter_map(|short| Some(&catalog.source(short)?.name)).collect();
    let month = args.size.and_then(|size| record.price_of(&order(size)));
    let value = json!({
        "schema": SCHEMA, "volume_type": record, "sources": sources, "shape": shape, "price_usd_month": month
    });
    let volume = args.size.zip(shape.as_ref()).map(|(size, shape)| (size, shape, month));
    Ok((value, show_type(catalog, record, volume)))
}

/// Facts with their names, below `title`; what has no name belongs to the one before.
fn facts(title: &str, facts: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let rows: Vec<[String; 2]> = facts.into_iter().map(|(key, value)| [key.to_owned(), value]).collect();
    format!("{title}\n{}", columns(&rows, 2))
}

/// Where figures come from, as facts.
fn sources<'a>(names: impl Iterator<Item = &'a str>) -> impl Iterator<Item = (&'static str, String)> {
    std::iter::once("sources").chain(std::iter::repeat("")).zip(names.map(str::to_owned))
}

/// What is known of a type; of a volume of it with a size its shape and what it costs a month.
fn show_type(catalog: &Catalog, record: &VolumeType, volume: Option<(Bytes, &Shape, Option<f64>)>) -> String {
    let mut known = vec![
        ("figures of", record.period()),
        ("sizes", format!("{} to {} GiB", record.size_gib.min, record.size_gib.max)),
        ("iops", rule(&record.iops)),
        ("throughput", format!("{} ({})", rule(&record.throughput.rule), record.throughput.unit)),
    ];
    if let Some(kib) = record.io_unit_kib {
        let merged = if record.merge_sequential { ", sequential ones share it" } else { "" };
        known.push(("io unit", format!("an operation counts once for every {kib} KiB{merged}")));
    }
    known.extend(record.write_cost.map(|cost| ("writes", format!("count {cost} reads"))));
    known.push(("latency", latency_words(record)));
    known.extend(record.price.as_ref().map(|price| ("price", price_words(record, price))));
    known.extend(record.note.clone().map(|note| ("note", note)));
    let full = |short| catalog.source(short).map_or(short, |source| &source.name);
    known.extend(sources(record.source_names().map(full)));
    let text = facts(&format!("{}:{}  {}", record.provider, record.id, record.name), known);
    let Some((size, shape, month)) = volume else { return text };
    let price = month.map(|month| ("price", format!("${month:.2} a month")));
    let known = shape_words(shape).into_iter().chain(price);
    text + "\n" + &facts(&format!("a volume of {}", size.short()), known)
}

/// `$0.08 for a GiB, $0.005 for each IOPS above 3000 a month (us-east-1, 2024-07-01)`.
fn price_words(record: &VolumeType, price: &Price) -> String {
    let mut words = vec![format!("${} for a GiB", price.gib_month)];
    for (steps, unit) in [(&price.iops_month, "IOPS"), (&price.throughput_month, &record.throughput.unit)] {
        let above = |above: f64| if above > 0.0 { format!(" above {above}") } else { String::new() };
        words.extend(steps.iter().map(|step| format!("${} for each {unit}{}", step.each, above(step.above))));
    }
    let day = price.as_of.map_or_else(|| "no day known".to_owned(), |day| day.to_string());
    format!("{} a month ({}, {day})", words.join(", "), price.region)
}

fn shape_words(shape: &Shape) -> Vec<(&'static str, String)> {
    let iops = shape.iops.as_ref().map(|limit| limit_words(limit, &iops_words));
    let throughput = shape.throughput.as_ref().map(|limit| limit_words(limit, &format_throughput));
    let median = |latency: &Latency| match latency {
        Latency::Constant(value) => format_latency(value.0 as f64),
        Latency::Lognormal { median, p99 } => {
            format!("median {}, p99 {}", format_latency(median.0 as f64), format_latency(p99.0 as f64))
        }
    };
    let limits = [("iops", iops), ("throughput", throughput)];
    let limits = limits.into_iter().filter_map(|(key, words)| Some((key, words?)));
    limits.chain([("reads", median(&shape.read_latency)), ("writes", median(&shape.write_latency))]).collect()
}

/// A rule as its record writes it: `credit per_gib=3 min=100 ...`.
fn rule(rule: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(rule).unwrap_or_default();
    let Some(fields) = value.as_object() else { return String::new() };
    let model = fields.get("model").and_then(|model| model.as_str()).unwrap_or_default().to_owned();
    let rest = fields
        .iter()
        .filter(|(key, _)| key.as_str() != "model")
        .map(|(key, value)| format!(" {key}={value}"));
    rest.fold(model, |text, field| text + &field)
}

fn latency_words(record: &VolumeType) -> String {
    let latency = &record.latency;
    let ms = |us: u64| format_latency(us as f64 * 1000.0);
    format!(
        "reads {} (p99 {}), writes {} (p99 {}); {}",
        ms(latency.read_median_us),
        ms(latency.read_p99_us),
        ms(latency.write_median_us),
        ms(latency.write_p99_us),
        latency.basis
    )
}

fn show_instance(instance: &Instance) -> (Value, String) {
    let [id, vcpus, memory, _, disks] = instance_row(instance);
    let link = instance.link().map_or("-".to_owned(), |link| link_words(&link, limit_words));
    let mut known = vec![("vCPU", vcpus), ("memory", memory), ("to volumes", link)];
    if instance.volumes.is_none() {
        known.push(("", "(its network bandwidth: its limits towards volumes are not known)".to_owned()));
    }
    known.push(("local disks", disks));
    if let Some(shape) = instance.disk_shape() {
        let limits: Vec<String> = shape_words(&shape).into_iter().take(2).map(|(_, words)| words).collect();
        known.push(("", format!("each {}", limits.join("; "))));
    }
    known.extend(instance.last_seen.map(|seen| ("last seen", seen.to_string())));
    let speed = instance.disks.as_ref().and_then(|disks| disks.speed.as_ref());
    let names = instance.sources.iter().chain(speed.map(|speed| &speed.source));
    known.extend(sources(names.map(String::as_str)));
    let value = json!({
        "schema": SCHEMA, "instance": instance, "link": instance.link(), "disk": instance.disk_shape()
    });
    (value, facts(&format!("{}:{id}", instance.provider), known))
}

fn import(args: &ImportArgs) -> Result<ExitCode, CliError> {
    let json = catalog::read(&args.file)?;
    let usage = |what: String| CliError::Usage(format!("{}: {what}", args.file.shown()));
    let instance = match aws::parse(&json).map_err(|error| usage(error.to_string()))? {
        AwsOutput::Instances(instance) => instance,
        AwsOutput::Volumes(_) | AwsOutput::Prices(_) => {
            let what = "volumes and prices are read as they are, with --catalog; write here what `aws ec2 describe-instance-types` prints";
            return Err(usage(what.to_owned()));
        }
    };
    let file = CatalogFile { instance, ..CatalogFile::default() };
    let text = file.to_toml();
    let Some(output) = &args.output else {
        views::print_data(&text)?;
        return Ok(ExitCode::SUCCESS);
    };
    let failed = |error| CliError::Failed(format!("{}: {error}", output.shown()));
    ebbtide_door::own::create(output, 0o644, text.as_bytes()).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
