//! Writes that slow down in a step: a cache that fills, or credits that run out.

use super::*;
use crate::Basis;
use crate::fixtures::trial;
use VerdictKind::{Burst, Unknown, WriteCache};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::workload::{Mix, Workload};

/// Intervals of 100 ms in which so many operations of 4 KiB completed, `before` of them for `fast` intervals of 40 and `after` from
/// then on, which goes up and down by `jitter` in 1.4 s.
fn stepped(before: u64, after: u64, fast: usize, jitter: u64) -> TrialSamples {
    let mut samples = trial(&[("v0", 10_000, 1_000_000)]);
    let whole = samples.series[0].clone();
    samples.elapsed = Nanos::from_secs(4);
    samples.series = (0..40u64)
        .map(|at| {
            let level = if (at as usize) < fast { before } else { after };
            let ops = level - jitter / 4 + (at % 14).abs_diff(7) * jitter / 14;
            let mut interval = whole.clone();
            interval.end = Nanos::from_millis(100 * (at + 1));
            interval.array.read = ebbtide_model::samples::Count { ops, bytes: ops * 4096 };
            interval.members = vec![interval.array];
            interval
        })
        .collect();
    samples
}

/// The same as writes.
fn written(mut samples: TrialSamples) -> TrialSamples {
    let swap = |samples: &mut PerOp<_>| std::mem::swap(&mut samples.read, &mut samples.write);
    swap(&mut samples.array);
    samples.members.iter_mut().for_each(|member| swap(&mut member.ops));
    for interval in &mut samples.series {
        let counts = [&mut interval.array].into_iter().chain(&mut interval.members);
        counts.for_each(|count| std::mem::swap(&mut count.read, &mut count.write));
    }
    samples
}

fn writes() -> Experiment {
    let mut experiment = stripe(1);
    experiment.workloads[0].mix = Mix::Write;
    experiment.workloads[0].warm_up = Nanos(0);
    experiment
}

/// A second workload that reads.
fn and_reads() -> Experiment {
    let mut experiment = writes();
    let reads = Workload { name: "reads".into(), mix: Mix::Read, ..experiment.workloads[0].clone() };
    experiment.workloads.push(reads);
    experiment
}

#[test]
fn a_cache_that_fills_is_told_with_what_went_into_it() {
    let session = six_rounds(&writes(), |_| written(stepped(2000, 500, 12, 100)));
    let verdict = &verdicts(&session)[0];
    assert_eq!((verdict.kind, verdict.basis), (WriteCache, Some(Basis::Inferred)));
    // 1.2 s of 20000 operations a second.
    assert!(
        verdict.sentence.starts_with("looks like a write cache that fills: the first 98"),
        "{}",
        verdict.sentence
    );
    assert!(
        verdict.sentence.contains("in 6 of 6 trials; whether reads slow down too"),
        "{}",
        verdict.sentence
    );
    assert!((verdict.explains - 0.75).abs() < 0.02, "{verdict:?}");
    // Reads that go on as they began make it more certain.
    let session = six_rounds(&and_reads(), |trial| match trial.workload {
        0 => written(stepped(2000, 500, 12, 100)),
        _ => stepped(1800, 1800, 40, 100),
    });
    let surer = &verdicts(&session)[0];
    assert!(surer.kind == WriteCache && surer.confidence > verdict.confidence, "{surer:?}");
    assert!(surer.sentence.contains("reads go on as they began"), "{}", surer.sentence);
}

#[test]
fn credits_are_none() {
    // Reads slow down as well.
    let session = six_rounds(&and_reads(), |trial| match trial.workload {
        0 => written(stepped(2000, 500, 12, 100)),
        _ => stepped(2000, 500, 12, 100),
    });
    assert_eq!(kinds(&session), [Burst]);
    let (why, _) = ruled_out(&session, WriteCache);
    assert!(why.starts_with("reads also slow down in a step"), "{why}");
    // The rate in the end is even, as one that is set.
    let session = six_rounds(&writes(), |_| written(stepped(2000, 500, 12, 0)));
    assert_eq!(kinds(&session), [Burst]);
    let (why, _) = ruled_out(&session, WriteCache);
    assert!(why.contains("so even that somebody may have set it"), "{why}");
    // Volumes that are known to have credits, or none.
    let mut known = shaped(writes(), 25_000.0, Nanos(50_000));
    assert_eq!(kinds(&six_rounds(&known, |_| written(stepped(2000, 500, 12, 100)))), [Unknown]);
    let shape = known.volumes[0].shape.as_mut().expect("is shaped");
    shape.iops = Some(Limit { rate: 5000.0, burst_rate: Some(20_000.0), burst_credits: 18_000.0 });
    let found = kinds(&six_rounds(&known, |_| written(stepped(2000, 500, 12, 100))));
    assert!(found.contains(&Burst) && !found.contains(&WriteCache), "{found:?}");
}

#[test]
fn what_happens_once_or_anywhere_is_none() {
    let flat = || written(stepped(2000, 2000, 40, 100));
    let session =
        six_rounds(
            &writes(),
            |trial| {
                if trial.round == 3 { written(stepped(2000, 500, 12, 100)) } else { flat() }
            },
        );
    assert_eq!(kinds(&session), [Unknown]);
    let (_, seen) = ruled_out(&session, WriteCache);
    assert_eq!(seen, [(1.0, Some(3.0))]);
    // After 1, 2 or 3 seconds, as it happens.
    let session = six_rounds(&writes(), |trial| {
        written(stepped(2000, 500, [6, 18, 33][trial.round as usize % 3], 100))
    });
    let (why, seen) = ruled_out(&session, WriteCache);
    assert!(why.contains("does not come after as much"), "{why}");
    assert!(seen[0].0 > 0.3, "{seen:?}");
    // Reads have no use for it.
    let mut reads = writes();
    reads.workloads[0].mix = Mix::Read;
    assert_eq!(kinds(&six_rounds(&reads, |_| stepped(2000, 500, 12, 100))), [Burst]);
    // Through the page cache the kernel's own limits are steps.
    let mut buffered = writes();
    buffered.workloads[0].direct = false;
    let (why, _) = ruled_out(&six_rounds(&buffered, |_| written(stepped(2000, 500, 12, 100))), WriteCache);
    assert!(why.contains("through the page cache"), "{why}");
}
