//! `ebb export`: gives a device or a file to another host, over NVMe/TCP or iSCSI.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::{keeping, signals, views};
use clap::Args;
use ebbtide_host::export::{Done, Exports, Wanted};
use ebbtide_host::made::{Failure, ThisHost};
use ebbtide_host::monitor::found;
use ebbtide_model::export::{Export, Listen, Transport, check_client, check_name};
use ebbtide_model::shown::Shown;
use ebbtide_provision::monitor::check_program;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Give a device or file to one other host
///
/// Over NVMe/TCP or iSCSI; `ebb status` lists such exports.
///
/// Nothing is written, but the other host may write from then on: what is in use is refused, and a device that carries anything has to
/// be named below /dev/disk/by-id. It listens on loopback unless --listen says otherwise, for `ebb attach` to come through SSH. Neither protocol encrypts.
///
/// Exit status: 0 it is exported; 1 refused or failed; 2 wrong usage.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// A block device, the stable id of one, or a regular file
    #[arg(value_name = "DEVICE|FILE", required_unless_present = "start")]
    source: Option<PathBuf>,
    /// UUID of what the device carries, as `blkid -p` says it: it is exported only if it does, or is blank. For a device without a name
    /// below /dev/disk/by-id
    #[arg(long, value_name = "UUID")]
    carries: Option<String>,
    /// The initiator that may log in, and no other: a host's NQN for nvme-tcp, an IQN for iscsi
    #[arg(long, value_name = "NAME", required_unless_present = "start")]
    client: Option<String>,
    /// A file that only its owner may read, with the secret that the initiator has to know: CHAP for iscsi, DH-HMAC-CHAP for nvme-tcp
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// What it is called: 1 to 24 of a-z, 0-9 and _ [default: the end of the device's or file's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Protocol: nvme-tcp or iscsi
    #[arg(long, value_name = "PROTOCOL", default_value = "nvme-tcp")]
    transport: Transport,
    /// Address of this host to listen on [default: 127.0.0.1, port 4420 for nvme-tcp, 3260 for iscsi]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    listen: Option<String>,
    /// Bring it back at each boot, by a unit of systemd's
    #[arg(long)]
    persistent: bool,
    /// Print what the kernel would be told, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Bring the export of that name back, as its unit does at boot
    #[arg(long, value_name = "NAME", hide = true, conflicts_with_all = ["source", "carries", "client"])]
    start: Option<String>,
}

/// Runs `ebb export`.
///
/// # Errors
/// When something must not be exported, the kernel cannot, or the command line is wrong.
pub fn run(args: &ExportArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    if let Some(name) = &args.start {
        keeping::needs_root("ebb export --start")?;
        let control = signals::stoppable(globals.quiet)?;
        let done = with(globals, &control.stop, |exporter| exporter.start(name))?;
        return answer(&done, globals);
    }
    let wanted = wanted(args)?;
    keeping::needs_root("ebb export")?;
    let control = signals::stoppable(globals.quiet)?;
    if args.dry_run {
        let (export, steps) = with(globals, &control.stop, |exporter| exporter.plan(&wanted))?;
        let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
        let value = json!({ "schema": "ebbtide.export-plan/1", "name": export.name, "device": export.device.to_string_lossy(), "steps": steps });
        let text = match steps.as_slice() {
            [] => format!("{}: nothing to do, it is exported like that already\n", export.name),
            steps => format!("{}, to be exported:\n{}", export.name, keeping::numbered(steps)),
        };
        return views::answer(globals.json(), &value, &text);
    }
    let done = with(globals, &control.stop, |exporter| exporter.export(&wanted))?;
    answer(&done, globals)
}

/// What the arguments ask for.
fn wanted(args: &ExportArgs) -> Result<Wanted, CliError> {
    let transport = args.transport;
    let client = args.client.clone().unwrap_or_default();
    check_client(&client, transport).map_err(|error| CliError::Usage(format!("--client: {error}")))?;
    if let Some(name) = &args.name {
        check_name(name).map_err(|error| CliError::Usage(format!("--name: {error}")))?;
    }
    let listen = Listen::parse(args.listen.as_deref(), transport)
        .map_err(|error| CliError::Usage(format!("--listen: {error}")))?;
    let persistent = if args.persistent { Some(program()?) } else { None };
    let source = args.source.clone().unwrap_or_default();
    Ok(Wanted {
        source,
        carries: args.carries.clone(),
        name: args.name.clone(),
        client,
        secret: args.secret.clone(),
        transport,
        listen,
        persistent,
    })
}

/// This program, which a unit is to start at boot.
fn program() -> Result<PathBuf, CliError> {
    let program = std::env::current_exe().and_then(std::fs::canonicalize).map_err(|error| {
        CliError::Failed(format!(
            "it cannot be told where this program is, which the unit would run: {error}"
        ))
    })?;
    check_program(&program, found).map_err(CliError::failed)?;
    Ok(program)
}

/// Does `what` with the exports of this host.
///
/// # Errors
/// As `what`, and when there is no place for a journal.
pub(super) fn with<T>(
    globals: &Globals,
    stop: &AtomicBool,
    what: impl FnOnce(&Exports<'_>) -> Result<T, Failure>,
) -> Result<T, CliError> {
    keeping::on_host(globals, &ThisHost, stop, true, |context| what(&Exports::new(context)))
}

fn answer(done: &Done, globals: &Globals) -> Result<ExitCode, CliError> {
    if !globals.quiet {
        done.warnings.iter().for_each(|warning| views::say(&format!("ebb: warning: {warning}")));
    }
    let export = &done.export;
    let made = if done.made { "exported" } else { "exported already" };
    let secret = if export.secret.is_some() { ", which has to know the secret" } else { "" };
    let mut text = format!(
        "{}: {} is {made} to {}{secret}\n  {} at {} over {}\n",
        export.name,
        export.device.shown(),
        export.client,
        export.target,
        export.listen().shown(),
        export.transport,
    );
    if !export.address.is_loopback() {
        text += "  the network carries it unencrypted: it is for a network of one's own\n";
    }
    text += &format!("`ebb undo {}` takes it away\n", export.name);
    views::answer(globals.json(), &value(export), &text)
}

fn value(export: &Export) -> Value {
    json!({
        "schema": "ebbtide.export/1",
        "name": export.name,
        "transport": export.transport.name(),
        "address": export.address.to_string(),
        "port": export.port,
        "target": export.target,
        "client": export.client,
        "device": export.device.to_string_lossy(),
        "bytes": export.bytes,
        "persistent": export.persistent,
    })
}
