use super::*;
use ebbtide_model::volume::Mood;
use ebbtide_model::workload::Arrival;

#[test]
fn the_series_adds_up_and_stays_bounded() {
    let experiment = experiment(3, stripe(), &shape());
    let samples = run(&experiment, &randread());
    let sum: u64 = samples.series.iter().map(|interval| interval.array.read.ops).sum();
    assert_eq!(sum, samples.array.read.count.ops);
    for (index, member) in samples.members.iter().enumerate() {
        let sum: u64 = samples.series.iter().map(|interval| interval.members[index].read.ops).sum();
        assert_eq!(sum, member.ops.read.count.ops);
        assert_eq!(member.ops.read.latency.count(), sum);
    }
    assert_eq!(samples.series.last().map(|interval| interval.end), Some(samples.elapsed));
    // A day by size at 20 operations per second: the intervals grow instead of their number.
    let slow = Workload {
        arrival: Arrival::Fixed { iops: 2.0 },
        stop: Stop::Size(Bytes(4096 * 50_000)),
        ..randread()
    };
    let day = run(&experiment, &slow);
    assert!(day.series.len() <= 2048, "{}", day.series.len());
    assert_eq!(
        day.series.iter().map(|interval| interval.array.read.ops).sum::<u64>(),
        day.array.read.count.ops
    );
    assert_eq!(
        day.array.read.count.bytes + day.array.read.count.bytes % 4096,
        4096 * day.array.read.count.ops
    );
}

/// A small volume with credits for five minutes.
fn bursting() -> Shape {
    Shape {
        iops: Some(Limit { rate: 30.0, burst_rate: Some(300.0), burst_credits: 81_000.0 }),
        throughput: None,
        ..shape()
    }
}

#[test]
fn long_steady_stretches_are_leapt_over() {
    // 81 000 / (300 - 30) = 300 s of burst on each of two, then 30 until the hour is over.
    let mut experiment = experiment(2, stripe(), &bursting());
    let hour = Workload {
        stop: Stop::Runtime(Nanos::from_secs(3600)),
        warm_up: Nanos(0),
        iodepth: 256,
        ..randread()
    };
    let samples = run(&experiment, &hour);
    let expected = 2.0 * (300.0 * 300.0 + 3300.0 * 30.0);
    close(ops(&samples) as f64, expected, 0.01);
    let sum: u64 = samples.series.iter().map(|interval| interval.array.read.ops).sum();
    assert_eq!(sum, ops(&samples));
    assert_eq!(samples.array.read.latency.count(), ops(&samples));
    let member = &samples.members[0];
    close(member.ops.read.count.ops as f64, expected / 2.0, 0.01);
    close(member.model.expect("known").limited.total() as f64, expected / 2.0, 0.01);
    let credits = member.model.and_then(|model| model.iops_credits).expect("bursts");
    assert!(credits < 0.05, "{credits}");
    close(samples.mean_in_flight.expect("measured"), 256.0, 0.03);
    // The burst ends when it must: after 300 s, seen in intervals of 4 s.
    let fast = samples.series.iter().filter(|interval| interval.array.read.ops > 4 * 300).count();
    close(fast as f64 * samples.interval.as_secs_f64(), 300.0, 0.03);
    // Moods cut stretches short: their shares of time show in the mean rate.
    for volume in &mut experiment.volumes {
        let shape = volume.shape.as_mut().expect("has one");
        shape.iops = Some(Limit::steady(100.0));
        shape.character.moods = [("good", 1.0), ("bad", 0.5)]
            .map(|(name, rate)| Mood {
                name: name.into(),
                dwell: Nanos::from_secs(300),
                weight: 1.0,
                rate,
                latency: 1.0,
            })
            .to_vec();
    }
    let day = Workload { stop: Stop::Runtime(Nanos::from_secs(86_400)), ..hour };
    let samples = run(&experiment, &day);
    // A stripe runs at twice its slower member: 200 when both are good, a quarter of the time.
    close(iops(&samples), 2.0 * (0.25 * 100.0 + 0.75 * 50.0), 0.06);
    assert!(samples.series.len() <= 1024);
}

#[test]
fn a_leap_changes_nothing_that_can_be_known() {
    // 20 s never leap, 20 min do; nothing changes in them.
    let experiment = experiment(4, stripe(), &shape());
    let mut link = experiment.clone();
    link.links = vec![LinkShape { throughput: Some(Limit::steady(30e6)), ..link_of("link") }];
    for volume in &mut link.volumes {
        volume.shape.as_mut().expect("has one").link = Some(0);
    }
    for experiment in [&experiment, &link] {
        let of = |seconds| {
            let stop = Stop::Runtime(Nanos::from_secs(seconds));
            let workload = Workload { stop, iodepth: 256, ..randread() };
            run(experiment, &workload)
        };
        let (full, leapt) = (of(20), of(1200));
        close(iops(&leapt), iops(&full), 0.005);
        for p in [50.0, 99.0] {
            let at =
                |samples: &TrialSamples| samples.array.read.latency.percentile(p).expect("has operations");
            close(at(&leapt) as f64, at(&full) as f64, 0.1);
        }
    }
}
