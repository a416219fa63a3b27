//! What the host's own counters show: memory, interrupts, the workers of dm-crypt, the threads of arrays.

use super::trees::{ASKED, disk, on, one, over};
use super::*;
use crate::fixtures::trial;
use VerdictKind::{Cpu, Memory, SyncWrites, Unknown};
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{
    Below, CoreUse, DeviceObservation, DiskUse, Encryption, GroupMemory, InterruptUse, Join,
    MemberObservation, MemoryUse, Observation, ProcessorUser, TrialSamples,
};

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
        "the load spends 60% of the time waiting for free memory, not for the disk (the group's limit of 40MiB was met 30.0 k times a \
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
    let (why, _) = ruled_out(&six_rounds(&buffered(1), host_only), Memory);
    assert!(why.contains("the load's own control group"), "{why}");
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
    assert_eq!((verdict.kind, verdict.confidence), (Memory, 0.6));
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
    writes.workloads[0].mix = ebbtide_model::workload::Mix::Write;
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
    writes.workloads[0].mix = ebbtide_model::workload::Mix::Write;
    writes.workloads[0].sync = true;
    assert_eq!(kinds(&six_rounds(&writes, waited(WAITS))), [Memory, SyncWrites]);
    let little = Waited { some: 0.2, full: 0.2, ..WAITS };
    assert_eq!(kinds(&six_rounds(&writes, waited(little))), [SyncWrites, Memory]);
}

/// What dm-crypt did over the disk vda.
#[derive(Clone, Copy)]
pub(super) struct Encrypted<'a> {
    /// Milliseconds of a request at the mapping and at the disk.
    times: (f64, f64),
    /// Requests at the disk for each at the mapping.
    split: f64,
    /// Cores that the workers used, and how they are called.
    workers: (f64, &'a str),
}

pub(super) const ENCRYPTED: Encrypted<'_> =
    Encrypted { times: (4.0, 1.0), split: 1.0, workers: (1.6, "kcryptd/253:0 (kworkers)") };

pub(super) fn encrypted(seen: Encrypted<'_>) -> impl Fn(&Trial) -> TrialSamples {
    move |_| {
        let mut samples = trial(&[("v0", 1000, 4_000_000)]);
        let part = |share: f64| Nanos::from_secs_f64(share * samples.elapsed.as_secs_f64());
        let ops = samples.array.read.count.ops;
        let device = |name: &str, number: &str, ops: f64, each: f64| {
            let time = Nanos((ops * each * 1e6) as u64);
            let bytes = PerOp { read: samples.array.read.count.bytes, write: 0 };
            let total = DiskUse {
                ops: PerOp { read: ops as u64, write: 0 },
                bytes,
                time: PerOp { read: time, write: Nanos(0) },
                busy: part(0.5),
                weighted: time,
                ..DiskUse::default()
            };
            DeviceObservation {
                name: name.into(),
                number: number.into(),
                total,
                ..DeviceObservation::default()
            }
        };
        let encryption = Encryption {
            cipher: Some("aes-xts-plain64".into()),
            sector: Some(Bytes(512)),
            aes_instructions: Some(true),
            ..Encryption::default()
        };
        let below = Below { devices: vec![1], join: Join::Through, missing: 0 };
        let mapping = DeviceObservation {
            alias: Some("secret".into()),
            encryption: Some(encryption),
            below: Some(below),
            ..device("dm-0", "253:0", ops as f64, seen.times.0)
        };
        let disk = device("vda", "254:0", ops as f64 * seen.split, seen.times.1);
        samples.observed = Some(Box::new(Observation {
            devices: vec![mapping, disk],
            members: vec![MemberObservation {
                member: "v0".into(),
                devices: vec![0, 1],
                below: Some(Below { devices: vec![0], join: Join::Through, missing: 0 }),
                ..MemberObservation::default()
            }],
            users: vec![ProcessorUser {
                who: seen.workers.1.into(),
                time: part(seen.workers.0),
                beside: None,
            }],
            ..Observation::default()
        }));
        samples
    }
}

#[test]
fn dm_crypts_workers_that_requests_wait_for() {
    let verdict = &verdicts(&six_rounds(&stripe(1), encrypted(ENCRYPTED)))[0];
    assert_eq!(verdict.kind, Cpu);
    assert!(
        verdict.sentence.starts_with(
            "encryption is the limit: dm-crypt's workers use 1.6 cores for 4.10 MB/s through secret, 390.6 s of processor time \
             for each GB, and requests are there for 75% of their time; sectors of 4096 instead of 512 bytes"
        ),
        "{}",
        verdict.sentence
    );
    assert!(!verdict.sentence.contains("no instructions"), "{}", verdict.sentence);
    assert!((verdict.explains - 0.75).abs() < 0.01);
    // The workers of Linux 6.10 and later, and the thread that sorts writes.
    let newer = Encrypted { workers: (1.6, "kcryptd-253:0-1 (kworkers)"), ..ENCRYPTED };
    assert_eq!(kinds(&six_rounds(&stripe(1), encrypted(newer))), [Cpu]);
    let writer = Encrypted { workers: (1.0, "dmcrypt_write/253:0 (pid 99)"), ..ENCRYPTED };
    assert_eq!(kinds(&six_rounds(&stripe(1), encrypted(writer))), [Cpu]);
}

#[test]
fn dm_crypts_workers_that_nothing_waits_for() {
    let why_not = |seen: Encrypted<'_>| {
        let (_, figures) = ruled_out(&six_rounds(&stripe(1), encrypted(seen)), Cpu);
        figures.iter().any(|(_, needed)| *needed == Some(super::super::cpu::ENCRYPTING.edge))
    };
    // The disk below is what takes the time; workers that have time left; those of another mapping.
    assert!(why_not(Encrypted { times: (4.0, 3.5), ..ENCRYPTED }));
    assert!(why_not(Encrypted { workers: (0.6, "kcryptd/253:0 (kworkers)"), ..ENCRYPTED }));
    assert!(why_not(Encrypted { workers: (1.6, "kcryptd/253:1 (kworkers)"), ..ENCRYPTED }));
    // Eight requests that the disk merged into one, or one that was split into eight, are not in dm-crypt.
    assert!(why_not(Encrypted { times: (4.0, 4.0), split: 0.125, ..ENCRYPTED }));
    assert!(why_not(Encrypted { times: (4.0, 0.5), split: 8.0, ..ENCRYPTED }));
}

#[test]
fn dm_crypts_workers_do_not_count_at_a_known_limit() {
    let shaped = shaped(stripe(1), 1000.0, Nanos(1));
    assert_eq!(kinds(&six_rounds(&shaped, encrypted(ENCRYPTED))), [VerdictKind::VolumeLimit]);
}

/// Writes to a RAID5 whose thread of this name uses so much of a core, while its disks are busy for this share of the time.
pub(super) fn with_thread(array: &'static str, who: &'static str, cores: f64, busy: f64) -> Session {
    six_rounds(&one(), move |_| {
        let (read, written) = (ASKED * 2 / 3, ASKED * 2 / 3);
        let parity = Join::Parity { parity: 1, of: 3, chunk: None };
        let [a, b, c] = ["sda", "sdb", "sdc"].map(|name| disk(name, read, written));
        let mut samples = on(&[over(array, &[1, 2, 3], parity), a, b, c], true);
        let part = |share: f64| Nanos::from_secs_f64(share * samples.elapsed.as_secs_f64());
        let user = ProcessorUser { who: who.into(), time: part(cores), beside: None };
        let (observed, busy) = (samples.observed.as_mut().expect("it was"), part(busy));
        observed.devices[1..].iter_mut().for_each(|device| device.total.busy = busy);
        observed.users = vec![user];
        samples
    })
}

#[test]
fn the_one_thread_of_an_array_that_requests_wait_for() {
    let full = |array, who| verdicts(&with_thread(array, who, 0.97, 0.4)).into_iter().find(|v| v.kind == Cpu);
    let found = full("md0", "md0_raid5 (pid 77)").expect("it is full");
    assert_eq!(
        found.sentence,
        "one thread does all that md0 needs beside reading and writing, and has no time left: md0_raid5 uses 97% of a core, while \
         the busiest of its devices is busy 40%; more threads (group_thread_cnt) and a larger stripe_cache_size in /sys/block/md0/md, writes of whole \
         stripes, or faster cores"
    );
    let of_lvm = full("dm-4", "mdX_raid5 (pid 77)").expect("it is full");
    assert!(!of_lvm.sentence.contains("/sys/"), "{}", of_lvm.sentence);
    // That of another array, another program; one that has time; devices that have none.
    assert_eq!(full("md1", "md0_raid5 (pid 77)"), None);
    assert_eq!(full("md0", "md0_raider (pid 77)"), None);
    let asserts = |cores, busy| kinds(&with_thread("md0", "md0_raid5 (pid 77)", cores, busy)).contains(&Cpu);
    assert!(!asserts(0.7, 0.4) && !asserts(0.97, 0.95));
}

/// Four cores of which the third takes interrupts for this share of the time, and runs nothing else but for the rest of `busy`.
fn interrupted(
    share: f64,
    busy: f64,
    others: f64,
    lines: &[(&str, &str, u64, bool)],
) -> impl Fn(&Trial) -> TrialSamples {
    let lines: Vec<InterruptUse> = lines
        .iter()
        .map(|(line, who, count, of_member)| InterruptUse {
            core: 2,
            cpu: 6,
            line: (*line).to_owned(),
            who: (*who).to_owned(),
            count: *count,
            of_member: *of_member,
        })
        .collect();
    move |_| {
        let mut samples = trial(&[("v0", 5000, 200_000)]);
        let part = |share: f64| Nanos::from_secs_f64(share * samples.elapsed.as_secs_f64());
        let core = |interrupts: f64, busy: f64| CoreUse {
            user: part(busy - interrupts),
            system: part(interrupts),
            interrupts: Some(part(interrupts)),
            idle: part(1.0 - busy),
            ..CoreUse::default()
        };
        let quiet = core(0.0, others);
        samples.observed = Some(Box::new(Observation {
            cores: vec![quiet, quiet, core(share, busy), quiet],
            interrupts: lines.clone(),
            ..Observation::default()
        }));
        samples.cpu.cores = 4;
        samples.cpu.busiest_thread_permille = Some(400);
        samples
    }
}

const DISK: (&str, &str, u64, bool) = ("41", "nvme0q3", 200_000, true);
const TIMER: (&str, &str, u64, bool) = ("LOC", "Local timer interrupts", 900_000, false);
const NETWORK: (&str, &str, u64, bool) = ("52", "eth0-rx-0", 500_000, false);

#[test]
fn one_core_that_takes_all_interrupts_of_the_disk() {
    let session = six_rounds(&stripe(1), interrupted(0.92, 0.99, 0.2, &[TIMER, DISK]));
    let verdict = &verdicts(&session)[0];
    assert_eq!(verdict.kind, Cpu);
    assert!(
        verdict.sentence.starts_with(
            "interrupts fill core 6: 92% of its time, 100000 a second of line 41 (nvme0q3), while the other cores are busy 20%"
        ),
        "{}",
        verdict.sentence
    );
    assert!((verdict.explains - 0.92).abs() < 1e-6);
}

#[test]
fn interrupts_that_hold_nothing_back() {
    let why_not = |run: &dyn Fn(&Trial) -> TrialSamples| {
        let (_, figures) = ruled_out(&six_rounds(&stripe(1), run), Cpu);
        figures.iter().any(|(_, needed)| *needed == Some(super::super::cpu::INTERRUPTED.edge))
    };
    // That core has time; the others have none either; it runs threads mostly.
    assert!(why_not(&interrupted(0.85, 0.88, 0.2, &[DISK])));
    assert!(why_not(&interrupted(0.92, 0.99, 0.8, &[DISK])));
    assert!(why_not(&interrupted(0.30, 0.99, 0.2, &[DISK])));
    // Another device's interrupts; lines that are not known.
    assert!(why_not(&interrupted(0.92, 0.99, 0.2, &[NETWORK, DISK])));
    assert!(why_not(&interrupted(0.92, 0.99, 0.2, &[TIMER])));
    // A session that did not keep interrupts apart.
    let older = |t: &Trial| {
        let mut samples = interrupted(0.92, 0.99, 0.2, &[DISK])(t);
        let observed = samples.observed.as_mut().expect("is observed");
        observed.cores.iter_mut().for_each(|core| core.interrupts = None);
        samples
    };
    assert_eq!(kinds(&six_rounds(&stripe(1), older)), [Unknown]);
    // A thread of the load that is full itself is what is said.
    let thread = |t: &Trial| {
        let mut samples = interrupted(0.92, 0.99, 0.2, &[DISK])(t);
        samples.cpu.busiest_thread_permille = Some(990);
        samples
    };
    let verdict = &verdicts(&six_rounds(&stripe(1), thread))[0];
    assert!(verdict.sentence.starts_with("a load thread is busy all the time"), "{}", verdict.sentence);
}

#[test]
fn what_the_hypervisor_took_is_told() {
    let stolen = |t: &Trial| {
        let mut samples = interrupted(0.0, 0.3, 0.2, &[])(t);
        samples.cpu.host_steal = Some(Nanos::from_secs_f64(0.25 * 4.0 * samples.elapsed.as_secs_f64()));
        samples
    };
    let verdict = &verdicts(&six_rounds(&stripe(1), stolen))[0];
    assert_eq!(verdict.kind, Cpu);
    assert!(
        verdict.sentence.starts_with("the hypervisor took 25% of the cores' time"),
        "{}",
        verdict.sentence
    );
}

/// The busiest process of the host is on another processor than the load is bound to.
#[test]
fn of_a_bound_load_those_on_its_own_processors_are_named() {
    let beside = |near: f64| {
        let mut experiment = stripe(1);
        experiment.workloads[0].engine.cpus_allowed = vec![1];
        let run = super::limits::waiting(230, 760);
        six_rounds(&experiment, move |t| {
            let mut samples = run(t);
            let part = |share: f64| Nanos::from_secs_f64(share * samples.elapsed.as_secs_f64());
            let user = |who: &str, time, beside| ProcessorUser {
                who: who.into(),
                time: part(time),
                beside: Some(part(beside)),
            };
            let users = vec![user("near (pid 11)", near, near), user("far (pid 12)", 1.0, 0.0)];
            samples.observed.as_mut().expect("is observed").users = users;
            samples
        })
    };
    let verdict = &verdicts(&beside(0.75))[0];
    assert_eq!(verdict.kind, Cpu);
    assert!(
        verdict.sentence.ends_with("sleeps 1%; near (pid 11) 75% of one on the load's own processors"),
        "{}",
        verdict.sentence
    );
    // Nobody else is there: its own threads wait for one another, whatever goes on elsewhere.
    let verdict = &verdicts(&beside(0.01))[0];
    assert!(
        verdict
            .sentence
            .contains("the load's own threads (1 jobs) want more than the 1 cores that they have"),
        "{}",
        verdict.sentence
    );
}
