//! The store, opened for as many requests at a time as there are processors: more would only be slower, and each takes files and memory.

use ebbtide_runner::store::{Store, StoreError};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Opened, and not in use.
    idle: Vec<Store>,
    /// How many requests more may have one.
    left: usize,
}

/// A request's turn, which ends when it is dropped.
struct Turn<'a>(&'a Stores);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.lock().left += 1;
        self.0.changed.notify_one();
    }
}

impl Stores {
    /// Of the store at `path`, or the user's own.
    pub fn new(path: Option<PathBuf>) -> Stores {
        let left = std::thread::available_parallelism().map_or(LEAST, NonZero::get).clamp(LEAST, MOST);
        Stores { path, state: Mutex::new(State { idle: Vec::new(), left }), changed: Condvar::new() }
    }

    /// What `work` makes of the store, as soon as it is this request's turn; the store is opened anew where its path leads to another by now.
    pub fn with<T>(&self, work: impl FnOnce(&Store) -> T) -> Result<T, NoStore> {
        let _turn = self.turn();
        let known = self.lock().idle.pop().filter(Store::is_there);
        let store = match known {
            Some(store) => store,
            None => {
                let opened = Store::open_existing(self.path.as_deref()).map_err(NoStore::Failed)?;
                opened.ok_or(NoStore::NotYet)?
            }
        };
        let made = work(&store);
        self.lock().idle.push(store);
        Ok(made)
    }

    fn turn(&self) -> Turn<'_> {
        let waited = self.changed.wait_while(self.lock(), |state| state.left == 0);
        waited.unwrap_or_else(PoisonError::into_inner).left -= 1;
        Turn(self)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
