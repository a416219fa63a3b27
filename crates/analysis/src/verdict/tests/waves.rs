//! Devices that swing between two speeds, by themselves or because of something else.

use super::*;
use crate::Basis;
use crate::fixtures::trial;
use VerdictKind::{DeviceWaves, Unknown};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    CoreUse, Count, DeviceObservation, DiskUse, Histogram, MemberObservation, Observation, ObservedInterval,
};
use ebbtide_model::workload::Arrival;

/// What a disk does while it is slow or fast.
#[derive(Clone, Copy)]
struct Level {
    /// Operations of the load per second.
    iops: u64,
    /// Bytes per second at the disk beyond those of the load.
    others: u64,
    /// Busy share of the disk.
    busy: f64,
    /// Requests in flight at it.
    queue: f64,
    /// Busy share of each core.
    cores: f64,
}

const FAST: Level = Level { iops: 20_000, others: 0, busy: 1.0, queue: 31.0, cores: 0.3 };
const SLOW: Level = Level { iops: 8000, ..FAST };

/// Twelve seconds with 32 in flight, slow in these of each three seconds' twelve intervals of 250 ms.
fn swinging(fast: Level, slow: Level, when: impl Fn(u64) -> bool) -> TrialSamples {
    const INTERVAL: Nanos = Nanos(250_000_000);
    let mut samples = trial(&[("v0", 1000, 1_000_000)]);
    let at = |interval: u64| if when(interval) { slow } else { fast };
    let ops = |interval: u64| at(interval).iops / 4 + interval % 3;
    samples.elapsed = Nanos(48 * INTERVAL.0);
    samples.interval = INTERVAL;
    samples.series = (0..48)
        .map(|number| {
            let array =
                PerOp { read: Count { ops: ops(number), bytes: ops(number) * 4096 }, ..PerOp::default() };
            let end = Nanos((number + 1) * INTERVAL.0);
            ebbtide_model::samples::Interval {
                end,
                array,
                latency: Histogram::default(),
                members: vec![array],
            }
        })
        .collect();
    let all: u64 = (0..48).map(ops).sum();
    samples.array.read.count = Count { ops: all, bytes: all * 4096 };
    samples.members[0].ops.read.count = samples.array.read.count;
    let part = |share: f64| Nanos::from_secs_f64(share * INTERVAL.as_secs_f64());
    let disk = |number: u64| {
        let Level { others, busy, queue, .. } = at(number);
        let (own, more) = (ops(number), others / 4 / 4096);
        // By Little's law.
        let time = Nanos::from_secs_f64(queue * INTERVAL.as_secs_f64());
        DiskUse {
            ops: PerOp { read: own + more, write: 0 },
            bytes: PerOp { read: (own + more) * 4096, write: 0 },
            time: PerOp { read: time, write: Nanos(0) },
            busy: part(busy),
            weighted: time,
            ..DiskUse::default()
        }
    };
    let look = |number: u64| ObservedInterval {
        end: Nanos((number + 1) * INTERVAL.0),
        devices: vec![disk(number)],
        core_busy: vec![part(at(number).cores); 2],
    };
    let series: Vec<ObservedInterval> = (0..48).map(look).collect();
    let mut total = DiskUse::default();
    for interval in &series {
        let one = &interval.devices[0];
        total.ops.read += one.ops.read;
        total.bytes.read += one.bytes.read;
        total.time.read = total.time.read.plus(one.time.read);
        total.busy = total.busy.plus(one.busy);
        total.weighted = total.weighted.plus(one.weighted);
    }
    let core = CoreUse { user: Nanos(3_600_000_000), idle: Nanos(8_400_000_000), ..CoreUse::default() };
    samples.observed = Some(Box::new(Observation {
        devices: vec![DeviceObservation { name: "nvme0n1".into(), total, ..DeviceObservation::default() }],
        members: vec![MemberObservation {
            member: "v0".into(),
            devices: vec![0],
            ..MemberObservation::default()
        }],
        series,
        cores: vec![core; 2],
        ..Observation::default()
    }));
    samples
}

/// The last second of every three.
fn last_of_three(interval: u64) -> bool {
    interval % 12 >= 8
}

fn deep() -> Experiment {
    let mut experiment = stripe(1);
    experiment.workloads[0].iodepth = 32;
    experiment.workloads[0].warm_up = Nanos(0);
    experiment
}

fn of(fast: Level, slow: Level) -> Session {
    six_rounds(&deep(), |_| swinging(fast, slow, last_of_three))
}

#[test]
fn a_device_that_swings_by_itself_is_told_with_its_waves() {
    let verdict = &verdicts(&of(FAST, SLOW))[0];
    assert_eq!((verdict.kind, verdict.basis), (DeviceWaves, Some(Basis::Inferred)));
    assert_eq!(
        verdict.sentence,
        "nvme0n1 swings by itself: 8.01 k requests/s for 33% of the time, every 3.0 s, and 20.0 k requests/s in between; \
         its requests take 3.87 ms then instead of 1.55 ms, and nobody else is seen at \
         work on it: an SSD's garbage collection or throttling by heat, or what is behind a network volume"
    );
    // A third of the time at two fifths.
    assert!((verdict.explains - 0.2).abs() < 0.01, "{verdict:?}");
}

#[test]
fn what_others_or_processors_do_is_not_the_device() {
    // It moves as much as before, for somebody else; more would be others' anyway.
    let others = Level { others: 12_000 * 4096, ..SLOW };
    let found = kinds(&of(FAST, others));
    assert!(!found.contains(&DeviceWaves), "{found:?}");
    // All that the load has lost they have: that is said of them.
    let (fast, slow) =
        (Level { iops: 200, ..FAST }, Level { iops: 80, others: 120 * 4096, queue: 45.0, ..FAST });
    let (why, _) = ruled_out(&of(fast, slow), DeviceWaves);
    assert!(why.starts_with("held back by `background`"), "{why}");
    // The device has time to spare, or operations wait above it.
    for slow in [Level { busy: 0.4, queue: 0.8, ..SLOW }, Level { queue: 4.0, ..SLOW }] {
        let session = of(FAST, slow);
        assert_eq!(kinds(&session), [Unknown]);
        let (why, _) = ruled_out(&session, DeviceWaves);
        assert!(why.contains("do not wait at a device"), "{why}");
    }
    // The processors have none.
    let session = of(FAST, Level { cores: 1.0, ..SLOW });
    assert_eq!(kinds(&session), [Unknown]);
    let (why, seen) = ruled_out(&session, DeviceWaves);
    assert!(why.ends_with("the processors have little time left"), "{why}");
    assert_eq!(seen[0].1, Some(0.9));
    // Nobody looked.
    let session = six_rounds(&deep(), |_| {
        let mut samples = swinging(FAST, SLOW, last_of_three);
        samples.observed = None;
        samples
    });
    let (why, _) = ruled_out(&session, DeviceWaves);
    assert!(why.contains("were not observed"), "{why}");
}

#[test]
fn what_is_steady_or_slow_once_has_no_waves() {
    let why = |when: fn(u64) -> bool| {
        let session = six_rounds(&deep(), |_| swinging(FAST, SLOW, when));
        assert!(!kinds(&session).contains(&DeviceWaves));
        ruled_out(&session, DeviceWaves).0
    };
    for when in
        [|_| false, |interval| (20..28).contains(&interval), |interval: u64| interval.is_multiple_of(2)]
    {
        assert_eq!(why(when), "the devices of the members do not go back and forth between two levels");
    }
    // In one of six trials only.
    let session = six_rounds(&deep(), |trial| {
        swinging(FAST, SLOW, |interval| trial.round == 2 && last_of_three(interval))
    });
    let (_, seen) = ruled_out(&session, DeviceWaves);
    assert_eq!(seen[0], (1.0, Some(3.0)));
    // Slow for so short that it costs little.
    let little = Level { iops: 15_500, ..SLOW };
    let (why, _) = ruled_out(&of(FAST, little), DeviceWaves);
    assert_eq!(why, "the slower times cost little");
    // Operations that come as they like, and a volume that is held to a shape.
    let mut open = deep();
    open.workloads[0].arrival = Arrival::Fixed { iops: 15_000.0 };
    let session = six_rounds(&open, |_| swinging(FAST, SLOW, last_of_three));
    assert!(ruled_out(&session, DeviceWaves).0.starts_with("the load is not a steady one"));
    let shaped = shaped(deep(), 50_000.0, Nanos(100_000));
    let session = six_rounds(&shaped, |_| swinging(FAST, SLOW, last_of_three));
    assert!(ruled_out(&session, DeviceWaves).0.starts_with("the volumes are held to a shape"));
}
