//! The other half, in the guest: the `kernel` backend, told trial by trial what to do.

use crate::kernel::Kernel;
use crate::observer::Observer;
use crate::surroundings;
use crate::trial::{self, Trials};
use ebbtide_engine::files::{Fill, Options};
use ebbtide_host::{hostinfo, sys::Sys};
use ebbtide_lab::backend::talk::{Order, Word, line};
use ebbtide_model::backend::{Backend, BackendError, Control, Inventory, TrialRun};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Trial;
use ebbtide_model::workload::Workload;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the host hears how it is going.
const TICK: Duration = Duration::from_millis(250);
/// Random bytes of a key that an experiment names.
const KEY_BYTES: u64 = 64;

/// Answers orders until there are no more.
///
/// # Errors
/// When the host cannot be understood or reached.
pub fn serve(orders: impl BufRead, to: impl Write + Send) -> io::Result<()> {
    let to = Mutex::new(to);
    let host = hostinfo::host_info(&Sys::host());
    let ceiling = surroundings::engine_ceiling().map_err(|unknown| unknown.to_string());
    say(&to, &Word::Here { host, ceiling })?;
    let control = Arc::new(Control::default());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| tell_progress(&to, &control, &done));
        let result = obey(orders, &to, &control);
        done.store(true, Ordering::Relaxed);
        result
    })
}

fn say(to: &Mutex<impl Write>, word: &Word) -> io::Result<()> {
    let bytes = line(word)?;
    let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
    to.write_all(&bytes).and_then(|()| to.flush())
}

fn tell_progress(to: &Mutex<impl Write>, control: &Control, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(TICK);
        let (ops, bytes) = (control.ops.load(Ordering::Relaxed), control.bytes.load(Ordering::Relaxed));
        if say(to, &Word::Progress { ops, bytes }).is_err() {
            // The host is gone, and the guest goes with it.
            return;
        }
    }
}

fn obey(orders: impl BufRead, to: &Mutex<impl Write>, control: &Arc<Control>) -> io::Result<()> {
    let mut work: Option<Work> = None;
    for order in orders.lines() {
        let unprepared = || BackendError::Other("the volumes were not prepared".to_owned());
        let word = match (serde_json::from_str(&order?)?, &mut work) {
            (Order::Prepare { id, seed, experiment }, work) => {
                Word::Prepared(Work::begin(id, seed, *experiment, control).map(|(begun, inventory)| {
                    *work = Some(begun);
                    inventory
                }))
            }
            (Order::Trial(..), None) => Word::Ran(Err(unprepared())),
            (Order::Trial(trial, workload), Some(work)) => {
                Word::Ran(work.run(&trial, &workload, control).map(Box::new))
            }
            (Order::Hold(..), None) => Word::Held(Err(unprepared())),
            (Order::Hold(trial, workload), Some(work)) => {
                let held = trial::of_experiment(&work.experiment, &trial)
                    .and_then(|run| work.backend.hold(run.design, &workload, &trial, control));
                Word::Held(held)
            }
            (Order::Release, work) => Word::Held(work.as_mut().map_or(Ok(()), |work| work.backend.release())),
        };
        say(to, &word)?;
    }
    match work {
        Some(mut work) => work.backend.finish(false).map_err(io::Error::other),
        None => Ok(()),
    }
}

/// An experiment that is being carried out.
struct Work {
    backend: Kernel,
    observer: Observer,
    experiment: Experiment,
}

impl Work {
    fn begin(
        id: String,
        seed: u64,
        experiment: Experiment,
        control: &Arc<Control>,
    ) -> Result<(Work, Inventory), BackendError> {
        let other = |what: String| BackendError::Other(what);
        let key = make_keys(&experiment).map_err(|error| other(format!("cannot make a key: {error}")))?;
        // The disks are not filled: their speed is the throttle's, whatever they hold.
        let options =
            Options { name: id, seed, destroy: true, fill: Fill::Only(Vec::new()), ..Options::default() };
        let around = surroundings::of_host(&options.name).map_err(|error| other(error.to_string()))?;
        let mut backend = Kernel::new(options, around, Some(key)).keeping_builds();
        let inventory = backend.prepare(&experiment, control)?;
        let observer = Observer::new(backend.kind(), &inventory);
        Ok((Work { backend, observer, experiment }, inventory))
    }

    /// Runs `trial` with this workload.
    fn run(
        &mut self,
        trial: &Trial,
        workload: &Workload,
        control: &Control,
    ) -> Result<TrialSamples, BackendError> {
        let mut trials = Trials { backend: &mut self.backend, observer: &self.observer, control };
        let run = trial::of_experiment(&self.experiment, trial)?;
        trials.run_one(TrialRun { workload, ..run })
    }
}

/// A key for whatever the designs encrypt, also in each key file that they name: the host's keys do not leave the host,
/// and the guest's protects nothing that outlives it.
fn make_keys(experiment: &Experiment) -> io::Result<Vec<u8>> {
    let mut key = Vec::new();
    ebbtide_door::read::open(Path::new("/dev/urandom"))?.take(KEY_BYTES).read_to_end(&mut key)?;
    let encryptions = experiment.designs.iter().filter_map(|design| design.stack.encryption.as_ref());
    for path in encryptions.filter_map(|encryption| encryption.key_file.as_ref()) {
        ebbtide_door::Directory::make_all(path.parent().unwrap_or(Path::new("/")))?;
        // Where the guest has a file of this name it is not this guest's to write.
        ebbtide_door::own::create(path, 0o600, &key)?;
    }
    Ok(key)
}
