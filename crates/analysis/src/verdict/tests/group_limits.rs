//! Rates that the load's control group is held to, as the kernel says them.

use super::*;
use crate::Basis;
use crate::fixtures::{BS, trial};
use VerdictKind::{Concurrency, Member, RateLimit, Unknown};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{Count, DeviceObservation, DiskUse, GroupLimit, MemberObservation, Observation};

/// Two seconds of members with so many reads per second and such a latency, each on a device of its own that answers in 10 us; the
/// group's limit of reads on each, where there is one.
fn limited(members: &[(&str, u64, u64)], limits: &[Option<u64>]) -> TrialSamples {
    let mut samples = trial(members);
    let devices = members.iter().zip(limits).enumerate().map(|(index, ((_, iops, _), limit))| {
        let ops = 2 * iops;
        let limit = limit.map(|limit| GroupLimit {
            file: "/sys/fs/cgroup/db/io.max".into(),
            iops: PerOp { read: Some(limit), write: None },
            ..GroupLimit::default()
        });
        let time = Nanos(ops * 10_000);
        DeviceObservation {
            name: format!("loop{index}"),
            total: DiskUse {
                ops: PerOp { read: ops, write: 0 },
                bytes: PerOp { read: ops * BS, write: 0 },
                time: PerOp { read: time, write: Nanos(0) },
                busy: time,
                weighted: time,
                ..DiskUse::default()
            },
            group_limits: limit.into_iter().collect(),
            ..DeviceObservation::default()
        }
    });
    let below = members.iter().enumerate().map(|(index, (name, ..))| MemberObservation {
        member: (*name).into(),
        devices: vec![index],
        ..MemberObservation::default()
    });
    samples.observed = Some(Box::new(Observation {
        devices: devices.collect(),
        members: below.collect(),
        ..Observation::default()
    }));
    samples
}

#[test]
fn a_limit_of_the_group_that_is_used_up_is_named_without_a_ladder() {
    let mut alone = stripe(1);
    alone.workloads[0].iodepth = 1;
    let at = |limit: Option<u64>| six_rounds(&alone, move |_| limited(&[("v0", 998, 1_000_000)], &[limit]));
    let found = verdicts(&at(Some(1000)));
    assert_eq!(
        found.iter().map(|v| v.kind).collect::<Vec<_>>(),
        [RateLimit],
        "depth 1 is not too few in flight"
    );
    assert_eq!(found[0].basis, Some(Basis::Declared));
    assert_eq!(
        found[0].sentence,
        "the load's control group is held to a rate: /sys/fs/cgroup/db/io.max allows 1,000 reads a second on loop0, and \
         998 are made"
    );
    // Opposites: a limit that is far away, and none.
    assert_eq!(kinds(&at(Some(5000))), [Concurrency]);
    assert_eq!(kinds(&at(None)), [Concurrency]);
}

/// What moved many times what it allows was held to it for a moment only.
#[test]
fn a_limit_that_was_taken_away_is_not_reached() {
    let run = |iops: u64| six_rounds(&stripe(1), move |_| limited(&[("v0", iops, 4_000_000)], &[Some(1000)]));
    assert_eq!(kinds(&run(1100)), [RateLimit]);
    assert_eq!(kinds(&run(40_000)), [Unknown]);
}

/// Nine tenths of it are used: by operations that it holds back above the device, or by as many as the device gets through.
#[test]
fn a_limit_that_most_operations_have_passed_is_not_used_up() {
    let with = |in_flight: f64| {
        six_rounds(&stripe(1), move |_| {
            let mut samples = limited(&[("v0", 910, 4_000_000)], &[Some(1000)]);
            let observed = samples.observed.as_mut().expect("it was");
            observed.devices[0].total.weighted = Nanos::from_secs_f64(2.0 * in_flight);
            samples
        })
    };
    assert_eq!(kinds(&with(0.1)), [RateLimit]);
    assert_eq!(kinds(&with(3.8)), [Unknown]);
}

/// What the load does is half of the limit: that others in the group have the rest, only the group's counters say.
#[test]
fn others_in_the_group_use_its_limit_up_too() {
    let with = |used: Option<u64>| {
        six_rounds(&stripe(1), move |_| {
            let mut samples = limited(&[("v0", 500, 8_000_000)], &[Some(1000)]);
            let device = &mut samples.observed.as_mut().expect("is observed").devices[0];
            let count = |ops| PerOp { read: Count { ops, bytes: ops * BS }, write: Count::default() };
            device.group_limits[0].used = used.map(count);
            device.total.ops.read = used.unwrap_or(device.total.ops.read);
            samples
        })
    };
    assert_eq!(kinds(&with(Some(1990))), [RateLimit]);
    assert_eq!(kinds(&with(Some(1100))), [Unknown]);
    assert_eq!(kinds(&with(None)), [Unknown]);
}

/// 20 operations a second of 1 MiB, each charged whole and in two halves: the load gets half of what is allowed.
#[test]
fn operations_that_are_cut_are_charged_twice() {
    const MIB: u64 = Bytes::MIB;
    let mut experiment = stripe(1);
    experiment.workloads[0].bs = Bytes(MIB);
    let charged = |pieces: u64, charged: u64| {
        six_rounds(&experiment, |_| {
            let mut samples = limited(&[("v0", 20, 200_000_000)], &[None]);
            for count in [&mut samples.array.read.count, &mut samples.members[0].ops.read.count] {
                count.bytes = 40 * MIB;
            }
            let device = &mut samples.observed.as_mut().expect("is observed").devices[0];
            (device.total.ops.read, device.total.bytes.read) = (40 * pieces, 40 * MIB);
            let used = Count { ops: 40 * (pieces + 1), bytes: 40 * charged };
            device.group_limits = vec![GroupLimit {
                file: "/sys/fs/cgroup/blkio/db/blkio.throttle.*_device".into(),
                bytes: PerOp { read: Some(Bytes(40 * MIB)), write: None },
                used: Some(PerOp { read: used, write: Count::default() }),
                ..GroupLimit::default()
            }];
            samples
        })
    };
    let verdict = &verdicts(&charged(2, 2 * MIB))[0];
    assert_eq!(verdict.kind, RateLimit);
    assert_eq!(
        verdict.sentence,
        "the load's control group is held to a rate: /sys/fs/cgroup/blkio/db/blkio.throttle.read_bps_device allows reads of 41.9 MB/s on \
         loop0 and charges 41.9 MB/s for the 21.0 MB/s that it does: an operation that is cut is charged whole and again for each \
         piece"
    );
    assert!(!kinds(&charged(2, MIB)).contains(&RateLimit), "half of the limit is used");
}

#[test]
fn one_member_that_the_group_is_held_to_a_rate_on_is_not_called_slow_itself() {
    let pair = |limits: [Option<u64>; 2]| {
        six_rounds(&stripe(2), move |_| limited(&[("v0", 1000, 20_000), ("v1", 1000, 15_000_000)], &limits))
    };
    let session = pair([None, Some(1000)]);
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, Member);
    assert!(
        verdict.sentence.ends_with(
            "the array waits for it; the load's control group is held to a rate there, not the device: \
             /sys/fs/cgroup/db/io.max allows 1,000 reads a second on loop1, and 1,000 are made"
        ),
        "{}",
        verdict.sentence
    );
    let (why, _) = ruled_out(&session, RateLimit);
    assert!(why.starts_with("held back by `member`: one member is held to a rate alone: "), "{why}");
    // Where nothing says who, nobody is named.
    let verdict = &verdicts(&pair([None, None]))[0];
    assert!(verdict.sentence.ends_with("the array waits for it"), "{}", verdict.sentence);
    // A limit of the other one that is not reached, and a device that is slow itself.
    let slow = six_rounds(&stripe(2), |_| {
        let mut samples = limited(&[("v0", 1000, 20_000), ("v1", 1000, 15_000_000)], &[Some(9000), None]);
        let device = &mut samples.observed.as_mut().expect("is observed").devices[1];
        device.total.time.read = Nanos(2000 * 14_900_000);
        samples
    });
    let verdict = &verdicts(&slow)[0];
    assert_eq!(verdict.kind, Member);
    assert!(verdict.sentence.ends_with("the array waits for it"), "{}", verdict.sentence);
    // Both at their limits: none waits for another.
    let both = verdicts(&pair([Some(1000), Some(1000)]));
    assert_eq!(both.iter().map(|v| v.kind).collect::<Vec<_>>(), [RateLimit]);
    assert!(both[0].sentence.ends_with("; so it is for each of 2 members"), "{}", both[0].sentence);
}

/// Members of unequal size have unequal work, so that none is compared; the array waits for one of them all the same.
#[test]
fn an_array_waits_for_the_member_that_is_held_to_a_rate() {
    let with = |held: u64, other: u64| {
        six_rounds(&stripe(2), move |_| {
            limited(&[("v0", 250, other), ("v1", 1000, held)], &[None, Some(1000)])
        })
    };
    let verdict = &verdicts(&with(7_500_000, 20_000))[0];
    assert_eq!((verdict.kind, verdict.basis), (RateLimit, Some(Basis::Declared)));
    assert!(
        verdict
            .sentence
            .ends_with("; so it is for 1 of 2 members, where 100% of the operations in flight wait"),
        "{}",
        verdict.sentence
    );
    // Opposite: the other one has as much to do.
    let both = with(4_000_000, 16_000_000);
    assert!(!kinds(&both).contains(&RateLimit));
    let (why, seen) = ruled_out(&both, RateLimit);
    assert!(
        why.starts_with("only 1 of the busy members are held to a rate, and the others have as much to do"),
        "{why}"
    );
    assert!((seen[0].0 - 0.5).abs() < 0.01, "{seen:?}");
}
