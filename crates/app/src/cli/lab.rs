//! `ebb lab`: guests with throttled disks and real kernels.

mod several;

use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::laboratory;
use crate::values::ValueError;
use crate::views;
use clap::{Args, Subcommand};
use ebbtide_lab::disks::{Bus, Disk, Throttle};
use ebbtide_lab::machine::{Machine, Use};
use ebbtide_lab::places::{Cleaned, Leftover};
use ebbtide_lab::{agent, image};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Bytes;
use ebbtide_model::volume::Limit;
use ebbtide_runner::worker::Whereabouts;
use ebbtide_runner::{clock, places};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Run guests with real arrays and throttled disks
///
/// QEMU guests with a Debian kernel: real arrays without spare disks or root.
#[derive(Debug, Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Build the guests' image from Debian packages, once; downloads about 100 MB
    Build(BuildArgs),
    /// Start a guest, run a command in it and end it; the exit status is the command's
    Run(RunArgs),
    /// Start a guest with a shell on this terminal; the guest ends with the shell
    Shell(GuestArgs),
    /// Show images and guests
    List,
    /// Remove what guests of killed runs left behind
    Clean(CleanArgs),
    /// The other half, in the guest
    #[command(hide = true)]
    Agent {
        /// Its end of the channel
        port: PathBuf,
    },
    /// Carries out an experiment in the guest
    #[command(hide = true)]
    Worker,
}

#[derive(Debug, Args)]
struct BuildArgs {
    /// Rebuild an existing image, with the newest packages
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
struct CleanArgs {
    /// Remove images too: everything except running guests
    #[arg(long)]
    all: bool,
}

/// What a guest has.
#[derive(Debug, Args)]
struct GuestArgs {
    /// Disks: /dev/vda, /dev/vdb..., /dev/disk/by-id/virtio-disk0, ...
    #[arg(long, default_value = "0", value_name = "N")]
    disks: usize,
    /// Disks are NVMe drives: /dev/nvme0n1, /dev/nvme1n1..., /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_disk0, ...
    #[arg(long)]
    nvme: bool,
    /// Size of each disk
    #[arg(long, default_value = "1GiB", value_name = "SIZE")]
    size: Bytes,
    /// Limit of operations per second of each disk [default: none]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    iops: Option<u64>,
    /// Limit of bytes per second of each disk, for example 20MB/s [default: none]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    throughput: Option<u64>,
    /// Memory of the guest
    #[arg(long, default_value = "512MiB", value_name = "SIZE")]
    memory: Bytes,
    /// Virtual CPUs of the guest
    #[arg(long, default_value = "2", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
}

#[derive(Debug, Args)]
struct RunArgs {
    #[command(flatten)]
    guest: GuestArgs,
    /// Number of guests, guest1 to guestN, on a private network; the command runs in all of them at once
    #[arg(long, default_value = "1", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    guests: u8,
    /// Program and arguments, run as root in the guest without a shell and with empty standard input
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// `20MB/s` or `20MB`.
fn rate(text: &str) -> Result<u64, ValueError> {
    let bytes: Bytes = text.trim_end_matches("/s").parse()?;
    Some(bytes.0).filter(|bytes| *bytes > 0).ok_or(ValueError::NoLimit)
}

impl GuestArgs {
    fn machine(&self, usage: Use) -> Result<Machine, CliError> {
        const MEMORY_LEAST_MIB: u64 = 256;
        let memory_mib = self.memory.0 >> 20;
        if memory_mib < MEMORY_LEAST_MIB {
            let text = format!("--memory {} is too little to boot in; write at least 256MiB", self.memory);
            return Err(CliError::Usage(text));
        }
        let steady = |rate: Option<u64>| rate.map(|rate| Limit::steady(rate as f64));
        let throttle =
            Throttle { iops: steady(self.iops), throughput: steady(self.throughput), ..Throttle::default() };
        let bus = if self.nvme { Bus::Nvme } else { Bus::Virtio };
        let disk =
            |index| Disk { name: format!("disk{index}"), bus, size: self.size.0, throttle, link: None };
        Ok(Machine {
            name: format!("guest-{}", clock::session_id()),
            memory_mib: u32::try_from(memory_mib)
                .map_err(|_| CliError::Usage(format!("--memory {} is too much", self.memory)))?,
            cpus: self.cpus,
            disks: (0..self.disks).map(disk).collect(),
            usage,
            ..Machine::default()
        })
    }
}

/// Runs `ebb lab`.
///
/// # Errors
/// When programs are missing, nothing can be downloaded, or a guest fails.
pub fn run(args: &LabArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    match &args.command {
        LabCommand::Build(args) => build(args, globals),
        LabCommand::Run(args) => command(args, globals),
        LabCommand::Shell(args) => shell(args, globals),
        LabCommand::List => list(globals),
        LabCommand::Clean(args) => clean(args, globals),
        LabCommand::Agent { port } => serve(port),
        LabCommand::Worker => super::worker::run(Whereabouts::Guest),
    }
}

fn build(args: &BuildArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let places = places::lab()?;
    let mut say = |text: &str| {
        if !globals.quiet {
            views::say(&format!("ebb: {text}"));
        }
    };
    let there = image::find(&places).is_some() && !args.force;
    let image = image::build(&places, args.force, &mut say)?;
    let (kernel, directory) = (image.kernel_release(), image.directory());
    let value = json!({
        "schema": "ebbtide.lab-image/1",
        "directory": directory.to_string_lossy(),
        "kernel": kernel,
        "built": !there,
    });
    let built = if there { "exists already; --force rebuilds it" } else { "is built" };
    let text = format!("the image with kernel {kernel} {built}: {}\n", directory.shown());
    views::answer(globals.json(), &value, &text)
}

fn command(args: &RunArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let machine = args.guest.machine(Use::Commands)?;
    if args.guests > 1 {
        return several::run(&machine, args.guests, &args.command, globals);
    }
    let mut guest = laboratory::open(globals.quiet)?.boot(&machine)?;
    if globals.json() {
        let finished = guest.capture(&args.command, &[])?;
        let mut value = json!({ "schema": "ebbtide.lab-run/1" });
        several::tell(&finished, &guest, &mut value);
        views::print_json(&value)?;
        return Ok(several::status(finished.status));
    }
    let mut closed = None;
    let status = guest.run(&args.command, &[], &mut |stream, bytes| {
        closed = views::pass_on(stream, bytes).err().or(closed.take());
    })?;
    match closed.filter(|error| error.kind() != ErrorKind::BrokenPipe) {
        Some(error) => Err(CliError::Failed(format!("cannot print the command's output: {error}"))),
        None => Ok(several::status(status)),
    }
}

fn shell(args: &GuestArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let (rows, columns) = laboratory::terminal::size().ok_or_else(|| {
        CliError::Usage(
            "a shell needs a terminal on standard input and output; write `ebb lab run -- bash -c '...'` in scripts"
                .to_owned(),
        )
    })?;
    let machine = args.machine(Use::Shell { rows, columns })?;
    let laboratory = laboratory::open(globals.quiet)?;
    let mut guest = laboratory.boot(&machine)?;
    laboratory::terminal::connect(&guest, laboratory.control())?;
    // A QEMU that did not start has said why.
    guest.wait_end(Duration::from_secs(10))?;
    Ok(ExitCode::SUCCESS)
}

fn list(globals: &Globals) -> Result<ExitCode, CliError> {
    let holdings = laboratory::holdings()?;
    views::answer(globals.json(), &holdings.json(), &holdings.to_string())
}

fn clean(args: &CleanArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let Cleaned { removed, left } = places::lab()?.clean(args.all)?;
    let paths: Vec<String> = removed.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let stays = |left: &Leftover| json!({ "path": left.path.to_string_lossy(), "why": left.why });
    let stays: Vec<Value> = left.iter().map(stays).collect();
    let value = json!({ "schema": "ebbtide.lab-clean/1", "removed": paths, "left": stays });
    let text: String = paths.iter().map(|path| format!("removed {path}\n")).collect();
    views::answer(globals.json(), &value, &text)?;
    if paths.is_empty() && left.is_empty() && !globals.json() && !globals.quiet {
        views::say("ebb: nothing to remove");
    }
    for left in &left {
        views::say(&format!("ebb: left alone: {left}"));
    }
    match left.iter().filter(|left| left.ours).count() {
        0 => Ok(ExitCode::SUCCESS),
        n => Err(CliError::Failed(format!(
            "{n} of the files left by ended guests and images could not be removed"
        ))),
    }
}

fn serve(port: &std::path::Path) -> Result<ExitCode, CliError> {
    let failed = |error: std::io::Error| CliError::Failed(format!("{}: {error}", port.shown()));
    let open = || ebbtide_door::kernel::port(port);
    let from = open().map_err(failed)?;
    let to = from.try_clone().map_err(failed)?;
    agent::serve(from, to).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
