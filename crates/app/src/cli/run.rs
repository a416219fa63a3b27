//! `ebb run`: an experiment from file to answer.

use crate::cli::best;
use crate::cli::globals::Globals;
use crate::cli::hosts::HostsArgs;
use crate::error::CliError;
use crate::experiment_file;
use crate::kernel_names;
use crate::key;
use crate::laboratory;
use crate::progress::Progress;
use crate::signals;
use crate::views::{self, Format};
use clap::{Args, ValueEnum};
use ebbtide_analysis::{Analysis, together, unanswered};
use ebbtide_engine::files;
use ebbtide_lab::accelerator;
use ebbtide_lab::backend::adapt::adapt;
use ebbtide_lab::backend::how_long;
use ebbtide_lab::backend::scale::{Scale, scaled};
use ebbtide_model::backend::BackendKind;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::hosts::placing::Placement;
use ebbtide_model::plan::RunPlan;
use ebbtide_model::session::{Ending, Session, SessionMeta};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::format_count;
use ebbtide_report::{JsonOptions, Kept, OfDesign, Report};
use ebbtide_runner::kernel;
use ebbtide_runner::listener::SessionListener;
use ebbtide_runner::session::{self, Ended, RunContext};
use ebbtide_runner::store::{Keep, Packed, Store};
use ebbtide_runner::{clock, fit, journal, places, setup, surroundings};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run an experiment: build its designs, measure them in turn, compare them, say what limits each
///
/// Exit status: 0 the answer is there, 1 failed, 2 wrong usage, 3 it ran but the answer is inconclusive,
/// 130 interrupted (finished trials are kept).
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Experiment file (TOML); experiments/ has some to begin with
    file: PathBuf,
    /// Seed of the order of trials and of all random data [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print what would be done, and touch nothing
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: every design of a sweep and every trial of each round, not only how many
    #[arg(long, requires = "dry_run")]
    verbose: bool,
    /// Also write the report to FILE, in the format of its extension: .html, .json, .csv or .txt; with .toml the best design of a
    /// sweep, as an experiment of its own
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Where to run the experiment
    #[arg(long, value_enum, default_value = "files", value_name = "BACKEND")]
    on: On,
    /// Keep the volumes that the run makes
    #[arg(long)]
    keep: bool,
    /// Overwrite existing files and devices that the experiment names: their content is lost
    #[arg(long)]
    destroy: bool,
    /// Scale all limits of volumes and links and all offered rates, for example by 1/20; trials take longer in proportion
    /// [default: 1; with `--on lab`, what the guest can carry]
    #[arg(long, value_name = "FRACTION")]
    scale: Option<Scale>,
    /// Do not store the session
    #[arg(long)]
    no_save: bool,
    #[command(flatten)]
    hosts: HostsArgs,
}

/// A backend by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum On {
    /// Real I/O on files, or on devices opened directly
    Files,
    /// md, LVM, encryption and file systems of this host's kernel, built for each trial (of a sweep: `builds`); as root
    Kernel,
    /// The same in a QEMU guest, with a throttled disk for each volume; needs no root
    Lab,
    /// A simulation in virtual time, a month in seconds
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
    let (text, mut experiment) = experiment_file::load(&args.file, &super::catalog::load(globals)?)?;
    if matches!(args.on, On::Files | On::Sim) {
        experiment.builds_nothing_in_turn();
    }
    let format = |path| match best::is_asked(path) {
        true if experiment.sweep.is_none() => Err(best::none(path)),
        true => best::may_replace(path).map(|()| (path, None)),
        false => super::report::format_of(path, true).map(|format| (path, Some(format))),
    };
    let output = args.output.as_deref().map(format).transpose()?;
    if let Some((path, _)) = output {
        let of = |path: &Path| std::fs::metadata(path).ok().map(|there| (there.dev(), there.ino()));
        if of(path).is_some_and(|own| Some(own) == of(&args.file)) {
            return Err(CliError::Usage(format!(
                "{}: this is the experiment itself; choose another file with -o",
                path.shown()
            )));
        }
        views::can_save(path)?;
    }
    let ready = Ready::new(args, text, experiment)?;
    if args.dry_run {
        return dry_run(&ready, args, globals);
    }

    let open = || Store::open(globals.store.as_deref()).map_err(CliError::failed);
    let mut store = (!args.no_save).then(open).transpose()?;
    if let Some((path, _)) = output {
        // Once more: the store that was just made must not be what the report replaces.
        views::can_save(path)?;
    }
    let mut keep_in = store.as_mut().map_or_else(|| Keep::Memory(Packed::default()), Keep::Store);
    let ended = ready.measure(args, &mut keep_in, globals)?;
    let session = &ended.session;
    let shown = if globals.json { Format::Json(JsonOptions::default()) } else { Format::Text };
    let formats = [Some(shown), output.and_then(|(_, format)| format)].into_iter().flatten();
    let kept = formats.map(|format| format.kept(session)).max().unwrap_or(Kept::Figures);
    let parts = keep_in
        .by_design(session, |part, records| OfDesign::new(session, part, records, kept))
        .map_err(CliError::failed)?;
    let (parts, of_designs) = parts.into_iter().unzip();
    let analysis = together(session, parts);
    let mut report = Report::together(session, analysis.clone(), of_designs);
    report.stored = matches!(keep_in, Keep::Store(_));
    let headline = report.answer.first().filter(|_| ended.trials > 0);
    // One that was refused is not in the store: nothing is changed.
    keep_in.update(&session.meta, headline.map(String::as_str)).map_err(CliError::failed)?;
    if globals.json {
        views::print_data(&views::render(&report, Format::Json(JsonOptions::default())))?;
    } else if ended.trials > 0 {
        views::print_styled(&views::for_stdout(&report))?;
    }
    // A report of nothing must not take the place of one of something.
    let mut no_best = None;
    if let Some((path, format)) = output.filter(|_| !ended.was_refused()) {
        let save = |text: &str, said: &str| {
            views::save(path, text)?;
            if !globals.quiet && path.as_os_str() != "-" {
                views::say(&format!("ebb: {said} written to {}", path.shown()));
            }
            Ok::<(), CliError>(())
        };
        match (format, &analysis.race) {
            (Some(format), _) => save(&views::render(&report, format), "report")?,
            (None, None) => no_best = Some(best::NoBest::None.error(path)),
            (None, Some(race)) => match best::best(session, race) {
                Ok(best) => save(&best.text, &format!("{};", best.said))?,
                Err(why) => no_best = Some(why.error(path)),
            },
        }
    }
    let status = ending(&ended, &analysis, report.stored);
    match (status, no_best) {
        (Ok(_), Some(none)) => Err(none),
        (Err(error), Some(none)) => {
            // Why is in the error.
            views::say(&format!("ebb: {none}"));
            Err(error)
        }
        (status, None) => status,
    }
}

impl RunArgs {
    /// What carries it out.
    fn kind(&self) -> BackendKind {
        if self.hosts.any() { BackendKind::Hosts } else { self.on.kind() }
    }

    /// Of a run of `file` that is stored and writes no report.
    pub(super) fn of(file: &Path, on: On, seed: Option<u64>, destroy: bool, dry_run: bool) -> RunArgs {
        RunArgs {
            file: file.to_owned(),
            seed,
            dry_run,
            verbose: false,
            output: None,
            on,
            keep: false,
            destroy,
            scale: None,
            no_save: false,
            hosts: HostsArgs::default(),
        }
    }
}

/// What would be done for `experiment`, which was made of the file of `args`.
///
/// # Errors
/// What the backend cannot do, and as [`run`].
pub(super) fn plan(
    args: &RunArgs,
    text: String,
    experiment: Experiment,
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    refuse_options(args)?;
    let ready = Ready::new(args, text, experiment)?;
    dry_run(&ready, args, globals)
}

/// Runs `experiment`, which was made of the file of `args`, and keeps its trials in `store`.
///
/// # Errors
/// What the backend cannot do; when the run cannot begin or its trials cannot be kept. How it ended is in what comes back.
pub(super) fn measure(
    args: &RunArgs,
    text: String,
    experiment: Experiment,
    store: &mut Store,
    globals: &Globals,
) -> Result<Ended, CliError> {
    refuse_options(args)?;
    Ready::new(args, text, experiment)?.measure(args, &mut Keep::Store(store), globals)
}

/// An experiment that its backend can run.
struct Ready {
    text: String,
    experiment: Experiment,
    seed: u64,
    options: files::Options,
    scale: Option<Scale>,
    /// Where it runs, where that is on several hosts.
    placement: Option<Placement>,
}

impl Ready {
    /// # Errors
    /// What the backend of `args` cannot do.
    fn new(args: &RunArgs, text: String, experiment: Experiment) -> Result<Ready, CliError> {
        let name = args.file.to_string_lossy();
        let placement = args.hosts.placement(&experiment)?;
        let mut experiment = experiment;
        if args.kind() == BackendKind::Sim {
            experiment.in_virtual_time();
        }
        let experiment = placement.as_ref().map_or(experiment, |placement| placement.experiment.clone());
        fit::check(&experiment, args.kind()).map_err(|what| CliError::Usage(format!("{name}: {what}")))?;
        let seed = args.seed.unwrap_or_else(|| u64::from(clock::random()));
        let options = files::Options {
            name: clock::session_id(),
            seed,
            destroy: args.destroy,
            places: places::for_volumes(),
            ..files::Options::default()
        };
        let scale = args.scale.filter(|scale| args.on != On::Lab && *scale != Scale::ONE);
        let experiment = match scale {
            Some(scale) => scaled(&experiment, scale),
            None => experiment,
        };
        Ok(Ready { text, experiment, seed, options, scale, placement })
    }

    /// Runs it, and tells how it is going.
    fn measure(self, args: &RunArgs, keep_in: &mut Keep<'_>, globals: &Globals) -> Result<Ended, CliError> {
        let Ready { text, experiment, seed, options, scale, placement } = self;
        let control = signals::stoppable(globals.quiet)?;
        let key = if args.on == On::Kernel { key::ask(&experiment, &control)? } else { None };
        let id = options.name.clone();
        let mut progress = Progress::new(globals.quiet);
        greet(&progress, &id, seed, &experiment);
        let notes = kernel_names::notes(&experiment).into_iter().chain(experiment.cannot_decide());
        notes.for_each(|note| progress.say(&format!("note: {note}")));
        let mut session = Session {
            meta: SessionMeta::new(id, args.kind(), seed, clock::now()),
            experiment,
            experiment_text: text,
            trials: Vec::new(),
        };
        session.meta.warnings.extend(scale.map(Scale::as_asked_for));
        let mut backend = match (args.on, placement) {
            (_, Some(placement)) => {
                let launcher = args.hosts.launcher()?;
                placement.in_words().iter().for_each(|line| progress.say(line));
                setup::on_hosts(&mut session, placement, launcher.as_ref(), args.destroy, &control)?
            }
            (On::Lab, None) => {
                let lab_says = laboratory::says(globals.quiet);
                setup::in_guest(&mut session, args.scale, &control, lab_says, &|text| progress.say(text))?
            }
            (On::Files | On::Kernel | On::Sim, None) => setup::on_host(&mut session, options, key)?,
        };
        let mut context =
            RunContext { keep_in, control, watch: &mut progress, keep: args.keep, destroy: args.destroy };
        let ended = session::run(session, backend.as_mut(), &mut context).map_err(CliError::failed)?;
        drop(backend);
        let volumes = &ended.session.meta.inventory.volumes;
        for volume in volumes.iter().filter(|volume| args.keep && !volume.path.is_empty()) {
            progress.say(&format!("volume {} is kept: {}", volume.name, volume.path));
        }
        Ok(ended)
    }
}

/// Options that the backend has no use for.
fn refuse_options(args: &RunArgs) -> Result<(), CliError> {
    let what = match args.on {
        On::Kernel | On::Lab | On::Sim if args.hosts.any() => {
            "--hosts runs files and devices of the hosts as they are, as `--on files` does; leave out --on"
        }
        _ if args.hosts.any() && args.scale.is_some() => {
            "--scale has no meaning with --hosts: what is on hosts is as fast as it is"
        }
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
    match places::journals().and_then(|directory| journal::abandoned(&directory)) {
        Ok(found) if found.abandoned.iter().any(|run| !run.left.is_empty()) => progress.say(
            "an earlier run left something behind: `ebb cleanup --dry-run` lists it, `ebb cleanup` removes it",
        ),
        Ok(found) => {
            for (path, _) in found.unreadable {
                progress.say(&format!("the journal {} cannot be read: `ebb cleanup` says why", path.shown()));
            }
        }
        Err(error) => progress.say(&error.to_string()),
    }
}

/// What would be done: steps, trials of the first rounds, space, longest time.
fn dry_run(ready: &Ready, args: &RunArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let Ready { experiment, seed, options, placement, .. } = ready;
    let on = args.on;
    let survey = match on {
        // What room there is on other hosts they say when they are asked.
        _ if placement.is_some() => Ok(files::Survey::default()),
        On::Files | On::Kernel => files::survey(experiment, options),
        On::Lab | On::Sim => Ok(files::Survey::default()),
    };
    let guest = match on {
        On::Lab => {
            let accelerator = accelerator(&places::lab()?)?;
            Some((adapt(experiment, accelerator, args.scale).map_err(CliError::usage)?, accelerator))
        }
        On::Files | On::Kernel | On::Sim => None,
    };
    let built = match (&guest, on) {
        (Some((adapted, _)), _) => Some(&adapted.inside),
        (None, On::Kernel) => Some(experiment),
        (None, _) => None,
    };
    let builds =
        built.map(|built| kernel::plan(built, &options.name)).transpose().map_err(CliError::failed)?;
    let experiment = guest.as_ref().map_or(experiment, |(adapted, _)| &adapted.experiment);
    let mut plan = RunPlan::new(experiment, args.kind(), *seed, args.destroy);
    plan.notes.splice(0..0, kernel_names::notes(experiment));
    let (mut text, mut places) = (plan.beginning(args.verbose), Vec::new());
    let mut value = json!({ "schema": "ebbtide.dry-run/1", "plan": plan });
    if let Some(builds) = &builds {
        value["builds"] = json!(builds.builds);
        let built = match &guest {
            Some((adapted, _)) if adapted.own_disks => kernel::Built::Once,
            _ if experiment.shared_builds().is_some() => kernel::Built::Shared,
            None => kernel::Built::EachTrial,
            Some(_) => kernel::Built::InTurn,
        };
        text += &kernel::show(experiment, builds, built);
    }
    if let Some((adapted, accelerator)) = &guest {
        value["guest"] = adapted.json();
        text += &format!("{adapted}{}\n", how_long(&plan, experiment, *accelerator));
    }
    if let Some(placement) = placement {
        let lines = placement.in_words();
        value["hosts"] = json!(lines);
        lines.iter().chain(&placement.notes).for_each(|line| text += &format!("{line}\n"));
    }
    for place in survey.iter().flat_map(|survey| &survey.places) {
        places.push(json!({
            "directory": place.directory.to_string_lossy(),
            "filesystem": place.filesystem,
            "needed_bytes": place.needed,
            "free_bytes": place.free,
        }));
        text += &format!(
            "space: {} in {} ({}), {} are free there\n",
            place.needed.short(),
            place.directory.shown(),
            place.filesystem.as_deref().unwrap_or("file system of unknown type"),
            place.free.short(),
        );
    }
    value["places"] = places.into();
    text += &plan.rounds(args.verbose);
    let answered = views::answer(globals.json, &value, &text)?;
    survey.map_err(CliError::failed)?;
    if matches!(on, On::Files | On::Kernel) && placement.is_none() {
        let door = surroundings::without_journal().door;
        files::may_open(experiment, options, &door).map_err(CliError::failed)?;
    }
    if let Some(refused) = plan.refused {
        return Err(CliError::Failed(refused));
    }
    // The plan is right all the same, and has been printed.
    match builds.filter(|_| on == On::Kernel).map(|builds| builds.check_host()) {
        Some(Err(what)) => Err(CliError::Failed(format!("this host cannot run it: {what}"))),
        Some(Ok(())) | None => Ok(answered),
    }
}

/// Operations that failed without ending their trials.
fn operations_failed(analysis: &Analysis) -> u64 {
    analysis.results.iter().map(|result| result.conditioned.failed).sum()
}

/// The exit status that the session earned.
fn ending(ended: &Ended, analysis: &Analysis, stored: bool) -> Result<ExitCode, CliError> {
    let Ended { session, trials } = ended;
    match &session.meta.ending {
        Ending::Failed(why) => Err(CliError::Failed(why.clone())),
        Ending::Interrupted => Err(CliError::Interrupted(if stored {
            format!("finished trials are kept ({trials})")
        } else {
            format!("{trials} trials had finished; with --no-save they are not kept")
        })),
        _ if operations_failed(analysis) > 0 => Err(CliError::Failed(format!(
            "{} failed; the trials went on, as continue_on_error says",
            format_count(operations_failed(analysis), "operation")
        ))),
        _ if analysis.race.as_ref().is_some_and(|race| race.left.is_empty()) => {
            Err(CliError::Failed("no design is left: each breaks a limit or failed".to_owned()))
        }
        Ending::Reached | Ending::NotReached | Ending::Unfinished => match unanswered(session, analysis) {
            open if open.is_empty() => Ok(ExitCode::SUCCESS),
            open => Err(CliError::Inconclusive(format!("inconclusive: {}", open.join("; ")))),
        },
    }
}
