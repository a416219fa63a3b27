//! Targets and workloads for the engine's tests: small files, short trials.
#![allow(dead_code)]

use ebbtide_door::Handle;
use ebbtide_engine::{EngineError, Shaper, Target, TargetMember, run};
use ebbtide_model::backend::Control;
use ebbtide_model::layout::{ArrayKind, LayoutNode, Map};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::volume::{Latency, Limit, Shape};
use ebbtide_model::workload::{Access, Mix, Stop, Workload};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

pub const KIB: u64 = 1024;
pub const MIB: u64 = 1024 * KIB;

/// Buffered, iodepth 4, one job, 4 KiB.
pub fn workload(access: Access, mix: Mix, stop: Stop) -> Workload {
    Workload { iodepth: 4, direct: false, ..Workload::new("test", access, mix, stop) }
}

pub fn size(bytes: u64) -> Stop {
    Stop::Size(Bytes(bytes))
}

pub fn millis(ms: u64) -> Stop {
    Stop::Runtime(Nanos::from_millis(ms))
}

/// A file of `size` zero bytes, deleted when the directory is.
pub fn file(dir: &Path, name: &str, size: u64) -> File {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(dir.join(name))
        .expect("creates the file");
    file.set_len(size).expect("sizes the file");
    file
}

/// Members `vol0`... of `size` bytes each.
pub fn members(
    dir: &Path,
    count: usize,
    size: u64,
    shaper: impl Fn(usize) -> Option<Arc<Shaper>>,
) -> Vec<TargetMember> {
    (0..count)
        .map(|index| {
            let name = format!("vol{index}");
            let file = Handle::unjudged(file(dir, &name, size));
            TargetMember { file, name, size: Bytes(size), shaper: shaper(index) }
        })
        .collect()
}

/// An array of unshaped files.
pub fn array(dir: &Path, kind: ArrayKind, count: usize, size: u64) -> Target {
    array_of(members(dir, count, size, |_| None), kind)
}

pub fn array_of(members: Vec<TargetMember>, kind: ArrayKind) -> Target {
    let sizes: Vec<Bytes> = members.iter().map(|member| member.size).collect();
    let leaves = (0..members.len()).map(LayoutNode::Volume).collect();
    let map = Map::new(&LayoutNode::Array { kind, members: leaves }, &sizes).expect("a valid layout");
    Target::new(members, map)
}

pub fn single(dir: &Path, size: u64) -> Target {
    let member = members(dir, 1, size, |_| None).remove(0);
    Target::single(member).expect("a file with a size")
}

/// The shape of a volume that always performs the same.
pub fn shape(iops: Option<f64>, bytes_per_second: Option<f64>, latency_us: u64) -> Shape {
    Shape {
        iops: iops.map(Limit::steady),
        throughput: bytes_per_second.map(Limit::steady),
        read_latency: Latency::Constant(Nanos(latency_us * 1000)),
        write_latency: Latency::Constant(Nanos(latency_us * 1000)),
        ..Shape::default()
    }
}

pub fn shaper(shape: &Shape) -> Option<Arc<Shaper>> {
    Some(Arc::new(Shaper::new(shape, 1, None)))
}

pub fn trial(target: &Target, workload: &Workload) -> TrialSamples {
    try_trial(target, workload).expect("the trial runs")
}

pub fn try_trial(target: &Target, workload: &Workload) -> Result<TrialSamples, EngineError> {
    run(target, workload, 1, &Control::default())
}
