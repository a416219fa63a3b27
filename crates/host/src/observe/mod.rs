//! What the system shows while a trial runs: the devices below the members, cores, memory, and who else is at work.
//!
//! [`Observer::start`] looks at the members and starts a thread that takes a snapshot every interval;
//! [`Running::stop`] cuts the snapshots to the trial's measured window and returns them as an [`Observation`].
//! Nothing here fails: what cannot be seen is left out.

mod built;
mod counter;
mod devices;
pub(crate) mod group_limits;
mod interrupts;
mod limits;
mod memory;
mod network;
mod others;
mod processors;
mod remote;
mod timeline;
pub(crate) mod waits;

pub use built::as_built;
pub use limits::{EbsLimits, LimitsPage, LimitsReader, NoLimits};

use crate::graph;
use crate::graph::dm::Tables;
use crate::load;
use crate::sys::Sys;
use devices::{add, is_remote};
use ebbtide_model::samples::{DeviceObservation, MemberObservation, Observation};
use ebbtide_model::units::{Bytes, Nanos, UnixTime};
use group_limits::GroupLimits;
use interrupts::{Interrupts, MemberInterrupts};
use limits::LimitsLog;
use memory::MemoryBefore;
use network::Network;
use others::Others;
use processors::Processors;
use remote::Calls;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use timeline::Timeline;
use waits::Waits;

/// Snapshots four times a second: fine enough for trials of seconds, at about 0.1 ms of CPU each.
pub const INTERVAL: Duration = Duration::from_millis(250);
/// Other processes are looked for this often: it costs a file per process.
const OTHERS_INTERVAL: Duration = Duration::from_secs(1);

/// A member and the devices whose counters are read for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedMember {
    /// Its name in the experiment.
    pub name: String,
    /// Its file or device.
    pub path: PathBuf,
}

/// Observes disks, host and others around trials.
#[derive(Clone)]
pub struct Observer {
    sys: Sys,
    interval: Duration,
    buffered: bool,
    cpus: Vec<u32>,
    limits: Arc<dyn LimitsReader + Send + Sync>,
    residency: Residency,
    /// What marks processes of a program that is the load.
    load: Option<load::Mark>,
}

/// Bytes of a file in the page cache; nothing when that cannot be told.
pub type Residency = fn(&Path) -> Option<u64>;

/// The measured part of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// When the trial began (`TrialSamples::started_unix`).
    pub started_unix: UnixTime,
    /// How long it took (`TrialSamples::elapsed`).
    pub elapsed: Nanos,
}

impl Observer {
    /// Observer of this host.
    pub fn host() -> Observer {
        Observer {
            sys: Sys::host(),
            interval: INTERVAL,
            buffered: false,
            cpus: Vec::new(),
            limits: Arc::new(NoLimits),
            residency: |_| None,
            load: None,
        }
    }

    /// Processes that a load of `run` has started are nobody else's.
    pub fn load_of(mut self, run: &str) -> Observer {
        self.load = Some(load::Mark::of(run));
        self
    }

    #[cfg(test)]
    fn interval(mut self, interval: Duration) -> Observer {
        self.interval = interval.max(Duration::from_millis(10));
        self
    }

    /// The trial writes through the page cache, so that writeback is its own work and not somebody else's.
    pub fn buffered(mut self, buffered: bool) -> Observer {
        self.buffered = buffered;
        self
    }

    /// The load is bound to these processors; to none where it may run on any.
    pub fn cpus(mut self, cpus: &[u32]) -> Observer {
        self.cpus = cpus.to_vec();
        self
    }

    /// Reads time above limits through `limits`.
    pub fn limits(mut self, limits: Arc<dyn LimitsReader + Send + Sync>) -> Observer {
        self.limits = limits;
        self
    }

    /// Asks `residency` how much of each member the page cache holds, before and after.
    pub fn residency(mut self, residency: Residency) -> Observer {
        self.residency = residency;
        self
    }

    /// Looks at `members` and begins.
    pub fn start(&self, members: &[ObservedMember]) -> Running {
        let (devices, below, is_remote) = self.resolve(members);
        let names = || devices.iter().map(|d| d.name.clone()).collect();
        let timeline = Arc::new(Mutex::new(Timeline::new(&self.sys, names())));
        let watched = Arc::new(Mutex::new(Watched {
            timeline: Arc::clone(&timeline),
            others: Others::new(&self.sys, names(), self.load.clone()),
            processors: Processors::new(&self.sys, &self.cpus),
            waits: Waits::new(&self.sys),
            calls: Calls::new(&self.sys, below.iter().filter_map(|member| member.remote.as_ref())),
            network: Network::new(&self.sys, is_remote),
            groups: GroupLimits::new(&self.sys, devices.iter().map(|d| d.number.as_str())),
            limits: LimitsLog::new(self.limits.as_ref(), devices.iter().map(|d| d.name.as_str())),
        }));
        let memory = MemoryBefore::read(&self.sys);
        let mut lines = MemberInterrupts::default();
        devices.iter().for_each(|device| lines.add_disk(&self.sys, &device.number));
        lock(&watched).network.names().for_each(|interface| lines.add_interface(&self.sys, interface));
        let interrupts = Interrupts::read(&self.sys);
        let started_unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started = Instant::now();
        lock(&watched).look(started);
        let (stop, stopped) = channel();
        let thread = {
            let (watched, interval) = (Arc::clone(&watched), self.interval);
            std::thread::Builder::new()
                .name("ebb-observe".to_owned())
                .spawn(move || keep_looking(&watched, interval, started, &stopped))
                .map_err(|e| tracing::warn!("no observation between start and end: {e}"))
                .ok()
        };
        Running {
            observer: self.clone(),
            devices,
            below,
            paths: members.iter().map(|m| m.path.clone()).collect(),
            memory,
            interrupts,
            lines,
            timeline,
            watched,
            started,
            started_unix,
            stop,
            thread,
        }
    }

    /// Devices below the members, each once; for each member their indices; whether any is remote.
    fn resolve(&self, members: &[ObservedMember]) -> (Vec<DeviceObservation>, Vec<MemberObservation>, bool) {
        let tables = Tables::of_host(&self.sys);
        let graph = graph::read_with(&self.sys, &tables);
        let mut devices: Vec<DeviceObservation> = Vec::new();
        let mut any_remote = false;
        let below = members
            .iter()
            .map(|member| {
                let place = graph.of_path(&member.path).unwrap_or_default();
                any_remote |= is_remote(&self.sys, &graph, &place);
                let (places, below) = add(&self.sys, &tables, (&graph, &place), &mut devices);
                MemberObservation {
                    member: member.name.clone(),
                    below: Some(below),
                    devices: places,
                    remote: remote::of_place(&place),
                    resident_before: (self.residency)(&member.path).map(Bytes),
                    ..MemberObservation::default()
                }
            })
            .collect();
        (devices, below, any_remote)
    }
}

/// What the thread fills. The timeline has a lock of its own: the edges of a trial must not wait for the slower looks.
struct Watched {
    timeline: Arc<Mutex<Timeline>>,
    others: Others,
    processors: Processors,
    waits: Waits,
    calls: Calls,
    network: Network,
    groups: GroupLimits,
    limits: LimitsLog,
}

impl Watched {
    fn look(&mut self, started: Instant) {
        {
            let mut timeline = lock(&self.timeline);
            timeline.look(started.elapsed());
        }
        let at = started.elapsed();
        self.waits.look(at);
        self.calls.look(started.elapsed());
        self.network.look(started.elapsed());
        self.groups.look(started.elapsed());
        if self.others.last_look().is_none_or(|last| at.saturating_sub(last) >= OTHERS_INTERVAL) {
            self.others.look(at);
            self.processors.look(started.elapsed());
        }
        if self.limits.is_due(at) {
            // A command to the device takes its time: the reading's own instant counts.
            self.limits.look(started.elapsed());
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in the thread leaves whole snapshots behind: they are still good.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep_looking(watched: &Mutex<Watched>, interval: Duration, started: Instant, stopped: &Receiver<()>) {
    let mut next = interval;
    loop {
        match stopped.recv_timeout(next.saturating_sub(started.elapsed())) {
            Err(RecvTimeoutError::Timeout) => lock(watched).look(started),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
        // Late snapshots are not made up for: the next one is on the grid again.
        while next <= started.elapsed() {
            next += interval;
        }
    }
}

/// An observation under way. Dropping it ends it.
pub struct Running {
    observer: Observer,
    devices: Vec<DeviceObservation>,
    below: Vec<MemberObservation>,
    paths: Vec<PathBuf>,
    memory: MemoryBefore,
    interrupts: Interrupts,
    /// Lines of the members' devices.
    lines: MemberInterrupts,
    timeline: Arc<Mutex<Timeline>>,
    watched: Arc<Mutex<Watched>>,
    started: Instant,
    started_unix: Duration,
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

/// Is told where a trial's own I/O begins and ends, so that what the disks do just before and just after it is not
/// taken for a part of it: between two snapshots nobody knows when it happened.
#[derive(Clone)]
pub struct EdgeListener {
    timeline: Arc<Mutex<Timeline>>,
    started: Instant,
}

impl EdgeListener {
    /// The first operation comes next.
    pub fn begins(&self) {
        lock(&self.timeline).look_before_trial(|| self.started.elapsed());
    }

    /// All that the trial had to do is done.
    pub fn done(&self) {
        let mut timeline = lock(&self.timeline);
        timeline.look_after_trial(self.started.elapsed());
    }
}

impl Running {
    /// See [`EdgeListener`].
    pub fn lookout(&self) -> EdgeListener {
        EdgeListener { timeline: Arc::clone(&self.timeline), started: self.started }
    }

    /// Ends it; what was seen within `window`, or since the start.
    pub fn stop(mut self, window: Option<Window>) -> Observation {
        // A send fails only when the thread has ended already.
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the observing thread failed; the observation ends early");
        }
        let sys = &self.observer.sys;
        let mut watched = lock(&self.watched);
        let mut timeline = lock(&self.timeline);
        let end = self.started.elapsed();
        timeline.look(end);
        watched.others.look(end);
        watched.processors.look(end);
        watched.waits.look(end);
        watched.calls.look(end);
        watched.network.look(end);
        watched.groups.look(end);
        // The looks before take their time, and the reading's own instant counts.
        watched.limits.look(self.started.elapsed());
        let (from, to) = self.span(window, end);
        timeline.ended_at(to);
        let seen = timeline.cut(from, to);
        let mut others = watched.others.within(from, to);
        let written = seen.totals.iter().map(|total| total.bytes.write).max().unwrap_or(0);
        let memory = self.memory.after(sys).map(|memory| watched.waits.of_memory(memory, from, to));
        if !self.observer.buffered {
            // The kernel tells of all disks together; what is written back goes to these only where they were written to.
            let writeback = self.memory.writeback(sys, end, to.saturating_sub(from));
            others.extend(writeback.filter(|_| written >= memory::LEAST_WRITEBACK));
        }
        for (member, path) in self.below.iter_mut().zip(&self.paths) {
            member.resident_after = (self.observer.residency)(path).map(Bytes);
            member.remote = member.remote.take().map(|remote| watched.calls.within(remote, from, to));
        }
        let devices = self.devices.iter().zip(seen.totals).enumerate();
        let devices = devices.map(|(index, (device, total))| {
            let exceeded_series = watched.limits.within(index, from, to);
            let exceeded = exceeded_series.iter().map(|i| i.exceeded).reduce(|a, b| a.plus(&b));
            let group_limits = watched.groups.within(index, from, to);
            DeviceObservation { total, exceeded, exceeded_series, group_limits, ..device.clone() }
        });
        let spans = (end, to.saturating_sub(from));
        let interrupts = self.interrupts.until(&Interrupts::read(sys), &seen.cores, &self.lines, spans);
        let mut observed = Observation {
            devices: devices.collect(),
            members: std::mem::take(&mut self.below),
            series: seen.series,
            cores: seen.cores,
            interrupts,
            memory,
            others: Vec::new(),
            network: watched.network.within(from, to),
            tcp: watched.network.tcp(from, to),
            users: watched.processors.users(from, to),
            processor_waits: watched.processors.waited(from, to),
            io_waits: watched.waits.io(from, to),
            quota: watched.waits.quota(from, to),
            built: None,
            jobs_beside: None,
        };
        observed.others = others::plausible(others, &observed);
        observed
    }

    /// The window on this observation's own clock; all of it without one, or when the clocks do not overlap.
    fn span(&self, window: Option<Window>, end: Duration) -> (Duration, Duration) {
        let Some(window) = window else { return (Duration::ZERO, end) };
        let from = Duration::from_nanos(window.started_unix.0).saturating_sub(self.started_unix).min(end);
        let to = from.saturating_add(Duration::from_nanos(window.elapsed.0)).min(end);
        if from < to { (from, to) } else { (Duration::ZERO, end) }
    }
}

#[cfg(test)]
mod tests;
