//! `ebb bench`: one workload on a file, a device, a directory or a design, with fio's option names.

mod dialect;
mod options;
mod profile;
mod selftest;
mod shown;

use crate::bench::target::{self, Wanted};
use crate::bench::{Early, Job, Results, Spec, describe, experiment, fio, runner, verify};
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::progress::Progress;
use crate::session::{clock, signals};
use crate::views;
use clap::Args;
use dialect::Dialect;
use ebbtide_engine::files::Fill;
use ebbtide_host::sys;
use ebbtide_model::backend::Control;
use ebbtide_model::experiment::{Volume, VolumeSource};
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::shown::Shown;
use ebbtide_model::units::{Bytes, format_throughput};
use ebbtide_model::workload::{Workload, cpu_list};
use options::WorkloadArgs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Run one workload on a file, a device, a directory or a design of an experiment
///
/// Options have fio's names; a name with an underscore may be written with a dash. Sizes: 4k and 4KiB are 4096 bytes,
/// 4kB is 4000. Times: 500us, 10s, 2m; a bare number is seconds (thinktime: microseconds), as in fio.
///
/// Exit status: 0 done, 1 failed and 130 interrupted (what was measured until then is printed), 2 wrong usage, 3 nothing
/// completed in the time.
#[derive(Debug, Args)]
pub struct BenchArgs {
    // Before the others: it sees which options were given, and each takes its own away.
    #[command(flatten)]
    dialect: Dialect,
    /// File (made with --size where there is none), block device, or directory (a file is made in it and removed)
    target: Option<PathBuf>,
    /// The target, as fio spells it
    #[arg(long, value_name = "PATH", conflicts_with = "target")]
    filename: Option<PathBuf>,
    /// Directory of --filename; alone it is the target
    #[arg(long, value_name = "PATH", conflicts_with = "target")]
    directory: Option<PathBuf>,
    /// Experiment file (TOML) with the design
    #[arg(long, value_name = "FILE", requires = "design", conflicts_with_all = ["target", "filename", "directory"])]
    file: Option<PathBuf>,
    /// Name of the design in the experiment file
    #[arg(long, value_name = "NAME", requires = "file")]
    design: Option<String>,
    /// Run the jobs of a fio job file; TARGET, where given, is the directory of files with relative names
    #[arg(long, value_name = "JOBFILE", conflicts_with = "file")]
    fio: Option<PathBuf>,
    /// Run a profile, or a TOML file of your own; `list` lists them, `show NAME` explains one
    #[arg(long, value_name = "NAME", conflicts_with_all = ["file", "fio", "verify"])]
    profile: Option<String>,
    /// With --profile: how the results are printed
    #[arg(long, value_enum, default_value = "text", requires = "profile")]
    format: profile::Format,
    /// Write blocks that can be proved later, keep a ledger of those that were acknowledged, and read them back
    #[arg(long, conflicts_with = "fio")]
    verify: bool,
    /// With --verify: where the ledger goes, a file that is not there yet [default: the user's state directory]
    #[arg(long, value_name = "FILE", requires = "verify")]
    ledger: Option<PathBuf>,
    /// Measure the tool itself: the clock and the engine's ceiling on this host
    #[arg(long, conflicts_with_all = ["target", "filename", "directory", "file"])]
    self_test: bool,
    /// Existing files and devices may be overwritten: their content is lost
    #[arg(long)]
    destroy: bool,
    /// Name of the job in the results
    #[arg(long, value_name = "NAME", default_value = "bench")]
    name: String,
    /// Seed of all random data and offsets [default: random]
    #[arg(long, visible_alias = "seed", value_name = "N")]
    randseed: Option<u64>,
    #[command(flatten)]
    workload: WorkloadArgs,
}

/// Runs `ebb bench`.
///
/// # Errors
/// See the exit statuses in the help.
pub fn run(args: &BenchArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let globals = &args.dialect.globals(globals);
    if args.self_test {
        return selftest::run(globals);
    }
    let seed = args.randseed.unwrap_or_else(|| u64::from(clock::random()));
    if let Some(name) = &args.profile {
        return profile::run(args, name, seed, globals);
    }
    let path = args.path();
    let path = path.as_deref();
    let mut global = None;
    let spec = if let Some(jobs) = &args.fio {
        args.dialect.only("--fio", "the job file says what runs; write it there", &BESIDE_A_JOB_FILE)?;
        let from = fio::spec(jobs, path, args.destroy, seed)?;
        global = Some(from.global);
        from.spec
    } else if let (Some(file), Some(design)) = (&args.file, &args.design) {
        on_design(args, file, design, seed, globals)?
    } else if let Some(path) = path {
        on_path(args, path, seed)?
    } else {
        let text = "on what? name a file, a device or a directory, or --file FILE --design NAME";
        return Err(CliError::Usage(text.to_owned()));
    };
    for job in &spec.jobs {
        cpus_exist(&job.workload)?;
    }
    if args.verify {
        return prove(args, &spec, globals);
    }
    let results = execute(spec, globals)?;
    show(&results, global.as_deref(), seed, globals)?;
    ending(results)
}

/// Which processors run (the kernel's Documentation/admin-guide/cputopology.rst).
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Options that mean something beside `--fio`.
const BESIDE_A_JOB_FILE: [&str; 10] =
    ["fio", "target", "filename", "directory", "destroy", "randseed", "json", "quiet", "store", "catalog"];

impl BenchArgs {
    /// What it is pointed at.
    fn path(&self) -> Option<PathBuf> {
        match (&self.target, &self.directory, &self.filename) {
            (Some(target), ..) => Some(target.clone()),
            (None, Some(directory), Some(file)) => Some(directory.join(file)),
            (None, directory, file) => directory.clone().or_else(|| file.clone()),
        }
    }
}

/// Refuses processors that this host does not have; where it does not say, the first job finds out.
fn cpus_exist(workload: &Workload) -> Result<(), CliError> {
    let Some(online) = sys::text(Path::new(ONLINE)) else { return Ok(()) };
    let Some(there) = cpu_list(&online) else { return Ok(()) };
    let missing: Vec<String> =
        workload.engine.cpus_allowed.iter().filter(|cpu| !there.contains(cpu)).map(u32::to_string).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!("cpus_allowed: there is no CPU {} here; there are {online}", missing.join(", "));
    Err(CliError::Usage(what))
}

/// The target is a path.
fn on_path(args: &BenchArgs, path: &Path, seed: u64) -> Result<Spec, CliError> {
    let workload = args.workload.workload(&args.name)?;
    let wanted = Wanted {
        size: args.workload.size(),
        offset: workload.details.offset,
        reads: workload.reads(),
        writes: workload.writes(),
        destroy: args.destroy,
        words: target::Words::COMMAND,
    };
    let there = || target::length(path).map(|own| Bytes(own.0.saturating_sub(wanted.offset.0)));
    if let Some(part) = args.workload.size().or_else(there).filter(|part| part.0 > 0 && workload.bs > *part) {
        return Err(CliError::Usage(format!(
            "--bs {} is more than the {part} that are used of {}; write a smaller --bs",
            workload.bs,
            path.shown()
        )));
    }
    let resolved = target::resolve(path, wanted)?;
    let experiment =
        experiment(vec![resolved.volume], vec![(path.to_string_lossy().into_owned(), LayoutNode::Volume(0))]);
    Ok(Spec {
        experiment,
        destroy: args.destroy && (resolved.fill || workload.writes()),
        written: None,
        named: if resolved.new { vec![(0, path.to_owned())] } else { Vec::new() },
        jobs: vec![job(args, workload)],
        fill: Fill::Only(if resolved.fill { vec![0] } else { Vec::new() }),
        ladder: true,
        seed,
    })
}

/// The target is a design of an experiment.
fn on_design(
    args: &BenchArgs,
    file: &Path,
    design: &str,
    seed: u64,
    globals: &Globals,
) -> Result<Spec, CliError> {
    let workload = args.workload.workload(&args.name)?;
    Ok(Spec {
        experiment: target::design(file, design, &workload, &super::catalog::load(globals)?)?,
        destroy: args.destroy && workload.writes(),
        written: None,
        named: Vec::new(),
        jobs: vec![job(args, workload)],
        fill: Fill::Destroyable,
        ladder: true,
        seed,
    })
}

fn job(args: &BenchArgs, workload: Workload) -> Job {
    let options = args.workload.given(&workload);
    Job { name: args.name.clone(), group: 0, design: 0, workload, options, notes: args.workload.notes() }
}

/// Runs `spec` with a ledger and reads everything back.
fn prove(args: &BenchArgs, spec: &Spec, globals: &Globals) -> Result<ExitCode, CliError> {
    for job in &spec.jobs {
        verify::fits(&job.workload)?;
    }
    let removed = |volume: &Volume| matches!(volume.source, VolumeSource::NewFile { .. });
    if spec.experiment.volumes.iter().any(removed) {
        let what = "--verify needs a target that stays: name a file or a device, not a directory or a design whose \
                    files are removed afterwards";
        return Err(CliError::Usage(what.to_owned()));
    }
    let path = match &args.ledger {
        Some(path) => path.clone(),
        None => verify::default_ledger(&clock::session_id())?,
    };
    let is_target = |volume: &Volume| match &volume.source {
        VolumeSource::ExistingFile { path: target } => verify::is_same(target, &path),
        _ => false,
    };
    if spec.experiment.volumes.iter().any(is_target) {
        let what = format!(
            "the ledger and the target are the same file, {}: give --ledger another name",
            path.shown()
        );
        return Err(CliError::Usage(what));
    }
    let control = stoppable(globals)?;
    let mut progress = Progress::new(globals.quiet);
    let outcome = verify::run(spec, &path, &control, &mut progress)?;
    let names = super::verify::Names::of(&outcome.ledger);
    let (written, seconds) = (outcome.written, outcome.written.elapsed.as_secs_f64());
    if globals.json {
        let mut value = super::verify::json(&outcome.ledger, &outcome.found, &names);
        value["ledger"] = path.to_string_lossy().into_owned().into();
        value["bytes_written"] = written.bytes.into();
        value["seconds"] = seconds.into();
        value["notes"] = outcome.notes.into();
        views::print_json(&value)?;
    } else {
        let rate = if seconds > 0.0 { written.bytes as f64 / seconds } else { 0.0 };
        let head = format!(
            "written   {} in {seconds:.2} s, {} with a ledger (no measurement of the device)\n",
            Bytes(written.bytes),
            format_throughput(rate)
        );
        views::print(&(head + &super::verify::text(&outcome.ledger, &outcome.found, &names)))?;
        for note in &outcome.notes {
            views::print(&format!("note      {note}\n"))?;
        }
    }
    if written.stopped && outcome.found.bad.is_empty() {
        return Err(CliError::Interrupted("what was acknowledged until then is there".to_owned()));
    }
    super::verify::ending(&outcome.ledger, &outcome.found)
}

/// Ctrl-C ends what runs.
fn stoppable(globals: &Globals) -> Result<Arc<Control>, CliError> {
    let control = Arc::new(Control::default());
    signals::stop_on_signals(control.clone(), globals.quiet)
        .and_then(|()| signals::file_size_limit_is_an_error())
        .map_err(|error| CliError::Failed(format!("cannot set up signal handlers: {error}")))?;
    Ok(control)
}

/// Runs `spec` with progress and Ctrl-C.
fn execute(spec: Spec, globals: &Globals) -> Result<Results, CliError> {
    let control = stoppable(globals)?;
    let mut progress = Progress::new(globals.quiet);
    runner::run(spec, &mut |_| None, &control, &mut progress)
        .map_err(|error| CliError::Failed(error.to_string()))
}

/// `global` are the options of a job file's [global] sections.
fn show(
    results: &Results,
    global: Option<&[(String, String)]>,
    seed: u64,
    globals: &Globals,
) -> Result<(), CliError> {
    if globals.json {
        let mut value = describe::json(results, seed);
        if let Some(options) = global {
            let options = options.iter().map(|(name, value)| (name.clone(), value.clone().into()));
            value["global options"] = serde_json::Value::Object(options.collect());
        }
        return views::print_json(&value);
    }
    if results.done.is_empty() {
        return Ok(());
    }
    let (columns, color) = views::stdout_width();
    views::print_styled(&describe::text(results, seed, columns, color))
}

fn ending(results: Results) -> Result<ExitCode, CliError> {
    let nothing = results.done.iter().find(|done| done.failed.is_none() && done.is_empty());
    match results.ended_early {
        None => match nothing {
            None => Ok(ExitCode::SUCCESS),
            Some(done) => Err(CliError::Inconclusive(format!(
                "{}: nothing completed in {:.2} s ({} under way at the end): run longer (--runtime), or with a \
                 smaller bs or iodepth",
                done.job.name,
                done.samples.elapsed.as_secs_f64(),
                done.samples.execution.unfinished,
            ))),
        },
        Some(Early::Failed(why)) => Err(CliError::Failed(why)),
        Some(Early::Interrupted) if results.done.is_empty() => {
            Err(CliError::Interrupted("before anything was measured".to_owned()))
        }
        Some(Early::Interrupted) => Err(CliError::Interrupted("the figures are those until then".to_owned())),
    }
}
