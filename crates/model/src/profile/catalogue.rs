//! The profiles that come with the program.

use super::course::Course;
use super::seek::Seek;
use super::{DIRECT_UNIT, Files, ProfileRequest, Step};
use crate::units::{Bytes, Nanos, format_count};
use crate::workload::{Access, Details, IoEngine, Mix, Regions, Sequence, Stop, Workload};

/// A named workload: what it imitates, and the jobs that do so.
#[derive(Debug)]
pub struct Profile {
    /// What stands behind `ebb bench --profile`.
    pub name: &'static str,
    /// The load that it imitates, in words.
    pub imitates: &'static str,
    /// Where it differs from that.
    pub differs: &'static str,
    /// Whether any of its jobs writes.
    pub writes: bool,
    /// Whether [`ProfileRequest::size`] means something to it.
    pub takes_size: bool,
    /// Whether [`ProfileRequest::runtime`] means something to it.
    pub takes_runtime: bool,
    /// Whether its size comes from the host's memory when nobody says it.
    pub sized_by_memory: bool,
    /// Makes its files and its course for a request.
    make: fn(&ProfileRequest) -> (Vec<Files>, Course),
}

impl Profile {
    /// The profile called `name`.
    pub fn get(name: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// The files that it needs and the course of its jobs.
    pub fn course(&self, request: &ProfileRequest) -> (Vec<Files>, Course) {
        (self.make)(request)
    }
}

/// Every profile that there is, in the order in which they are listed.
pub static PROFILES: &[Profile] = &[
    Profile {
        name: "dd",
        imitates: "dd with bs=1M and oflag=direct, then iflag=direct: one sequential stream, one operation at a time; then \
                   both through the page cache, with conv=fsync",
        differs: "the file is allocated before it is written; written data is random, as from no dd if=/dev/zero, so that \
                  nothing below can compress it; the page cache is dropped before each read",
        writes: true,
        takes_size: true,
        takes_runtime: false,
        sized_by_memory: false,
        make: dd,
    },
    Profile {
        name: "bonnie",
        imitates: "bonnie++ without its per-character and file-creation tests (-f -n 0): sequential write with fsync, \
                   rewrite, sequential read, 8192 random seeks by 5 processes, 8 KiB blocks through the page cache, a file \
                   of twice the memory",
        differs: "one file instead of one per GiB, allocated before; written data is random; the page cache is dropped \
                  between the tests; the 10% of seeks that write do so at a random place of their own instead of where \
                  they have just read; seekers are threads",
        writes: true,
        takes_size: true,
        takes_runtime: false,
        sized_by_memory: true,
        make: bonnie,
    },
    Profile {
        name: "efs",
        imitates: "famzah's test of Amazon EFS: 1, 8 and 20 processes, each with a file of its own, write and read a few \
                   bytes at offset 0 with O_DIRECT and O_SYNC, again and again: operations per second of a network file \
                   system",
        differs: "threads instead of processes; the file system is asked which sizes O_DIRECT takes: NFS takes 1 byte and 10 kB \
                  as they are; where whole blocks are needed they are done as the next multiple, and counted as such, as a note \
                  says: compare operations then, not bytes",
        writes: true,
        takes_size: false,
        takes_runtime: true,
        sized_by_memory: false,
        make: efs,
    },
    Profile {
        name: "seek",
        imitates: "lmbench's lat_mem_rd, on storage: one random 4 KiB read at a time over working sets, each four times \
                   the one before; where the median latency jumps, a cache was left behind",
        differs: "six passes over all sets, each in a random order, and a cache is named only where they agree; it ends at \
                  the size of the target; a cache larger than that, or one that needs longer to warm up than a \
                  step runs, is not seen",
        writes: false,
        takes_size: true,
        takes_runtime: true,
        sized_by_memory: false,
        make: seek,
    },
    Profile {
        name: "database",
        imitates: "an OLTP database: random 8 KiB pages (then 16 KiB), 70% reads, iodepth 16, while a log is written in \
                   small synchronous steps of 4 KiB",
        differs: "the log goes round in preallocated space, the last sixteenth of the target, as PostgreSQL's and InnoDB's do; no checkpoints, no double write; \
                  pages are uniform, a real database has hot ones",
        writes: true,
        takes_size: true,
        takes_runtime: true,
        sized_by_memory: false,
        make: database,
    },
    Profile {
        name: "ladder",
        imitates: "a queue depth sweep: random 4 KiB reads whose iodepth doubles until throughput no longer rises; the knee is \
                   the depth from which doubling brings less than 10%",
        differs: "one job: a host whose one core is the limit shows its own knee (the step's verdict in --json says cpu then)",
        writes: false,
        takes_size: true,
        takes_runtime: true,
        sized_by_memory: false,
        make: ladder,
    },
    Profile {
        name: "snia",
        imitates: "SNIA's PTS IOPS test at 4 KiB: the whole is written twice, then rounds of 100%, 65% and 0% reads until the \
                   writes of the last five rounds are steady (range 20%, slope 10%), at most 25 rounds",
        differs: "4 KiB and three mixes only; a step is 10 s instead of a minute (--runtime 1m for the specification's); no \
                  purge before it",
        writes: true,
        takes_size: true,
        takes_runtime: true,
        sized_by_memory: false,
        make: snia,
    },
];

/// A workload of this profile at its defaults: O_DIRECT, one job, one operation in flight.
fn workload(name: &str, access: Access, mix: Mix, bs: u64, stop: Stop) -> Workload {
    Workload { bs: Bytes(bs), ioengine: IoEngine::Psync, ..Workload::new(name, access, mix, stop) }
}

fn step(workload: Workload) -> Step {
    Step { name: workload.name.clone(), files: 0, workload, note: None }
}

fn one(size: Bytes, fill: bool) -> Vec<Files> {
    vec![Files { count: 1, size: whole(size), fill }]
}

fn whole(size: Bytes) -> Bytes {
    Bytes((size.0 / 4096).max(1) * 4096)
}

fn time(request: &ProfileRequest, seconds: u64) -> Stop {
    Stop::Runtime(request.runtime.unwrap_or(Nanos::from_secs(seconds)))
}

fn dd(request: &ProfileRequest) -> (Vec<Files>, Course) {
    let size = whole(request.size.unwrap_or(Bytes(Bytes::GIB)));
    let stop = Stop::Size(size);
    let bs = Bytes::MIB.min(size.0);
    let stream = |name, mix| workload(name, Access::Sequential, mix, bs, stop);
    let cached = |name, mix, end_fsync| Workload { direct: false, end_fsync, ..stream(name, mix) };
    let steps = [
        stream("write-direct", Mix::Write),
        stream("read-direct", Mix::Read),
        cached("write-fsync", Mix::Write, true),
        cached("read-cold", Mix::Read, false),
    ];
    (one(size, false), Course::List(steps.into_iter().map(|w| vec![step(w)]).collect()))
}

/// Chunk size of bonnie++ (bonnie++.h: `DefaultChunkSize`).
pub const BONNIE_CHUNK: u64 = 8192;
/// Random seeks of bonnie++ (bonnie++.h: `Seeks`).
pub const BONNIE_SEEKS: u64 = 8192;
/// Processes that seek (bonnie++.h: `SeekProcCount`).
pub const BONNIE_SEEKERS: u32 = 5;

fn bonnie(request: &ProfileRequest) -> (Vec<Files>, Course) {
    let size = Bytes(
        request.size.unwrap_or(Bytes(request.memory.0.saturating_mul(2))).0 / BONNIE_CHUNK * BONNIE_CHUNK,
    );
    let size = Bytes(size.0.max(BONNIE_CHUNK * u64::from(BONNIE_SEEKERS)));
    let test = |name, access, mix, stop| Workload {
        direct: false,
        ..workload(name, access, mix, BONNIE_CHUNK, stop)
    };
    let all = Stop::Size(size);
    // 10 reads for each write: 8192 seeks of which a tenth also writes.
    let seeks = Stop::Size(Bytes((BONNIE_SEEKS + BONNIE_SEEKS / 10) * BONNIE_CHUNK));
    let steps = [
        Workload { end_fsync: true, ..test("write", Access::Sequential, Mix::Write, all) },
        Workload { end_fsync: true, ..test("rewrite", Access::Sequential, Mix::Rewrite, all) },
        test("read", Access::Sequential, Mix::Read, all),
        Workload {
            numjobs: BONNIE_SEEKERS,
            ..test("seeks", Access::Random, Mix::Mixed { read_percent: 91 }, seeks)
        },
    ];
    (one(size, false), Course::List(steps.into_iter().map(|w| vec![step(w)]).collect()))
}

fn efs(request: &ProfileRequest) -> (Vec<Files>, Course) {
    let unit = request.direct_unit.0.clamp(1, DIRECT_UNIT.0);
    let stop = time(request, 5);
    let mut steps = Vec::new();
    let mut files = Vec::new();
    for processes in [1, 8, 20] {
        for (asked, exact) in [("1B", 1u64), ("10kB", 10_240)] {
            let bs = exact.next_multiple_of(unit);
            let size = (1..).map(|blocks| blocks * bs).find(|size| size % DIRECT_UNIT.0 == 0).unwrap_or(bs);
            files.push(Files { count: processes, size: Bytes(size), fill: false });
            // Each operation is at offset 0 of its file, however long that is.
            let back = if size > bs { Sequence::Holes(-(bs as i64)) } else { Sequence::Plain };
            for (kind, mix) in [("write", Mix::Write), ("read", Mix::Read)] {
                let jobs = format_count(processes.into(), "job").replace(' ', "-");
                let base = workload(&format!("{kind}-{asked}-{jobs}"), Access::Sequential, mix, bs, stop);
                let details = Details { regions: Regions::Own, sequence: back, ..Details::default() };
                let workload = Workload { numjobs: processes, sync: true, details, ..base };
                let note = (bs != exact).then(|| {
                    format!(
                        "{asked} is done as {bs} bytes, and counted as such: O_DIRECT takes multiples of {unit} bytes here"
                    )
                });
                steps.push(vec![Step { files: files.len() - 1, note, ..step(workload) }]);
            }
        }
    }
    (files, Course::List(steps))
}

fn seek(request: &ProfileRequest) -> (Vec<Files>, Course) {
    let size = request.size.unwrap_or(Bytes(Bytes::GIB));
    let base = workload("seek", Access::Random, Mix::Read, 4096, time(request, 2));
    (one(size, true), Course::Seek(Seek::new(base, whole(size), request.seed)))
}

fn database(request: &ProfileRequest) -> (Vec<Files>, Course) {
    let size = Bytes(request.size.unwrap_or(Bytes(Bytes::GIB)).0.max(16 * 65_536) / 65_536 * 65_536);
    let log = size.0 / 16 / 65_536 * 65_536;
    let stop = time(request, 10);
    let steps = [("8k", 8192), ("16k", 16_384)]
        .into_iter()
        .map(|(name, bs)| {
            let mix = Mix::Mixed { read_percent: 70 };
            let pages = Workload {
                iodepth: 16,
                ioengine: IoEngine::IoUring,
                span: Some(Bytes(size.0 - log)),
                ..workload(&format!("pages-{name}"), Access::Random, mix, bs, stop)
            };
            let details = Details { offset: Bytes(size.0 - log), ..Details::default() };
            let base = workload(&format!("log-beside-{name}"), Access::Sequential, Mix::Write, 4096, stop);
            let log = Workload { sync: true, span: Some(Bytes(log)), details, ..base };
            vec![step(pages), step(log)]
        })
        .collect();
    (one(size, true), Course::List(steps))
}

fn ladder(request: &ProfileRequest) -> (Vec<Files>, Course) {
    let base = Workload {
        ioengine: IoEngine::IoUring,
        ..workload("ladder", Access::Random, Mix::Read, 4096, time(request, 3))
    };
    (one(request.size.unwrap_or(Bytes(Bytes::GIB)), true), Course::Ladder { base })
}

fn snia(request: &ProfileRequest) -> (Vec<Files>, Course) {
    let size = whole(request.size.unwrap_or(Bytes(Bytes::GIB)));
    let many = |base: Workload| Workload { iodepth: 32, ioengine: IoEngine::IoUring, ..base };
    let bs = 131_072.min(size.0);
    let fill = Stop::Size(Bytes(size.0.saturating_mul(2)));
    let precondition = many(workload("precondition", Access::Sequential, Mix::Write, bs, fill));
    let mixes = [100, 65, 0].map(|read_percent| {
        let mix = Mix::Mixed { read_percent };
        many(workload(&format!("mix-{read_percent}"), Access::Random, mix, 4096, time(request, 10)))
    });
    (one(size, false), Course::Snia { precondition: Box::new(precondition), mixes: Box::new(mixes) })
}
