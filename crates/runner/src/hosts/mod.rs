//! Trials on several hosts at once: a worker on each runs the `files` backend on its own volumes, told trial by trial what to do, as
//! the one in a guest is.
//!
//! ```text
//! Clock, 8 times ──► how far each clock is ahead, and how sure that is
//! Together       ──► Ready from all: volumes open, threads and buffers there
//! Begin at t     ──► Worked from all: from when to when
//! Count window   ──► Ran from all: samples of the time in which all were at work, which become one trial
//! ```

mod launcher;
mod link;
mod together;

pub use launcher::{LaunchError, Launcher, OpenSsh, Processes, WORKER};

use crate::clock;
use ebbtide_host::ssh::SshError;
use ebbtide_lab::backend::talk::{Order, Word, line};
use ebbtide_model::backend::{Backend, BackendError, BackendKind, Control, Inventory, PreparedVolume};
use ebbtide_model::experiment::{Design, Experiment};
use ebbtide_model::hosts::placing::{OnHost, Placement};
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Trial;
use ebbtide_model::session::HostInfo;
use ebbtide_model::units::format_latency;
use ebbtide_model::workload::Workload;
use link::{END_MOST, GRACE, Heard, Input, Link, end_all};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, BackendError>;

/// Workers say four times a second how it is going; one that says nothing for so long is lost.
const PATIENCE: Duration = Duration::from_secs(25);
/// How often workers are told that somebody is there.
const SIGN: Duration = Duration::from_secs(2);
/// How often it is asked whether the session was stopped meanwhile.
const TICK: Duration = Duration::from_millis(100);
/// Wall clocks that differ by more are told.
const WALL_NOTED_NS: u64 = 500_000_000;

/// The hosts of a session.
pub struct Hosts {
    placement: Placement,
    /// What each host is told of it.
    on: Vec<OnHost>,
    links: Vec<Link>,
    heard: Receiver<(usize, Heard)>,
    infos: Vec<HostInfo>,
    ceilings: Vec<std::result::Result<f64, String>>,
    seed: u64,
    destroy: bool,
    signs: Option<Signs>,
    /// How all of it is ended early.
    control: Arc<Control>,
}

/// The thread that tells all workers that somebody is there.
struct Signs {
    inputs: Arc<Mutex<Vec<Input>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Signs {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// A word that is waited for, or none of the trial any more.
enum Answer<T> {
    /// It came.
    Is(T),
    /// The host has failed.
    Failed(BackendError),
    /// Something that was said of an earlier trial, or how it is going.
    Other,
}

impl Hosts {
    /// Starts a worker on each host of `placement`.
    ///
    /// # Errors
    /// When one cannot be started; no other is left then.
    pub fn start(
        launcher: &dyn Launcher,
        placement: Placement,
        seed: u64,
        destroy: bool,
        control: Arc<Control>,
    ) -> std::result::Result<Hosts, HostsError> {
        let on = (0..placement.hosts.len())
            .map(|host| placement.on_host(host))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|error| BackendError::Other(error.to_string()))?;
        // Whoever says more than is listened to waits.
        let (sender, heard) = sync_channel(1);
        // From the first on: starting the others may take long.
        let signs = Signs::begin();
        let opened: Vec<_> = std::thread::scope(|scope| {
            let hosts = placement.hosts.iter().enumerate();
            let opening: Vec<_> = hosts
                .map(|(number, host)| {
                    let (sender, signs, stop) = (sender.clone(), &signs, &control.stop);
                    scope.spawn(move || {
                        let link = Link::open(launcher, host, number, sender, stop)?;
                        signs.tell_too(link.input());
                        Ok::<Link, LaunchError>(link)
                    })
                })
                .collect();
            opening.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        let mut links = Vec::new();
        for link in opened {
            links.push(link.map_err(|_| BackendError::Other("a launcher ended unexpectedly".to_owned()))??);
        }
        let mut hosts = Hosts {
            placement,
            on,
            links,
            heard,
            infos: Vec::new(),
            ceilings: Vec::new(),
            seed,
            destroy,
            signs: Some(signs),
            control: control.clone(),
        };
        let here = |word| match word {
            Word::Here { host, ceiling } => Answer::Is((host, ceiling)),
            _ => Answer::Other,
        };
        let all = hosts.all();
        let told = hosts.wait_for(&all, &control, here).inspect_err(|_| {
            // Nothing was made there.
            hosts.end_all(GRACE);
        })?;
        (hosts.infos, hosts.ceilings) = told.into_iter().unzip();
        Ok(hosts)
    }

    /// The hosts as they said what they are, in the order of `--hosts`.
    pub fn infos(&self) -> impl Iterator<Item = (&str, &HostInfo)> {
        self.placement.hosts.iter().map(String::as_str).zip(&self.infos)
    }

    /// What the engine reaches with nothing behind it on the slowest of the hosts, operations per second of a job with a core.
    ///
    /// # Errors
    /// Why that is not known.
    pub fn ceiling(&self) -> std::result::Result<f64, String> {
        let mut least = f64::INFINITY;
        for (host, ceiling) in self.placement.hosts.iter().zip(&self.ceilings) {
            least = least.min(ceiling.clone().map_err(|why| format!("{host}: {why}"))?);
        }
        Ok(least)
    }

    /// Ends all workers, which may take so long together to put everything back; what did not end well.
    fn end_all(&mut self, most: Duration) -> Vec<String> {
        self.signs = None;
        // Nobody listens any more, and no worker waits for that.
        self.heard = sync_channel(1).1;
        end_all(&mut self.links, most)
    }

    fn all(&self) -> Vec<usize> {
        (0..self.links.len()).collect()
    }

    /// The next that is heard of any host, within `TICK`.
    fn hear(&mut self) -> Option<(usize, Heard)> {
        match self.heard.recv_timeout(TICK) {
            Ok((host, heard)) => {
                let link = self.links.get_mut(host)?;
                link.heard = Instant::now();
                match &heard {
                    Heard::End(why) => {
                        link.gone.get_or_insert_with(|| why.clone());
                        link.busy = false;
                    }
                    Heard::Word(word) => match **word {
                        Word::Progress { ops, bytes } => link.progress = (ops, bytes),
                        Word::Ran(_) => link.busy = false,
                        _ => {}
                    },
                }
                Some((host, heard))
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Why `host` is lost.
    fn lost(&self, host: usize) -> BackendError {
        let link = &self.links[host];
        let why = link.gone.as_deref().unwrap_or("it says nothing");
        BackendError::Other(format!(
            "host {} is lost: {why}; what it made there it puts back where it lives, else `ebb cleanup` there",
            link.host
        ))
    }

    /// What each of `hosts` answers; how it is going is passed on to `control` meanwhile.
    ///
    /// # Errors
    /// When one fails, is lost, or all is stopped: the others may be at work still.
    fn wait_for<T>(
        &mut self,
        hosts: &[usize],
        control: &Control,
        is: impl Fn(Word) -> Answer<T>,
    ) -> Result<Vec<T>> {
        self.wait_until(hosts, control, || control.stop.load(Ordering::Relaxed), is)
    }

    /// The same, until `is_over`.
    fn wait_until<T>(
        &mut self,
        hosts: &[usize],
        control: &Control,
        is_over: impl Fn() -> bool,
        is: impl Fn(Word) -> Answer<T>,
    ) -> Result<Vec<T>> {
        let mut answers: Vec<Option<T>> = hosts.iter().map(|_| None).collect();
        for host in hosts {
            self.links[*host].heard = Instant::now();
        }
        while answers.iter().any(Option::is_none) {
            if is_over() {
                return Err(BackendError::Stopped);
            }
            for host in hosts {
                if self.links[*host].gone.is_none() && self.links[*host].heard.elapsed() > PATIENCE {
                    let seconds = PATIENCE.as_secs();
                    self.links[*host].gone = Some(format!("it has said nothing for {seconds} s"));
                }
                if self.links[*host].gone.is_some() {
                    return Err(self.lost(*host));
                }
            }
            let Some((host, heard)) = self.hear() else { continue };
            let Heard::Word(word) = heard else { continue };
            if matches!(*word, Word::Progress { .. }) {
                let sum = |of: fn(&Link) -> u64| hosts.iter().map(|host| of(&self.links[*host])).sum();
                control.ops.store(sum(|link| link.progress.0), Ordering::Relaxed);
                control.bytes.store(sum(|link| link.progress.1), Ordering::Relaxed);
            }
            let Some(place) = hosts.iter().position(|of| *of == host) else { continue };
            match is(*word) {
                Answer::Is(answer) => answers[place] = Some(answer),
                Answer::Failed(error) => return Err(self.of_host(host, error)),
                Answer::Other => {}
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// `error` with the name of its host.
    fn of_host(&self, host: usize, error: BackendError) -> BackendError {
        let host = &self.links[host].host;
        match error {
            BackendError::Stopped => BackendError::Stopped,
            BackendError::Volume { volume, what } => {
                BackendError::Volume { volume, what: format!("on {host}: {what}") }
            }
            BackendError::NotKept(what) => BackendError::NotKept(format!("{host}: {what}")),
            BackendError::Other(what) => BackendError::Other(format!("host {host}: {what}")),
        }
    }

    /// Prepares the volumes on all hosts.
    fn prepare_all(&mut self, control: &Control) -> Result<Vec<Inventory>> {
        let mut ids = BTreeSet::new();
        while ids.len() < self.links.len() {
            ids.insert(clock::session_id());
        }
        for ((id, on), (number, link)) in ids.into_iter().zip(&self.on).zip(self.links.iter().enumerate()) {
            let experiment = Box::new(on.experiment.clone());
            // Volumes of several hosts have contents of their own.
            let seed = self.seed.wrapping_add(number as u64);
            link.tell(&Order::Prepare { id, seed, experiment, destroy: self.destroy });
        }
        let prepared = |word| match word {
            Word::Prepared(Ok(inventory)) => Answer::Is(inventory),
            Word::Prepared(Err(error)) => Answer::Failed(error),
            _ => Answer::Other,
        };
        let all = self.all();
        self.wait_for(&all, control, prepared)
    }

    /// The volumes of all hosts in the order of the experiment, and what is to be known of the hosts.
    fn inventory(&self, of_hosts: Vec<Inventory>) -> Inventory {
        let whole = &self.placement.experiment;
        let mut volumes: Vec<PreparedVolume> = whole.volumes.iter().map(PreparedVolume::unused).collect();
        let mut notes: Vec<String> = self.placement.notes.clone();
        for (host, (inventory, on)) in of_hosts.into_iter().zip(&self.on).enumerate() {
            let name = &self.placement.hosts[host];
            for (volume, index) in inventory.volumes.into_iter().zip(&on.volumes) {
                volumes[*index] = at_host(volume, name);
            }
            notes.extend(inventory.notes.into_iter().map(|note| format!("{name}: {note}")));
        }
        Inventory { volumes, notes }
    }

    /// Wall clocks that are not this host's, in words.
    fn wall_clocks(&mut self, control: &Control) -> Result<Vec<String>> {
        let all = self.all();
        let clocks = self.clocks(&all, control)?;
        let told = self.placement.hosts.iter().zip(clocks).filter_map(|(host, clocks)| {
            let ahead = clocks.wall.ahead_ns;
            (ahead.unsigned_abs() > WALL_NOTED_NS).then(|| {
                let (by, than) = (format_latency(ahead.unsigned_abs() as f64), if ahead > 0 { "ahead of" } else { "behind" });
                format!(
                    "the wall clock of {host} is {by} {than} this host's: trials begin by clocks that count from a host's start, \
                     so no figure has it; times in logs there do"
                )
            })
        });
        Ok(told.collect())
    }
}

/// The volume as others know it: each host has its own disk 8:0.
fn at_host(mut volume: PreparedVolume, host: &str) -> PreparedVolume {
    let named = |text: &mut String| *text = format!("{host}:{text}");
    volume.disk.iter_mut().for_each(named);
    volume.disk_name.iter_mut().for_each(named);
    for disk in &mut volume.disks {
        named(&mut disk.number);
        named(&mut disk.name);
    }
    if !volume.path.is_empty() {
        named(&mut volume.path);
    }
    volume
}

impl Signs {
    fn begin() -> Signs {
        let (inputs, over) = (Arc::<Mutex<Vec<Input>>>::default(), Arc::new(AtomicBool::new(false)));
        let (told, stop) = (inputs.clone(), over.clone());
        let thread = std::thread::spawn(move || {
            let Ok(alive) = line(&Order::Alive) else { return };
            while !stop.load(Ordering::Relaxed) {
                let told = told.lock().unwrap_or_else(PoisonError::into_inner).clone();
                told.iter().for_each(|input| drop(input.send(Some(alive.clone()))));
                std::thread::park_timeout(SIGN);
            }
        });
        Signs { inputs, over, thread: Some(thread) }
    }

    /// From now on whoever reads `input` is told too.
    fn tell_too(&self, input: Input) {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner).push(input);
    }
}

impl HostsError {
    /// Whether the user has stopped it.
    pub fn is_stop(&self) -> bool {
        matches!(
            self,
            HostsError::Launch(LaunchError::Ssh(SshError::Stopped))
                | HostsError::Worker(BackendError::Stopped)
        )
    }
}

impl Backend for Hosts {
    fn kind(&self) -> BackendKind {
        BackendKind::Hosts
    }

    fn prepare(&mut self, _experiment: &Experiment, control: &Control) -> Result<Inventory> {
        let prepared = self.prepare_all(control);
        let inventory = prepared.map(|of_hosts| self.inventory(of_hosts));
        let told = inventory.and_then(|mut inventory| {
            inventory.notes.extend(self.wall_clocks(control)?);
            Ok(inventory)
        });
        told.map_err(|error| {
            // Those that are ready put everything back, and are not asked for anything more.
            let left = self.end_all(END_MOST);
            self.links.clear();
            match left.join("; ") {
                left if left.is_empty() => error,
                left if matches!(error, BackendError::Stopped) => {
                    // There is no report that says it.
                    tracing::error!("{left}");
                    error
                }
                left => BackendError::Other(format!("{error}; and then: {left}")),
            }
        })
    }

    fn run_trial(
        &mut self,
        design: &Design,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples> {
        let ran = self.run_on_all(design, workload, trial, control);
        if ran.is_err() {
            self.stop_busy();
        }
        ran
    }

    fn finish(&mut self, keep: bool) -> Result<()> {
        let mut left = Vec::new();
        let there: Vec<usize> =
            self.all().into_iter().filter(|host| self.links[*host].gone.is_none()).collect();
        let finished = |word| match word {
            Word::Finished(Ok(())) => Answer::Is(None),
            Word::Finished(Err(error)) => Answer::Is(Some(error)),
            _ => Answer::Other,
        };
        let (control, stopped) = (self.control.clone(), OnceCell::new());
        // Once the user has stopped it, all of them together may take so long.
        let is_over =
            || control.stop.load(Ordering::Relaxed) && stopped.get_or_init(Instant::now).elapsed() > END_MOST;
        // One by one: what one of them leaves is no reason to leave another's.
        for host in there {
            self.links[host].tell(&Order::Finish { keep });
            match self.wait_until(&[host], &Control::default(), is_over, finished) {
                Ok(said) => {
                    left.extend(said.into_iter().flatten().map(|error| self.of_host(host, error).to_string()))
                }
                Err(error) => {
                    if matches!(error, BackendError::Stopped) {
                        self.links[host].gone = Some("it does not put back what it made".to_owned());
                    }
                    left.push(self.lost(host).to_string());
                }
            }
        }
        left.extend(self.end_all(END_MOST));
        match left.is_empty() {
            true => Ok(()),
            false => Err(BackendError::Other(left.join("; "))),
        }
    }
}

/// Why a session on hosts does not begin.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Worker(#[from] BackendError),
}
