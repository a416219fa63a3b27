use super::*;
use ebbtide_model::experiment::Resync;
use ebbtide_model::layout::Arrangement;
use ebbtide_model::samples::OtherKind;
use ebbtide_model::volume::{Failure, FailureKind};

#[test]
fn a_failing_member_ends_a_stripe_and_not_a_mirror() {
    let failure = Failure { kind: FailureKind::Error, at: Nanos::from_secs(2), lasts: None };
    let mut striped = experiment(4, stripe(), &shape());
    striped.volumes[2].shape.as_mut().expect("has one").character.failure = Some(failure);
    let error = try_run(&striped, &randread()).expect_err("fails");
    assert!(
        matches!(&error, BackendError::Volume { volume, what } if volume == "vol2" && what.contains("EIO"))
    );
    for kind in [
        ArrayKind::Mirror,
        ArrayKind::Raid10 { chunk: CHUNK, copies: 2, arrangement: Arrangement::Near },
        ArrayKind::Raid5 { chunk: CHUNK },
        ArrayKind::Raid6 { chunk: CHUNK },
    ] {
        for mix in [Mix::Read, Mix::Write] {
            let mut experiment = experiment(4, kind, &shape());
            let whole = run(&experiment, &Workload { mix, ..randread() });
            experiment.volumes[2].shape.as_mut().expect("has one").character.failure = Some(failure);
            let degraded = run(&experiment, &Workload { mix, ..randread() });
            // Alive, and slower where the lost member's reads fall to the others.
            assert!(iops(&degraded) > 0.3 * iops(&whole), "{kind:?} {mix:?}");
            let last = degraded.series.last().expect("has intervals");
            assert_eq!(last.members[2].read.ops + last.members[2].write.ops, 0, "{kind:?} {mix:?}");
        }
    }
}

#[test]
fn two_failures_are_one_too_many() {
    for kind in [ArrayKind::Raid5 { chunk: CHUNK }, ArrayKind::Mirror] {
        let n = if kind == ArrayKind::Mirror { 2 } else { 4 };
        let mut experiment = experiment(n, kind, &shape());
        for volume in &mut experiment.volumes[..2] {
            volume.shape.as_mut().expect("has one").character.failure =
                Some(Failure { kind: FailureKind::Vanish, at: Nanos::from_secs(2), lasts: None });
        }
        for mix in [Mix::Read, Mix::Write] {
            let error = try_run(&experiment, &Workload { mix, ..randread() }).expect_err("fails");
            assert!(error.to_string().contains("ENODEV"), "{error}");
        }
    }
}

#[test]
fn a_frozen_member_stops_a_stripe_for_as_long() {
    let mut experiment = experiment(4, stripe(), &shape());
    experiment.volumes[0].shape.as_mut().expect("has one").character.failure = Some(Failure {
        kind: FailureKind::Freeze,
        at: Nanos::from_secs(2),
        lasts: Some(Nanos::from_secs(3)),
    });
    let samples = run(&experiment, &randread());
    let stalled = samples.series.iter().filter(|interval| interval.array.read.ops == 0).count();
    // Three of five seconds, less what the other three still answer.
    close(stalled as f64 * samples.interval.as_secs_f64(), 3.0, 0.15);
    experiment.volumes[0].shape.as_mut().expect("has one").character.failure =
        Some(Failure { kind: FailureKind::Freeze, at: Nanos::from_secs(2), lasts: None });
    assert!(run(&experiment, &randread()).array.read.latency.max() < Some(Nanos::PER_SECOND));
    let by_size = Workload { stop: Stop::Size(Bytes(1 << 30)), ..randread() };
    assert!(try_run(&experiment, &by_size).expect_err("stalls").to_string().contains("frozen"));
}

#[test]
fn a_resync_takes_its_share_and_is_seen() {
    let mut experiment = experiment(2, ArrayKind::Mirror, &shape());
    experiment.environment.resync = Some(Resync { rate: 50e6 });
    let samples = run(&experiment, &Workload { bs: Bytes(64 << 10), ..seqread() });
    let alone = 125e6;
    assert!(throughput(&samples) < 0.7 * alone, "{}", throughput(&samples));
    let observed = samples.observed.expect("observed");
    assert_eq!(observed.others[0].kind, OtherKind::Resync);
    let bytes = observed.others[0].bytes.expect("counted");
    // One request of 512 KiB against 16 of 64 KiB gets a third: less than the 50 MB/s it may have.
    close(bytes.write as f64, 125e6 / 3.0 * 6.0, 0.02);
}
