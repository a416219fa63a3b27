use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const BLOCKS: u64 = 16_384;

fn draws(law: &str, blocks: u64, seed: u64, n: usize) -> Vec<u64> {
    let skew = Skew::new(&Distribution::parse(law).expect(law), blocks, seed);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 1);
    (0..n).map(|_| skew.draw(&mut rng)).collect()
}

/// Share of the operations that the hottest `of` blocks have.
fn share(draws: &[u64], of: usize) -> f64 {
    let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
    draws.iter().for_each(|block| *counts.entry(*block).or_default() += 1);
    let mut counts: Vec<u32> = counts.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    f64::from(counts.iter().take(of).sum::<u32>()) / draws.len() as f64
}

/// Shares of the 1, 10, 163 (1%), 1638 (10%) and 3277 (20%) hottest of 16384 blocks in 409600 random reads of fio 3.33, from
/// its `--write_iolog`.
const FIO: [(&str, [f64; 5]); 6] = [
    ("zipf:1.2", [0.2043, 0.5258, 0.7882, 0.9200, 0.9503]),
    ("zipf:0.8", [0.0330, 0.1222, 0.3151, 0.5823, 0.6912]),
    ("pareto:0.2", [0.2593, 0.3573, 0.5267, 0.7276, 0.8041]),
    ("normal:0", [0.0004, 0.0036, 0.0532, 0.4516, 0.7688]),
    ("normal:10", [0.0004, 0.0034, 0.0502, 0.4311, 0.7432]),
    ("normal:30", [0.0003, 0.0025, 0.0366, 0.3171, 0.5795]),
];

/// fio's Zipf distribution is an approximation, and its hash puts some blocks onto others, which makes hot ones hotter.
#[test]
fn the_hottest_blocks_have_the_share_that_they_have_in_fio() {
    for (law, of_fio) in FIO {
        let drawn = draws(law, BLOCKS, 7, 409_600);
        for (of, fio) in [1, 10, 163, 1638, 3277].into_iter().zip(of_fio) {
            let ours = share(&drawn, of);
            let off = 0.012_f64.max(if law.starts_with("normal") { 0.12 * fio } else { 0.04 * fio });
            assert!((ours - fio).abs() < off, "{law}: {of} hottest: {ours:.4}, fio {fio}");
        }
    }
}

/// Every weight, added up one by one.
#[test]
fn zipf_is_exact() {
    for theta in [0.05, 0.5, 0.99, 1.0, 1.000_000_01, 1.2, 3.0, 20.0] {
        for most in [1, 2, 3, 10, 1000] {
            let weight = |k: u64| (k as f64).powf(-theta);
            let all: f64 = (1..=most).map(weight).sum();
            let zipf = Zipf::new(theta, most);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(most);
            let n = 100_000;
            let mut counts = vec![0.0; most as usize];
            (0..n).for_each(|_| counts[zipf.draw(&mut rng) as usize - 1] += 1.0);
            // Chi-square over those that are expected at least 10 times and the rest as one.
            let (mut sum, mut cells, mut rest) = (0.0_f64, 0.0_f64, (0.0, 0.0));
            for (k, count) in (1..=most).zip(&counts) {
                let expected = weight(k) / all * f64::from(n);
                if expected < 10.0 {
                    rest = (rest.0 + expected, rest.1 + count);
                    continue;
                }
                sum += (count - expected).powi(2) / expected;
                cells += 1.0;
            }
            if rest.0 >= 10.0 {
                sum += (rest.1 - rest.0).powi(2) / rest.0;
                cells += 1.0;
            }
            // Five standard deviations above its mean.
            assert!(
                sum <= cells + 5.0 * (2.0 * cells).sqrt() + 5.0,
                "theta {theta}, {most}: {sum} of {cells}"
            );
        }
    }
}

#[test]
fn zipf_of_very_many_blocks_has_the_share_of_the_hottest_that_its_sum_gives() {
    // zeta(1.2) = 5.591582; the tail from n on is n^-0.2 / 0.2.
    let most = 1u64 << 40;
    let zipf = Zipf::new(1.2, most);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let first = (0..100_000).filter(|_| zipf.draw(&mut rng) == 1).count() as f64 / 1e5;
    let expected = 1.0 / (5.591_582 - (most as f64).powf(-0.2) / 0.2);
    assert!((first - expected).abs() < 0.006, "{first} {expected}");
}

#[test]
fn zones_have_their_operations_in_their_order() {
    let drawn = draws("zoned:60/10:30/20:/30:2/40", 1000, 1, 100_000);
    let within = |low, high| drawn.iter().filter(|block| (low..high).contains(*block)).count() as f64 / 1e5;
    for ((low, high), share) in [((0, 100), 0.6), ((100, 300), 0.3), ((300, 600), 0.08), ((600, 1000), 0.02)]
    {
        assert!((within(low, high) - share).abs() < 0.006, "{low}: {}", within(low, high));
    }
    // Uniform within: each tenth of a zone has its tenth.
    assert!((within(0, 10) - 0.06).abs() < 0.004);
    // More zones than blocks.
    assert!(draws("zoned:50/1:50/99", 3, 1, 1000).iter().all(|block| *block < 3));
}

#[test]
fn hot_blocks_lie_scattered_and_elsewhere_with_another_seed() {
    let hottest = |seed| {
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        draws("zipf:1.2", BLOCKS, seed, 20_000).iter().for_each(|b| *counts.entry(*b).or_default() += 1);
        let mut hottest: Vec<(u32, u64)> = counts.into_iter().map(|(block, n)| (n, block)).collect();
        hottest.sort_unstable_by(|a, b| b.cmp(a));
        hottest.into_iter().take(8).map(|(_, block)| block).collect::<Vec<_>>()
    };
    let one = hottest(1);
    let (low, high) = (one.iter().min().expect("8"), one.iter().max().expect("8"));
    assert!(high - low > BLOCKS / 4, "{one:?}");
    assert_ne!(one, hottest(2));
}

#[test]
fn what_is_no_distribution_is_refused() {
    for law in [
        "zipf:0",
        "zipf:-1",
        "zipf:nan",
        "zipf:x",
        "zipf:1.2:0.5",
        "zipf:1.2,1.1",
        "pareto:0",
        "pareto:1",
        "normal:101",
        "zoned",
        "zoned:60/10",
        "zoned:60/50:50/50",
        "zoned:100/0:0/100",
        "zoned:1/2/3:",
        "zoned_abs:1/2",
        "random:1",
        "flat",
    ] {
        assert!(Distribution::parse(law).is_err(), "{law}");
    }
    for law in ["random", "zipf:1.2", "pareto:0.2", "normal:30", "zoned:60/10:40/90"] {
        assert_eq!(Distribution::parse(law).expect(law).to_string(), law);
    }
    assert_eq!(Distribution::parse("zipf").expect("fio's default").to_string(), "zipf:1.1");
}

proptest! {
    #[test]
    fn the_scatter_is_a_permutation(blocks in 1u64..3000, seed: u64) {
        let scatter = Scatter::new(blocks, seed);
        let mut all: Vec<u64> = (0..blocks).map(|n| scatter.at(n)).collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..blocks).collect::<Vec<_>>());
    }

    #[test]
    fn every_draw_is_a_block(blocks in prop_oneof![1u64..20, Just(1 << 52), Just(u64::MAX / 4)], law in 0usize..5, seed: u64) {
        let law = ["zipf:0.4", "zipf:3", "pareto:0.01", "normal:100", "zoned:1/99:99/1"][law];
        prop_assert!(draws(law, blocks, seed, 200).iter().all(|block| *block < blocks));
    }
}
