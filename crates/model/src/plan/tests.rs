//! What the plan of a made-up experiment must say.

use super::*;
use crate::backend::BackendKind;
use crate::experiment::VolumeSource;
use crate::testing::experiment;
use crate::units::Nanos;
use crate::workload::Mix;

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
