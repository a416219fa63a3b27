//! `ebb plan`: from a need to ranked designs with prices and predictions, or a table of instance types.

use crate::catalog::{self, Loaded};
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::experiment_file;
use crate::views::{self, plan as view};
use clap::Args;
use ebbtide_experiment::{NoTrace, need_schema, parse_need};
use ebbtide_formats::aws::OwnedVolumes;
use ebbtide_formats::trace::{self, TraceError};
use ebbtide_model::catalog::{AWS_REGIONS, Catalog, Date, PriceList, VolumeOrder};
use ebbtide_model::civil::Civil;
use ebbtide_model::near::nearest;
use ebbtide_model::need::{Need, is_meant};
use ebbtide_model::units::Bytes;
use ebbtide_plan::{Answer, Candidate, ExistingVolumes, PredictError, Prediction, table};
use ebbtide_runner::clock;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

const SCHEMA: &str = "ebbtide.plan/1";
/// Longest recorded load that is read: some ten million operations.
const TRACE_LONGEST: u64 = 512 << 20;
const TABLE_SCHEMA: &str = "ebbtide.plan-table/1";

/// Plan volumes from a need: ranked designs with prices
///
/// Of volumes that are not bought yet, with what they will do.
///
/// Exit status: 0 there is a design, 2 wrong usage, 3 no design does what is needed (the nearest are named).
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Need file (TOML); experiments/needs/ has some to begin with
    #[arg(required_unless_present_any = ["table", "need_schema"])]
    file: Option<PathBuf>,
    /// Also write each plan's experiment into DIR, an existing directory; files of these names in it are replaced
    #[arg(long, short, value_name = "DIR", conflicts_with = "table")]
    output: Option<PathBuf>,
    /// How many plans
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    plans: u16,
    /// Instance types side by side instead: one volume and several in RAID0, read and written, and each instance's limits
    #[arg(long)]
    table: bool,
    /// With --table: these instance types, by name or beginning (m6i.*) [default: those of the need]
    #[arg(long, value_name = "TYPE", requires = "table")]
    instance: Vec<String>,
    /// With --table: the type of the volumes
    #[arg(long, value_name = "TYPE", default_value = "aws:gp3", requires = "table")]
    volume: String,
    /// With --table: the size of each volume
    #[arg(long, value_name = "SIZE", default_value = "500GiB", requires = "table")]
    size: Bytes,
    /// With --table: volumes in RAID0
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=64), requires = "table")]
    volumes: u32,
    /// With --table: operations per second ordered with each volume
    #[arg(long, value_name = "N", requires = "table")]
    provisioned_iops: Option<f64>,
    /// With --table: bytes per second ordered with each volume: 250MiB/s
    #[arg(long, value_name = "RATE", value_parser = Bytes::rate, requires = "table")]
    provisioned_throughput: Option<Bytes>,
    /// Print the JSON Schema of need files, for editors
    #[arg(long, conflicts_with_all = ["table", "file"])]
    need_schema: bool,
}

/// Runs `ebb plan`.
///
/// # Errors
/// A need that is wrong or a file that cannot be read: status 2; no design does what is needed: status 3.
pub fn run(args: &PlanArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    if args.need_schema {
        return views::print_json(&need_schema()).map(|()| ExitCode::SUCCESS);
    }
    if let Some(directory) = &args.output {
        // Said before the work, which would be lost.
        views::can_save(&directory.join("1-plan.toml"))?;
    }
    let loaded = catalog::read_all(&globals.catalog)?;
    let need = args.file.as_deref().map(|file| load(file, &loaded.catalog)).transpose()?;
    let Loaded { mut catalog, lists, owned } = loaded;
    let region = need.as_ref().and_then(|need| need.region.as_deref());
    if let (Some(region), Some(file)) = (region, &args.file) {
        is_region(region, &catalog, &lists).map_err(|unknown| experiment_file::wrong(file, unknown))?;
    }
    lists.iter().for_each(|list| catalog.reprice(list, region));
    match need {
        need if args.table => show_table(args, need.as_ref(), &catalog, globals),
        Some(need) => show_plans(args, &need, &catalog, &owned, globals),
        None => Err(CliError::Usage("name a need file, or write --table".to_owned())),
    }
}

fn load(file: &Path, catalog: &Catalog) -> Result<Need, CliError> {
    let text = experiment_file::named(file)?;
    let traces = |name: &str, device: Option<&str>| {
        let path = file.parent().unwrap_or(Path::new("")).join(name);
        let text = ebbtide_door::read::text(&path, TRACE_LONGEST)
            .map_err(|error| NoTrace::File(format!("it {error}")))?;
        trace::parse(&text, device).map_err(|error| match error {
            TraceError::NoDevice(..) | TraceError::Several(_) => NoTrace::Device(error.to_string()),
            _ => NoTrace::File(error.to_string()),
        })
    };
    parse_need(&text, &file.to_string_lossy(), catalog, &traces)
        .map_err(|errors| CliError::Usage(errors.to_string()))
}

/// A region that nobody knows.
#[derive(Debug, thiserror::Error)]
#[error(
    "`region`: `{region}` is no region that is known{}. Prices at hand are of {}; those of another region are read with --catalog \
     from what `aws pricing get-products` prints",
    .near.as_ref().map_or_else(String::new, |near| format!("; near is `{near}`")),
    .known.join(", ")
)]
struct NoRegion {
    region: String,
    near: Option<String>,
    /// Those of which there are prices.
    known: Vec<String>,
}

/// Whether there is such a region: one of AWS's, or one that prices at hand are of.
fn is_region(region: &str, catalog: &Catalog, lists: &[PriceList]) -> Result<(), NoRegion> {
    let regions = |aws: bool| {
        let types = catalog.types().iter().filter(move |record| !aws || record.provider == "aws");
        types.filter_map(|record| record.price.as_ref()).map(|price| price.region.as_str())
    };
    let mut known: BTreeSet<&str> = regions(true).collect();
    known.extend(lists.iter().flat_map(PriceList::regions));
    let all: BTreeSet<&str> =
        known.iter().copied().chain(regions(false)).chain(AWS_REGIONS.iter().copied()).collect();
    if all.contains(region) {
        return Ok(());
    }
    let near = nearest(region, all.iter().copied()).map(str::to_owned);
    let known = known.into_iter().map(str::to_owned).collect();
    Err(NoRegion { region: region.to_owned(), near, known })
}

/// Today, as catalogues count.
fn today() -> Option<Date> {
    Civil::from_unix(clock::now()).day().parse().ok()
}

fn show_plans(
    args: &PlanArgs,
    need: &Need,
    catalog: &Catalog,
    owned: &[OwnedVolumes],
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    let predict =
        |batch: &[&Candidate<'_>]| on_all_cores(batch, |one| ebbtide_plan::predict(one, need, catalog));
    let mut answer = ebbtide_plan::plan(need, catalog, args.plans.into(), today(), &predict);
    answer.have = owned.iter().filter_map(|owned| have(need, catalog, owned)).collect();
    let files = args.output.as_deref().map(|directory| save(directory, &answer)).transpose()?;
    let mut value = json!({ "schema": SCHEMA, "need": need });
    if let (Some(value), Ok(serde_json::Value::Object(fields))) =
        (value.as_object_mut(), serde_json::to_value(&answer))
    {
        value.extend(fields);
    }
    for (plan, file) in files.iter().flatten().enumerate() {
        value["plans"][plan]["experiment_file"] = file.to_string_lossy().into();
    }
    let text = view::plans(need, &answer, files.as_deref());
    views::answer(globals.json(), &value, &text)?;
    match answer.plans.is_empty() {
        false => Ok(ExitCode::SUCCESS),
        true => Err(CliError::Inconclusive(format!(
            "no design of {} does what {} asks for",
            answer.considered, need.name
        ))),
    }
}

/// What somebody has, as the planner sees it.
fn have(need: &Need, catalog: &Catalog, owned: &OwnedVolumes) -> Option<ExistingVolumes> {
    let record = catalog.volume_type(&format!("aws:{}", owned.volume_type), None).ok()?;
    let order = VolumeOrder {
        size: Bytes(owned.size_gib.checked_mul(Bytes::GIB)?),
        iops: owned.iops.map(|iops| iops as f64).filter(|_| record.iops_range(Bytes(Bytes::GIB)).is_some()),
        throughput: owned
            .throughput_mib
            .map(|rate| rate as f64 * record.throughput_unit())
            .filter(|_| record.throughput_range(1.0).is_some()),
    };
    ebbtide_plan::have(need, catalog, record, order, owned.count)
}

/// `of` for each of `all`, on every core, in their order.
fn on_all_cores<T: Sync>(
    all: &[T],
    of: impl Fn(&T) -> Result<Prediction, PredictError> + Sync,
) -> Vec<Result<Prediction, PredictError>> {
    let slots: Vec<_> = all.iter().map(|one| (one, OnceLock::new())).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((one, slot)) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
            slot.get_or_init(|| of(one));
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..cores.min(all.len())).for_each(|_| drop(scope.spawn(work))));
    let missing = || Err(PredictError::NotSimulated);
    slots.into_iter().map(|(_, slot)| slot.into_inner().unwrap_or_else(missing)).collect()
}

/// Writes each plan's experiment into `directory`.
fn save(directory: &Path, answer: &Answer) -> Result<Vec<PathBuf>, CliError> {
    let file = |plan: &ebbtide_plan::Plan| directory.join(format!("{}-{}.toml", plan.rank, plan.design));
    let files: Vec<PathBuf> = answer.plans.iter().map(file).collect();
    files.iter().try_for_each(|file| views::can_save(file))?;
    for (plan, file) in answer.plans.iter().zip(&files) {
        views::save(file, &plan.experiment)?;
    }
    Ok(files)
}

fn show_table(
    args: &PlanArgs,
    need: Option<&Need>,
    catalog: &Catalog,
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    let wanted = match need {
        Some(need) if args.instance.is_empty() => &need.instances,
        _ => &args.instance,
    };
    if wanted.is_empty() {
        return Err(CliError::Usage(
            "name instance types: `--instance 'm6i.*'`, or a need file with `instances`".to_owned(),
        ));
    }
    for name in wanted {
        if !catalog.instances().iter().any(|instance| is_meant(name, &instance.id)) {
            let what = catalog.instance(name).err().map_or_else(String::new, |error| error.to_string());
            return Err(CliError::Usage(what));
        }
    }
    let as_of = need.and_then(|need| need.as_of);
    let record = catalog.volume_type(&args.volume, as_of).map_err(CliError::usage)?;
    let order = VolumeOrder {
        size: args.size,
        iops: args.provisioned_iops,
        throughput: args.provisioned_throughput.map(|rate| rate.0 as f64),
    };
    let mut instances: Vec<_> = catalog
        .instances()
        .iter()
        .filter(|instance| wanted.iter().any(|name| is_meant(name, &instance.id)))
        .collect();
    instances.sort_by_key(|instance| (instance.family().to_owned(), instance.vcpus, instance.id.clone()));
    let rows = table::table(&instances, record, &order, args.volumes).map_err(CliError::usage)?;
    let sources: Vec<&str> = record
        .sources
        .iter()
        .filter(|short| *short != "assumed")
        .filter_map(|short| Some(catalog.source(short)?.name.as_str()))
        .chain(instances.iter().flat_map(|instance| instance.sources.iter().map(String::as_str)))
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect();
    let value = json!({
        "schema": TABLE_SCHEMA, "volume": { "type": record.full_name(), "order": order }, "rows": rows, "sources": sources
    });
    let text = view::table(&rows, &record.full_name(), &order, args.volumes, &sources);
    views::answer(globals.json(), &value, &text)
}
