//! Members that are arrays of the host: the disks below are a tree, and what they move is not always what was asked.

use super::*;
use crate::fixtures::{BS, trial};
use VerdictKind::{Background, Cache, Concurrency, Member, RequestSize, SharedDevice, Unknown};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    Below, Count, DeviceObservation, DiskUse, Join, MemberObservation, Observation, ObservedInterval,
    OpSamples, OtherActivity, OtherKind,
};

/// Bytes that the one member is asked for in a trial.
const ASKED: u64 = 2 * 5000 * BS;
const STRIPE: Join = Join::Stripe { chunk: Some(Bytes(65536)) };
const MIRROR: Join = Join::Mirror { copies: 2 };

/// A device with what lies below it, and the bytes that it read and wrote.
struct Device(&'static str, Below, u64, u64);

fn over(name: &'static str, devices: &[usize], join: Join) -> Device {
    Device(name, Below { devices: devices.to_vec(), join, missing: 0 }, 0, 0)
}

fn disk(name: &'static str, read: u64, write: u64) -> Device {
    Device(name, Below::default(), read, write)
}

/// A trial of one member that was asked for [`ASKED`] bytes, to read or to write, on the first of these devices. Each request
/// at a disk is of [`BS`] bytes.
fn on(devices: &[Device], writes: bool) -> TrialSamples {
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

fn one() -> Experiment {
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
    assert_eq!(mirror(ASKED * 2), [Background]);
    let raid5 = |read: u64, write: u64| {
        let parity = Join::Parity { parity: 1, of: 3, chunk: None };
        let each = |name| disk(name, read / 3, write / 3);
        found(&[over("md0", &[1, 2, 3], parity), each("vdb"), each("vdc"), each("vdd")], true)
    };
    // Whole stripes; and small writes, which read data and parity before they write both.
    assert_eq!(raid5(0, ASKED * 3 / 2), [Unknown]);
    assert_eq!(raid5(ASKED * 2, ASKED * 2), [Unknown]);
    assert_eq!(raid5(ASKED * 2, ASKED * 4), [Background]);
    assert_eq!(raid5(ASKED * 6, ASKED * 2), [Background]);
    assert_eq!(raid5(0, ASKED / 2), [Cache]);
    // Nothing that is read or written below a thin volume tells of what was asked of it.
    let thin = |read: u64| found(&[over("dm-4", &[1], Join::Indirect), disk("vdb", read, 0)], false);
    assert_eq!((thin(0), thin(ASKED * 5)), (vec![Unknown], vec![Unknown]));
    let why = ruled_out(
        &six_rounds(&one(), |_| on(&[over("dm-4", &[1], Join::Indirect), disk("vdb", 0, 0)], false)),
        Cache,
    );
    assert!(why.0.contains("a thin volume or a snapshot is below"), "{}", why.0);
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

/// An array of four disks, `slow` of which takes this many times as long, with as many requests as its siblings or more.
fn four(factor: u64, more: u64) -> impl Fn(&Trial) -> TrialSamples {
    move |_: &Trial| {
        let quarter = ASKED / 4;
        let each = |name| disk(name, quarter, 0);
        let devices =
            [over("md0", &[1, 2, 3, 4], STRIPE), each("vdb"), each("vdc"), each("vdd"), each("vde")];
        let mut samples = on(&devices, false);
        let slow = &mut samples.observed.as_mut().expect("is observed").devices[3].total;
        slow.time.read = Nanos(slow.time.read.0 * factor);
        slow.weighted = Nanos(slow.weighted.0 * factor);
        slow.ops.read += slow.ops.read * more / 100;
        samples
    }
}

#[test]
fn an_array_of_the_host_has_members_that_are_judged() {
    let slow = six_rounds(&one(), four(14, 0));
    let result = analyse(&slow).results.swap_remove(0);
    let array = &result.below[0];
    assert_eq!(
        (array.name.as_str(), array.join, &array.members[..]),
        ("md0", STRIPE, &["v0".to_owned()][..])
    );
    let devices: Vec<&str> = array.devices.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(devices, ["vdb", "vdc", "vdd", "vde"]);
    let named = six_rounds(&one(), |t| {
        let mut samples = four(14, 0)(t);
        let devices = &mut samples.observed.as_mut().expect("is observed").devices;
        (devices[0].alias, devices[3].alias) = (Some("vg-data".into()), Some("vg-data_rimage_2".into()));
        samples
    });
    let sentence = &verdicts(&named)[0].sentence;
    assert!(
        sentence.starts_with("vg-data_rimage_2 answers") && sentence.ends_with("vg-data waits for it"),
        "{sentence}"
    );
    let vdd = &array.devices[2];
    assert_eq!((vdd.share, vdd.iops, vdd.wait, vdd.busy), (Some(0.25), 1250.0, Some(5.6e6), Some(0.9)));
    assert_eq!((vdd.throughput, vdd.in_flight), (1250.0 * BS as f64, Some(7.0)));
    let verdict = &verdicts(&slow)[0];
    assert_eq!(verdict.kind, Member);
    assert!(
        verdict.sentence.starts_with("vdd answers in 5.60 ms where its siblings take 400 us")
            && verdict.sentence.ends_with("md0 waits for it"),
        "{}",
        verdict.sentence
    );
    // A queue that is with one disk for a turn: it is idle while others hold it.
    let turns_beside = |siblings: f64, share: f64, intervals: [u64; 4]| {
        kinds(&six_rounds(&one(), |t| {
            let mut samples = four(14, 0)(t);
            let observed = samples.observed.as_mut().expect("is observed");
            let span = |share: f64| Nanos::from_secs_f64(2.0 * share);
            observed.devices.iter_mut().for_each(|device| device.total.busy = span(siblings));
            observed.devices[3].total.busy = span(share);
            observed.series = intervals
                .iter()
                .map(|slow| ObservedInterval {
                    devices: (0..5u64)
                        .map(|device| DiskUse {
                            ops: PerOp { read: 100, write: 0 },
                            time: PerOp {
                                read: Nanos::from_millis(if device == 3 { 40 * slow } else { 40 }),
                                write: Nanos(0),
                            },
                            ..DiskUse::default()
                        })
                        .collect(),
                    ..ObservedInterval::default()
                })
                .collect();
            samples
        }))
    };
    let turns = |share, intervals| turns_beside(0.9, share, intervals);
    assert_eq!(turns(0.99, [14; 4]), [Member]);
    assert_eq!(turns(0.99, [14, 14, 14, 1]), [Unknown], "not all along, and its siblings are as busy");
    assert_eq!(turns_beside(0.3, 0.99, [14, 14, 14, 1]), [Member], "its siblings have time to spare");
    assert_eq!(turns(0.6, [14; 4]), [Unknown], "it was idle");
    assert_eq!(turns(0.99, [1, 1, 60, 1]), [Unknown], "in one of four intervals");
    // Opposite: equals; and one that holds the queue because it has more to do.
    let alike = six_rounds(&one(), four(1, 0));
    assert_eq!(kinds(&alike), [Unknown]);
    let (why, seen) = ruled_out(&alike, Member);
    assert_eq!((why.as_str(), seen[0].0), ("no member stands out", 1.0));
    assert_eq!(kinds(&six_rounds(&one(), four(14, 20))), [Unknown]);
}

/// Chance gives a slow one some more requests than its siblings in some trials: those are no witnesses against it.
#[test]
fn a_slow_disk_is_named_though_some_trials_do_not_tell() {
    let told = |trials: u32| six_rounds(&one(), |t| four(14, if t.round < trials { 0 } else { 5 })(t));
    let verdict = &verdicts(&told(4))[0];
    assert_eq!(verdict.kind, Member);
    assert!(verdict.sentence.starts_with("vdd answers in 5.6"), "{}", verdict.sentence);
    // Opposite: that one that holds the queue because it has more to do shows so in most of them.
    let busy = told(2);
    assert_eq!(kinds(&busy), [Unknown]);
    let (why, seen) = ruled_out(&busy, Member);
    assert_eq!(why, "vdd is the slowest by far, but has more to do than its siblings");
    assert!((seen[1].0 - 1.033).abs() < 1e-3 && seen[1].1.is_some_and(|most| most < 1.021), "{seen:?}");
    // One that holds the queue for a turn is idle while others do.
    let idle = |trials: u32| {
        six_rounds(&one(), |t| {
            let mut samples = four(14, 0)(t);
            if t.round >= trials {
                let slow = &mut samples.observed.as_mut().expect("is observed").devices[3].total;
                slow.busy = Nanos::from_millis(1400);
            }
            samples
        })
    };
    assert_eq!((kinds(&idle(3)), kinds(&idle(2))), (vec![Member], vec![Unknown]));
    // Nor does it count that each is slow in its turn.
    let turns = six_rounds(&one(), |t| {
        let mut samples = four(14, 0)(t);
        let disks = &mut samples.observed.as_mut().expect("is observed").devices;
        let (slow, other) = (disks[3].total, disks[1].total);
        (disks[3].total, disks[1 + t.round as usize % 4].total) = (other, slow);
        samples
    });
    assert_eq!(kinds(&turns), [Unknown]);
}

/// An array of four disks, one of which serves so many percent more requests, which others make: its queue holds both.
fn neighbour(more: u64) -> impl Fn(&Trial) -> TrialSamples {
    move |t: &Trial| {
        let mut samples = four(1, 0)(t);
        let devices = &mut samples.observed.as_mut().expect("is observed").devices[1..];
        for device in devices.iter_mut() {
            device.total.busy = Nanos::from_millis(300);
            device.total.weighted = Nanos::from_millis(400);
        }
        let crowded = &mut devices[2].total;
        let times = |own: u64| own + own * more / 100;
        (crowded.ops.read, crowded.bytes.read) = (times(crowded.ops.read), times(crowded.bytes.read));
        crowded.busy = Nanos::from_millis(1990);
        // 3.4 of the load's four wait there, and as many of others in proportion.
        crowded.weighted = Nanos(times(6_800_000_000));
        crowded.time.read = crowded.weighted;
        samples
    }
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
        let rung = |in_flight: u32| ebbtide_model::session::Rung {
            design: experiment.designs[0].name.clone(),
            workload: experiment.workloads[0].name.clone(),
            in_flight,
            bs: experiment.workloads[0].bs,
            samples: Box::new(run(window)),
        };
        session.meta.rungs = [4, 8, 16].map(rung).into();
        session
    };
    assert_eq!(kinds(&climbed(8 * Bytes::KIB)), [VerdictKind::Readahead]);
    assert_eq!(kinds(&climbed(4 * Bytes::MIB)), [VerdictKind::VolumeLimit]);
}

/// A linear volume over two disks: three fifths of the operations go to the first, which has no more done with more in flight.
#[test]
fn a_disk_that_has_more_of_the_load_is_the_limit_of_its_array() {
    let run = |first: u64, times: u64| {
        let second = 100 - first;
        let parts = [disk("vdb", ASKED * first / 100, 0), disk("vdc", ASKED * second / 100, 0)];
        let [vdb, vdc] = parts;
        let mut samples = on(&[over("dm-0", &[1, 2], Join::Linear), vdb, vdc], false);
        let devices = &mut samples.observed.as_mut().expect("is observed").devices;
        (devices[1].total.busy, devices[2].total.busy) = (Nanos::from_millis(1990), Nanos::from_millis(700));
        (devices[1].total.weighted, devices[2].total.weighted) =
            (Nanos::from_millis(7600), Nanos::from_millis(100));
        devices[1].total.ops.read *= times;
        samples
    };
    let climbed = |first: u64, times: u64| {
        let experiment = one();
        let mut session = six_rounds(&experiment, |_| run(first, 1));
        let rung = |in_flight: u32| ebbtide_model::session::Rung {
            design: experiment.designs[0].name.clone(),
            workload: experiment.workloads[0].name.clone(),
            in_flight,
            bs: experiment.workloads[0].bs,
            samples: Box::new(run(first, times)),
        };
        session.meta.rungs = [8, 16].map(rung).into();
        session
    };
    let verdict = &verdicts(&climbed(60, 1))[0];
    assert_eq!((verdict.kind, verdict.basis), (VerdictKind::VolumeLimit, Some(crate::Basis::Inferred)));
    assert_eq!(
        verdict.sentence,
        "vdb, one of the 2 devices of dm-0, is the limit: it has 60% of the requests, and serves 3.00 k requests/s of them with 4 in \
         flight and 3.00 k with 16; it is busy 100% of the time, the others 35%, and 95% of the operations in flight wait \
         there: spread evenly, all would have as much to do"
    );
    // Opposites: it does more with more in flight, and equals of which one holds the queue.
    let told = |session: &Session| verdicts(session)[0].sentence.contains("vdb, one of");
    assert!(!told(&climbed(60, 2)) && !told(&climbed(52, 1)));
}

/// What others take of one disk is what they take of an array that waits for it, however little it is of all its disks.
#[test]
fn others_on_one_disk_of_an_array_are_weighed_on_that_disk() {
    let session = six_rounds(&one(), neighbour(122));
    let verdict = &verdicts(&session)[0];
    assert_eq!((verdict.kind, (verdict.explains * 100.0).round()), (Background, 47.0));
    assert_eq!(
        verdict.sentence,
        "others made 1.52 k requests/s on vdd, 55% of all that it served (55% of the bytes), for which md0 waits: 85% of \
         the operations in flight are there; operations limit it; by whom cannot be seen from here"
    );
    // On two of them.
    let two = six_rounds(&one(), |t| {
        let mut samples = neighbour(122)(t);
        let devices = &mut samples.observed.as_mut().expect("is observed").devices;
        devices[3].total.weighted = Nanos(devices[3].total.weighted.0 / 2);
        devices[4].total = devices[3].total;
        samples
    });
    let found = &verdicts(&two)[0];
    assert_eq!(found.kind, Background);
    assert!(found.sentence.contains("on vdd, vde, 55% of all that they served"), "{}", found.sentence);
    // Opposites: a disk that the load itself uses more, so that the array moves no more than it was asked; others who
    // take little of it; and those on a disk for which the load does not wait.
    let skewed = six_rounds(&one(), |t| {
        let mut samples = neighbour(122)(t);
        let more = ASKED * 122 / 400;
        for ops in [&mut samples.array, &mut samples.members[0].ops] {
            ops.read.count.bytes += more;
            ops.read.count.ops += more / BS;
        }
        samples
    });
    assert!(!kinds(&skewed).contains(&Background), "{:?}", kinds(&skewed));
    assert!(!kinds(&six_rounds(&one(), neighbour(8))).contains(&Background));
    let elsewhere = six_rounds(&one(), |t| {
        let mut samples = neighbour(40)(t);
        samples.observed.as_mut().expect("is observed").devices[3].total.weighted = Nanos::from_millis(400);
        samples
    });
    assert!(!kinds(&elsewhere).contains(&Background), "{:?}", kinds(&elsewhere));
}

/// The same of members that a design names, of which it is known what they were asked.
#[test]
fn others_on_one_member_are_weighed_on_its_disk() {
    let beside = |more: u64| {
        six_rounds(&stripe(4), |_| {
            let fast = ("v0", 500, 200_000);
            let slow = ("v2", 500, 6_000_000);
            let mut samples = trial(&[fast, ("v1", 500, 200_000), slow, ("v3", 500, 200_000)]);
            let device = |at: usize| {
                let own = 1000 + if at == 2 { more } else { 0 };
                DeviceObservation {
                    name: format!("vd{at}"),
                    number: format!("8:{at}"),
                    total: DiskUse {
                        ops: PerOp { read: own, write: 0 },
                        bytes: PerOp { read: own * BS, write: 0 },
                        busy: Nanos::from_millis(if at == 2 { 1990 } else { 300 }),
                        weighted: Nanos(own * if at == 2 { 6_000_000 } else { 200_000 }),
                        ..DiskUse::default()
                    },
                    ..DeviceObservation::default()
                }
            };
            samples.observed = Some(Box::new(Observation {
                devices: (0..4).map(device).collect(),
                members: (0..4)
                    .map(|at| MemberObservation {
                        member: format!("v{at}"),
                        devices: vec![at],
                        ..MemberObservation::default()
                    })
                    .collect(),
                ..Observation::default()
            }));
            samples
        })
    };
    let session = beside(1000);
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, Background);
    assert!(
        verdict.sentence.contains("on vd2, 50% of all that it served")
            && verdict.sentence.contains("for which the array waits"),
        "{}",
        verdict.sentence
    );
    assert_eq!(kinds(&beside(0)), [Member], "with nobody else it is slow by itself");
}

/// One operation at a time leaves three of the four disks of an array idle, as it would leave a design's members.
#[test]
fn an_array_of_the_host_can_be_too_little_asked() {
    let mut single = one();
    single.workloads[0].iodepth = 2;
    let run = |busy: f64| {
        move |t: &Trial| {
            let mut samples = four(1, 0)(t);
            for device in &mut samples.observed.as_mut().expect("is observed").devices[1..] {
                device.total.weighted = Nanos::from_secs_f64(2.0 * busy);
            }
            samples
        }
    };
    let verdict = &verdicts(&six_rounds(&single, run(0.5)))[0];
    assert_eq!(verdict.kind, Concurrency);
    assert!(verdict.sentence.contains("would use all 4"), "{}", verdict.sentence);
    assert_eq!(kinds(&six_rounds(&single, run(3.0))), [Unknown]);
    // What is written to a mirror is several requests at once, and says less.
    let mirrored = |t: &Trial| {
        let mut samples = run(0.5)(t);
        let below = &mut samples.observed.as_mut().expect("is observed").devices[0].below;
        below.as_mut().expect("a tree").join = Join::Mirror { copies: 4 };
        samples
    };
    assert_eq!(kinds(&six_rounds(&single, mirrored)), [Concurrency]);
    single.workloads[0].mix = ebbtide_model::workload::Mix::Write;
    assert_eq!(kinds(&six_rounds(&single, mirrored)), [Unknown]);
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
