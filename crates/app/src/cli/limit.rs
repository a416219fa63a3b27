//! `ebb limit`: a program held to a rate.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::progress::limit::LimitLine;
use crate::signals::not_ignored;
use crate::values::ValueError;
use crate::views::{self, limit as view};
use clap::{ArgGroup, Args};
use ebbtide_host::limit::guardian;
use ebbtide_host::sys::Sys;
use ebbtide_model::limit::{Counts, Kind, Limits};
use ebbtide_model::units::Bytes;
use ebbtide_runner::limit::{self, Course, End, LimitError, LimitListener, LimitMethods, Target, Wanted};
use ebbtide_runner::places;
use std::ffi::OsString;
use std::process::ExitCode;

/// Status of a program that is there and could not be run, and of one that is not there, as shells have them.
const CANNOT_RUN: u8 = 126;
const MISSING: u8 = 127;

/// Hold a program, with all that it starts, to a rate of reading, writing, operations or network traffic
///
/// `ebb limit --write 50MB -- tar xf backup.tar` runs a command, `ebb limit --read 20M --pid 4711` holds a program that runs already
/// until it ends or Ctrl-C. Rates are per second; bytes are those that reach or leave storage, those to write when they enter the page
/// cache. The exit status is the command's, 128 and its number where a signal ended it, 126 or 127 where it cannot be run.
#[derive(Debug, Args)]
#[command(
    override_usage = "ebb limit [--read RATE] [--write RATE] [--net RATE] [--iops N] (--pid PID | -- COMMAND...)",
    group = ArgGroup::new("rate").args(["read", "write", "net", "iops"]).multiple(true).required(true),
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
    /// Operations in a second, reads and writes together: the device's in a control group, else calls that read or write
    #[arg(long, value_name = "N", value_parser = operations)]
    iops: Option<u64>,
    /// The process to hold, with what it has started and starts
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

/// Operations in a second, at least one.
fn operations(text: &str) -> Result<u64, &'static str> {
    text.parse().ok().filter(|number| *number > 0).ok_or("write a whole number without a unit, such as 500")
}

impl LimitArgs {
    fn limits(&self) -> Limits {
        let bytes = |rate: Option<Bytes>| rate.map(|rate| rate.0);
        Limits([bytes(self.read), bytes(self.write), bytes(self.net), self.iops])
    }

    fn target(&self) -> Target {
        self.pid.map_or_else(|| Target::Command(self.command.clone()), Target::Process)
    }
}

/// The hidden subcommand that guards.
pub use ebbtide_host::limit::announced::GUARDIAN;

/// Says how it goes.
struct Teller {
    quiet: bool,
    limits: Limits,
    line: LimitLine,
    /// The last figures that were shown.
    last: (f64, Counts),
}

impl LimitListener for Teller {
    fn begins(&mut self, ways: &LimitMethods) {
        if !self.quiet {
            views::say(&format!("ebb: {}", view::begins(&self.limits, ways)));
            if let Some(warning) = view::warning(ways) {
                views::say(&format!("ebb: {warning}"));
            }
        }
    }

    fn goes_on(&mut self, course: &Course) {
        let (then, before) = std::mem::replace(&mut self.last, (course.elapsed.as_secs_f64(), course.moved));
        let seconds = course.elapsed.as_secs_f64() - then;
        let now = |kind: Kind| course.moved[kind].saturating_sub(before[kind]) as f64 / seconds;
        self.line.show(&view::live(&self.limits, course, now));
    }

    fn remark(&mut self, text: &str) {
        self.line.clear();
        if !self.quiet {
            views::say(&format!("ebb: {text}"));
        }
    }
}

/// Runs `ebb limit`.
///
/// # Errors
/// When the command or the process cannot be held.
pub fn run(args: &LimitArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let (limits, target) = (args.limits(), args.target());
    let wanted = Wanted {
        limits,
        target: target.clone(),
        aside: globals.json,
        guardian: GUARDIAN,
        journals: places::journals().ok(),
        ignored: not_ignored,
    };
    let line = LimitLine::new(globals.quiet);
    let mut teller = Teller { quiet: globals.quiet, limits, line, last: (0.0, Counts::default()) };
    let (end, course, ways) = match limit::run(&wanted, &mut teller) {
        Ok(done) => done,
        Err(error @ LimitError::Missing(_)) => return Ok(not_run(&error, MISSING)),
        Err(error @ LimitError::Start { .. }) => return Ok(not_run(&error, CANNOT_RUN)),
        Err(error @ LimitError::Refused(_)) => return Err(CliError::usage(error)),
        Err(error) => return Err(CliError::failed(error)),
    };
    teller.line.clear();
    if !globals.quiet {
        for line in view::ended(&limits, &course, &ways) {
            views::say(&format!("ebb: {line}"));
        }
    }
    if globals.json {
        views::print_json(&view::json(&limits, &target, end, &course, &ways))?;
    }
    Ok(match end {
        End::Exited(status) => ExitCode::from(status),
        End::Signalled(signal) => ExitCode::from(signal.saturating_add(128)),
        End::Unknown => ExitCode::SUCCESS,
        End::Released(signal) => ExitCode::from(u8::try_from(signal + 128).unwrap_or(1)),
    })
}

fn not_run(error: &LimitError, status: u8) -> ExitCode {
    views::say(&format!("ebb: {error}"));
    ExitCode::from(status)
}

/// Runs the guardian of a run, told on standard input.
///
/// # Errors
/// When something could not be put back.
pub fn guard() -> Result<ExitCode, CliError> {
    guardian::serve(&Sys::host()).map_err(CliError::failed)?;
    Ok(ExitCode::SUCCESS)
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
