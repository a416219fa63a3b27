//! The other half, in a guest or on another host: a backend that is told trial by trial what to do.
//!
//! It ends when nobody is there any more who could tell it: its orders end, or, on another host, nothing is heard for
//! [`PATIENCE`]. Then the trial that runs is stopped and everything is put back.

mod gate;
mod orders;

use crate::kernel::Kernel;
use crate::observer::Observer;
use crate::trial::{self, Trials};
use crate::{clock, places, surroundings};
use ebbtide_engine::Clock;
use ebbtide_engine::files::{FilesBackend, Fill, Options};
use ebbtide_host::{hostinfo, sys::Sys};
use ebbtide_lab::backend::talk::{Order, Word, line};
use ebbtide_model::backend::{Backend, BackendError, Control, Inventory, TrialFailure, TrialRun};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::samples::TrialSamples;
use ebbtide_model::schedule::Trial;
use ebbtide_model::workload::Workload;
use gate::RemoteGate;
use orders::OrderReader;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the other side hears how it is going.
const TICK: Duration = Duration::from_millis(250);
/// So long nothing may be heard on another host; the other side says every two seconds that it is there.
const PATIENCE: Duration = Duration::from_secs(30);
/// Random bytes of a key that an experiment names.
const KEY_BYTES: u64 = 64;

/// Where a worker is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// In a guest, whose disks are its own and go with it: the `kernel` backend.
    Guest,
    /// On another host, whose files and devices are somebody's: the `files` backend.
    Host,
}

/// Whoever is told, word by word.
struct Replies(Mutex<Box<dyn Write + Send>>);

impl Replies {
    fn say(&self, word: &Word) -> io::Result<()> {
        let bytes = line(word)?;
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        to.write_all(&bytes).and_then(|()| to.flush())
    }
}

/// Answers orders until there are no more.
///
/// # Errors
/// When the other side cannot be understood or reached.
pub fn serve(
    orders: impl BufRead + Send + 'static,
    to: impl Write + Send + 'static,
    whereabouts: Whereabouts,
) -> io::Result<()> {
    let replies = Arc::new(Replies(Mutex::new(Box::new(to))));
    let host = hostinfo::host_info(&Sys::host());
    let ceiling = surroundings::engine_ceiling();
    // Its first reading takes 20 ms, which would be part of the first round trip.
    Clock::get();
    replies.say(&Word::Here { host, ceiling })?;
    let control = Arc::new(Control::default());
    let gate = Arc::new(RemoteGate::new(replies.clone()));
    let patience = (whereabouts == Whereabouts::Host).then_some(PATIENCE);
    let orders = OrderReader::open(orders, replies.clone(), control.clone(), gate.clone(), patience)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| tell_progress(&replies, &control, &orders, &done));
        let result = obey(&orders, &replies, &control, &gate, whereabouts);
        done.store(true, Ordering::Relaxed);
        result
    })
}

fn tell_progress(replies: &Replies, control: &Control, orders: &OrderReader, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(TICK);
        let (ops, bytes) = (control.ops.load(Ordering::Relaxed), control.bytes.load(Ordering::Relaxed));
        if replies.say(&Word::Progress { ops, bytes }).is_err() || orders.is_silent() {
            // Nobody is there: a guest goes with its host, and on a host everything is put back.
            orders.hang_up();
            return;
        }
    }
}

fn obey(
    orders: &OrderReader,
    replies: &Replies,
    control: &Arc<Control>,
    gate: &Arc<RemoteGate>,
    whereabouts: Whereabouts,
) -> io::Result<()> {
    let mut work: Option<Work> = None;
    while let Some(order) = orders.next()? {
        let unprepared = || BackendError::Other("the volumes were not prepared".to_owned());
        let word = match (order, &mut work) {
            (Order::Prepare { id, seed, experiment, destroy }, work) => {
                let options = Options { name: id, seed, destroy, ..Options::default() };
                let begun = Work::begin(options, whereabouts, *experiment, control);
                Word::Prepared(begun.map(|(begun, inventory)| {
                    *work = Some(begun);
                    inventory
                }))
            }
            (Order::Trial(..) | Order::Together(..), None) => Word::Ran(Err(unprepared())),
            (Order::Trial(trial, workload), Some(work)) => {
                Word::Ran(work.run(&trial, &workload, control).map(Box::new))
            }
            (Order::Batch(batch), work) => {
                let ran = match work {
                    Some(work) => work.run_batch(&batch, control),
                    None => batch.iter().map(|_| Err(unprepared())).collect(),
                };
                Word::RanBatch(ran.into_iter().map(|ran| ran.map(Box::new)).collect())
            }
            (Order::Together(trial, workload), Some(work)) => {
                control.gate.set(gate.clone());
                let ran = work.run(&trial, &workload, control);
                control.gate.clear();
                Word::Ran(ran.map(|samples| Box::new(samples.condensed())))
            }
            (Order::Hold(..), None) => Word::Held(Err(unprepared())),
            (Order::Hold(trial, workload), Some(work)) => {
                let held = trial::of_experiment(&work.experiment, &trial)
                    .and_then(|run| work.backend.hold(run.design, &workload, &trial, control));
                Word::Held(held)
            }
            (Order::Release, work) => Word::Held(work.as_mut().map_or(Ok(()), |work| work.backend.release())),
            (Order::Finish { keep }, work) => {
                Word::Finished(work.take().map_or(Ok(()), |mut work| work.backend.finish(keep)))
            }
            // What is not the backend's is answered as it is heard.
            (Order::Clock | Order::Begin { .. } | Order::Count(_) | Order::Stop | Order::Alive, _) => {
                continue;
            }
        };
        replies.say(&word)?;
    }
    match work {
        Some(mut work) => work.backend.finish(false).map_err(io::Error::other),
        None => Ok(()),
    }
}

/// An experiment that is being carried out.
struct Work {
    backend: Box<dyn Backend>,
    observer: Observer,
    experiment: Experiment,
}

impl Work {
    fn begin(
        options: Options,
        whereabouts: Whereabouts,
        experiment: Experiment,
        control: &Arc<Control>,
    ) -> Result<(Work, Inventory), BackendError> {
        let other = |what: String| BackendError::Other(what);
        let around = surroundings::of_host(&options.name).map_err(|error| other(error.to_string()))?;
        let mut backend: Box<dyn Backend> = match whereabouts {
            Whereabouts::Guest => {
                let key =
                    make_keys(&experiment).map_err(|error| other(format!("cannot make a key: {error}")))?;
                // The disks are not filled: their speed is the throttle's, whatever they hold.
                let options = Options { fill: Fill::Only(Vec::new()), ..options };
                Box::new(Kernel::new(options, around, Some(key)).keeping_builds())
            }
            Whereabouts::Host => {
                let options = Options { places: places::for_volumes(), ..options };
                Box::new(FilesBackend::new(options, around))
            }
        };
        let inventory = backend.prepare(&experiment, control)?;
        let observer = Observer::new("", &inventory);
        Ok((Work { backend, observer, experiment }, inventory))
    }

    /// Runs `trial` with this workload.
    fn run(
        &mut self,
        trial: &Trial,
        workload: &Workload,
        control: &Control,
    ) -> Result<TrialSamples, BackendError> {
        let ran = self.run_batch(&[(*trial, workload.clone())], control).pop();
        ran.unwrap_or_else(|| Err(TrialFailure::not_run().error))
    }

    /// Runs trials of one design at the same time, each with its workload; what came of each.
    fn run_batch(
        &mut self,
        batch: &[(Trial, Workload)],
        control: &Control,
    ) -> Vec<Result<TrialSamples, BackendError>> {
        let run =
            |(trial, workload)| Ok(TrialRun { workload, ..trial::of_experiment(&self.experiment, trial)? });
        let runs: Result<Vec<TrialRun<'_>>, BackendError> =
            batch.iter().map(|(trial, workload)| run((trial, workload))).collect();
        let runs = match runs {
            Ok(runs) => runs,
            Err(error) => return batch.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut trials = Trials { backend: self.backend.as_mut(), observer: Some(&self.observer), control };
        let ran = trials.run(&runs, || {}).results;
        ran.into_iter().map(|result| result.map_err(|failure| failure.error)).collect()
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

#[cfg(test)]
mod tests;
