//! What the host's own counters show: memory, interrupts, the workers of dm-crypt.

use super::*;
use crate::analysis::fixtures::trial;
use crate::samples::{
    DeviceObservation, DiskUse, GroupMemory, MemberObservation, MemoryUse, Observation, PerOp, TrialSamples,
};
use VerdictKind::{Cpu, Memory, SyncWrites, Unknown};

/// Shares of the time of a trial.
#[derive(Clone, Copy)]
struct Waited {
    some: f64,
    full: f64,
    /// Other processes in the load's control group.
    others: u32,
    /// Busy share of the device, and requests at it.
    device: (f64, f64),
}

const WAITS: Waited = Waited { some: 0.6, full: 0.55, others: 0, device: (0.3, 0.3) };

/// A trial beside these waits for memory in the load's control group of 40 MiB.
fn waited(seen: Waited) -> impl Fn(&Trial) -> TrialSamples {
    move |_| {
        let mut samples = trial(&[("v0", 5000, 200_000)]);
        let part = |share: f64| Nanos::from_secs_f64(share * samples.elapsed.as_secs_f64());
        let group = GroupMemory {
            others: Some(seen.others),
            limit: Some(Bytes(40 << 20)),
            met: Some(60_000),
            pressure_some: Some(part(seen.some)),
            pressure_full: Some(part(seen.full)),
        };
        let memory = MemoryUse {
            pressure_some: Some(part(seen.some)),
            group: Some(group),
            refaulted: Some(Bytes(64 << 20)),
            ..MemoryUse::default()
        };
        let (busy, queue) = (part(seen.device.0), part(seen.device.1));
        // All that was asked for went to the device: nothing of it is a cache's.
        let bytes = PerOp { read: samples.array.read.count.bytes, write: 0 };
        let total = DiskUse { busy, weighted: queue, bytes, ..DiskUse::default() };
        samples.observed = Some(Box::new(Observation {
            devices: vec![DeviceObservation { name: "vda".into(), total, ..DeviceObservation::default() }],
            members: vec![MemberObservation {
                member: "v0".into(),
                devices: vec![0],
                ..MemberObservation::default()
            }],
            memory: Some(memory),
            ..Observation::default()
        }));
        samples
    }
}

/// Buffered reads, so many in flight.
fn buffered(iodepth: u32) -> Experiment {
    let mut experiment = stripe(1);
    experiment.workloads[0].direct = false;
    experiment.workloads[0].iodepth = iodepth;
    experiment
}

#[test]
fn a_load_that_waits_for_memory_in_its_control_group() {
    let verdict = &verdicts(&six_rounds(&buffered(1), waited(WAITS)))[0];
    assert_eq!(verdict.kind, Memory);
    assert_eq!(
        verdict.sentence,
        "60% of the time the load waits until memory is free, not for the disk (the group's limit of 40MiB was met 30.0 k times a \
         second): a higher limit, a smaller working set or direct I/O would help"
    );
    assert!((verdict.explains - 0.6).abs() < 1e-9);
    // Opposites: it hardly waited; direct I/O; nobody counted it for the group alone.
    assert_eq!(
        kinds(&six_rounds(&buffered(1), waited(Waited { some: 0.05, full: 0.05, ..WAITS }))),
        [Unknown]
    );
    let mut direct = buffered(1);
    direct.workloads[0].direct = true;
    assert!(!kinds(&six_rounds(&direct, waited(WAITS))).contains(&Memory));
    let host_only = |t: &Trial| {
        let mut samples = waited(WAITS)(t);
        samples.observed.as_mut().and_then(|o| o.memory.as_mut()).expect("is observed").group = None;
        samples
    };
    let (why, figures) = ruled_out(&six_rounds(&buffered(1), host_only), Memory);
    assert!(why.contains("may be another"), "{why}");
    assert_eq!(figures, [(0.6, Some(0.1))]);
}

#[test]
fn several_in_flight_take_most_of_the_time_and_none_at_the_devices() {
    assert_eq!(kinds(&six_rounds(&buffered(8), waited(WAITS))), [Memory]);
    assert_eq!(kinds(&six_rounds(&buffered(8), waited(Waited { full: 0.4, ..WAITS }))), [Unknown]);
    // Five of eight are at the device.
    let at_device = Waited { device: (0.8, 5.0), ..WAITS };
    let (why, _) = ruled_out(&six_rounds(&buffered(8), waited(at_device)), Memory);
    assert!(why.contains("at the members' devices"), "{why}");
}

#[test]
fn another_process_in_the_group_may_be_what_waits() {
    let others = Waited { others: 2, ..WAITS };
    let verdict = &verdicts(&six_rounds(&buffered(1), waited(others)))[0];
    assert_eq!((verdict.kind, verdict.confidence), (Memory, 0.7));
    assert!(verdict.sentence.contains("in which other processes are too"), "{}", verdict.sentence);
    // The load's one operation is at the disk nearly all the time: whoever waits for memory is not the load.
    let at_disk = Waited { device: (0.95, 0.95), ..others };
    let (why, figures) = ruled_out(&six_rounds(&buffered(1), waited(at_disk)), Memory);
    assert!(why.contains("another process"), "{why}");
    assert!((figures[0].0 - 0.05).abs() < 1e-9);
}

#[test]
fn writes_that_wait_for_a_busy_disk_wait_for_the_disk() {
    let mut writes = buffered(1);
    writes.workloads[0].mix = crate::workload::Mix::Write;
    assert_eq!(kinds(&six_rounds(&writes, waited(WAITS)))[0], Memory);
    let full = Waited { device: (0.97, 30.0), ..WAITS };
    let (why, _) = ruled_out(&six_rounds(&writes, waited(full)), Memory);
    assert!(why.starts_with("the disks are busy all the time"), "{why}");
}

#[test]
fn the_larger_of_memory_and_a_processor_comes_first() {
    let both = |waited_permille: u32, some: f64| {
        move |t: &Trial| {
            let mut samples = waited(Waited { some, full: some, ..WAITS })(t);
            samples.cpu.most_waiting_permille = Some(waited_permille);
            samples.cpu.least_idle_permille = Some(waited_permille + 100);
            samples
        }
    };
    assert_eq!(kinds(&six_rounds(&buffered(1), both(250, 0.7))), [Memory, Cpu]);
    assert_eq!(kinds(&six_rounds(&buffered(1), both(700, 0.3))), [Cpu, Memory]);
}

#[test]
fn a_durable_write_that_waits_for_memory_says_so_first() {
    let mut writes = buffered(1);
    writes.workloads[0].mix = crate::workload::Mix::Write;
    writes.workloads[0].sync = true;
    assert_eq!(kinds(&six_rounds(&writes, waited(WAITS))), [Memory, SyncWrites]);
    let little = Waited { some: 0.2, full: 0.2, ..WAITS };
    assert_eq!(kinds(&six_rounds(&writes, waited(little))), [SyncWrites, Memory]);
}
