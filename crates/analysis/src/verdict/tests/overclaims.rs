//! Situations in which a rule said more than its evidence: each with the answer that is right.

use super::trees::{ASKED, disk, on, over};
use super::*;
use crate::fixtures::{BS, trial};
use VerdictKind::{Background, Concurrency, Cpu, RateLimit, Readahead, Unknown, VolumeLimit};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{CoreUse, DeviceObservation, DiskUse, Join, MemberObservation, Observation};
use ebbtide_model::workload::{Access, Arrival, Mix};

/// What a device did in a second: requests, bytes, busy, queue.
#[derive(Clone, Copy)]
struct Dev {
    ops: f64,
    bytes: f64,
    busy: f64,
    queue: f64,
}

/// A direct read trial of one volume: `iops` of `bs` with so many in flight, beside what its disk did.
fn one_disk(iops: u64, bs: u64, in_flight: f64, dev: Dev) -> TrialSamples {
    let latency = (in_flight * 1e9 / iops as f64) as u64;
    let mut samples = trial(&[("v0", iops, latency)]);
    let seconds = samples.elapsed.as_secs_f64();
    let times = bs / BS;
    samples.array.read.count.bytes *= times;
    samples.members[0].ops.read.count.bytes *= times;
    for interval in &mut samples.series {
        interval.array.read.bytes *= times;
        interval.members.iter_mut().for_each(|m| m.read.bytes *= times);
    }
    let device = DeviceObservation {
        name: "nvme0n1".into(),
        number: "259:0".into(),
        total: DiskUse {
            ops: PerOp { read: (dev.ops * seconds) as u64, write: 0 },
            bytes: PerOp { read: (dev.bytes * seconds) as u64, write: 0 },
            busy: Nanos::from_secs_f64(dev.busy * seconds),
            weighted: Nanos::from_secs_f64(dev.queue * seconds),
            ..DiskUse::default()
        },
        max_request: Some(Bytes(1 << 20)),
        readahead: Some(Bytes(128 * Bytes::KIB)),
        rotational: Some(false),
        ..DeviceObservation::default()
    };
    samples.observed = Some(Box::new(Observation {
        devices: vec![device],
        members: vec![MemberObservation {
            member: "v0".into(),
            devices: vec![0],
            ..MemberObservation::default()
        }],
        cores: vec![CoreUse::default(); 2],
        ..Observation::default()
    }));
    samples
}

/// Sequential direct reads at the speed of a link or of a platter, a little uneven.
fn sequential(megabytes: f64) -> Session {
    const K: u64 = 1024;
    let mut experiment = stripe(1);
    experiment.workloads[0].iodepth = 32;
    experiment.workloads[0].access = Access::Sequential;
    experiment.workloads[0].bs = Bytes(128 * K);
    let run = |depth: u32, bs: u64, megabytes: f64| {
        let iops = ((megabytes * 1e6 / bs as f64) / 10.0) as u64 * 10;
        let queue = f64::from(depth) - 0.5;
        one_disk(
            iops,
            bs,
            f64::from(depth),
            Dev { ops: iops as f64, bytes: (iops * bs) as f64, busy: 1.0, queue },
        )
    };
    let mut session = six_rounds(&experiment, |t| {
        let mut samples = run(32, 128 * K, megabytes * (1.0 + f64::from(t.round % 3) * 0.001));
        for (at, interval) in samples.series.iter_mut().enumerate() {
            let ops = &mut interval.array.read.ops;
            *ops = if at % 4 < 2 { *ops + 1 } else { *ops - 1 };
        }
        samples
    });
    for (depth, times) in [(64, 1.0), (32, 0.998), (128, 0.999), (16, 0.995)] {
        with_rung(&mut session, depth, Bytes(128 * K), run(depth, 128 * K, megabytes * times));
    }
    for bs in [256 * K, 512 * K] {
        with_rung(&mut session, 32, Bytes(bs), run(32, bs, megabytes));
    }
    session
}

/// A link, a platter and a drive's bus are as even as a limit.
#[test]
fn what_is_even_in_bytes_may_be_the_devices_own() {
    for megabytes in [545.0, 187.0, 117.3, 3410.0] {
        let verdict = verdicts(&sequential(megabytes)).swap_remove(0);
        assert_eq!(verdict.kind, RateLimit);
        let said = "looks like a rate that somebody set, or the device's own: ";
        assert!(verdict.sentence.starts_with(said), "{}", verdict.sentence);
    }
}

/// Of a device that serves many at once it is not known without short runs what it is short of.
#[test]
fn what_limits_a_disk_that_may_have_room_is_not_known() {
    let mut experiment = stripe(1);
    experiment.workloads[0].iodepth = 4;
    let dev = Dev { ops: 120_000.0, bytes: 120_000.0 * 4096.0, busy: 0.98, queue: 11.7 };
    let session = six_rounds(&experiment, |_| one_disk(40_000, BS, 3.9, dev));
    let found = verdicts(&session);
    let background = found.iter().find(|verdict| verdict.kind == Background).expect("named");
    assert!(!background.sentence.contains("operations limit"), "{}", background.sentence);
}

#[test]
fn others_who_pause_in_a_short_run_are_no_number() {
    let run = |depth: u32, theirs: f64| {
        let own = 10_000 * u64::from(depth);
        let bytes = own as f64 * 4096.0 + theirs * 65536.0;
        let dev = Dev { ops: own as f64 + theirs, bytes, busy: 0.95, queue: f64::from(depth) + 1.0 };
        one_disk(own, BS, f64::from(depth), dev)
    };
    let mut experiment = stripe(1);
    experiment.workloads[0].iodepth = 4;
    let mut session = six_rounds(&experiment, |_| run(4, 8000.0));
    for (depth, theirs) in [(8, 8000.0), (4, 0.0), (16, 8000.0)] {
        with_rung(&mut session, depth, Bytes(BS), run(depth, theirs));
    }
    let figures = verdicts(&session).into_iter().flat_map(|verdict| verdict.evidence);
    assert!(figures.into_iter().all(|figure| figure.value.is_finite()));
}

/// A reader that pauses, that waits for a processor, or that waits for nobody knows what: not for a disk that idles.
#[test]
fn a_reader_that_does_not_wait_for_its_disk_has_no_window_that_is_too_small() {
    let mut experiment = array(ArrayKind::Linear, 1);
    let workload = &mut experiment.workloads[0];
    (workload.access, workload.direct, workload.iodepth) = (Access::Sequential, false, 1);
    workload.bs = Bytes(128 * Bytes::KIB);
    let run = |thread: Option<[u32; 3]>, iops: u64, busy: f64| {
        let rate = iops as f64;
        let dev = Dev { ops: rate, bytes: rate * 131_072.0, busy, queue: busy };
        let mut samples = one_disk(iops, 128 * Bytes::KIB, rate * 0.0005, dev);
        if let Some([busy, wait, pressed]) = thread {
            samples.cpu.busiest_thread_permille = Some(busy);
            samples.cpu.most_waiting_permille = Some(wait);
            samples.cpu.least_idle_permille = Some(pressed);
        }
        samples
    };
    let first = |experiment: &Experiment, thread, iops, busy| {
        kinds(&six_rounds(experiment, |_| run(thread, iops, busy)))[0]
    };
    assert_eq!(first(&experiment, None, 1500, 0.6), Readahead);
    assert_eq!(first(&experiment, Some([400, 500, 900]), 1500, 0.3), Cpu);
    assert_eq!(first(&experiment, Some([20, 0, 20]), 100, 0.05), Unknown);
    let mut pauses = experiment.clone();
    pauses.workloads[0].think_time = Nanos::from_millis(9);
    let mut paced = experiment.clone();
    paced.workloads[0].rate = Some(Bytes(100 * 131_072));
    let mut arrives = experiment;
    arrives.workloads[0].arrival = Arrival::Fixed { iops: 100.0 };
    for served in [pauses, paced, arrives] {
        assert_eq!(first(&served, None, 100, 0.6), Unknown);
    }
}

#[test]
fn a_limit_that_is_near_holds_nothing_back_of_what_is_served_at_once() {
    let mut experiment = shaped(stripe(1), 5000.0, Nanos(500_000));
    experiment.workloads[0].arrival = Arrival::Fixed { iops: 4800.0 };
    let run = |iops: u64, nanos: u64| kinds(&six_rounds(&experiment, |_| trial(&[("v0", iops, nanos)])));
    assert_eq!(run(4800, 510_000), [Unknown]);
    // Opposite: operations wait for it.
    assert_eq!(run(4800, 3_000_000), [VolumeLimit]);
}

/// A page of a bitmap on each device for each write: nobody else wrote.
#[test]
fn bitmaps_of_arrays_are_nobody_else() {
    let linear = array(ArrayKind::Linear, 1);
    let mirror = |writes: u64| {
        let of_each = ASKED * writes / 10;
        let devices = [
            over("md0", &[1, 2], Join::Mirror { copies: 2 }),
            disk("sda", 0, of_each),
            disk("sdb", 0, of_each),
        ];
        kinds(&six_rounds(&linear, |_| on(&devices, true)))
    };
    assert_eq!(mirror(20), [Unknown]);
    assert_eq!(mirror(40), [Background]);
    let parity = Join::Parity { parity: 1, of: 3, chunk: None };
    let (read, written) = (ASKED * 2 / 3, ASKED * 5 / 3);
    let raid5 = [
        over("md0", &[1, 2, 3], parity),
        disk("sda", read, written),
        disk("sdb", read, written),
        disk("sdc", read, written),
    ];
    assert!(!kinds(&six_rounds(&linear, |_| on(&raid5, true))).contains(&Background));
}

/// XFS makes each record of its log as long as a chunk of the array, and an array writes it as often as it writes everything.
#[test]
fn a_log_on_an_array_is_nobody_else() {
    const CHUNK: u64 = 64 * Bytes::KIB;
    let run = |written: u64| {
        let mut experiment = array(ArrayKind::Linear, 1);
        let workload = &mut experiment.workloads[0];
        (workload.mix, workload.sync) = (Mix::Write, true);
        let each = ASKED / BS * written / 2;
        let stripe = Join::Stripe { chunk: Some(Bytes(CHUNK)) };
        let devices = [over("md0", &[1, 2], stripe), disk("sda", 0, each), disk("sdb", 0, each)];
        kinds(&six_rounds(&experiment, |_| on(&devices, true)))
    };
    assert!(!run(BS + CHUNK).contains(&Background));
    assert!(run(2 * (BS + CHUNK)).contains(&Background), "more than a log takes");
    let twice = |written: u64| {
        let mut experiment = array(ArrayKind::Linear, 1);
        let workload = &mut experiment.workloads[0];
        (workload.mix, workload.sync) = (Mix::Write, true);
        let each = ASKED / BS * written;
        let devices = [
            over("dm-0", &[1, 2], Join::StripedMirror { copies: 2, chunk: Some(Bytes(CHUNK)) }),
            disk("sda", 0, each),
            disk("sdb", 0, each),
        ];
        kinds(&six_rounds(&experiment, |_| on(&devices, true)))
    };
    assert!(!twice(BS + CHUNK).contains(&Background), "each copy has it");
}

#[test]
fn one_operation_of_many_requests_keeps_a_disk_full() {
    let mut experiment = stripe(1);
    let workload = &mut experiment.workloads[0];
    (workload.access, workload.iodepth, workload.bs) = (Access::Sequential, 1, Bytes(16 * Bytes::MIB));
    let run = |queue: f64, busy: f64| {
        let dev = Dev { ops: 480.0, bytes: 30.0 * 16_777_216.0, busy, queue };
        kinds(&six_rounds(&experiment, |_| one_disk(30, 16 * Bytes::MIB, 1.0, dev)))
    };
    assert!(!run(12.0, 0.99).contains(&Concurrency));
    assert!(run(0.9, 0.9).contains(&Concurrency));
}
