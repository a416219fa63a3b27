//! A tip where an option of a workload stands with the wrong command.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use ebbtide_model::workload::options::OPTIONS;
use std::ffi::OsString;

/// Where the subcommand stands in `line`.
fn subcommand(line: &[OsString]) -> Option<usize> {
    let mut words = line.iter().enumerate().skip(1);
    while let Some((at, word)) = words.next() {
        match word.to_str() {
            Some("--store" | "--catalog") => drop(words.next()),
            Some(option) if option.starts_with('-') => {}
            _ => return Some(at),
        }
    }
    None
}

/// `error` of `line`; where it is about an option of a workload, with who decides that in place of the options.
pub(super) fn with_tip(mut error: clap::Error, line: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return error };
    let name =
        argument.trim_start_matches('-').split(['=', ' ']).next().unwrap_or_default().replace('-', "_");
    let of_workload = OPTIONS.iter().any(|option| option.names().any(|known| known == name));
    let tip = match subcommand(line).and_then(|at| line[at].to_str()) {
        Some("fio") => "the job file says what to run: write it there",
        Some("profile") => {
            "the profile says what to run; for anything else write a profile of your own (docs/profiles.md)"
        }
        _ => return error,
    };
    if error.kind() == ErrorKind::UnknownArgument && of_workload {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}
