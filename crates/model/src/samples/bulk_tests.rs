use super::*;
use crate::samples::{CpuUse, ErrorCount, Execution, MemberSamples};
use crate::units::UnixTime;
use proptest::prelude::*;

fn histogram() -> impl Strategy<Value = Histogram> {
    prop::collection::vec((0u32..64, any::<u64>()).prop_map(|(bits, v)| v & ((1 << bits) - 1)), 0..200)
        .prop_map(|values| values.into_iter().collect())
}

fn count() -> impl Strategy<Value = Count> {
    prop_oneof![
        (0u64..5000).prop_map(|ops| Count { ops, bytes: ops * 4096 }),
        (any::<u64>(), any::<u64>()).prop_map(|(ops, bytes)| Count { ops, bytes }),
    ]
}

fn both<T: std::fmt::Debug>(one: impl Fn() -> BoxedStrategy<T>) -> impl Strategy<Value = PerOp<T>> {
    (one(), one()).prop_map(|(read, write)| PerOp { read, write })
}

fn ops() -> BoxedStrategy<PerOp<OpSamples>> {
    let one = || {
        (count(), histogram(), prop::option::of(histogram()))
            .prop_map(|(count, latency, service)| OpSamples { count, latency, service })
            .boxed()
    };
    both(one).boxed()
}

fn samples() -> impl Strategy<Value = TrialSamples> {
    let counts = || both(|| count().boxed());
    let interval = (any::<u64>(), counts(), histogram(), prop::collection::vec(counts(), 0..4))
        .prop_map(|(end, array, latency, members)| Interval { end: Nanos(end), array, latency, members });
    let member = ops().prop_map(|ops| MemberSamples {
        name: "v".to_owned(),
        ops,
        errors: vec![ErrorCount { name: "EIO".to_owned(), count: 2 }],
        model: None,
    });
    (ops(), prop::collection::vec(member, 0..4), prop::collection::vec(interval, 0..6), histogram()).prop_map(
        |(array, members, series, syncs)| TrialSamples {
            started_unix: UnixTime::from_secs(1),
            elapsed: Nanos::from_secs(2),
            interval: Nanos::from_millis(100),
            array,
            members,
            series,
            cpu: CpuUse::default(),
            mean_in_flight: Some(7.5),
            execution: Execution { syncs, ..Execution::default() },
            observed: None,
            hosts: Vec::new(),
            notes: vec!["a note".to_owned()],
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_parted_is_joined(samples in samples()) {
        let parted = samples.part();
        prop_assert!(parted.rest.series.is_empty() && parted.rest.latency().is_empty());
        // The rest goes through JSON, as in the store.
        let rest = serde_json::from_str(&serde_json::to_string(&parted.rest).expect("writes")).expect("reads");
        prop_assert_eq!(Parted { rest, bulk: parted.bulk }.join(), Ok(samples));
    }

    #[test]
    fn damaged_bytes_are_refused_or_read_but_never_trusted(
        samples in samples(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let Parted { rest, mut bulk } = samples.part();
        let position = at.index(bulk.len());
        let short = Parted { rest: rest.clone(), bulk: bulk[..position].to_vec() };
        prop_assert!(short.join().is_err(), "of {} bytes the first {position}", bulk.len());
        bulk[position] = byte;
        let _ = Parted { rest, bulk }.join();
    }

    #[test]
    fn coarser_is_near(values in prop::collection::vec(1u64..1 << 39, 1..3000), bits in 3u32..9) {
        let fine: Histogram = values.iter().copied().collect();
        let coarse = fine.coarsened(bits);
        prop_assert_eq!(
            (coarse.count(), coarse.sum(), coarse.min(), coarse.max()),
            (fine.count(), fine.sum(), fine.min(), fine.max())
        );
        for p in [0.0, 1.0, 25.0, 50.0, 90.0, 99.0, 100.0] {
            let (a, b) = (fine.percentile(p).unwrap_or(0) as f64, coarse.percentile(p).unwrap_or(0) as f64);
            prop_assert!((a - b).abs() <= a / f64::from(1u32 << bits) + 1.0, "p{p}: {a} became {b}");
        }
        prop_assert_eq!(coarse.coarsened(10), coarse);
    }

    #[test]
    fn a_sum_is_what_merging_one_by_one_gives(all in prop::collection::vec(histogram(), 0..5)) {
        let mut merged = Histogram::default();
        all.iter().for_each(|histogram| merged.merge(histogram));
        prop_assert_eq!(Histogram::sum_of(&all), merged);
    }
}

#[test]
fn few_buckets_stay_as_fine_as_they_are() {
    let few: Histogram = (0..60).map(|n| 1_000_000 + n * 2_000).collect();
    assert_eq!(few.coarsened(4), few);
}
