//! `ebb verify`: proves that every write which a ledger says was acknowledged is there.

use crate::bench::verify;
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::progress::Progress;
use crate::session::signals;
use crate::views;
use clap::Args;
use ebbtide_engine::verify::{Bad, Found, check};
use ebbtide_model::backend::Control;
use ebbtide_model::verify::Ledger;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Bad extents that the text lists; --json has them all.
const MOST_SHOWN: usize = 20;

/// Prove that every acknowledged write of `ebb bench --verify` is there and none is torn
///
/// Reads each copy of every block that the ledger says was acknowledged: after a crash, a failover or a rebuild.
/// Nothing is written.
///
/// Exit status: 0 all is there, 1 something is not, 2 wrong usage, 3 no write was acknowledged, 130 interrupted.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The ledger that `ebb bench --verify` wrote
    ledger: PathBuf,
    /// Where a member is now, if not where it was: NAME=PATH
    #[arg(long = "member", value_parser = moved, value_name = "NAME=PATH")]
    members: Vec<(String, PathBuf)>,
    /// The array as one device or file, for example /dev/md0; its members are not told apart
    #[arg(long, value_name = "PATH", conflicts_with = "members")]
    array: Option<PathBuf>,
}

fn moved(text: &str) -> Result<(String, PathBuf), String> {
    let (name, path) = text.split_once('=').ok_or("write NAME=PATH")?;
    Ok((name.to_owned(), PathBuf::from(path)))
}

/// Runs `ebb verify`.
///
/// # Errors
/// See the exit statuses in the help.
pub fn run(args: &VerifyArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let ledger = verify::ledger(&args.ledger)?;
    let target = verify::open(&ledger, &args.members, args.array.as_deref())?;
    let control = Arc::new(Control::default());
    signals::stop_on_signals(control.clone(), globals.quiet)
        .map_err(|error| CliError::Failed(format!("cannot set up signal handlers: {error}")))?;
    let mut progress = Progress::new(globals.quiet);
    progress.checking(&control);
    let found = check(&target, &ledger, &control).map_err(|error| CliError::Failed(error.to_string()))?;
    progress.idle();
    let names = Names::new(&ledger, args);
    show(&ledger, &found, &names, globals)?;
    ending(&ledger, &found)
}

/// Members as they are called now.
pub(super) struct Names(Vec<(String, String)>);

impl Names {
    fn new(ledger: &Ledger, args: &VerifyArgs) -> Names {
        if let Some(array) = &args.array {
            return Names(vec![(array.to_string_lossy().into_owned(), array.to_string_lossy().into_owned())]);
        }
        let path = |name: &str, path: &str| {
            let moved = args.members.iter().find(|(member, _)| member == name);
            moved.map_or_else(|| path.to_owned(), |(_, path)| path.to_string_lossy().into_owned())
        };
        Names(ledger.header.members.iter().map(|m| (m.name.clone(), path(&m.name, &m.path))).collect())
    }

    /// As the ledger has them.
    pub(super) fn of(ledger: &Ledger) -> Names {
        Names(ledger.header.members.iter().map(|m| (m.name.clone(), m.path.clone())).collect())
    }

    fn get(&self, member: usize) -> (&str, &str) {
        self.0.get(member).map_or(("?", "?"), |(name, path)| (name, path))
    }
}

/// The exit status that what was found deserves.
pub(super) fn ending(ledger: &Ledger, found: &Found) -> Result<ExitCode, CliError> {
    if !found.bad.is_empty() {
        let bytes: u64 = found.bad.iter().map(|bad| bad.length).sum();
        let what = format!("{} of acknowledged writes are not there", verify::size(bytes));
        return Err(CliError::Failed(what));
    }
    if found.stopped {
        return Err(CliError::Interrupted(format!("{} blocks had been checked", found.units)));
    }
    if ledger.acknowledged == 0 {
        return Err(CliError::Inconclusive(
            "the ledger has no acknowledged write, so that nothing is proved: write more with `ebb bench --verify`"
                .to_owned(),
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// What was found, as text or JSON.
pub(super) fn show(ledger: &Ledger, found: &Found, names: &Names, globals: &Globals) -> Result<(), CliError> {
    if globals.json {
        return views::print_json(&json(ledger, found, names));
    }
    views::print(&text(ledger, found, names))
}

pub(super) fn text(ledger: &Ledger, found: &Found, names: &Names) -> String {
    let header = &ledger.header;
    let mut text = format!(
        "ledger    {} writes acknowledged, {} in flight at its end, {} on {} {}\n",
        ledger.acknowledged,
        ledger.in_flight,
        promise(ledger),
        header.members.len(),
        if header.members.len() == 1 { "member" } else { "members" },
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "checked   {} blocks of {} bytes, every copy: {} as acknowledged, {} not, {} undecided (a write was in flight)",
        found.units,
        header.unit,
        found.good,
        found.units - found.good - found.in_flight,
        found.in_flight,
    );
    for bad in found.bad.iter().take(MOST_SHOWN) {
        let copy = if bad.copy > 0 { format!(", copy {}", bad.copy) } else { String::new() };
        let _ =
            writeln!(text, "bad       array offset {}, {} bytes{copy}: {}", bad.offset, bad.length, bad.what);
        for (member, offset, length) in bad.places.iter().take(MOST_SHOWN) {
            let (name, path) = names.get(*member);
            let _ = writeln!(text, "            on {name} ({path}) at offset {offset}, {length} bytes");
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
    } else if found.bad.is_empty() && !found.stopped {
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
pub(super) fn json(ledger: &Ledger, found: &Found, names: &Names) -> Value {
    let bad = |bad: &Bad| {
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
        "ok": found.bad.is_empty() && !found.stopped && ledger.acknowledged > 0,
        "complete": !found.stopped,
        "writes_acknowledged": ledger.acknowledged,
        "writes_in_flight": ledger.in_flight,
        "direct": ledger.header.direct,
        "sync": ledger.header.sync,
        "block_bytes": ledger.header.unit,
        "blocks": found.units,
        "blocks_good": found.good,
        "blocks_undecided": found.in_flight,
        "bad": found.bad.iter().map(bad).collect::<Vec<_>>(),
    })
}
