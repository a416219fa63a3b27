use super::*;
use crate::experiment::{Answer, Environment, Volume, VolumeSource};
use crate::layout::{Arrangement, ArrayKind, LayoutNode};
use crate::plan::Role;
use crate::samples::PerOp;
use crate::units::Bytes;
use crate::volume::{Failure, FailureKind, Latency, Limit, LinkShape, Mood, Shape};
use crate::workload::{Access, Arrival, Mix, Stop};
use proptest::prelude::*;

const CHUNK: Bytes = Bytes(64 << 10);

fn shape() -> Shape {
    Shape {
        iops: Some(Limit::steady(3000.0)),
        throughput: Some(Limit::steady(125e6)),
        io_unit: Some(Bytes(256 << 10)),
        read_latency: Latency::Lognormal { median: Nanos(500_000), p99: Nanos(2_000_000) },
        write_latency: Latency::Lognormal { median: Nanos(700_000), p99: Nanos(3_000_000) },
        ..Shape::default()
    }
}

fn link_of(name: &str) -> LinkShape {
    LinkShape { name: name.into(), iops: None, throughput: None, one_way: Default::default() }
}

fn stripe() -> ArrayKind {
    ArrayKind::Stripe { chunk: CHUNK }
}

fn experiment(n: usize, kind: ArrayKind, shape: &Shape) -> Experiment {
    let volume = |i| Volume {
        name: format!("vol{i}"),
        source: VolumeSource::NewFile { directory: None },
        size: Some(Bytes(1 << 30)),
        shape: Some(shape.clone()),
    };
    let design = Design {
        name: "array".into(),
        layout: LayoutNode::Array { kind, members: (0..n).map(LayoutNode::Volume).collect() },
        stack: Default::default(),
    };
    Experiment {
        name: "made-up".into(),
        description: None,
        volumes: (0..n).map(volume).collect(),
        links: Vec::new(),
        designs: vec![design],
        control: 0,
        workloads: vec![randread()],
        answer: Answer {
            level: 0.95,
            precision: 0.05,
            trials_min: 6,
            trials_max: 20,
            budget: Nanos::from_secs(60),
            rest: Nanos::from_secs(1),
        },
        environment: Environment::default(),
    }
}

fn randread() -> Workload {
    Workload {
        iodepth: 64,
        warm_up: Nanos::from_secs(1),
        ..Workload::new("randread", Access::Random, Mix::Read, Stop::Runtime(Nanos::from_secs(5)))
    }
}

fn seqread() -> Workload {
    Workload {
        name: "seqread".into(),
        access: Access::Sequential,
        bs: Bytes(1 << 20),
        iodepth: 16,
        ..randread()
    }
}

fn trial(index: u32) -> Trial {
    Trial { index, round: index, design: 0, workload: 0, role: Role::Candidate, seed: 77 + u64::from(index) }
}

fn run(experiment: &Experiment, workload: &Workload) -> TrialSamples {
    try_run(experiment, workload).expect("simulates")
}

fn try_run(experiment: &Experiment, workload: &Workload) -> Result<TrialSamples, BackendError> {
    simulate(experiment, 1, &experiment.designs[0], workload, &trial(0), &Control::default())
}

fn ops(samples: &TrialSamples) -> u64 {
    samples.array.read.count.ops + samples.array.write.count.ops
}

fn iops(samples: &TrialSamples) -> f64 {
    ops(samples) as f64 / samples.elapsed.as_secs_f64()
}

fn throughput(samples: &TrialSamples) -> f64 {
    (samples.array.read.count.bytes + samples.array.write.count.bytes) as f64 / samples.elapsed.as_secs_f64()
}

#[track_caller]
fn close(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() <= tolerance, "{value} is not {expected} within {tolerance}");
}

#[test]
fn a_stripe_scales_until_the_link() {
    for n in [1, 2, 4, 8] {
        let mut experiment = experiment(n, stripe(), &shape());
        experiment.links = vec![LinkShape {
            name: "gigabit".into(),
            iops: None,
            throughput: Some(Limit::steady(300e6)),
            one_way: PerOp::default(),
        }];
        close(iops(&run(&experiment, &Workload { iodepth: 256, ..randread() })), 3000.0 * n as f64, 0.01);
        close(throughput(&run(&experiment, &seqread())), 125e6 * n as f64, 0.01);
        for volume in &mut experiment.volumes {
            volume.shape.as_mut().expect("has one").link = Some(0);
        }
        close(throughput(&run(&experiment, &seqread())), (125e6 * n as f64).min(300e6), 0.01);
    }
}

#[test]
fn linear_works_one_disk_and_a_stripe_all() {
    let linear = run(&experiment(8, ArrayKind::Linear, &shape()), &seqread());
    close(throughput(&linear), 125e6, 0.01);
    let busy = linear.members.iter().filter(|member| member.ops.read.count.ops > 0).count();
    assert_eq!(busy, 1);
    let striped = run(&experiment(8, stripe(), &shape()), &seqread());
    let total: u64 = striped.members.iter().map(|member| member.ops.read.count.bytes).sum();
    for member in &striped.members {
        close(member.ops.read.count.bytes as f64, total as f64 / 8.0, 0.02);
    }
}

#[test]
fn one_slow_member_drags_a_stripe_to_n_times_its_own_speed() {
    let mut experiment = experiment(8, stripe(), &shape());
    let slow = experiment.volumes[3].shape.as_mut().expect("has one");
    slow.iops = Some(Limit::steady(600.0));
    slow.throughput = Some(Limit::steady(25e6));
    close(iops(&run(&experiment, &Workload { iodepth: 256, ..randread() })), 8.0 * 600.0, 0.02);
    close(throughput(&run(&experiment, &seqread())), 8.0 * 25e6, 0.02);
}

#[test]
fn a_mirror_reads_from_both_and_writes_to_both() {
    let experiment = experiment(2, ArrayKind::Mirror, &shape());
    close(iops(&run(&experiment, &randread())), 6000.0, 0.01);
    let written = run(&experiment, &Workload { mix: Mix::Write, ..randread() });
    close(iops(&written), 3000.0, 0.01);
    for member in &written.members {
        close(member.ops.write.count.ops as f64, ops(&written) as f64, 0.001);
    }
}

#[test]
fn raid5_pays_four_ios_for_a_small_write_and_none_extra_for_a_whole_stripe() {
    let experiment = experiment(5, ArrayKind::Raid5 { chunk: CHUNK }, &shape());
    let small = run(&experiment, &Workload { mix: Mix::Write, iodepth: 256, ..randread() });
    close(iops(&small), 5.0 * 3000.0 / 4.0, 0.02);
    let whole = Workload { mix: Mix::Write, bs: Bytes(4 * CHUNK.0), ..seqread() };
    close(throughput(&run(&experiment, &whole)), 4.0 * 125e6, 0.02);
}

#[test]
fn littles_law_holds() {
    for (depth, arrival) in [
        (1, Arrival::Closed),
        (16, Arrival::Closed),
        (512, Arrival::Closed),
        (64, Arrival::Poisson { iops: 9000.0 }),
        (64, Arrival::Fixed { iops: 500.0 }),
    ] {
        let samples =
            run(&experiment(4, stripe(), &shape()), &Workload { iodepth: depth, arrival, ..randread() });
        // Concurrency = rate × time in the system; of the service in an open loop, whose latency starts earlier.
        let side = &samples.array.read;
        let mean = side.service.as_ref().unwrap_or(&side.latency).mean().expect("has operations");
        close(iops(&samples) * mean * 1e-9, samples.mean_in_flight.expect("measured"), 0.02);
        if arrival == Arrival::Closed {
            close(samples.mean_in_flight.expect("measured"), f64::from(depth), 0.01);
        }
    }
}

#[test]
fn an_overloaded_open_loop_shows_the_wait_and_a_closed_one_hides_it() {
    let experiment = experiment(1, stripe(), &shape());
    let open = Workload { arrival: Arrival::Poisson { iops: 3300.0 }, ..randread() };
    let samples = run(&experiment, &open);
    close(iops(&samples), 3000.0, 0.01);
    // 10% too much for 6 s: the last ones wait for half a second.
    assert!(samples.array.read.latency.max() > Some(400_000_000));
    assert!(samples.array.read.service.as_ref().and_then(|service| service.max()) < Some(100_000_000));
}

#[test]
fn cpu_limits_a_job_and_cores_limit_all_jobs() {
    let mut fast = shape();
    fast.iops = None;
    fast.throughput = None;
    let mut experiment = experiment(4, stripe(), &fast);
    experiment.environment.host.cpu_per_io = Nanos(20_000);
    experiment.environment.host.cores = 2;
    for (jobs, expected) in [(1, 50_000.0), (2, 100_000.0), (8, 100_000.0)] {
        let workload =
            Workload { numjobs: jobs, iodepth: 128, stop: Stop::Runtime(Nanos::from_secs(1)), ..randread() };
        let samples = run(&experiment, &workload);
        close(iops(&samples), expected, 0.01);
        assert!(jobs > 2 || samples.cpu.busiest_thread_permille > Some(980), "{:?}", samples.cpu);
    }
}

#[test]
fn requests_are_split_at_the_largest() {
    let mut experiment = experiment(1, stripe(), &shape());
    experiment.environment.host.max_request = Some(Bytes(128 << 10));
    let samples = run(&experiment, &seqread());
    let member = &samples.members[0].ops.read.count;
    assert_eq!(member.bytes, member.ops << 17);
    close(member.ops as f64, 8.0 * ops(&samples) as f64, 0.02);
}

fn buffered(memory: u64) -> Experiment {
    let mut experiment = experiment(4, stripe(), &shape());
    experiment.environment.host.memory = Some(Bytes(memory));
    experiment
}

#[test]
fn readahead_decides_what_one_buffered_reader_gets() {
    let workload = Workload { direct: false, iodepth: 1, bs: Bytes(128 << 10), ..seqread() };
    let mut experiment = buffered(64 << 20);
    experiment.environment.host.readahead = Some(Bytes(128 << 10));
    let small = throughput(&run(&experiment, &workload));
    experiment.environment.host.readahead = Some(Bytes(8 << 20));
    let large = throughput(&run(&experiment, &workload));
    close(large, 4.0 * 125e6, 0.02);
    assert!(small < 0.6 * large, "{small} {large}");
}

#[test]
fn what_fits_into_memory_is_read_from_memory_the_second_time() {
    // The span is a quarter of memory; the first pass takes 1 GiB / 500 MB/s.
    let workload = Workload {
        direct: false,
        iodepth: 1,
        bs: Bytes(1 << 20),
        span: Some(Bytes(1 << 30)),
        warm_up: Nanos::from_secs(10),
        ..seqread()
    };
    let mut experiment = buffered(4 << 30);
    experiment.environment.host.readahead = Some(Bytes(8 << 20));
    let samples = run(&experiment, &workload);
    close(throughput(&samples), 4e9, 0.01);
    assert_eq!(samples.members[0].ops.read.count.ops, 0);
    experiment.environment.host.memory = Some(Bytes(512 << 20));
    close(throughput(&run(&experiment, &workload)), 4.0 * 125e6, 0.02);
}

#[test]
fn buffered_writes_look_fast_until_the_memory_is_dirty_and_fsync_tells() {
    let write = Workload {
        direct: false,
        iodepth: 1,
        mix: Mix::Write,
        warm_up: Nanos(0),
        stop: Stop::Size(Bytes(1 << 30)),
        ..seqread()
    };
    let plenty = run(&buffered(16 << 30), &write);
    close(throughput(&plenty), 4e9, 0.02);
    let synced = run(&buffered(16 << 30), &Workload { end_fsync: true, ..write.clone() });
    close(throughput(&synced), 4.0 * 125e6, 0.25);
    assert!(throughput(&synced) < 4.0 * 125e6 * 1.15);
    // 64 MiB of memory hold 12.8 MiB of dirty pages.
    let scarce = run(&buffered(64 << 20), &write);
    close(throughput(&scarce), 4.0 * 125e6, 0.03);
}

#[test]
fn buffered_io_without_memory_is_refused_with_a_remedy() {
    let refused = try_run(&experiment(1, stripe(), &shape()), &Workload { direct: false, ..seqread() });
    assert!(refused.expect_err("refused").to_string().contains("memory = "));
}

#[test]
fn a_failing_member_ends_a_stripe_and_not_a_mirror() {
    let failure = Failure { kind: FailureKind::Error, at: Nanos::from_secs(2), lasts: None };
    let mut striped = experiment(4, stripe(), &shape());
    striped.volumes[2].shape.as_mut().expect("has one").character.failure = Some(failure);
    let error = try_run(&striped, &randread()).expect_err("fails");
    assert!(
        matches!(&error, BackendError::Volume { volume, what } if volume == "vol2" && what.contains("EIO"))
    );
    for kind in [
        ArrayKind::Mirror,
        ArrayKind::Raid10 { chunk: CHUNK, copies: 2, arrangement: Arrangement::Near },
        ArrayKind::Raid5 { chunk: CHUNK },
        ArrayKind::Raid6 { chunk: CHUNK },
    ] {
        for mix in [Mix::Read, Mix::Write] {
            let mut experiment = experiment(4, kind, &shape());
            let whole = run(&experiment, &Workload { mix, ..randread() });
            experiment.volumes[2].shape.as_mut().expect("has one").character.failure = Some(failure);
            let degraded = run(&experiment, &Workload { mix, ..randread() });
            // Alive, and slower where the lost member's reads fall to the others.
            assert!(iops(&degraded) > 0.3 * iops(&whole), "{kind:?} {mix:?}");
            let last = degraded.series.last().expect("has intervals");
            assert_eq!(last.members[2].read.ops + last.members[2].write.ops, 0, "{kind:?} {mix:?}");
        }
    }
}

#[test]
fn two_failures_are_one_too_many() {
    for kind in [ArrayKind::Raid5 { chunk: CHUNK }, ArrayKind::Mirror] {
        let n = if kind == ArrayKind::Mirror { 2 } else { 4 };
        let mut experiment = experiment(n, kind, &shape());
        for volume in &mut experiment.volumes[..2] {
            volume.shape.as_mut().expect("has one").character.failure =
                Some(Failure { kind: FailureKind::Vanish, at: Nanos::from_secs(2), lasts: None });
        }
        for mix in [Mix::Read, Mix::Write] {
            let error = try_run(&experiment, &Workload { mix, ..randread() }).expect_err("fails");
            assert!(error.to_string().contains("ENODEV"), "{error}");
        }
    }
}

#[test]
fn a_frozen_member_stops_a_stripe_for_as_long() {
    let mut experiment = experiment(4, stripe(), &shape());
    experiment.volumes[0].shape.as_mut().expect("has one").character.failure = Some(Failure {
        kind: FailureKind::Freeze,
        at: Nanos::from_secs(2),
        lasts: Some(Nanos::from_secs(3)),
    });
    let samples = run(&experiment, &randread());
    let stalled = samples.series.iter().filter(|interval| interval.array.read.ops == 0).count();
    // Three of five seconds, less what the other three still answer.
    close(stalled as f64 * samples.interval.as_secs_f64(), 3.0, 0.15);
    experiment.volumes[0].shape.as_mut().expect("has one").character.failure =
        Some(Failure { kind: FailureKind::Freeze, at: Nanos::from_secs(2), lasts: None });
    assert!(run(&experiment, &randread()).array.read.latency.max() < Some(Nanos::PER_SECOND));
    let by_size = Workload { stop: Stop::Size(Bytes(1 << 30)), ..randread() };
    assert!(try_run(&experiment, &by_size).expect_err("stalls").to_string().contains("frozen"));
}

#[test]
fn a_resync_takes_its_share_and_is_seen() {
    let mut experiment = experiment(2, ArrayKind::Mirror, &shape());
    experiment.environment.resync = Some(crate::experiment::Resync { rate: 50e6 });
    let samples = run(&experiment, &Workload { bs: Bytes(64 << 10), ..seqread() });
    let alone = 125e6;
    assert!(throughput(&samples) < 0.7 * alone, "{}", throughput(&samples));
    let observed = samples.observed.expect("observed");
    assert_eq!(observed.others[0].kind, crate::samples::OtherKind::Resync);
    let bytes = observed.others[0].bytes.expect("counted");
    // One request of 512 KiB against 16 of 64 KiB gets a third: less than the 50 MB/s it may have.
    close(bytes.write as f64, 125e6 / 3.0 * 6.0, 0.02);
}

#[test]
fn two_clients_share_a_server_and_have_a_link_each() {
    let mut server = Shape {
        iops: Some(Limit::steady(7000.0)),
        read_latency: Latency::Constant(Nanos::from_millis(1)),
        write_latency: Latency::Constant(Nanos::from_millis(7)),
        link: Some(0),
        ..Shape::default()
    };
    server.character.costs =
        Some(crate::volume::Costs { read: 2.0, write: 2.0, min_bytes: Bytes(4096), write_bytes: 1.0 });
    let mut experiment = experiment(1, ArrayKind::Linear, &server);
    experiment.links = vec![LinkShape {
        name: "client".into(),
        iops: Some(Limit::steady(5000.0)),
        throughput: None,
        one_way: PerOp::default(),
    }];
    let many = Workload { numjobs: 40, iodepth: 1, ..randread() };
    // One client: 5000/s of its own link count double on the server: 2500; two: the server's 3500.
    close(iops(&run(&experiment, &many)), 2500.0, 0.01);
    experiment.environment.clients = 2;
    close(iops(&run(&experiment, &Workload { numjobs: 80, ..many })), 3500.0, 0.01);
    // One writer waits for its round trip: 1000 / 7.
    let one = Workload { numjobs: 1, iodepth: 1, mix: Mix::Write, ..randread() };
    close(iops(&run(&experiment, &one)), 1000.0 / 7.0, 0.01);
}

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

#[test]
fn the_series_adds_up_and_stays_bounded() {
    let experiment = experiment(3, stripe(), &shape());
    let samples = run(&experiment, &randread());
    let sum: u64 = samples.series.iter().map(|interval| interval.array.read.ops).sum();
    assert_eq!(sum, samples.array.read.count.ops);
    for (index, member) in samples.members.iter().enumerate() {
        let sum: u64 = samples.series.iter().map(|interval| interval.members[index].read.ops).sum();
        assert_eq!(sum, member.ops.read.count.ops);
        assert_eq!(member.ops.read.latency.count(), sum);
    }
    assert_eq!(samples.series.last().map(|interval| interval.end), Some(samples.elapsed));
    // A day by size at 20 operations per second: the intervals grow instead of their number.
    let slow = Workload {
        arrival: Arrival::Fixed { iops: 2.0 },
        stop: Stop::Size(Bytes(4096 * 50_000)),
        ..randread()
    };
    let day = run(&experiment, &slow);
    assert!(day.series.len() <= 2048, "{}", day.series.len());
    assert_eq!(
        day.series.iter().map(|interval| interval.array.read.ops).sum::<u64>(),
        day.array.read.count.ops
    );
    assert_eq!(
        day.array.read.count.bytes + day.array.read.count.bytes % 4096,
        4096 * day.array.read.count.ops
    );
}

/// A small volume with credits for five minutes.
fn bursting() -> Shape {
    Shape {
        iops: Some(Limit { rate: 30.0, burst_rate: Some(300.0), burst_credits: 81_000.0 }),
        throughput: None,
        ..shape()
    }
}

#[test]
fn long_steady_stretches_are_leapt_over() {
    // 81 000 / (300 - 30) = 300 s of burst on each of two, then 30 until the hour is over.
    let mut experiment = experiment(2, stripe(), &bursting());
    let hour = Workload {
        stop: Stop::Runtime(Nanos::from_secs(3600)),
        warm_up: Nanos(0),
        iodepth: 256,
        ..randread()
    };
    let samples = run(&experiment, &hour);
    let expected = 2.0 * (300.0 * 300.0 + 3300.0 * 30.0);
    close(ops(&samples) as f64, expected, 0.01);
    let sum: u64 = samples.series.iter().map(|interval| interval.array.read.ops).sum();
    assert_eq!(sum, ops(&samples));
    assert_eq!(samples.array.read.latency.count(), ops(&samples));
    let member = &samples.members[0];
    close(member.ops.read.count.ops as f64, expected / 2.0, 0.01);
    close(member.model.expect("known").limited.total() as f64, expected / 2.0, 0.01);
    let credits = member.model.and_then(|model| model.iops_credits).expect("bursts");
    assert!(credits < 0.05, "{credits}");
    close(samples.mean_in_flight.expect("measured"), 256.0, 0.03);
    // The burst ends when it must: after 300 s, seen in intervals of 4 s.
    let fast = samples.series.iter().filter(|interval| interval.array.read.ops > 4 * 300).count();
    close(fast as f64 * samples.interval.as_secs_f64(), 300.0, 0.03);
    // Moods cut stretches short: their shares of time show in the mean rate.
    for volume in &mut experiment.volumes {
        let shape = volume.shape.as_mut().expect("has one");
        shape.iops = Some(Limit::steady(100.0));
        shape.character.moods = [("good", 1.0), ("bad", 0.5)]
            .map(|(name, rate)| Mood {
                name: name.into(),
                dwell: Nanos::from_secs(300),
                weight: 1.0,
                rate,
                latency: 1.0,
            })
            .to_vec();
    }
    let day = Workload { stop: Stop::Runtime(Nanos::from_secs(86_400)), ..hour };
    let samples = run(&experiment, &day);
    // A stripe runs at twice its slower member: 200 when both are good, a quarter of the time.
    close(iops(&samples), 2.0 * (0.25 * 100.0 + 0.75 * 50.0), 0.06);
    assert!(samples.series.len() <= 1024);
}

#[test]
fn a_leap_changes_nothing_that_can_be_known() {
    // 20 s never leap, 20 min do; nothing changes in them.
    let experiment = experiment(4, stripe(), &shape());
    let mut link = experiment.clone();
    link.links = vec![LinkShape { throughput: Some(Limit::steady(30e6)), ..link_of("link") }];
    for volume in &mut link.volumes {
        volume.shape.as_mut().expect("has one").link = Some(0);
    }
    for experiment in [&experiment, &link] {
        let of = |seconds| {
            let stop = Stop::Runtime(Nanos::from_secs(seconds));
            let workload = Workload { stop, iodepth: 256, ..randread() };
            run(experiment, &workload)
        };
        let (full, leapt) = (of(20), of(1200));
        close(iops(&leapt), iops(&full), 0.005);
        for p in [50.0, 99.0] {
            let at =
                |samples: &TrialSamples| samples.array.read.latency.percentile(p).expect("has operations");
            close(at(&leapt) as f64, at(&full) as f64, 0.1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is asked: no panic, the window is whole, no more than the limits allow.
    #[test]
    fn any_workload_ends(
        n in 1usize..6,
        bs in prop::sample::select(vec![512u64, 4096, 65_536, 1 << 20]),
        iodepth in 1u32..64,
        numjobs in 1u32..4,
        sequential: bool,
        mix in prop::sample::select(vec![Mix::Read, Mix::Write, Mix::Rewrite, Mix::Mixed { read_percent: 70 }]),
        direct: bool,
        end_fsync: bool,
        size in prop::option::of(1u64..32 << 20),
        layout in 0usize..4,
        seed: u64,
    ) {
        let kind = [
            stripe(),
            ArrayKind::Linear,
            ArrayKind::Mirror,
            if n >= 3 { ArrayKind::Raid5 { chunk: CHUNK } } else { stripe() },
        ][layout];
        let mut experiment = experiment(n.max(if kind == ArrayKind::Mirror { 2 } else { 1 }), kind, &shape());
        experiment.environment.host.memory = Some(Bytes(16 << 20));
        let workload = Workload {
            access: if sequential { Access::Sequential } else { Access::Random },
            mix, bs: Bytes(bs), iodepth, numjobs, direct, end_fsync,
            stop: size.map_or(Stop::Runtime(Nanos::from_millis(400)), |size| Stop::Size(Bytes(size))),
            warm_up: Nanos::from_millis(if size.is_some() { 0 } else { 100 }),
            ..randread()
        };
        let trial = Trial { seed, ..trial(0) };
        let samples = simulate(&experiment, seed, &experiment.designs[0], &workload, &trial, &Control::default());
        let samples = samples.expect("simulates");
        if let Some(size) = size {
            let asked = if mix == Mix::Rewrite { 2 * size } else { size };
            prop_assert_eq!(samples.array.read.count.bytes + samples.array.write.count.bytes, asked);
        } else {
            prop_assert!(samples.elapsed >= Nanos::from_millis(400));
        }
        if direct && samples.elapsed.0 > 0 {
            let most = 125e6 * n.max(2) as f64 * (samples.elapsed.as_secs_f64() + 0.12) + 3e6;
            prop_assert!(throughput(&samples) * samples.elapsed.as_secs_f64() <= most);
        }
    }
}
