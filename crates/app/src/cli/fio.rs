//! `ebb fio`: the jobs of a fio job file.

use super::dialect::Dialect;
use super::jobs::{self, TargetUse};
use super::verify;
use crate::bench::fio;
use crate::cli::globals::Globals;
use crate::error::CliError;
use clap::Args;
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
    /// Jobs without time_based of their own run for the full runtime
    #[arg(long, alias = "time-based", value_name = "0|1", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    time_based: Option<String>,
    /// Of a job with verify: the ledger to create [default: one in the user's state directory]
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
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
    match (from.verified, &args.ledger) {
        (true, ledger) => verify::write(&from.spec, (ledger.as_deref(), false), globals),
        (false, None) => jobs::run(from.spec, Some(&from.global), globals),
        (false, Some(_)) => {
            let what = "--ledger changes nothing: the file has no job with verify; remove it, or write verify=crc32c in the job";
            Err(CliError::Usage(what.to_owned()))
        }
    }
}

impl FioArgs {
    /// Options of jobs that do not have them themselves.
    fn beside(&self) -> Vec<(String, String)> {
        let all = [("runtime", &self.runtime), ("size", &self.size), ("time_based", &self.time_based)];
        let given = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
        given.collect()
    }
}
