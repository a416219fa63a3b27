//! `ebb limit`: a program held to a rate.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::signals::not_ignored;
use crate::values::ValueError;
use crate::views::{self, limit as view};
use clap::{ArgGroup, Args};
use ebbtide_model::limit::Limits;
use ebbtide_model::units::Bytes;
use ebbtide_runner::limit::{self, End, LimitError, Target, Wanted};
use std::ffi::OsString;
use std::process::ExitCode;

/// Status of a program that is there and could not be run, and of one that is not there, as shells have them.
const CANNOT_RUN: u8 = 126;
const MISSING: u8 = 127;

/// Hold a program to a rate of I/O or traffic
///
/// With all that it starts, to a rate of reading, writing or network traffic.
///
/// `ebb limit --write 50MB -- tar xf backup.tar` runs a command, `ebb limit --read 20M --pid 4711` holds a program that runs already
/// until it ends or Ctrl-C. Rates are per second; bytes are those that reach or leave storage, those to write when they enter the page
/// cache. The exit status is the command's, 128 and its number where a signal ended it, 126 or 127 where it cannot be run.
#[derive(Debug, Args)]
#[command(
    override_usage = "ebb limit [--read RATE] [--write RATE] [--net RATE] (--pid PID | -- COMMAND...)",
    group = ArgGroup::new("rate").args(["read", "write", "net"]).multiple(true).required(true),
    group = ArgGroup::new("target").args(["pid", "command"]).required(true)
)]
pub struct LimitArgs {
    /// Bytes read from storage in a second: 20M, 20MB, 20MB/s, 20MBps (a small b would be bits: 20Mb/s is refused); what comes from the page cache is not counted
    #[arg(long, value_name = "RATE", value_parser = rate)]
    read: Option<Bytes>,
    /// Bytes written to storage in a second, counted when they enter the page cache
    #[arg(long, value_name = "RATE", value_parser = rate)]
    write: Option<Bytes>,
    /// Bytes over TCP in a second, received and sent together; UDP is not counted
    #[arg(long, value_name = "RATE", value_parser = rate)]
    net: Option<Bytes>,
    /// The process to hold, with what it has started and starts; a write to a pipe or socket that is under way may end early
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// The command to run, with its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A rate in bytes per second, at least one byte.
fn rate(text: &str) -> Result<Bytes, ValueError> {
    Some(Bytes::rate(text)?).filter(|rate| rate.0 > 0).ok_or(ValueError::NoRate)
}

/// Runs `ebb limit`.
///
/// # Errors
/// When the command or the process cannot be held.
pub fn run(args: &LimitArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let limits = Limits([args.read, args.write, args.net].map(|rate| rate.map(|rate| rate.0)));
    let target = args.pid.map_or_else(|| Target::Command(args.command.clone()), Target::Process);
    let wanted = Wanted { limits, target: target.clone(), aside: globals.json(), ignored: not_ignored };
    let say = |text: &str| {
        if !globals.quiet {
            views::say(&format!("ebb: {text}"));
        }
    };
    let (end, course) = match limit::run(&wanted, || say(&view::begins(&limits)), say) {
        Ok(done) => done,
        Err(error @ LimitError::Missing(_)) => return Ok(not_run(&error, MISSING)),
        Err(error @ LimitError::Start { .. }) => return Ok(not_run(&error, CANNOT_RUN)),
        Err(error @ LimitError::Refused(_)) => return Err(CliError::usage(error)),
        Err(error) => return Err(CliError::failed(error)),
    };
    view::ended(&limits, &course).iter().for_each(|line| say(line));
    if globals.json() {
        // That a command failed counts more than that nobody reads it.
        if let Err(error) = views::print_json(&view::json(&limits, &target, end, &course)) {
            match end {
                End::Exited(0) | End::Unknown => return Err(error),
                _ => views::say(&format!("ebb: {error}")),
            }
        }
    }
    Ok(ExitCode::from(match end {
        End::Exited(status) => status,
        End::Signalled(signal) => signal.saturating_add(128),
        End::Unknown => 0,
        End::Released(signal) => u8::try_from(signal + 128).unwrap_or(1),
    }))
}

fn not_run(error: &LimitError, status: u8) -> ExitCode {
    views::say(&format!("ebb: {error}"));
    ExitCode::from(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_sizes_in_a_second() {
        for (text, bytes) in [("20M", 20 << 20), ("20MB", 20_000_000), ("20 MB/s", 20_000_000), ("1", 1)] {
            assert_eq!(rate(text), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "0", "0/s", "fast", "1M/h", "-1"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
