use super::*;
use crate::run;
use crate::target::TargetMember;
use ebbtide_door::Handle;
use ebbtide_model::layout::{ArrayKind, LayoutNode, Map};
use ebbtide_model::units::Nanos;
use ebbtide_model::workload::{Access, IoEngine, Mix, Split, Stop};
use std::fs::File;
use std::os::unix::fs::FileExt;

const MEMBER: Bytes = Bytes(1 << 20);
const SEED: u64 = 11;

/// An array over temporary files, and these.
fn array(kind: Option<ArrayKind>, members: usize) -> (Target, Vec<File>) {
    let files: Vec<File> = (0..members)
        .map(|_| {
            let file = tempfile::tempfile().expect("a file");
            file.set_len(MEMBER.0).expect("sizes it");
            file
        })
        .collect();
    let member = |(index, file): (usize, &File)| TargetMember {
        name: format!("v{index}"),
        file: Handle::unjudged(file.try_clone().expect("again")),
        size: MEMBER,
        shaper: None,
    };
    let leaves = (0..members).map(LayoutNode::Volume).collect();
    let layout = kind.map_or(LayoutNode::Volume(0), |kind| LayoutNode::Array { kind, members: leaves });
    let map = Map::new(&layout, &vec![MEMBER; members]).expect("a layout");
    (Target::new(files.iter().enumerate().map(member).collect(), map), files)
}

fn writes(access: Access, stop: Stop) -> Workload {
    let mut workload = Workload::new("w", access, Mix::Write, stop);
    (workload.iodepth, workload.direct, workload.details.verify) = (8, false, true);
    workload
}

fn kinds() -> Vec<(Option<ArrayKind>, usize)> {
    let chunk = Bytes(4096);
    vec![
        (None, 1),
        (Some(ArrayKind::Stripe { chunk }), 3),
        (Some(ArrayKind::Mirror), 2),
        (Some(ArrayKind::Linear), 2),
    ]
}

/// Whatever is written, by whom and wherever it goes, is there when it is read back.
#[test]
fn what_was_written_is_there() {
    for (kind, members) in kinds() {
        for engine in [IoEngine::IoUring, IoEngine::Psync] {
            for (access, mix, bs, jobs) in [
                (Access::Random, Mix::Write, 4096, 2),
                (Access::Sequential, Mix::Write, 12_288, 1),
                (Access::Random, Mix::Mixed { read_percent: 50 }, 8192, 1),
            ] {
                let (target, _) = array(kind, members);
                // Not for a time, in which a disk that stands still does nothing.
                let mut workload = writes(access, Stop::Size(Bytes(32 * bs)));
                (workload.mix, workload.bs, workload.ioengine, workload.numjobs) =
                    (mix, Bytes(bs), engine, jobs);
                workload.details.compress_percent = 50;
                let samples = run(&target, &workload, SEED, &Control::default())
                    .unwrap_or_else(|error| panic!("{kind:?} {engine:?} {access:?}: {error}"));
                assert!(samples.array.write.count.ops > 0, "{kind:?} {engine:?} {access:?}");
                let note = samples.notes.last().expect("a note");
                assert!(note.starts_with("verify: ") && note.ends_with("is all as it was written"), "{note}");
            }
        }
    }
    let (target, _) = array(None, 1);
    let mut several = writes(Access::Random, Stop::Runtime(Nanos::from_millis(60)));
    several.split = Split::parse("4k/50:16k", &|text| match text {
        "4k" => Ok(Bytes(4096)),
        _ => Ok(Bytes(16_384)),
    })
    .ok();
    several.bs = Bytes(16_384);
    run(&target, &several, SEED, &Control::default()).expect("is as it was written");
}

/// Runs a trial that writes everything once, changes something, and reads it back.
fn changed(
    (kind, members): (Option<ArrayKind>, usize),
    change: impl FnOnce(&[File]),
) -> Result<ReadBack, EngineError> {
    let (target, files) = array(kind, members);
    let capacity = target.map.capacity();
    let workload = writes(Access::Sequential, Stop::Size(capacity));
    run(&target, &workload, SEED, &Control::default()).expect("is as it was written");
    change(&files);
    let mut buffers = Buffers::of_job(&workload, 8).expect("mapped").0;
    buffers.fill(SEED, 0);
    let begun = [capacity.0 / 4096];
    read_back(&target, &workload, SEED, &begun, vec![buffers], &Control::default())
}

fn flip(file: &File, at: u64) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("reads");
    file.write_all_at(&[!byte[0]], at).expect("writes");
}

#[test]
fn a_byte_that_changed_a_page_that_moved_and_one_that_was_lost_are_found() {
    assert_eq!(changed((None, 1), |_| {}).expect("nothing changed"), ReadBack { bytes: MEMBER.0 });
    let mirror = (Some(ArrayKind::Mirror), 2);
    assert_eq!(changed(mirror, |_| {}).expect("nothing changed"), ReadBack { bytes: 2 * MEMBER.0 });
    let said =
        |kind, change: &dyn Fn(&[File])| changed(kind, change).expect_err("something changed").to_string();
    let damaged = said((None, 1), &|files| flip(&files[0], 7 * 4096 + 100));
    assert!(
        damaged.contains("1 of 256 places") && damaged.contains("at byte 28672: it is damaged"),
        "{damaged}"
    );
    let moved = said((None, 1), &|files| {
        let mut page = vec![0; 4096];
        files[0].read_exact_at(&mut page, 4096).expect("reads");
        files[0].write_all_at(&page, 3 * 4096).expect("writes");
    });
    assert!(moved.contains("at byte 12288: it holds what was written to another place"), "{moved}");
    let lost = said((None, 1), &|files| files[0].write_all_at(&[0; 8192], 0).expect("writes"));
    assert!(lost.contains("2 of 256 places") && lost.contains("was not written by this trial"), "{lost}");
    let second = said(mirror, &|files| flip(&files[1], 5 * 4096 + 9));
    assert!(second.contains("at byte 20480 (copy 2): it is damaged"), "{second}");
    let short = said((None, 1), &|files| files[0].set_len(4096 * 10).expect("truncates"));
    assert!(short.contains("246 of 256 places") && short.contains("it has been truncated"), "{short}");
}
