//! `ebb catalog`: volume types and instance types by name, with their figures and sources.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views::limits::{iops_words, limit_words, link_words};
use crate::{catalog, views};
use clap::{Args, Subcommand};
use ebbtide_model::catalog::{Catalog, Date, Instance, Order, VolumeType};
use ebbtide_model::shown::Shown;
use ebbtide_model::shown::{self, columns};
use ebbtide_model::units::{Bytes, format_latency, format_throughput};
use ebbtide_model::volume::{Latency, Limit, Shape};
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Volume and instance types by name, with figures, periods and sources
#[derive(Debug, Args)]
pub struct CatalogArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List volume types, or instance types
    List(ListArgs),
    /// Show all that is known of a type, and the speed of one volume of it
    Show(ShowArgs),
    /// Turn the output of `aws ec2 describe-instance-types` into a catalogue file
    Import(ImportArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only names that contain this
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
    /// The figures of this day, for example 2016-01-31 [default: today's]
    #[arg(long, value_name = "DATE")]
    as_of: Option<Date>,
    /// Size of a volume of which the limits are worked out
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Operations per second ordered with it
    #[arg(long, value_name = "N", requires = "size")]
    provisioned_iops: Option<f64>,
    /// Bytes per second ordered with it, as a size: 250MiB
    #[arg(long, value_name = "SIZE", requires = "size")]
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
    let text = match &args.action {
        Action::Import(args) => return import(args),
        Action::List(args) => list(&load(globals)?, args, globals.json),
        Action::Show(args) => show(&load(globals)?, args, globals.json)?,
    };
    views::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The catalogue that the command line asks for.
///
/// # Errors
/// A file that is no catalogue: status 2.
pub(super) fn load(globals: &Globals) -> Result<Catalog, CliError> {
    catalog::load(globals.catalog.as_deref()).map_err(CliError::Usage)
}

fn usage(error: impl std::fmt::Display) -> CliError {
    CliError::Usage(error.to_string())
}

fn list(catalog: &Catalog, args: &ListArgs, as_json: bool) -> String {
    let wanted = |name: &str| args.pattern.as_ref().is_none_or(|pattern| name.contains(pattern.as_str()));
    if args.instances {
        let found: Vec<&Instance> = catalog.instances().iter().filter(|i| wanted(&i.id)).collect();
        if as_json {
            return shown::json_line(&json!({ "schema": "ebbtide.catalog/1", "instances": found }));
        }
        let mut rows =
            vec![["instance", "vCPU", "memory", "to volumes (burst)", "local disks"].map(str::to_owned)];
        rows.extend(found.iter().map(|instance| instance_row(instance)));
        return columns(&rows, 2);
    }
    let found: Vec<&VolumeType> =
        catalog.types().iter().filter(|t| wanted(&format!("{}:{}", t.provider, t.id))).collect();
    if as_json {
        return shown::json_line(&json!({ "schema": "ebbtide.catalog/1", "volume_types": found }));
    }
    let mut rows = vec![["type", "name", "GiB", "figures of"].map(str::to_owned)];
    rows.extend(found.iter().map(|t| {
        let sizes = format!("{} to {}", t.size_gib.min, t.size_gib.max);
        [format!("{}:{}", t.provider, t.id), t.name.clone(), sizes, t.period()]
    }));
    columns(&rows, 2)
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

fn show(catalog: &Catalog, args: &ShowArgs, as_json: bool) -> Result<String, CliError> {
    if let (Ok(instance), None) = (catalog.instance(&args.name), args.size) {
        return Ok(show_instance(instance, as_json));
    }
    let record = catalog.volume_type(&args.name, args.as_of).map_err(usage)?;
    let shape = match args.size {
        None => None,
        Some(size) => {
            let throughput = args.provisioned_throughput.map(|rate| rate.0 as f64);
            let order = Order { size, iops: args.provisioned_iops, throughput };
            Some(record.shape(&order).map_err(usage)?)
        }
    };
    if as_json {
        let sources: Vec<_> =
            record.sources.iter().filter_map(|short| Some(&catalog.source(short)?.name)).collect();
        let value = json!({
            "schema": "ebbtide.catalog/1", "volume_type": record, "sources": sources, "shape": shape
        });
        return Ok(format!("{value}\n"));
    }
    Ok(show_type(catalog, record, args.size, shape.as_ref()))
}

fn show_type(catalog: &Catalog, record: &VolumeType, size: Option<Bytes>, shape: Option<&Shape>) -> String {
    let mut text = format!("{}:{}  {}\n", record.provider, record.id, record.name);
    let mut line = |key: &str, value: &str| {
        let _infallible = writeln!(text, "  {key:<14}{value}");
    };
    line("figures of", &record.period());
    line("sizes", &format!("{} to {} GiB", record.size_gib.min, record.size_gib.max));
    line("iops", &rule(&record.iops));
    line("throughput", &format!("{} ({})", rule(&record.throughput.rule), record.throughput.unit));
    if let Some(kib) = record.io_unit_kib {
        let merged = if record.merge_sequential { ", sequential ones share it" } else { "" };
        line("io unit", &format!("an operation counts once for every {kib} KiB{merged}"));
    }
    if let Some(cost) = record.write_cost {
        line("writes", &format!("count {cost} reads"));
    }
    line("latency", &latency_words(record));
    if let Some(note) = &record.note {
        line("note", note);
    }
    for (index, short) in record.sources.iter().enumerate() {
        let name = catalog.source(short).map_or(short.as_str(), |source| source.name.as_str());
        line(if index == 0 { "sources" } else { "" }, name);
    }
    let (Some(size), Some(shape)) = (size, shape) else { return text };
    let _infallible = writeln!(text, "\na volume of {size}");
    for (key, words) in shape_words(shape) {
        let _infallible = writeln!(text, "  {key:<14}{words}");
    }
    text
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
    let mut words = Vec::new();
    words.extend(iops.map(|iops| ("iops", iops)));
    words.extend(throughput.map(|throughput| ("throughput", throughput)));
    words.push(("reads", median(&shape.read_latency)));
    words.push(("writes", median(&shape.write_latency)));
    words
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

fn show_instance(instance: &Instance, as_json: bool) -> String {
    if as_json {
        let value = json!({ "schema": "ebbtide.catalog/1", "instance": instance, "link": instance.link(), "disk": instance.disk_shape() });
        return format!("{value}\n");
    }
    let [id, vcpus, memory, _, disks] = instance_row(instance);
    let link = instance.link().map_or("-".to_owned(), |link| link_words(&link, limit_words));
    let mut text = format!("{}:{id}\n", instance.provider);
    let mut line = |key: &str, value: &str| {
        let _infallible = writeln!(text, "  {key:<14}{value}");
    };
    line("vCPU", &vcpus);
    line("memory", &memory);
    line("to volumes", &link);
    if instance.volumes.is_none() {
        line("", "no limits of its own towards volumes are known: its network's bandwidth");
    }
    line("local disks", &disks);
    if let Some(shape) = instance.disk_shape() {
        for (key, words) in shape_words(&shape).into_iter().take(2) {
            line(&format!("  {key}"), &words);
        }
    }
    if let Some(seen) = instance.last_seen {
        line("last seen", &seen.to_string());
    }
    let speed = instance.disks.as_ref().and_then(|disks| disks.speed.as_ref());
    let sources = instance.sources.iter().chain(speed.map(|speed| &speed.source));
    for (index, source) in sources.enumerate() {
        line(if index == 0 { "sources" } else { "" }, source);
    }
    text
}

fn import(args: &ImportArgs) -> Result<ExitCode, CliError> {
    let json = catalog::read(&args.file).map_err(CliError::Usage)?;
    let file =
        Catalog::import(&json).map_err(|error| CliError::Usage(format!("{}: {error}", args.file.shown())))?;
    let text = file.to_toml();
    let Some(output) = &args.output else {
        views::print_data(&text)?;
        return Ok(ExitCode::SUCCESS);
    };
    let failed = |error| CliError::Failed(format!("{}: {error}", output.shown()));
    ebbtide_door::own::create(output, 0o644, text.as_bytes()).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
