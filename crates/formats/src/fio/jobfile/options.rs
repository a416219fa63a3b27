//! From sections of options to jobs.

use super::known::{unknown, without_effect};
use super::lines::{Given, Section};
use super::values::{Amount, at_least_one, choice, one_block_size, one_value, operation, percent, sync};
use super::{JobFile, JobFileError, Place, Surroundings, values};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{Access, IoEngine, Mix, Stop, Workload, cpu_list};

/// What a job runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One file or device, shared by the job's clones.
    Shared(String),
    /// A file for each clone.
    Each(Vec<String>),
}

/// One job of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileJob {
    /// Its section's heading.
    pub name: String,
    /// Where its section begins.
    pub place: Place,
    /// Number of its group, from 0: groups run one after the other, the jobs of one at the same time.
    pub group: u32,
    /// What it runs on.
    pub target: Target,
    /// Bytes of the file (of each, where every clone has one), where the job says how large it is.
    pub file_size: Option<Bytes>,
    /// What its options ask for.
    pub workload: Workload,
    /// Its options as they stand, those of [global] first.
    pub options: Vec<(String, String)>,
    /// Where it differs from fio.
    pub notes: Vec<String>,
}

/// The jobs that `sections` describe.
pub(super) fn jobs(
    sections: &[Section],
    file: &str,
    surroundings: &dyn Surroundings,
) -> Result<JobFile, JobFileError> {
    let mut global: Vec<&Given> = Vec::new();
    let mut jobs: Vec<FileJob> = Vec::new();
    let mut group = 0;
    for section in sections {
        if section.name.eq_ignore_ascii_case("global") {
            global.extend(&section.options);
            continue;
        }
        let given: Vec<&Given> = global.iter().copied().chain(&section.options).collect();
        let draft = Draft::read(&given)?;
        if draft.stonewall && !jobs.is_empty() {
            group += 1;
        }
        let wrong = |what: String| JobFileError { place: section.place.clone(), what };
        let mut job = draft.finish(section, group, &|file| surroundings.length(file)).map_err(wrong)?;
        job.options = as_given(&given);
        jobs.push(job);
    }
    if jobs.is_empty() {
        let place = Place { file: file.to_owned(), line: 1 };
        let what = "there is no job; write a section `[name]` beside [global]".to_owned();
        return Err(JobFileError { place, what });
    }
    Ok(JobFile { global: as_given(&global), jobs })
}

/// Options as they stand; one without a value is a switch that is on.
fn as_given(options: &[&Given]) -> Vec<(String, String)> {
    let value = |given: &Given| given.value.clone().unwrap_or_else(|| "1".to_owned());
    options.iter().map(|given| (given.name.clone(), value(given))).collect()
}

/// Whether the option `name` with `value` may stand in a job.
///
/// # Errors
/// Why not, and what to write instead.
pub fn accept(name: &str, value: &str) -> Result<(), String> {
    let place = Place { file: String::new(), line: 0 };
    Draft::new().option(&Given { place, name: name.to_owned(), value: Some(value.to_owned()) })
}

/// What fio's I/O engine `name` is here, and what to say where it is another one.
///
/// # Errors
/// Which names there are.
pub fn io_engine(name: &str) -> Result<(IoEngine, Option<String>), String> {
    match name {
        "io_uring" => Ok((IoEngine::IoUring, None)),
        "libaio" | "posixaio" => Ok((IoEngine::IoUring, Some(format!("ioengine={name} runs on io_uring")))),
        "psync" => Ok((IoEngine::Psync, None)),
        "sync" | "vsync" | "pvsync" | "pvsync2" => {
            Ok((IoEngine::Psync, Some(format!("ioengine={name} runs on psync"))))
        }
        _ => Err(format!(
            "`{name}` is not one of io_uring, libaio, posixaio, psync, sync, vsync, pvsync, pvsync2"
        )),
    }
}

/// A job while its options are read, each at fio's default.
pub(super) struct Draft {
    pub(super) binary: bool,
    pub(super) name: Option<String>,
    /// What options say outright; what takes several of them together is filled in by [`finish`](Draft::finish).
    pub(super) workload: Workload,
    pub(super) read_percent: u8,
    pub(super) size: Option<Amount>,
    pub(super) io_size: Option<Amount>,
    pub(super) offset: Option<Amount>,
    pub(super) loops: u32,
    pub(super) filename: Option<String>,
    pub(super) directory: Option<String>,
    pub(super) runtime: Option<Nanos>,
    pub(super) time_based: bool,
    pub(super) fsync: u32,
    pub(super) fdatasync: u32,
    /// Limits of each clone.
    pub(super) rate: Option<Bytes>,
    pub(super) rate_iops: Option<u64>,
    pub(super) poisson: bool,
    pub(super) stonewall: bool,
    pub(super) notes: Vec<String>,
}

impl Draft {
    fn new() -> Draft {
        // The stop is a placeholder: `finish` refuses a job that has none.
        let workload = Workload::new("", Access::Sequential, Mix::Read, Stop::Size(Bytes(0)));
        Draft {
            binary: true,
            name: None,
            workload: Workload { direct: false, ioengine: IoEngine::Psync, ..workload },
            read_percent: 50,
            size: None,
            io_size: None,
            offset: None,
            loops: 1,
            filename: None,
            directory: None,
            runtime: None,
            time_based: false,
            fsync: 0,
            fdatasync: 0,
            rate: None,
            rate_iops: None,
            poisson: false,
            stonewall: false,
            notes: Vec::new(),
        }
    }

    fn read(given: &[&Given]) -> Result<Draft, JobFileError> {
        let mut draft = Draft::new();
        // The base of the units counts for the whole section, wherever it stands.
        let base = given.iter().filter(|given| given.name == "kb_base");
        for given in base.chain(given.iter().filter(|given| given.name != "kb_base")) {
            draft.option(given).map_err(|what| JobFileError {
                place: given.place.clone(),
                what: format!("{}: {what}", given.name),
            })?;
        }
        Ok(draft)
    }

    fn option(&mut self, given: &Given) -> Result<(), String> {
        let name = given.name.as_str();
        let workload = &mut self.workload;
        let switch = || values::switch(given.value.as_deref());
        let text = || given.value.as_deref().filter(|value| !value.is_empty()).ok_or("it has no value");
        let binary = self.binary;
        let amount = || values::amount(text()?, binary);
        let number = || values::integer(text()?, true);
        let count = || number().and_then(|n| u32::try_from(n).map_err(|_| format!("{n} is too many")));
        match name {
            "name" => self.name = Some(text()?.to_owned()),
            "rw" | "readwrite" => (workload.access, workload.mix) = operation(text()?)?,
            "bs" | "blocksize" => workload.bs = one_value(text()?, |part| values::bytes(part, binary))?,
            "bsrange" => workload.bs = one_value(text()?, |part| one_block_size(part, binary))?,
            "size" => self.size = Some(amount()?),
            "filesize" => self.size = Some(Amount::Bytes(values::bytes(text()?, binary)?)),
            "io_size" | "io_limit" => self.io_size = Some(amount()?),
            "filename" => self.filename = Some(text()?.to_owned()),
            "directory" => self.directory = Some(text()?.to_owned()),
            "iodepth" => workload.iodepth = at_least_one(count()?)?,
            "numjobs" => workload.numjobs = at_least_one(count()?)?,
            "direct" => workload.direct = switch()?,
            "buffered" => workload.direct = !switch()?,
            "runtime" | "timeout" => self.runtime = Some(values::time(text()?, Nanos::PER_SECOND)?),
            "time_based" => self.time_based = switch()?,
            "ramp_time" => workload.warm_up = values::time(text()?, Nanos::PER_SECOND)?,
            "ioengine" => self.ioengine(text()?)?,
            "sync" => workload.sync = sync(given.value.as_deref())?,
            "fsync" => self.fsync = count()?,
            "fdatasync" => self.fdatasync = count()?,
            "end_fsync" => workload.end_fsync = switch()?,
            "rate" => self.rate = Some(one_value(text()?, |part| values::bytes(part, binary))?),
            "rate_iops" => self.rate_iops = Some(one_value(text()?, |part| values::integer(part, true))?),
            "rate_process" => self.poisson = choice(text()?, &[("linear", false), ("poisson", true)])?,
            "rwmixread" => self.read_percent = percent(number()?)?,
            "rwmixwrite" => self.read_percent = 100 - percent(number()?)?,
            "thinktime" => workload.think_time = values::time(text()?, 1_000)?,
            "stonewall" | "wait_for_previous" => self.stonewall = switch()?,
            "randseed" => {
                number()?;
                self.notes.push("randseed: --randseed of ebb bench decides the seed of all jobs".to_owned());
            }
            "hipri" => workload.engine.hipri = switch()?,
            "sqthread_poll" => workload.engine.sqthread_poll = switch()?,
            "cpus_allowed" => workload.engine.cpus_allowed = cpu_list(text()?)?,
            "nice" => {
                let nice: i32 = text()?.trim().parse().map_err(|_| "write a number from -20 to 19")?;
                if !(-20..=19).contains(&nice) {
                    return Err(format!("{nice} is not from -20 to 19"));
                }
                workload.engine.nice = Some(nice);
            }
            "offset" => self.offset = Some(amount()?),
            "loops" => self.loops = at_least_one(count()?)?,
            "kb_base" => self.binary = choice(text()?, &[("1024", true), ("1000", false)])?,
            "iomem" | "mem" => {
                workload.engine.huge_pages =
                    choice(text()?, &[("malloc", false), ("mmap", false), ("mmaphuge", true)])?;
            }
            // What fio does without them is what happens here.
            "nrfiles" if count()? == 1 => {}
            "startdelay" if count()? == 0 => {}
            "invalidate" if switch()? => {}
            "nrfiles" => return Err("only 1 is done; write a job for each file".to_owned()),
            "startdelay" => {
                return Err("only 0 is done: put the job into a group of its own with stonewall".to_owned());
            }
            "invalidate" => {
                return Err("only 1 is done: caches are always dropped before a buffered job".to_owned());
            }
            _ if without_effect(name) => {}
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    fn ioengine(&mut self, name: &str) -> Result<(), String> {
        let (engine, note) = io_engine(name)?;
        self.workload.ioengine = engine;
        self.notes.extend(note);
        Ok(())
    }
}
