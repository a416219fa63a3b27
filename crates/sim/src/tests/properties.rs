use super::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is asked: no panic, the window is whole, no more than the limits allow.
    #[test]
    fn any_workload_ends(
        n in 1usize..6,
        bs in prop::sample::select(vec![512u64, 4096, 65_536, 1 << 20]),
        iodepth in 1u32..64,
        numjobs in 1u32..4,
        sequential: bool,
        mix in prop::sample::select(vec![Mix::Read, Mix::Write, Mix::Rewrite, Mix::Mixed { read_percent: 70 }]),
        direct: bool,
        end_fsync: bool,
        size in prop::option::of(1u64..32 << 20),
        layout in 0usize..4,
        seed: u64,
    ) {
        let kind = [
            stripe(),
            ArrayKind::Linear,
            ArrayKind::Mirror,
            if n >= 3 { ArrayKind::Raid5 { chunk: CHUNK } } else { stripe() },
        ][layout];
        let mut experiment = experiment(n.max(if kind == ArrayKind::Mirror { 2 } else { 1 }), kind, &shape());
        experiment.environment.host.memory = Some(Bytes(16 << 20));
        let workload = Workload {
            access: if sequential { Access::Sequential } else { Access::Random },
            mix, bs: Bytes(bs), iodepth, numjobs, direct, end_fsync,
            stop: size.map_or(Stop::Runtime(Nanos::from_millis(400)), |size| Stop::Size(Bytes(size))),
            warm_up: Nanos::from_millis(if size.is_some() { 0 } else { 100 }),
            ..randread()
        };
        let trial = Trial { seed, ..trial(0) };
        let samples = simulate(&experiment, seed, &experiment.designs[0], &workload, &trial, &Control::default());
        let samples = samples.expect("simulates");
        if let Some(size) = size {
            let asked = if mix == Mix::Rewrite { 2 * size } else { size };
            prop_assert_eq!(samples.array.read.count.bytes + samples.array.write.count.bytes, asked);
        } else {
            prop_assert!(samples.elapsed >= Nanos::from_millis(400));
        }
        if direct && samples.elapsed.0 > 0 {
            let most = 125e6 * n.max(2) as f64 * (samples.elapsed.as_secs_f64() + 0.12) + 3e6;
            prop_assert!(throughput(&samples) * samples.elapsed.as_secs_f64() <= most);
        }
    }
}
