//! `ebb run`: an experiment from file to answer.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::experiment_file;
use crate::laboratory;
use crate::progress::Progress;
use crate::session::kernel::{self, KernelPlan};
use crate::session::setup::SessionSetup;
use crate::session::{self, Request, RunContext, clock, journal, signals, surroundings};
use crate::store::Store;
use crate::views::{self, Format};
use clap::{Args, ValueEnum};
use ebbtide_analysis::{Analysis, analyse, unanswered};
use ebbtide_engine::files;
use ebbtide_lab::accelerator;
use ebbtide_lab::backend::adapt::adapt;
use ebbtide_lab::backend::how_long;
use ebbtide_lab::backend::scale::{Scale, scaled};
use ebbtide_model::backend::{BackendKind, Control};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::plan::Plan;
use ebbtide_model::session::{Ending, Session};
use ebbtide_model::shown::Shown;
use ebbtide_report::{JsonOptions, Report};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Run an experiment: build its designs, measure them in turn, compare them, say what limits each
///
/// Exit status: 0 the answer is there, 1 failed, 2 wrong usage, 3 it ran but the answer is inconclusive,
/// 130 interrupted (finished trials are kept).
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Experiment file (TOML); experiments/ has some to begin with
    file: PathBuf,
    /// Seed of the order of trials and of all random data; the same seed gives the same order [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print what would be done and touch nothing
    #[arg(long)]
    dry_run: bool,
    /// Also write the report to FILE; its ending says what: .html, .json, .csv, .txt
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What carries the experiment out
    #[arg(long, value_enum, default_value = "files", value_name = "BACKEND")]
    on: On,
    /// Keep the volumes that the run makes
    #[arg(long)]
    keep: bool,
    /// Existing files and devices that the experiment names may be overwritten: their content is lost
    #[arg(long)]
    destroy: bool,
    /// Factor on all limits of volumes and links and on offered rates, for example 1/20; trials last longer for it
    /// [default: 1; with `--on lab` what the guest carries]
    #[arg(long, value_name = "FRACTION")]
    scale: Option<Scale>,
    /// Do not store the session
    #[arg(long)]
    no_save: bool,
}

/// A backend by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    /// Real I/O on files, or on devices opened directly
    Files,
    /// md, LVM, encryption and file systems of this host's kernel, built for each trial; as root
    Kernel,
    /// The same in a QEMU guest with a disk for each volume, as fast as its limits say; needs no root
    Lab,
    /// Nothing: virtual time, a month in seconds
    Sim,
}

impl On {
    fn kind(self) -> BackendKind {
        match self {
            On::Files => BackendKind::Files,
            On::Kernel => BackendKind::Kernel,
            On::Lab => BackendKind::Lab,
            On::Sim => BackendKind::Sim,
        }
    }
}

/// Runs `ebb run`.
///
/// # Errors
/// See the exit statuses in the help.
pub fn run(args: &RunArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    refuse_options(args)?;
    let name = args.file.to_string_lossy();
    let (text, experiment) = experiment_file::load(&args.file, &super::catalog::load(globals)?)?;
    let output =
        args.output.as_deref().map(|path| super::report::format_of(path, true).map(|format| (path, format)));
    let output = output.transpose()?;
    if let Some((path, _)) = output {
        views::can_save(path)?;
    }
    session::fit::check(&experiment, args.on.kind())
        .map_err(|what| CliError::Usage(format!("{name}: {what}")))?;
    let seed = args.seed.unwrap_or_else(|| u64::from(clock::random()));
    let id = clock::session_id();
    let options = files::Options {
        name: id.clone(),
        seed,
        destroy: args.destroy,
        places: surroundings::places_for_volumes(),
        ..files::Options::default()
    };
    let (experiment, warning) = match args.scale.filter(|_| args.on != On::Lab) {
        Some(scale) => (scaled(&experiment, scale), (scale != Scale::ONE).then(|| scale.as_asked_for())),
        None => (experiment, None),
    };
    if args.dry_run {
        return dry_run(&experiment, seed, args, &options, globals);
    }

    let failed = |error: String| CliError::Failed(error);
    let control = Arc::new(Control::default());
    signals::stop_on_signals(control.clone(), globals.quiet)
        .and_then(|()| signals::file_size_limit_is_an_error())
        .map_err(|error| failed(format!("cannot set up signal handlers: {error}")))?;
    let key = if args.on == On::Kernel { kernel::key::ask(&experiment, &control)? } else { None };
    let mut store = if args.no_save {
        None
    } else {
        Some(Store::open(globals.store.as_deref()).map_err(|error| failed(error.to_string()))?)
    };
    if let Some((path, _)) = output {
        // Once more: the store that was just made must not be what the report replaces.
        views::can_save(path)?;
    }
    let mut progress = Progress::new(globals.quiet);
    greet(&progress, &id, seed, &experiment);
    let SessionSetup { mut backend, mut observer, experiment, host, engine_ceiling_iops, warnings } =
        match args.on {
            On::Lab => {
                let say = |text: &str| progress.say(text);
                SessionSetup::of_guest(&experiment, &options, args.scale, &control, globals.quiet, &say)?
            }
            On::Files | On::Kernel | On::Sim => {
                SessionSetup::of_host(args.on.kind(), experiment, options, key)?
            }
        };
    let warnings = warning.into_iter().chain(warnings).collect();
    let request = Request {
        id,
        experiment,
        text,
        seed,
        host,
        engine_ceiling_iops,
        warnings,
        keep: args.keep,
        destroy: args.destroy,
    };
    let mut context =
        RunContext { store: store.as_mut(), control, watch: &mut progress, observer: observer.as_mut() };
    let session =
        session::run(request, backend.as_mut(), &mut context).map_err(|error| failed(error.to_string()))?;
    drop(backend);
    if args.keep {
        say_kept(&progress, &session);
    }
    drop(progress);
    let analysis = analyse(&session);
    let mut report = Report::new(&session, &analysis);
    report.stored = store.is_some();
    if let Some(store) = &mut store {
        let headline = report.answer.first().filter(|_| !session.trials.is_empty());
        store
            .update(&session.meta, headline.map(String::as_str))
            .map_err(|error| failed(error.to_string()))?;
    }
    show(&session, &report, globals)?;
    // A report of nothing must not take the place of one of something.
    if let Some((path, format)) = output.filter(|_| !session::was_refused(&session)) {
        views::save(path, &views::render(&report, format))?;
        if !globals.quiet && path.as_os_str() != "-" {
            views::say(&format!("ebb: report written to {}", path.shown()));
        }
    }
    ending(&session, &analysis, report.stored)
}

/// Options that the backend has no use for.
fn refuse_options(args: &RunArgs) -> Result<(), CliError> {
    let what = match args.on {
        On::Kernel if args.keep => {
            "--keep has no meaning with `--on kernel`: an array is taken apart after each trial"
        }
        On::Lab if args.keep => "--keep has no meaning with `--on lab`: the disks go with the guest",
        On::Lab if args.destroy => {
            "--destroy has no meaning with `--on lab`: the guest's disks are its own, and nothing of this host is written"
        }
        On::Kernel if args.scale.is_some() => {
            "--scale has no meaning with `--on kernel`, which runs devices as fast as they are"
        }
        _ => return Ok(()),
    };
    Err(CliError::Usage(what.to_owned()))
}

/// Seed and id, and what earlier runs left behind.
fn greet(progress: &Progress, id: &str, seed: u64, experiment: &Experiment) {
    progress.say(&format!("session {id} of {}, seed {seed}", experiment.name));
    let abandoned = journal::directory().and_then(|directory| journal::abandoned(&directory));
    match abandoned {
        Ok(found) if found.abandoned.iter().any(|run| !run.left.is_empty()) => progress.say(
            "an earlier run left something behind: `ebb cleanup --dry-run` lists them, `ebb cleanup` removes them",
        ),
        Ok(found) => {
            for (path, _) in found.unreadable {
                progress.say(&format!("the journal {} cannot be read: `ebb cleanup` says why", path.shown()));
            }
        }
        Err(error) => progress.say(&error),
    }
}

fn say_kept(progress: &Progress, session: &Session) {
    for volume in session.meta.inventory.volumes.iter().filter(|volume| !volume.path.is_empty()) {
        progress.say(&format!("volume {} is kept: {}", volume.name, volume.path));
    }
}

/// The report on standard output; nothing to show of a session without trials, except to programs.
fn show(session: &Session, report: &Report, globals: &Globals) -> Result<(), CliError> {
    if globals.json {
        views::print_data(&views::render(report, Format::Json(JsonOptions::default())))
    } else if session.trials.is_empty() {
        Ok(())
    } else {
        views::print_styled(&views::for_stdout(report))
    }
}

/// What would be done: steps, trials of the first rounds, space, longest time.
fn dry_run(
    experiment: &Experiment,
    seed: u64,
    args: &RunArgs,
    options: &files::Options,
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    let (on, failed) = (args.on, |error: String| CliError::Failed(error));
    let survey = match on {
        On::Files | On::Kernel => files::survey(experiment, options),
        On::Lab | On::Sim => Ok(files::Survey::default()),
    };
    let guest = match on {
        On::Lab => {
            let accelerator = accelerator(&laboratory::places()?)?;
            let adapted = adapt(experiment, accelerator, args.scale).map_err(CliError::Usage)?;
            Some((adapted, accelerator))
        }
        On::Files | On::Kernel | On::Sim => None,
    };
    let builds = match (&guest, on) {
        (Some((adapted, _)), _) => Some(kernel::plan(&adapted.inside, &options.name)),
        (None, On::Kernel) => Some(kernel::plan(experiment, &options.name)),
        (None, _) => None,
    };
    let builds = builds.transpose().map_err(|error| failed(error.to_string()))?;
    let experiment = guest.as_ref().map_or(experiment, |(adapted, _)| &adapted.experiment);
    let plan = Plan::new(experiment, on.kind(), seed, args.destroy);
    if globals.json {
        let places: Vec<_> = survey
            .iter()
            .flat_map(|survey| &survey.places)
            .map(|place| {
                serde_json::json!({
                    "directory": place.directory.to_string_lossy(),
                    "filesystem": place.filesystem,
                    "needed_bytes": place.needed,
                    "free_bytes": place.free,
                })
            })
            .collect();
        let mut value = serde_json::json!({ "schema": "ebbtide.plan/1", "plan": plan, "places": places });
        if let Some(KernelPlan { builds, .. }) = &builds {
            value["builds"] = serde_json::json!(builds);
        }
        if let Some((adapted, _)) = &guest {
            value["guest"] = adapted.json();
        }
        views::print_json(&value)?;
    } else {
        views::print(&plan.to_string())?;
        if let Some(builds) = &builds {
            let built = match &guest {
                None => kernel::Built::EachTrial,
                Some((adapted, _)) if adapted.own_disks => kernel::Built::Once,
                Some(_) => kernel::Built::InTurn,
            };
            views::print(&kernel::show(experiment, builds, built))?;
        }
        if let Some((adapted, accelerator)) = &guest {
            views::print(&adapted.to_string())?;
            views::print(&format!("{}\n", how_long(&plan, experiment, *accelerator)))?;
        }
        for place in survey.iter().flat_map(|survey| &survey.places) {
            views::print(&format!(
                "space: {} MiB in {} ({}), {} MiB are free there\n",
                place.needed.div_ceil(1 << 20),
                place.directory.shown(),
                place.filesystem.as_deref().unwrap_or("file system of unknown type"),
                place.free >> 20,
            ))?;
        }
    }
    survey.map_err(|error| CliError::Failed(error.to_string()))?;
    if let Some(refused) = plan.refused {
        return Err(CliError::Failed(refused));
    }
    // The plan is right all the same, and has been printed.
    match builds.filter(|_| on == On::Kernel).map(|builds| builds.check_host()) {
        Some(Err(what)) => Err(CliError::Failed(format!("this host cannot carry that out: {what}"))),
        Some(Ok(())) | None => Ok(ExitCode::SUCCESS),
    }
}

/// The exit status that the session earned.
fn ending(session: &Session, analysis: &Analysis, stored: bool) -> Result<ExitCode, CliError> {
    let trials = session.trials.len();
    match &session.meta.ending {
        Ending::Failed(why) => Err(CliError::Failed(why.clone())),
        Ending::Interrupted => Err(CliError::Interrupted(if stored {
            format!("finished trials are kept ({trials})")
        } else {
            format!("{trials} trials had finished; with --no-save none is kept")
        })),
        Ending::Reached | Ending::NotReached | Ending::Unfinished => {
            let unanswered = unanswered(session, analysis);
            if unanswered.is_empty() {
                Ok(ExitCode::SUCCESS)
            } else {
                Err(CliError::Inconclusive(format!("inconclusive: {}", unanswered.join("; "))))
            }
        }
    }
}
