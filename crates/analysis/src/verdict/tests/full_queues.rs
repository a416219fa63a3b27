//! Queues of disks that hold fewer requests than are asked for, or have room.

use super::*;
use crate::Basis;
use crate::facts::queues::half_full;
use crate::fixtures::trial;
use VerdictKind::{Concurrency, QueueLimit, RateLimit, Unknown, VolumeLimit};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{DeviceObservation, DiskUse, MemberObservation, Observation, ObservedInterval};
use ebbtide_model::session::Rung;
use ebbtide_model::workload::Arrival;

/// What the queue of each disk holds, and in how many queues.
#[derive(Clone, Copy)]
struct Queue {
    nr_requests: u32,
    queues: Option<u32>,
    device_depth: Option<u32>,
}

const EIGHT: Queue = Queue { nr_requests: 8, queues: Some(1), device_depth: None };

/// A trial with so many in flight over all `members`, each a disk that never has more than `most` requests and always that many if
/// it can.
fn run(members: usize, in_flight: u32, iops: u64, queue: Queue, most: u64) -> TrialSamples {
    let each = iops / members as u64;
    let latency = u64::from(in_flight) * 1_000_000_000 / iops;
    let names: Vec<(&str, u64, u64)> = NAMES[..members].iter().map(|name| (*name, each, latency)).collect();
    let mut samples = trial(&names);
    let at_disk = (u64::from(in_flight) / members as u64).min(most);
    let device = |index: usize| DeviceObservation {
        name: format!("vd{index}"),
        nr_requests: Some(queue.nr_requests),
        hardware_queues: queue.queues,
        device_depth: queue.device_depth,
        total: DiskUse {
            ops: PerOp { read: each * 2, write: 0 },
            bytes: PerOp { read: each * 2 * 4096, write: 0 },
            busy: samples.elapsed,
            weighted: Nanos(at_disk * samples.elapsed.0 * 95 / 100),
            ..DiskUse::default()
        },
        ..DeviceObservation::default()
    };
    // What completes together leaves its places empty for a moment.
    let look = |number: u64| ObservedInterval {
        end: Nanos::from_millis(250 * (number + 1)),
        devices: (0..members)
            .map(|_| DiskUse { in_flight: if number == 3 { 0 } else { at_disk }, ..DiskUse::default() })
            .collect(),
        core_busy: Vec::new(),
    };
    let below = |index: usize| MemberObservation {
        member: NAMES[index].into(),
        devices: vec![index],
        ..MemberObservation::default()
    };
    samples.observed = Some(Box::new(Observation {
        devices: (0..members).map(device).collect(),
        members: (0..members).map(below).collect(),
        series: (0..8).map(look).collect(),
        ..Observation::default()
    }));
    samples
}

/// Six rounds with 64 in flight at 40 k, and a rung for each pair of operations in flight and of operations per second.
fn climbed(members: usize, queue: Queue, most: u64, rungs: &[(u32, u64)]) -> Session {
    let mut experiment = stripe(members);
    experiment.workloads[0].iodepth = 64;
    let mut session = six_rounds(&experiment, |_| run(members, 64, 40_000, queue, most));
    let rung = |(in_flight, iops): &(u32, u64)| Rung {
        design: experiment.designs[0].name.clone(),
        workload: experiment.workloads[0].name.clone(),
        in_flight: *in_flight,
        bs: experiment.workloads[0].bs,
        samples: Box::new(run(members, *in_flight, *iops, queue, most)),
    };
    session.meta.rungs = rungs.iter().map(rung).collect();
    session
}

/// Half of what the queue holds has half of the rate, and more in flight have no more.
const HELD: [(u32, u64); 3] = [(128, 40_500), (64, 40_000), (4, 25_000)];

#[test]
fn a_full_queue_of_a_device_that_could_do_more_is_the_limit() {
    let verdict = &verdicts(&climbed(1, EIGHT, 8, &HELD))[0];
    assert_eq!((verdict.kind, verdict.basis), (QueueLimit, Some(Basis::Inferred)));
    assert_eq!(
        verdict.sentence,
        "the queue of vd0 is the limit: it holds 8 requests (nr_requests 8); 64 operations in flight want 64, and more wait \
         above it. 40.0 k operations/s, where 4 in flight have 25.0 k: raise /sys/block/vd0/queue/nr_requests, use more \
         volumes, or keep 8 in flight, which is as fast with less latency"
    );
    // Twice the requests had 1.6 times the rate.
    assert!((verdict.explains - (1.0 - 1.0 / 1.6)).abs() < 1e-3, "{verdict:?}");
    assert_eq!((verdict.evidence[0].value, verdict.evidence[0].reference), (7.6, Some(8.0)));
    // Four disks, each with a quarter of what is in flight.
    let four = &verdicts(&climbed(4, EIGHT, 8, &[(128, 40_500), (64, 40_000), (16, 25_000)]))[0];
    assert_eq!(four.kind, QueueLimit);
    assert!(four.sentence.starts_with("the queue of vd0, vd1, vd2, vd3 is the limit"), "{}", four.sentence);
    assert!(four.sentence.contains("keep 32 in flight"), "{}", four.sentence);
    // Two hardware queues are used at once, and the device takes fewer than they hold.
    let two = Queue { queues: Some(4), device_depth: Some(12), ..EIGHT };
    let two = &verdicts(&climbed(1, two, 16, &[(128, 40_500), (64, 40_000), (8, 25_000)]))[0];
    assert_eq!(two.kind, QueueLimit);
    let said = "it holds 16 requests (nr_requests 8), of which the device takes 12 (queue_depth)";
    assert!(two.sentence.contains(said), "{}", two.sentence);
}

#[test]
fn a_device_that_does_as_much_with_fewer_is_the_limit_itself() {
    let session = climbed(1, EIGHT, 8, &[(128, 40_500), (64, 40_000), (4, 39_000)]);
    let found = verdicts(&session);
    assert_eq!((found[0].kind, found.len()), (VolumeLimit, 1));
    // As many as the queue holds want no more than it holds, whatever a count of them varies by.
    assert_eq!(kinds(&climbed(1, EIGHT, 8, &[(128, 40_500), (64, 40_000), (8, 39_000)])), [VolumeLimit]);
    // Somewhere in between it may be either.
    assert_eq!(kinds(&climbed(1, EIGHT, 8, &[(128, 40_500), (64, 40_000), (4, 30_000)])), [Unknown]);
    let (why, seen) = ruled_out(&session, QueueLimit);
    assert!(why.starts_with("fewer at the device have about as much done"), "{why}");
    assert!((seen[0].0 - 40.0 / 39.0).abs() < 1e-3 && seen[0].1 == Some(1.5), "{seen:?}");
}

#[test]
fn nothing_is_asserted_where_no_run_tells_queue_and_device_apart() {
    // All of these fill the queue.
    let session = climbed(1, EIGHT, 8, &[(128, 40_500), (64, 40_000), (32, 40_000)]);
    assert_eq!(kinds(&session), [Unknown]);
    let (why, _) = ruled_out(&session, QueueLimit);
    assert!(why.contains("no short run with fewer"), "{why}");
    let (why, _) = ruled_out(&session, VolumeLimit);
    assert!(why.contains("whether it could serve more is not known"), "{why}");
}

#[test]
fn queues_with_room_are_no_limit() {
    let roomy = Queue { nr_requests: 128, ..EIGHT };
    let session = climbed(1, roomy, 128, &HELD[1..]);
    let not_full = "no queue of a member's disk is known to be full";
    assert_eq!(ruled_out(&session, QueueLimit).0, not_full);
    // A disk that never has as many as its queue holds, whatever waits above it: something else holds them back.
    let (why, _) = ruled_out(&climbed(1, roomy, 8, &HELD), QueueLimit);
    assert_eq!(why, not_full);
    // What has no queue of its own, as md and dm, or was recorded by nobody.
    let none = Queue { queues: None, ..EIGHT };
    let (why, _) = ruled_out(&climbed(1, none, 8, &HELD), QueueLimit);
    assert_eq!(why, not_full);
    // More in flight that have more done.
    let found = kinds(&climbed(1, EIGHT, 8, &[(128, 80_000), (64, 40_000), (4, 25_000)]));
    assert_eq!(found, [Concurrency]);
    // What comes at times of its own, unless more comes than is served.
    let open = |iops: f64| {
        let mut open = climbed(1, EIGHT, 8, &HELD);
        open.experiment.workloads[0].arrival = Arrival::Fixed { iops };
        kinds(&open)
    };
    assert_eq!((open(40_000.0), open(50_000.0)), (vec![Unknown], vec![QueueLimit]));
}

/// Trials with just what the queue holds: that more of them do not help shows in the ladder only.
#[test]
fn a_queue_that_is_full_only_with_more_in_flight_is_why_they_do_not_help() {
    let mut experiment = stripe(1);
    experiment.workloads[0].iodepth = 8;
    let mut session = six_rounds(&experiment, |_| run(1, 8, 40_000, EIGHT, 8));
    let rung = |(in_flight, iops): (u32, u64)| Rung {
        design: experiment.designs[0].name.clone(),
        workload: experiment.workloads[0].name.clone(),
        in_flight,
        bs: experiment.workloads[0].bs,
        samples: Box::new(run(1, in_flight, iops, EIGHT, 8)),
    };
    session.meta.rungs = [(16, 40_500), (8, 40_000), (32, 40_300), (4, 25_000)].map(rung).into();
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, QueueLimit);
    assert!(
        verdict.sentence.contains("8 operations in flight want 8, and more wait above"),
        "{}",
        verdict.sentence
    );
    // Opposite: the device does as much with half of them.
    session.meta.rungs = [(16, 40_500), (8, 40_000), (32, 40_300), (4, 39_500)].map(rung).into();
    assert_eq!(kinds(&session), [VolumeLimit]);
}

/// A rate that somebody set fills the queue of what is behind it, and it is that rate with half of it too. A device that takes as
/// long for each request looks as even: there half of the queue has half of the rate.
#[test]
fn a_rate_that_is_set_is_told_apart() {
    let with_half = |iops: u64| {
        let mut session = climbed(1, EIGHT, 8, &[(128, 40_000), (64, 40_000), (4, iops)]);
        let mut larger = session.meta.rungs[1].clone();
        larger.bs = Bytes(larger.bs.0 * 2);
        session.meta.rungs.push(larger);
        session
    };
    assert_eq!(kinds(&with_half(40_000)), [RateLimit]);
    assert_eq!(kinds(&with_half(21_000)), [QueueLimit]);
    let (why, seen) = ruled_out(&with_half(21_000), RateLimit);
    assert!(why.starts_with("held back by `queue-limit`") && seen[0].1 == Some(1.7), "{why} {seen:?}");
    // In between it may be either, and what is even and the same for all sizes is told as that.
    assert_eq!(kinds(&with_half(30_000)), [RateLimit]);
}

#[test]
fn the_ladder_has_a_step_with_half_of_what_a_full_queue_holds() {
    let full = run(1, 64, 40_000, EIGHT, 8);
    assert_eq!(half_full(&[&full], 64), Some(4));
    let four = run(4, 64, 40_000, EIGHT, 8);
    assert_eq!(half_full(&[&four], 64), Some(16));
    let roomy = run(1, 64, 40_000, Queue { nr_requests: 128, ..EIGHT }, 128);
    assert_eq!(half_full(&[&roomy], 64), None);
    assert_eq!(half_full(&[&full, &roomy, &roomy], 64), None);
}
