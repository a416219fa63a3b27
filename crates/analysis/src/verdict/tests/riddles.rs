//! Questions as they are asked in public, each with the answer that should come out. Those that a test elsewhere asks are in the table of
//! docs/explanation/verdict-accuracy.md.

use super::host::{ENCRYPTED, encrypted, with_thread};
use super::queues::durable;
use super::*;
use crate::WarningKind;
use crate::fixtures::trial;
use crate::observe::outlier::{MemberFigures, outliers, spared};
use VerdictKind::{Cpu, InstanceLimit, SyncWrites};
use ebbtide_model::catalog::Catalog;

/// "RAID0 of two NVMe drives is slower than one of them for my database."
#[test]
fn a_stripe_of_two_that_is_slower_than_one_for_a_log() {
    let mut session = durable(true, &[(2, 560), (1, 300), (4, 1000)]);
    let two = stripe(2);
    (session.experiment.volumes, session.experiment.designs) = (two.volumes, two.designs);
    let rungs = session.meta.rungs.iter_mut().map(|rung| &mut rung.samples);
    let trials = session.trials.iter_mut().filter_map(|record| match &mut record.outcome {
        Outcome::Samples(samples) => Some(samples),
        Outcome::Failed(_) => None,
    });
    // Each write is on one of the two, and flushes both.
    for samples in trials.chain(rungs) {
        let mut other = samples.members[0].clone();
        other.name = "v1".into();
        samples.members.push(other);
        let Some(observed) = &mut samples.observed else { continue };
        let mut device = observed.devices[0].clone();
        device.name = "sdb".into();
        observed.devices.push(device);
        let mut member = observed.members[0].clone();
        (member.member, member.devices) = ("v1".into(), vec![1]);
        observed.members.push(member);
    }
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, SyncWrites);
    for said in [
        "one synchronous write at a time",
        "each flushes all 2 members and waits for the slowest",
        "where a log on one volume alone flushes one",
        "8 made durable together would take",
        "4 at a time had 3.3 times the rate",
    ] {
        assert!(verdict.sentence.contains(said), "{said}: {}", verdict.sentence);
    }
}

/// "RAID6 writes crawl; all disks are 30% busy."
#[test]
fn writes_to_a_raid6_whose_disks_are_idle() {
    let verdict = &verdicts(&with_thread("md0", "md0_raid6 (pid 77)", 1.0, 0.3))[0];
    assert_eq!(verdict.kind, Cpu);
    for said in [
        "md0_raid6 uses 100% of a core",
        "busy 30%",
        "group_thread_cnt",
        "stripe_cache_size",
        "whole stripes",
    ] {
        assert!(verdict.sentence.contains(said), "{said}: {}", verdict.sentence);
    }
}

/// "During a check three of 36 drives show four times the await at the same %util. Replace them?"
#[test]
fn three_drives_that_have_the_same_bytes_in_small_requests() {
    let drive = |at: usize| {
        let (requests, wait) = if at < 3 { (12_207.0, 20.0) } else { (100.0, 5.0) };
        MemberFigures {
            name: format!("sd{at}"),
            requests_per_second: requests,
            bytes_per_second: 50e6,
            await_ms: Some(wait),
            queue: requests * wait / 1000.0,
            util: Some(0.4),
        }
    };
    let drives: Vec<MemberFigures> = (0..36).map(drive).collect();
    assert!(outliers(&drives, 60.0).is_empty());
    let spared = spared(&drives, 60.0);
    assert_eq!(spared.len(), 3);
    let why = "it does more work: 12207 requests/s against 100, for as many bytes: how they are split and merged above it makes them";
    assert!(spared.iter().all(|drive| drive.because == [why]), "{spared:?}");
}

/// "Four gp3 on an m6i.large: 1.25 GB/s in my test, 80 MB/s in production."
#[test]
fn an_instance_whose_link_bursts_for_half_an_hour_a_day() {
    let mut experiment = shaped(stripe(4), 100_000.0, Nanos::from_millis(1));
    experiment.links =
        vec![Catalog::builtin().instance("m6i.large").expect("known").link().expect("has one")];
    for volume in &mut experiment.volumes {
        volume.shape.as_mut().expect("is shaped").link = Some(0);
    }
    let session = six_rounds(&experiment, |_| {
        // 128 KiB each.
        let mut samples = trial(&["v0", "v1", "v2", "v3"].map(|name| (name, 2380, 4_000_000)));
        samples.members.iter_mut().for_each(|member| member.ops.read.count.bytes *= 32);
        samples.array.read.count.bytes *= 32;
        samples
    });
    let analysis = analyse(&session);
    let result = &analysis.results[0];
    assert_eq!(result.verdicts[0].kind, InstanceLimit);
    let sentence = &result.verdicts[0].sentence;
    assert!(sentence.contains("1.25 GB/s while its credits last; 81.2 MB/s is what lasts"), "{sentence}");
    let lasting = result.lasting.as_ref().expect("it bursts").in_words();
    assert!(lasting.contains("1.25 GB/s in these trials, 81.2 MB/s is what lasts"), "{lasting}");
    assert!(analysis.warnings.iter().any(|warning| warning.kind == WarningKind::AboveLasting));
}

/// "LUKS on my NVMe array halves the throughput."
#[test]
fn encryption_that_halves_the_throughput() {
    let run = |options: &[&'static str]| {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let session = six_rounds(&stripe(1), |t| {
            let mut samples = encrypted(ENCRYPTED)(t);
            let devices = &mut samples.observed.as_mut().expect("is observed").devices;
            devices[0].encryption.as_mut().expect("is encrypted").options = options.clone();
            samples
        });
        verdicts(&session).swap_remove(0)
    };
    let verdict = run(&[]);
    assert_eq!(verdict.kind, Cpu);
    let queues = "no_read_workqueue and no_write_workqueue do without the workers";
    assert!(verdict.sentence.contains("dm-crypt's workers use 1.6 cores"), "{}", verdict.sentence);
    assert!(verdict.sentence.contains(queues), "{}", verdict.sentence);
    // Opposite: whoever has set both is not told to.
    let without = run(&["no_read_workqueue", "no_write_workqueue"]);
    assert!(!without.sentence.contains(queues), "{}", without.sentence);
}
