//! The other half, in the guest: the `kernel` backend, told trial by trial what to do.

use crate::session::kernel::Kernel;
use crate::session::kernel::members::KernelObserver;
use crate::session::{TrialObserver, measured, measured_as, surroundings};
use ebbtide_engine::files::{Fill, Options};
use ebbtide_host::{hostinfo, sys::Sys};
use ebbtide_lab::backend::talk::{Order, Word, line};
use ebbtide_model::backend::{Backend, BackendError, Control, Inventory};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::session::Outcome;
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
    say(&to, &Word::Here { host, ceiling: surroundings::engine_ceiling() })?;
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
        let word = match serde_json::from_str(&order?)? {
            Order::Prepare { id, seed, experiment } => {
                Word::Prepared(Work::begin(id, seed, *experiment, control).map(|(begun, inventory)| {
                    work = Some(begun);
                    inventory
                }))
            }
            Order::Trial(trial) => Word::Ran(match &mut work {
                Some(Work { backend, observer, experiment }) => {
                    measured(experiment, &trial, backend, observer, control, || {})
                }
                None => unprepared(),
            }),
            Order::Rung(trial, workload) => Word::Ran(match &mut work {
                Some(Work { backend, observer, experiment }) => {
                    measured_as(&workload, experiment, &trial, backend, observer, control, || {})
                }
                None => unprepared(),
            }),
            Order::Hold(trial, workload) => Word::Held(match &mut work {
                Some(Work { backend, experiment, .. }) => match experiment.designs.get(trial.design) {
                    Some(design) => backend.hold(design, &workload, &trial, control),
                    None => Err(BackendError::Other("the experiment has no such design".to_owned())),
                },
                None => Err(BackendError::Other(UNPREPARED.to_owned())),
            }),
            Order::Release => Word::Held(work.as_mut().map_or(Ok(()), |work| work.backend.release())),
        };
        say(to, &word)?;
    }
    match work {
        Some(mut work) => work.backend.finish(false).map_err(io::Error::other),
        None => Ok(()),
    }
}

const UNPREPARED: &str = "the volumes were not prepared";

fn unprepared() -> Option<Outcome> {
    Some(Outcome::Failed(UNPREPARED.to_owned()))
}

/// An experiment that is being carried out.
struct Work {
    backend: Kernel,
    observer: KernelObserver,
    experiment: Experiment,
}

impl Work {
    fn begin(
        id: String,
        seed: u64,
        experiment: Experiment,
        control: &Arc<Control>,
    ) -> Result<(Work, Inventory), BackendError> {
        let key = make_keys(&experiment)
            .map_err(|error| BackendError::Other(format!("cannot make a key: {error}")))?;
        // The disks are not filled: their speed is the throttle's, whatever they hold.
        let options =
            Options { name: id, seed, destroy: true, fill: Fill::Only(Vec::new()), ..Options::default() };
        let around = surroundings::of_host(&options.name).map_err(BackendError::Other)?;
        let mut backend = Kernel::new(options, around, Some(key)).keeping_designs();
        let inventory = backend.prepare(&experiment, control)?;
        let mut observer = KernelObserver::default();
        observer.ready(&inventory);
        Ok((Work { backend, observer, experiment }, inventory))
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
