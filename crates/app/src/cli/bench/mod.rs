//! `ebb bench`: a workload with fio's option names, a fio job file, or a profile, once.

mod dialect;
mod fio;
mod jobs;
mod profile;
mod shown;
mod workload;

use self::dialect::Dialect;
use self::fio::JobFileRun;
use self::jobs::{Kept, TargetUse};
use self::profile::Course;
use self::workload::WorkloadArgs;
use super::verify;
use crate::bench::target::{self, Wanted};
use crate::cli::globals::Globals;
use crate::cli::output;
use crate::error::CliError;
use crate::experiment_file::DesignName;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, ValueHint};
use ebbtide_engine::files::Options;
use ebbtide_formats::fio::jobfile::{
    self, FILES_MOST, NotOnFiles, OptionMistake, Service, Verify, size_of_each,
};
use ebbtide_model::shown::Shown;
use ebbtide_model::units::Bytes;
use ebbtide_runner::bench::{Job, Spec};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run a workload, a fio job file or a profile
///
/// TARGET is a file, a block device or a directory, and options with fio's names say what is run on it.
/// A job file is named NAME.fio, or is a file whose first line is [NAME], empty lines and comments aside;
/// --filename names any file as a target.
/// A time without a unit is in seconds (thinktime: microseconds). An underscore may be written as a dash.
///
/// Exit status: 0 done, 1 failed and 130 interrupted (what was measured so far is printed), 2 wrong usage, 3 no operation
/// completed in time. Of a job with verify: as for `ebb verify`.
#[derive(Debug, Args)]
#[command(override_usage = "ebb bench TARGET\n       ebb bench JOBS.fio [DIRECTORY]\n       \
                            ebb bench --profile NAME [TARGET]")]
pub struct BenchArgs {
    #[command(flatten)]
    given: Given,
    #[command(flatten)]
    dialect: Dialect,
    /// File (made if --size is given), block device or directory (for a temporary file), or a job file
    target: Option<PathBuf>,
    /// Of a job file: where files with relative names are [default: the working directory]
    #[arg(value_name = "DIRECTORY")]
    base: Option<PathBuf>,
    /// Profile to run, or a TOML file of your own; `list` or nothing lists them
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = LIST)]
    profile: Option<String>,
    /// Of a job file or a profile: print what would be done, and touch nothing
    #[arg(long, conflicts_with = "ledger")]
    dry_run: bool,
    /// The target, as fio spells it: read or written once, unless a time or size is given
    #[arg(long, value_name = "PATH")]
    filename: Option<PathBuf>,
    /// Directory of --filename; alone it is the target
    #[arg(long, value_name = "PATH")]
    directory: Option<PathBuf>,
    /// The design of an experiment file (TOML) that is the target; FILE alone where it has one
    #[arg(long, value_name = "FILE:DESIGN", value_hint = ValueHint::FilePath, conflicts_with_all = ["filename", "directory"])]
    design: Option<DesignName>,
    /// Write blocks that can be verified, note those acknowledged in a ledger, read all back
    #[arg(long, value_name = "CHECKSUM", num_args = 0..=1, require_equals = true, default_missing_value = "crc32c", hide_default_value = true)]
    verify: Option<String>,
    /// With --verify: the ledger to create [default: one in the state directory]
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// With --verify: a write begins once the ledger on another disk has it
    #[arg(long)]
    durable_ledger: bool,
    /// Of a directory: so many temporary files, of equal parts of --size
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=FILES_MOST))]
    nrfiles: u64,
    /// With --nrfiles: next file: roundrobin, sequential or random [default: roundrobin]
    #[arg(long = "file_service_type", alias = "file-service-type", value_name = "ORDER", value_parser = Service::named)]
    file_service_type: Option<Service>,
    /// Name of the job in the results
    #[arg(long, value_name = "NAME", default_value = "bench")]
    name: String,
    #[command(flatten)]
    conduct: TargetUse,
    #[command(flatten)]
    kept: Kept,
    #[command(flatten)]
    workload: WorkloadArgs,
}

/// The name that lists the profiles.
const LIST: &str = "list";

/// Ids of what the command line gives. It is read before what takes values out.
#[derive(Debug, Default)]
struct Given(Vec<String>);

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let is_given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        Ok(Given(matches.ids().map(clap::Id::as_str).filter(is_given).map(str::to_owned).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Workload,
    JobFile,
    Profile,
    List,
}

impl Form {
    const ALL: [Form; 4] = [Form::Workload, Form::JobFile, Form::Profile, Form::List];

    /// How it is written.
    fn shown(self) -> &'static str {
        match self {
            Form::Workload => "`ebb bench TARGET`",
            Form::JobFile => "`ebb bench JOBS.fio`",
            Form::Profile => "`ebb bench --profile NAME`",
            Form::List => "`ebb bench --profile list`",
        }
    }

    /// Whether the argument `id` says something to it.
    fn takes(self, id: &str) -> bool {
        match self {
            Form::Workload => !["base", "profile", "dry_run"].contains(&id),
            Form::JobFile => {
                let own = ["target", "base", "dry_run", "ledger", "destroy", "seed", "output", "no_save"];
                own.contains(&id) || BESIDE.contains(&id) || Dialect::has(id)
            }
            Form::Profile => {
                let own = ["target", "profile", "dry_run", "size", "runtime", "destroy", "seed"];
                own.contains(&id) || ["output", "no_save"].contains(&id)
            }
            Form::List => id == "profile",
        }
    }

    /// What to do instead of giving it the option of a workload.
    fn instead(self) -> &'static str {
        match self {
            Form::JobFile => "the job file says what to run: write it there",
            Form::Profile => {
                "the profile says what to run; for anything else write a profile of your own (docs/reference/profiles.md)"
            }
            Form::Workload | Form::List => "remove it",
        }
    }
}

/// Options of the jobs of a job file that do not have them themselves.
const BESIDE: [&str; 4] = ["runtime", "size", "filename", "time_based"];

/// Runs `ebb bench`.
///
/// # Errors
/// See the exit statuses in the help.
pub fn run(args: &BenchArgs, globals: &Globals) -> Result<ExitCode, CliError> {
    let globals = &args.dialect.globals(globals);
    let form = args.form();
    args.fits(form)?;
    if form == Form::List || args.dry_run || args.verify.is_some() {
        globals.printed.among("`ebb bench` that runs no benchmark", output::Form::PLAIN)?;
    }
    match (form, &args.target, &args.profile) {
        (Form::List, ..) => profile::list(globals),
        (Form::Profile, _, Some(name)) => args.run_profile(name, globals),
        (Form::JobFile, Some(file), _) => args.run_job_file(file, globals),
        _ => args.run_workload(globals),
    }
}

/// Whether `target` is the value of a switch, which may stand alone and takes it after `=`: `--sync 1`.
fn is_value_of_switch(target: &Path) -> bool {
    ["0", "1"].iter().any(|value| target.as_os_str() == *value) && !target.exists()
}

impl BenchArgs {
    fn form(&self) -> Form {
        match (&self.profile, &self.target) {
            (Some(name), _) if name == LIST => Form::List,
            (Some(_), _) => Form::Profile,
            (None, Some(target)) if crate::bench::fio::is_job_file(target) => Form::JobFile,
            (None, _) => Form::Workload,
        }
    }

    /// Refuses what `form` does not take, and says which does.
    fn fits(&self, form: Form) -> Result<(), CliError> {
        if let Some(value) =
            self.base.as_deref().filter(|base| form == Form::Workload && is_value_of_switch(base))
        {
            let value = value.shown();
            return Err(CliError::Usage(format!(
                "a second target, {value}; write the value of an option such as --sync after `=`, for example --sync={value}"
            )));
        }
        let command = Self::augment_args(Command::default());
        let is_given = |id: &str| self.given.0.iter().any(|given| given == id);
        let is_refused = |arg: &&Arg| is_given(arg.get_id().as_str()) && !form.takes(arg.get_id().as_str());
        let Some(arg) = command.get_arguments().find(is_refused) else { return Ok(()) };
        let id = arg.get_id().as_str();
        let others = Form::ALL.into_iter().filter(|other| other.takes(id)).map(Form::shown);
        let others = others.collect::<Vec<_>>().join(" and ");
        let value = if id == "base" { &self.base } else { &self.target };
        let (named, instead) = match arg.get_long() {
            Some(long) => (format!("--{long}"), form.instead()),
            None => {
                (format!("the argument `{}`", value.as_deref().unwrap_or(Path::new("")).shown()), "remove it")
            }
        };
        Err(CliError::Usage(format!(
            "{} does not take {named}: {instead}; it belongs to {others}",
            form.shown()
        )))
    }

    fn run_workload(&self, globals: &Globals) -> Result<ExitCode, CliError> {
        if self.verify.is_none() && (self.ledger.is_some() || self.durable_ledger) {
            let option = if self.ledger.is_some() { "--ledger" } else { "--durable-ledger" };
            return Err(CliError::Usage(format!(
                "{option} changes nothing without --verify; give both, or neither"
            )));
        }
        let mut spec = self.spec(globals)?;
        jobs::cpus_exist(&spec)?;
        let mut note = |note: Option<String>| {
            spec.jobs.iter_mut().for_each(|job| job.notes.extend(note.clone()));
        };
        note(self.dialect.note());
        let wrong = |error: OptionMistake| CliError::Usage(format!("--verify: {error}"));
        let method = self.verify.as_deref().unwrap_or("none");
        if let Verify::Yes(what) = jobfile::verify(method).map_err(wrong)? {
            note(what);
            return verify::write(&spec, (self.ledger.as_deref(), self.durable_ledger), globals);
        }
        jobs::run(spec, None, &self.kept, globals)
    }

    fn run_job_file(&self, file: &Path, globals: &Globals) -> Result<ExitCode, CliError> {
        let written = self.workload.written().iter().filter(|(name, _)| BESIDE.contains(name));
        let mut beside: Vec<_> = written.map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        if let Some(path) = &self.filename {
            let Some(name) = path.to_str() else {
                let what = format!("--filename {}: a job file names files in UTF-8 only", path.shown());
                return Err(CliError::Usage(what));
            };
            beside.push(("filename".to_owned(), name.to_owned()));
        }
        let asked = JobFileRun {
            file,
            directory: self.base.as_deref(),
            beside,
            ledger: self.ledger.as_deref(),
            dry_run: self.dry_run,
            conduct: &self.conduct,
            kept: &self.kept,
        };
        fio::run(&asked, globals)
    }

    fn run_profile(&self, name: &str, globals: &Globals) -> Result<ExitCode, CliError> {
        let (size, runtime) = (self.workload.bytes()?, self.workload.runtime());
        let seed = if self.dry_run { self.conduct.given_seed().unwrap_or(0) } else { self.conduct.seed() };
        let course = Course { name, size, runtime, seed, destroy: self.conduct.destroy };
        match &self.target {
            _ if self.dry_run => profile::explain(&course, globals),
            Some(path) => profile::run(&course, path, &self.kept, globals),
            None => {
                profile::exists(name)?;
                Err(CliError::Usage(format!(
                    "--profile {}: name a file, a device or a directory behind it, or give --dry-run to see what it would do",
                    Path::new(name).shown()
                )))
            }
        }
    }

    fn spec(&self, globals: &Globals) -> Result<Spec, CliError> {
        self.one_target()?;
        let asked = self.as_in_fio()?;
        let workload = asked.workload(&self.name)?;
        let options = asked.given(&workload);
        let (name, notes) = (self.name.clone(), asked.notes());
        let job = Job { name, group: 0, design: 0, workload: workload.clone(), options, notes };
        let (destroy, seed) = (self.conduct.destroy, self.conduct.seed());
        if let Some(design) = &self.design {
            return Ok(Spec {
                experiment: target::design(design, &workload, &super::catalog::load(globals)?)?,
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
        let path = if self.design.is_some() { None } else { self.path().ok() };
        let length = path.and_then(|path| target::length(&path));
        let workload = self.workload.of(length)?;
        Ok(match (length, &self.filename) {
            (Some(length), Some(_)) => workload.once_over(length),
            _ => workload,
        })
    }

    /// Refuses a target beside what takes its place, and what is said of several files where there are none.
    fn one_target(&self) -> Result<(), CliError> {
        let others = [
            ("--filename", self.filename.is_some()),
            ("--directory", self.directory.is_some()),
            ("--design", self.design.is_some()),
        ];
        let other = others.into_iter().find(|(_, given)| *given).map(|(name, _)| name);
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
        if self.design.is_some() && self.nrfiles > 1 {
            return Err(CliError::Usage(format!(
                "--nrfiles {} changes nothing: the design says what it is made of; name a directory instead of --design, or remove --nrfiles",
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
                let text = "no target: name a file, a device or a directory, or give --design FILE:DESIGN";
                CliError::Usage(text.to_owned())
            }),
        }
    }
}
