//! `ebb run`: an experiment from file to answer.

use super::experiment::read;
use super::{CliError, Globals};
use crate::progress::Progress;
use crate::session::kernel::members::KernelWitness;
use crate::session::kernel::{self, Kernel, KernelPlan};
use crate::session::simulated::Simulated;
use crate::session::witness::HostWitness;
use crate::session::{self, Company, Nobody, Request, Witness, clock, journal, signals, surroundings};
use crate::store::Store;
use crate::views::{self, Format};
use clap::{Args, ValueEnum};
use ebbtide_core::analysis::{Analysis, WarningKind, analyse, decided, primary};
use ebbtide_core::backend::{Backend, BackendKind, Control};
use ebbtide_core::experiment::Experiment;
use ebbtide_core::plan::Plan;
use ebbtide_core::report::{JsonOptions, Report};
use ebbtide_core::session::{Ending, Session};
use ebbtide_engine::files::{self, FilesBackend};
use ebbtide_host::{hostinfo, sys::Sys};
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
    /// Nothing: virtual time, a month in seconds
    Sim,
}

impl On {
    fn kind(self) -> BackendKind {
        match self {
            On::Files => BackendKind::Files,
            On::Kernel => BackendKind::Kernel,
            On::Sim => BackendKind::Sim,
        }
    }
}

/// Runs `ebb run`.
///
/// # Errors
/// See the exit statuses in the help.
pub fn run(args: &RunArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let name = args.file.to_string_lossy();
    let text = read(&args.file).map_err(|what| CliError::Usage(format!("{name}: {what}")))?;
    let experiment = Experiment::parse_with(&text, &name, &super::catalog::load(globals)?)
        .map_err(|errors| CliError::Usage(errors.to_string()))?;
    let output =
        args.output.as_deref().map(|path| super::report::format_of(path, true).map(|format| (path, format)));
    let output = output.transpose()?;
    if let Some((path, _)) = output {
        views::can_save(path)?;
    }
    let refused = experiment.refused_in_user_space().filter(|_| args.on == On::Files);
    if let Some(refused) = refused {
        return Err(CliError::Usage(format!("{name}: {refused}")));
    }
    let seed = args.seed.unwrap_or_else(|| u64::from(clock::random()));
    let id = clock::session_id();
    let options = files::Options {
        name: id.clone(),
        seed,
        destroy: args.destroy,
        places: surroundings::places_for_volumes(),
        fill: files::Fill::default(),
    };
    session::fit::check(&experiment, args.on.kind())
        .map_err(|what| CliError::Usage(format!("{name}: {what}")))?;
    if args.keep && args.on == On::Kernel {
        let what = "--keep has no meaning with `--on kernel`: an array is taken apart after each trial";
        return Err(CliError::Usage(what.to_owned()));
    }
    if args.dry_run {
        return dry_run(&experiment, seed, args.on, &options, globals);
    }

    let failed = |error: String| CliError::Failed(error);
    let control = Arc::new(Control::default());
    signals::stop_on_signals(control.clone(), globals.quiet)
        .and_then(|()| signals::file_size_limit_is_an_error())
        .map_err(|error| failed(format!("cannot set up signal handlers: {error}")))?;
    let mut backend: Box<dyn Backend> = match args.on {
        On::Files => Box::new(FilesBackend::new(options, surroundings::of_host(&id).map_err(failed)?)),
        On::Kernel => {
            let key = kernel::key::ask(&experiment, &control)?;
            Box::new(Kernel::new(options, surroundings::of_host(&id).map_err(failed)?, key))
        }
        On::Sim => Box::new(Simulated::new(seed)),
    };
    let mut witness: Box<dyn Witness> = match args.on {
        On::Files => Box::new(HostWitness::default()),
        On::Kernel => Box::new(KernelWitness::default()),
        On::Sim => Box::new(Nobody),
    };
    let mut store = if args.no_save {
        None
    } else {
        Some(Store::open(globals.store.as_deref()).map_err(|error| failed(error.to_string()))?)
    };
    let mut progress = Progress::new(globals.quiet);
    greet(&progress, &id, seed, &experiment);
    let (engine_ceiling_iops, warnings) = match args.on {
        On::Files | On::Kernel => match surroundings::engine_ceiling() {
            Ok(iops) => (Some(iops), Vec::new()),
            Err(unknown) => (None, vec![unknown]),
        },
        On::Sim => (None, Vec::new()),
    };
    let host = hostinfo::host_info(&Sys::host());
    let request =
        Request { id, experiment, text, seed, host, engine_ceiling_iops, warnings, keep: args.keep };
    let mut company =
        Company { store: store.as_mut(), control, watch: &mut progress, witness: witness.as_mut() };
    let session =
        session::run(request, backend.as_mut(), &mut company).map_err(|error| failed(error.to_string()))?;
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
    if let Some((path, format)) = output {
        views::save(path, &views::render(&report, format))?;
        if !globals.quiet && path.as_os_str() != "-" {
            views::say(&format!("ebb: report written to {}", path.display()));
        }
    }
    ending(&session, &analysis, report.stored)
}

/// Seed and id, and what earlier runs left behind.
fn greet(progress: &Progress, id: &str, seed: u64, experiment: &Experiment) {
    progress.say(&format!("session {id} of {}, seed {seed}", experiment.name));
    let abandoned = journal::directory().and_then(|directory| journal::abandoned(&directory));
    match abandoned {
        Ok(runs) if runs.iter().any(|run| !run.left.is_empty()) => progress.say(
            "an earlier run was killed and left files behind: `ebb cleanup --dry-run` lists them, `ebb cleanup` removes them",
        ),
        Ok(_) => {}
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
        views::print(&views::render(report, Format::Json(JsonOptions::default())))
    } else if session.trials.is_empty() {
        Ok(())
    } else {
        views::print(&views::for_stdout(report))
    }
}

/// What would be done: steps, trials of the first rounds, space, longest time.
fn dry_run(
    experiment: &Experiment,
    seed: u64,
    on: On,
    options: &files::Options,
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    let survey = match on {
        On::Files | On::Kernel => files::survey(experiment, options),
        On::Sim => Ok(files::Survey::default()),
    };
    let builds = match on {
        On::Kernel => Some(
            kernel::plan(experiment, &options.name).map_err(|error| CliError::Failed(error.to_string()))?,
        ),
        On::Files | On::Sim => None,
    };
    let plan = Plan::new(experiment, on.kind(), seed);
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
        views::print(&format!("{value:#}\n"))?;
    } else {
        views::print(&plan.to_string())?;
        if let Some(builds) = &builds {
            views::print(&kernel::show(experiment, builds))?;
        }
        for place in survey.iter().flat_map(|survey| &survey.places) {
            views::print(&format!(
                "space: {} MiB in {} ({}), {} MiB are free there\n",
                place.needed.div_ceil(1 << 20),
                place.directory.display(),
                place.filesystem.as_deref().unwrap_or("file system of unknown type"),
                place.free >> 20,
            ))?;
        }
    }
    survey.map(|_| ExitCode::SUCCESS).map_err(|error| CliError::Failed(error.to_string()))
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

/// What keeps a session from being an answer. Intervals wider than asked for do not, where every comparison is
/// decided all the same.
fn unanswered(session: &Session, analysis: &Analysis) -> Vec<String> {
    let mut reasons: Vec<String> = analysis
        .warnings
        .iter()
        .filter(|warning| warning.kind == WarningKind::AaDiffers)
        .map(|warning| match &warning.subject {
            Some(subject) => format!("{subject}: {}", warning.message),
            None => warning.message.clone(),
        })
        .collect();
    if session.meta.ending == Ending::Reached {
        return reasons;
    }
    let asked =
        |workload: &str| session.experiment.workloads.iter().find(|w| w.name == workload).map(primary);
    reasons.extend(
        analysis
            .comparisons
            .iter()
            .filter(|c| asked(&c.workload) == Some(c.metric) && !decided(c.conclusion))
            .map(|c| format!("{} against {} under {}", c.design, c.control, c.workload)),
    );
    if analysis.comparisons.is_empty() {
        reasons.push("intervals are wider than asked for".to_owned());
    }
    reasons
}
