//! `ebb watch`: live rates of devices and of the members of arrays, or those of a log.

mod log;

use crate::cli::globals::Globals;
use crate::cli::output::Form;
use crate::error::CliError;
use crate::signals;
use crate::views;
use crate::watch::source::{Source, Wanted};
use crate::watch::{Watch, plain, tui};
use clap::Args;
use ebbtide_host::sys::Sys;
use ebbtide_model::civil::Civil;
use ebbtide_model::shown::json_line;
use ebbtide_model::units::{Nanos, UnitError, UnixTime};
use ebbtide_model::workload::options;
use rustix::thread::{Timespec, nanosleep};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Watch devices live, or read a log of iostat
///
/// As iostat -x: rates, waits and queues; besides, members of arrays beside their siblings.
/// Interactive on a terminal (press ? for the keys); in a pipe, a table for each interval. As with iostat, the first
/// report covers the time since boot; CSV and JSON have intervals only. Waits are in ms, request sizes in KiB.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Devices, mount points or directories, with the devices below them [default: all devices]
    #[arg(value_name = "DEVICE|MOUNT|DIR")]
    targets: Vec<String>,
    /// Time between readings, for example 500ms; a bare number is seconds, as in iostat
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = seconds)]
    interval: Nanos,
    /// Stop after N intervals
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Compare the given devices with each other, as if they were members of one array
    #[arg(long)]
    siblings: bool,
    /// Also show devices that never did anything
    #[arg(long)]
    idle: bool,
    /// Leave out the first report, which covers the time since boot (iostat's -y)
    #[arg(long, short = 'y')]
    no_boot: bool,
    #[command(flatten)]
    log: log::LogArgs,
}

/// Shortest interval: the kernel's counters of time advance in steps of up to 10 ms.
const LEAST_INTERVAL: Nanos = Nanos(50_000_000);

/// A time whose bare number is seconds, as iostat has it.
fn seconds(text: &str) -> Result<Nanos, UnitError> {
    options::time(text, Nanos::from_secs(1))
}

/// Runs `ebb watch`.
///
/// # Errors
/// When a target is nothing that can be watched, or the counters cannot be read.
pub fn run(args: &WatchArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    if let Some(file) = &args.log.log {
        return log::run(file, &args.log, globals);
    }
    if args.interval < LEAST_INTERVAL {
        return Err(CliError::Usage(format!(
            "--interval {} is shorter than {LEAST_INTERVAL}; the kernel counts time too coarsely for that",
            args.interval
        )));
    }
    if args.siblings && args.targets.len() < 2 {
        return Err(CliError::Usage(
            "--siblings compares the named devices; name two or more, as `--siblings sdb sdc`".to_owned(),
        ));
    }
    let interval = Duration::from_nanos(args.interval.0);
    let mut watch = Watch { interval, idle: args.idle, ..Watch::default() };
    let wanted = Wanted { targets: args.targets.clone(), siblings: args.siblings };
    let mut source = Source::open(Sys::host(), wanted, &mut watch).map_err(CliError::failed)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signals::not_ignored(&[SIGINT, SIGTERM]) {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|e| CliError::Failed(format!("cannot handle signals: {e}")))?;
    }
    let failed = |e: std::io::Error| CliError::Failed(format!("cannot watch: {e}"));
    let form = globals.form();
    if views::stdout_is_terminal() && globals.printed.asked().is_none() {
        tui::run(&mut watch, &mut source, args.count, &stop, time_of_day).map_err(failed)?;
        return Ok(ExitCode::SUCCESS);
    }
    let first = match form {
        Form::Csv => views::print_more_data(plain::CSV_HEADER)?,
        _ if form == Form::Json || args.no_boot => true,
        _ => match source.since_boot(&watch) {
            Some(boot) => views::print_more(&format!("{}\n", plain::table(&boot)))?,
            None => true,
        },
    };
    if !first {
        return Ok(ExitCode::SUCCESS);
    }
    let mut due = Instant::now() + interval;
    while args.count.is_none_or(|count| watch.readings < count) && wait_until(due, &stop) {
        source.read(&mut watch).map_err(failed)?;
        due = tui::next_due(due, interval);
        let more = match form {
            Form::Json => views::print_more_data(&json_line(&plain::to_json(&watch, unix_seconds()))),
            Form::Csv => views::print_more_data(&plain::csv(&watch, unix_seconds())),
            Form::Text | Form::Markdown => views::print_more(&format!("{}\n", plain::table(&watch))),
        };
        if !more? {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Sleeps until `due`; false when it is time to stop.
fn wait_until(due: Instant, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        // A signal ends this sleep, unlike the standard library's; one that came just before it is seen after a second.
        let nap = left.min(Duration::from_secs(1));
        let nap = Timespec { tv_sec: nap.as_secs() as i64, tv_nsec: i64::from(nap.subsec_nanos()) };
        let _until_then = nanosleep(&nap);
    }
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn time_of_day() -> String {
    Civil::from_unix(UnixTime::EPOCH + Nanos::from_secs_f64(unix_seconds())).to_string()
}
