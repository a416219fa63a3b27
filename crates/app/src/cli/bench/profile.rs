//! `ebb bench --profile`.

use super::{BenchArgs, ending, shown, stoppable};
use crate::bench::{Done, Job, Results, Spec, describe, experiment, profile, runner, target};
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::progress::Progress;
use crate::views;
use clap::ValueEnum;
use ebbtide_engine::files::Fill;
use ebbtide_experiment::is_profile_file;
use ebbtide_formats::bonnie::{BonnieHost, csv};
use ebbtide_host::hostinfo::host_info;
use ebbtide_host::sys::Sys;
use ebbtide_model::layout::LayoutNode;
use ebbtide_model::profile::{PROFILES, Profile, ProfileRequest};
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::{Mix, Stop, Workload, options};
use ebbtide_report::{ProfileStep, steps};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// How the results of a profile are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A table
    Text,
    /// bonnie++'s CSV, for bon_csv2html and bon_csv2txt (profile bonnie)
    BonnieCsv,
}

/// Options that mean something beside `--profile`.
const BESIDE_A_PROFILE: [&str; 14] = [
    "profile",
    "format",
    "target",
    "filename",
    "directory",
    "size",
    "runtime",
    "destroy",
    "time_based",
    "randseed",
    "json",
    "quiet",
    "store",
    "catalog",
];

/// Runs, lists or shows a profile.
pub(super) fn run(args: &BenchArgs, name: &str, seed: u64, globals: &Globals) -> Result<ExitCode, CliError> {
    match name {
        "list" => return views::print(&shown::list(globals.json)).map(|()| ExitCode::SUCCESS),
        // `--profile show NAME`: what stands where the target would is the name.
        "show" => {
            let which = args.target.as_deref().map(Path::to_string_lossy).ok_or_else(|| {
                CliError::Usage(format!("show which profile? there are {}, and files of your own", names()))
            })?;
            return views::print(&show_one(&which, args, globals.json)?).map(|()| ExitCode::SUCCESS);
        }
        _ => {}
    }
    if args.format == Format::BonnieCsv && name != "bonnie" {
        return Err(CliError::Usage("--format bonnie-csv is for --profile bonnie".to_owned()));
    }
    if args.format == Format::BonnieCsv && globals.json {
        return Err(CliError::Usage("--format bonnie-csv and --json are two formats; give one".to_owned()));
    }
    let what = "the profile decides it; write a profile of your own (docs/profiles.md)";
    args.dialect.only("--profile", what, &BESIDE_A_PROFILE)?;
    let path = args.path().ok_or_else(|| {
        CliError::Usage("on what? name a directory, a file or a device after the profile's name".to_owned())
    })?;
    let path = path.as_path();
    let host = host_info(&Sys::host());
    let request = ProfileRequest {
        size: args.workload.size(),
        runtime: args.workload.runtime(),
        memory: Bytes(host.memory_bytes),
        seed,
    };
    let (spec, mut running) = if is_profile_file(name) {
        (own(args, Path::new(name), path, seed)?, None)
    } else {
        let profile = built_in(name)?;
        takes(profile, &request)?;
        let (spec, running) = profile::spec(profile, path, request, args.destroy, seed)?;
        (spec, Some(running))
    };
    let control = stoppable(globals)?;
    let mut progress = Progress::new(globals.quiet);
    let small = (name == "bonnie").then(|| warning(&spec, host.memory_bytes)).flatten();
    if let Some(text) = &small {
        progress.say(text);
    }
    let mut next = |done: &[Done]| running.as_mut().and_then(|running| running.next_jobs(done));
    let mut results = runner::run(spec, &mut next, &control, &mut progress)
        .map_err(|error| CliError::Failed(error.to_string()))?;
    drop(progress);
    results.notes.extend(small);
    let conclusions = match (running, &results.ended_early) {
        (Some(running), None) => running.conclusions(&results.done),
        // What a course shows, it shows at its end.
        (Some(_), Some(_)) => vec!["ended before its last step: nothing is concluded".to_owned()],
        (None, _) => Vec::new(),
    };
    if args.format == Format::BonnieCsv && results.done.is_empty() {
        return ending(results);
    }
    if args.format == Format::BonnieCsv {
        let size = results.done.first().and_then(|done| match done.job.workload.stop {
            Stop::Size(size) => Some(size),
            Stop::Runtime(_) => None,
        });
        let version = concat!("ebb-", env!("CARGO_PKG_VERSION"));
        let host = BonnieHost { name: &host.hostname, version, seed, size: size.unwrap_or_default() };
        // A test that was cut short has no result.
        let early = results.ended_early.is_some();
        let whole = results.done.iter().filter(|done| !early || is_complete(done));
        let whole: Vec<_> = whole.map(|done| (done.job.name.as_str(), &done.samples)).collect();
        views::print_data(&csv(&host, &whole))?;
    } else {
        show(name, &results, &conclusions, seed, globals)?;
    }
    ending(results)
}

fn in_order(results: &Results) -> Vec<ProfileStep<'_>> {
    let step = |done| {
        let Done { job, samples, verdicts, .. }: &Done = done;
        ProfileStep { name: &job.name, samples, verdicts }
    };
    results.done.iter().map(step).collect()
}

/// Whether a job that ends by size has come to its end.
fn is_complete(done: &Done) -> bool {
    let Stop::Size(size) = done.job.workload.stop else { return true };
    let (read, write) = (done.samples.array.read.count.bytes, done.samples.array.write.count.bytes);
    match done.job.workload.mix {
        Mix::Rewrite => write >= size.0,
        _ => read + write >= size.0,
    }
}

fn show(
    name: &str,
    results: &Results,
    conclusions: &[String],
    seed: u64,
    globals: &Globals,
) -> Result<(), CliError> {
    if globals.json {
        let mut value = describe::json(results, seed);
        value["ebbtide"] = json!({ "profile": name, "conclusions": conclusions });
        return views::print_json(&value);
    }
    let Some(first) = results.done.first() else { return Ok(()) };
    let mut remarks = conclusions.to_vec();
    remarks.extend(notes(results).into_iter().map(|note| format!("note: {note}")));
    remarks.push(format!("seed {seed}"));
    let (columns, color) = views::stdout_width();
    let title = format!("profile {name} on {}", first.target);
    views::print_styled(&steps(&title, &in_order(results), &remarks, columns, color))
}

/// Every note once; one that only some steps have, with their names.
fn notes(results: &Results) -> Vec<String> {
    let mut noted: Vec<(&String, Vec<&str>)> = Vec::new();
    for done in &results.done {
        for note in done.job.notes.iter().chain(&done.samples.notes) {
            match noted.iter_mut().find(|(known, _)| *known == note) {
                Some((_, steps)) => steps.push(&done.job.name),
                None => noted.push((note, vec![&done.job.name])),
            }
        }
    }
    let told = noted.into_iter().map(|(note, steps)| {
        if steps.len() == results.done.len() && steps.len() > 1 {
            note.clone()
        } else {
            format!("{}: {note}", steps.join(", "))
        }
    });
    told.chain(results.notes.iter().cloned()).collect()
}

/// What the profile `which` is and does.
fn show_one(which: &str, args: &BenchArgs, json: bool) -> Result<String, CliError> {
    if is_profile_file(which) {
        return Ok(shown::own(which, &profile::own(Path::new(which))?, json));
    }
    let memory = Bytes(host_info(&Sys::host()).memory_bytes);
    let request = ProfileRequest {
        size: args.workload.size(),
        runtime: args.workload.runtime(),
        memory,
        seed: args.randseed.unwrap_or_default(),
    };
    Ok(shown::built_in(built_in(which)?, &request, json))
}

fn names() -> String {
    let names: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
    names.join(", ")
}

/// bonnie++ itself refuses a file that memory could hold.
fn warning(spec: &Spec, memory: u64) -> Option<String> {
    let size = spec.experiment.volumes.first()?.size?;
    (size.0 < memory.saturating_mul(2)).then(|| {
        format!(
            "the file of {size} is smaller than twice the memory ({} MiB): much of what is read and written is measured \
             in the page cache",
            memory >> 20
        )
    })
}

/// The workloads of a file of the user's own, one after the other.
fn own(args: &BenchArgs, file: &Path, path: &Path, seed: u64) -> Result<Spec, CliError> {
    let workloads = profile::own(file)?;
    let writes = workloads.iter().any(Workload::writes);
    let reads = workloads.iter().any(Workload::reads);
    let wanted = target::Wanted {
        size: args.workload.size(),
        offset: Bytes(0),
        reads,
        writes,
        destroy: args.destroy,
        words: target::Words::COMMAND,
    };
    let resolved = target::resolve(path, wanted)?;
    let fill = resolved.fill;
    let jobs = (0u32..).zip(workloads).map(|(group, mut workload)| {
        if let Some(runtime) = args.workload.runtime() {
            workload.stop = Stop::Runtime(runtime);
        }
        let (name, options, notes) = (workload.name.clone(), options::said(&workload), Vec::new());
        Job { name, group, design: 0, workload, options, notes }
    });
    Ok(Spec {
        jobs: jobs.collect(),
        experiment: experiment(
            vec![resolved.volume],
            vec![(path.to_string_lossy().into_owned(), LayoutNode::Volume(0))],
        ),
        destroy: args.destroy && (fill || writes),
        written: Some(if writes { vec![0] } else { Vec::new() }),
        named: if resolved.new { vec![(0, path.to_owned())] } else { Vec::new() },
        fill: Fill::Only(if fill { vec![0] } else { Vec::new() }),
        ladder: true,
        seed,
    })
}

fn built_in(name: &str) -> Result<&'static Profile, CliError> {
    Profile::get(name).ok_or_else(|| {
        CliError::Usage(format!(
            "there is no profile `{name}`; there are {}, and files of your own (NAME.toml)",
            names()
        ))
    })
}

/// Refuses an option that would change nothing.
fn takes(profile: &Profile, request: &ProfileRequest) -> Result<(), CliError> {
    let (what, why) = match (request, profile) {
        (ProfileRequest { size: Some(_), .. }, Profile { takes_size: false, .. }) => {
            ("--size", "its files have a size of their own")
        }
        (ProfileRequest { runtime: Some(_), .. }, Profile { takes_runtime: false, .. }) => {
            ("--runtime", "its steps end when they have read or written the whole; say --size")
        }
        _ => return Ok(()),
    };
    Err(CliError::Usage(format!("{what} means nothing to profile {}: {why}", profile.name)))
}
