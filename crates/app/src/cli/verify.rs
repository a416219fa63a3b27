//! `ebb verify`: proves that every write which a ledger says was acknowledged is there.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::progress::Progress;
use crate::signals;
use crate::values::ValueError;
use crate::views;
use clap::Args;
use ebbtide_engine::verify::{BadRange, CheckResult, check};
use ebbtide_model::experiment::{Volume, VolumeSource};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::{Bytes, format_count, format_throughput};
use ebbtide_model::verify::Ledger;
use ebbtide_runner::bench::Spec;
use ebbtide_runner::listener::SessionListener;
use ebbtide_runner::{clock, verify};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bad extents that the text lists; --json has them all.
const MOST_SHOWN: usize = 20;

/// Verify that acknowledged writes are there and whole
///
/// Every acknowledged write of `ebb bench --verify` is there, and none is torn.
///
/// Reads every copy of every block whose write the ledger records as acknowledged, for example after a crash, a
/// failover or a rebuild. Nothing is written.
///
/// Exit status: 0 all is there, 1 something is not, 2 wrong usage, 3 not proved (no write was acknowledged, or the ledger lacks its end), 130 interrupted.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The ledger that `ebb bench --verify` wrote
    ledger: PathBuf,
    /// Where a member is now, if it has moved
    #[arg(long = "member", value_parser = moved, value_name = "NAME=PATH")]
    members: Vec<(String, PathBuf)>,
    /// The array as one device or file, for example /dev/md0; members are not distinguished
    #[arg(long, value_name = "PATH", conflicts_with = "members")]
    array: Option<PathBuf>,
}

fn moved(text: &str) -> Result<(String, PathBuf), ValueError> {
    let (name, path) = text.split_once('=').ok_or(ValueError::NoPair)?;
    Ok((name.to_owned(), PathBuf::from(path)))
}

/// Runs `ebb verify`.
///
/// # Errors
/// See the exit statuses in the help.
pub fn run(args: &VerifyArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let ledger = verify::ledger(&args.ledger)?;
    let target = verify::open(&ledger, &args.members, args.array.as_deref())?;
    let control = signals::stoppable(globals.quiet)?;
    let mut progress = Progress::new(globals.quiet);
    progress.checking(&control);
    let found = check(&target, &ledger, &control).map_err(CliError::failed)?;
    progress.done();
    let names = Names::new(&ledger, &args.members, args.array.as_deref());
    views::answer(globals.json(), &json(&ledger, &found, &names), &text(&ledger, &found, &names))?;
    ending(&ledger, &found)
}

/// `ebb bench --verify`: runs `spec` with a ledger and reads everything back.
pub(super) fn write(
    spec: &Spec,
    (ledger, durable): (Option<&Path>, bool),
    globals: &Globals,
) -> Result<ExitCode, CliError> {
    for job in &spec.jobs {
        verify::fits(&job.workload)?;
    }
    let removed = |volume: &Volume| matches!(volume.source, VolumeSource::NewFile { .. });
    if spec.experiment.volumes.iter().any(removed) {
        let what = "--verify needs a target that is kept: name a file or a device, not a directory or a design whose \
                    files are removed afterwards";
        return Err(CliError::Usage(what.to_owned()));
    }
    let path = match ledger {
        Some(path) => path.to_owned(),
        None => verify::default_ledger(&clock::session_id())?,
    };
    let is_target = |volume: &Volume| match &volume.source {
        VolumeSource::ExistingFile { path: target } => verify::is_same(target, &path),
        _ => false,
    };
    if spec.experiment.volumes.iter().any(is_target) {
        return Err(CliError::Usage(format!(
            "the ledger and the target are the same file, {}: give --ledger another name",
            path.shown()
        )));
    }
    let control = signals::stoppable(globals.quiet)?;
    let mut progress = Progress::new(globals.quiet);
    let outcome = verify::run(spec, verify::To { path: &path, durable }, &control, &mut progress)?;
    drop(progress);
    let names = Names::new(&outcome.ledger, &[], None);
    let (written, seconds) = (outcome.written, outcome.written.elapsed.as_secs_f64());
    let mut value = json(&outcome.ledger, &outcome.found, &names);
    value["ledger"] = path.to_string_lossy().into();
    value["bytes_written"] = written.bytes.into();
    value["seconds"] = seconds.into();
    value["longest_pause_s"] = written.longest_pause.as_secs_f64().into();
    value["slowest_write_s"] = written.slowest.as_secs_f64().into();
    value["notes"] = json!(outcome.notes);
    let rate = if seconds > 0.0 { written.bytes as f64 / seconds } else { 0.0 };
    let mut told = format!(
        "written   {} in {seconds:.2} s, {} with a ledger (no measurement of the device)\n\
         paused    {:.2} s at most without an acknowledgement, {:.2} s for the slowest write\n{}",
        Bytes(written.bytes),
        format_throughput(rate),
        written.longest_pause.as_secs_f64(),
        written.slowest.as_secs_f64(),
        text(&outcome.ledger, &outcome.found, &names)
    );
    told.extend(outcome.notes.iter().map(|note| format!("note      {note}\n")));
    views::answer(globals.json(), &value, &told)?;
    if written.stopped && outcome.found.bad.is_empty() {
        return Err(CliError::Interrupted("everything acknowledged so far is there".to_owned()));
    }
    ending(&outcome.ledger, &outcome.found)
}

/// Members by their numbers: names and where they are now.
struct Names(Vec<(String, String)>);

impl Names {
    /// As `ledger` has them, but for those that `moved`; with `array` that is all there is.
    fn new(ledger: &Ledger, moved: &[(String, PathBuf)], array: Option<&Path>) -> Names {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        if let Some(array) = array {
            return Names(vec![(text(array), text(array))]);
        }
        let path = |name: &str, path: &str| {
            let moved = moved.iter().find(|(member, _)| member == name);
            moved.map_or_else(|| path.to_owned(), |(_, path)| text(path))
        };
        Names(ledger.header.members.iter().map(|m| (m.name.clone(), path(&m.name, &m.path))).collect())
    }

    fn get(&self, member: usize) -> (&str, &str) {
        self.0.get(member).map_or(("?", "?"), |(name, path)| (name, path))
    }
}

/// The exit status that what was found deserves.
fn ending(ledger: &Ledger, found: &CheckResult) -> Result<ExitCode, CliError> {
    if !found.bad.is_empty() {
        let bytes: Bytes = found.bad.iter().map(|bad| bad.length).sum();
        let what = format!("{} of acknowledged writes are not there", bytes.short());
        return Err(CliError::Failed(what));
    }
    if found.stopped {
        return Err(CliError::Interrupted(format!("{} blocks had been checked", found.units)));
    }
    if found.newer > 0 {
        return Err(CliError::Inconclusive(without_end(found)));
    }
    if ledger.acknowledged == 0 {
        return Err(CliError::Inconclusive(
            "the ledger has no acknowledged write, so nothing is proved: write more with `ebb bench --verify`"
                .to_owned(),
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// What a ledger without its end cannot prove.
fn without_end(found: &CheckResult) -> String {
    format!(
        "{} newer writes than the ledger knows of: its end is lost, and what was acknowledged then cannot be proved; \
         a ledger on another host or --durable-ledger keeps it",
        match found.newer {
            1 => "1 block holds".to_owned(),
            count => format!("{count} blocks hold"),
        }
    )
}

fn text(ledger: &Ledger, found: &CheckResult, names: &Names) -> String {
    let header = &ledger.header;
    let mut text = format!(
        "ledger    {} writes acknowledged, {} in flight at its end, {} on {}\n",
        ledger.acknowledged,
        ledger.in_flight,
        promise(ledger),
        format_count(header.members.len() as u64, "member"),
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "checked   {} blocks of {} bytes, every copy: {} as acknowledged, {} not, {} undecided (a write was in flight)",
        found.units,
        header.unit.0,
        found.good,
        found.units - found.good - found.in_flight - found.newer,
        found.in_flight,
    );
    if found.newer > 0 {
        let _ = writeln!(text, "newer     {}", without_end(found));
    }
    for bad in found.bad.iter().take(MOST_SHOWN) {
        let copy = if bad.copy > 0 { format!(", copy {}", bad.copy) } else { String::new() };
        let _ = writeln!(
            text,
            "bad       array offset {}, {} bytes{copy}: {}",
            bad.offset.0, bad.length.0, bad.what
        );
        for (member, offset, length) in bad.places.iter().take(MOST_SHOWN) {
            let (name, path) = names.get(*member);
            let _ =
                writeln!(text, "            on {name} ({path}) at offset {}, {} bytes", offset.0, length.0);
        }
        if bad.places.len() > MOST_SHOWN {
            let _ = writeln!(text, "            and {} more places", bad.places.len() - MOST_SHOWN);
        }
    }
    if found.bad.len() > MOST_SHOWN {
        let _ = writeln!(text, "          and {} more; --json lists them all", found.bad.len() - MOST_SHOWN);
    }
    if found.bad.is_empty() && !found.stopped && ledger.acknowledged == 0 {
        text.push_str("result    no write was acknowledged: nothing is proved\n");
    } else if found.bad.is_empty() && !found.stopped && found.newer == 0 {
        text.push_str("result    every acknowledged write is there and none is torn\n");
    }
    text
}

/// What an acknowledgement meant.
fn promise(ledger: &Ledger) -> &'static str {
    match (ledger.header.sync, ledger.header.direct) {
        (true, _) => "each durable first (O_SYNC),",
        (false, true) => "O_DIRECT without O_SYNC (a power cut may take what a volatile cache held),",
        (false, false) => "through the page cache (a crash may take them, a killed writer may not),",
    }
}

/// What was found, for programs.
fn json(ledger: &Ledger, found: &CheckResult, names: &Names) -> Value {
    let bad = |bad: &BadRange| {
        let places: Vec<Value> = bad
            .places
            .iter()
            .map(|(member, offset, length)| {
                let (name, path) = names.get(*member);
                json!({ "member": name, "path": path, "offset": offset, "length": length })
            })
            .collect();
        json!({
            "array_offset": bad.offset,
            "length": bad.length,
            "copy": bad.copy,
            "what": bad.what,
            "places": places,
        })
    };
    json!({
        "schema": "ebbtide.verify/1",
        "ok": found.bad.is_empty() && found.newer == 0 && !found.stopped && ledger.acknowledged > 0,
        "complete": !found.stopped,
        "writes_acknowledged": ledger.acknowledged,
        "writes_in_flight": ledger.in_flight,
        "direct": ledger.header.direct,
        "sync": ledger.header.sync,
        "block_bytes": ledger.header.unit,
        "blocks": found.units,
        "blocks_good": found.good,
        "blocks_undecided": found.in_flight,
        "blocks_newer": found.newer,
        "bad": found.bad.iter().map(bad).collect::<Vec<_>>(),
    })
}
