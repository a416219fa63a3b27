//! What the plan of a made-up experiment must say.

use super::*;
use crate::backend::BackendKind;
use crate::experiment::{Experiment, VolumeSource};
use crate::testing::experiment;
use crate::units::Nanos;
use crate::workload::Mix;

#[test]
fn a_plan_says_what_is_made_run_and_put_back() {
    let plan = RunPlan::new(&experiment(2, 1), BackendKind::Files, 3, false);
    let created: Vec<_> = plan.steps.iter().filter(|s| s.undo == Undo::RemoveFile).collect();
    assert_eq!(created.len(), 2, "the unused volume is not made");
    assert_eq!(plan.round_time, Some(Nanos::from_secs(9)));
    let text = plan.beginning(false) + &plan.rounds(false);
    for part in [
        "create volume a, 64MiB",
        "[undo: remove the file]",
        "\nrounds 1 to 2, each in a fresh order: 3 trials, 2 designs under randread-0, and stripe-0 once more (A/A)\n",
        "\nrounds 3 to 5",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let all = plan.rounds(true);
    assert!(
        all.contains("round 2:\n") && all.matches("stripe-0 under randread-0 (again, A/A)\n").count() == 2,
        "{all}"
    );
    assert!(!text.contains("OVERWRITTEN"));
    let json = serde_json::to_string(&plan).expect("serialises");
    assert_eq!(serde_json::from_str::<RunPlan>(&json).expect("reads back"), plan);
}

#[test]
fn a_plan_says_what_is_overwritten() {
    let mut experiment = experiment(1, 1);
    experiment.volumes[0].source = VolumeSource::ExistingFile { path: "/data/file".into() };
    let reads = RunPlan::new(&experiment, BackendKind::Files, 3, false).beginning(false);
    assert!(!reads.contains("OVERWRITTEN"), "{reads}");
    experiment.workloads[0].mix = Mix::Mixed { read_percent: 90 };
    let text = RunPlan::new(&experiment, BackendKind::Files, 3, false).beginning(false);
    assert!(text.contains("open volume a at /data/file, WHAT IT HOLDS IS OVERWRITTEN"), "{text}");
}

#[test]
fn a_plan_says_what_is_refused_and_what_is_filled_first() {
    let mut experiment = experiment(1, 1);
    experiment.volumes[0].source = VolumeSource::ExistingFile { path: "/data/file".into() };
    let plan = |experiment: &Experiment, backend, destroy| RunPlan::new(experiment, backend, 3, destroy);
    let fills = |plan: &RunPlan| {
        plan.steps.iter().any(|step| matches!(&step.action, Action::Fill { volume } if volume == "a"))
    };
    // Only read: nothing is lost, unless it is allowed to be, and then it is filled.
    let reads = plan(&experiment, BackendKind::Files, false);
    assert!(reads.refused.is_none() && !fills(&reads));
    let allowed = plan(&experiment, BackendKind::Files, true);
    assert!(allowed.refused.is_none() && fills(&allowed), "{allowed:?}");
    assert!(allowed.beginning(false).contains("WHAT IT HOLDS IS OVERWRITTEN"), "{allowed:?}");
    // An array of the kernel overwrites its members whatever is done on it.
    let expected =
        "a run is refused: it would overwrite what is on a (/data/file); say --destroy if that may be lost";
    assert_eq!(plan(&experiment, BackendKind::Kernel, false).refused.as_deref(), Some(expected));
    experiment.workloads[0].mix = Mix::Write;
    assert_eq!(plan(&experiment, BackendKind::Files, false).refused.as_deref(), Some(expected));
    assert_eq!(plan(&experiment, BackendKind::Files, true).refused, None);
    assert_eq!(plan(&experiment, BackendKind::Sim, false).refused, None, "nothing is touched");
    // As `ebb check` says it.
    assert!(plan(&experiment, BackendKind::Files, true).notes.is_empty());
    experiment.answer.budget = Nanos::from_secs(1);
    assert_eq!(plan(&experiment, BackendKind::Files, true).notes, experiment.cannot_decide());
}
