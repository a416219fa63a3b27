use super::*;
use ebbtide_model::volume::Mood;

#[test]
fn trials_are_the_same_to_the_bit_in_any_order() {
    let mut moody = shape();
    moody.character.moods = [("good", 8, 1.0), ("bad", 3, 0.3)]
        .map(|(name, dwell, rate)| Mood {
            name: name.into(),
            dwell: Nanos::from_secs(dwell),
            weight: 1.0,
            rate,
            latency: 1.0 / rate,
        })
        .to_vec();
    let experiment = experiment(4, stripe(), &moody);
    let one = |index| {
        let design = &experiment.designs[0];
        simulate(&experiment, 9, design, &randread(), &trial(index), &Control::default()).expect("simulates")
    };
    let forward: Vec<TrialSamples> = (0..6).map(one).collect();
    for index in (0..6).rev() {
        assert_eq!(one(index), forward[index as usize]);
    }
    let threads: Vec<TrialSamples> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..6).map(|index| scope.spawn(move || one(index))).collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
    });
    assert_eq!(threads, forward);
    // The volumes do have moods: trials differ.
    let rates: Vec<f64> = forward.iter().map(iops).collect();
    assert!(rates.iter().any(|rate| (rate / rates[0] - 1.0).abs() > 0.05), "{rates:?}");
}

#[test]
fn the_backend_is_the_function() {
    let experiment = experiment(2, stripe(), &shape());
    let mut backend = SimBackend::new(1);
    let control = Control::default();
    assert!(backend.run_trial(&experiment.designs[0], &randread(), &trial(0), &control).is_err());
    let inventory = backend.prepare(&experiment, &control).expect("prepares");
    assert_eq!(inventory.volumes.len(), 2);
    let samples = backend.run_trial(&experiment.designs[0], &randread(), &trial(0), &control).expect("runs");
    assert_eq!(samples, run(&experiment, &randread()));
    assert_eq!(control.ops.load(std::sync::atomic::Ordering::Relaxed), ops(&samples));
    control.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let stopped = backend.run_trial(&experiment.designs[0], &randread(), &trial(0), &control);
    assert_eq!(stopped, Err(BackendError::Stopped));
}

#[test]
fn what_cannot_be_known_is_refused() {
    let mut unknown = experiment(2, stripe(), &shape());
    unknown.volumes[1].shape = None;
    assert!(try_run(&unknown, &randread()).expect_err("refused").to_string().contains("vol1: has no shape"));
    let mut sizeless = experiment(2, stripe(), &shape());
    sizeless.volumes[0].size = None;
    assert!(try_run(&sizeless, &randread()).expect_err("refused").to_string().contains("size"));
    let instant = experiment(2, stripe(), &Shape::default());
    assert!(try_run(&instant, &randread()).expect_err("refused").to_string().contains("latency"));
}

#[test]
fn what_a_design_varies_is_modelled_or_refused() {
    let mut experiment = experiment(1, stripe(), &shape());
    experiment.designs[0].stack.max_sectors = Some(Bytes(128 << 10));
    let count = run(&experiment, &seqread()).members[0].ops.read.count;
    assert_eq!(count.bytes, count.ops << 17);
    experiment.designs[0].stack.scheduler = Some("mq-deadline".into());
    let refused = try_run(&experiment, &seqread()).expect_err("refused").to_string();
    assert!(refused.contains("no model of `scheduler`"), "{refused}");
    let prepared = SimBackend::new(1).prepare(&experiment, &Control::default());
    assert_eq!(prepared.expect_err("refused").to_string(), refused);
}
