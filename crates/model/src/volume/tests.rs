use super::latency::normal_quantile;
use super::limiter::{Limiter, TOLERANCE};
use super::*;
use crate::units::{Instant, MemberOffset};
use proptest::prelude::*;
use std::collections::BinaryHeap;

const SECOND: u64 = Nanos::PER_SECOND;

fn at(ms: u64) -> Instant {
    Instant::START + Nanos::from_millis(ms)
}

fn submit(model: &mut Model, now: u64, op: OpKind, offset: u64, len: u64) -> Instant {
    model.submit(Instant(now), op, MemberOffset(offset), Bytes(len), None)
}

fn latency(median_us: u64, p99_us: u64) -> Latency {
    Latency::Lognormal { median: Nanos(median_us * 1000), p99: Nanos(p99_us * 1000) }
}

/// Operations that complete within `seconds` in a closed loop of `depth` whose caller is up to `late` ns late.
fn closed_loop(
    model: &mut Model,
    link: &mut Option<Link>,
    bs: u64,
    depth: usize,
    seconds: u64,
    late: u64,
) -> u64 {
    let mut due = BinaryHeap::from(vec![std::cmp::Reverse(0u64); depth]);
    let (mut done, mut offset, mut jitter) = (0, 0, 1u64);
    while let Some(std::cmp::Reverse(now)) = due.pop() {
        jitter = jitter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let now = now + (jitter >> 33) % (late + 1);
        let end = model.submit(Instant(now), OpKind::Read, MemberOffset(offset), Bytes(bs), link.as_mut());
        offset += bs * 7;
        if end.0 <= seconds * SECOND {
            done += 1;
            due.push(std::cmp::Reverse(end.0));
        }
    }
    done
}

#[test]
fn a_saturating_closed_loop_holds_the_limit_at_any_size_and_depth() {
    let shape = Shape {
        iops: Some(Limit::steady(3000.0)),
        throughput: Some(Limit::steady(125.0 * 1024.0 * 1024.0)),
        io_unit: Some(Bytes(256 << 10)),
        read_latency: latency(200, 800),
        ..Shape::default()
    };
    for bs in [512u64, 4 << 10, 16 << 10, 42 << 10, 128 << 10, 1 << 20] {
        for depth in [1, 2, 8, 32, 256] {
            for late in [0, 60_000] {
                let expected =
                    (3000.0 / bs.div_ceil(256 << 10) as f64).min(125.0 * 1048576.0 / bs as f64) * 10.0;
                let done = closed_loop(&mut Model::new(&shape, 7), &mut None, bs, depth, 10, late) as f64;
                assert!(
                    (done / expected - 1.0).abs() < 0.005,
                    "bs {bs} depth {depth} late {late}: {done} of {expected}"
                );
            }
        }
    }
}

#[test]
fn gp2_bursts_until_its_credits_are_spent() {
    let limit = Limit { rate: 300.0, burst_rate: Some(3000.0), burst_credits: 270_000.0 };
    let shape = Shape { iops: Some(limit), read_latency: latency(500, 2000), ..Shape::default() };
    let mut model = Model::new(&shape, 1);
    // 270 k / (3000 - 300) = 100 s of burst.
    let done = closed_loop(&mut model, &mut None, 4096, 16, 99, 0) as f64;
    assert!((done / (3000.0 * 99.0) - 1.0).abs() < 0.001, "{done}");
    let mut model = Model::new(&shape, 1);
    let done = closed_loop(&mut model, &mut None, 4096, 16, 200, 0) as f64;
    assert!((done / (3000.0 * 100.0 + 300.0 * 100.0) - 1.0).abs() < 0.001, "{done}");
    let credits =
        |s: u64| model.report(Instant(s * SECOND)).iops_credits.map_or(-1.0, |share| share * 270_000.0);
    let left = credits(200);
    assert!((0.0..100.0).contains(&left), "{left}");
    let refilled = credits(300);
    assert!((refilled - 30_000.0).abs() < 500.0, "{refilled}");
}

#[test]
fn a_shared_link_limits_the_sum_and_the_model_knows() {
    let shape =
        Shape { throughput: Some(Limit::steady(100e6)), read_latency: latency(300, 900), ..Shape::default() };
    let link = LinkShape {
        name: "nic".into(),
        iops: None,
        throughput: Some(Limit::steady(125e6)),
        one_way: PerOp::default(),
    };
    let mut link = Link::new(&link);
    let mut models: Vec<Model> = (0..4).map(|seed| Model::new(&shape, seed)).collect();
    let mut due: BinaryHeap<_> = (0..32).map(|slot| std::cmp::Reverse((0u64, slot % 4))).collect();
    let mut bytes = 0u64;
    while let Some(std::cmp::Reverse((now, member))) = due.pop() {
        let end = models[member].submit(
            Instant(now),
            OpKind::Write,
            MemberOffset(0),
            Bytes(131_072),
            Some(&mut link),
        );
        if end.0 <= 10 * SECOND {
            bytes += 131_072;
            due.push(std::cmp::Reverse((end.0, member)));
        }
    }
    assert!((bytes as f64 / 1.25e9 - 1.0).abs() < 0.005, "{bytes}");
    for model in &models {
        let counts = model.report(Instant(0)).limited;
        assert!(counts.link_throughput > counts.total() * 9 / 10, "{counts:?}");
    }
}

#[test]
fn an_idle_limit_costs_nothing_and_says_latency() {
    let shape = Shape {
        iops: Some(Limit::steady(3000.0)),
        read_latency: Latency::Constant(Nanos::from_millis(1)),
        ..Shape::default()
    };
    let mut model = Model::new(&shape, 3);
    for i in 0..100 {
        let now = Instant(i * 10_000_000);
        assert_eq!(submit(&mut model, now.0, OpKind::Read, 0, 4096), now + Nanos::from_millis(1));
    }
    assert_eq!(model.report(Instant(0)).limited, LimitedCounts { latency: 100, ..LimitedCounts::default() });
}

#[test]
fn sequential_operations_share_accounting_units_when_asked_to() {
    let mut shape =
        Shape { iops: Some(Limit::steady(100.0)), io_unit: Some(Bytes(1 << 20)), ..Shape::default() };
    shape.character.merge_sequential = true;
    // 64 operations of 128 KiB in a row are 8 units: the first passes at once, the others take 10 ms each.
    let mut model = Model::new(&shape, 1);
    let last = (0..64u64).map(|i| submit(&mut model, 0, OpKind::Read, i << 17, 1 << 17)).max();
    assert_eq!(last, Some(at(70)));
    // Scattered ones count each.
    let mut model = Model::new(&shape, 1);
    let last = (0..64u64).map(|i| submit(&mut model, 0, OpKind::Read, i << 21, 1 << 17)).max();
    assert_eq!(last, Some(at(630)));
    // A large one still counts every unit it covers.
    let mut model = Model::new(&shape, 1);
    submit(&mut model, 0, OpKind::Read, 8 << 20, 4096);
    assert_eq!(submit(&mut model, 0, OpKind::Read, 0, 3 << 20), at(30));
}

#[test]
fn lognormal_latencies_have_their_median_and_p99() {
    let shape = Shape { read_latency: latency(500, 3000), ..Shape::default() };
    let mut model = Model::new(&shape, 11);
    let mut drawn: Vec<u64> = (0..200_000).map(|_| submit(&mut model, 0, OpKind::Read, 0, 4096).0).collect();
    drawn.sort_unstable();
    let at = |p: f64| drawn[(p * drawn.len() as f64) as usize] as f64;
    assert!((at(0.5) / 500_000.0 - 1.0).abs() < 0.02, "{}", at(0.5));
    assert!((at(0.99) / 3_000_000.0 - 1.0).abs() < 0.05, "{}", at(0.99));
    // The 99.9th percentile: median * exp(sigma * 3.0902), from the exact tail.
    let expected = 500_000.0 * libm::exp(libm::log(6.0) / 2.326_347_874 * 3.090_232_306);
    assert!((at(0.999) / expected - 1.0).abs() < 0.15, "{} {expected}", at(0.999));
}

#[test]
fn normal_quantiles_invert_the_distribution() {
    for (p, z) in [
        (0.5, 0.0),
        (0.975, 1.959_963_984_540_054),
        (0.99, 2.326_347_874_040_841),
        (1e-6, -4.753_424_308_822_899),
    ] {
        assert!((normal_quantile(p) - z).abs() < 1e-7, "{p}");
    }
    for i in 1..1000 {
        let p = f64::from(i) / 1000.0;
        let back = 0.5 * libm::erfc(-normal_quantile(p) / std::f64::consts::SQRT_2);
        assert!((back - p).abs() < 1e-8, "{p} {back}");
    }
}

#[test]
fn latencies_are_the_same_figures_everywhere() {
    // Pinned: a change here changes the result of every seeded run.
    let shape = Shape { read_latency: latency(500, 3000), ..Shape::default() };
    let mut model = Model::new(&shape, 42);
    let drawn: Vec<u64> = (0..5).map(|_| submit(&mut model, 0, OpKind::Read, 0, 4096).0).collect();
    assert_eq!(drawn, [995_361, 347_876, 2_605_082, 750_722, 939_306]);
}

#[test]
fn impossible_rates_do_not_panic() {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300] {
        let limit = Limit { rate, burst_rate: Some(f64::NAN), burst_credits: f64::INFINITY };
        let shape = Shape { iops: Some(limit), throughput: Some(limit), ..Shape::default() };
        let mut model = Model::new(&shape, 0);
        for now in [u64::MAX, 0, 5] {
            assert!(submit(&mut model, now, OpKind::Write, u64::MAX, u64::MAX) >= Instant(now));
        }
    }
}

proptest! {
    /// Over any arrival pattern no window lets more through than rate * (window + tolerance) + credits.
    #[test]
    fn no_arrival_pattern_beats_the_limit(
        rate in 50.0..50_000.0f64,
        burst in prop::option::of((1.0..5.0f64, 0.0..5000.0f64)),
        gaps in prop::collection::vec(prop_oneof![Just(0u64), 0..2_000_000u64, 0..200_000_000u64], 1..300),
    ) {
        let limit = match burst {
            Some((factor, credits)) => Limit { rate, burst_rate: Some(rate * factor), burst_credits: credits },
            None => Limit::steady(rate),
        };
        let mut limiter = Limiter::with_credits(&limit, 1.0);
        let mut now = Instant::START;
        let ends: Vec<Instant> =
            gaps.iter().map(|gap| { now += Nanos(*gap); limiter.take(now, 1.0).end.max(now) }).collect();
        let tolerance = TOLERANCE.as_secs_f64();
        for from in 0..ends.len() {
            for to in from..ends.len() {
                let window = (ends[to] - ends[from]).as_secs_f64() + 2e-9;
                let passed = (to - from + 1) as f64;
                prop_assert!(passed <= rate * (window + tolerance) + limiter.credits_max() + 1.001);
                if let Some((factor, _)) = burst {
                    prop_assert!(passed <= rate * factor * (window + tolerance) + 1.001);
                }
            }
        }
    }

    #[test]
    fn completions_are_deterministic_and_never_in_the_past(
        seed: u64,
        ops in prop::collection::vec((0..10_000_000u64, 0..1u64 << 40, 1..1u64 << 22, any::<bool>()), 1..200),
    ) {
        let limit = Limit { rate: 800.0, burst_rate: Some(2000.0), burst_credits: 50.0 };
        let shape = Shape {
            iops: Some(limit),
            throughput: Some(Limit::steady(50e6)),
            io_unit: Some(Bytes(1 << 18)),
            read_latency: latency(300, 2000),
            write_latency: latency(600, 1000),
            ..Shape::default()
        };
        let (mut one, mut two) = (Model::new(&shape, seed), Model::new(&shape, seed));
        for (now, offset, len, read) in ops {
            let op = if read { OpKind::Read } else { OpKind::Write };
            let end = submit(&mut one, now, op, offset, len);
            prop_assert!(end >= Instant(now));
            prop_assert_eq!(end, submit(&mut two, now, op, offset, len));
        }
    }
}

#[test]
fn a_spindle_serves_one_operation_at_a_time() {
    let seek = Seek {
        track_to_track: Nanos(800_000),
        full_stroke: Nanos::from_millis(16),
        rotation: Nanos(8_333_333),
        transfer: 100e6,
        capacity: Bytes(1 << 40),
    };
    let mut shape = Shape::default();
    shape.character.seek = Some(seek);
    // Sequential: the transfer rate, whatever the depth.
    let mut model = Model::new(&shape, 1);
    let last = (0..1000u64).map(|i| submit(&mut model, 0, OpKind::Read, i * 100_000, 100_000)).max();
    assert_eq!(last, Some(at(1_000)));
    assert_eq!(model.report(Instant(0)).limited.device, 1000);
    // Random over everything: the mean of 0.8 + 15.2 sqrt(d) ms, d the distance of two uniform points
    // (E sqrt(d) = 8/15), and half a rotation.
    let mut model = Model::new(&shape, 1);
    let mut at = 1u64;
    let mut last = Instant::START;
    for _ in 0..20_000 {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        last = submit(&mut model, last.0, OpKind::Read, (at >> 24) & !4095, 4096);
    }
    let mean_ms = last.elapsed().as_secs_f64() * 1000.0 / 20_000.0;
    let expected = 0.8 + 15.2 * 8.0 / 15.0 + 8.333 / 2.0 + 0.041;
    assert!((mean_ms / expected - 1.0).abs() < 0.02, "{mean_ms} {expected}");
}

#[test]
fn a_far_cache_answers_the_share_that_fits() {
    let mut shape = Shape { read_latency: Latency::Constant(Nanos::from_millis(10)), ..Shape::default() };
    shape.character.cache =
        Some(FarCache { size: Bytes(256 << 20), latency: Latency::Constant(Nanos(300_000)) });
    let mut model = Model::new(&shape, 4);
    submit(&mut model, 0, OpKind::Write, (1 << 30) - 4096, 4096);
    for i in 0..10_000u64 {
        submit(&mut model, 0, OpKind::Read, (i * 104_729 * 4096) % (1 << 30), 4096);
    }
    let hits = model.report(Instant(0)).cache_hits;
    assert!((2300..2700).contains(&hits), "{hits}");
}

#[test]
fn each_block_pays_its_first_touch_once() {
    let mut shape = Shape::default();
    shape.character.first_touch =
        Some(FirstTouch { block: Bytes(512 << 10), latency: Latency::Constant(Nanos::from_millis(20)) });
    let mut model = Model::new(&shape, 4);
    for _ in 0..2 {
        for i in 0..256u64 {
            submit(&mut model, 0, OpKind::Read, i * 65_536, 65_536);
        }
    }
    assert_eq!(model.report(Instant(0)).first_touches, 32);
    // Far beyond what is kept in detail: no panic, bounded memory.
    submit(&mut model, 0, OpKind::Read, u64::MAX - 4096, 4096);
}

#[test]
fn moods_scale_limits_and_births_differ() {
    let mut shape = Shape { iops: Some(Limit::steady(1000.0)), ..Shape::default() };
    shape.character.moods =
        vec![Mood { name: "bad".into(), dwell: Nanos::from_secs(60), weight: 1.0, rate: 0.25, latency: 4.0 }];
    let done = closed_loop(&mut Model::new(&shape, 1), &mut None, 4096, 8, 10, 0);
    assert!((2490..2510).contains(&done), "{done}");
    shape.character.moods.clear();
    shape.character.birth = Some(Birth { rate_sigma: 0.2, latency_sigma: 0.2 });
    let rates: Vec<f64> = (0..200)
        .map(|seed| closed_loop(&mut Model::new(&shape, seed), &mut None, 4096, 8, 1, 0) as f64)
        .map(|done| libm::log(done / 1000.0))
        .collect();
    let mean = rates.iter().sum::<f64>() / 200.0;
    let sigma = (rates.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 200.0).sqrt();
    assert!(mean.abs() < 0.05 && (sigma - 0.2).abs() < 0.03, "{mean} {sigma}");
}

#[test]
fn a_frozen_volume_answers_after_the_thaw_and_a_dead_one_errors() {
    let mut shape = Shape { read_latency: Latency::Constant(Nanos::from_millis(1)), ..Shape::default() };
    let at = Nanos::from_secs(1);
    shape.character.failure =
        Some(Failure { kind: FailureKind::Freeze, at, lasts: Some(Nanos::from_secs(5)) });
    let mut model = Model::new(&shape, 0);
    let mut done = |ms: u64| submit(&mut model, ms * 1_000_000, OpKind::Read, 0, 4096).0;
    assert_eq!(done(500), 501_000_000);
    assert_eq!(done(2000), 6_001_000_000);
    assert_eq!(done(7000), 7_001_000_000);
    shape.character.failure = Some(Failure { kind: FailureKind::Error, at, lasts: None });
    let model = Model::new(&shape, 0);
    assert_eq!(model.fails(Instant(0)), None);
    assert_eq!(model.fails(Instant::START + Nanos::from_secs(9)), Some(FailureKind::Error));
}

#[test]
fn credits_need_not_be_full_at_the_start() {
    let limit = Limit { rate: 300.0, burst_rate: Some(3000.0), burst_credits: 270_000.0 };
    let mut shape = Shape { iops: Some(limit), ..Shape::default() };
    shape.character.credits_at_start = Some(0.1);
    let done = closed_loop(&mut Model::new(&shape, 1), &mut None, 4096, 16, 20, 0) as f64;
    assert!((done / (10.0 * 3000.0 + 10.0 * 300.0) - 1.0).abs() < 0.005, "{done}");
}

#[test]
fn an_nfs_server_counts_writes_five_times_and_at_least_4_kib() {
    let mut shape = Shape {
        iops: Some(Limit::steady(35_000.0)),
        throughput: Some(Limit::steady(105e6)),
        ..Shape::default()
    };
    shape.character.costs = Some(Costs { read: 1.0, write: 5.0, min_bytes: Bytes(4096), write_bytes: 1.0 });
    let mut model = Model::new(&shape, 0);
    let last = (0..7000u64).map(|i| submit(&mut model, 0, OpKind::Write, i, 1)).max();
    // 35,000 a second, of which the first 5 pass at once.
    assert_eq!(last, Some(Instant(999_857_143)));
    let mut model = Model::new(&shape, 0);
    let last = (0..30_000u64).map(|i| submit(&mut model, 0, OpKind::Read, i, 1)).max();
    assert_eq!(last.map(|t| t.0 / 1_000_000), Some((30_000 * 4096 * 1000u64) / 105_000_000));
}

#[test]
fn an_hdd_volume_counts_whole_units_and_merges_what_is_sequential() {
    let mut shape = Shape {
        throughput: Some(Limit::steady(40.0 * 1048576.0)),
        io_unit: Some(Bytes(1 << 20)),
        ..Shape::default()
    };
    shape.character.merge_sequential = true;
    shape.character.costs =
        Some(Costs { read: 1.0, write: 1.0, min_bytes: Bytes(1 << 20), write_bytes: 1.0 });
    let mut model = Model::new(&shape, 0);
    let last = (0..320u64).map(|i| submit(&mut model, 0, OpKind::Read, i << 17, 1 << 17)).max();
    assert_eq!(last, Some(at(975)));
    let mut model = Model::new(&shape, 0);
    let last = (0..40u64).map(|i| submit(&mut model, 0, OpKind::Read, i << 24, 4096)).max();
    assert_eq!(last, Some(at(975)));
}

/// Who comes alone waits for no limit, at the start and after every pause; who comes twice waits for the second.
#[test]
fn an_operation_by_itself_passes_at_once() {
    let shape = Shape {
        iops: Some(Limit::steady(10.0)),
        read_latency: Latency::Constant(Nanos(500_000)),
        ..Shape::default()
    };
    let mut model = Model::new(&shape, 1);
    for second in [0, 1_000_000_000u64, 2_000_000_000, 2_500_000_000] {
        assert_eq!(submit(&mut model, second, OpKind::Read, 0, 4096), Instant(second) + Nanos(500_000));
    }
    assert_eq!(submit(&mut model, 2_500_000_000, OpKind::Read, 0, 4096), at(2_600));
}
