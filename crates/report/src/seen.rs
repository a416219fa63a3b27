//! What was seen around the trials of a result: cores, load threads, disks, memory, network, and who else was at work.

use ebbtide_analysis::estimate::median;
use ebbtide_analysis::observe::share_of_cores;
use ebbtide_analysis::ordered::entry;
use ebbtide_model::per_op::PerOp;
use ebbtide_model::samples::{DeviceObservation, Join, NetworkUse, Observation, OtherActivity, TrialSamples};
use ebbtide_model::units::Nanos;

/// What was seen around the trials of one result; a figure is the median over the trials that have it, unless it says
/// otherwise. What nobody could see is absent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SeenView {
    /// Busy share of the busiest core of each trial, 0 to 1.
    pub busiest_core: Option<f64>,
    /// Share of all cores' time that the hypervisor took, 0 to 1.
    pub stolen: Option<f64>,
    /// CPU time of the load by elapsed time: 1 is one core's.
    pub load_cores: Option<f64>,
    /// Share of a core that the busiest thread of the load used, 0 to 1.
    pub load_thread: Option<f64>,
    /// Share of the time in which some task waited for memory, in the trial with the largest, 0 to 1.
    pub memory_waits: Option<f64>,
    /// Least memory that was available before a trial, in bytes.
    pub memory_available: Option<u64>,
    /// Most dirty pages that were left after a trial, in bytes.
    pub dirty_after: Option<u64>,
    /// Disks below the members, and what is made of them, the busiest first.
    pub disks: Vec<DiskSeen>,
    /// Network interfaces, where a member is remote, in the order of their coming.
    pub network: Vec<NetworkSeen>,
    /// Share of the segments that TCP sent again, 0 to 1, where a member is remote.
    pub sent_again: Option<f64>,
    /// Nanoseconds of a round trip of the connection that moved most, where a member is remote.
    pub round_trip: Option<f64>,
    /// Who else was at work on the disks, in the order of their coming.
    pub others: Vec<OtherSeen>,
}

/// A disk over the trials of a result: medians.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DiskSeen {
    /// Kernel name.
    pub name: String,
    /// Name that people use, where it differs.
    pub alias: Option<String>,
    /// Whether it is a disk, and not made of others; all are where nobody recorded what is made of what.
    pub is_disk: bool,
    /// Whether it is a disk, or another form of one alone: a partition, an encrypted or delayed disk.
    pub is_of_one_disk: bool,
    /// Share of the time with a request in flight, 0 to 1.
    pub busy: Option<f64>,
    /// Bytes per second that it moved, whoever asked.
    pub bytes_per_second: PerOp<Option<f64>>,
    /// Requests per second that it completed.
    pub requests_per_second: Option<f64>,
    /// Nanoseconds that a request took.
    pub wait: Option<f64>,
    /// Bytes of a request.
    pub request_size: Option<f64>,
}

/// A network interface over the trials of a result: medians.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NetworkSeen {
    /// Its kernel name, such as `eth0`.
    pub interface: String,
    /// Bytes per second received.
    pub received: Option<f64>,
    /// Bytes per second sent.
    pub sent: Option<f64>,
    /// Bytes per second that it can move, where the driver says it.
    pub speed: Option<f64>,
}

/// Somebody else who was at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherSeen {
    /// Who, for example `dd (pid 4711)`.
    pub who: String,
    /// Kernel name of the device, where known.
    pub device: Option<String>,
    /// Bytes over all the trials, where known.
    pub bytes: Option<PerOp<u64>>,
    /// Trials in which it was seen.
    pub trials: u32,
}

impl SeenView {
    /// What was seen around `trials`; nothing when nobody looked.
    pub(super) fn new(trials: &[&TrialSamples]) -> Option<SeenView> {
        let trials: Vec<&TrialSamples> = trials.iter().copied().filter(|t| t.elapsed.0 > 0).collect();
        let seen: Vec<(Nanos, &Observation)> =
            trials.iter().filter_map(|t| Some((t.elapsed, t.observed.as_deref()?))).collect();
        if seen.is_empty() {
            return None;
        }
        let of_load = |figure: &dyn Fn(&TrialSamples) -> Option<f64>| {
            median(trials.iter().filter_map(|trial| figure(trial)))
        };
        let of_seen = |figure: &dyn Fn(&Observation) -> Option<f64>| {
            median(seen.iter().filter_map(|(_, observed)| figure(observed)))
        };
        let memory = || seen.iter().filter_map(|(elapsed, observed)| Some((*elapsed, observed.memory?)));
        let mut disks = of_each(&seen, |observed| &observed.devices, |d| &d.name, disk);
        for disk in &mut disks {
            disk.is_of_one_disk = seen.iter().all(|(_, observed)| is_of_one_disk(observed, &disk.name));
        }
        disks.sort_by(|a, b| b.busy.unwrap_or(0.0).total_cmp(&a.busy.unwrap_or(0.0)));
        Some(SeenView {
            busiest_core: of_seen(&|o| o.cores.iter().filter_map(|c| c.busy_share()).reduce(f64::max)),
            stolen: of_seen(&|o| share_of_cores(&o.cores, |core| core.steal.0)),
            load_cores: of_load(&|t| {
                let used = t.cpu.load_user.plus(t.cpu.load_system);
                (t.cpu.cores > 0).then(|| used.as_secs_f64() / t.elapsed.as_secs_f64())
            }),
            load_thread: of_load(&|t| t.cpu.busiest_thread_permille.map(|share| f64::from(share) / 1000.0)),
            memory_waits: memory()
                .filter_map(|(elapsed, m)| Some(m.pressure_some?.as_secs_f64() / elapsed.as_secs_f64()))
                .reduce(f64::max),
            memory_available: memory().map(|(_, m)| m.available.0).min(),
            dirty_after: memory().map(|(_, m)| m.dirty_after.0).max(),
            disks,
            network: of_each(&seen, |observed| &observed.network, |n| &n.interface, network),
            sent_again: of_seen(&|o| {
                o.tcp.as_ref().filter(|tcp| tcp.sent > 0).map(|tcp| tcp.sent_again as f64 / tcp.sent as f64)
            }),
            round_trip: of_seen(&|o| Some(o.tcp.as_ref()?.connections.first()?.round_trip?.0 as f64)),
            others: others(&seen),
        })
    }

    /// Who else was at work around the trials of all `views`, each once.
    pub fn others_of<'a>(views: impl Iterator<Item = &'a SeenView>) -> Vec<OtherSeen> {
        let mut all = Vec::new();
        views.flat_map(|seen| &seen.others).for_each(|other| other.clone().join(&mut all));
        all
    }

    /// The disk that was busy for the largest share of the time: what is made of it alone where that was busier, because what waits above a
    /// disk (in dm-delay, behind dm-crypt's workers) is none of the disk's.
    pub fn busiest_disk(&self) -> Option<&DiskSeen> {
        let disk = self.disks.iter().find(|disk| disk.is_disk);
        let of_one = self.disks.iter().find(|disk| disk.is_of_one_disk);
        let busier = |one: &&DiskSeen| disk.is_none_or(|disk| one.busy > disk.busy);
        of_one.filter(busier).or(disk).or(self.disks.first())
    }
}

impl DiskSeen {
    /// The name to print: the alias where there is one.
    pub fn shown_name(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.name)
    }
}

impl OtherSeen {
    /// Adds it to the same one among `all`, or to their end.
    fn join(self, all: &mut Vec<OtherSeen>) {
        let Some(known) = all.iter_mut().find(|o| (&o.who, &o.device) == (&self.who, &self.device)) else {
            return all.push(self);
        };
        known.trials = known.trials.saturating_add(self.trials);
        known.bytes = match (known.bytes, self.bytes) {
            (Some(a), Some(b)) => Some([a, b].into_iter().sum()),
            (a, b) => a.or(b),
        };
    }
}

/// What `view` makes of the things of one name over the trials, for each name in the order of their coming.
fn of_each<'a, T, V>(
    seen: &[(Nanos, &'a Observation)],
    things: impl Fn(&'a Observation) -> &'a Vec<T>,
    name: impl Fn(&'a T) -> &'a String,
    view: impl Fn(&str, &[(f64, &'a T)]) -> V,
) -> Vec<V>
where
    T: 'a,
{
    let mut named: Vec<(&str, Vec<(f64, &T)>)> = Vec::new();
    for (elapsed, observed) in seen {
        for thing in things(observed) {
            let one = (elapsed.as_secs_f64(), thing);
            entry(&mut named, name(thing).as_str()).push(one);
        }
    }
    named.into_iter().map(|(name, all)| view(name, &all)).collect()
}

/// Whether the device of this name is a disk, or made of one alone.
fn is_of_one_disk(observed: &Observation, name: &str) -> bool {
    let mut device = observed.devices.iter().find(|device| device.name == name);
    for _ in 0..=observed.devices.len() {
        let Some(below) = device.and_then(|device| device.below.as_ref()) else { return true };
        match below.devices.as_slice() {
            [] => return true,
            [one] if below.join == Join::Through => device = observed.devices.get(*one),
            _ => return false,
        }
    }
    false
}

fn disk(name: &str, trials: &[(f64, &DeviceObservation)]) -> DiskSeen {
    let over = |figure: &dyn Fn(f64, &DeviceObservation) -> Option<f64>| {
        median(trials.iter().filter_map(|(seconds, device)| figure(*seconds, device)))
    };
    let requests = |d: &DeviceObservation| d.total.ops.total() as f64;
    let each = |d: &DeviceObservation, sum: f64| (requests(d) > 0.0).then(|| sum / requests(d));
    DiskSeen {
        name: name.to_owned(),
        alias: trials.iter().find_map(|(_, device)| device.alias.clone()),
        is_of_one_disk: false,
        is_disk: trials.iter().all(|(_, device)| device.below.as_ref().is_none_or(|b| b.devices.is_empty())),
        // Counters tick in milliseconds, and so a little more than the time may be counted.
        busy: over(&|seconds, d| Some((d.total.busy.as_secs_f64() / seconds).min(1.0))),
        bytes_per_second: PerOp {
            read: over(&|seconds, d| Some(d.total.bytes.read as f64 / seconds)),
            write: over(&|seconds, d| Some(d.total.bytes.write as f64 / seconds)),
        },
        requests_per_second: over(&|seconds, d| Some(requests(d) / seconds)),
        wait: over(&|_, d| each(d, d.total.time.read.plus(d.total.time.write).0 as f64)),
        request_size: over(&|_, d| each(d, d.total.bytes.total() as f64)),
    }
}

fn network(interface: &str, trials: &[(f64, &NetworkUse)]) -> NetworkSeen {
    let over = |figure: &dyn Fn(f64, &NetworkUse) -> Option<f64>| {
        median(trials.iter().filter_map(|(seconds, used)| figure(*seconds, used)))
    };
    NetworkSeen {
        interface: interface.to_owned(),
        received: over(&|seconds, used| Some(used.received as f64 / seconds)),
        sent: over(&|seconds, used| Some(used.sent as f64 / seconds)),
        speed: over(&|_, used| used.speed_bits.map(|bits| bits as f64 / 8.0)),
    }
}

fn others(seen: &[(Nanos, &Observation)]) -> Vec<OtherSeen> {
    let mut others = Vec::new();
    for (_, observed) in seen {
        let mut here = Vec::new();
        for OtherActivity { who, device, bytes, .. } in &observed.others {
            // More of the same one is no further trial.
            let trials = u32::from(!here.contains(&(who, device)));
            here.push((who, device));
            OtherSeen { who: who.clone(), device: device.clone(), bytes: *bytes, trials }.join(&mut others);
        }
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_model::samples::{CoreUse, CpuUse, DiskUse, MemoryUse, OtherKind};
    use ebbtide_model::units::{Bytes, UnixTime};

    fn second(busy_ms: u64, others: Vec<OtherActivity>) -> TrialSamples {
        let idle = Nanos::from_millis(1000 - busy_ms);
        TrialSamples {
            started_unix: UnixTime::EPOCH,
            elapsed: Nanos::from_millis(1000),
            interval: Nanos::from_millis(100),
            array: PerOp::default(),
            members: Vec::new(),
            series: Vec::new(),
            cpu: CpuUse {
                load_user: Nanos::from_millis(250),
                cores: 2,
                busiest_thread_permille: Some(250),
                ..CpuUse::default()
            },
            execution: Default::default(),
            mean_in_flight: None,
            hosts: Vec::new(),
            observed: Some(Box::new(Observation {
                devices: vec![DeviceObservation {
                    name: "vdb".to_owned(),
                    total: DiskUse {
                        ops: PerOp { read: 100, write: 0 },
                        bytes: PerOp { read: 1_000_000, write: 0 },
                        time: PerOp { read: Nanos::from_millis(busy_ms * 2), write: Nanos(0) },
                        busy: Nanos::from_millis(busy_ms),
                        ..DiskUse::default()
                    },
                    ..DeviceObservation::default()
                }],
                cores: vec![
                    CoreUse { idle: Nanos::from_millis(1000), ..CoreUse::default() },
                    CoreUse { user: Nanos::from_millis(busy_ms), idle, ..CoreUse::default() },
                ],
                memory: Some(MemoryUse {
                    available: Bytes(busy_ms),
                    pressure_some: Some(Nanos::from_millis(busy_ms / 10)),
                    ..MemoryUse::default()
                }),
                others,
                network: vec![NetworkUse {
                    interface: "eth0".to_owned(),
                    received: 500,
                    sent: 100,
                    speed_bits: Some(8_000),
                }],
                ..Observation::default()
            })),
            notes: Vec::new(),
        }
    }

    fn dd(bytes: Option<u64>) -> OtherActivity {
        OtherActivity {
            kind: OtherKind::Process,
            who: "dd (pid 7)".to_owned(),
            device: Some("vdb".to_owned()),
            bytes: bytes.map(|write| PerOp { read: 0, write }),
        }
    }

    #[test]
    fn figures_are_medians_over_trials_and_others_are_added_up() {
        let trials =
            [second(100, vec![dd(Some(5))]), second(300, vec![dd(None), dd(Some(7))]), second(500, vec![])];
        let seen = SeenView::new(&trials.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(seen.busiest_core, Some(0.3));
        assert_eq!((seen.load_cores, seen.load_thread), (Some(0.25), Some(0.25)));
        assert_eq!(seen.memory_waits, Some(0.05), "of the worst trial");
        assert_eq!(seen.memory_available, Some(100));
        let disk = seen.busiest_disk().unwrap();
        assert_eq!((disk.name.as_str(), disk.busy, disk.wait), ("vdb", Some(0.3), Some(6e6)));
        assert_eq!((disk.bytes_per_second.read, disk.request_size), (Some(1e6), Some(1e4)));
        assert_eq!((seen.network[0].received, seen.network[0].speed), (Some(500.0), Some(1000.0)));
        let [other] = seen.others.as_slice() else { panic!("{seen:?}") };
        assert_eq!((other.trials, other.bytes), (2, Some(PerOp { read: 0, write: 12 })));
        let [twice] = &SeenView::others_of([&seen, &seen].into_iter())[..] else { panic!("{seen:?}") };
        assert_eq!((twice.trials, twice.bytes), (4, Some(PerOp { read: 0, write: 24 })));
    }

    #[test]
    fn the_busiest_disk_is_one_and_not_what_is_made_of_it() {
        let mut trial = second(300, Vec::new());
        let observed = trial.observed.as_mut().unwrap();
        let mut array = observed.devices[0].clone();
        array.name = "md0".to_owned();
        array.total.busy = Nanos::from_millis(900);
        array.below = Some(ebbtide_model::samples::Below { devices: vec![0], ..Default::default() });
        observed.devices.push(array);
        let seen = SeenView::new(&[&trial]).unwrap();
        assert_eq!(seen.disks[0].name, "md0");
        assert_eq!(seen.busiest_disk().map(|disk| disk.name.as_str()), Some("vdb"));
    }

    #[test]
    fn what_waits_above_one_disk_is_told_by_its_own_name() {
        let mut trial = second(300, Vec::new());
        let observed = trial.observed.as_mut().unwrap();
        let mut slow = observed.devices[0].clone();
        (slow.name, slow.alias) = ("dm-0".to_owned(), Some("slow".to_owned()));
        slow.total.busy = Nanos::from_millis(980);
        slow.below =
            Some(ebbtide_model::samples::Below { devices: vec![0], join: Join::Through, missing: 0 });
        observed.devices.push(slow);
        let busiest = |trial: &TrialSamples| {
            let seen = SeenView::new(&[trial]).unwrap();
            seen.busiest_disk().map(|disk| disk.shown_name().to_owned())
        };
        assert_eq!(busiest(&trial), Some("slow".to_owned()));
        // Where the disk has as much to do, it is the disk.
        let observed = trial.observed.as_mut().unwrap();
        observed.devices[1].total.busy = observed.devices[0].total.busy;
        assert_eq!(busiest(&trial), Some("vdb".to_owned()));
    }

    #[test]
    fn nothing_is_said_where_nobody_looked() {
        let mut trial = second(100, Vec::new());
        trial.observed = None;
        assert_eq!(SeenView::new(&[&trial]), None);
        let blind = TrialSamples { observed: Some(Box::default()), cpu: CpuUse::default(), ..trial };
        assert_eq!(SeenView::new(&[&blind]), Some(SeenView::default()), "absent, not 0");
    }
}
