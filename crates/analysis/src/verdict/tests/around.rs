//! What the observer saw around the trials: caches, others at work, splits, readahead, first touches.

use super::*;
use crate::fixtures::{BS, trial};
use crate::tell_jobs_beside;
use VerdictKind::{Background, Cache, Concurrency, FirstTouch, Readahead, RequestSize, Unknown};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    CoreUse, DeviceObservation, DiskUse, Histogram, MemberObservation, Observation, OtherActivity, OtherKind,
};
use ebbtide_model::workload::{Access, Mix};

/// The members' disks, one each, that moved so many bytes in all, in so many requests, and were busy for this share.
fn observed(samples: &mut TrialSamples, read: u64, write: u64, ops: u64, busy: f64) -> &mut Observation {
    let n = samples.members.len() as u64;
    let device = |index: u64| DeviceObservation {
        name: format!("vd{index}"),
        number: format!("8:{index}"),
        total: DiskUse {
            ops: PerOp { read: ops / n, write: 0 },
            bytes: PerOp { read: read / n, write: write / n },
            busy: Nanos::from_secs_f64(busy * samples.elapsed.as_secs_f64()),
            ..DiskUse::default()
        },
        max_request: Some(Bytes(128 * Bytes::KIB)),
        readahead: Some(Bytes(128 * Bytes::KIB)),
        ..DeviceObservation::default()
    };
    let members = samples.members.iter().enumerate().map(|(index, member)| MemberObservation {
        member: member.name.clone(),
        devices: vec![index],
        ..MemberObservation::default()
    });
    let observation = Observation {
        devices: (0..n).map(device).collect(),
        members: members.collect(),
        cores: vec![CoreUse::default()],
        ..Observation::default()
    };
    samples.observed.insert(Box::new(observation))
}

const ASKED: u64 = 2 * 5000 * BS;

fn one_member() -> TrialSamples {
    trial(&[("v0", 5000, 400_000)])
}

#[test]
fn disks_that_moved_less_than_was_asked() {
    let moved = |share: f64| {
        move |_: &Trial| {
            let mut samples = one_member();
            observed(&mut samples, (ASKED as f64 * share) as u64, 0, 10_000, 0.9);
            samples
        }
    };
    let session = six_rounds(&stripe(1), moved(0.25));
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, Cache);
    assert!(verdict.sentence.starts_with("a cache answered 75% of the bytes"), "{}", verdict.sentence);
    assert!(!verdict.sentence.contains("never written"), "{}", verdict.sentence);
    let nothing = &verdicts(&six_rounds(&stripe(1), moved(0.0)))[0];
    assert!(
        nothing.sentence.ends_with("never written are answered without the disk too"),
        "{}",
        nothing.sentence
    );
    let warned = analyse(&session).warnings.iter().any(|w| w.kind == crate::WarningKind::Cache);
    assert!(warned, "a figure of a cache is not a figure of the volume");
    assert_eq!(kinds(&six_rounds(&stripe(1), moved(1.0))), [Unknown]);
    assert_eq!(kinds(&six_rounds(&stripe(1), moved(0.9))), [Unknown]);
}

/// Others read on the disk too, and in one of the trials more than was hidden: what is said is of one trial and one
/// direction.
#[test]
fn the_figures_of_a_cache_belong_together() {
    let read = [0.4, 0.5, 0.6, 2.0, 0.62, 0.63];
    let session = six_rounds(&stripe(1), |t| {
        let mut samples = one_member();
        samples.array.write.count.bytes = 1000;
        observed(&mut samples, (ASKED as f64 * read[t.round as usize]) as u64, ASKED, 10_000, 0.2);
        samples
    });
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, Cache);
    let figure = &verdict.evidence[0];
    assert_eq!(figure.what, "bytes read by the disks in the median trial, against those requested");
    let share = 1.0 - figure.value / figure.reference.expect("what was asked for");
    assert!((share - verdict.evidence[1].value).abs() < 1e-9, "{:?}", verdict.evidence);
    assert!(
        verdict.sentence.contains(
            "38% of the bytes read: in the median trial the disks moved 25.4 MB of 41.0 MB requested"
        ),
        "{}",
        verdict.sentence
    );
}

/// Two jobs on one disk, each with the other's I/O there.
#[test]
fn jobs_of_one_run_are_not_each_other_s_background() {
    let ran = |told: bool, also: u64| {
        six_rounds(&stripe(1), move |_| {
            let mut jobs = [one_member(), trial(&[("v0", 20_000, 100_000)])];
            for job in &mut jobs {
                observed(job, 5 * ASKED + also * BS, 0, 50_000 + also, 0.95);
            }
            let [one, other] = &mut jobs;
            let workload = &stripe(1).workloads[0];
            if told {
                tell_jobs_beside(&mut [(workload, one), (workload, other)]);
            }
            jobs[0].clone()
        })
    };
    assert!(kinds(&ran(false, 0)).contains(&Background));
    assert!(!kinds(&ran(true, 0)).contains(&Background));
    // Somebody else is, all the same.
    assert!(kinds(&ran(true, 50_000)).contains(&Background));
}

/// The counters of a kernel's array have the I/O of all jobs on it: nothing comes on top of that.
#[test]
fn what_the_kernel_counted_has_all_jobs_in_it() {
    let told = |by_the_kernel: bool| {
        let mut jobs = [one_member(), trial(&[("v0", 20_000, 100_000)])];
        for job in &mut jobs {
            observed(job, 5 * ASKED, 0, 50_000, 0.95);
            let ops = &mut job.members[0].ops;
            if by_the_kernel {
                (ops.read.latency, ops.write.latency) = Default::default();
            }
        }
        let [one, other] = &mut jobs;
        tell_jobs_beside(&mut [(&stripe(1).workloads[0], one), (&stripe(1).workloads[0], other)]);
        let beside = jobs[0].observed.as_ref().and_then(|seen| seen.jobs_beside.clone()).expect("was told");
        (beside.names.len(), beside.most.read)
    };
    assert!(matches!(told(false), (1, 1..)));
    assert_eq!(told(true), (1, 0));
}

/// Four bytes of others for each of the trial's, on a full disk, where volumes hold to their shapes all the same.
#[test]
fn others_explain_no_more_than_limits_and_latency_leave() {
    let beside = |iops: u64, latency: u64| {
        move |_: &Trial| {
            let mut samples = trial(&[("v0", iops, latency)]);
            observed(&mut samples, 2 * iops * BS, 8 * iops * BS, 2 * iops + 8 * iops, 0.95);
            samples
        }
    };
    let limited = shaped(stripe(1), 5000.0, Nanos(1000));
    assert_eq!(kinds(&six_rounds(&limited, beside(5000, 800_000))), [VerdictKind::VolumeLimit]);
    let mut slow = shaped(stripe(1), 5000.0, Nanos::from_millis(4));
    slow.workloads[0].iodepth = 1;
    assert_eq!(kinds(&six_rounds(&slow, beside(250, 4_020_000))), [VerdictKind::Concurrency]);
    // Opposite: the same, and operations take three times as long as alone.
    let held = &verdicts(&six_rounds(&slow, beside(83, 12_000_000)))[0];
    assert_eq!(held.kind, Background);
    assert!((held.explains - 2.0 / 3.0).abs() < 0.01, "{}", held.explains);
    // Without a known limit their share of the bytes is the bound.
    let unknown = &verdicts(&six_rounds(&stripe(1), beside(5000, 800_000)))[0];
    assert_eq!((unknown.kind, (unknown.explains * 100.0).round()), (Background, 80.0));
}

/// One operation at a time, a third of which meets others' large requests on a disk of which nothing is known: nine tenths of its bytes are theirs, and a few percent of
/// its requests. What they explain is what the operations that met nobody did not take.
#[test]
fn others_explain_what_one_at_a_time_waits_beyond_those_that_met_nobody() {
    let run = |slow: u64, queue: f64| {
        move |_: &Trial| {
            let mut samples = trial(&[("v0", 2000, 100_000)]);
            let mut latency = Histogram::default();
            (0..4000).for_each(|i| latency.record(if i % 3 == 0 { slow } else { 100_000 }));
            samples.array.read.latency = latency.clone();
            samples.members[0].ops.read.latency = latency;
            let own = 4000 * BS;
            let seen = observed(&mut samples, 10 * own, 0, 4200, 0.95);
            seen.devices[0].total.weighted = Nanos::from_secs_f64(2.0 * (1.0 + queue));
            samples
        }
    };
    let mut one = stripe(1);
    one.workloads[0].iodepth = 1;
    let found = verdicts(&six_rounds(&one, run(1_000_000, 1.0)));
    let others = found.iter().find(|v| v.kind == Background).expect("they hold it back");
    // Alone the middle one would have taken 0.85 of the mean: they explain no more than what is left, and what they have of the disk by either.
    assert!(others.explains <= 1.0 - 0.25 / 0.85 && others.explains > 0.68, "{others:?}");
    assert!(others.confidence < 0.95, "{others:?}");
    let asserts = |run| kinds(&six_rounds(&one, run)).contains(&Background);
    // Opposites: those that met somebody took no longer; somebody was there all the time, so that nothing says what one alone takes.
    assert!(!asserts(run(100_000, 1.0)));
    assert!(!asserts(run(1_000_000, 8.0)), "the smaller share counts");
}

/// One thread that hardly sleeps waits for no disk, whoever else is there; one that sleeps does.
#[test]
fn others_explain_no_more_of_one_thread_than_it_sleeps() {
    let run = |waited: u32, pressed: u32, jobs: u32| {
        let mut experiment = stripe(1);
        experiment.workloads[0].numjobs = jobs;
        six_rounds(&experiment, move |_| {
            let mut samples = trial(&[("v0", 4000, 400_000)]);
            let own = 8000 * BS;
            observed(&mut samples, 4 * own, 0, 32_000, 0.95);
            samples.cpu.most_waiting_permille = Some(waited);
            samples.cpu.least_idle_permille = Some(pressed);
            samples
        })
    };
    let of =
        |session: &Session| verdicts(session).into_iter().find(|v| v.kind == Background).map(|v| v.explains);
    assert!((of(&run(100, 400, 1)).unwrap() - 0.75).abs() < 0.01, "their share of the disk");
    assert!((of(&run(600, 800, 1)).unwrap() - 0.20).abs() < 0.01, "what it slept");
    assert_eq!(of(&run(700, 950, 1)), None);
    assert!((of(&run(700, 950, 4)).unwrap() - 0.75).abs() < 0.01, "other threads may sleep");
}

#[test]
fn a_region_in_the_page_cache() {
    let resident = |mebibytes: u64| {
        move |_: &Trial| {
            let mut samples = one_member();
            samples.observed = Some(Box::new(Observation {
                members: vec![MemberObservation {
                    member: "v0".into(),
                    resident_before: Some(Bytes(mebibytes * Bytes::MIB)),
                    ..MemberObservation::default()
                }],
                ..Observation::default()
            }));
            samples
        }
    };
    let mut buffered = stripe(1);
    buffered.workloads[0].direct = false;
    assert_eq!(kinds(&six_rounds(&buffered, resident(60))), [Cache]);
    assert_eq!(kinds(&six_rounds(&buffered, resident(6))), [Unknown]);
    assert_eq!(kinds(&six_rounds(&stripe(1), resident(60))), [Unknown], "direct I/O goes past it");
}

#[test]
fn answers_faster_than_any_device() {
    let run = |latency: u64| move |_: &Trial| trial(&[("v0", 20_000, latency)]);
    let with_memory = |experiment: &Experiment, latency: u64, memory: u64| {
        let mut session = six_rounds(experiment, run(latency));
        session.meta.host.memory_bytes = memory;
        session
    };
    let mut buffered = stripe(1);
    buffered.workloads[0].direct = false;
    assert_eq!(kinds(&with_memory(&buffered, 3_000, 8 * Bytes::GIB)), [Cache]);
    assert_eq!(kinds(&with_memory(&buffered, 80_000, 8 * Bytes::GIB)), [Unknown]);
    assert_eq!(kinds(&with_memory(&buffered, 3_000, 8 * Bytes::MIB)), [Unknown]);
    assert_eq!(kinds(&with_memory(&stripe(1), 3_000, 8 * Bytes::GIB)), [Unknown]);
}

#[test]
fn others_on_the_same_disks() {
    let others = |written: u64, named: bool| {
        move |_: &Trial| {
            let mut samples = one_member();
            let seen = observed(&mut samples, ASKED, written, (ASKED + written) / BS, 0.9);
            if named {
                seen.others.push(OtherActivity {
                    kind: OtherKind::Process,
                    who: "dd (pid 4711)".into(),
                    device: Some("vd0".into()),
                    bytes: Some(PerOp { read: 0, write: written }),
                });
            }
            samples
        }
    };
    let session = six_rounds(&stripe(1), others(40_000_000, true));
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, Background);
    assert!(
        verdict
            .sentence
            .contains("others made 4.88 k requests/s on the same disks, 49% of all that the disks served")
            && verdict.sentence.contains("dd (pid 4711)"),
        "{}",
        verdict.sentence
    );
    let seen = verdict.evidence.last().expect("evidence");
    assert_eq!((seen.value, seen.unit), (6.0, crate::Unit::Trials), "{seen:?}");
    assert!(seen.what.ends_with("dd (pid 4711)"), "{seen:?}");
    assert_eq!(kinds(&six_rounds(&stripe(1), others(40_000_000, false))), [Background]);
    assert_eq!(kinds(&six_rounds(&stripe(1), others(0, false))), [Unknown]);
    assert_eq!(kinds(&six_rounds(&stripe(1), others(500_000, true))), [Unknown], "a journal's commits");
    // Of a disk that serves some hundred operations per second half is few bytes.
    let few = |written: u64| {
        six_rounds(&stripe(1), move |_| {
            let mut samples = trial(&[("v0", 100, 400_000)]);
            observed(&mut samples, 200 * BS, written, 200 + written / BS, 0.9);
            samples
        })
    };
    assert_eq!(kinds(&few(200 * BS)), [Background]);
    assert_eq!(kinds(&few(30 * BS)), [Unknown]);
    let idle_disk = six_rounds(&stripe(1), |_| {
        let mut samples = one_member();
        observed(&mut samples, ASKED, 40_000_000, 20_000, 0.2);
        samples
    });
    assert_eq!(kinds(&idle_disk), [Unknown], "the disk had room for both");
    let (why, seen) = ruled_out(&idle_disk, Background);
    assert_eq!(why, "the disks had room for both");
    assert!((seen[2].0 - 0.2).abs() < 1e-9 && seen[2].1 == Some(0.5), "{seen:?}");
    // Through the page cache only those count who were seen.
    let mut buffered = stripe(1);
    buffered.workloads[0].direct = false;
    assert_eq!(kinds(&six_rounds(&buffered, others(40_000_000, true))), [Background]);
    assert_eq!(kinds(&six_rounds(&buffered, others(40_000_000, false))), [Unknown]);
}

/// A trial of so many operations of `bs` in its two seconds, beside others who read so many requests of their size.
fn beside(bs: u64, ops: u64, (others, others_bs): (u64, u64)) -> Session {
    let mut experiment = stripe(1);
    experiment.workloads[0].bs = Bytes(bs);
    six_rounds(&experiment, move |_| {
        let mut samples = trial(&[("v0", ops / 2, 400_000)]);
        for count in [&mut samples.array.read.count, &mut samples.members[0].ops.read.count] {
            count.bytes = ops * bs;
        }
        let seen = observed(&mut samples, ops * bs + others * others_bs, 0, ops + others, 0.95);
        seen.devices[0].max_request = Some(Bytes(Bytes::MIB));
        samples
    })
}

/// Writes that are each made durable, on a disk that served so many requests for each of them.
fn durable(requests: u64, fdatasync: bool) -> Session {
    const OPS: u64 = 8000;
    let mut experiment = stripe(1);
    let workload = &mut experiment.workloads[0];
    (workload.mix, workload.iodepth) = (Mix::Write, 2);
    if fdatasync {
        workload.details.fdatasync_every = Some(1);
    } else {
        workload.sync = true;
    }
    six_rounds(&experiment, move |_| {
        let mut samples = trial(&[("v0", OPS / 2, 400_000)]);
        for ops in [&mut samples.array, &mut samples.members[0].ops] {
            ops.write = std::mem::take(&mut ops.read);
        }
        let seen = observed(&mut samples, 0, OPS * requests * 4096, 0, 0.95);
        seen.devices[0].total.ops = PerOp { read: 0, write: OPS * requests };
        if fdatasync {
            (0..OPS).for_each(|_| samples.execution.syncs.record(100_000));
        }
        samples
    })
}

/// A journal's commits are the load's own.
#[test]
fn what_a_journal_writes_for_each_durable_write_is_nobody_elses() {
    for fdatasync in [false, true] {
        let own = durable(3, fdatasync);
        assert!(!kinds(&own).contains(&Background), "{:?}", kinds(&own));
        assert!(ruled_out(&own, Background).0.ends_with("other processes did too little I/O"));
        assert!(kinds(&durable(9, fdatasync)).contains(&Background), "more than a journal takes");
    }
}

#[test]
fn others_are_weighed_by_what_limits_the_disk() {
    const KIB: u64 = Bytes::KIB;
    // Small random reads beside a sequential neighbour: it moves 99% of the bytes and makes a third of the requests. What the
    // reads have left is between 1% and 67%.
    let session = beside(4 * KIB, 4000, (2000, Bytes::MIB));
    let verdict = &verdicts(&session)[0];
    assert_eq!((verdict.kind, (verdict.explains * 100.0).round()), (Background, 93.0));
    assert_eq!(
        verdict.sentence,
        "others made 1.00 k requests/s on the same disks, 33% of all that the disks served (99% of the bytes); whether \
         operations or bytes limit them is not known; by whom cannot be seen from here"
    );
    // Few of them are little of what the disk does, however large they are.
    let few = beside(4 * KIB, 40_000, (1000, 64 * KIB));
    assert_eq!(kinds(&few), [Unknown]);
    let (why, seen) = ruled_out(&few, Background);
    assert!(why.ends_with("other processes did too little I/O"), "{why}");
    assert!(seen[0].0 < 0.03, "{seen:?}");
    // The opposite: large operations beside one that makes small requests, which are nearly all of them.
    let verdict = &verdicts(&beside(256 * KIB, 200, (20_000, 4 * KIB)))[0];
    assert_eq!((verdict.kind, (verdict.explains * 100.0).round()), (Background, 99.0));
    assert!(verdict.sentence.contains("limit them is not known"), "{}", verdict.sentence);
    // Where all are large, it is bytes.
    let verdict = &verdicts(&beside(256 * KIB, 1000, (1000, Bytes::MIB)))[0];
    assert_eq!((verdict.kind, (verdict.explains * 100.0).round()), (Background, 80.0));
    assert!(verdict.sentence.contains("80% of all that the disks moved "), "{}", verdict.sentence);
}

/// One at a time behind a neighbour: what the wait behind its requests takes is none of too few in flight.
#[test]
fn what_others_explain_is_taken_from_concurrency() {
    let explained = |others: u64| {
        let mut session = beside(4 * Bytes::KIB, 4000, (others, Bytes::MIB));
        session.experiment.workloads[0].iodepth = 1;
        verdicts(&session).iter().map(|v| (v.kind, (v.explains * 100.0).round())).collect::<Vec<_>>()
    };
    let concurrency = explained(0)[0].1;
    assert_eq!(explained(0), [(VerdictKind::Concurrency, concurrency)]);
    let shared = explained(8000);
    assert_eq!(shared[0], (Background, 97.0));
    assert_eq!(shared[1].0, VerdictKind::Concurrency);
    assert!((shared[1].1 - concurrency * 0.03).abs() <= 1.0, "{shared:?} of {concurrency}");
}

/// Requests of 100 KiB on average, which say nothing by themselves: what short runs with other sizes did says it.
#[test]
fn short_runs_with_other_sizes_say_what_limits_a_disk_that_others_use() {
    let share_beside = |others: u64, rates: Option<(f64, f64)>| {
        let mut session = beside(64 * Bytes::KIB, 10_000, (2500, others));
        let workload = session.experiment.workloads[0].clone();
        let steps = rates.map(|(half, twice)| [(1, 2, half), (2, 1, twice)]);
        for (up, down, times) in steps.into_iter().flatten() {
            let samples = trial(&[("v0", (5000.0 * times) as u64, 400_000)]);
            with_rung(&mut session, workload.iodepth, Bytes(workload.bs.0 * up / down), samples);
        }
        let found = verdicts(&session);
        let verdict = found.iter().find(|v| v.kind == Background).expect("others are named");
        (verdict.explains * 100.0).round()
    };
    let share = |rates| share_beside(128 * Bytes::KIB, rates);
    assert_eq!(share(None), 27.0, "between the two shares");
    assert_eq!(share(Some((1.02, 0.98))), 20.0, "operations");
    assert_eq!(share(Some((1.95, 0.52))), 33.0, "bytes");
    assert_eq!(share(Some((1.4, 0.7))), 27.0, "neither");
    // Behind much larger ones operations of any size take as long.
    assert_eq!(share_beside(256 * Bytes::KIB, Some((1.02, 0.98))), 37.0);
}

/// Few large requests among many small ones are little of what the disk does, unless it does no more for the load.
#[test]
fn few_large_requests_are_others_where_the_disk_is_full() {
    let with = |gain: f64| {
        let mut session = beside(4 * Bytes::KIB, 40_000, (2000, 64 * Bytes::KIB));
        let workload = session.experiment.workloads[0].clone();
        for (times, gain) in [(1, 1.0), (2, gain), (4, gain * gain)] {
            with_rung(
                &mut session,
                workload.iodepth * times,
                workload.bs,
                trial(&[("v0", (20_000.0 * gain) as u64, 400_000)]),
            );
        }
        verdicts(&session).into_iter().find(|v| v.kind == Background).map(|v| (v.explains * 100.0).round())
    };
    assert_eq!(with(1.0), Some(27.0), "5% of the requests, 44% of the bytes");
    assert_eq!(with(1.5), None);
}

/// What operations wait elsewhere, at a processor say, is not for those to explain who use the disks.
#[test]
fn others_at_the_disks_explain_of_the_time_there() {
    let at_the_disks = |requests: f64| {
        let mut session = beside(64 * Bytes::KIB, 10_000, (10_000, 64 * Bytes::KIB));
        let kept = f64::from(session.experiment.workloads[0].iodepth);
        for record in &mut session.trials {
            let Outcome::Samples(samples) = &mut record.outcome else { continue };
            let elapsed = samples.elapsed.as_secs_f64();
            let observed = samples.observed.as_mut().expect("is observed");
            observed.devices[0].total.weighted = Nanos::from_secs_f64(requests * kept * elapsed);
        }
        let found = verdicts(&session);
        (found[0].explains * 100.0).round()
    };
    assert_eq!(at_the_disks(2.0), 50.0, "all of it");
    assert_eq!(at_the_disks(0.5), 25.0);
}

/// A disk with room has as many bytes moved by others when the load moves more; one that is full takes them from others.
#[test]
fn what_more_in_flight_gains_is_taken_from_others_where_the_disk_is_full() {
    const KIB: u64 = Bytes::KIB;
    let with = |lost: u64| {
        let mut session = beside(4 * KIB, 10_000, (800, 256 * KIB));
        let workload = session.experiment.workloads[0].clone();
        for (times, own, others) in [(1, 10_000, 800), (4, 16_000, 800 - lost)] {
            let mut samples = trial(&[("v0", own / 2, 400_000)]);
            samples.array.read.count.bytes = own * 4 * KIB;
            let seen = observed(&mut samples, own * 4 * KIB + others * 256 * KIB, 0, own + others, 0.95);
            // Others always have some there.
            seen.devices[0].total.weighted = Nanos::from_secs_f64(100.0);
            with_rung(&mut session, workload.iodepth * times, workload.bs, samples);
        }
        verdicts(&session).into_iter().find(|v| v.kind == Background).map(|v| (v.explains * 100.0).round())
    };
    assert_eq!(with(90), Some(84.0), "bytes");
    assert_eq!(with(10), None, "their share of the requests is small");
}

/// A device of which each request takes as long beside any number of others: one in flight has one of five of them beside four of a neighbour's,
/// and four have four times as much done.
#[test]
fn who_gets_as_much_more_as_it_asks_for_waits_for_nobody() {
    let with = |lost: u64| {
        let mut session = beside(4 * Bytes::KIB, 400, (1600, 4 * Bytes::KIB));
        session.experiment.workloads[0].iodepth = 1;
        let bs = session.experiment.workloads[0].bs;
        for (depth, own, others) in [(1, 400, 1600), (2, 790, 1600 - lost), (4, 1560, 1600 - 4 * lost)] {
            let mut samples = trial(&[("v0", own / 2, 5_000_000)]);
            let seen = observed(&mut samples, (own + others) * 4 * Bytes::KIB, 0, own + others, 1.0);
            seen.devices[0].total.weighted = Nanos::from_secs_f64(2.0 * f64::from(4 + depth));
            with_rung(&mut session, depth, bs, samples);
        }
        verdicts(&session).into_iter().map(|v| v.kind).collect::<Vec<_>>()
    };
    assert_eq!(with(0), [Concurrency]);
    // Opposites: what it gets, they lose; and behind large requests it gets more of a disk that moves no more, or of which they have more themselves.
    assert!(with(290).contains(&Background));
    for others in [[12_000, 11_500, 11_000], [12_000, 13_500, 15_000]] {
        let session = behind_large_ones(others);
        assert!(verdicts(&session).iter().any(|v| v.kind == Background && v.explains > 0.8));
    }
}

/// Operations of 16 KiB that get more beside large ones, of which so many are moved with one, two and four in flight.
fn behind_large_ones(others: [u64; 3]) -> Session {
    let mut session = beside(16 * Bytes::KIB, 2000, (12_000, 256 * Bytes::KIB));
    session.experiment.workloads[0].iodepth = 1;
    for record in &mut session.trials {
        let Outcome::Samples(samples) = &mut record.outcome else { continue };
        let observed = samples.observed.as_mut().expect("is observed");
        observed.devices[0].total.weighted = Nanos::from_secs_f64(18.0);
    }
    for ((depth, own), others) in [(1, 2000), (2, 3800), (4, 7100)].into_iter().zip(others) {
        let mut samples = trial(&[("v0", own / 2, 1_000_000)]);
        samples.array.read.count.bytes = own * 16 * Bytes::KIB;
        let bytes = own * 16 * Bytes::KIB + others * 256 * Bytes::KIB;
        let seen = observed(&mut samples, bytes, 0, own + others, 1.0);
        seen.devices[0].total.weighted = Nanos::from_secs_f64(2.0 * f64::from(8 + depth));
        with_rung(&mut session, depth, Bytes(16 * Bytes::KIB), samples);
    }
    session
}

#[test]
fn requests_that_are_too_small_or_split() {
    // 4 KiB sequential at 5000 operations/s and a hundredth of the bytes.
    let mut small = shaped(stripe(1), 5000.0, Nanos(1000));
    small.workloads[0].access = Access::Sequential;
    small.volumes[0].shape.as_mut().expect("is shaped").throughput = Some(Limit::steady(2e9));
    let run = |_: &Trial| one_member();
    assert_eq!(kinds(&six_rounds(&small, run)), [RequestSize, VerdictKind::VolumeLimit]);
    small.workloads[0].access = Access::Random;
    assert_eq!(kinds(&six_rounds(&small, run)), [VerdictKind::VolumeLimit]);
    small.workloads[0].access = Access::Sequential;
    small.volumes[0].shape.as_mut().expect("is shaped").throughput = Some(Limit::steady(21e6));
    assert_eq!(kinds(&six_rounds(&small, run)), [VerdictKind::VolumeLimit]);

    let parts = |parts: u64| {
        move |_: &Trial| {
            let mut samples = one_member();
            let seen = observed(&mut samples, ASKED, 0, 10_000 * parts, 0.9);
            seen.devices[0].max_request = Some(Bytes(BS / 4));
            samples
        }
    };
    assert_eq!(kinds(&six_rounds(&stripe(1), parts(4))), [RequestSize]);
    assert_eq!(kinds(&six_rounds(&stripe(1), parts(1))), [Unknown]);
}

#[test]
fn a_window_that_does_not_cover_a_stripe() {
    let mut experiment = stripe(4);
    experiment.workloads[0].access = Access::Sequential;
    experiment.workloads[0].direct = false;
    let run = |window: u64, busy: f64| {
        move |_: &Trial| {
            let mut samples = trial(&[
                ("v0", 500, 400_000),
                ("v1", 500, 400_000),
                ("v2", 500, 400_000),
                ("v3", 500, 400_000),
            ]);
            let seen = observed(&mut samples, 4 * 1000 * BS, 0, 4000, busy);
            seen.devices.iter_mut().for_each(|d| d.readahead = Some(Bytes(window)));
            samples
        }
    };
    assert_eq!(kinds(&six_rounds(&experiment, run(128 * Bytes::KIB, 0.3))), [Readahead]);
    assert_eq!(kinds(&six_rounds(&experiment, run(Bytes::MIB, 0.3))), [Unknown]);
    assert_eq!(kinds(&six_rounds(&experiment, run(128 * Bytes::KIB, 0.85))), [Readahead]);
    assert_eq!(kinds(&six_rounds(&experiment, run(128 * Bytes::KIB, 0.99))), [Unknown]);
    // A reader that is busy asking for windows which are a small part of each operation; and one that is busy by itself.
    let busy = |window: u64| {
        move |t: &Trial| {
            let mut samples = run(window, 0.6)(t);
            samples.cpu.busiest_thread_permille = Some(980);
            samples
        }
    };
    experiment.workloads[0].bs = Bytes(BS);
    assert_eq!(kinds(&six_rounds(&experiment, busy(BS / 8))), [Readahead]);
    assert_eq!(kinds(&six_rounds(&experiment, busy(BS))), [VerdictKind::Cpu]);
    experiment.workloads[0].mix = Mix::Write;
    assert_eq!(kinds(&six_rounds(&experiment, run(128 * Bytes::KIB, 0.3))), [Unknown]);
}

#[test]
fn untouched_blocks_that_are_slower() {
    let run = |slow: u64| {
        move |t: &Trial| {
            let fresh = t.round < 4;
            let mut samples = trial(&[("v0", if fresh { slow } else { 5000 }, 400_000)]);
            let untouched = if fresh { 40 * Bytes::MIB } else { 0 };
            samples.observed = Some(Box::new(Observation {
                members: vec![MemberObservation {
                    member: "v0".into(),
                    untouched_before: Some(Bytes(untouched)),
                    ..MemberObservation::default()
                }],
                ..Observation::default()
            }));
            samples
        }
    };
    assert_eq!(kinds(&six_rounds(&stripe(1), run(2000))), [FirstTouch]);
    assert_eq!(kinds(&six_rounds(&stripe(1), run(4900))), [Unknown]);
}
