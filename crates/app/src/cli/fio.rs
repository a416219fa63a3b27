//! `ebb fio`: the jobs of a fio job file.

use super::dialect::Dialect;
use super::jobs::{self, TargetUse};
use super::verify;
use crate::bench::fio::{self, FromFile};
use crate::cli::globals::Globals;
use crate::error::CliError;
use crate::views;
use clap::Args;
use ebbtide_model::experiment::Volume;
use ebbtide_model::shown::one_line;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run the jobs of a fio job file
///
/// Existing files are written only with --destroy. docs/bench.md lists fio's options that are supported.
///
/// Exit status: as for `ebb bench`; of a job with verify as for `ebb verify`.
#[derive(Debug, Args)]
pub struct FioArgs {
    #[command(flatten)]
    dialect: Dialect,
    /// The job file
    #[arg(value_name = "JOBFILE")]
    file: PathBuf,
    /// Where files with relative names are [default: the working directory]
    directory: Option<PathBuf>,
    /// Measured time of jobs that set no runtime themselves, as in fio
    #[arg(long, value_name = "TIME", visible_alias = "timeout")]
    runtime: Option<String>,
    /// Bytes that are used by the jobs that say none themselves, as in fio
    #[arg(long, value_name = "SIZE")]
    size: Option<String>,
    /// The file or device of the jobs that name none themselves, as in fio
    #[arg(long, value_name = "PATH")]
    filename: Option<String>,
    /// Jobs without time_based of their own run for the full runtime
    #[arg(long, alias = "time-based", value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    time_based: Option<String>,
    /// Of a job with verify: the ledger to create [default: one in the user's state directory]
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Print what each job would do and on what, and touch nothing
    #[arg(long, conflicts_with = "ledger")]
    dry_run: bool,
    #[command(flatten)]
    conduct: TargetUse,
}

/// Runs `ebb fio`.
///
/// # Errors
/// See the exit statuses in the help.
pub fn run(args: &FioArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let TargetUse { destroy, .. } = args.conduct;
    let from =
        fio::spec(&args.file, args.directory.as_deref(), &args.beside(), destroy, args.conduct.seed())?;
    jobs::cpus_exist(&from.spec)?;
    let globals = &args.dialect.globals(globals);
    if args.dry_run {
        return dry_run(&from, globals);
    }
    match (from.verified, &args.ledger) {
        (true, ledger) => verify::write(&from.spec, (ledger.as_deref(), false), globals),
        (false, None) => jobs::run(from.spec, Some(&from.global), globals),
        (false, Some(_)) => {
            let what = "--ledger changes nothing: the file has no job with verify; remove it, or write verify=crc32c in the job";
            Err(CliError::Usage(what.to_owned()))
        }
    }
}

/// What each job would do, and on what.
fn dry_run(from: &FromFile, globals: &Globals) -> Result<ExitCode, CliError> {
    let spec = &from.spec;
    let is_in = |list: Option<&Vec<usize>>, index: &usize| list.is_some_and(|list| list.contains(index));
    let is_new = |index: &usize| spec.options.named.iter().any(|(named, _)| named == index);
    let (mut text, mut jobs) = (String::new(), Vec::new());
    for (index, job) in spec.jobs.iter().enumerate() {
        let layout = &spec.experiment.designs[job.design].layout;
        let mut targets = Vec::new();
        let what = job.workload.in_words();
        let verified = if from.verified { ", then reads back what it wrote" } else { "" };
        if index > 0 && spec.jobs[index - 1].group != job.group {
            text += "when they are done:\n";
        }
        text += &format!("{}: {what}{verified}\n", one_line(&job.name));
        for volume in layout.volumes() {
            let Volume { name, size, .. } = &spec.experiment.volumes[volume];
            let (new, written) = (is_new(&volume), is_in(spec.options.written.as_ref(), &volume));
            let fate = match (new, written) {
                (true, _) => "is made",
                (false, true) => "is overwritten",
                (false, false) => "is read",
            };
            let of = size.map_or_else(String::new, |size| format!(", {}", size.short()));
            text += &format!("  {name}{of}: {fate}\n");
            targets.push(json!({ "path": name, "size": size, "new": new, "written": written }));
        }
        job.notes.iter().for_each(|note| text += &format!("  note: {note}\n"));
        jobs.push(json!({
            "name": job.name, "group": job.group, "does": what, "options": job.options.iter().cloned().collect::<BTreeMap<_, _>>(),
            "targets": targets, "notes": job.notes,
        }));
    }
    let value = json!({ "schema": "ebbtide.fio-dry-run/1", "verified": from.verified, "jobs": jobs });
    views::answer(globals.json, &value, &text)
}

impl FioArgs {
    /// Options of jobs that do not have them themselves.
    fn beside(&self) -> Vec<(String, String)> {
        let all = [
            ("runtime", &self.runtime),
            ("size", &self.size),
            ("filename", &self.filename),
            ("time_based", &self.time_based),
        ];
        let given = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
        given.collect()
    }
}
