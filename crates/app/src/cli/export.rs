//! `ebb export`: gives a device or a file to another host, over NVMe/TCP or iSCSI.

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::{keeping, signals, views};
use clap::Args;
use ebbtide_host::build::lasting::monitor::found;
use ebbtide_host::export::{Done, ExportError, Exporter, Kernel, Now, Wanted};
use ebbtide_host::sys::Sys;
use ebbtide_model::export::{Export, Listen, Transport, check_client, check_name};
use ebbtide_model::shown::{Shown, aligned};
use ebbtide_provision::monitor::check_program;
use ebbtide_runner::journal::JournalFile;
use ebbtide_runner::kernel::telling::Telling;
use ebbtide_runner::{clock, places};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

/// Give a device or a file to one other host, over NVMe/TCP or iSCSI; list such exports, or take one away
///
/// Nothing is written, but the other host may write from then on: what is in use is refused, and a device that carries anything has to
/// be named below /dev/disk/by-id. It listens on loopback unless --listen says otherwise, for `ebb attach` to come through SSH. Neither protocol encrypts.
///
/// Exit status: 0 it is exported, listed or taken away; 1 refused or failed; 2 wrong usage.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// A block device, the stable id of one, or a regular file
    #[arg(value_name = "DEVICE|FILE", required_unless_present_any = ["list", "remove", "start"])]
    source: Option<PathBuf>,
    /// UUID of what the device carries, as `blkid -p` says it: it is exported only if it does, or is blank. For a device without a name
    /// below /dev/disk/by-id
    #[arg(long, value_name = "UUID")]
    carries: Option<String>,
    /// The initiator that may log in, and no other: a host's NQN for nvme-tcp, an IQN for iscsi
    #[arg(long, value_name = "NAME", required_unless_present_any = ["list", "remove", "start"])]
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
    /// List exports
    #[arg(long, conflicts_with_all = ["source", "carries", "client", "secret", "name", "listen", "persistent", "dry_run", "remove"])]
    list: bool,
    /// Take the export of that name away
    #[arg(long, value_name = "NAME", conflicts_with_all = ["source", "carries", "client", "secret", "name", "listen", "persistent", "dry_run"])]
    remove: Option<String>,
    /// With --remove: also while the client is connected
    #[arg(long, requires = "remove", conflicts_with_all = ["source", "list", "start"])]
    force: bool,
    /// Bring the export of that name back, as its unit does at boot
    #[arg(long, value_name = "NAME", hide = true, conflicts_with_all = ["source", "carries", "client", "list", "remove"])]
    start: Option<String>,
}

/// Runs `ebb export`.
///
/// # Errors
/// When something must not be exported, the kernel cannot, or the command line is wrong.
pub fn run(args: &ExportArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    if args.list {
        keeping::needs_root("ebb export --list")?;
        let now = with(globals, &AtomicBool::new(false), |exporter| exporter.list())?;
        return views::answer(globals.json, &list_json(&now), &list_text(&now));
    }
    if let Some(name) = &args.remove {
        check_name(name).map_err(CliError::usage)?;
        keeping::needs_root("ebb export --remove")?;
        let control = signals::stoppable(globals.quiet)?;
        let gone = with(globals, &control.stop, |exporter| exporter.remove(name, args.force))?;
        let value = json!({ "schema": "ebbtide.export-removed/1", "name": gone.name, "device": gone.device.to_string_lossy() });
        let text = format!("{}: {} is not exported any more\n", gone.name, gone.device.shown());
        return views::answer(globals.json, &value, &text);
    }
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
            steps => {
                let lines: String =
                    (1..).zip(steps).map(|(number, step)| format!("{number:>4}. {step}\n")).collect();
                format!("{}, to be exported:\n{lines}", export.name)
            }
        };
        return views::answer(globals.json, &value, &text);
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

/// Does `what` with the exporter of this host.
fn with<T>(
    globals: &Globals,
    stop: &AtomicBool,
    what: impl FnOnce(&Exporter<'_>) -> Result<T, ExportError>,
) -> Result<T, CliError> {
    let run = clock::session_id();
    let journal = JournalFile::alone(&places::journals()?, &run);
    let runner = Telling(if globals.quiet { |_| {} } else { |line| views::say(&format!("ebb: {line}")) });
    let tell = |line: &str| tracing::debug!("{line}");
    let boundary = keeping::boundary();
    let exporter = Exporter {
        sys: Sys::host(),
        config: &Kernel,
        runner: &runner,
        journal: &journal,
        run: &run,
        tell: &tell,
        stop,
        boundary: &boundary,
    };
    what(&exporter).map_err(|error| match error {
        ExportError::Stopped => CliError::Interrupted(error.to_string()),
        error if error.is_usage() => CliError::usage(error),
        error => CliError::failed(error),
    })
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
    text += &format!("`ebb export --remove {}` takes it away\n", export.name);
    views::answer(globals.json, &value(export, "ebbtide.export/1"), &text)
}

fn value(export: &Export, schema: &str) -> Value {
    json!({
        "schema": schema,
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

fn list_json(all: &[Now]) -> Value {
    let one = |now: &Now| {
        let mut value = value(&now.export, "ebbtide.export/1");
        value["running"] = now.running.into();
        value["connected"] = now.connected.into();
        value["secret_file"] = now.export.secret.as_deref().map(Path::to_string_lossy).into();
        value
    };
    json!({ "schema": "ebbtide.exports/1", "exports": all.iter().map(one).collect::<Vec<_>>() })
}

fn list_text(all: &[Now]) -> String {
    if all.is_empty() {
        return "nothing is exported by ebb\n".to_owned();
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|now| {
            let export = &now.export;
            let state = match (now.running, now.connected) {
                (false, _) if export.persistent => "not running: `ebb export --remove` it, or start its unit",
                (false, _) => "not running",
                (true, Some(true)) => "connected",
                (true, Some(false)) => "nobody is connected",
                (true, None) => "somebody is connected to its port",
            };
            let listen = format!("{} {}", export.transport, export.listen().shown());
            let lasts = if export.persistent { "persistent" } else { "until a boot" };
            let device = export.device.shown();
            vec![
                export.name.clone(),
                device,
                listen,
                export.client.clone(),
                lasts.to_owned(),
                state.to_owned(),
            ]
        })
        .collect();
    let rows: Vec<&[String]> = rows.iter().map(Vec::as_slice).collect();
    aligned(&rows, 2, &[])
}
