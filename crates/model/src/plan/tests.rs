//! A made-up experiment, and what its plan must say.

use super::*;
use crate::backend::BackendKind;
use crate::experiment::{Answer, Design, Experiment, Volume, VolumeSource};
use crate::layout::{ArrayKind, LayoutNode};
use crate::units::{Bytes, Nanos};
use crate::workload::{Access, Mix, Stop, Workload};

/// `designs` stripes over two volumes under `workloads` random reads; the first design is the control.
pub(crate) fn experiment(designs: usize, workloads: usize) -> Experiment {
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

#[test]
fn a_plan_says_what_is_made_run_and_put_back() {
    let plan = Plan::new(&experiment(2, 1), BackendKind::Files, 3);
    let created: Vec<_> = plan.steps.iter().filter(|s| s.undo == Undo::RemoveFile).collect();
    assert_eq!(created.len(), 2, "the unused volume is not made");
    assert_eq!(plan.round_time, Some(Nanos::from_secs(9)));
    let text = plan.to_string();
    for part in
        ["create volume a, 64MiB", "[undo: remove the file]", "round 2:", "(again, A/A)", "rounds 3 to 5"]
    {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("OVERWRITTEN"));
    let json = serde_json::to_string(&plan).expect("serialises");
    assert_eq!(serde_json::from_str::<Plan>(&json).expect("reads back"), plan);
}

#[test]
fn a_plan_says_what_is_overwritten() {
    let mut experiment = experiment(1, 1);
    experiment.volumes[0].source = VolumeSource::ExistingFile { path: "/data/file".into() };
    let reads = Plan::new(&experiment, BackendKind::Files, 3).to_string();
    assert!(!reads.contains("OVERWRITTEN"), "{reads}");
    experiment.workloads[0].mix = Mix::Mixed { read_percent: 90 };
    let text = Plan::new(&experiment, BackendKind::Files, 3).to_string();
    assert!(text.contains("open volume a at /data/file, WHAT IT HOLDS IS OVERWRITTEN"), "{text}");
}
