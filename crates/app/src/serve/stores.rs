//! The store, opened for as many requests at a time as there are processors: more would only be slower, and each takes files and memory.

use ebbtide_runner::store::{Store, StoreError};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, PoisonError};

/// Requests that read the store at a time.
const LEAST: usize = 2;
const MOST: usize = 8;

/// Why there is no store.
#[derive(Debug)]
pub enum NoStore {
    /// Nobody has made one.
    NotYet,
    /// It cannot be opened.
    Failed(StoreError),
}

/// The store, for several requests.
#[derive(Debug)]
pub struct Stores {
    path: Option<PathBuf>,
    idle: Mutex<Idle>,
    given_back: Condvar,
}

#[derive(Debug)]
struct Idle {
    stores: Vec<Store>,
    /// How many more may be taken.
    left: usize,
}

/// A store that is given back when it is dropped.
#[derive(Debug)]
pub struct Taken<'a> {
    stores: &'a Stores,
    store: Option<Store>,
}

impl Stores {
    /// Of the store at `path`, or the user's own.
    pub fn new(path: Option<PathBuf>) -> Stores {
        let left = std::thread::available_parallelism().map_or(LEAST, NonZero::get).clamp(LEAST, MOST);
        Stores { path, idle: Mutex::new(Idle { stores: Vec::new(), left }), given_back: Condvar::new() }
    }

    /// The store, as soon as there is one for this request; opened anew where its path leads to another by now.
    pub fn take(&self) -> Result<Taken<'_>, NoStore> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.given_back.wait_while(idle, |idle| idle.left == 0);
        let mut idle = waited.unwrap_or_else(PoisonError::into_inner);
        idle.left -= 1;
        let known = idle.stores.pop();
        drop(idle);
        // Counts itself back in, also where there is no store to give.
        let mut taken = Taken { stores: self, store: known.filter(Store::is_there) };
        if taken.store.is_none() {
            let opened = Store::open_existing(self.path.as_deref()).map_err(NoStore::Failed)?;
            taken.store = Some(opened.ok_or(NoStore::NotYet)?);
        }
        Ok(taken)
    }
}

impl Taken<'_> {
    /// The store.
    pub fn as_ref(&self) -> &Store {
        match &self.store {
            Some(store) => store,
            None => unreachable!("one is given out with its store"),
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut idle = self.stores.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.left += 1;
        idle.stores.extend(self.store.take());
        self.stores.given_back.notify_one();
    }
}
