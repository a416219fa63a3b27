use super::*;
use ebbtide_model::layout::Arrangement;

#[test]
fn cpu_limits_a_job_and_cores_limit_all_jobs() {
    let mut fast = shape();
    fast.iops = None;
    fast.throughput = None;
    let mut experiment = experiment(4, stripe(), &fast);
    experiment.environment.host.cpu_per_io = Nanos(20_000);
    experiment.environment.host.cores = 2;
    for (jobs, expected) in [(1, 50_000.0), (2, 100_000.0), (8, 100_000.0)] {
        let workload =
            Workload { numjobs: jobs, iodepth: 128, stop: Stop::Runtime(Nanos::from_secs(1)), ..randread() };
        let samples = run(&experiment, &workload);
        close(iops(&samples), expected, 0.01);
        assert!(jobs > 2 || samples.cpu.busiest_thread_permille > Some(980), "{:?}", samples.cpu);
    }
}

#[test]
fn requests_are_split_at_the_largest() {
    let mut experiment = experiment(1, stripe(), &shape());
    experiment.environment.host.max_request = Some(Bytes(128 << 10));
    let samples = run(&experiment, &seqread());
    let member = &samples.members[0].ops.read.count;
    assert_eq!(member.bytes, member.ops << 17);
    close(member.ops as f64, 8.0 * ops(&samples) as f64, 0.02);
}

fn buffered(memory: u64) -> Experiment {
    let mut experiment = experiment(4, stripe(), &shape());
    experiment.environment.host.memory = Some(Bytes(memory));
    experiment
}

#[test]
fn readahead_decides_what_one_buffered_reader_gets() {
    let workload = Workload { direct: false, iodepth: 1, bs: Bytes(128 << 10), ..seqread() };
    let mut experiment = buffered(64 << 20);
    experiment.environment.host.readahead = Some(Bytes(128 << 10));
    let small = throughput(&run(&experiment, &workload));
    experiment.environment.host.readahead = Some(Bytes(8 << 20));
    let large = throughput(&run(&experiment, &workload));
    close(large, 4.0 * 125e6, 0.02);
    assert!(small < 0.6 * large, "{small} {large}");
}

#[test]
fn readahead_is_two_stripes_as_md_has_it() {
    let mirrors = |arrangement| ArrayKind::Raid10 { chunk: Bytes(512 << 10), copies: 2, arrangement };
    for (kind, expected) in [
        (ArrayKind::Stripe { chunk: Bytes(512 << 10) }, 4 << 20),
        (mirrors(Arrangement::Near), 2 << 20),
        (mirrors(Arrangement::Far), 4 << 20),
    ] {
        let samples = run(&experiment(4, kind, &shape()), &seqread());
        let device = &samples.observed.as_ref().unwrap().devices[0];
        assert_eq!(device.readahead, Some(Bytes(expected)), "{kind:?}");
    }
}

#[test]
fn what_fits_into_memory_is_read_from_memory_the_second_time() {
    // The span is a quarter of memory; the first pass takes 1 GiB / 500 MB/s.
    let workload = Workload {
        direct: false,
        iodepth: 1,
        bs: Bytes(1 << 20),
        span: Some(Bytes(1 << 30)),
        warm_up: Nanos::from_secs(10),
        ..seqread()
    };
    let mut experiment = buffered(4 << 30);
    experiment.environment.host.readahead = Some(Bytes(8 << 20));
    let samples = run(&experiment, &workload);
    close(throughput(&samples), 4e9, 0.01);
    assert_eq!(samples.members[0].ops.read.count.ops, 0);
    experiment.environment.host.memory = Some(Bytes(512 << 20));
    close(throughput(&run(&experiment, &workload)), 4.0 * 125e6, 0.02);
}

#[test]
fn buffered_writes_look_fast_until_the_memory_is_dirty_and_fsync_tells() {
    let write = Workload {
        direct: false,
        iodepth: 1,
        mix: Mix::Write,
        warm_up: Nanos(0),
        stop: Stop::Size(Bytes(1 << 30)),
        ..seqread()
    };
    let plenty = run(&buffered(16 << 30), &write);
    close(throughput(&plenty), 4e9, 0.02);
    let synced = run(&buffered(16 << 30), &Workload { end_fsync: true, ..write.clone() });
    close(throughput(&synced), 4.0 * 125e6, 0.25);
    assert!(throughput(&synced) < 4.0 * 125e6 * 1.15);
    // 64 MiB of memory hold 12.8 MiB of dirty pages.
    let scarce = run(&buffered(64 << 20), &write);
    close(throughput(&scarce), 4.0 * 125e6, 0.03);
}

#[test]
fn buffered_io_without_memory_is_refused_with_a_remedy() {
    let refused = try_run(&experiment(1, stripe(), &shape()), &Workload { direct: false, ..seqread() });
    assert!(refused.expect_err("refused").to_string().contains("memory = "));
}

/// One O_SYNC write at a time waits for the flush of every member of a stripe, the slowest of them.
#[test]
fn a_durable_write_takes_a_flush_of_every_member() {
    let each = |members: usize, flush: Option<Latency>| {
        let mut slow = Shape { write_latency: Latency::Constant(Nanos::from_millis(1)), ..Shape::default() };
        slow.read_latency = slow.write_latency;
        slow.character.flush_latency = flush;
        let workload = Workload {
            sync: true,
            iodepth: 1,
            mix: Mix::Write,
            warm_up: Nanos(0),
            ..Workload::new("log", Access::Random, Mix::Write, Stop::Runtime(Nanos::from_secs(5)))
        };
        let samples = run(&experiment(members, stripe(), &slow), &workload);
        samples.elapsed.as_secs_f64() * 1e3 / samples.array.write.count.ops as f64
    };
    close(each(2, None), 1.0, 0.02);
    close(each(2, Some(Latency::Constant(Nanos::from_millis(3)))), 4.0, 0.02);
    let spread = Some(Latency::Lognormal { median: Nanos::from_millis(3), p99: Nanos::from_millis(9) });
    assert!(each(8, spread) > 1.3 * each(1, spread), "the slowest of eight");
}
