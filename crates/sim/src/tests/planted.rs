//! Effects that an experiment plants.

use super::*;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, OpSamples};
use ebbtide_model::sweep::Planted;
use ebbtide_model::workload::Arrival;

fn samples(workload: Workload, planted: Option<Planted>) -> TrialSamples {
    let mut experiment = experiment(4, stripe(), &shape());
    experiment.workloads = vec![workload];
    let name = experiment.designs[0].name.clone();
    experiment.environment.planted.extend(planted.map(|planted| (name, planted)));
    let trial = Trial { index: 0, round: 0, design: 0, workload: 0, role: Role::Candidate, seed: 7 };
    let control = Control::default();
    simulate(&experiment, 7, &experiment.designs[0], &experiment.workloads[0], &trial, &control)
        .expect("runs")
}

fn closed() -> Workload {
    let mut workload = Workload::new(
        "w",
        Access::Random,
        Mix::Mixed { read_percent: 70 },
        Stop::Runtime(Nanos::from_secs(1)),
    );
    workload.iodepth = 16;
    workload
}

fn near(a: f64, b: f64) {
    assert!((a / b - 1.0).abs() < 0.01, "{a} and {b}");
}

#[test]
fn everything_that_a_trial_says_is_multiplied() {
    for (rate, latency) in [(1.47, 0.7), (0.5, 2.0), (1.0, 3.0)] {
        let (plain, with) = (samples(closed(), None), samples(closed(), Some(Planted { rate, latency })));
        let ops = |samples: &TrialSamples| samples.array.counts().total().ops as f64;
        near(ops(&with), ops(&plain) * rate);
        assert_eq!(with.elapsed, plain.elapsed);
        let p99 = |samples: &TrialSamples| samples.latency().percentile(99.0).expect("some") as f64;
        near(p99(&with), p99(&plain) * latency);
        near(with.mean_in_flight.expect("known"), plain.mean_in_flight.expect("known") * rate * latency);
        for (now, before) in with.members.iter().zip(&plain.members) {
            let ops = |member: &PerOp<OpSamples>| member.counts().total().ops as f64;
            near(ops(&now.ops), ops(&before.ops) * rate);
        }
        consistent(&with);
    }
}

/// Every figure that is there twice is the same in both places.
fn consistent(samples: &TrialSamples) {
    let sum = |all: &mut dyn Iterator<Item = PerOp<Count>>| {
        all.fold(PerOp::<Count>::default(), PerOp::<Count>::plus)
    };
    assert_eq!(sum(&mut samples.series.iter().map(|interval| interval.array)), samples.array.counts());
    for (index, member) in samples.members.iter().enumerate() {
        assert_eq!(
            sum(&mut samples.series.iter().map(|interval| interval.members[index])),
            member.ops.counts()
        );
        let observed = samples.observed.as_ref().expect("was observed").devices[index].total.ops;
        assert_eq!((observed.read, observed.write), (member.ops.read.count.ops, member.ops.write.count.ops));
    }
    for interval in &samples.series {
        assert_eq!(interval.latency.count(), interval.array.total().ops);
    }
    let members = samples.members.iter().map(|member| &member.ops);
    for ops in std::iter::once(&samples.array).chain(members) {
        for samples in [&ops.read, &ops.write] {
            assert_eq!(samples.latency.count(), samples.count.ops);
            assert_eq!(samples.count.bytes, samples.count.ops * 4096);
        }
    }
}

#[test]
fn what_is_offered_stays_and_what_ends_by_size_ends_sooner() {
    let effect = Some(Planted { rate: 2.0, latency: 0.5 });
    let offered = Workload { arrival: Arrival::Fixed { iops: 500.0 }, ..closed() };
    let (plain, with) = (samples(offered.clone(), None), samples(offered, effect));
    assert_eq!(with.array.counts(), plain.array.counts());
    near(with.latency().mean().expect("some"), plain.latency().mean().expect("some") * 0.5);
    consistent(&with);
    let by_size = Workload { stop: Stop::Size(Bytes(8 << 20)), ..closed() };
    let (plain, with) = (samples(by_size.clone(), None), samples(by_size, effect));
    assert_eq!(with.array.counts(), plain.array.counts());
    near(with.elapsed.0 as f64, plain.elapsed.0 as f64 / 2.0);
    consistent(&with);
}

#[test]
fn a_field_without_a_model_needs_an_effect() {
    let mut experiment = experiment(2, stripe(), &shape());
    experiment.designs[0].stack.scheduler = Some("cfq".into());
    let refused = check(&experiment).expect_err("has no model").to_string();
    assert!(refused.contains("no model of `scheduler`") && refused.contains("[[effects]]"), "{refused}");
    experiment.environment.planted_fields.insert("scheduler".into());
    assert_eq!(check(&experiment), Ok(()));
    let inventory = SimBackend::new(1).prepare(&experiment, &Control::default()).expect("is known");
    assert!(
        inventory
            .notes
            .iter()
            .any(|note| note.contains("planted by the experiment") && note.contains("scheduler"))
    );
    experiment.designs[0].stack.queue_depth = Some(64);
    assert!(check(&experiment).expect_err("has no model").to_string().contains("`queue_depth`"));
}
