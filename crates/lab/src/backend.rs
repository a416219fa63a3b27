//! The `lab` backend: the experiment's designs in a QEMU guest, whose disks are held to the volumes' limits.
//!
//! The session is the host's: it decides what runs, and stores each trial when it ends. The guest runs the `kernel`
//! backend (the worker in `ebbtide-runner`), told trial by trial what to do. It is a process of this one, so whatever ends this one ends the
//! guest, and nothing has to be taken apart in it.

pub mod adapt;
pub mod scale;
pub mod talk;

use crate::guest::{Guest, Heard, Stream};
use crate::lines::Lines;
use crate::machine::{Accelerator, Machine};
use crate::{LabError, Laboratory};
use adapt::Adapted;
use ebbtide_model::backend::{
    Backend, BackendError, BackendKind, Control, Inventory, PreparedVolume, TrialFailure, TrialRun,
};
use ebbtide_model::experiment::{Design, Experiment};
use ebbtide_model::plan::RunPlan;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::{Schedule, Trial};
use ebbtide_model::session::HostInfo;
use ebbtide_model::units::Bytes;
use ebbtide_model::workload::Workload;
use std::sync::atomic::Ordering;
use std::time::Duration;
use talk::{Order, Word};

type Result<T> = std::result::Result<T, BackendError>;

/// The worker says how it is going four times a second; a guest that is silent for so long is lost.
const PATIENCE: Duration = Duration::from_secs(120);
/// Memory of the guest in MiB.
const MEMORY_MIB: u32 = 1024;
/// Virtual CPUs of the guest.
const CPUS: u32 = 2;

/// Times beside the load, for the estimate that the user is given: that building a design takes, and that around each trial. Measured under
/// emulation on two cores (docs/decisions/build-per-trial.md): LVM of eight disks, and trials with their queue of up
/// to a second to be emptied. With KVM nothing was measured, and a tenth is assumed.
const fn beside(accelerator: Accelerator) -> (f64, f64) {
    match accelerator {
        Accelerator::Tcg => (30.0, 2.0),
        Accelerator::Kvm => (2.0, 0.2),
    }
}

/// How long the session will take, in words.
pub fn how_long(plan: &RunPlan, experiment: &Experiment, accelerator: Accelerator) -> String {
    let Some(load) = plan.round_time else {
        return "a workload ends by size, so there is no telling how long a round takes".to_owned();
    };
    let (build, beside) = beside(accelerator);
    let schedule = Schedule::new(experiment, plan.seed);
    let trials = schedule.round_len();
    let (once, each_round) = match (&experiment.sweep, schedule.builds_a_round()) {
        (_, Some(builds)) => (0, builds),
        (Some(_), None) => (experiment.builds().len(), 0),
        (None, None) => (experiment.designs.len(), 0),
    };
    let round = load.as_secs_f64() + beside * trials as f64 + build * each_round as f64;
    let minutes = |rounds: u32| ((build * once as f64 + round * f64::from(rounds)) / 60.0).ceil();
    let range = |least: f64, most: f64| {
        if least == most { format!("{least:.0}") } else { format!("{least:.0} to {most:.0}") }
    };
    let (least, most) = (plan.rounds_min, plan.rounds_max);
    format!(
        "{} rounds of {trials} trials: about {} min, more on a busy host; no new round after {:.0} min of trials",
        range(least.into(), most.into()),
        range(minutes(least), minutes(most)),
        (plan.budget.as_secs_f64() / 60.0).ceil()
    )
}

/// A session's guest, and what its worker has said.
pub struct Lab {
    /// The guest, or why there is none any more.
    guest: std::result::Result<Guest, String>,
    lines: Lines,
    /// The end of what the worker said on standard error.
    errors: String,
    id: String,
    seed: u64,
    adapted: Adapted,
    /// The guest as a host.
    pub host: HostInfo,
    /// What the engine reaches in the guest with nothing behind it, operations per second, or why that is not known.
    pub ceiling: std::result::Result<f64, String>,
}

impl Lab {
    /// Starts the guest of session `id`, and the worker in it.
    ///
    /// # Errors
    /// When either does not come up.
    pub fn start(
        laboratory: &Laboratory,
        adapted: &Adapted,
        id: &str,
        seed: u64,
    ) -> std::result::Result<Lab, LabError> {
        let machine = Machine {
            name: format!("session-{id}"),
            memory_mib: MEMORY_MIB,
            cpus: CPUS,
            disks: adapted.disks.clone(),
            links: adapted.links.clone(),
            ..Machine::default()
        };
        let mut guest = laboratory.boot(&machine)?;
        guest.patience = Some(PATIENCE);
        guest.converse(&["ebb", "lab", "worker"])?;
        let mut lab = Lab {
            guest: Ok(guest),
            lines: Lines::default(),
            errors: String::new(),
            id: id.to_owned(),
            seed,
            adapted: adapted.clone(),
            host: HostInfo::default(),
            ceiling: Err(String::new()),
        };
        match lab.hear() {
            Ok(Word::Here { host, ceiling }) => {
                let machine = format!("QEMU guest, {}", laboratory.accelerator.name());
                lab.host = HostInfo { machine: Some(machine), ..host };
                lab.ceiling = ceiling;
                Ok(lab)
            }
            Ok(_) => Err(lab.confused().into()),
            Err(BackendError::Stopped) => Err(LabError::Stopped),
            Err(error) => Err(error.into()),
        }
    }

    fn guest(&mut self) -> Result<&mut Guest> {
        self.guest.as_mut().map_err(|why| BackendError::Other(why.clone()))
    }

    /// The worker's next word; after an error the guest is gone.
    fn hear(&mut self) -> Result<Word> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return serde_json::from_slice(&line)
                    .map_err(|error| self.gone(format!("the guest's worker cannot be understood: {error}")));
            }
            match self.guest()?.hear() {
                Ok(Heard::Said(Stream::Output, bytes)) => self.lines.add(&bytes),
                Ok(Heard::Said(Stream::Errors, bytes)) => self.keep_errors(&bytes),
                Ok(Heard::Ended(status)) => {
                    let said = self.errors.trim();
                    let what = format!("the guest's worker ended with status {status}: {said}");
                    return Err(self.gone(what));
                }
                Err(error) => return Err(self.lost(&error)),
            }
        }
    }

    /// What the worker answers to `order`; its progress goes to `control`.
    fn ask(&mut self, order: &Order, control: &Control) -> Result<Word> {
        let line = talk::line(order).map_err(|error| BackendError::Other(error.to_string()))?;
        self.guest()?.tell(&line).map_err(|error| self.lost(&error))?;
        loop {
            match self.hear()? {
                Word::Progress { ops, bytes } => {
                    control.ops.store(ops, Ordering::Relaxed);
                    control.bytes.store(bytes, Ordering::Relaxed);
                }
                word => return Ok(word),
            }
        }
    }

    /// Has a design stand, or no longer.
    fn have_stand(&mut self, order: &Order, control: &Control) -> Result<()> {
        match self.ask(order, control)? {
            Word::Held(done) => done,
            _ => Err(self.confused()),
        }
    }

    fn keep_errors(&mut self, bytes: &[u8]) {
        const KEPT: usize = 2000;
        self.errors.push_str(&String::from_utf8_lossy(bytes));
        let from = self.errors.len().saturating_sub(KEPT);
        let from = (from..=self.errors.len()).find(|at| self.errors.is_char_boundary(*at));
        self.errors.drain(..from.unwrap_or(0));
    }

    fn lost(&mut self, error: &LabError) -> BackendError {
        match error {
            LabError::Stopped => BackendError::Stopped,
            error => self.gone(error.to_string()),
        }
    }

    /// Ends the guest: what it says next would be the answer to something else.
    fn gone(&mut self, why: String) -> BackendError {
        self.guest = Err(why.clone());
        BackendError::Other(why)
    }

    fn confused(&mut self) -> BackendError {
        self.gone("the guest's worker answered something else".to_owned())
    }
}

impl Backend for Lab {
    fn kind(&self) -> BackendKind {
        BackendKind::Lab
    }

    fn prepare(&mut self, experiment: &Experiment, control: &Control) -> Result<Inventory> {
        let order = Order::Prepare {
            id: self.id.clone(),
            seed: self.seed,
            experiment: Box::new(self.adapted.inside.clone()),
            destroy: true,
        };
        let inside = match self.ask(&order, control)? {
            Word::Prepared(prepared) => prepared?,
            _ => return Err(self.confused()),
        };
        let mut inventory = Inventory { volumes: Vec::new(), notes: inside.notes };
        for (index, volume) in experiment.volumes.iter().enumerate() {
            let disk = self.adapted.stands_for.iter().position(|stands_for| *stands_for == index);
            let found = disk.and_then(|disk| inside.volumes.get(disk)).cloned();
            inventory.volumes.push(found.unwrap_or_else(|| PreparedVolume::unused(volume)));
        }
        let (host, gib) = (&self.host, self.host.memory_bytes as f64 / Bytes::GIB as f64);
        let guest = format!(
            "{} with Linux {}, {} CPUs, {gib:.1} GiB",
            host.machine.as_deref().unwrap_or("guest"),
            host.kernel,
            host.cores
        );
        inventory.notes.splice(0..0, std::iter::once(guest).chain(self.adapted.notes.iter().cloned()));
        Ok(inventory)
    }

    fn run_trial(
        &mut self,
        _design: &Design,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<TrialSamples> {
        match self.ask(&Order::Trial(*trial, Box::new(workload.clone())), control)? {
            Word::Ran(ran) => ran.map(|samples| *samples),
            _ => Err(self.confused()),
        }
    }

    fn run_together(
        &mut self,
        runs: &[TrialRun<'_>],
        control: &Control,
    ) -> Vec<std::result::Result<TrialSamples, TrialFailure>> {
        if let [run] = runs {
            return vec![self.run_trial(run.design, run.workload, run.trial, control).map_err(Into::into)];
        }
        let batch = runs.iter().map(|run| (*run.trial, run.workload.clone())).collect();
        let ran = match self.ask(&Order::Batch(batch), control) {
            Ok(Word::RanBatch(ran)) if ran.len() == runs.len() => Ok(ran),
            Ok(_) => Err(self.confused()),
            Err(error) => Err(error),
        };
        match ran {
            Ok(ran) => ran.into_iter().map(|ran| Ok(*ran?)).collect(),
            Err(error) => runs.iter().map(|_| Err(error.clone().into())).collect(),
        }
    }

    fn hold(
        &mut self,
        _design: &Design,
        workload: &Workload,
        trial: &Trial,
        control: &Control,
    ) -> Result<()> {
        self.have_stand(&Order::Hold(*trial, Box::new(workload.clone())), control)
    }

    fn release(&mut self) -> Result<()> {
        self.have_stand(&Order::Release, &Control::default())
    }

    /// The disks go with the guest.
    fn finish(&mut self, _keep: bool) -> Result<()> {
        self.guest = Err("the session has ended".to_owned());
        Ok(())
    }
}
