//! `ebb blame`: whether slow volumes or slow hosts are at fault.

use super::run::{Ready, RunArgs, backends};
use super::stored;
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::experiment_file;
use crate::views::{self, blame as view};
use clap::Args;
use ebbtide_analysis::TrialSummary;
use ebbtide_analysis::attribution::{Attribution, Bounds, Gain, SessionData, attribute, gain, read};
use ebbtide_model::session::{Ending, Session};
use ebbtide_model::shown::Shown;
use ebbtide_runner::store::{Keep, Store};
use ebbtide_runner::ways::{Named, OnFiles};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// Find out whether a volume, host or day is slow
///
/// With a FILE: measures each volume of an experiment alone, neighbours in stripes of two, and all together, in turn, and stores the session.
/// With SESSIONs: those of `ebb blame FILE`, or of `ebb run` where volumes have designs of their own.
///
/// Compares the trials of designs of a single volume, over any number of sessions and hosts: how much volumes, hosts and time each
/// explain, which volumes or hosts are slower than the median of the others, and what an array would gain with typical volumes in
/// the place of the slow ones. Says what the data cannot tell, and which measurement would.
///
/// Exit status: 0 somebody is at fault, or all volumes (and hosts, where there are several) are cleared; 1 failed; 2 wrong usage; 3 the data do not tell.
#[derive(Debug, Args)]
pub struct BlameArgs {
    /// An experiment file (.toml); or session ids, their beginnings, or `last`. STORE:SESSION is one of another store, such as a copy of
    /// another host's
    #[arg(required = true, value_name = "FILE | SESSION")]
    sessions: Vec<String>,
    /// Only this workload [default: all that every session has, each with the same weight]
    #[arg(long, short, value_name = "NAME")]
    workload: Option<String>,
    /// Slower than the median of the others by more than this is a fault
    #[arg(long, value_name = "PERCENT", default_value = "20%", value_parser = crate::values::share)]
    margin: f64,
    /// Of a FILE: where to run it
    #[arg(long, value_parser = backends(), value_name = "BACKEND")]
    on: Option<Named>,
    /// Of a FILE: seed of the order of trials and of all random data [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Of a FILE: overwrite existing files and devices that it names: their content is lost
    #[arg(long)]
    destroy: bool,
    /// Of a FILE: print what would be done, and touch nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs `ebb blame`.
///
/// # Errors
/// When a session is not there, is named twice or cannot be read, or none has the workload that is asked for.
pub fn run(args: &BlameArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let is_file = |name: &&String| Path::new(name).extension().is_some_and(|ending| ending == "toml");
    match args.sessions.iter().find(is_file) {
        Some(file) if args.sessions.len() == 1 => return measure(Path::new(file), args, globals),
        Some(file) => {
            return Err(CliError::Usage(format!(
                "{file}: a file is measured alone; name it alone, or sessions that are stored"
            )));
        }
        None => {}
    }
    let of_file = [
        ("--on", args.on.is_some()),
        ("--seed", args.seed.is_some()),
        ("--destroy", args.destroy),
        ("--dry-run", args.dry_run),
    ];
    if let Some((option, _)) = of_file.into_iter().find(|(_, given)| *given) {
        return Err(CliError::Usage(format!(
            "{option} is for an experiment file (.toml), and sessions have run already; remove it, or name a file"
        )));
    }
    let mut sessions: Vec<(Session, Vec<TrialSummary>)> = Vec::new();
    for which in &args.sessions {
        let (session, trials) = load(which, globals)?;
        // Ids begin with the second in which a session began: those of two hosts can be equal.
        let same = |(known, _): &(Session, Vec<TrialSummary>)| {
            known.meta.id == session.meta.id && known.meta.host.hostname == session.meta.host.hostname
        };
        if sessions.iter().any(same) {
            return Err(CliError::Usage(format!(
                "session {} is named twice; name each session once",
                session.meta.id
            )));
        }
        sessions.push((session, trials));
    }
    // What is seen of time is in the order in which it passed.
    sessions.sort_by_key(|(session, _)| session.meta.started_unix);
    conclude(&sessions, args, globals).map(|(_, status)| status)
}

/// Measures the members of the experiment in `file`, and says what comes of it.
fn measure(file: &Path, args: &BlameArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let (text, experiment) = experiment_file::load(file, &super::catalog::load(globals)?)?;
    if experiment.used_volumes().len() < 2 {
        return Err(CliError::Usage(format!(
            "{}: its designs have one volume, which cannot be held against others; add volumes",
            file.shown()
        )));
    }
    if let Some(name) = &args.workload
        && !experiment.workloads.iter().any(|workload| workload.name == *name)
    {
        return Err(CliError::Usage(format!(
            "--workload: there is no workload `{name}` in {}",
            file.shown()
        )));
    }
    let experiment = experiment.by_members();
    let asked =
        RunArgs::of(file, args.on.unwrap_or(|| Box::new(OnFiles)), args.seed, args.destroy, args.dry_run);
    let ready = Ready::new(&asked, text, experiment)?;
    if args.dry_run {
        return ready.dry_run(globals);
    }
    let mut store = Store::open(globals.store.as_deref()).map_err(CliError::failed)?;
    let ended = ready.measure(&mut Keep::Store(&mut store), globals)?;
    let meta = &ended.session.meta;
    if !ended.was_refused() {
        store.update(meta, None).map_err(CliError::failed)?;
    }
    match &meta.ending {
        Ending::Failed(why) => return Err(CliError::Failed(why.clone())),
        Ending::Interrupted => {
            let kept = format!("finished trials are kept ({}): `ebb blame {}`", ended.trials, meta.id);
            return Err(CliError::Interrupted(kept));
        }
        Ending::Reached | Ending::NotReached | Ending::Unfinished => {}
    }
    let trials = trials(&store, &ended.session)?;
    let (headline, status) = conclude(&[(ended.session.clone(), trials)], args, globals)?;
    store.update(meta, Some(&headline)).map_err(CliError::failed)?;
    Ok(status)
}

/// The trials of `session` by their figures.
fn trials(store: &Store, session: &Session) -> Result<Vec<TrialSummary>, CliError> {
    let mut trials = Vec::new();
    let add = |record| trials.push(TrialSummary::of(&session.experiment, &record));
    store.each_trial(session, add).map_err(CliError::failed)?;
    Ok(trials)
}

/// A session and its trials by their figures.
fn load(which: &str, globals: &Globals) -> Result<(Session, Vec<TrialSummary>), CliError> {
    let (store, id) = match which.rsplit_once(':') {
        None => (stored::open(globals)?, which),
        Some((path, id)) => {
            let path = Path::new(path);
            let there = Store::open_existing(Some(path)).map_err(CliError::failed)?;
            let none = || CliError::Usage(format!("{}: there is no store of sessions", path.shown()));
            (there.ok_or_else(none)?, id)
        }
    };
    let session = store.head(id).map_err(stored::wrong)?;
    let trials = trials(&store, &session)?;
    Ok((session, trials))
}

/// What `sessions` say, printed: in a sentence, and the exit status.
fn conclude(
    sessions: &[(Session, Vec<TrialSummary>)],
    args: &BlameArgs,
    globals: &Globals,
) -> Result<(String, ExitCode), CliError> {
    let workload = args.workload.as_deref();
    let borrowed: Vec<(&Session, &[TrialSummary])> =
        sessions.iter().map(|(session, trials)| (session, trials.as_slice())).collect();
    if let Some(name) = workload {
        let named = |(session, _): &(&Session, &[TrialSummary])| {
            session.experiment.workloads.iter().any(|workload| workload.name == name)
        };
        if !borrowed.iter().any(named) {
            let mut known: Vec<&str> = borrowed
                .iter()
                .flat_map(|(session, _)| session.experiment.workloads.iter().map(|w| w.name.as_str()))
                .collect();
            known.sort_unstable();
            known.dedup();
            return Err(CliError::Usage(format!(
                "--workload: there is no workload `{name}`; the sessions have {}",
                known.join(", ")
            )));
        }
    }
    let read = read(&borrowed, workload);
    let attribution = attribute(&read.observed, Bounds { margin: args.margin, ..Bounds::default() });
    let gains: Vec<(usize, Gain)> = read
        .arrays
        .iter()
        .enumerate()
        .filter_map(|(number, seen)| Some((number, gain(&attribution, &seen.array)?)))
        .collect();
    let value = value(&borrowed, &read, &attribution, &gains)?;
    views::answer(globals.json(), &value, &view::attribution(borrowed.len(), &read, &attribution, &gains))?;
    let status = if attribution.is_told() { ExitCode::SUCCESS } else { ExitCode::from(3) };
    Ok((view::headline(&attribution), status))
}

/// Schema `ebbtide.attribution/1`.
fn value(
    sessions: &[(&Session, &[TrialSummary])],
    read: &SessionData,
    attribution: &Attribution,
    gains: &[(usize, Gain)],
) -> Result<serde_json::Value, CliError> {
    let mut value = serde_json::to_value(attribution).map_err(CliError::failed)?;
    value["schema"] = json!("ebbtide.attribution/1");
    value["told"] = json!(attribution.is_told());
    value["workloads"] = json!(read.workloads);
    value["sessions"] = sessions.iter().map(|(session, _)| json!(session.meta.id)).collect();
    let gain = |(number, gain): &(usize, Gain)| -> Result<serde_json::Value, CliError> {
        let mut value = serde_json::to_value(gain).map_err(CliError::failed)?;
        value["reached"] = json!(read.arrays[*number].reached);
        Ok(value)
    };
    value["gains"] = gains.iter().map(gain).collect::<Result<Vec<_>, _>>()?.into();
    Ok(value)
}

#[cfg(test)]
mod tests {
    use crate::values::share;
    use ebbtide_analysis::attribution::MARGIN;

    #[test]
    fn the_margin_is_that_of_the_analysis() {
        assert_eq!(share("20%"), Ok(MARGIN));
    }
}
