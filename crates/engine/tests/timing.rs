//! When operations start and end: shaped members, open loop, rates, stopping. Bounds are wide: the machine is shared.
#![allow(clippy::disallowed_methods)]

mod common;

use common::*;
use ebbtide_engine::EngineError;
use ebbtide_model::backend::Control;
use ebbtide_model::layout::ArrayKind;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::units::{Bytes, Nanos};
use ebbtide_model::workload::{Access, Arrival, IoEngine, Mix, Stop, Workload};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn iops(samples: &TrialSamples) -> f64 {
    (samples.array.read.count.ops + samples.array.write.count.ops) as f64 / samples.elapsed.as_secs_f64()
}

#[test]
fn a_shaped_member_keeps_its_limit_and_its_latency() {
    for (ioengine, numjobs) in [(IoEngine::IoUring, 1), (IoEngine::IoUring, 2), (IoEngine::Psync, 4)] {
        let dir = tempfile::tempdir().expect("a directory");
        let members = members(dir.path(), 1, 4 * MIB, |_| shaper(&shape(Some(2000.0), None, 300)));
        let target = array_of(members, ArrayKind::Linear);
        let w = Workload { ioengine, numjobs, ..workload(Access::Random, Mix::Read, millis(600)) };
        let samples = trial(&target, &w);
        // Never above the limit (and its 10 ms of reserve); how far below is up to the machine.
        assert!(iops(&samples) <= 2000.0 * 1.03, "{}", iops(&samples));
        assert!(iops(&samples) >= 1000.0, "{}", iops(&samples));
        assert!(samples.array.read.latency.min() >= Some(300_000), "{:?}", samples.array.read.latency);
    }
}

#[test]
fn eight_shaped_members_striped_are_faster_than_one() {
    let rate = |kind| {
        let dir = tempfile::tempdir().expect("a directory");
        let members = members(dir.path(), 8, 16 * MIB, |_| shaper(&shape(None, Some(10e6), 200)));
        let w = Workload {
            bs: Bytes(64 * KIB),
            iodepth: 16,
            ..workload(Access::Sequential, Mix::Write, millis(500))
        };
        let samples = trial(&array_of(members, kind), &w);
        samples.array.write.count.bytes as f64 / samples.elapsed.as_secs_f64()
    };
    let linear = rate(ArrayKind::Linear);
    let stripe = rate(ArrayKind::Stripe { chunk: Bytes(64 * KIB) });
    assert!(linear <= 10.5e6 && stripe > 3.0 * linear, "{linear} {stripe}");
}

#[test]
fn an_open_loop_counts_from_the_intended_start() {
    for (ioengine, arrival) in [
        (IoEngine::IoUring, Arrival::Fixed { iops: 2000.0 }),
        (IoEngine::IoUring, Arrival::Poisson { iops: 2000.0 }),
        (IoEngine::Psync, Arrival::Poisson { iops: 2000.0 }),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        // It serves half of what arrives, so the queue grows and intended starts fall behind.
        let members = members(dir.path(), 1, MIB, |_| shaper(&shape(Some(1000.0), None, 0)));
        let target = array_of(members, ArrayKind::Linear);
        let w = Workload { ioengine, arrival, ..workload(Access::Random, Mix::Read, millis(400)) };
        let samples = trial(&target, &w);
        let (latency, service) = (&samples.array.read.latency, samples.array.read.service.as_ref());
        let service = service.expect("an open loop has a service time");
        assert_eq!(latency.count(), service.count());
        assert!(latency.mean() >= service.mean());
        assert!(latency.max() > Some(50_000_000), "the backlog is seen: {latency:?}");
        assert!(service.percentile(50.0) < latency.percentile(50.0), "{service:?} {latency:?}");
    }
}

#[test]
fn a_closed_loop_has_no_service_time_beside_its_latency() {
    let dir = tempfile::tempdir().expect("a directory");
    let samples = trial(&single(dir.path(), MIB), &workload(Access::Random, Mix::Read, size(64 * KIB)));
    assert!(samples.array.read.service.is_none());
}

#[test]
fn an_arrival_rate_and_a_byte_rate_are_not_exceeded() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = single(dir.path(), MIB);
    let base = workload(Access::Random, Mix::Mixed { read_percent: 50 }, millis(400));
    let open = Workload { arrival: Arrival::Fixed { iops: 5000.0 }, ..base.clone() };
    assert!(iops(&trial(&target, &open)) <= 5000.0 * 1.01);
    for ioengine in [IoEngine::IoUring, IoEngine::Psync] {
        let paced = Workload { rate: Some(Bytes(4096 * 1000)), numjobs: 2, ioengine, ..base.clone() };
        let rate = iops(&trial(&target, &paced));
        assert!(rate <= 1000.0 * 1.03 && rate > 300.0, "{rate}");
    }
}

/// As in fio, a job that pauses waits for what it has begun before it does: one operation in flight, whatever the depth.
#[test]
fn a_job_pauses_after_each_of_its_operations() {
    for ioengine in [IoEngine::IoUring, IoEngine::Psync] {
        let dir = tempfile::tempdir().expect("a directory");
        let target = single(dir.path(), MIB);
        let w = Workload {
            think_time: Nanos::from_millis(5),
            iodepth: 4,
            numjobs: 2,
            ioengine,
            ..workload(Access::Random, Mix::Read, millis(200))
        };
        let samples = trial(&target, &w);
        let ops = samples.array.read.count.ops;
        assert!((2..=2 * 41).contains(&ops), "{ops}");
        assert!(
            samples.notes.iter().any(|note| note.contains("iodepth 4 was not used")),
            "{:?}",
            samples.notes
        );
    }
}

#[test]
fn the_warm_up_is_run_and_not_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let members = members(dir.path(), 1, MIB, |_| shaper(&shape(Some(1000.0), None, 0)));
    let target = array_of(members, ArrayKind::Linear);
    for (stop, most) in [(millis(200), 230), (size(50 * 4096), 50)] {
        let control = Control::default();
        let w = Workload { warm_up: Nanos::from_millis(200), ..workload(Access::Random, Mix::Read, stop) };
        let samples = ebbtide_engine::run(&target, &w, 1, &control).expect("the trial runs");
        let ops = samples.array.read.count.ops;
        assert!(ops > 0 && ops <= most, "{ops}");
        if let Stop::Size(bytes) = stop {
            assert_eq!(samples.array.read.count.bytes, bytes.0);
        }
        assert!(control.ops.load(Ordering::Relaxed) >= ops);
    }
}

#[test]
fn stop_ends_a_trial_soon_with_what_was_seen() {
    for (ioengine, arrival) in [
        (IoEngine::IoUring, Arrival::Closed),
        // Nothing to do for ten seconds: it has to wake up by itself.
        (IoEngine::IoUring, Arrival::Fixed { iops: 0.1 }),
        (IoEngine::Psync, Arrival::Fixed { iops: 0.1 }),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let target = single(dir.path(), MIB);
        let w = Workload { ioengine, arrival, ..workload(Access::Random, Mix::Read, millis(60_000)) };
        let control = Control::default();
        let start = Instant::now();
        let result = std::thread::scope(|scope| {
            let trial = scope.spawn(|| ebbtide_engine::run(&target, &w, 1, &control));
            std::thread::sleep(Duration::from_millis(200));
            control.stop.store(true, Ordering::Relaxed);
            trial.join().expect("no panic")
        });
        assert!(start.elapsed() < Duration::from_secs(50), "{:?}", start.elapsed());
        match result {
            Err(EngineError::Stopped { seen: Some(samples) }) => {
                assert!(samples.array.read.count.ops > 0);
                assert!(samples.notes.iter().any(|note| note.contains("stopped")), "{:?}", samples.notes);
            }
            other => panic!("{other:?}"),
        }
    }
}
