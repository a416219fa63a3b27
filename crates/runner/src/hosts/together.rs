//! One trial on several hosts: clocks, ready, begin, count, and what all have seen as one.

use super::{Answer, Hosts, PATIENCE, Result};
use ebbtide_engine::Clock;
use ebbtide_lab::backend::talk::{Order, Word};
use ebbtide_model::backend::{BackendError, Control};
use ebbtide_model::experiment::Design;
use ebbtide_model::hosts::merge::{HostPart, merge};
use ebbtide_model::hosts::offset::EXCHANGES;
use ebbtide_model::hosts::{Exchange, Offset, Window, share};
use ebbtide_model::samples::{HostSamples, TrialSamples};
use ebbtide_model::schedule::Trial;
use ebbtide_model::units::{Nanos, UnixTime, format_latency};
use ebbtide_model::workload::Workload;
use std::time::{Instant, SystemTime};

/// From when all are ready until they begin, beside a few round trips: every host has been told by then.
const LEAD: Nanos = Nanos::from_millis(100);
/// Round trips that the news may take.
const LEAD_TRIPS: u64 = 6;

/// A host's clocks against this host's.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clocks {
    /// The monotonic one, by which trials begin.
    pub(super) monotonic: Offset,
    pub(super) wall: Offset,
}

/// What a host runs of a trial.
struct Share {
    host: usize,
    trial: Trial,
    workload: Workload,
}

impl Hosts {
    /// Runs a trial on all hosts that have members of `design`.
    pub(super) fn run_on_all(
        &mut self,
        design: &Design,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples> {
        let (shares, idle) = self.shares(design, workload, trial)?;
        let hosts: Vec<usize> = shares.iter().map(|share| share.host).collect();
        if let Some(gone) = hosts.iter().find(|host| self.links[**host].gone.is_some()) {
            return Err(self.lost(*gone));
        }
        let clocks = self.clocks(&hosts, control)?;
        for share in &shares {
            let link = &mut self.links[share.host];
            (link.busy, link.progress) = (true, (0, 0));
            link.tell(&Order::Together(share.trial, Box::new(share.workload.clone())));
        }
        self.wait_for(&hosts, control, |word| match word {
            Word::Ready => Answer::Is(()),
            other => failed(other),
        })?;
        let slowest = clocks.iter().map(|clocks| clocks.monotonic.error).max().unwrap_or_default();
        let at = Clock::get().now() + LEAD + slowest.times(2 * LEAD_TRIPS);
        let began = UnixTime::from(SystemTime::now()) + (at - Clock::get().now());
        for (host, clocks) in hosts.iter().zip(&clocks) {
            self.links[*host].tell(&Order::Begin { at: clocks.monotonic.there(at).elapsed() });
        }
        let worked = self.wait_for(&hosts, control, |word| match word {
            Word::Worked { ran, late } => Answer::Is((ran, late)),
            other => failed(other),
        })?;
        let windows: Vec<Window> = worked.iter().map(|(ran, _)| *ran).collect();
        let window = Window::enough(&windows)
            .map_err(|(worst, left)| self.too_little(&shares, &worked, worst, left))?;
        for host in &hosts {
            self.links[*host].tell(&Order::Count(window));
        }
        let ran = self.wait_for(&hosts, control, |word| match word {
            Word::Ran(Ok(samples)) => Answer::Is(samples),
            other => failed(other),
        })?;
        let parts: Vec<HostPart> = shares
            .iter()
            .zip(ran)
            .zip(worked.iter().zip(&clocks))
            .map(|((share, samples), ((ran, late), clocks))| HostPart {
                host: self.links[share.host].host.clone(),
                jobs: share.workload.numjobs,
                samples: *samples,
                late: *late,
                measured: ran.until,
                clock: clocks.monotonic,
                wall: clocks.wall,
            })
            .collect();
        let volumes = &self.placement.experiment.volumes;
        let names = design.layout.volumes().into_iter().filter_map(|volume| volumes.get(volume));
        let members: Vec<String> = names.map(|volume| volume.name.clone()).collect();
        let started = began + workload.before() + window.from;
        merge(parts, idle, &members, started)
            .ok_or_else(|| BackendError::Other("no host ran anything".to_owned()))
    }

    /// What each host runs of the trial, and the hosts of the design for which there is no job.
    fn shares(
        &self,
        design: &Design,
        workload: &Workload,
        trial: &Trial,
    ) -> Result<(Vec<Share>, Vec<HostSamples>)> {
        let parts = self.placement.parts(design).map_err(|error| BackendError::Other(error.to_string()))?;
        let (mut shares, mut idle) = (Vec::new(), Vec::new());
        for (number, (part, own)) in parts.iter().zip(share::among(workload, parts.len())).enumerate() {
            let Some(workload) = own else {
                let name = self.links[part.host].host.clone();
                idle.push(HostSamples { name, ..HostSamples::default() });
                continue;
            };
            let own = self.on[part.host].designs.get(trial.design).copied().flatten();
            let design = own.ok_or_else(|| {
                BackendError::Other(format!(
                    "design {} has no members on {}",
                    design.name, self.links[part.host].host
                ))
            })?;
            // Hosts draw offsets of their own; the first draws those that it draws alone.
            let seed = trial.seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            shares.push(Share { host: part.host, trial: Trial { design, seed, ..*trial }, workload });
        }
        Ok((shares, idle))
    }

    /// How far the clocks of `hosts` are ahead of this host's.
    pub(super) fn clocks(&mut self, hosts: &[usize], control: &Control) -> Result<Vec<Clocks>> {
        hosts.iter().map(|host| self.clock_of(*host, control)).collect()
    }

    fn clock_of(&mut self, host: usize, control: &Control) -> Result<Clocks> {
        let clock = Clock::get();
        let (mut monotonic, mut walls) = (Vec::new(), Vec::new());
        for _ in 0..EXCHANGES {
            let wall_sent = UnixTime::from(SystemTime::now());
            let sent = clock.now().elapsed();
            self.links[host].tell(&Order::Clock);
            let said = self.wait_for(&[host], control, |word| match word {
                Word::Clock { now, wall } => Answer::Is((now, wall, clock.now().elapsed())),
                _ => Answer::Other,
            })?;
            for (there, wall, back) in said {
                monotonic.push(Exchange { sent, there, back });
                let took = Nanos(back.0.saturating_sub(sent.0));
                let (sent, back) = (Nanos(wall_sent.0), Nanos((wall_sent + took).0));
                walls.push(Exchange { sent, there: Nanos(wall.0), back });
            }
        }
        let offset = |exchanges: &[Exchange]| Offset::of(exchanges).unwrap_or_default();
        Ok(Clocks { monotonic: offset(&monotonic), wall: offset(&walls) })
    }

    /// That the hosts were at work together for too little of the trial: who began last, or ended first.
    fn too_little(
        &self,
        shares: &[Share],
        worked: &[(Window, Nanos)],
        worst: usize,
        left: Nanos,
    ) -> BackendError {
        let (Some(share), Some((ran, late))) = (shares.get(worst), worked.get(worst)) else {
            return BackendError::Other("no host ran anything".to_owned());
        };
        let longest = worked.iter().map(|(ran, _)| ran.length()).max().unwrap_or_default();
        BackendError::Other(format!(
            "all hosts were at work at the same time for {} of {} only: the jobs of {} began {} after the agreed instant and ended {} after \
             the measurement began; write `runtime` instead of a size, or a longer one",
            format_latency(left.0 as f64),
            format_latency(longest.0 as f64),
            self.links[share.host].host,
            format_latency(late.0 as f64),
            format_latency(ran.until.0 as f64),
        ))
    }

    /// Has whoever is still at work end, and hears its answer, so that no later one is taken for another's.
    pub(super) fn stop_busy(&mut self) {
        for link in self.links.iter().filter(|link| link.busy && link.gone.is_none()) {
            link.tell(&Order::Stop);
        }
        let begun = Instant::now();
        while self.links.iter().any(|link| link.busy && link.gone.is_none()) && begun.elapsed() < PATIENCE {
            self.hear();
        }
        for link in self.links.iter_mut().filter(|link| link.busy) {
            link.gone.get_or_insert_with(|| "it does not stop".to_owned());
            link.busy = false;
        }
    }
}

/// What a word means that was not waited for.
fn failed<T>(word: Word) -> Answer<T> {
    match word {
        Word::Ran(Err(error)) => Answer::Failed(error),
        _ => Answer::Other,
    }
}
