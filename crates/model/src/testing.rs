//! Made-up experiments and sessions for tests, here and in the crates above (feature `testing`).

pub mod session;

use crate::experiment::{Answer, Design, Experiment, Volume, VolumeSource};
use crate::layout::{ArrayKind, LayoutNode};
use crate::metric::Metric;
use crate::sweep::{Builds, Factor, Goal, Objective, Sweep, SweptDesign};
use crate::units::{Bytes, Nanos};
use crate::workload::{Access, Mix, Stop, Workload};

/// `designs` stripes over two volumes under `workloads` random reads; the first design is the control.
pub fn experiment(designs: usize, workloads: usize) -> Experiment {
    let volume = |name: &str| {
        Volume::new(name, VolumeSource::NewFile { directory: None }, Some(Bytes(64 * Bytes::MIB)))
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
            indifference: 0.02,
            trials_min: 2,
            trials_max: 5,
            budget: Nanos::from_secs(60),
            budget_asked: true,
            rest: Nanos::from_millis(500),
            metric: None,
        },
        environment: Default::default(),
        sweep: None,
    }
}

/// An experiment of one workload whose designs are all combinations of the levels of `factors`, called as a sweep calls them; the
/// one of all first levels is the control. Operations per second count.
pub fn sweep(factors: &[(&str, &[&str])]) -> Experiment {
    let combinations = factors.iter().fold(vec![Vec::new()], |combinations: Vec<Vec<usize>>, (_, levels)| {
        let with = |combination: &Vec<usize>, level| [combination.as_slice(), &[level]].concat();
        combinations.iter().flat_map(|one| (0..levels.len()).map(move |level| with(one, level))).collect()
    });
    let mut experiment = experiment(combinations.len(), 1);
    for (design, combination) in experiment.designs.iter_mut().zip(&combinations) {
        let fields: Vec<String> = factors
            .iter()
            .zip(combination)
            .map(|((name, levels), level)| format!("{name}={}", levels[*level]))
            .collect();
        design.name = format!("base/{}", fields.join(","));
    }
    let arm = |(design, levels): (usize, &Vec<usize>)| SweptDesign {
        design,
        levels: levels.iter().copied().map(Some).collect(),
        load: None,
        price: None,
    };
    experiment.sweep = Some(Sweep {
        template: "base".to_owned(),
        workload: 0,
        factors: factors
            .iter()
            .map(|(name, levels)| Factor {
                name: (*name).to_owned(),
                levels: levels.iter().map(|level| (*level).to_owned()).collect(),
            })
            .collect(),
        arms: combinations.iter().enumerate().map(arm).collect(),
        objective: Objective::Best(Goal::Measured(Metric::Iops)),
        indifference: 0.02,
        error: 0.05,
        budget: None,
        builds: Builds::PerTrial,
    });
    experiment
}
