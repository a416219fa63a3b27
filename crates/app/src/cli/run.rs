//! `ebb run`: an experiment from file to answer.

use crate::cli::best;
use crate::cli::globals::Globals;
use crate::cli::hosts::HostsArgs;
use crate::cli::output::{Form, Kind, Output};
use crate::error::CliError;
use crate::experiment_file;
use crate::kernel_names;
use crate::key;
use crate::laboratory;
use crate::progress::Progress;
use crate::signals;
use crate::views;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use ebbtide_analysis::{Analysis, together, unanswered};
use ebbtide_lab::backend::scale::Scale;
use ebbtide_model::experiment::Experiment;
use ebbtide_model::session::{Ending, Session, SessionMeta};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::format_count;
use ebbtide_report::{Kept, OfDesign, Report};
use ebbtide_runner::listener::SessionListener;
use ebbtide_runner::session::{self, Ended, RunContext};
use ebbtide_runner::store::{Keep, Packed, Store};
use ebbtide_runner::ways::{DryRun, NAMED, Named, OnHosts, Run, Start, Way};
use ebbtide_runner::{clock, journal, places};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measure candidate arrays in turn and say what limits each
///
/// Builds the designs of an experiment, measures them, compares them. Of a sweep, `-o best.toml` writes the best design as an
/// experiment of its own.
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
    #[command(flatten)]
    output: Output,
    /// Where to run the experiment
    #[arg(long, value_parser = backends(), default_value = "files", value_name = "BACKEND")]
    on: Named,
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

/// The backends by their names.
pub(super) fn backends() -> impl TypedValueParser<Value = Named> {
    let listed = PossibleValuesParser::new(NAMED.map(|(name, what, _)| PossibleValue::new(name).help(what)));
    let named = |name: String| NAMED.into_iter().find(|(known, ..)| *known == name).map(|(.., way)| way);
    listed.try_map(move |name| named(name).ok_or("no such backend"))
}

/// Runs `ebb run`.
///
/// # Errors
/// See the exit statuses in the help.
pub fn run(args: &RunArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    refuse_options(args)?;
    let (text, experiment) = experiment_file::load(&args.file, &super::catalog::load(globals)?)?;
    if args.dry_run {
        globals.printed.among("`ebb run --dry-run`", Form::PLAIN)?;
    }
    let output = args.output.file(globals, Kind::of_session(&experiment))?;
    if let Some((path, kind)) = output {
        if kind == Kind::Toml {
            best::may_replace(path)?;
        }
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
        return ready.dry_run(globals);
    }

    let open = || Store::open(globals.store.as_deref()).map_err(CliError::failed);
    let mut store = (!args.no_save).then(open).transpose()?;
    if let Some((path, _)) = output {
        // Once more: the store that was just made must not be what the report replaces.
        views::can_save(path)?;
    }
    let mut keep_in = store.as_mut().map_or_else(|| Keep::Memory(Packed::default()), Keep::Store);
    let ended = ready.measure(&mut keep_in, globals)?;
    let session = &ended.session;
    let shown = globals.form().format(false);
    let formats = [Some(shown), output.and_then(|(_, kind)| kind.format(true))].into_iter().flatten();
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
    if ended.trials > 0 || globals.json() {
        views::print_report(&report, shown)?;
    }
    // A report of nothing must not take the place of one of something.
    let mut no_best = None;
    if let Some((path, kind)) = output.filter(|_| !ended.was_refused()) {
        let save = |text: &str, said: &str| {
            views::save(path, text)?;
            if !globals.quiet {
                views::say(&format!("ebb: {said} written to {}", path.shown()));
            }
            Ok::<(), CliError>(())
        };
        match (kind.format(true), &analysis.race) {
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
    /// Of a run of `file` that is stored and writes no report.
    pub(super) fn of(file: &Path, on: Named, seed: Option<u64>, destroy: bool, dry_run: bool) -> RunArgs {
        RunArgs {
            file: file.to_owned(),
            seed,
            dry_run,
            verbose: false,
            output: Output::default(),
            on,
            keep: false,
            destroy,
            scale: None,
            no_save: false,
            hosts: HostsArgs::default(),
        }
    }
}

/// A run, and the backend that can carry it out.
pub(super) struct Ready<'a> {
    args: &'a RunArgs,
    way: Box<dyn Way>,
    run: Run,
}

impl Ready<'_> {
    /// That of `experiment`, which was made of the file of `args`.
    ///
    /// # Errors
    /// What the backend of `args` cannot do.
    pub(super) fn new(args: &RunArgs, text: String, experiment: Experiment) -> Result<Ready<'_>, CliError> {
        refuse_options(args)?;
        let way = args.hosts.way(&experiment)?.unwrap_or_else(args.on);
        let seed = args.seed.unwrap_or_else(|| u64::from(clock::random()));
        let meta = SessionMeta::new(clock::session_id(), way.facts().kind, seed, clock::now());
        let session = Session { meta, experiment, experiment_text: text, trials: Vec::new() };
        let mut run = Run { session, destroy: args.destroy, scale: args.scale };
        let unfit = |what| CliError::Usage(format!("{}: {what}", args.file.to_string_lossy()));
        way.fit(&mut run).map_err(unfit)?;
        Ok(Ready { args, way, run })
    }

    /// What would be done: steps, trials of the first rounds, space, longest time.
    ///
    /// # Errors
    /// Why a run would not begin, once that is printed.
    pub(super) fn dry_run(&self, globals: &Globals) -> Result<ExitCode, CliError> {
        let DryRun { mut plan, mut value, text, refused } = self.way.dry_run(&self.run)?;
        plan.notes.splice(0..0, kernel_names::notes(&self.run.session.experiment));
        value["schema"] = json!("ebbtide.dry-run/1");
        value["plan"] = json!(plan);
        let text = plan.beginning(self.args.verbose) + &text + &plan.rounds(self.args.verbose);
        let answered = views::answer(globals.json(), &value, &text)?;
        // The plan is right all the same, and has been printed.
        refused.map_or(Ok(answered), |why| Err(CliError::Failed(why)))
    }

    /// Runs it, and tells how it is going; its trials are kept in `keep_in`.
    ///
    /// # Errors
    /// When the run cannot begin or its trials cannot be kept. How it ended is in what comes back.
    pub(super) fn measure(self, keep_in: &mut Keep<'_>, globals: &Globals) -> Result<Ended, CliError> {
        let Ready { args, way, mut run } = self;
        let experiment = &run.session.experiment;
        let control = signals::stoppable(globals.quiet)?;
        let key = if way.facts().takes_key { key::ask(experiment, &control)? } else { None };
        let mut progress = Progress::new(globals.quiet);
        greet(&progress, &run.session);
        let notes = kernel_names::notes(experiment).into_iter().chain(experiment.cannot_decide());
        notes.for_each(|note| progress.say(&format!("note: {note}")));
        let (say, lab_says) = (&|text: &str| progress.say(text), laboratory::says(globals.quiet));
        let mut backend = way.start(&mut run, Start { key, control: &control, say, lab_says })?;
        let RunArgs { keep, destroy, .. } = *args;
        let (facts, watch) = (way.facts(), &mut progress);
        let mut context = RunContext { facts, keep_in, control, watch, keep, destroy };
        let ended = session::run(run.session, backend.as_mut(), &mut context).map_err(CliError::failed)?;
        drop(backend);
        let volumes = &ended.session.meta.inventory.volumes;
        for volume in volumes.iter().filter(|volume| keep && !volume.path.is_empty()) {
            progress.say(&format!("volume {} is kept: {}", volume.name, volume.path));
        }
        Ok(ended)
    }
}

/// Options that the backend has no use for.
fn refuse_options(args: &RunArgs) -> Result<(), CliError> {
    let (named, hosts) = ((args.on)().facts().no_use_for, args.hosts.any());
    let no_use_for = if hosts { [named, OnHosts::FACTS.no_use_for] } else { [named, &[]] };
    let scale = args.scale.is_some();
    let given = [("--hosts", hosts), ("--keep", args.keep), ("--destroy", args.destroy), ("--scale", scale)];
    let is_given = |why: &str| given.iter().any(|(option, is)| *is && why.starts_with(option));
    let refused = no_use_for.concat().into_iter().find(|why| is_given(why));
    refused.map_or(Ok(()), |why| Err(CliError::Usage(why.to_owned())))
}

/// Seed and id, and what earlier runs left behind.
fn greet(progress: &Progress, Session { meta, experiment, .. }: &Session) {
    progress.say(&format!("session {} of {}, seed {}", meta.id, experiment.name, meta.seed));
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
