//! `ebb explain`: the reasoning behind what a log shows.

use super::{CliError, Globals};
use crate::views::{self, explain as view};
use clap::Args;
use ebbtide_core::observe::iostat;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Say what limits an array, from a log of iostat alone
///
/// Reads `iostat -x` as text (of any version, also -m, -k, -h) or as JSON, finds the members of the
/// array in it and names the one that differs from its siblings, with the figures.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Log of `iostat -x`; - for standard input
    #[arg(long, value_name = "FILE", required = true)]
    iostat: Option<PathBuf>,
    /// Members of the array, where the log has no array to find them by
    #[arg(long, value_name = "DEVICE,...", value_delimiter = ',')]
    members: Vec<String>,
}

/// Largest log that is read: a week of 100 devices every second is 8 GB, which nobody compares by one mean.
const LARGEST: u64 = 1 << 30;

/// Runs `ebb explain`.
///
/// # Errors
/// When the log cannot be read, is none, or lacks a member that is named.
pub fn run(args: &ExplainArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let Some(path) = &args.iostat else {
        return Err(CliError::Usage("give a log: --iostat FILE".to_owned()));
    };
    let text = read(path).map_err(|e| CliError::Failed(format!("{}: {e}", path.display())))?;
    let reports = iostat::parse(&text).map_err(|e| CliError::Failed(format!("{}: {e}", path.display())))?;
    if let Some(unknown) =
        args.members.iter().find(|m| !reports.iter().any(|r| r.devices.iter().any(|d| d.device == **m)))
    {
        return Err(CliError::Usage(format!(
            "--members: there is no device `{unknown}` in {}",
            path.display()
        )));
    }
    let explanation = iostat::explain(&reports, &args.members);
    if globals.json {
        let mut value = serde_json::json!({ "schema": "ebbtide.explain-iostat/1" });
        value["explanation"] = serde_json::json!(explanation);
        views::print(&format!("{value:#}\n"))?;
    } else {
        views::print(&view::iostat(&explanation))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(LARGEST + 1).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    }
    if bytes.len() as u64 > LARGEST {
        return Err(std::io::Error::other("is larger than 1 GiB; cut the part in question out of it"));
    }
    // Logs are cut and pasted: a broken character must not lose the figures around it.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
