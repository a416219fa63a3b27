//! The table of the options, in the order in which they are listed.

use super::Grammar::{Command, Experiment, JobFile};
use super::{After, Amount, Draft, Kind, Refused, Simulated, Unused, Word, WorkloadOption};
use crate::units::{Bytes, Nanos};
use crate::workload::{
    Access, Arrival, ContinueOnError, Criterion, Distribution, IoEngine, Mix, Sequence, Sizes, Split, Stop,
    TextError, Workload,
};

/// What an option is that says nothing more.
const OPTION: WorkloadOption = WorkloadOption {
    name: "",
    key: None,
    aliases: &[],
    absent: &[],
    stands_for: None,
    remark: "",
    kind: Kind::Choice(&[]),
    after: None,
    default: same("none"),
    doc: "",
    unused: &[],
    simulated: Simulated::Yes,
    fio: |_| None,
};

/// fio's unit of a bare time, and of most times.
const SECOND: Nanos = Nanos::from_secs(1);
/// fio's unit of a bare thinktime.
const MICROSECOND: Nanos = Nanos(1_000);
/// fio's unit of a bare rate_cycle.
const MILLISECOND: Nanos = Nanos(1_000_000);
/// Operations in flight, jobs and loops beyond which it is a mistake.
const MANY: i64 = 4096;
/// Writes between two fsync beyond which there is none.
const RARELY: i64 = u32::MAX as i64;
/// Bytes between one operation and the next beyond which it is a mistake.
const MOST_BETWEEN: i64 = 1 << 40;
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
    draft.workload.details.sequence = Sequence::Plain;
}

/// `text` after the word of an order and a colon.
fn sequence(draft: &mut Draft, text: &str, size: Sizes<'_>) -> Result<(), TextError> {
    let wrong = |range| TextError::OutOfRange { text: text.to_owned(), range };
    draft.workload.details.sequence = if draft.workload.access == Access::Random {
        let length = text.parse().ok().filter(|length| (2..=RARELY).contains(&i64::from(*length)));
        let length = length.ok_or_else(|| wrong("of operations from 2 on"))?;
        Sequence::Runs { length, identical: false }
    } else {
        let (digits, sign) = text.strip_prefix('-').map_or((text, 1), |digits| (digits, -1));
        let bytes = i64::try_from(size(digits)?.0).ok().filter(|bytes| (1..=MOST_BETWEEN).contains(bytes));
        let bytes = bytes.ok_or_else(|| wrong("of bytes up to 1TiB, forwards or backwards"))?;
        Sequence::Holes(sign * bytes)
    };
    Ok(())
}

/// The same as fio writes it.
fn sequence_of(workload: &Workload) -> String {
    match workload.details.sequence {
        Sequence::Plain => String::new(),
        Sequence::Holes(bytes) => format!(":{bytes}"),
        Sequence::Runs { length, .. } => format!(":{length}"),
    }
}

fn io_uring(draft: &mut Draft) {
    draft.workload.ioengine = IoEngine::IoUring;
}

fn psync(draft: &mut Draft) {
    draft.workload.ioengine = IoEngine::Psync;
}

fn verified(draft: &mut Draft) {
    draft.workload.details.verify = true;
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

const fn unsteady(when: fn(&Draft) -> bool) -> Unused {
    unused("no steady state is waited for", Some(("steadystate", "iops:5%")), Refused::NotInJobFiles, when)
}

const fn searched(when: fn(&Draft) -> bool) -> Unused {
    unused("no load is looked for", Some(("latency_target", "500us")), Refused::NotInJobFiles, when)
}

const fn rewritten(when: fn(&Draft) -> bool) -> Unused {
    unused("what is written back is what was read", Some(("rw", "randwrite")), Refused::NotInJobFiles, when)
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
        doc: "Direction and order of operations",
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
        }.to_owned() + &sequence_of(w)),
        after: Some(After {
            shown: "[:MODIFIER]", example: "read:-8k", set: sequence,
            doc: "with `:8k` after a sequential one, the next begins so many bytes behind the end of the one before, with \
                  `:-8k` before it; with `:8` after a random one, every 8th has a new offset and the others follow it",
        }),
        ..OPTION
    },
    WorkloadOption {
        name: "rw_sequencer", default: same("sequential"),
        doc: "With rw=randread:N and the like: where the operations between two draws are",
        kind: Kind::Choice(&[
            word("sequential", "each begins where the one before it ends", |d| d.identical = false),
            word("identical", "all at the same offset", |d| d.identical = true),
        ]),
        unused: &[unused("every operation has an offset of its own", Some(("rw", "randread:8")), Refused::NotInJobFiles,
            |d| !matches!(d.workload.details.sequence, Sequence::Runs { .. }))],
        fio: |w| matches!(w.details.sequence, Sequence::Runs { identical: true, .. }).then(|| "identical".to_owned()),
        ..OPTION
    },
    WorkloadOption {
        name: "random_distribution", default: same("random"),
        doc: "How often random offsets come to each block: random (to all as often), zipf:THETA (to the k-th hottest in \
              proportion to 1/k^THETA), pareto:H (1-H of the operations to the hottest H of the blocks, and so on within), \
              normal:PERCENT (as fio's, PERCENT is the spread beside its own of a twelfth), \
              zoned:OPERATIONS/REGION:... (percentages, uniform within each zone)",
        kind: Kind::Text { value: "LAW", example: "zipf:1.2", set: |d, text, _| {
            d.workload.distribution = Distribution::parse(text)?;
            Ok(())
        } },
        unused: &[unused("offsets are not random", Some(("rw", "randread")), Refused::NotInJobFiles,
            |d| d.workload.access == Access::Sequential && !d.workload.distribution.is_uniform())],
        fio: |w| Some(w.distribution.to_string()).filter(|_| !w.distribution.is_uniform()), ..OPTION
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
        unused: &[unused("bssplit gives the sizes", None, Refused::NotInJobFiles, |d| d.workload.split.is_some())],
        fio: |w| Some(w.bs.0.to_string()).filter(|_| w.split.is_none()), ..OPTION
    },
    WorkloadOption {
        name: "bssplit", doc: "Operations of several sizes, with percentages (4k/60:64k/40; those left out share the rest); \
                               a list for reads and one for writes with a comma between",
        kind: Kind::Text { value: "SIZES", example: "4k/60:64k/40", set: |d, text, size| {
            d.workload.split = Some(Split::parse(text, size)?);
            Ok(())
        } },
        fio: |w| w.split.as_ref().map(Split::to_string), ..OPTION
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
            // The longest that a search takes follows from its depth and window: nobody asked for it.
            Stop::Runtime(runtime) => seconds(runtime).filter(|_| {
                w.conditions.latency.is_none_or(|latency| latency.longest(w.depth()) != runtime)
            }),
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
        unused: &[unused("latency_target ends it when the load is found", None, Refused::NotInJobFiles,
            |d| d.moved.is_some() && d.searches())],
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
        name: "offset", default: same("0"), doc: "Where the used part of the target begins",
        kind: Kind::Amount { least: Bytes(0), set: |d, offset| d.offset = offset },
        fio: |w| Some(w.details.offset.0).filter(|offset| *offset > 0).map(|offset| offset.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "offset_increment", absent: &[Experiment], default: same("0"),
        doc: "Each job begins so many bytes behind the one before it; the used part is then that of each",
        kind: Kind::Amount { least: Bytes(0), set: |d, step| d.step = step },
        unused: &[unused("there is one job", Some(("numjobs", "4")), Refused::NotInJobFiles,
            |d| d.step != Amount::Bytes(Bytes(0)) && d.workload.numjobs == 1)],
        fio: |w| Some(w.details.offset_increment.0).filter(|step| *step > 0).map(|step| step.to_string()), ..OPTION
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
        // The simulated cache of each trial is empty.
        name: "invalidate", default: ["true", "1", "1"], simulated: Simulated::No,
        doc: "Before a run through the page cache the target's cached pages are dropped; 0 keeps them",
        kind: Kind::Switch { alone: false, words: &[], set: |d, on| d.workload.details.keep_cache = !on },
        unused: &[unused("O_DIRECT does not read from the page cache", Some(("direct", "0")), Refused::NotInJobFiles,
            |d| d.workload.direct && d.workload.details.keep_cache)],
        fio: |w| w.details.keep_cache.then(|| "0".to_owned()), ..OPTION
    },
    WorkloadOption {
        name: "startdelay", default: same("0s"), simulated: Simulated::No,
        doc: "Time after which it begins; of jobs that run at the same time each has its own",
        kind: Kind::Time { least: Nanos(0), bare: SECOND, set: |d, time| d.workload.details.start_delay = time },
        fio: |w| seconds(w.details.start_delay), ..OPTION
    },
    WorkloadOption {
        name: "sync", default: OFF, doc: "O_SYNC on every write",
        kind: Kind::Switch { alone: true, words: &[("none", false), ("sync", true)], set: |d, on| d.workload.sync = on },
        fio: |w| on(w.sync), ..OPTION
    },
    WorkloadOption {
        name: "fsync", default: same("0, never"), simulated: Simulated::No,
        doc: "Every job calls fsync after so many writes, as one of its operations in flight",
        kind: whole(0, RARELY, |d, n| d.workload.details.fsync_every = Some(n as u32).filter(|n| *n > 0)),
        unused: &[reads_only(|d| d.workload.details.fsync_every.is_some() && !d.workload.writes())],
        fio: |w| w.details.fsync_every.map(|every| every.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "fdatasync", default: same("0, never"), simulated: Simulated::No,
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
        // No simulated volume looks at what it is given.
        name: "buffer_compress_percentage", default: same("0"), simulated: Simulated::No,
        doc: "Share in percent of what is written that compresses to nothing: zeros, at the end of every 512 bytes",
        kind: whole(0, 100, |d, percent| d.workload.details.compress_percent = percent as u8),
        unused: &[reads_only(|d| d.workload.details.compress_percent > 0 && !d.workload.writes()),
            rewritten(|d| d.workload.details.compress_percent > 0 && d.workload.mix == Mix::Rewrite)],
        fio: |w| Some(w.details.compress_percent).filter(|percent| *percent > 0).map(|percent| percent.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "refill_buffers", default: OFF, simulated: Simulated::No,
        doc: "Each write has content of its own; without it what a buffer writes again and again, some thousand pages, compresses and \
              deduplicates over a wide window (buffer_compress_percentage sets it)",
        kind: switch(|d, on| d.workload.details.refill = on),
        // fio's users commonly write it, whatever the load.
        unused: &[unused("nothing is written", Some(("rw", "randwrite")), Refused::InExperiments,
            |d| d.workload.details.refill && !d.workload.writes())],
        fio: |w| on(w.details.refill), ..OPTION
    },
    WorkloadOption {
        name: "dedupe_percentage", default: same("0"), simulated: Simulated::No,
        doc: "Share in percent of the writes whose content was written before",
        kind: whole(0, 100, |d, percent| d.workload.details.dedupe_percent = percent as u8),
        unused: &[reads_only(|d| d.workload.details.dedupe_percent > 0 && !d.workload.writes()),
            rewritten(|d| d.workload.details.dedupe_percent > 0 && d.workload.mix == Mix::Rewrite)],
        fio: |w| Some(w.details.dedupe_percent).filter(|percent| *percent > 0).map(|percent| percent.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "rate", doc: "At most so many bytes per second, over all jobs",
        kind: Kind::Throughput { set: |d, rate| d.workload.rate = Some(rate) },
        fio: |w| w.rate.map(|rate| rate.0.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "rate_iops", kind: Kind::Number { most: f64::MAX, range: "more than 0 operations per second", example: "1000", set: |d, iops| d.iops = Some(iops) },
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
        name: "rate_min", aliases: &["ratemin"], simulated: Simulated::No,
        doc: "It fails when fewer bytes per second are read and written, over all jobs",
        kind: Kind::Throughput { set: |d, rate| d.floor.throughput = Some(rate) },
        fio: |w| w.conditions.floor?.throughput.map(|rate| rate.0.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "rate_iops_min", simulated: Simulated::No,
        doc: "It fails when fewer operations per second are done, over all jobs",
        kind: Kind::Number { most: f64::MAX, range: "more than 0 operations per second", example: "1000", set: |d, iops| d.floor.iops = Some(iops) },
        fio: |w| w.conditions.floor?.iops.map(|iops| iops.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "rate_cycle", aliases: &["ratecycle"], default: same("1s"), simulated: Simulated::No,
        doc: "Time over which rate_min and rate_iops_min are averaged",
        kind: Kind::Time { least: Nanos(1), bare: MILLISECOND, set: |d, time| d.floor.cycle = time },
        unused: &[unused("no rate is asked for at least", Some(("rate_iops_min", "1000")), Refused::NotInJobFiles,
            |d| !d.has_floor())],
        fio: |w| w.conditions.floor.map(|floor| (floor.cycle.0 / 1_000_000).to_string()), ..OPTION
    },
    WorkloadOption {
        name: "continue_on_error", default: same("none"), simulated: Simulated::No,
        doc: "What may fail without ending it, where a device says so of one operation; it is counted, is in no other figure, and \
              the exit status is 1",
        kind: Kind::Choice(&[
            word("none", "the first error ends it", |d| d.workload.conditions.go_on = ContinueOnError { read: false, write: false }),
            word("read", "reads", |d| d.workload.conditions.go_on = ContinueOnError { read: true, write: false }),
            word("write", "writes", |d| d.workload.conditions.go_on = ContinueOnError { read: false, write: true }),
            word("io", "both", |d| d.workload.conditions.go_on = ContinueOnError { read: true, write: true }),
            word("all", "both, of which nothing is verified", |d| d.workload.conditions.go_on = ContinueOnError { read: true, write: true }),
            word("0", "", |d| d.workload.conditions.go_on = ContinueOnError { read: false, write: false }),
            word("1", "", |d| d.workload.conditions.go_on = ContinueOnError { read: true, write: true }),
        ]),
        unused: &[reads_only(|d| d.workload.conditions.go_on == ContinueOnError { read: false, write: true } && !d.workload.writes()),
            unused("nothing is read", Some(("rw", "randread")), Refused::NotInJobFiles,
                |d| d.workload.conditions.go_on == ContinueOnError { read: true, write: false } && !d.workload.reads())],
        fio: |w| w.conditions.go_on.name().map(str::to_owned), ..OPTION
    },
    WorkloadOption {
        // On the command line and in job files it is a run with a ledger, which is no measurement.
        name: "verify", absent: &[Command, JobFile], default: same("none"), simulated: Simulated::No,
        doc: "After a trial what it wrote is read back, every copy of it, and compared; a difference fails the trial",
        kind: Kind::Choice(&[
            word("none", "not", |d| d.workload.details.verify = false),
            word("crc32c", "all bytes, and that they are where they belong; fio's other checksums are taken for it",
                verified),
            word("crc32c_intel", "", verified), word("crc32", "", verified), word("crc64", "", verified), word("crc16", "", verified),
            word("crc7", "", verified), word("md5", "", verified), word("sha1", "", verified), word("sha256", "", verified),
            word("sha512", "", verified), word("xxhash", "", verified), word("meta", "", verified),
        ]),
        unused: &[reads_only(|d| d.workload.details.verify && !d.workload.writes())],
        fio: |w| w.details.verify.then(|| "crc32c".to_owned()), ..OPTION
    },
    WorkloadOption {
        name: "steadystate", aliases: &["ss"], simulated: Simulated::No,
        doc: "It ends when it is steady: iops:LIMIT, bw:LIMIT or lat:LIMIT (each measurement that near to their mean), iops_slope:LIMIT \
              and so on (their line rises or falls by less from one to the next); a limit in percent of the mean (5%), or in \
              operations or bytes per second, or microseconds",
        kind: Kind::Text { value: "CRITERION:LIMIT", example: "iops_slope:0.3%", set: |d, text, size| {
            d.steady.criterion = Some(Criterion::parse(text, size)?);
            Ok(())
        } },
        fio: |w| w.conditions.steady.map(|steady| steady.criterion.in_fios_words()), ..OPTION
    },
    WorkloadOption {
        name: "steadystate_duration", aliases: &["ss_dur"], simulated: Simulated::No,
        doc: "With steadystate: length of the window that is judged", default: same("none, it is required"),
        kind: Kind::Time { least: Nanos(1), bare: SECOND, set: |d, time| d.steady.window = time },
        unused: &[unsteady(|d| d.steady.criterion.is_none())],
        fio: |w| seconds(w.conditions.steady?.window), ..OPTION
    },
    WorkloadOption {
        name: "steadystate_ramp_time", aliases: &["ss_ramp"], simulated: Simulated::No,
        doc: "With steadystate: time before the first measurement that counts", default: same("0s"),
        kind: Kind::Time { least: Nanos(0), bare: SECOND, set: |d, time| d.steady.ramp = time },
        unused: &[unsteady(|d| d.steady.criterion.is_none())],
        fio: |w| seconds(w.conditions.steady?.ramp), ..OPTION
    },
    WorkloadOption {
        name: "steadystate_check_interval", aliases: &["ss_interval"], simulated: Simulated::No,
        doc: "With steadystate: what one measurement takes", default: same("1s"),
        kind: Kind::Time { least: Nanos(1), bare: SECOND, set: |d, time| d.steady.interval = time },
        unused: &[unsteady(|d| d.steady.criterion.is_none())],
        fio: |w| seconds(w.conditions.steady?.interval), ..OPTION
    },
    WorkloadOption {
        name: "io_submit_mode", default: same("inline"),
        doc: "Who submits; with rate_iops operations arrive on their own in either case, and latency counts from their arrival",
        kind: Kind::Choice(&[
            word("inline", "each job", |d| d.offload = false),
            word("offload", "with rate_iops the same, which is what it is for", |d| d.offload = true),
        ]),
        unused: &[unused("nothing arrives on its own without a rate_iops", Some(("rate_iops", "1000")), Refused::NotInJobFiles,
            |d| d.offload && d.iops.is_none())],
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
        name: "latency_target",
        doc: "The most load that keeps this latency is looked for: iodepth is doubled from 1 and halved in between, up to what it \
              is set to",
        kind: Kind::Time { least: Nanos(1), bare: MICROSECOND, set: |d, time| d.latency.target = time },
        fio: |w| w.conditions.latency.map(|latency| (latency.target.0 as f64 / 1e3).to_string()), ..OPTION
    },
    WorkloadOption {
        name: "latency_window", default: same("1s"),
        doc: "With latency_target: how long each iodepth is tried",
        kind: Kind::Time { least: Nanos(1), bare: MICROSECOND, set: |d, time| d.latency.window = time },
        unused: &[searched(|d| !d.searches())],
        fio: |w| w.conditions.latency.map(|latency| (latency.window.0 as f64 / 1e3).to_string()), ..OPTION
    },
    WorkloadOption {
        name: "latency_percentile", default: same("100"),
        doc: "With latency_target: percentage of the operations that have to keep it",
        kind: Kind::Number { most: 100.0, range: "a percentage above 0 and up to 100", example: "99.9",
            set: |d, percent| d.latency.percentile = percent },
        unused: &[searched(|d| !d.searches())],
        fio: |w| w.conditions.latency.map(|latency| latency.percentile.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "latency_run", default: OFF,
        doc: "With latency_target: the rest of the runtime is run at the iodepth that was found",
        kind: switch(|d, on| d.latency.run = on),
        unused: &[searched(|d| d.latency.run && !d.searches()),
            unused("no runtime says how long", Some(("runtime", "60s")), Refused::NotInJobFiles,
                |d| d.latency.run && d.runtime.is_none())],
        fio: |w| on(w.conditions.latency.is_some_and(|latency| latency.run)), ..OPTION
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
        name: "cpus_allowed", default: same("any"), simulated: Simulated::Ignored,
        doc: "CPUs for the jobs' threads, taken in turn, for example 0-3,6",
        kind: Kind::Cpus { set: |d, cpus| d.workload.engine.cpus_allowed = cpus },
        fio: |w| {
            let cpus: Vec<String> = w.engine.cpus_allowed.iter().map(u32::to_string).collect();
            Some(cpus.join(",")).filter(|cpus| !cpus.is_empty())
        },
        ..OPTION
    },
    WorkloadOption {
        name: "nice", default: same("unchanged"), simulated: Simulated::Ignored, doc: "Nice value of the jobs' threads",
        kind: whole(-20, 19, |d, nice| d.workload.engine.nice = Some(nice as i32)),
        fio: |w| w.engine.nice.map(|nice| nice.to_string()), ..OPTION
    },
    WorkloadOption {
        name: "iomem", aliases: &["mem"], default: same("malloc"), simulated: Simulated::Ignored, doc: "Memory of the buffers",
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
        name: "hipri", default: OFF, simulated: Simulated::Ignored,
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
        name: "sqthread_poll", default: OFF, simulated: Simulated::Ignored, doc: "A kernel thread submits",
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
