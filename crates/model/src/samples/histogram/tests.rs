use super::*;
use proptest::prelude::*;

/// Values over the whole range: a random number of random bits.
fn values() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec((0u32..44, any::<u64>()).prop_map(|(bits, v)| v & ((1 << bits) - 1)), 1..300)
}

/// `p` in whole numbers: thousandths of a percent.
fn oracle_percentile(sorted: &[u64], p: u64) -> u64 {
    let enough = |rank: &usize| *rank as u64 * 100_000 >= p * sorted.len() as u64;
    let rank = (1..=sorted.len()).find(enough).expect("all of them are enough");
    sorted[rank - 1]
}

/// The slowest of a thousand is their maximum, and no percentile below it.
#[test]
fn ranks_are_whole_numbers() {
    for (p, count, expected) in [
        (99.9, 1000, 999),
        (99.9, 1001, 1000),
        (99.9, 1_000_000_000, 999_000_000),
        (99.99, 10_000, 9999),
        (99.5, 200, 199),
        (50.0, 2, 1),
        (0.0, 5, 1),
        (1.0, 1, 1),
        (100.0, u64::MAX, u64::MAX),
    ] {
        assert_eq!(rank(p, count), expected, "p{p} of {count}");
    }
    let thousand = dense(&(1..=1000).collect::<Vec<_>>());
    assert_eq!((thousand.percentile(99.9), thousand.max()), (Some(999), Some(1000)));
}

fn dense(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::with_buckets();
    values.iter().for_each(|v| histogram.record(*v));
    histogram
}

#[test]
fn a_scaled_histogram_is_that_of_the_scaled_values() {
    // Neighbours are 0.2% apart, so that one more or less below a percentile hardly moves it.
    let values: Vec<u64> = (0..5000).map(|n| (1000.0 * 1.002_f64.powi(n)) as u64).collect();
    let mut whole = Histogram::default();
    values.iter().for_each(|value| whole.record(*value));
    for factor in [0.25, 1.0, 1.7, 40.0] {
        let mut slow = Histogram::default();
        values.iter().for_each(|value| slow.record((*value as f64 * factor).round() as u64));
        for count in [5000, 2500, 7351] {
            let scaled = whole.scaled(count, factor);
            assert_eq!(scaled.count(), count);
            assert_eq!(scaled.buckets().map(|bucket| bucket.count).sum::<u64>(), count);
            let near = |a: Option<u64>, b: Option<u64>| {
                let (a, b) = (a.expect("some") as f64, b.expect("some") as f64);
                assert!((a / b - 1.0).abs() < 0.006, "{factor} {count}: {a} {b}");
            };
            for percentile in [1.0, 50.0, 99.0] {
                near(scaled.percentile(percentile), slow.percentile(percentile));
            }
            let means = (scaled.mean().expect("some"), slow.mean().expect("some"));
            assert!((means.0 / means.1 - 1.0).abs() < 1e-3, "{means:?}");
        }
    }
    assert_eq!(whole.scaled(5000, 1.0), whole.clone().compacted(), "nothing changes");
    assert!(whole.scaled(0, 2.0).is_empty() && Histogram::default().scaled(7, 2.0).is_empty());
}

#[test]
fn buckets_tile_the_range_without_gap_or_overlap() {
    let mut expected = 0;
    for index in 0..BUCKETS {
        let (low, high) = bounds_of(index);
        assert_eq!(low, expected, "bucket {index}");
        assert_eq!((index_of(low), index_of(high)), (index, index));
        assert!((high - low) as f64 <= low as f64 / 1024.0, "bucket {index} is too wide");
        expected = high + 1;
    }
    assert_eq!(expected, LARGEST + 1);
}

#[test]
fn empty_has_no_figures() {
    for histogram in [Histogram::default(), Histogram::with_buckets()] {
        assert_eq!((histogram.min(), histogram.max(), histogram.percentile(50.0)), (None, None, None));
        assert_eq!((histogram.mean(), histogram.std_dev(), histogram.share_at_most(1)), (None, None, None));
        assert_eq!(histogram.buckets().count(), 0);
    }
}

#[test]
fn values_above_the_range_are_counted_and_keep_the_maximum_exact() {
    let histogram = dense(&[5, u64::MAX / 4, LARGEST + 7]);
    assert_eq!(histogram.count(), 3);
    assert_eq!(histogram.max(), Some(u64::MAX / 4));
    assert_eq!(
        histogram.buckets().last(),
        Some(Bucket { low: bounds_of(BUCKETS - 1).0, high: u64::MAX / 4, count: 2 })
    );
}

#[test]
fn stored_form_is_short_and_refuses_nonsense() {
    let text = serde_json::to_string(&dense(&[7, 7, 9])).expect("serializes");
    assert_eq!(text, r#"{"range":[7,9,23],"buckets":[7,2,2,1]}"#);
    for bad in [
        r#"{"range":[7,9,23],"buckets":[7,2,2]}"#,
        r#"{"range":[7,9,23],"buckets":[7,2,0,1]}"#,
        r#"{"range":[7,9,23],"buckets":[7,2,2,0]}"#,
        r#"{"range":[7,9,23],"buckets":[7,2,99999999,1]}"#,
        r#"{"range":[7,9,23],"buckets":[7,18446744073709551615,2,1]}"#,
        r#"{"range":[9,7,23],"buckets":[7,2,2,1]}"#,
        r#"{"range":[7,9,23]}"#,
        r#"{"buckets":[7,2]}"#,
    ] {
        assert!(serde_json::from_str::<Histogram>(bad).is_err(), "{bad}");
    }
}

#[test]
fn times_saturates_the_sum_as_merging_does() {
    let one = dense(&[u64::MAX / 4, 9]);
    let mut merged = Histogram::default();
    (0..5).for_each(|_| merged.merge(&one));
    assert_eq!((one.times(5), merged.sum()), (merged, u64::MAX));
}

proptest! {
    // Each case zeroes several dense histograms of 254 KiB, which is slow without optimisation.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn percentiles_agree_with_a_sorted_vector(values in values(), thousandths in 0..=100_000u64) {
        let p = thousandths as f64 / 1000.0;
        let histogram = dense(&values);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let exact = oracle_percentile(&sorted, thousandths);
        let got = histogram.percentile(p).expect("not empty");
        // The last bucket also holds everything above the range.
        if exact < bounds_of(BUCKETS - 1).0 {
            prop_assert!(got.abs_diff(exact) as f64 <= exact as f64 / 2000.0, "p{p}: {got} for {exact}");
        }
        prop_assert_eq!(histogram.percentile(0.0), sorted.first().copied());
        prop_assert_eq!(histogram.percentile(100.0), sorted.last().copied());
        prop_assert_eq!(histogram.count(), values.len() as u64);
        prop_assert_eq!(histogram.sum(), values.iter().sum::<u64>());
        prop_assert_eq!(histogram.buckets().map(|b| b.count).sum::<u64>(), values.len() as u64);
        let at_most = sorted.iter().filter(|v| index_of(**v) <= index_of(exact)).count();
        let share = at_most as f64 / values.len() as f64;
        prop_assert!((histogram.share_at_most(exact).expect("not empty") - share).abs() < 1e-9);
    }

    #[test]
    fn values_kept_one_by_one_are_the_same_histogram(values in values(), copies in 1..4usize) {
        // Up to three times 300 values: on both sides of FEW.
        let values = values.repeat(copies);
        let mut few = Histogram::default();
        values.iter().for_each(|value| few.record(*value));
        prop_assert_eq!(&few, &dense(&values));
        let mut both = few.clone();
        both.merge(&few);
        prop_assert_eq!(&both, &dense(&values.repeat(2)));
        let taken = few.take();
        prop_assert_eq!(&taken, &dense(&values));
        prop_assert!(few.is_empty() && few.buckets().next().is_none());
        few.record(7);
        prop_assert_eq!(&few, &dense(&[7]));
    }

    #[test]
    fn merge_is_recording_both_in_any_form(a in values(), b in values(), forms in 0..4u8) {
        let (mut x, mut y) = (dense(&a), dense(&b));
        if forms & 1 != 0 { x.compact(); }
        if forms & 2 != 0 { y.compact(); }
        x.merge(&y);
        let both: Vec<u64> = a.iter().chain(&b).copied().collect();
        prop_assert_eq!(x, dense(&both));
    }

    #[test]
    fn times_is_repeated_merging_in_any_form(values in values(), n in 0u64..9, form in 0..3u8) {
        let mut one = Histogram::default();
        values.iter().for_each(|value| one.record(*value));
        if form == 1 { one = dense(&values); }
        if form == 2 { one.compact(); }
        let mut merged = Histogram::default();
        (0..n).for_each(|_| merged.merge(&one));
        prop_assert_eq!(&one.times(n), &merged);
        prop_assert_eq!(Histogram::default().times(n), Histogram::default());
        let mut after = one.times(n);
        after.record(7);
        merged.record(7);
        prop_assert_eq!(after, merged, "it goes on recording");
    }

    #[test]
    fn diff_undoes_merge_up_to_bucket_width(a in values(), b in values()) {
        let earlier = dense(&a);
        let mut later = earlier.clone();
        b.iter().for_each(|v| later.record(*v));
        let interval = later.diff(&earlier);
        let exact = dense(&b);
        prop_assert_eq!(interval.count(), exact.count());
        prop_assert_eq!(interval.sum(), exact.sum());
        prop_assert!(interval.indexed().eq(exact.indexed()));
        prop_assert_eq!(interval.min().map(index_of), exact.min().map(index_of));
        prop_assert_eq!(interval.max().map(index_of), exact.max().map(index_of));
    }

    #[test]
    fn stored_and_read_back_is_equal(values in values()) {
        let histogram = dense(&values);
        let text = serde_json::to_string(&histogram).expect("serializes");
        prop_assert_eq!(serde_json::from_str::<Histogram>(&text).expect("reads back"), histogram);
    }

    #[test]
    fn take_empties_and_leaves_a_clean_recorder(a in values(), b in values()) {
        let mut recorder = dense(&a);
        prop_assert_eq!(recorder.take(), dense(&a));
        prop_assert_eq!(recorder.count(), 0);
        b.iter().for_each(|v| recorder.record(*v));
        prop_assert_eq!(&recorder, &dense(&b));
        recorder.compact();
        b.iter().for_each(|v| recorder.record(*v));
        prop_assert_eq!(recorder.count(), 2 * b.len() as u64);
    }
}
