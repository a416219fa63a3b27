//! Loads in real time whose figures are judged: one after the other, as two of them would be each other's background.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod agreement;
#[path = "../common/mod.rs"]
mod common;
mod verdicts;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by a test for as long as its loads run. Where it may, they run ahead of other programs: a load that waits for a processor has
/// that for its verdict, and nothing else.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    let _ = rustix::process::setpriority_process(None, -20);
    static RUNS: Mutex<()> = Mutex::new(());
    RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}
