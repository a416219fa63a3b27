//! `[workloads.NAME]`: what is asked of every design, in fio's words.

use super::error::Problem;
use super::read::{Duration, Entry, Given, Headed, Named, Size, Throughput, required, section, valid};
use super::{engine, names, profiles};
use crate::problems::{Problems, Span};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{Access, Arrival, Details, IoEngine, Mix, Stop, Workload};
use profiles::ProfileFiles;

/// fio's default block size.
const BS_DEFAULT: Bytes = Bytes(4096);
/// Smallest unit of O_DIRECT on any disk.
const SECTOR: u64 = 512;
/// Memory for the buffers of a workload beyond which it is a mistake.
const BUFFERS_MAX: u64 = 4 * Bytes::GIB;

/// fio's values of `rw`, and bonnie++'s rewrite.
const RW: &[&str] = &["read", "write", "randread", "randwrite", "rw", "randrw", "rewrite"];

section! {
    /// One workload. The keys that fio has are called as in fio.
    #[schemars(rename = "Workload", extend("anyOf" = [{ "required": ["rw"] }, { "required": ["profile"] }]))]
    "a workload"
    struct RawWorkload {
        /// Workloads by name instead of one that is written out: dd, bonnie, efs, seek or ladder, or a profile file of
        /// your own, its path relative to this file. Beside it only runtime, size, span and ramp_time may stand.
        profile: String,
        /// What is done in which order: fio's read, write, randread, randwrite, rw (alias readwrite), randrw, and
        /// rewrite (reads each block and writes it back in place).
        #[schemars(extend("enum" =
            ["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw", "rewrite"]))]
        rw: String,
        /// rw and randrw: share of reads in percent [default: 50].
        #[schemars(range(max = 100))]
        rwmixread: u32,
        /// Bytes of one operation, a multiple of 512 [default: 4k].
        bs: Size,
        /// Operations in flight per job [default: 1].
        #[schemars(range(min = 1, max = 4096))]
        iodepth: u32,
        /// Jobs, each a thread [default: 1].
        #[schemars(range(min = 1, max = 256))]
        numjobs: u32,
        /// Measured time of a trial. Either this or `size`.
        runtime: Duration,
        /// Bytes after which a trial ends, over all jobs. Either this or `runtime`.
        size: Size,
        /// Time before the measurement that is run but not counted [default: 0s].
        ramp_time: Duration,
        /// Bytes of the array that are used, from its start [default: all].
        span: Size,
        /// O_DIRECT; false goes through the page cache [default: true].
        direct: bool,
        /// O_SYNC on every write [default: false].
        sync: bool,
        /// Upper limit of bytes per second over all jobs [default: none].
        rate: Throughput,
        /// Operations per second over all jobs that arrive whether or not earlier ones have completed; latency
        /// counts from the intended start [default: none, the next operation follows a completion].
        rate_iops: f64,
        /// With rate_iops: linear (equal distances) or poisson [default: linear].
        #[schemars(extend("enum" = ["linear", "poisson"]))]
        rate_process: String,
        /// Pause of a job after each of its operations, of which it has one in flight then [default: 0s].
        thinktime: Duration,
        /// One fsync at the end, counted in the elapsed time [default: false].
        end_fsync: bool,
        /// io_uring or psync (pread and pwrite, one operation in flight per job) [default: io_uring].
        #[schemars(extend("enum" = ["io_uring", "psync"]))]
        ioengine: String,
        /// CPUs for the jobs' threads, taken in turn, for example "0-3,6" [default: any].
        cpus_allowed: String,
        /// Nice value of the jobs' threads [default: unchanged].
        #[schemars(range(min = -20, max = 19))]
        nice: i32,
        /// Memory of the buffers: malloc, or mmaphuge for huge pages [default: malloc].
        #[schemars(extend("enum" = ["malloc", "mmaphuge"]))]
        iomem: String,
        /// Polled completions; needs a driver with polling queues and O_DIRECT [default: false].
        hipri: bool,
        /// A kernel thread submits [default: false].
        sqthread_poll: bool,
    }
}

impl Headed for RawWorkload {
    const HEADING: &'static str = "workloads";
}

impl RawWorkload {
    /// The keys that are given and that a profile decides.
    pub(super) fn decided_by_a_profile(&self) -> Vec<(&'static str, &Span)> {
        macro_rules! given {
            ($($key:ident),* beside $($allowed:ident),*) => {{
                // Every key is in one of the two lists, or this does not compile.
                let RawWorkload { $($key,)* $($allowed: _,)* } = self;
                [$((stringify!($key), $key.as_ref().map(|at| &at.span))),*]
            }};
        }
        let keys = given!(
            rw,
            rwmixread,
            bs,
            iodepth,
            numjobs,
            direct,
            sync,
            rate,
            rate_iops,
            rate_process,
            thinktime,
            end_fsync,
            ioengine,
            cpus_allowed,
            nice,
            iomem,
            hipri,
            sqthread_poll
            beside profile, runtime, size, span, ramp_time
        );
        keys.into_iter().filter_map(|(key, span)| span.map(|span| (key, span))).collect()
    }
}

/// What workloads stand among.
pub(super) struct Around<'a> {
    /// The design of least capacity, where that is known.
    pub(super) smallest: Option<(&'a str, Bytes)>,
    /// Memory of the host that a simulation has.
    pub(super) memory: Option<Bytes>,
    /// Profile files; none within one.
    pub(super) profiles: Option<&'a dyn ProfileFiles>,
}

/// Checks the workloads of `section`.
pub(super) fn resolve(
    raw: &Given<Named<RawWorkload>>,
    section: &str,
    around: &Around<'_>,
    file_start: &Span,
    problems: &mut Problems,
) -> Vec<Workload> {
    let place = (section, file_start);
    let Some((Named(entries), span)) = required(raw, "workloads", "[workloads.randread]", place, problems)
    else {
        return Vec::new();
    };
    if entries.is_empty() {
        let remedy = "write a table `[workloads.NAME]` with `rw` and `runtime`".to_owned();
        problems.report(span, Problem::Nothing { what: "there are no workloads".to_owned(), remedy });
    }
    let mut workloads: Vec<Workload> = Vec::new();
    for entry in entries {
        let profile = entry.value.as_ref().and_then(|raw| raw.profile.as_ref());
        let more = match profile {
            None => workload(entry, around.smallest, problems).into_iter().collect(),
            Some(at) => {
                names::check(&entry.name, "a workload", &entry.span, problems);
                let named = at.value.as_deref().map(|name| (name, &at.span));
                named.map_or_else(Vec::new, |named| profiles::expand(entry, named, around, problems))
            }
        };
        for workload in more {
            if workloads.iter().any(|other| other.name == workload.name) {
                let (what, name) = ("the workload", workload.name.clone());
                let remedy = "the steps of a profile are called NAME-STEP: choose another name".to_owned();
                problems.report(&entry.span, Problem::Duplicate { what, name, remedy });
            }
            workloads.push(workload);
        }
    }
    workloads
}

fn workload(
    entry: &Entry<RawWorkload>,
    smallest: Option<(&str, Bytes)>,
    problems: &mut Problems,
) -> Option<Workload> {
    names::check(&entry.name, "a workload", &entry.span, problems);
    let raw = entry.value.as_ref()?;
    let what = format!("workload `{}`", entry.name);
    let operation = required(&raw.rw, "rw", "rw = \"randread\"", (&what, &entry.span), problems)
        .and_then(|(rw, span)| operation(rw, raw, span, problems));
    let ioengine = ioengine(raw, problems);
    let iodepth = count(&raw.iodepth, "iodepth", 4096, problems);
    let numjobs = count(&raw.numjobs, "numjobs", 256, problems);
    let direct = given_or(&raw.direct, true);
    let engine = engine::options(raw, ioengine, direct, problems);
    let bs = block_size(raw, problems);
    let stop = stop(raw, &what, &entry.span, problems);
    let arrival = arrival(raw, problems);
    let span = valid(&raw.span).map(|(span, place)| (*span, place));
    let (bs, iodepth, numjobs) = (bs?, iodepth?, numjobs?);
    if ioengine == Some(IoEngine::Psync) && iodepth > 1 {
        let span = raw.iodepth.as_ref().map_or(&entry.span, |at| &at.span);
        let why = "psync has one operation in flight per job".to_owned();
        let remedy = format!("write `numjobs = {iodepth}` instead, or `ioengine = \"io_uring\"`");
        problems.report(span, Problem::Pointless { key: "iodepth", why, remedy });
    }
    check_memory(bs, iodepth, numjobs, &entry.span, problems);
    let (access, mix) = operation?;
    let regions = if access == Access::Sequential { u64::from(numjobs) } else { 1 };
    check_room(Bytes(bs.0.saturating_mul(regions)), span, smallest, &entry.span, problems);
    Some(Workload {
        name: entry.name.clone(),
        access,
        mix,
        bs,
        iodepth,
        numjobs,
        stop: stop?,
        warm_up: given_or(&raw.ramp_time, Nanos(0)),
        span: span.map(|(span, _)| span),
        arrival,
        rate: valid(&raw.rate).map(|(rate, _)| Bytes(rate.0 as u64)),
        think_time: given_or(&raw.thinktime, Nanos(0)),
        direct,
        sync: given_or(&raw.sync, false),
        end_fsync: given_or(&raw.end_fsync, false),
        ioengine: ioengine?,
        engine,
        details: Details::default(),
    })
}

fn given_or<T: Copy>(given: &Given<T>, default: T) -> T {
    valid(given).map_or(default, |(value, _)| *value)
}

fn operation(rw: &str, raw: &RawWorkload, span: &Span, problems: &mut Problems) -> Option<(Access, Mix)> {
    let read_percent = match valid(&raw.rwmixread) {
        Some((percent, span)) if *percent > 100 => {
            let (found, range) = (percent.to_string(), "from 0 to 100 percent".to_owned());
            let remedy = "write the share of reads in percent, for example `rwmixread = 70`".to_owned();
            problems.report(span, Problem::OutOfRange { key: "rwmixread", found, range, remedy });
            50
        }
        Some((percent, _)) => *percent as u8,
        None => 50,
    };
    let operation = match rw {
        "read" => (Access::Sequential, Mix::Read),
        "write" => (Access::Sequential, Mix::Write),
        "randread" => (Access::Random, Mix::Read),
        "randwrite" => (Access::Random, Mix::Write),
        "rw" | "readwrite" => (Access::Sequential, Mix::Mixed { read_percent }),
        "randrw" => (Access::Random, Mix::Mixed { read_percent }),
        "rewrite" => (Access::Sequential, Mix::Rewrite),
        _ => {
            let remedy = match rw {
                "trim" | "randtrim" | "trimwrite" => {
                    format!("trim is not measured; write one of {}", RW.join(", "))
                }
                "seqread" | "sequential read" => "write `read`".to_owned(),
                "seqwrite" | "sequential write" => "write `write`".to_owned(),
                _ => names::choose(rw, RW),
            };
            problems.report(span, Problem::UnknownChoice { what: "rw", found: rw.to_owned(), remedy });
            return None;
        }
    };
    if let (Some(at), false) = (&raw.rwmixread, matches!(operation.1, Mix::Mixed { .. })) {
        let why = format!("`{rw}` does not mix reads and writes");
        let remedy = "write `rw = \"randrw\"` or `rw = \"rw\"`, or remove it".to_owned();
        problems.report(&at.span, Problem::Pointless { key: "rwmixread", why, remedy });
    }
    Some(operation)
}

fn ioengine(raw: &RawWorkload, problems: &mut Problems) -> Option<IoEngine> {
    let Some(at) = &raw.ioengine else { return Some(IoEngine::IoUring) };
    match at.value.as_deref()? {
        "io_uring" => Some(IoEngine::IoUring),
        "psync" => Some(IoEngine::Psync),
        other => {
            let remedy = match other {
                "libaio" | "posixaio" | "uring" => "write \"io_uring\"".to_owned(),
                "sync" | "pvsync" | "vsync" | "pvsync2" => "write \"psync\"".to_owned(),
                _ => names::choose(other, &["io_uring", "psync"]),
            };
            problems.report(
                &at.span,
                Problem::UnknownChoice { what: "ioengine", found: other.to_owned(), remedy },
            );
            None
        }
    }
}

/// A number from 1 to `most`; 1 when absent.
fn count(given: &Given<u32>, key: &'static str, most: u32, problems: &mut Problems) -> Option<u32> {
    let Some(at) = given else { return Some(1) };
    let count = at.value?;
    if (1..=most).contains(&count) {
        return Some(count);
    }
    let (found, range) = (count.to_string(), format!("from 1 to {most}"));
    let remedy = format!("write for example `{key} = {}`", if count == 0 { 1 } else { most });
    problems.report(&at.span, Problem::OutOfRange { key, found, range, remedy });
    None
}

fn block_size(raw: &RawWorkload, problems: &mut Problems) -> Option<Bytes> {
    let Some(at) = &raw.bs else { return Some(BS_DEFAULT) };
    let bs = at.value?;
    if bs.0 != 0 && bs.0.is_multiple_of(SECTOR) && bs.0 <= Bytes::GIB {
        return Some(bs);
    }
    let lower = Bytes((bs.0 / SECTOR * SECTOR).clamp(SECTOR, Bytes::GIB));
    let remedy = if bs.0 == 0 { "write for example \"4k\"".to_owned() } else { format!("write \"{lower}\"") };
    let (found, range) = (bs.to_string(), "a multiple of 512 bytes, up to 1GiB".to_owned());
    problems.report(&at.span, Problem::OutOfRange { key: "bs", found, range, remedy });
    None
}

fn check_memory(bs: Bytes, iodepth: u32, numjobs: u32, span: &Span, problems: &mut Problems) {
    let slots = u64::from(iodepth) * u64::from(numjobs);
    let buffers = bs.0.saturating_mul(slots);
    if buffers > BUFFERS_MAX {
        let what = format!("bs x iodepth x numjobs needs {} of memory for buffers", Bytes(buffers));
        let remedy = format!("keep the product below {}", Bytes(BUFFERS_MAX));
        problems.report(span, Problem::Geometry { what, remedy });
    }
}

/// Reports a span or an array without room for `least` bytes, one block for each region, and a span beyond the
/// end of an array.
fn check_room(
    least: Bytes,
    span: Option<(Bytes, &Span)>,
    smallest: Option<(&str, Bytes)>,
    place: &Span,
    problems: &mut Problems,
) {
    match (span, smallest) {
        (Some((span, place)), _) if span < least => {
            let (found, range) = (span.to_string(), format!("at least {least}, a block for each job"));
            let remedy = format!("write at least \"{least}\"");
            problems.report(place, Problem::OutOfRange { key: "span", found, range, remedy });
        }
        (Some((span, place)), Some((design, capacity))) if span > capacity => {
            let found = span.to_string();
            let range = format!("at most {capacity}, the capacity of design `{design}`");
            let remedy = format!("write \"{capacity}\", or remove it to use all of each design");
            problems.report(place, Problem::OutOfRange { key: "span", found, range, remedy });
        }
        (None, Some((design, capacity))) if capacity < least => {
            let what = format!("design `{design}` holds {capacity}, and a block for each job needs {least}");
            let remedy = "write a smaller `bs`, fewer jobs, or larger volumes".to_owned();
            problems.report(place, Problem::Geometry { what, remedy });
        }
        _ => {}
    }
}

/// When a trial of `what` ends.
pub(super) fn stop(raw: &RawWorkload, what: &str, place: &Span, problems: &mut Problems) -> Option<Stop> {
    if let (Some(_), Some(size)) = (&raw.runtime, &raw.size) {
        let remedy = "keep `runtime` to end after a time or `size` to end after so many bytes; \
                      `span` is the part of the array that is used"
            .to_owned();
        let (first, second) = ("runtime", "size");
        problems.report(&size.span, Problem::Conflict { first, second, remedy });
        return None;
    }
    let (key, stop, span) = match (&raw.runtime, &raw.size) {
        (Some(at), _) => ("runtime", Stop::Runtime(at.value?), &at.span),
        (_, Some(at)) => ("size", Stop::Size(at.value?), &at.span),
        (None, None) => {
            let (section, example) = (what.to_owned(), "runtime = \"10s\"` or `size = \"1GiB\"".to_owned());
            problems.report(place, Problem::MissingKey { key: "runtime", section, example });
            return None;
        }
    };
    if matches!(stop, Stop::Runtime(Nanos(0)) | Stop::Size(Bytes(0))) {
        let (found, range) = ("0".to_owned(), "more than 0".to_owned());
        let remedy = "write for example `runtime = \"10s\"` or `size = \"1GiB\"`".to_owned();
        problems.report(span, Problem::OutOfRange { key, found, range, remedy });
        return None;
    }
    Some(stop)
}

fn arrival(raw: &RawWorkload, problems: &mut Problems) -> Arrival {
    let Some(at) = &raw.rate_iops else {
        if let Some(at) = &raw.rate_process {
            let why = "operations arrive on their own only at a `rate_iops`".to_owned();
            let remedy = "write for example `rate_iops = 1000` with it, or remove it".to_owned();
            problems.report(&at.span, Problem::Pointless { key: "rate_process", why, remedy });
        }
        return Arrival::Closed;
    };
    let clash = [
        ("rate", raw.rate.as_ref().map(|at| &at.span)),
        ("thinktime", raw.thinktime.as_ref().map(|at| &at.span)),
    ];
    for (second, span) in clash {
        if let Some(span) = span {
            let remedy = "keep `rate_iops` (operations arrive on their own) or the other one".to_owned();
            problems.report(span, Problem::Conflict { first: "rate_iops", second, remedy });
        }
    }
    let iops = at.value.unwrap_or(1.0);
    if iops <= 0.0 {
        let (found, range) = (iops.to_string(), "more than 0 operations per second".to_owned());
        let remedy = "write for example `rate_iops = 1000`, or remove it for no limit".to_owned();
        problems.report(&at.span, Problem::OutOfRange { key: "rate_iops", found, range, remedy });
    }
    match valid(&raw.rate_process).map(|(process, span)| (process.as_str(), span)) {
        None | Some(("linear", _)) => Arrival::Fixed { iops },
        Some(("poisson", _)) => Arrival::Poisson { iops },
        Some((other, span)) => {
            let remedy = names::choose(other, &["linear", "poisson"]);
            let (what, found) = ("rate_process", other.to_owned());
            problems.report(span, Problem::UnknownChoice { what, found, remedy });
            Arrival::Closed
        }
    }
}
