//! Jobs that are run once: what a workload, a job file and a profile have in common.

use crate::bench::describe;
use crate::bench::target::{self, Wanted};
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::progress::Progress;
use crate::signals;
use crate::views;
use clap::Args;
use ebbtide_host::sys;
use ebbtide_model::samples::DepthFound;
use ebbtide_model::units::format_count;
use ebbtide_model::workload::cpu_list;
use ebbtide_runner::bench::{self, Done, Early, Job, Results, Spec};
use ebbtide_runner::clock;
use ebbtide_runner::listener::SessionListener;
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

/// Runs `spec` and prints what came of it. `global` are the options of a job file's [global] sections.
pub(super) fn run(
    spec: Spec,
    global: Option<&[(String, String)]>,
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    let seed = spec.options.seed;
    let results = measured(spec, &mut |_| None, None, globals)?;
    if globals.json {
        let mut value = describe::json(&results, seed);
        if let Some(options) = global {
            let options = options.iter().map(|(name, value)| (name.clone(), value.clone().into()));
            value["global options"] = serde_json::Value::Object(options.collect());
        }
        views::print_json(&value)?;
    } else if !results.done.is_empty() {
        let (columns, color) = views::stdout_width();
        views::print_styled(&describe::text(&results, seed, columns, color))?;
    }
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
