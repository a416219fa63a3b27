//! Queues that are too shallow, or are not.

use super::*;
use crate::fixtures::trial;
use VerdictKind::{Concurrency, Unknown};
use ebbtide_model::samples::{MemberObservation, Observation};
use ebbtide_model::session::Rung;
use ebbtide_model::workload::Arrival;

#[test]
fn latency_at_the_floor_means_that_nothing_waits() {
    // One operation at a time on a volume of 1 ms.
    let mut experiment = shaped(stripe(1), 5000.0, Nanos::from_millis(1));
    experiment.workloads[0].iodepth = 1;
    let shallow = six_rounds(&experiment, |_| trial(&[("v0", 930, 1_070_000)]));
    let verdict = &verdicts(&shallow)[0];
    assert_eq!(verdict.kind, Concurrency);
    assert!(verdict.sentence.contains("takes 1.07 ms where one alone takes 1.00 ms"), "{}", verdict.sentence);
    let alone = "1 operation in flight does not fill the volume: ";
    assert!(verdict.sentence.starts_with(alone), "{}", verdict.sentence);
    // Opposite: 32 in flight wait for one another.
    experiment.workloads[0].iodepth = 32;
    let deep = six_rounds(&experiment, |_| trial(&[("v0", 4000, 8_000_000)]));
    assert_eq!(kinds(&deep), [Unknown]);
    let (_, seen) = ruled_out(&deep, Concurrency);
    assert!((seen[0].0 - 0.125).abs() < 1e-3 && seen[0].1 == Some(0.7), "{seen:?}");
}

/// A rung with so many in flight that does so many operations per second.
fn rung(experiment: &Experiment, in_flight: u32, iops: u64) -> Rung {
    let latency = u64::from(in_flight) * 1_000_000_000 / iops;
    Rung {
        design: experiment.designs[0].name.clone(),
        workload: experiment.workloads[0].name.clone(),
        in_flight,
        bs: experiment.workloads[0].bs,
        samples: Box::new(trial(&[("v0", iops, latency)])),
    }
}

#[test]
fn a_probe_at_double_depth_settles_it() {
    let mut experiment = shaped(stripe(1), 5000.0, Nanos::from_millis(1));
    experiment.workloads[0].iodepth = 1;
    let probed = |ops: u64| {
        let mut session = six_rounds(&experiment, |_| trial(&[("v0", 930, 1_070_000)]));
        session.meta.rungs = vec![rung(&experiment, 2, ops)];
        session
    };
    let verdict = &verdicts(&probed(1800))[0];
    assert_eq!((verdict.kind, verdict.confidence), (Concurrency, 0.95));
    assert!(verdict.sentence.ends_with("with 2 in flight had 1.9 times the rate"), "{}", verdict.sentence);
    let figure = verdict.evidence.last().expect("evidence");
    assert_eq!((figure.value, figure.reference), (1800.0, Some(930.0)));
    // A little more leaves it as it is; no more withdraws the verdict.
    assert!(kinds(&probed(1120)) == [Concurrency] && !verdicts(&probed(1120))[0].sentence.contains("probe"));
    assert_eq!(kinds(&probed(960)), [Unknown]);
    let (why, seen) = ruled_out(&probed(960), Concurrency);
    assert!(why.contains("short probe"), "{why}");
    assert_eq!(seen, [(960.0 / 930.0, Some(1.1))]);
    // What else went on by then may have made all slower: the same at the time of the probe is what it is compared with.
    let mut slower = probed(960);
    slower.meta.rungs.push(rung(&experiment, 1, 520));
    assert_eq!(kinds(&slower), [Concurrency]);
    // What was probed of another workload says nothing.
    let mut other = probed(960);
    other.meta.rungs[0].workload = "another".into();
    assert_eq!(kinds(&other), [Concurrency]);
}

/// Sixteen on a volume of which nothing is known.
#[test]
fn more_in_flight_that_help_are_a_cause_by_themselves() {
    let mut experiment = stripe(1);
    experiment.workloads[0].iodepth = 16;
    let with = |rungs: &[(u32, u64)]| {
        let mut session = six_rounds(&experiment, |_| trial(&[("v0", 10_000, 1_600_000)]));
        session.meta.rungs = rungs.iter().map(|(depth, iops)| rung(&experiment, *depth, *iops)).collect();
        session
    };
    let helped = &verdicts(&with(&[(32, 14_000), (16, 10_000), (64, 17_000)]))[0];
    assert_eq!(helped.kind, Concurrency);
    assert!(helped.sentence.ends_with("with 64 in flight the rate is 70% higher"), "{}", helped.sentence);
    // The fewest of those that have about as much.
    let enough = &verdicts(&with(&[(32, 14_000), (16, 10_000), (64, 14_500)]))[0];
    assert!(enough.sentence.ends_with("with 32 in flight the rate is 40% higher"), "{}", enough.sentence);
    assert_eq!(kinds(&with(&[(32, 11_000), (16, 10_000), (64, 12_000)])), [Unknown]);
    assert_eq!(kinds(&with(&[])), [Unknown]);
}

#[test]
fn an_observed_floor_serves_as_well() {
    let observed = |floor: u64| {
        move |_: &Trial| {
            let mut samples = trial(&[("v0", 4000, 1_000_000)]);
            let member = MemberObservation {
                member: "v0".into(),
                floor: Some(Nanos(floor)),
                ..MemberObservation::default()
            };
            samples.observed =
                Some(Box::new(Observation { members: vec![member], ..Observation::default() }));
            samples
        }
    };
    assert_eq!(kinds(&six_rounds(&stripe(1), observed(900_000))), [Concurrency]);
    assert_eq!(kinds(&six_rounds(&stripe(1), observed(200_000))), [Unknown]);
}

#[test]
fn fewer_operations_than_members_leave_members_idle() {
    let mut experiment = stripe(8);
    experiment.workloads[0].iodepth = 2;
    let idle = six_rounds(&experiment, |_| trial(&NAMES.map(|name| (name, 250, 1_000_000))));
    assert_eq!(kinds(&idle), [Concurrency], "2 in flight over 8 members");
    experiment.workloads[0].iodepth = 32;
    let busy = six_rounds(&experiment, |_| trial(&NAMES.map(|name| (name, 1000, 4_000_000))));
    assert_eq!(kinds(&busy), [Unknown]);
    // On one shared disk more operations in flight do not work more disks.
    experiment.workloads[0].iodepth = 2;
    let mut shared = six_rounds(&experiment, |_| trial(&NAMES.map(|name| (name, 250, 1_000_000))));
    on_disks(&mut shared, &["8:0"; 8]);
    assert_eq!(kinds(&shared), [VerdictKind::SharedDevice]);
}

/// One operation at a time on two volumes of 300 operations/s: it waits for the next grant of the one while the other
/// idles.
#[test]
fn idle_members_count_where_operations_wait_for_one_volumes_grants() {
    let mut experiment = shaped(stripe(2), 300.0, Nanos::from_millis(1));
    experiment.workloads[0].iodepth = 1;
    let run = |_: &Trial| trial(&[("v0", 240, 2_090_000), ("v1", 240, 2_090_000)]);
    let verdict = &verdicts(&six_rounds(&experiment, run))[0];
    assert_eq!(verdict.kind, Concurrency);
    assert!(
        verdict.sentence.contains("1 operation in flight leaves members idle: 0.50"),
        "{}",
        verdict.sentence
    );
    // Opposites: a link that is full, a slow member, and a volume alone, whose operation waits for something else.
    let mut linked = experiment.clone();
    linked.links = vec![ebbtide_model::volume::LinkShape {
        name: "gigabit".into(),
        iops: Some(Limit::steady(485.0)),
        throughput: None,
        one_way: ebbtide_model::per_op::PerOp::default(),
    }];
    linked.volumes.iter_mut().for_each(|v| v.shape.as_mut().expect("is shaped").link = Some(0));
    assert_eq!(kinds(&six_rounds(&linked, run)), [VerdictKind::InstanceLimit]);
    let (why, _) = ruled_out(&six_rounds(&linked, run), Concurrency);
    assert!(why.starts_with("held back by `instance-limit`"), "{why}");
    let one_slow = |_: &Trial| trial(&[("v0", 120, 7_400_000), ("v1", 120, 1_000_000)]);
    assert_eq!(kinds(&six_rounds(&experiment, one_slow)), [VerdictKind::Member]);
    let mut alone = shaped(stripe(1), 5000.0, Nanos::from_millis(1));
    alone.workloads[0].iodepth = 1;
    assert_eq!(kinds(&six_rounds(&alone, |_| trial(&[("v0", 240, 4_100_000)]))), [Unknown]);
}

#[test]
fn one_operation_at_a_time_without_a_known_floor() {
    let mut experiment = stripe(1);
    experiment.workloads[0].iodepth = 1;
    let run = |_: &Trial| trial(&[("v0", 930, 1_070_000)]);
    assert_eq!(kinds(&six_rounds(&experiment, run)), [Concurrency]);
    experiment.workloads[0].iodepth = 4;
    assert_eq!(kinds(&six_rounds(&experiment, run)), [Unknown]);
    experiment.workloads[0].iodepth = 1;
    experiment.workloads[0].direct = false;
    assert_eq!(kinds(&six_rounds(&experiment, run)), [Unknown], "the page cache decides what is in flight");
}

#[test]
fn an_open_loop_is_served_or_not_and_never_too_shallow() {
    let mut experiment = shaped(stripe(1), 5000.0, Nanos::from_millis(1));
    experiment.workloads[0].arrival = Arrival::Fixed { iops: 930.0 };
    let session = six_rounds(&experiment, |_| trial(&[("v0", 930, 1_000_000)]));
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, Unknown);
    assert!(verdict.sentence.starts_with("the load asks for no more"), "{}", verdict.sentence);
}

#[test]
fn a_workload_that_limits_itself_is_said_to() {
    // 4000 operations of 4 KiB in a second, at a depth where nothing else is found.
    let mut experiment = shaped(stripe(1), 5000.0, Nanos::from_millis(1));
    experiment.workloads[0].iodepth = 32;
    let said = |experiment: &Experiment, ops: u64| {
        let session = six_rounds(experiment, |_| trial(&[("v0", ops, 8_000_000)]));
        let verdict = verdicts(&session).swap_remove(0);
        assert_eq!(verdict.kind, Unknown);
        verdict.sentence
    };
    experiment.workloads[0].rate = Some(Bytes(4000 * 4096));
    assert!(said(&experiment, 4000).starts_with("the workload's own `rate` of 16.4 MB/s limits it"));
    // Opposite: half of it is not reached.
    experiment.workloads[0].rate = Some(Bytes(8000 * 4096));
    assert!(!said(&experiment, 4000).contains("rate"));
    experiment.workloads[0].rate = None;
    experiment.workloads[0].think_time = Nanos::from_millis(10);
    assert!(
        said(&experiment, 95)
            .contains("`thinktime` of 10ms limits it, not the volume: its jobs pause for 95%")
    );
    experiment.workloads[0].think_time = Nanos(10_000);
    assert!(!said(&experiment, 4000).contains("thinktime"));
}

/// 300 synchronous writes a second, each 3.33 ms: the device's requests, its flushes, and the rest.
pub(super) fn durable(sync: bool, rungs: &[(u32, u64)]) -> Session {
    use ebbtide_model::per_op::PerOp;
    use ebbtide_model::samples::{DeviceObservation, DiskUse};
    use ebbtide_model::workload::Mix;
    let mut experiment = stripe(1);
    let workload = &mut experiment.workloads[0];
    (workload.iodepth, workload.mix, workload.sync) = (1, Mix::Write, sync);
    let writes = |iops: u64, latency: u64| {
        let mut samples = trial(&[("v0", iops, latency)]);
        std::mem::swap(&mut samples.array.read, &mut samples.array.write);
        let member = &mut samples.members[0].ops;
        std::mem::swap(&mut member.read, &mut member.write);
        let ops = 2 * iops;
        let total = DiskUse {
            ops: PerOp { read: 0, write: 2 * ops },
            bytes: PerOp { read: 0, write: ops * 4096 },
            // As the kernel does it, with the flushes that they waited for.
            time: PerOp { read: Nanos(0), write: Nanos(ops * 2_500_000) },
            flushes: Some(ops),
            flush_time: Some(Nanos(ops * 2_000_000)),
            ..DiskUse::default()
        };
        samples.observed = Some(Box::new(Observation {
            devices: vec![DeviceObservation { name: "sda".into(), total, ..DeviceObservation::default() }],
            members: vec![MemberObservation {
                member: "v0".into(),
                devices: vec![0],
                ..MemberObservation::default()
            }],
            ..Observation::default()
        }));
        samples
    };
    let mut session = six_rounds(&experiment, |_| writes(300, 3_300_000));
    let mut climbed: Vec<Rung> = rungs.iter().map(|(depth, iops)| rung(&experiment, *depth, *iops)).collect();
    climbed.iter_mut().for_each(|rung| rung.bs = experiment.workloads[0].bs);
    session.meta.rungs = climbed;
    session
}

#[test]
fn one_synchronous_write_at_a_time_is_told_in_its_parts() {
    let session = durable(true, &[(2, 560), (1, 300), (4, 1000)]);
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, VerdictKind::SyncWrites);
    assert_eq!(
        verdict.sentence,
        "one synchronous write at a time (O_SYNC): each takes 3.33 ms, of which the device's requests are at most 500 us (15%), its \
         flushes at most 2.00 ms (60%), and the file system and the rest 833 us (25%); 8 made durable together would take \
         about 854 us each, 3.9 times the rate, if each still had a request of its own; 4 at a time had 3.3 times the rate"
    );
    let (why, _) = ruled_out(&session, Concurrency);
    assert!(why.starts_with("held back by `sync-writes`"), "{why}");
    // Without a ladder one job alone is enough, with less confidence.
    let alone = &verdicts(&durable(true, &[]))[0];
    assert!(alone.kind == VerdictKind::SyncWrites && alone.confidence < verdict.confidence, "{alone:?}");
    // Opposites: writes that nobody makes durable, and more at a time that have no more done.
    assert_eq!(kinds(&durable(false, &[(2, 560), (1, 300), (4, 1000)])), [Concurrency]);
    let flat = durable(true, &[(2, 305), (1, 300), (4, 300)]);
    assert!(!kinds(&flat).contains(&VerdictKind::SyncWrites), "{:?}", kinds(&flat));
    let mut several = durable(true, &[]);
    several.experiment.workloads[0].numjobs = 4;
    assert!(!kinds(&several).contains(&VerdictKind::SyncWrites));
    let mut deep = durable(true, &[]);
    deep.experiment.workloads[0].iodepth = 8;
    assert!(!kinds(&deep).contains(&VerdictKind::SyncWrites));
}

/// A shape that says nothing of flushes leaves them to the disk underneath, which is none of the volume's.
#[test]
fn whose_flushes_they_are_is_told() {
    let shaped = |flush_latency| {
        let mut session = durable(true, &[]);
        let mut shape = Shape::default();
        shape.character.flush_latency = flush_latency;
        session.experiment.volumes[0].shape = Some(shape);
        verdicts(&session).swap_remove(0).sentence
    };
    let disk = "what flushes take is this machine's own disk";
    assert!(shaped(None).ends_with(disk), "{}", shaped(None));
    let own = shaped(Some(Latency::Constant(Nanos::from_millis(2))));
    assert!(!own.contains(disk), "{own}");
    // Its own requests and flushes are the shape's then, and not what the disk underneath had.
    let parts = "the device's requests are at most 1.30 ms (39%), its flushes at most 2.00 ms (60%)";
    assert!(own.contains(parts), "{own}");
    let real = verdicts(&durable(true, &[])).swap_remove(0).sentence;
    assert!(!real.contains(disk), "{real}");
}

/// A log on one volume: larger writes are no advice, and the limit is none that it reaches when it stands still for a third of the time.
#[test]
fn one_durable_write_at_a_time_is_no_question_of_its_size() {
    let log = |stands_still: bool, sync: bool| {
        let mut session = durable(sync, &[]);
        session.experiment.workloads[0].access = ebbtide_model::workload::Access::Sequential;
        session.experiment.volumes[0].shape = Some(Shape {
            iops: Some(Limit::steady(300.0)),
            throughput: Some(Limit::steady(1e9)),
            ..Shape::default()
        });
        for record in &mut session.trials {
            let Outcome::Samples(samples) = &mut record.outcome else { continue };
            for (at, interval) in samples.series.iter_mut().enumerate() {
                let ops = if stands_still && at % 3 == 0 { 0 } else { 30 };
                let count = ebbtide_model::samples::Count { ops, bytes: ops * 4096 };
                interval.array = ebbtide_model::per_op::PerOp { read: Default::default(), write: count };
                interval.members = vec![interval.array];
            }
        }
        session
    };
    assert_eq!(kinds(&log(true, true))[0], VerdictKind::SyncWrites);
    assert_eq!(kinds(&log(false, true)), [VerdictKind::VolumeLimit]);
    // Opposite: nobody makes them durable.
    assert!(kinds(&log(false, false)).contains(&VerdictKind::RequestSize), "{:?}", kinds(&log(false, false)));
}

/// md and device mapper count no flushes: those of the disks below are put together by how the array is.
#[test]
fn what_disks_below_an_array_flush_is_told() {
    use ebbtide_model::per_op::PerOp;
    use ebbtide_model::samples::{Below, Join};
    let over = |join: Join, [slow, fast]: [u64; 2]| {
        let mut session = durable(true, &[(2, 560), (1, 300), (4, 1000)]);
        for record in &mut session.trials {
            let ebbtide_model::session::Outcome::Samples(samples) = &mut record.outcome else { continue };
            let ops = samples.array.write.count.ops;
            let observed = samples.observed.as_mut().expect("is observed");
            let mut disk = observed.devices[0].clone();
            disk.below = Some(Below::default());
            let mut array = disk.clone();
            array.name = "md0".into();
            array.below = Some(Below { devices: vec![1, 2], join, missing: 0 });
            (array.total.flushes, array.total.flush_time) = (Some(0), Some(Nanos(0)));
            observed.devices = vec![array];
            for (name, micros) in [("sda", slow), ("sdb", fast)] {
                let mut disk = disk.clone();
                disk.name = name.into();
                disk.total.flush_time = Some(Nanos(ops * micros * 1000));
                disk.total.time = PerOp { read: Nanos(0), write: Nanos(ops * (micros + 500) * 1000) };
                observed.devices.push(disk);
            }
            observed.members[0].devices = vec![0, 1, 2];
            observed.members[0].below = Some(Below { devices: vec![0], join: Join::Through, missing: 0 });
        }
        let verdict = verdicts(&session).swap_remove(0);
        assert_eq!(verdict.kind, VerdictKind::SyncWrites);
        verdict.sentence
    };
    // A mirror waits for the slower of the two, each of which has every write.
    let mirror = over(Join::Mirror { copies: 2 }, [2000, 1000]);
    assert!(
        mirror.contains("requests are at most 500 us (15%), its flushes at most 2.00 ms (60%)"),
        "{mirror}"
    );
    let copies = "each waits for the slower of its copies: sda takes 1.25 ms, sdb 750 us";
    assert!(mirror.contains(copies), "{mirror}");
    // Of a stripe one disk has the write, and both are flushed.
    let stripe = over(Join::Stripe { chunk: None }, [2000, 1000]);
    assert!(
        stripe.contains("requests are at most 1.00 ms (30%), its flushes at most 2.00 ms (60%)"),
        "{stripe}"
    );
    assert!(
        stripe.contains("; each flushes all 2 members and waits for the slowest, 2.00 ms of it"),
        "{stripe}"
    );
    assert!(!stripe.contains("chunk") && !stripe.contains("copies"), "{stripe}");
    let small = over(Join::Stripe { chunk: Some(Bytes(2048)) }, [2000, 1000]);
    let two =
        "a write of 4KiB is larger than the chunk of 2KiB and becomes 2, of which it waits for the slowest";
    assert!(small.contains(two), "{small}");
    let raid10 = over(Join::StripedMirror { copies: 2, chunk: None }, [1000, 2000]);
    assert!(
        raid10.contains("requests are at most 500 us (15%), its flushes at most 2.00 ms (60%)"),
        "{raid10}"
    );
}

/// Others make most of the requests on the disk, but of a write's 3.33 ms its own request, which waits behind theirs, is 0.5 ms.
#[test]
fn others_explain_of_a_durable_write_what_it_waits_for_at_the_disk() {
    let beside = |reads: u64, micros: u64, queue: f64| {
        let mut session = durable(true, &[(2, 560), (1, 300), (4, 1000)]);
        for record in &mut session.trials {
            let ebbtide_model::session::Outcome::Samples(samples) = &mut record.outcome else { continue };
            let ops = samples.array.write.count.ops;
            let disk = &mut samples.observed.as_mut().expect("is observed").devices[0].total;
            (disk.ops.read, disk.bytes.read) = (reads, reads * 4096);
            disk.time.read = Nanos(reads * 5_000_000);
            disk.busy = Nanos::from_millis(1990);
            disk.time.write = Nanos(ops * (micros + 500) * 1000);
            disk.flush_time = Some(Nanos(ops * 500_000));
            disk.weighted = Nanos::from_secs_f64(2.0 * queue);
        }
        verdicts(&session).iter().map(|v| (v.kind, (v.explains * 100.0).round())).collect::<Vec<_>>()
    };
    let apart = beside(6000, 500, 0.0);
    // All but its own request goes away with durability, whatever others do.
    assert_eq!(apart[0], (VerdictKind::SyncWrites, 85.0), "{apart:?}");
    let others = apart.iter().find(|(kind, _)| *kind == VerdictKind::Background).expect("both are named");
    assert!(others.1 < 15.0, "{apart:?}");
    // Opposite: the request waits behind theirs for most of the time.
    let behind = beside(6000, 2500, 0.0);
    assert_eq!(behind[0].0, VerdictKind::Background, "{behind:?}");
    // Beside others who always have requests there, flushes wait for these too.
    let of =
        |found: &[(VerdictKind, f64)], kind| found.iter().find(|(is, _)| *is == kind).map_or(0.0, |it| it.1);
    let stay = beside(6000, 500, 30.0);
    for (kind, more) in [(VerdictKind::Background, true), (VerdictKind::SyncWrites, false)] {
        assert_eq!(of(&stay, kind) > of(&apart, kind), more, "{kind:?}: {stay:?}, {apart:?}");
    }
}
