//! Copies that are not read, beside those that are.

use super::*;
use crate::fixtures::trial;
use VerdictKind::{IdleCopies, InstanceLimit, VolumeLimit};
use ebbtide_model::layout::Arrangement;
use ebbtide_model::volume::LinkShape;
use ebbtide_model::workload::{Access, Distribution, Mix};

const NEAR: ArrayKind =
    ArrayKind::Raid10 { chunk: Bytes(64 << 10), copies: 2, arrangement: Arrangement::Near };

/// A sequential reader with eight in flight.
fn streamed(kind: ArrayKind, members: usize) -> Experiment {
    let mut experiment = array(kind, members);
    experiment.workloads[0].access = Access::Sequential;
    experiment.workloads[0].iodepth = 8;
    experiment
}

/// Each member's reads, of 4 ms each: 500 a second are two in flight.
fn reading(each: &[u64]) -> TrialSamples {
    let members: Vec<_> = NAMES.iter().zip(each).map(|(name, iops)| (*name, *iops, 4_000_000)).collect();
    trial(&members)
}

fn has(session: &Session, kind: VerdictKind) -> bool {
    kinds(session).contains(&kind)
}

#[test]
fn a_stream_on_one_of_two_copies() {
    let session = six_rounds(&streamed(ArrayKind::Mirror, 2), |_| reading(&[1000, 0]));
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, IdleCopies);
    assert!(
        verdict.sentence.starts_with("of 2 members of the array 1 at a time answer what is read"),
        "{}",
        verdict.sentence
    );
    assert!((verdict.explains - 0.5).abs() < 0.01, "the other half could be had");
    let even = six_rounds(&streamed(ArrayKind::Mirror, 2), |_| reading(&[1000, 990]));
    assert!(!has(&even, IdleCopies));
    let (why, seen) = ruled_out(&even, IdleCopies);
    assert!(why.starts_with("every copy is read"), "{why}");
    assert!(seen[0].0 > 0.99 && seen[0].1 == Some(EVEN), "{seen:?}");
}

/// As in the rule.
const EVEN: f64 = 0.75;

#[test]
fn which_copy_it_is_may_change_from_trial_to_trial() {
    let turns =
        |t: &Trial| if t.round.is_multiple_of(2) { reading(&[0, 1000, 0]) } else { reading(&[1000, 0, 0]) };
    assert_eq!(kinds(&six_rounds(&streamed(ArrayKind::Mirror, 3), turns))[0], IdleCopies);
}

#[test]
fn nothing_waits_that_another_copy_could_have_answered() {
    // 250 a second of 4 ms are one in flight.
    let session = six_rounds(&streamed(ArrayKind::Mirror, 2), |_| reading(&[250, 0]));
    assert!(!has(&session, IdleCopies));
}

#[test]
fn only_arrays_with_copies_and_loads_that_go_all_over_them() {
    let uneven = |_: &Trial| reading(&[1000, 0, 1000, 0]);
    assert!(has(&six_rounds(&streamed(NEAR, 4), uneven), IdleCopies));
    assert!(!has(
        &six_rounds(&streamed(ArrayKind::Stripe { chunk: Bytes(64 << 10) }, 4), uneven),
        IdleCopies
    ));
    assert!(!has(&six_rounds(&streamed(ArrayKind::Linear, 4), uneven), IdleCopies));
    let mut near = streamed(NEAR, 4);
    near.workloads[0].span = Some(Bytes(256 << 10));
    assert!(!has(&six_rounds(&near, uneven), IdleCopies), "two stripes are nobody's fault");
    let mut hot = streamed(NEAR, 4);
    hot.workloads[0].access = Access::Random;
    assert!(has(&six_rounds(&hot, uneven), IdleCopies));
    hot.workloads[0].distribution = Distribution::Zipf { theta: 1.2 };
    assert!(!has(&six_rounds(&hot, uneven), IdleCopies), "hot blocks are where they are");
    let mut written = streamed(NEAR, 4);
    written.workloads[0].mix = Mix::Write;
    assert!(!has(&six_rounds(&written, uneven), IdleCopies));
}

#[test]
fn a_limit_that_one_copy_reaches_is_the_lesser_cause() {
    let experiment = shaped(streamed(ArrayKind::Mirror, 2), 1000.0, Nanos::from_millis(4));
    let found = verdicts(&six_rounds(&experiment, |_| reading(&[1000, 0])));
    assert_eq!(found[0].kind, IdleCopies, "{found:?}");
    assert!(found.iter().any(|verdict| verdict.kind == VolumeLimit && verdict.explains <= 0.51), "{found:?}");
}

#[test]
fn a_link_of_all_members_is_full_whichever_copy_is_read() {
    let link = |name: &str| LinkShape {
        name: name.into(),
        iops: Some(Limit::steady(1000.0)),
        throughput: None,
        one_way: Default::default(),
    };
    let mut experiment = shaped(streamed(ArrayKind::Mirror, 2), 50_000.0, Nanos::from_millis(4));
    experiment.links = vec![link("one"), link("two")];
    let linked = |mut experiment: Experiment, links: [usize; 2]| {
        for (volume, link) in experiment.volumes.iter_mut().zip(links) {
            volume.shape.as_mut().expect("is shaped").link = Some(link);
        }
        kinds(&six_rounds(&experiment, |_| reading(&[1000, 0])))
    };
    let full = linked(experiment.clone(), [0, 0]);
    assert!(full[0] == InstanceLimit && !full.contains(&IdleCopies), "{full:?}");
    assert!(linked(experiment, [0, 1]).contains(&IdleCopies), "the other host's link is free");
}
