//! Members that fail, workloads that cannot run.
#![allow(clippy::disallowed_methods)]

mod common;

use common::*;
use ebbtide_door::Handle;
use ebbtide_engine::{EngineError, Target, TargetMember};
use ebbtide_model::layout::ArrayKind;
use ebbtide_model::units::{Bytes, MemberOffset, Nanos};
use ebbtide_model::volume::{Failure, FailureKind};
use ebbtide_model::workload::{Access, IoEngine, Mix, OpKind, Workload};
use std::fs::File;

#[test]
fn a_file_cut_behind_its_back_fails_the_trial_by_name_and_offset() {
    for ioengine in [IoEngine::IoUring, IoEngine::Psync] {
        let dir = tempfile::tempdir().expect("a directory");
        let target = array(dir.path(), ArrayKind::Stripe { chunk: Bytes(16 * KIB) }, 2, MIB);
        // Half a block is left of the one at 512 KiB: a short read first, then the end.
        target.members[1].file.set_len(512 * KIB + 2048).expect("cuts the file");
        let w = Workload { ioengine, iodepth: 1, ..workload(Access::Sequential, Mix::Read, size(2 * MIB)) };
        let Err(EngineError::CutShort { cause, seen }) = try_trial(&target, &w) else {
            panic!("no failure after the beginning");
        };
        assert!(seen.notes.iter().any(|note| note.starts_with("cut short after")), "{:?}", seen.notes);
        // Until then the stripe was read in order: 512 KiB of each member, and the next chunk of the first.
        assert_eq!(seen.array.read.count.bytes, MIB + 16 * KIB);
        assert!(seen.members[0].errors.is_empty());
        let errors = &seen.members[1].errors;
        assert!(
            matches!(errors.as_slice(), [short] if short.name == "short" && short.count == 2),
            "{errors:?}"
        );
        match *cause {
            EngineError::Member { member, op, offset, length, cause } => {
                assert_eq!((member.as_str(), op), ("vol1", Some(OpKind::Read)));
                assert_eq!((offset, length), (MemberOffset(512 * KIB + 2048), Bytes(2048)));
                assert!(cause.to_string().contains("end of the file"), "{cause}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_failing_shaped_member_is_named_with_what_it_returned() {
    for (kind, text) in [(FailureKind::Error, "Input/output error"), (FailureKind::Vanish, "No such device")]
    {
        for ioengine in [IoEngine::IoUring, IoEngine::Psync] {
            let dir = tempfile::tempdir().expect("a directory");
            let members = members(dir.path(), 3, MIB, |index| {
                let mut shape = shape(None, None, 50);
                let failure = Failure { kind, at: Nanos::from_millis(100), lasts: None };
                shape.character.failure = (index == 1).then_some(failure);
                shaper(&shape)
            });
            let target = array_of(members, ArrayKind::Stripe { chunk: Bytes(16 * KIB) });
            let w = Workload { ioengine, ..workload(Access::Random, Mix::Write, millis(60_000)) };
            // A second trial on the same target: the failure counts from each trial's start.
            for _ in 0..2 {
                let error = try_trial(&target, &w).expect_err("it fails after 100 ms").to_string();
                assert!(
                    error.starts_with("vol1: write of 4096 bytes at offset ") && error.contains(text),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn a_freeze_holds_operations_and_then_lets_them_go() {
    let dir = tempfile::tempdir().expect("a directory");
    let members = members(dir.path(), 1, MIB, |_| {
        let mut shape = shape(Some(2000.0), None, 0);
        // Much longer than what is asked below: a machine that stalls meanwhile meets the end of it only.
        let (at, lasts) = (Nanos::from_millis(50), Some(Nanos::from_millis(300)));
        shape.character.failure = Some(Failure { kind: FailureKind::Freeze, at, lasts });
        shaper(&shape)
    });
    let target = array_of(members, ArrayKind::Linear);
    let samples = trial(&target, &workload(Access::Random, Mix::Read, millis(600)));
    assert!(samples.array.read.latency.max() > Some(80_000_000), "{:?}", samples.array.read.latency);
    assert!(samples.array.read.latency.percentile(50.0) < Some(80_000_000));
}

#[test]
fn an_error_of_the_device_ends_all_jobs_of_the_trial() {
    for ioengine in [IoEngine::IoUring, IoEngine::Psync] {
        // Every write to it fails with ENOSPC.
        let file = File::options().read(true).write(true).open("/dev/full").expect("/dev/full");
        let full = TargetMember {
            name: "full".into(),
            file: Handle::unjudged(file),
            size: Bytes(MIB),
            shaper: None,
        };
        let target = Target::single(full).expect("a size");
        let w = Workload { ioengine, numjobs: 3, ..workload(Access::Random, Mix::Write, millis(60_000)) };
        let error = try_trial(&target, &w).expect_err("every write fails").to_string();
        assert!(error.contains("full: write of 4096 bytes") && error.contains("No space left"), "{error}");
    }
}

#[test]
fn a_member_that_is_not_open_for_writing_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    file(dir.path(), "vol0", MIB);
    let file = File::open(dir.path().join("vol0")).expect("opens");
    let target = Target::single(TargetMember {
        name: "vol0".into(),
        file: Handle::unjudged(file),
        size: Bytes(MIB),
        shaper: None,
    })
    .expect("a size");
    let w = workload(Access::Random, Mix::Write, size(MIB));
    let error = try_trial(&target, &w).expect_err("read-only").to_string();
    assert!(error.contains("not open for this operation"), "{error}");
}

#[test]
fn impossible_trials_are_refused_before_they_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = single(dir.path(), MIB);
    let base = workload(Access::Random, Mix::Write, size(MIB));
    let refused = |w: &Workload| try_trial(&target, w).expect_err("refused").to_string();
    assert!(refused(&Workload { iodepth: 1 << 30, ..base.clone() }).contains("lower `iodepth`"));
    assert!(refused(&Workload { bs: Bytes(2 * MIB), ..base.clone() }).contains("do not fit"));
    assert!(refused(&Workload { bs: Bytes(4096 * MIB), ..base.clone() }).contains("at most 1GiB"));
    assert!(refused(&Workload { iodepth: 0, ..base.clone() }).contains("`iodepth` is 0"));
    let parity = array(dir.path(), ArrayKind::Raid5 { chunk: Bytes(16 * KIB) }, 3, MIB);
    assert!(matches!(try_trial(&parity, &base), Err(EngineError::ParityWrite)));
    let mix = Mix::Rewrite;
    assert!(matches!(try_trial(&parity, &Workload { mix, ..base.clone() }), Err(EngineError::ParityWrite)));
    assert!(try_trial(&parity, &workload(Access::Random, Mix::Read, size(MIB))).is_ok());
    let mut lonely = array(dir.path(), ArrayKind::Mirror, 2, MIB);
    lonely.members.pop();
    assert!(matches!(try_trial(&lonely, &base), Err(EngineError::Members { members: 1, .. })));
}

#[test]
fn psync_says_that_it_keeps_one_operation_in_flight() {
    let dir = tempfile::tempdir().expect("a directory");
    let w = Workload { ioengine: IoEngine::Psync, ..workload(Access::Random, Mix::Read, size(MIB)) };
    let samples = trial(&single(dir.path(), MIB), &w);
    assert!(samples.notes.iter().any(|note| note.contains("iodepth 4 was not used")), "{:?}", samples.notes);
}
