//! A session read design by design: the samples of one design at a time are in memory, on each processor those of one.

use super::encoding;
use super::error::StoreError;
use super::open::Store;
use super::rows::{PackedTrial, packed_of, session_of};
use ebbtide_analysis::{Elsewhere, OfDesign, of_design, order};
use ebbtide_model::experiment::Experiment;
use ebbtide_model::session::{Session, TrialRecord};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Threads that unpack and analyse: each holds the samples of a design.
const MOST_THREADS: usize = 8;

/// The trials of a design, as they are stored.
struct Job {
    design: usize,
    /// Designs that must be done before: it may ask what they show.
    after: usize,
    trials: Vec<PackedTrial>,
}

/// What the threads share.
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    elsewhere: Elsewhere,
    parts: Vec<(OfDesign, T)>,
    /// Whether one of the threads gave up.
    failed: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the designs that must be done before show; nothing when a thread gave up.
    fn wait_for(&self, designs: usize) -> Option<Elsewhere> {
        let waits = |state: &mut State<T>| !state.failed && state.parts.len() < designs;
        let state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        (!state.failed).then(|| state.elsewhere.clone())
    }
}

/// Tells the other threads when this one ends before its time, by a panic too.
struct GivesUp<'a, T>(&'a Shared<T>, bool);

impl<T> Drop for GivesUp<'_, T> {
    fn drop(&mut self) {
        if self.1 {
            self.0.lock().failed = true;
            self.0.changed.notify_all();
        }
    }
}

impl Store {
    /// The session that `which` means (see [`Store::resolve`]), without its trials.
    ///
    /// # Errors
    /// When there is none, more than one, or it cannot be read.
    pub fn head(&self, which: &str) -> Result<Session, StoreError> {
        let id = self.resolve(which)?;
        self.run(|connection| {
            let session = connection.query_row("SELECT * FROM sessions WHERE id = ?1", [&id], session_of)?;
            let Experiment { designs, workloads, .. } = &session.experiment;
            let strange: u64 = connection.query_row(
                "SELECT count(*) FROM trials WHERE session = ?1
                     AND (design NOT BETWEEN 0 AND ?2 - 1 OR workload NOT BETWEEN 0 AND ?3 - 1)",
                rusqlite::params![id, designs.len(), workloads.len()],
                |row| row.get(0),
            )?;
            match strange {
                0 => Ok(session),
                n => Err(encoding::damaged(format!(
                    "trials of a design or workload that it does not have: {n}"
                ))),
            }
        })
        .map_err(|error| error.of(&id))
    }

    /// What the trials of each design say of which `session` is the head, and what `each` makes of them beside.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn by_design<T: Send>(
        &self,
        session: &Session,
        each: impl Fn(&OfDesign, &[&TrialRecord]) -> T + Sync,
    ) -> Result<Vec<(OfDesign, T)>, StoreError> {
        self.run(|connection| {
            let sql = "SELECT * FROM trials WHERE session = ?1 AND design = ?2 ORDER BY idx";
            let mut statement = connection.prepare(sql)?;
            let read = |design: usize| {
                statement.query_map(rusqlite::params![session.meta.id, design], packed_of)?.collect()
            };
            by_design(session, read, each)
        })
        .map_err(|error| error.of(&session.meta.id))
    }
}

/// The same of trials that `read` gives, those of a design at a time.
pub(super) fn by_design<T: Send>(
    session: &Session,
    mut read: impl FnMut(usize) -> rusqlite::Result<Vec<PackedTrial>>,
    each: impl Fn(&OfDesign, &[&TrialRecord]) -> T + Sync,
) -> rusqlite::Result<Vec<(OfDesign, T)>> {
    let shared = Shared {
        state: Mutex::new(State { elsewhere: Elsewhere::default(), parts: Vec::new(), failed: false }),
        changed: Condvar::new(),
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    // A design is read while others are analysed.
    let (sender, receiver) = sync_channel(1);
    let receiver = Mutex::new(receiver);
    std::thread::scope(|scope| {
        let work = || work(session, &receiver, &shared, &each);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut send_all = || {
            let mut after = 0;
            for group in order(&session.experiment) {
                let designs = group.len();
                for design in group {
                    let trials = read(design)?;
                    // The threads are gone when one gave up, and say why.
                    if sender.send(Job { design, after, trials }).is_err() {
                        return Ok(());
                    }
                }
                after += designs;
            }
            Ok(())
        };
        let sent = send_all();
        drop(sender);
        let unpacked = workers.into_iter().map(|worker| match worker.join() {
            Ok(unpacked) => unpacked,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        unpacked.fold(sent, Result::and)
    })?;
    Ok(shared.state.into_inner().unwrap_or_else(PoisonError::into_inner).parts)
}

/// Unpacks and analyses designs until there are no more.
fn work<T>(
    session: &Session,
    jobs: &Mutex<Receiver<Job>>,
    shared: &Shared<T>,
    each: &(impl Fn(&OfDesign, &[&TrialRecord]) -> T + Sync),
) -> rusqlite::Result<()> {
    let mut gives_up = GivesUp(shared, true);
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { design, after, trials }) = next else { break };
        let unpacked = trials.into_iter().map(PackedTrial::unpack);
        let records = unpacked.collect::<rusqlite::Result<Vec<TrialRecord>>>()?;
        let Some(elsewhere) = shared.wait_for(after) else { break };
        let records: Vec<&TrialRecord> = records.iter().collect();
        let part = of_design(session, design, &records, &elsewhere);
        let more = each(&part, &records);
        let mut state = shared.lock();
        part.tell(&mut state.elsewhere);
        state.parts.push((part, more));
        shared.changed.notify_all();
    }
    gives_up.1 = false;
    Ok(())
}
