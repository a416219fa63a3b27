//! `ebb status`: how all that was made to stay is now.

use crate::cli::export;
use crate::cli::globals::Globals;
use crate::cli::undo::kinds;
use crate::error::CliError;
use crate::{keeping, views};
use clap::Args;
use ebbtide_host::attach::Attachments;
use ebbtide_host::build::lasting::{Failure, Keeper};
use ebbtide_host::command::{CommandError, Runner, Within};
use ebbtide_host::made::ThisHost;
use ebbtide_host::monitor::MONITOR;
use ebbtide_host::probe;
use ebbtide_host::sys::Sys;
use ebbtide_model::made::Kind;
use ebbtide_model::shown::excerpt;
use ebbtide_provision::status::{Array, ArraySeen, Status};
use ebbtide_provision::{Member, MemberState, Record};
use serde_json::json;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Show the state of all that was made to stay
///
/// Arrays, attached volumes, exports, the monitor.
///
/// Of an array: members, remaining redundancy, resync, errors, what has drifted. Of an attached volume: its connection. Of an export: whether
/// another host can reach it and does.
///
/// Exit status, for monitoring: 0 all is well, or nothing is there; 1 degraded, drifted, missing, not connected or not running.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only these, as they are called here; the monitor is called `monitor`
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Only things of this kind
    #[arg(long, value_parser = kinds())]
    kind: Option<Kind>,
    /// As text for Prometheus (OpenMetrics 1.0), for its node exporter's textfile collector
    #[arg(long, conflicts_with = "json")]
    openmetrics: bool,
}

/// Runs `ebb status`.
///
/// # Errors
/// When something is not healthy, or a record cannot be read.
pub fn run(args: &StatusArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    keeping::needs_root("ebb status")?;
    let stop = AtomicBool::new(false);
    let of = |kind: Kind| args.kind.is_none_or(|only| only == kind);
    let mut unread: Vec<String> = Vec::new();
    let mut records: Vec<Record> = Vec::new();
    if of(Kind::Array) {
        let all = keeping::with(globals, &stop, |keeper| Ok(keeper.records()))?;
        for record in all {
            match record {
                Ok(record) => records.push(record),
                Err(error) => unread.push(format!("cannot read the record {error}")),
            }
        }
    }
    let mut status = Status::of(Vec::new());
    if of(Kind::Attached) {
        let (attached, bad) = keeping::on_host(globals, &ThisHost, &stop, false, |context| {
            Ok(Attachments::new(context).look_all())
        })?;
        status.attached = attached;
        unread.extend(bad.iter().map(|error| format!("cannot read a record: {error}")));
    }
    if of(Kind::Export) {
        match export::with(globals, &stop, |exporter| exporter.list()) {
            Ok(exports) => status.exports = exports,
            Err(error) => unread.push(error.to_string()),
        }
    }
    if of(Kind::Monitor) {
        status.monitor = keeping::with(globals, &stop, |keeper| Ok(keeper.monitor()))?;
    }
    let names: Vec<&str> = records
        .iter()
        .map(|record| record.desired.name.as_str())
        .chain(status.attached.iter().map(|one| one.name.as_str()))
        .chain(status.exports.iter().map(|one| one.name.as_str()))
        .chain(status.monitor.map(|_| MONITOR))
        .collect();
    if let Some(unknown) = args.names.iter().find(|name| !names.contains(&name.as_str())) {
        let known = match names.as_slice() {
            [] => "nothing was made to stay here".to_owned(),
            names => format!("there is {}", names.join(", ")),
        };
        return Err(CliError::Failed(format!(
            "there is no {} that ebb made on this host; {known}",
            excerpt(unknown)
        )));
    }
    let wanted = |name: &str| args.names.is_empty() || args.names.iter().any(|wanted| wanted == name);
    status.attached.retain(|one| wanted(&one.name));
    status.exports.retain(|one| wanted(&one.name));
    status.monitor = status.monitor.filter(|_| wanted(MONITOR));
    for record in records.iter().filter(|record| wanted(&record.desired.name)) {
        let array = keeping::with(globals, &stop, |keeper| array(keeper, record));
        status.arrays.push(array?);
    }
    if args.openmetrics {
        views::print_data(&status.openmetrics())?;
    } else {
        let none = status.is_empty() && unread.is_empty();
        let text = if none { "nothing was made to stay on this host\n".to_owned() } else { status.text() };
        views::answer(globals.json(), &json!(status), &text)?;
    }
    unread.iter().for_each(|why| views::say(&format!("ebb: {why}")));
    Ok(if status.is_healthy() && unread.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How long a member may take for one block: as long as the kernel gives a request of a SCSI or NVMe drive (`SD_TIMEOUT`,
/// `nvme_core.io_timeout`). One that works hard may well take seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The members of `record`, by their places, of which a block cannot be read in time, past the cache. Other processes ask, all at once: nobody can
/// take back what waits for a device. Those that the kernel knows to be away are not asked.
fn silent(keeper: &Keeper<'_>, record: &Record) -> BTreeSet<usize> {
    let stop = AtomicBool::new(false);
    let asks = &|path: &str| {
        let from = format!("if={path}");
        let words = [&from, "of=/dev/null", "bs=4096", "count=1", "iflag=direct", "status=none"];
        let runner = Within { stop: &stop, patience: PATIENCE, most: 1 << 16 };
        matches!(runner.run("dd", &words), Err(CommandError::GivenUp { .. }))
    };
    let is_there = |member: &Member| {
        !matches!(keeper.state_by_kernel(member), None | Some(MemberState::Unreachable | MemberState::Faulty))
    };
    let members: Vec<(usize, &Member)> =
        record.desired.members.iter().enumerate().filter(|(_, member)| is_there(member)).collect();
    std::thread::scope(|scope| {
        let asked: Vec<_> = members
            .into_iter()
            .map(|(place, member)| (place, scope.spawn(move || asks(&member.path))))
            .collect();
        asked.into_iter().filter_map(|(place, asked)| asked.join().ok()?.then_some(place)).collect()
    })
}

/// Asks the members of what was made under `name` before anything else does, which would wait for one as long as it takes.
///
/// # Errors
/// When one does not answer. An array over hosts works without those that are away.
pub(super) fn must_answer(keeper: &Keeper<'_>, name: &str) -> Result<(), Failure> {
    let Ok(Some(record)) = keeper.record(name) else { return Ok(()) };
    if record.desired.has_hosts() {
        return Ok(());
    }
    match silent(keeper, &record).first() {
        None => Ok(()),
        Some(place) => Err(Failure::Refused(format!(
            "{} does not answer: a read of it takes longer than {} s. Nothing was changed. See why (`dmesg`, its connection), and then run this again",
            record.desired.members[*place].path,
            PATIENCE.as_secs()
        ))),
    }
}

/// How the array of `record` is.
///
/// # Errors
/// When a program that is asked fails.
pub(super) fn array(keeper: &Keeper<'_>, record: &Record) -> Result<Array, Failure> {
    let silent = silent(keeper, record);
    if !silent.is_empty() {
        return Ok(Array::of(record, keeper.look_without(record, &silent, PATIENCE)));
    }
    let mut seen = keeper.look(record)?;
    ask_health(record, &mut seen);
    Ok(Array::of(record, seen))
}

/// Adds what NVMe drives among the members say of their own health.
fn ask_health(record: &Record, seen: &mut ArraySeen) {
    let sys = Sys::host();
    let mut devices = probe::devices(&sys);
    probe::ask_health(&sys, &mut devices, ebbtide_engine::nvme::log_page);
    for (member, seen) in record.desired.members.iter().zip(&mut seen.members) {
        let node = std::fs::canonicalize(&member.path).ok();
        let name = node.as_ref().and_then(|node| node.file_name()).and_then(|name| name.to_str());
        let device = name.and_then(|name| devices.get(name));
        if let Some(health) = device.and_then(|device| device.health.as_ref()) {
            seen.troubles.extend(health.troubles());
        }
    }
}
