//! The options of a workload, called as in fio.

use crate::error::CliError;
use clap::{Args, ValueEnum};
use ebbtide_formats::fio;
use ebbtide_formats::fio::jobfile::io_engine;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{
    Access, Arrival, Details, EngineOptions, IoEngine, Mix, Stop, Workload, cpu_list,
};

/// Measured time when neither --runtime nor --size says when to end.
const RUNTIME_DEFAULT: Nanos = Nanos::from_secs(10);
/// Smallest unit of O_DIRECT on any disk.
const SECTOR: u64 = 512;

/// fio's values of `rw`, and bonnie++'s rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rw {
    /// Sequential reads
    Read,
    /// Sequential writes
    Write,
    /// Random reads
    Randread,
    /// Random writes
    Randwrite,
    /// Sequential reads and writes, mixed
    #[value(name = "rw", alias = "readwrite")]
    Mixed,
    /// Random reads and writes, mixed
    Randrw,
    /// Reads each block and writes it back in place
    Rewrite,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Process {
    /// Equal distances
    Linear,
    /// Exponential distances
    Poisson,
}

/// The engine that was asked for.
#[derive(Debug, Clone)]
struct Engine {
    /// As it was written.
    asked: String,
    engine: IoEngine,
    /// What is said where it is another one here.
    note: Option<String>,
}

fn engine(text: &str) -> Result<Engine, String> {
    let asked = text.replace('-', "_");
    io_engine(&asked).map(|(engine, note)| Engine { asked, engine, note })
}

/// What is asked of the target.
#[derive(Debug, Args)]
#[command(next_help_heading = "Workload")]
pub(super) struct WorkloadArgs {
    /// What is done in which order
    #[arg(long, visible_alias = "readwrite", value_enum, default_value = "read", value_name = "RW")]
    rw: Rw,
    /// rw and randrw: share of reads in percent
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100), value_name = "PERCENT")]
    rwmixread: u8,
    /// rw and randrw: share of writes in percent, as fio has it
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=100), conflicts_with = "rwmixread", hide = true)]
    rwmixwrite: Option<u8>,
    /// Bytes of one operation
    #[arg(long, alias = "blocksize", default_value = "4k", value_name = "SIZE")]
    bs: Bytes,
    /// Operations in flight per job
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096), value_name = "N")]
    iodepth: u32,
    /// Jobs, each a thread
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256), value_name = "N")]
    numjobs: u32,
    /// Measured time [default: 10s, or until --size is done]
    #[arg(long, alias = "timeout", value_parser = seconds, value_name = "TIME")]
    pub(super) runtime: Option<Nanos>,
    /// Bytes of the target to use from its start; without --runtime also how much is read or written, over all jobs
    #[arg(long, value_name = "SIZE")]
    pub(super) size: Option<Bytes>,
    /// Where the used part of the target begins
    #[arg(long, default_value = "0", value_name = "SIZE")]
    offset: Bytes,
    /// Time before the measurement that is run but not counted
    #[arg(long = "ramp_time", alias = "ramp-time", value_parser = seconds, default_value = "0", value_name = "TIME")]
    ramp_time: Nanos,
    /// O_DIRECT (1), or through the page cache (0) [default: 1]
    #[arg(long, action = clap::ArgAction::Set, value_parser = switch, value_name = "0|1")]
    direct: Option<bool>,
    /// The opposite of --direct, as fio has it
    #[arg(long, action = clap::ArgAction::Set, value_parser = switch, num_args = 0..=1, require_equals = true,
          default_missing_value = "1", hide = true)]
    buffered: Option<bool>,
    /// O_SYNC on every write
    #[arg(long, action = clap::ArgAction::Set, value_parser = switch, num_args = 0..=1, require_equals = true,
          default_missing_value = "1", default_value = "0", value_name = "0|1")]
    sync: bool,
    /// Every job calls fsync after every N writes (0: never), as one of its operations in flight
    #[arg(long, value_name = "N")]
    fsync: Option<u32>,
    /// The same with fdatasync
    #[arg(long, value_name = "N")]
    fdatasync: Option<u32>,
    /// One fsync at the end, counted in the elapsed time
    #[arg(long = "end_fsync", alias = "end-fsync", action = clap::ArgAction::Set, value_parser = switch, num_args = 0..=1,
          require_equals = true, default_missing_value = "1", default_value = "0", value_name = "0|1")]
    end_fsync: bool,
    /// At most this many bytes per second, over all jobs
    #[arg(long, value_name = "SIZE")]
    rate: Option<Bytes>,
    /// Open loop: this many operations per second arrive over all jobs, whether or not earlier ones have completed;
    /// latency counts from the intended start
    #[arg(long = "rate_iops", alias = "rate-iops", value_name = "N")]
    rate_iops: Option<f64>,
    /// With --rate_iops: how they arrive
    #[arg(
        long = "rate_process",
        alias = "rate-process",
        value_enum,
        default_value = "linear",
        value_name = "PROCESS"
    )]
    rate_process: Process,
    /// Pause of each job between an operation's completion and its next one; it has one in flight then
    #[arg(long, aliases = ["think_time", "think-time"], value_parser = microseconds, default_value = "0",
          value_name = "TIME")]
    thinktime: Nanos,
    /// How the kernel is asked: io_uring (a ring per job), psync (pread and pwrite, one operation in flight per job), or
    /// an engine of fio's that runs as one of them (libaio, posixaio; sync, vsync, pvsync, pvsync2)
    #[arg(long, value_parser = engine, default_value = "io_uring", value_name = "ENGINE")]
    ioengine: Engine,
    /// CPUs for the jobs, taken in turn, for example 0-3,6
    #[arg(long = "cpus_allowed", alias = "cpus-allowed", value_name = "CPUS")]
    cpus_allowed: Option<String>,
    /// Nice value of the jobs
    #[arg(long, allow_hyphen_values = true, value_parser = clap::value_parser!(i32).range(-20..=19), value_name = "N")]
    nice: Option<i32>,
    /// Polled completions; needs a driver with polling queues and O_DIRECT
    #[arg(long, action = clap::ArgAction::Set, value_parser = switch, num_args = 0..=1, require_equals = true,
          default_missing_value = "1", default_value = "0", value_name = "0|1")]
    hipri: bool,
    /// A kernel thread submits
    #[arg(long = "sqthread_poll", alias = "sqthread-poll", action = clap::ArgAction::Set, value_parser = switch,
          num_args = 0..=1, require_equals = true, default_missing_value = "1", default_value = "0", value_name = "0|1")]
    sqthread_poll: bool,
    /// Buffers in huge pages where the host has them
    #[arg(long = "huge_pages", alias = "huge-pages")]
    huge_pages: bool,
    /// Accepted as fio has it: a --runtime is always kept in full
    #[arg(long = "time_based", alias = "time-based", hide = true)]
    time_based: bool,
}

/// fio's 0 and 1, and words for them.
fn switch(text: &str) -> Result<bool, String> {
    match text {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("write 0 or 1".to_owned()),
    }
}

/// A time whose bare number is `unit`.
fn time(text: &str, unit: &str) -> Result<Nanos, String> {
    let bare = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let whole = if bare { format!("{text}{unit}") } else { text.to_owned() };
    whole.parse::<Nanos>().map_err(|error| error.to_string())
}

fn seconds(text: &str) -> Result<Nanos, String> {
    time(text, "s")
}

fn microseconds(text: &str) -> Result<Nanos, String> {
    time(text, "us")
}

impl WorkloadArgs {
    /// The workload that they ask for.
    pub(super) fn workload(&self, name: &str) -> Result<Workload, CliError> {
        let usage = |what: String| Err(CliError::Usage(what));
        if self.bs.0 == 0 {
            return usage("--bs is 0; write for example --bs 4k".to_owned());
        }
        if self.time_based && self.runtime.is_none() {
            return usage(
                "--time_based changes nothing without --runtime; write for example --runtime 10s".to_owned(),
            );
        }
        let direct = match (self.direct, self.buffered) {
            (Some(direct), Some(buffered)) if direct == buffered => {
                return usage("--direct and --buffered are opposites; give one of them".to_owned());
            }
            (direct, buffered) => direct.or(buffered.map(|buffered| !buffered)).unwrap_or(true),
        };
        if direct && !self.bs.0.is_multiple_of(SECTOR) {
            return usage(format!(
                "--bs {} is no multiple of 512 bytes, which O_DIRECT needs; write --direct 0, or another --bs",
                self.bs
            ));
        }
        if let Some(rate) = self.rate_iops.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
            return usage(format!("--rate_iops {rate} is no positive number of operations per second"));
        }
        if self.rate == Some(Bytes(0)) {
            return usage("--rate is 0; write for example --rate 10MB".to_owned());
        }
        if direct && !self.offset.0.is_multiple_of(SECTOR) {
            return usage(format!(
                "--offset {} is no multiple of 512 bytes, which O_DIRECT needs; write --direct 0, or another --offset",
                self.offset
            ));
        }
        let stop = match (self.runtime, self.size) {
            (Some(Nanos(0)), _) => {
                return usage("--runtime is 0; write for example --runtime 10s".to_owned());
            }
            (Some(runtime), _) => Stop::Runtime(runtime),
            (None, Some(size)) => Stop::Size(size),
            (None, None) => Stop::Runtime(RUNTIME_DEFAULT),
        };
        let read_percent = self.rwmixwrite.map_or(self.rwmixread, |writes| 100 - writes);
        let mixed = Mix::Mixed { read_percent };
        let (access, mix) = match self.rw {
            Rw::Read => (Access::Sequential, Mix::Read),
            Rw::Write => (Access::Sequential, Mix::Write),
            Rw::Randread => (Access::Random, Mix::Read),
            Rw::Randwrite => (Access::Random, Mix::Write),
            Rw::Mixed => (Access::Sequential, mixed),
            Rw::Randrw => (Access::Random, mixed),
            Rw::Rewrite => (Access::Sequential, Mix::Rewrite),
        };
        let arrival = match (self.rate_iops, self.rate_process) {
            (None, _) => Arrival::Closed,
            (Some(iops), Process::Linear) => Arrival::Fixed { iops },
            (Some(iops), Process::Poisson) => Arrival::Poisson { iops },
        };
        let cpus_allowed = match &self.cpus_allowed {
            None => Vec::new(),
            Some(text) => cpu_list(text).map_err(|what| CliError::Usage(format!("--cpus_allowed {what}")))?,
        };
        let workload = Workload {
            name: name.to_owned(),
            access,
            mix,
            bs: self.bs,
            iodepth: self.iodepth,
            numjobs: self.numjobs,
            stop,
            warm_up: self.ramp_time,
            span: self.size,
            arrival,
            rate: self.rate,
            think_time: self.thinktime,
            direct,
            sync: self.sync,
            end_fsync: self.end_fsync,
            ioengine: self.ioengine.engine,
            engine: EngineOptions {
                cpus_allowed,
                nice: self.nice,
                huge_pages: self.huge_pages,
                hipri: self.hipri,
                sqthread_poll: self.sqthread_poll,
            },
            details: Details {
                offset: self.offset,
                fsync_every: self.fsync.filter(|n| *n > 0),
                fdatasync_every: self.fdatasync.filter(|n| *n > 0),
                ..Details::default()
            },
        };
        if let Some((option, instead)) = workload.without_effect() {
            return usage(format!("--{option} changes nothing: {instead}"));
        }
        Ok(workload)
    }

    /// The options that describe `workload`, as fio's JSON lists them.
    pub(super) fn given(&self, workload: &Workload) -> Vec<(String, String)> {
        let mut options = fio::options(workload);
        for (_, value) in options.iter_mut().filter(|(name, _)| name == "ioengine") {
            value.clone_from(&self.ioengine.asked);
        }
        options
    }

    /// Where the workload is not what its options say.
    pub(super) fn notes(&self) -> Vec<String> {
        self.ioengine.note.iter().cloned().collect()
    }
}
