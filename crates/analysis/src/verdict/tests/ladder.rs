//! What short runs with more and fewer operations in flight show of devices of which nobody said anything.

use super::*;
use crate::Basis;
use crate::fixtures::trial;
use VerdictKind::{Burst, Concurrency, Cpu, RateLimit, Unknown, VolumeLimit};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    Below, CoreUse, Count, DeviceObservation, DiskUse, Join, MemberObservation, Observation, ProcessorUser,
};
use ebbtide_model::session::Rung;
use ebbtide_model::workload::Arrival;

/// How the devices of the members stand: busy, with so many requests in flight in all, and the cores beside them.
#[derive(Clone, Copy)]
struct Seen {
    busy: f64,
    queue: f64,
    cores: f64,
}

const SATURATED: Seen = Seen { busy: 1.0, queue: 31.0, cores: 0.27 };

/// A trial of `members` members that serve so many operations per second in all with so many in flight.
fn run(members: usize, in_flight: u32, iops: u64, seen: Seen) -> TrialSamples {
    let each = iops / members as u64;
    let latency = u64::from(in_flight) * 1_000_000_000 / iops;
    let names: Vec<(&str, u64, u64)> = NAMES[..members].iter().map(|name| (*name, each, latency)).collect();
    let mut samples = trial(&names);
    let part = |share: f64| Nanos::from_secs_f64(share * samples.elapsed.as_secs_f64());
    let devices = (0..members).map(|index| DeviceObservation {
        name: format!("vd{index}"),
        total: DiskUse {
            ops: PerOp { read: each * 2, write: 0 },
            bytes: PerOp { read: each * 2 * 4096, write: 0 },
            busy: part(seen.busy),
            weighted: part(seen.queue / members as f64),
            ..DiskUse::default()
        },
        ..DeviceObservation::default()
    });
    let below = (0..members).map(|index| MemberObservation {
        member: NAMES[index].into(),
        devices: vec![index],
        ..MemberObservation::default()
    });
    let core = CoreUse { user: part(seen.cores), idle: part(1.0 - seen.cores), ..CoreUse::default() };
    samples.observed = Some(Box::new(Observation {
        devices: devices.collect(),
        members: below.collect(),
        cores: vec![core; 2],
        ..Observation::default()
    }));
    samples
}

/// Six rounds with 32 in flight, and a rung for each pair of operations in flight and of operations per second.
fn climbed(members: usize, seen: Seen, rungs: &[(u32, u64)]) -> Session {
    let mut experiment = stripe(members);
    experiment.workloads[0].iodepth = 32;
    let mut session = six_rounds(&experiment, |_| run(members, 32, 100_000, seen));
    let rung = |(in_flight, iops): &(u32, u64)| Rung {
        design: experiment.designs[0].name.clone(),
        workload: experiment.workloads[0].name.clone(),
        in_flight: *in_flight,
        bs: experiment.workloads[0].bs,
        samples: Box::new(run(members, *in_flight, *iops, seen)),
    };
    session.meta.rungs = rungs.iter().map(rung).collect();
    session
}

/// A rung with as many in flight as in the trials, of `times` the size.
fn sized(session: &Session, members: usize, times: u64, iops: u64, seen: Seen) -> Rung {
    let workload = &session.experiment.workloads[0];
    let mut samples = run(members, workload.iodepth, iops, seen);
    let array = &mut samples.array.read.count;
    array.bytes *= times;
    samples.series.iter_mut().for_each(|interval| interval.array.read.bytes *= times);
    Rung {
        design: session.experiment.designs[0].name.clone(),
        workload: workload.name.clone(),
        in_flight: workload.iodepth,
        bs: Bytes(workload.bs.0 * times),
        samples: Box::new(samples),
    }
}

const FLAT: [(u32, u64); 4] = [(64, 102_000), (32, 100_000), (128, 101_000), (16, 99_000)];

#[test]
fn a_device_that_serves_no_faster_is_the_limit() {
    let session = climbed(1, SATURATED, &FLAT);
    let verdict = &verdicts(&session)[0];
    assert_eq!((verdict.kind, verdict.basis), (VolumeLimit, Some(Basis::Inferred)));
    assert_eq!(
        verdict.sentence,
        "the volume itself is the limit: 99.0 k operations/s with 16 in flight and 101 k operations/s with 128 for \
         7.8 times the latency; its disk is busy 100% of the time with a queue of 31, the processors 27%"
    );
    let several = &verdicts(&climbed(4, SATURATED, &FLAT))[0];
    assert!(several.sentence.starts_with("the 4 volumes themselves are the limit: "), "{}", several.sentence);
    // With one rung only it is asserted with less confidence.
    let one = &verdicts(&climbed(1, SATURATED, &FLAT[..1]))[0];
    assert!(one.kind == VolumeLimit && one.confidence < verdict.confidence, "{one:?}");
}

/// Trials that stood still for most of their time, behind others, have a pace of next to nothing, and nothing gains on what they did.
#[test]
fn a_gain_is_not_told_over_trials_that_stood_still_for_most_of_the_time() {
    let told = |stood_still: bool| {
        let mut session = climbed(1, SATURATED, &[(64, 5_000), (32, 2_000), (128, 12_000)]);
        for record in session.trials.iter_mut().filter(|_| stood_still) {
            let Outcome::Samples(samples) = &mut record.outcome else { continue };
            // After its beginning a handful now and then.
            for (index, interval) in samples.series.iter_mut().enumerate().skip(1) {
                let ops = if index % 2 == 0 { 200 } else { 0 };
                interval.array.read = Count { ops, bytes: ops * 4096 };
            }
        }
        verdicts(&session).iter().any(|verdict| verdict.kind == Concurrency)
    };
    assert_eq!((told(false), told(true)), (false, false));
}

/// The trials may have had a bad moment, and so may the run that repeats them: what more in flight hide is told over both, and is beyond doubt where it is
/// twice the rate of the better one with four times as many.
#[test]
fn what_more_in_flight_hide_is_told_over_the_trials_and_their_repeat() {
    let told = |deepest: u64| {
        let session = climbed(1, SATURATED, &[(64, 130_000), (32, 81_000), (128, deepest)]);
        let found = verdicts(&session).into_iter().find(|verdict| verdict.kind == Concurrency);
        found.map(|verdict| ((verdict.explains * 100.0).round(), verdict.confidence))
    };
    assert_eq!(told(205_000), Some((56.0, 0.95)));
    assert_eq!(told(180_000), Some((50.0, 0.8)));
}

/// A ladder that ran three times, and is flat, tells of a device that was slower during the trials.
#[test]
fn a_ladder_that_repeats_itself_counts_more_than_the_trials() {
    let flat = [(64, 140_000), (32, 138_000), (128, 141_000)];
    let often = [flat, flat, flat].concat();
    assert_eq!(verdicts(&climbed(1, SATURATED, &often))[0].kind, VolumeLimit);
    // Opposites: it ran once; and it is so far from the trials that something else was.
    assert_eq!(kinds(&climbed(1, SATURATED, &flat)), [Unknown]);
    let far: Vec<(u32, u64)> = often.iter().map(|(depth, iops)| (*depth, iops * 6 / 5)).collect();
    assert_eq!(kinds(&climbed(1, SATURATED, &far)), [Unknown]);
    // Where the trials had the better time, they do not hide what more in flight gain either.
    let gains = [(64, 90_000), (32, 70_000), (128, 125_000)];
    assert_eq!(kinds(&climbed(1, SATURATED, &[gains, gains, gains].concat())), [Concurrency]);
    assert_eq!(kinds(&climbed(1, SATURATED, &gains)), [Unknown]);
}

/// What arrives faster than it is served keeps all places taken: then the ladder says what it says of a closed loop.
#[test]
fn a_load_that_is_not_served_is_judged_like_one_without_a_rate() {
    let paced = |arrival: Arrival, rungs: &[(u32, u64)]| {
        let mut session = climbed(1, SATURATED, rungs);
        session.experiment.workloads[0].arrival = arrival;
        session
    };
    let poisson = |iops| Arrival::Poisson { iops };
    let behind = verdicts(&paced(poisson(200_000.0), &FLAT)).swap_remove(0);
    assert_eq!((behind.kind, behind.basis), (VolumeLimit, Some(Basis::Inferred)));
    let grows = [(64, 190_000), (32, 100_000), (128, 350_000), (16, 52_000)];
    assert_eq!(kinds(&paced(poisson(200_000.0), &grows)), [Concurrency]);
    // A thread that paces its load is busy with the clock: whether it has time shows where it has no clock.
    let watching = |mut session: Session, without_clock: u32| {
        for record in &mut session.trials {
            let Outcome::Samples(samples) = &mut record.outcome else { continue };
            samples.cpu.busiest_thread_permille = Some(990);
        }
        let rungs = session.meta.rungs.iter_mut();
        rungs.for_each(|rung| rung.samples.cpu.busiest_thread_permille = Some(without_clock));
        kinds(&session)
    };
    assert_eq!(watching(paced(Arrival::Fixed { iops: 100_000.0 }, &[]), 0), [Unknown]);
    assert_eq!(watching(paced(poisson(200_000.0), &grows), 300), [Concurrency]);
    assert_eq!(watching(paced(poisson(200_000.0), &FLAT), 995), [VerdictKind::Cpu]);
    assert_eq!(watching(climbed(1, SATURATED, &[]), 0), [VerdictKind::Cpu]);
    // Opposite: one that is served keeps nothing in flight.
    let served = paced(Arrival::Fixed { iops: 100_000.0 }, &[]);
    assert_eq!(kinds(&served), [Unknown]);
    let (why, _) = ruled_out(&served, Concurrency);
    assert!(why.starts_with("operations come at times of their own"), "{why}");
}

/// What the sentence says of the latency, where the rate is not quite the same either.
#[test]
fn a_rate_that_is_not_the_same_is_not_called_so() {
    let said = |most: u64| {
        let rungs = [(64, 100_000), (32, 100_000), (128, most), (16, 99_000)];
        verdicts(&climbed(1, SATURATED, &rungs)).swap_remove(0).sentence
    };
    assert!(
        said(92_000).contains("92.0 k operations/s with 128 for 8.6 times the latency; "),
        "{}",
        said(92_000)
    );
    assert!(
        said(108_000).contains("108 k operations/s with 128 for 7.3 times the latency; "),
        "{}",
        said(108_000)
    );
}

/// The short run that repeats the trials had a bad moment: what more in flight gain is told over the trials.
#[test]
fn a_gain_is_not_told_over_a_moment_that_was_bad() {
    let session = climbed(1, SATURATED, &[(64, 190_000), (32, 2_000), (128, 195_000)]);
    let found = verdicts(&session).into_iter().find(|v| v.kind == Concurrency).expect("they help");
    assert!(found.sentence.contains("with 64 in flight the rate is 90% higher"), "{}", found.sentence);
}

#[test]
fn a_declared_limit_says_that_it_is() {
    let experiment = shaped(stripe(1), 5000.0, Nanos(1000));
    let verdict = &verdicts(&six_rounds(&experiment, |_| trial(&[("v0", 5000, 400_000)])))[0];
    assert_eq!((verdict.kind, verdict.basis), (VolumeLimit, Some(Basis::Declared)));
    let json = serde_json::to_value(verdict).expect("is written");
    assert_eq!(json["basis"], "declared");
}

#[test]
fn without_a_ladder_or_with_rates_that_grow_it_is_not_the_volume() {
    let none = climbed(1, SATURATED, &[]);
    assert_eq!(kinds(&none), [Unknown]);
    let (why, _) = ruled_out(&none, VolumeLimit);
    assert!(why.contains("no short runs with more in flight"), "{why}");
    // Only fewer in flight, or others of the same: nothing about more.
    assert_eq!(kinds(&climbed(1, SATURATED, &FLAT[1..2])), [Unknown]);
    let grows = climbed(1, SATURATED, &[(64, 190_000), (32, 100_000), (128, 300_000)]);
    assert_eq!(kinds(&grows), [Concurrency]);
    let (why, seen) = ruled_out(&grows, VolumeLimit);
    assert!(why.ends_with("more in flight raise the rate"), "{why}");
    assert_eq!(seen.len(), 1);
    assert!((seen[0].0 - 3.0).abs() < 1e-9, "{seen:?}");
    // In between neither is asserted.
    assert_eq!(kinds(&climbed(1, SATURATED, &[(64, 115_000), (32, 100_000), (128, 120_000)])), [Unknown]);
}

/// Two operations in a short run are no rate, and the reason says what would help.
#[test]
fn short_runs_with_few_operations_tell_nothing() {
    let few = climbed(1, SATURATED, &[(64, 1), (32, 100_000)]);
    assert_eq!(kinds(&few), [Unknown]);
    let (why, _) = ruled_out(&few, VolumeLimit);
    assert!(why.contains("had enough operations for a rate"), "{why}");
    // One that is not what the trials are hides what more do, and says so.
    let (why, seen) = ruled_out(&climbed(1, SATURATED, &[(64, 64_000), (32, 60_000)]), VolumeLimit);
    assert!(why.contains("as many in flight as the trials had another rate than they"), "{why}");
    assert!((seen[0].0 - 0.6).abs() < 1e-3 && seen[0].1 == Some(1.25), "{seen:?}");
}

/// Noise hides what more in flight do against as many; against fewer that have more done already it does not.
#[test]
fn fewer_that_have_as_much_done_say_that_more_do_not_help() {
    let uneven = climbed(1, SATURATED, &[(64, 112_000), (32, 98_000), (128, 114_000), (8, 120_000)]);
    let verdict = &verdicts(&uneven)[0];
    assert_eq!(verdict.kind, VolumeLimit);
    let gain = &verdict.evidence[1];
    assert!((gain.value - 114.0 / 120.0).abs() < 1e-4, "{gain:?}");
    let lower = climbed(1, SATURATED, &[(64, 112_000), (32, 98_000), (128, 124_000), (8, 99_000)]);
    assert_eq!(kinds(&lower), [Unknown]);
}

#[test]
fn devices_with_time_to_spare_are_not_what_operations_wait_for() {
    let idle = climbed(1, Seen { busy: 0.4, queue: 0.8, cores: 0.1 }, &FLAT);
    assert_eq!(kinds(&idle), [Unknown]);
    let (why, seen) = ruled_out(&idle, VolumeLimit);
    assert!(why.contains("wait above the members' devices"), "{why}");
    assert_eq!(seen, [(0.4, Some(0.9)), (0.025, Some(0.5))]);
    // Always busy, but with one at a time: the others wait above it all the same.
    let above = Seen { queue: 1.0, ..SATURATED };
    assert_eq!(kinds(&climbed(1, above, &FLAT)), [Unknown]);
    // What nobody saw may be anything.
    let mut unseen = climbed(1, SATURATED, &FLAT);
    for record in &mut unseen.trials {
        if let Outcome::Samples(samples) = &mut record.outcome {
            samples.observed = None;
        }
    }
    assert_eq!(kinds(&unseen), [Unknown]);
}

#[test]
fn a_thread_or_processors_without_time_are_not_the_volume() {
    let busy = climbed(1, Seen { cores: 0.93, ..SATURATED }, &FLAT);
    assert_eq!(kinds(&busy), [Unknown]);
    let (why, seen) = ruled_out(&busy, VolumeLimit);
    assert!(why.contains("processors have little time left"), "{why}");
    assert!((seen[0].0 - 0.93).abs() < 1e-9, "{seen:?}");
    for (permille, expected) in [(850, Unknown), (990, Cpu)] {
        let mut thread = climbed(1, SATURATED, &FLAT);
        for record in &mut thread.trials {
            if let Outcome::Samples(samples) = &mut record.outcome {
                samples.cpu.busiest_thread_permille = Some(permille);
            }
        }
        assert_eq!(kinds(&thread), [expected]);
    }
    // Busy with what the load does not wait for, and served by a disk that needs no processor: that is the volume.
    let with = |device: &'static str, waiting: u32, worked: f64| {
        let mut session = climbed(1, Seen { cores: 0.99, ..SATURATED }, &FLAT);
        for record in &mut session.trials {
            if let Outcome::Samples(samples) = &mut record.outcome {
                samples.cpu.most_waiting_permille = Some(waiting);
                samples.cpu.least_idle_permille = Some(waiting + 200);
                let time = Nanos::from_secs_f64(worked * samples.elapsed.as_secs_f64());
                let observed = samples.observed.as_mut().expect("is observed");
                observed.devices[0].name = device.into();
                observed.users =
                    vec![ProcessorUser { who: "kworker/u8:2 (pid 17)".into(), time, beside: None }];
            }
        }
        kinds(&session)
    };
    assert_eq!(with("vda", 20, 0.3), [VolumeLimit]);
    assert_eq!(with("vda", 350, 0.3), [VolumeLimit], "it waits, and has time all the same");
    assert_eq!(with("loop0", 20, 0.3), [Cpu], "what serves the device waits");
    assert_eq!(with("loop0", 20, 0.04), [Unknown], "what serves the device has little to do");
    assert_eq!(with("vda", 700, 0.3), [Cpu]);
    // Nor is one disk that they share.
    let mut shared = climbed(2, SATURATED, &FLAT);
    on_disks(&mut shared, &["8:0"; 2]);
    assert_eq!(kinds(&shared), [VerdictKind::SharedDevice]);
}

/// The device has nothing to do while 32 wait above it, or they wait at it.
const ABOVE: Seen = Seen { busy: 0.02, queue: 0.8, cores: 0.3 };

/// 1000 operations a second whatever the depth, and so many of twice and four times the size.
fn held(seen: Seen, sizes: [u64; 2]) -> Session {
    let mut session = climbed(1, seen, &[(64, 1000), (32, 1000), (128, 1010), (16, 1000)]);
    for record in &mut session.trials {
        record.outcome = Outcome::Samples(Box::new(run(1, 32, 1000, seen)));
    }
    for (times, iops) in [2, 4].into_iter().zip(sizes) {
        let rung = sized(&session, 1, times, iops, seen);
        session.meta.rungs.push(rung);
    }
    session
}

#[test]
fn so_many_operations_or_bytes_whatever_else_are_a_rate_that_is_set() {
    for seen in [ABOVE, SATURATED] {
        let operations = &verdicts(&held(seen, [1000, 1000]))[0];
        assert_eq!((operations.kind, operations.basis), (RateLimit, Some(Basis::Inferred)));
        let said =
            "looks like a rate that somebody set: 1,000 operations a second, whatever the depth and the size";
        assert!(operations.sentence.starts_with(said), "{}", operations.sentence);
        assert_eq!(operations.sentence.ends_with("holds them back here"), seen.busy < 0.5);
        // 4.096 MB/s, which is no round number of anything.
        let bytes = &verdicts(&held(seen, [500, 250]))[0];
        assert!(
            bytes.sentence.contains(if seen.busy < 0.5 {
                "set: 4.10 MB/s, whatever the depth (with larger"
            } else {
                "set, or the device's own: 4.10 MB/s, whatever the depth (with larger"
            }),
            "{}",
            bytes.sentence
        );
    }
    // The first moments of a limit let some more pass, which shows in a short run.
    assert_eq!(kinds(&held(SATURATED, [1055, 1035])), [RateLimit]);
    // At its limit of operations, and not far from that of bytes: what larger ones run into is another one.
    assert_eq!(kinds(&held(ABOVE, [1000, 700])), [RateLimit]);
    let (why, _) = ruled_out(&held(SATURATED, [1000, 1000]), VolumeLimit);
    assert!(why.contains("held back by `rate-limit`"), "{why}");
}

/// The same on an array of the host with these parts of the load on its disks.
fn on_an_array(mut session: Session, parts: [u64; 4]) -> Session {
    let trials = session.trials.iter_mut().filter_map(|record| match &mut record.outcome {
        Outcome::Samples(samples) => Some(samples),
        Outcome::Failed(_) => None,
    });
    for samples in trials.chain(session.meta.rungs.iter_mut().map(|rung| &mut rung.samples)) {
        let Some(observed) = &mut samples.observed else { continue };
        let whole = observed.devices[0].clone();
        let below = |devices: Vec<usize>, join| Some(Below { devices, join, missing: 0 });
        observed.devices[0].below = below(vec![1, 2, 3, 4], Join::Stripe { chunk: None });
        observed.devices[0].name = "md0".into();
        observed.devices.extend(parts.into_iter().enumerate().map(|(index, part)| {
            let mut disk = DeviceObservation { name: format!("nvme{index}n1"), ..whole.clone() };
            disk.below = Some(Below::default());
            let share = |all: u64| all * part / parts.iter().sum::<u64>();
            disk.total.ops.read = share(disk.total.ops.read);
            disk.total.bytes.read = share(disk.total.bytes.read);
            disk.total.weighted = Nanos(share(disk.total.weighted.0));
            disk
        }));
        observed.members[0].devices = vec![0, 1, 2, 3, 4];
        observed.members[0].below = below(vec![0], Join::Through);
    }
    session
}

#[test]
fn the_devices_of_an_array_are_told_their_own_rate() {
    let said = |seen, sizes, parts| verdicts(&on_an_array(held(seen, sizes), parts))[0].sentence.clone();
    let sentence = said(SATURATED, [1000, 1000], [25, 25, 25, 25]);
    let start = "looks like a rate that somebody set: 250 operations a second for each of the 4 devices of md0, whatever";
    assert!(sentence.starts_with(start), "{sentence}");
    let sentence = said(SATURATED, [500, 250], [25, 25, 25, 25]);
    assert!(sentence.contains("own: 1.02 MB/s for each of the 4 devices of md0, whatever"), "{sentence}");
    // One has more to do than the others, or it waits above the array: the rate is that of all.
    for (seen, parts) in [(SATURATED, [31, 23, 23, 23]), (ABOVE, [25, 25, 25, 25])] {
        let sentence = said(seen, [1000, 1000], parts);
        assert!(sentence.contains("set: 1,000 operations a second, whatever"), "{sentence}");
    }
}

#[test]
fn a_device_at_its_own_pace_is_no_rate_that_is_set() {
    // Larger ones take longer and move more.
    let session = held(SATURATED, [850, 600]);
    assert_eq!(kinds(&session), [VolumeLimit]);
    let (why, _) = ruled_out(&session, RateLimit);
    assert!(why.starts_with("neither operations nor bytes"), "{why}");
    // As many, but now more and now fewer.
    let mut uneven = held(SATURATED, [1000, 1000]);
    for record in &mut uneven.trials {
        if let Outcome::Samples(samples) = &mut record.outcome {
            for (index, interval) in samples.series.iter_mut().enumerate() {
                interval.array.read.ops = if index % 2 == 0 { 140 } else { 60 };
            }
        }
    }
    assert_eq!(kinds(&uneven), [VolumeLimit]);
    let (why, _) = ruled_out(&uneven, RateLimit);
    assert!(why.starts_with("the rate varies over time"), "{why}");
    // And no more than as even as a device may be: what is a little off is another rate.
    let mut nearly = held(SATURATED, [1055, 1055]);
    for record in &mut nearly.trials {
        if let Outcome::Samples(samples) = &mut record.outcome {
            for (index, interval) in samples.series.iter_mut().enumerate() {
                interval.array.read.ops = if index % 2 == 0 { 102 } else { 98 };
            }
        }
    }
    assert_eq!(kinds(&nearly), [VolumeLimit]);
    // Without other sizes nothing is known of what is counted.
    let mut one_size = held(ABOVE, [1000, 1000]);
    one_size.meta.rungs.truncate(4);
    assert_eq!(kinds(&one_size), [Unknown]);
    // More in flight that have more done are not held to a rate.
    let mut grows = held(ABOVE, [1000, 1000]);
    grows.meta.rungs[0] = climbed(1, ABOVE, &[(64, 1800)]).meta.rungs.swap_remove(0);
    assert_eq!(kinds(&grows), [Concurrency]);
}

/// 3000 operations a second for a quarter of the trial, 1000 from then on.
#[test]
fn a_burst_and_then_a_rate_that_is_set_are_credits() {
    let mut session = held(ABOVE, [1000, 1000]);
    session.trials.retain(|record| record.trial.role == ebbtide_model::schedule::Role::Candidate);
    session.trials.truncate(1);
    let burst = |session: &mut Session, after: u64| {
        if let Outcome::Samples(samples) = &mut session.trials[0].outcome {
            for (index, interval) in samples.series.iter_mut().enumerate() {
                interval.array.read.ops = if index < 5 { 300 } else { after };
            }
        }
    };
    burst(&mut session, 100);
    let found = verdicts(&session);
    assert_eq!(found.iter().map(|v| v.kind).collect::<Vec<_>>(), [Burst, RateLimit]);
    assert_eq!(found[0].basis, Some(Basis::Inferred));
    let credits = found[0].evidence.iter().find(|e| e.what.starts_with("credits spent")).expect("credits");
    assert!((credits.value - 2000.0).abs() < 1.0, "{credits:?}");
    // Opposite: what it slowed down to is another rate than that of the short runs, so that it is none that is set.
    burst(&mut session, 60);
    assert_eq!(kinds(&session), [Unknown]);
}

#[test]
fn several_volumes_are_told() {
    let mut session = climbed(2, ABOVE, &[(64, 6000), (32, 6000), (128, 6000)]);
    for record in &mut session.trials {
        record.outcome = Outcome::Samples(Box::new(run(2, 32, 6000, ABOVE)));
    }
    let rung = sized(&session, 2, 2, 6000, ABOVE);
    session.meta.rungs.push(rung);
    on_disks(&mut session, &["8:0", "8:16"]);
    let said = |session: &Session| verdicts(session).swap_remove(0).sentence;
    assert!(said(&session).contains("3,000 operations a second for each volume"), "{}", said(&session));
}
