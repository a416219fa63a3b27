//! The table of the options, in the order in which they are listed.

use super::Grammar::{Experiment, JobFile};
use super::{Draft, Kind, Refused, Unused, Word, WorkloadOption};
use crate::units::{Bytes, Nanos};
use crate::workload::{Access, Arrival, IoEngine, Mix, Stop, Workload};

/// What an option is that says nothing more.
const OPTION: WorkloadOption = WorkloadOption {
    name: "",
    key: None,
    aliases: &[],
    absent: &[],
    stands_for: None,
    remark: "",
    kind: Kind::Choice(&[]),
    default: same("none"),
    doc: "",
    unused: &[],
    real_only: false,
    fio: |_| None,
};

/// fio's unit of a bare time, and of most times.
const SECOND: Nanos = Nanos::from_secs(1);
/// fio's unit of a bare thinktime.
const MICROSECOND: Nanos = Nanos(1_000);
/// Operations in flight, jobs and loops beyond which it is a mistake.
const MANY: i64 = 4096;
/// Writes between two fsync beyond which there is none.
const RARELY: i64 = u32::MAX as i64;
/// One operation beyond which it is a mistake.
const BS_MOST: Bytes = Bytes(Bytes::GIB);

const MIXED: Mix = Mix::Mixed { read_percent: 50 };
const OFF: [&str; 3] = ["false", "0", "0"];

const fn same(default: &'static str) -> [&'static str; 3] {
    [default; 3]
}

const fn word(name: &'static str, doc: &'static str, set: fn(&mut Draft)) -> Word {
    Word { name, doc, runs_as: None, set }
}

const fn as_io_uring(name: &'static str) -> Word {
    Word { runs_as: Some("io_uring"), ..word(name, "runs on io_uring", io_uring) }
}

const fn as_psync(name: &'static str) -> Word {
    Word { runs_as: Some("psync"), ..word(name, "runs on psync", psync) }
}

const fn whole(least: i64, most: i64, set: fn(&mut Draft, i64)) -> Kind {
    Kind::Whole { least, most, set }
}

const fn switch(set: fn(&mut Draft, bool)) -> Kind {
    Kind::Switch { alone: true, words: &[], set }
}

fn on(switch: bool) -> Option<String> {
    switch.then(|| "1".to_owned())
}

fn seconds(time: Nanos) -> Option<String> {
    (time > Nanos(0)).then(|| time.as_secs_f64().to_string())
}

fn order(draft: &mut Draft, access: Access, mix: Mix) {
    (draft.workload.access, draft.workload.mix) = (access, mix);
}

fn io_uring(draft: &mut Draft) {
    draft.workload.ioengine = IoEngine::IoUring;
}

fn psync(draft: &mut Draft) {
    draft.workload.ioengine = IoEngine::Psync;
}

const fn unused(
    why: &'static str,
    with: Option<(&'static str, &'static str)>,
    refused: Refused,
    when: fn(&Draft) -> bool,
) -> Unused {
    Unused { when, why, with, refused }
}

const fn unmixed() -> Unused {
    unused("reads and writes are not mixed", Some(("rw", "randrw")), Refused::NotInJobFiles, |d| {
        !matches!(d.workload.mix, Mix::Mixed { .. })
    })
}

const fn no_ring(when: fn(&Draft) -> bool) -> Unused {
    unused("psync has no ring", Some(("ioengine", "io_uring")), Refused::Everywhere, when)
}

const fn reads_only(when: fn(&Draft) -> bool) -> Unused {
    unused("nothing is written", Some(("rw", "randwrite")), Refused::NotInJobFiles, when)
}

/// The option called `name` in the table; one without a name where there is none, which a test rules out.
pub fn named(name: &str) -> &'static WorkloadOption {
    const NONE: &WorkloadOption = &OPTION;
    OPTIONS.iter().find(|option| option.name == name).unwrap_or(NONE)
}

/// Every option of a workload.
#[rustfmt::skip] // A table: its rows are read one beside the other.
pub static OPTIONS: &[WorkloadOption] = &[
    WorkloadOption {
        name: "rw", aliases: &["readwrite"], default: ["none, it is required", "read", "read"],
        doc: "What is done in which order",
        kind: Kind::Choice(&[
            word("read", "sequential reads", |d| order(d, Access::Sequential, Mix::Read)),
            word("write", "sequential writes", |d| order(d, Access::Sequential, Mix::Write)),
            word("randread", "random reads", |d| order(d, Access::Random, Mix::Read)),
            word("randwrite", "random writes", |d| order(d, Access::Random, Mix::Write)),
            word("rw", "sequential, reads and writes mixed", |d| order(d, Access::Sequential, MIXED)),
            word("readwrite", "", |d| order(d, Access::Sequential, MIXED)),
            word("randrw", "random, reads and writes mixed", |d| order(d, Access::Random, MIXED)),
            word("rewrite", "each block is read, then written in place",
                |d| order(d, Access::Sequential, Mix::Rewrite)),
        ]),
        fio: |w| Some(match (w.access, w.mix) {
            (Access::Sequential, Mix::Read) => "read",
            (Access::Sequential, Mix::Write) => "write",
            (Access::Sequential, Mix::Mixed { .. }) => "rw",
            (Access::Random, Mix::Read) => "randread",
            (Access::Random, Mix::Write) => "randwrite",
            (Access::Random, Mix::Mixed { .. }) => "randrw",
            (_, Mix::Rewrite) => "rewrite",
        }.to_owned()),
        ..OPTION
    },
    WorkloadOption {
        name: "rwmixread", default: same("50"), doc: "rw and randrw: share of reads in percent",
        kind: whole(0, 100, |d, percent| d.read_percent = percent as u8), unused: &[unmixed()],
        fio: |w| if let Mix::Mixed { read_percent } = w.mix { Some(read_percent.to_string()) } else { None },
        ..OPTION
    },
    WorkloadOption {
        name: "rwmixwrite", absent: &[Experiment], stands_for: Some("rwmixread"), remark: ", the share of reads in percent",
        doc: "rw and randrw: share of writes in percent",
        kind: whole(0, 100, |d, percent| d.read_percent = 100 - percent as u8), unused: &[unmixed()], ..OPTION
    },
    WorkloadOption {
        name: "bs", aliases: &["blocksize", "bsrange"], default: same("4k"),
        doc: "Bytes of one operation, a multiple of 512 with O_DIRECT",
        kind: Kind::Size { least: Bytes(1), most: BS_MOST, set: |d, bs| d.workload.bs = bs },
        fio: |w| Some(w.bs.0.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "iodepth", default: same("1"), doc: "Operations in flight per job",
        kind: whole(1, MANY, |d, depth| d.workload.iodepth = depth as u32),
        unused: &[unused("psync has one operation in flight per job; more jobs keep more", Some(("numjobs", "")),
            Refused::InExperiments, |d| d.workload.iodepth > 1 && d.workload.ioengine == IoEngine::Psync)],
        fio: |w| Some(w.iodepth.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "numjobs", default: same("1"), doc: "Jobs, each a thread",
        kind: whole(1, MANY, |d, jobs| d.workload.numjobs = jobs as u32),
        fio: |w| Some(w.numjobs.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "runtime", aliases: &["timeout"], doc: "Measured time",
        default: ["what size says", "10s, or until --size or --io_size is done", "what size says"],
        kind: Kind::Time { least: Nanos(1), bare: SECOND, set: |d, time| d.runtime = Some(time).filter(|time| *time > Nanos(0)) },
        fio: |w| match w.stop {
            Stop::Runtime(runtime) => seconds(runtime),
            Stop::Size(_) => w.details.time_limit.and_then(seconds),
        },
        ..OPTION
    },
    WorkloadOption {
        name: "time_based", absent: &[Experiment], default: ["", "1", "0"],
        doc: "The runtime is kept in full; on the command line it always is", kind: switch(|d, on| d.time_based = on),
        unused: &[unused("there is no runtime", Some(("runtime", "10s")), Refused::NotInJobFiles,
            |d| d.time_based && d.runtime.is_none())],
        fio: |w| on(matches!(w.stop, Stop::Runtime(_))), ..OPTION
    },
    WorkloadOption {
        name: "size", key: Some("span"), aliases: &["filesize"], default: same("all"),
        doc: "Bytes of the target that are used",
        kind: Kind::Amount { least: Bytes(1), set: |d, size| d.region = Some(size) },
        fio: |w| {
            let moved = if let Stop::Size(size) = w.stop { Some(size) } else { None };
            w.span.or(moved).map(|size| size.0.to_string())
        },
        ..OPTION
    },
    WorkloadOption {
        name: "io_size", key: Some("size"), aliases: &["io_limit"],
        default: ["what runtime says", "all of --size", "all of size"],
        doc: "Bytes after which it ends, over all jobs",
        kind: Kind::Amount { least: Bytes(1), set: |d, moved| d.moved = Some(moved) },
        fio: |w| match w.stop {
            Stop::Size(size) if w.span.is_some_and(|span| span != size) => Some(size.0.to_string()),
            _ => None,
        },
        ..OPTION
    },
    WorkloadOption {
        name: "loops", default: same("1"), doc: "How many times its bytes are read or written",
        kind: whole(1, MANY, |d, loops| d.loops = loops as u32),
        unused: &[unused("a time ends it, and no number of bytes", None, Refused::NotInJobFiles,
            |d| d.loops > 1 && d.ends_by_time())],
        ..OPTION
    },
    WorkloadOption {
        // The part of an array that is used begins at its start, where designs of all sizes have one.
        name: "offset", absent: &[Experiment], default: same("0"), doc: "Where the used part of the target begins",
        kind: Kind::Amount { least: Bytes(0), set: |d, offset| d.offset = offset },
        fio: |w| Some(w.details.offset.0).filter(|offset| *offset > 0).map(|offset| offset.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "ramp_time", default: same("0s"), doc: "Time before the measurement that is run but not counted",
        kind: Kind::Time { least: Nanos(0), bare: SECOND, set: |d, time| d.workload.warm_up = time },
        fio: |w| seconds(w.warm_up), ..OPTION
    },
    WorkloadOption {
        name: "direct", default: ["true", "1", "0"], doc: "O_DIRECT; without it I/O goes through the page cache",
        kind: Kind::Switch { alone: false, words: &[], set: |d, on| d.workload.direct = on },
        fio: |w| Some(u8::from(w.direct).to_string()), ..OPTION
    },
    WorkloadOption {
        name: "buffered", absent: &[Experiment], stands_for: Some("direct"), doc: "The opposite of direct",
        remark: ": `buffered = true` is `direct = false`", kind: switch(|d, on| d.workload.direct = !on), ..OPTION
    },
    WorkloadOption {
        name: "sync", default: OFF, doc: "O_SYNC on every write",
        kind: Kind::Switch { alone: true, words: &[("none", false), ("sync", true)], set: |d, on| d.workload.sync = on },
        fio: |w| on(w.sync), ..OPTION
    },
    WorkloadOption {
        // The simulator has none: a comparison there would leave it out without a word.
        name: "fsync", absent: &[Experiment], default: same("0, never"), real_only: true,
        doc: "Every job calls fsync after so many writes, as one of its operations in flight",
        kind: whole(0, RARELY, |d, n| d.workload.details.fsync_every = Some(n as u32).filter(|n| *n > 0)),
        unused: &[reads_only(|d| d.workload.details.fsync_every.is_some() && !d.workload.writes())],
        fio: |w| w.details.fsync_every.map(|every| every.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "fdatasync", absent: &[Experiment], default: same("0, never"), real_only: true,
        doc: "The same with fdatasync",
        kind: whole(0, RARELY, |d, n| d.workload.details.fdatasync_every = Some(n as u32).filter(|n| *n > 0)),
        unused: &[reads_only(|d| d.workload.details.fdatasync_every.is_some() && !d.workload.writes())],
        fio: |w| w.details.fdatasync_every.map(|every| every.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "end_fsync", default: OFF, doc: "One fsync at the end, counted in the elapsed time",
        kind: switch(|d, on| d.workload.end_fsync = on), fio: |w| on(w.end_fsync), ..OPTION
    },
    WorkloadOption {
        name: "rate", doc: "At most so many bytes per second, over all jobs",
        kind: Kind::Throughput { set: |d, rate| d.workload.rate = Some(rate) },
        fio: |w| w.rate.map(|rate| rate.0.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "rate_iops", kind: Kind::Iops { set: |d, iops| d.iops = Some(iops) },
        doc: "Open loop: so many operations per second arrive over all jobs, whether or not earlier ones have completed; \
              latency counts from the intended start",
        fio: |w| match w.arrival {
            Arrival::Closed => None,
            Arrival::Fixed { iops } | Arrival::Poisson { iops } => Some(iops.to_string()),
        },
        ..OPTION
    },
    WorkloadOption {
        name: "rate_process", default: same("linear"), doc: "With rate_iops: how operations arrive",
        kind: Kind::Choice(&[
            word("linear", "at equal distances", |d| d.poisson = false),
            word("poisson", "at exponential distances", |d| d.poisson = true),
        ]),
        unused: &[unused("operations arrive on their own only at a rate_iops", Some(("rate_iops", "1000")),
            Refused::NotInJobFiles, |d| d.iops.is_none())],
        fio: |w| match w.arrival {
            Arrival::Closed => None,
            Arrival::Fixed { .. } => Some("linear".to_owned()),
            Arrival::Poisson { .. } => Some("poisson".to_owned()),
        },
        ..OPTION
    },
    WorkloadOption {
        name: "thinktime", aliases: &["think_time"], default: same("0s"),
        doc: "Pause of a job after each of its operations, of which it has one in flight then, whatever iodepth says",
        kind: Kind::Time { least: Nanos(0), bare: MICROSECOND, set: |d, time| d.workload.think_time = time },
        // Microseconds.
        fio: |w| Some(w.think_time.0).filter(|ns| *ns > 0).map(|ns| (ns as f64 / 1e3).to_string()), ..OPTION
    },
    WorkloadOption {
        name: "ioengine", default: ["io_uring", "io_uring", "psync"], doc: "How the kernel is asked",
        kind: Kind::Choice(&[
            word("io_uring", "a ring per job", io_uring),
            as_io_uring("libaio"),
            as_io_uring("posixaio"),
            word("psync", "pread and pwrite, one operation in flight per job", psync),
            as_psync("sync"),
            as_psync("vsync"),
            as_psync("pvsync"),
            as_psync("pvsync2"),
        ]),
        fio: |w| Some(if w.ioengine == IoEngine::Psync { "psync" } else { "io_uring" }.to_owned()), ..OPTION
    },
    WorkloadOption {
        name: "cpus_allowed", default: same("any"), real_only: true,
        doc: "CPUs for the jobs' threads, taken in turn, for example 0-3,6",
        kind: Kind::Cpus { set: |d, cpus| d.workload.engine.cpus_allowed = cpus },
        fio: |w| {
            let cpus: Vec<String> = w.engine.cpus_allowed.iter().map(u32::to_string).collect();
            Some(cpus.join(",")).filter(|cpus| !cpus.is_empty())
        },
        ..OPTION
    },
    WorkloadOption {
        name: "nice", default: same("unchanged"), real_only: true, doc: "Nice value of the jobs' threads",
        kind: whole(-20, 19, |d, nice| d.workload.engine.nice = Some(nice as i32)),
        fio: |w| w.engine.nice.map(|nice| nice.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "iomem", aliases: &["mem"], default: same("malloc"), real_only: true, doc: "Memory of the buffers",
        kind: Kind::Choice(&[
            word("malloc", "pages as usual", |d| d.workload.engine.huge_pages = false),
            word("mmap", "", |d| d.workload.engine.huge_pages = false),
            word("mmaphuge", "huge pages, where the host has them", |d| d.workload.engine.huge_pages = true),
        ]),
        fio: |w| w.engine.huge_pages.then(|| "mmaphuge".to_owned()), ..OPTION
    },
    WorkloadOption {
        // No option of fio's.
        name: "huge_pages", absent: &[Experiment, JobFile], stands_for: Some("iomem"), doc: "Buffers in huge pages",
        kind: switch(|d, on| d.workload.engine.huge_pages = on), ..OPTION
    },
    WorkloadOption {
        name: "hipri", default: OFF, real_only: true,
        doc: "Polled completions; needs a driver with polling queues and O_DIRECT",
        kind: switch(|d, on| d.workload.engine.hipri = on),
        unused: &[
            no_ring(|d| d.workload.engine.hipri && d.workload.ioengine == IoEngine::Psync),
            unused("the page cache is not polled", Some(("direct", "1")), Refused::Everywhere,
                |d| d.workload.engine.hipri && !d.workload.direct),
        ],
        fio: |w| on(w.engine.hipri), ..OPTION
    },
    WorkloadOption {
        name: "sqthread_poll", default: OFF, real_only: true, doc: "A kernel thread submits",
        kind: switch(|d, on| d.workload.engine.sqthread_poll = on),
        unused: &[no_ring(|d| d.workload.engine.sqthread_poll && d.workload.ioengine == IoEngine::Psync)],
        fio: |w| on(w.engine.sqthread_poll), ..OPTION
    },
];

/// The options that describe `workload`, with fio's names and its units, as fio's JSON lists them: always those that
/// readers look for (rw, bs, iodepth, numjobs, direct, ioengine), of the rest those that are not at their default.
/// Limits count over all jobs here.
pub fn said(workload: &Workload) -> Vec<(String, String)> {
    let name = ("name".to_owned(), workload.name.clone());
    let say = |option: &WorkloadOption| Some((option.name.to_owned(), (option.fio)(workload)?));
    std::iter::once(name).chain(OPTIONS.iter().filter_map(say)).collect()
}
