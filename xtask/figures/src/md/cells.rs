//! What is compared: arrays and loads.

use ebbtide_model::experiment::{Answer, Design, Environment, Experiment, Volume, VolumeSource};
use ebbtide_model::layout::{Arrangement, ArrayKind, LayoutNode};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::schedule::{Role, Trial};
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::volume::{Failure, FailureKind, Latency, Limit, Shape};
use ebbtide_model::workload::{Access, Mix, Stop, Workload};

/// Bytes of a disk.
pub const SIZE: Bytes = Bytes(256 << 20);
/// The largest request to a disk.
pub const REQUEST_MAX: Bytes = Bytes(1 << 20);
/// What several streams share of an array.
const STREAMED: Bytes = Bytes(240 << 20);
/// For the page cache: more than is read in a run.
const MEMORY: Bytes = Bytes(1 << 30);
/// The member that is missing where one is.
const MISSING: usize = 1;
const READ_PERCENT: u8 = 70;

/// What disks are held to: their latency is long beside what the guest adds.
pub fn shape() -> Shape {
    let latency = Latency::Constant(Nanos::from_millis(20));
    Shape {
        iops: Some(Limit::steady(200.0)),
        throughput: Some(Limit::steady(10e6)),
        read_latency: latency,
        write_latency: latency,
        ..Shape::default()
    }
}

/// An array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Made {
    pub kind: ArrayKind,
    pub members: usize,
    /// LVM in place of md.
    pub lvm: bool,
    /// Without one of its members.
    pub degraded: bool,
}

/// A load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// As fio calls it.
    pub rw: &'static str,
    pub bs: Bytes,
    /// In flight, of each stream.
    pub depth: u32,
    /// Sequential streams, each over a part of [`STREAMED`].
    pub streams: u32,
    /// Through the page cache, with this readahead of the array.
    pub cached: Option<Readahead>,
}

/// Readahead of an array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Readahead {
    /// What the kernel gives it.
    Own,
    Of(Bytes),
}

const LOADS: [(&str, Access, Mix); 5] = [
    ("read", Access::Sequential, Mix::Read),
    ("write", Access::Sequential, Mix::Write),
    ("randread", Access::Random, Mix::Read),
    ("randwrite", Access::Random, Mix::Write),
    ("randrw", Access::Random, Mix::Mixed { read_percent: READ_PERCENT }),
];

/// All arrays, chunks apart.
fn arrays(chunk: Bytes) -> Vec<Made> {
    let md = |kind, members| Made { kind, members, lvm: false, degraded: false };
    let lvm = |kind, members| Made { lvm: true, ..md(kind, members) };
    let without_one = |kind, members| Made { degraded: true, ..md(kind, members) };
    let mut all = vec![lvm(ArrayKind::Linear, 2)];
    all.extend([2, 3, 4].map(|members| md(ArrayKind::Stripe { chunk }, members)));
    all.push(lvm(ArrayKind::Stripe { chunk }, 4));
    all.extend([2, 3].map(|members| md(ArrayKind::Mirror, members)));
    all.push(without_one(ArrayKind::Mirror, 2));
    for arrangement in [Arrangement::Near, Arrangement::Far, Arrangement::Offset] {
        let kind = ArrayKind::Raid10 { chunk, copies: 2, arrangement };
        all.extend([2, 3, 4].map(|members| md(kind, members)));
        all.push(without_one(kind, 4));
    }
    for (kind, members) in [(ArrayKind::Raid5 { chunk }, 4), (ArrayKind::Raid6 { chunk }, 5)] {
        all.extend([md(kind, members), without_one(kind, members)]);
    }
    all
}

/// Everything that is compared: each array with the loads that are tried on it.
pub fn all() -> Vec<(Made, Vec<Asked>)> {
    let mut all: Vec<(Made, Vec<Asked>)> = Vec::new();
    // By chunk: sizes of operations below, at and above it.
    let sizes: [(u64, &[u64]); 4] = [(16, &[64]), (64, &[4, 64, 1024]), (512, &[64]), (2048, &[1024])];
    for (chunk, sizes) in sizes {
        for made in arrays(Bytes(chunk << 10)) {
            let load = |rw, kib, depth| Asked { rw, bs: Bytes(kib << 10), depth, streams: 1, cached: None };
            let loads = LOADS.iter().flat_map(|(rw, ..)| {
                sizes.iter().flat_map(move |kib| [1, 32].map(|depth| load(rw, *kib, depth)))
            });
            let mut loads: Vec<Asked> = loads.collect();
            if chunk == 64 && made.kind.chunk().is_some() {
                loads.extend(["read", "write"].map(|rw| load(rw, 256, 16)));
            }
            if chunk == 64 && !made.degraded {
                loads.extend(streams_and_readahead(&made));
            }
            match all.iter_mut().find(|(other, _)| *other == made) {
                // What has no chunk comes with each of them.
                Some((_, others)) => {
                    loads.retain(|load| !others.contains(load));
                    others.extend(loads);
                }
                None => all.push((made, loads)),
            }
        }
    }
    all
}

/// Sequential reads by several, of what has copies; and through the page cache.
fn streams_and_readahead(made: &Made) -> Vec<Asked> {
    let read = |depth, streams, cached| Asked { rw: "read", bs: Bytes(64 << 10), depth, streams, cached };
    let own = Some(Readahead::Own);
    let several = [2, 4].into_iter().flat_map(|n| [read(1, n, None), read(8, n, None), read(1, n, own)]);
    let has_copies = made.kind == ArrayKind::Mirror || made.kind.copies().is_some();
    let windows = [own, Some(Readahead::Of(Bytes(128 << 10))), Some(Readahead::Of(Bytes(1 << 20)))];
    several.filter(|_| has_copies).chain(windows.map(|window| read(1, 1, window))).collect()
}

impl Asked {
    /// How long it runs. Both begin with nothing in flight.
    pub fn seconds(&self) -> u64 {
        match self {
            // So many operations that the share of reads, and of each member, is nearly what was asked for.
            Asked { rw: "randrw", depth: 1, .. } => 10,
            Asked { rw: "randread" | "randwrite" | "randrw", bs, .. } if *bs >= Bytes(1 << 20) => 10,
            Asked { streams: 1, cached: None, depth, bs, .. } if *depth == 1 || *bs < Bytes(1 << 20) => 2,
            _ => 3,
        }
    }

    /// As the table calls it.
    pub fn name(&self) -> String {
        let cached = if self.cached.is_some() { "buffered " } else { "" };
        let streams = if self.streams > 1 { format!(", {} streams", self.streams) } else { String::new() };
        let window = match self.cached {
            Some(Readahead::Of(window)) => format!(", readahead {}", window.short()),
            _ => String::new(),
        };
        format!("{cached}{}{streams}{window}", self.rw)
    }

    /// fio's options, and the `read_ahead_kb` that it runs with, where it is not the array's own.
    pub fn options(&self) -> (String, Option<u64>) {
        let Asked { rw, bs, depth, streams, cached } = self;
        let engine = if cached.is_some() {
            "--direct=0 --ioengine=psync --fadvise_hint=0"
        } else {
            "--direct=1 --ioengine=libaio"
        };
        let region = STREAMED.0 / u64::from(*streams);
        let regions = match streams {
            1 => String::new(),
            _ => format!(" --numjobs={streams} --size={region} --offset_increment={region}"),
        };
        let window = match cached {
            Some(Readahead::Of(window)) => Some(window.0 >> 10),
            _ => None,
        };
        let seconds = self.seconds();
        (format!("{engine} --rw={rw} --bs={} --iodepth={depth} --runtime={seconds}{regions}", bs.0), window)
    }
}

impl Made {
    /// As the table calls it.
    pub fn name(&self) -> String {
        let lvm = if self.lvm { "LVM " } else { "" };
        let missing = if self.degraded { ", one missing" } else { "" };
        let (members, kind) = (self.members, self.kind);
        let copies = kind.copies().map_or_else(String::new, |(copies, arrangement)| {
            let arrangement: &str = arrangement.into();
            format!(" {arrangement} {copies}")
        });
        let chunk = kind.chunk().map_or_else(String::new, |chunk| format!(", chunk {}", chunk.short()));
        format!("{lvm}{}{copies} of {members}{missing}{chunk}", kind.name())
    }

    /// Whether `asked` runs over loop devices on the disks. The kernel's NBD disks have an optimal_io_size, which is part of
    /// an array's readahead, and after which a mirror moves on to an idle member; loop devices and most volumes have none.
    pub fn is_over_loops(&self, asked: &Asked) -> bool {
        self.kind == ArrayKind::Mirror || asked.cached.is_some()
    }

    /// Shell commands that make it as `$array` of disks called so, and those that end it.
    pub fn commands(&self, device: &str) -> (String, String) {
        let disks: Vec<String> = (0..self.members)
            .map(|disk| {
                if self.degraded && disk == MISSING {
                    "missing".into()
                } else {
                    format!("/dev/{device}{disk}")
                }
            })
            .collect();
        let (disks, n) = (disks.join(" "), self.members);
        let chunk = self.kind.chunk().map_or(0, |chunk| chunk.0 >> 10);
        if self.lvm {
            let how = match self.kind {
                ArrayKind::Stripe { .. } => format!("-i {n} -I {chunk}k "),
                _ => String::new(),
            };
            let make = format!(
                "array=/dev/v/a; vgcreate -qq v {disks}; lvcreate -qq -y -Zn -Wn {how}-l 100%FREE -n a v"
            );
            return (make, format!("vgremove -qq -y -f v; pvremove -qq -y {disks}"));
        }
        let level = match self.kind {
            ArrayKind::Linear => "linear".to_owned(),
            ArrayKind::Stripe { .. } => format!("0 --chunk={chunk}"),
            ArrayKind::Mirror => "1 --bitmap=none".to_owned(),
            ArrayKind::Raid5 { .. } => format!("5 --bitmap=none --chunk={chunk}"),
            ArrayKind::Raid6 { .. } => format!("6 --bitmap=none --chunk={chunk}"),
            ArrayKind::Raid10 { copies, arrangement, .. } => {
                let arrangement: &str = arrangement.into();
                format!("10 --bitmap=none --chunk={chunk} --layout={}{copies}", &arrangement[..1])
            }
        };
        let clean = if matches!(self.kind, ArrayKind::Linear | ArrayKind::Stripe { .. }) {
            ""
        } else {
            " --assume-clean"
        };
        let make = format!(
            "array=/dev/md0; mdadm --quiet --create $array --run{clean} --data-offset=1M --level={level} --raid-devices={n} {disks}"
        );
        let alive = disks.replace("missing", "");
        (make, format!("mdadm --quiet --stop $array; mdadm --quiet --zero-superblock {alive}"))
    }

    /// What the simulator says: bytes per second, and which share of them each member moved.
    pub fn simulated(&self, asked: &Asked) -> Result<Figures, String> {
        let volume = |index: usize| {
            let mut shape = shape();
            if self.degraded && index == MISSING {
                shape.character.failure =
                    Some(Failure { kind: FailureKind::Error, at: Nanos(1), lasts: None });
            }
            let source = VolumeSource::NewFile { directory: None };
            Volume { shape: Some(shape), ..Volume::new(format!("disk{index}"), source, Some(SIZE)) }
        };
        let members = (0..self.members).map(LayoutNode::Volume).collect();
        let layout = LayoutNode::Array { kind: self.kind, members };
        let design = Design { name: "array".into(), layout, stack: Default::default() };
        let load = LOADS.iter().find(|(rw, ..)| *rw == asked.rw).ok_or("no such load")?;
        // What was in flight at the end counts in the guest: with many operations that is the steady rate.
        let (before, seconds) = match asked {
            // Over the array's whole length a stream begins anew, elsewhere.
            Asked { depth: 2.., rw, bs, .. } if bs.0 < 1 << 20 || !rw.starts_with("rand") => (5, 15),
            Asked { depth: 2.., .. } => (5, 60),
            // One random operation after the other: as many as make the mean.
            Asked { rw: "randread" | "randwrite" | "randrw", .. } => (0, 60),
            _ => (0, asked.seconds()),
        };
        let workload = Workload {
            bs: asked.bs,
            iodepth: asked.depth,
            numjobs: asked.streams,
            span: (asked.streams > 1).then_some(STREAMED),
            direct: asked.cached.is_none(),
            warm_up: Nanos::from_secs(before),
            ..Workload::new(asked.rw, load.1, load.2, Stop::Runtime(Nanos::from_secs(seconds)))
        };
        let mut environment = Environment::default();
        environment.host.max_request = Some(REQUEST_MAX);
        environment.host.memory = Some(MEMORY);
        if let Some(Readahead::Of(window)) = asked.cached {
            environment.host.readahead = Some(window);
        }
        let experiment = Experiment {
            name: "md".into(),
            description: None,
            volumes: (0..self.members).map(volume).collect(),
            links: Vec::new(),
            designs: vec![design],
            control: 0,
            workloads: vec![workload],
            answer: Answer::once(),
            environment,
            sweep: None,
        };
        let trial = Trial { index: 0, round: 0, design: 0, workload: 0, role: Role::Candidate, seed: 1 };
        let (design, workload) = (&experiment.designs[0], &experiment.workloads[0]);
        let samples = ebbtide_sim::simulate(&experiment, 1, design, workload, &trial, &Default::default());
        let samples = samples.map_err(|error| format!("{}: {error}", self.name()))?;
        let seconds = samples.elapsed.as_secs_f64();
        let rate = |bytes: u64| bytes as f64 / seconds;
        let moved =
            |ops: &PerOp<ebbtide_model::samples::OpSamples>| ops.read.count.bytes + ops.write.count.bytes;
        Ok(Figures {
            rate: rate(moved(&samples.array)),
            read: rate(samples.members.iter().map(|member| member.ops.read.count.bytes).sum()),
            written: rate(samples.members.iter().map(|member| member.ops.write.count.bytes).sum()),
        })
    }
}

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    /// Of the load.
    pub rate: f64,
    /// Read from all members.
    pub read: f64,
    /// Written to all members.
    pub written: f64,
}
