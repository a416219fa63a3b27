//! `ebb bench`: one workload on a file, a device, a directory or a design, with fio's option names.

use super::dialect::Dialect;
use super::jobs::{self, TargetUse};
use super::verify;
use super::workload::WorkloadArgs;
use crate::bench::target::{self, Wanted};
use crate::cli::globals::Globals;
use crate::error::CliError;
use clap::Args;
use ebbtide_engine::files::Options;
use ebbtide_formats::fio::jobfile::{
    self, FILES_MOST, NotOnFiles, OptionMistake, Service, Verify, size_of_each,
};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Bytes;
use ebbtide_runner::bench::{Job, Spec};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run one workload on a file, device, directory or design
///
/// Options have fio's names; an underscore in a name may be written as a dash. A time without a unit is in seconds
/// (thinktime: microseconds), as in fio.
///
/// Exit status: 0 done, 1 failed and 130 interrupted (what was measured so far is printed), 2 wrong usage, 3 no operation
/// completed in time.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    dialect: Dialect,
    /// File (created if --size is given), block device, or directory (for a temporary file)
    target: Option<PathBuf>,
    /// The target, as fio spells it; what is there is then read or written once, unless a time or a size is given
    #[arg(long, value_name = "PATH")]
    filename: Option<PathBuf>,
    /// Directory of --filename; alone it is the target
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    /// Experiment file (TOML) with the design
    #[arg(long, value_name = "FILE", requires = "design", conflicts_with_all = ["filename", "directory"])]
    file: Option<PathBuf>,
    /// Name of the design in the experiment file
    #[arg(long, value_name = "NAME", requires = "file")]
    design: Option<String>,
    /// Write blocks that can be verified later, keep a ledger of acknowledged writes, and read everything back; fio's checksums are
    /// taken for CRC-32C
    #[arg(long, value_name = "CHECKSUM", num_args = 0..=1, require_equals = true, default_missing_value = "crc32c", hide_default_value = true)]
    verify: Option<String>,
    /// With --verify: the ledger to create [default: one in the user's state directory]
    #[arg(long, value_name = "FILE", requires = "verify")]
    ledger: Option<PathBuf>,
    /// With --verify: each write waits until the ledger has it on disk that it begins, so that what may be there is known after a power
    /// cut of this machine too; the ledger must be on another disk than the target
    #[arg(long, requires = "verify")]
    durable_ledger: bool,
    /// Of a directory: so many temporary files instead of one, of equal parts of --size
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=FILES_MOST))]
    nrfiles: u64,
    /// With --nrfiles: which file the next operation goes to: roundrobin (to each in turn), sequential (the next when one is done),
    /// random (any) [default: roundrobin]
    #[arg(long = "file_service_type", alias = "file-service-type", value_name = "ORDER", value_parser = Service::named)]
    file_service_type: Option<Service>,
    /// Name of the job in the results
    #[arg(long, value_name = "NAME", default_value = "bench")]
    name: String,
    #[command(flatten)]
    conduct: TargetUse,
    #[command(flatten)]
    workload: WorkloadArgs,
}

/// Runs `ebb bench`.
///
/// # Errors
/// See the exit statuses in the help.
pub fn run(args: &BenchArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let globals = &args.dialect.globals(globals);
    let mut spec = args.spec(globals)?;
    jobs::cpus_exist(&spec)?;
    let mut note = |note: Option<String>| {
        spec.jobs.iter_mut().for_each(|job| job.notes.extend(note.clone()));
    };
    note(args.dialect.note());
    let wrong = |error: OptionMistake| CliError::Usage(format!("--verify: {error}"));
    let method = args.verify.as_deref().unwrap_or("none");
    if let Verify::Yes(what) = jobfile::verify(method).map_err(wrong)? {
        note(what);
        return verify::write(&spec, (args.ledger.as_deref(), args.durable_ledger), globals);
    }
    jobs::run(spec, None, globals)
}

/// Whether `target` is the value of a switch, which may stand alone and takes it after `=`: `--sync 1`.
fn is_value_of_switch(target: &Path) -> bool {
    ["0", "1"].iter().any(|value| target.as_os_str() == *value) && !target.exists()
}

impl BenchArgs {
    fn spec(&self, globals: &Globals) -> Result<Spec, CliError> {
        self.one_target()?;
        let asked = self.as_in_fio()?;
        let workload = asked.workload(&self.name)?;
        let options = asked.given(&workload);
        let (name, notes) = (self.name.clone(), asked.notes());
        let job = Job { name, group: 0, design: 0, workload: workload.clone(), options, notes };
        let (destroy, seed) = (self.conduct.destroy, self.conduct.seed());
        if let (Some(file), Some(design)) = (&self.file, &self.design) {
            return Ok(Spec {
                experiment: target::design(file, design, &workload, &super::catalog::load(globals)?)?,
                jobs: vec![job],
                ladder: true,
                options: Options { seed, destroy: destroy && workload.writes(), ..Options::default() },
            });
        }
        let path = self.path()?;
        let wanted = Wanted {
            size: asked.size(),
            offset: workload.details.last_offset(workload.numjobs),
            reads: workload.reads(),
            writes: workload.writes(),
            destroy,
            words: target::Words::COMMAND,
        };
        let there = || target::length(&path).map(|own| Bytes(own.0.saturating_sub(wanted.offset.0)));
        if let Some(part) = wanted.size.or_else(there).filter(|part| part.0 > 0 && workload.bs > *part) {
            return Err(CliError::Usage(format!(
                "--bs {} is larger than the used part of {}, {part}; give a smaller --bs",
                workload.bs,
                path.shown()
            )));
        }
        if self.nrfiles > 1 {
            return self.on_files(&path, wanted, job);
        }
        jobs::on_path(&path, wanted, vec![job], seed)
    }

    /// The workload as fio has it: shares are of what is there; what is named as in fio and has neither time nor size is read or
    /// written once.
    fn as_in_fio(&self) -> Result<WorkloadArgs, CliError> {
        let path = if self.file.is_some() { None } else { self.path().ok() };
        let length = path.and_then(|path| target::length(&path));
        let workload = self.workload.of(length)?;
        Ok(match (length, &self.filename) {
            (Some(length), Some(_)) => workload.once_over(length),
            _ => workload,
        })
    }

    /// Refuses a target beside what takes its place, and what is said of several files where there are none.
    fn one_target(&self) -> Result<(), CliError> {
        let others =
            [("--filename", &self.filename), ("--directory", &self.directory), ("--file", &self.file)];
        let other = others.into_iter().find(|(_, path)| path.is_some()).map(|(name, _)| name);
        if let (Some(target), Some(other)) = (&self.target, other) {
            let value = target.shown();
            return Err(CliError::Usage(if is_value_of_switch(target) {
                format!(
                    "{other} and the target {value} exclude each other; write the value of an option such as --sync after `=`, for \
                     example --sync={value}, or ./{value} for a file of that name, without {other}"
                )
            } else {
                format!("{other} and the target {value} exclude each other; keep one of them")
            }));
        }
        if self.file.is_some() && self.nrfiles > 1 {
            return Err(CliError::Usage(format!(
                "--nrfiles {} changes nothing: the design says what it is made of; name a directory instead of --file, or remove --nrfiles",
                self.nrfiles
            )));
        }
        if self.file_service_type.is_some() && self.nrfiles == 1 {
            return Err(CliError::Usage(
                "--file_service_type changes nothing: there is one file; write for example --nrfiles=8, or remove --file_service_type"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// The job on several files in a directory.
    fn on_files(&self, directory: &Path, wanted: Wanted, mut job: Job) -> Result<Spec, CliError> {
        let wrong = |NotOnFiles { why, instead }: NotOnFiles| {
            CliError::Usage(format!("--nrfiles {} with {why}; {instead}", self.nrfiles))
        };
        if !directory.is_dir() {
            return Err(CliError::Usage(format!(
                "--nrfiles {}: {} is no directory; name one, in which the files are made, or leave out --nrfiles",
                self.nrfiles,
                directory.shown()
            )));
        }
        if wanted.offset > Bytes(0) {
            return Err(CliError::Usage(
                "--nrfiles and --offset: the files are used whole; leave one out".to_owned(),
            ));
        }
        let in_turn = self.file_service_type.unwrap_or_default().in_turn(&job.workload).map_err(wrong)?;
        let each = size_of_each(wanted.size.unwrap_or(target::SIZE_DEFAULT), self.nrfiles, job.workload.bs);
        let each = each.map_err(wrong)?;
        let size = Bytes(each.0 * self.nrfiles);
        job.workload.span = job.workload.span.map(|span| Bytes(span.0.min(size.0)));
        job.notes.extend(in_turn.note.map(str::to_owned));
        Ok(target::files(directory, (self.nrfiles, each, in_turn.chunk), job, wanted, self.conduct.seed()))
    }

    /// What it is pointed at.
    fn path(&self) -> Result<PathBuf, CliError> {
        let directory = self.directory.as_deref().unwrap_or(Path::new(""));
        match (&self.target, &self.filename) {
            (Some(target), _) if is_value_of_switch(target) => {
                let value = target.shown();
                Err(CliError::Usage(format!(
                    "the target is {value}, which is not there; write the value of an option such as --sync after `=`, for example \
                     --sync={value}, or ./{value} for a new file of that name"
                )))
            }
            (Some(target), _) => Ok(target.clone()),
            (None, Some(file)) => Ok(directory.join(file)),
            (None, None) => self.directory.clone().ok_or_else(|| {
                let text =
                    "no target: name a file, a device or a directory, or give --file FILE --design NAME";
                CliError::Usage(text.to_owned())
            }),
        }
    }
}
