use super::*;
use ebbtide_model::layout::Arrangement;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::MemberSamples;
use ebbtide_model::volume::{Failure, FailureKind};

#[test]
fn a_stripe_scales_until_the_link() {
    for n in [1, 2, 4, 8] {
        let mut experiment = experiment(n, stripe(), &shape());
        experiment.links = vec![LinkShape {
            name: "gigabit".into(),
            iops: None,
            throughput: Some(Limit::steady(300e6)),
            one_way: PerOp::default(),
        }];
        close(iops(&run(&experiment, &Workload { iodepth: 256, ..randread() })), 3000.0 * n as f64, 0.01);
        close(throughput(&run(&experiment, &seqread())), 125e6 * n as f64, 0.01);
        for volume in &mut experiment.volumes {
            volume.shape.as_mut().expect("has one").link = Some(0);
        }
        close(throughput(&run(&experiment, &seqread())), (125e6 * n as f64).min(300e6), 0.01);
    }
}

#[test]
fn linear_works_one_disk_and_a_stripe_all() {
    let linear = run(&experiment(8, ArrayKind::Linear, &shape()), &seqread());
    close(throughput(&linear), 125e6, 0.01);
    let busy = linear.members.iter().filter(|member| member.ops.read.count.ops > 0).count();
    assert_eq!(busy, 1);
    let striped = run(&experiment(8, stripe(), &shape()), &seqread());
    let total: u64 = striped.members.iter().map(|member| member.ops.read.count.bytes).sum();
    for member in &striped.members {
        close(member.ops.read.count.bytes as f64, total as f64 / 8.0, 0.02);
    }
}

#[test]
fn one_slow_member_drags_a_stripe_to_n_times_its_own_speed() {
    let mut experiment = experiment(8, stripe(), &shape());
    let slow = experiment.volumes[3].shape.as_mut().expect("has one");
    slow.iops = Some(Limit::steady(600.0));
    slow.throughput = Some(Limit::steady(25e6));
    close(iops(&run(&experiment, &Workload { iodepth: 256, ..randread() })), 8.0 * 600.0, 0.02);
    close(throughput(&run(&experiment, &seqread())), 8.0 * 25e6, 0.02);
}

#[test]
fn a_mirror_reads_from_both_and_writes_to_both() {
    let experiment = experiment(2, ArrayKind::Mirror, &shape());
    close(iops(&run(&experiment, &randread())), 6000.0, 0.01);
    let written = run(&experiment, &Workload { mix: Mix::Write, ..randread() });
    close(iops(&written), 3000.0, 0.01);
    for member in &written.members {
        close(member.ops.write.count.ops as f64, ops(&written) as f64, 0.001);
    }
}

/// What md does, measured over three hosts (docs/studies/three-hosts.md): a mirror's first member answers everything.
#[test]
fn one_reader_of_a_mirror_finds_the_first_member_idle_each_time() {
    let one = Workload { iodepth: 1, ..randread() };
    let mirror = run(&experiment(3, ArrayKind::Mirror, &shape()), &one);
    let reads: Vec<u64> = mirror.members.iter().map(|member| member.ops.read.count.ops).collect();
    assert_eq!((reads[0], reads[1], reads[2]), (ops(&mirror), 0, 0));
}

#[test]
fn one_reader_of_near_copies_reads_from_all_members() {
    let one = Workload { iodepth: 1, ..randread() };
    let kind = ArrayKind::Raid10 { copies: 2, arrangement: Arrangement::Near, chunk: CHUNK };
    let near = run(&experiment(3, kind, &shape()), &one);
    for member in &near.members {
        close(member.ops.read.count.ops as f64, ops(&near) as f64 / 3.0, 0.05);
    }
}

#[test]
fn the_reads_of_a_lost_copy_go_to_all_that_are_left() {
    let mut experiment = experiment(3, ArrayKind::Mirror, &shape());
    let first = experiment.volumes[0].shape.as_mut().expect("has one");
    first.character.failure = Some(Failure { kind: FailureKind::Error, at: Nanos(1), lasts: None });
    let samples = run(&experiment, &randread());
    close(iops(&samples), 6000.0, 0.02);
}

#[test]
fn raid5_pays_four_ios_for_a_small_write_and_none_extra_for_a_whole_stripe() {
    let experiment = experiment(5, ArrayKind::Raid5 { chunk: CHUNK }, &shape());
    let small = run(&experiment, &Workload { mix: Mix::Write, iodepth: 256, ..randread() });
    close(iops(&small), 5.0 * 3000.0 / 4.0, 0.02);
    let whole = Workload { mix: Mix::Write, bs: Bytes(4 * CHUNK.0), ..seqread() };
    close(throughput(&run(&experiment, &whole)), 4.0 * 125e6, 0.02);
}

/// Of 10 MB/s and no latency to speak of, with chunks of 64 KiB: 4 members, of which a stream should move this many.
fn small_disks(n: usize, kind: ArrayKind) -> Experiment {
    let shape = Shape { throughput: Some(Limit::steady(10e6)), iops: None, ..shape() };
    experiment(n, kind, &shape)
}

fn busy(samples: &TrialSamples) -> usize {
    let moved = |member: &MemberSamples| {
        let ops = &member.ops;
        ops.read.count.bytes + ops.write.count.bytes
    };
    let most = samples.members.iter().map(moved).max().unwrap_or(0);
    samples.members.iter().filter(|member| 2 * moved(member) > most).count()
}

fn deep(mix: Mix, bs: u64) -> Workload {
    Workload { mix, bs: Bytes(bs), ..seqread() }
}

/// Every chunk chooses its copy (md's raid10.c, read_balance): 39.7 MB/s on four such disks under md.
#[test]
fn one_deep_stream_works_all_members_of_raid10_and_one_of_a_mirror() {
    for arrangement in [Arrangement::Near, Arrangement::Far, Arrangement::Offset] {
        let kind = ArrayKind::Raid10 { copies: 2, arrangement, chunk: CHUNK };
        let read = run(&small_disks(4, kind), &deep(Mix::Read, 256 << 10));
        close(throughput(&read), 40e6, 0.03);
        assert_eq!(busy(&read), 4, "{arrangement:?}");
    }
    let mirror = run(&small_disks(3, ArrayKind::Mirror), &deep(Mix::Read, 256 << 10));
    close(throughput(&mirror), 10e6, 0.03);
    assert_eq!(busy(&mirror), 1);
    let streams = Workload { numjobs: 3, span: Some(Bytes(1 << 29)), ..deep(Mix::Read, 256 << 10) };
    assert_eq!(busy(&run(&small_disks(3, ArrayKind::Mirror), &streams)), 3);
}

/// A stripe of 192 KiB: what writes leave of it, the next ones fill while it waits.
#[test]
fn deep_sequential_writes_fill_stripes_whatever_their_size() {
    let raid5 = small_disks(4, ArrayKind::Raid5 { chunk: CHUNK });
    for bs in [128 << 10, 192 << 10, 256 << 10, 1 << 20] {
        let written = run(&raid5, &deep(Mix::Write, bs));
        close(throughput(&written), 29e6, 0.06);
        let read: u64 = written.members.iter().map(|member| member.ops.read.count.bytes).sum();
        assert!(read * 15 < written.array.write.count.bytes, "{bs}: {read}");
    }
    let raid6 = small_disks(6, ArrayKind::Raid6 { chunk: CHUNK });
    close(throughput(&run(&raid6, &deep(Mix::Write, 256 << 10))), 40e6, 0.1);
}

/// Pages merge with the oldest request that waits for their disk, and with no other: of one operation all, of many few.
#[test]
fn deep_random_operations_of_raid5_share_few_requests() {
    let mut experiment = small_disks(4, ArrayKind::Raid5 { chunk: CHUNK });
    let mean = |experiment: &Experiment, mix, iodepth| {
        let samples = run(experiment, &Workload { mix, iodepth, bs: Bytes(64 << 10), ..randread() });
        let counts = |member: &MemberSamples| [member.ops.read.count, member.ops.write.count];
        let of = |part: fn(&ebbtide_model::samples::Count) -> u64| {
            samples.members.iter().flat_map(counts).map(|count| part(&count)).sum::<u64>()
        };
        of(|count| count.bytes) / of(|count| count.ops)
    };
    assert_eq!(mean(&experiment, Mix::Write, 1), 64 << 10);
    let deep = mean(&experiment, Mix::Write, 32);
    assert!(deep < 12 << 10, "{deep}");
    let lost = experiment.volumes[1].shape.as_mut().expect("has one");
    lost.character.failure = Some(Failure { kind: FailureKind::Error, at: Nanos(1), lasts: None });
    assert_eq!(mean(&experiment, Mix::Read, 1), 64 << 10);
    let deep = mean(&experiment, Mix::Read, 32);
    assert!(deep < 24 << 10, "{deep}");
}

/// One write at a time fills no stripe, but the pages that it reads for the first write of a stripe serve the others.
#[test]
fn one_sequential_writer_reads_the_rest_of_each_stripe_once() {
    let raid5 = small_disks(4, ArrayKind::Raid5 { chunk: CHUNK });
    let written = run(&raid5, &Workload { iodepth: 1, ..deep(Mix::Write, 4 << 10) });
    let of = |op: fn(&MemberSamples) -> u64| written.members.iter().map(op).sum::<u64>() as f64;
    let asked = written.array.write.count.bytes as f64;
    close(of(|member| member.ops.read.count.bytes), asked * 2.0 / 3.0, 0.02);
    close(of(|member| member.ops.write.count.bytes), asked * 2.0, 0.01);
}

/// Random writes find nothing in the cache: of 5 members two old pages are the fewer to read, of 3 the one other.
#[test]
fn what_is_read_for_parity_is_the_fewer() {
    for (members, reads) in [(3, 1.0), (4, 2.0), (5, 2.0), (8, 2.0)] {
        let experiment = small_disks(members, ArrayKind::Raid5 { chunk: CHUNK });
        let written = run(&experiment, &Workload { mix: Mix::Write, iodepth: 8, ..randread() });
        let read: u64 = written.members.iter().map(|member| member.ops.read.count.bytes).sum();
        close(read as f64, reads * written.array.write.count.bytes as f64, 0.02);
    }
}

/// Buffered writes come in large pieces that fill stripes.
#[test]
fn what_is_written_back_gathers_too() {
    let mut experiment = small_disks(4, ArrayKind::Raid5 { chunk: CHUNK });
    experiment.environment.host.memory = Some(Bytes(64 << 20));
    let workload = Workload { direct: false, iodepth: 1, ..deep(Mix::Write, 64 << 10) };
    let written = run(&experiment, &workload);
    close(throughput(&written), 30e6, 0.1);
}

/// Without one member each page is read once: those of the lost one are computed from what is read anyhow.
#[test]
fn a_stream_of_reads_of_raid5_without_a_member_reads_each_page_once() {
    let mut experiment = small_disks(4, ArrayKind::Raid5 { chunk: CHUNK });
    let lost = experiment.volumes[1].shape.as_mut().expect("has one");
    lost.character.failure = Some(Failure { kind: FailureKind::Error, at: Nanos(1), lasts: None });
    let samples = run(&experiment, &deep(Mix::Read, 192 << 10));
    close(throughput(&samples), 30e6, 0.05);
    let written = run(&experiment, &deep(Mix::Write, 192 << 10));
    close(throughput(&written), 30e6, 0.05);
}

/// Reads that go through the cache and writes that wait for the same pages do not hold each other up for good.
#[test]
fn reads_and_writes_of_raid5_without_a_member_go_on() {
    let mut experiment = small_disks(4, ArrayKind::Raid5 { chunk: CHUNK });
    let lost = experiment.volumes[1].shape.as_mut().expect("has one");
    lost.character.failure = Some(Failure { kind: FailureKind::Error, at: Nanos(1), lasts: None });
    let workload = Workload {
        mix: Mix::Mixed { read_percent: 50 },
        span: Some(Bytes(1 << 20)),
        stop: Stop::Runtime(Nanos::from_secs(20)),
        ..randread()
    };
    let samples = run(&experiment, &workload);
    let of = |interval: &ebbtide_model::samples::Interval| interval.array.read.ops + interval.array.write.ops;
    let (begin, end) = (of(&samples.series[2]), of(&samples.series[18]));
    assert!(2 * end > begin, "{begin} {end}");
}
