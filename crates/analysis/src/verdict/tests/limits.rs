//! Volumes, links and processors that are full, or are not.

use super::*;
use crate::WarningKind;
use crate::fixtures::{BS, reads, trial};
use VerdictKind::{Cache, Concurrency, Cpu, InstanceLimit, SharedDevice, Unknown, VolumeLimit};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    CoreUse, DeviceObservation, DiskUse, ExceededInterval, GroupQuota, LimitsExceeded, MemberObservation,
    Observation, ProcessorUser, TrialSamples,
};
use ebbtide_model::volume::{FarCache, Latency, LinkShape, Seek};
use ebbtide_model::workload::Access;

const FOUR: [&str; 4] = ["v0", "v1", "v2", "v3"];

#[test]
fn a_stripe_whose_members_are_all_at_their_limit() {
    let experiment = shaped(stripe(4), 1000.0, Nanos::from_millis(1));
    let full = six_rounds(&experiment, |_| trial(&FOUR.map(|name| (name, 990, 4_000_000))));
    let verdict = &verdicts(&full)[0];
    assert_eq!(verdict.kind, VolumeLimit);
    assert!(
        verdict.sentence.contains("4 of 4 members are at their limit (1.00 k operations/s"),
        "{}",
        verdict.sentence
    );
    let told = |verdict: &Verdict| {
        let told = verdict.evidence.iter().filter(|e| e.reference == Some(1000.0));
        told.map(|e| (e.what.split(" while").next().unwrap_or_default().to_owned(), e.value))
            .collect::<Vec<_>>()
    };
    assert_eq!(told(verdict), [("rate of v0".to_owned(), 990.0)]);
    // Of several the first is told.
    let rates = [980, 960, 1000, 980];
    let uneven = six_rounds(&experiment, |_| trial(&[0, 1, 2, 3].map(|i| (FOUR[i], rates[i], 4_000_000))));
    assert_eq!(told(&verdicts(&uneven)[0]), [("rate of v0".to_owned(), 980.0)]);
    // Opposite: the same volumes at half their limit.
    let half = six_rounds(&experiment, |_| trial(&FOUR.map(|name| (name, 500, 4_000_000))));
    assert_eq!(kinds(&half), [Unknown]);
}

/// A stretch holds a whole number of operations: 20 or 23 of 22, and mostly 23.
#[test]
fn large_requests_do_not_use_more_than_a_limit() {
    let experiment = shaped(stripe(1), 220.0, Nanos::from_millis(1));
    let session = six_rounds(&experiment, |_| {
        let mut samples = trial(&[("v0", 220, 4_000_000)]);
        for (i, interval) in samples.series.iter_mut().enumerate() {
            let ops = if i % 3 == 0 { 20 } else { 23 };
            interval.array = reads(ops);
            interval.members = vec![reads(ops)];
        }
        samples
    });
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, VolumeLimit);
    let (used, rate) = (verdict.evidence[0].value, verdict.evidence[1].value);
    assert!((0.99..=1.0).contains(&used), "{used}");
    assert!((rate / 220.0 - 1.0).abs() < 0.03, "{rate}");
}

#[test]
fn a_linear_array_that_works_one_member_after_the_other() {
    let experiment = shaped(array(ArrayKind::Linear, 4), 1000.0, Nanos::from_millis(1));
    // Each of the first two members works for half the trial, at its limit while it works.
    let in_turn = |limit_share: f64| {
        move |_: &Trial| {
            let ops = (1000.0 * limit_share) as u64;
            let mut samples =
                trial(&[("v0", ops / 2, 4_000_000), ("v1", ops / 2, 4_000_000), ("v2", 0, 1), ("v3", 0, 1)]);
            for (i, interval) in samples.series.iter_mut().enumerate() {
                let (first, second) = if i < 10 { (ops / 10, 0) } else { (0, ops / 10) };
                interval.members = vec![reads(first), reads(second), reads(0), reads(0)];
            }
            samples
        }
    };
    let verdict = &verdicts(&six_rounds(&experiment, in_turn(1.0)))[0];
    assert_eq!(verdict.kind, VolumeLimit);
    assert!(verdict.sentence.starts_with("one member works at a time (2 of 4"), "{}", verdict.sentence);
    assert_eq!(kinds(&six_rounds(&experiment, in_turn(0.6))), [Unknown]);
}

#[test]
fn a_far_cache_that_answers() {
    let mut experiment = shaped(stripe(1), 10_000.0, Nanos::from_millis(20));
    experiment.workloads[0].direct = true;
    for volume in &mut experiment.volumes {
        if let Some(shape) = &mut volume.shape {
            shape.character.cache =
                Some(FarCache { size: Bytes(1 << 30), latency: Latency::Constant(Nanos(300_000)) });
        }
    }
    let at = |latency: u64| move |_: &Trial| trial(&[("v0", 200, latency)]);
    // Misses say nothing of a cache; hits only are no figures of the volume.
    assert_eq!(kinds(&six_rounds(&experiment, at(40_000_000))), [Unknown]);
    let session = six_rounds(&experiment, at(400_000));
    let cache = &verdicts(&session)[0];
    assert_eq!(cache.kind, Cache);
    assert!(
        cache.sentence.starts_with("a cache at the far end of the volumes answered 100%"),
        "{}",
        cache.sentence
    );
    let warned = analyse(&session).warnings.into_iter().find(|w| w.kind == WarningKind::Cache);
    let advice = warned.and_then(|warning| warning.advice).unwrap_or_default();
    assert!(advice.contains("bench --profile seek") && !advice.contains("direct I/O"), "{advice}");
}

#[test]
fn a_spindle_with_a_line_in_front_of_its_arm() {
    let mut experiment = stripe(2);
    experiment.workloads[0].direct = true;
    experiment.workloads[0].access = Access::Random;
    for volume in &mut experiment.volumes {
        let mut shape = Shape::default();
        shape.character.seek = Some(Seek {
            track_to_track: Nanos::from_millis(1),
            full_stroke: Nanos::from_millis(16),
            rotation: Nanos::from_millis(8),
            transfer: 1e8,
            capacity: Bytes(1 << 40),
        });
        volume.shape = Some(shape);
    }
    // 100 operations/s of 30 ms each: three are in flight at each.
    let line = |_: &Trial| trial(&[("v0", 100, 30_000_000), ("v1", 110, 27_000_000)]);
    let in_line = six_rounds(&experiment, line);
    let verdict = &verdicts(&in_line)[0];
    assert_eq!(verdict.kind, VolumeLimit);
    assert!(verdict.sentence.contains("the arm of each spindle works all the time"), "{}", verdict.sentence);
    assert!(verdict.sentence.contains("10.0 ms for each operation"), "{}", verdict.sentence);
    // Opposites: one operation at a time at one of them; an access pattern that needs no arm; no spindle.
    let alone = six_rounds(&experiment, |_| trial(&[("v0", 100, 30_000_000), ("v1", 100, 10_000_000)]));
    assert!(!kinds(&alone).contains(&VolumeLimit));
    let mut sequential = experiment.clone();
    sequential.workloads[0].access = Access::Sequential;
    assert!(!kinds(&six_rounds(&sequential, line)).contains(&VolumeLimit));
    let mut flash = experiment;
    flash.volumes[0].shape = Some(Shape::default());
    assert!(!kinds(&six_rounds(&flash, line)).contains(&VolumeLimit));
}

#[test]
fn large_operations_count_several_times() {
    let mut experiment = shaped(stripe(1), 1000.0, Nanos::from_millis(1));
    let at_500 = |_: &Trial| trial(&[("v0", 500, 4_000_000)]);
    assert_eq!(kinds(&six_rounds(&experiment, at_500)), [Unknown]);
    for volume in &mut experiment.volumes {
        volume.shape.as_mut().expect("is shaped").io_unit = Some(Bytes(BS / 2));
    }
    assert_eq!(kinds(&six_rounds(&experiment, at_500)), [VolumeLimit]);
}

#[test]
fn a_volume_that_reports_its_limit() {
    let reported = |above: u64| {
        move |_: &Trial| {
            let mut samples = trial(&[("v0", 500, 4_000_000)]);
            let exceeded =
                LimitsExceeded { volume_iops: Nanos::from_millis(above), ..LimitsExceeded::default() };
            let device = DeviceObservation { exceeded: Some(exceeded), ..DeviceObservation::default() };
            samples.observed =
                Some(Box::new(Observation { devices: vec![device], ..Observation::default() }));
            samples
        }
    };
    assert_eq!(kinds(&six_rounds(&stripe(1), reported(1000))), [VolumeLimit]);
    assert_eq!(kinds(&six_rounds(&stripe(1), reported(20))), [Unknown]);
}

/// A trial in which the volume was above a limit of the instance in the seconds `above`, of ten.
fn above_in(above: std::ops::Range<u64>) -> impl Fn(&Trial) -> TrialSamples {
    move |_: &Trial| {
        let mut samples = trial(&[("v0", 500, 4_000_000)]);
        samples.elapsed = Nanos::from_secs(10);
        let second = |n: u64| {
            let time = Nanos::from_millis(if above.contains(&n) { 900 } else { 0 });
            ExceededInterval {
                start: Nanos::from_secs(n),
                end: Nanos::from_secs(n + 1),
                exceeded: LimitsExceeded { instance_throughput: time, ..LimitsExceeded::default() },
            }
        };
        let exceeded_series: Vec<ExceededInterval> = (0..10).map(second).collect();
        let exceeded = exceeded_series.iter().map(|i| i.exceeded).reduce(|a, b| a.plus(&b));
        let device = DeviceObservation {
            name: "nvme1n1".into(),
            exceeded,
            exceeded_series,
            ..DeviceObservation::default()
        };
        samples.observed = Some(Box::new(Observation { devices: vec![device], ..Observation::default() }));
        samples
    }
}

#[test]
fn a_report_says_when_in_the_trial_it_was() {
    let verdict = &verdicts(&six_rounds(&stripe(1), above_in(3..7)))[0];
    assert_eq!(verdict.kind, InstanceLimit);
    assert!(verdict.sentence.contains("36% of the time, between 3 s and 7 s of"), "{}", verdict.sentence);
    let verdict = &verdicts(&six_rounds(&stripe(1), above_in(0..10)))[0];
    assert!(verdict.sentence.contains("90% of the time, between 0 s and 10 s of"), "{}", verdict.sentence);
    assert_eq!(kinds(&six_rounds(&stripe(1), above_in(3..4))), [Unknown]);
}

#[test]
fn a_link_that_the_volumes_fill_together() {
    let mut experiment = shaped(stripe(4), 1000.0, Nanos::from_millis(1));
    let link = |iops: f64| LinkShape {
        name: "gigabit".into(),
        iops: Some(Limit::steady(iops)),
        throughput: None,
        one_way: PerOp::default(),
    };
    experiment.links = vec![link(2000.0)];
    for volume in &mut experiment.volumes {
        volume.shape.as_mut().expect("is shaped").link = Some(0);
    }
    let run = |_: &Trial| trial(&FOUR.map(|name| (name, 495, 4_000_000)));
    let verdict = &verdicts(&six_rounds(&experiment, run))[0];
    assert_eq!(verdict.kind, InstanceLimit);
    assert!(verdict.sentence.contains("`gigabit`"), "{}", verdict.sentence);
    // 1980 operations/s over a limit of 1960: what is in flight at the edges is no more than all of it.
    experiment.links = vec![link(1960.0)];
    let verdict = &verdicts(&six_rounds(&experiment, run))[0];
    assert!(verdict.sentence.contains("carries all of its 1.96 k operations/s:"), "{}", verdict.sentence);
    assert_eq!((verdict.evidence[0].value, verdict.evidence[0].reference), (1980.0, Some(1960.0)));
    experiment.links = vec![link(3000.0)];
    assert_eq!(kinds(&six_rounds(&experiment, run)), [Unknown]);
}

/// An instance in its burst: what lasts stands beside the figure, in the verdict, in the warning and in the result.
#[test]
fn what_is_above_what_lasts_has_that_beside_it() {
    let mut experiment = shaped(stripe(4), 1000.0, Nanos::from_millis(1));
    let burst = |limit: f64| Limit { rate: limit / 10.0, burst_rate: Some(limit), burst_credits: 1e6 };
    let link = LinkShape {
        name: "instance".into(),
        iops: Some(burst(2000.0)),
        throughput: None,
        one_way: PerOp::default(),
    };
    for volume in &mut experiment.volumes {
        volume.shape.as_mut().expect("is shaped").link = Some(0);
    }
    let run = |_: &Trial| trial(&FOUR.map(|name| (name, 495, 4_000_000)));
    let steady = LinkShape { iops: Some(Limit::steady(2000.0)), ..link.clone() };
    let said = |experiment: &Experiment| {
        let session = six_rounds(experiment, run);
        let analysis = analyse(&session);
        let warned = analysis.warnings.iter().any(|warning| warning.kind == WarningKind::AboveLasting);
        (verdicts(&session).swap_remove(0), analysis.results[0].lasting.clone(), warned)
    };
    experiment.links = vec![link];
    let (verdict, lasting, warned) = said(&experiment);
    assert_eq!(verdict.kind, InstanceLimit);
    assert!(verdict.sentence.contains("; 200 operations/s is what lasts"), "{}", verdict.sentence);
    assert_eq!(lasting.map(|lasting| (lasting.now, lasting.lasts)), Some((1980.0, 200.0)));
    assert!(warned);
    // Its operations are fuller, and last; its bytes are not full, and do not.
    let bytes = Limit { rate: 4e6, burst_rate: Some(64e6), burst_credits: 1e9 };
    experiment.links = vec![LinkShape { throughput: Some(bytes), ..steady.clone() }];
    let (_, lasting, warned) = said(&experiment);
    assert_eq!(lasting.map(|lasting| (lasting.now, lasting.lasts)), Some((1980.0 * 4096.0, 4e6)));
    assert!(warned);
    // Opposites: a link that carries as much for ever; a volume's own credits.
    experiment.links = vec![steady];
    let (verdict, lasting, warned) = said(&experiment);
    assert!(!verdict.sentence.contains("lasts") && lasting.is_none() && !warned, "{}", verdict.sentence);
    experiment.links.clear();
    for volume in &mut experiment.volumes {
        let shape = volume.shape.as_mut().expect("is shaped");
        (shape.link, shape.iops) = (None, Some(burst(500.0)));
    }
    let (verdict, lasting, _) = said(&experiment);
    assert!(verdict.sentence.contains("(50.0 operations/s is what lasts)"), "{}", verdict.sentence);
    assert_eq!(lasting.map(|lasting| lasting.lasts), Some(50.0));
}

/// The first verdict is a row of the table, which has what was measured of it.
#[test]
fn the_table_of_resources_has_a_row_for_each_verdict() {
    use crate::resources::Resource;
    let experiment = shaped(stripe(4), 1000.0, Nanos::from_millis(1));
    let mut session = six_rounds(&experiment, |_| trial(&FOUR.map(|name| (name, 990, 4_000_000))));
    with_rung(&mut session, 8, experiment.workloads[0].bs, trial(&FOUR.map(|name| (name, 990, 8_000_000))));
    let result = analyse(&session).results.swap_remove(0);
    let row = |resource| result.resources.iter().find(|row| row.resource == resource);
    let limit = row(Resource::Limit).expect("is known");
    assert_eq!(limit.verdicts, [(1, VolumeLimit)]);
    assert!(limit.utilisation.is_some_and(|used| (used - 0.99).abs() < 1e-9), "{limit:?}");
    let operations = row(Resource::Operations).expect("is known");
    assert_eq!(operations.waiting.as_ref().map(|waiting| waiting.value), Some(4.0));
    assert!(operations.gain.as_ref().is_some_and(|gain| (gain.value - 1.0).abs() < 0.05), "{operations:?}");
    let told: usize = result.resources.iter().map(|row| row.verdicts.len()).sum();
    assert_eq!(told, result.verdicts.len());
}

#[test]
fn members_on_one_disk() {
    let run = |_: &Trial| trial(&[("v0", 5000, 400_000), ("v1", 5000, 400_000)]);
    let mut one_disk = six_rounds(&stripe(2), run);
    on_disks(&mut one_disk, &["8:0", "8:0"]);
    let verdict = &verdicts(&one_disk)[0];
    assert_eq!(verdict.kind, SharedDevice);
    assert!(
        verdict.sentence.contains("2 of 2 members are on the same disk (disk8:0)"),
        "{}",
        verdict.sentence
    );
    // What is worked one after the other loses nothing by it.
    let mut linear = six_rounds(&array(ArrayKind::Linear, 2), run);
    on_disks(&mut linear, &["8:0", "8:0"]);
    assert!(!kinds(&linear).contains(&SharedDevice));
    // Opposites: two disks; one disk, but shaped to a speed far below it; disks unknown.
    let mut two_disks = six_rounds(&stripe(2), run);
    on_disks(&mut two_disks, &["8:0", "8:16"]);
    assert_eq!(kinds(&two_disks), [Unknown]);
    let mut with_shapes = six_rounds(&shaped(stripe(2), 5000.0, Nanos::from_millis(1)), run);
    on_disks(&mut with_shapes, &["8:0", "8:0"]);
    assert_eq!(kinds(&with_shapes), [VolumeLimit]);
    assert_eq!(kinds(&six_rounds(&stripe(2), run)), [Unknown]);
}

#[test]
fn a_busy_thread_a_busy_host_and_the_tool_itself() {
    let busy = |permille: u32| {
        move |_: &Trial| {
            let mut samples = trial(&[("v0", 5000, 400_000)]);
            samples.cpu.busiest_thread_permille = Some(permille);
            samples
        }
    };
    assert_eq!(kinds(&six_rounds(&stripe(1), busy(990))), [Cpu]);
    assert_eq!(kinds(&six_rounds(&stripe(1), busy(500))), [Unknown]);
    // A busy thread does not matter when the volume is at its limit.
    assert_eq!(kinds(&six_rounds(&shaped(stripe(1), 5000.0, Nanos(1)), busy(990))), [VolumeLimit]);

    let mut near_ceiling = six_rounds(&stripe(1), busy(500));
    near_ceiling.meta.engine_ceiling_iops = Some(6000.0);
    assert_eq!(kinds(&near_ceiling), [Cpu]);
    near_ceiling.meta.engine_ceiling_iops = Some(600_000.0);
    assert_eq!(kinds(&near_ceiling), [Unknown]);
    // The ceiling is of one thread: two jobs on two cores reach twice as much.
    near_ceiling.meta.engine_ceiling_iops = Some(6000.0);
    near_ceiling.experiment.workloads[0].numjobs = 2;
    for record in &mut near_ceiling.trials {
        if let Outcome::Samples(samples) = &mut record.outcome {
            samples.cpu.cores = 2;
        }
    }
    assert_eq!(kinds(&near_ceiling), [Unknown]);

    let host = |host_seconds: f64, steal_seconds: f64| {
        move |_: &Trial| {
            let mut samples = trial(&[("v0", 5000, 400_000)]);
            samples.cpu.host_busy = Some(Nanos::from_secs_f64(host_seconds));
            samples.cpu.host_steal = Some(Nanos::from_secs_f64(steal_seconds));
            samples
        }
    };
    // Two seconds on two cores.
    assert_eq!(kinds(&six_rounds(&stripe(1), host(3.95, 0.0))), [Cpu]);
    assert_eq!(kinds(&six_rounds(&stripe(1), host(1.0, 0.8))), [Cpu]);
    assert_eq!(kinds(&six_rounds(&stripe(1), host(1.0, 0.1))), [Unknown]);
}

/// A thread that ran and waited for a processor for these shares of the time, beside a hog on both cores.
pub(super) fn waiting(ran: u32, waited: u32) -> impl Fn(&Trial) -> TrialSamples {
    move |_| {
        let mut samples = trial(&[("v0", 5000, 400_000)]);
        let part = |share: f64| Nanos::from_secs_f64(share * samples.elapsed.as_secs_f64());
        let busy = CoreUse { user: part(0.99), idle: part(0.01), ..CoreUse::default() };
        samples.observed = Some(Box::new(Observation {
            cores: vec![busy; 2],
            users: vec![ProcessorUser { who: "hog (pid 4711)".into(), time: part(1.5), beside: None }],
            processor_waits: Some(part(0.9)),
            ..Observation::default()
        }));
        samples.cpu.load_user = part(f64::from(ran) / 1000.0);
        samples.cpu.busiest_thread_permille = Some(ran);
        samples.cpu.most_waiting_permille = Some(waited);
        samples.cpu.least_idle_permille = Some((ran + waited).min(1000));
        samples
    }
}

#[test]
fn a_processor_that_others_have_is_named_with_them() {
    let verdict = &verdicts(&six_rounds(&stripe(1), waiting(230, 760)))[0];
    assert_eq!(verdict.kind, Cpu);
    assert_eq!(
        verdict.sentence,
        "processors are taken by others: a load thread runs 23% of the time, waits 76% for a processor and sleeps 1%; hog \
         (pid 4711) 150% of one"
    );
    assert!((verdict.explains - 0.76).abs() < 1e-9);
    // Workers that serve the members are none of the others; a quota holds it, whoever else is busy.
    let with = |quota: Option<GroupQuota>| {
        move |t: &Trial| {
            let mut samples = waiting(230, 760)(t);
            let time = samples.elapsed;
            let observed = samples.observed.as_mut().expect("is observed");
            observed.devices =
                vec![DeviceObservation { name: "loop1".into(), ..DeviceObservation::default() }];
            observed.users.push(ProcessorUser { who: "loop1 (kworkers)".into(), time, beside: None });
            observed.quota = quota.clone();
            samples
        }
    };
    let said = |quota| verdicts(&six_rounds(&stripe(1), with(quota))).swap_remove(0).sentence;
    assert!(said(None).ends_with("hog (pid 4711) 150% of one"), "{}", said(None));
    let quota = |throttled: u64| GroupQuota {
        file: "/sys/fs/cgroup/db/cpu.max".into(),
        per_second: Nanos::from_millis(250),
        throttled: Nanos::from_millis(throttled),
    };
    assert_eq!(
        said(Some(quota(1400))),
        "the load's control group may use 25% of a core (/sys/fs/cgroup/db/cpu.max), and is held back 70% of the time: a load \
         thread runs 23% of the time, waits 76% for a processor and sleeps 1%"
    );
    assert!(said(Some(quota(100))).starts_with("processors are taken by others"));
    // Its own threads want more than there is.
    let own = |t: &Trial| {
        let mut samples = waiting(450, 500)(t);
        samples.cpu.load_user = Nanos::from_secs_f64(0.9 * 2.0 * samples.elapsed.as_secs_f64());
        samples
    };
    let verdict = &verdicts(&six_rounds(&stripe(1), own))[0];
    assert!(verdict.sentence.contains("the load's own threads"), "{}", verdict.sentence);
    // A thread that has time to sleep while several are in flight holds nothing back, however busy the cores are.
    assert_eq!(kinds(&six_rounds(&stripe(1), waiting(100, 300))), [Unknown]);
    assert_eq!(kinds(&six_rounds(&stripe(1), waiting(900, 50))), [Unknown]);
    // But where they were done already, and waited for it to take note of them.
    let done = |ran: u32, at_devices: f64| {
        move |t: &Trial| {
            let mut samples = waiting(ran, 300)(t);
            let weighted = Nanos::from_secs_f64(at_devices * 8.0 * samples.elapsed.as_secs_f64());
            let total = DiskUse { weighted, ..DiskUse::default() };
            let observed = samples.observed.as_mut().expect("is observed");
            observed.devices =
                vec![DeviceObservation { name: "sda".into(), total, ..DeviceObservation::default() }];
            observed.members = vec![MemberObservation {
                member: "v0".into(),
                devices: vec![0],
                resident_before: None,
                ..MemberObservation::default()
            }];
            samples.members[0].ops.read.count.bytes = 0;
            samples.array.read.count.bytes = 0;
            samples
        }
    };
    let mut eight = stripe(1);
    eight.workloads[0].iodepth = 8;
    assert_eq!(kinds(&six_rounds(&eight, done(300, 0.4))), [Cpu]);
    // A neighbour's requests at the same disk are none of those in flight: four of five were its.
    let beside = |t: &Trial| {
        let mut samples = done(300, 2.0)(t);
        let own = samples.members[0].ops.read.count.ops;
        let observed = samples.observed.as_mut().expect("is observed");
        observed.devices[0].total.ops.read = 5 * own;
        samples
    };
    assert!(kinds(&six_rounds(&eight, beside)).contains(&Cpu));
    // What is done wakes it: while it sleeps, most of what is in flight is neither done nor at the devices, but held.
    assert_eq!(kinds(&six_rounds(&eight, done(100, 0.1))), [Unknown]);
    // With one in flight, what it waits for is a part of every operation: the larger part of what is in the way comes first.
    let mut alone = stripe(1);
    alone.workloads[0].iodepth = 1;
    let found = verdicts(&six_rounds(&alone, waiting(100, 250)));
    assert_eq!(found.iter().map(|v| v.kind).collect::<Vec<_>>(), [Concurrency, Cpu]);
    assert!(found[1].sentence.contains("and sleeps 65%"), "{}", found[1].sentence);
    assert_eq!(kinds(&six_rounds(&alone, waiting(100, 600))), [Cpu, Concurrency]);
}
