mod arrivals;
mod backend;
mod extremes;
mod failures;
mod host;
mod layouts;
mod leap;
mod loads;
mod planted;
mod properties;
mod together;

use super::*;
use ebbtide_model::experiment::{Answer, Environment, Volume, VolumeSource};
use ebbtide_model::layout::{ArrayKind, LayoutNode};
use ebbtide_model::schedule::Role;
use ebbtide_model::units::Bytes;
use ebbtide_model::units::Nanos;
use ebbtide_model::volume::{Latency, Limit, LinkShape, Shape};
use ebbtide_model::workload::{Access, Mix, Stop};

const CHUNK: Bytes = Bytes(64 << 10);

fn shape() -> Shape {
    Shape {
        iops: Some(Limit::steady(3000.0)),
        throughput: Some(Limit::steady(125e6)),
        io_unit: Some(Bytes(256 << 10)),
        read_latency: Latency::Lognormal { median: Nanos(500_000), p99: Nanos(2_000_000) },
        write_latency: Latency::Lognormal { median: Nanos(700_000), p99: Nanos(3_000_000) },
        ..Shape::default()
    }
}

fn link_of(name: &str) -> LinkShape {
    LinkShape { name: name.into(), iops: None, throughput: None, one_way: Default::default() }
}

fn stripe() -> ArrayKind {
    ArrayKind::Stripe { chunk: CHUNK }
}

fn experiment(n: usize, kind: ArrayKind, shape: &Shape) -> Experiment {
    let volume = |i| Volume {
        shape: Some(shape.clone()),
        ..Volume::new(format!("vol{i}"), VolumeSource::NewFile { directory: None }, Some(Bytes(1 << 30)))
    };
    let design = Design {
        name: "array".into(),
        layout: LayoutNode::Array { kind, members: (0..n).map(LayoutNode::Volume).collect() },
        stack: Default::default(),
    };
    Experiment {
        name: "made-up".into(),
        description: None,
        volumes: (0..n).map(volume).collect(),
        links: Vec::new(),
        designs: vec![design],
        control: 0,
        workloads: vec![randread()],
        answer: Answer {
            level: 0.95,
            precision: 0.05,
            indifference: 0.02,
            trials_min: 6,
            trials_max: 20,
            budget: Nanos::from_secs(60),
            budget_asked: true,
            rest: Nanos::from_secs(1),
            metric: None,
        },
        environment: Environment::default(),
        sweep: None,
    }
}

fn randread() -> Workload {
    Workload {
        iodepth: 64,
        warm_up: Nanos::from_secs(1),
        ..Workload::new("randread", Access::Random, Mix::Read, Stop::Runtime(Nanos::from_secs(5)))
    }
}

fn seqread() -> Workload {
    Workload {
        name: "seqread".into(),
        access: Access::Sequential,
        bs: Bytes(1 << 20),
        iodepth: 16,
        ..randread()
    }
}

fn trial(index: u32) -> Trial {
    Trial { index, round: index, design: 0, workload: 0, role: Role::Candidate, seed: 77 + u64::from(index) }
}

fn run(experiment: &Experiment, workload: &Workload) -> TrialSamples {
    try_run(experiment, workload).expect("simulates")
}

fn try_run(experiment: &Experiment, workload: &Workload) -> Result<TrialSamples, BackendError> {
    simulate(experiment, 1, &experiment.designs[0], workload, &trial(0), &Control::default())
}

fn ops(samples: &TrialSamples) -> u64 {
    samples.array.read.count.ops + samples.array.write.count.ops
}

fn iops(samples: &TrialSamples) -> f64 {
    ops(samples) as f64 / samples.elapsed.as_secs_f64()
}

fn throughput(samples: &TrialSamples) -> f64 {
    (samples.array.read.count.bytes + samples.array.write.count.bytes) as f64 / samples.elapsed.as_secs_f64()
}

#[track_caller]
fn close(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() <= tolerance, "{value} is not {expected} within {tolerance}");
}
