use super::*;
use ebbtide_model::layout::Arrangement;
use ebbtide_model::per_op::PerOp;
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
