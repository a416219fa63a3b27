//! Where the trials of a session are while it runs, and where they are read when it has ended: never all of them unpacked.

use super::by_design::by_design;
use super::error::StoreError;
use super::open::Store;
use super::rows::PackedTrial;
use ebbtide_analysis::OfDesign;
use ebbtide_model::session::{Session, SessionMeta, TrialRecord};

/// What keeps a session that runs.
#[derive(Debug)]
pub enum Keep<'a> {
    /// A store: each trial is on disk when it ends.
    Store(&'a mut Store),
    /// Memory, as long as the program runs.
    Memory(Packed),
}

/// Trials in memory, packed as in a store.
#[derive(Debug, Default)]
pub struct Packed(Vec<PackedTrial>);

impl Keep<'_> {
    /// As [`Store::begin`].
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(&mut self, session: &Session, plan: &serde_json::Value) -> Result<(), StoreError> {
        self.in_store(|store| store.begin(session, plan))
    }

    /// As [`Store::update`].
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn update(&mut self, meta: &SessionMeta, headline: Option<&str>) -> Result<(), StoreError> {
        self.in_store(|store| store.update(meta, headline))
    }

    /// As [`Store::forget`].
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn forget(&mut self, id: &str) -> Result<(), StoreError> {
        self.in_store(|store| store.forget(id))
    }

    /// Keeps a trial that ended; in a store it is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add_trial(&mut self, id: &str, record: &TrialRecord) -> Result<(), StoreError> {
        match self {
            Keep::Store(store) => store.add_trial(id, record),
            Keep::Memory(Packed(trials)) => {
                trials.push(PackedTrial::pack(record).map_err(StoreError::memory)?);
                Ok(())
            }
        }
    }

    /// What the trials of each design of `session` say, and what `each` makes of them beside: see [`Store::by_design`].
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn by_design<T: Send>(
        &self,
        session: &Session,
        each: impl Fn(&OfDesign, &[&TrialRecord]) -> T + Sync,
    ) -> Result<Vec<(OfDesign, T)>, StoreError> {
        match self {
            Keep::Store(store) => store.by_design(session, each),
            Keep::Memory(Packed(trials)) => {
                let of = |design| Ok(trials.iter().filter(|one| one.design() == design).cloned().collect());
                by_design(session, of, each).map_err(StoreError::memory)
            }
        }
    }

    fn in_store(
        &mut self,
        write: impl FnOnce(&mut Store) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match self {
            Keep::Store(store) => write(store),
            Keep::Memory(_) => Ok(()),
        }
    }
}
