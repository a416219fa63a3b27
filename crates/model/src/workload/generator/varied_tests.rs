use crate::units::{Bytes, Nanos};
use crate::workload::options::{Draft, Grammar, OPTIONS, Plain};
use crate::workload::{Generator, Op, OpKind, Workload};
use proptest::prelude::*;

/// The workload of `options`, for a second.
fn made(options: &str) -> Workload {
    let mut draft = Draft::new(Grammar::JobFile);
    for given in options.split_whitespace().chain(["runtime=1", "time_based=1"]) {
        let (name, value) = given.split_once('=').expect("name=value");
        let option = OPTIONS.iter().find(|option| option.name == name).expect(name);
        option
            .set(&mut draft, &mut Plain(value))
            .map_err(|refusal| refusal.map(|r| r.to_string()))
            .expect(given);
    }
    assert!(draft.runtime > Some(Nanos(0)));
    draft.finish("w").expect(options)
}

fn take(options: &str, capacity: u64, n: usize) -> Vec<Op> {
    let mut generator = Generator::new(&made(options), Bytes(capacity), 5, 0).expect(options);
    (0..n).map(|_| generator.next_op()).collect()
}

/// Offsets in KiB.
fn offsets(options: &str, n: usize) -> Vec<u64> {
    take(options, 256 << 10, n).iter().map(|op| op.offset.0 >> 10).collect()
}

/// From `--write_iolog` of fio 3.33 with `--size=256k --bs=4k --io_size=512k`.
#[test]
fn sequences_with_holes_are_those_of_fio() {
    let back: Vec<u64> = std::iter::once(0).chain((0..=248).rev().step_by(4)).chain([248, 244]).collect();
    assert_eq!(offsets("rw=read:-8k", back.len()), back);
    let far =
        [0, 244, 236, 228, 220, 212, 204, 196, 188, 180, 172, 164, 156, 148, 140, 132, 124, 116, 108, 100];
    assert_eq!(offsets("rw=read:-12k", 20), far);
    assert_eq!(offsets("rw=read:-12k", 34)[31..], [4, 244, 236]);
    let holes: Vec<u64> = (0..=252).step_by(12).chain([0, 12]).collect();
    assert_eq!(offsets("rw=write:8k", holes.len()), holes);
    assert_eq!(offsets("rw=read:-4k", 4), [0; 4]);
}

#[test]
fn runs_follow_each_draw_or_stay_at_it() {
    let all = offsets("rw=randread:4", 4000);
    let steps = all.chunks(4).flat_map(|run| run.windows(2));
    // A run that would leave the region goes on elsewhere, as in fio: at most 3 of 64 draws do.
    let (all_steps, follow) =
        steps.fold((0, 0), |(n, f), step| (n + 1, f + usize::from(step[1] == step[0] + 4)));
    assert!(follow * 100 > all_steps * 95 && follow < all_steps, "{follow} of {all_steps}");
    let starts: std::collections::BTreeSet<u64> = all.iter().step_by(4).copied().collect();
    assert_eq!(starts.len(), 64);
    let same = offsets("rw=randread:4 rw_sequencer=identical", 400);
    assert!(same.chunks(4).all(|run| run.iter().all(|offset| *offset == run[0])));
}

#[test]
fn sizes_have_their_shares_and_lie_at_multiples_of_the_smallest() {
    let ops = take("rw=randrw rwmixread=50 bssplit=4k/10:64k/50:32k,8k/75:16k", 1 << 30, 40_000);
    for (kind, unit, sizes) in [
        (OpKind::Read, 4096, vec![(4096, 0.1), (65_536, 0.5), (32_768, 0.4)]),
        (OpKind::Write, 8192, vec![(8192, 0.75), (16_384, 0.25)]),
    ] {
        let of_kind: Vec<&Op> = ops.iter().filter(|op| op.kind == kind).collect();
        assert!(of_kind.iter().all(|op| op.offset.0 % unit == 0));
        for (size, share) in sizes {
            let seen = of_kind.iter().filter(|op| op.length.0 == size).count() as f64 / of_kind.len() as f64;
            assert!((seen - share).abs() < 0.015, "{size}: {seen}");
        }
    }
    let workload = made("rw=randrw rwmixread=50 bssplit=4k/10:64k/50:32k,8k/75:16k");
    let mean = ops.iter().map(|op| op.length.0 as f64).sum::<f64>() / ops.len() as f64;
    assert!((mean / workload.mean_bs() - 1.0).abs() < 0.02, "{mean} {}", workload.mean_bs());
    assert_eq!(workload.bs, Bytes(65_536));
    // Of sizes that are never read, none is the largest.
    assert_eq!(made("rw=randwrite bssplit=4k/10:64k/50:32k,8k/75:16k").bs, Bytes(16_384));
}

#[test]
fn a_sequence_of_several_sizes_has_no_holes_and_fills_the_end_with_what_fits() {
    let ops = take("rw=read bssplit=4k/50:64k/50", 256 << 10, 2000);
    let mut at = 0;
    for op in ops {
        if at == 256 << 10 {
            at = 0;
        }
        assert_eq!(op.offset.0, at);
        at += op.length.0;
    }
}

proptest! {
    /// Whatever is asked for, nothing leaves the job's region, and a seed gives the same again.
    #[test]
    fn operations_stay_inside(
        rw in prop::sample::select(vec![
            "read", "write:4k", "rw:-8k", "rewrite", "randread", "randread:7", "randrw:3", "randwrite", "read:-1m", "write:3k",
        ]),
        sizes in prop::sample::select(vec!["", "bssplit=4k:12k:5k/1", "bssplit=512/99:40k/1", "bs=3k", "bssplit=8k/100,4k/30:1k"]),
        law in prop::sample::select(vec!["", "random_distribution=zipf:0.9", "random_distribution=normal:50"]),
        jobs in 1u32..4, capacity in (160u64 << 10)..(1 << 20), offset in 0u64..9,
    ) {
        let workload = made(&format!("rw={rw} {sizes} {law} numjobs={jobs} offset={}", offset * 1024));
        for job in 0..jobs {
            let mut generator = Generator::new(&workload, Bytes(capacity), 9, job).expect("fits");
            let mut again = generator.clone();
            for _ in 0..300 {
                let op = generator.next_op();
                prop_assert!(op.length.0 > 0 && op.length <= workload.bs);
                prop_assert!(op.offset.0 >= offset * 1024 && op.offset.0 + op.length.0 <= capacity, "{:?}", op);
                prop_assert_eq!(op, again.next_op());
            }
        }
    }
}
