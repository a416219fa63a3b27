//! Made-up experiments and sessions for tests, here and in the crates above (feature `testing`).

pub mod session;

use crate::experiment::{Answer, Design, Experiment, Volume, VolumeSource};
use crate::layout::{ArrayKind, LayoutNode};
use crate::units::{Bytes, Nanos};
use crate::workload::{Access, Mix, Stop, Workload};

/// `designs` stripes over two volumes under `workloads` random reads; the first design is the control.
pub fn experiment(designs: usize, workloads: usize) -> Experiment {
    let volume = |name: &str| Volume {
        name: name.into(),
        source: VolumeSource::NewFile { directory: None },
        size: Some(Bytes(64 * Bytes::MIB)),
        shape: None,
    };
    Experiment {
        name: "made-up".into(),
        description: None,
        volumes: vec![volume("a"), volume("b"), volume("unused")],
        links: Vec::new(),
        designs: (0..designs)
            .map(|i| Design {
                name: format!("stripe-{i}"),
                layout: LayoutNode::Array {
                    kind: ArrayKind::Stripe { chunk: Bytes(64 * Bytes::KIB) },
                    members: vec![LayoutNode::Volume(0), LayoutNode::Volume(1)],
                },
                stack: Default::default(),
            })
            .collect(),
        control: 0,
        workloads: (0..workloads)
            .map(|i| Workload {
                iodepth: 4,
                warm_up: Nanos::from_millis(500),
                ..Workload::new(
                    format!("randread-{i}"),
                    Access::Random,
                    Mix::Read,
                    Stop::Runtime(Nanos::from_secs(2)),
                )
            })
            .collect(),
        answer: Answer {
            level: 0.95,
            precision: 0.05,
            trials_min: 2,
            trials_max: 5,
            budget: Nanos::from_secs(60),
            rest: Nanos::from_millis(500),
            metric: None,
        },
        environment: Default::default(),
    }
}
