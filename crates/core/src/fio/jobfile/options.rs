//! From sections of options to jobs.

use super::lines::{Given, Section};
use super::{JobFileError, values};
use crate::units::{Bytes, Nanos};
use crate::workload::{
    Access, Arrival, EngineOptions, Fine, IoEngine, Mix, Regions, Stop, Workload, cpu_list,
};

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
    /// Its name.
    pub name: String,
    /// Number of its group, from 0: groups run one after the other, the jobs of one at the same time.
    pub group: u32,
    /// What it runs on.
    pub target: Target,
    /// Bytes of the file (of each, where every clone has one), where the job says how large it is.
    pub file_size: Option<Bytes>,
    /// What it does.
    pub workload: Workload,
    /// Its options as they stand, those of [global] first.
    pub options: Vec<(String, String)>,
    /// Where it differs from fio.
    pub notes: Vec<String>,
}

/// Options that change nothing here, with the reason.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("group_reporting", "the clones of a job are always reported together"),
    ("new_group", "every job is reported on its own"),
    ("thread", "jobs are always threads"),
    ("description", "for people"),
    ("randrepeat", "the seed decides"),
    ("random_generator", "there is one"),
    ("norandommap", "random offsets may always repeat"),
    ("refill_buffers", "written data never repeats and never compresses"),
    ("scramble_buffers", "written data never repeats and never compresses"),
    ("registerfiles", "files are registered with the ring where the kernel can"),
    ("fixedbufs", "buffers are registered with the ring where the kernel can"),
    ("iodepth_batch", "batches adapt to the load"),
    ("iodepth_batch_submit", "batches adapt to the load"),
    ("iodepth_batch_complete", "batches adapt to the load"),
    ("iodepth_batch_complete_min", "batches adapt to the load"),
    ("iodepth_batch_complete_max", "batches adapt to the load"),
    ("clat_percentiles", "percentiles are always there"),
    ("lat_percentiles", "percentiles are always there"),
    ("gtod_reduce", "every operation is timed all the same"),
    ("unit_base", "every figure has its unit"),
    ("fallocate", "files are allocated in full where the file system can"),
    ("create_on_open", "files are made before the first job"),
    ("overwrite", "files are made in full before the first job"),
    ("eta", "for the terminal"),
    ("unified_rw_reporting", "reads and writes are reported apart"),
];

/// Every option that is honoured, for suggestions.
const HONOURED: &[&str] = &[
    "name",
    "rw",
    "readwrite",
    "bs",
    "blocksize",
    "bsrange",
    "size",
    "filesize",
    "io_size",
    "io_limit",
    "filename",
    "directory",
    "iodepth",
    "numjobs",
    "direct",
    "buffered",
    "runtime",
    "timeout",
    "time_based",
    "ramp_time",
    "ioengine",
    "sync",
    "fsync",
    "fdatasync",
    "end_fsync",
    "rate",
    "rate_iops",
    "rate_process",
    "rwmixread",
    "rwmixwrite",
    "thinktime",
    "stonewall",
    "wait_for_previous",
    "randseed",
    "hipri",
    "sqthread_poll",
    "cpus_allowed",
    "nice",
    "offset",
    "kb_base",
    "iomem",
    "mem",
    "nrfiles",
    "loops",
    "startdelay",
    "invalidate",
];

/// The jobs that `sections` describe.
pub(super) fn jobs(sections: &[Section]) -> Result<Vec<FileJob>, JobFileError> {
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
        let mut job = draft.finish(&section.name, group).map_err(wrong)?;
        job.options = given
            .iter()
            .map(|given| (given.name.clone(), given.value.clone().unwrap_or_else(|| "1".to_owned())))
            .collect();
        jobs.push(job);
    }
    if jobs.is_empty() {
        let place = super::Place {
            file: sections.first().map_or_else(String::new, |section| section.place.file.clone()),
            line: 1,
        };
        let what = "there is no job; write a section `[name]` beside [global]".to_owned();
        return Err(JobFileError { place, what });
    }
    Ok(jobs)
}

/// A job while its options are read, each at fio's default.
struct Draft {
    binary: bool,
    name: Option<String>,
    access: Access,
    mix: Mix,
    read_percent: u8,
    bs: Bytes,
    size: Option<Bytes>,
    io_size: Option<Bytes>,
    whole: bool,
    filename: Option<String>,
    directory: Option<String>,
    iodepth: u32,
    numjobs: u32,
    direct: bool,
    runtime: Option<Nanos>,
    time_based: bool,
    ramp_time: Nanos,
    ioengine: IoEngine,
    sync: bool,
    fsync: u32,
    end_fsync: bool,
    rate: Option<Bytes>,
    rate_iops: Option<u64>,
    poisson: bool,
    thinktime: Nanos,
    stonewall: bool,
    offset: Bytes,
    engine: EngineOptions,
    notes: Vec<String>,
}

impl Draft {
    fn read(given: &[&Given]) -> Result<Draft, JobFileError> {
        let mut draft = Draft {
            binary: true,
            name: None,
            access: Access::Sequential,
            mix: Mix::Read,
            read_percent: 50,
            bs: Bytes(4096),
            size: None,
            io_size: None,
            whole: false,
            filename: None,
            directory: None,
            iodepth: 1,
            numjobs: 1,
            direct: false,
            runtime: None,
            time_based: false,
            ramp_time: Nanos(0),
            ioengine: IoEngine::Psync,
            sync: false,
            fsync: 0,
            end_fsync: false,
            rate: None,
            rate_iops: None,
            poisson: false,
            thinktime: Nanos(0),
            stonewall: false,
            offset: Bytes(0),
            engine: EngineOptions::default(),
            notes: Vec::new(),
        };
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
        let switch = || values::switch(given.value.as_deref());
        let text = || given.value.as_deref().filter(|value| !value.is_empty()).ok_or("it has no value");
        let binary = self.binary;
        let size = || values::bytes(text()?, binary);
        let number = || values::integer(text()?, true);
        let count = || number().and_then(|n| u32::try_from(n).map_err(|_| format!("{n} is too many")));
        match name {
            "name" => self.name = Some(text()?.to_owned()),
            "rw" | "readwrite" => (self.access, self.mix) = operation(text()?)?,
            "bs" | "blocksize" => self.bs = one_value(text()?, |part| values::bytes(part, binary))?,
            "bsrange" => self.bs = one_value(text()?, |part| one_block_size(part, binary))?,
            "size" if text()? == "100%" => self.whole = true,
            "size" | "filesize" => self.size = Some(size().map_err(|error| no_percent(error, text()))?),
            "io_size" | "io_limit" => self.io_size = Some(size().map_err(|error| no_percent(error, text()))?),
            "filename" => self.filename = Some(text()?.to_owned()),
            "directory" => self.directory = Some(text()?.to_owned()),
            "iodepth" => self.iodepth = at_least_one(count()?)?,
            "numjobs" => self.numjobs = at_least_one(count()?)?,
            "direct" => self.direct = switch()?,
            "buffered" => self.direct = !switch()?,
            "runtime" | "timeout" => self.runtime = Some(values::time(text()?, Nanos::PER_SECOND)?),
            "time_based" => self.time_based = switch()?,
            "ramp_time" => self.ramp_time = values::time(text()?, Nanos::PER_SECOND)?,
            "ioengine" => self.ioengine(text()?)?,
            "sync" => self.sync = sync(given.value.as_deref())?,
            "fsync" | "fdatasync" => self.fsync = count()?,
            "end_fsync" => self.end_fsync = switch()?,
            "rate" => self.rate = Some(one_value(text()?, |part| values::bytes(part, binary))?),
            "rate_iops" => self.rate_iops = Some(one_value(text()?, |part| values::integer(part, true))?),
            "rate_process" => self.poisson = choice(text()?, &[("linear", false), ("poisson", true)])?,
            "rwmixread" => self.read_percent = percent(number()?)?,
            "rwmixwrite" => self.read_percent = 100 - percent(number()?)?,
            "thinktime" => self.thinktime = values::time(text()?, 1_000)?,
            "stonewall" | "wait_for_previous" => self.stonewall = switch()?,
            "randseed" => {
                number()?;
                self.notes.push("randseed: --randseed of ebb bench decides the seed of all jobs".to_owned());
            }
            "hipri" => self.engine.hipri = switch()?,
            "sqthread_poll" => self.engine.sqthread_poll = switch()?,
            "cpus_allowed" => {
                let text = text()?;
                self.engine.cpus_allowed = cpu_list(text)
                    .ok_or_else(|| format!("`{text}`: write CPU numbers and ranges, for example 0-3,6"))?;
            }
            "nice" => {
                let nice: i32 = text()?.trim().parse().map_err(|_| "write a number from -20 to 19")?;
                if !(-20..=19).contains(&nice) {
                    return Err(format!("{nice} is not from -20 to 19"));
                }
                self.engine.nice = Some(nice);
            }
            "offset" => self.offset = size().map_err(|error| no_percent(error, text()))?,
            "kb_base" => self.binary = choice(text()?, &[("1024", true), ("1000", false)])?,
            "iomem" | "mem" => {
                self.engine.huge_pages =
                    choice(text()?, &[("malloc", false), ("mmap", false), ("mmaphuge", true)])?;
            }
            // What fio does without them is what happens here.
            "nrfiles" | "loops" if count()? == 1 => {}
            "startdelay" if count()? == 0 => {}
            "invalidate" if switch()? => {}
            "nrfiles" | "loops" => return Err("only 1 is done".to_owned()),
            "startdelay" => {
                return Err("only 0 is done: put the job into a group of its own with stonewall".to_owned());
            }
            "invalidate" => {
                return Err("only 1 is done: caches are always dropped before a buffered job".to_owned());
            }
            _ if WITHOUT_EFFECT.iter().any(|(known, _)| *known == name) => {}
            _ => return Err(unknown(name)),
        }
        Ok(())
    }

    fn ioengine(&mut self, name: &str) -> Result<(), String> {
        self.ioengine = match name {
            "io_uring" => IoEngine::IoUring,
            "libaio" | "posixaio" => {
                self.notes.push(format!("ioengine={name} runs on io_uring"));
                IoEngine::IoUring
            }
            "psync" => IoEngine::Psync,
            "sync" | "vsync" | "pvsync" | "pvsync2" => {
                self.notes.push(format!("ioengine={name} runs on psync"));
                IoEngine::Psync
            }
            _ => {
                return Err(format!(
                    "`{name}` is not one of io_uring, libaio, posixaio, psync, sync, vsync, pvsync, pvsync2"
                ));
            }
        };
        Ok(())
    }

    /// The job; `section` is its name unless it gives itself another.
    fn finish(mut self, section: &str, group: u32) -> Result<FileJob, String> {
        let name = self.name.take().unwrap_or_else(|| section.to_owned());
        if self.bs.0 == 0 {
            return Err("bs is 0".to_owned());
        }
        if self.direct && (!self.bs.0.is_multiple_of(512) || !self.offset.0.is_multiple_of(512)) {
            return Err("direct=1 needs bs and offset to be multiples of 512".to_owned());
        }
        let mix = match self.mix {
            Mix::Mixed { .. } => Mix::Mixed { read_percent: self.read_percent },
            mix => mix,
        };
        let jobs = u64::from(self.numjobs);
        let rate_of_all = |rate: u64, what: &str| {
            if matches!(mix, Mix::Mixed { .. }) {
                return Err(format!(
                    "{what} limits reads and writes apart in fio and together here: give a mixed job none, or two jobs"
                ));
            }
            if rate == 0 {
                return Err(format!("{what} is 0"));
            }
            rate.checked_mul(jobs).ok_or_else(|| format!("{what} is too large"))
        };
        let rate = self.rate.map(|rate| rate_of_all(rate.0, "rate")).transpose()?.map(Bytes);
        let arrival = match self.rate_iops.map(|rate| rate_of_all(rate, "rate_iops")).transpose()? {
            None => Arrival::Closed,
            Some(iops) => {
                self.notes.push(
                    "rate_iops: operations arrive whether or not earlier ones have completed, and latency counts from \
                     their arrival (fio: from the submission)"
                        .to_owned(),
                );
                let iops = iops as f64;
                if self.poisson { Arrival::Poisson { iops } } else { Arrival::Fixed { iops } }
            }
        };
        let (target, regions) = self.target(&name)?;
        let separate = matches!(target, Target::Each(_));
        if separate && self.offset.0 > 0 && self.numjobs > 1 {
            return Err("offset with a file for each clone is not done; give a filename".to_owned());
        }
        let each = self.io_size.or(self.size);
        let stop = match (self.runtime, each) {
            (Some(runtime), _) if self.time_based => Stop::Runtime(runtime),
            (_, Some(each)) => {
                let total = each.0.checked_mul(jobs).ok_or("size times numjobs is too large")?;
                Stop::Size(Bytes(total))
            }
            (Some(runtime), None) => {
                self.notes.push(
                    "without a size the job runs for its runtime (fio: or once over the file)".to_owned(),
                );
                Stop::Runtime(runtime)
            }
            (None, None) => {
                return Err(
                    "neither size nor runtime says when it ends; write for example runtime=60".to_owned()
                );
            }
        };
        if stop == Stop::Runtime(Nanos(0)) || stop == Stop::Size(Bytes(0)) {
            return Err("it ends before it begins: size and runtime have to be more than 0".to_owned());
        }
        let time_limit = match stop {
            Stop::Size(_) => self.runtime.filter(|runtime| runtime.0 > 0),
            Stop::Runtime(_) => None,
        };
        if self.access == Access::Random && !self.notes.iter().any(|note| note.starts_with("random")) {
            self.notes.push("random offsets may repeat (fio's norandommap)".to_owned());
        }
        let span = self.size.map(|size| if separate { Bytes(size.0.saturating_mul(jobs)) } else { size });
        let workload = Workload {
            name: name.clone(),
            access: self.access,
            mix,
            bs: self.bs,
            iodepth: self.iodepth,
            numjobs: self.numjobs,
            stop,
            warm_up: self.ramp_time,
            span,
            arrival,
            rate,
            think_time: self.thinktime,
            direct: self.direct,
            sync: self.sync,
            end_fsync: self.end_fsync,
            ioengine: self.ioengine,
            engine: self.engine,
            fine: Fine {
                offset: self.offset,
                regions,
                time_limit,
                fsync_every: (self.fsync > 0).then_some(self.fsync),
            },
        };
        let file_size = self.size.map(|size| Bytes(size.0.saturating_add(self.offset.0)));
        Ok(FileJob { name, group, target, file_size, workload, options: Vec::new(), notes: self.notes })
    }

    /// `filename` below `directory`; without one, fio's `name.clone.0` for every clone.
    fn target(&self, name: &str) -> Result<(Target, Regions), String> {
        let below = |file: &str| match &self.directory {
            Some(directory) if !file.starts_with('/') => {
                format!("{}/{file}", directory.trim_end_matches('/'))
            }
            _ => file.to_owned(),
        };
        match &self.filename {
            Some(file) if file.contains(':') => Err(format!(
                "filename={file}: several files of one job are not done; write a job for each, or a design of an \
                 experiment"
            )),
            Some(file) => Ok((Target::Shared(below(file)), Regions::Shared)),
            None => {
                let files = (0..self.numjobs).map(|clone| below(&format!("{name}.{clone}.0"))).collect();
                Ok((Target::Each(files), Regions::Own))
            }
        }
    }
}

fn operation(text: &str) -> Result<(Access, Mix), String> {
    let mixed = Mix::Mixed { read_percent: 50 };
    choice(
        text,
        &[
            ("read", (Access::Sequential, Mix::Read)),
            ("write", (Access::Sequential, Mix::Write)),
            ("randread", (Access::Random, Mix::Read)),
            ("randwrite", (Access::Random, Mix::Write)),
            ("rw", (Access::Sequential, mixed)),
            ("readwrite", (Access::Sequential, mixed)),
            ("randrw", (Access::Random, mixed)),
        ],
    )
}

fn choice<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("`{text}` is not one of {}", names.join(", "))
    })
}

/// fio takes a value each for reads, writes and trims; here they have to be the same.
fn one_value<T: PartialEq + Copy>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
    let mut parts = text.split(',').filter(|part| !part.trim().is_empty()).map(read);
    let first = parts.next().ok_or("it has no value")??;
    for other in parts {
        if other? != first {
            return Err(format!("`{text}`: one value for reads and another for writes is not done"));
        }
    }
    Ok(first)
}

fn one_block_size(text: &str, binary: bool) -> Result<Bytes, String> {
    let (low, high) = text.split_once(['-', ':']).unwrap_or((text, text));
    let (low, high) = (values::bytes(low, binary)?, values::bytes(high, binary)?);
    if low == high { Ok(low) } else { Err(format!("`{text}`: a range of block sizes is not done")) }
}

fn no_percent(error: String, text: Result<&str, &str>) -> String {
    match text {
        Ok(text) if text.ends_with('%') => format!("`{text}`: a share of the file is not done; write bytes"),
        _ => error,
    }
}

fn at_least_one(count: u32) -> Result<u32, String> {
    match count {
        0 => Err("0 is too few; write at least 1".to_owned()),
        1..=4096 => Ok(count),
        _ => Err(format!("{count} is more than 4096")),
    }
}

fn percent(number: u64) -> Result<u8, String> {
    u8::try_from(number)
        .ok()
        .filter(|n| *n <= 100)
        .ok_or_else(|| format!("{number} is more than 100 percent"))
}

fn sync(value: Option<&str>) -> Result<bool, String> {
    match value.map(str::trim) {
        Some("none") => Ok(false),
        Some("sync") => Ok(true),
        Some("dsync") => Err("`dsync` is not done; write sync".to_owned()),
        other => values::switch(other),
    }
}

fn unknown(name: &str) -> String {
    let known = HONOURED.iter().copied().chain(WITHOUT_EFFECT.iter().map(|(name, _)| *name));
    let close = known
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .min()
        .filter(|(distance, known)| *distance <= 2 && *distance < known.len());
    match close {
        Some((_, known)) => format!("this option is not known; is it `{known}`?"),
        None => "this option of fio is not done by ebb (docs/bench.md lists those that are)".to_owned(),
    }
}
