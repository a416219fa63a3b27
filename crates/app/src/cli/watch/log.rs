//! `ebb watch --log`: the reasoning behind what a log of iostat shows.

use crate::cli::globals::Globals;
use crate::cli::output::Form;
use crate::error::CliError;
use crate::views::{self, explain as view};
use clap::Args;
use ebbtide_door::read::ReadError;
use ebbtide_formats::iostat;
use ebbtide_model::shown::Shown;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A log in the place of live devices.
#[derive(Debug, Args)]
#[command(next_help_heading = "A log")]
pub struct LogArgs {
    /// Read a log of `iostat -x` or `sar -d` instead, text or JSON, also as mails and tickets leave it, and name the member of an array
    /// that differs from its siblings; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["targets", "count", "siblings", "idle", "no_boot"])]
    pub(super) log: Option<PathBuf>,
    /// Members of the array, if they cannot be found from the log
    #[arg(long, value_name = "DEVICE,...", value_delimiter = ',', requires = "log")]
    members: Vec<String>,
    /// Include the first report: for a log of `iostat -y`, whose first report is an interval like the others
    #[arg(long, requires = "log")]
    all_reports: bool,
}

/// Largest log that is read: a week of 100 devices every second is 8 GB, which nobody compares by one mean.
const LARGEST: u64 = 1 << 30;

/// Runs `ebb watch --log` of the log at `path`.
///
/// # Errors
/// When the log cannot be read, is none, or lacks a member that is named.
pub fn run(path: &Path, args: &LogArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    globals.printed.among("`ebb watch --log`", Form::PLAIN)?;
    let members = &args.members;
    if members.first().is_some_and(|first| members.iter().all(|m| m == first)) {
        return Err(CliError::Usage(format!(
            "--members: `{}` has no siblings to compare it with; name two devices or more, as a,b",
            members.join(",")
        )));
    }
    if let Some(twice) = members.iter().enumerate().find(|(at, m)| members[..*at].contains(m)) {
        return Err(CliError::Usage(format!(
            "--members: `{}` is named twice; name each device once",
            twice.1
        )));
    }
    let text = read(path).map_err(|e| CliError::Failed(format!("{}: {e}", path.shown())))?;
    let log = iostat::parse(&text).map_err(|e| CliError::Failed(format!("{}: {e}", path.shown())))?;
    if let Some(unknown) =
        members.iter().find(|m| !log.reports.iter().any(|r| r.devices.iter().any(|d| d.device == **m)))
    {
        return Err(CliError::Usage(format!(
            "--members: there is no device `{unknown}` in {}",
            path.shown()
        )));
    }
    let explanation = iostat::explain(&log, members, args.all_reports);
    let value = serde_json::json!({ "schema": "ebbtide.explain-iostat/1", "explanation": explanation });
    views::answer(globals.json(), &value, &view::iostat(&explanation))
}

fn read(path: &Path) -> Result<String, ReadError> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(LARGEST + 1).read_to_end(&mut bytes)?;
    } else {
        bytes = ebbtide_door::read::bytes(path, LARGEST)?;
    }
    let length = bytes.len() as u64;
    if length > LARGEST {
        return Err(ReadError::TooLong { length, most: LARGEST });
    }
    // Logs are cut and pasted: a broken character must not lose the figures around it.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
