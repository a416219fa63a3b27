//! Arrays of parity whose stripes are updated in part, or whole.

use super::*;
use crate::fixtures::trial;
use VerdictKind::{Background, PartialStripe, Unknown, VolumeLimit};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    Below, Count, DeviceObservation, DiskUse, Join, MemberObservation, Observation, OtherActivity, OtherKind,
};
use ebbtide_model::workload::{Access, Arrival, Mix};

const KIB: u64 = Bytes::KIB;
/// Writes in a trial of two seconds.
const WRITES: u64 = 4000;

/// RAID5 or RAID6 of four over 64 KiB, written at random in operations of `bs`.
fn written(kind: fn(Bytes) -> ArrayKind, bs: u64) -> Experiment {
    let mut experiment = array(kind(Bytes(64 * KIB)), 4);
    let workload = &mut experiment.workloads[0];
    (workload.mix, workload.access, workload.bs) = (Mix::Write, Access::Random, Bytes(bs));
    experiment
}

fn raid5(chunk: Bytes) -> ArrayKind {
    ArrayKind::Raid5 { chunk }
}

fn raid6(chunk: Bytes) -> ArrayKind {
    ArrayKind::Raid6 { chunk }
}

/// A trial of [`WRITES`] of `bs` whose members together read and wrote so many bytes for each byte of them.
fn moved(bs: u64, read: f64, write: f64) -> TrialSamples {
    let mut samples = trial(&["v0", "v1", "v2", "v3"].map(|name| (name, WRITES / 2, 1_000_000)));
    let asked = WRITES * bs;
    samples.array = PerOp { write: std::mem::take(&mut samples.array.read), ..PerOp::default() };
    samples.array.write.count = Count { ops: WRITES, bytes: asked };
    for member in &mut samples.members {
        let part = |times: f64| (asked as f64 * times / 4.0) as u64;
        member.ops.write.latency = member.ops.read.latency.clone();
        member.ops.read.count = Count { ops: part(read) / bs, bytes: part(read) };
        member.ops.write.count = Count { ops: part(write) / bs, bytes: part(write) };
    }
    samples
}

fn of(experiment: &Experiment, read: f64, write: f64) -> Session {
    let bs = experiment.workloads[0].bs.0;
    six_rounds(experiment, |_| moved(bs, read, write))
}

#[test]
fn small_writes_are_told_with_what_the_members_moved_for_them() {
    let verdict = &verdicts(&of(&written(raid5, 4 * KIB), 2.0, 2.0))[0];
    assert_eq!(verdict.kind, PartialStripe);
    assert_eq!(
        verdict.sentence,
        "writes of 4KiB are smaller than a stripe of raid5 (192KiB): for each byte written its members read 2.00 and \
         write 2.00, where whole stripes have them read none and write 1.33; write 192KiB or a multiple of it, aligned \
         to it, or use RAID10"
    );
    // 4 bytes move where 4/3 would do.
    assert!((verdict.explains - 2.0 / 3.0).abs() < 1e-3, "{verdict:?}");
    let verdict = &verdicts(&of(&written(raid6, 4 * KIB), 3.0, 3.0))[0];
    assert_eq!(verdict.kind, PartialStripe);
    assert!(verdict.sentence.contains("a stripe of raid6 (128KiB)"), "{}", verdict.sentence);
    // As large as a stripe, and yet in parts of two.
    let verdict = &verdicts(&of(&written(raid5, 192 * KIB), 0.67, 1.67))[0];
    assert_eq!(verdict.kind, PartialStripe);
    assert!(verdict.sentence.contains("are not aligned to a stripe of raid5"), "{}", verdict.sentence);
    assert!(verdict.sentence.contains("start of a partition"), "{}", verdict.sentence);
}

#[test]
fn whole_stripes_and_arrays_without_parity_are_none() {
    let whole = of(&written(raid5, 192 * KIB), 0.0, 4.0 / 3.0);
    assert_eq!(kinds(&whole), [Unknown]);
    let (why, seen) = ruled_out(&whole, PartialStripe);
    assert_eq!((why.as_str(), seen[0]), ("members read little for parity", (0.0, Some(0.1))));
    let mirror = |chunk| ArrayKind::Raid10 { chunk, copies: 2, arrangement: Default::default() };
    let (why, _) = ruled_out(&of(&written(mirror, 4 * KIB), 2.0, 2.0), PartialStripe);
    assert_eq!(why, "nothing was seen to be written to a whole array of parity");
    // Reads of it read what they ask for.
    let mut reads = written(raid5, 4 * KIB);
    reads.workloads[0].mix = Mix::Read;
    let (why, _) = ruled_out(&of(&reads, 2.0, 2.0), PartialStripe);
    assert_eq!(why, "the workload writes nothing");
}

#[test]
fn what_parity_does_not_take_somebody_else_reads() {
    let (why, seen) = ruled_out(&of(&written(raid5, 4 * KIB), 5.0, 2.0), PartialStripe);
    assert!(why.contains("somebody else"), "{why}");
    assert_eq!(seen[0], (5.0, Some(2.0 * 1.1)));
    // Sectors have their pages read: eight times as much.
    assert_eq!(kinds(&of(&written(raid5, 512), 16.0, 2.0)), [PartialStripe]);
}

#[test]
fn what_is_read_is_counted_apart() {
    // Half of the operations read: as many bytes, once.
    let mut experiment = written(raid5, 4 * KIB);
    experiment.workloads[0].mix = Mix::Mixed { read_percent: 50 };
    let mixed = |extra: f64| {
        six_rounds(&experiment, move |_| {
            let mut samples = moved(4 * KIB, 1.0 + extra, 1.5 + extra / 4.0);
            samples.array.read = samples.array.write.clone();
            samples
        })
    };
    let verdict = &verdicts(&mixed(2.0))[0];
    assert_eq!(verdict.kind, PartialStripe);
    assert!(verdict.sentence.contains("members read 2.00 and write 2.00"), "{}", verdict.sentence);
    assert_eq!(kinds(&mixed(0.0)), [Unknown]);
}

#[test]
fn what_is_served_is_not_limited() {
    let mut experiment = written(raid5, 4 * KIB);
    experiment.workloads[0].arrival = Arrival::Fixed { iops: 2000.0 };
    let (why, _) = ruled_out(&of(&experiment, 2.0, 2.0), PartialStripe);
    assert_eq!(why, "the array keeps up with the offered load");
    experiment.workloads[0].arrival = Arrival::Fixed { iops: 3000.0 };
    assert_eq!(kinds(&of(&experiment, 2.0, 2.0)), [PartialStripe]);
}

/// Volumes at their limit, because of it: both are named, and the limit keeps what is left.
#[test]
fn it_is_why_a_limit_is_reached() {
    // 2000 writes of two seconds make 2000 reads and 2000 writes for each member and second.
    let experiment = shaped(written(raid5, 4 * KIB), 2000.0, Nanos(100_000));
    let found = verdicts(&of(&experiment, 2.0, 2.0));
    let kinds: Vec<_> = found.iter().map(|verdict| verdict.kind).collect();
    assert_eq!(kinds, [PartialStripe, VolumeLimit]);
    assert!(found[1].explains < 0.35, "{found:?}");
}

/// A volume on an array that was there before: `asked` bytes written to md0, and what its three disks moved for each of them.
fn on_md(read: f64, write: f64, missing: u32) -> TrialSamples {
    let mut samples = trial(&[("v0", WRITES / 2, 1_000_000)]);
    let asked = WRITES * 4 * KIB;
    samples.array = PerOp { write: std::mem::take(&mut samples.array.read), ..PerOp::default() };
    let ops = &mut samples.members[0].ops;
    std::mem::swap(&mut ops.read, &mut ops.write);
    let device = |name: &str, below: Below, read: f64, write: f64| {
        let bytes = |times: f64| (asked as f64 * times) as u64;
        let bytes = PerOp { read: bytes(read), write: bytes(write) };
        DeviceObservation {
            name: name.into(),
            below: Some(below),
            total: DiskUse {
                ops: PerOp { read: bytes.read / (4 * KIB), write: bytes.write / (4 * KIB) },
                bytes,
                busy: Nanos::from_millis(1800),
                ..DiskUse::default()
            },
            ..DeviceObservation::default()
        }
    };
    let join = Join::Parity { parity: 1, of: 3, chunk: Some(Bytes(64 * KIB)) };
    let each = |name: &str| device(name, Below::default(), read / 3.0, write / 3.0);
    samples.observed = Some(Box::new(Observation {
        devices: vec![
            device("md0", Below { devices: vec![1, 2, 3], join, missing }, 0.0, 1.0),
            each("vdb"),
            each("vdc"),
            each("vdd"),
        ],
        members: vec![MemberObservation {
            member: "v0".into(),
            devices: vec![0, 1, 2, 3],
            below: Some(Below { devices: vec![0], join: Join::Through, missing: 0 }),
            ..MemberObservation::default()
        }],
        ..Observation::default()
    }));
    samples
}

#[test]
fn an_array_that_was_there_before_is_judged_by_its_own_counters() {
    let mut experiment = array(ArrayKind::Linear, 1);
    let workload = &mut experiment.workloads[0];
    (workload.mix, workload.access) = (Mix::Write, Access::Random);
    let found =
        |read: f64, write: f64, missing: u32| six_rounds(&experiment, move |_| on_md(read, write, missing));
    let verdict = &verdicts(&found(2.0, 2.0, 0))[0];
    assert_eq!(verdict.kind, PartialStripe);
    assert!(
        verdict.sentence.contains("smaller than a stripe of md0 (raid5) (128KiB)"),
        "{}",
        verdict.sentence
    );
    // Opposites: whole stripes, one that lacks a device, and one that is being checked.
    assert_eq!(kinds(&found(0.0, 1.5, 0)), [Unknown]);
    let (why, _) = ruled_out(&found(1.0, 1.0, 1), PartialStripe);
    assert!(why.starts_with("nothing was seen to be written to a whole array"), "{why}");
    let checked = six_rounds(&experiment, |_| {
        let mut samples = on_md(2.0, 2.0, 0);
        let observed = samples.observed.as_mut().expect("made up");
        observed.others = vec![OtherActivity {
            kind: OtherKind::Resync,
            who: "md0: check".into(),
            device: Some("md0".into()),
            bytes: None,
        }];
        samples
    });
    let (why, _) = ruled_out(&checked, PartialStripe);
    assert!(why.contains(Background.name()), "{why}");
}

/// Sequential writes of 256 KiB over stripes of 192 KiB: the same members are given more each time, and whole stripes would help.
#[test]
fn members_that_unaligned_writes_load_unevenly_are_no_limit_of_the_volumes() {
    let mut experiment = written(raid5, 256 * KIB);
    experiment.workloads[0].access = Access::Sequential;
    let session = six_rounds(&experiment, |_| {
        let mut samples = moved(256 * KIB, 0.25, 1.5);
        for (member, times) in samples.members.iter_mut().zip([1.2, 1.2, 0.9, 0.7]) {
            let part = |bytes: u64| (bytes as f64 * times) as u64;
            member.ops.read.count.bytes = part(member.ops.read.count.bytes);
            member.ops.write.count.bytes = part(member.ops.write.count.bytes);
        }
        samples
    });
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, PartialStripe);
    // 4/3 where 1.75 are moved.
    assert!((verdict.explains - (1.0 - 4.0 / 3.0 / 1.75)).abs() < 1e-2, "{verdict:?}");
}
