//! Jobs that are run once: what a workload, a job file and a profile have in common.

use crate::bench::describe;
use crate::bench::target::{self, Wanted};
use crate::cli::globals::Globals;
use crate::cli::output::{Form, Kind, Output};
use crate::error::CliError;
use crate::progress::Progress;
use crate::signals;
use crate::views::{self, Format};
use clap::Args;
use ebbtide_analysis::analyse;
use ebbtide_host::sys;
use ebbtide_model::samples::DepthFound;
use ebbtide_model::shown::{self, Shown, Styled};
use ebbtide_model::units::format_count;
use ebbtide_model::workload::cpu_list;
use ebbtide_report::Report;
use ebbtide_runner::bench::{self, Done, Early, Job, Results, Spec};
use ebbtide_runner::clock;
use ebbtide_runner::listener::SessionListener;
use ebbtide_runner::store::Store;
use serde_json::Value;
use std::path::Path;
use std::process::ExitCode;

/// What is done to the target, and from which seed.
#[derive(Debug, Args)]
pub(super) struct TargetUse {
    /// Overwrite existing files and devices: their content is lost
    #[arg(long)]
    pub(super) destroy: bool,
    /// Seed of all random data and offsets [default: random]
    #[arg(long = "randseed", visible_alias = "seed", value_name = "N")]
    seed: Option<u64>,
}

impl TargetUse {
    /// The seed that was given.
    pub(super) fn given_seed(&self) -> Option<u64> {
        self.seed
    }

    /// The same, or else a random one.
    pub(super) fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| u64::from(clock::random()))
    }
}

/// `jobs` on the file, device or directory at `path`.
pub(super) fn on_path(path: &Path, wanted: Wanted, jobs: Vec<Job>, seed: u64) -> Result<Spec, CliError> {
    Ok(target::resolve(path, wanted)?.spec(path, jobs, wanted.writes, wanted.destroy, seed))
}

/// Which processors run (the kernel's Documentation/admin-guide/cputopology.rst).
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Refuses processors that this host does not have; where it does not say, the first job finds out.
pub(super) fn cpus_exist(spec: &Spec) -> Result<(), CliError> {
    let Some(online) = sys::text(Path::new(ONLINE)) else { return Ok(()) };
    let Some(there) = cpu_list(&online) else { return Ok(()) };
    let asked = spec.jobs.iter().flat_map(|job| &job.workload.engine.cpus_allowed);
    let missing: Vec<String> = asked.filter(|cpu| !there.contains(cpu)).map(u32::to_string).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!("cpus_allowed: there is no CPU {} here; there are {online}", missing.join(", "));
    Err(CliError::Usage(what))
}

/// Where results go beside standard output.
#[derive(Debug, Args)]
pub(super) struct Kept {
    #[command(flatten)]
    output: Output,
    /// Do not store the session
    #[arg(long)]
    no_save: bool,
}

/// The same, known to take them.
pub(super) struct Places<'a> {
    store: Option<Store>,
    output: Option<(&'a Path, Kind)>,
}

/// Results in a benchmark's own forms; they have the others as any session.
pub(super) struct Told<'a> {
    pub(super) text: &'a dyn Fn(usize, bool) -> Styled,
    pub(super) json: &'a dyn Fn() -> Value,
    pub(super) csv: Option<&'a dyn Fn() -> String>,
}

impl Told<'_> {
    fn rendered(&self, kind: Kind, report: &Report) -> String {
        match (kind, self.csv) {
            (Kind::Text | Kind::Toml, _) => (self.text)(views::COLUMNS_ELSEWHERE, false).into_string(),
            (Kind::Json, _) => shown::json(&(self.json)()),
            (Kind::Csv, Some(own)) => own(),
            (Kind::Csv, None) => views::render(report, Format::Csv),
            (Kind::Html, _) => views::render(report, Format::Html),
            (Kind::Markdown, _) => views::render(report, Format::Markdown),
        }
    }
}

impl Kept {
    /// Looks whether results can go there, before they are measured.
    pub(super) fn open(&self, globals: &Globals) -> Result<Places<'_>, CliError> {
        let output = self.output.file(globals, Kind::REPORT)?;
        let can_save = || output.map_or(Ok(()), |(path, _)| views::can_save(path));
        can_save()?;
        let open = || Store::open(globals.store.as_deref()).map_err(CliError::failed);
        let store = (!self.no_save).then(open).transpose()?;
        // Once more: the store that was just made must not be what the report replaces.
        can_save()?;
        Ok(Places { store, output })
    }
}

impl Places<'_> {
    /// Stores `results`, prints them and writes them.
    pub(super) fn take(
        mut self,
        results: &Results,
        told: &Told<'_>,
        globals: &Globals,
    ) -> Result<(), CliError> {
        let session = results.session.as_ref().filter(|_| !results.done.is_empty());
        let Some(session) = session else {
            return if globals.json() { views::print_json(&(told.json)()) } else { Ok(()) };
        };
        let kept = self.output.and_then(|(_, kind)| kind.format(true)).unwrap_or(Format::Text).kept(session);
        let mut report = Report::with(session, &analyse(session), kept);
        report.stored = self.store.is_some();
        let headline = report.answer.first().cloned().unwrap_or_default();
        // What was measured is printed, whatever became of the store.
        let stored = self.store.as_mut().map(|store| store.add_all(std::iter::once((session, headline))));
        let stored = stored.transpose().map_err(CliError::failed);
        match globals.form() {
            Form::Text => {
                let (columns, color) = views::stdout_width();
                views::print_styled(&(told.text)(columns, color))?;
            }
            other => views::print_data(&told.rendered(other.into(), &report))?,
        }
        if matches!(stored, Ok(Some(()))) && !globals.quiet {
            views::say(&format!("ebb: session {}", session.meta.id));
        }
        if let Some((path, kind)) = self.output {
            views::save(path, &told.rendered(kind, &report))?;
            if !globals.quiet {
                views::say(&format!("ebb: report written to {}", path.shown()));
            }
        }
        stored.map(drop)
    }
}

/// Runs `spec` and tells what came of it. `global` are the options of a job file's [global] sections.
pub(super) fn run(
    spec: Spec,
    global: Option<&[(String, String)]>,
    kept: &Kept,
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    let seed = spec.options.seed;
    let places = kept.open(globals)?;
    let results = measured(spec, &mut |_| None, None, globals)?;
    let json = || {
        let mut value = describe::json(&results, seed);
        if let Some(options) = global {
            let options = options.iter().map(|(name, value)| (name.clone(), value.clone().into()));
            value["global options"] = Value::Object(options.collect());
        }
        value
    };
    let text = |columns, color| describe::text(&results, seed, columns, color);
    places.take(&results, &Told { text: &text, json: &json, csv: None }, globals)?;
    ending(&results)
}

/// What came of `spec`, whose jobs may be followed by more; `warning` is said before.
pub(super) fn measured(
    spec: Spec,
    next: &mut dyn FnMut(&[Done]) -> Option<Vec<Job>>,
    warning: Option<&str>,
    globals: &Globals,
) -> Result<Results, CliError> {
    let control = signals::stoppable(globals.quiet)?;
    let mut progress = Progress::new(globals.quiet);
    if let Some(text) = warning {
        progress.say(text);
    }
    Ok(bench::run(spec, next, &control, &mut progress)?)
}

/// The exit status that `results` deserve.
pub(super) fn ending(results: &Results) -> Result<ExitCode, CliError> {
    if results.ended_early.is_none()
        && let Some(refusal) = results.done.iter().find_map(latency_not_kept)
    {
        return Err(refusal);
    }
    let mut nothing = results.done.iter().filter(|done| done.failed.is_none() && done.is_empty());
    let (nothing, others): (_, Vec<&str>) =
        (nothing.next(), nothing.map(|done| done.job.name.as_str()).collect());
    if let (None, Some(done)) =
        (&results.ended_early, results.done.iter().find(|done| done.samples.execution.failed > 0))
    {
        let failed = format_count(done.samples.execution.failed, "operation");
        return Err(CliError::Failed(format!(
            "{}: {failed} failed; the run went on, as continue_on_error says",
            done.job.name
        )));
    }
    let unsteady = results.done.iter().find(|done| {
        done.failed.is_none() && done.samples.execution.steady.as_ref().is_some_and(|steady| !steady.attained)
    });
    match (&results.ended_early, nothing) {
        (None, None) => unsteady.map_or(Ok(ExitCode::SUCCESS), |done| {
            Err(CliError::Inconclusive(format!(
                "{}: it was not steady within its time: run longer (--runtime), or with a larger limit or longer measurements \
                 (--steadystate_check_interval)",
                done.job.name
            )))
        }),
        (None, Some(done)) => Err(CliError::Inconclusive(format!(
            "{}: nothing completed in {:.2} s ({} under way at the end){}: run longer (--runtime), or with a smaller bs \
             or iodepth",
            done.job.name,
            done.samples.elapsed.as_secs_f64(),
            done.samples.execution.unfinished,
            if others.is_empty() { String::new() } else { format!(", nor in {}", others.join(", ")) },
        ))),
        (Some(Early::Failed(why)), _) => Err(CliError::Failed(why.clone())),
        (Some(Early::Interrupted), _) if results.done.is_empty() => {
            Err(CliError::Interrupted("before anything was measured".to_owned()))
        }
        (Some(Early::Interrupted), _) => {
            Err(CliError::Interrupted("the figures are those so far".to_owned()))
        }
    }
}

/// Why a search for the most load that keeps a latency has no answer.
fn latency_not_kept(done: &Done) -> Option<CliError> {
    let search = done.search.as_ref()?;
    let (goal, name) = (search.goal().in_words(), &done.job.name);
    match search.conclusion() {
        DepthFound::Found(_) => None,
        DepthFound::None => Some(CliError::Failed(format!("{name}: no iodepth keeps {goal}, not even 1"))),
        DepthFound::Open(depth) => {
            let so_far = if depth > 0 { format!("; iodepth {depth} keeps it") } else { String::new() };
            Some(CliError::Inconclusive(format!(
                "{name}: the time was over before the largest iodepth that keeps {goal} was found{so_far}: run longer (--runtime), or \
                 with a shorter latency_window"
            )))
        }
    }
}
