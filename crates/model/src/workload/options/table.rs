//! The table of the options, in the order in which they are listed.

use super::{Draft, Grammar, Kind, Refused, Unused, Usual, Word, WorkloadOption};
use crate::units::{Bytes, Nanos};
use crate::workload::{Access, Arrival, IoEngine, Mix, Stop, Workload};
use Grammar::{Experiment, JobFile};

/// What an option is that says nothing more.
const OPTION: WorkloadOption = WorkloadOption {
    name: "",
    key: None,
    aliases: &[],
    absent: &[],
    stands_for: None,
    kind: Kind::Choice(&[]),
    default: Usual::Same("none"),
    doc: "",
    remark: "",
    unused: &[],
    real_only: false,
    fio: |_| None,
};

/// fio's unit of a bare time, and of most times.
const SECOND: Nanos = Nanos::from_secs(1);
/// fio's unit of a bare thinktime.
const MICROSECOND: Nanos = Nanos(1_000);
/// Operations in flight, jobs and loops beyond which it is a mistake.
const MANY: u32 = 4096;
/// One operation beyond which it is a mistake.
const BS_MOST: Bytes = Bytes(Bytes::GIB);

const MIXED: Mix = Mix::Mixed { read_percent: 50 };

const fn word(name: &'static str, doc: &'static str, set: fn(&mut Draft)) -> Word {
    Word { name, doc, runs_as: None, set }
}

const fn runs_as(name: &'static str, as_: &'static str, set: fn(&mut Draft)) -> Word {
    Word { name, doc: "fio's", runs_as: Some(as_), set }
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

const UNMIXED: &[Unused] = &[Unused {
    when: |d| !matches!(d.workload.mix, Mix::Mixed { .. }),
    why: "reads and writes are not mixed",
    with: Some(("rw", "randrw")),
    refused: Refused::NotInJobFiles,
}];

const NO_RING: Unused = Unused {
    when: |d| d.workload.ioengine == IoEngine::Psync,
    why: "psync has no ring",
    with: Some(("ioengine", "io_uring")),
    refused: Refused::Everywhere,
};

const fn reads_only(when: fn(&Draft) -> bool) -> Unused {
    let why = "nothing is written";
    Unused { when, why, with: Some(("rw", "randwrite")), refused: Refused::NotInJobFiles }
}

/// The option called `name` in the table; one without a name where there is none, which a test rules out.
pub fn named(name: &str) -> &'static WorkloadOption {
    const NONE: &WorkloadOption = &OPTION;
    OPTIONS.iter().find(|option| option.name == name).unwrap_or(NONE)
}

/// Every option of a workload.
pub static OPTIONS: &[WorkloadOption] = &[
    WorkloadOption {
        name: "rw",
        aliases: &["readwrite"],
        kind: Kind::Choice(&[
            word("read", "sequential reads", |d| order(d, Access::Sequential, Mix::Read)),
            word("write", "sequential writes", |d| order(d, Access::Sequential, Mix::Write)),
            word("randread", "random reads", |d| order(d, Access::Random, Mix::Read)),
            word("randwrite", "random writes", |d| order(d, Access::Random, Mix::Write)),
            word("rw", "sequential, reads and writes mixed", |d| order(d, Access::Sequential, MIXED)),
            word("readwrite", "", |d| order(d, Access::Sequential, MIXED)),
            word("randrw", "random, reads and writes mixed", |d| order(d, Access::Random, MIXED)),
            word("rewrite", "each block is read, then written in place", |d| {
                order(d, Access::Sequential, Mix::Rewrite);
            }),
        ]),
        default: Usual::Each(["none, it is required", "read", "read"]),
        doc: "What is done in which order",
        fio: |w| {
            let word = match (w.access, w.mix) {
                (Access::Sequential, Mix::Read) => "read",
                (Access::Sequential, Mix::Write) => "write",
                (Access::Sequential, Mix::Mixed { .. }) => "rw",
                (Access::Random, Mix::Read) => "randread",
                (Access::Random, Mix::Write) => "randwrite",
                (Access::Random, Mix::Mixed { .. }) => "randrw",
                (_, Mix::Rewrite) => "rewrite",
            };
            Some(word.to_owned())
        },
        ..OPTION
    },
    WorkloadOption {
        name: "rwmixread",
        kind: Kind::Count { least: 0, most: 100, set: |d, percent| d.read_percent = percent as u8 },
        default: Usual::Same("50"),
        doc: "rw and randrw: share of reads in percent",
        unused: UNMIXED,
        fio: |w| match w.mix {
            Mix::Mixed { read_percent } => Some(read_percent.to_string()),
            _ => None,
        },
        ..OPTION
    },
    WorkloadOption {
        name: "rwmixwrite",
        absent: &[Experiment],
        stands_for: Some("rwmixread"),
        remark: ", the share of reads in percent",
        kind: Kind::Count { least: 0, most: 100, set: |d, percent| d.read_percent = 100 - percent as u8 },
        doc: "rw and randrw: share of writes in percent",
        unused: UNMIXED,
        ..OPTION
    },
    WorkloadOption {
        name: "bs",
        aliases: &["blocksize", "bsrange"],
        kind: Kind::Size { least: Bytes(1), most: BS_MOST, set: |d, bs| d.workload.bs = bs },
        default: Usual::Same("4k"),
        doc: "Bytes of one operation, a multiple of 512 with O_DIRECT",
        fio: |w| Some(w.bs.0.to_string()),
        ..OPTION
    },
    WorkloadOption {
        name: "iodepth",
        kind: Kind::Count { least: 1, most: MANY, set: |d, depth| d.workload.iodepth = depth },
        default: Usual::Same("1"),
        doc: "Operations in flight per job",
        unused: &[Unused {
            when: |d| d.workload.iodepth > 1 && d.workload.ioengine == IoEngine::Psync,
            why: "psync has one operation in flight per job; more jobs keep more",
            with: Some(("numjobs", "")),
            refused: Refused::InExperiments,
        }],
        fio: |w| Some(w.iodepth.to_string()),
        ..OPTION
    },
    WorkloadOption {
        name: "numjobs",
        kind: Kind::Count { least: 1, most: MANY, set: |d, jobs| d.workload.numjobs = jobs },
        default: Usual::Same("1"),
        doc: "Jobs, each a thread",
        fio: |w| Some(w.numjobs.to_string()),
        ..OPTION
    },
    WorkloadOption {
        name: "runtime",
        aliases: &["timeout"],
        kind: Kind::Time { least: Nanos(1), bare: SECOND, set: |d, time| d.runtime = Some(time) },
        default: Usual::Each([
            "what size says",
            "10s, or until --size or --io_size is done",
            "what size says",
        ]),
        doc: "Measured time",
        fio: |w| match w.stop {
            Stop::Runtime(runtime) => seconds(runtime),
            Stop::Size(_) => w.details.time_limit.and_then(seconds),
        },
        ..OPTION
    },
    WorkloadOption {
        name: "time_based",
        absent: &[Experiment],

        kind: switch(|d, on| d.time_based = on),
        default: Usual::Each(["", "1", "0"]),
        doc: "The runtime is kept in full; on the command line it always is",
        unused: &[Unused {
            when: |d| d.time_based && d.runtime.is_none(),
            why: "there is no runtime",
            with: Some(("runtime", "10s")),
            refused: Refused::NotInJobFiles,
        }],
        fio: |w| on(matches!(w.stop, Stop::Runtime(_))),
        ..OPTION
    },
    WorkloadOption {
        name: "size",
        key: Some("span"),
        aliases: &["filesize"],
        kind: Kind::Amount { least: Bytes(1), set: |d, size| d.region = Some(size) },
        default: Usual::Same("all"),
        doc: "Bytes of the target that are used",
        fio: |w| {
            let moved = if let Stop::Size(size) = w.stop { Some(size) } else { None };
            w.span.or(moved).map(|size| size.0.to_string())
        },
        ..OPTION
    },
    WorkloadOption {
        name: "io_size",
        key: Some("size"),
        aliases: &["io_limit"],
        kind: Kind::Amount { least: Bytes(1), set: |d, moved| d.moved = Some(moved) },
        default: Usual::Each(["what runtime says", "all of --size", "all of size"]),
        doc: "Bytes after which it ends, over all jobs",
        fio: |w| match w.stop {
            Stop::Size(size) if w.span.is_some_and(|span| span != size) => Some(size.0.to_string()),
            _ => None,
        },
        ..OPTION
    },
    WorkloadOption {
        name: "loops",
        kind: Kind::Count { least: 1, most: MANY, set: |d, loops| d.loops = loops },
        default: Usual::Same("1"),
        doc: "How many times its bytes are read or written",
        unused: &[Unused {
            when: |d| d.loops > 1 && d.ends_by_time(),
            why: "a time ends it, and no number of bytes",
            with: None,
            refused: Refused::NotInJobFiles,
        }],
        ..OPTION
    },
    WorkloadOption {
        name: "offset",
        // The part of an array that is used begins at its start, where designs of all sizes have one.
        absent: &[Experiment],
        kind: Kind::Amount { least: Bytes(0), set: |d, offset| d.offset = offset },
        default: Usual::Same("0"),
        doc: "Where the used part of the target begins",
        fio: |w| Some(w.details.offset.0).filter(|offset| *offset > 0).map(|offset| offset.to_string()),
        ..OPTION
    },
    WorkloadOption {
        name: "ramp_time",
        kind: Kind::Time { least: Nanos(0), bare: SECOND, set: |d, time| d.workload.warm_up = time },
        default: Usual::Same("0s"),
        doc: "Time before the measurement that is run but not counted",
        fio: |w| seconds(w.warm_up),
        ..OPTION
    },
    WorkloadOption {
        name: "direct",
        kind: Kind::Switch { alone: false, words: &[], set: |d, on| d.workload.direct = on },
        default: Usual::Each(["true", "1", "0"]),
        doc: "O_DIRECT; without it I/O goes through the page cache",
        fio: |w| Some(u8::from(w.direct).to_string()),
        ..OPTION
    },
    WorkloadOption {
        name: "buffered",
        absent: &[Experiment],
        stands_for: Some("direct"),
        remark: ": `buffered = true` is `direct = false`",
        kind: switch(|d, on| d.workload.direct = !on),
        doc: "The opposite of direct",
        ..OPTION
    },
    WorkloadOption {
        name: "sync",
        kind: Kind::Switch {
            alone: true,
            words: &[("none", false), ("sync", true)],
            set: |d, on| d.workload.sync = on,
        },
        default: Usual::Each(["false", "0", "0"]),
        doc: "O_SYNC on every write",
        fio: |w| on(w.sync),
        ..OPTION
    },
    WorkloadOption {
        name: "fsync",
        // The simulator has none: a comparison there would leave it out without a word.
        absent: &[Experiment],
        kind: Kind::Count {
            least: 0,
            most: u32::MAX,
            set: |d, every| d.workload.details.fsync_every = Some(every).filter(|every| *every > 0),
        },
        default: Usual::Same("0, never"),
        doc: "Every job calls fsync after so many writes, as one of its operations in flight",
        unused: &[reads_only(|d| d.workload.details.fsync_every.is_some() && !d.workload.writes())],
        real_only: true,
        fio: |w| w.details.fsync_every.map(|every| every.to_string()),
        ..OPTION
    },
    WorkloadOption {
        name: "fdatasync",
        absent: &[Experiment],
        kind: Kind::Count {
            least: 0,
            most: u32::MAX,
            set: |d, every| d.workload.details.fdatasync_every = Some(every).filter(|every| *every > 0),
        },
        default: Usual::Same("0, never"),
        doc: "The same with fdatasync",
        unused: &[reads_only(|d| d.workload.details.fdatasync_every.is_some() && !d.workload.writes())],
        real_only: true,
        fio: |w| w.details.fdatasync_every.map(|every| every.to_string()),
        ..OPTION
    },
    WorkloadOption {
        name: "end_fsync",
        kind: switch(|d, on| d.workload.end_fsync = on),
        default: Usual::Each(["false", "0", "0"]),
        doc: "One fsync at the end, counted in the elapsed time",
        fio: |w| on(w.end_fsync),
        ..OPTION
    },
    WorkloadOption {
        name: "rate",
        kind: Kind::Throughput { set: |d, rate| d.workload.rate = Some(rate) },
        doc: "At most so many bytes per second, over all jobs",
        fio: |w| w.rate.map(|rate| rate.0.to_string()),
        ..OPTION
    },
    WorkloadOption {
        name: "rate_iops",
        kind: Kind::Iops { set: |d, iops| d.iops = Some(iops) },
        doc: "Open loop: so many operations per second arrive over all jobs, whether or not \
              earlier ones have completed; latency counts from the intended start",
        fio: |w| match w.arrival {
            Arrival::Closed => None,
            Arrival::Fixed { iops } | Arrival::Poisson { iops } => Some(iops.to_string()),
        },
        ..OPTION
    },
    WorkloadOption {
        name: "rate_process",
        kind: Kind::Choice(&[
            word("linear", "at equal distances", |d| d.poisson = false),
            word("poisson", "at exponential distances", |d| d.poisson = true),
        ]),
        default: Usual::Same("linear"),
        doc: "With rate_iops: how operations arrive",
        unused: &[Unused {
            when: |d| d.iops.is_none(),
            why: "operations arrive on their own only at a rate_iops",
            with: Some(("rate_iops", "1000")),
            refused: Refused::NotInJobFiles,
        }],
        fio: |w| match w.arrival {
            Arrival::Closed => None,
            Arrival::Fixed { .. } => Some("linear".to_owned()),
            Arrival::Poisson { .. } => Some("poisson".to_owned()),
        },
        ..OPTION
    },
    WorkloadOption {
        name: "thinktime",
        aliases: &["think_time"],
        kind: Kind::Time { least: Nanos(0), bare: MICROSECOND, set: |d, time| d.workload.think_time = time },
        default: Usual::Same("0s"),
        doc: "Pause of a job after each of its operations, of which it has one in flight then, whatever iodepth says",
        // Microseconds.
        fio: |w| Some(w.think_time.0).filter(|ns| *ns > 0).map(|ns| (ns as f64 / 1e3).to_string()),
        ..OPTION
    },
    WorkloadOption {
        name: "ioengine",
        kind: Kind::Choice(&[
            word("io_uring", "a ring per job", |d| d.workload.ioengine = IoEngine::IoUring),
            runs_as("libaio", "io_uring", |d| d.workload.ioengine = IoEngine::IoUring),
            runs_as("posixaio", "io_uring", |d| d.workload.ioengine = IoEngine::IoUring),
            word("psync", "pread and pwrite, one operation in flight per job", |d| {
                d.workload.ioengine = IoEngine::Psync;
            }),
            runs_as("sync", "psync", |d| d.workload.ioengine = IoEngine::Psync),
            runs_as("vsync", "psync", |d| d.workload.ioengine = IoEngine::Psync),
            runs_as("pvsync", "psync", |d| d.workload.ioengine = IoEngine::Psync),
            runs_as("pvsync2", "psync", |d| d.workload.ioengine = IoEngine::Psync),
        ]),
        default: Usual::Each(["io_uring", "io_uring", "psync"]),
        doc: "How the kernel is asked",
        fio: |w| {
            let word = match w.ioengine {
                IoEngine::IoUring => "io_uring",
                IoEngine::Psync => "psync",
            };
            Some(word.to_owned())
        },
        ..OPTION
    },
    WorkloadOption {
        name: "cpus_allowed",
        kind: Kind::Cpus { set: |d, cpus| d.workload.engine.cpus_allowed = cpus },
        default: Usual::Same("any"),
        doc: "CPUs for the jobs' threads, taken in turn, for example 0-3,6",
        real_only: true,
        fio: |w| {
            let cpus: Vec<String> = w.engine.cpus_allowed.iter().map(u32::to_string).collect();
            Some(cpus.join(",")).filter(|cpus| !cpus.is_empty())
        },
        ..OPTION
    },
    WorkloadOption {
        name: "nice",
        kind: Kind::Integer { least: -20, most: 19, set: |d, nice| d.workload.engine.nice = Some(nice) },
        default: Usual::Same("unchanged"),
        doc: "Nice value of the jobs' threads",
        real_only: true,
        fio: |w| w.engine.nice.map(|nice| nice.to_string()),
        ..OPTION
    },
    WorkloadOption {
        name: "iomem",
        aliases: &["mem"],
        kind: Kind::Choice(&[
            word("malloc", "pages as usual", |d| d.workload.engine.huge_pages = false),
            word("mmap", "", |d| d.workload.engine.huge_pages = false),
            word("mmaphuge", "huge pages, where the host has them", |d| d.workload.engine.huge_pages = true),
        ]),
        default: Usual::Same("malloc"),
        doc: "Memory of the buffers",
        real_only: true,
        fio: |w| w.engine.huge_pages.then(|| "mmaphuge".to_owned()),
        ..OPTION
    },
    WorkloadOption {
        name: "huge_pages",
        // No option of fio's.
        absent: &[Experiment, JobFile],
        stands_for: Some("iomem"),
        kind: switch(|d, on| d.workload.engine.huge_pages = on),
        doc: "Buffers in huge pages",
        ..OPTION
    },
    WorkloadOption {
        name: "hipri",
        kind: switch(|d, on| d.workload.engine.hipri = on),
        default: Usual::Each(["false", "0", "0"]),
        doc: "Polled completions; needs a driver with polling queues and O_DIRECT",
        unused: &[
            Unused { when: |d| d.workload.engine.hipri && (NO_RING.when)(d), ..NO_RING },
            Unused {
                when: |d| d.workload.engine.hipri && !d.workload.direct,
                why: "the page cache is not polled",
                with: Some(("direct", "1")),
                refused: Refused::Everywhere,
            },
        ],
        real_only: true,
        fio: |w| on(w.engine.hipri),
        ..OPTION
    },
    WorkloadOption {
        name: "sqthread_poll",
        kind: switch(|d, on| d.workload.engine.sqthread_poll = on),
        default: Usual::Each(["false", "0", "0"]),
        doc: "A kernel thread submits",
        unused: &[Unused { when: |d| d.workload.engine.sqthread_poll && (NO_RING.when)(d), ..NO_RING }],
        real_only: true,
        fio: |w| on(w.engine.sqthread_poll),
        ..OPTION
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
