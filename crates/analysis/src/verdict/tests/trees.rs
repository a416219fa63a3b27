//! Members that are arrays of the host: the disks below are a tree, and what they move is not always what was asked.

use super::*;
use crate::fixtures::{BS, trial};
use VerdictKind::{Background, Cache, RequestSize, SharedDevice, Unknown};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    Below, Count, DeviceObservation, DiskUse, Join, MemberObservation, Observation, OpSamples, OtherActivity,
    OtherKind,
};

/// Bytes that the one member is asked for in a trial.
pub(super) const ASKED: u64 = 2 * 5000 * BS;
pub(super) const STRIPE: Join = Join::Stripe { chunk: Some(Bytes(65536)) };
const MIRROR: Join = Join::Mirror { copies: 2 };

/// A device with what lies below it, and the bytes that it read and wrote.
pub(super) struct Device(&'static str, Below, u64, u64);

pub(super) fn over(name: &'static str, devices: &[usize], join: Join) -> Device {
    Device(name, Below { devices: devices.to_vec(), join, missing: 0 }, 0, 0)
}

pub(super) fn disk(name: &'static str, read: u64, write: u64) -> Device {
    Device(name, Below::default(), read, write)
}

/// A trial of one member that was asked for [`ASKED`] bytes, to read or to write, on the first of these devices. Each request
/// at a disk is of [`BS`] bytes.
pub(super) fn on(devices: &[Device], writes: bool) -> TrialSamples {
    let mut samples = trial(&[("v0", 5000, 400_000)]);
    if writes {
        let swap = |ops: &mut PerOp<OpSamples>| std::mem::swap(&mut ops.read, &mut ops.write);
        swap(&mut samples.array);
        samples.members.iter_mut().for_each(|member| swap(&mut member.ops));
    }
    let seconds = samples.elapsed.as_secs_f64();
    let device = |Device(name, below, read, write): &Device| DeviceObservation {
        name: (*name).to_owned(),
        number: format!("8:{}", name.len()),
        below: Some(below.clone()),
        total: DiskUse {
            ops: PerOp { read: read / BS, write: write / BS },
            bytes: PerOp { read: *read, write: *write },
            time: PerOp { read: Nanos(read / BS * 400_000), write: Nanos(write / BS * 400_000) },
            busy: Nanos::from_secs_f64(0.9 * seconds),
            weighted: Nanos((read + write) / BS * 400_000),
            ..DiskUse::default()
        },
        max_request: Some(Bytes(BS)),
        ..DeviceObservation::default()
    };
    samples.observed = Some(Box::new(Observation {
        devices: devices.iter().map(device).collect(),
        members: vec![MemberObservation {
            member: "v0".into(),
            devices: (0..devices.len()).collect(),
            below: Some(Below { devices: vec![0], join: Join::Through, missing: 0 }),
            ..MemberObservation::default()
        }],
        ..Observation::default()
    }));
    samples
}

pub(super) fn one() -> Experiment {
    array(ArrayKind::Linear, 1)
}

#[track_caller]
fn found(devices: &[Device], writes: bool) -> Vec<VerdictKind> {
    kinds(&six_rounds(&one(), |_| on(devices, writes)))
}

/// A member whose disks moved exactly what reads of it take: nobody but the disks answered, however they are put together.
#[test]
fn no_cache_is_seen_where_the_disks_of_a_tree_moved_what_was_asked() {
    let half = ASKED / 2;
    let quarter = ASKED / 4;
    let stacks: [(&str, Vec<Device>); 10] = [
        ("raid0", vec![over("md0", &[1, 2], STRIPE), disk("vdb", half, 0), disk("vdc", half, 0)]),
        (
            "a mirror that reads from one",
            vec![over("md0", &[1, 2], MIRROR), disk("vdb", ASKED * 9 / 10, 0), disk("vdc", ASKED / 10, 0)],
        ),
        (
            "a linear volume, at work on one",
            vec![over("dm-0", &[1, 2], Join::Linear), disk("vdb", ASKED, 0), disk("vdc", 0, 0)],
        ),
        (
            "four stripes",
            vec![
                over("dm-0", &[1, 2, 3, 4], STRIPE),
                disk("vdb", quarter, 0),
                disk("vdc", quarter, 0),
                disk("vdd", quarter, 0),
                disk("vde", quarter, 0),
            ],
        ),
        (
            "md over md over partitions",
            vec![
                over("md2", &[1, 5], STRIPE),
                over("md0", &[2, 4], STRIPE),
                over("vdb1", &[3], Join::Through),
                disk("vdb", quarter, 0),
                disk("vdc", quarter, 0),
                over("md1", &[6, 7], MIRROR),
                disk("vdd", quarter, 0),
                disk("vde", quarter, 0),
            ],
        ),
        (
            "dm-crypt over raid5",
            vec![
                over("dm-3", &[1], Join::Through),
                over("md5", &[2, 3, 4], Join::Parity { parity: 1, of: 3, chunk: None }),
                disk("vdb", ASKED / 3, 0),
                disk("vdc", ASKED / 3, 0),
                disk("vdd", ASKED / 3, 0),
            ],
        ),
        (
            "a file in a file system on md, as a loop device",
            vec![
                over("loop0", &[1], Join::Through),
                over("md0", &[2, 3], STRIPE),
                disk("vdb", half, 0),
                disk("vdc", half, 0),
            ],
        ),
        (
            "bcache, a quarter from its cache",
            vec![
                over("bcache0", &[1, 2], Join::Cache),
                disk("sda", quarter * 3, 0),
                disk("nvme0n1", quarter, 0),
            ],
        ),
        (
            "two paths to one disk",
            vec![over("dm-1", &[1, 2], Join::Paths), disk("sda", half, 0), disk("sdb", half, 0)],
        ),
        (
            "nobody knows what",
            vec![over("dm-9", &[1, 2], Join::Other), disk("vdb", half, 0), disk("vdc", half, 0)],
        ),
    ];
    for (name, devices) in &stacks {
        let found = found(devices, false);
        assert!(!found.contains(&Cache) && !found.contains(&Background), "{name}: {found:?}");
        // Opposite: of what each moved, three quarters came from a cache.
        let cached: Vec<Device> = devices.iter().map(|d| Device(d.0, d.1.clone(), d.2 / 4, d.3)).collect();
        let session = six_rounds(&one(), |_| on(&cached, false));
        let verdict = &verdicts(&session)[0];
        assert_eq!(verdict.kind, Cache, "{name}");
        assert!(
            verdict.sentence.starts_with("a cache answered 75% of the bytes read"),
            "{}",
            verdict.sentence
        );
    }
}

/// A loop device has its file's pages cached, whatever is asked of it: the remedy is its own.
#[test]
fn the_cache_of_a_loop_device_is_named_with_what_ends_it() {
    let session = |page_cached: bool| {
        six_rounds(&one(), |_| {
            let mut samples = on(&[over("loop3", &[1], Join::Through), disk("vdb", ASKED / 10, 0)], false);
            samples.observed.as_mut().expect("is observed").devices[0].page_cached = page_cached;
            samples
        })
    };
    let named = &verdicts(&session(true))[0];
    assert_eq!(named.kind, Cache);
    assert!(
        named.sentence.ends_with("`losetup --direct-io=on /dev/loop3` avoids that"),
        "{}",
        named.sentence
    );
    let elsewhere = &verdicts(&session(false))[0];
    assert!(elsewhere.kind == Cache && !elsewhere.sentence.contains("losetup"), "{}", elsewhere.sentence);
    let advice = analyse(&session(true)).warnings.into_iter().find_map(|warning| warning.advice);
    assert!(
        advice.is_some_and(|advice| !advice.contains("use direct I/O") && advice.contains("loop device"))
    );
}

/// Asked is not moved: a mirror writes every byte for each copy, parity more than that and reads for it.
#[test]
fn copies_and_parity_are_neither_others_nor_a_cache() {
    let mirror =
        |each: u64| found(&[over("md0", &[1, 2], MIRROR), disk("vdb", 0, each), disk("vdc", 0, each)], true);
    assert_eq!(mirror(ASKED), [Unknown]);
    // A page cache that keeps half of what a mirror is asked to write: the disks moved as much as was asked.
    assert_eq!(mirror(ASKED / 2), [Cache]);
    // A bitmap may have a page for each write.
    assert_eq!(mirror(ASKED * 4), [Background]);
    let raid5 = |read: u64, write: u64| {
        let parity = Join::Parity { parity: 1, of: 3, chunk: None };
        let each = |name| disk(name, read / 3, write / 3);
        found(&[over("md0", &[1, 2, 3], parity), each("vdb"), each("vdc"), each("vdd")], true)
    };
    // Whole stripes; and small writes, which read data and parity before they write both.
    assert_eq!(raid5(0, ASKED * 3 / 2), [Unknown]);
    assert_eq!(raid5(ASKED * 2, ASKED * 2), [Unknown]);
    assert_eq!(raid5(ASKED * 2, ASKED * 8), [Background]);
    assert_eq!(raid5(ASKED * 6, ASKED * 2), [Background]);
    assert_eq!(raid5(0, ASKED / 2), [Cache]);
    // Nothing that is read or written below a thin volume tells of what was asked of it.
    let thin = |read: u64| found(&[over("dm-4", &[1], Join::Indirect), disk("vdb", read, 0)], false);
    assert_eq!((thin(0), thin(ASKED * 5)), (vec![Unknown], vec![Unknown]));
    let why = ruled_out(
        &six_rounds(&one(), |_| on(&[over("dm-4", &[1], Join::Indirect), disk("vdb", 0, 0)], false)),
        Cache,
    );
    assert!(why.0.contains("what the disks moved is not known"), "{}", why.0);
}

/// Requests of 3 KiB, which parity moves as whole pages at both of their ends.
#[test]
fn what_is_no_whole_page_moves_more_below_parity() {
    let parity = Join::Parity { parity: 1, of: 3, chunk: None };
    let small = |read: u64, write: u64| {
        let mut samples = on(&[over("md0", &[1], parity), disk("vdb", read, write)], true);
        let count = Count { ops: 10_000, bytes: 10_000 * 3072 };
        samples.members[0].ops.write.count = count;
        samples.array.write.count = count;
        samples
    };
    let pages = 10_000 * 4096;
    assert_eq!(kinds(&six_rounds(&one(), |_| small(4 * pages, 4 * pages))), [Unknown]);
    assert_eq!(kinds(&six_rounds(&one(), |_| small(12 * pages, 12 * pages))), [Background]);
}

/// Somebody works on the array itself, or on one of its disks.
#[test]
fn others_at_work_anywhere_in_the_tree_count() {
    let mut buffered = one();
    buffered.workloads[0].direct = false;
    let beside = |device: &'static str| {
        let run = move |_: &Trial| {
            let half = ASKED / 2;
            let devices = [over("md0", &[1, 2], STRIPE), disk("vdb", half, ASKED), disk("vdc", half, ASKED)];
            let mut samples = on(&devices, false);
            let seen = samples.observed.as_mut().expect("is observed");
            seen.others.push(OtherActivity {
                kind: OtherKind::Process,
                who: "dd (pid 4711)".into(),
                device: Some(device.into()),
                bytes: Some(PerOp { read: 0, write: 2 * ASKED }),
            });
            samples
        };
        kinds(&six_rounds(&buffered, run))
    };
    assert_eq!((beside("md0"), beside("vdc")), (vec![Background], vec![Background]));
    assert_eq!(beside("vdz"), [Unknown], "not below the member");
}

/// A loop device is always busy with one small window after another, and so with two of them: the disk below has time to spare.
#[test]
fn a_window_that_is_too_small_is_no_limit_of_the_volume() {
    let mut experiment = one();
    let workload = &mut experiment.workloads[0];
    (workload.direct, workload.access) = (false, ebbtide_model::workload::Access::Sequential);
    let run = |window: u64| {
        let mut samples = on(&[over("loop0", &[1], Join::Through), disk("vdb", ASKED, 0)], false);
        let devices = &mut samples.observed.as_mut().expect("is observed").devices;
        let of_disk = devices[1].total;
        devices[0].readahead = Some(Bytes(window));
        devices[0].total = DiskUse { busy: Nanos::from_millis(1990), ..of_disk };
        devices[0].total.weighted = Nanos::from_millis(7600);
        devices[1].total.busy = Nanos::from_millis(1640);
        samples
    };
    let climbed = |window: u64| {
        let mut session = six_rounds(&experiment, |_| run(window));
        for in_flight in [4, 8, 16] {
            with_rung(&mut session, in_flight, experiment.workloads[0].bs, run(window));
        }
        session
    };
    assert_eq!(kinds(&climbed(8 * Bytes::KIB)), [VerdictKind::Readahead]);
    assert_eq!(kinds(&climbed(4 * Bytes::MIB)), [VerdictKind::VolumeLimit]);
}

#[test]
fn a_disk_that_two_have_in_common_is_shared() {
    // Two partitions of one disk as members of one array.
    let half = ASKED / 2;
    let parts = |join| {
        [
            over("md0", &[1, 3], join),
            over("vdb1", &[2], Join::Through),
            disk("vdb", 2 * half, 0),
            over("vdb2", &[2], Join::Through),
        ]
    };
    let verdict = &verdicts(&six_rounds(&one(), |_| on(&parts(STRIPE), false)))[0];
    assert_eq!(verdict.kind, SharedDevice);
    assert!(verdict.sentence.starts_with("2 of the 2 devices of md0 are on the same disk (vdb)"));
    // What is worked one after the other loses nothing by it.
    assert_eq!(found(&parts(Join::Linear), false), [Unknown]);

    // Two arrays that have one disk of three in common, as members of one design.
    let members = |disks: [[&str; 2]; 2]| {
        let mut session = six_rounds(&stripe(2), |_| trial(&[("v0", 5000, 400_000), ("v1", 5000, 400_000)]));
        on_disks(&mut session, &["9:0", "9:1"]);
        for (volume, names) in session.meta.inventory.volumes.iter_mut().zip(disks) {
            (volume.disk, volume.disk_name) = (None, None);
            volume.disks = names
                .map(|name| ebbtide_model::backend::DiskBelow {
                    number: format!("8:{name}"),
                    name: name.into(),
                })
                .to_vec();
        }
        session
    };
    let shared = &verdicts(&members([["vdb", "vdc"], ["vdc", "vdd"]]))[0];
    assert_eq!(shared.kind, SharedDevice);
    assert!(shared.sentence.starts_with("2 of 2 members are on the same disk (vdc)"), "{}", shared.sentence);
    assert_eq!(kinds(&members([["vdb", "vdc"], ["vdd", "vde"]])), [Unknown]);
}

/// Requests at the disks are no larger than a chunk because the array cuts them, not because the disks take no more.
#[test]
fn requests_that_an_array_cuts_are_not_split_by_its_disks() {
    let cut = |join: Join| {
        let half = ASKED / 2;
        let mut samples =
            on(&[over("md0", &[1, 2], join), disk("vdb", half, 0), disk("vdc", half, 0)], false);
        for ops in [&mut samples.members[0].ops, &mut samples.array] {
            ops.read.count.ops /= 4;
        }
        samples
    };
    assert_eq!(kinds(&six_rounds(&one(), |_| cut(Join::Stripe { chunk: None }))), [RequestSize]);
    assert_eq!(kinds(&six_rounds(&one(), |_| cut(Join::Stripe { chunk: Some(Bytes(BS)) }))), [Unknown]);
    // Each copy of what is written to a mirror is a request, and none of them is split.
    let mirrored = found(&[over("md0", &[1, 2], MIRROR), disk("vdb", 0, ASKED), disk("vdc", 0, ASKED)], true);
    assert_eq!(mirrored, [Unknown]);
}

/// What a device splits, the disk below may merge again.
#[test]
fn requests_that_the_members_device_splits() {
    let split = |parts: u64| {
        let loops = Device("loop0", Below { devices: vec![1], join: Join::Through, missing: 0 }, ASKED, 0);
        let mut samples = on(&[loops, disk("vda", ASKED, 0)], false);
        let devices = &mut samples.observed.as_mut().expect("is observed").devices;
        devices[0].total.ops.read *= parts;
        devices[0].max_request = Some(Bytes(BS / parts));
        devices[1].max_request = Some(Bytes(Bytes::MIB));
        samples
    };
    let found = verdicts(&six_rounds(&one(), |_| split(8)));
    assert_eq!(found[0].kind, RequestSize);
    assert!(
        found[0].sentence.contains("the members' devices complete 8.0 for each"),
        "{}",
        found[0].sentence
    );
    assert_eq!(kinds(&six_rounds(&one(), |_| split(1))), [Unknown]);
}

/// What a link carries to a mirror that is behind it is every copy.
#[test]
fn a_link_carries_every_copy() {
    let linked = |throughput: f64| {
        let mut experiment = one();
        experiment.links = vec![ebbtide_model::volume::LinkShape {
            name: "instance".into(),
            throughput: Some(Limit::steady(throughput)),
            iops: None,
            one_way: Default::default(),
        }];
        let shape = Shape { link: Some(0), ..Shape::default() };
        experiment.volumes[0].shape = Some(shape);
        let devices = [over("md0", &[1, 2], MIRROR), disk("vdb", 0, ASKED), disk("vdc", 0, ASKED)];
        let mut session = six_rounds(&experiment, |_| on(&devices, true));
        session.meta.backend = ebbtide_model::backend::BackendKind::Kernel;
        kinds(&session)
    };
    // 20 MB/s are asked and 41 MB/s carried.
    assert_eq!(linked(41e6), [VerdictKind::InstanceLimit]);
    assert_eq!(linked(80e6), [Unknown]);
}
