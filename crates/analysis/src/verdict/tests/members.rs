//! Slow members and volumes that slow down.

use super::*;
use crate::fixtures::{reads, trial};
use VerdictKind::{Burst, Member, Unknown, VolumeLimit};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    DeviceObservation, DiskUse, Histogram, MemberObservation, MemberSamples, Observation,
};

/// Eight members of equal rate, of which `slow` has this many times the latency of the others.
fn eight(slow: usize, factor: u64) -> TrialSamples {
    let members: Vec<_> = NAMES
        .iter()
        .enumerate()
        .map(|(i, name)| (*name, 900, 1_000_000 * if i == slow { factor } else { 1 }))
        .collect();
    trial(&members)
}

#[test]
fn a_slow_member_among_seven_good_ones() {
    let slow = six_rounds(&stripe(8), |_| eight(5, 14));
    let verdict = &verdicts(&slow)[0];
    assert_eq!(verdict.kind, Member);
    assert!(
        verdict.sentence.starts_with("v5 answers in 14.0 ms where its siblings take "),
        "{}",
        verdict.sentence
    );
    assert!(verdict.confidence > 0.9);
    let alike = six_rounds(&stripe(8), |_| eight(5, 1));
    assert_eq!(kinds(&alike), [Unknown]);
    let (why, seen) = ruled_out(&alike, Member);
    assert_eq!((why.as_str(), seen[0].1), ("no member stands out", Some(1.8)));
    assert!((seen[0].0 - 1.0).abs() < 0.05, "{seen:?}");
    // Somebody is always the slowest: another one each time is nobody.
    assert_eq!(kinds(&six_rounds(&stripe(8), |t| eight((t.round % 8) as usize, 2))), [Unknown]);
    assert_eq!(kinds(&six_rounds(&stripe(8), |_| eight(5, 2))), [Member]);
    // One trial alone must show a large factor.
    let once = |factor| session(&stripe(8), 1, move |_| Ok(eight(5, factor)));
    assert_eq!(kinds(&once(2)), [Unknown]);
    assert_eq!(kinds(&once(4)), [Member]);
}

#[test]
fn a_member_shaped_to_be_slow_is_the_member_not_the_volume_limit() {
    let mut experiment = shaped(stripe(8), 2000.0, Nanos::from_millis(1));
    let slow = experiment.volumes[5].shape.as_mut().expect("is shaped");
    slow.iops = Some(Limit::steady(500.0));
    assert_eq!(kinds(&six_rounds(&experiment, |_| eight(5, 14))), [Member]);
}

#[test]
fn the_write_up_of_one_bad_twin() {
    // Two members of equal rate, 483 ms and 34 ms (studies: the bad week of sdi1).
    let run = |_: &Trial| trial(&[("sdi1", 307, 483_200_000), ("sdi2", 307, 34_100_000)]);
    let mut experiment = stripe(2);
    for (volume, name) in experiment.volumes.iter_mut().zip(["sdi1", "sdi2"]) {
        volume.name = name.into();
    }
    let session = six_rounds(&experiment, run);
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, Member);
    assert!(
        verdict.sentence.starts_with("sdi1 answers in 483 ms where its siblings take 34.1 ms"),
        "{}",
        verdict.sentence
    );
}

/// Somebody writes on the members' disk, which is this busy.
fn with_a_writer(mut samples: TrialSamples, busy: f64) -> TrialSamples {
    let asked: u64 = samples.members.iter().map(|m| m.ops.read.count.bytes).sum();
    let device = DeviceObservation {
        name: "vda".into(),
        total: DiskUse {
            bytes: PerOp { read: asked, write: asked },
            busy: Nanos::from_secs_f64(busy * samples.elapsed.as_secs_f64()),
            ..DiskUse::default()
        },
        ..DeviceObservation::default()
    };
    let member = |member: &MemberSamples| MemberObservation {
        member: member.name.clone(),
        devices: vec![0],
        ..MemberObservation::default()
    };
    samples.observed = Some(Box::new(Observation {
        devices: vec![device],
        members: samples.members.iter().map(member).collect(),
        ..Observation::default()
    }));
    samples
}

#[test]
fn a_writer_on_the_disk_excuses_a_slow_member_only_where_it_holds_it_back() {
    // Seven of 400 operations/s and 1 ms, one of 100 and 8 ms.
    let mut experiment = shaped(stripe(8), 400.0, Nanos::from_millis(1));
    let slow = experiment.volumes[5].shape.as_mut().expect("is shaped");
    slow.iops = Some(Limit::steady(100.0));
    slow.read_latency = ebbtide_model::volume::Latency::Constant(Nanos::from_millis(8));
    let run = |_: &Trial| {
        trial(&NAMES.map(|name| if name == "v5" { (name, 90, 153_000_000) } else { (name, 90, 1_010_000) }))
    };
    for busy in [0.01, 0.95] {
        let found = kinds(&six_rounds(&experiment, |t| with_a_writer(run(t), busy)));
        assert_eq!(found[0], Member, "the shape is what is slow, with a disk {busy} busy");
    }
    // Of volumes without shapes the slow one may be the one with the writer, when its disk is busy.
    assert_eq!(kinds(&six_rounds(&stripe(8), |t| with_a_writer(run(t), 0.01))), [Member]);
    let disturbed = six_rounds(&stripe(8), |t| with_a_writer(run(t), 0.95));
    assert_eq!(kinds(&disturbed), [VerdictKind::Background]);
    let (why, _) = ruled_out(&disturbed, Member);
    assert_eq!(why, "held back by `background`: other processes may be what slows v5");
}

#[test]
fn a_step_on_a_disk_with_room_is_no_others_doing() {
    let step = |busy: f64| six_rounds(&stripe(1), move |_| with_a_writer(stepping(8, 300), busy));
    assert_eq!(kinds(&step(0.1)), [Burst]);
    assert_eq!(kinds(&step(0.95)), [VerdictKind::Background]);
}

/// A trial of one member that runs at 1000 operations/s for `fast` of 20 intervals and at `after` from then on.
fn stepping(fast: usize, after: u64) -> TrialSamples {
    let mut samples = trial(&[("v0", 1000, 4_000_000)]);
    let mut all = 0;
    for (i, interval) in samples.series.iter_mut().enumerate() {
        let ops = if i < fast { 100 } else { after / 10 } + (i % 3) as u64;
        interval.array = reads(ops);
        interval.members = vec![reads(ops)];
        all += ops;
    }
    let count = reads(all).read;
    for op in [&mut samples.array.read, &mut samples.members[0].ops.read] {
        op.count = count;
        let mut latency = Histogram::default();
        (0..all).for_each(|_| latency.record(4_000_000));
        latency.compact();
        op.latency = latency;
    }
    samples
}

#[test]
fn a_step_down_trial_after_trial() {
    let session = six_rounds(&stripe(1), |_| stepping(8, 300));
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, Burst);
    let time = verdict.evidence[0].value;
    assert!((time - 0.8).abs() <= 0.08, "{time} s");
    // (1000 - 300) operations/s for 0.8 s and the warm-up of 0.5 s.
    let credits = verdict.evidence[2].value;
    assert!((credits / (700.0 * 1.3) - 1.0).abs() < 0.1, "{credits}");
    assert_eq!(kinds(&six_rounds(&stripe(1), |_| stepping(20, 300))), [Unknown], "no step");
    let once = six_rounds(&stripe(1), |t| stepping(if t.round == 2 { 8 } else { 20 }, 300));
    assert_eq!(kinds(&once), [Unknown], "a bad moment in one of six trials");
    let mut alone = six_rounds(&stripe(1), |_| stepping(8, 300));
    alone.trials.retain(|record| {
        record.trial.round == 0 && record.trial.role == ebbtide_model::schedule::Role::Candidate
    });
    assert_eq!(kinds(&alone), [Unknown], "one trial, as of a benchmark");
    let up = six_rounds(&stripe(1), |_| stepping(8, 3000));
    assert_eq!(kinds(&up), [Unknown], "a step up");
}

#[test]
fn known_credits_explain_a_single_step_and_known_limits_without_credits_none() {
    let limit = |burst: Option<f64>| {
        let mut experiment = shaped(stripe(1), 300.0, Nanos(1000));
        let shape = experiment.volumes[0].shape.as_mut().expect("is shaped");
        shape.iops = Some(Limit { rate: 300.0, burst_rate: burst, burst_credits: 900.0 });
        experiment
    };
    // The first trial spends the credits; they do not come back.
    let once = |t: &Trial| stepping(if t.round == 0 { 8 } else { 0 }, 300);
    let found = kinds(&six_rounds(&limit(Some(1000.0)), once));
    assert!(found.contains(&Burst), "{found:?}");
    let none = kinds(&six_rounds(&limit(None), once));
    assert!(!none.contains(&Burst), "{none:?}");
    // Credits that were known to be there and never spent.
    let unspent = verdicts(&six_rounds(&limit(Some(1000.0)), |_| stepping(20, 300)));
    assert_eq!(unspent.len(), 1);
    assert_eq!(unspent[0].kind, VolumeLimit);
    assert!(
        unspent[0].sentence.contains("1.00 k operations/s while its credits last"),
        "{}",
        unspent[0].sentence
    );
    // Spent in every trial: the limit is the one that lasts, and the burst has the rest.
    let spent = verdicts(&six_rounds(&limit(Some(1000.0)), |_| stepping(12, 300)));
    assert_eq!(spent.iter().map(|v| v.kind).collect::<Vec<_>>(), [Burst, VolumeLimit]);
    assert!(
        spent[1].sentence.starts_with("v0 is at its limit of 300 operations/s:"),
        "{}",
        spent[1].sentence
    );
    let rate = spent[1].evidence.iter().find(|e| e.reference == Some(300.0)).expect("its rate");
    assert!((rate.value / 300.0 - 1.0).abs() < 0.05, "{rate:?}");
}
