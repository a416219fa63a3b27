//! Loads that are neither uniform nor of one size.

use super::*;
use ebbtide_model::workload::{Distribution, Sequence, Split};

fn linear() -> Experiment {
    experiment(2, ArrayKind::Linear, &shape())
}

#[test]
fn skewed_offsets_reach_the_member_that_has_them() {
    let experiment = linear();
    let mut workload = Workload { iodepth: 1, ..randread() };
    let share = |workload: &Workload| {
        let samples = run(&experiment, workload);
        let reads: Vec<u64> = samples.members.iter().map(|member| member.ops.read.count.ops).collect();
        reads[0] as f64 / (reads[0] + reads[1]) as f64
    };
    assert!((share(&workload) - 0.5).abs() < 0.03);
    workload.distribution = Distribution::parse("zoned:90/50:10/50").expect("is one");
    assert!((share(&workload) - 0.9).abs() < 0.03);
}

#[test]
fn several_sizes_move_their_mean() {
    let experiment = linear();
    let size = |text: &str| Ok(text.parse()?);
    let split = Split::parse("4k/75:64k/25", &size).expect("is one");
    let workload = Workload { bs: Bytes(65_536), split: Some(split), ..randread() };
    let samples = run(&experiment, &workload);
    let mean = throughput(&samples) / iops(&samples);
    assert!((mean / (0.75 * 4096.0 + 0.25 * 65_536.0) - 1.0).abs() < 0.05, "{mean}");
}

#[test]
fn a_page_cache_that_would_have_to_know_its_blocks_is_refused() {
    let mut experiment = linear();
    experiment.environment.host.memory = Some(Bytes(1 << 30));
    let buffered = Workload { direct: false, ..randread() };
    let skewed = Workload { distribution: Distribution::Zipf { theta: 1.2 }, ..buffered.clone() };
    let mut backwards = Workload { access: Access::Sequential, ..buffered.clone() };
    backwards.details.sequence = Sequence::Holes(-8192);
    for (workload, what) in [(&skewed, "random_distribution"), (&backwards, "rw with a modifier")] {
        experiment.workloads.clear();
        let error = try_run(&experiment, workload).expect_err("is not known").to_string();
        assert!(error.contains(what) && error.contains("direct = true"), "{error}");
        experiment.workloads = vec![workload.clone()];
        assert!(crate::check(&experiment).is_err());
    }
    experiment.workloads.clear();
    for workload in [buffered, Workload { mix: Mix::Write, ..skewed }] {
        assert!(try_run(&experiment, &workload).is_ok());
    }
}
