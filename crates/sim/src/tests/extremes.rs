//! Extreme but finite values: a trial ends, with samples or with an error that says what to write.

use super::*;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::volume::{Costs, FarCache, FirstTouch, Mood, OneWay, Seek};
use proptest::prelude::*;

/// So few I/Os that tests end soon.
const LITTLE: Work = Work { free: 1 << 14, most: 1e6 };

fn try_little(shape: &Shape, workload: &Workload) -> Result<TrialSamples, BackendError> {
    let experiment = experiment(2, stripe(), shape);
    let (design, control) = (&experiment.designs[0], Control::default());
    let run = TrialRun { design, workload, trial: &trial(300) };
    simulate_within(LITTLE, &experiment, 1, &[run], &control).map(|mut ran| ran.remove(0))
}

fn instant() -> Shape {
    let nothing = Latency::Constant(Nanos(0));
    Shape { iops: None, throughput: None, read_latency: nothing, write_latency: nothing, ..shape() }
}

fn bursting(rate: f64, burst: f64, credits: f64) -> Option<Limit> {
    Some(Limit { rate, burst_rate: Some(burst), burst_credits: credits })
}

#[test]
fn bursts_without_end_are_refused_before_they_begin() {
    for shape in [
        Shape { iops: bursting(100.0, 1e18, 1e18), ..instant() },
        Shape { iops: bursting(1e-300, 1e300, 1e300), ..instant() },
        Shape { throughput: bursting(1e6, 1.8e19, 1.8e19), ..instant() },
        Shape { iops: Some(Limit::steady(1e18)), ..instant() },
    ] {
        let told = try_little(&shape, &randread()).expect_err("is refused").to_string();
        assert!(told.contains("bursts too") && told.contains("give its shape a latency"), "{told}");
    }
    // A limit that does not burst that far keeps time going, and so does a latency.
    for shape in [
        Shape { iops: bursting(100.0, 1e18, 1e18), throughput: Some(Limit::steady(1e6)), ..instant() },
        Shape { iops: bursting(100.0, 1e18, 1e18), ..shape() },
    ] {
        assert!(ops(&try_little(&shape, &randread()).expect("simulates")) > 0);
    }
}

#[test]
fn volumes_that_are_faster_than_can_be_simulated_are_told_so() {
    let nanosecond = Latency::Constant(Nanos(1));
    let with = |change: &dyn Fn(&mut Shape)| {
        let mut shape = Shape { iops: Some(Limit::steady(1000.0)), ..instant() };
        change(&mut shape);
        shape
    };
    let once = Costs { read: 1e-300, write: 1e-300, min_bytes: Bytes(1), write_bytes: 1.0 };
    for (shape, workload) in [
        (Shape { read_latency: nanosecond, write_latency: nanosecond, ..instant() }, randread()),
        (with(&|shape| shape.iops = Some(Limit::steady(999_999_999.0))), randread()),
        (with(&|shape| shape.character.costs = Some(once)), randread()),
        // Merged into one unit of a pebibyte, none of them costs anything.
        (
            with(&|shape| {
                (shape.io_unit, shape.character.merge_sequential) = (Some(Bytes(1 << 50)), true);
            }),
            Workload { bs: Bytes(4096), ..seqread() },
        ),
        // What is cached costs no operations.
        (
            with(&|shape| {
                let size = Bytes(1 << 40);
                shape.iops = Some(Limit::steady(1e6));
                shape.character.cache = Some(FarCache { size, latency: Latency::Constant(Nanos(0)) });
            }),
            Workload { span: Some(Bytes(1 << 16)), ..randread() },
        ),
        (shape(), Workload { stop: Stop::Size(Bytes(1 << 60)), ..randread() }),
        (shape(), Workload { stop: Stop::Runtime(Nanos::from_secs(1 << 27)), ..seqread() }),
    ] {
        let told = try_little(&shape, &workload).expect_err("would not end").to_string();
        assert!(told.contains("I/Os brought the simulation to"), "{told}");
        assert!(told.contains("give the volumes a latency or lower limits"), "{told}");
    }
}

#[test]
fn a_burst_before_a_long_rest_is_simulated() {
    // 10,000 operations at once, and then a trickle.
    let shape = Shape { iops: bursting(10.0, 1e8, 1e4), ..instant() };
    let day = Workload { stop: Stop::Runtime(Nanos::from_secs(86_400)), ..randread() };
    let samples = try_little(&shape, &day).expect("simulates");
    close(ops(&samples) as f64, 2.0 * 864_000.0, 0.05);
}

#[test]
fn an_event_in_ten_days_costs_no_look_at_each_second_between() {
    let slow = Latency::Constant(Nanos::from_secs(864_000));
    let shape = Shape { read_latency: slow, ..shape() };
    let long = Workload { stop: Stop::Runtime(Nanos::from_secs(1 << 32)), iodepth: 1, ..randread() };
    let samples = try_little(&shape, &long).expect("simulates");
    close(ops(&samples) as f64, (1_u64 << 32) as f64 / 864_000.0, 0.01);
}

#[test]
fn a_mood_that_is_hardly_ever_entered_costs_no_walk_through_years_of_others() {
    let mood = |name: &str, dwell, weight| Mood { name: name.into(), dwell, weight, rate: 1.0, latency: 1.0 };
    let mut shape = shape();
    shape.character.moods = vec![
        mood("a", Nanos::from_millis(1), 1000.0),
        mood("b", Nanos::from_millis(1), 1000.0),
        mood("c", Nanos::from_secs(36_500 * 86_400), 1e-300),
    ];
    let mut experiment = experiment(2, stripe(), &shape);
    experiment.answer.rest = Nanos::from_secs(300 * 86_400);
    for index in [0, 1, 50] {
        let trial = trial(index);
        let (design, control) = (&experiment.designs[0], Control::default());
        simulate(&experiment, 1, design, &randread(), &trial, &control).expect("simulates");
    }
}

/// Numbers of every magnitude.
fn magnitude() -> impl Strategy<Value = f64> {
    prop_oneof![(-300.0..300.0f64).prop_map(|exponent| libm::pow(10.0, exponent)), 0.1..1e7f64]
}

fn limit() -> impl Strategy<Value = Option<Limit>> {
    let burst = prop::option::of((magnitude(), magnitude()));
    prop::option::of((magnitude(), burst).prop_map(|(rate, burst)| Limit {
        rate,
        burst_rate: burst.map(|(burst, _)| burst),
        burst_credits: burst.map_or(0.0, |(_, credits)| credits),
    }))
}

fn time() -> impl Strategy<Value = Nanos> {
    (0u32..64, any::<u64>()).prop_map(|(bits, time)| Nanos(time >> bits))
}

fn latency() -> impl Strategy<Value = Latency> {
    prop_oneof![
        time().prop_map(Latency::Constant),
        (time(), time()).prop_map(|(a, b)| Latency::Lognormal { median: a.min(b), p99: a.max(b) }),
    ]
}

fn size() -> impl Strategy<Value = Bytes> {
    (0u32..60, any::<u64>()).prop_map(|(bits, size)| Bytes((size >> bits).max(1)))
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let limits = (limit(), limit(), limit(), limit());
    let latencies = (latency(), latency(), latency());
    let traits = (any::<bool>(), prop::option::of(0.0..1.0f64), prop::option::of(size()));
    let medium = (time(), time(), magnitude(), size());
    let costs = (magnitude(), magnitude(), size());
    let moods = prop::collection::vec((time(), 0.001..1000.0f64, 0.001..1000.0f64), 0..4);
    (limits, latencies, traits, prop::option::of(medium), prop::option::of(costs), moods).prop_map(
        |(limits, latencies, (merge, share, unit), medium, costs, moods)| {
            let mut shape = Shape {
                iops: limits.0,
                throughput: limits.1,
                io_unit: unit,
                read_latency: latencies.0,
                write_latency: latencies.1,
                ..Shape::default()
            };
            let character = &mut shape.character;
            character.merge_sequential = merge;
            character.credits_at_start = share;
            character.one_way =
                PerOp { read: OneWay { iops: limits.2, throughput: limits.3 }, write: OneWay::default() };
            character.costs =
                costs.map(|(read, write, min_bytes)| Costs { read, write, min_bytes, write_bytes: read });
            if let Some((short, long, transfer, capacity)) = medium {
                let (track_to_track, full_stroke) = (short.min(long), short.max(long));
                let rotation = Nanos(8_333_333);
                character.seek = Some(Seek { track_to_track, full_stroke, rotation, transfer, capacity });
                character.cache = Some(FarCache { size: capacity, latency: latencies.2 });
                character.first_touch = Some(FirstTouch { block: Bytes(512 << 10), latency: latencies.2 });
            }
            character.moods = moods
                .into_iter()
                .map(|(dwell, weight, rate)| Mood {
                    name: "m".into(),
                    dwell: dwell.max(Nanos::from_millis(1)),
                    weight,
                    rate,
                    latency: rate,
                })
                .collect();
            shape
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_shape_ends(
        shape in any_shape(),
        stop in prop_oneof![time().prop_map(Stop::Runtime), size().prop_map(Stop::Size)],
        (sequential, writes, iodepth, think) in (any::<bool>(), any::<bool>(), 1..64u32, prop::option::of(time())),
    ) {
        let workload = Workload {
            iodepth,
            think_time: think.unwrap_or_default(),
            warm_up: Nanos(0),
            ..Workload::new(
                "w",
                if sequential { Access::Sequential } else { Access::Random },
                if writes { Mix::Write } else { Mix::Read },
                stop,
            )
        };
        if let Ok(samples) = try_little(&shape, &workload) {
            let iops = samples.array.read.count.ops as f64 / samples.elapsed.as_secs_f64().max(1e-9);
            prop_assert!(iops.is_finite());
        }
    }
}
