//! Arrays of the host as members: their devices are judged like members of a design, those at which others are at work too.

use super::trees::{ASKED, STRIPE, disk, on, one, over};
use super::*;
use crate::fixtures::{BS, trial};
use VerdictKind::{Background, Concurrency, Member, Unknown};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    DeviceObservation, DiskUse, Join, MemberObservation, Observation, ObservedInterval,
};
use ebbtide_model::session::Rung;

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

/// Of equals one may hold the queue all along a single trial. The short runs after it begin anew, and the queue with another.
#[test]
fn a_slow_disk_is_the_slowest_in_short_runs_too() {
    let slowest = |device: usize| {
        move |trial: &Trial| {
            let mut samples = four(14, 0)(trial);
            samples.observed.as_mut().expect("is observed").devices.swap(3, device);
            let devices = &mut samples.observed.as_mut().expect("is observed").devices;
            let (here, there) = (devices[3].name.clone(), devices[device].name.clone());
            (devices[3].name, devices[device].name) = (there, here);
            samples
        }
    };
    let after = |rungs: &[(u32, usize)]| {
        let mut once = session(&one(), 1, |trial| Ok(slowest(3)(trial)));
        let (design, load) = (&once.experiment.designs[0], &once.experiment.workloads[0]);
        let rung = |(times, device): &(u32, usize)| Rung {
            design: design.name.clone(),
            workload: load.name.clone(),
            in_flight: load.iodepth * times,
            bs: load.bs,
            samples: Box::new(slowest(*device)(&once.trials[0].trial)),
        };
        once.meta.rungs = rungs.iter().map(rung).collect();
        once
    };
    let confidence = |rungs: &[(u32, usize)]| {
        let first = verdicts(&after(rungs)).swap_remove(0);
        (first.kind, first.confidence)
    };
    assert_eq!(confidence(&[]), (Member, 0.6));
    assert_eq!(confidence(&[(2, 3), (1, 3), (4, 3)]), (Member, 0.95));
    assert_eq!(confidence(&[(2, 3), (1, 2), (4, 3)]).0, Member, "in most of them");
    let turns = after(&[(2, 2), (1, 3), (4, 1)]);
    assert_eq!(kinds(&turns), [Unknown]);
    let (why, seen) = ruled_out(&turns, Member);
    assert_eq!(why, "vdd is the slowest by far, but not in the short runs that began anew");
    assert_eq!(seen[1], (1.0, Some(1.5)));
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

/// With more in flight the array has more of the disk at which others are, and these have as much less: they are what holds it back, and
/// nobody says that it is not full.
#[test]
fn more_in_flight_take_from_others_what_a_full_disk_does() {
    let experiment = one();
    let beside = |others: u64| {
        let mut session = six_rounds(&experiment, neighbour(122));
        let trial_of = session.trials[0].trial;
        for (in_flight, iops) in [(4, 5000), (8, 9000)] {
            let samples = TrialSamples {
                observed: neighbour(if in_flight == 4 { 122 } else { others })(&trial_of).observed,
                ..trial(&[("v0", iops, 400_000)])
            };
            with_rung(&mut session, in_flight, experiment.workloads[0].bs, samples);
        }
        verdicts(&session)
    };
    let [background, concurrency] = <[Verdict; 2]>::try_from(beside(122)).expect("both");
    assert_eq!((background.kind, concurrency.kind), (Background, Concurrency));
    let few = "4 operations in flight get only a share of disks that others use too: with 8 in flight the rate is 80% higher";
    assert_eq!(concurrency.sentence, few);
    let taken = |verdict: &Verdict| {
        verdict.evidence.iter().any(|figure| figure.what.contains("from any source, with 8"))
    };
    assert!(taken(&background), "{:?}", background.evidence);
    // Opposite: the disk does as much more as the load, and what it is short of is told by the size of its requests.
    let room = beside(202);
    let background = room.iter().find(|verdict| verdict.kind == Background).expect("named");
    assert!(!taken(background), "{:?}", background.evidence);
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
        for in_flight in [8, 16] {
            with_rung(&mut session, in_flight, experiment.workloads[0].bs, run(first, times));
        }
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
         the operations in flight are there; whether operations or bytes limit it is not known; by whom cannot be seen from here"
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
