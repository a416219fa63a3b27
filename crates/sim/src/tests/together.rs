use super::*;

/// Ran at the same time on the array of `experiment`.
fn together(experiment: &Experiment, jobs: &[Workload]) -> Vec<TrialSamples> {
    let mut experiment = experiment.clone();
    experiment.workloads = jobs.to_vec();
    for job in &mut experiment.workloads {
        job.group = Some("g".to_owned());
    }
    let trials: Vec<Trial> = (0..jobs.len())
        .map(|workload| Trial { workload, index: workload as u32, seed: 5 + workload as u64, ..trial(0) })
        .collect();
    let runs: Vec<TrialRun<'_>> = trials
        .iter()
        .map(|trial| TrialRun {
            design: &experiment.designs[0],
            workload: &experiment.workloads[trial.workload],
            trial,
        })
        .collect();
    simulate_together(&experiment, 1, &runs, &Control::default()).expect("simulates")
}

fn writes(name: &str) -> Workload {
    Workload { name: name.into(), mix: Mix::Write, ..randread() }
}

#[test]
fn jobs_share_the_limit_of_the_volume_that_they_meet_at() {
    let one = experiment(1, stripe(), &shape());
    let alone = iops(&run(&one, &randread()));
    close(alone, 3000.0, 0.01);
    let log = Workload { iodepth: 16, access: Access::Sequential, ..writes("log") };
    let samples = together(&one, &[randread(), log]);
    let rates: Vec<f64> = samples.iter().map(iops).collect();
    close(rates.iter().sum(), 3000.0, 0.01);
    // What waits in turn gets by how much of it waits.
    close(rates[0] / rates[1], 4.0, 0.15);
    assert_eq!(samples[0].started_unix, samples[1].started_unix);
    // Where there is enough for both, neither is held back.
    let paced = |name: &str| Workload { iodepth: 1, rate: Some(Bytes(4096 * 200)), ..writes(name) };
    for samples in together(&one, &[paced("a"), paced("b")]) {
        close(iops(&samples), 200.0, 0.05);
    }
}

#[test]
fn one_alone_is_as_it_is_without_a_group_and_the_same_every_time() {
    let experiment = experiment(4, stripe(), &shape());
    let alone = simulate(
        &experiment,
        1,
        &experiment.designs[0],
        &randread(),
        &Trial { seed: 5, ..trial(0) },
        &Control::default(),
    )
    .expect("simulates");
    assert_eq!(together(&experiment, &[randread()]), [alone]);
    let jobs = [randread(), writes("w"), seqread()];
    assert_eq!(together(&experiment, &jobs), together(&experiment, &jobs));
}

#[test]
fn a_device_has_what_all_jobs_did_and_each_job_its_own() {
    let jobs = [randread(), writes("w")];
    let samples = together(&experiment(2, stripe(), &shape()), &jobs);
    let of_member = |job: usize| {
        let ops = &samples[job].members[0].ops;
        ops.read.count.ops + ops.write.count.ops
    };
    assert!(of_member(0) > 0 && of_member(1) > 0);
    for samples in &samples {
        let device = samples.observed.as_ref().expect("observed").devices[0].total.ops;
        assert_eq!(device.read + device.write, of_member(0) + of_member(1));
    }
}

#[test]
fn one_that_ends_by_size_leaves_the_rest_to_the_other() {
    let one = experiment(1, stripe(), &shape());
    let short = Workload { stop: Stop::Size(Bytes(4096 * 1500)), warm_up: Nanos(0), ..writes("short") };
    let long = Workload { warm_up: Nanos(0), ..randread() };
    let samples = together(&one, &[long, short]);
    // Half of 3000 a second each for a second, then all of it.
    close(samples[1].elapsed.as_secs_f64(), 1.0, 0.15);
    assert_eq!(ops(&samples[1]), 1500);
    close(ops(&samples[0]) as f64, 5.0 * 3000.0 - 1500.0, 0.02);
}

#[test]
fn jobs_meet_in_the_stripe_cache_of_parity_and_the_page_cache_of_the_host() {
    let mut parity = experiment(4, ArrayKind::Raid5 { chunk: CHUNK }, &shape());
    let log = Workload { access: Access::Sequential, iodepth: 4, ..writes("log") };
    let both = together(&parity, &[randread(), writes("w"), log.clone()]);
    assert!(both.iter().all(|samples| ops(samples) > 100), "{:?}", both.iter().map(ops).collect::<Vec<_>>());
    parity.environment.host.memory = Some(Bytes(64 << 20));
    let buffered = |name: &str| Workload { name: name.into(), direct: false, ..log.clone() };
    let both = together(&parity, &[buffered("a"), buffered("b"), randread()]);
    assert!(both.iter().all(|samples| ops(samples) > 100), "{:?}", both.iter().map(ops).collect::<Vec<_>>());
    let mut synced = parity.clone();
    synced.workloads = vec![Workload { end_fsync: true, group: Some("g".into()), ..buffered("a") }];
    assert!(check(&synced).expect_err("refused").to_string().contains("end_fsync"));
}
